//! Communicators made by simulated processes.

mod common;

use common::{receive, ring, send, world_of};
use mpi_coll::InPlaceOr;
use mpi_comm::{
    Comm, Dest, ErrorHandler, Matched, NULL_SOURCE, OnCopy, Relation, Source, SplitKind, create_keyval,
    free_keyval,
};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{ErrorClass, Tag};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn duplicates_are_congruent_and_apart() {
    world_of(5, |p| {
        let world = p.world;
        let dup = world.dup().unwrap();
        assert_eq!(dup.compare(&world), Relation::Congruent);
        assert_eq!(world.compare(&world.clone()), Relation::Identical);
        assert_ne!(dup.context_id(), world.context_id());
        // A message on one is none on the other, though rank and tag are the same.
        if world.rank() == 0 {
            send(&world, Dest::Rank(1), 3, 1).unwrap();
            send(&dup, Dest::Rank(1), 3, 2).unwrap();
        }
        if world.rank() == 1 {
            assert_eq!(receive(&dup, Source::Any, Tag::Any).unwrap().0, 2);
            assert_eq!(receive(&world, Source::Any, Tag::Any).unwrap().0, 1);
        }
        ring(&dup);
        ring(&world);
    });
}

#[test]
fn ids_come_back_after_free() {
    world_of(3, |p| {
        for round in 0..600 {
            let dup = p.world.dup().unwrap();
            assert!(dup.context_id() < 256, "ids run away");
            if round % 100 == 0 {
                ring(&dup);
            }
        }
    });
}

#[test]
fn many_communicators_at_once() {
    world_of(2, |p| {
        let all: Vec<Comm> = (0..400).map(|_| p.world.dup().unwrap()).collect();
        let mut ids: Vec<u32> = all.iter().map(Comm::context_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 400);
        all.iter().step_by(37).for_each(ring);
    });
}

#[test]
fn split_orders_by_key_and_leaves_out_who_has_no_color() {
    world_of(6, |p| {
        let rank = p.world.rank() as i32;
        let color = if rank == 5 { None } else { Some(rank % 2) };
        let part = p.world.split(color, -rank).unwrap();
        match (part, rank) {
            (None, rank) => assert_eq!(rank, 5),
            (Some(part), rank) => {
                let expected: &[i32] = if rank % 2 == 0 { &[4, 2, 0] } else { &[3, 1] };
                assert_eq!(part.size() as usize, expected.len());
                assert_eq!(expected[part.rank() as usize], rank);
                ring(&part);
            }
        }
        assert_eq!(p.world.split(Some(-1), 0).unwrap_err().class, ErrorClass::Arg);
        let node = p.world.split_type(SplitKind::Shared, 0).unwrap();
        assert_eq!(node.compare(&p.world), Relation::Congruent);
    });
}

#[test]
fn split_by_node() {
    // A simulated world of odd size has two nodes: even and odd ranks.
    world_of(5, |p| {
        let node = p.world.split_type(SplitKind::Shared, -(p.world.rank() as i32)).unwrap();
        assert_eq!(node.size(), if p.world.rank() % 2 == 0 { 3 } else { 2 });
        ring(&node);
    });
}

#[test]
fn communicators_from_groups() {
    world_of(5, |p| {
        let world = p.world;
        let group = world.group().include(&[3, 1, 4]).unwrap();
        let made = world.create(&group).unwrap();
        assert_eq!(made.is_some(), matches!(world.rank(), 1 | 3 | 4));
        if let Some(comm) = &made {
            assert_eq!(comm.group().compare(&group), Relation::Identical);
            ring(comm);
        }
        // Only the members call; who is none gets none without asking anyone.
        if world.rank() == 0 {
            assert!(world.create_group(&group, 9).unwrap().is_none());
        } else if world.rank() != 2 {
            ring(&world.create_group(&group, 9).unwrap().unwrap());
        }
        let only_me = world.group().include(&[world.rank() as i32]).unwrap();
        ring(&world.create_group(&only_me, 0).unwrap().unwrap());
        if let Some(comm) = made {
            let error = comm.create_group(&world.group(), 1).unwrap_err();
            assert_eq!(error.class, ErrorClass::Group);
        }
    });
}

#[test]
fn immediate_duplicates_complete_in_any_order() {
    world_of(4, |p| {
        let world = p.world;
        let (a, b) = (world.dup().unwrap(), world.dup().unwrap());
        // Half of the ranks start the two in the other order, and make a third in between.
        let (first, second) = if world.rank() % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let (one, two) = (first.idup().unwrap(), second.idup().unwrap());
        let third = world.dup().unwrap();
        let (two, one) = (two.wait().unwrap(), one.wait().unwrap());
        ring(&third);
        if world.rank() % 2 == 0 {
            ring(&one);
            ring(&two);
        } else {
            ring(&two);
            ring(&one);
        }
        // One that nobody waits for does no harm.
        drop(world.idup().unwrap());
        ring(&world.dup().unwrap());
    });
}

#[test]
fn threads_create_at_once() {
    world_of(3, |p| {
        let parents: Vec<Comm> = (0..4).map(|_| p.world.dup().unwrap()).collect();
        std::thread::scope(|scope| {
            for (thread, parent) in parents.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..20 {
                        let comm = match (thread + round) % 3 {
                            0 => parent.dup().unwrap(),
                            1 => parent.split(Some(0), parent.rank() as i32).unwrap().unwrap(),
                            _ => parent.create_group(&parent.group(), thread as i32).unwrap().unwrap(),
                        };
                        ring(&comm);
                    }
                });
            }
        });
    });
}

#[test]
fn threads_create_groups_on_one_parent_by_tag() {
    world_of(3, |p| {
        let world = &p.world;
        std::thread::scope(|scope| {
            for tag in 0..4 {
                scope.spawn(move || {
                    for _ in 0..10 {
                        ring(&world.create_group(&world.group(), tag).unwrap().unwrap());
                    }
                });
            }
        });
    });
}

#[test]
fn attributes_follow_their_callbacks() {
    world_of(2, |p| {
        let deleted = Arc::new(AtomicUsize::new(0));
        let count = deleted.clone();
        let copied = create_keyval(
            OnCopy::Call(Box::new(|comm, _, value| {
                assert_eq!(comm.size(), 2);
                Ok((value != 13).then_some(value + 1))
            })),
            Some(Box::new(move |comm, _, value| {
                // The communicator is whole while it is freed.
                assert!(comm.size() == 2 && value > 0);
                count.fetch_add(value, Ordering::Relaxed);
                Ok(())
            })),
        );
        let left = create_keyval(OnCopy::Leave, None);
        let same = create_keyval(OnCopy::Same, None);
        let comm = p.world.dup().unwrap();
        assert_eq!(comm.attribute(copied).unwrap(), None);
        comm.set_attribute(copied, 10).unwrap();
        comm.set_attribute(left, 20).unwrap();
        comm.set_attribute(same, 30).unwrap();
        let dup = comm.dup().unwrap();
        assert_eq!(dup.attribute(copied).unwrap(), Some(11));
        assert_eq!(dup.attribute(left).unwrap(), None);
        assert_eq!(dup.attribute(same).unwrap(), Some(30));
        dup.set_attribute(copied, 100).unwrap();
        assert_eq!(deleted.load(Ordering::Relaxed), 11, "the old value is deleted");
        let other = dup.clone();
        drop(dup);
        assert_eq!(deleted.load(Ordering::Relaxed), 11, "a handle is left");
        other.free().unwrap();
        assert_eq!(deleted.load(Ordering::Relaxed), 111);
        comm.set_attribute(copied, 13).unwrap();
        assert_eq!(comm.idup().unwrap().wait().unwrap().attribute(copied).unwrap(), None);
        free_keyval(left).unwrap();
        assert_eq!(comm.attribute(left).unwrap(), Some(20), "it stays while it is used");
        comm.delete_attribute(left).unwrap();
        assert_eq!(comm.attribute(left).unwrap_err().class, ErrorClass::Keyval);
        assert_eq!(comm.delete_attribute(same).map_err(|e| e.class), Ok(()));
        assert_eq!(comm.delete_attribute(same).unwrap_err().class, ErrorClass::Keyval);
    });
}

#[test]
fn a_failing_copy_callback_fails_the_duplicate() {
    world_of(2, |p| {
        let key = create_keyval(OnCopy::Call(Box::new(|_, _, _| Err(42))), None);
        p.world.set_attribute(key, 1).unwrap();
        let text = p.world.dup().unwrap_err().to_string();
        assert!(text.contains("error 42") && text.contains("MPI_COMM_WORLD"), "{text}");
        p.world.delete_attribute(key).unwrap();
        ring(&p.world.dup().unwrap());
    });
}

#[test]
fn grids() {
    world_of(7, |p| {
        let world = p.world;
        assert_eq!(world.cart_map(&[2, 3], &[true, false]).unwrap(), Some(world.rank()).filter(|r| *r < 6));
        assert_eq!(world.cart_map(&[0, 3], &[true, false]).unwrap(), None);
        assert_eq!(world.cart_create(&[4, 2], &[false, false], true).unwrap_err().class, ErrorClass::Dims);
        let grid = world.cart_create(&[2, 3], &[true, false], true).unwrap();
        let Some(grid) = grid else {
            assert_eq!(world.rank(), 6);
            return;
        };
        assert_eq!(grid.rank(), world.rank(), "reordering keeps the ranks");
        ring(&grid);
        let coords = grid.cartesian().unwrap().coords(grid.rank() as i32).unwrap();
        let (left, right) = grid.cart_shift(1, 1).unwrap();
        assert_eq!(left.is_none(), coords[1] == 0);
        assert_eq!(right.is_none(), coords[1] == 2);
        let row = grid.cart_sub(&[false, true]).unwrap();
        assert_eq!((row.size(), row.rank() as i32), (3, coords[1]));
        assert_eq!(row.cartesian().unwrap().periods(), [false]);
        ring(&row);
        let point = grid.cart_sub(&[false, false]).unwrap();
        assert_eq!((point.size(), point.cartesian().unwrap().places()), (1, 1));
        assert_eq!(grid.dup().unwrap().cartesian().unwrap().dims(), [2, 3]);
        assert_eq!(grid.neighbours().unwrap().0.len(), 4);
        assert_eq!(world.cart_shift(0, 1).unwrap_err().class, ErrorClass::Topology);
    });
}

#[test]
fn graphs() {
    world_of(5, |p| {
        let world = p.world;
        let graph = world.graph_create(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], false).unwrap();
        assert_eq!(graph.is_some(), world.rank() < 4);
        if let Some(comm) = graph {
            ring(&comm);
            let neighbours = comm.graph().unwrap().neighbours(comm.rank() as i32).unwrap().to_vec();
            let all: [&[u32]; 4] = [&[1, 3], &[0], &[3], &[0, 2]];
            assert_eq!(neighbours, all[comm.rank() as usize]);
        }
        // Rank 0 knows the edges of a ring, and nobody else any.
        let edges: Vec<i32> = (0..5).map(|rank| (rank + 1) % 5).collect();
        let from: Vec<i32> = (0..5).collect();
        let weights = [1, 2, 3, 4, 5];
        let comm = match world.rank() {
            0 => world.dist_graph_create(&from, &[1; 5], &edges, Some(&weights), false),
            _ => world.dist_graph_create(&[], &[], &[], Some(&[]), false),
        };
        let comm = comm.unwrap();
        let mine = comm.dist_graph().unwrap();
        let rank = world.rank();
        assert_eq!(
            (mine.sources.as_slice(), mine.destinations.as_slice()),
            (&[(rank + 4) % 5][..], &[(rank + 1) % 5][..])
        );
        let expected = (vec![(rank as i32 + 4) % 5 + 1], vec![rank as i32 + 1]);
        assert_eq!(mine.weights, Some(expected));
        ring(&comm);
    });
}

/// Each of three lets go of the communicator with the next first: were anybody waited for, nobody would get on.
#[test]
fn disconnecting_waits_for_nobody_in_a_circle() {
    world_of(3, |p| {
        let (world, me) = (p.world, p.self_comm);
        let rank = world.rank() as i32;
        let (next, previous) = ((rank + 1) % 3, (rank + 2) % 3);
        let with = |other: i32| me.intercomm_create(0, Some((&world, other)), rank + other).unwrap();
        // The pairs come about one after the other, not in a circle.
        let (to_next, to_previous) = if rank == 0 {
            let to_next = with(next);
            (to_next, with(previous))
        } else {
            let to_previous = with(previous);
            (with(next), to_previous)
        };
        for inter in [&to_next, &to_previous] {
            send(inter, Dest::Rank(0), 1, rank).unwrap();
        }
        assert_eq!(receive(&to_next, Source::Any, Tag::Any).unwrap().0, next);
        assert_eq!(receive(&to_previous, Source::Any, Tag::Any).unwrap().0, previous);
        to_next.disconnect().unwrap();
        to_previous.disconnect().unwrap();
    });
}

#[test]
fn inter_communicators() {
    world_of(5, |p| {
        let world = p.world;
        let rank = world.rank();
        let low = rank < 2;
        let half = world.split(Some(i32::from(!low)), 0).unwrap().unwrap();
        let peer = if half.rank() == 0 { Some((&world, if low { 2 } else { 0 })) } else { None };
        let inter = half.intercomm_create(0, peer, 5).unwrap();
        assert!(inter.is_inter());
        assert_eq!((inter.size(), inter.remote_size()), if low { (2, 3) } else { (3, 2) });
        talk_across(&inter);
        let dup = inter.dup().unwrap();
        assert_eq!(dup.compare(&inter), Relation::Congruent);
        talk_across(&dup);
        talk_across(&inter.idup().unwrap().wait().unwrap());

        let merged = inter.merge(low).unwrap();
        let order: [u32; 5] = [3, 4, 0, 1, 2];
        assert_eq!(merged.rank(), order[rank as usize], "the low group comes last");
        ring(&merged);
        let merged = inter.merge(false).unwrap();
        ring(&merged);

        // Ranks 0 of both sides on one color, the rest on another that only one side has.
        let color = if half.rank() == 0 {
            0
        } else if low {
            1
        } else {
            2
        };
        let part = inter.split(Some(color), 0).unwrap();
        assert_eq!(part.is_some(), half.rank() == 0);
        part.iter().for_each(talk_across);
        let keep = inter.group().include(&[1]).unwrap();
        let part = inter.create(&keep).unwrap();
        assert_eq!(part.is_some(), half.rank() == 1);
        part.iter().for_each(talk_across);
    });
}

/// Rank 0 of each side sends to all of the other.
fn talk_across(inter: &Comm) {
    if inter.rank() == 0 {
        for rank in 0..inter.remote_size() as i32 {
            send(inter, Dest::Rank(rank), 1, inter.size() as i32).unwrap();
        }
    }
    let (value, status) = receive(inter, Source::Any, Tag::Is(1)).unwrap();
    assert_eq!((value as u32, status.source), (inter.remote_size(), 0));
    let error = send(inter, Dest::Rank(inter.remote_size() as i32), 1, 0).unwrap_err();
    assert!(error.to_string().contains("remote group"), "{error}");
}

#[test]
fn collectives_are_apart_from_messages_and_from_each_other() {
    world_of(4, |p| {
        let comm = p.world.split(Some(0), -(p.world.rank() as i32)).unwrap().unwrap();
        let word = Datatype::predefined(Primitive::I64);
        let (mine, mut sum) = (i64::from(comm.rank()) + 1, 0i64);
        // SAFETY: both numbers live until the blocking call is over, and nobody else looks at `sum`.
        let (from, into) = unsafe {
            (SendBuf::new((&raw const mine).cast(), 1, &word), RecvBuf::new((&raw mut sum).cast(), 1, &word))
        };
        let barrier = comm.ibarrier().unwrap();
        comm.allreduce(InPlaceOr::Buf(from), into, &Op::Sum).unwrap();
        assert_eq!(sum, 10);
        ring(&comm);
        comm.engine().wait(barrier).unwrap();
        p.world.barrier().unwrap();
        assert_eq!(comm.broadcast(into, 4).unwrap_err().class, ErrorClass::Root);
    });
}

#[test]
fn errors_carry_the_facts() {
    world_of(2, |p| {
        let comm = p.world.dup().unwrap();
        comm.set_name("grid");
        for (text, error) in [
            ("send on \"grid\"", send(&comm, Dest::Rank(2), 1, 0).unwrap_err()),
            ("rank 2 is not in the communicator of size 2", send(&comm, Dest::Rank(2), 1, 0).unwrap_err()),
            ("rank -1", send(&comm, Dest::Rank(-1), 1, 0).unwrap_err()),
            ("tag -5", send(&comm, Dest::Rank(0), -5, 0).unwrap_err()),
            ("tag -5", send(&comm, Dest::Null, -5, 0).unwrap_err()),
            ("rank 9", receive(&comm, Source::Rank(9), Tag::Any).unwrap_err()),
            ("receive on \"grid\"", receive(&comm, Source::Any, Tag::Is(-2)).unwrap_err()),
        ] {
            assert!(error.to_string().contains(text), "{error} does not say {text}");
        }
    });
}

#[test]
fn error_handlers_run_at_the_face() {
    world_of(1, |p| {
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = calls.clone();
        let comm = p.world.dup().unwrap();
        assert!(matches!(comm.error_handler(), ErrorHandler::Return), "a duplicate inherits");
        comm.set_error_handler(ErrorHandler::User(Arc::new(move |comm, error, _| {
            assert_eq!((comm.size(), error.class), (1, ErrorClass::Rank));
            seen.fetch_add(1, Ordering::Relaxed);
        })));
        let result = send(&comm, Dest::Rank(4), 0, 0);
        assert_eq!(calls.load(Ordering::Relaxed), 0, "calls run no handler");
        assert_eq!(comm.handle(result).unwrap_err().class, ErrorClass::Rank);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn the_null_process_answers_at_once() {
    world_of(1, |p| {
        let comm = p.world;
        send(&comm, Dest::Null, 0, 1).unwrap();
        let (value, status) = receive(&comm, Source::Null, Tag::Is(4)).unwrap();
        assert_eq!((value, status.source, status.bytes), (i32::MIN, NULL_SOURCE, 0));
        assert_eq!(comm.probe(Source::Null, Tag::Any).unwrap().source, NULL_SOURCE);
        let (message, _) = comm.mprobe(Source::Null, Tag::Any).unwrap();
        assert!(matches!(message, Matched::Null));
        let buffer = SendBuf::packed(&[1, 2]);
        let request = comm.isend(Dest::Null, 0, buffer, mpi_p2p::SendMode::Synchronous).unwrap();
        comm.engine().wait(request).unwrap();
        let mut room = [0; 2];
        let request = comm.irecv(Source::Null, Tag::Any, RecvBuf::packed(&mut room)).unwrap();
        assert_eq!(comm.engine().wait(request).unwrap().source, NULL_SOURCE);
    });
}

#[test]
fn names_are_cut_at_a_character() {
    world_of(1, |p| {
        assert_eq!(p.world.name(), "MPI_COMM_WORLD");
        assert_eq!(p.self_comm.name(), "MPI_COMM_SELF");
        let comm = p.world.dup().unwrap();
        assert_eq!(comm.name(), "");
        comm.set_name(&"ä".repeat(100));
        assert_eq!(comm.name(), "ä".repeat(63));
    });
}
