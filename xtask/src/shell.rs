//! Running other programs: shown, bounded in time, and with their output in hand where it is wanted.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Between the polite signal to a program that is out of time and the other one.
const GRACE: Duration = Duration::from_secs(3);
/// For the last output of a program that has ended; a grandchild may hold the pipe open for ever.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// A program to run. It shares our process group, so that Ctrl-C reaches it too.
pub struct Cmd {
    command: Command,
    shown: String,
}

/// How a captured run ended.
pub struct Outcome {
    pub status: ExitStatus,
    pub timed_out: bool,
    pub elapsed: Duration,
    pub stdout: String,
    pub stderr: String,
}

impl Cmd {
    pub fn new(program: impl AsRef<OsStr>) -> Cmd {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Cmd { command, shown: short(program) }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Cmd {
        self.shown += " ";
        self.shown += &short(arg.as_ref());
        self.command.arg(arg);
        self
    }

    /// Words separated by blanks.
    pub fn words(self, words: &str) -> Cmd {
        words.split_whitespace().fold(self, |cmd, word| cmd.arg(word))
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Cmd {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: &str) -> Cmd {
        self.command.env_remove(name);
        self
    }

    pub fn dir(mut self, dir: &Path) -> Cmd {
        self.command.current_dir(dir);
        self
    }

    /// Shows the command line, lets it print, and fails unless it ends with 0 in time.
    pub fn run(mut self, limit: Duration) -> anyhow::Result<()> {
        eprintln!("$ {}", self.shown);
        let child = self.command.spawn().with_context(|| format!("cannot start {}", self.shown))?;
        let (status, timed_out) = wait(child, limit)?;
        match (timed_out, status.success()) {
            (true, _) => bail!("{}: not done after {} s", self.shown, limit.as_secs()),
            (false, false) => bail!("{}: {}", self.shown, describe(status)),
            (false, true) => Ok(()),
        }
    }

    /// Runs silently and hands over the output, whatever the end.
    pub fn capture(mut self, limit: Duration) -> anyhow::Result<Outcome> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = self.command.spawn().with_context(|| format!("cannot start {}", self.shown))?;
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        let (status, timed_out) = wait(child, limit)?;
        let elapsed = start.elapsed();
        let text = |from: Option<Receiver<String>>| {
            from.and_then(|from| from.recv_timeout(LAST_OUTPUT).ok()).unwrap_or_default()
        };
        Ok(Outcome { status, timed_out, elapsed, stdout: text(stdout), stderr: text(stderr) })
    }

    /// The standard output of a program that must end with 0.
    pub fn read(self, limit: Duration) -> anyhow::Result<String> {
        let shown = self.shown.clone();
        let outcome = self.capture(limit)?;
        if !outcome.ok() {
            bail!("{shown}: {}\n{}", outcome.end(), outcome.stderr);
        }
        Ok(outcome.stdout)
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl Outcome {
    pub fn ok(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// How it ended, in words.
    pub fn end(&self) -> String {
        if self.timed_out {
            format!("not done after {:.0} s", self.elapsed.as_secs_f64())
        } else {
            describe(self.status)
        }
    }

    /// The last lines of what it wrote, its complaints first in line.
    pub fn tail(&self, lines: usize) -> String {
        let text = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Whether a program of this name can be started.
pub fn exists(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn collect(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (done, result) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that breaks keeps what came before.
        let _ = from.read_to_end(&mut bytes);
        let _ = done.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    result
}

/// Waits at most `limit`; then asks the program to end, which a launcher passes on to its ranks, and after a grace
/// makes it.
fn wait(mut child: std::process::Child, limit: Duration) -> anyhow::Result<(ExitStatus, bool)> {
    let pid = Pid::from_raw(child.id().try_into()?);
    let (ended, is_over) = channel::<()>();
    let watchdog = thread::spawn(move || {
        for (patience, signal) in [(limit, Signal::SIGTERM), (GRACE, Signal::SIGKILL)] {
            if is_over.recv_timeout(patience) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return signal == Signal::SIGKILL;
            }
            // It may have ended in this instant.
            let _ = kill(pid, signal);
        }
        true
    });
    let status = child.wait()?;
    drop(ended);
    Ok((status, watchdog.join().unwrap_or(true)))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn short(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    match text.strip_prefix(&*crate::workspace::root().to_string_lossy()) {
        Some(rest) => rest.trim_start_matches('/').to_owned(),
        None => text.into_owned(),
    }
}
