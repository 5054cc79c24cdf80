//! Every collective against a serial model: in its three forms, on elements of every kind, with every kind of operation,
//! any root, in place or not, with ranks anywhere. Everything is drawn from a seed, the same on all ranks.
//!
//! A failure names its seed; `MPI_TEST_SEED=N` runs that one alone.

#[path = "../world/mod.rs"]
mod world;

mod between;
mod elements;
mod movement;
mod reductions;

use elements::Kind;
use mpi_btl_sim::{Rng, SimConfig};
use mpi_coll::*;
use mpi_p2p::{Engine, Error, RequestId};
use world::{Placement, World};

/// How a rank calls a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Blocking,
    Immediate,
    Persistent,
}

/// One call, as all ranks know it.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) kind: Kind,
    /// Elements of a vector or block.
    pub(crate) count: usize,
    pub(crate) root: usize,
    pub(crate) in_place: bool,
    /// All ranks, or none.
    pub(crate) persistent: bool,
    /// Bit r: rank r calls the immediate form, which sends the same messages as the blocking one.
    immediate: u64,
    /// For what else is to be drawn.
    pub(crate) seed: u64,
}

impl Draw {
    fn new(rng: &mut Rng, n: usize) -> Draw {
        let kinds = elements::kinds();
        let count = match rng.below(8) {
            0 => 0,
            1..=5 => 1 + rng.below(12) as usize,
            6 => rng.below(400) as usize,
            _ => 4000 + rng.below(4000) as usize,
        };
        Draw {
            kind: kinds[rng.below(kinds.len() as u64) as usize].clone(),
            count,
            root: rng.below(n as u64) as usize,
            in_place: rng.chance(400),
            persistent: rng.chance(250),
            immediate: rng.next_u64(),
            seed: rng.next_u64(),
        }
    }

    pub(crate) fn form(&self, rank: usize) -> Form {
        match (self.persistent, self.immediate >> (rank % 64) & 1) {
            (true, _) => Form::Persistent,
            (false, 1) => Form::Immediate,
            (false, _) => Form::Blocking,
        }
    }

    /// Elements of rank `r`'s block, where every rank has one of its own length; zeros among them.
    pub(crate) fn length(&self, r: usize) -> usize {
        Rng::new(self.seed ^ (r as u64 + 1)).below(self.count.min(50) as u64 + 2) as usize
    }
}

/// Waits for what was started; a persistent one is started first, twice if that changes nothing.
pub(crate) fn finish(e: &Engine, form: Form, twice: bool, id: Result<RequestId, Error>) {
    let id = id.unwrap();
    let rounds = match form {
        Form::Persistent if twice => 2,
        _ => 1,
    };
    for _ in 0..rounds {
        if form == Form::Persistent {
            e.restart(id).unwrap();
        }
        e.wait(id).unwrap();
    }
    if form == Form::Persistent {
        e.free(id).unwrap();
    }
}

/// Calls a collective in the form that a rank takes, to its end.
macro_rules! call {
    ($draw:expr, $e:expr, $t:expr, $r:expr, $blocking:ident, $immediate:ident, $init:ident($($arg:expr),*)) => {{
        let form = $draw.form($r);
        match form {
            $crate::Form::Blocking => mpi_coll::$blocking($e, $t, $($arg),*).unwrap(),
            $crate::Form::Immediate => {
                $crate::finish($e, form, false, mpi_coll::$immediate($e, $t, $($arg),*));
            }
            $crate::Form::Persistent => {
                $crate::finish($e, form, !$draw.in_place, mpi_coll::$init($e, $t, $($arg),*));
            }
        }
    }};
}

pub(crate) use call;

type Body = fn(&Draw, &Engine, &Team, usize);

/// Every collective of one group, as one rank runs it and checks what it got.
const COLLECTIVES: &[(&str, Body)] = &[
    ("barrier", movement::barrier),
    ("broadcast", movement::broadcast),
    ("gather", movement::gather),
    ("gatherv", movement::gatherv),
    ("scatter", movement::scatter),
    ("scatterv", movement::scatterv),
    ("allgather", movement::allgather),
    ("allgatherv", movement::allgatherv),
    ("alltoall", movement::alltoall),
    ("alltoallv", movement::alltoallv),
    ("alltoallw", movement::alltoallw),
    ("neighborhood", movement::neighborhood),
    ("reduce", reductions::reduce),
    ("allreduce", reductions::allreduce),
    ("scan", reductions::scan),
    ("exscan", reductions::exscan),
    ("reduce-scatter block", reductions::reduce_scatter_block),
    ("reduce-scatter", reductions::reduce_scatter),
];

/// Algorithms that the user forces, drawn from a seed.
fn settings(rng: &mut Rng) -> Settings {
    let mut s = Settings::default();
    let all: [(&str, Vec<&str>); 8] = [
        ("BROADCAST", Broadcast::ALL.iter().map(|a| a.0).collect()),
        ("REDUCE", Reduce::ALL.iter().map(|a| a.0).collect()),
        ("ALLREDUCE", Allreduce::ALL.iter().map(|a| a.0).collect()),
        ("GATHER", Gather::ALL.iter().map(|a| a.0).collect()),
        ("SCATTER", Scatter::ALL.iter().map(|a| a.0).collect()),
        ("ALLGATHER", Allgather::ALL.iter().map(|a| a.0).collect()),
        ("ALLTOALL", Alltoall::ALL.iter().map(|a| a.0).collect()),
        ("REDUCE_SCATTER", ReduceScatter::ALL.iter().map(|a| a.0).collect()),
    ];
    for (name, algorithms) in all {
        if rng.chance(300) {
            s.set(name, algorithms[rng.below(algorithms.len() as u64) as usize]).unwrap();
        }
    }
    s.checked(rng.chance(150))
}

/// The seeds of a test: `MPI_TEST_SEED` alone, if it is set.
fn seeds(all: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("MPI_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("MPI_TEST_SEED is a number")],
        Err(_) => all.collect(),
    }
}

/// A world of `n` ranks, and every collective once, in an order of its own.
fn round(seed: u64, n: usize, placement: Option<Placement>) {
    let mut rng = Rng::new(seed);
    let placement = placement.unwrap_or_else(|| Placement::draw(&mut rng));
    let config = if rng.chance(300) { SimConfig::rough(n) } else { SimConfig::calm(n) };
    let w = World::placed(n, seed, config, &settings(&mut rng), placement);
    let mut order: Vec<usize> = (0..COLLECTIVES.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let draws: Vec<(usize, Draw)> = order.into_iter().map(|i| (i, Draw::new(&mut rng, n))).collect();
    let what = format!("MPI_TEST_SEED={seed}, {n} ranks, {placement:?}");
    w.threads(&what, |e, t, r| {
        for (which, draw) in &draws {
            let (name, body) = COLLECTIVES[*which];
            let named = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(draw, e, t, r)));
            if let Err(panic) = named {
                eprintln!("{what}: rank {r}: {name} of {draw:?}");
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[test]
fn every_number_of_ranks_and_placement() {
    for seed in seeds(0..17) {
        let n = 1 + (seed % 17) as usize;
        for placement in [Placement::Together, Placement::Split(2), Placement::RoundRobin(3)] {
            round(seed, n, Some(placement));
        }
    }
}

#[test]
fn everything_drawn() {
    for seed in seeds(100..180) {
        let n = 1 + Rng::new(seed).below(17) as usize;
        round(seed, n, None);
    }
}

#[test]
fn between_two_groups() {
    for seed in seeds(200..240) {
        between::round(seed);
    }
}

/// Sums of numbers that do not add up exactly: the same bits on all ranks, in every form, and in every run, whatever the
/// order of events.
#[test]
fn reductions_give_the_same_bits_everywhere_and_every_time() {
    for n in [2, 3, 5, 8, 13] {
        for placement in [Placement::Together, Placement::Split(2), Placement::RoundRobin(2)] {
            for count in [1, 7, 600, 9000] {
                let mut results = Vec::new();
                for seed in [1, 2] {
                    let w = World::placed(n, seed, SimConfig::rough(n), &Settings::default(), placement);
                    let all = std::sync::Mutex::new(Vec::new());
                    w.threads(&format!("{n} ranks, {count} doubles, {placement:?}"), |e, t, r| {
                        let bits = reductions::inexact(e, t, r, count);
                        all.lock().unwrap().push(bits);
                    });
                    results.extend(all.into_inner().unwrap());
                }
                let first = &results[0];
                assert!(
                    results.iter().all(|bits| bits == first),
                    "{n} ranks, {count} doubles, {placement:?}"
                );
            }
        }
    }
}
