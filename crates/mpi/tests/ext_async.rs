//! Operations that own their memory, requests as futures, and messages that are lent.

mod support;

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures::executor::ThreadPool;
use futures::future::{join_all, try_join_all};
use futures::task::SpawnExt;
use mpi::Threading;
use mpi::ext::{ErrorClass, prelude::*};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, case};

const CASES: &[Case] = &[
    case("owned_sends", owned_sends),
    case("owned_receives", owned_receives),
    case("long_owned_receives", long_owned_receives).on(&[2]),
    case("owned_receives_keep_their_turn", owned_receives_keep_their_turn).on(&[2]),
    case("errors_of_owned_operations", errors_of_owned_operations).on(&[2]),
    case("dropped_operations", dropped_operations).on(&[2]),
    case("awaited", awaited),
    case("awaited_requests", awaited_requests),
    case("awaited_collectives", awaited_collectives),
    case("awaited_long_messages", awaited_long_messages).on(&[2]),
    case("asleep_until_woken", asleep_until_woken).on(&[2]),
    case("joined", joined).on(&[2, 3]),
    case("executor_of_several_threads", executor_of_several_threads).on(&[2, 3]),
    case("woken_while_another_thread_waits", woken_while_another_thread_waits).on(&[2]),
    case("lent", lent),
    case("lent_structures_and_long_messages", lent_structures_and_long_messages).on(&[2]),
    case("errors_of_lent_messages", errors_of_lent_messages).on(&[2]),
    case("awaited_after_finalisation", awaited_after_finalisation).on(&[1]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn neighbours(world: &SimpleCommunicator) -> (i32, i32) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

/// The smallest executor: sleeps until it is woken.
fn block_on<F: IntoFuture>(future: F) -> F::Output {
    counted(future).0
}

/// The result, and how often the future was asked for it.
fn counted<F: IntoFuture>(future: F) -> (F::Output, usize) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future.into_future());
    let mut polls = 0;
    loop {
        polls += 1;
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return (output, polls),
            Poll::Pending => thread::park(),
        }
    }
}

fn owned_sends() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for len in [0, 1, 1000, 300_000] {
        let send = world.process_at_rank(next).isend_owned_with_tag(vec![world.rank(); len], 4);
        let (got, _) = world.process_at_rank(previous).receive_vec_with_tag::<i32>(4);
        assert_eq!(got, vec![previous; len]);
        assert_eq!(send.wait(), vec![world.rank(); len]);
    }
    let mut send = world.process_at_rank(next).issend_owned_with_tag(vec![1.5; 10], 5);
    let receive = world.process_at_rank(previous).irecv_vec_with_tag::<f64>(5);
    assert_eq!(receive.wait().0, [1.5; 10]);
    let buffer = loop {
        match send.test() {
            Ok(done) => break done.unwrap(),
            Err(running) => send = running,
        }
    };
    assert_eq!(buffer, [1.5; 10]);
}

fn owned_receives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for len in [0, 1, 7, 1000, 300_000] {
        // Before the message, and after it.
        let early = world.process_at_rank(previous).irecv_vec_with_tag::<u64>(1);
        world.barrier();
        let data = vec![len as u64; len];
        mpi::request::scope(|scope| {
            let first = world.process_at_rank(next).immediate_send_with_tag(scope, &data[..], 1);
            let second = world.process_at_rank(next).immediate_send_with_tag(scope, &data[..], 2);
            let (got, status) = early.wait();
            assert_eq!((got.len(), status.source_rank(), status.tag()), (len, previous, 1));
            assert!(got.iter().all(|x| *x == len as u64));
            let (got, status) = world.any_process().irecv_vec_with_tag::<u64>(2).wait();
            assert_eq!((got.len(), status.source_rank()), (len, previous));
            first.wait();
            second.wait();
        });
    }
    // Values that need a look, and a type with a hole.
    let send = world.process_at_rank(next).isend_owned(vec![true, false, true]);
    assert_eq!(world.process_at_rank(previous).irecv_vec::<bool>().wait().0, [true, false, true]);
    send.wait();
}

fn long_owned_receives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        world.process_at_rank(1).send(&vec!['ä'; 1_000_000][..]);
        world.process_at_rank(1).send(&vec![0.5_f64; 1_000_000][..]);
    } else {
        let characters = world.process_at_rank(0).irecv_vec::<char>();
        let numbers = world.process_at_rank(0).irecv_vec::<f64>();
        let (characters, _) = characters.wait();
        assert!(characters.len() == 1_000_000 && characters.iter().all(|c| *c == 'ä'));
        let (numbers, _) = numbers.wait();
        assert!(numbers.len() == 1_000_000 && numbers.iter().all(|x| *x == 0.5));
    }
}

/// The first posted gets the first message, whether or not it has its memory yet.
fn owned_receives_keep_their_turn() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    let mut second = 0;
    mpi::request::scope(|scope| {
        let first = peer.irecv_vec::<i32>();
        let later = peer.immediate_receive_into(scope, &mut second);
        world.barrier();
        peer.send(&[1, 1][..]);
        peer.send(&2);
        later.wait();
        assert_eq!(first.wait().0, [1, 1]);
    });
    assert_eq!(second, 2);
}

fn errors_of_owned_operations() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    assert_eq!(peer.try_isend_owned_with_tag(vec![1], -5).unwrap_err().class(), ErrorClass::Tag);
    assert_eq!(peer.try_irecv_vec_with_tag::<i32>(-5).unwrap_err().class(), ErrorClass::Tag);
    let receive = peer.irecv_vec::<i32>();
    peer.send(&[1.5_f64; 3][..]);
    let error = receive.try_wait().unwrap_err();
    assert_eq!((error.class(), error.peer()), (ErrorClass::Type, Some(peer.rank())));
    world.barrier();
    let receive = peer.irecv_vec::<i32>();
    peer.send(&[1.5_f64; 3][..]);
    assert_eq!(block_on(receive).unwrap_err().class(), ErrorClass::Type);
}

fn dropped_operations() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    drop(peer.irecv_vec_with_tag::<i32>(1));
    drop(peer.isend_owned_with_tag(vec![5_u64; 200_000], 1)); // goes on by itself
    let (got, _) = peer.receive_vec_with_tag::<u64>(1); // which the dropped receive does not take
    assert_eq!(got, vec![5; 200_000]);
    // A future that was asked once and then dropped.
    let mut receive = peer.irecv_vec_with_tag::<i32>(2);
    let once = std::pin::Pin::new(&mut receive).poll(&mut Context::from_waker(Waker::noop()));
    assert!(once.is_pending());
    drop(receive);
    world.barrier();
    peer.send_with_tag(&7, 2);
    assert_eq!(peer.receive_with_tag::<i32>(2).0, 7);
}

fn awaited() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let (next, previous) = (world.process_at_rank(next), world.process_at_rank(previous));
    block_on(async {
        for round in 0..20 {
            let receive = previous.irecv_vec::<i32>();
            let sent = next.isend_owned(vec![round; 100]).await.unwrap();
            assert_eq!(sent, [round; 100]);
            let (got, status) = receive.await.unwrap();
            assert_eq!((&got[..], status.source_rank()), (&[round; 100][..], previous.rank()));
        }
        let value = previous.immediate_receive::<f32>();
        next.isend_owned(vec![0.25_f32]).await.unwrap();
        assert_eq!(value.await.unwrap().0, 0.25);
    });
}

fn awaited_requests() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let (sent, mut got) = (vec![world.rank(); 50_000], vec![-1; 50_000]);
    mpi::request::scope(|scope| {
        let receive = world.process_at_rank(previous).immediate_receive_into(scope, &mut got[..]);
        let send = world.process_at_rank(next).immediate_send(scope, &sent[..]);
        block_on(async {
            let status = receive.await.unwrap();
            assert_eq!(status.source_rank(), previous);
            send.await.unwrap();
        });
    });
    assert_eq!(got, vec![previous; 50_000]);
}

fn awaited_collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    block_on(async { world.immediate_barrier().await }).unwrap();
    let (rank, mut sum) = (world.rank(), 0);
    mpi::request::scope(|scope| {
        let reduce =
            world.immediate_all_reduce_into(scope, &rank, &mut sum, mpi::collective::SystemOperation::sum());
        block_on(reduce).unwrap();
    });
    assert_eq!(sum, world.size() * (world.size() - 1) / 2);
}

fn awaited_long_messages() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    block_on(async {
        let receive = peer.irecv_vec::<u64>();
        let send = peer.isend_owned((0..1_000_000_u64).collect());
        let (got, _) = receive.await.unwrap();
        assert!(got.len() == 1_000_000 && got.iter().zip(0..).all(|(a, b)| *a == b));
        assert_eq!(send.await.unwrap().len(), 1_000_000);
    });
}

/// The executor sleeps: it is woken once, and the message is not late.
fn asleep_until_woken() {
    const PAUSE: Duration = Duration::from_millis(300);
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        world.barrier();
        thread::sleep(PAUSE);
        world.process_at_rank(1).send(&[3, 4][..]);
    } else {
        let receive = world.process_at_rank(0).irecv_vec::<i32>();
        world.barrier();
        let start = Instant::now();
        let (result, polls) = counted(receive);
        assert_eq!(result.unwrap().0, [3, 4]);
        assert!(polls <= 3, "{polls} polls");
        assert!(start.elapsed() >= PAUSE / 2);
    }
    world.barrier();
}

fn joined() {
    const EACH: usize = 50;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let others: Vec<i32> = (0..world.size()).filter(|rank| *rank != world.rank()).collect();
    let received = block_on(async {
        let receives = others.iter().flat_map(|rank| {
            (0..EACH).map(|tag| world.process_at_rank(*rank).irecv_vec_with_tag::<usize>(tag as i32))
        });
        let receives: Vec<_> = receives.collect();
        let sends = others.iter().flat_map(|rank| {
            // Backwards, so that they arrive in another order than they are awaited.
            (0..EACH)
                .rev()
                .map(|tag| world.process_at_rank(*rank).isend_owned_with_tag(vec![tag; tag], tag as i32))
        });
        let sent = try_join_all(sends).await.unwrap();
        assert_eq!(sent.len(), EACH * others.len());
        join_all(receives).await
    });
    for (at, result) in received.into_iter().enumerate() {
        let (data, _) = result.unwrap();
        assert_eq!(data, vec![at % EACH; at % EACH]);
    }
}

fn executor_of_several_threads() {
    const TASKS: i32 = 60;
    let (universe, level) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    assert_eq!(level, Threading::Multiple);
    let world = Arc::new(universe.world());
    let pool = ThreadPool::builder().pool_size(3).create().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|tag| {
            let (world, done) = (world.clone(), done.clone());
            let task = async move {
                let (next, previous) = neighbours(&world);
                let receive = world.process_at_rank(previous).irecv_vec_with_tag::<i32>(tag);
                let send =
                    world.process_at_rank(next).isend_owned_with_tag(vec![tag; 100 * tag as usize], tag);
                let (got, _) = receive.await.unwrap();
                assert_eq!(got, vec![tag; 100 * tag as usize]);
                send.await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            };
            pool.spawn_with_handle(task).unwrap()
        })
        .collect();
    block_on(join_all(tasks));
    assert_eq!(done.load(Ordering::Relaxed), TASKS as usize);
    drop(pool);
    world.barrier();
}

/// A thread that waits in a call makes the progress, and wakes the task of another.
fn woken_while_another_thread_waits() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        world.process_at_rank(1).receive_with_tag::<i32>(9);
        thread::sleep(Duration::from_millis(50));
        world.process_at_rank(1).send_with_tag(&1, 1);
        world.process_at_rank(1).receive_with_tag::<i32>(3);
        world.process_at_rank(1).send_with_tag(&2, 2);
    } else {
        thread::scope(|threads| {
            let waits = threads.spawn(|| world.process_at_rank(0).receive_with_tag::<i32>(2));
            world.process_at_rank(0).send_with_tag(&0, 9);
            let (got, _) = block_on(world.process_at_rank(0).irecv_vec_with_tag::<i32>(1)).unwrap();
            assert_eq!(got, [1]);
            world.process_at_rank(0).send_with_tag(&0, 3);
            assert_eq!(waits.join().unwrap().0, 2);
        });
    }
}

fn lent() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    for len in [0, 1, 3, 100, 1000] {
        let data = vec![world.rank() as f64; len];
        mpi::request::scope(|scope| {
            let send = world.process_at_rank(next).immediate_send(scope, &data[..]);
            let (sum, status) = world.process_at_rank(previous).receive_ref(|values: &[f64], status| {
                assert_eq!(values.len(), len);
                (values.iter().sum::<f64>(), status)
            });
            assert_eq!(sum, previous as f64 * len as f64);
            assert_eq!((status.source_rank(), status.bytes()), (previous, 8 * len as u64));
            send.wait();
        });
    }
    // On loan from the transport, when it comes during the wait, and from where it is kept, when it does not.
    for round in 0..200_u32 {
        let data = [round + world.rank() as u32; 9];
        world.process_at_rank(next).send_with_tag(&data[..], 4);
        if round % 3 == 0 {
            world.process_at_rank(previous).probe_with_tag(4);
        }
        let seen = world.process_at_rank(previous).receive_on_loan_with_tag(4, |values: &[u32], status| {
            assert_eq!((status.source_rank(), status.tag(), status.bytes()), (previous, 4, 36));
            values.to_vec()
        });
        assert_eq!(seen, [round + previous as u32; 9]);
    }
    let anybody = world.process_at_rank(previous);
    world.process_at_rank(next).send_with_tag(&[true, false][..], 5);
    assert_eq!(anybody.receive_on_loan_with_tag(5, |values: &[bool], _| values.to_vec()), [true, false]);
    world.process_at_rank(next).send_with_tag(&[true, false][..], 3);
    world.any_process().receive_ref_with_tag(3, |values: &[bool], _| assert_eq!(values, [true, false]));
}

fn lent_structures_and_long_messages() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    let mut got = vec![0_u16; 1_000_000];
    let data: Vec<u16> = (0..1_000_000).map(|i| i as u16).collect();
    mpi::request::scope(|scope| {
        let send = peer.immediate_send(scope, &data[..]);
        peer.receive_ref(|values: &[u16], _| got.copy_from_slice(values));
        send.wait();
    });
    assert_eq!(got, data);
    // To oneself, nothing travels.
    world.this_process().send(&[1_u8, 2, 3][..]);
    world.this_process().receive_ref(|values: &[u8], _| assert_eq!(values, [1, 2, 3]));
    // The message may be answered from inside.
    peer.send(&5);
    peer.receive_ref(|values: &[i32], status| {
        world.process_at_rank(status.source_rank()).send_with_tag(&(values[0] + 1), 1);
    });
    assert_eq!(peer.receive_with_tag::<i32>(1).0, 6);
}

fn errors_of_lent_messages() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    peer.send_with_tag(&[1.5_f64; 3][..], 1);
    let error = peer.try_receive_ref_with_tag(1, |_: &[i32], _| ()).unwrap_err();
    assert_eq!((error.class(), error.peer(), error.tag()), (ErrorClass::Type, Some(peer.rank()), Some(1)));
    assert_eq!(peer.try_receive_ref_with_tag(-4, |_: &[i32], _| ()).unwrap_err().class(), ErrorClass::Tag);
    world.barrier();
}

fn awaited_after_finalisation() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut receive = world.this_process().irecv_vec::<i32>();
    assert!(std::pin::Pin::new(&mut receive).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(universe);
    let error = block_on(receive).unwrap_err();
    assert!(error.to_string().contains("MPI is finalised"), "{error}");
}
