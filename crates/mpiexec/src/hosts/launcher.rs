//! How the daemon of another host is started: a command whose standard input and output lead there.

use super::Host;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// First word of a daemon's command line.
pub const WORD: &str = "--daemon-of-a-job";

/// How hosts are reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// By ssh. Host keys are checked as the user's configuration says.
    Ssh,
    /// By srun, inside of an allocation.
    Slurm,
    /// Not at all: the daemon of each "host" runs on this machine.
    Fork,
    /// By a command of the user's, in words; `{host}`, `{user}` and `{command}` are filled in.
    Exec(Vec<String>),
}

impl Launcher {
    /// By the word of the option.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn named(text: &str) -> Result<Launcher, String> {
        match text {
            "ssh" => Ok(Launcher::Ssh),
            "slurm" | "srun" => Ok(Launcher::Slurm),
            "fork" => Ok(Launcher::Fork),
            _ => match text.strip_prefix("exec:") {
                Some(template) => template_words(template),
                None => Err(String::from("expected ssh, slurm, fork or exec:COMMAND")),
            },
        }
    }

    /// A host that is this machine is served without a daemon.
    pub fn knows_this_machine(&self) -> bool {
        *self != Launcher::Fork
    }

    /// The command that starts the daemon of `host`, whose program is `program` there; or, with
    /// `copy`, comes first on the command's standard input, so many bytes long.
    pub fn command(&self, host: &Host, program: &Path, copy: Option<u64>) -> Vec<Vec<u8>> {
        let inner: Vec<Vec<u8>> = match copy {
            None => vec![program.as_os_str().as_bytes().to_vec(), WORD.into()],
            Some(length) => vec!["sh".into(), "-c".into(), receiving_script(length).into()],
        };
        self.around(host, &inner)
    }

    /// The command that does nothing on `host`, and succeeds when it can be reached.
    pub fn probe(&self, host: &Host) -> Vec<Vec<u8>> {
        self.around(host, &["true".into()])
    }

    /// The command that runs `inner` on `host`.
    fn around(&self, host: &Host, inner: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        match self {
            Launcher::Ssh => {
                // A password cannot be typed to many at once; -x: nobody needs a display.
                words.extend(
                    ["ssh", "-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"].map(Into::into),
                );
                if let Some(user) = &host.user {
                    words.extend(["-l".into(), user.clone().into_bytes()]);
                }
                words.extend(["--".into(), host.name.clone().into_bytes()]);
                words.push(shell_line(inner));
            }
            Launcher::Slurm => {
                words.extend(["srun", "--nodes=1", "--ntasks=1", "--overlap", "--input=all"].map(Into::into));
                words.extend(
                    ["--unbuffered", "--cpu-bind=none", "--mpi=none", "--export=ALL"].map(Into::into),
                );
                words.push(format!("--nodelist={}", host.name).into_bytes());
                words.extend_from_slice(inner);
            }
            Launcher::Fork => words.extend_from_slice(inner),
            Launcher::Exec(template) => template.iter().for_each(|word| fill(word, host, inner, &mut words)),
        }
        words
    }
}

/// Receives a program on standard input, runs it, and leaves the rest of the input to it. The
/// program removes its file itself.
fn receiving_script(length: u64) -> String {
    format!(
        "f=$(mktemp \"${{TMPDIR:-/tmp}}/mpiexec.XXXXXXXX\") && head -c {length} >\"$f\" && chmod 700 \"$f\" \
         && exec \"$f\" {WORD} {REMOVE}"
    )
}

/// Second word of a daemon that was copied: it removes its own file.
pub const REMOVE: &str = "--remove-itself";

fn template_words(template: &str) -> Result<Launcher, String> {
    let words = crate::cli::configfile::split(template)
        .map_err(|column| format!("a quote that does not end, at character {column} of the command"))?;
    if words.is_empty() {
        return Err(String::from("expected a command behind exec:"));
    }
    if !words.iter().any(|word| word.contains("{command}")) {
        return Err(String::from("expected {command} in the command, which stands for what is to be run"));
    }
    Ok(Launcher::Exec(words))
}

/// One word of a template. `{command}` as a word of its own becomes all words of the command, inside
/// of another a line that a shell reads as them.
fn fill(word: &str, host: &Host, inner: &[Vec<u8>], words: &mut Vec<Vec<u8>>) {
    if word == "{command}" {
        words.extend_from_slice(inner);
        return;
    }
    let word = word.replace("{host}", &host.name).replace("{user}", host.user.as_deref().unwrap_or_default());
    let mut out = Vec::new();
    for (at, part) in word.split("{command}").enumerate() {
        if at > 0 {
            out.extend(shell_line(inner));
        }
        out.extend_from_slice(part.as_bytes());
    }
    words.push(out);
}

fn shell_line(words: &[Vec<u8>]) -> Vec<u8> {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(&b' ')
}

/// A word as a shell reads it.
fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut out = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => out.extend_from_slice(br"'\''"),
            other => out.push(*other),
        }
    }
    out.push(b'\'');
    out
}

/// A word as a shell reads it, for people.
pub fn shown(word: &OsStr) -> String {
    String::from_utf8_lossy(&quoted(word.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::place::Room;

    fn host(name: &str, user: Option<&str>) -> Host {
        let room = Room { slots: 1, most: 1 };
        Host { name: name.to_owned(), user: user.map(str::to_owned), here: false, room }
    }

    fn command(launcher: &str, user: Option<&str>, copy: Option<u64>) -> String {
        let launcher = Launcher::named(launcher).unwrap();
        let words = launcher.command(&host("h", user), Path::new("/a b/mpiexec"), copy);
        words.iter().map(|w| format!("<{}>", String::from_utf8_lossy(w))).collect::<Vec<_>>().join("")
    }

    #[test]
    fn each_launcher_has_its_command() {
        let ssh = command("ssh", Some("me"), None);
        assert!(ssh.starts_with("<ssh>") && ssh.contains("<-l><me><--><h>"), "{ssh}");
        assert!(ssh.ends_with("<'/a b/mpiexec' --daemon-of-a-job>"), "{ssh}");
        assert!(!ssh.contains("StrictHostKeyChecking"), "host keys are the user's matter");
        assert_eq!(command("fork", None, None), "</a b/mpiexec><--daemon-of-a-job>");
        assert!(command("slurm", None, None).contains("<--nodelist=h></a b/mpiexec>"));
        let probe = Launcher::Ssh.probe(&host("h", None));
        assert_eq!(probe.last().map(Vec::as_slice), Some(&b"true"[..]));
        let exec = command("exec:ip netns exec {host} {command}", None, None);
        assert_eq!(exec, "<ip><netns><exec><h></a b/mpiexec><--daemon-of-a-job>");
        let nested = command("exec:docker exec -i {host} sh -c 'exec {command}'", None, None);
        assert!(nested.ends_with("<sh><-c><exec '/a b/mpiexec' --daemon-of-a-job>"), "{nested}");
        let copied = command("fork", None, Some(77));
        assert!(copied.starts_with("<sh><-c><f=$(mktemp") && copied.contains("head -c 77"), "{copied}");
    }

    #[test]
    fn bad_ones_say_why() {
        for (text, expected) in [
            ("rsh", "expected ssh"),
            ("exec:", "expected a command"),
            ("exec:ssh {host}", "expected {command}"),
            ("exec:ssh '{command}", "a quote"),
        ] {
            let error = Launcher::named(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        assert_eq!(shown("a/b".as_ref()), "a/b");
        assert_eq!(shown("it's".as_ref()), r"'it'\''s'");
        assert_eq!(shown("".as_ref()), "''");
    }
}
