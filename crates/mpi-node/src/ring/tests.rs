//! Tests of both ends together.

pub(crate) mod testing {
    use super::super::*;
    use crate::primitive::AtomicU32;

    struct Owned {
        returned: Returned,
        cells: Vec<Cell>,
        body: Vec<BodyLine>,
    }
    // SAFETY: tests hand the parts to one producer and one consumer only.
    unsafe impl Sync for Owned {}

    pub(crate) fn pair(cells: u32, body_lines: u32) -> (Producer, Consumer) {
        let owned = Arc::new(Owned {
            returned: Returned::new(0),
            cells: (0..cells)
                .map(|_| Cell {
                    flag: AtomicU32::new(0),
                    data: UnsafeCell::new(Data { head: [0; HEAD_WORDS], body: [0; FIRST_BYTES] }),
                })
                .collect(),
            body: (0..body_lines).map(|_| BodyLine(UnsafeCell::new([0; LINE]))).collect(),
        });
        let memory = RingMemory {
            returned: &owned.returned,
            cells: owned.cells.as_ptr(),
            cell_count: cells,
            body: owned.body.as_ptr(),
            body_lines,
            alive: owned.clone(),
        };
        // SAFETY: zeroed, kept alive by `alive`, one end each.
        unsafe { (Producer::new(memory.clone()), Consumer::new(memory)) }
    }
}

#[cfg(not(loom))]
mod real {
    use super::super::*;
    use super::testing;
    use crate::primitive::Ordering;

    fn pattern(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| (seed * 31 + i) as u8).collect()
    }

    #[test]
    fn every_length_comes_through_in_order() {
        let (mut producer, mut consumer) = testing::pair(16, 32);
        for len in (0..producer.largest_body()).chain([40, 41, 64, 65]) {
            let body = pattern(len, len);
            let (first, second) = body.split_at(len / 3);
            producer.push(7, [len as u32, 2, 3, 4, 5], first, second).expect("drained");
            let mut seen = false;
            let popped = consumer.pop(|m| {
                assert_eq!((m.mark, m.head), (7, [len as u32, 2, 3, 4, 5]));
                assert_eq!(m.body, &body[..]);
                seen = true;
            });
            assert!(seen && matches!(popped, Popped::Message | Popped::Returned));
            assert_eq!(consumer.pop(|_| unreachable!()), Popped::Empty);
        }
    }

    #[test]
    fn full_takes_nothing_and_ends_when_drained() {
        let (mut producer, mut consumer) = testing::pair(8, 16);
        for lap in 0..70_000_u32 {
            let mut sent = 0;
            while producer.push(0, [lap, sent, 0, 0, 0], &[1; 200][..(sent as usize * 60) % 200], &[]).is_ok()
            {
                sent += 1;
            }
            assert!(sent >= 2);
            for expected in 0..sent {
                consumer.pop(|m| assert_eq!(m.head[..2], [lap, expected]));
            }
            assert_eq!(consumer.pop(|_| unreachable!()), Popped::Empty);
        }
    }

    /// Every counter of both ends goes round in the middle of it, alone and together.
    #[test]
    fn counters_go_round_unnoticed() {
        const SOON: u32 = u32::MAX - 5_000;
        for (lap, cells, body) in [
            (u16::MAX - 2, 0, 0),
            (1, u32::MAX - 20, 0),
            (1, 0, SOON),
            (u16::MAX - 1, u32::MAX - 9, SOON),
            (u16::MAX, u32::MAX, u32::MAX - 63),
        ] {
            let (producer, consumer) = testing::pair(8, 64);
            let (mut producer, mut consumer) =
                (producer.aged(lap, cells, body), consumer.aged(lap, cells, body));
            let (mut sent, mut got) = (0_usize, 0_usize);
            // Lengths of one cell, of two, and of the area beside; filled to the brim, then drained by turns.
            let length = |at: usize| [4, 90, 700, 41, 0, 1200, 40][at % 7];
            let take = |consumer: &mut Consumer, got: &mut usize| {
                let popped = consumer.pop(|m| {
                    assert_eq!((m.mark, m.head), (*got as u8, [*got as u32; HEAD_WORDS]));
                    assert_eq!(m.body, &pattern(*got, length(*got))[..]);
                });
                assert!(matches!(popped, Popped::Message | Popped::Returned), "{popped:?}");
                *got += 1;
            };
            for drained in 0..200 {
                while producer
                    .push(sent as u8, [sent as u32; HEAD_WORDS], &pattern(sent, length(sent)), &[])
                    .is_ok()
                {
                    sent += 1;
                }
                let room = producer.watch(length(sent));
                assert!(!room.is_open());
                assert!(sent > got && sent - got <= 8);
                while !room.is_open() || drained % 3 == 0 && got < sent {
                    take(&mut consumer, &mut got);
                }
            }
            while got < sent {
                take(&mut consumer, &mut got);
            }
            assert_eq!(consumer.pop(|_| unreachable!()), Popped::Empty);
            assert!(sent > 500, "{sent}");
        }
    }

    /// A cell that was a following one for as many laps as the counter tells apart must not look like a
    /// message of the lap in which it is to be a first one; neither as it was at first nor as it was left.
    #[test]
    fn a_cell_that_was_never_first_is_no_message_when_the_laps_wrap() {
        const CELLS: u32 = 4;
        let push = |producer: &mut Producer, len: usize| {
            producer.push(9, [len as u32; HEAD_WORDS], &pattern(len, len), &[]).expect("drained");
        };
        let pop = |consumer: &mut Consumer, len: usize| {
            let popped = consumer.pop(|m| {
                assert_eq!((m.mark, m.head), (9, [len as u32; HEAD_WORDS]));
                assert_eq!(m.body, &pattern(len, len)[..]);
            });
            assert!(matches!(popped, Popped::Message | Popped::Returned), "{popped:?}");
        };
        for laps_of_single in [0, 1] {
            let (mut producer, mut consumer) = testing::pair(CELLS, 32);
            for _ in 0..laps_of_single * CELLS {
                push(&mut producer, 8);
                pop(&mut consumer, 8);
            }
            for _ in 0..u32::from(u16::MAX) * CELLS / 2 {
                push(&mut producer, INLINE_BYTES);
                pop(&mut consumer, INLINE_BYTES);
            }
            for _ in 0..3 * CELLS {
                push(&mut producer, 8);
                pop(&mut consumer, 8);
                assert!(!consumer.ready());
                assert_eq!(consumer.pop(|m| panic!("{m:?}")), Popped::Empty);
            }
        }
    }

    #[test]
    fn two_threads() {
        let (mut producer, mut consumer) = testing::pair(64, 64);
        const COUNT: u32 = 20_000;
        let sender = std::thread::spawn(move || {
            for i in 0..COUNT {
                let body = pattern(i as usize, i as usize % 300);
                while producer.push(0, [i; HEAD_WORDS], &body, &[]).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < COUNT {
            let popped = consumer.pop(|m| {
                assert_eq!(m.head, [next; HEAD_WORDS]);
                assert_eq!(m.body, &pattern(next as usize, next as usize % 300)[..]);
                next += 1;
            });
            if popped == Popped::Empty {
                assert!(!sender.is_finished() || consumer.ready() || next == COUNT, "messages are lost");
                std::thread::yield_now();
            }
        }
        sender.join().expect("no panic");
    }

    #[test]
    fn a_cell_that_points_outside_is_refused() {
        let (mut producer, mut consumer) = testing::pair(8, 16);
        producer.push(0, [0; HEAD_WORDS], &[1; 200], &[]).expect("room");
        producer.memory.cell(0).data.with_mut(|d| {
            // SAFETY: single-threaded test.
            let data = unsafe { &mut *d };
            data.body[0..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        });
        assert_eq!(consumer.pop(|_| unreachable!()), Popped::Corrupt);
        producer.push(0, [0; HEAD_WORDS], &[1], &[]).expect("room");
        producer.memory.cell(1).flag.store(1 | (INLINE_BYTES as u32 + 1) << 24, Ordering::Relaxed);
        assert_eq!(consumer.pop(|_| unreachable!()), Popped::Corrupt);
    }
}

#[cfg(loom)]
mod model {
    use super::super::*;
    use super::testing;

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (mut producer, mut consumer) = testing::pair(2, 16);
            let sender = loom::thread::spawn(move || {
                for i in 0..3_u32 {
                    let body = [i as u8; 192];
                    // One cell, two cells, outside and announced.
                    let len = [8, 60, 192][i as usize];
                    while producer.push(0, [i; HEAD_WORDS], &body[..len], &[]).is_err() {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < 3 {
                let popped = consumer.pop(|m| {
                    assert_eq!(m.head, [next; HEAD_WORDS]);
                    next += 1;
                });
                if popped == Popped::Empty {
                    loom::thread::yield_now();
                }
            }
            sender.join().unwrap();
        });
    }
}
