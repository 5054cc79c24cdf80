//! What programs written for rsmpi rely on and an implementation easily gets wrong.
//!
//! Elsewhere: reordered grids and empty ones in `typed.rs` (`grids`), cancelled receives in `p2p_requests.rs`, a program
//! that never initialises in `p2p_failures.rs`.

mod support;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use mpi::Threading;
use mpi::attribute::{AttributeKey, CommAttribute};
use mpi::datatype::{MutView, UserDatatype, View};
use mpi::ext::prelude::*;
use mpi::ffi;
use mpi::request::scope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("level_single", || level(Threading::Single)).on(&[2]).over(&["shm"]),
    case("level_funneled", || level(Threading::Funneled)).on(&[2]).over(&["shm"]),
    case("level_serialized", || level(Threading::Serialized)).on(&[2]).over(&["shm"]),
    case("level_multiple", || level(Threading::Multiple)).on(&[2]).over(&["shm"]),
    case("subgroup_of_others", subgroup_of_others).on(&[2, 3, 5]),
    case("freeing_is_local", freeing_is_local).on(&[2, 3]),
    case("packing_follows_the_map", packing_follows_the_map).on(&[2]),
    case("types_of_size_zero", types_of_size_zero).on(&[2, 3]),
    case("cancelled_send", cancelled_send).on(&[2]),
    case("the_second_never_comes", || all_but(1)).on(&[2, 3, 5]),
    case("the_first_never_comes", || all_but(0)).on(&[2, 3, 5]),
    case("waited_for_who_never_comes", waited_for_who_never_comes)
        .on(&[2])
        .over(&["shm"])
        .fails(ERROR_STATUS, &["from rank 1", "it has ended without initialising MPI"]),
    case("state_of_the_process", state_of_the_process).on(&[2]),
    case("attributes_outlive_their_replacement", attributes_outlive_their_replacement).on(&[1]),
    case("attributes_are_for_their_thread", attributes_are_for_their_thread).on(&[1]),
    case("attribute_under_a_wrong_key", attribute_under_a_wrong_key)
        .on(&[1])
        .fails(101, &["Thief", "has the key of another type", "traps.rs:"]),
    case("attribute_panics_when_dropped", || attribute_panics(false))
        .on(&[1])
        .over(&["shm"])
        .fails(101, &["no end"]),
    case("attribute_panics_when_cloned", || attribute_panics(true))
        .on(&[1])
        .over(&["shm"])
        .fails(101, &["no copy"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// The level that was asked for is the level that is given, neither less nor more.
fn level(asked: Threading) {
    let (_universe, given) = mpi::initialize_with_threading(asked).unwrap();
    assert_eq!(given, asked);
    assert_eq!(mpi::environment::threading_support(), asked);
}

/// Who is not in the group knows that by itself: nobody else needs to call.
fn subgroup_of_others() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let first = world.group().include(&[0]);
    if world.rank() == world.size() - 1 {
        assert!(world.split_by_subgroup(&first).is_none());
        world.process_at_rank(0).send(&1);
    }
    if world.rank() == 0 {
        // Only now does the member call, and the other is long gone from there.
        assert_eq!(world.process_at_rank(world.size() - 1).receive::<i32>().0, 1);
        let alone = world.split_by_subgroup(&first).unwrap();
        assert_eq!((alone.rank(), alone.size()), (0, 1));
        alone.barrier();
    }
}

/// A rank may exit with 0 without ever initialising; those who did need not wait for it at their end.
fn all_but(absent: i32) {
    if std::env::var("MPI_PMI_RANK").as_deref() == Ok(absent.to_string().as_str()) {
        return;
    }
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let here: Vec<i32> = (0..world.size()).filter(|rank| *rank != absent).collect();
    let [.., one, other] = here[..] else { return };
    if world.rank() == one {
        world.process_at_rank(other).send(&one);
    } else if world.rank() == other {
        assert_eq!(world.process_at_rank(one).receive::<i32>().0, one);
    }
}

/// Who waits for such a rank is told.
fn waited_for_who_never_comes() {
    if std::env::var("MPI_PMI_RANK").as_deref() == Ok("1") {
        return;
    }
    let universe = mpi::initialize().unwrap();
    universe.world().process_at_rank(1).receive::<i32>();
}

/// One rank frees its communicator while the others still use theirs.
fn freeing_is_local() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let copy = world.duplicate();
    let last = world.size() - 1;
    if world.rank() == last {
        copy.process_at_rank(0).send(&vec![7_u8; 100_000][..]);
        drop(copy);
        // Nobody frees the communicator before it has heard that this one has.
        (0..last).for_each(|rank| world.process_at_rank(rank).send(&1));
        return;
    }
    assert_eq!(copy.rank(), world.rank());
    if world.rank() == 0 {
        let (got, _) = copy.process_at_rank(last).receive_vec::<u8>();
        assert!(got.len() == 100_000 && got.iter().all(|&byte| byte == 7));
    }
    world.process_at_rank(last).receive::<i32>();
    drop(copy);
}

/// Not the order of addresses: the sequence in which the type was put together.
fn packing_follows_the_map() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let backwards = UserDatatype::indexed(&[1, 2, 1], &[3, 1, 0], &i32::equivalent_datatype());
    let data = [10, 11, 12, 13];
    // SAFETY: the type's four elements are those of the array.
    let view = unsafe { View::with_count_and_datatype(&data[..], 1, &backwards) };
    let expected = [13, 11, 12, 10];
    let packed = world.pack(&view);
    assert_eq!(packed.chunks_exact(4).map(|four| four[0]).collect::<Vec<_>>(), expected.map(|n| n as u8));
    // And what is sent so arrives so.
    if world.rank() == 0 {
        world.process_at_rank(1).send(&view);
    } else {
        assert_eq!(world.process_at_rank(0).receive_vec::<i32>().0, expected);
    }
}

/// They are sent, received, packed and reduced like any other.
fn types_of_size_zero() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let nothing = UserDatatype::contiguous(0, &f64::equivalent_datatype());
    let (next, previous) =
        ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    let (data, mut room) = ([1.5_f64; 2], [2.5_f64; 2]);
    // SAFETY: the type has no elements.
    let (view, mut into) = unsafe {
        (
            View::with_count_and_datatype(&data[..], 3, &nothing),
            MutView::with_count_and_datatype(&mut room[..], 3, &nothing),
        )
    };
    scope(|scope| {
        let send = world.process_at_rank(next).immediate_send(scope, &view);
        let status = world.process_at_rank(previous).receive_into(&mut into);
        assert_eq!(status.source_rank(), previous);
        assert_eq!(status.count(f64::equivalent_datatype()), 0);
        send.wait();
    });
    assert!(world.pack(&view).is_empty());
    world.process_at_rank(0).broadcast_into(&mut into);
    world.process_at_rank(next).send(&[0_u8; 0][..]);
    assert!(world.process_at_rank(previous).receive_vec::<u8>().0.is_empty());
    assert_eq!(room, [2.5; 2]);
}

/// A send that nobody will ever receive: the wait after its cancel returns.
fn cancelled_send() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        for data in [vec![1_u8; 10], vec![1_u8; 1 << 20]] {
            scope(|scope| {
                let send = world.process_at_rank(1).immediate_synchronous_send(scope, &data[..]);
                send.cancel();
                assert!(send.wait().is_cancelled());
            });
        }
        world.process_at_rank(1).send_with_tag(&[2_u8][..], 9);
    } else {
        // Who has not received before it hears this finds nothing of them.
        assert_eq!(world.process_at_rank(0).receive_vec_with_tag::<u8>(9).0, [2]);
        assert!(world.process_at_rank(0).immediate_probe_with_tag(0).is_none());
    }
}

/// Clones that are alive.
static ALIVE: AtomicU32 = AtomicU32::new(0);

struct Counter(u32);

impl Clone for Counter {
    fn clone(&self) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Counter(self.0)
    }
}

impl CommAttribute for Counter {}

/// The world's name and attributes belong to the process, not to the value that `world` returned. An attribute that
/// other threads look at is set for all of them.
fn state_of_the_process() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    let mut world = universe.world();
    world.set_shared_attr(Counter(5));
    world.set_name("everybody");
    drop(world);
    let seen = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let world = universe.world();
            (world.get_name(), world.get_attr::<Counter>().map(|counter| counter.0))
        });
        other.join().unwrap()
    });
    assert_eq!(seen, ("everybody".to_owned(), Some(5)));
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    // A duplicate is another object: it has neither.
    let copy = universe.world().duplicate();
    assert!(copy.get_attr::<Counter>().is_none());
    assert_ne!(copy.get_name(), "everybody");
}

/// Texts that were dropped.
static DROPPED: AtomicU32 = AtomicU32::new(0);

#[derive(Clone)]
struct Text(String);

impl CommAttribute for Text {}

impl Drop for Text {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        self.0.replace_range(.., "gone");
    }
}

/// A reference is good as long as the name of the communicator through which it was asked for, though the value be
/// replaced or deleted through another.
fn attributes_outlive_their_replacement() {
    let universe = mpi::initialize().unwrap();
    let text = |letter: &str| Text(letter.repeat(40));
    let dropped = || DROPPED.load(Ordering::Relaxed);

    // Two names of the world; a process of it; the C name.
    let (mut world, mut other) = (universe.world(), universe.world());
    world.set_attr(text("a"));
    let first = world.get_attr::<Text>().unwrap();
    other.set_attr(text("b"));
    world.process_at_rank(0).set_attr(text("c"));
    // SAFETY: the key is that of a type, and nothing is put under it.
    let deleted = unsafe { ffi::MPI_Comm_delete_attr(world.as_raw(), Text::get_key().as_raw()) };
    assert_eq!((deleted, first.0.as_str(), dropped()), (0, "a".repeat(40).as_str(), 0));
    assert!(world.get_attr::<Text>().is_none());

    // The own communicator's are deleted when finalisation begins, while somebody still looks.
    let mut own = SimpleCommunicator::self_comm();
    own.set_attr(text("d"));
    let kept = own.get_attr::<Text>().unwrap();
    drop(universe);
    assert_eq!((first.0.as_str(), kept.0.as_str()), ("a".repeat(40).as_str(), "d".repeat(40).as_str()));
    assert_eq!(dropped(), 0);
    drop(own);
    assert_eq!(dropped(), 1);
    drop(other);
    assert_eq!(dropped(), 1);
    drop(world);
    assert_eq!(dropped(), 4, "with the last name");
}

#[derive(Clone)]
struct Shared(Rc<()>);

impl CommAttribute for Shared {
    const CLONE_ON_DUP: bool = true;
}

/// What a panic says.
fn panic_of<T>(body: impl FnOnce() -> T) -> String {
    let panic = panic::catch_unwind(AssertUnwindSafe(body)).err().expect("it panics");
    panic.downcast_ref::<String>().expect("with a text").clone()
}

/// A value that is not for several threads at once is not had by another than its own: not looked at, not cloned, not
/// dropped.
fn attributes_are_for_their_thread() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    panic::set_hook(Box::new(|_| ()));
    let mut comm = universe.world().duplicate();
    let mine = Shared(Rc::new(()));
    comm.set_attr(mine.clone());
    let rule = "Shared` is for the thread that set it";
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            (panic_of(|| comm.get_attr::<Shared>().is_some()), panic_of(|| comm.duplicate().size()))
        });
        let (looked, copied) = other.join().unwrap();
        assert!(looked.contains(rule) && looked.contains("set_shared_attr"), "{looked}");
        assert!(copied.contains(rule), "{copied}");
    });
    assert_eq!(Rc::strong_count(&mine.0), 2);
    assert_eq!(Rc::strong_count(&comm.duplicate().get_attr::<Shared>().unwrap().0), 3);
    assert_eq!(Rc::strong_count(&mine.0), 2);
    std::thread::scope(|scope| scope.spawn(|| drop(comm)).join()).unwrap();
    assert_eq!(Rc::strong_count(&mine.0), 2, "left rather than dropped elsewhere");
}

#[derive(Clone)]
struct Thief(#[allow(dead_code, reason = "what would be read")] [usize; 4]);

impl CommAttribute for Thief {
    fn get_key() -> AttributeKey {
        Counter::get_key()
    }
}

/// Safe code cannot look at a value as one of another type.
fn attribute_under_a_wrong_key() {
    let universe = mpi::initialize().unwrap();
    let mut world = universe.world();
    world.set_attr(Counter(5));
    assert!(world.get_attr::<Thief>().is_none());
}

struct Stubborn;

impl CommAttribute for Stubborn {
    const CLONE_ON_DUP: bool = true;
}

impl Clone for Stubborn {
    fn clone(&self) -> Self {
        panic!("no copy")
    }
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("no end");
        }
    }
}

/// A panic of a value's ends the program as any other, though the standard calls through C.
fn attribute_panics(clones: bool) {
    let universe = mpi::initialize().unwrap();
    let mut copy = universe.world().duplicate();
    copy.set_attr(Stubborn);
    if clones {
        copy.duplicate();
    }
    drop(copy);
}
