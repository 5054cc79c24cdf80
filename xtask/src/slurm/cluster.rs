//! A cluster of two nodes, both on this machine: munged, slurmctld and two slurmd, with a configuration of their own.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::shell::Cmd;

const MOMENT: Duration = Duration::from_secs(20);
/// From the start of a daemon until it serves.
const START_LIMIT: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(100);
/// What the machine is called inside, and where it is reached: not by the loopback address, which no host of several
/// tells another one.
const HOST: &str = "slurmhost";
const ADDRESS: &str = "10.84.0.1";
pub const NODES: [&str; 2] = ["n1", "n2"];

/// Running; its daemons end when this is dropped.
pub struct Cluster {
    directory: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    pub fn start(directory: &Path) -> anyhow::Result<Cluster> {
        network()?;
        let mut cluster = Cluster { directory: directory.to_owned(), daemons: Vec::new() };
        std::fs::write(cluster.file("slurm.conf"), cluster.configuration())?;
        std::fs::create_dir_all(cluster.file("state"))?;
        cluster.munge()?;
        cluster.daemon("slurmctld", &["-D", "-c"])?;
        for node in NODES {
            std::fs::create_dir_all(cluster.file(&format!("spool.{node}")))?;
            cluster.daemon("slurmd", &["-D", "-N", node])?;
        }
        let idle = || {
            let states = cluster.cmd("sinfo").words("-h -N -o %T").capture(MOMENT)?;
            Ok(states.stdout.lines().filter(|line| *line == "idle").count() == NODES.len())
        };
        cluster.wait("nodes that are idle", idle)?;
        Ok(cluster)
    }

    /// A command of Slurm's, in an environment without other launchers.
    pub fn cmd(&self, program: &str) -> Cmd {
        let foreign =
            |name: &str| ["MPI", "PMI", "SLURM", "SALLOC", "SBATCH"].iter().any(|p| name.starts_with(p));
        let names = std::env::vars().map(|(name, _)| name).filter(|name| foreign(name));
        let cmd = names.fold(Cmd::new(program), |cmd, name| cmd.without_env(&name));
        cmd.env("SLURM_CONF", self.file("slurm.conf")).dir(&self.directory)
    }

    pub fn version(&self) -> String {
        let version = self.cmd("sinfo").arg("--version").read(MOMENT);
        version.map_or_else(|_| "Slurm".to_owned(), |text| text.trim().to_owned())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Proves to the daemons that they and their users are who they say; with a key of its own.
    fn munge(&mut self) -> anyhow::Result<()> {
        let mut key = [0; 128];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        std::fs::write(self.file("key"), key)?;
        std::fs::set_permissions(self.file("key"), Permissions::from_mode(0o600))?;
        let option = |name: &str, file: &str| format!("--{name}={}", self.file(file).display());
        let words = [
            "--foreground".to_owned(),
            // The directory's parents may be open to others; nobody else is in these namespaces.
            "--force".to_owned(),
            option("key-file", "key"),
            option("socket", "munge"),
            option("pid-file", "munged.pid"),
            option("log-file", "munged.log"),
            option("seed-file", "seed"),
        ];
        self.daemon("munged", &words.each_ref().map(String::as_str))?;
        let socket = self.file("munge");
        self.wait("munged's socket", || Ok(socket.exists()))
    }

    fn daemon(&mut self, program: &str, words: &[&str]) -> anyhow::Result<()> {
        let log = File::create(self.file(&format!("{program}{}.out", self.daemons.len())))?;
        let child = Command::new(program)
            .args(words)
            .env("SLURM_CONF", self.file("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        self.daemons.push(child);
        Ok(())
    }

    fn wait(&self, what: &str, there: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !there()? {
            if begun.elapsed() > START_LIMIT {
                bail!("no {what} after {} s\n{}", START_LIMIT.as_secs(), self.complaints());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The last lines of what the daemons wrote.
    fn complaints(&self) -> String {
        let files =
            std::fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|end| end == "out" || end == "log"));
        let tail = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}", path.display(), lines[lines.len().saturating_sub(5)..].join("\n"))
        };
        logs.map(tail).collect::<Vec<_>>().join("\n")
    }

    /// Accounting, containers and binding are left out: what is tried is how ranks start, talk and end.
    fn configuration(&self) -> String {
        let at = self.directory.display();
        let nodes: String = NODES
            .iter()
            .zip(17001..)
            .map(|(node, port)| {
                format!("NodeName={node} NodeHostname={HOST} NodeAddr={ADDRESS} Port={port} CPUs=4\n")
            })
            .collect();
        format!(
            "ClusterName=here\n\
             SlurmctldHost={HOST}({ADDRESS})\n\
             SlurmUser=root\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={at}/munge\n\
             CredType=cred/munge\n\
             MpiDefault=none\n\
             ProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\n\
             SlurmdParameters=config_overrides\n\
             ReturnToService=2\n\
             KillWait=3\n\
             StateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool.%n\n\
             SlurmctldPidFile={at}/slurmctld.pid\n\
             SlurmdPidFile={at}/slurmd.%n.pid\n\
             {nodes}\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// The namespace has nothing but a loopback interface that is down.
fn network() -> anyhow::Result<()> {
    for words in [
        "link set lo up",
        "link add v0 type veth peer name v1",
        &format!("addr add {ADDRESS}/24 dev v0"),
        "link set v0 up",
        "link set v1 up",
    ] {
        Cmd::new("ip").words(words).read(MOMENT)?;
    }
    let named = Cmd::new("hostname").arg(HOST).capture(MOMENT)?;
    ensure!(named.ok(), "the host's name: {}", named.tail(1));
    Ok(())
}
