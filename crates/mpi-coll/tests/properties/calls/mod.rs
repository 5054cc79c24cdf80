//! Every collective against a serial model: in its three forms, on elements of every kind, with every kind of operation,
//! any root, in place or not. What is called is drawn from a seed, the same on all ranks.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod disagreement;
pub mod elements;
pub mod many;
pub mod movement;
pub mod reductions;

use elements::Kind;
use mpi_btl_sim::Rng;
use mpi_coll::Team;
use mpi_p2p::{Engine, Error, RequestId};

/// How a rank calls a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Blocking,
    Immediate,
    Persistent,
}

/// One call, as all ranks know it.
#[derive(Clone, Debug)]
pub struct Draw {
    pub kind: Kind,
    /// Elements of a vector or block.
    pub count: usize,
    pub root: usize,
    pub in_place: bool,
    /// All ranks, or none.
    pub persistent: bool,
    /// All ranks, or none: a blocking collective does not match an immediate one (MPI-4.1 §6.12).
    pub immediate: bool,
    /// For what else is to be drawn.
    pub seed: u64,
}

impl Draw {
    pub fn new(rng: &mut Rng, n: usize) -> Draw {
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
            immediate: rng.chance(500),
            seed: rng.next_u64(),
        }
    }

    pub fn form(&self) -> Form {
        match (self.persistent, self.immediate) {
            (true, _) => Form::Persistent,
            (false, true) => Form::Immediate,
            (false, false) => Form::Blocking,
        }
    }

    /// Elements of rank `r`'s block, where every rank has one of its own length; zeros among them.
    pub fn length(&self, r: usize) -> usize {
        Rng::new(self.seed ^ (r as u64 + 1)).below(self.count.min(50) as u64 + 2) as usize
    }
}

/// Waits for what was started; a persistent one is started first, twice if that changes nothing.
pub fn finish(e: &Engine, form: Form, twice: bool, id: Result<RequestId, Error>) {
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
        let form = $draw.form();
        match form {
            Form::Blocking => mpi_coll::$blocking($e, $t, $($arg),*).unwrap(),
            Form::Immediate => {
                finish($e, form, false, mpi_coll::$immediate($e, $t, $($arg),*));
            }
            Form::Persistent => {
                finish($e, form, !$draw.in_place, mpi_coll::$init($e, $t, $($arg),*));
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

/// Every collective once, in an order drawn from the seed.
pub fn drawn(rng: &mut Rng, n: usize) -> Vec<(usize, Draw)> {
    let mut order: Vec<usize> = (0..COLLECTIVES.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order.into_iter().map(|i| (i, Draw::new(rng, n))).collect()
}

/// Runs `body`; names what was run if it fails.
pub fn named(what: &str, r: usize, name: &str, draw: &Draw, body: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        eprintln!("{what}: rank {r}: {name} of {draw:?}");
        std::panic::resume_unwind(panic);
    }
}

/// Runs what was drawn as rank `r`.
pub fn run(draws: &[(usize, Draw)], what: &str, e: &Engine, t: &Team, r: usize) {
    for (which, draw) in draws {
        let (name, body) = COLLECTIVES[*which];
        named(what, r, name, draw, || body(draw, e, t, r));
    }
}
