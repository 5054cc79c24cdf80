//! The pods of Kubernetes' MPI Operator, as far as mpiexec sees them: a hostfile and a variable that names it, a key that
//! all share, an sshd that is nobody's root, and names that come after the launcher. With the files of docs/kubernetes.
//!
//! Both workers are this machine, in namespaces of its own; no cluster is started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::packages::{self, NAMESPACES};
use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const LIMIT: Duration = Duration::from_secs(180);
const PROGRAMS: &[&str] = &["sshd", "ssh", "ssh-keygen", "unshare", "ip", "setpriv", "mount"];
const PACKAGES: &str = "openssh-server openssh-client iproute2 util-linux";
const WORKERS: [&str; 2] =
    ["hello-worker-0.hello-worker.default.svc", "hello-worker-1.hello-worker.default.svc"];
/// The home of the user, among the files of this check.
const HOME: &str = "home";
/// The one that nobody has started.
const ABSENT: &str = "hello-worker-2.hello-worker.default.svc";

pub fn run() -> anyhow::Result<()> {
    if let Some(why) = packages::missing(PROGRAMS, PACKAGES)? {
        println!("skipped: {why}");
        return Ok(());
    }
    for target in ["-p mpiexec --bin mpiexec", "-p mpi --example self_check"] {
        Cmd::new(cargo()).words("build --quiet").words(target).dir(root()).run(BUILD_LIMIT)?;
    }
    let directory = Directory::make()?;
    let files = &directory.0;
    lay_out(files)?;
    let cmd = Cmd::new("unshare").words(NAMESPACES).arg("sh").arg(files.join("script"));
    let outcome = cmd.capture(LIMIT)?;
    let read = |name: &str| std::fs::read_to_string(files.join(name)).unwrap_or_default();
    let all = || format!("{}\n{}\n{}\n{}", outcome.end(), outcome.stdout, outcome.stderr, read("sshd.log"));
    ensure!(outcome.ok(), "{}", all());
    for (name, status, expected) in [
        ("late", "0", "waiting up to 300 s for 2 of 2 hosts: hello-worker-0"),
        ("manifest", "9", "exited with status 9"),
        ("absent", "3", "1 of 3 hosts: hello-worker-2"),
    ] {
        let (said, ended) = (read(&format!("{name}.out")), read(&format!("{name}.status")));
        let right = ended.trim() == status && said.contains(expected);
        println!("{} {name}", if right { "pass" } else { "FAIL" });
        ensure!(right, "expected status {status} and {expected:?}, got {ended}{said}\n{}", all());
    }
    let late = read("late.out");
    ensure!(late.matches(" of 4 on ").count() == 4, "expected 4 ranks that are well: {late}");
    Ok(())
}

/// Gone when dropped.
struct Directory(PathBuf);

impl Directory {
    fn make() -> anyhow::Result<Directory> {
        let path = std::env::temp_dir().join(format!("xtask-pods-{}", std::process::id()));
        std::fs::create_dir_all(path.join("home/.ssh"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the image and the operator bring. The user's home is in `files` instead of at the root.
fn lay_out(files: &Path) -> anyhow::Result<()> {
    let documents = root().join("docs/kubernetes");
    let home = format!("{}/{HOME}/", files.display());
    for name in ["ssh_config", "sshd_config"] {
        let text = std::fs::read_to_string(documents.join(name)).context(name)?;
        std::fs::write(files.join(name), text.replace("/mpi/", &home))?;
    }
    for (from, name) in [("debug/mpiexec", "mpiexec"), ("debug/examples/self_check", "self_check")] {
        std::fs::copy(target().join(from), files.join(name))?;
    }
    let hostfile: String = WORKERS.iter().map(|worker| format!("{worker}:2\n")).collect();
    std::fs::write(files.join("hostfile"), &hostfile)?;
    std::fs::write(files.join("hostfile.absent"), format!("{hostfile}{ABSENT}:2\n"))?;
    std::fs::write(files.join("script"), script(files))?;
    Ok(())
}

/// The pods. As in a cluster, root owns the key, and the user can read it.
fn script(files: &Path) -> String {
    let workers = WORKERS.join(" ");
    format!(
        r#"set -e
cd {files}
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.85.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
hostname hello-launcher
echo "127.0.0.1 localhost" > hosts
{{ grep -v :1000: /etc/passwd; echo "mpiuser:x:1000:1000::{files}/home:/bin/sh"; }} > passwd
mount --bind hosts /etc/hosts
mount --bind passwd /etc/passwd
mount --bind ssh_config /etc/ssh/ssh_config
ssh-keygen -q -t ecdsa -b 521 -m PEM -N "" -f home/.ssh/id_rsa
cp home/.ssh/id_rsa.pub home/.ssh/authorized_keys
chmod 644 home/.ssh/id_rsa
chown 1000:1000 home
as_user="setpriv --reuid 1000 --regid 1000 --clear-groups env HOME={files}/home USER=mpiuser"
try() {{
    name=$1; shift
    code=0
    timeout 60 $as_user "$@" > $name.out 2>&1 || code=$?
    echo $code > $name.status
}}
try late K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE={files}/hostfile ./mpiexec ./self_check &
turns=0
until grep -q "Could not resolve" late.out 2>/dev/null || [ $turns = 300 ]; do sleep 0.1; turns=$((turns + 1)); done
echo "10.85.0.1 {workers}" >> hosts
sleep 1
sshd=$(command -v sshd)
$as_user $sshd -De -f {files}/sshd_config > sshd.log 2>&1 &
server=$!
turns=0
until [ -s late.status ] || [ $turns = 650 ]; do sleep 0.1; turns=$((turns + 1)); done
try manifest ./mpiexec --hostfile hostfile --wait-hosts=30 ./self_check exit 3 9
try absent ./mpiexec --hostfile hostfile.absent --wait-hosts=5 ./self_check
kill $server
"#,
        files = files.display()
    )
}
