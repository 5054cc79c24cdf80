//! Typed collectives end to end, and reductions with operations of every kind.

mod support;

use std::borrow::Borrow;
use std::cell::Cell;
use std::process::ExitCode;

use mpi::collective::{SystemOperation, UnsafeUserOperation};
use mpi::datatype::{Partition, PartitionMut};
use mpi::ffi;
use mpi::traits::*;
use mpi::{Count, Rank};
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("rooted_collectives", rooted_collectives),
    case("collectives_among_all", collectives_among_all),
    case("immediate_collectives", immediate_collectives),
    case("reductions", reductions),
    case("reductions_of_other_widths", reductions_of_other_widths),
    case("reduction_that_does_not_fit", reduction_that_does_not_fit)
        .on(&[2])
        .fails(ERROR_STATUS, &["does not fit", "i8"]),
    case("user_operations", user_operations),
    case("partitions_ask_once", partitions_ask_once).on(&[2]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn rooted_collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    for root_rank in 0..size {
        let root = world.process_at_rank(root_rank);
        let mut data = if rank == root_rank { vec![root_rank; 1000] } else { vec![-1; 1000] };
        root.broadcast_into(&mut data[..]);
        assert_eq!(data, vec![root_rank; 1000]);

        // Parts of rank + 1 elements, one apart.
        let counts: Vec<Count> = (0..size).map(|r| r + 1).collect();
        let displs: Vec<Count> =
            counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n + 1))).collect();
        let total = (displs[size as usize - 1] + size) as usize;
        let mine = vec![rank; rank as usize + 1];
        let mut part = vec![-1; rank as usize + 1];
        if root.is_self() {
            let mut all = vec![-1; size as usize * 2];
            root.gather_into_root(&[rank, -rank], &mut all[..]);
            assert_eq!(all, (0..size).flat_map(|r| [r, -r]).collect::<Vec<_>>());
            let mut two = [0; 2];
            root.scatter_into_root(&all[..], &mut two);
            assert_eq!(two, [rank, -rank]);

            let mut table = vec![-1; total];
            root.gather_varcount_into_root(
                &mine[..],
                &mut PartitionMut::new(&mut table[..], &counts[..], &displs[..]),
            );
            for r in 0..size as usize {
                let at = displs[r] as usize;
                assert_eq!(table[at..at + r + 1], vec![r as Rank; r + 1]);
                assert!(table.get(at + r + 1).is_none_or(|&gap| gap == -1));
            }
            root.scatter_varcount_into_root(
                &Partition::new(&table[..], &counts[..], &displs[..]),
                &mut part[..],
            );
        } else {
            root.gather_into(&[rank, -rank]);
            let mut two = [0; 2];
            root.scatter_into(&mut two);
            assert_eq!(two, [rank, -rank]);
            root.gather_varcount_into(&mine[..]);
            root.scatter_varcount_into(&mut part[..]);
        }
        assert_eq!(part, mine);
    }
}

fn collectives_among_all() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let n = size as usize;
    world.barrier();
    let mut all = vec![-1; n];
    world.all_gather_into(&rank, &mut all[..]);
    assert_eq!(all, (0..size).collect::<Vec<_>>());
    // What is left over at the end stays as it is.
    let mut longer = vec![-1; n + n.min(2) - 1];
    world.all_gather_into(&rank, &mut longer[..]);
    assert_eq!(longer[..n], all[..]);

    let sent: Vec<Rank> = (0..size).map(|to| rank * 100 + to).collect();
    let mut got = vec![-1; n];
    world.all_to_all_into(&sent[..], &mut got[..]);
    assert_eq!(got, (0..size).map(|from| from * 100 + rank).collect::<Vec<_>>());

    // Rank r sends r + 1 elements to everyone.
    let counts: Vec<Count> = (1..=size).collect();
    let displs: Vec<Count> = (0..size).map(|r| r * (r + 1) / 2).collect();
    let mine = vec![rank; rank as usize + 1];
    let expected: Vec<Rank> = (0..size).flat_map(|r| vec![r; r as usize + 1]).collect();
    let mut all = vec![-1; expected.len()];
    world.all_gather_varcount_into(&mine[..], &mut PartitionMut::new(&mut all[..], &counts[..], &displs[..]));
    assert_eq!(all, expected);
    let mut again = vec![-1; expected.len()];
    let same = vec![rank + 1; n];
    let starts = vec![0; n];
    world.all_to_all_varcount_into(
        &Partition::new(&mine[..], &same[..], &starts[..]),
        &mut PartitionMut::new(&mut again[..], &counts[..], &displs[..]),
    );
    assert_eq!(again, expected);
}

fn immediate_collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let n = size as usize;
    world.immediate_barrier().wait();
    let (mut all, mut sum, mut upto, mut block) = (vec![-1; n], -1, -1, -1);
    let mut data = if rank == 0 { [1.5; 100] } else { [0.0; 100] };
    let ones = vec![1; n];
    mpi::request::scope(|scope| {
        let sum_of = SystemOperation::sum;
        let a = world.immediate_all_gather_into(scope, &rank, &mut all[..]);
        let b = world.immediate_all_reduce_into(scope, &rank, &mut sum, sum_of());
        let c = world.immediate_scan_into(scope, &rank, &mut upto, sum_of());
        let d = world.process_at_rank(0).immediate_broadcast_into(scope, &mut data[..]);
        let e = world.immediate_reduce_scatter_block_into(scope, &ones[..], &mut block, sum_of());
        e.wait();
        d.wait();
        c.wait();
        b.wait();
        a.wait();
    });
    assert_eq!(all, (0..size).collect::<Vec<_>>());
    assert_eq!((sum, upto, block), (size * (size - 1) / 2, rank * (rank + 1) / 2, size));
    assert_eq!(data, [1.5; 100]);
}

fn reductions() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let mut values = [0.0_f64; 500];
    world.all_reduce_into(&[f64::from(rank); 500], &mut values, SystemOperation::max());
    assert_eq!(values, [f64::from(size - 1); 500]);
    let mut all_true = false;
    world.all_reduce_into(&(rank != 0), &mut all_true, SystemOperation::logical_or());
    assert_eq!(all_true, size > 1);
    let mut before = -7;
    world.exclusive_scan_into(&(rank + 1), &mut before, SystemOperation::sum());
    assert_eq!(before, if rank == 0 { -7 } else { rank * (rank + 1) / 2 });
    let root = world.process_at_rank(size - 1);
    if root.is_self() {
        let mut least = 0_u8;
        root.reduce_into_root(&(rank as u8 + 3), &mut least, SystemOperation::min());
        assert_eq!(least, 3);
    } else {
        root.reduce_into(&(rank as u8 + 3), SystemOperation::min());
    }
    let mut bits = 0b1100_u32;
    mpi::collective::reduce_local_into(&0b1010_u32, &mut bits, SystemOperation::bitwise_xor());
    assert_eq!(bits, 0b0110);
    assert!(SystemOperation::sum().is_commutative());
}

/// A result variable narrower or wider than the operands.
fn reductions_of_other_widths() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size());
    let (mut narrow, beside) = (0_i32, 77);
    world.scan_into(&rank, &mut narrow, SystemOperation::sum());
    assert_eq!((narrow, beside), ((rank * (rank + 1) / 2) as i32, 77));
    let mut wide = 0_i64;
    world.all_reduce_into(&-1_i8, &mut wide, SystemOperation::sum());
    assert_eq!(wide, -i64::from(size));
    let mut kept = -5_i64;
    world.exclusive_scan_into(&1_i8, &mut kept, SystemOperation::sum());
    assert_eq!(kept, if rank == 0 { -5 } else { rank as i64 });
}

fn reduction_that_does_not_fit() {
    let universe = mpi::initialize().unwrap();
    let mut narrow = 0_i8;
    universe.world().all_reduce_into(&100_i32, &mut narrow, SystemOperation::sum());
}

unsafe extern "C" fn add_i32(
    input: *mut std::ffi::c_void,
    inout: *mut std::ffi::c_void,
    len: *mut std::ffi::c_int,
    _: *mut ffi::MPI_Datatype,
) {
    // SAFETY: the operation is used with `i32` only.
    unsafe {
        for i in 0..*len as usize {
            *inout.cast::<i32>().add(i) += *input.cast::<i32>().add(i);
        }
    }
}

fn user_operations() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    // SAFETY: it is good for `i32`.
    let op = unsafe { UnsafeUserOperation::commutative(add_i32) };
    let mut sum = [0; 3];
    world.all_reduce_into(&[rank, 1, -rank], &mut sum, &op);
    assert_eq!(sum, [size * (size - 1) / 2, size, -size * (size - 1) / 2]);
    #[cfg(feature = "user-operations")]
    {
        use mpi::collective::UserOperation;
        // Not commutative: the first of two wins, in the order of ranks.
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let first = UserOperation::associative(|left, right| {
            calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            right.downcast::<u64>().unwrap().copy_from_slice(left.downcast::<u64>().unwrap());
        });
        assert!(!(&first).is_commutative());
        let mut result = 0_u64;
        world.all_reduce_into(&(rank as u64 + 10), &mut result, &first);
        assert_eq!(result, 10);
        assert!(size == 1 || calls.load(std::sync::atomic::Ordering::Relaxed) <= 64);
    }
}

/// Gives the first numbers once, and the others from then on.
struct Fickle(Cell<bool>, Vec<Count>, Vec<Count>);

impl Borrow<[Count]> for Fickle {
    fn borrow(&self) -> &[Count] {
        if self.0.replace(true) { &self.2 } else { &self.1 }
    }
}

/// What was looked at is what is used: numbers that safe code changes afterwards reach no memory outside the buffer.
fn partitions_ask_once() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let size = world.size() as usize;
    let fickle =
        |honest: Count, greedy: Count| Fickle(Cell::new(false), vec![honest; size], vec![greedy; size]);
    let data = [7_u8; 8];
    let mut room = vec![0_u8; 8 * size];
    let starts: Vec<Count> = (0..world.size()).map(|rank| rank * 8).collect();
    {
        let parts = Partition::new(&data[..], fickle(1, 4096), fickle(2, 1 << 20));
        let mut into = PartitionMut::new(&mut room[..], fickle(1, 4096), &starts[..]);
        world.all_to_all_varcount_into(&parts, &mut into);
    }
    for part in room.chunks(8) {
        assert_eq!(part, [7, 0, 0, 0, 0, 0, 0, 0]);
    }
}
