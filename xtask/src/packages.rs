//! Programs of the system that a check needs, from Debian's packages where they are not there.

use std::time::Duration;

use crate::shell::Cmd;

const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const MOMENT: Duration = Duration::from_secs(20);

/// Namespaces that end with the first process in them: the words behind `unshare`.
pub const NAMESPACES: &str = "--net --uts --pid --mount --fork --kill-child --mount-proc";

/// Gets `programs` out of `packages`, and sees that namespaces can be made; why that cannot be, if so.
pub fn missing(programs: &[&str], packages: &str) -> anyhow::Result<Option<String>> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(Some("this needs root, for namespaces and for daemons that start tasks".to_owned()));
    }
    if absent(programs)?.is_some() {
        println!("installing {packages}");
        let install = |words: &str| {
            let cmd = Cmd::new("apt-get").words(words).env("DEBIAN_FRONTEND", "noninteractive");
            cmd.capture(INSTALL_LIMIT)
                .map_or_else(|e| Some(format!("{e:#}")), |o| (!o.ok()).then(|| o.tail(1)))
        };
        let all = format!("install -y -qq --no-install-recommends {packages}");
        // Old lists may name packages that are no longer there.
        if let Some(why) = install("update -qq").or_else(|| install(&all)) {
            return Ok(Some(format!("{packages} cannot be had here: {why}")));
        }
        if let Some(program) = absent(programs)? {
            return Ok(Some(format!("there is no {program}")));
        }
    }
    let tried = Cmd::new("unshare").words(NAMESPACES).arg("true").capture(MOMENT)?;
    Ok((!tried.ok()).then(|| format!("namespaces cannot be made here: {}", tried.tail(1))))
}

fn absent<'a>(programs: &[&'a str]) -> anyhow::Result<Option<&'a str>> {
    for program in programs {
        let found = Cmd::new("sh").arg("-c").arg(format!("command -v {program}")).capture(MOMENT)?;
        if !found.ok() {
            return Ok(Some(program));
        }
    }
    Ok(None)
}
