//! A job over the real ssh, between hosts made of network namespaces, each with an sshd of its own.
//!
//! Needs the right to make namespaces, `ssh`, `ssh-keygen`, and `sshd` with its user; elsewhere the test says
//! so and ends. `MPI_TEST_SSHD` names an sshd that is not in its usual place.

mod common;

use common::net::Hosts;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The daemons of ssh, ended when this is dropped, and the directory with keys and settings.
struct Servers {
    directory: PathBuf,
    running: Vec<Child>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.running {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn sshd() -> Result<PathBuf, String> {
    let usual = std::env::var_os("MPI_TEST_SSHD").map_or(PathBuf::from("/usr/sbin/sshd"), PathBuf::from);
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match (usual.exists(), passwd.lines().any(|line| line.starts_with("sshd:"))) {
        (true, true) => Ok(usual),
        (false, _) => Err(format!("there is no {}", usual.display())),
        (true, false) => Err(String::from("there is no user sshd")),
    }
}

fn key(path: &Path) -> Result<(), String> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    let made = command.status().map_err(|e| format!("ssh-keygen: {e}"))?;
    if made.success() { Ok(()) } else { Err(String::from("ssh-keygen makes no key")) }
}

/// Keys, settings, an `ssh` that takes them, and an sshd on each host but the first.
fn serve(hosts: &Hosts, count: usize) -> Result<Servers, String> {
    let sshd = sshd()?;
    let directory = std::env::temp_dir().join(format!("mpiexec-sshd-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
    let mut servers = Servers { directory: directory.clone(), running: Vec::new() };
    let at = directory.display();
    key(&directory.join("host"))?;
    key(&directory.join("user"))?;
    let write =
        |name: &str, text: String| std::fs::write(directory.join(name), text).map_err(|e| e.to_string());
    write(
        "sshd_config",
        format!(
            "HostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nPermitRootLogin yes\nUsePAM no\n\
             StrictModes no\nPidFile none\n"
        ),
    )?;
    write(
        "ssh_config",
        format!(
            "IdentityFile {at}/user\nUserKnownHostsFile {at}/known\nLogLevel ERROR\n\
                 StrictHostKeyChecking accept-new\n"
        ),
    )?;
    let ssh = Command::new("sh").args(["-c", "command -v ssh"]).output().map_err(|e| e.to_string())?;
    let ssh = String::from_utf8_lossy(&ssh.stdout).trim().to_owned();
    write("ssh", format!("#!/bin/sh\nexec {ssh} -F {at}/ssh_config \"$@\"\n"))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.join("ssh"), mode).map_err(|e| e.to_string())?;
    for host in 1..count {
        let start = format!(
            "mount -t tmpfs none /run && mkdir /run/sshd && exec {} -D -e -f {at}/sshd_config",
            sshd.display()
        );
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &hosts.name(host), "unshare", "-m", "sh", "-c", &start]);
        let server = server.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
        servers.running.push(server);
    }
    Ok(servers)
}

/// Runs mpiexec on the first host.
fn mpiexec(hosts: &Hosts, servers: &Servers, options: &[&str]) -> Output {
    let path = format!("{}:{}", servers.directory.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &hosts.name(0)]).arg(common::mpiexec());
    command.args(["-q", "--timeout", "50"]).args(options);
    command.env("PATH", path).env("MPIEXEC_CONFIG", "/dev/null").output().unwrap()
}

#[test]
fn a_job_over_ssh() {
    let Some(hosts) = Hosts::new("ssh", 3) else { return };
    let servers = match serve(&hosts, 3) {
        Ok(servers) => servers,
        Err(why) => return eprintln!("not tested, sshd cannot be started here: {why}"),
    };
    let begun = Instant::now();
    while !mpiexec(&hosts, &servers, &["-host", "10.79.0.2,10.79.0.3", "true"]).status.success() {
        assert!(begun.elapsed() < common::BOUND, "sshd does not come up");
        std::thread::sleep(Duration::from_millis(50));
    }
    let rank = common::rank_program().to_str().unwrap();
    for options in [&[][..], &["--copy-self"]] {
        let list = ["-host", "10.79.0.2:2,10.79.0.3", rank, "init", "get:2", "who", "finalize"];
        let output = mpiexec(&hosts, &servers, &[options, &list].concat());
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert_eq!((out.matches("rank 2\n").count(), out.matches(" of 3 in ").count()), (3, 3), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    // Nobody answers there: ssh's own words stand under the host's name.
    let output = mpiexec(&hosts, &servers, &["-host", "10.79.0.1", "--launcher", "ssh", "true"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(err.contains("mpiexec: 10.79.0.1: ssh: connect to host") && err.contains("refused"), "{err}");
    assert!(err.contains("host 10.79.0.1: no daemon answered: ssh ended with status 255"), "{err}");
}
