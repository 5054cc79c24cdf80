//! A peer that sends whatever it likes: nothing panics, nothing is taken on its word, and the worst
//! that happens is that it counts as gone.

mod common;

use common::queue::Queues;
use common::{World, recv_of, send_of};
use mpi_btl::{Am, Body, BtlTx, Ep};
use mpi_btl_sim::Rng;
use mpi_p2p::{Limits, SendMode, Source, Tag};
use mpi_wire::control::{Acknowledge, Announcement, ClearToSend, Flow, Outcome};
use mpi_wire::{ANNOUNCEMENT, Header, reserved};

/// A number that is often small, and often the name of a live operation (slot and generation).
fn number(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => rng.below(70),
        1 => rng.below(8) | (1 + rng.below(3)) << 32,
        2 => 1 << rng.below(64),
        _ => rng.next_u64(),
    }
}

fn body(rng: &mut Rng, context: u32, announced: bool) -> Vec<u8> {
    if rng.below(6) == 0 {
        return (0..rng.below(80)).map(|_| rng.next_u64() as u8).collect();
    }
    let (op, outcome) = (number(rng), if rng.below(2) == 0 { Outcome::Taken } else { Outcome::Dropped });
    match context {
        _ if announced => {
            let pull = (rng.below(3) == 0).then_some([7; 40]);
            let total = number(rng);
            let mut all = Announcement { total, op, sync: rng.below(2) == 0, pull }.encode().to_vec();
            if rng.below(2) == 0 {
                all.resize(all.len() + (total % 3000) as usize, 1);
            }
            all
        }
        reserved::CLEAR_TO_SEND => {
            ClearToSend { op, into: number(rng), offset: number(rng), length: number(rng) }.encode().to_vec()
        }
        reserved::ACKNOWLEDGE | reserved::CANCEL => Acknowledge { op, outcome }.encode().to_vec(),
        reserved::FLOW => Flow { announce: rng.below(2) == 0, held: op }.encode().to_vec(),
        _ => vec![5; rng.below(6000) as usize],
    }
}

fn message(rng: &mut Rng, tx: &mut dyn BtlTx) {
    let context = match rng.below(14) {
        0 => reserved::CLEAR_TO_SEND,
        1 => reserved::ACKNOWLEDGE,
        2 => reserved::CANCEL,
        3 => reserved::FLOW,
        4 | 5 => reserved::RENDEZVOUS_DATA,
        6 if rng.below(20) == 0 => reserved::ABORT,
        7 if rng.below(20) == 0 => reserved::FIRST + 3,
        8 if rng.below(10) == 0 => rng.next_u64() as u32,
        9 => 4,
        _ => 0,
    };
    let announced = rng.below(3) == 0 && !reserved::is_reserved(context);
    let body = body(rng, context, announced);
    let datatype =
        if announced { ANNOUNCEMENT } else { 0 } | if rng.below(4) == 0 { number(rng) as u32 } else { 6 };
    let source = if rng.below(30) == 0 { number(rng) as i32 } else { 1 };
    let tag = if rng.below(30) == 0 { number(rng) as i32 } else { rng.below(3) as i32 };
    let header =
        Header { context, source, dest: 0, tag, count: number(rng), datatype, length: body.len() as u64 };
    tx.send(Ep(0), Am { header, body: Body::Bytes(&body), more: false }).unwrap();
}

#[test]
fn a_hostile_peer_harms_nobody_but_itself() {
    let mut survived = 0;
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let mut queues = Queues::new(3);
        let ends: Vec<_> = (0..3).map(|i| queues.endpoint(i)).collect();
        let mut ends = ends.into_iter();
        let (honest_0, hostile, honest_2) = (ends.next(), ends.next(), ends.next());
        let (mut tx, _rx) = hostile.unwrap();
        let mut ends = [honest_0, None, honest_2];
        let w = World::of(3, &[0, 2], Limits::default(), |i| ends[i].take().unwrap());
        let (e, cx) = (&w.engines[0], w.context_of(0, 0, 3));
        let (other, cx2) = (&w.engines[1], w.context_of(1, 0, 3));
        let data = vec![1u8; 40_000];
        let mut rooms: Vec<Vec<u8>> = (0..200).map(|_| vec![0; 5000]).collect();
        for room in &mut rooms {
            match rng.below(8) {
                0 => _ = e.irecv(&cx, Source::Rank(1), Tag::Any, recv_of(room)),
                1 => _ = e.irecv(&cx, Source::Any, Tag::Is(rng.below(3) as i32), recv_of(room)),
                2 => {
                    let len = [10, 3000, 40_000][rng.below(3) as usize];
                    let mode = if rng.below(2) == 0 { SendMode::Standard } else { SendMode::Synchronous };
                    if let Ok(id) = e.isend(&cx, 1, 0, send_of(&data[..len]), mode) {
                        if rng.below(3) == 0 {
                            _ = e.cancel(id);
                        }
                    }
                }
                3 => {
                    if let Ok(Some((m, _))) = e.improbe(&cx, Source::Rank(1), Tag::Any) {
                        _ = e.imrecv(m, recv_of(room));
                    }
                }
                _ => message(&mut rng, &mut *tx),
            }
            e.progress();
        }
        survived += u64::from(w.fatal.lock().unwrap().is_empty());
        // The honest ones still talk to each other.
        let mut room = vec![0u8; 40_000];
        let id = other.irecv(&cx2, Source::Rank(0), Tag::Is(9), recv_of(&mut room)).unwrap();
        let sent = e.isend(&cx, 2, 9, send_of(&data), SendMode::Standard).unwrap();
        let mut done = false;
        for _ in 0..100 {
            e.progress();
            done |= other.test(id).ok().flatten().is_some();
            if done {
                break;
            }
        }
        assert!(done && room == data, "seed {seed}");
        assert!(e.test(sent).unwrap().is_some(), "seed {seed}");
    }
    assert!(survived < 1500, "no violation was ever found out");
}
