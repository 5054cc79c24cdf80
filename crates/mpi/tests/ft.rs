//! What those who live can do when a rank is killed: over shared memory and TCP.
//!
//! With `MPI_TEST_STRICT=1`, on a machine that does nothing else, who needs a failed process must know within a second.

mod support;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::ext::{Error, ErrorClass, prelude::*};
use mpi::ft::FaultTolerance;
use mpi::topology::{MergeOrder, SimpleCommunicator};
use mpi::traits::*;
use mpi::window::Window;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use support::{Case, case};

const RECOVERY: &[(&str, &str)] = &[("MPIEXEC_ENABLE_RECOVERY", "1")];

/// A case in which rank 1 dies by a signal.
const fn survives(name: &'static str, run: fn()) -> Case {
    case(name, run)
        .with(RECOVERY)
        .on(&[3])
        .fails(0, &["rank 1 (pid ", "SIGKILL", "; the job goes on without it"])
}

const CASES: &[Case] = &[
    survives("one_of_three", one_of_three),
    survives("in_a_barrier", in_a_barrier).on(&[3, 5]),
    survives("in_a_short_allreduce", in_a_short_allreduce).on(&[3, 5]),
    survives("in_a_long_allreduce", in_a_long_allreduce).on(&[3, 5]),
    survives("in_a_broadcast", in_a_broadcast).on(&[5]),
    survives("in_an_alltoall", in_an_alltoall).on(&[5]),
    survives("in_an_immediate_allreduce", in_an_immediate_allreduce).on(&[5]),
    survives("in_making_a_communicator", in_making_a_communicator).on(&[5]),
    survives("in_a_rendezvous", in_a_rendezvous),
    survives("with_a_lock", with_a_lock),
    survives("in_a_fence", in_a_fence),
    survives("in_passive_epochs", in_passive_epochs),
    survives("from_any_source", from_any_source),
    survives("agreed_on", agreed_on).on(&[4]),
    survives("at_the_end", at_the_end).on(&[5]),
    survives("while_spawning", while_spawning).over(&["shm,tcp"]),
    case("revoked", revoked).with(RECOVERY).on(&[2, 4]),
    case("agreed_on_by_all", agreed_on_by_all).with(RECOVERY).on(&[1, 4]),
    case("nobody_is_left", nobody_is_left)
        .with(RECOVERY)
        .on(&[2])
        .fails(137, &["the job goes on without it"]),
    case("without_recovery", without_recovery).on(&[3]).fails(137, &["was killed by signal 9"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn die() -> ! {
    let _ = raise(Signal::SIGKILL);
    unreachable!("nobody survives that");
}

/// It took no longer than it may since `begun`.
fn in_time(begun: Instant) {
    let strict = std::env::var_os("MPI_TEST_STRICT").is_some();
    let most = Duration::from_secs(if strict { 1 } else { 60 });
    assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
}

/// Nobody is in anything that came before.
fn together(world: &SimpleCommunicator) {
    world.agree(0).unwrap();
}

fn failed(error: &Error) {
    assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
}

/// Everything that needs the dead one says so; the others go on without it.
fn one_of_three() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    together(&world);
    if world.rank() == 1 {
        die();
    }
    let begun = Instant::now();
    let error = world.process_at_rank(1).try_receive::<i32>().unwrap_err();
    assert_eq!((error.class(), error.peer()), (ErrorClass::ProcFailed, Some(1)), "{error}");
    let error = world.process_at_rank(1).try_send(&1).unwrap_err();
    assert_eq!((error.class(), error.peer()), (ErrorClass::ProcFailed, Some(1)), "{error}");
    failed(&world.try_all_reduce_into(&1, &mut 0, SystemOperation::sum()).unwrap_err());
    in_time(begun);
    assert_eq!(world.failed_ranks(), [1]);
    assert_eq!(world.get_failed().unwrap().size(), 1);
    let rest = world.shrink().unwrap();
    assert_eq!((rest.size(), rest.rank()), (2, world.rank() / 2));
    let mut sum = 0;
    rest.try_all_reduce_into(&world.rank(), &mut sum, SystemOperation::sum()).unwrap();
    assert_eq!(sum, 2);
    // Those who live still reach each other.
    let other = world.process_at_rank(2 - world.rank());
    let (got, _) = mpi::point_to_point::send_receive::<i32, _, _, _>(&world.rank(), &other, &other);
    assert_eq!(got, 2 - world.rank());
}

/// Rank 1 dies between two rounds; everybody else's operation ends with an error, without anybody revoking.
fn dies_in(rounds: i32, mut operation: impl FnMut(&SimpleCommunicator) -> Result<(), Error>) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world().duplicate();
    if world.rank() == 1 {
        (0..rounds).for_each(|_| operation(&world).unwrap());
        die();
    }
    let begun = Instant::now();
    let error = loop {
        if let Err(error) = operation(&world) {
            break error;
        }
    };
    failed(&error);
    // One that begins later ends at once.
    failed(&operation(&world).unwrap_err());
    in_time(begun);
    let rest = world.shrink().unwrap();
    assert_eq!(rest.size(), world.size() - 1);
    for _ in 0..20 {
        operation(&rest).unwrap();
    }
}

fn in_a_barrier() {
    dies_in(50, |comm| comm.try_barrier());
}

fn in_a_short_allreduce() {
    dies_in(50, |comm| {
        let mut sum = 0;
        comm.try_all_reduce_into(&1, &mut sum, SystemOperation::sum())?;
        assert_eq!(sum, comm.size());
        Ok(())
    });
}

fn in_a_long_allreduce() {
    let mine = vec![1_i64; 100_000];
    dies_in(20, |comm| {
        let mut sum = vec![0; mine.len()];
        comm.try_all_reduce_into(&mine[..], &mut sum[..], SystemOperation::sum())?;
        assert!(sum.iter().all(|sum| *sum == i64::from(comm.size())));
        Ok(())
    });
}

fn in_a_broadcast() {
    dies_in(20, |comm| {
        // From the dead one, so that everybody misses something.
        let mut data = vec![comm.rank(); 50_000];
        comm.process_at_rank(1).try_broadcast_into(&mut data[..])?;
        assert!(data.iter().all(|one| *one == 1));
        Ok(())
    });
}

fn in_an_alltoall() {
    dies_in(20, |comm| {
        let mine = vec![comm.rank(); 1000 * comm.size() as usize];
        let mut theirs = vec![0; mine.len()];
        comm.try_all_to_all_into(&mine[..], &mut theirs[..])
    });
}

fn in_an_immediate_allreduce() {
    let mine = vec![1_i32; 20_000];
    dies_in(10, |comm| {
        let mut sum = vec![0; mine.len()];
        mpi::request::scope(|scope| {
            let request =
                comm.try_immediate_all_reduce_into(scope, &mine[..], &mut sum[..], SystemOperation::sum())?;
            request.try_wait().map(drop)
        })
    });
}

fn in_making_a_communicator() {
    dies_in(5, |comm| comm.try_duplicate().map(drop));
}

/// Large messages to and from the one that dies: announced, on their way, and never received.
fn in_a_rendezvous() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let large = vec![7_u8; 64 << 20];
    let one = world.process_at_rank(1);
    match world.rank() {
        0 => {
            together(&world);
            let begun = Instant::now();
            failed(&one.try_send(&large[..]).unwrap_err());
            in_time(begun);
        }
        1 => {
            mpi::request::scope(|scope| {
                let _sending = world.process_at_rank(2).immediate_send(scope, &large[..]);
                together(&world);
                die();
            });
        }
        _ => {
            together(&world);
            let mut room = vec![0_u8; large.len()];
            let begun = Instant::now();
            // It may have been read out of the sender's memory in time.
            if let Err(error) = one.try_receive_into(&mut room[..]) {
                failed(&error);
            }
            failed(&one.try_receive_into(&mut room[..]).unwrap_err());
            in_time(begun);
        }
    }
    let rest = world.shrink().unwrap();
    rest.try_barrier().unwrap();
}

/// The dead one holds the lock of a window's memory.
fn with_a_lock() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<i64>::try_allocate(&world, 4).unwrap();
    together(&world);
    if world.rank() == 1 {
        window.lock_exclusive(0, |epoch| {
            epoch.write(&[1], 0, 0);
            world.process_at_rank(2).send(&1);
            die();
        });
    }
    if world.rank() == 2 {
        world.process_at_rank(1).receive::<i32>();
        let begun = Instant::now();
        let error =
            window.try_lock_exclusive(0, |epoch| epoch.try_flush(0)).and_then(|flushed| flushed).err();
        // A target elsewhere gives the lock of a dead one to the next.
        assert!(error.as_ref().is_none_or(|error| error.is_failure()), "{error:?}");
        in_time(begun);
    }
    let error = world.try_barrier().unwrap_err();
    failed(&error);
    world.shrink().unwrap().try_barrier().unwrap();
    std::mem::forget(window);
}

/// The dead one does not come to a fence.
fn in_a_fence() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<i64>::try_allocate(&world, 4).unwrap();
    window.fence(|_| ());
    together(&world);
    if world.rank() == 1 {
        die();
    }
    let begun = Instant::now();
    let error = window.try_fence(|_| ()).unwrap_err();
    assert!(error.is_failure(), "{error}");
    in_time(begun);
    world.shrink().unwrap().try_barrier().unwrap();
    std::mem::forget(window);
}

/// Who reads and writes a dead one's memory is told so, whether it holds the lock or asks for it, also where that memory is
/// mapped and would take everything; others are reached as ever.
fn in_passive_epochs() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<i64>::try_allocate(&world, 4).unwrap();
    together(&world);
    if world.rank() == 1 {
        world.process_at_rank(2).receive::<i32>();
        die();
    }
    let begun = Instant::now();
    let other = 2 - world.rank();
    if world.rank() == 0 {
        let error = loop {
            let tried = window.try_lock_exclusive(1, |epoch| epoch.try_put(&[1], 1, 0));
            if let Err(error) = tried.and_then(|written| written) {
                break error;
            }
        };
        assert!(error.is_failure(), "{error}");
        window.try_lock_exclusive(other, |epoch| epoch.try_put(&[7], other, 0)).unwrap().unwrap();
    } else {
        let error = window
            .try_lock_all(|epoch| {
                world.process_at_rank(1).send(&1);
                let error = loop {
                    if let Err(error) = epoch.try_put(&[1], 1, 1).and_then(|()| epoch.try_flush(1)) {
                        break error;
                    }
                };
                assert!(error.is_failure(), "{error}");
                epoch.try_put(&[8], other, 1).and_then(|()| epoch.try_flush(other)).unwrap();
            })
            .unwrap_err();
        assert!(error.is_failure(), "{error}");
    }
    in_time(begun);
    assert!(window.try_lock_all(|_| ()).unwrap_err().is_failure());
    let rest = world.shrink().unwrap();
    rest.try_barrier().unwrap();
    let (at, expected) = if world.rank() == 0 { (1, 8) } else { (0, 7) };
    assert_eq!(window.own(|memory| memory[at]), expected);
    std::mem::forget(window);
}

/// Receives from any source, until the failure is acknowledged.
fn from_any_source() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    together(&world);
    match world.rank() {
        0 => {
            let (mut first, mut second) = (0, 0);
            mpi::request::scope(|scope| {
                let posted = world.any_process().immediate_receive_into(scope, &mut first);
                world.process_at_rank(1).send(&0);
                let begun = Instant::now();
                let error = posted.try_wait().unwrap_err();
                assert_eq!(error.class(), ErrorClass::ProcFailedPending, "{error}");
                in_time(begun);
            });
            failed(&world.any_process().try_receive::<i32>().unwrap_err());
            failed(&world.any_process().try_probe().unwrap_err());
            assert_eq!(world.ack_failed(9), 1);
            world.process_at_rank(2).send(&0);
            world.any_process().try_receive_into(&mut second).unwrap();
            assert_eq!(second, 22);
        }
        1 => {
            world.process_at_rank(0).receive::<i32>();
            die();
        }
        _ => {
            world.process_at_rank(0).receive::<i32>();
            world.process_at_rank(0).send(&22);
        }
    }
}

/// Agreements, immediate and not, before and after somebody dies, on a communicator that is revoked.
fn agreed_on() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let before = world.agree(0b1110 | world.rank() & 1).unwrap();
    assert_eq!((before.flags, before.failed.len(), before.acknowledged), (0b1110, 0, true));
    let pending = world.immediate_agree(0b111 ^ world.rank()).unwrap();
    assert_eq!(pending.wait().unwrap().flags, 0b100);
    if world.rank() == 1 {
        die();
    }
    let outcome = world.agree(!0).unwrap();
    assert_eq!((outcome.flags, &outcome.failed[..], outcome.acknowledged), (!0, &[1][..], false));
    world.revoke();
    while world.failed_ranks().is_empty() {
        std::thread::yield_now();
    }
    world.ack_failed(1);
    let mut pending = world.immediate_agree(5).unwrap();
    let outcome = loop {
        match pending.test().unwrap() {
            Ok(outcome) => break outcome,
            Err(again) => pending = again,
        }
    };
    assert_eq!((outcome.flags, &outcome.failed[..], outcome.acknowledged), (5, &[1][..], true));
    assert_eq!(world.shrink().unwrap().size(), 3);
}

/// Who fails at the end is not waited for, and neither is what is behind it in a tree.
fn at_the_end() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        die();
    }
    if world.rank() == 3 {
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The root dies while the others wait for it to spawn.
fn while_spawning() {
    let universe = mpi::initialize().unwrap();
    if let Some(parent) = universe.world().parent() {
        // Whatever becomes of them.
        let _ = parent.try_merge(MergeOrder::High);
        return;
    }
    let world = universe.world();
    if world.rank() == 1 {
        let me = Pid::this();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            let _ = kill(me, Signal::SIGKILL);
        });
    }
    let command = Command::new(std::env::current_exe().unwrap());
    let begun = Instant::now();
    // Those whom the dead one has told all may get through.
    let spawned = world.process_at_rank(1).try_spawn(&command, 2);
    if world.rank() == 1 {
        std::thread::sleep(Duration::from_secs(60));
    }
    let ok = spawned.as_ref().is_ok_and(|inter| inter.try_merge(MergeOrder::Low).is_ok());
    if let Ok(inter) = &spawned {
        inter.revoke();
    }
    in_time(begun);
    let agreed = world.agree(ok.into()).unwrap();
    assert_eq!(agreed.failed, [1]);
    let rest = world.shrink().unwrap();
    rest.try_barrier().unwrap();
}

/// Everything on a communicator that one member has revoked ends, everywhere.
fn revoked() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let comm = world.duplicate();
    for _ in 0..50 {
        comm.barrier();
    }
    together(&comm);
    let gone = |error: Error| assert_eq!(error.class(), ErrorClass::Revoked, "{error}");
    if comm.rank() == 0 {
        comm.revoke();
    } else {
        match comm.rank() {
            1 => gone(comm.process_at_rank(0).try_receive::<i32>().unwrap_err()),
            2 => gone(comm.try_barrier().unwrap_err()),
            _ => gone(comm.any_process().try_probe().unwrap_err()),
        }
    }
    assert!(comm.is_revoked());
    gone(comm.process_at_rank(0).try_send(&1).unwrap_err());
    gone(comm.any_process().try_receive::<i32>().unwrap_err());
    gone(comm.try_all_reduce_into(&1, &mut 0, SystemOperation::sum()).unwrap_err());
    gone(comm.try_duplicate().err().unwrap());
    assert_eq!(comm.agree(comm.rank() | 4).unwrap().flags, 4);
    let again = comm.shrink().unwrap();
    assert_eq!((again.size(), again.rank()), (comm.size(), comm.rank()));
    again.barrier();
    // Others are not concerned.
    assert!(!world.is_revoked() && !again.is_revoked());
    world.barrier();
}

fn agreed_on_by_all() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for round in 0..200 {
        let outcome = world.agree(1 << (round % 30) | world.rank() << 1 & 1).unwrap();
        assert_eq!((outcome.flags, outcome.failed.len()), (1 << (round % 30), 0));
    }
    let shrunk = world.shrink().unwrap();
    assert_eq!(shrunk.size(), world.size());
    shrunk.barrier();
}

/// As ever.
fn without_recovery() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        die();
    }
    failed(&world.process_at_rank(1).try_receive::<i32>().unwrap_err());
    std::thread::sleep(Duration::from_secs(60));
}

fn nobody_is_left() {
    let universe = mpi::initialize().unwrap();
    together(&universe.world());
    die();
}
