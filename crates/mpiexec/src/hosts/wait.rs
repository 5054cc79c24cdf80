//! Waits until every other host can be reached, where that is wanted (`--wait-hosts`): the names and the sshd of pods and
//! virtual machines come some time after the launcher.
//!
//! A host is reached when the command that will start its daemon can run `true` there. So nothing is guessed of ports,
//! proxies or names: what ssh's configuration says holds here as well.

use super::Host;
use super::launcher::Launcher;
use crate::cli::UsageError;
use crate::error::LaunchError;
use crate::limits;
use crate::outside::Values;
use mpi_node::spawn::Inheritance;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long is waited, by the option; `None` where it is not given.
///
/// # Errors
/// [`UsageError`] naming the option.
pub fn bound(values: &Values<'_>) -> Result<Option<Duration>, UsageError> {
    const NAME: &str = "wait-hosts";
    let most = limits::HOSTS_WAIT_MAX_SECONDS;
    let given = match values.get(NAME).map(str::parse::<usize>) {
        Some(Ok(0)) => return Ok(None),
        Some(Ok(seconds)) if seconds <= most => return Ok(Some(Duration::from_secs(seconds as u64))),
        Some(Ok(_)) => None,
        None | Some(Err(_)) => values.flag(NAME).ok(),
    };
    match given {
        Some(given) => Ok(given.then_some(limits::HOSTS_WAIT)),
        None => Err(values.bad(NAME, &format!("expected nothing, or =SECONDS up to {most}"))),
    }
}

/// Waits until all of `hosts` can be reached; `remark` gets one line if that is not so at once.
///
/// # Errors
/// [`LaunchError::Host`] naming the hosts that cannot be reached after `bound`, each with the last that was said of it.
pub fn wait(
    launcher: &Launcher,
    hosts: &[&Host],
    bound: Duration,
    mut remark: impl FnMut(String),
) -> Result<(), LaunchError> {
    let begun = Instant::now();
    let mut all: Vec<Probe<'_>> = hosts.iter().map(|host| Probe::of(host)).collect();
    let mut told = false;
    loop {
        let now = Instant::now();
        let mut running = all.iter().filter(|probe| matches!(probe.state, State::Running { .. })).count();
        for probe in &mut all {
            let was_running = matches!(probe.state, State::Running { .. });
            if was_running || running < limits::HOST_PROBES_AT_ONCE {
                probe.turn(launcher, now)?;
            }
            running += usize::from(!was_running && matches!(probe.state, State::Running { .. }));
        }
        let total = all.len();
        let missing: Vec<&Probe<'_>> = all.iter().filter(|p| !matches!(p.state, State::Reached)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if now.saturating_duration_since(begun) >= bound {
            let (what, seconds) = (listed(&missing, total), bound.as_secs());
            let reason = format!("{what} cannot be reached after {seconds} s (--wait-hosts)");
            return Err(LaunchError::Host { status: 3, reason });
        }
        if !told && missing.iter().all(|probe| probe.said.is_some()) {
            told = true;
            remark(format!("waiting up to {} s for {}", bound.as_secs(), listed(&missing, total)));
        }
        std::thread::sleep(limits::HOST_PROBE_LOOK);
    }
}

/// `2 of 3 hosts: a (why), b (why)`.
fn listed(missing: &[&Probe<'_>], total: usize) -> String {
    let one = |probe: &&Probe<'_>| {
        let said = probe.said.as_deref().unwrap_or("no answer yet");
        format!("{} ({said})", probe.host.name)
    };
    let mut names: Vec<String> = missing.iter().take(limits::HOSTS_LISTED_MAX).map(one).collect();
    if missing.len() > names.len() {
        names.push(format!("and {} more", missing.len() - names.len()));
    }
    let hosts = if total == 1 { "host" } else { "hosts" };
    format!("{} of {total} {hosts}: {}", missing.len(), names.join(", "))
}

/// The attempts to reach one host.
struct Probe<'a> {
    host: &'a Host,
    state: State,
    /// Why the latest attempt failed.
    said: Option<String>,
}

enum State {
    /// The next attempt is made then.
    Due(Instant),
    Running {
        child: Child,
        since: Instant,
    },
    Reached,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Probe<'a> {
    fn of(host: &'a Host) -> Probe<'a> {
        Probe { host, state: State::Due(Instant::now()), said: None }
    }

    /// Starts an attempt that is due, and looks how one went.
    fn turn(&mut self, launcher: &Launcher, now: Instant) -> Result<(), LaunchError> {
        match &mut self.state {
            State::Due(at) if now >= *at => {
                let child = start(launcher, self.host)?;
                self.state = State::Running { child, since: now };
            }
            State::Running { child, since } => {
                let ended = child.try_wait().map_err(LaunchError::system("waiting for a command"))?;
                if let Some(status) = ended {
                    let words = last_words(child);
                    self.judge(launcher, status, words);
                } else if now.saturating_duration_since(*since) >= limits::HOST_PROBE {
                    self.end();
                    let seconds = limits::HOST_PROBE.as_secs();
                    self.fail(format!("no answer within {seconds} s"));
                }
            }
            State::Due(_) | State::Reached => {}
        }
        Ok(())
    }

    fn judge(&mut self, launcher: &Launcher, status: ExitStatus, words: Option<String>) {
        if status.success() {
            self.state = State::Reached;
            return;
        }
        self.fail(words.unwrap_or_else(|| {
            let words = launcher.probe(self.host);
            let name = words.first().map(|word| String::from_utf8_lossy(word).into_owned());
            let how = match (status.code(), status.signal()) {
                (Some(code), _) => format!("status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or(0)),
            };
            format!("{} ended with {how}", name.unwrap_or_default())
        }));
    }

    fn fail(&mut self, said: String) {
        self.said = Some(said);
        self.state = State::Due(Instant::now() + limits::HOST_PROBES_APART);
    }

    /// Ends an attempt with all that it has started.
    fn end(&mut self) {
        if let State::Running { child, .. } = &mut self.state {
            // It may have ended in this instant.
            let _ = i32::try_from(child.id()).map(|id| killpg(Pid::from_raw(id), Signal::SIGKILL));
            let _ = child.wait();
        }
    }
}

fn start(launcher: &Launcher, host: &Host) -> Result<Child, LaunchError> {
    let words = launcher.probe(host);
    let Some((program, arguments)) = words.split_first() else {
        let reason = format!("host {}: there is no command that leads there", host.name);
        return Err(LaunchError::Host { status: 3, reason });
    };
    let mut command = Command::new(OsStr::from_bytes(program));
    command.args(arguments.iter().map(|word| OsStr::from_bytes(word)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Inheritance { own_group: true, die_with_parent: true, ..Inheritance::default() }
        .apply(&mut command)
        .map_err(LaunchError::system("a command"))?;
    command.spawn().map_err(|e| {
        let program = String::from_utf8_lossy(program).into_owned();
        LaunchError::Host { status: 3, reason: format!("host {}: {program}: {e}", host.name) }
    })
}

/// The last line that a command which has ended wrote to its standard error. No more is read than a pipe holds: something
/// that it left behind may hold the pipe open.
fn last_words(child: &mut Child) -> Option<String> {
    let mut bytes = vec![0; limits::HOST_PROBE_WORDS_BYTES];
    let n = child.stderr.take()?.read(&mut bytes).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..n).unwrap_or_default()).into_owned();
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::place::Room;

    fn hosts(names: &[&str]) -> Vec<Host> {
        let room = Room { slots: 1, most: 1 };
        let host =
            |name: &&str| Host { name: (*name).to_owned(), user: None, here: false, room: room.clone() };
        names.iter().map(host).collect()
    }

    fn waited(template: &str, names: &[&str], seconds: u64) -> (Result<(), String>, Vec<String>) {
        let (launcher, hosts) = (Launcher::named(template).unwrap(), hosts(names));
        let mut remarks = Vec::new();
        let all: Vec<&Host> = hosts.iter().collect();
        let result = wait(&launcher, &all, Duration::from_secs(seconds), |line| remarks.push(line));
        (result.map_err(|e| e.to_string()), remarks)
    }

    #[test]
    fn hosts_that_are_there_are_not_waited_for() {
        let (result, remarks) = waited("exec:sh -c 'exec {command}'", &["a", "b"], 30);
        assert_eq!((result, remarks), (Ok(()), Vec::new()));
        assert_eq!(waited("fork", &[], 30).0, Ok(()));
    }

    #[test]
    fn those_that_are_missing_are_named_with_the_reason() {
        let template = "exec:sh -c 'test {host} = a && exec {command}; echo no route to {host} >&2; exit 9'";
        let (result, remarks) = waited(template, &["a", "b", "c"], 1);
        let missing = "2 of 3 hosts: b (no route to b), c (no route to c)";
        assert_eq!(result, Err(format!("{missing} cannot be reached after 1 s (--wait-hosts)")));
        assert_eq!(remarks, [format!("waiting up to 1 s for {missing}")]);
        let (result, _) = waited("exec:sh -c 'exit 9; {command}'", &["a"], 1);
        let error = result.unwrap_err();
        assert!(error.starts_with("1 of 1 host: a (sh ended with status 9) cannot"), "{error}");
        let (result, _) = waited("exec:/no/such/program {command}", &["a"], 1);
        let error = result.unwrap_err();
        assert!(error.starts_with("host a: /no/such/program: No such file"), "{error}");
    }

    #[test]
    fn many_names_are_cut_short() {
        let names: Vec<String> = (0..limits::HOSTS_LISTED_MAX + 3).map(|at| format!("h{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hosts = hosts(&names);
        let probes: Vec<Probe<'_>> = hosts.iter().map(Probe::of).collect();
        let text = listed(&probes.iter().collect::<Vec<_>>(), probes.len());
        assert!(text.contains("h0 (no answer yet)") && text.ends_with(", and 3 more"), "{text}");
    }
}
