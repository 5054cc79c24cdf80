//! What ranks run, for their launcher to show.

use mpi::traits::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

/// A token goes round twice, with 4096 bytes; rank 1 keeps it for a while. Then all meet.
pub fn ring() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (left, right) =
        (world.process_at_rank((rank + size - 1) % size), world.process_at_rank((rank + 1) % size));
    let mut token = vec![0_u8; 4096];
    for _ in 0..2 {
        if rank != 0 {
            left.receive_into(&mut token[..]);
        }
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(100));
        }
        right.send(&token[..]);
        if rank == 0 {
            left.receive_into(&mut token[..]);
        }
    }
    let mut sum = 0;
    world.all_reduce_into(&1_i32, &mut sum, mpi::collective::SystemOperation::sum());
    assert_eq!(sum, size);
    world.barrier();
}

/// Rank 1 dies of SIGKILL after it has sent three messages.
pub fn killed_in_the_middle() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        for _ in 0..3 {
            world.process_at_rank(0).send(&[7_u64; 16][..]);
        }
        world.process_at_rank(0).receive::<u8>();
        kill(Pid::this(), Signal::SIGKILL).unwrap();
    } else {
        for _ in 0..3 {
            world.process_at_rank(1).receive_vec::<u64>();
        }
        world.process_at_rank(1).send(&0_u8);
        world.process_at_rank(1).receive::<u8>();
    }
}

/// Both wait for the other, for ever; each leaves a file when it is about to.
pub fn receives_for_ever() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.barrier();
    std::fs::write(format!("ready-{}", world.rank()), "").unwrap();
    world.process_at_rank(1 - world.rank()).receive::<i32>();
}

pub fn all_receive_for_ever() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.process_at_rank((world.rank() + 1) % world.size()).receive::<i32>();
}

pub fn dies_early() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        kill(Pid::this(), Signal::SIGKILL).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
}

pub fn windows() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = [1_u8; 512];
    let mut window = mpi::window::Window::<u8>::allocate(&world, 1024);
    window.fence(|epoch| {
        if world.rank() == 0 {
            epoch.put(&data, 1, 0);
        }
    });
}

/// Something of everything that TCP carries: a small message, an announced one.
pub fn talks() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut large = vec![0_u8; 300_000];
    if world.rank() == 0 {
        world.process_at_rank(1).send_with_tag(&[1_u64, 2, 3][..], 31_337);
        world.process_at_rank(1).synchronous_send_with_tag(&large[..], 31_338);
    } else {
        world.process_at_rank(0).receive_vec_with_tag::<u64>(31_337);
        world.process_at_rank(0).receive_into_with_tag(&mut large[..], 31_338);
    }
}

/// Allreduces that ranks of one node carry out in shared memory, by each way that there is: so many of so many bytes.
pub fn boards() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for elements in [1_usize, 4_096, 1 << 17] {
        let (mine, mut sum) = (vec![1_u64; elements], vec![0_u64; elements]);
        for _ in 0..20 {
            world.all_reduce_into(&mine[..], &mut sum[..], mpi::collective::SystemOperation::sum());
        }
        assert_eq!(sum[elements - 1], world.size() as u64);
    }
}

/// Rank 0 sends small and large messages, before rank 1 has posted any receive; then rank 1 computes.
pub fn messages_of_each_kind() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let large = vec![7_u8; 4 << 20];
    if world.rank() == 0 {
        for _ in 0..5 {
            world.process_at_rank(1).send_with_tag(&[1_u8; 100][..], 1);
        }
        world.process_at_rank(1).send_with_tag(&0_u8, 2);
        world.process_at_rank(1).send_with_tag(&large[..], 3);
        world.process_at_rank(1).receive::<u8>();
    } else {
        // What comes before this message waits as unexpected.
        world.process_at_rank(0).receive_with_tag::<u8>(2);
        let mut into = [0_u8; 100];
        for _ in 0..5 {
            world.process_at_rank(0).receive_into_with_tag(&mut into[..], 1);
        }
        let mut room = vec![0_u8; 4 << 20];
        world.process_at_rank(0).receive_into_with_tag(&mut room[..], 3);
        std::thread::sleep(Duration::from_millis(60));
        world.process_at_rank(0).send(&1_u8);
    }
}
