//! Sends and receives small messages in batches that nobody waits for, so that the instructions of the two paths can
//! be counted: `cargo xtask callgrind`.
//!
//! Rank 0 sends a batch and then says so on a socket beside MPI; only then does rank 1 receive the batch, which has
//! arrived in full. No path polls in vain, and the counts do not depend on the machine's mood.
//!
//! Usage: `mpiexec -n 2 instructions BATCHES`

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// Few enough that no ring or socket fills up. `xtask/src/callgrind.rs` divides by it.
const BATCH_MESSAGES: usize = 16;
const TAG: i32 = 7;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    assert_eq!(world.size(), 2, "instructions needs two ranks");
    let batches: usize =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("a number of batches");

    let mut beside = connect(&world).expect("loopback can be connected");
    for _ in 0..batches {
        if world.rank() == 0 {
            batch_of_sends(&world);
            hand_over(&mut beside);
            wait_for(&mut beside);
        } else {
            wait_for(&mut beside);
            batch_of_receives(&world);
            hand_over(&mut beside);
        }
    }
}

// The two functions that are counted, found by name.

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
