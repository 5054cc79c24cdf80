//! Slurm itself, started on this machine for a moment: whether our programs start under `srun --mpi=pmi2`, and whether
//! mpiexec uses an allocation.
//!
//! Everything runs in namespaces of its own (network, host name, processes), so that no port and no process is met from
//! outside, and all of it ends with the first process there, which is this program again with `--inside`.

mod cases;
mod cluster;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use cluster::Cluster;

use crate::packages::{self, NAMESPACES};
use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// For all cases together.
const LIMIT: Duration = Duration::from_secs(600);

/// As Debian calls them.
const PACKAGES: &str = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge";
const PROGRAMS: &[&str] =
    &["slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel", "sinfo", "munged", "unshare", "ip"];

#[derive(clap::Args, Default)]
pub struct Options {
    /// Only the cases whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// What the command does once it is in namespaces of its own; the directory for its files
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(directory) = &options.inside {
        return inside(directory, options);
    }
    if let Some(why) = packages::missing(PROGRAMS, PACKAGES)? {
        println!("skipped: {why}");
        return Ok(());
    }
    for target in ["-p mpiexec --bin mpiexec", "-p mpi --example self_check"] {
        Cmd::new(cargo()).words("build --quiet").words(target).dir(root()).run(BUILD_LIMIT)?;
    }
    let directory = Directory::make()?;
    let mut cmd = Cmd::new("unshare").words(NAMESPACES).arg(std::env::current_exe()?).arg("slurm");
    if let Some(only) = &options.only {
        cmd = cmd.arg("--only").arg(only);
    }
    cmd.arg("--inside").arg(&directory.0).run(LIMIT)
}

/// Short, since sockets are in it, and gone when dropped.
struct Directory(PathBuf);

impl Directory {
    fn make() -> anyhow::Result<Directory> {
        let path = std::env::temp_dir().join(format!("xtask-slurm-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn inside(directory: &Path, options: &Options) -> anyhow::Result<()> {
    let cluster = match Cluster::start(directory) {
        Ok(cluster) => cluster,
        Err(why) => {
            println!("skipped: Slurm does not start here: {why:#}");
            return Ok(());
        }
    };
    let site = cases::Site {
        cluster,
        mpiexec: target().join("debug/mpiexec"),
        check: target().join("debug/examples/self_check"),
        directory: directory.to_owned(),
    };
    let wanted = |name: &str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in cases::ALL.iter().filter(|(name, _)| wanted(name)) {
        let result = case(&site).and_then(|()| site.nothing_is_left());
        match &result {
            Ok(()) => println!("pass {name}"),
            Err(e) => println!("FAIL {name}\n{e:#}"),
        }
        if result.is_ok() { passed += 1 } else { failed += 1 }
    }
    println!("{passed} passed, {failed} failed, under {}", site.cluster.version());
    ensure!(passed + failed > 0, "no case has that name");
    ensure!(failed == 0, "{failed} cases failed under Slurm");
    Ok(())
}
