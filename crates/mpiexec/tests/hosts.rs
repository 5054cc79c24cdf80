//! Jobs on several hosts: daemons started by fork, or in network namespaces.

mod common;

use common::net::{Hosts, LAUNCHER};
use common::{Run, numbers, rank_program, signal_to, wait_gone};
use std::time::Duration;

/// On hosts that are no hosts: every daemon runs on this machine.
fn forked(options: &str) -> Run {
    Run::new(&format!("-q --launcher fork {options}"))
}

/// The lines of an output, sorted: ranks write in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_of_two_hosts_are_one_world() {
    let Some(hosts) = Hosts::new("w", 2) else { return };
    let done = Run::new("-q -l --launcher")
        .args(&[LAUNCHER, "-host", &hosts.list(":2"), rank_program().to_str().unwrap()])
        .args(&["init", "get:3", "fence", "env:MPI_NODE_SIZE", "finalize"])
        .done();
    let expected: Vec<String> =
        (0..4).flat_map(|rank| [format!("[{rank}] 2"), format!("[{rank}] rank 3")]).collect();
    assert_eq!(
        (done.status, sorted(&done.out)),
        (0, expected.iter().map(String::as_str).collect()),
        "{done:?}"
    );
    assert_eq!(done.err, "", "a successful job is quiet");
}

#[test]
fn the_status_of_a_rank_elsewhere_is_that_of_the_job() {
    let done = forked("-host a,b,c").rank("init @2 exit:7 @all sleep:60").done();
    assert_eq!(done.status, 7, "{done:?}");
    assert!(done.err.contains("rank 2 (pid ") && done.err.contains(" on c, after"), "{done:?}");
    assert!(done.took < Duration::from_secs(30), "{done:?}");
    let done = forked("-host a,b").rank("init @1 kill:ABRT @all sleep:60").done();
    assert_eq!(done.status, 134, "{done:?}");
    let done = forked("-host a,b").rank("init @1 abort:5 @all sleep:60").done();
    assert_eq!(done.status, 5, "{done:?}");
}

#[test]
fn daemons_start_daemons() {
    let hosts = (0..13).map(|n| format!("h{n}")).collect::<Vec<_>>().join(",");
    let done = forked(&format!("--fan-out 2 -host {hosts}")).rank("init get:12 who finalize").done();
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.out.matches("rank 12").count(), 13, "{done:?}");
    assert_eq!(done.out.matches(" of 13 in ").count(), 13, "{done:?}");
}

#[test]
fn output_arrives_whole_and_in_order_and_before_the_report_of_a_death() {
    let done = forked("-l -host a,b:2").rank("lines:20000,40 @2 exit:3").done();
    assert_eq!(done.status, 3, "{:?}", done.err);
    for rank in 0..3 {
        let tag = format!("[{rank}] rank {rank} line ");
        let mut next = 0;
        for line in done.out.lines().filter_map(|l| l.strip_prefix(&tag)) {
            assert_eq!(line.split(' ').next(), Some(next.to_string().as_str()));
            next += 1;
        }
        // Others may be ended before they are through; who died was heard to its end.
        assert!(rank != 2 || next == 20000, "{next} lines of rank {rank}");
    }
}

#[test]
fn a_reader_that_leaves_ends_endless_writers() {
    let mpiexec = common::mpiexec().display().to_string();
    let script = format!("{mpiexec} -q --launcher fork -host a,b sh -c 'yes; echo $? >&2' | head -n 3");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "y\ny\ny\n", "{output:?}");
}

#[test]
fn input_reaches_ranks_elsewhere_to_the_byte() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| b'a' + (i % 23) as u8).collect();
    for (options, copies) in [("-host a,b", 1), ("-host a,b --stdin 1", 1), ("-host a,b --stdin all", 2)] {
        let done = forked(options).input(bytes.clone()).sh("md5sum").done();
        let sums: Vec<&str> = done.out.lines().map(|l| &l[..32]).collect();
        let own = forked("-n 1 -host a").input(bytes.clone()).sh("md5sum").done();
        let same = sums.iter().filter(|sum| **sum == &own.out[..32]).count();
        assert_eq!((done.status, same, sums.len()), (0, copies, 2), "{options}: {done:?}");
    }
}

#[test]
fn signals_and_limits_reach_ranks_elsewhere() {
    let live = forked("-host a,b").sh("trap 'echo usr1; exit 0' USR1; echo ready; sleep 60 & wait").start();
    while live.wait_out("ready").matches("ready").count() < 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    live.signal("USR1");
    let done = live.done();
    assert_eq!((done.status, done.out.matches("usr1").count()), (0, 2), "{done:?}");
    let live = forked("-host a,b").rank("child:session print:up\\n sleep:100").start();
    while live.wait_out("up").matches("up").count() < 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let children = numbers(&live.wait_out("up"), "");
    live.signal("INT");
    let done = live.done();
    assert_eq!(done.status, 130, "{done:?}");
    for pid in children {
        wait_gone(pid);
    }
    let done = forked("-host a,b --timeout 0.5").rank("init sleep:60").done();
    assert_eq!(done.status, 124, "{done:?}");
    assert!(done.err.contains("rank 1: pid ") && done.err.contains(" on b"), "{done:?}");
}

#[test]
fn a_daemon_that_is_killed_takes_its_ranks_and_the_job_along() {
    let live = forked("-v -host a,b:2").rank("init print:up\\n sleep:100").start();
    while live.wait_out("up").matches("up").count() < 3 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let err = live.wait_err("rank 2 is pid");
    let pid_of = |rank: usize| -> u32 {
        let line = err.lines().find(|l| l.contains(&format!("rank {rank} is pid "))).unwrap();
        line.split("pid ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let daemon = parent_of(pid_of(1));
    let begun = std::time::Instant::now();
    signal_to(daemon, "KILL");
    let done = live.done();
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.err.contains("host b is lost, and with it ranks 1-2"), "{done:?}");
    for rank in 0..3 {
        wait_gone(pid_of(rank));
    }
    // 5 s are promised; the rest is for machines that do other things too.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_host_that_falls_silent_is_named() {
    let live = forked("-v --silence 2 -host a,b").rank("init print:up\\n sleep:100").start();
    while live.wait_out("up").matches("up").count() < 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let err = live.wait_err("rank 1 is pid");
    let line = err.lines().find(|l| l.contains("rank 1 is pid ")).unwrap();
    let rank: u32 = line.split("pid ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    signal_to(parent_of(rank), "STOP");
    let done = live.done();
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.err.contains("host b is lost, and with it rank 1 "), "{done:?}");
    assert!(done.err.contains("nothing was heard from it for"), "{done:?}");
    wait_gone(rank);
}

#[test]
fn nothing_is_left_when_mpiexec_is_killed() {
    let live = forked("-host a,b").sh("echo pid $$; sleep 1000 & echo pid $!; wait").start();
    while numbers(&live.wait_out("pid"), "pid ").len() < 4 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pids = numbers(&live.wait_out("pid"), "pid ");
    live.signal("KILL");
    for pid in pids {
        wait_gone(pid);
    }
}

fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_is_missing_on_a_host_is_named_with_it() {
    // A directory that one host alone has not: its daemon is started in a mount namespace.
    let directory = std::env::temp_dir().join(format!("mpiexec-hosts-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("here")).unwrap();
    let (dir, here) = (directory.display().to_string(), directory.join("here").display().to_string());
    let hide = format!(
        "exec:sh -c 'if [ {{host}} = b ]; then exec unshare -m sh -c \"mount -t tmpfs none {dir} && exec {{command}}\"; \
         else exec {{command}}; fi'"
    );
    let possible =
        std::process::Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", &dir]).status();
    if possible.is_ok_and(|status| status.success()) {
        let run = |options: &[&str]| Run::new("-q -host a,b --launcher").args(&[&hide]).args(options).done();
        let done = run(&["-wdir", &here, "true"]);
        assert_eq!(done.status, 3, "{done:?}");
        assert!(done.err.contains(&format!("working directory {here} on b: ")), "{done:?}");
        std::fs::write(directory.join("here/program"), "#!/bin/sh\necho started\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.join("here/program"), mode).unwrap();
        let done = run(&[&format!("{here}/program")]);
        assert_eq!((done.status, done.out.as_str()), (127, ""), "{done:?}");
        assert!(done.err.contains(&format!("{here}/program is not found on b: ")), "{done:?}");
    } else {
        eprintln!("not tested, mount namespaces cannot be made here");
    }
    std::fs::remove_dir_all(&directory).unwrap();
    let done = forked("-host a,b").args(&["no-such-program"]).done();
    assert_eq!(done.status, 127, "{done:?}");
    let done = Run::new("-host a -wdir /no/such/place --launcher fork true").done();
    assert!(done.status == 3 && done.err.contains("working directory /no/such/place on a"), "{done:?}");
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_what_the_command_said() {
    let launcher = "exec:sh -c 'echo Connection refused >&2; echo noise; exit 255 # {host} {command}'";
    let done = Run::new("-host a --launcher").args(&[launcher, "true"]).done();
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.err.contains("mpiexec: a: Connection refused"), "{done:?}");
    assert!(done.err.contains("host a: no daemon answered: sh ended with status 255"), "{done:?}");
    let second = "exec:sh -c 'case {host} in b) exit 7;; esac; exec {command}'";
    let done = Run::new("--fan-out 1 -host a,b --launcher").args(&[second, "true"]).done();
    assert!(
        done.status == 3 && done.err.contains("host b: no daemon answered: sh ended with status 7"),
        "{done:?}"
    );
    assert!(done.err.contains("it is reached from a; a larger --fan-out"), "{done:?}");
    let done = Run::new("-host a --launcher").args(&["exec:no-such-command {host} {command}", "true"]).done();
    assert!(done.status == 3 && done.err.contains("host a: no-such-command: No such file"), "{done:?}");
}

#[test]
fn the_launcher_copies_itself() {
    let directory = common::Directory::new("copy");
    let run = forked("--copy-self --fan-out 1 -host a,b").env("TMPDIR", directory.path.to_str().unwrap());
    let done = run.rank("init who finalize").done();
    assert_eq!((done.status, done.out.matches(" of 2 in ").count()), (0, 2), "{done:?}");
    let left: Vec<_> = std::fs::read_dir(&directory.path).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_secret_is_on_no_command_line_and_in_no_environment() {
    // A test runner may have put this test's name into the environment.
    let script = "tr '\\0' ' ' </proc/$PPID/cmdline; \
                  tr '\\0' '\\n' </proc/$$/environ | grep -v ^NEXTEST | grep -ci secret";
    let done = forked("-host a").sh(script).done();
    let (line, count) = done.out.trim().rsplit_once([' ', '\n']).unwrap();
    assert!(line.trim().ends_with("--daemon-of-a-job") && count == "0", "{done:?}");
}

#[test]
fn variables_are_the_launchers_but_for_those_of_the_host() {
    let done = forked("-host a -x OWN=1")
        .env("ANY", "x y")
        .sh("echo \"$ANY|$OWN|$MPI_DAEMON\" | cut -d/ -f1 | cut -d- -f1; env | grep -c ^MPI_MULTIHOST")
        .done();
    assert!(done.out.starts_with("x y|1|") && done.out.trim().ends_with('0'), "{done:?}");
}

#[test]
fn the_map_tells_of_every_host() {
    let done = forked("-host a,b --show-map=json --bind-to core").args(&["sleep", "0.1"]).done();
    let line = done.err.lines().find(|l| l.starts_with('[')).unwrap_or_default();
    let map: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    for (rank, host) in [(0, "a"), (1, "b")] {
        assert_eq!(map[rank]["host"], host, "{map}");
        assert_eq!(map[rank]["processors"].as_array().map(Vec::is_empty), Some(false), "{map}");
        assert!(map[rank]["pid"].as_u64() > Some(0), "{map}");
    }
}

#[test]
fn sixty_four_hosts_of_one_rank() {
    let Some(hosts) = Hosts::new("s", 64) else { return };
    let done = Run::new("-q --fan-out 8 --launcher")
        .args(&[LAUNCHER, "-host", &hosts.list(""), rank_program().to_str().unwrap()])
        .args(&["init", "fence", "who", "finalize"])
        .done();
    assert_eq!((done.status, done.out.matches(" of 64 in ").count()), (0, 64), "{done:?}");
}

#[test]
fn ssh_is_called_so_that_a_remote_shell_understands() {
    // An ssh that checks what it is asked, and is the remote shell itself.
    let directory = std::env::temp_dir().join(format!("mpiexec-ssh-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do echo \"$1\" >&2; shift; done\n\
                  echo \"host $2\" >&2; echo Welcome; exec sh -c \"$3\"\n";
    std::fs::write(directory.join("ssh"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.join("ssh"), mode).unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    for options in ["-host me@far,[::2]", "--copy-self -host me@far,[::2]"] {
        let done = Run::new(&format!("-q {options}")).env("PATH", &path).rank("init who finalize").done();
        assert_eq!((done.status, done.out.matches(" of 2 in ").count()), (0, 2), "{done:?}");
        for said in ["mpiexec: far: -l\n", "mpiexec: far: me\n", "far: host far\n", "::2: host ::2\n"] {
            assert!(done.err.contains(said), "{said:?}: {done:?}");
        }
        assert!(!done.err.contains("StrictHostKeyChecking"), "{done:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn an_allocation_of_slurm_is_used() {
    let done = Run::new("--dry-run true")
        .env("SLURM_JOB_ID", "1")
        .env("SLURM_JOB_NODELIST", "n[08-09]")
        .env("SLURM_TASKS_PER_NODE", "1,2")
        .done();
    let ranks = done.out.lines().filter(|line| line.starts_with("rank "));
    let hosts: Vec<&str> = ranks.filter_map(|l| l.split([':', ',']).nth(1)).collect();
    assert_eq!((done.status, hosts), (0, vec![" n08", " n09", " n09"]), "{done:?}");
    for host in ["n08", "n09"] {
        assert!(done.out.contains(&format!("host {host}: srun --nodes=1 --ntasks=1 ")), "{done:?}");
        assert!(done.out.contains(&format!(" --nodelist={host} /")), "{done:?}");
    }
}
