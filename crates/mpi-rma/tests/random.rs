//! Random programs against a serial model, over a rough simulated network: many origins, overlapping accumulates,
//! every kind of epoch, derived datatypes on both sides. `MPI_RMA_SEED=n` runs one program.

mod common;

use common::{Rng, world_of};
use mpi_btl_sim::SimConfig;
use mpi_comm::{Comm, Dest, Info};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_rma::{Assert, LockKind, Options, Target, Window};

static U64: Datatype = Datatype::predefined(Primitive::U64);

/// Words of each rank's part: the first are accumulated to by all, then each origin has some of its own.
const SHARED: usize = 40;
const OWN: usize = 300;
const ROUNDS: u64 = 8;

/// What one origin does to one target in one round.
enum Deed {
    /// Adds values to shared words, `step` apart.
    Add { first: usize, step: usize, values: Vec<u64> },
    /// Writes to its own words of the target, `step` apart.
    Put { first: usize, step: usize, values: Vec<u64> },
}

fn deeds(seed: u64, round: u64, origin: usize, size: usize) -> Vec<(usize, Deed)> {
    let mut rng = Rng(seed ^ round << 40 ^ (origin as u64) << 20);
    let many = 1 + rng.below(6);
    let deed = |rng: &mut Rng| {
        let target = rng.below(size);
        let step = 1 + rng.below(3);
        let (room, base) = if rng.below(2) == 0 { (SHARED, 0) } else { (OWN, SHARED + origin * OWN) };
        let n = 1 + rng.below(room / step);
        let first = base + rng.below(room - (n - 1) * step);
        let values = (0..n).map(|_| rng.next()).collect();
        let deed = match base {
            0 => Deed::Add { first, step, values },
            _ => Deed::Put { first, step, values },
        };
        (target, deed)
    };
    (0..many).map(|_| deed(&mut rng)).collect()
}

fn apply(memory: &mut [u64], deed: &Deed) {
    match deed {
        Deed::Add { first, step, values } => values
            .iter()
            .enumerate()
            .for_each(|(i, v)| memory[first + i * step] = memory[first + i * step].wrapping_add(*v)),
        Deed::Put { first, step, values } => {
            values.iter().enumerate().for_each(|(i, v)| memory[first + i * step] = *v);
        }
    }
}

fn send(values: &[u64]) -> SendBuf<'_> {
    // SAFETY: a borrowed slice; data are copied before the call that takes it returns.
    unsafe { SendBuf::new(values.as_ptr().cast(), values.len(), &U64) }
}

fn room(values: &mut [u64]) -> RecvBuf<'_> {
    // SAFETY: a borrowed slice, looked at after a flush or the end of the epoch.
    unsafe { RecvBuf::new(values.as_mut_ptr().cast(), values.len(), &U64) }
}

fn words(target: usize, at: usize, count: usize) -> Target<'static> {
    Target { rank: Dest::Rank(target as i32), at: at as i64, count, datatype: &U64 }
}

fn perform(window: &Window, target: usize, deed: &Deed) {
    let (Deed::Add { first, step, values } | Deed::Put { first, step, values }) = deed;
    let vector = Datatype::vector(values.len(), 1, *step as isize, &U64).unwrap().commit();
    let there = match step {
        1 => words(target, *first, values.len()),
        _ => Target { count: 1, datatype: &vector, ..words(target, *first, 0) },
    };
    match deed {
        Deed::Add { .. } => window.accumulate(send(values), there, &Op::Sum).unwrap(),
        Deed::Put { .. } => window.put(send(values), there).unwrap(),
    }
}

fn memory_of(window: &Window) -> &[u64] {
    // SAFETY: this rank's part, between two barriers of the test.
    unsafe { std::slice::from_raw_parts(window.base().cast(), window.size() / 8) }
}

fn program(seed: u64, world: &Comm) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let length = SHARED + size * OWN;
    let mut user = vec![0_u64; length];
    let options = Options::new(length * 8, 8);
    let window = if seed % 2 == 0 {
        Window::allocate(world, &options).unwrap()
    } else {
        // SAFETY: it lives until the window is freed, and is looked at between epochs only.
        unsafe { Window::create(world, user.as_mut_ptr().cast(), &options) }.unwrap()
    };
    let everybody: Vec<u32> = (0..size as u32).collect();
    let mut model = vec![vec![0_u64; length]; size];
    for round in 0..ROUNDS {
        let mine = deeds(seed, round, me, size);
        let go = |window: &Window| mine.iter().for_each(|(target, deed)| perform(window, *target, deed));
        match (seed + round) % 4 {
            0 => {
                window.fence(Assert::default()).unwrap();
                go(&window);
                window.fence(Assert { no_succeed: true, ..Assert::default() }).unwrap();
            }
            1 => {
                window.post(&everybody, Assert::default()).unwrap();
                window.start(&everybody, Assert::default()).unwrap();
                go(&window);
                window.complete().unwrap();
                while !window.test().unwrap() {}
            }
            2 => {
                window.lock_all(Assert::default()).unwrap();
                go(&window);
                window.flush_all().unwrap();
                window.unlock_all().unwrap();
            }
            _ => {
                for (target, deed) in &mine {
                    let kind = [LockKind::Shared, LockKind::Exclusive][*target % 2];
                    window.lock(kind, *target as u32, Assert::default()).unwrap();
                    perform(&window, *target, deed);
                    window.unlock(*target as u32).unwrap();
                }
            }
        }
        world.barrier().unwrap();
        for origin in 0..size {
            for (target, deed) in deeds(seed, round, origin, size) {
                apply(&mut model[target], &deed);
            }
        }
        assert_eq!(memory_of(&window), &model[me][..], "seed {seed} round {round} rank {me}");
        world.barrier().unwrap();
        // What others hold is what the model says, read in two ways.
        let other = (me + 1 + round as usize) % size;
        let (mut plain, mut atomic) = (vec![0; length], vec![0; SHARED]);
        window.lock(LockKind::Shared, other as u32, Assert::default()).unwrap();
        let request = window.rget(room(&mut plain), words(other, 0, length)).unwrap();
        window.get_accumulate(send(&[]), room(&mut atomic), words(other, 0, SHARED), &Op::NoOp).unwrap();
        world.engine().wait(request).unwrap();
        assert_eq!(plain, model[other]);
        window.unlock(other as u32).unwrap();
        assert_eq!(atomic, &model[other][..SHARED]);
        world.barrier().unwrap();
    }
    window.free().unwrap();
}

#[test]
fn programs_do_what_the_model_does() {
    let one = std::env::var("MPI_RMA_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = one.map_or(0..8, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let size = 2 + (seed % 3) as u32;
        world_of(seed, SimConfig::rough(size as usize), size, move |world, _| program(seed, &world));
    }
}

/// Reading, changing and writing back under an exclusive lock loses nothing; atomic operations need no lock.
#[test]
fn exclusive_locks_exclude_and_fetches_are_atomic() {
    const TIMES: u64 = 12;
    world_of(7, SimConfig::rough(4), 4, |world, _| {
        let window = Window::allocate(&world, &Options::new(32, 8)).unwrap();
        let me = world.rank() as usize;
        for _ in 0..TIMES {
            let mut value = [0];
            window.lock(LockKind::Exclusive, 1, Assert::default()).unwrap();
            window.get(room(&mut value), words(1, 2, 1)).unwrap();
            window.flush(1).unwrap();
            value[0] += 1;
            window.put(send(&value), words(1, 2, 1)).unwrap();
            window.unlock(1).unwrap();
        }
        let (mut tickets, mut old) = (Vec::new(), [0]);
        window.lock_all(Assert::default()).unwrap();
        for _ in 0..TIMES {
            window.fetch_and_op(send(&[1]), room(&mut old), Dest::Rank(0), 0, &Op::Sum).unwrap();
            window.flush_local(0).unwrap();
            tickets.push(old[0]);
            // One of all wins each value of the other word.
            loop {
                let (mut seen, mut was) = ([0], [0]);
                window.fetch_and_op(send(&[0]), room(&mut seen), Dest::Rank(0), 1, &Op::NoOp).unwrap();
                window.flush(0).unwrap();
                let next = [seen[0] + 1];
                window.compare_and_swap(send(&next), send(&seen), room(&mut was), Dest::Rank(0), 1).unwrap();
                window.flush(0).unwrap();
                if was == seen {
                    break;
                }
            }
        }
        window.unlock_all().unwrap();
        assert!(tickets.windows(2).all(|w| w[0] < w[1]), "of one origin in order");
        world.barrier().unwrap();
        let memory = memory_of(&window);
        match me {
            0 => assert_eq!(&memory[..2], [4 * TIMES, 4 * TIMES]),
            1 => assert_eq!(memory[2], 4 * TIMES),
            _ => {}
        }
        window.free().unwrap();
    });
}

/// Memory that comes and goes, by address.
#[test]
fn dynamic_windows_reach_what_is_attached_and_nothing_else() {
    world_of(3, SimConfig::calm(2), 2, |world, _| {
        let window = Window::dynamic(&world, Info::new()).unwrap();
        let mut memory = vec![5_u64; 10];
        let address = memory.as_mut_ptr() as u64;
        // SAFETY: it lives until it is detached.
        unsafe {
            window.attach(memory.as_mut_ptr().cast(), 32).unwrap();
            window.attach(memory.as_mut_ptr().wrapping_add(4).cast(), 48).unwrap();
        }
        // SAFETY: refused.
        let nowhere = unsafe { window.attach(std::ptr::null_mut(), 8) };
        assert_eq!(nowhere.unwrap_err().class, mpi_p2p::ErrorClass::RmaAttach);
        // SAFETY: refused.
        let twice = unsafe { window.attach(memory.as_mut_ptr().cast(), 8) };
        assert_eq!(twice.unwrap_err().class, mpi_p2p::ErrorClass::RmaAttach);
        let mut all = [0_u64; 2];
        world.allgather(mpi_coll::InPlaceOr::Buf(send(&[address])), room(&mut all)).unwrap();
        let other = 1 - world.rank() as usize;
        let byte = |at: u64, count| Target { at: at as i64, ..words(other, 0, count) };
        window.lock_all(Assert::default()).unwrap();
        // It lies in both pieces, which touch.
        window.put(send(&[9, 8]), byte(all[other] + 24, 2)).unwrap();
        window.flush(other as u32).unwrap();
        window.put(send(&[1]), byte(all[other] + 80, 1)).unwrap();
        let error = window.flush(other as u32).unwrap_err();
        assert_eq!(error.class, mpi_p2p::ErrorClass::RmaRange, "{error}");
        window.unlock_all().unwrap();
        world.barrier().unwrap();
        assert_eq!(&memory[2..6], [5, 9, 8, 5]);
        window.detach(memory.as_ptr().wrapping_add(4).cast()).unwrap();
        window.detach(memory.as_ptr().cast()).unwrap();
        assert!(window.detach(memory.as_ptr().cast()).is_err());
        window.free().unwrap();
    });
}

/// A rank dies with the lock: whoever waits for it is told who, and nobody hangs.
#[test]
fn the_dead_holder_of_a_lock_is_named() {
    // Nobody dies with a message of the barrier on its way.
    let through = std::sync::Barrier::new(3);
    world_of(5, SimConfig::calm(3), 3, move |world, net| {
        let window = Window::allocate(&world, &Options::new(8, 8)).unwrap();
        if world.rank() == 2 {
            window.lock(LockKind::Exclusive, 0, Assert::default()).unwrap();
            window.put(send(&[1]), words(0, 0, 1)).unwrap();
            window.flush(0).unwrap();
            world.barrier().unwrap();
            through.wait();
            net.kill(2);
            return;
        }
        world.barrier().unwrap();
        through.wait();
        let error = match world.rank() {
            0 => window.lock(LockKind::Exclusive, 0, Assert::default()).unwrap_err(),
            _ => {
                window.lock(LockKind::Exclusive, 0, Assert::default()).unwrap();
                window.unlock(0).unwrap_err()
            }
        };
        assert_eq!(error.class, mpi_p2p::ErrorClass::ProcFailed);
        assert!(error.to_string().contains("rank 2 died"), "{error}");
        // Both have been told before either goes.
        let peer = 1 - world.rank();
        let cx = world.context();
        world
            .engine()
            .sendrecv(
                cx,
                send(&[1]),
                peer,
                9,
                room(&mut [0]),
                mpi_p2p::Source::Rank(peer),
                mpi_p2p::Tag::Is(9),
            )
            .unwrap();
    });
}

/// What is refused, and what the refusal says.
#[test]
fn misuse_is_refused_by_class_with_every_fact() {
    use mpi_p2p::ErrorClass as C;
    world_of(1, SimConfig::calm(2), 2, |world, _| {
        let window = Window::allocate(&world, &Options::new(40, 8)).unwrap();
        window.set_name("grid");
        let me = world.rank() as usize;
        let outside = window.put(send(&[1]), words(1, 0, 1)).unwrap_err();
        assert_eq!(outside.class, C::RmaSync, "{outside}");
        assert_eq!(window.unlock(0).unwrap_err().class, C::RmaSync);
        assert_eq!(window.flush(0).unwrap_err().class, C::RmaSync);
        assert_eq!(window.complete().unwrap_err().class, C::RmaSync);
        assert_eq!(window.wait().unwrap_err().class, C::RmaSync);
        assert_eq!(window.shared_query(None).unwrap_err().class, C::RmaFlavor);
        window.lock(LockKind::Shared, me as u32, Assert::default()).unwrap();
        assert_eq!(
            window.lock(LockKind::Shared, me as u32, Assert::default()).unwrap_err().class,
            C::RmaSync
        );
        assert_eq!(window.fence(Assert::default()).unwrap_err().class, C::RmaSync);
        assert_eq!(window.put(send(&[1]), words(1 - me, 0, 1)).unwrap_err().class, C::RmaSync);
        assert_eq!(window.put(send(&[1]), words(7, 0, 1)).unwrap_err().class, C::Rank);
        assert_eq!(window.put(send(&[1, 2]), words(me, 0, 1)).unwrap_err().class, C::Truncate);
        let range = window.put(send(&[1, 2]), words(me, 4, 2)).unwrap_err();
        assert_eq!(range.class, C::RmaRange);
        let text = range.to_string();
        for fact in ["put", "grid", &format!("rank {me}"), "displacement 4", "40 bytes", "2 ×"] {
            assert!(text.contains(fact), "{text} lacks {fact}");
        }
        assert_eq!(window.accumulate(send(&[1]), words(me, 0, 1), &Op::MinLoc).unwrap_err().class, C::Op);
        assert_eq!(window.free().unwrap_err().class, C::RmaSync);
        window.unlock(me as u32).unwrap();
        // What only the target can see is said when the epoch is closed.
        let other = 1 - me;
        window.lock(LockKind::Shared, other as u32, Assert::default()).unwrap();
        window.put(send(&[1, 2]), words(other, 4, 2)).unwrap();
        let late = window.unlock(other as u32).unwrap_err();
        assert_eq!((late.class, late.peer), (C::RmaRange, Some(other as i32)), "{late}");
        assert!(late.to_string().contains("displacement 4"), "{late}");
        window.put(send(&[]), Target { rank: Dest::Null, ..words(0, 0, 0) }).unwrap();
        window.free().unwrap();
        assert_eq!(window.flush_all().unwrap_err().class, C::Win);
    });
}
