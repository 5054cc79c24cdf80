//! Programs that speak the C names: persistent requests, graphs, hints of a spawn.

mod support;

use std::ffi::{CStr, CString};
use std::os::raw::c_int;
use std::process::ExitCode;

use mpi::ext::{ErrorClass, ErrorHandler, prelude::*};
use mpi::ffi::*;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("persistent_requests", persistent_requests),
    case("persistent_with_nobody", persistent_with_nobody).on(&[1]).over(&["shm"]),
    case("graph", graph).on(&[1, 3]),
    case("distributed_graphs", distributed_graphs).on(&[1, 3]),
    case("half_a_weighted_graph", half_a_weighted_graph)
        .on(&[1])
        .over(&["shm"])
        .fails(ERROR_STATUS, &["edges of one direction have weights"]),
    case("hints_of_a_spawn", hints_of_a_spawn).on(&[1, 2]).over(&["tcp", "shm,tcp"]),
    case("hints_of_each_program", hints_of_each_program).on(&[1]).over(&["tcp"]),
    case("completions_return_errors", completions_return_errors).on(&[1]).over(&["shm"]),
    case("nobody_frees_what_is_predefined", nobody_frees_what_is_predefined).on(&[1]).over(&["shm"]),
    case("errors_without_a_line", errors_without_a_line).on(&[1]).over(&["shm"]).fails(
        ERROR_STATUS,
        &["MPI_ERR_TYPE: free datatype: only a datatype that the program made can be freed\n"],
    ),
];

/// What a spawned process gets as an argument, beside the case that it inherits.
const CHILD: &str = "child";
/// Rounds of the persistent operations.
const ROUNDS: c_int = 5;

fn main() -> ExitCode {
    support::main(CASES)
}

/// Each way to send, to the next rank, round after round; each way to complete.
fn persistent_requests() {
    let universe = mpi::initialize_with_threading(mpi::Threading::Single).unwrap().0;
    let world = universe.world();
    let (next, previous) =
        ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    let comm = world.as_raw();
    let (mut sent, mut got) = ([0_i32; 4], [0_i32; 4]);
    let (from, room) = (sent.as_mut_ptr(), got.as_mut_ptr());
    // SAFETY: both arrays outlive the requests, are reached through these pointers alone, and touched only while no
    // request is active. Receives are started first and on every rank before a send is, so ready sends are right.
    unsafe {
        let mut requests = [RSMPI_REQUEST_NULL; 8];
        MPI_Buffer_attach(std::ptr::null_mut(), 4 * (4 + MPI_BSEND_OVERHEAD as c_int));
        for (tag, send_init) in
            [MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init, MPI_Rsend_init].into_iter().enumerate()
        {
            let (room, from) = (room.add(tag).cast(), from.add(tag).cast_const().cast());
            let number = tag as c_int;
            MPI_Recv_init(room, 1, RSMPI_INT32_T, previous, number, comm, &mut requests[tag]);
            send_init(from, 1, RSMPI_INT32_T, next, number, comm, &mut requests[tag + 4]);
        }
        let made = requests;
        for round in 0..ROUNDS {
            for tag in 0..4 {
                from.add(tag).write(100 * round + 10 * world.rank() + tag as c_int);
            }
            MPI_Startall(4, requests.as_mut_ptr());
            MPI_Barrier(comm);
            MPI_Startall(3, requests[4..].as_mut_ptr());
            MPI_Start(&mut requests[7]);
            complete(&mut requests, round);
            assert_eq!(requests, made, "a persistent request stays");
            for tag in 0..4 {
                assert_eq!(room.add(tag).read(), 100 * round + 10 * previous + tag as c_int);
            }
        }
        // What is not active is complete, and empty.
        let (mut flag, mut index, mut status) = (0, 0, std::mem::zeroed::<MPI_Status>());
        MPI_Test(&mut requests[0], &mut flag, &mut status);
        assert_eq!((flag, status.MPI_SOURCE, status.MPI_TAG), (1, RSMPI_ANY_SOURCE, RSMPI_ANY_TAG));
        flag = 0;
        MPI_Testany(8, requests.as_mut_ptr(), &mut index, &mut flag, RSMPI_STATUS_IGNORE);
        assert_eq!((flag, index), (1, RSMPI_UNDEFINED));
        requests.iter_mut().for_each(|request| assert_eq!(MPI_Request_free(request) as u32, MPI_SUCCESS));
        assert_eq!(requests, [RSMPI_REQUEST_NULL; 8]);
        let mut size = 0;
        MPI_Buffer_detach(std::ptr::null_mut(), &mut size);
    }
}

/// Completes active requests, in another way each round.
///
/// # Safety
/// They live.
unsafe fn complete(requests: &mut [MPI_Request; 8], round: c_int) {
    let (list, ignore) = (requests.as_mut_ptr(), std::ptr::null_mut());
    // SAFETY: the caller's promise; the places are writable.
    unsafe {
        match round {
            0 => assert_eq!(MPI_Waitall(8, list, ignore) as u32, MPI_SUCCESS),
            1 => requests
                .iter_mut()
                .for_each(|request| assert_eq!(MPI_Wait(request, ignore) as u32, MPI_SUCCESS)),
            2 => requests.iter_mut().for_each(|request| {
                let mut flag = 0;
                while flag == 0 {
                    MPI_Test(request, &mut flag, ignore);
                }
            }),
            3 => {
                let (mut seen, mut index) = (0_u32, 0);
                for _ in 0..8 {
                    MPI_Waitany(8, list, &mut index, ignore);
                    seen |= 1 << index;
                }
                assert_eq!(seen, 0xff, "each once");
                MPI_Waitany(8, list, &mut index, ignore);
                assert_eq!(index, RSMPI_UNDEFINED);
            }
            _ => {
                let mut flag = 0;
                while flag == 0 {
                    MPI_Testall(8, list, &mut flag, ignore);
                }
            }
        }
    }
}

/// A persistent request of the null process stays, too.
fn persistent_with_nobody() {
    let universe = mpi::initialize().unwrap();
    let comm = universe.world().as_raw();
    let mut word = 7_i32;
    let place = (&raw mut word).cast();
    // SAFETY: nothing is moved.
    unsafe {
        let mut requests = [RSMPI_REQUEST_NULL; 2];
        MPI_Recv_init(place, 1, RSMPI_INT32_T, MPI_PROC_NULL, 0, comm, &mut requests[0]);
        MPI_Send_init(place, 1, RSMPI_INT32_T, MPI_PROC_NULL, 0, comm, &mut requests[1]);
        let made = requests;
        for _ in 0..3 {
            let mut statuses = [std::mem::zeroed::<MPI_Status>(); 2];
            MPI_Startall(2, requests.as_mut_ptr());
            MPI_Waitall(2, requests.as_mut_ptr(), statuses.as_mut_ptr());
            assert_eq!(requests, made);
            assert_eq!(statuses[0].MPI_SOURCE, MPI_PROC_NULL);
        }
        requests.iter_mut().for_each(|request| assert_eq!(MPI_Request_free(request) as u32, MPI_SUCCESS));
    }
    assert_eq!(word, 7);
}

/// A ring, known whole.
fn graph() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let index: Vec<c_int> = (1..=size).map(|node| 2 * node).collect();
    let edges: Vec<c_int> =
        (0..size).flat_map(|node| [(node + size - 1) % size, (node + 1) % size]).collect();
    // SAFETY: the numbers are as many as is said.
    unsafe {
        let mut ring = RSMPI_COMM_NULL;
        MPI_Graph_create(world.as_raw(), size, index.as_ptr(), edges.as_ptr(), 0, &mut ring);
        let (mut kind, mut nodes, mut ends) = (0, 0, 0);
        MPI_Topo_test(ring, &mut kind);
        MPI_Graphdims_get(ring, &mut nodes, &mut ends);
        assert_eq!((kind, nodes, ends), (RSMPI_GRAPH, size, 2 * size));
        let (mut index_there, mut edges_there) = (vec![0; index.len()], vec![0; edges.len()]);
        MPI_Graph_get(ring, nodes, ends, index_there.as_mut_ptr(), edges_there.as_mut_ptr());
        assert_eq!((index_there, edges_there), (index.clone(), edges.clone()));
        let (mut count, mut neighbours) = (0, [-7; 3]);
        MPI_Graph_neighbors_count(ring, rank, &mut count);
        MPI_Graph_neighbors(ring, rank, 3, neighbours.as_mut_ptr());
        assert_eq!((count, neighbours), (2, [(rank + size - 1) % size, (rank + 1) % size, -7]));
        let mut place = -7;
        MPI_Graph_map(ring, 1, [0].as_ptr(), std::ptr::null(), &mut place);
        assert_eq!(place, if rank == 0 { 0 } else { RSMPI_UNDEFINED });
        MPI_Comm_free(&mut ring);
        // Who has no node has no communicator.
        let mut alone = RSMPI_COMM_NULL;
        MPI_Graph_create(world.as_raw(), 1, [0].as_ptr(), std::ptr::null(), 1, &mut alone);
        assert_eq!(alone != RSMPI_COMM_NULL, rank == 0);
        if rank == 0 {
            MPI_Comm_free(&mut alone);
        }
        MPI_Topo_test(world.as_raw(), &mut kind);
        assert_eq!(kind, RSMPI_UNDEFINED);
    }
}

/// The edges of this process: from and to whom, with which weights, and whether they have any.
///
/// # Safety
/// The communicator lives and has a distributed graph.
unsafe fn edges_of(comm: MPI_Comm) -> ([Vec<c_int>; 4], bool) {
    let (mut from, mut to, mut weighted) = (0, 0, -1);
    // SAFETY: the caller's promise; there is the room that is said.
    unsafe {
        MPI_Dist_graph_neighbors_count(comm, &mut from, &mut to, &mut weighted);
        let room = |n| vec![-7; n as usize];
        let [mut sources, mut source_weights] = [room(from), room(from)];
        let [mut destinations, mut destination_weights] = [room(to), room(to)];
        MPI_Dist_graph_neighbors(
            comm,
            from,
            sources.as_mut_ptr(),
            source_weights.as_mut_ptr(),
            to,
            destinations.as_mut_ptr(),
            destination_weights.as_mut_ptr(),
        );
        ([sources, source_weights, destinations, destination_weights], weighted != 0)
    }
}

/// Graphs of which each process gives its own edges, or of which one gives all.
fn distributed_graphs() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    // SAFETY: the numbers are as many as is said.
    unsafe {
        let (comm, info) = (world.as_raw(), RSMPI_INFO_NULL);
        let mut ring = RSMPI_COMM_NULL;
        let (source, weight, destination, back) = ([previous], [10 + previous], [next], [10 + rank]);
        MPI_Dist_graph_create_adjacent(
            comm,
            1,
            source.as_ptr(),
            weight.as_ptr(),
            1,
            destination.as_ptr(),
            back.as_ptr(),
            info,
            0,
            &mut ring,
        );
        let mut kind = 0;
        MPI_Topo_test(ring, &mut kind);
        assert_eq!(kind, RSMPI_DIST_GRAPH);
        let lists = [source, weight, destination, back].map(|list| list.to_vec());
        assert_eq!(edges_of(ring), (lists.clone(), true));
        MPI_Comm_free(&mut ring);
        // The same, all from rank 0.
        let sources: Vec<c_int> = if rank == 0 { (0..size).collect() } else { vec![] };
        let ends: Vec<c_int> = sources.iter().map(|from| (from + 1) % size).collect();
        let weights: Vec<c_int> = sources.iter().map(|from| 10 + from).collect();
        let degrees = vec![1; sources.len()];
        let weights = if rank == 0 { weights.as_ptr() } else { MPI_WEIGHTS_EMPTY };
        let create = |weights, ring| {
            let (n, sources) = (sources.len() as c_int, sources.as_ptr());
            MPI_Dist_graph_create(comm, n, sources, degrees.as_ptr(), ends.as_ptr(), weights, info, 0, ring)
        };
        create(weights, &mut ring);
        assert_eq!(edges_of(ring), (lists, true));
        MPI_Comm_free(&mut ring);
        // Without weights none are written.
        create(MPI_UNWEIGHTED.cast_const(), &mut ring);
        assert_eq!(edges_of(ring), ([vec![previous], vec![-7], vec![next], vec![-7]], false));
        MPI_Comm_free(&mut ring);
    }
}

fn half_a_weighted_graph() {
    let universe = mpi::initialize().unwrap();
    let comm = universe.world().as_raw();
    let (own, none) = ([0], MPI_UNWEIGHTED.cast_const());
    let own = own.as_ptr();
    // SAFETY: the numbers are as many as is said.
    unsafe {
        let mut made = RSMPI_COMM_NULL;
        MPI_Dist_graph_create_adjacent(comm, 1, own, own, 1, own, none, RSMPI_INFO_NULL, 0, &mut made)
    };
}

/// An info object of hints.
fn info_of(hints: &[(&str, &str)]) -> MPI_Info {
    // SAFETY: the texts end with a 0, the object is new.
    unsafe {
        let mut info = RSMPI_INFO_NULL;
        MPI_Info_create(&mut info);
        for (key, value) in hints {
            let (key, value) = (CString::new(*key).unwrap(), CString::new(*value).unwrap());
            MPI_Info_set(info, key.as_ptr(), value.as_ptr());
        }
        info
    }
}

/// This program, as a command.
fn program() -> CString {
    CString::new(std::env::current_exe().unwrap().into_os_string().into_encoded_bytes()).unwrap()
}

/// In a process that was spawned: tells its parent where it is and what it was told. True in such a process.
fn child_reports() -> bool {
    let Some(mut parent) = parent() else { return false };
    let mut told = std::env::var("TOLD_BY_A_HINT").unwrap_or_default().into_bytes();
    told.push(b'@');
    told.extend(std::env::current_dir().unwrap().into_os_string().into_encoded_bytes());
    assert!(std::env::args().any(|argument| argument == CHILD));
    // SAFETY: the parent's handle lives until it is disconnected here.
    unsafe {
        MPI_Send(told.as_ptr().cast(), told.len() as c_int, RSMPI_UINT8_T, 0, 0, parent);
        MPI_Comm_disconnect(&mut parent);
    }
    true
}

/// What the child of a rank reports.
///
/// # Safety
/// `children` is the way to processes that report.
unsafe fn report(children: MPI_Comm, rank: c_int) -> String {
    let (mut room, mut count) = (vec![0_u8; 4096], 0);
    // SAFETY: the caller's promise; the room is as long as is said.
    unsafe {
        let mut status = std::mem::zeroed::<MPI_Status>();
        MPI_Recv(room.as_mut_ptr().cast(), 4096, RSMPI_UINT8_T, rank, 0, children, &mut status);
        MPI_Get_count(&status, RSMPI_UINT8_T, &mut count);
    }
    room.truncate(count as usize);
    String::from_utf8(room).unwrap()
}

fn parent() -> Option<MPI_Comm> {
    // SAFETY: the place is writable.
    unsafe {
        let mut parent = RSMPI_COMM_NULL;
        MPI_Comm_get_parent(&mut parent);
        (parent != RSMPI_COMM_NULL).then_some(parent)
    }
}

/// The hints of the root are those that count.
fn hints_of_a_spawn() {
    let universe = mpi::initialize().unwrap();
    if child_reports() {
        return;
    }
    let world = universe.world();
    let (program, child) = (program(), CString::new(CHILD).unwrap());
    let mut argv = [child.as_ptr().cast_mut(), std::ptr::null_mut()];
    let place = if world.rank() == 0 { "/" } else { "/nowhere" };
    let mut info = info_of(&[("wdir", place), ("env", "TOLD_BY_A_HINT=yes"), ("of_no_meaning", "1")]);
    // SAFETY: texts end with a 0, the list with a null pointer; the info object lives.
    unsafe {
        let (mut children, mut codes) = (RSMPI_COMM_NULL, [-7; 2]);
        MPI_Comm_spawn(
            program.as_ptr(),
            argv.as_mut_ptr(),
            2,
            info,
            0,
            world.as_raw(),
            &mut children,
            codes.as_mut_ptr(),
        );
        assert_eq!(codes, [0; 2]);
        if world.rank() == 0 {
            (0..2).for_each(|rank| assert_eq!(report(children, rank), "yes@/"));
        }
        MPI_Comm_disconnect(&mut children);
        MPI_Info_free(&mut info);
    }
}

/// Programs that start together have hints of their own, or none.
fn hints_of_each_program() {
    let universe = mpi::initialize().unwrap();
    if child_reports() {
        return;
    }
    let world = universe.world();
    let (program, child) = (program(), CString::new(CHILD).unwrap());
    let mut argv = [child.as_ptr().cast_mut(), std::ptr::null_mut()];
    let mut arguments = [argv.as_mut_ptr(); 2];
    let mut commands = [program.as_ptr().cast_mut(); 2];
    let here = std::env::current_dir().unwrap();
    // SAFETY: as above, two of each.
    unsafe {
        let infos = [info_of(&[("wdir", "/"), ("env", "TOLD_BY_A_HINT=first")]), RSMPI_INFO_NULL];
        for (infos, first) in
            [(infos.as_ptr(), "first@/".to_owned()), (std::ptr::null(), format!("@{}", here.display()))]
        {
            let mut children = RSMPI_COMM_NULL;
            MPI_Comm_spawn_multiple(
                2,
                commands.as_mut_ptr(),
                arguments.as_mut_ptr(),
                [1, 1].as_ptr(),
                infos,
                0,
                world.as_raw(),
                &mut children,
                std::ptr::null_mut(),
            );
            assert_eq!(report(children, 0), first);
            assert_eq!(report(children, 1), format!("@{}", here.display()));
            MPI_Comm_disconnect(&mut children);
        }
        let mut port = vec![0; MPI_MAX_PORT_NAME as usize];
        MPI_Open_port(infos[0], port.as_mut_ptr());
        assert!(!CStr::from_ptr(port.as_ptr()).is_empty());
        MPI_Close_port(port.as_ptr());
        let [mut first, _] = infos;
        MPI_Info_free(&mut first);
    }
}

/// Starts a receive of two bytes from this process under a tag, and sends it `bytes`.
///
/// # Safety
/// `room` stays as it is until the request is complete.
unsafe fn started(world: &SimpleCommunicator, room: &mut [u8; 2], tag: c_int, bytes: usize) -> MPI_Request {
    // SAFETY: the caller's promise.
    let request = unsafe {
        let mut request = RSMPI_REQUEST_NULL;
        let place = room.as_mut_ptr().cast();
        assert_eq!(MPI_Irecv(place, 2, RSMPI_UINT8_T, 0, tag, world.as_raw(), &mut request), 0);
        request
    };
    world.this_process().send_with_tag(&vec![1_u8; bytes][..], tag);
    request
}

/// Where the communicator's handler returns, the calls that complete requests return what the operation came to.
fn completions_return_errors() {
    const TRUNCATE: c_int = ErrorClass::Truncate as c_int;
    const IN_STATUS: c_int = ErrorClass::InStatus as c_int;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.set_error_handler(ErrorHandler::Return);
    let (mut long, mut fits) = ([0; 2], [0; 2]);
    // SAFETY: the rooms outlive the requests, and all results have their place.
    unsafe {
        let nothing: MPI_Status = std::mem::zeroed();
        let (mut status, mut statuses) = (nothing, [nothing; 2]);
        let (mut flag, mut index, mut number, mut indices) = (0, -1, 0, [0; 2]);

        let mut request = started(&world, &mut long, 1, 10);
        assert_eq!(MPI_Wait(&mut request, &mut status), TRUNCATE);
        assert_eq!((request, status.MPI_ERROR, status.MPI_TAG), (RSMPI_REQUEST_NULL, TRUNCATE, 1));
        request = started(&world, &mut long, 2, 10);
        assert_eq!((MPI_Test(&mut request, &mut flag, &mut status), flag), (TRUNCATE, 1));
        assert_eq!(request, RSMPI_REQUEST_NULL);

        let mut pair = [RSMPI_REQUEST_NULL, started(&world, &mut long, 3, 10)];
        assert_eq!((MPI_Waitany(2, pair.as_mut_ptr(), &mut index, &mut status), index), (TRUNCATE, 1));
        pair = [RSMPI_REQUEST_NULL, started(&world, &mut long, 4, 10)];
        let code = MPI_Testany(2, pair.as_mut_ptr(), &mut index, &mut flag, &mut status);
        assert_eq!((code, index, flag), (TRUNCATE, 1, 1));

        let mut both = |tag| [started(&world, &mut fits, tag, 2), started(&world, &mut long, tag + 1, 10)];
        let errors = |statuses: [MPI_Status; 2]| statuses.map(|status| status.MPI_ERROR);
        pair = both(5);
        assert_eq!(MPI_Waitall(2, pair.as_mut_ptr(), statuses.as_mut_ptr()), IN_STATUS);
        assert_eq!((errors(statuses), pair), ([0, TRUNCATE], [RSMPI_REQUEST_NULL; 2]));
        (pair, statuses) = (both(7), [nothing; 2]);
        assert_eq!(
            (MPI_Testall(2, pair.as_mut_ptr(), &mut flag, statuses.as_mut_ptr()), flag),
            (IN_STATUS, 1)
        );
        assert_eq!(errors(statuses), [0, TRUNCATE]);
        (pair, statuses) = (both(9), [nothing; 2]);
        let code =
            MPI_Waitsome(2, pair.as_mut_ptr(), &mut number, indices.as_mut_ptr(), statuses.as_mut_ptr());
        assert_eq!((code, number, indices, errors(statuses)), (IN_STATUS, 2, [0, 1], [0, TRUNCATE]));
        (pair, statuses) = (both(11), [nothing; 2]);
        let code =
            MPI_Testsome(2, pair.as_mut_ptr(), &mut number, indices.as_mut_ptr(), statuses.as_mut_ptr());
        assert_eq!((code, number, errors(statuses)), (IN_STATUS, 2, [0, TRUNCATE]));
    }
    assert_eq!((fits, long), ([1; 2], [0; 2]));
}

/// Handles that are null or predefined are refused, and stay what they are. Such an error concerns no communicator, so
/// that the handler of the own one decides.
fn nobody_frees_what_is_predefined() {
    let universe = mpi::initialize().unwrap();
    let own = SimpleCommunicator::self_comm();
    own.set_error_handler(ErrorHandler::Return);
    universe.world().set_error_handler(ErrorHandler::Return);
    // SAFETY: every handle is null, predefined, or what was just given out.
    unsafe {
        for mut handle in [RSMPI_INT32_T, RSMPI_DOUBLE, RSMPI_DATATYPE_NULL] {
            let before = handle;
            assert_eq!(MPI_Type_free(&mut handle), ErrorClass::Type as c_int);
            assert_eq!(handle, before);
        }
        for mut handle in [RSMPI_COMM_WORLD, RSMPI_COMM_SELF, RSMPI_COMM_NULL] {
            let before = handle;
            assert_eq!(MPI_Comm_free(&mut handle), ErrorClass::Comm as c_int);
            assert_eq!(MPI_Comm_disconnect(&mut handle), ErrorClass::Comm as c_int);
            assert_eq!(handle, before);
        }
        for mut handle in [RSMPI_SUM, RSMPI_MAX] {
            let before = handle;
            assert_eq!(MPI_Op_free(&mut handle), ErrorClass::Op as c_int);
            assert_eq!(handle, before);
        }
        assert_eq!(MPI_Group_free(&mut { RSMPI_GROUP_NULL }), ErrorClass::Group as c_int);
        assert_eq!(MPI_Errhandler_free(&mut { RSMPI_ERRHANDLER_NULL }), ErrorClass::Errhandler as c_int);
        assert_eq!(MPI_Info_free(&mut { RSMPI_INFO_NULL }), ErrorClass::Info as c_int);
        assert_eq!(MPI_Win_free(&mut { RSMPI_WIN_NULL }), ErrorClass::Win as c_int);
        let mut request = RSMPI_REQUEST_NULL;
        assert_eq!(MPI_Request_free(&mut request), ErrorClass::Request as c_int);
        assert_eq!(MPI_Cancel(&mut request), ErrorClass::Request as c_int);
        assert_eq!(MPI_Start(&mut request), ErrorClass::Request as c_int);
        // What an inquiry gave is to be freed, whatever it is.
        let (mut handler, mut empty) = (RSMPI_ERRHANDLER_NULL, RSMPI_GROUP_EMPTY);
        assert_eq!(MPI_Comm_get_errhandler(own.as_raw(), &mut handler), 0);
        assert_eq!((MPI_Errhandler_free(&mut handler), MPI_Group_free(&mut empty)), (0, 0));
        assert_eq!((handler, empty), (RSMPI_ERRHANDLER_NULL, RSMPI_GROUP_NULL));
    }
    // Nothing was hurt.
    let mut sum = 0;
    universe.world().all_reduce_into(&1, &mut sum, mpi::collective::SystemOperation::sum());
    assert_eq!(sum, 1);
}

/// C tells no line of the program, and one of this library would mislead.
fn errors_without_a_line() {
    let _universe = mpi::initialize().unwrap();
    // SAFETY: predefined handles may be given.
    unsafe { MPI_Type_free(&mut { RSMPI_INT32_T }) };
}
