//! Ranks that die: whoever waits for them is told who, and nothing is written to memory that was given back.

mod common;

use common::world_of;
use mpi_btl_sim::SimConfig;
use mpi_comm::{Comm, Dest};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_p2p::ErrorClass as C;
use mpi_rma::{Assert, LockKind, Options, Target, Window};
use std::sync::Barrier;

static U64: Datatype = Datatype::predefined(Primitive::U64);
const PLAIN: Assert = Assert { no_check: false, no_precede: false, no_succeed: false };

fn send(values: &[u64]) -> SendBuf<'_> {
    // SAFETY: a borrowed slice; data are copied before the call that takes it returns.
    unsafe { SendBuf::new(values.as_ptr().cast(), values.len(), &U64) }
}

fn room(values: &mut [u64]) -> RecvBuf<'_> {
    // SAFETY: a borrowed slice, looked at after a flush or the end of the epoch.
    unsafe { RecvBuf::new(values.as_mut_ptr().cast(), values.len(), &U64) }
}

fn words(target: u32, at: i64, count: usize) -> Target<'static> {
    Target { rank: Dest::Rank(target as i32), at, count, datatype: &U64 }
}

/// The two that live have both seen what they wanted to see.
fn meet(world: &Comm) {
    let peer = 1 - world.rank();
    let (source, tag) = (mpi_p2p::Source::Rank(peer), mpi_p2p::Tag::Is(9));
    let mut word = [0];
    world.engine().sendrecv(world.context(), send(&[1]), peer, 9, room(&mut word), source, tag).unwrap();
}

/// Whoever was refused a lock is refused everything else of the epoch, too, and hangs in nothing.
#[test]
fn an_epoch_goes_on_after_its_lock_was_refused() {
    // Nobody dies with a message of the barrier on its way.
    let through = Barrier::new(3);
    world_of(21, SimConfig::calm(3), 3, move |world, net| {
        let window = Window::allocate(&world, &Options::new(8, 8)).unwrap();
        if world.rank() == 2 {
            window.lock(LockKind::Exclusive, 0, PLAIN).unwrap();
            window.put(send(&[1]), words(0, 0, 1)).unwrap();
            window.flush(0).unwrap();
            world.barrier().unwrap();
            through.wait();
            net.kill(2);
            return;
        }
        world.barrier().unwrap();
        through.wait();
        if world.rank() == 1 {
            let mut old = [7];
            window.lock(LockKind::Exclusive, 0, PLAIN).unwrap();
            for _ in 0..2 {
                // The first waits while the holder dies, the second comes to a target that knows.
                window.fetch_and_op(send(&[1]), room(&mut old), Dest::Rank(0), 0, &Op::Sum).unwrap();
                let error = window.flush(0).unwrap_err();
                assert_eq!(error.class, C::ProcFailed, "{error}");
                assert!(error.to_string().contains("rank 2 died"), "{error}");
            }
            let error = window.unlock(0).unwrap_err();
            assert!(error.to_string().contains("rank 2 died"), "{error}");
            assert_eq!(old, [7]);
        }
        meet(&world);
    });
}

/// A flush that fails for one target has waited for all others: their data are there, and nothing comes later.
#[test]
fn reads_of_the_living_are_there_when_one_has_died() {
    // Nobody dies with a message of the barrier on its way.
    let through = Barrier::new(3);
    world_of(22, SimConfig::calm(3), 3, move |world, net| {
        let window = Window::allocate(&world, &Options::new(80, 8)).unwrap();
        let me = u64::from(world.rank());
        window.fence(PLAIN).unwrap();
        window.put(send(&[100 + me; 10]), words(world.rank(), 0, 10)).unwrap();
        window.fence(Assert { no_succeed: true, ..PLAIN }).unwrap();
        world.barrier().unwrap();
        through.wait();
        if me == 2 {
            net.kill(2);
            return;
        }
        if me == 0 {
            let (mut dead, mut living) = ([[0; 10]; 3], [[0; 10]; 3]);
            window.lock_all(Assert { no_check: true, ..PLAIN }).unwrap();
            let mut failed = None;
            for (dead, living) in dead.iter_mut().zip(&mut living) {
                failed = failed.or(window.get(room(dead), words(2, 0, 10)).err());
                window.get(room(living), words(1, 0, 10)).unwrap();
            }
            let flushed = window.flush_all();
            let error = failed.or(flushed.err()).unwrap();
            assert_eq!((error.class, error.peer), (C::ProcFailed, Some(2)), "{error}");
            assert_eq!(living, [[101; 10]; 3]);
            let _ = window.unlock_all();
        }
        meet(&world);
    });
}
