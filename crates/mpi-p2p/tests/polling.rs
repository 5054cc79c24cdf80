//! What an engine says of operations that no call waits for.

mod common;

use common::{World, recv_of, send_of};
use mpi_btl::Ep;
use mpi_btl_sim::SimConfig;
use mpi_p2p::{Limits, SendMode, Source, Tag};

fn calm(n: usize) -> World {
    World::new(1, SimConfig::calm(n), Limits::default())
}

#[test]
fn open_operations_are_told_with_whom_they_wait_for() {
    let w = calm(3);
    let cx = w.contexts(0);
    cx[0].set_name("grid");
    let (mut one, mut two) = ([0_u8; 4], [0_u8; 4]);
    w.engines[0].irecv(&cx[0], Source::Rank(2), Tag::Is(7), recv_of(&mut one)).unwrap();
    w.engines[0].irecv(&cx[0], Source::Any, Tag::Any, recv_of(&mut two)).unwrap();
    let report = w.engines[0].report();
    let said: Vec<_> = report.open.iter().map(|o| (o.text.as_str(), o.waits_for.clone())).collect();
    assert_eq!(
        said,
        [
            ("receive on \"grid\" from rank 2 tag 7", vec![Ep(2)]),
            ("receive on \"grid\" from any rank any tag", vec![Ep(1), Ep(2)]),
        ]
    );
    assert_eq!((report.open_total, report.fruitless, report.probed), (2, 0, None));
}

#[test]
fn looks_in_vain_are_counted() {
    let w = calm(2);
    let cx = w.contexts(0);
    let mut room = [0_u8; 4];
    let id = w.engines[0].irecv(&cx[0], Source::Rank(1), Tag::Is(3), recv_of(&mut room)).unwrap();
    assert!(w.engines[0].test(id).unwrap().is_none());
    assert!(w.engines[0].iprobe(&cx[0], Source::Rank(1), Tag::Is(8)).unwrap().is_none());
    let report = w.engines[0].report();
    assert_eq!(report.fruitless, 2);
    let probed = report.probed.expect("what was probed for");
    assert_eq!(probed.text, "a message on \"world\" from rank 1 tag 8");
    assert_eq!(probed.waits_for, [Ep(1)]);
    w.engines[1].isend(&cx[1], 0, 3, send_of(&[1; 4]), SendMode::Standard).unwrap();
    w.settle();
    assert!(w.engines[0].test(id).unwrap().is_some());
    assert_eq!(w.engines[0].report().fruitless, 2, "one that found something is none");
}

/// A large message that has found its receive needs no act of anybody: nothing wrong is concluded of a transfer.
#[test]
fn data_under_way_wait_for_nobody() {
    let w = calm(2);
    let cx = w.contexts(0);
    let (data, mut room) = (vec![1_u8; 4 << 20], vec![0_u8; 4 << 20]);
    let send = w.engines[0].isend(&cx[0], 1, 0, send_of(&data), SendMode::Standard).unwrap();
    assert_eq!(w.engines[0].report().open[0].waits_for, [Ep(1)], "nobody has posted a receive");
    let receive = w.engines[1].irecv(&cx[1], Source::Rank(0), Tag::Is(0), recv_of(&mut room)).unwrap();
    assert_eq!(w.engines[1].report().open[0].waits_for, [Ep(0)]);
    let mut was_moving = false;
    for _ in 0..1_000_000 {
        w.engines.iter().for_each(|engine| engine.progress());
        w.net.advance();
        let open = w.engines[1].report().open;
        was_moving |= open.first().is_some_and(|open| open.waits_for.is_empty());
        if open.is_empty() {
            break;
        }
    }
    assert!(was_moving, "it was never told as being under way");
    w.settle();
    assert!(w.engines[1].test(receive).unwrap().is_some() && w.engines[0].test(send).unwrap().is_some());
    assert_eq!(data, room);
}
