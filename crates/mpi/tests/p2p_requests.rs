//! Requests, scopes, guards and collections; cancelling; threads.

mod support;

use std::process::ExitCode;

use mpi::request::{CancelGuard, RequestCollection, WaitGuard, multiple_scope, scope, wait_any};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::{Rank, Threading};
use support::{Case, case};

const CASES: &[Case] = &[
    case("wait_and_test", wait_and_test),
    case("guards", guards),
    case("wait_any_of_a_vector", wait_any_of_a_vector),
    case("collection_wait_any", collection_wait_any),
    case("collection_wait_some", collection_wait_some),
    case("collection_wait_all", collection_wait_all),
    case("collection_test_any", collection_test_any),
    case("collection_test_some", collection_test_some),
    case("collection_test_all", collection_test_all),
    case("empty_collection", empty_collection),
    case("shrunk_scope", shrunk_scope),
    case("cancelled_receive", cancelled_receive),
    case("cancel_after_the_fact", cancel_after_the_fact),
    case("datatype_dropped_before_completion", datatype_dropped_before_completion),
    case("communicator_dropped_before_completion", communicator_dropped_before_completion),
    case("threads_multiple", threads_multiple).on(&[1, 2, 3]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn neighbours(world: &SimpleCommunicator) -> (Rank, Rank) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

fn wait_and_test() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let sent = vec![world.rank(); 1000];
    let mut got = vec![-1; 1000];
    scope(|scope| {
        let mut receive = world.process_at_rank(previous).immediate_receive_into(scope, &mut got[..]);
        let send = world.process_at_rank(next).immediate_send(scope, &sent[..]);
        let (status, data) = loop {
            match receive.test_with_data() {
                Ok(done) => break done,
                Err(request) => receive = request,
            }
        };
        assert_eq!(status.source_rank(), previous);
        assert_eq!(data, &vec![previous; 1000][..]);
        assert_eq!(send.wait_for_data(), &sent[..]);
    });
    scope(|scope| {
        let mut send = world.process_at_rank(next).immediate_synchronous_send(scope, &sent[..]);
        let receive = world.process_at_rank(previous).immediate_receive_into(scope, &mut got[..]);
        receive.wait_without_status();
        loop {
            match send.test() {
                Ok(_) => break,
                Err(request) => send = request,
            }
        }
    });
}

fn guards() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let sent = vec![1.5_f32; 50_000];
    let mut got = vec![0.0_f32; 50_000];
    scope(|scope| {
        let _send = WaitGuard::from(world.process_at_rank(next).immediate_send(scope, &sent[..]));
        let _receive =
            WaitGuard::from(world.process_at_rank(previous).immediate_receive_into(scope, &mut got[..]));
    });
    assert_eq!(got, sent);
    let mut never = 0;
    scope(|scope| {
        let receive = world.any_process().immediate_receive_into_with_tag(scope, &mut never, 77);
        drop(CancelGuard::from(receive));
    });
    assert_eq!(never, 0);
}

fn wait_any_of_a_vector() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut got = vec![-1; world.size() as usize];
    let me = world.rank();
    scope(|scope| {
        let mut receives: Vec<_> = got
            .iter_mut()
            .enumerate()
            .map(|(from, value)| world.process_at_rank(from as Rank).immediate_receive_into(scope, value))
            .collect();
        let mut sends: Vec<_> =
            (0..world.size()).map(|to| world.process_at_rank(to).immediate_send(scope, &me)).collect();
        let mut seen = Vec::new();
        while let Some((_, status)) = wait_any(&mut receives) {
            seen.push(status.source_rank());
        }
        assert!(receives.is_empty());
        seen.sort_unstable();
        assert_eq!(seen, (0..world.size()).collect::<Vec<_>>());
        while wait_any(&mut sends).is_some() {}
    });
    assert_eq!(got, (0..world.size()).collect::<Vec<_>>());
}

const COUNT: usize = 100;

/// Runs `complete` over a collection of `COUNT` sends and `COUNT` receives, which must complete all.
fn collection(complete: impl FnOnce(&mut RequestCollection<'_, u64>) -> Vec<usize>) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let sent: Vec<u64> = (0..COUNT as u64).map(|i| i * 3).collect();
    let mut got = vec![0; COUNT];
    multiple_scope(2 * COUNT, |scope, requests| {
        for value in got.iter_mut() {
            requests.add(world.process_at_rank(previous).immediate_receive_into(scope, value));
        }
        for (i, value) in sent.iter().enumerate() {
            let index = requests.add(world.process_at_rank(next).immediate_send(scope, value));
            assert_eq!(index, COUNT + i);
        }
        assert_eq!(requests.incomplete(), 2 * COUNT);
        let mut done = complete(requests);
        assert_eq!(requests.incomplete(), 0);
        done.sort_unstable();
        assert_eq!(done, (0..2 * COUNT).collect::<Vec<_>>());
    });
    assert_eq!(got, sent);
}

fn collection_wait_any() {
    collection(|requests| {
        let mut done = Vec::new();
        while let Some((index, _, _)) = requests.wait_any() {
            done.push(index);
            assert_eq!(requests.incomplete(), 2 * COUNT - done.len());
        }
        done
    });
}

fn collection_wait_some() {
    collection(|requests| {
        let (mut done, mut some) = (Vec::new(), Vec::new());
        while requests.incomplete() > 0 {
            requests.wait_some(&mut some);
            assert!(!some.is_empty());
            done.extend(some.iter().map(|(index, _, _)| *index));
        }
        done
    });
}

fn collection_wait_all() {
    collection(|requests| {
        let mut all = Vec::new();
        requests.wait_all(&mut all);
        assert!(
            all.iter()
                .take(COUNT)
                .all(|(index, status, data)| { status.bytes() == 8 && **data == *index as u64 * 3 })
        );
        all.iter().map(|(index, _, _)| *index).collect()
    });
}

fn collection_test_any() {
    collection(|requests| {
        let mut done = Vec::new();
        while requests.incomplete() > 0 {
            done.extend(requests.test_any().map(|(index, _, _)| index));
        }
        assert!(requests.test_any().is_none());
        done
    });
}

fn collection_test_some() {
    collection(|requests| {
        let (mut done, mut some) = (Vec::new(), Vec::new());
        while requests.incomplete() > 0 {
            requests.test_some(&mut some);
            done.extend(some.iter().map(|(index, _, _)| *index));
        }
        done
    });
}

fn collection_test_all() {
    collection(|requests| {
        let mut all = Vec::new();
        while !requests.test_all(&mut all) {
            assert!(all.is_empty());
        }
        all.iter().map(|(index, _, _)| *index).collect()
    });
}

fn empty_collection() {
    let _universe = mpi::initialize().unwrap();
    multiple_scope(0, |_, requests: &mut RequestCollection<'_, i32>| {
        let mut result = Vec::new();
        assert!(requests.wait_any().is_none());
        assert!(requests.test_any().is_none());
        requests.wait_all(&mut result);
        requests.wait_some(&mut result);
        assert!(requests.test_all(&mut result));
        assert_eq!((requests.incomplete(), result.len()), (0, 0));
    });
}

fn shrunk_scope() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let sent = 5_i32;
    scope(|outer| {
        let request = world.this_process().immediate_send(outer, &sent);
        scope(|inner| {
            let request = request.shrink_scope_to(inner);
            assert_eq!(world.any_process().receive::<i32>().0, 5);
            request.wait();
        });
    });
}

fn cancelled_receive() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut never = [7_u8; 100];
    scope(|scope| {
        let receive = world.any_process().immediate_receive_into_with_tag(scope, &mut never[..], 1);
        receive.cancel();
        assert!(receive.wait().is_cancelled());
    });
    assert_eq!(never, [7; 100]);
    // The next message with that tag goes to the next receive.
    world.this_process().send_with_tag(&1_u8, 1);
    assert_eq!(world.this_process().receive_with_tag::<u8>(1).0, 1);
}

/// A wait after a cancel returns, whether or not the operation took place.
fn cancel_after_the_fact() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let sent = 3_i32;
    let mut got = 0;
    scope(|scope| {
        let send = world.this_process().immediate_send(scope, &sent);
        let receive = world.this_process().immediate_receive_into(scope, &mut got);
        receive.cancel();
        let cancelled = receive.wait().is_cancelled();
        send.cancel();
        let unsent = send.wait().is_cancelled();
        if cancelled && !unsent {
            assert_eq!(world.this_process().receive::<i32>().0, 3);
        } else {
            assert!(!cancelled || unsent);
        }
    });
}

/// The operation keeps what it needs of a datatype that its buffer gave away.
fn datatype_dropped_before_completion() {
    use mpi::datatype::{DynBufferMut, UserDatatype};
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    struct Every2nd(Vec<i32>);
    impl Every2nd {
        fn datatype() -> UserDatatype {
            UserDatatype::vector(40_000, 1, 2, &i32::equivalent_datatype())
        }
    }
    let data = Every2nd((0..80_000).collect());
    let mut room = vec![-1; 80_000];
    scope(|scope| {
        let (send_type, receive_type) = (Every2nd::datatype(), Every2nd::datatype());
        // SAFETY: 40 000 elements, two apart, are inside of 80 000.
        let sent = unsafe { mpi::datatype::View::with_count_and_datatype(&data.0[..], 1, &send_type) };
        // SAFETY: as above.
        let mut into = unsafe { DynBufferMut::from_raw(room.as_mut_ptr(), 1, receive_type.as_ref()) };
        mpi::request::scope(|inner| {
            let receive = world.process_at_rank(previous).immediate_receive_into(inner, &mut into);
            let send = world.process_at_rank(next).immediate_send(inner, &sent);
            receive.wait();
            send.wait();
        });
        let _ = scope;
    });
    assert!(room.iter().enumerate().all(|(i, &v)| v == if i % 2 == 0 { i as i32 } else { -1 }));
}

fn communicator_dropped_before_completion() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let sent = vec![world.rank(); 100_000];
    let mut got = vec![-1; 100_000];
    scope(|scope| {
        let other = world.duplicate();
        let receive = other.process_at_rank(previous).immediate_receive_into(scope, &mut got[..]);
        let send = other.process_at_rank(next).immediate_send(scope, &sent[..]);
        drop(other);
        receive.wait();
        send.wait();
    });
    assert_eq!(got, vec![previous; 100_000]);
}

/// Sixteen threads exchange with their counterparts; every message arrives once, in order.
fn threads_multiple() {
    const THREADS: i32 = 16;
    const ROUNDS: u64 = 2000;
    let (universe, level) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    assert_eq!(level, Threading::Multiple);
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let world = &world;
            threads.spawn(move || {
                for round in 0..ROUNDS {
                    let value = [round, thread as u64, round ^ thread as u64];
                    let mut got = [0; 3];
                    scope(|scope| {
                        let from = world.process_at_rank(previous);
                        let receive = from.immediate_receive_into_with_tag(scope, &mut got[..], thread);
                        world.process_at_rank(next).send_with_tag(&value[..], thread);
                        receive.wait();
                    });
                    assert_eq!(got, value);
                }
            });
        }
    });
}
