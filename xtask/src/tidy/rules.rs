//! The tables that `tidy` checks against.

/// From the bottom up: an arrow goes from a crate to one that stands before it, never the other way.
pub const LAYERS: &[&str] = &[
    "mpi-wire",
    "mpi-node",
    "mpi-datatype",
    "mpi-pmi",
    "mpi-btl",
    "mpi-btl-sim",
    "mpi-btl-tcp",
    "mpi-btl-shm",
    "mpi-p2p",
    "mpi-coll",
    "mpi-comm",
    "mpi-rma",
    "mpi-derive",
    "mpi",
    "mpiexec",
    "xtask",
];

/// Only the facade names them, behind its features; tests may use any of them.
pub const BACKENDS: &[&str] = &["mpi-btl-sim", "mpi-btl-tcp", "mpi-btl-shm"];
pub const MAY_NAME_BACKENDS: &[&str] = &["mpi"];

/// All of this workspace that the launcher may link: it has no engine.
pub const LAUNCHER: &str = "mpiexec";
pub const LAUNCHER_MAY_USE: &[&str] = &["mpi-wire", "mpi-pmi", "mpi-node"];

/// Crates that know no operating system, and the crates that would bring one.
pub const WITHOUT_OS: &[&str] = &["mpi-wire", "mpi-datatype", "mpi-coll"];
pub const OS_CRATES: &[&str] =
    &["libc", "nix", "rustix", "socket2", "memmap2", "mio", "polling", "signal-hook", "getrandom"];

/// Crates whose root file forbids unsafe code.
pub const WITHOUT_UNSAFE: &[&str] = &["mpi-wire", "mpi-pmi", "mpi-coll", "mpiexec", "xtask"];

/// The files that may contain `unsafe`. A file that no longer needs it leaves the list.
pub const UNSAFE_FILES: &[&str] = &[];

/// Lines of a source file: a word of warning above the first, an error above the second.
pub const LINES_WANTED: usize = 600;
pub const LINES_ALLOWED: usize = 900;
/// A README is one screen.
pub const README_LINES: usize = 70;

/// What must not be in finished code. Comments and strings are not looked at.
pub const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "#[ignore", "dbg!("];

/// Beginnings of paths of some machine, written so that this file does not contain them.
pub const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];
