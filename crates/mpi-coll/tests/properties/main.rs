//! Every collective against a serial model (`calls`), on simulated engines with ranks anywhere. Everything is drawn from
//! a seed.
//!
//! A failure names its seed; `MPI_TEST_SEED=N` runs that one alone.

#[path = "../world/mod.rs"]
mod world;

mod between;
mod calls;

use calls::{Form, disagreement, reductions};
use mpi_btl_sim::{Rng, SimConfig};
use mpi_coll::*;
use world::{Placement, World};

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
    let config = SimConfig { boards: rng.chance(500), reach: rng.chance(500), ..config };
    let w = World::placed(n, seed, config, &settings(&mut rng), placement);
    let draws = calls::drawn(&mut rng, n);
    let what = format!("MPI_TEST_SEED={seed}, {n} ranks, {placement:?}");
    w.threads(&what, |e, t, r| calls::run(&draws, &what, e, t, r));
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

/// Every collective, in every form, called differently by one rank: in checked mode all hear of it.
#[test]
fn ranks_that_disagree_hear_of_both_sides() {
    for n in [2, 3, 5] {
        for which in disagreement::COLLECTIVES {
            for differs in which.differs {
                for form in [Form::Blocking, Form::Immediate, Form::Persistent] {
                    let settings = Settings::default().checked(true);
                    let w = World::new(n, 1, SimConfig::calm(n), &settings);
                    w.threads(
                        &format!("{} differs in {differs:?}, {form:?}, {n} ranks", which.name),
                        |e, t, r| {
                            let other = (r == n - 1).then_some(*differs);
                            let result = disagreement::call(which, e, t, form, other);
                            disagreement::names_both_sides(which, *differs, n, result);
                        },
                    );
                }
            }
        }
    }
}

/// Many immediate collectives of all kinds at once, which are waited for in an order drawn by every rank for itself.
#[test]
fn many_at_once_complete_in_any_order() {
    for seed in seeds(300..312) {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(7) as usize;
        let placement = Placement::draw(&mut rng);
        let w = World::placed(n, seed, SimConfig::rough(n), &settings(&mut rng), placement);
        let many = 10 + rng.below(60) as usize;
        let what = format!("MPI_TEST_SEED={seed}, {n} ranks, {many} at once, {placement:?}");
        w.threads(&what, |e, t, r| calls::many::at_once(e, t, r, many, seed));
    }
}
