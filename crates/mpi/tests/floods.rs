//! Floods of small messages to a rank that sleeps: all of it arrives, and the memory of the rank stays bounded.
//!
//! `MPI_TEST_FLOOD=10000000` sends so many messages to the sleeping rank instead of [`MESSAGES`].

mod support;

use std::fs;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use mpi::Tag;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, case};

/// 1 KiB.
type Message = [u64; 128];

/// Messages to the sleeping rank, of all senders together: three times what is held before senders are told to wait.
const MESSAGES: u64 = 200_000;
/// What the sleeping rank may hold beside what it had before.
const MOST_BYTES: u64 = 256 << 20;
/// How long it sleeps.
const SLEEP: Duration = Duration::from_millis(300);
/// Messages that all senders together may have under way at once: what is announced costs the sleeping rank its place,
/// and who has more of them under way holds far more itself.
const MOST_UNDER_WAY: u64 = 700_000;
/// Messages that all senders together have under way before each meeting.
const BETWEEN_MEETINGS: u64 = 140_000;

const CASES: &[Case] = &[
    flooded("named", named).on(&[2]),
    flooded("from_any_source", from_any_source).on(&[2, 8]),
    flooded("asleep_in_a_barrier", asleep_in_a_barrier).on(&[2, 8]),
    flooded("sends_that_wait_for_nothing", sends_that_wait_for_nothing).on(&[2, 8]),
];

const fn flooded(name: &'static str, run: fn()) -> Case {
    case(name, run).slow()
}

fn main() -> ExitCode {
    support::main(CASES)
}

/// Messages of each of `senders`.
fn each(senders: u64) -> u64 {
    let all =
        std::env::var("MPI_TEST_FLOOD").ok().map_or(MESSAGES, |n| n.parse().expect("a number of messages"));
    all / senders
}

fn written(from: u64, n: u64) -> Message {
    std::array::from_fn(|i| (n << 24 | from << 16 | i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn check(got: &Message, from: u64, n: u64) {
    assert!(*got == written(from, n), "message {n} of rank {from} has other bytes");
}

/// The high-water mark of this process's memory, in bytes.
fn high_water() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process reads its own status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the kernel counts memory");
    line.split_whitespace().nth(1).expect("VmHWM: N kB").parse::<u64>().expect("a number") << 10
}

/// Runs `f`, which may hold so much more memory than what is held now.
fn bounded<T>(f: impl FnOnce() -> T) -> T {
    fs::write("/proc/self/clear_refs", "5").expect("a process resets its own mark");
    let before = high_water();
    let result = f();
    let more = high_water().saturating_sub(before);
    if std::env::var_os("MPI_TEST_FLOOD").is_some() {
        eprintln!("held {} MiB at most", more >> 20);
    }
    assert!(more < MOST_BYTES, "{more} bytes more than before the flood");
    result
}

/// What the one who was asleep does, and what everybody else does.
fn flood(sleeper: impl FnOnce(&SimpleCommunicator, u64), sender: impl FnOnce(&SimpleCommunicator, u64)) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let each = each(world.size() as u64 - 1);
    world.barrier();
    match world.rank() {
        0 => bounded(|| sleeper(&world, each)),
        _ => sender(&world, each),
    }
    world.barrier();
}

fn send_all(world: &SimpleCommunicator, each: u64) {
    for n in 0..each {
        world.process_at_rank(0).send(&written(world.rank() as u64, n)[..]);
    }
}

/// Receives `each` of every sender with this tag as they come; in order from each.
fn receive_all(world: &SimpleCommunicator, tag: Tag, next: &mut [u64], each: u64) {
    let mut room: Message = [0; 128];
    for _ in 0..each * (world.size() as u64 - 1) {
        let from = world.any_process().receive_into_with_tag(&mut room[..], tag).source_rank();
        let n = &mut next[from as usize];
        check(&room, from as u64, *n);
        *n += 1;
    }
}

fn named() {
    let sleeper = |world: &SimpleCommunicator, each| {
        sleep(SLEEP);
        let mut room: Message = [0; 128];
        for n in 0..each {
            world.process_at_rank(1).receive_into(&mut room[..]);
            check(&room, 1, n);
        }
    };
    flood(sleeper, send_all);
}

fn from_any_source() {
    let sleeper = |world: &SimpleCommunicator, each| {
        sleep(SLEEP);
        receive_all(world, 0, &mut vec![0; world.size() as usize], each);
    };
    flood(sleeper, send_all);
}

/// The rank is inside MPI, in a receive that has nothing to do with the flood, and so takes in what comes. What ends its
/// wait comes from the last rank after all that this one sent before, on a communicator of its own.
fn asleep_in_a_barrier() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let other = world.duplicate();
    let senders = world.size() as u64 - 1;
    let all = each(senders);
    let round = (BETWEEN_MEETINGS / senders).min(all);
    let rounds = all / round;
    world.barrier();
    let run = || {
        let mut next = vec![0; world.size() as usize];
        for r in 0..rounds {
            sleep(SLEEP / rounds as u32);
            other.barrier();
            let mut sum = 0;
            other.all_reduce_into(&1_u64, &mut sum, SystemOperation::sum());
            assert_eq!(sum, senders + 1);
            receive_all(&world, r as Tag, &mut next, round);
        }
    };
    let sender = || {
        let me = world.rank() as u64;
        for r in 0..rounds {
            let data: Vec<Message> = (0..round).map(|n| written(me, r * round + n)).collect();
            mpi::request::multiple_scope(data.len(), |scope, sends| {
                for (n, message) in data.iter().enumerate() {
                    let to = world.process_at_rank(0);
                    sends.add(match n % 100 {
                        0 => to.immediate_synchronous_send_with_tag(scope, &message[..], r as Tag),
                        _ => to.immediate_send_with_tag(scope, &message[..], r as Tag),
                    });
                }
                other.barrier();
                let mut sum = 0;
                other.all_reduce_into(&1_u64, &mut sum, SystemOperation::sum());
                assert_eq!(sum, senders + 1);
                sends.wait_all(&mut Vec::new());
            });
        }
    };
    match world.rank() {
        0 => bounded(run),
        _ => sender(),
    }
    world.barrier();
}

/// Every sender has all its messages under way at once, and waits for none of them before all have left.
fn sends_that_wait_for_nothing() {
    const DIFFERENT: u64 = 1024;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let other = world.duplicate();
    let senders = world.size() as u64 - 1;
    let each = each(senders).min(MOST_UNDER_WAY / senders);
    let run = || {
        sleep(SLEEP);
        other.barrier();
        let mut next = vec![0; world.size() as usize];
        let mut room: Message = [0; 128];
        for _ in 0..each * senders {
            let from = world.any_process().receive_into(&mut room[..]).source_rank();
            let n = &mut next[from as usize];
            check(&room, from as u64, *n % DIFFERENT);
            *n += 1;
        }
    };
    let sender = || {
        let me = world.rank() as u64;
        let data: Vec<Message> = (0..DIFFERENT).map(|n| written(me, n)).collect();
        mpi::request::multiple_scope(each as usize, |scope, sends| {
            for message in data.iter().cycle().take(each as usize) {
                sends.add(world.process_at_rank(0).immediate_send(scope, &message[..]));
            }
            other.barrier();
            sends.wait_all(&mut Vec::new());
        });
    };
    world.barrier();
    match world.rank() {
        0 => bounded(run),
        _ => sender(),
    }
    world.barrier();
}
