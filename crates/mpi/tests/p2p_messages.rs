//! Every kind of point-to-point message, between ranks that mpiexec starts, over each transport.

mod support;

use std::process::ExitCode;

use mpi::datatype::{MutView, UserDatatype, View};
use mpi::ffi::{MPI_ANY_TAG, MPI_PROC_NULL};
use mpi::point_to_point as p2p;
use mpi::request::WaitGuard;
use mpi::topology::{AnyProcess, SimpleCommunicator};
use mpi::traits::*;
use mpi::{Count, Rank};
use support::{Case, case};

/// Lengths in bytes around every limit between protocols: one line, inline, eager, rendezvous, pipelined.
const SIZES: &[usize] = &[
    0,
    1,
    7,
    8,
    24,
    25,
    63,
    64,
    100,
    1000,
    4095,
    4096,
    4097,
    8192,
    16384,
    16385,
    65535,
    65536,
    65537,
    100_000,
    1 << 20,
    (1 << 20) + 3,
    5 << 20,
];

const CASES: &[Case] = &[
    case("standard", standard),
    case("buffered", buffered),
    case("synchronous", synchronous),
    case("ready", ready),
    case("vectors_any_source_any_tag", vectors_any_source_any_tag),
    case("probe", probe),
    case("immediate_probe", immediate_probe),
    case("matched_probe", matched_probe),
    case("immediate_matched_probe", immediate_matched_probe),
    case("send_receive", send_receive),
    case("send_receive_replace", send_receive_replace),
    case("to_oneself", to_oneself),
    case("null_process", null_process),
    case("single_values", single_values),
    case("non_contiguous", non_contiguous),
    case("order_under_mixed_sizes", order_under_mixed_sizes).on(&[2, 3]),
    case("order_with_tags_out_of_turn", order_with_tags_out_of_turn).on(&[2, 5]),
    case("flood", flood).on(&[2, 5]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// The bytes that rank `from` sends as its `n`th message of this length.
fn pattern(from: Rank, n: usize, len: usize) -> Vec<u8> {
    let seed = (from as usize).wrapping_mul(31).wrapping_add(n.wrapping_mul(17));
    (0..len).map(|i| (i.wrapping_mul(7).wrapping_add(seed) ^ (i >> 8)) as u8).collect()
}

fn neighbours(world: &SimpleCommunicator) -> (Rank, Rank) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

/// Every rank sends `SIZES` to the next one, which has posted its receives when `posted` is set.
fn ring(mut send: impl FnMut(&SimpleCommunicator, Rank, &[u8], i32)) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for (n, &len) in SIZES.iter().enumerate() {
        let mut got = vec![0; len + 5];
        let sent = pattern(world.rank(), n, len);
        mpi::request::scope(|scope| {
            let receive = world.process_at_rank(previous).immediate_receive_into_with_tag(
                scope,
                &mut got[..],
                n as i32,
            );
            world.barrier();
            send(&world, next, &sent, n as i32);
            let status = receive.wait();
            assert_eq!(status.source_rank(), previous);
            assert_eq!(status.tag(), n as i32);
            assert_eq!(status.count(u8::equivalent_datatype()) as usize, len);
        });
        assert_eq!(got[..len], pattern(previous, n, len)[..]);
        assert_eq!(got[len..], [0; 5]);
    }
}

fn standard() {
    ring(|world, to, data, tag| world.process_at_rank(to).send_with_tag(data, tag));
}

fn synchronous() {
    ring(|world, to, data, tag| world.process_at_rank(to).synchronous_send_with_tag(data, tag));
}

fn ready() {
    // SAFETY: the ring's barrier follows the posting of all receives.
    ring(|world, to, data, tag| unsafe { world.process_at_rank(to).ready_send_with_tag(data, tag) });
}

/// Buffered sends return although nobody receives yet; the data is taken at the call.
fn buffered() {
    let mut universe = mpi::initialize().unwrap();
    universe.set_buffer_size(32 << 20);
    assert_eq!(universe.buffer_size(), 32 << 20);
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for (n, &len) in SIZES.iter().enumerate() {
        let mut data = pattern(world.rank(), n, len);
        world.process_at_rank(next).buffered_send_with_tag(&data[..], n as i32);
        data.fill(0xEE);
    }
    world.barrier();
    for (n, &len) in SIZES.iter().enumerate() {
        let (got, _) = world.process_at_rank(previous).receive_vec_with_tag::<u8>(n as i32);
        assert_eq!(got, pattern(previous, n, len));
    }
    universe.detach_buffer();
    assert_eq!(universe.buffer_size(), 0);
}

fn vectors_any_source_any_tag() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() != 0 {
        for (n, &len) in SIZES.iter().enumerate() {
            let data = pattern(world.rank(), n, len);
            world.process_at_rank(0).send_with_tag(&data[..], n as i32);
        }
        return;
    }
    let mut next = vec![0; world.size() as usize];
    for _ in 0..SIZES.len() * (world.size() as usize - 1) {
        let (got, status) = world.any_process().receive_vec::<u8>();
        let n = status.tag() as usize;
        let expected = &mut next[status.source_rank() as usize];
        assert_eq!(n, *expected, "messages of one sender arrive in order");
        *expected += 1;
        assert_eq!(got, pattern(status.source_rank(), n, SIZES[n]));
        assert!(got.capacity() < SIZES[n] + 64, "a vector is as long as its message");
    }
}

fn probe() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let sent: Vec<u32> = (0..5).collect();
    mpi::request::scope(|scope| {
        let send = WaitGuard::from(world.process_at_rank(next).immediate_send_with_tag(scope, &sent[..], 3));
        let status = world.any_process().probe();
        assert_eq!((status.source_rank(), status.tag()), (previous, 3));
        assert_eq!(status.count(u32::equivalent_datatype()), 5);
        let again = world.process_at_rank(previous).probe_with_tag(3);
        assert_eq!(again.bytes(), 20, "a probe leaves the message where it is");
        assert_eq!(world.any_process().receive_vec::<u32>().0, sent);
        drop(send);
    });
}

fn immediate_probe() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    assert!(world.any_process().immediate_probe().is_none());
    world.barrier();
    let sent = 7.5_f64;
    mpi::request::scope(|scope| {
        let send = WaitGuard::from(world.process_at_rank(next).immediate_send_with_tag(scope, &sent, 4));
        let status = loop {
            if let Some(status) = world.process_at_rank(previous).immediate_probe_with_tag(4) {
                break status;
            }
        };
        assert_eq!(status.source_rank(), previous);
        assert!(world.any_process().immediate_probe_with_tag(5).is_none());
        assert_eq!(world.any_process().receive::<f64>().0, sent);
        drop(send);
    });
}

fn matched_probe() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for (n, &len) in SIZES.iter().enumerate() {
        let data = pattern(world.rank(), n, len);
        mpi::request::scope(|scope| {
            let send =
                WaitGuard::from(world.process_at_rank(next).immediate_send_with_tag(scope, &data[..], 1));
            let (message, status) = world.process_at_rank(previous).matched_probe();
            assert!(!message.is_no_proc());
            assert_eq!(status.bytes() as usize, len);
            let mut got = vec![0; len];
            let status = message.matched_receive_into(&mut got[..]);
            assert_eq!(status.bytes() as usize, len);
            assert_eq!(got, pattern(previous, n, len));
            drop(send);
        });
    }
}

/// A message that was set aside is nobody else's, whatever else arrives.
fn immediate_matched_probe() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let (first, second) = (vec![1_i64; 3], vec![2_i64; 40_000]);
    let mut early = [0_i64; 3];
    mpi::request::scope(|scope| {
        let to = world.process_at_rank(next);
        let _one = WaitGuard::from(to.immediate_send_with_tag(scope, &first[..], 1));
        let _two = WaitGuard::from(to.immediate_send_with_tag(scope, &second[..], 1));
        let (message, _) = loop {
            if let Some(found) = world.process_at_rank(previous).immediate_matched_probe_with_tag(1) {
                break found;
            }
        };
        let (late, _) = world.any_process().receive_vec::<i64>();
        assert_eq!(late, second);
        let receive = message.immediate_matched_receive_into(scope, &mut early[..]);
        assert_eq!(receive.wait().bytes(), 24);
    });
    assert_eq!(early, first[..]);
}

fn send_receive() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let (to, from) = (world.process_at_rank(next), world.process_at_rank(previous));
    let (token, status): (Rank, _) = p2p::send_receive(&world.rank(), &to, &from);
    assert_eq!((token, status.source_rank()), (previous, previous));
    for (n, &len) in SIZES.iter().enumerate() {
        let data = pattern(world.rank(), n, len);
        let mut got = vec![0; len];
        p2p::send_receive_into_with_tags(&data[..], &to, 9, &mut got[..], &from, 9);
        assert_eq!(got, pattern(previous, n, len));
    }
}

fn send_receive_replace() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let (to, from) = (world.process_at_rank(next), world.process_at_rank(previous));
    for (n, &len) in SIZES.iter().enumerate() {
        let mut data = pattern(world.rank(), n, len);
        let status = p2p::send_receive_replace_into(&mut data[..], &to, &from);
        assert_eq!(status.bytes() as usize, len);
        assert_eq!(data, pattern(previous, n, len));
    }
}

fn to_oneself() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let me = world.this_process();
    assert!(me.is_self());
    let alone = SimpleCommunicator::self_comm();
    assert_eq!((alone.rank(), alone.size()), (0, 1));
    for (n, &len) in SIZES.iter().enumerate() {
        let data = pattern(world.rank(), n, len);
        let mut got = vec![0; len];
        mpi::request::scope(|scope| {
            let receive = me.immediate_receive_into(scope, &mut got[..]);
            me.send(&data[..]);
            receive.wait();
        });
        assert_eq!(got, data);
        mpi::request::scope(|scope| {
            let send = alone.process_at_rank(0).immediate_send(scope, &data[..]);
            assert_eq!(alone.any_process().receive_vec::<u8>().0, data);
            send.wait();
        });
    }
}

/// The process that does not exist, as a program can write it with the traits.
struct Nobody<'a>(AnyProcess<'a>);

impl<'a> AsCommunicator for Nobody<'a> {
    type Out = AnyProcess<'a>;
    fn as_communicator(&self) -> &AnyProcess<'a> {
        &self.0
    }
}
// SAFETY: the null process is a source.
unsafe impl Source for Nobody<'_> {
    fn source_rank(&self) -> Rank {
        MPI_PROC_NULL
    }
}
impl Destination for Nobody<'_> {
    fn destination_rank(&self) -> Rank {
        MPI_PROC_NULL
    }
}

fn null_process() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let nobody = Nobody(world.any_process());
    nobody.send(&1);
    nobody.synchronous_send(&[1, 2, 3]);
    let mut untouched = [5, 6];
    let status = nobody.receive_into(&mut untouched[..]);
    assert_eq!((status.source_rank(), status.tag(), status.bytes()), (MPI_PROC_NULL, MPI_ANY_TAG, 0));
    assert_eq!(untouched, [5, 6]);
    assert_eq!(nobody.probe().source_rank(), MPI_PROC_NULL);
    let (message, _) = nobody.matched_probe();
    assert!(message.is_no_proc());
    assert_eq!(message.matched_receive_into(&mut untouched[..]).bytes(), 0);
    mpi::request::scope(|scope| {
        nobody.immediate_send(scope, &3).wait();
        let status = nobody.immediate_receive_into(scope, &mut untouched[..]).wait();
        assert_eq!(status.source_rank(), MPI_PROC_NULL);
    });
    let (next, previous) = neighbours(&world);
    let mut got = 0;
    p2p::send_receive_into(
        &world.rank(),
        &world.process_at_rank(next),
        &mut got,
        &world.process_at_rank(previous),
    );
    assert_eq!(got, previous);
    p2p::send_receive_into(&4, &nobody, &mut got, &nobody);
    assert_eq!(got, previous, "a receive from nobody changes nothing");
}

fn single_values() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    fn exchange<T: Equivalence + PartialEq + std::fmt::Debug>(
        world: &SimpleCommunicator,
        (next, previous): (Rank, Rank),
        value: T,
    ) {
        mpi::request::scope(|scope| {
            let send = world.process_at_rank(next).immediate_send(scope, &value);
            let (got, _) = world.process_at_rank(previous).receive::<T>();
            assert_eq!(got, value);
            send.wait();
        });
        let future = world.process_at_rank(previous).immediate_receive::<T>();
        world.process_at_rank(next).send(&value);
        assert_eq!(future.get().0, value);
    }
    let both = (next, previous);
    exchange(&world, both, true);
    exchange(&world, both, 'ß');
    exchange(&world, both, i8::MIN);
    exchange(&world, both, u16::MAX);
    exchange(&world, both, -1_i64);
    exchange(&world, both, usize::MAX);
    exchange(&world, both, isize::MIN);
    exchange(&world, both, f32::EPSILON);
    exchange(&world, both, f64::MAX);
}

/// Columns, triangles and holes; each side with a layout of its own.
fn non_contiguous() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for n in [1_usize, 3, 50, 400] {
        let matrix: Vec<f64> = (0..n * n).map(|i| i as f64 + f64::from(world.rank()) * 1e6).collect();
        let column = UserDatatype::vector(n as Count, 1, n as Count, &f64::equivalent_datatype());
        // SAFETY: `n` blocks of one, `n` apart, are one column of the matrix.
        let sent = unsafe { View::with_count_and_datatype(&matrix[n / 2..], 1, &column) };
        let expected: Vec<f64> = (0..n).map(|i| (i * n + n / 2) as f64 + f64::from(previous) * 1e6).collect();
        // A column arrives as a row.
        mpi::request::scope(|scope| {
            let send = world.process_at_rank(next).immediate_send(scope, &sent);
            let (row, _) = world.process_at_rank(previous).receive_vec::<f64>();
            assert_eq!(row, expected);
            send.wait();
        });
        // A row arrives as a column, and touches nothing beside it.
        let row: Vec<f64> = (0..n).map(|i| i as f64 - f64::from(world.rank())).collect();
        let mut target = vec![-1.0; n * n];
        {
            // SAFETY: as above.
            let mut view = unsafe { MutView::with_count_and_datatype(&mut target[n / 2..], 1, &column) };
            p2p::send_receive_into(
                &row[..],
                &world.process_at_rank(next),
                &mut view,
                &world.process_at_rank(previous),
            );
        }
        for (i, &value) in target.iter().enumerate() {
            let on_column = i % n == n / 2;
            let expected = if on_column { (i / n) as f64 - f64::from(previous) } else { -1.0 };
            assert_eq!(value, expected, "element {i} of {n} by {n}");
        }
    }
}

/// A length of up to 300 KB that both sides can compute; most are short.
fn mixed_length(n: u32) -> usize {
    let h = n.wrapping_mul(0x9E37_79B9).rotate_left(13).wrapping_mul(0x85EB_CA6B);
    match h % 16 {
        0 => (h >> 8) as usize % 300_000,
        1..=3 => (h >> 8) as usize % 20_000,
        _ => (h >> 8) as usize % 200,
    }
}

/// Non-overtaking (MPI-4.1 §3.5): a short message does not pass a long one that waits to be pulled.
fn order_under_mixed_sizes() {
    const MESSAGES: u32 = 1500;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let numbered = |n: u32| -> Vec<u32> { vec![n; mixed_length(n) / 4 + 1] };
    if world.rank() != 0 {
        for n in 0..MESSAGES {
            world.process_at_rank(0).send(&numbered(n)[..]);
        }
        return;
    }
    let mut next = vec![0; world.size() as usize];
    for i in 0..MESSAGES * (world.size() as u32 - 1) {
        let (got, status) = if i % 3 == 0 {
            let mut room = vec![0; 80_000];
            let status = world.any_process().receive_into(&mut room[..]);
            room.truncate(status.count(u32::equivalent_datatype()) as usize);
            (room, status)
        } else {
            world.any_process().receive_vec::<u32>()
        };
        let expected = &mut next[status.source_rank() as usize];
        assert_eq!(got, numbered(*expected), "message {expected} of rank {}", status.source_rank());
        *expected += 1;
    }
}

/// Receives in another order than the sends, by tag; within a tag the order holds.
fn order_with_tags_out_of_turn() {
    const MESSAGES: usize = 400;
    const TAGS: usize = 4;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let data: Vec<Vec<u8>> =
        (0..MESSAGES).map(|n| pattern(world.rank(), n, mixed_length(n as u32) / 4)).collect();
    mpi::request::multiple_scope(MESSAGES, |scope, sends| {
        for (n, data) in data.iter().enumerate() {
            let to = world.process_at_rank(next);
            sends.add(to.immediate_send_with_tag(scope, &data[..], (n % TAGS) as i32));
        }
        for tag in (0..TAGS).rev() {
            for n in (tag..MESSAGES).step_by(TAGS) {
                let from = world.process_at_rank(previous);
                let (got, _) = from.receive_vec_with_tag::<u8>(tag as i32);
                assert_eq!(got, pattern(previous, n, mixed_length(n as u32) / 4), "message {n}");
            }
        }
        sends.wait_all(&mut Vec::new());
    });
}

/// Many small messages to a rank that does not look for a while.
fn flood() {
    const MESSAGES: u32 = 20_000;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        let mut sum = 0_u64;
        for _ in 0..MESSAGES * (world.size() as u32 - 1) {
            let (message, _) = world.any_process().receive::<u64>();
            sum += message;
        }
        let each = u64::from(MESSAGES) * u64::from(MESSAGES - 1) / 2;
        assert_eq!(sum, each * (world.size() as u64 - 1));
    } else {
        for n in 0..MESSAGES {
            world.process_at_rank(0).send(&u64::from(n));
        }
    }
}
