//! Calls that are too many to be timed each are counted each, and their time is estimated. One test, since a process
//! records once.

use mpi_record::limits::{EXACT_CALLS, LONG_WAIT_TURNS, LOOKS_PER_MESSAGE_TURN};
use mpi_record::ops::{RECEIVE, SEND};
use mpi_record::{Block, OpCounts, Options, Reader, create};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Takes about so long.
fn work(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

fn of(block: &Block, name: &str) -> OpCounts {
    *block.ops.iter().find(|op| op.op.name() == name).expect("it was called")
}

#[test]
fn many_calls_are_counted_each_and_timed_by_lot() {
    const CALLS: u64 = 20_000;
    let fd = create(2, Options { events: false }).expect("memory");
    let reader = Reader::new(fd.as_fd()).expect("our own file");
    mpi_record::attach(fd.as_fd().try_clone_to_owned().expect("descriptor"), 0).expect("attaches");
    for _ in 0..CALLS {
        mpi_record::during(
            SEND,
            || Some(1),
            || {
                work(Duration::from_micros(2));
                mpi_record::sent(1, 0, 0, 8);
            },
        );
        mpi_record::during(
            RECEIVE,
            || Some(1),
            || {
                mpi_record::waiting_for_message(0);
                mpi_record::received(|| 1, 0, 0, 16);
            },
        );
    }
    // What the last receive came to is not written down yet, and seen all the same.
    let block = reader.block(0).expect("a block");
    let (send, receive) = (of(&block, "send"), of(&block, "receive"));
    assert_eq!(
        (send.calls, send.sent, receive.calls, receive.received),
        (CALLS, 8 * CALLS, CALLS, 16 * CALLS)
    );
    assert_eq!((block.sent, block.received), ((CALLS, 8 * CALLS), (CALLS, 16 * CALLS)));
    assert_eq!((block.sizes_sent[4], block.sizes_received[5]), (CALLS, CALLS));
    // One in 64 is timed: some 300 of them. A machine that does other things makes single ones longer.
    assert!(send.time > CALLS * 1_000, "{} ns for {CALLS} calls of 2 us", send.time);
    assert!(receive.time < send.time, "{} and {} ns", receive.time, send.time);
    assert!(block.inside <= block.elapsed && block.waiting <= block.inside);

    // A call that turns out to be long is timed from there, whether its turn has come or not.
    assert!(send.calls > EXACT_CALLS);
    let before = receive.time;
    mpi_record::during(
        RECEIVE,
        || Some(1),
        || {
            (0..=LONG_WAIT_TURNS * LOOKS_PER_MESSAGE_TURN).for_each(mpi_record::waiting_for_message);
            let now = reader.block(0).expect("a block").now.expect("the launcher sees it");
            assert_eq!(now.op, RECEIVE);
            // Who goes to sleep says for whom: nobody has asked the call, which was not timed.
            mpi_record::waits_for(Some(1));
            let now = reader.block(0).expect("a block").now.expect("the launcher sees it");
            assert_eq!((now.op, now.peer), (RECEIVE, Some(1)));
            std::thread::sleep(Duration::from_millis(30));
            mpi_record::received(|| 1, 0, 0, 16);
        },
    );
    let receive = of(&reader.block(0).expect("a block"), "receive");
    assert!(receive.time - before >= 29_000_000 && receive.longest >= 29_000_000, "{receive:?}");
    assert!(receive.waiting >= 29_000_000 && receive.calls == CALLS + 1, "{receive:?}");

    // So is one that hands its processor over.
    let before = receive.time;
    mpi_record::during(
        RECEIVE,
        || Some(1),
        || {
            mpi_record::waiting_for_message(0);
            mpi_record::waits_long();
            std::thread::sleep(Duration::from_millis(10));
            mpi_record::received(|| 1, 0, 0, 0);
        },
    );
    let receive = of(&reader.block(0).expect("a block"), "receive");
    assert!(receive.time - before >= 9_000_000, "{receive:?}");
    assert_eq!(reader.block(0).expect("a block").now, None);
}
