//! Errors as values, error handlers, and what a program is told that breaks a rule.

mod support;

use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use mpi::collective::SystemOperation;
use mpi::datatype::{PartitionMut, UncommittedUserDatatype, UserDatatype};
use mpi::ext::{self, ErrorClass, ErrorHandler, prelude::*};
use mpi::ffi::*;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("values_of_sends", values_of_sends).on(&[2]),
    case("values_of_receives", values_of_receives).on(&[2]),
    case("values_of_requests", values_of_requests).on(&[2]),
    case("values_of_collectives", values_of_collectives).on(&[1, 3]),
    case("parts_that_do_not_come_out_even", parts_that_do_not_come_out_even).on(&[3]).fails(
        ERROR_STATUS,
        &["MPI_ERR_", "gather on \"MPI_COMM_WORLD\"", "; the buffer has 1 element, which is 0 for each of 3 ranks"],
    ),
    case("counts_that_differ", counts_that_differ)
        .on(&[2])
        .fails(ERROR_STATUS, &["broadcast on \"MPI_COMM_WORLD\" from rank 0", "MPI_CHECK=1 names the ranks that disagree"]),
    case("values_of_immediate_collectives", values_of_immediate_collectives).on(&[2]),
    case("values_of_communicators", values_of_communicators).on(&[2]),
    case("values_of_spawns", values_of_spawns).on(&[1, 2]).over(&["shm,tcp"]),
    case("parts_left_over", parts_left_over).on(&[2]).over(&["shm"]),
    case("world_at_the_very_end", world_at_the_very_end)
        .on(&[1])
        .over(&["shm"])
        .fails(ERROR_STATUS, &["MPI_ERR_OTHER: world: MPI is finalised", "ext_errors.rs:"]),
    case("finalised_meanwhile", finalised_meanwhile).on(&[2]),
    case("success_is_a_value_too", success_is_a_value_too),
    case("errors_without_a_communicator", errors_without_a_communicator).on(&[2]).over(&["shm"]),
    case("group_of_strangers", || drop(mpi::initialize().unwrap().world().group().include(&[0, 5000])))
        .on(&[1])
        .over(&["shm"])
        .fails(ERROR_STATUS, &["MPI_ERR_RANK: group include: rank 5000 is not in the group", "at crates/mpi/tests/ext_errors.rs:"]),
    case("datatype_of_a_negative_count", datatype_of_a_negative_count)
        .on(&[1])
        .over(&["shm"])
        .fails(ERROR_STATUS, &["MPI_ERR_TYPE: contiguous: ", "-1 is negative", "at crates/mpi/tests/ext_errors.rs:"]),
    case("custom_handler", custom_handler).on(&[2]),
    case("custom_handler_of_a_request", custom_handler_of_a_request).on(&[2]),
    case("untyped_handlers", untyped_handlers).on(&[1]),
    case("everything_after_finalisation", everything_after_finalisation).on(&[1, 2]),
    case("truncated", truncated).on(&[4]).fails(
        ERROR_STATUS,
        &[
            "failed with MPI_ERR_TRUNCATE: receive on \"grid\" from rank 3 tag 7: message of 104 bytes, room for 80",
            "context ",
            "at crates/mpi/tests/ext_errors.rs:",
        ],
    ),
    case("negative_tag", negative_tag).on(&[2]).fails(
        ERROR_STATUS,
        &["failed with MPI_ERR_TAG: send on \"MPI_COMM_WORLD\" to rank 1: tag -5 is not in 0..=", "ext_errors.rs:"],
    ),
    case("wrong_count", wrong_count).on(&[2]).fails(ERROR_STATUS, &["MPI_ERR_COUNT: reduce_scatter_block on \"MPI_COMM_WORLD\""]),
    case("wrong_root", wrong_root).on(&[2]).fails(ERROR_STATUS, &["MPI_ERR_ROOT: gather on \"MPI_COMM_WORLD\"", "rank 0"]),
    case("no_such_rank", no_such_rank).on(&[1]).fails(101, &["there is no rank 7 in \"MPI_COMM_WORLD\"", "ext_errors.rs:"]),
    case("send_after_finalisation", send_after_finalisation)
        .on(&[1])
        .fails(ERROR_STATUS, &["MPI_ERR_OTHER: send on \"MPI_COMM_WORLD\"", "MPI is finalised", "ext_errors.rs:"]),
    case("duplicate_after_finalisation", duplicate_after_finalisation)
        .on(&[1])
        .fails(ERROR_STATUS, &["MPI_ERR_OTHER: duplicate on \"MPI_COMM_WORLD\": MPI is finalised"]),
    case("before_initialisation", before_initialisation).on(&[1]).fails(ERROR_STATUS, &["MPI_ERR_OTHER: world: MPI is not initialised", "ext_errors.rs:"]),
    case("dropped_request", dropped_request).on(&[2]).fails(
        101,
        &["request was dropped without being completed: receive on \"MPI_COMM_WORLD\" from rank 1 tag 6, started at crates/mpi/tests/ext_errors.rs:"],
    ),
    case("dropped_message", dropped_message)
        .on(&[1])
        .fails(101, &["dropped without being received: 4 bytes on \"MPI_COMM_WORLD\" from rank 0 tag 9"]),
    case("empty_for_a_value", empty_for_a_value).on(&[1]).fails(
        101,
        &["receive on \"MPI_COMM_WORLD\" from rank 0 tag 3: received an empty message (0 bytes) where one value of 4 bytes", "ext_errors.rs:"],
    ),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn values_of_sends() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    let line = line!() + 1;
    let error = peer.try_send_with_tag(&1, -5).unwrap_err();
    assert_eq!((error.class(), error.operation()), (ErrorClass::Tag, "send"));
    assert_eq!(
        (error.communicator(), error.peer(), error.tag()),
        (Some("MPI_COMM_WORLD"), Some(peer.rank()), None)
    );
    assert!(error.context().is_some() && error.detail().contains("tag -5"));
    if cfg!(debug_assertions) {
        assert_eq!(error.place().map(|place| place.line()), Some(line));
        assert!(error.to_string().contains("ext_errors.rs"), "{error}");
    }
    let error = peer.try_buffered_send(&[0_u8; 100][..]).unwrap_err();
    assert_eq!((error.class(), error.operation()), (ErrorClass::Buffer, "buffered send"));
    assert!(error.detail().contains("no buffer is attached"), "{error}");
    mpi::request::scope(|scope| {
        let error = peer.try_immediate_send_with_tag(scope, &1, -1).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Tag);
    });
    world.barrier();
}

fn parts_that_do_not_come_out_even() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(0);
    if world.rank() == 0 {
        root.gather_into_root(&[1, 2, 3][..], &mut [0][..]);
    } else {
        root.gather_into(&[1, 2, 3][..]);
    }
}

fn counts_that_differ() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut data = vec![0_i32; if world.rank() == 0 { 4 } else { 2 }];
    world.process_at_rank(0).broadcast_into(&mut data[..]);
    world.barrier();
}

fn values_of_receives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        let to = world.process_at_rank(0);
        to.send_with_tag(&[0_u8; 104][..], 7);
        to.send_with_tag(&[1.0_f64; 4][..], 8);
        to.send_with_tag::<[i32]>(&[], 9);
        to.send_with_tag(&[0_u8; 10][..], 10);
        to.send_with_tag(&vec![0.0_f64; 100_000][..], 11);
        to.send_with_tag(&[1_u8; 3][..], 12);
        to.send(&5);
    } else {
        let from = world.process_at_rank(1);
        let error = from.try_receive_into(&mut [0_u8; 80][..]).unwrap_err();
        assert_eq!((error.class(), error.peer(), error.tag()), (ErrorClass::Truncate, Some(1), Some(7)));
        assert_eq!((error.message_bytes(), error.room_bytes()), (Some(104), Some(80)));
        let error = from.try_receive_into(&mut [0_i32; 80][..]).unwrap_err();
        assert_eq!((error.class(), error.tag()), (ErrorClass::Type, Some(8)));
        assert!(error.detail().contains("f64") && error.detail().contains("i32"), "{error}");
        let error = from.try_receive::<i32>().unwrap_err();
        assert_eq!((error.class(), error.tag()), (ErrorClass::Count, Some(9)));
        assert_eq!((error.message_bytes(), error.room_bytes()), (Some(0), Some(4)));
        let (message, _) = from.try_matched_probe().unwrap();
        let error = message.try_matched_receive::<u8>().unwrap_err();
        assert_eq!((error.class(), error.tag()), (ErrorClass::Truncate, Some(10)));
        let error = from.try_receive_into(&mut [0.0_f64; 10][..]).unwrap_err();
        assert_eq!((error.message_bytes(), error.room_bytes()), (Some(800_000), Some(80)));
        assert_eq!(from.try_receive_vec::<u8>().unwrap().0, [1; 3]);
        // What failed left nothing behind.
        assert_eq!(from.try_receive::<i32>().unwrap().0, 5);
        let error = from.try_probe_with_tag(-7).unwrap_err();
        assert_eq!((error.class(), error.operation(), error.peer()), (ErrorClass::Tag, "probe", Some(1)));
    }
    world.barrier();
}

fn values_of_requests() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        world.process_at_rank(0).send_with_tag(&[0_u8; 104][..], 7);
        world.process_at_rank(0).send_with_tag(&[0_u8; 104][..], 8);
        world.process_at_rank(0).send_with_tag::<[f32]>(&[], 9);
    } else {
        let mut room = [0_u8; 80];
        mpi::request::scope(|scope| {
            let request =
                world.any_process().try_immediate_receive_into_with_tag(scope, &mut room[..], 7).unwrap();
            let error = request.try_wait().unwrap_err();
            assert_eq!((error.class(), error.peer()), (ErrorClass::Truncate, Some(1)));
        });
        mpi::request::scope(|scope| {
            let mut request = world.any_process().immediate_receive_into_with_tag(scope, &mut room[..], 8);
            let error = loop {
                match request.try_test() {
                    Ok(result) => break result.unwrap_err(),
                    Err(running) => request = running,
                }
            };
            assert_eq!((error.class(), error.tag()), (ErrorClass::Truncate, Some(8)));
        });
        let value = world.any_process().try_immediate_receive_with_tag::<f32>(9).unwrap();
        assert_eq!(value.try_wait().unwrap_err().class(), ErrorClass::Count);
    }
    world.barrier();
}

fn values_of_collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let size = world.size() as usize;
    let error = world
        .try_reduce_scatter_block_into(&vec![1; size + 1][..], &mut [0][..], SystemOperation::sum())
        .unwrap_err();
    assert_eq!((error.class(), error.communicator()), (ErrorClass::Count, Some("MPI_COMM_WORLD")));
    let root = world.process_at_rank(0);
    let error = if world.rank() == 0 {
        root.try_gather_into(&1).unwrap_err()
    } else {
        root.try_gather_into_root(&1, &mut vec![0; size][..]).unwrap_err()
    };
    assert_eq!(error.class(), ErrorClass::Root);
    let mut room = vec![0; size];
    let mut parts = PartitionMut::new(&mut room[..], vec![0; size], vec![0; size]);
    assert_eq!(world.try_all_gather_varcount_into::<[i32], _>(&[], &mut parts), Ok(()));
    // A logical operation has no meaning for floats; every rank finds that by itself.
    let error = world.try_all_reduce_into(&1.5, &mut 0.0, SystemOperation::bitwise_and()).unwrap_err();
    assert_eq!((error.class(), error.operation()), (ErrorClass::Op, "allreduce"));
    world.try_barrier().unwrap();
}

fn values_of_immediate_collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut sum = 0;
    let (operand, mut result) = (1.5, 0.0);
    mpi::request::scope(|scope| {
        let error = world
            .try_immediate_all_reduce_into(scope, &operand, &mut result, SystemOperation::bitwise_or())
            .unwrap_err();
        assert_eq!(error.class(), ErrorClass::Op);
    });
    let rank = world.rank();
    mpi::request::scope(|scope| {
        let request =
            world.try_immediate_all_reduce_into(scope, &rank, &mut sum, SystemOperation::sum()).unwrap();
        request.try_wait().unwrap();
    });
    assert_eq!(sum, 1);
}

/// Every process learns which program did not start, and why.
fn values_of_spawns() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(0);
    let error = root.try_spawn(&Command::new("/no/such/program"), 2).err().expect("there is no such program");
    assert_eq!(error.class(), ErrorClass::Spawn);
    let text = error.to_string();
    assert!(text.contains("/no/such/program") && text.contains("no such file"), "{text}");
    let several = [Command::new("true"), Command::new("/no/such/other")];
    let error = root.try_spawn_multiple(&several, &[1, 1]).err().expect("there is no such program");
    assert_eq!(error.class(), ErrorClass::Spawn);
    assert!(error.to_string().contains("/no/such/other"), "{error}");
    let error = root.try_spawn(&Command::new(""), 1).err().expect("that is no program");
    assert!(error.to_string().contains("empty word"), "{error}");
    let error = root.try_spawn_multiple(&several, &[1]).err().expect("one number for two commands");
    assert_eq!(error.class(), ErrorClass::Arg);
    assert!(error.to_string().contains("2 commands, but 1 numbers of processes"), "{error}");
    world.barrier();
}

fn values_of_communicators() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    assert_eq!(world.try_process_at_rank(2).map(|p| p.rank()).unwrap_err().class(), ErrorClass::Rank);
    let error =
        world.try_create_cartesian_communicator(&[3, 3], &[false, false], false).map(|_| ()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Dims);
    let copy = world.try_duplicate().unwrap();
    assert!(copy.try_split_shared(0).is_ok());
    let nobody = copy.group().exclude(&[0, 1]);
    assert!(copy.try_split_by_subgroup_collective(&nobody).unwrap().is_none());
}

/// A buffer with something left over is told of, as the plain operations, which follow rsmpi, do not.
fn parts_left_over() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (own, mut room) = ([7; 5], [0; 5]);
    let faults = [
        world.try_all_gather_into(&1, &mut room[..]),
        world.try_all_to_all_into(&own[..], &mut room[..]),
        world.try_all_to_all_into(&own[..4], &mut room[..]),
        world.try_all_to_all_into(&own[..], &mut room[..4]),
        world.try_all_gather_in_place(&mut room[..]),
        world.try_all_to_all_in_place(&mut room[..]),
    ];
    for fault in faults {
        let error = fault.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Count);
        assert!(error.to_string().contains("5 elements are no equal part for each of 2 ranks"), "{error}");
    }
    world.all_gather_into(&[7, 7][..], &mut room[..]);
    assert_eq!(room, [7, 7, 7, 7, 0]);
}

fn success_is_a_value_too() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) =
        (world.process_at_rank((rank + 1) % size), world.process_at_rank((rank + size - 1) % size));
    let mut from = -1;
    let status = ext::try_send_receive_into_with_tags(&rank, &next, 3, &mut from, &previous, 3).unwrap();
    assert_eq!((from, status.source_rank()), (previous.rank(), previous.rank()));
    let (from, _) = ext::try_send_receive_with_tags::<i32, _, i32, _>(&rank, &next, 4, &previous, 4).unwrap();
    assert_eq!(from, previous.rank());
    let mut all = vec![0; size as usize];
    world.try_all_gather_into(&rank, &mut all[..]).unwrap();
    assert_eq!(all, (0..size).collect::<Vec<_>>());
    let mut value = if rank == 0 { 7 } else { 0 };
    world.process_at_rank(0).try_broadcast_into(&mut value).unwrap();
    assert_eq!(value, 7);
}

fn custom_handler() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world().duplicate();
    world.set_name("grid");
    panic::set_hook(Box::new(|_| {}));
    let class = Arc::new(AtomicI32::new(0));
    let seen = class.clone();
    world.set_error_handler(ErrorHandler::custom(move |communicator, error| {
        assert_eq!((communicator.get_name().as_str(), error.communicator()), ("grid", Some("grid")));
        seen.store(error.class() as i32, Ordering::Relaxed);
    }));
    // Inherited by what is made from it.
    let copy = world.duplicate();
    copy.set_name("grid");
    for communicator in [&world, &copy] {
        class.store(0, Ordering::Relaxed);
        let caught =
            panic::catch_unwind(AssertUnwindSafe(|| communicator.this_process().send_with_tag(&1, -5)));
        let text = caught.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("tag -5"), "{text}");
        assert_eq!(class.load(Ordering::Relaxed), ErrorClass::Tag as i32);
    }
    class.store(0, Ordering::Relaxed);
    world.call_error_handler(&ext::Error::new(ErrorClass::Other, "test", "as the program says").on(&world));
    assert_eq!(class.load(Ordering::Relaxed), ErrorClass::Other as i32);
    world.set_error_handler(ErrorHandler::Return);
    assert!(matches!(world.error_handler(), ErrorHandler::Return));
    assert!(panic::catch_unwind(AssertUnwindSafe(|| world.this_process().send_with_tag(&1, -5))).is_err());
    world.barrier();
}

/// A request remembers its communicator, and so the handler.
fn custom_handler_of_a_request() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world().duplicate();
    panic::set_hook(Box::new(|_| {}));
    world.set_error_handler(ErrorHandler::Return);
    if world.rank() == 1 {
        world.process_at_rank(0).send(&[0_u8; 104][..]);
    } else {
        let mut room = [0_u8; 80];
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            mpi::request::scope(|scope| {
                world.any_process().immediate_receive_into(scope, &mut room[..]).wait();
            });
        }));
        let text = caught.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("104 bytes"), "{text}");
    }
    world.barrier();
}

static CODE: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" fn note(_comm: *mut MPI_Comm, code: *mut i32) {
    // SAFETY: the caller gives a code.
    CODE.store(unsafe { *code }, Ordering::Relaxed);
}

fn untyped_handlers() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    // SAFETY: all handles live, and all results have their room.
    unsafe {
        let mut handler = RSMPI_ERRHANDLER_NULL;
        assert_eq!(MPI_Comm_create_errhandler(note, &mut handler), 0);
        assert_eq!(MPI_Comm_set_errhandler(world.as_raw(), handler), 0);
        assert_eq!(MPI_Errhandler_free(&mut handler), 0);
        assert_eq!(handler, RSMPI_ERRHANDLER_NULL);
        let value = 1_i32;
        let code = MPI_Send((&raw const value).cast(), 1, RSMPI_INT32_T, 0, -5, world.as_raw());
        assert_eq!((code, CODE.load(Ordering::Relaxed)), (MPI_ERR_TAG as i32, MPI_ERR_TAG as i32));
        assert_eq!(MPI_Comm_call_errhandler(world.as_raw(), MPI_ERR_ARG as i32), 0);
        assert_eq!(CODE.load(Ordering::Relaxed), MPI_ERR_ARG as i32);
        let mut class = 0;
        assert_eq!(MPI_Error_class(code, &mut class), 0);
        assert_eq!(class, MPI_ERR_TAG as i32);
        let mut text = [0; MPI_MAX_ERROR_STRING as usize];
        let mut len = 0;
        assert_eq!(MPI_Error_string(code, text.as_mut_ptr().cast(), &mut len), 0);
        assert_eq!(&text[..len as usize], b"MPI_ERR_TAG: invalid tag");
        assert_eq!(MPI_Comm_set_errhandler(world.as_raw(), RSMPI_ERRORS_RETURN), 0);
        let mut now = RSMPI_ERRHANDLER_NULL;
        assert_eq!(MPI_Comm_get_errhandler(world.as_raw(), &mut now), 0);
        assert_eq!(now, RSMPI_ERRORS_RETURN);
    }
}

fn everything_after_finalisation() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    drop(universe);
    let refused = |name: &str, result: Result<(), ext::Error>| {
        let error = result.expect_err(name);
        assert_eq!(error.class(), ErrorClass::Other, "{name}: {error}");
        assert!(error.detail().contains("MPI is finalised"), "{name}: {error}");
        assert_eq!(error.communicator(), Some("MPI_COMM_WORLD"), "{name}: {error}");
    };
    let mut room = [0; 2];
    for rank in 0..world.size() {
        let peer = world.process_at_rank(rank);
        refused("send", peer.try_send(&1));
        refused("synchronous send", peer.try_synchronous_send(&1));
        refused("buffered send", peer.try_buffered_send(&1));
        refused("receive", peer.try_receive::<i32>().map(|_| ()));
        refused("receive into", peer.try_receive_into(&mut room[..]).map(|_| ()));
        refused("probe", peer.try_probe().map(|_| ()));
        refused("immediate probe", peer.try_immediate_probe().map(|_| ()));
        refused("matched probe", peer.try_matched_probe().map(|_| ()));
        refused("broadcast", peer.try_broadcast_into(&mut room[..]));
        refused(
            "exchange",
            ext::try_send_receive_into_with_tags(&1, &peer, 0, &mut room[..], &peer, 0).map(|_| ()),
        );
        mpi::request::scope(|scope| {
            refused("immediate send", peer.try_immediate_send(scope, &1).map(drop_request));
        });
    }
    refused("receive from any", world.any_process().try_receive::<i32>().map(|_| ()));
    refused("barrier", world.try_barrier());
    refused("all reduce", world.try_all_reduce_into(&1, &mut 0, SystemOperation::sum()));
    refused("immediate barrier", world.try_immediate_barrier().map(drop_request));
    refused("duplicate", world.try_duplicate().map(|_| ()));
    refused("split", world.try_split_by_color_with_key(mpi::topology::Color::with_value(1), 0).map(|_| ()));
    refused("split shared", world.try_split_shared(0).map(|_| ()));
    refused("subgroup", world.try_split_by_subgroup_collective(&world.group()).map(|_| ()));
    refused("subgroup of its own", world.try_split_by_subgroup_with_tag(&world.group(), 0).map(|_| ()));
    refused("grid", world.try_create_cartesian_communicator(&[1], &[false], false).map(|_| ()));
    // What asks for nothing but what is known here still answers.
    assert!(world.rank() < world.size() && world.get_name() == "MPI_COMM_WORLD");
}

fn drop_request<'a, D: ?Sized, S: mpi::request::Scope<'a>>(request: mpi::request::Request<'a, D, S>) {
    request.wait();
}

fn truncated() {
    let universe = mpi::initialize().unwrap();
    let grid = universe.world().duplicate();
    grid.set_name("grid");
    if grid.rank() == 3 {
        grid.process_at_rank(0).send_with_tag(&[0_u8; 104][..], 7);
    } else if grid.rank() == 0 {
        grid.any_process().receive_into(&mut [0_u8; 80][..]);
    }
    grid.barrier();
}

fn world() -> (mpi::environment::Universe, SimpleCommunicator) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    (universe, world)
}

fn negative_tag() {
    let (_universe, world) = world();
    if world.rank() == 0 {
        world.process_at_rank(1).send_with_tag(&1, -5);
    }
    world.barrier();
}

fn wrong_count() {
    let (_universe, world) = world();
    world.reduce_scatter_block_into(&[1, 2, 3][..], &mut [0][..], SystemOperation::sum());
}

fn wrong_root() {
    let (_universe, world) = world();
    world.process_at_rank(0).gather_into(&1);
}

fn no_such_rank() {
    let (_universe, world) = world();
    world.process_at_rank(7).send(&1);
}

fn send_after_finalisation() {
    let (universe, world) = world();
    drop(universe);
    world.this_process().send(&1);
}

fn duplicate_after_finalisation() {
    let (universe, world) = world();
    drop(universe);
    world.duplicate();
}

fn before_initialisation() {
    SimpleCommunicator::world();
}

fn dropped_request() {
    let (_universe, world) = world();
    let mut room = 0;
    if world.rank() == 0 {
        mpi::request::scope(|scope| {
            drop(world.process_at_rank(1).immediate_receive_into_with_tag(scope, &mut room, 6));
        });
    }
    world.barrier();
}

fn dropped_message() {
    let (_universe, world) = world();
    world.this_process().send_with_tag(&1, 9);
    drop(world.any_process().matched_probe());
}

fn empty_for_a_value() {
    let (_universe, world) = world();
    world.this_process().send_with_tag::<[i32]>(&[], 3);
    world.any_process().receive::<i32>();
}

fn datatype_of_a_negative_count() {
    let _universe = mpi::initialize().unwrap();
    UserDatatype::contiguous(-1, &i32::equivalent_datatype());
}

/// They go to the handler of the own communicator, and have twins that return them. A handler is told the line of the
/// program.
fn errors_without_a_communicator() {
    static PLACES: AtomicI32 = AtomicI32::new(0);
    let universe = mpi::initialize().unwrap();
    let group = universe.world().group();
    let int = i32::equivalent_datatype();
    let classes = [
        group.try_include(&[0, 0]).err().unwrap().class(),
        group.try_exclude(&[-1]).err().unwrap().class(),
        group.try_translate_rank(7, &group).err().unwrap().class(),
        group.try_translate_ranks(&[0, 7], &group).err().unwrap().class(),
    ];
    assert_eq!(classes, [ErrorClass::Rank; 4]);
    assert_eq!(
        group.try_translate_ranks(&[1, 0], &group.try_include(&[1]).unwrap()).unwrap(),
        [Some(0), None]
    );
    let refused = [
        UserDatatype::try_contiguous(-1, &int).err(),
        UserDatatype::try_vector(1, -1, 1, &int).err(),
        UserDatatype::try_heterogeneous_vector(-1, 1, 1, &int).err(),
        UserDatatype::try_indexed(&[1], &[0, 1], &int).err(),
        UncommittedUserDatatype::try_heterogeneous_indexed(&[-1], &[0], &int).err(),
        UncommittedUserDatatype::try_indexed_block(-1, &[0], &int).err(),
        UncommittedUserDatatype::try_heterogeneous_indexed_block(-1, &[0], &int).err(),
        UncommittedUserDatatype::try_structured(&[1, 1], &[0, 4], &[int]).err(),
    ];
    for error in refused {
        let error = error.unwrap();
        assert_eq!(error.class(), ErrorClass::Type);
        assert!(error.place().is_none_or(|place| place.file().ends_with("ext_errors.rs")), "{error}");
    }
    let column = UserDatatype::try_vector(3, 1, 2, &int).unwrap();
    let data = [1, 0, 2, 0, 3];
    // SAFETY: the three elements lie in the array.
    let view = unsafe { mpi::datatype::View::with_count_and_datatype(&data[..], 1, &column) };
    assert_eq!(universe.world().pack(&view).len(), 12);

    let handler = ErrorHandler::custom(|communicator, error| {
        assert_eq!(communicator.size(), 1);
        assert!(error.place().is_none_or(|place| place.file().ends_with("ext_errors.rs")), "{error}");
        PLACES.fetch_add(1, Ordering::Relaxed);
    });
    SimpleCommunicator::self_comm().set_error_handler(handler);
    panic::set_hook(Box::new(|_| ()));
    let plain = [
        panic::catch_unwind(AssertUnwindSafe(|| drop(group.include(&[5000])))),
        panic::catch_unwind(AssertUnwindSafe(|| drop(group.exclude(&[5000])))),
        panic::catch_unwind(AssertUnwindSafe(|| _ = group.translate_rank(-1, &group))),
        panic::catch_unwind(AssertUnwindSafe(|| drop(UserDatatype::contiguous(-1, &int)))),
    ];
    assert!(plain.iter().all(Result::is_err));
    assert_eq!(PLACES.load(Ordering::Relaxed), 4);
}

struct AtTheEnd;

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        SimpleCommunicator::world();
    }
}

thread_local! {
    static LAST: AtTheEnd = const { AtTheEnd };
}

/// A value of a thread's is dropped while the process exits, which must not begin anew.
fn world_at_the_very_end() {
    let _universe = mpi::initialize().unwrap();
    LAST.with(|_| ());
}

/// Who still receives while another thread finalises is told that, not that the peers are gone.
fn finalised_meanwhile() {
    let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Multiple).unwrap();
    let copy = universe.world().duplicate();
    let (begun, begins) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        begun.send(()).unwrap();
        copy.any_process().try_receive_with_tag::<i32>(5).map(|_| ()).unwrap_err()
    });
    begins.recv().unwrap();
    drop(universe);
    let error = waiting.join().unwrap();
    assert_eq!(error.class(), ErrorClass::Other);
    assert!(error.to_string().contains("MPI is finalised"), "{error}");
}
