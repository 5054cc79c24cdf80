//! What must be the same between hosts of different byte order.
//!
//! Run like every other test it compares this host with itself. `cargo xtask big-endian` runs the same cases in jobs
//! where some ranks are programs of a big-endian machine, under emulation.

mod support;

use std::fmt::Debug;
use std::process::ExitCode;

use mpi::Count;
use mpi::collective::{SystemOperation, UserOperation};
use mpi::datatype::{MutView, UserDatatype, View};
use mpi::ext::prelude::*;
use mpi::point_to_point::MatchedReceiveVec;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::window::Window;
use support::{Case, case};

const SOME: &[u32] = &[2, 3];

const CASES: &[Case] = &[
    case("primitives", primitives).on(SOME),
    #[cfg(feature = "complex")]
    case("complex_numbers", complex_numbers).on(SOME),
    #[cfg(feature = "derive")]
    case("derived_structs", derived_structs).on(SOME),
    case("layouts", layouts).on(SOME),
    case("every_length", every_length).on(SOME),
    case("lent_and_matched", lent_and_matched).on(SOME),
    case("packed", packed).on(SOME),
    case("external", external).on(SOME),
    case("moving_collectives", moving_collectives).on(SOME),
    case("reductions", reductions).on(SOME),
    case("scans", scans).on(SOME),
    case("windows", windows).on(SOME),
    case("communicators", communicators).on(SOME),
    case("wrong_types_are_seen", wrong_types_are_seen).on(SOME),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn around<T: Equivalence + PartialEq + Debug + Clone>(world: &SimpleCommunicator, values: &[T]) {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    mpi::request::scope(|scope| {
        let send = world.process_at_rank(next).immediate_send(scope, values);
        let (got, status) = world.process_at_rank(previous).receive_vec::<T>();
        assert_eq!(&got, values, "from rank {}", status.source_rank());
        send.wait();
        let send = world.process_at_rank(next).immediate_synchronous_send(scope, &values[0]);
        let (got, _) = world.any_process().receive::<T>();
        assert_eq!(&got, &values[0]);
        send.wait();
    });
}

fn primitives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    around(&world, &[-2_i8, 3, i8::MIN]);
    around(&world, &[2_u8, 3, 0xF0]);
    around(&world, &[-2_i16, 0x0102, i16::MIN]);
    around(&world, &[2_u16, 0x0102, u16::MAX - 1]);
    around(&world, &[-2_i32, 0x0102_0304, i32::MIN]);
    around(&world, &[2_u32, 0x0102_0304, u32::MAX - 1]);
    around(&world, &[-2_i64, 0x0102_0304_0506_0708, i64::MIN]);
    around(&world, &[2_u64, 0x0102_0304_0506_0708, u64::MAX - 1]);
    around(&world, &[-2_isize, 0x0102_0304, isize::MIN]);
    around(&world, &[2_usize, 0x0102_0304, usize::MAX - 1]);
    around(&world, &[1.5_f32, -0.1, f32::MIN_POSITIVE]);
    around(&world, &[1.5_f64, -0.1, f64::MIN_POSITIVE]);
    around(&world, &[true, false, true]);
    around(&world, &['a', 'λ', '\u{10FFFF}']);
}

#[cfg(feature = "complex")]
fn complex_numbers() {
    use num_complex::Complex;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    around(&world, &[Complex::new(1.5_f32, -2.25), Complex::new(0.1, 3.0)]);
    around(&world, &[Complex::new(1.5_f64, -2.25), Complex::new(0.1, 3.0)]);
    let mine = Complex::new(f64::from(world.rank()), 1.0);
    let mut sum = Complex::new(0.0, 0.0);
    world.all_reduce_into(&mine, &mut sum, SystemOperation::sum());
    let n = f64::from(world.size());
    assert_eq!(sum, Complex::new(n * (n - 1.0) / 2.0, n));
}

#[cfg(feature = "derive")]
mod derived {
    use super::*;

    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[repr(u16)]
    pub enum Kind {
        First = 0x0102,
        Second = 0x0304,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    pub struct Holed {
        pub flag: bool,
        pub value: f64,
        pub small: u16,
        pub letter: char,
        pub kind: Kind,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    pub struct Nested(pub i8, pub [Holed; 3], pub (u32, [[i16; 3]; 2]), pub i64);

    pub fn holed(i: u16) -> Holed {
        let kind = if i % 2 == 0 { Kind::First } else { Kind::Second };
        Holed {
            flag: i % 3 == 0,
            value: f64::from(i) * 0.1,
            small: i.wrapping_mul(0x0101),
            letter: 'λ',
            kind,
        }
    }
    pub fn nested(i: u16) -> Nested {
        let numbers = [[i as i16, -2, 3], [4, 0x0506, i16::MIN]];
        Nested(-1, [holed(i), holed(i + 1), holed(i + 2)], (0x0A0B_0C0D, numbers), i64::from(i) << 33)
    }
}

#[cfg(feature = "derive")]
fn derived_structs() {
    use derived::*;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    around(&world, &[holed(1)]);
    around(&world, &(0..3).map(nested).collect::<Vec<_>>());
    around(&world, &(0..20_000).map(holed).collect::<Vec<_>>());
    around(&world, &(0..5_000).map(nested).collect::<Vec<_>>());
    let mut all = vec![nested(0); world.size() as usize];
    world.all_gather_into(&nested(world.rank() as u16), &mut all[..]);
    assert!(all.iter().enumerate().all(|(i, v)| *v == nested(i as u16)));
}

/// Datatypes built by hand, sent from a layout and received into another.
fn layouts() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for n in [4_usize, 300] {
        let grid: Vec<u64> = (0..n * n).map(|i| 0x0102_0304 * i as u64).collect();
        let column = UserDatatype::vector(n as Count, 1, n as Count, &u64::equivalent_datatype());
        let indexed = UserDatatype::indexed(&[1, 2], &[5, 1], &u64::equivalent_datatype());
        // SAFETY: the column lies in the grid.
        let view = unsafe { View::with_count_and_datatype(&grid[2..], 1, &column) };
        // SAFETY: elements 1, 2 and 5 lie in the grid.
        let three = unsafe { View::with_count_and_datatype(&grid[..], 1, &indexed) };
        mpi::request::scope(|scope| {
            let sends = [
                world.process_at_rank(next).immediate_send(scope, &view),
                world.process_at_rank(next).immediate_send(scope, &three),
            ];
            let mut room = vec![0_u64; n * n];
            {
                // SAFETY: as above.
                let mut view = unsafe { MutView::with_count_and_datatype(&mut room[1..], 1, &column) };
                world.process_at_rank(previous).receive_into(&mut view);
            }
            for (i, v) in room.iter().enumerate() {
                assert_eq!(*v, if i % n == 1 { grid[i + 1] } else { 0 }, "element {i} of {n} x {n}");
            }
            let (got, _) = world.process_at_rank(previous).receive_vec::<u64>();
            assert_eq!(got, [grid[5], grid[1], grid[2]]);
            for send in sends {
                send.wait();
            }
        });
    }
}

/// Eager, in several pieces, and announced.
fn every_length() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for length in [0_usize, 1, 5, 100, 1_000, 7_000, 8_200, 20_000, 200_000] {
        let values: Vec<f64> = (0..length).map(|i| i as f64 * 0.3).collect();
        let words: Vec<u16> = (0..length).map(|i| i as u16).collect();
        let (rank, size) = (world.rank(), world.size());
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        let mut room = vec![0.0; length];
        mpi::request::scope(|scope| {
            let posted =
                world.process_at_rank(previous).immediate_receive_into_with_tag(scope, &mut room[..], 1);
            // The words are unexpected, the numbers are not.
            let first = world.process_at_rank(next).immediate_send_with_tag(scope, &words[..], 2);
            let second = world.process_at_rank(next).immediate_send_with_tag(scope, &values[..], 1);
            posted.wait();
            let (got, _) = world.process_at_rank(previous).receive_vec_with_tag::<u16>(2);
            assert_eq!(got, words);
            first.wait();
            second.wait();
        });
        assert_eq!(room, values);
    }
}

fn lent_and_matched() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let values: Vec<u32> = (0..500_u32).map(|i| i.wrapping_mul(0x0102_0305)).collect();
    let sends = [
        world.process_at_rank(next).isend_owned(values.clone()),
        world.process_at_rank(next).isend_owned(values.clone()),
        world.process_at_rank(next).isend_owned(values.clone()),
    ];
    world.process_at_rank(previous).receive_ref(|got: &[u32], _| assert_eq!(got, values));
    let (message, status) = world.process_at_rank(previous).matched_probe();
    assert_eq!(status.count(u32::equivalent_datatype()), 500);
    assert_eq!((message, status).matched_receive_vec::<u32>().0, values);
    assert_eq!(world.process_at_rank(previous).irecv_vec::<u32>().wait().0, values);
    sends.into_iter().for_each(|send| drop(send.wait()));
}

/// Packed data is packed by one rank and unpacked by another.
fn packed() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (a, b, c) = ([1_u16, 2, 0x0304], 4.5_f64, ['a', 'λ']);
    let mut bytes = vec![0_u8; 40];
    let mut end = world.pack_into(&a, &mut bytes, 0);
    end = world.pack_into(&b, &mut bytes, end);
    end = world.pack_into(&c, &mut bytes, end);
    bytes.truncate(end as usize);
    around_bytes(&world, &bytes);
    let previous = (world.rank() + world.size() - 1) % world.size();
    let next = (world.rank() + 1) % world.size();
    mpi::request::scope(|scope| {
        let send = world.process_at_rank(next).immediate_send(scope, &bytes[..]);
        let (got, _) = world.process_at_rank(previous).receive_vec::<u8>();
        let (mut x, mut y, mut z) = ([0_u16; 3], 0.0_f64, ['\0'; 2]);
        // SAFETY: the bytes were packed from these types.
        unsafe {
            let mut at = world.unpack_into(&got, &mut x, 0);
            at = world.unpack_into(&got, &mut y, at);
            world.unpack_into(&got, &mut z, at);
        }
        assert_eq!((x, y, z), (a, b, c));
        send.wait();
    });
}

/// The same bytes on every host.
fn around_bytes(world: &SimpleCommunicator, bytes: &[u8]) {
    let mut first = bytes.to_vec();
    world.process_at_rank(0).broadcast_into(&mut first[..]);
    assert_eq!(first, bytes);
}

fn external() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let values = [0x0102_0304_u32, 5];
    let bytes = mpi::ext::pack_external(&values[..]);
    assert_eq!(bytes, [1, 2, 3, 4, 0, 0, 0, 5]);
    around_bytes(&world, &bytes);
    around_bytes(&world, &mpi::ext::pack_external(&[0.1_f64, -3.5][..]));
    let mut room = [0_u32; 2];
    assert_eq!(mpi::ext::unpack_external(&bytes, &mut room[..]).unwrap(), 8);
    assert_eq!(room, values);
    assert!(mpi::ext::unpack_external(&bytes[..7], &mut room[..]).is_err());
    let mut flags = [true; 2];
    assert!(mpi::ext::unpack_external(&[1, 7], &mut flags[..]).is_err());
    assert_eq!(flags, [true, false]);
}

fn moving_collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let n = size as usize;
    for length in [1_usize, 50, 3_000, 40_000] {
        let of = |r: i32| (0..length).map(|i| i as f64 * 0.7 + f64::from(r)).collect::<Vec<_>>();
        for root in 0..size {
            let mut data = if rank == root { of(root) } else { vec![0.0; length] };
            world.process_at_rank(root).broadcast_into(&mut data[..]);
            assert_eq!(data, of(root), "{length} from {root}");
        }
        let mut all = vec![0.0; n * length];
        world.all_gather_into(&of(rank)[..], &mut all[..]);
        assert_eq!(all, (0..size).flat_map(of).collect::<Vec<_>>(), "allgather of {length}");
        let mine: Vec<f64> = (0..size).flat_map(|_| of(rank)).collect();
        world.all_to_all_into(&mine[..], &mut all[..]);
        assert_eq!(all, (0..size).flat_map(of).collect::<Vec<_>>(), "alltoall of {length}");
        if rank == 1 {
            world.process_at_rank(1).gather_into_root(&of(rank)[..], &mut all[..]);
        } else {
            world.process_at_rank(1).gather_into(&of(rank)[..]);
        }
        let mut part = vec![0.0; length];
        if rank == 1 {
            assert_eq!(all, (0..size).flat_map(of).collect::<Vec<_>>(), "gather of {length}");
            world.process_at_rank(1).scatter_into_root(&all[..], &mut part[..]);
        } else {
            world.process_at_rank(1).scatter_into(&mut part[..]);
        }
        assert_eq!(part, of(rank), "scatter of {length}");
    }
}

fn reductions() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    for length in [1_usize, 7, 400, 5_000, 100_000] {
        let of = |r: i32| (0..length).map(|i| i as i64 * 1_000_003 + i64::from(r)).collect::<Vec<_>>();
        let sum: Vec<i64> = (0..length).map(|i| (0..size).map(|r| of_one(i, r)).sum()).collect();
        let mut got = vec![0; length];
        world.all_reduce_into(&of(rank)[..], &mut got[..], SystemOperation::sum());
        assert_eq!(got, sum, "sum of {length}");
        world.all_reduce_into(&of(rank)[..], &mut got[..], SystemOperation::max());
        assert_eq!(got, of(size - 1), "maximum of {length}");
        // Floating point: the same bits on every rank.
        let mine: Vec<f64> = (0..length).map(|i| 0.1 * i as f64 + 0.3 * f64::from(rank)).collect();
        let mut total = vec![0.0_f64; length];
        world.all_reduce_into(&mine[..], &mut total[..], SystemOperation::sum());
        around_bytes(&world, &total.iter().flat_map(|v| v.to_bits().to_le_bytes()).collect::<Vec<_>>());
    }
    // An operation of the program's own, in the order of ranks.
    let mut last = 0_u32;
    let keep_last = UserOperation::associative(|x, y| {
        let x = x.downcast::<u32>().unwrap();
        let y = y.downcast::<u32>().unwrap();
        x.iter().zip(y).for_each(|(x, y)| *y = x.wrapping_mul(0x0101).wrapping_add(*y));
    });
    world.all_reduce_into(&(rank as u32 + 1), &mut last, &keep_last);
    let expected = (1..=size as u32).reduce(|x, y| x.wrapping_mul(0x0101).wrapping_add(y)).unwrap();
    assert_eq!(last, expected);
    // Bits and truth.
    let mut bits = 0_u16;
    world.all_reduce_into(&(0x0100_u16 << rank), &mut bits, SystemOperation::bitwise_or());
    assert_eq!(bits, (0..size).map(|r| 0x0100_u16 << r).sum());
    let mut truth = false;
    world.all_reduce_into(&(rank == 0), &mut truth, SystemOperation::logical_or());
    assert!(truth);
}

fn of_one(i: usize, r: i32) -> i64 {
    i as i64 * 1_000_003 + i64::from(r)
}

fn scans() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let rank = world.rank() as u32;
    let mine = [rank + 0x0100, 2 * rank];
    let mut upto = [0_u32; 2];
    world.scan_into(&mine[..], &mut upto[..], SystemOperation::sum());
    assert_eq!(upto, [(0..=rank).map(|r| r + 0x0100).sum(), (0..=rank).map(|r| 2 * r).sum()]);
    let mut before = [7_u32; 2];
    world.exclusive_scan_into(&mine[..], &mut before[..], SystemOperation::sum());
    if rank > 0 {
        assert_eq!(before, [(0..rank).map(|r| r + 0x0100).sum(), (0..rank).map(|r| 2 * r).sum()]);
    }
    let (size, mut block) = (world.size(), 0_i16);
    let all: Vec<i16> = (0..size as i16).map(|i| 0x0100 + i).collect();
    world.reduce_scatter_block_into(&all[..], &mut block, SystemOperation::sum());
    assert_eq!(block, size as i16 * (0x0100 + rank as i16));
}

fn windows() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for own in [true, false] {
        let mut window = match own {
            true => Window::<u32>::allocate(&world, 3000),
            false => Window::over(&world, vec![0; 3000]),
        };
        let sent: Vec<u32> = (0..2000).map(|i| 0x0102_0304 + 7 * i + rank as u32).collect();
        window.fence(|epoch| epoch.put(&sent, next, 100));
        let mut back = vec![0; 2000];
        window.fence(|epoch| epoch.get(&mut back, next, 100));
        assert_eq!(back, sent);
        window.own(|memory| {
            let right = |i: usize| 0x0102_0304 + 7 * i as u32 + previous as u32;
            assert!((0..2000).all(|i| memory[100 + i] == right(i)));
        });
        world.barrier();
        window.fence(|epoch| epoch.accumulate(&sent, 0, 0, SystemOperation::sum()));
        let before = window.lock(0, |epoch| epoch.read(0, 2500));
        assert_eq!(before, 0);
        world.barrier();
        window.lock_all(|epoch| {
            for _ in 0..20 {
                epoch.fetch_and_op(0, 2500, 0x0100, SystemOperation::sum());
            }
        });
        world.barrier();
        let now = window.lock(0, |epoch| epoch.read(0, 2500));
        assert_eq!(now, 20 * 0x0100 * size as u32);
        world.barrier();
        let won = window.lock(1, |epoch| epoch.compare_and_swap(1, 2999, 0, 0x0A0B_0C00 + rank as u32)) == 0;
        let mut winners = 0;
        world.all_reduce_into(&i32::from(won), &mut winners, SystemOperation::sum());
        assert_eq!(winners, 1);
        window.free();
    }
}

/// Contexts are agreed on and worlds are split between hosts of both kinds.
fn communicators() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let copy = world.duplicate();
    around(&copy, &[world.size(), 0x0102]);
    let color = mpi::topology::Color::with_value(world.rank() % 2);
    let half = world.split_by_color(color).unwrap();
    around(&half, &[0x0102_0304_u32, 5]);
    let grid = world.create_cartesian_communicator(&[world.size()], &[true], false).unwrap();
    let (source, destination) = grid.shift(0, 1);
    assert!(source.is_some() && destination.is_some());
}

/// A sender's type that is not the receiver's is an error here as everywhere.
fn wrong_types_are_seen() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let next = (world.rank() + 1) % world.size();
    let previous = (world.rank() + world.size() - 1) % world.size();
    let send = world.process_at_rank(next).isend_owned(vec![1_i32, 2]);
    let error = world.process_at_rank(previous).try_receive_vec::<f32>().unwrap_err();
    assert_eq!(error.class(), mpi::ext::ErrorClass::Type, "{error}");
    let _ = send.wait();
}
