//! What the ranks do.

use crate::common::{receive, ring, send};
use mpi_btl_shm::Shm;
use mpi_btl_tcp::TcpBtl;
use mpi_comm::{Comm, Dest, Relation, Source, ThreadLevel};
use mpi_p2p::Tag;
use std::io::Write;
use std::time::Duration;

pub fn run(scenario: &str, rest: &[String]) {
    if crate::worlds::run(scenario, rest) || crate::meeting::run(scenario, rest) {
        return;
    }
    match scenario {
        "hello" => hello(),
        "drawn" => crate::drawn::collectives(),
        "many" => crate::drawn::many(),
        "disagrees" => crate::drawn::disagrees(),
        "same_bits" => crate::drawn::same_bits(),
        "shares_memory" => crate::hosts::shares_memory(),
        "talks" => crate::networks::talks(),
        "listens" => crate::networks::listens(),
        "communicators" => communicators(),
        "dies" => dies(),
        "stays" => stays(),
        "dup_free" => dup_free(),
        "threads" => threads(),
        "life" => life(),
        "panics" => panics(),
        "aborts" => aborts(),
        "leaves" => leaves(),
        "is_fatal" => is_fatal(),
        "blocked" => blocked(),
        "finalizes_late" => finalizes_late(),
        "killed" => killed(),
        "uninitialised" => drop(mpi_comm::world()),
        "finalised" => {
            join(ThreadLevel::Single);
            mpi_comm::finalize().unwrap();
            drop(mpi_comm::world());
        }
        _ => panic!("no scenario is called {scenario}"),
    }
}

pub fn join(level: ThreadLevel) -> Comm {
    assert_eq!(mpi_comm::init_or_exit(level, &[&Shm, &TcpBtl]), level);
    mpi_comm::world()
}

fn hello() {
    let world = join(ThreadLevel::Single);
    ring(&world);
    ring(&mpi_comm::self_comm());
    let all = world.dup().unwrap();
    for _ in 0..100 {
        ring(&all);
    }
    drop(all);
    // What a rank of a full node may take; the segment's pages that it touches count.
    let resident = resident_kib();
    assert!(resident <= 8192, "{resident} KiB are resident");
    mpi_comm::finalize().unwrap();
}

/// Ends without a word in the middle of MPI.
fn dies() {
    let _world = join(ThreadLevel::Single);
    kill_self();
}

/// Is in MPI until nobody listens any more to what it says.
fn stays() {
    let _world = join(ThreadLevel::Single);
    while writeln!(std::io::stdout(), "here").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    mpi_comm::finalize().unwrap();
}

fn communicators() {
    let world = join(ThreadLevel::Single);
    let rank = world.rank() as i32;
    let half = world.split(Some(rank % 2), -rank).unwrap().unwrap();
    ring(&half);
    let peer = if half.rank() == 0 {
        Some((&world, if rank % 2 == 0 { odd(&world) } else { even(&world) }))
    } else {
        None
    };
    let inter = half.intercomm_create(0, peer, 3).unwrap();
    ring(&inter.merge(rank % 2 == 0).unwrap());
    let pending = world.idup().unwrap();
    let grid = world.cart_create(&[world.size() as i32], &[true], true).unwrap().unwrap();
    let (before, next) = grid.cart_shift(0, 1).unwrap();
    send(&grid, Dest::Rank(next.unwrap() as i32), 0, rank).unwrap();
    let (value, _) = receive(&grid, Source::Rank(before.unwrap() as i32), Tag::Any).unwrap();
    assert_eq!(value as u32, before.unwrap());
    let dup = pending.wait().unwrap();
    assert_eq!(dup.compare(&world), Relation::Congruent);
    ring(&dup);
    mpi_comm::finalize().unwrap();
}

/// The largest rank of each kind: it is rank 0 of its half.
fn odd(world: &Comm) -> i32 {
    (0..world.size() as i32).rev().find(|rank| rank % 2 == 1).unwrap()
}
fn even(world: &Comm) -> i32 {
    (0..world.size() as i32).rev().find(|rank| rank % 2 == 0).unwrap()
}

/// `MPI_TEST_DUP_CYCLES` cycles (2,000).
fn dup_free() {
    let world = join(ThreadLevel::Single);
    let before = resident_kib();
    for _ in 0..number("MPI_TEST_DUP_CYCLES", 2_000) {
        drop(world.dup().unwrap());
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 4096, "memory has grown by {grown} KiB");
    mpi_comm::finalize().unwrap();
}

/// 16 threads, each with a partner on the other rank, send and receive `MPI_TEST_THREAD_PAIRS`
/// numbers (2,000) over one communicator, kept apart by tag.
fn threads() {
    let world = join(ThreadLevel::Multiple);
    let other = 1 - world.rank() as i32;
    let pairs = number("MPI_TEST_THREAD_PAIRS", 2_000) as i32;
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let world = &world;
            scope.spawn(move || {
                for i in 0..pairs {
                    send(world, Dest::Rank(other), thread, i * 16 + thread).unwrap();
                    let (value, _) = receive(world, Source::Rank(other), Tag::Is(thread)).unwrap();
                    assert_eq!(value, i * 16 + thread);
                }
            });
        }
    });
    mpi_comm::finalize().unwrap();
}

fn life() {
    assert!(!mpi_comm::is_initialized() && !mpi_comm::is_finalized());
    let world = join(ThreadLevel::Funneled);
    assert!(mpi_comm::is_initialized() && mpi_comm::is_main_thread());
    assert!(!std::thread::spawn(mpi_comm::is_main_thread).join().unwrap());
    assert_eq!(mpi_comm::thread_level(), ThreadLevel::Funneled);
    let again = mpi_comm::init(ThreadLevel::Single, &[]).unwrap_err().to_string();
    assert!(again.contains("initialised already"), "{again}");
    assert!(world.is_world() && !mpi_comm::processor_name().is_empty());
    mpi_comm::finalize().unwrap();
    assert!(mpi_comm::is_initialized() && mpi_comm::is_finalized());
    let again = mpi_comm::init(ThreadLevel::Single, &[]).unwrap_err().to_string();
    assert!(again.contains("was finalised"), "{again}");
    assert!(mpi_comm::finalize().unwrap_err().to_string().contains("finalised already"));
    for rank in 0..2 {
        let late = send(&world, Dest::Rank(rank), 0, 0).unwrap_err().to_string();
        assert!(late.contains("MPI is finalised"), "{late}");
        let late = receive(&world, Source::Rank(rank), Tag::Any).unwrap_err().to_string();
        assert!(late.contains("MPI is finalised"), "{late}");
    }
}

/// What a face does when its value for MPI is dropped.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        mpi_comm::leave();
    }
}

fn panics() {
    let world = join(ThreadLevel::Single);
    let _leave = Leave;
    if world.rank() == 1 {
        panic!("on purpose");
    }
    let _ = receive(&world, Source::Rank(1), Tag::Any);
    std::thread::sleep(Duration::from_secs(60));
}

fn aborts() {
    let world = join(ThreadLevel::Single);
    if world.rank() == 1 {
        mpi_comm::abort(7, "enough");
    }
    let _ = receive(&world, Source::Rank(1), Tag::Any);
    std::thread::sleep(Duration::from_secs(60));
}

fn leaves() {
    let world = join(ThreadLevel::Single);
    if world.rank() == 0 {
        std::process::exit(0);
    }
    let _ = receive(&world, Source::Rank(0), Tag::Any);
    std::thread::sleep(Duration::from_secs(60));
}

fn is_fatal() {
    let world = join(ThreadLevel::Single);
    if world.rank() == 0 {
        let _ = world.handle(send(&world, Dest::Rank(2), 0, 0));
    }
    let _ = receive(&world, Source::Rank(0), Tag::Any);
    std::thread::sleep(Duration::from_secs(60));
}

fn blocked() {
    let world = join(ThreadLevel::Single);
    if world.rank() == 0 {
        receive(&world, Source::Rank(1), Tag::Is(7)).unwrap();
    } else {
        std::thread::sleep(Duration::from_millis(2500));
        send(&world, Dest::Rank(0), 7, 1).unwrap();
    }
    mpi_comm::finalize().unwrap();
}

fn finalizes_late() {
    let world = join(ThreadLevel::Single);
    if world.rank() == 1 {
        std::thread::sleep(Duration::from_millis(1500));
    }
    mpi_comm::finalize().unwrap();
}

/// Rank 1 is killed while the others wait for it, over a face that ends the job on errors.
fn killed() {
    let world = join(ThreadLevel::Single);
    ring(&world);
    if world.rank() == 1 {
        kill_self();
    }
    let _ = world.handle(receive(&world, Source::Rank(1), Tag::Is(99)));
}

fn kill_self() {
    std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
}

pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}
