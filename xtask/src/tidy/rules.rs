//! The tables that `tidy` checks against.

/// From the bottom up: an arrow goes from a crate to one that stands before it, never the other way.
pub const LAYERS: &[&str] = &[
    "mpi-wire",
    "mpi-dissect",
    "mpi-node",
    "mpi-record",
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
    "mpi-examples",
    "mpiexec",
    "xtask",
];

/// Only the facade names them, behind its features; tests may use any of them.
pub const BACKENDS: &[&str] = &["mpi-btl-sim", "mpi-btl-tcp", "mpi-btl-shm"];
pub const MAY_NAME_BACKENDS: &[&str] = &["mpi"];

/// All of this workspace that the launcher may link: it has no engine.
pub const LAUNCHER: &str = "mpiexec";
pub const LAUNCHER_MAY_USE: &[&str] = &["mpi-wire", "mpi-pmi", "mpi-node", "mpi-record"];

/// Crates that know no operating system, and the crates that would bring one.
pub const WITHOUT_OS: &[&str] = &["mpi-wire", "mpi-dissect", "mpi-datatype", "mpi-coll"];
pub const OS_CRATES: &[&str] =
    &["libc", "nix", "rustix", "socket2", "memmap2", "mio", "polling", "signal-hook", "getrandom"];

/// Crates whose root file forbids unsafe code.
pub const WITHOUT_UNSAFE: &[&str] = &["mpi-wire", "mpi-dissect", "mpi-pmi", "mpi-coll", "mpiexec", "xtask"];

/// The files that may contain `unsafe`, and what for. A file that no longer needs it leaves the list.
/// An entry that ends with a slash is a folder.
pub const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/mpi/src/", "rsmpi's interface has unsafe traits, and buffers are made of raw parts here"),
    ("crates/mpi-btl-shm/src/boards.rs", "copying from and to a peer's memory"),
    ("crates/mpi-btl-shm/src/faulty.rs", "handing on get across processes"),
    ("crates/mpi-btl-shm/src/lib.rs", "the inherited segment's descriptor"),
    ("crates/mpi-btl-shm/src/offers.rs", "copying into a peer's memory"),
    ("crates/mpi-btl-shm/src/tx.rs", "get and put across processes"),
    ("crates/mpi-btl-sim/src/boards.rs", "the trait's reaching into memory"),
    ("crates/mpi-btl-sim/src/conformance/remote.rs", "tests of get and put"),
    ("crates/mpi-btl-sim/src/conformance/waking.rs", "tests of sleeping on a futex or a descriptor"),
    ("crates/mpi-btl-sim/src/memory.rs", "simulated remote memory"),
    ("crates/mpi-btl-sim/src/tx.rs", "get and put in the simulation"),
    ("crates/mpi-btl-tcp/src/sys.rs", "sendmsg and recvmsg on memory named by spans"),
    ("crates/mpi-btl-tcp/src/tx.rs", "the traits' get and put"),
    ("crates/mpi-btl/src/boards.rs", "the trait's promises about a peer's memory"),
    ("crates/mpi-btl/src/halves.rs", "the traits' promises about remote memory"),
    ("crates/mpi-btl/src/span.rs", "memory that a transport reads or writes"),
    ("crates/mpi-comm/src/comm/raw.rs", "communicators as addresses, for faces with handles"),
    ("crates/mpi-datatype/src/buffer.rs", "the promises of a buffer"),
    ("crates/mpi-datatype/src/kernels.rs", "reductions over raw elements"),
    ("crates/mpi-datatype/src/op.rs", "user operations over raw elements"),
    ("crates/mpi-datatype/src/pack.rs", "moving bytes by a type map"),
    ("crates/mpi-datatype/src/pool.rs", "memory of temporaries"),
    ("crates/mpi-datatype/src/scratch.rs", "temporaries with a datatype's layout"),
    ("crates/mpi-derive/src/layout.rs", "the code that it writes"),
    ("crates/mpi-node/src/biased.rs", "the value behind the lock"),
    ("crates/mpi-node/src/block.rs", "memory by a descriptor"),
    ("crates/mpi-node/src/cross_copy.rs", "process_vm_readv and its twin"),
    ("crates/mpi-node/src/futex.rs", "the system call"),
    ("crates/mpi-node/src/inbox.rs", "slots in shared memory"),
    ("crates/mpi-node/src/membarrier.rs", "the system call"),
    ("crates/mpi-node/src/ring/consumer.rs", "slots in shared memory"),
    ("crates/mpi-node/src/ring/mod.rs", "slots in shared memory"),
    ("crates/mpi-node/src/ring/producer.rs", "slots in shared memory"),
    ("crates/mpi-node/src/ring/tests.rs", "slots in memory of the tests"),
    ("crates/mpi-node/src/segment/access.rs", "typed views of the mapping"),
    ("crates/mpi-node/src/segment/again.rs", "typed views of the mapping"),
    ("crates/mpi-node/src/segment/mod.rs", "the mapping"),
    ("crates/mpi-node/src/segment/region.rs", "parts of the mapping"),
    ("crates/mpi-node/src/image.rs", "the argument lists of execve"),
    ("crates/mpi-node/src/spawn.rs", "what runs between fork and exec"),
    ("crates/mpi-node/src/standard.rs", "a look at the standard streams before main"),
    ("crates/mpi-node/src/terminal.rs", "the system call"),
    ("crates/mpi-p2p/src/board.rs", "reaching into memory that a peer has lent"),
    ("crates/mpi-p2p/src/engine.rs", "receives whose memory the caller names on arrival"),
    ("crates/mpi-p2p/src/lend.rs", "a closure that looks at a message"),
    ("crates/mpi-p2p/src/memory.rs", "the user's buffers"),
    ("crates/mpi-p2p/src/sleep.rs", "eventfd, ppoll and futex"),
    ("crates/mpi-p2p/src/waiting.rs", "a futex word that two threads look at"),
    ("crates/mpi-p2p/src/waking.rs", "receives whose memory is had on arrival"),
    ("crates/mpi-record/src/map.rs", "the mapping of the records, and the processor's counter"),
    ("crates/mpi-rma/src/access.rs", "targets whose bounds were checked"),
    ("crates/mpi-rma/src/accumulate.rs", "combining with a target's memory"),
    ("crates/mpi-rma/src/combine.rs", "targets whose bounds were checked"),
    ("crates/mpi-rma/src/board.rs", "typed views of shared memory"),
    ("crates/mpi-rma/src/create.rs", "the promises about a user's memory"),
    ("crates/mpi-rma/src/memory.rs", "reading and writing a target's memory"),
    ("crates/mpi-rma/src/quick.rs", "the same, compiled into the caller"),
    ("crates/mpi-rma/src/target.rs", "a rank's own memory on behalf of others"),
    ("crates/mpi-rma/src/window.rs", "the base address of a window"),
];

/// Lines of a source file: a word of warning above the first, an error above the second.
pub const LINES_WANTED: usize = 600;
pub const LINES_ALLOWED: usize = 900;
/// A README is one screen.
pub const README_LINES: usize = 70;

/// What must not be in finished code. Comments and strings are not looked at.
pub const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "#[ignore", "dbg!("];

/// Beginnings of paths of some machine, written so that this file does not contain them.
pub const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];
