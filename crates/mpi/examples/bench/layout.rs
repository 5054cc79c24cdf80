//! Two ranks: one-way time of data with gaps.

use std::time::Instant;

use mpi::datatype::{MutView, UserDatatype, View};
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::*;

use crate::util::*;

/// Of the matrix whose first column goes.
const COLUMNS: usize = 64;

/// Has a hole after `cell`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Particle {
    place: f64,
    cell: i32,
    speed: [f64; 3],
}

/// What `#[derive(Equivalence)]` makes; the package's default features are without it.
fn particles() -> UserDatatype {
    let offsets = [
        std::mem::offset_of!(Particle, place) as mpi::Address,
        std::mem::offset_of!(Particle, cell) as mpi::Address,
        std::mem::offset_of!(Particle, speed) as mpi::Address,
    ];
    let types = [f64::equivalent_datatype(), i32::equivalent_datatype(), f64::equivalent_datatype()];
    UserDatatype::structured(&[1, 1, 3], &offsets, &types)
}

/// As `measure` of `p2p.rs`, over views of the two buffers.
fn measure<T: Copy>(
    world: &SimpleCommunicator,
    (out, into): (&[T], &mut [T]),
    (count, datatype): (i32, &UserDatatype),
) -> f64
where
    [T]: Pointer + PointerMut,
{
    let first = world.rank() == 0;
    let peer = world.process_at_rank(1 - world.rank());
    let mut times = WARM_UP_ROUNDS;
    let mut round = |times: i64| ping_pong(first, &peer, times, (out, into), (count, datatype));
    if !first {
        loop {
            peer.receive_into_with_tag(&mut times, TAG_PLAN);
            if times == 0 {
                return 0.0;
            }
            round(times);
        }
    }
    loop {
        peer.send_with_tag(&times, TAG_PLAN);
        let took = round(times);
        if took >= CALIBRATION_SECONDS {
            times = (times as f64 * (BATCH_SECONDS / took)) as i64 + 1;
            break;
        }
        times *= 2;
    }
    let mut batches = [0.0; BATCHES];
    for batch in &mut batches {
        peer.send_with_tag(&times, TAG_PLAN);
        *batch = round(times) / times as f64;
    }
    peer.send_with_tag(&0_i64, TAG_PLAN);
    median(&mut batches)
}

fn ping_pong<T>(
    first: bool,
    peer: &Process<'_>,
    times: i64,
    (out, into): (&[T], &mut [T]),
    (count, datatype): (i32, &UserDatatype),
) -> f64
where
    [T]: Pointer + PointerMut,
{
    // SAFETY: the callers lay the datatype over buffers that hold all of it.
    let out = unsafe { View::with_count_and_datatype(out, count, datatype) };
    // SAFETY: as above.
    let mut into = unsafe { MutView::with_count_and_datatype(into, count, datatype) };
    let start = Instant::now();
    for _ in 0..times {
        if first {
            peer.send_with_tag(&out, TAG_DATA);
            peer.receive_into_with_tag(&mut into, TAG_DATA);
        } else {
            peer.receive_into_with_tag(&mut into, TAG_DATA);
            peer.send_with_tag(&out, TAG_DATA);
        }
    }
    start.elapsed().as_secs_f64()
}

/// Microseconds one way, by bytes of data (not of memory).
pub fn layouts(world: &SimpleCommunicator, sizes: &[usize]) {
    assert_eq!(world.size(), 2, "this case needs two ranks");
    let report = |key: &str, bytes: usize, seconds: f64| {
        if world.rank() == 0 {
            result(&format!("{key}/{bytes}"), seconds / 2.0 * 1e6);
        }
    };
    for &bytes in sizes {
        let rows = bytes / size_of::<f64>();
        let column = UserDatatype::vector(rows as i32, 1, COLUMNS as i32, &f64::equivalent_datatype());
        let out = vec![1.0 + f64::from(world.rank()); rows * COLUMNS];
        let mut into = vec![0.5; rows * COLUMNS];
        let seconds = measure(world, (&out, &mut into), (1, &column));
        let arrived = |at: usize| at % COLUMNS != 0 || into[at] == 2.0 - f64::from(world.rank());
        assert!((0..into.len()).all(arrived), "the data did not arrive");
        report("column", bytes, seconds);

        let particle = particles();
        let count = bytes / 36;
        let one = Particle { place: 1.0, cell: world.rank(), speed: [2.0; 3] };
        let (out, mut into) = (vec![one; count], vec![Particle { cell: 7, ..one }; count]);
        // As bytes, which is what a slice of a type without an equivalent datatype can be viewed as.
        let seconds = measure(world, (bytes_of(&out), bytes_of_mut(&mut into)), (count as i32, &particle));
        let sent = Particle { cell: 1 - world.rank(), ..one };
        assert!(into.iter().all(|got| *got == sent), "the data did not arrive");
        report("particles", bytes, seconds);
    }
}

fn bytes_of(all: &[Particle]) -> &[u8] {
    // SAFETY: only the fields are read through it.
    unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), size_of_val(all)) }
}

fn bytes_of_mut(all: &mut [Particle]) -> &mut [u8] {
    // SAFETY: only numbers are written through it, into fields of their kind.
    unsafe { std::slice::from_raw_parts_mut(all.as_mut_ptr().cast(), size_of_val(all)) }
}
