//! One rule per test, on a calm or rough simulated network.

mod common;

use common::{U8, World, recv_of, send_of};
use mpi_btl::Ep;
use mpi_btl_sim::SimConfig;
use mpi_datatype::{Datatype, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{
    Activity, Context, ContextSpec, Engine, Error, ErrorClass, Fatal, Inside, Limits, RequestId, SendMode,
    Source, Status, Step, Tag,
};
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

const STANDARD: SendMode = SendMode::Standard;

fn calm(n: usize) -> World {
    World::new(1, SimConfig::calm(n), Limits::default())
}

#[test]
fn truncation_says_both_sizes() {
    let w = calm(4);
    let cx = w.contexts(0);
    for c in &cx {
        c.set_name("grid");
    }
    let (data, mut room) = ([7u8; 104], [0u8; 80]);
    // Eager, and announced.
    for mode in [STANDARD, SendMode::Synchronous] {
        let s = w.engines[3].isend(&cx[3], 0, 7, send_of(&data), mode).unwrap();
        let r = w.engines[0].irecv(&cx[0], Source::Rank(3), Tag::Is(7), recv_of(&mut room)).unwrap();
        w.settle();
        let e = w.engines[0].wait(r).unwrap_err();
        assert_eq!(e.class, ErrorClass::Truncate);
        assert_eq!(e.to_string(), "receive on \"grid\" from rank 3 tag 7: message of 104 bytes, room for 80");
        assert!(w.engines[3].test(s).unwrap().is_some(), "the sender is done: {mode:?}");
    }
    // Large, wildcards: the error names the actual sender.
    let (data, r) = (vec![1u8; 100_000], recv_of(&mut room));
    let s = w.engines[2].isend(&cx[2], 0, 5, send_of(&data), STANDARD).unwrap();
    let r = w.engines[0].irecv(&cx[0], Source::Any, Tag::Any, r).unwrap();
    w.settle();
    let e = w.engines[0].wait(r).unwrap_err();
    assert_eq!(e.to_string(), "receive on \"grid\" from rank 2 tag 5: message of 100000 bytes, room for 80");
    assert!(w.engines[2].test(s).unwrap().is_some());
}

#[test]
fn types_are_compared_at_the_match() {
    let w = calm(2);
    let cx = w.contexts(0);
    let f64s = Datatype::predefined(Primitive::F64);
    let data = [0u8; 16];
    let mut room = [0u8; 16];
    let id = w.engines[0].isend(&cx[0], 1, 0, send_of(&data), STANDARD).unwrap();
    // SAFETY: sixteen bytes; complete before the end of the test.
    let buf = unsafe { RecvBuf::new(room.as_mut_ptr(), 2, &f64s) };
    let r = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Any, buf).unwrap();
    w.settle();
    let e = w.engines[1].wait(r).unwrap_err();
    assert_eq!(e.class, ErrorClass::Type);
    assert!(e.to_string().contains("u8") && e.to_string().contains("f64"), "{e}");
    w.engines[0].wait(id).unwrap();
    // No data agrees with everything.
    w.engines[0].isend(&cx[0], 1, 0, send_of(&[]), STANDARD).unwrap();
    let r = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Any, buf).unwrap();
    w.settle();
    assert_eq!(w.engines[1].wait(r).unwrap().bytes, 0);
}

#[test]
fn values_that_are_none_are_refused() {
    let w = calm(2);
    let cx = w.contexts(0);
    let bools = Datatype::predefined(Primitive::Bool);
    let (data, mut room) = ([1u8, 2, 0], [1u8; 3]);
    // SAFETY: three bytes each; complete before the end of the test.
    let (s, r) =
        unsafe { (SendBuf::new(data.as_ptr(), 3, &bools), RecvBuf::new(room.as_mut_ptr(), 3, &bools)) };
    w.engines[0].isend(&cx[0], 1, 0, s, STANDARD).unwrap();
    let r = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Any, r).unwrap();
    w.settle();
    let e = w.engines[1].wait(r).unwrap_err();
    assert_eq!(e.class, ErrorClass::Type, "{e}");
    assert_eq!(room, [1, 0, 0]);
}

#[test]
fn a_synchronous_send_completes_with_its_match() {
    for len in [0, 10, 50_000] {
        let w = calm(2);
        let cx = w.contexts(0);
        let (data, mut room) = (vec![3u8; len], vec![0u8; len]);
        let s = w.engines[0].isend(&cx[0], 1, 0, send_of(&data), SendMode::Synchronous).unwrap();
        w.settle();
        assert!(w.engines[0].test(s).unwrap().is_none(), "{len} bytes: nobody has matched");
        let r = w.engines[1].irecv(&cx[1], Source::Any, Tag::Any, recv_of(&mut room)).unwrap();
        w.settle();
        assert_eq!(w.engines[1].test(r).unwrap().unwrap().bytes, len as u64);
        assert!(w.engines[0].test(s).unwrap().is_some());
        assert_eq!(data, room);
    }
}

#[test]
fn buffered_sends_need_room_and_give_it_back() {
    let w = calm(2);
    let cx = w.contexts(0);
    let e = &w.engines[0];
    let data = vec![1u8; 10_000];
    let err = e.isend(&cx[0], 1, 0, send_of(&data), SendMode::Buffered).unwrap_err();
    assert_eq!(err.class, ErrorClass::Buffer);
    assert_eq!(e.detach_buffer().unwrap_err().class, ErrorClass::Buffer);
    e.attach_buffer(15_000).unwrap();
    e.isend(&cx[0], 1, 0, send_of(&data), SendMode::Buffered).unwrap();
    let err = e.isend(&cx[0], 1, 0, send_of(&data), SendMode::Buffered).unwrap_err();
    assert!(err.to_string().contains("needs 10064 bytes, 4936 are free"), "{err}");
    let mut room = vec![0u8; 10_000];
    let r = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Any, recv_of(&mut room)).unwrap();
    w.settle();
    assert!(w.engines[1].test(r).unwrap().is_some());
    assert_eq!(room, data);
    assert_eq!(e.detach_buffer().unwrap(), 15_000);
}

#[test]
fn messages_to_oneself_never_leave() {
    let w = calm(1);
    let cx = w.context(0, 0);
    let e = &w.engines[0];
    for len in [0usize, 5, 1 << 20] {
        for mode in [STANDARD, SendMode::Synchronous] {
            let (data, mut room) = (vec![9u8; len], vec![0u8; len]);
            // Send first, then receive first.
            let s = e.isend(&cx, 0, 1, send_of(&data), mode).unwrap();
            assert_eq!(e.probe(&cx, Source::Any, Tag::Any).unwrap().bytes, len as u64);
            let status = e.recv(&cx, Source::Rank(0), Tag::Is(1), recv_of(&mut room)).unwrap();
            assert_eq!((status.source, status.tag, status.bytes), (0, 1, len as u64));
            e.wait(s).unwrap();
            assert_eq!(data, room);
            room.fill(0);
            let r = e.irecv(&cx, Source::Any, Tag::Any, recv_of(&mut room)).unwrap();
            e.send(&cx, 0, 1, send_of(&data), mode).unwrap();
            e.wait(r).unwrap();
            assert_eq!(data, room);
        }
    }
    let (a, mut b) = ([1u8; 3], [0u8; 3]);
    e.sendrecv(&cx, send_of(&a), 0, 4, recv_of(&mut b), Source::Rank(0), Tag::Is(4)).unwrap();
    assert_eq!(a, b);
    e.sendrecv_replace(&cx, recv_of(&mut b), 0, 4, Source::Rank(0), Tag::Is(4)).unwrap();
    assert_eq!(a, b);
    assert!(w.net.quiet());
}

#[test]
fn cancel_always_lets_the_wait_return() {
    let w = calm(2);
    let cx = w.contexts(0);
    let (data, mut room) = (vec![1u8; 50_000], vec![0u8; 50_000]);
    let r = w.engines[0].irecv(&cx[0], Source::Any, Tag::Any, recv_of(&mut room)).unwrap();
    w.engines[0].cancel(r).unwrap();
    assert!(w.engines[0].wait(r).unwrap().cancelled);
    // Announced and here unmatched: taken back.
    for (len, mode) in [(50_000, STANDARD), (10, SendMode::Synchronous)] {
        let s = w.engines[0].isend(&cx[0], 1, 0, send_of(&data[..len]), mode).unwrap();
        w.settle();
        w.engines[0].cancel(s).unwrap();
        w.settle();
        assert!(w.engines[0].wait(s).unwrap().cancelled);
        assert!(w.engines[1].iprobe(&cx[1], Source::Any, Tag::Any).unwrap().is_none());
        // Matched before the question came: it goes its way.
        let s = w.engines[0].isend(&cx[0], 1, 0, send_of(&data[..len]), mode).unwrap();
        let r = w.engines[1].irecv(&cx[1], Source::Any, Tag::Any, recv_of(&mut room)).unwrap();
        w.engines[0].cancel(s).unwrap();
        w.settle();
        assert!(!w.engines[0].wait(s).unwrap().cancelled);
        assert!(!w.engines[1].wait(r).unwrap().cancelled);
        assert_eq!(room[..len], data[..len]);
    }
    // To oneself.
    let s = w.engines[0].isend(&cx[0], 0, 0, send_of(&data), SendMode::Synchronous).unwrap();
    w.engines[0].cancel(s).unwrap();
    assert!(w.engines[0].wait(s).unwrap().cancelled);
}

#[test]
fn a_flood_is_bounded_and_all_of_it_arrives() {
    let limits = Limits { unexpected_mark_bytes: 64 << 10, ..Limits::default() };
    let w = World::new(3, SimConfig::calm(2), limits);
    let cx = w.contexts(0);
    let data = [5u8; 1000];
    let mut all = Vec::new();
    for tag in 0..2000 {
        all.push(Some(w.engines[0].isend(&cx[0], 1, tag, send_of(&data), STANDARD).unwrap()));
        if tag % 16 == 0 {
            w.settle();
        }
    }
    w.settle();
    let report = w.engines[1].report();
    assert_eq!(report.unexpected_total, 2000);
    assert!(report.unexpected_bytes < 100 << 10, "{} bytes held", report.unexpected_bytes);
    for tag in (0..2000).rev() {
        let mut room = [0u8; 1000];
        let r = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Is(tag), recv_of(&mut room)).unwrap();
        while w.engines[1].request_status(r).unwrap().is_none() {
            w.settle();
        }
        assert_eq!(w.engines[1].wait(r).unwrap().bytes, 1000);
        assert_eq!(room, data);
    }
    w.settle();
    assert!(w.engines[0].wait_all_ok(&mut all).is_ok());
    // The peer may send at once again.
    assert_eq!(w.engines[0].isend(&cx[0], 1, 0, send_of(&data), STANDARD).unwrap(), RequestId::DONE);
}

/// A way to take the message that waits for rank 1.
type Take<'a> = &'a dyn Fn(&Context, &mut [u8]);

/// Whatever takes a message that was kept gives back all that was counted for it: else, after enough messages, the peer
/// is told to announce though nothing is held, and programs that send before they receive hang.
#[test]
fn nothing_is_held_once_all_is_taken_by_whatever_call() {
    let w = calm(2);
    let (sender, e) = (&w.engines[0], &w.engines[1]);
    for len in [0, 4, 64, 65, 1000] {
        let data = vec![3u8; len];
        let mut room = vec![0u8; 1000];
        let takes: [Take<'_>; 7] = [
            &|cx, room| {
                assert_eq!(e.recv(cx, Source::Rank(0), Tag::Is(0), recv_of(room)).unwrap().bytes, len as u64)
            },
            &|cx, room| _ = e.recv(cx, Source::Any, Tag::Any, recv_of(room)).unwrap(),
            &|cx, room| _ = e.wait(e.irecv(cx, Source::Any, Tag::Is(0), recv_of(room)).unwrap()).unwrap(),
            &|cx, room| {
                let (message, _) = e.mprobe(cx, Source::Any, Tag::Any).unwrap();
                e.mrecv(message, recv_of(room)).unwrap();
            },
            &|cx, room| {
                let own = [1u8; 4];
                e.isend(cx, 1, 9, send_of(&own), STANDARD).unwrap();
                e.sendrecv(cx, send_of(&own), 1, 8, recv_of(room), Source::Rank(0), Tag::Is(0)).unwrap();
                for tag in [8, 9] {
                    e.recv(cx, Source::Rank(1), Tag::Is(tag), recv_of(room)).unwrap();
                }
            },
            // Too long for its receive.
            &|cx, room| {
                let taken = e.recv(cx, Source::Rank(0), Tag::Is(0), recv_of(&mut room[..len / 2]));
                assert_eq!(taken.is_ok(), len == 0);
            },
            // Nobody takes it before the communicator is freed.
            &|_, _| (),
        ];
        for (at, take) in takes.into_iter().enumerate() {
            for plain in [STANDARD, SendMode::Synchronous] {
                let cx = w.contexts(0);
                let sent = sender.isend(&cx[0], 1, 0, send_of(&data), plain).unwrap();
                while e.iprobe(&cx[1], Source::Rank(0), Tag::Is(0)).unwrap().is_none() {
                    w.settle();
                }
                let before = e.report();
                assert_eq!(before.unexpected_total, 1);
                take(&cx[1], &mut room);
                drop(cx);
                // Contexts that were dropped go with the next one.
                drop(w.contexts(4));
                w.settle();
                let report = e.report();
                assert_eq!(report.unexpected_bytes, 0, "call {at}, {len} bytes, {plain:?}");
                assert_eq!(report.unexpected_total, 0, "call {at}, {len} bytes, {plain:?}");
                sender.wait(sent).unwrap();
            }
        }
    }
}

/// A message that comes while a thread waits to look at it is lent; any other goes the way of all, whole.
#[test]
fn a_message_is_lent_as_it_comes_or_left() {
    let w = calm(2);
    let cx = w.contexts(0);
    let (sender, e) = (&w.engines[0], &w.engines[1]);
    let send = |data: &[u8], mode| {
        let sent = sender.isend(&cx[0], 1, 3, send_of(data), mode).unwrap();
        while w.net.advance() {}
        sent
    };
    let lent = |tag, signature, look: &mut dyn FnMut(&[u8], Status) -> bool| {
        e.recv_lent(&cx[1], 0, tag, signature, look)
    };
    let bytes = U8.signature();
    let left = |len: usize| {
        let mut room = vec![0u8; len];
        w.settle();
        assert_eq!(
            e.recv(&cx[1], Source::Rank(0), Tag::Is(3), recv_of(&mut room)).unwrap().bytes,
            len as u64
        );
        room
    };
    for len in [0, 5, 40, 100, 900] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        for tag in [Tag::Is(3), Tag::Any] {
            send(&data, STANDARD);
            let mut seen = None;
            assert!(lent(tag, bytes, &mut |have, status| {
                seen = Some((have.to_vec(), status.source, status.tag, status.bytes));
                true
            }));
            assert_eq!(seen, Some((data.clone(), 0, 3, len as u64)));
        }
    }
    let never = &mut |_: &[u8], _| panic!("not to be lent");
    // It was here already.
    send(&[1; 7], STANDARD);
    e.progress();
    assert!(!lent(Tag::Any, bytes, never));
    assert_eq!(left(7), [1; 7]);
    // Another tag, another type, with an answer to be sent, or not wanted so.
    send(&[2; 7], STANDARD);
    assert!(!lent(Tag::Is(4), bytes, never));
    assert_eq!(left(7), [2; 7]);
    send(&[3; 8], STANDARD);
    assert!(!lent(Tag::Any, Datatype::predefined(Primitive::F64).signature(), never));
    assert_eq!(left(8), [3; 8]);
    let sent = send(&[4; 7], SendMode::Synchronous);
    assert!(!lent(Tag::Any, bytes, never));
    assert_eq!(left(7), [4; 7]);
    w.settle();
    sender.wait(sent).unwrap();
    send(&[5; 7], STANDARD);
    assert!(!lent(Tag::Any, bytes, &mut |_, _| false));
    assert_eq!(left(7), [5; 7]);
    // Another receive comes first; nobody sends.
    let mut room = [0; 7];
    let posted = e.irecv(&cx[1], Source::Any, Tag::Any, recv_of(&mut room)).unwrap();
    assert!(!lent(Tag::Any, bytes, never));
    send(&[6; 7], STANDARD);
    e.wait(posted).unwrap();
    assert_eq!(room, [6; 7]);
    assert!(!lent(Tag::Any, bytes, never));
    // Whoever calls the engine from inside is told; the message was received, and everything goes on.
    send(&[7; 7], STANDARD);
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lent(Tag::Any, bytes, &mut |_, _| e.iprobe(&cx[1], Source::Any, Tag::Any).unwrap().is_some())
    }));
    let said = said.expect_err("refused");
    assert!(said.downcast_ref::<String>().is_some_and(|said| said.contains("inside a call")), "{said:?}");
    assert!(e.iprobe(&cx[1], Source::Any, Tag::Any).unwrap().is_none());
    send(&[8; 7], STANDARD);
    assert_eq!(left(7), [8; 7]);
    assert_eq!(e.report().unexpected_bytes, 0);
}

#[test]
fn everything_with_a_dead_peer_fails_and_nothing_else() {
    for seed in 0..300 {
        let w = World::new(seed, SimConfig::rough(3), Limits::default());
        let cx = w.contexts(0);
        let sizes = [10, 1024, 5000, 60_000];
        let data: Vec<Vec<u8>> = sizes.iter().map(|n| vec![2u8; *n]).collect();
        let mut rooms: Vec<Vec<u8>> = (0..12).map(|_| vec![0u8; 60_000]).collect();
        let mut at0 = Vec::new();
        for (k, room) in rooms.iter_mut().enumerate() {
            let (from, tag) = (1 + k % 2, (k / 2) as i32);
            let r =
                w.engines[0].irecv(&cx[0], Source::Rank(from as u32), Tag::Is(tag), recv_of(room)).unwrap();
            at0.push((r, from, tag));
        }
        let mut sends = Vec::new();
        for (tag, d) in data.iter().enumerate() {
            for (from, cx) in cx.iter().enumerate().skip(1) {
                sends.push((from, w.engines[from].isend(cx, 0, tag as i32, send_of(d), STANDARD).unwrap()));
            }
            sends.push((0, w.engines[0].isend(&cx[0], 1, tag as i32, send_of(d), STANDARD).unwrap()));
        }
        for _ in 0..seed % 40 {
            w.engines.iter().for_each(|e| e.progress());
            w.net.advance();
        }
        w.net.kill(1);
        for _ in 0..2000 {
            w.engines[0].progress();
            w.engines[2].progress();
            w.net.advance();
        }
        for (r, from, tag) in at0 {
            match w.engines[0].test(r) {
                Err(e) => assert_eq!((from, e.class), (1, ErrorClass::ProcFailed), "seed {seed}: {e}"),
                Ok(Some(s)) => assert_eq!(s.bytes, sizes[tag as usize] as u64),
                Ok(None) => {
                    assert!(from == 2 && tag >= 4, "seed {seed}: receive from {from} tag {tag} hangs")
                }
            }
        }
        for (from, s) in sends.into_iter().filter(|(from, _)| *from != 1) {
            match w.engines[from].test(s) {
                Err(e) => assert_eq!((from, e.class), (0, ErrorClass::ProcFailed), "seed {seed}: {e}"),
                Ok(done) => assert!(done.is_some(), "seed {seed}: a send of {from} hangs"),
            }
        }
    }
}

#[test]
fn a_peer_that_leaves_in_good_order_ends_what_waits_for_it() {
    let w = calm(3);
    let cx = w.contexts(0);
    let mut room = [0u8; 8];
    let data = [4u8; 8];
    w.engines[1].isend(&cx[1], 0, 0, send_of(&data), STANDARD).unwrap();
    w.settle();
    w.engines[1].close(std::time::Duration::from_secs(1));
    w.settle();
    // What it sent before is still there.
    let s = w.engines[0].recv(&cx[0], Source::Rank(1), Tag::Any, recv_of(&mut room)).unwrap();
    assert_eq!((s.bytes, room), (8, data));
    let e = w.engines[0].recv(&cx[0], Source::Rank(1), Tag::Any, recv_of(&mut room)).unwrap_err();
    assert_eq!(e.class, ErrorClass::ProcFailed);
    assert!(e.to_string().contains("finalized"), "{e}");
    assert!(w.fatal.lock().unwrap().is_empty());
}

#[test]
fn garbage_is_the_peers_fault_and_is_named() {
    let w = calm(2);
    let cx = w.contexts(0);
    let mut room = [0u8; 8];
    w.engines[1].isend(&cx[1], 0, 0, send_of(&[1; 8]), STANDARD).unwrap();
    w.settle();
    w.net.garbage(1, 0);
    let r = w.engines[0].irecv(&cx[0], Source::Rank(1), Tag::Is(9), recv_of(&mut room)).unwrap();
    w.settle();
    assert_eq!(w.engines[0].wait(r).unwrap_err().class, ErrorClass::ProcFailed);
    let told = w.fatal.lock().unwrap();
    assert!(matches!(&told[0], (0, Fatal::PeerGone { ep: Ep(1), .. })), "{told:?}");
}

#[test]
fn somebody_who_knows_better_ends_a_peer() {
    let w = calm(2);
    let cx = w.contexts(0);
    let mut room = [0u8; 8];
    let r = w.engines[0].irecv(&cx[0], Source::Rank(1), Tag::Any, recv_of(&mut room)).unwrap();
    let any = w.engines[0].irecv(&cx[0], Source::Any, Tag::Any, recv_of(&mut room)).unwrap();
    w.engines[0].peer_died(Ep(1), "killed by signal 9".into());
    let e = w.engines[0].wait(r).unwrap_err();
    assert!(e.to_string().contains("killed by signal 9"), "{e}");
    // Nobody else could send: a receive from any source ends as well.
    assert_eq!(w.engines[0].wait(any).unwrap_err().class, ErrorClass::ProcFailed);
}

#[test]
fn persistent_requests_start_again_and_again() {
    let w = calm(2);
    let cx = w.contexts(0);
    let data = [8u8; 3000];
    let mut room = [0u8; 3000];
    let s = w.engines[0].send_init(&cx[0], 1, 0, send_of(&data), STANDARD).unwrap();
    let r = w.engines[1].recv_init(&cx[1], Source::Rank(0), Tag::Any, recv_of(&mut room)).unwrap();
    assert_eq!(w.engines[0].wait(s).unwrap(), Status::EMPTY, "inactive");
    for _ in 0..3 {
        w.engines[0].restart(s).unwrap();
        w.engines[1].restart(r).unwrap();
        assert_eq!(w.engines[1].restart(r).unwrap_err().class, ErrorClass::Request);
        w.settle();
        assert_eq!(w.engines[1].wait(r).unwrap().bytes, 3000);
        w.engines[0].wait(s).unwrap();
    }
    let mut list = [Some(r)];
    assert!(w.engines[1].wait_any(&mut list).unwrap().is_none(), "nothing is active");
    w.engines[0].free(s).unwrap();
    assert_eq!(w.engines[0].wait(s).unwrap_err().class, ErrorClass::Request);
}

#[test]
fn any_some_and_all() {
    let w = calm(2);
    let cx = w.contexts(0);
    let e = &w.engines[1];
    let mut rooms = [[0u8; 4]; 4];
    let mut list: Vec<Option<RequestId>> = Vec::new();
    for (tag, room) in rooms.iter_mut().enumerate() {
        list.push(Some(e.irecv(&cx[1], Source::Rank(0), Tag::Is(tag as i32), recv_of(room)).unwrap()));
    }
    assert!(e.test_any(&mut list).unwrap().is_none());
    assert!(e.test_all(&mut list).is_none());
    assert_eq!(e.test_some(&mut list).unwrap().len(), 0);
    w.engines[0].send(&cx[0], 1, 2, send_of(&[1; 4]), STANDARD).unwrap();
    w.settle();
    assert_eq!(e.wait_any(&mut list).unwrap().unwrap().0, 2);
    assert!(list[2].is_none());
    for tag in [3, 0] {
        w.engines[0].send(&cx[0], 1, tag, send_of(&[1; 4]), STANDARD).unwrap();
    }
    w.settle();
    let some: Vec<usize> = e.wait_some(&mut list).unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(some, [0, 3]);
    w.engines[0].send(&cx[0], 1, 1, send_of(&[1; 4]), STANDARD).unwrap();
    w.settle();
    let all = e.wait_all(&mut list);
    assert_eq!(all.iter().map(|r| r.as_ref().unwrap().bytes).collect::<Vec<_>>(), [0, 4, 0, 0]);
    assert!(list.iter().all(Option::is_none));
    assert!(e.wait_some(&mut list).is_none());
}

#[test]
fn a_matched_message_is_received_once() {
    let w = calm(2);
    let cx = w.contexts(0);
    let data = vec![6u8; 9000];
    let s = w.engines[0].isend(&cx[0], 1, 3, send_of(&data), STANDARD).unwrap();
    w.settle();
    let (m, status) = w.engines[1].improbe(&cx[1], Source::Any, Tag::Any).unwrap().unwrap();
    assert_eq!((status.bytes, status.tag), (9000, 3));
    assert!(w.engines[1].improbe(&cx[1], Source::Any, Tag::Any).unwrap().is_none());
    let raw = m.into_raw();
    let mut room = vec![0u8; 9000];
    let m = mpi_p2p::Message::from_raw(raw);
    let r = w.engines[1].imrecv(m, recv_of(&mut room)).unwrap();
    w.settle();
    assert_eq!(w.engines[1].wait(r).unwrap().bytes, 9000);
    assert_eq!(room, data);
    assert!(w.engines[0].test(s).unwrap().is_some());
    let again = w.engines[1].imrecv(mpi_p2p::Message::from_raw(raw), recv_of(&mut room));
    assert_eq!(again.unwrap_err().class, ErrorClass::Request);
}

#[test]
fn messages_wait_for_their_context() {
    let w = calm(2);
    let early = w.context(0, 12);
    let data = [1u8; 20];
    w.engines[0].isend(&early, 1, 0, send_of(&data), STANDARD).unwrap();
    w.settle();
    let late = w.context(1, 12);
    assert!(w.engines[1].add_context(spec(12)).is_err(), "the number is in use");
    let mut room = [0u8; 20];
    assert_eq!(w.engines[1].recv(&late, Source::Rank(0), Tag::Any, recv_of(&mut room)).unwrap().bytes, 20);
    drop(late);
    assert!(w.engines[1].add_context(spec(12)).is_ok(), "the number is free again");
    assert!(w.engines[1].add_context(spec(u32::MAX)).is_err());
}

fn spec(id: u32) -> mpi_p2p::ContextSpec {
    mpi_p2p::ContextSpec { id, rank: 1, name: String::new(), peers: vec![Ep(0), Ep(1)].into() }
}

/// Passes a number around a ring once, adding one at each stop.
struct Ring {
    cx: Arc<Context>,
    value: Box<[u8; 1]>,
    waits: Option<RequestId>,
    sent: Option<RequestId>,
}

impl Activity for Ring {
    fn advance(&mut self, inside: &mut Inside<'_>) -> Result<Step, Error> {
        let (rank, size) = (self.cx.rank(), self.cx.size());
        if self.waits.is_none() && self.sent.is_none() {
            let from = (rank + size - 1) % size;
            self.waits =
                Some(inside.irecv(&self.cx, Source::Rank(from), Tag::Is(0), recv_of(&mut self.value[..]))?);
            if rank == 0 {
                return self.pass(inside);
            }
        }
        if let Some(id) = self.waits {
            match inside.take(id) {
                None => return Ok(Step::Pending),
                Some(result) => result?,
            };
            self.waits = None;
            if rank != 0 {
                self.value[0] += 1;
                return self.pass(inside);
            }
        }
        match self.sent.and_then(|id| inside.take(id)) {
            Some(result) => result.map(|s| Step::Done(Status { bytes: self.value[0].into(), ..s })),
            None => Ok(Step::Pending),
        }
    }
    fn name(&self) -> &'static str {
        "ring"
    }
}

impl Ring {
    fn pass(&mut self, inside: &mut Inside<'_>) -> Result<Step, Error> {
        let to = (self.cx.rank() + 1) % self.cx.size();
        self.sent = Some(inside.isend(&self.cx, to, 0, send_of(&self.value[..]))?);
        if self.waits.is_some() { Ok(Step::Pending) } else { self.advance(inside) }
    }
}

#[test]
fn activities_are_advanced_by_their_requests() {
    let w = calm(4);
    let cx = w.contexts(1);
    let ring = |cx: &Arc<Context>| Ring { cx: cx.clone(), value: Box::new([0]), waits: None, sent: None };
    let ids: Vec<RequestId> = (0..4).map(|i| w.engines[i].start(Box::new(ring(&cx[i])))).collect();
    w.settle();
    assert_eq!(w.engines[0].wait(ids[0]).unwrap().bytes, 3);
    for (e, id) in w.engines.iter().zip(&ids).skip(1) {
        e.wait(*id).unwrap();
    }
    // An error inside is the activity's.
    let id = w.engines[0].start(Box::new(ring(&cx[0])));
    assert_eq!(w.engines[0].pending_summary(), ["ring"]);
    w.engines[0].peer_died(Ep(3), "gone".into());
    w.engines[0].progress();
    assert_eq!(w.engines[0].wait(id).unwrap_err().class, ErrorClass::ProcFailed);
}

#[test]
fn generalized_requests_complete_from_outside() {
    let w = calm(1);
    let e = w.engines[0].clone();
    let id = e.generalized();
    assert!(e.test(id).unwrap().is_none());
    let there = e.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        there.complete_generalized(id, Status { bytes: 5, ..Status::EMPTY }).unwrap();
    });
    assert_eq!(e.wait(id).unwrap().bytes, 5);
    thread.join().unwrap();
}

/// A waker whose end, and whose copy, call the engine.
struct Task(Arc<Engine>, RequestId);

impl std::task::Wake for Task {
    fn wake(self: Arc<Task>) {
        self.0.progress();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // A receive of its own, as a task has that awaits something.
        self.0.abandon(self.1, Box::new(()), true).unwrap();
    }
}

#[test]
fn what_the_program_gave_ends_where_no_lock_is_held() {
    let w = calm(2);
    let cx = w.contexts(0);
    let e = w.engines[0].clone();
    let mut rooms = [[0u8; 8]; 9];
    let mut rooms = rooms.iter_mut();
    let mut receive =
        || e.irecv(&cx[0], Source::Rank(1), Tag::Is(9), recv_of(rooms.next().unwrap())).unwrap();
    let owned = |id: RequestId| Arc::new(Task(e.clone(), id));
    let gone = |id: RequestId| assert_eq!(e.test(id).unwrap_err().class, ErrorClass::Request);
    // The engine's waker is the last owner of a task, and another takes its place.
    let (first, second, third) = (receive(), receive(), receive());
    assert!(e.poll_wait(first, &Waker::from(owned(second))).is_pending());
    assert!(e.poll_wait(first, &Waker::from(owned(third))).is_pending());
    gone(second);
    assert!(e.poll_wait(first, Waker::noop()).is_pending());
    gone(third);
    // The request is abandoned, at once or when it is over, and with it what it was given.
    let (fourth, fifth) = (receive(), receive());
    assert!(e.poll_wait(first, &Waker::from(owned(fourth))).is_pending());
    e.abandon(first, Box::new(owned(fifth)), true).unwrap();
    gone(fourth);
    gone(fifth);
    let (sixth, seventh) = (receive(), receive());
    let data = vec![1u8; 60_000];
    let send = e.isend(&cx[0], 1, 3, send_of(&data), SendMode::Synchronous).unwrap();
    e.abandon(send, Box::new((owned(sixth), [0; 8])), false).unwrap();
    assert!(e.test(sixth).unwrap().is_none(), "the send still runs");
    let mut room = vec![0u8; 60_000];
    let there = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Is(3), recv_of(&mut room)).unwrap();
    w.settle();
    assert!(w.engines[1].test(there).unwrap().is_some());
    gone(sixth);
    // Also where there is no such request any more.
    assert!(e.abandon(first, Box::new(owned(seventh)), true).is_err());
    gone(seventh);
}

/// What a future is polled with may do anything when it is copied.
#[test]
fn wakers_are_copied_where_no_lock_is_held() {
    const CALLS: RawWakerVTable = RawWakerVTable::new(copy, nothing, nothing, nothing);
    fn copy(engine: *const ()) -> RawWaker {
        // SAFETY: it is the engine of the test, which lives longer.
        unsafe { &*engine.cast::<Engine>() }.progress();
        RawWaker::new(engine, &CALLS)
    }
    fn nothing(_: *const ()) {}
    let w = calm(2);
    let cx = w.contexts(0);
    let mut room = [0u8; 8];
    let e = &w.engines[0];
    let id = e.irecv(&cx[0], Source::Rank(1), Tag::Any, recv_of(&mut room)).unwrap();
    // SAFETY: the table's functions take the pointer that is given here.
    let waker = unsafe { Waker::from_raw(RawWaker::new(Arc::as_ptr(e).cast(), &CALLS)) };
    assert!(e.poll_wait(id, &waker).is_pending());
    assert!(e.poll_wait(id, &waker).is_pending());
    e.cancel(id).unwrap();
    assert!(e.poll_wait(id, &waker).is_ready());
}

/// Nobody tells of the end of another world's processes but their connections.
#[test]
fn strangers_are_called_before_they_are_waited_for() {
    for how in 0..6 {
        let w = calm(4);
        let spec = ContextSpec { id: 4, rank: 0, name: "inter".into(), peers: vec![Ep(2), Ep(3)].into() };
        let (e, cx) = (&w.engines[0], w.engines[0].add_context(spec).unwrap());
        let mut room = [0u8; 8];
        e.introduce(&[Ep(2), Ep(3)]).unwrap();
        w.settle();
        assert_eq!(w.net.in_flight(), 0, "nobody is called in vain");
        let source = if how % 2 == 0 { Source::Rank(0) } else { Source::Any };
        let id = match how / 2 {
            0 => Some(e.irecv(&cx, source, Tag::Any, recv_of(&mut room)).unwrap()),
            _ => None,
        };
        let look = |what: &str| match id {
            Some(id) => e.test(id).map(|done| assert!(done.is_none(), "{what}")),
            None if how / 2 == 1 => {
                e.iprobe(&cx, source, Tag::Any).map(|found| assert!(found.is_none(), "{what}"))
            }
            None => e.improbe(&cx, source, Tag::Any).map(|found| assert!(found.is_none(), "{what}")),
        };
        look("nothing is here").unwrap();
        assert_eq!(
            w.net.in_flight(),
            if how % 2 == 0 { 1 } else { 2 },
            "those it waits for are called ({how})"
        );
        w.settle();
        look("nothing is here").unwrap();
        assert_eq!(w.net.in_flight(), 0, "once");
        w.net.kill(2);
        w.net.kill(3);
        w.settle();
        let error = look("they are gone").unwrap_err();
        assert_eq!(error.class, ErrorClass::ProcFailed, "{error}");
        // Nor does anybody begin to wait for those who are gone.
        let error = e.recv(&cx, source, Tag::Any, recv_of(&mut [0u8; 8])).unwrap_err();
        assert_eq!(error.class, ErrorClass::ProcFailed, "{error}");
    }
}

#[test]
fn ranks_are_checked() {
    let w = calm(2);
    let cx = w.contexts(0);
    let e = w.engines[0].send(&cx[0], 2, 0, send_of(&[1]), STANDARD).unwrap_err();
    assert_eq!(e.class, ErrorClass::Rank);
    assert_eq!(e.to_string(), "send on \"world\": rank 2 of a communicator of 2");
    let mut room = [0u8; 1];
    let e = w.engines[0].recv(&cx[0], Source::Rank(7), Tag::Any, recv_of(&mut room)).unwrap_err();
    assert_eq!(e.class, ErrorClass::Rank);
    assert_eq!(U8.size(), 1);
}
