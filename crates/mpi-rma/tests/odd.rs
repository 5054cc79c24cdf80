//! The corners: parts without memory, units that differ, displacements that overflow, empty groups, requests completed
//! in any order, derived types on both sides, hints and attributes.

mod common;

use common::world_of;
use mpi_btl_sim::SimConfig;
use mpi_comm::{Dest, Info};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_p2p::ErrorClass as C;
use mpi_rma::{Assert, Flavor, LockKind, Options, Target, Window, create_keyval, free_keyval};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static U64: Datatype = Datatype::predefined(Primitive::U64);
static U16: Datatype = Datatype::predefined(Primitive::U16);
const PLAIN: Assert = Assert { no_check: false, no_precede: false, no_succeed: false };

fn send(values: &[u64]) -> SendBuf<'_> {
    // SAFETY: a borrowed slice; data are copied before the call that takes it returns.
    unsafe { SendBuf::new(values.as_ptr().cast(), values.len(), &U64) }
}

fn room(values: &mut [u64]) -> RecvBuf<'_> {
    // SAFETY: a borrowed slice, looked at after a flush or the end of the epoch.
    unsafe { RecvBuf::new(values.as_mut_ptr().cast(), values.len(), &U64) }
}

fn words(target: usize, at: i64, count: usize) -> Target<'static> {
    Target { rank: Dest::Rank(target as i32), at, count, datatype: &U64 }
}

fn memory_of(window: &Window) -> &[u64] {
    // SAFETY: this rank's part, between two barriers of the test.
    unsafe { std::slice::from_raw_parts(window.base().cast(), window.size() / 8) }
}

/// Rank 0 brings nothing, rank 1 words, rank 2 words that are counted by bytes.
#[test]
fn parts_and_units_differ_from_rank_to_rank() {
    world_of(11, SimConfig::rough(3), 3, |world, _| {
        let me = world.rank() as usize;
        let (size, unit) = [(0, 8), (80, 8), (160, 1)][me];
        let window = Window::allocate(&world, &Options::new(size, unit)).unwrap();
        assert_eq!((window.size(), window.unit()), (size, unit));
        window.fence(PLAIN).unwrap();
        window.put(send(&[]), words(0, 0, 0)).unwrap();
        window.put(send(&[100 + me as u64]), words(1, 3 + me as i64, 1)).unwrap();
        // Unaligned for a word, which a displacement by bytes may be.
        window.put(send(&[200 + me as u64]), words(2, 3 + 8 * me as i64, 1)).unwrap();
        window.accumulate(send(&[1]), words(2, 101, 1), &Op::Sum).unwrap();
        window.fence(PLAIN).unwrap();
        match me {
            1 => assert_eq!(memory_of(&window)[3..6], [100, 101, 102]),
            2 => {
                // SAFETY: this rank's part.
                let bytes = unsafe { std::slice::from_raw_parts(window.base(), 160) };
                let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
                assert_eq!([word(3), word(11), word(19), word(101)], [200, 201, 202, 3]);
            }
            _ => {}
        }
        window.put(send(&[1]), words(0, 0, 1)).map_or_else(|e| assert_eq!(e.class, C::RmaRange), drop);
        let late = window.fence(PLAIN);
        assert!(me == 0 || late.unwrap_err().class == C::RmaRange, "nothing fits a part without memory");
        window.fence(Assert { no_succeed: true, ..PLAIN }).unwrap();
        window.free().unwrap();
    });
}

#[test]
fn displacements_below_zero_and_beyond_all_memory_are_refused() {
    world_of(12, SimConfig::calm(2), 2, |world, _| {
        let window = Window::allocate(&world, &Options::new(64, 8)).unwrap();
        let (me, other) = (world.rank() as usize, 1 - world.rank() as usize);
        window.lock_all(PLAIN).unwrap();
        for target in [me, other] {
            let below = window.put(send(&[1]), words(target, -1, 1)).unwrap_err();
            assert_eq!((below.class, below.peer), (C::Disp, Some(target as i32)), "{below}");
            assert!(below.to_string().contains("displacement -1"), "{below}");
            for at in [8, i64::MAX / 8, i64::MAX] {
                let now = window.put(send(&[1]), words(target, at, 1));
                let error = now.and_then(|()| window.flush(target as u32)).unwrap_err();
                assert_eq!(error.class, C::RmaRange, "displacement {at} of rank {target}: {error}");
            }
            // A count that no memory has, of a type that needs none of the origin's.
            let huge = Target { count: usize::MAX / 2, ..words(target, 0, 0) };
            assert_eq!(window.get(room(&mut [0]), huge).unwrap_err().class, C::Truncate);
        }
        window.unlock_all().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn groups_may_be_empty_and_exposures_tested() {
    world_of(13, SimConfig::rough(3), 3, |world, _| {
        let me = world.rank();
        let window = Window::allocate(&world, &Options::new(24, 8)).unwrap();
        window.post(&[], PLAIN).unwrap();
        assert_eq!(window.post(&[0], PLAIN).unwrap_err().class, C::RmaSync, "exposed already");
        window.start(&[], PLAIN).unwrap();
        let refused = window.put(send(&[1]), words(0, 0, 1)).unwrap_err();
        assert_eq!(refused.class, C::RmaSync, "{refused}");
        window.complete().unwrap();
        assert!(window.test().unwrap(), "nobody is waited for");
        assert_eq!(window.test().unwrap_err().class, C::RmaSync);
        // Rank 0 is exposed to the others, whose own groups are empty.
        window.post(if me == 0 { &[1, 2] } else { &[] }, PLAIN).unwrap();
        window.start(if me == 0 { &[] } else { &[0] }, PLAIN).unwrap();
        if me > 0 {
            window.put(send(&[u64::from(me)]), words(0, i64::from(me), 1)).unwrap();
        }
        window.complete().unwrap();
        window.wait().unwrap();
        if me == 0 {
            assert_eq!(memory_of(&window), [0, 1, 2]);
        }
        assert_eq!(window.start(&[9], PLAIN).unwrap_err().class, C::Rank);
        window.free().unwrap();
    });
}

/// A lock, an operation and the unlock leave together: an epoch behind an uncontended lock is one round trip.
#[test]
fn a_small_epoch_is_one_round_trip() {
    let config = SimConfig::calm(2);
    world_of(19, config, 2, move |world, net| {
        let window = Window::allocate(&world, &Options::new(8, 8)).unwrap();
        world.barrier().unwrap();
        if world.rank() == 0 {
            for value in 0..10 {
                let begun = net.now_ns();
                window.lock(LockKind::Exclusive, 1, PLAIN).unwrap();
                window.put(send(&[value]), words(1, 0, 1)).unwrap();
                window.unlock(1).unwrap();
                let took = net.now_ns() - begun;
                // One more way may be under way from before; a second round trip would be two more.
                assert!(took < 4 * config.latency_ns, "{took} ns at {} ns one way", config.latency_ns);
            }
        }
        world.barrier().unwrap();
        assert_eq!(memory_of(&window), [if world.rank() == 1 { 9 } else { 0 }]);
        window.free().unwrap();
    });
}

#[test]
fn requests_complete_in_any_order() {
    world_of(14, SimConfig::rough(2), 2, |world, _| {
        const N: usize = 24;
        let other = 1 - world.rank() as usize;
        let window = Window::allocate(&world, &Options::new(8 * 2 * N, 8)).unwrap();
        let outside = window.rput(send(&[1]), words(other, 0, 1)).unwrap_err();
        assert_eq!(outside.class, C::RmaSync);
        window.lock_all(Assert { no_check: true, ..PLAIN }).unwrap();
        let mut writes = Vec::new();
        for i in 0..N {
            writes.push(window.rput(send(&[i as u64]), words(other, i as i64, 1)).unwrap());
            writes.push(window.raccumulate(send(&[7]), words(other, (N + i) as i64, 1), &Op::Sum).unwrap());
        }
        writes.into_iter().rev().for_each(|request| _ = world.engine().wait(request).unwrap());
        window.flush_all().unwrap();
        let (mut reads, mut olds) = (vec![0; N], vec![0; N]);
        let mut requests = Vec::new();
        for (i, (read, old)) in reads.chunks_mut(1).zip(olds.chunks_mut(1)).enumerate() {
            requests.push(window.rget(room(read), words(other, i as i64, 1)).unwrap());
            let at = words(other, (N + i) as i64, 1);
            requests.push(window.rget_accumulate(send(&[1]), room(old), at, &Op::Sum).unwrap());
        }
        // Every third first, then the rest from the end.
        let (first, rest): (Vec<_>, Vec<_>) = requests.into_iter().enumerate().partition(|(i, _)| i % 3 == 0);
        let order = first.into_iter().chain(rest.into_iter().rev());
        order.for_each(|(_, request)| _ = world.engine().wait(request).unwrap());
        assert_eq!(reads, (0..N as u64).collect::<Vec<_>>());
        assert_eq!(olds, [7; N]);
        window.unlock_all().unwrap();
        world.barrier().unwrap();
        assert_eq!(memory_of(&window)[N..], [8; N]);
        window.free().unwrap();
    });
}

#[test]
fn both_sides_may_have_gaps() {
    world_of(15, SimConfig::rough(2), 2, |world, _| {
        let other = 1 - world.rank() as usize;
        let window = Window::allocate(&world, &Options::new(800, 8)).unwrap();
        let pairs = Datatype::vector(10, 2, 3, &U64).unwrap().commit();
        let picked = Datatype::indexed_block(1, &(0..20).map(|i| i * 4 + i % 3).collect::<Vec<_>>(), &U64);
        let picked = picked.unwrap().commit();
        let here: Vec<u64> = (0..30).collect();
        let packed: Vec<u64> = (0..30).filter(|i| i % 3 != 2).collect();
        let there = Target { count: 1, datatype: &picked, ..words(other, 2, 0) };
        // SAFETY: the type covers the vector.
        let from = unsafe { SendBuf::new(here.as_ptr().cast(), 1, &pairs) };
        window.fence(PLAIN).unwrap();
        window.put(from, there).unwrap();
        window.fence(PLAIN).unwrap();
        window.accumulate(from, there, &Op::Sum).unwrap();
        window.fence(PLAIN).unwrap();
        let memory = memory_of(&window);
        for (i, value) in packed.iter().enumerate() {
            assert_eq!(memory[2 + i * 4 + i % 3], 2 * value);
        }
        assert_eq!(memory.iter().filter(|v| **v != 0).count(), 19, "one value is 0, all else was left alone");
        let mut back = vec![9; 30];
        // SAFETY: the type covers the vector, which is looked at after the fence.
        let to = unsafe { RecvBuf::new(back.as_mut_ptr().cast(), 1, &pairs) };
        window.get(to, there).unwrap();
        window.fence(PLAIN).unwrap();
        for (i, value) in back.iter().enumerate() {
            assert_eq!(*value, if i % 3 == 2 { 9 } else { 2 * here[i] });
        }
        let shorts = Target { count: 4, datatype: &U16, ..words(other, 0, 0) };
        assert_eq!(window.put(send(&[1]), shorts).unwrap_err().class, C::Type);
        window.fence(Assert { no_succeed: true, ..PLAIN }).unwrap();
        window.free().unwrap();
    });
}

/// Which call is refused in which epoch, by class.
#[test]
fn epochs_exclude_each_other() {
    world_of(16, SimConfig::calm(2), 2, |world, _| {
        let window = Window::allocate(&world, &Options::new(8, 8)).unwrap();
        let class = |result: Result<(), mpi_p2p::Error>| result.unwrap_err().class;
        window.lock_all(PLAIN).unwrap();
        assert_eq!(class(window.fence(PLAIN)), C::RmaSync);
        assert_eq!(class(window.start(&[0], PLAIN)), C::RmaSync);
        assert_eq!(class(window.lock(LockKind::Shared, 0, PLAIN)), C::RmaSync);
        assert_eq!(class(window.lock_all(PLAIN)), C::RmaSync);
        assert_eq!(class(window.unlock(0)), C::RmaSync);
        assert_eq!(class(window.complete()), C::RmaSync);
        assert_eq!(class(window.free()), C::RmaSync);
        window.unlock_all().unwrap();
        assert_eq!(class(window.unlock_all()), C::RmaSync);
        assert_eq!(class(window.flush_all()), C::RmaSync);
        assert_eq!(class(window.flush_local(0)), C::RmaSync);
        window.post(&[], PLAIN).unwrap();
        assert_eq!(class(window.fence(PLAIN)), C::RmaSync);
        assert_eq!(class(window.free()), C::RmaSync);
        window.wait().unwrap();
        window.start(&[], PLAIN).unwrap();
        assert_eq!(class(window.fence(PLAIN)), C::RmaSync);
        assert_eq!(class(window.lock_all(PLAIN)), C::RmaSync);
        window.complete().unwrap();
        world.barrier().unwrap();
        window.free().unwrap();
        assert_eq!(class(window.free()), C::Win);
        assert_eq!(class(window.put(send(&[]), words(0, 0, 0))), C::Win);
        assert_eq!(class(window.sync()), C::Win);
        assert_eq!(class(window.fence(PLAIN)), C::Win);
    });
}

#[test]
fn hints_are_taken_and_shown() {
    world_of(17, SimConfig::calm(2), 2, |world, _| {
        let mut asked = Info::new();
        asked.set("no_locks", "true").unwrap();
        asked.set("same_disp_unit", "true").unwrap();
        asked.set("nobody_knows", "this").unwrap();
        let options = Options { info: asked, ..Options::new(8, 8) };
        let window = Window::allocate(&world, &options).unwrap();
        let used = window.info();
        assert_eq!((used.get("no_locks"), used.get("same_disp_unit")), (Some("true"), Some("true")));
        assert_eq!(used.get("accumulate_ordering"), Some("rar,raw,war,waw"));
        assert_eq!(used.get("nobody_knows"), None);
        // Whoever said that nobody would lock is told when somebody does.
        let refused = window.lock_all(PLAIN).unwrap_err();
        assert!(refused.class == C::RmaSync && refused.to_string().contains("no_locks"), "{refused}");
        assert_eq!(window.lock(LockKind::Shared, 0, PLAIN).unwrap_err().class, C::RmaSync);
        let mut later = Info::new();
        later.set("no_locks", "false").unwrap();
        window.set_info(&later);
        window.lock_all(PLAIN).unwrap();
        window.unlock_all().unwrap();
        world.barrier().unwrap();
        window.free().unwrap();
        let window = Window::dynamic(&world, Info::new()).unwrap();
        assert_eq!((window.flavor(), window.info().get("no_locks")), (Flavor::Dynamic, Some("false")));
        window.free().unwrap();
    });
}

#[test]
fn attributes_are_kept_replaced_and_deleted_with_the_window() {
    world_of(18, SimConfig::calm(2), 2, |world, _| {
        let deleted = Arc::new(AtomicUsize::new(0));
        let seen = deleted.clone();
        let key = create_keyval(Some(Box::new(move |_, _, value| match value {
            99 => Err(5),
            _ => {
                seen.fetch_add(value, Ordering::Relaxed);
                Ok(())
            }
        })));
        let plain = create_keyval(None);
        let window = Window::allocate(&world, &Options::new(8, 8)).unwrap();
        assert_eq!(window.attribute(key).unwrap(), None);
        window.set_attribute(key, 3).unwrap();
        window.set_attribute(plain, 1).unwrap();
        window.set_attribute(key, 4).unwrap();
        assert_eq!((window.attribute(key).unwrap(), deleted.load(Ordering::Relaxed)), (Some(4), 3));
        window.delete_attribute(plain).unwrap();
        assert_eq!(window.delete_attribute(plain).unwrap_err().class, C::Keyval);
        window.set_attribute(key, 99).unwrap();
        assert_eq!(window.delete_attribute(key).unwrap_err().class, C::Other);
        window.set_attribute(key, 10).unwrap();
        free_keyval(key).unwrap();
        assert_eq!(free_keyval(key).unwrap_err().class, C::Keyval);
        assert_eq!(window.set_attribute(key, 1).unwrap_err().class, C::Keyval);
        assert_eq!(window.attribute(key).unwrap(), Some(10), "what was set stays");
        window.free().unwrap();
        assert_eq!(
            deleted.load(Ordering::Relaxed),
            3 + 4 + 10,
            "its callback is called when the window goes"
        );
    });
}
