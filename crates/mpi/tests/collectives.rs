//! Collectives on real ranks that rsmpi has not: between two groups, over topologies, persistent, checked.

mod support;

use std::os::raw::{c_int, c_void};
use std::process::ExitCode;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::ffi::{self, *};
use mpi::topology::{Color, InterCommunicator, SimpleCommunicator};
use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("between_groups", between_groups).on(&[2, 3, 8]),
    case("neighbors", neighbors).on(&[1, 2, 3, 8]),
    case("persistent", persistent).on(&[2, 3, 8]),
    case("immediate_ones_progress_while_ranks_compute", immediate_ones_progress_while_ranks_compute).on(&[2, 3]),
    case("lengths_that_differ", lengths_that_differ).on(&[3]).with(CHECKED).fails(
        ERROR_STATUS,
        &["the ranks disagree: rank 2 sends 12 bytes of i32 to rank 0, rank 0 expects 8 bytes of i32 of rank 2"],
    ),
    case("arguments_that_one_rank_refuses", arguments_that_one_rank_refuses).on(&[2, 3]).with(CHECKED),
    case("disagreement", disagreement).on(&[2, 3]).fails(
        ERROR_STATUS,
        &["the ranks disagree", "rank 0 calls broadcast with root 0", "calls allreduce of 8 bytes"],
    ),
];

const CHECKED: &[(&str, &str)] = &[("MPI_CHECK", "1")];
/// A rank that computes gives up after so long.
const COMPUTE_LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    support::main(CASES)
}

fn int() -> MPI_Datatype {
    i32::equivalent_datatype().as_raw()
}

fn at<T>(values: &[T]) -> *const c_void {
    values.as_ptr().cast()
}

fn room<T>(values: &mut [T]) -> *mut c_void {
    values.as_mut_ptr().cast()
}

#[track_caller]
fn good(code: c_int) {
    assert_eq!(code, MPI_SUCCESS as c_int);
}

/// Even and odd ranks of the world, each a group.
fn two_groups(world: &SimpleCommunicator) -> InterCommunicator {
    let odd = world.rank() % 2;
    let half = world.split_by_color(Color::with_value(odd)).unwrap();
    // SAFETY: both communicators live, and the new one is owned once.
    unsafe {
        let mut inter = ffi::RSMPI_COMM_NULL;
        good(MPI_Intercomm_create(half.as_raw(), 0, world.as_raw(), 1 - odd, 3, &mut inter));
        InterCommunicator::from_raw(inter)
    }
}

fn between_groups() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let inter = two_groups(&world);
    let (odd, theirs) = (world.rank() % 2, 1 - world.rank() % 2);
    let others: Vec<i32> = (0..world.size()).filter(|r| r % 2 == theirs).collect();

    inter.barrier();
    let mut all = vec![-1; others.len()];
    inter.all_gather_into(&world.rank(), &mut all[..]);
    assert_eq!(all, others);
    let mut sum = vec![0; 10_000];
    inter.all_reduce_into(&vec![world.rank(); 10_000][..], &mut sum[..], SystemOperation::sum());
    assert!(sum.iter().all(|s| *s == others.iter().sum::<i32>()));
    let mut all = vec![-1; others.len()];
    let own = vec![world.rank(); others.len()];
    mpi::request::scope(|scope| {
        inter.immediate_all_to_all_into(scope, &own[..], &mut all[..]).wait();
    });
    assert_eq!(all, others);

    // The last of the even ranks is the root.
    let root = match (odd, inter.rank() + 1 == inter.size()) {
        (0, true) => MPI_ROOT,
        (0, false) => MPI_PROC_NULL,
        _ => inter.remote_size() - 1,
    };
    let comm = inter.as_raw();
    let mut data = vec![if root == MPI_ROOT { 77 } else { 0 }; 100];
    let mut total = [0];
    let mut parts = vec![-1; others.len()];
    // SAFETY: buffers, counts and datatypes agree.
    unsafe {
        good(MPI_Bcast(room(&mut data), 100, int(), root, comm));
        let own = [world.rank()];
        let (from, into, kind) = if odd == 0 {
            (null(), room(&mut parts), ffi::RSMPI_DATATYPE_NULL)
        } else {
            (at(&own), null_mut(), int())
        };
        good(MPI_Gather(from, 1, kind, into, 1, int(), root, comm));
        good(MPI_Reduce(at(&own), room(&mut total), 1, int(), ffi::RSMPI_SUM, root, comm));
    }
    if odd == 1 {
        assert!(data.iter().all(|v| *v == 77));
    }
    if root == MPI_ROOT {
        assert_eq!((parts, total[0]), (others.clone(), others.iter().sum()));
    }
}

/// Around a periodic line: what goes down arrives from above.
fn neighbors() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (size, rank) = (world.size(), world.rank());
    let line = world.create_cartesian_communicator(&[size], &[true], false).unwrap();
    let (below, above) = ((rank + size - 1) % size, (rank + 1) % size);
    let comm = line.as_raw();
    let (down, up) = (rank * 10, rank * 10 + 1);
    let expected = [below * 10 + 1, above * 10];
    let mut got = [-1; 2];
    let mut ranks = [-1; 2];
    let counts = [1, 1];
    let (ints, bytes, types) = ([0, 1], [0isize, 4], [int(), int()]);
    // SAFETY: buffers, counts and datatypes agree, and the requests are waited for.
    unsafe {
        let own = [down, up];
        good(MPI_Neighbor_alltoall(at(&own), 1, int(), room(&mut got), 1, int(), comm));
        assert_eq!(got, expected);
        good(MPI_Neighbor_allgather(at(&[rank]), 1, int(), room(&mut ranks), 1, int(), comm));
        assert_eq!(ranks, [below, above]);
        let (c, i, b, t) = (counts.as_ptr(), ints.as_ptr(), bytes.as_ptr(), types.as_ptr());
        got = [-1; 2];
        good(MPI_Neighbor_alltoallv(at(&own), c, i, int(), room(&mut got), c, i, int(), comm));
        assert_eq!(got, expected);
        got = [-1; 2];
        let mut request = ffi::RSMPI_REQUEST_NULL;
        good(MPI_Ineighbor_alltoallw(at(&own), c, b, t, room(&mut got), c, b, t, comm, &mut request));
        good(MPI_Wait(&mut request, null_mut()));
        assert_eq!(got, expected);
        let turned = [1, 0];
        good(MPI_Neighbor_allgatherv(
            at(&[rank]),
            1,
            int(),
            room(&mut ranks),
            c,
            turned.as_ptr(),
            int(),
            comm,
        ));
        assert_eq!(ranks, [above, below]);
    }
}

fn persistent() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (size, rank) = (world.size(), world.rank());
    let comm = world.as_raw();
    let (mut own, mut sums, mut copy) = (vec![0; 5000], vec![0; 5000], [0; 3]);
    // SAFETY: the buffers outlive the requests; they are touched only while these are inactive.
    unsafe {
        let mut requests = [ffi::RSMPI_REQUEST_NULL; 2];
        let null_info = ffi::RSMPI_INFO_NULL;
        let (from, into) = (at(&own), room(&mut sums));
        good(MPI_Allreduce_init(from, into, 5000, int(), ffi::RSMPI_SUM, comm, null_info, &mut requests[0]));
        good(MPI_Bcast_init(room(&mut copy), 3, int(), size - 1, comm, null_info, &mut requests[1]));
        for round in 0..20 {
            own.fill(rank + round);
            copy.fill(if rank == size - 1 { round } else { -1 });
            good(MPI_Startall(2, requests.as_mut_ptr()));
            good(MPI_Waitall(2, requests.as_mut_ptr(), null_mut()));
            assert!(sums.iter().all(|s| *s == size * (size - 1) / 2 + size * round));
            assert_eq!(copy, [round; 3]);
        }
    }
}

/// One rank calls something else; in checked mode all hear of it.
fn disagreement() {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("MPI_CHECK", "1") };
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut value = [1_i64];
    world.barrier();
    if world.rank() + 1 == world.size() {
        world.all_reduce_into(&[1_i64][..], &mut value[..], SystemOperation::sum());
    } else {
        world.process_at_rank(0).broadcast_into(&mut value[..]);
    }
}

/// A root that does not exist, on one rank, with errors returned: that rank has its error at once, and the others one that
/// tells of it, where they waited for ever.
fn arguments_that_one_rank_refuses() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let last = world.rank() + 1 == world.size();
    let (root, expected) = if last { (77, MPI_ERR_ROOT) } else { (0, MPI_ERR_ARG) };
    let (blocking, immediate) = (world.duplicate(), world.duplicate());
    let mut value = [1_i32];
    // SAFETY: the buffer outlives both calls.
    unsafe {
        for comm in [&blocking, &immediate] {
            MPI_Comm_set_errhandler(comm.as_raw(), RSMPI_ERRORS_RETURN);
        }
        let code = MPI_Bcast(room(&mut value), 1, int(), root, blocking.as_raw());
        assert_eq!(code, expected as c_int, "blocking");
        let mut request = RSMPI_REQUEST_NULL;
        let mut code = MPI_Ibcast(room(&mut value), 1, int(), root, immediate.as_raw(), &mut request);
        if !last {
            code = MPI_Wait(&mut request, RSMPI_STATUS_IGNORE);
        }
        assert_eq!(code, expected as c_int, "immediate");
    }
    world.barrier();
}

/// Rank 0 starts its part and calls MPI no more until all others have their results, which it learns past MPI.
fn immediate_ones_progress_while_ranks_compute() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    let mark = |rank: i32| {
        let name = format!("mpi-overlap-{}-{n}-{rank}", std::os::unix::process::parent_id());
        std::env::temp_dir().join(name)
    };
    let own = vec![i64::from(r); 1 << 17];
    let mut sums = vec![0; own.len()];
    mpi::request::scope(|scope| {
        let request = world.immediate_all_reduce_into(scope, &own[..], &mut sums[..], SystemOperation::sum());
        if r == 0 {
            let begun = Instant::now();
            let mut missing: Vec<i32> = (1..n).collect();
            while !missing.is_empty() {
                assert!(begun.elapsed() < COMPUTE_LIMIT, "ranks {missing:?} wait for rank 0, which computes");
                missing.retain(|rank| std::fs::remove_file(mark(*rank)).is_err());
                std::thread::yield_now();
            }
            request.wait();
        } else {
            request.wait();
            std::fs::write(mark(r), []).unwrap();
        }
    });
    assert!(sums.iter().all(|sum| *sum == i64::from(n * (n - 1) / 2)));
}

/// The root of a gather expects less of the last rank than that sends.
fn lengths_that_differ() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let own = vec![1_i32; world.rank() as usize + 1];
    let root = world.process_at_rank(0);
    if world.rank() == 0 {
        let mut all = [0; 5];
        let mut parts = mpi::datatype::PartitionMut::new(&mut all[..], vec![1, 2, 2], vec![0, 1, 3]);
        root.gather_varcount_into_root(&own[..], &mut parts);
    } else {
        root.gather_varcount_into(&own[..]);
    }
}
