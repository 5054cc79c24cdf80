//! What is measured, and what is wanted: one table of runs and one of figures.

use super::figures::{Target, Unit};
use super::implementations::Implementation;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Suite {
    /// Latency and messages in flight between two ranks
    P2p,
    /// Waiting, queues, overlap, more ranks than cores
    Waiting,
    /// Start to end of an empty program
    Startup,
    /// Collectives of all sizes
    Collectives,
    /// Windows: put, get, accumulate, counters, fences
    OneSided,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Net {
    /// What an implementation takes between processes of one machine
    Shm,
    /// TCP alone
    Tcp,
    /// Two hosts of one core each: what an implementation takes inside a host, TCP between them
    Hosts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A core for each rank
    Spread,
    /// All ranks bound to one core
    OneCore,
    /// More ranks than cores, placed by the kernel
    Crowded,
}

/// One run of the benchmark program.
pub struct Case {
    pub name: &'static str,
    pub suite: Suite,
    pub net: Net,
    pub place: Place,
    pub ranks: u32,
    /// The program's own arguments: its case and sizes.
    pub arguments: &'static str,
}

const fn case(
    name: &'static str,
    suite: Suite,
    net: Net,
    place: Place,
    ranks: u32,
    arguments: &'static str,
) -> Case {
    Case { name, suite, net, place, ranks, arguments }
}

use Net::{Hosts, Shm, Tcp};
use Place::{Crowded, OneCore, Spread};
use Suite::{Collectives, OneSided, P2p, Startup, Waiting};

pub const CASES: &[Case] = &[
    case("shm-latency", P2p, Shm, Spread, 2, "latency 8,64,1024,4096,65536,1048576,4194304"),
    case("shm-window", P2p, Shm, Spread, 2, "window 8,4096,65536,1048576"),
    case("tcp-latency", P2p, Tcp, Spread, 2, "latency 8,1024,65536,1048576"),
    case("tcp-window", P2p, Tcp, Spread, 2, "window 8,65536,1048576"),
    case("shm-layouts", P2p, Shm, Spread, 2, "layouts 65536,1048576"),
    case("idle", Waiting, Shm, Spread, 2, "idle"),
    case("unexpected", Waiting, Shm, Spread, 2, "unexpected"),
    case("overlap", Waiting, Tcp, Spread, 2, "overlap"),
    case("ring", Waiting, Shm, Crowded, 8, "ring"),
    case("one-core", Waiting, Shm, OneCore, 2, "latency 8"),
    case("empty", Startup, Shm, Crowded, 32, "empty"),
    case("coll-2", Collectives, Shm, Spread, 2, "collectives"),
    case("coll-4", Collectives, Shm, Crowded, 4, "collectives 0,8,1024,65536,1048576"),
    case("coll-8", Collectives, Shm, Crowded, 8, "collectives 0,8,1024,65536,1048576"),
    case("coll-16", Collectives, Shm, Crowded, 16, "collectives 0,8,1024,65536"),
    case("coll-hosts", Collectives, Hosts, Crowded, 4, "collectives 8,1048576"),
    case("coll-overlap", Collectives, Tcp, Spread, 2, "overlap-allreduce"),
    case("rma-shm", OneSided, Shm, Spread, 2, "one-sided 8,65536,1048576"),
    case("rma-tcp", OneSided, Tcp, Spread, 2, "one-sided-created 8"),
    case("rma-tickets", OneSided, Shm, Crowded, 8, "tickets"),
    case("rma-fence-2", OneSided, Shm, Spread, 2, "fences"),
    case("rma-fence-8", OneSided, Shm, Crowded, 8, "fences"),
    case("rma-computing", OneSided, Tcp, Spread, 2, "computing"),
];

/// Values that do not count as the best peer's, and why.
pub const NOT_COUNTED: &[(&str, &str, Implementation, &str)] = &[(
    "rma-tcp",
    "put/8",
    Implementation::Mpich,
    "its flush does not wait for the target over TCP: with a target that computes for 400 ms it came back after 0.1 ms, \
     and the value stood there when the target was done; the others' flushes, and ours, come back when it is there",
)];

/// One row of the report. Every value is a cost: less is better.
pub struct Figure {
    pub case: &'static str,
    /// The program's key for it; `elapsed` is the time of the whole run, taken outside.
    pub key: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub target: Target,
}

const fn row(
    case: &'static str,
    key: &'static str,
    title: &'static str,
    unit: Unit,
    target: Target,
) -> Figure {
    Figure { case, key, title, unit, target }
}

use Target::{AtMost, Open, Ratio};

pub const FIGURES: &[Figure] = &[
    row("shm-latency", "latency/8", "shared memory, one way, 8 B", Unit::Us, Ratio(0.80)),
    row("shm-latency", "latency/64", "shared memory, one way, 64 B", Unit::Us, Ratio(0.90)),
    row("shm-latency", "latency/1024", "shared memory, one way, 1 KiB", Unit::Us, Ratio(0.90)),
    row("shm-latency", "latency/4096", "shared memory, one way, 4 KiB", Unit::Us, Ratio(0.90)),
    row("shm-latency", "latency/65536", "shared memory, one way, 64 KiB", Unit::Us, Ratio(0.80)),
    row("shm-latency", "latency/1048576", "shared memory, one way, 1 MiB", Unit::Us, Ratio(0.65)),
    row("shm-latency", "latency/4194304", "shared memory, one way, 4 MiB", Unit::Us, Ratio(0.70)),
    row("shm-window", "window/8", "shared memory, 64 in flight, 8 B", Unit::MessageRate, Ratio(0.67)),
    row(
        "shm-window",
        "window/4096",
        "shared memory, 64 in flight, 4 KiB",
        Unit::Bandwidth(4096),
        Ratio(0.80),
    ),
    row(
        "shm-window",
        "window/65536",
        "shared memory, 64 in flight, 64 KiB",
        Unit::Bandwidth(65536),
        Ratio(0.95),
    ),
    row(
        "shm-window",
        "window/1048576",
        "shared memory, 64 in flight, 1 MiB",
        Unit::Bandwidth(1 << 20),
        Ratio(0.90),
    ),
    row("tcp-latency", "latency/8", "TCP, one way, 8 B", Unit::Us, Ratio(0.90)),
    row("tcp-latency", "latency/1024", "TCP, one way, 1 KiB", Unit::Us, Ratio(0.90)),
    row("tcp-latency", "latency/65536", "TCP, one way, 64 KiB", Unit::Us, Ratio(0.95)),
    row("tcp-latency", "latency/1048576", "TCP, one way, 1 MiB", Unit::Us, Ratio(0.95)),
    row("tcp-window", "window/8", "TCP, 64 in flight, 8 B", Unit::MessageRate, Ratio(0.20)),
    row("tcp-window", "window/65536", "TCP, 64 in flight, 64 KiB", Unit::Bandwidth(65536), Ratio(0.95)),
    row("tcp-window", "window/1048576", "TCP, 64 in flight, 1 MiB", Unit::Bandwidth(1 << 20), Ratio(0.95)),
    row(
        "shm-layouts",
        "column/65536",
        "shared memory, one way, column of a matrix, 64 KiB",
        Unit::Us,
        Ratio(0.80),
    ),
    row(
        "shm-layouts",
        "column/1048576",
        "shared memory, one way, column of a matrix, 1 MiB",
        Unit::Us,
        Ratio(0.80),
    ),
    row(
        "shm-layouts",
        "particles/65536",
        "shared memory, one way, structs with a hole, 64 KiB",
        Unit::Us,
        Ratio(0.80),
    ),
    row(
        "shm-layouts",
        "particles/1048576",
        "shared memory, one way, structs with a hole, 1 MiB",
        Unit::Us,
        Ratio(0.80),
    ),
    row("idle", "idle", "a receive blocked 3 s: processor time", Unit::Cores, AtMost(0.02)),
    row(
        "unexpected",
        "unexpected",
        "10,000 unexpected 64 B messages in reverse tag order, each",
        Unit::Us,
        Ratio(0.80),
    ),
    row(
        "overlap",
        "overlap",
        "4 MiB immediate send, TCP, 50 ms of computing: share left in wait",
        Unit::Share,
        AtMost(0.10),
    ),
    row("overlap", "overlap_blocking_us", "the same transfer without computing", Unit::Us, Open),
    row("ring", "ring/8", "eight ranks, token of 8 B around a ring, per hop", Unit::Us, Ratio(0.80)),
    row("one-core", "latency/8", "two ranks on one core, one way, 8 B", Unit::Us, Ratio(0.50)),
    row("empty", "elapsed", "start to end of an empty program, 32 ranks", Unit::Seconds, Ratio(0.50)),
    row("empty", "rss_kib", "peak resident memory of the largest of 32 ranks", Unit::Kib, AtMost(8192.0)),
    row("coll-2", "barrier/2", "barrier, 2 ranks", Unit::Us, Ratio(0.70)),
    row("coll-2", "broadcast_8/2", "broadcast 8 B, 2 ranks", Unit::Us, Ratio(0.70)),
    row("coll-2", "broadcast_1024/2", "broadcast 1 KiB, 2 ranks", Unit::Us, Open),
    row("coll-2", "broadcast_65536/2", "broadcast 64 KiB, 2 ranks", Unit::Us, Ratio(0.90)),
    row("coll-2", "broadcast_1048576/2", "broadcast 1 MiB, 2 ranks", Unit::Us, Ratio(0.90)),
    row("coll-2", "broadcast_8388608/2", "broadcast 8 MiB, 2 ranks", Unit::Us, Open),
    row("coll-2", "met_broadcast_1024/2", "barrier and broadcast 1 KiB, 2 ranks", Unit::Us, Open),
    row("coll-2", "allreduce_8/2", "allreduce 8 B, 2 ranks", Unit::Us, Ratio(0.70)),
    row("coll-2", "allreduce_1024/2", "allreduce 1 KiB, 2 ranks", Unit::Us, Ratio(0.70)),
    row("coll-2", "allreduce_65536/2", "allreduce 64 KiB, 2 ranks", Unit::Us, Ratio(0.60)),
    row("coll-2", "allreduce_1048576/2", "allreduce 1 MiB, 2 ranks", Unit::Us, Ratio(0.80)),
    row("coll-2", "allreduce_8388608/2", "allreduce 8 MiB, 2 ranks", Unit::Us, Ratio(0.90)),
    row("coll-2", "reduce_65536/2", "reduce 64 KiB, 2 ranks", Unit::Us, Open),
    row("coll-2", "allgather_1024/2", "allgather 1 KiB, 2 ranks", Unit::Us, Ratio(0.70)),
    row("coll-2", "allgather_65536/2", "allgather 64 KiB, 2 ranks", Unit::Us, Open),
    row("coll-2", "alltoall_1024/2", "alltoall 1 KiB, 2 ranks", Unit::Us, Ratio(0.70)),
    row("coll-2", "alltoall_65536/2", "alltoall 64 KiB, 2 ranks", Unit::Us, Open),
    row("coll-4", "barrier/4", "barrier, 4 ranks", Unit::Us, Open),
    row("coll-4", "broadcast_8/4", "broadcast 8 B, 4 ranks", Unit::Us, Open),
    row("coll-4", "broadcast_1024/4", "broadcast 1 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "broadcast_65536/4", "broadcast 64 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "broadcast_1048576/4", "broadcast 1 MiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "met_broadcast_1024/4", "barrier and broadcast 1 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "allreduce_8/4", "allreduce 8 B, 4 ranks", Unit::Us, Open),
    row("coll-4", "allreduce_1024/4", "allreduce 1 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "allreduce_65536/4", "allreduce 64 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "allreduce_1048576/4", "allreduce 1 MiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "reduce_65536/4", "reduce 64 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "allgather_1024/4", "allgather 1 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "allgather_65536/4", "allgather 64 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "alltoall_1024/4", "alltoall 1 KiB, 4 ranks", Unit::Us, Open),
    row("coll-4", "alltoall_65536/4", "alltoall 64 KiB, 4 ranks", Unit::Us, Open),
    row("coll-8", "barrier/8", "barrier, 8 ranks", Unit::Us, Ratio(0.50)),
    row("coll-8", "broadcast_8/8", "broadcast 8 B, 8 ranks", Unit::Us, Open),
    row("coll-8", "broadcast_1024/8", "broadcast 1 KiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "broadcast_65536/8", "broadcast 64 KiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "broadcast_1048576/8", "broadcast 1 MiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "met_broadcast_1024/8", "barrier and broadcast 1 KiB, 8 ranks", Unit::Us, Ratio(0.60)),
    row("coll-8", "allreduce_8/8", "allreduce 8 B, 8 ranks", Unit::Us, Ratio(0.50)),
    row("coll-8", "allreduce_1024/8", "allreduce 1 KiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "allreduce_65536/8", "allreduce 64 KiB, 8 ranks", Unit::Us, Ratio(0.50)),
    row("coll-8", "allreduce_1048576/8", "allreduce 1 MiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "reduce_65536/8", "reduce 64 KiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "allgather_1024/8", "allgather 1 KiB, 8 ranks", Unit::Us, Ratio(0.50)),
    row("coll-8", "allgather_65536/8", "allgather 64 KiB, 8 ranks", Unit::Us, Open),
    row("coll-8", "alltoall_1024/8", "alltoall 1 KiB, 8 ranks", Unit::Us, Ratio(0.50)),
    row("coll-8", "alltoall_65536/8", "alltoall 64 KiB, 8 ranks", Unit::Us, Open),
    row("coll-16", "barrier/16", "barrier, 16 ranks", Unit::Us, Ratio(0.50)),
    row("coll-16", "broadcast_8/16", "broadcast 8 B, 16 ranks", Unit::Us, Open),
    row("coll-16", "broadcast_1024/16", "broadcast 1 KiB, 16 ranks", Unit::Us, Open),
    row("coll-16", "broadcast_65536/16", "broadcast 64 KiB, 16 ranks", Unit::Us, Open),
    row("coll-16", "met_broadcast_1024/16", "barrier and broadcast 1 KiB, 16 ranks", Unit::Us, Open),
    row("coll-16", "allreduce_8/16", "allreduce 8 B, 16 ranks", Unit::Us, Ratio(0.50)),
    row("coll-16", "allreduce_1024/16", "allreduce 1 KiB, 16 ranks", Unit::Us, Open),
    row("coll-16", "allreduce_65536/16", "allreduce 64 KiB, 16 ranks", Unit::Us, Ratio(0.50)),
    row("coll-16", "reduce_65536/16", "reduce 64 KiB, 16 ranks", Unit::Us, Open),
    row("coll-16", "allgather_1024/16", "allgather 1 KiB, 16 ranks", Unit::Us, Ratio(0.50)),
    row("coll-16", "allgather_65536/16", "allgather 64 KiB, 16 ranks", Unit::Us, Open),
    row("coll-16", "alltoall_1024/16", "alltoall 1 KiB, 16 ranks", Unit::Us, Ratio(0.50)),
    row("coll-16", "alltoall_65536/16", "alltoall 64 KiB, 16 ranks", Unit::Us, Open),
    row("coll-hosts", "broadcast_8/4", "broadcast 8 B, 4 ranks on two hosts", Unit::Us, Open),
    row("coll-hosts", "broadcast_1048576/4", "broadcast 1 MiB, 4 ranks on two hosts", Unit::Us, Open),
    row("coll-hosts", "allreduce_8/4", "allreduce 8 B, 4 ranks on two hosts", Unit::Us, Ratio(0.80)),
    row("coll-hosts", "allreduce_1048576/4", "allreduce 1 MiB, 4 ranks on two hosts", Unit::Us, Ratio(0.80)),
    row(
        "coll-overlap",
        "overlap_allreduce",
        "1 MiB immediate allreduce, TCP, 50 ms of computing: share left in wait",
        Unit::Share,
        AtMost(0.10),
    ),
    row(
        "coll-overlap",
        "overlap_allreduce_blocking_us",
        "the same allreduce without computing",
        Unit::Us,
        Open,
    ),
    row("rma-shm", "put/8", "shared memory, put and flush, 8 B", Unit::Us, Ratio(1.00)),
    row("rma-shm", "put/65536", "shared memory, put and flush, 64 KiB", Unit::Us, Ratio(0.95)),
    row("rma-shm", "put/1048576", "shared memory, put and flush, 1 MiB", Unit::Us, Ratio(0.95)),
    row("rma-shm", "get/8", "shared memory, get and flush, 8 B", Unit::Us, Ratio(1.00)),
    row("rma-shm", "get/65536", "shared memory, get and flush, 64 KiB", Unit::Us, Ratio(0.95)),
    row("rma-shm", "get/1048576", "shared memory, get and flush, 1 MiB", Unit::Us, Ratio(0.95)),
    row(
        "rma-shm",
        "acc/8",
        "shared memory, accumulate (sum of doubles) and flush, 8 B",
        Unit::Us,
        Ratio(1.00),
    ),
    row(
        "rma-shm",
        "acc/65536",
        "shared memory, accumulate (sum of doubles) and flush, 64 KiB",
        Unit::Us,
        Ratio(0.95),
    ),
    row(
        "rma-shm",
        "acc/1048576",
        "shared memory, accumulate (sum of doubles) and flush, 1 MiB",
        Unit::Us,
        Ratio(0.95),
    ),
    row("rma-shm", "fop/8", "shared memory, fetch and op and flush, 8 B", Unit::Us, Ratio(0.90)),
    row("rma-tickets", "tickets", "fetch and op by 8 ranks on one counter", Unit::Us, Ratio(0.50)),
    row("rma-fence-2", "fence", "fence, 2 ranks", Unit::Us, Ratio(0.70)),
    row("rma-fence-8", "fence", "fence, 8 ranks", Unit::Us, Ratio(0.70)),
    row("rma-tcp", "put/8", "TCP, put and flush, 8 B", Unit::Us, Ratio(0.90)),
    row("rma-tcp", "get/8", "TCP, get and flush, 8 B", Unit::Us, Ratio(0.90)),
    row("rma-computing", "computing", "TCP, put to a computing target", Unit::Us, Ratio(0.05)),
];
