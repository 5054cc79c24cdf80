//! Nothing is left of a job: no process, no file, whatever ended it and whoever was killed.

mod common;

use common::{BOUND, Directory, Live, Run, signal_to};
use std::time::{Duration, Instant};

/// What is done to a job that runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Then {
    /// It ends by itself.
    Wait,
    /// Ctrl-C, and again.
    InterruptTwice,
    /// SIGKILL for the launcher.
    KillLauncher,
    /// SIGKILL for this rank.
    KillRank(u32),
    /// SIGKILL for the process that guards the job; the job goes on, and is interrupted.
    KillGuard,
    /// SIGKILL for the daemon of a host.
    KillDaemon,
}

/// Marks all processes of one job, whoever they belong to by now.
const MARK: &str = "RESIDUE_TEST";

/// A process, its parent, its words and its environment, zombies left out.
struct Process {
    pid: u32,
    parent: u32,
    words: String,
    environment: String,
}

fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32, name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let process = |pid: u32| {
        let stat = read(pid, "stat");
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let there = !matches!(state, "Z" | "X");
        there.then(|| Process { pid, parent, words: read(pid, "cmdline"), environment: read(pid, "environ") })
    };
    pids.filter_map(process).collect()
}

/// Processes that belong to the job: by their mark, or guarding it (a guard has no environment).
fn of_job(mark: &str, launcher: u32) -> Vec<String> {
    let guarded = format!("-{launcher}-");
    let belongs = |p: &Process| {
        p.environment.contains(&format!("{MARK}={mark} "))
            || (p.words.contains("--guard-of-a-job") && p.words.contains(&guarded))
    };
    let all = processes().into_iter();
    all.filter(belongs).map(|p| format!("{} (child of {}): {}", p.pid, p.parent, p.words)).collect()
}

fn child_with(parent: u32, word: &str) -> u32 {
    let until = Instant::now() + BOUND;
    loop {
        let all = processes();
        let found = all.iter().find(|p| p.parent == parent && p.words.contains(word));
        match found {
            Some(process) => return process.pid,
            None => assert!(Instant::now() < until, "no child of {parent} has {word}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn rank(live: &Live, number: u32) -> u32 {
    let start = format!("[{number}] up ");
    let until = Instant::now() + BOUND;
    loop {
        let out = live.wait_out("up ");
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some(pid) = whole.lines().find_map(|line| line.strip_prefix(&start)) {
            return pid.trim().parse().expect("a process id");
        }
        assert!(Instant::now() < until, "rank {number} is not up: {out:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the job, does what is to be done, and looks what is left.
fn check(at: usize, options: &str, steps: &str, then: Then, status: &[i32]) {
    let directory = Directory::new(&format!("residue-{at}"));
    let mark = format!("{}-{at}", std::process::id());
    let program = common::rank_program().display().to_string();
    // The shell is the rank's process, and tells its number; a child leaves its group and its session.
    let script = format!("setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo up $$; exec {program} {steps}");
    let run = Run::new(&format!("-q -l -n 2 {options}"));
    let run = run.env("TMPDIR", directory.path.to_str().expect("text")).env(MARK, &mark);
    let live = if then == Then::Wait && status == [0] { run.rank(steps) } else { run.sh(&script) }.start();
    let launcher = live.pid();
    let pid = |number| rank(&live, number);
    if then != Then::Wait {
        pid(0);
        pid(1);
        // Two ranks, a child of each, the guard: what is looked for is found while it is there.
        let there = of_job(&mark, launcher);
        assert!(there.len() >= 5, "{options}: {there:#?}");
    }
    match then {
        Then::Wait => {}
        Then::InterruptTwice => {
            live.signal("INT");
            live.wait_err("SIGINT");
            live.signal("INT");
        }
        Then::KillLauncher => live.signal("KILL"),
        Then::KillRank(number) => signal_to(pid(number), "KILL"),
        Then::KillGuard => {
            signal_to(child_with(launcher, "--guard-of-a-job"), "KILL");
            live.signal("INT");
        }
        Then::KillDaemon => signal_to(child_with(launcher, "--daemon-of-a-job"), "KILL"),
    }
    let done = live.done();
    assert!(status.contains(&done.status), "{options} {then:?}: {done:?}");
    let until = Instant::now() + BOUND;
    loop {
        let left = of_job(&mark, launcher);
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "{options} {steps} {then:?}: {left:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let files = std::fs::read_dir(&directory.path).expect("directory").flatten();
    let files: Vec<_> = files.chain(shared_memory(launcher)).map(|entry| entry.path()).collect();
    assert!(files.is_empty(), "{options} {steps} {then:?}: {files:?}");
}

/// Files of shared memory that were named after the job.
fn shared_memory(launcher: u32) -> Vec<std::fs::DirEntry> {
    let named = format!("-{launcher}-");
    let all = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().contains(&named)).collect()
}

#[test]
fn nothing_is_left_whatever_ends_a_job() {
    let stays = "init events:tea fence sleep:100";
    let deaf = "trap-term:100 init events:tea sleep:100";
    let mut at = 0;
    for options in ["", "--launcher fork -host a,b"] {
        let mut check = |steps, then, status: &[i32]| {
            at += 1;
            check(at, options, steps, then, status);
        };
        check("init fence finalize", Then::Wait, &[0]);
        check("init events:x fence @1 exit:7 @all sleep:100", Then::Wait, &[7]);
        check("init events:x fence @1 panic:ouch @all sleep:100", Then::Wait, &[101]);
        check("init events:x fence @1 abort:9 @all sleep:100", Then::Wait, &[9]);
        check(deaf, Then::InterruptTwice, &[130]);
        check(stays, Then::KillRank(0), &[137]);
        check(stays, Then::KillRank(1), &[137]);
        check(stays, Then::KillLauncher, &[137]);
        check(stays, Then::KillGuard, &[130]);
    }
    check(at + 1, "--launcher fork -host a,b", stays, Then::KillDaemon, &[3]);
    check(at + 2, "--launcher fork -host a,b --copy-self", stays, Then::KillRank(1), &[137]);
}
