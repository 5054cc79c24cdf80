//! Sends and receives small messages in batches that nobody waits for, so that the instructions of the two paths can
//! be counted: `cargo xtask callgrind`.
//!
//! Rank 0 sends a batch and then says so on a socket beside MPI; only then does rank 1 receive the batch, which has
//! arrived in full. No path polls in vain, and the counts do not depend on the machine's mood.
//!
//! Usage: `mpiexec -n 2 instructions BATCHES facade|engine`: through the typed calls, or through the engine's untyped
//! ones, which shows what the facade costs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_p2p::SendMode;

/// Few enough that no ring or socket fills up. `xtask/src/callgrind.rs` divides by it.
const BATCH_MESSAGES: usize = 16;
const TAG: i32 = 7;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    assert_eq!(world.size(), 2, "instructions needs two ranks");
    let batches: usize =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("a number of batches");
    let (sends, receives): (Batch, Batch) = match std::env::args().nth(2).as_deref() {
        Some("facade") => (batch_of_sends, batch_of_receives),
        Some("engine") => (untyped_batch_of_sends, untyped_batch_of_receives),
        _ => panic!("facade or engine"),
    };

    let mut beside = connect(&world).expect("loopback can be connected");
    for _ in 0..batches {
        if world.rank() == 0 {
            sends(&world);
            hand_over(&mut beside);
            wait_for(&mut beside);
        } else {
            wait_for(&mut beside);
            receives(&world);
            hand_over(&mut beside);
        }
    }
}

type Batch = fn(&SimpleCommunicator);

// The functions that are counted, found by name.

#[inline(never)]
fn batch_of_sends(world: &SimpleCommunicator) {
    let peer = world.process_at_rank(1);
    for number in 0..BATCH_MESSAGES as u64 {
        peer.send_with_tag(&number, TAG);
    }
}

#[inline(never)]
fn batch_of_receives(world: &SimpleCommunicator) {
    let peer = world.process_at_rank(0);
    let mut number = 0_u64;
    for expected in 0..BATCH_MESSAGES as u64 {
        peer.receive_into_with_tag(&mut number, TAG);
        assert_eq!(number, expected);
    }
}

#[inline(never)]
fn untyped_batch_of_sends(_: &SimpleCommunicator) {
    let world = mpi_comm::world();
    let (engine, context) = (world.engine(), world.context());
    for number in 0..BATCH_MESSAGES as u64 {
        let bytes = number.to_ne_bytes();
        engine.send(context, 1, TAG, SendBuf::packed(&bytes), SendMode::Standard).expect("sent");
    }
}

#[inline(never)]
fn untyped_batch_of_receives(_: &SimpleCommunicator) {
    let world = mpi_comm::world();
    let (engine, context) = (world.engine(), world.context());
    let mut bytes = [0; 8];
    for expected in 0..BATCH_MESSAGES as u64 {
        engine
            .recv(context, mpi_p2p::Source::Rank(0), mpi_p2p::Tag::Is(TAG), RecvBuf::packed(&mut bytes))
            .expect("received");
        assert_eq!(u64::from_ne_bytes(bytes), expected);
    }
}

fn connect(world: &SimpleCommunicator) -> std::io::Result<TcpStream> {
    if world.rank() == 0 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        world.process_at_rank(1).send(&listener.local_addr()?.port());
        Ok(listener.accept()?.0)
    } else {
        let (port, _status) = world.process_at_rank(0).receive::<u16>();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))
    }
}

fn hand_over(beside: &mut TcpStream) {
    beside.write_all(&[1]).expect("the other rank lives");
}

fn wait_for(beside: &mut TcpStream) {
    beside.read_exact(&mut [0]).expect("the other rank lives");
}
