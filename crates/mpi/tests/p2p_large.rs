//! Messages and a collective of more than 2^31 elements, and of more than 4 GiB.

mod support;

use std::process::ExitCode;

use mpi::ext::LargePartition;
use mpi::traits::*;
use support::{Case, case};

const CASES: &[Case] = &[
    case("more_than_4_gib", more_than_4_gib).on(&[2]).slow(),
    case("more_than_2_31_elements", many_elements).on(&[2]).slow(),
    case("broadcast_of_more_than_2_31_elements", broadcast_many_elements).on(&[2]).slow(),
    case("collective_of_more_than_2_31_elements", collective).on(&[2]).over(&["shm"]).slow(),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// What stands at byte or word `i`.
fn value(i: usize) -> u64 {
    (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Rank 0 sends, rank 1 receives: two buffers of just above 4 GiB exist at once.
fn more_than_4_gib() {
    const WORDS: usize = (4 << 30) / 8 + 3;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        let data: Vec<u64> = (0..WORDS).map(value).collect();
        assert!(u32::try_from(data.len() * 8).is_err());
        world.process_at_rank(1).send(&data[..]);
    } else {
        let mut room = vec![0_u64; WORDS];
        let status = world.process_at_rank(0).receive_into(&mut room[..]);
        assert_eq!(status.bytes(), WORDS as u64 * 8);
        assert!(room.iter().enumerate().all(|(i, &got)| got == value(i)));
    }
}

fn many_elements() {
    const BYTES: usize = (1 << 31) + 5;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        let data: Vec<u8> = (0..BYTES).map(|i| value(i >> 3) as u8).collect();
        world.process_at_rank(1).send(&data);
    } else {
        let (got, status) = world.process_at_rank(0).receive_vec::<u8>();
        assert_eq!((got.len(), status.bytes()), (BYTES, BYTES as u64));
        assert_eq!(status.count(u8::equivalent_datatype()), mpi::ffi::MPI_UNDEFINED);
        assert!(got.iter().enumerate().all(|(i, &got)| got == value(i >> 3) as u8));
    }
}

/// Two buffers of just above 2 GiB exist at once; more elements than an `int` counts.
fn broadcast_many_elements() {
    const BYTES: usize = (1 << 31) + 16;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut data = vec![0_u8; BYTES];
    if world.rank() == 0 {
        data.iter_mut().enumerate().for_each(|(i, byte)| *byte = value(i >> 3) as u8);
    }
    world.process_at_rank(0).broadcast_into(&mut data[..]);
    assert!(data.iter().enumerate().all(|(i, &got)| got == value(i >> 3) as u8));
}

/// A part of its own length for each rank, one of them beyond 2^31, both from places beyond what a `Count` can say.
fn collective() {
    const BYTES: usize = (1 << 31) + 8;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (counts, starts) = (vec![BYTES, 24], vec![0, BYTES]);
    let mine: Vec<u8> = match world.rank() {
        0 => (0..BYTES).map(|i| value(i >> 3) as u8).collect(),
        _ => vec![7; 24],
    };
    let mut all = vec![0_u8; BYTES + 24];
    let mut parts = LargePartition::new_mut(&mut all[..], counts, starts);
    world.all_gather_varcount_into(&mine[..], &mut parts);
    assert!(all[..BYTES].iter().enumerate().all(|(i, &got)| got == value(i >> 3) as u8));
    assert_eq!(all[BYTES..], [7; 24]);
}
