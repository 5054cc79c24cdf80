//! Looks whether the ranks of a job find each other, and says so: the program to try a launcher with.
//!
//! ```text
//! mpiexec -n 4 --example self_check
//! srun --mpi=pmi2 -n 4 self_check
//! ```
//!
//! Words behind the program have it do more, once all is well: `exit R CODE` and `abort R CODE` end rank R so while the
//! others wait for it, `spawn N` starts N more of it and talks with them, `stay FILE` has rank 0 make the file and all
//! wait for ever.

use std::process::Command;

use mpi::collective::SystemOperation;
use mpi::topology::{MergeOrder, SimpleCommunicator};
use mpi::traits::*;

/// Words of a message that no transport sends at once.
const LONG: usize = 1 << 18;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if let Some(parent) = world.parent() {
        check(&world);
        return check(&parent.merge(MergeOrder::High));
    }
    check(&world);
    let host = mpi::environment::processor_name().unwrap_or_default();
    println!("rank {} of {} on {host}: all is well", world.rank(), world.size());
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<i32>().expect("a number");
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {}
        ["exit", rank, code] if number(rank) == world.rank() => std::process::exit(number(code)),
        ["abort", rank, code] if number(rank) == world.rank() => world.abort(number(code)),
        ["exit" | "abort", rank, _] => {
            world.process_at_rank(number(rank)).receive::<i32>();
        }
        ["spawn", count] => spawn(&world, number(count)),
        ["stay", file] => {
            if world.rank() == 0 {
                std::fs::write(file, "all is well").expect("the file can be made");
            }
            loop {
                std::thread::park();
            }
        }
        _ => panic!("expected nothing, exit R CODE, abort R CODE, spawn N or stay FILE"),
    }
}

/// Neighbours exchange something short and something long, and all agree on a sum.
fn check(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let before = (rank + size - 1) % size;
    let (got, _): (i32, _) = mpi::point_to_point::send_receive(&rank, &next, &world.process_at_rank(before));
    assert_eq!(got, before, "a short message");
    let (mine, mut theirs) = (vec![i64::from(rank); LONG], vec![-1; LONG]);
    mpi::point_to_point::send_receive_into(&mine[..], &next, &mut theirs[..], &world.process_at_rank(before));
    assert!(theirs.iter().all(|value| *value == i64::from(before)), "a long message");
    let mut sum = 0;
    world.all_reduce_into(&rank, &mut sum, SystemOperation::sum());
    assert_eq!(sum, size * (size - 1) / 2, "a sum among all");
}

fn spawn(world: &SimpleCommunicator, count: i32) {
    let command = Command::new(std::env::current_exe().expect("the path of this program"));
    let children = world.process_at_rank(0).spawn(&command, count).expect("the root has said what is wrong");
    let all = children.merge(MergeOrder::Low);
    check(&all);
    if world.rank() == 0 {
        println!("{} together: all is well", all.size());
    }
}
