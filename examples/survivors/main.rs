//! A stencil that goes on when ranks die, and ends with the right answer.
//!
//! Heat along a rod: in every step each cell moves towards the mean of its neighbours. The rod is cut into one part per
//! rank. After every stretch of steps all ranks exchange their parts, so that each holds the whole rod, and agree
//! whether everybody has it: if so, that is where they go on from, else they begin the stretch again, on whoever is left.
//! What they agree on is the same everywhere, whatever dies meanwhile, so nobody goes on from another place.
//!
//! Usage: `mpiexec --enable-recovery -n 8 survivors [shrink|respawn [LOSSES [SEED]]]`. Those left share the work, or spawn
//! others in the place of the dead. So many ranks kill themselves, at moments drawn from the seed.

mod recovery;
mod rod;

use std::process::ExitCode;
use std::time::Duration;

use mpi::ft::FaultTolerance;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use recovery::Way;
use rod::{CELLS, Rod};

const STEPS: u64 = 240;
const STEPS_PER_STRETCH: u64 = 12;
/// Losses fall into this time after the start.
const DANGER: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    let universe = mpi::initialize().expect("MPI starts");
    let (way, losses, seed) = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("survivors: {problem}");
            return ExitCode::from(2);
        }
    };
    let world = universe.world();
    let (mut team, mut rod) = match world.parent() {
        // One that was started in the place of another learns with the first stretch how far they are.
        Some(parent) => (recovery::join(&parent, world.size()), None),
        None => {
            if victims(seed, world.size(), losses).contains(&world.rank()) {
                die_some_time(seed, world.rank());
            }
            (universe.world(), Some(Rod::new()))
        }
    };
    let size = team.size();
    while rod.as_ref().is_none_or(|rod| rod.step < STEPS) {
        let next = stretch(&team, rod.as_ref());
        if next.is_err() {
            // Others may wait for what this rank did not send.
            team.revoke();
        }
        let agreed = team.agree(next.is_ok().into()).expect("survivors agree");
        match (agreed.flags, next) {
            (1, Ok(next)) => rod = Some(next),
            _ => team = recovery::recover(&team, way, size),
        }
    }
    report(&team, rod.as_ref())
}

/// So many steps from where the first of the team is, on all its ranks.
fn stretch(team: &SimpleCommunicator, rod: Option<&Rod>) -> Result<Rod, mpi::ext::Error> {
    let rod = Rod::of_the_first(team, rod)?;
    let (rank, size) = (team.rank() as usize, team.size() as usize);
    let mut part = rod.part(rank, size);
    for _ in 0..STEPS_PER_STRETCH {
        part.exchange_ends(team)?;
        part.step();
        std::thread::sleep(Duration::from_millis(1));
    }
    part.gather(team, rod.step + STEPS_PER_STRETCH)
}

fn report(team: &SimpleCommunicator, rod: Option<&Rod>) -> ExitCode {
    if rod != Some(&Rod::alone(STEPS)) {
        eprintln!("survivors: rank {} has another answer than one rank alone", team.rank());
        return ExitCode::FAILURE;
    }
    if team.rank() == 0 {
        println!("{} ranks: {CELLS} cells after {STEPS} steps are right", team.size());
    }
    ExitCode::SUCCESS
}

fn arguments() -> Result<(Way, usize, u64), String> {
    let mut words = std::env::args().skip(1);
    let way = match words.next().as_deref() {
        None | Some("shrink") => Way::Shrink,
        Some("respawn") => Way::Respawn,
        Some(other) => return Err(format!("{other:?}: expected shrink or respawn")),
    };
    let mut number = |unless: u64| match words.next() {
        None => Ok(unless),
        Some(word) => word.parse().map_err(|_| format!("{word:?} is no number")),
    };
    Ok((way, number(2)? as usize, number(1)?))
}

/// Who dies.
fn victims(seed: u64, size: i32, losses: usize) -> Vec<i32> {
    let mut ranks: Vec<i32> = (0..size).collect();
    ranks.sort_by_key(|rank| mixed(seed, *rank as u64));
    // Somebody has to be left.
    ranks.truncate(losses.min(size as usize - 1));
    ranks
}

fn die_some_time(seed: u64, rank: i32) {
    let after = DANGER.mul_f64((mixed(seed ^ 0xD1E, rank as u64) % 1000) as f64 / 1000.0);
    std::thread::spawn(move || {
        std::thread::sleep(after);
        // As `kill -9`: no destructor runs, nobody is told.
        let me = std::process::id().to_string();
        let _ = std::process::Command::new("kill").args(["-KILL", &me]).status();
    });
}

/// A number that looks drawn (splitmix64).
fn mixed(seed: u64, of: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(of.wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
