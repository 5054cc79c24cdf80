//! Typed things end to end: derived types, built datatypes, packing, attributes, topologies, the untyped face.

mod support;

use std::process::ExitCode;

use mpi::datatype::{DynBuffer, DynBufferMut, MutView, UserDatatype, View};
use mpi::ffi;
use mpi::topology::{Color, CommunicatorRelation, IntoTopology, MergeOrder, SimpleCommunicator, Topology};
use mpi::traits::*;
use mpi::{Address, Count};
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("derived_types", derived_types),
    case("generic_types", generic_types),
    case("large_alignment", large_alignment),
    case("enums", enums),
    #[cfg(feature = "derive")]
    case("no_such_variant", no_such_variant)
        .on(&[1])
        .fails(ERROR_STATUS, &["0x7, which is no Side", "tag 0"]),
    #[cfg(feature = "derive")]
    case("no_such_variant_inside", no_such_variant_inside)
        .on(&[1])
        .fails(ERROR_STATUS, &["0x5, which is no Phase"]),
    case("no_bool", no_bool).on(&[1]).fails(ERROR_STATUS, &["0x9, which is no bool"]),
    case("no_char", no_char).on(&[1]).fails(ERROR_STATUS, &["0xd800, which is no char"]),
    #[cfg(feature = "derive")]
    case("no_bool_in_a_struct", no_bool_in_a_struct).on(&[1]).fails(ERROR_STATUS, &["0x2, which is no bool"]),
    case("no_bool_in_a_broadcast", no_bool_in_a_broadcast)
        .on(&[2])
        .fails(ERROR_STATUS, &["0x9, which is no bool"]),
    case("packing", packing),
    case("built_datatypes", built_datatypes),
    case("dynamic_buffers", dynamic_buffers),
    case("attributes", attributes),
    case("communicators", communicators),
    case("grids", grids).on(&[4, 6]),
    case("untyped_face", untyped_face).on(&[2, 3]),
    case("an_error_that_returns", an_error_that_returns).on(&[1]),
    case("raw_round_trips", raw_round_trips).on(&[2]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// Sends a value around the ring and compares.
#[cfg(feature = "derive")]
fn around<T: Equivalence + PartialEq + std::fmt::Debug>(world: &SimpleCommunicator, value: &T) {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    mpi::request::scope(|scope| {
        let send = world.process_at_rank(next).immediate_send(scope, value);
        let (got, _) = world.process_at_rank(previous).receive::<T>();
        assert_eq!(&got, value);
        send.wait();
    });
}

#[cfg(feature = "derive")]
mod derived {
    use super::*;

    #[derive(Equivalence, PartialEq, Debug, Clone, Copy, Default)]
    pub struct Named {
        pub flag: bool,
        pub value: f64,
        pub small: u16,
        pub letter: char,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy, Default)]
    pub struct Unnamed(pub i8, pub (u32, [i16; 3]), pub [[f32; 2]; 2]);
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy, Default)]
    pub struct Nested {
        pub named: [Named; 2],
        pub unnamed: Unnamed,
        pub unit: Unit,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy, Default)]
    pub struct Unit;
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    pub struct Generic<T, const N: usize> {
        pub head: u8,
        pub items: [T; N],
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    pub struct Holder<T>
    where
        T: Copy,
    {
        pub inner: Generic<T, 2>,
        pub pair: (T, bool),
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[repr(align(64))]
    pub struct Aligned(pub u8);
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[repr(i16)]
    pub enum Phase {
        Solid = -3,
        Liquid,
        Gas = 900,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[repr(u8)]
    pub enum Side {
        Left,
        Right,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    pub struct Matter {
        pub phase: [Phase; 3],
        pub side: Side,
        pub mass: f64,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[repr(u64)]
    pub enum Wide {
        Low,
        High = u64::MAX,
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[repr(isize)]
    pub enum Far {
        Behind = -1,
        Ahead = 1,
    }
    #[derive(Equivalence)]
    #[repr(C)]
    pub struct Flags {
        pub numbers: [u32; 2],
        pub flags: [bool; 4],
    }
    #[derive(Equivalence)]
    #[mpi(crate = "::mpi")]
    pub struct WithPath(#[allow(dead_code)] pub u8);
    #[derive(Equivalence, PartialEq, Debug)]
    #[mpi(crate = "crate::under_another_name")]
    pub struct WithAnotherPath {
        pub flag: bool,
        pub pair: (u8, [i64; 2]),
    }
    #[derive(Equivalence, PartialEq, Debug, Clone, Copy)]
    #[mpi(crate = "crate::under_another_name")]
    #[repr(u32)]
    pub enum EnumWithAnotherPath {
        One = 1,
    }
}

/// The crate as one knows it who renamed it.
#[cfg(feature = "derive")]
use mpi as under_another_name;

#[cfg(feature = "derive")]
fn derived_types() {
    use derived::*;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let named = Named { flag: true, value: -1.25, small: 9, letter: 'λ' };
    let unnamed = Unnamed(-3, (7, [1, -2, 3]), [[0.5, 1.5], [2.5, 3.5]]);
    around(&world, &named);
    around(&world, &unnamed);
    around(&world, &Nested { named: [named, Named::default()], unnamed, unit: Unit });
    around(&world, &Unit);
    // Many, and through a vector.
    let many: Vec<Nested> = vec![Nested { named: [named; 2], unnamed, unit: Unit }; 1000];
    mpi::request::scope(|scope| {
        let send = world.this_process().immediate_send(scope, &many[..]);
        assert_eq!(world.this_process().receive_vec::<Nested>().0, many);
        send.wait();
    });
}

#[cfg(feature = "derive")]
fn generic_types() {
    use derived::*;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    around(&world, &Generic { head: 1, items: [1.5_f64, 2.5, 3.5] });
    around(&world, &Generic { head: 2, items: [7_u8; 5] });
    around(&world, &Holder { inner: Generic { head: 3, items: ['a', 'b'] }, pair: ('c', true) });
    around(&world, &Holder { inner: Generic { head: 3, items: [1_i64, 2] }, pair: (3, false) });
    assert!(WithPath::equivalent_datatype().as_raw() == WithPath::equivalent_datatype().as_raw());
    around(&world, &WithAnotherPath { flag: true, pair: (3, [-1, i64::MAX]) });
    around(&world, &EnumWithAnotherPath::One);
}

#[cfg(feature = "derive")]
fn enums() {
    use derived::*;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    around(&world, &Phase::Solid);
    around(&world, &Phase::Gas);
    [Wide::High, Wide::Low].iter().for_each(|wide| around(&world, wide));
    [Far::Behind, Far::Ahead].iter().for_each(|far| around(&world, far));
    let matter = Matter { phase: [Phase::Gas, Phase::Solid, Phase::Liquid], side: Side::Right, mass: 2.5 };
    around(&world, &matter);
    let mut side = if world.rank() == 0 { Side::Right } else { Side::Left };
    world.process_at_rank(0).broadcast_into(&mut side);
    assert_eq!(side, Side::Right);
    // An enum travels as its integer.
    world.this_process().send(&Phase::Liquid);
    assert_eq!(world.this_process().receive::<i16>().0, -2);
}

/// A peer's number that is no variant does not become one.
#[cfg(feature = "derive")]
fn no_such_variant() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.this_process().send(&7_u8);
    world.this_process().receive::<derived::Side>();
}

/// As [`no_such_variant`], in the middle of a struct and received immediately.
#[cfg(feature = "derive")]
fn no_such_variant_inside() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = [derived::Phase::Solid; 4];
    mpi::request::scope(|scope| {
        let receive = world.this_process().immediate_receive_into(scope, &mut room[..]);
        world.this_process().send(&[-3_i16, 900, 5, -2]);
        receive.wait();
    });
}

fn no_bool() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let bytes = [1_u8, 0, 9];
    let boolean = bool::equivalent_datatype();
    // SAFETY: none: this is the liar that a receive must withstand.
    let lie = unsafe { View::with_count_and_datatype(&bytes[..], 3, &boolean) };
    world.this_process().send(&lie);
    world.this_process().receive_vec::<bool>();
}

fn no_char() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let words = [u32::from('a'), 0xd800];
    let letter = char::equivalent_datatype();
    // SAFETY: none: as above.
    let lie = unsafe { View::with_count_and_datatype(&words[..], 2, &letter) };
    world.this_process().send(&lie);
    world.this_process().receive_vec::<char>();
}

/// As [`no_bool`], beside values that are right.
#[cfg(feature = "derive")]
fn no_bool_in_a_struct() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let bytes = [1_u32, 2, u32::from_ne_bytes([1, 0, 2, 1])];
    let flags = derived::Flags::equivalent_datatype();
    // SAFETY: none: as above.
    let lie = unsafe { View::with_count_and_datatype(&bytes[..], 1, &flags) };
    world.this_process().send(&lie);
    world.this_process().receive::<derived::Flags>();
}

/// As [`no_bool`], in a collective.
fn no_bool_in_a_broadcast() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(0);
    if world.rank() == 0 {
        let mut bytes = [1_u8, 0, 9];
        let boolean = bool::equivalent_datatype();
        // SAFETY: none: as above.
        let mut lie = unsafe { MutView::with_count_and_datatype(&mut bytes[..], 3, &boolean) };
        root.broadcast_into(&mut lie);
    } else {
        root.broadcast_into(&mut [true; 3][..]);
    }
}

#[cfg(feature = "derive")]
fn large_alignment() {
    use derived::*;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let sent: Vec<Aligned> = (0..100).map(Aligned).collect();
    mpi::request::scope(|scope| {
        let send = world.this_process().immediate_send(scope, &sent[..]);
        let (got, status) = world.this_process().receive_vec::<Aligned>();
        assert_eq!(got, sent);
        assert_eq!(status.bytes(), 100, "padding does not travel");
        send.wait();
    });
}

#[cfg(not(feature = "derive"))]
fn derived_types() {}
#[cfg(not(feature = "derive"))]
fn generic_types() {}
#[cfg(not(feature = "derive"))]
fn large_alignment() {}
#[cfg(not(feature = "derive"))]
fn enums() {}

fn packing() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (a, b) = ([1_u16, 2, 3], 4.5_f64);
    assert_eq!(world.pack_size(3, &u16::equivalent_datatype()), 6);
    let mut bytes = vec![0; 20];
    let position = world.pack_into(&a, &mut bytes, 2);
    let end = world.pack_into(&b, &mut bytes, position);
    assert_eq!((position, end), (8, 16));
    let (mut c, mut d) = ([0_u16; 3], 0.0_f64);
    // SAFETY: the bytes were packed from these types.
    unsafe {
        assert_eq!(world.unpack_into(&bytes, &mut c, 2), 8);
        assert_eq!(world.unpack_into(&bytes, &mut d, 8), 16);
    }
    assert_eq!((a, b), (c, d));
    assert_eq!(world.pack(&[5_u8; 3]), [5; 3]);
}

fn built_datatypes() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data: Vec<i32> = (0..64).collect();
    let int = i32::equivalent_datatype();
    let bytes = |elements: Count| (elements * 4) as Address;
    let cases: Vec<(UserDatatype, Vec<i32>)> = vec![
        (UserDatatype::contiguous(5, &int), (0..5).collect()),
        (UserDatatype::vector(3, 2, 10, &int), vec![0, 1, 10, 11, 20, 21]),
        (UserDatatype::heterogeneous_vector(2, 1, bytes(7), &int), vec![0, 7]),
        (UserDatatype::indexed(&[1, 3], &[40, 2], &int), vec![40, 2, 3, 4]),
        (UserDatatype::heterogeneous_indexed(&[2, 1], &[bytes(6), bytes(1)], &int), vec![6, 7, 1]),
        (UserDatatype::indexed_block(2, &[8, 4], &int), vec![8, 9, 4, 5]),
        (UserDatatype::heterogeneous_indexed_block(1, &[bytes(63), 0], &int), vec![63, 0]),
        (UserDatatype::structured(&[1, 2], &[bytes(3), bytes(30)], &[int, int]), vec![3, 30, 31]),
        (UserDatatype::vector(2, 1, 3, &UserDatatype::vector(2, 1, 4, &int)).dup(), vec![0, 4, 15, 19]),
    ];
    for (i, (datatype, expected)) in cases.iter().enumerate() {
        // SAFETY: all elements are below 64.
        let view = unsafe { View::with_count_and_datatype(&data[..], 1, datatype) };
        mpi::request::scope(|scope| {
            let send = world.this_process().immediate_send(scope, &view);
            let (got, status) = world.this_process().receive_vec::<i32>();
            assert_eq!(&got, expected, "datatype {i}");
            assert_eq!(status.count(datatype), 1);
            send.wait();
        });
        let mut room = vec![-1; 64];
        {
            // SAFETY: as above.
            let mut view = unsafe { MutView::with_count_and_datatype(&mut room[..], 1, datatype) };
            world.this_process().send(&expected[..]);
            world.this_process().receive_into(&mut view);
        }
        for (at, value) in room.into_iter().enumerate() {
            let inside = expected.contains(&(at as i32));
            assert_eq!(value, if inside { at as i32 } else { -1 }, "datatype {i}, element {at}");
        }
    }
}

fn dynamic_buffers() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let sent = [1.5_f32, 2.5];
    let mut got = [0.0_f32; 2];
    let dynamic = DynBuffer::new(&sent[..]);
    assert!(dynamic.is::<f32>() && !dynamic.is::<u32>() && dynamic.len() == 2 && !dynamic.is_empty());
    assert!(dynamic.downcast::<i32>().is_none());
    world.this_process().send(&dynamic);
    {
        let mut room = DynBufferMut::new(&mut got[..]);
        world.this_process().receive_into(&mut room);
        assert_eq!(room.reborrow().downcast::<f32>(), Some(&sent[..]));
        room.reborrow_mut().downcast::<f32>().unwrap()[0] = 9.0;
        assert_eq!(room.downgrade().downcast::<f32>().unwrap()[0], 9.0);
    }
    assert_eq!(got, [9.0, 2.5]);
}

fn attributes() {
    use std::sync::atomic::{AtomicI32, Ordering};
    static LIVE: AtomicI32 = AtomicI32::new(0);
    struct Counted(i32);
    impl Counted {
        fn new(value: i32) -> Self {
            LIVE.fetch_add(1, Ordering::Relaxed);
            Counted(value)
        }
    }
    impl Clone for Counted {
        fn clone(&self) -> Self {
            Counted::new(self.0 + 1)
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            LIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    impl CommAttribute for Counted {
        const CLONE_ON_DUP: bool = true;
    }
    #[derive(Clone)]
    struct Plain;
    impl CommAttribute for Plain {}

    let universe = mpi::initialize().unwrap();
    let mut world = universe.world();
    assert!(world.get_attr::<Counted>().is_none());
    world.set_attr(Counted::new(1));
    world.set_attr(Counted::new(5));
    world.set_attr(Plain);
    assert_eq!(LIVE.load(Ordering::Relaxed), 1, "a replaced value is dropped");
    assert_eq!(universe.world().get_attr::<Counted>().unwrap().0, 5, "it belongs to the communicator");
    let copy = world.duplicate();
    assert_eq!(copy.get_attr::<Counted>().unwrap().0, 6);
    assert!(copy.get_attr::<Plain>().is_none());
    assert_eq!(LIVE.load(Ordering::Relaxed), 2);
    drop(copy);
    assert_eq!(LIVE.load(Ordering::Relaxed), 1, "it goes with its communicator");
    drop(world);
    drop(universe);
    assert_eq!(LIVE.load(Ordering::Relaxed), 0, "finalisation drops the world's");
}

fn communicators() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let copy = world.duplicate();
    assert_eq!(world.compare(&copy), CommunicatorRelation::Congruent);
    assert_eq!(world.compare(&universe.world()), CommunicatorRelation::Identical);
    let reversed = world.split_by_color_with_key(Color::with_value(0), -rank).unwrap();
    assert_eq!(reversed.rank(), size - 1 - rank);
    if size > 1 {
        assert_eq!(world.compare(&reversed), CommunicatorRelation::Similar);
    }
    assert!(world.split_by_color(Color::undefined()).is_none());
    let near = world.split_shared(0);
    assert_eq!(near.size(), size, "all ranks run on this machine");
    copy.set_name("copy");
    assert_eq!((copy.get_name().as_str(), world.get_name().as_str()), ("copy", "MPI_COMM_WORLD"));
    assert!(!world.test_inter() && world.parent().is_none());
    assert!(world.topology() == Topology::Undefined);
    assert!(matches!(copy.into_topology(), IntoTopology::Undefined(_)));
    // A message of one communicator is not seen in another.
    world.this_process().send(&1);
    assert!(reversed.any_process().immediate_probe().is_none());
    assert_eq!(world.any_process().receive::<i32>().0, 1);
    let _ = MergeOrder::Low;
}

fn grids() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let rows = world.size() / 2;
    let grid = world.create_cartesian_communicator(&[rows, 2], &[false, true], true).unwrap();
    assert_eq!(grid.rank(), world.rank(), "reordering keeps ranks");
    let layout = grid.get_layout();
    assert_eq!((layout.dims, layout.periods), (vec![rows, 2], vec![false, true]));
    let (row, column) = (grid.rank() / 2, grid.rank() % 2);
    assert_eq!(layout.coords, [row, column]);
    assert_eq!(grid.coordinates_to_rank(&[row, column - 2]), grid.rank());
    assert_eq!(grid.rank_to_coordinates(grid.size() - 1), [rows - 1, 1]);
    let (above, below) = grid.shift(0, 1);
    assert_eq!(above, (row > 0).then(|| grid.rank() - 2));
    assert_eq!(below, (row + 1 < rows).then(|| grid.rank() + 2));
    let line = grid.subgroup(&[false, true]);
    assert_eq!((line.num_dimensions(), line.size(), line.rank()), (1, 2, column));
    assert_eq!(world.cartesian_map(&[1, 2], &[false; 2]), (world.rank() < 2).then(|| world.rank()));
    assert_eq!(world.cartesian_map(&[0, 2], &[false; 2]), None);
    std::panic::set_hook(Box::new(|_| {}));
    let outside =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| grid.coordinates_to_rank(&[rows, 0])));
    assert!(outside.is_err());
}

/// A program that speaks the C names.
fn untyped_face() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (mut rank, mut size) = (-1, -1);
    let sent = [f64::from(world.rank()), 2.5];
    let mut got = [0.0; 2];
    // SAFETY: buffers, counts and datatypes agree, and all requests are waited for.
    unsafe {
        let comm = ffi::RSMPI_COMM_WORLD;
        assert_eq!(comm, world.as_raw());
        assert_eq!(ffi::MPI_Comm_rank(comm, &mut rank) as u32, ffi::MPI_SUCCESS);
        assert_eq!(ffi::MPI_Comm_size(comm, &mut size) as u32, ffi::MPI_SUCCESS);
        assert_eq!((rank, size), (world.rank(), world.size()));
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        let mut requests = [ffi::RSMPI_REQUEST_NULL; 2];
        let double = ffi::RSMPI_DOUBLE;
        let room = got.as_mut_ptr().cast();
        ffi::MPI_Irecv(room, 2, double, previous, ffi::RSMPI_ANY_TAG, comm, &mut requests[0]);
        ffi::MPI_Isend(sent.as_ptr().cast(), 2, double, next, 5, comm, &mut requests[1]);
        let mut statuses = [std::mem::zeroed::<ffi::MPI_Status>(); 2];
        ffi::MPI_Waitall(2, requests.as_mut_ptr(), statuses.as_mut_ptr());
        assert_eq!(requests, [ffi::RSMPI_REQUEST_NULL; 2]);
        assert_eq!((statuses[0].MPI_SOURCE, statuses[0].MPI_TAG), (previous, 5));
        let mut count = 0;
        ffi::MPI_Get_count(&statuses[0], double, &mut count);
        assert_eq!(count, 2);
        let mut sum = 0;
        ffi::MPI_Allreduce(
            (&raw const rank).cast(),
            (&raw mut sum).cast(),
            1,
            ffi::RSMPI_INT32_T,
            ffi::RSMPI_SUM,
            comm,
        );
        assert_eq!(sum, size * (size - 1) / 2);
        let mut all = vec![-1; size as usize];
        ffi::MPI_Allgather(
            (&raw const rank).cast(),
            1,
            ffi::RSMPI_INT32_T,
            all.as_mut_ptr().cast(),
            1,
            ffi::RSMPI_INT32_T,
            comm,
        );
        assert_eq!(all, (0..size).collect::<Vec<_>>());
        let mut copy = ffi::RSMPI_COMM_NULL;
        ffi::MPI_Comm_dup(comm, &mut copy);
        ffi::MPI_Barrier(copy);
        let mut relation = 0;
        ffi::MPI_Comm_compare(comm, copy, &mut relation);
        assert_eq!(relation, ffi::RSMPI_CONGRUENT);
        ffi::MPI_Comm_free(&mut copy);
        assert_eq!(copy, ffi::RSMPI_COMM_NULL);
        let mut column = ffi::RSMPI_DATATYPE_NULL;
        ffi::MPI_Type_vector(2, 1, 3, ffi::RSMPI_INT32_T, &mut column);
        ffi::MPI_Type_commit(&mut column);
        let (mut bytes, mut lb, mut extent) = (0, 0, 0);
        ffi::MPI_Type_size(column, &mut bytes);
        ffi::MPI_Type_get_extent(column, &mut lb, &mut extent);
        assert_eq!((bytes, lb, extent), (8, 0, 16));
        ffi::MPI_Type_free(&mut column);
    }
    assert_eq!(got[1], 2.5);
}

/// Where the handler returns, a plain operation panics with the error's line.
fn an_error_that_returns() {
    std::panic::set_hook(Box::new(|_| {}));
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    // SAFETY: the communicator lives.
    unsafe { ffi::MPI_Comm_set_errhandler(world.as_raw(), ffi::RSMPI_ERRORS_RETURN) };
    let attempt = || world.this_process().send_with_tag(&1, -3);
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).unwrap_err();
    let text = payload.downcast_ref::<String>().unwrap();
    assert!(text.contains("tag -3") && text.contains("MPI_COMM_WORLD"), "{text}");
    // SAFETY: as above.
    let code =
        unsafe { ffi::MPI_Send((&raw const *text).cast(), 1, ffi::RSMPI_UINT8_T, 77, 0, world.as_raw()) };
    assert_eq!(code as u32, ffi::MPI_ERR_RANK);
}

fn raw_round_trips() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let copy = world.duplicate();
    let raw = copy.as_raw();
    std::mem::forget(copy);
    // SAFETY: the former owner was forgotten.
    let again = unsafe { SimpleCommunicator::from_raw(raw) };
    again.barrier();
    assert_eq!(again.as_raw(), raw);
    let datatype = UserDatatype::contiguous(3, &u8::equivalent_datatype());
    let raw = datatype.as_raw();
    std::mem::forget(datatype);
    // SAFETY: as above.
    let datatype = unsafe { UserDatatype::from_raw(raw) };
    assert_eq!(world.pack_size(2, &datatype), 6);
    let sent = 5_u8;
    mpi::request::scope(|scope| {
        let send = world.this_process().immediate_send(scope, &sent);
        assert_eq!(world.any_process().receive::<u8>().0, 5);
        // SAFETY: the request is guarded again at once.
        unsafe {
            let (raw, data, scope) = send.into_raw();
            mpi::request::Request::from_raw(raw, data, scope).wait();
        }
    });
}
