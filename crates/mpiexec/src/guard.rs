//! The guard: a process that outlives a launcher killed with SIGKILL, and ends its job.
//!
//! It is this same program, started with a hidden first word. The launcher tells it through a pipe
//! which process groups the job has; when the pipe ends without a goodbye, the guard kills the
//! groups, and then every process that carries a mark in its environment (the job's id, or the
//! daemon's), which finds those that left their group. The guard itself runs with an empty environment, so that no launcher
//! that it does not belong to takes it for one of its ranks.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// First word of a guard's command line.
pub const WORD: &str = "--guard-of-a-job";

/// Sweeps of the process table until none of the job's processes is found, at most.
const SWEEPS_MAX: u32 = 20;
/// Time between two sweeps.
const SWEEPS_APART: Duration = Duration::from_millis(50);

/// The launcher's end.
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard of the processes with this mark.
    ///
    /// # Errors
    /// The errno of fork or exec.
    pub fn start(mark: &str) -> std::io::Result<Guard> {
        let mut child = Command::new("/proc/self/exe")
            .arg0("mpiexec-guard")
            .args([WORD, mark])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe })
    }

    /// The job has this process group.
    pub fn add(&mut self, group: u32) {
        self.tell(&format!("+{group}\n"));
    }

    /// The group is empty; its number may belong to somebody else soon.
    pub fn remove(&mut self, group: u32) {
        self.tell(&format!("-{group}\n"));
    }

    fn tell(&mut self, line: &str) {
        // A guard that was killed is missed only if the launcher is killed too.
        let told = self.pipe.as_mut().map(|pipe| pipe.write_all(line.as_bytes()));
        if matches!(told, Some(Err(_))) {
            self.pipe = None;
        }
    }

    /// The job is over and everything is gone.
    pub fn dismiss(mut self) {
        self.tell("done\n");
        drop(self.pipe.take());
        let _ = self.child.wait();
    }
}

/// What the guard does. Never fails: there is nobody to tell.
pub fn run(mark: &str) {
    let mut groups = BTreeSet::new();
    for line in BufReader::new(std::io::stdin()).lines() {
        let Ok(line) = line else { break };
        match (line.split_at_checked(1), line.as_str()) {
            (_, "done") => return,
            (Some(("+", group)), _) => {
                groups.extend(group.parse::<i32>().ok().filter(|g| *g > 1));
            }
            (Some(("-", group)), _) => {
                group.parse::<i32>().ok().map(|g| groups.remove(&g));
            }
            _ => {}
        }
    }
    for group in groups {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    sweep(mark);
}

/// The mark of the processes of a job, also of the worlds spawned in it.
pub fn mark_of_job(id: &str) -> String {
    format!("{}={id}", mpi_pmi::variables::JOB)
}

/// Variable that marks the processes that one daemon has started.
pub const DAEMON_VARIABLE: &str = "MPI_DAEMON";

/// Kills every process that carries the mark in its environment, except this one.
pub fn sweep(mark: &str) {
    let mark = mark.as_bytes();
    for _ in 0..SWEEPS_MAX {
        let found = marked(mark);
        for pid in &found {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        if found.is_empty() {
            return;
        }
        std::thread::sleep(SWEEPS_APART);
    }
}

/// The variable is the mark, or names a world of the job: its id, a dot and a number.
fn is_marked(variable: &[u8], mark: &[u8]) -> bool {
    variable.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

fn marked(mark: &[u8]) -> Vec<Pid> {
    let own = std::process::id() as i32;
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid > 1 && *pid != own)
        .filter(|pid| {
            // A process of somebody else, or one that is going: its environment cannot be read.
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| is_marked(variable, mark))
        })
        .map(Pid::from_raw)
        .collect()
}
