//! Signals to the launcher, and what is left of a job: nothing.

mod common;

use common::{Run, alive, numbers, signal_to, wait_gone};
use std::time::Duration;

/// A job of two ranks, each with a child in its group and one in a session of its own; gives the
/// processes of all of them.
fn family(steps: &str) -> (common::Live, Vec<u32>) {
    let script = "echo rank $$; (setsid sh -c 'echo child $$; exec sleep 1000' &); sh -c 'echo child $$; \
                  exec sleep 1000' & ";
    let live = Run::new("-q -n 2").sh(&format!("{script}{steps}")).start();
    let mut pids = Vec::new();
    while pids.len() < 6 {
        let next = if pids.is_empty() { "child" } else { "\n" };
        let out = live.wait_out(next);
        pids = numbers(&out, "rank ");
        pids.extend(numbers(&out, "child "));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(pids.iter().all(|pid| alive(*pid)), "{pids:?}");
    (live, pids)
}

#[test]
fn interrupt_and_terminate_end_the_job() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let (live, pids) = family("exec sleep 1000");
        live.signal(signal);
        let done = live.done();
        assert_eq!(done.status, status, "{done:?}");
        assert!(done.err.contains(&format!("SIG{signal}")), "{done:?}");
        for pid in pids {
            wait_gone(pid);
        }
    }
}

#[test]
fn ranks_get_the_terminate_signal_and_time_to_obey() {
    let live = Run::new("-q -n 2")
        .sh("trap 'sleep 0.3; echo tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    let live = live.start();
    live.wait_out("up\nup\n");
    live.signal("INT");
    let done = live.done();
    assert_eq!(done.status, 130);
    assert_eq!(done.out.matches("tidied").count(), 2, "{done:?}");
}

/// A rank that is in MPI has as much time: nothing else tells it to leave.
#[test]
fn ranks_in_mpi_get_the_time_too() {
    let program = "trap-term:0.5 init events:tea print:up\\n sleep:100";
    let live = Run::new("-q -n 2").rank(program).start();
    live.wait_out("up\nup\n");
    live.signal("TERM");
    let done = live.done();
    assert_eq!(done.status, 143, "{done:?}");
    assert_eq!(done.out.matches("tidied").count(), 2, "{done:?}");
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let live = Run::new("-q -n 2").sh("trap '' TERM; echo up; sleep 1000; sleep 1000").start();
    live.wait_out("up\nup\n");
    live.signal("INT");
    live.wait_err("SIGINT");
    live.signal("INT");
    assert_eq!(live.done().status, 130);
}

#[test]
fn what_does_not_obey_is_killed() {
    let live = Run::new("-q -n 2").sh("trap '' TERM; echo up; sleep 1000; sleep 1000").start();
    live.wait_out("up\nup\n");
    live.signal("TERM");
    let done = live.done();
    assert_eq!(done.status, 143);
    assert!(done.took > Duration::from_secs(2), "killed before its time: {done:?}");
}

#[test]
fn a_killed_launcher_takes_its_job_along() {
    let (live, pids) = family("exec sleep 1000");
    live.signal("KILL");
    assert_eq!(live.done().status, 137);
    for pid in pids {
        wait_gone(pid);
    }
}

#[test]
fn a_killed_launcher_ends_ranks_that_compute() {
    let live = Run::new("-q -n 2").sh("echo rank $$; trap '' TERM; while :; do :; done").start();
    live.wait_out("rank");
    while numbers(&live.wait_out("\n"), "rank ").len() < 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pids = numbers(&live.wait_out("\n"), "rank ");
    live.signal("KILL");
    live.done();
    for pid in pids {
        wait_gone(pid);
    }
}

#[test]
fn a_failure_takes_children_along() {
    let (live, pids) = family("[ $MPI_PMI_RANK = 0 ] && read x; sleep 0.5; exit 4");
    let done = live.done();
    assert_eq!(done.status, 4, "{done:?}");
    for pid in pids {
        wait_gone(pid);
    }
}

#[test]
fn a_good_end_leaves_no_children_in_the_groups_of_ranks() {
    let live = Run::new("-q -n 2").rank("child:own sleep:0.1").start();
    let done = live.done();
    assert_eq!(done.status, 0, "{done:?}");
    let pids = numbers(&done.out, "child ");
    assert_eq!(pids.len(), 2);
    for pid in pids {
        wait_gone(pid);
    }
}

#[test]
fn user_signals_reach_every_rank() {
    for signal in ["USR1", "USR2"] {
        let script = format!("trap 'echo got; exit 0' {signal}; echo up; while :; do sleep 0.05; done");
        let live = Run::new("-q -n 3").sh(&script).start();
        live.wait_out("up\nup\nup\n");
        live.signal(signal);
        let done = live.done();
        // A sleeping child of the script dies of the signal; the script itself catches it.
        assert_eq!(done.out.matches("got").count(), 3, "{done:?}");
    }
}

#[test]
fn stop_and_continue_reach_every_rank() {
    let live = Run::new("-q -n 2").sh("echo rank $$; read x; exec sleep 1000").start();
    while numbers(&live.wait_out("rank"), "rank ").len() < 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pids = numbers(&live.wait_out("rank"), "rank ");
    let wait_state = |pid: u32, stopped: bool| {
        let until = std::time::Instant::now() + common::BOUND;
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let now = stat.rsplit_once(") ").unwrap().1.starts_with('T');
            if now == stopped {
                return;
            }
            assert!(std::time::Instant::now() < until, "{stat}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    live.signal("TSTP");
    wait_state(live.pid(), true);
    pids.iter().for_each(|pid| wait_state(*pid, true));
    live.signal("CONT");
    wait_state(live.pid(), false);
    pids.iter().for_each(|pid| wait_state(*pid, false));
    live.signal("INT");
    assert_eq!(live.done().status, 130);
}

#[test]
fn quit_shows_the_picture_and_the_job_goes_on() {
    let live = Run::new("-q -n 2").rank("init events:tea print:up\\n sleep:3 finalize").start();
    live.wait_out("up\nup\n");
    live.signal("QUIT");
    live.wait_err("rank 1: tea");
    let done = live.done();
    assert_eq!(done.status, 0, "{done:?}");
}

#[test]
fn a_rank_that_is_stopped_can_be_ended() {
    let live = Run::new("-q -n 2").sh("echo rank $$; exec sleep 1000").start();
    while numbers(&live.wait_out("rank"), "rank ").len() < 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pids = numbers(&live.wait_out("rank"), "rank ");
    signal_to(pids[0], "STOP");
    live.signal("TERM");
    assert_eq!(live.done().status, 143);
    wait_gone(pids[0]);
}
