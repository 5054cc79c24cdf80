//! What hooks write is what the launcher reads. One test, since a process records once.

use mpi_record::ops::{self, Op};
use mpi_record::{Courier, Event, Far, Options, Reader, Tail, Waiting, Way, create};
use std::os::fd::AsFd;
use std::time::Duration;

#[test]
fn what_is_written_is_read() {
    let fd = create(3, Options { events: true }).expect("memory");
    let reader = Reader::new(fd.as_fd()).expect("our own file");
    assert_eq!(reader.ranks(), 3);
    assert_eq!(reader.block(1).expect("a block").pid, 0);

    mpi_record::sent(0, 0, 0, 1);
    mpi_record::attach(fd.as_fd().try_clone_to_owned().expect("descriptor"), 3).expect_err("no such rank");
    assert!(!mpi_record::on());
    mpi_record::attach(fd.as_fd().try_clone_to_owned().expect("descriptor"), 1).expect("attaches");
    assert!(mpi_record::on());

    {
        let _outer = mpi_record::op(Op::named("allreduce"), || None);
        let _inner = mpi_record::op(ops::SEND, || Some(2));
        mpi_record::sent(2, 5, 7, 1000);
        let (mut wait, mut nested) = (Waiting::NOT, Waiting::NOT);
        wait.begin(0);
        nested.begin(0);
        std::thread::sleep(Duration::from_millis(3));
        drop(nested);
        let now = reader.block(1).expect("a block").now.expect("it is in an operation");
        assert_eq!((now.op.name(), now.peer), ("allreduce", None));
        assert!(now.waits.expect("it waits") >= 3_000_000);
        mpi_record::waits_for(Some(0));
        assert_eq!(reader.block(1).expect("a block").now.and_then(|now| now.peer), Some(0));
    }
    {
        let mut alone = Waiting::NOT;
        alone.begin(0);
        mpi_record::received(|| 0, 5, -3, 0);
        let since = mpi_record::copying(1 << 20);
        std::thread::sleep(Duration::from_millis(2));
        mpi_record::copied(since);
    }
    assert_eq!(mpi_record::copying(8), 0, "small copies are not timed");
    mpi_record::algorithm(Op::named("allreduce"), ops::algorithm("ring"));
    mpi_record::algorithm(ops::SEND, 7);
    mpi_record::unexpected(|| (4, 400));
    mpi_record::unexpected(|| (2, 900));
    mpi_record::moved(|| Some(2), Way::Got, 16);
    for peer in 0..600 {
        mpi_record::moved(|| Some(peer), Way::Put, 8);
    }

    let block = reader.block(1).expect("a block");
    assert_eq!(block.pid, std::process::id());
    assert_eq!((block.ended, block.now), (None, None));
    assert_eq!(
        block.ops.iter().map(|op| (op.op.name(), op.calls, op.sent)).collect::<Vec<_>>(),
        [("wait", 1, 0), ("allreduce", 1, 1000)]
    );
    assert!(block.ops[1].waiting >= 3_000_000 && block.ops[1].time >= block.ops[1].waiting);
    assert!(block.copying >= 2_000_000 && block.ops[0].waiting < block.ops[0].time - 1_900_000);
    assert_eq!((block.sent, block.received, block.direct), ((1, 1000), (1, 0), (4800, 16)));
    assert_eq!((block.sizes_sent[10], block.sizes_received[0]), (1, 1));
    assert_eq!(block.algorithms, [(Op::named("allreduce"), 7, 1)]);
    assert_eq!(block.unexpected, (4, 900));
    assert_eq!(block.got.iter().map(|peer| (peer.peer, peer.bytes)).collect::<Vec<_>>(), [(2, 16)]);
    let counted: u64 = block.peers.iter().chain(&block.put).map(|peer| peer.bytes).sum();
    assert_eq!(counted + block.others.1, 1000 + 4800);
    assert!(block.put.len() > 500 && block.others.0 > 0);
    let drawn: u64 = block.timeline.iter().map(|bin| bin.inside).sum();
    assert!(drawn.abs_diff(block.inside) < 10_000, "{drawn} of {}", block.inside);

    let mut tail = Tail::default();
    let events = reader.events(1, &mut tail).expect("events");
    let kinds: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Op { op, sent, .. } => (Op::at((*op).into()).map_or("?", Op::name), *sent),
            Event::Wait { .. } => ("waiting", 0),
            Event::Sent { peer, tag, .. } => ("sent", u64::from(*peer) + *tag as u64),
            Event::Received { context, .. } => ("received", (*context).into()),
        })
        .collect();
    let expected =
        [("sent", 9), ("waiting", 0), ("allreduce", 1000), ("received", 5), ("waiting", 0), ("wait", 0)];
    assert_eq!(kinds, expected);
    assert!(reader.events(1, &mut tail).expect("events").is_empty());

    // Faster than anybody reads.
    for _ in 0..(1 << 16) + 10 {
        mpi_record::sent(0, 0, 0, 1);
    }
    assert_eq!(reader.events(1, &mut tail).expect("events").len(), 1 << 16);
    assert_eq!(tail.lost, 10);

    // What goes to another host in pieces is the same there.
    let (mut courier, mut far) = (Courier::new(fd.as_fd()).expect("our own file"), Far::default());
    let pieces = courier.take(1, 4096);
    assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() <= 4096));
    pieces.iter().for_each(|piece| far.take(piece).expect("a courier's piece"));
    let (events, lost) = far.events(reader.start_nanos(), 0);
    assert_eq!((events.len(), lost), (1 << 16, tail.lost + 6));
    assert!(
        matches!(events.last(), Some(Event::Sent { at, peer: 0, .. }) if *at < 60_000_000_000),
        "since the start"
    );

    mpi_record::finished();
    assert!(!mpi_record::on());
    let block = reader.block(1).expect("a block");
    assert!(block.ended.is_some());
    assert_eq!(far.block(0, 0).ended, None, "nobody has told it yet");
    let pieces = courier.take(1, 4096);
    assert!(pieces.iter().map(Vec::len).sum::<usize>() < 400, "only what has changed");
    pieces.iter().for_each(|piece| far.take(piece).expect("a courier's piece"));
    let there = far.block(reader.start_nanos(), 0);
    assert_eq!((&there.peers, &there.put, there.others), (&block.peers, &block.put, block.others));
    assert_eq!(
        (&there.sizes_sent, &there.algorithms, there.pid),
        (&block.sizes_sent, &block.algorithms, block.pid)
    );
    assert!(there.begun.abs_diff(block.begun) < 1_000_000 && there.ended.is_some());
    // Its clock is an hour ahead of ours.
    let hour = 3_600_000_000_000;
    assert_eq!(far.block(reader.start_nanos(), hour).begun, 0);
    assert!(far.block(reader.start_nanos(), -hour).begun >= 3_600_000_000_000);
}

#[test]
fn strangers_are_refused() {
    let file = std::fs::File::open("/dev/null").expect("a device");
    assert!(mpi_record::attach(file.into(), 0).is_err());
}
