//! Windows: every kind of epoch and operation by real processes over both transports.

mod support;

#[path = "../examples/hash_table.rs"]
mod hash_table;
#[path = "../examples/work_stealing.rs"]
mod work_stealing;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::window::{Epoch, SharedWindow, Window};
use support::{Case, case};

const CASES: &[Case] = &[
    case("fence_puts_and_gets", fence_puts_and_gets),
    case("fetch_and_op_draws_tickets", fetch_and_op_draws_tickets),
    case("random_programs_do_what_the_model_does", random_programs),
    case("exclusive_locks_exclude", exclusive_locks_exclude).on(&[2, 3, 5]),
    case("long_and_short_accumulates_mix", long_and_short_accumulates_mix),
    case("a_computing_target_serves", a_computing_target_serves).on(&[2]),
    case("a_stopped_target_is_reached", a_stopped_target_is_reached).on(&[2]).over(&["shm"]),
    case("nothing_is_paid_without_a_window", nothing_is_paid_without_a_window).on(&[2]),
    case("the_example_hash_table", hash_table::main),
    case("the_example_work_stealing", work_stealing::main),
    case("shared_memory_is_shared", shared_memory_is_shared).over(&["shm"]),
    case("shared_memory_is_refused", shared_memory_is_refused).on(&[2]).over(&["tcp"]),
    case("the_untyped_face_works", the_untyped_face_works),
    case("the_untyped_objects_work", the_untyped_objects_work).on(&[2]),
    case("own_and_others_accumulates_meet_in_attached_memory", own_and_others_accumulates_meet),
    case("what_one_rank_refuses_nobody_gets", what_one_rank_refuses_nobody_gets).on(&[3]),
    case("errors_name_everything", errors_name_everything).on(&[2]),
    case("an_open_window_is_told", an_open_window_is_told)
        .on(&[2])
        .fails(0, &["finalize with window \"left open\" of MPI_COMM_WORLD still open"]),
    case("a_dead_holder_is_named", a_dead_holder_is_named).on(&[2]).fails(137, &["rank 1"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn neighbours(world: &SimpleCommunicator) -> (mpi::Rank, mpi::Rank) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

fn fence_puts_and_gets() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let me = world.rank() as u64;
    for own in [true, false] {
        let mut window = match own {
            true => Window::<u64>::allocate(&world, 5000),
            false => Window::over(&world, vec![0; 5000]),
        };
        if own {
            let shm = std::env::var("MPI_BTL").is_ok_and(|b| b == "shm");
            assert_eq!(window.is_direct(), shm || world.size() == 1);
        }
        let sent: Vec<u64> = (0..5000).map(|i| i * 1000 + me).collect();
        window.fence(|epoch| epoch.put(&sent, next, 0));
        let mut back = vec![0; 4990];
        window.fence(|epoch| {
            let local = epoch.local();
            assert!((0..5000).all(|i| local.get(i) == i as u64 * 1000 + previous as u64));
            epoch.get(&mut back, next, 10);
        });
        assert!(back.iter().enumerate().all(|(i, v)| *v == (i as u64 + 10) * 1000 + me));
        let memory = window.free();
        assert_eq!(memory.len(), if own { 0 } else { 5000 });
    }
}

fn fetch_and_op_draws_tickets() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 2);
    let mine = window.lock_all(|epoch| {
        (0..100).map(|_| epoch.fetch_and_op(0, 1, 1, SystemOperation::sum())).collect::<Vec<_>>()
    });
    assert!(mine.windows(2).all(|w| w[0] < w[1]));
    let mut all = vec![0; 100 * world.size() as usize];
    world.all_gather_into(&mine[..], &mut all[..]);
    all.sort_unstable();
    assert!(all.iter().enumerate().all(|(i, v)| i as u64 == *v));
    drop(window);
}

// ---- random programs

const SHARED: usize = 64;
const OWN: usize = 2000;

/// What an origin does to a target: adds to words that all share, or writes words of its own.
struct Deed {
    target: usize,
    adds: bool,
    first: usize,
    values: Vec<i64>,
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 27)
}

fn deeds(seed: u64, origin: usize, size: usize) -> Vec<Deed> {
    let mut state = seed << 20 ^ origin as u64;
    let mut below = |n: usize| (next(&mut state) % n as u64) as usize;
    (0..1 + below(8))
        .map(|_| {
            let (target, adds) = (below(size), below(2) == 0);
            let (base, room) = if adds { (0, SHARED) } else { (SHARED + origin * OWN, OWN) };
            let n = 1 + below(room);
            let first = base + below(room - n + 1);
            Deed { target, adds, first, values: (0..n).map(|i| (below(1000) * 7 + i) as i64).collect() }
        })
        .collect()
}

fn random_programs() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let everybody: Vec<mpi::Rank> = (0..world.size()).collect();
    let length = SHARED + size * OWN;
    for kind in 0..2_u64 {
        let mut window = match kind {
            0 => Window::<i64>::allocate(&world, length),
            _ => Window::over(&world, vec![0; length]),
        };
        let mut model = vec![vec![0_i64; length]; size];
        for round in 0..12_u64 {
            let mine = deeds(kind * 100 + round, me, size);
            let perform = |epoch: &Epoch<'_, '_, i64>, deeds: &[Deed]| {
                for d in deeds {
                    // The layer below has copied the data when it returns; the borrow is the face's.
                    let values: &'static [i64] = Box::leak(d.values.clone().into_boxed_slice());
                    match d.adds {
                        true => epoch.accumulate(values, d.target as i32, d.first, SystemOperation::sum()),
                        false => epoch.put(values, d.target as i32, d.first),
                    }
                }
            };
            match round % 4 {
                0 => window.fence(|epoch| perform(epoch, &mine)),
                1 => window.exchange(&everybody, &everybody, |epoch| perform(epoch, &mine)),
                2 => window.lock_all(|epoch| epoch.batch(|batch| perform(batch, &mine))),
                _ => {
                    for d in &mine {
                        let one = std::slice::from_ref(d);
                        match d.target % 2 {
                            0 => window.lock(d.target as i32, |epoch| perform(epoch, one)),
                            _ => window.lock_exclusive(d.target as i32, |epoch| perform(epoch, one)),
                        }
                    }
                }
            }
            world.barrier();
            for origin in 0..size {
                for d in deeds(kind * 100 + round, origin, size) {
                    for (i, v) in d.values.iter().enumerate() {
                        let word = &mut model[d.target][d.first + i];
                        *word = if d.adds { *word + v } else { *v };
                    }
                }
            }
            window.own(|memory| assert_eq!(memory, &model[me][..], "round {round}"));
            let other = (me + 1) % size;
            let mut seen = vec![0; length];
            window.lock(other as i32, |epoch| epoch.read_into(&mut seen, other as i32, 0));
            assert_eq!(seen, model[other], "round {round}, read from rank {other}");
            world.barrier();
        }
        window.free();
    }
}

fn exclusive_locks_exclude() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 1);
    for _ in 0..30 {
        window.lock_exclusive(1, |epoch| {
            let value = epoch.read(1, 0);
            epoch.write(&[value + 1], 1, 0);
        });
    }
    world.barrier();
    assert_eq!(window.lock(1, |epoch| epoch.read(1, 0)), 30 * world.size() as u64);
    world.barrier();
    window.free();
}

/// Operations that are processor atomics and those that take locks, on the same elements at the same time.
fn long_and_short_accumulates_mix() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    const LENGTH: usize = 3000;
    const TIMES: usize = 40;
    let mut window = Window::<f64>::allocate(&world, LENGTH);
    let ones = vec![1.0; LENGTH];
    window.lock_all(|epoch| {
        for i in 0..TIMES {
            epoch.combine(&ones[..1], 0, 7, SystemOperation::sum());
            if i >= TIMES / 2 {
                epoch.combine(&ones, 0, 0, SystemOperation::sum());
            }
            epoch.fetch_and_op(0, 7, 1.0, SystemOperation::sum());
        }
    });
    world.barrier();
    let ranks = f64::from(world.size());
    let seen = window.lock(0, |epoch| (epoch.read(0, 7), epoch.read(0, LENGTH - 1)));
    assert_eq!(seen, (ranks * (2 * TIMES + TIMES / 2) as f64, ranks * (TIMES / 2) as f64));
    world.barrier();
    window.free();
}

fn compute(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// A target that calls nothing for seconds is locked, written to and unlocked meanwhile.
fn a_computing_target_serves() {
    const BUSY: Duration = Duration::from_secs(5);
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for own in [true, false] {
        let mut window = match own {
            true => Window::<u64>::allocate(&world, 4),
            false => Window::over(&world, vec![0; 4]),
        };
        world.barrier();
        if world.rank() == 1 {
            compute(BUSY);
        } else {
            std::thread::sleep(Duration::from_millis(100));
            let times: Vec<Duration> = (0..8)
                .map(|i| {
                    let start = Instant::now();
                    window.lock_exclusive(1, |epoch| epoch.write(&[i], 1, 2));
                    start.elapsed()
                })
                .collect();
            println!("a target that computes, allocated {own}: {times:?}");
            let best = times.iter().min().unwrap();
            // Machines that test are busy; one that had to wait for the target would take seconds each time.
            assert!(*best < Duration::from_millis(50), "{times:?}");
        }
        world.barrier();
        if world.rank() == 1 {
            assert_eq!(window.own(|memory| memory[2]), 7);
        }
        window.free();
    }
}

/// On a node nothing is asked of the target, whose process stands still meanwhile: locks and operations are done in
/// its memory.
fn a_stopped_target_is_reached() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 4);
    if world.rank() == 1 {
        world.process_at_rank(0).send(&(std::process::id() as i32));
        world.process_at_rank(0).receive::<i32>();
        assert_eq!(window.own(|memory| memory.to_vec()), [1, 5, 3, 0]);
    } else {
        let peer = Pid::from_raw(world.process_at_rank(1).receive::<i32>().0);
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{peer}/stat")).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        kill(peer, Signal::SIGSTOP).unwrap();
        while !is_stopped() {
            std::thread::yield_now();
        }
        window.lock_exclusive(1, |epoch| {
            epoch.write(&[1, 2, 3], 1, 0);
            assert_eq!(epoch.fetch_and_op(1, 1, 2, SystemOperation::sum()), 2);
        });
        window.lock(1, |epoch| assert_eq!(epoch.compare_and_swap(1, 1, 4, 5), 4));
        window.lock_all(|epoch| assert_eq!(epoch.read(1, 1), 5));
        kill(peer, Signal::SIGCONT).unwrap();
        world.process_at_rank(1).send(&0);
    }
    window.free();
}

/// The thread that serves windows is there only while a window needs it.
fn nothing_is_paid_without_a_window() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let helper_time = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter_map(|task| {
                let path = task.ok()?.path();
                let name = std::fs::read_to_string(path.join("comm")).ok()?;
                let status = std::fs::read_to_string(path.join("status")).ok()?;
                let wakes = status.lines().find(|l| l.starts_with("voluntary_ctxt_switches"))?;
                let wakes: u64 = wakes.split_whitespace().last()?.parse().ok()?;
                name.starts_with("mpi-progress").then_some(wakes)
            })
            .sum::<u64>()
    };
    let mut window = Window::<u64>::allocate(&world, 1);
    window.lock(0, |epoch| epoch.write(&[1], 0, 0));
    window.free();
    world.barrier();
    std::thread::sleep(Duration::from_millis(300));
    let before = helper_time();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(helper_time(), before, "the helper wakes up without a window");
}

fn shared_memory_is_shared() {
    use std::sync::atomic::Ordering::SeqCst;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (me, size) = (world.rank(), world.size());
    let mut window = SharedWindow::<u64>::allocate(&world, 3 + me as usize);
    let (base, len) = window.part(me).unwrap();
    assert_eq!(len, 3 + me as usize);
    if me > 0 {
        let (before, len) = window.part(me - 1).unwrap();
        assert_eq!(before.wrapping_add(len), base, "one piece, rank after rank");
    }
    for rank in 0..size {
        window.atomics(rank).unwrap()[1].fetch_add(me as u64 + 1, SeqCst);
    }
    window.barrier();
    let sum = (1..=size as u64).sum::<u64>();
    (0..size).for_each(|rank| assert_eq!(window.atomics(rank).unwrap()[1].load(SeqCst), sum));
    window.barrier();
    window.window().lock_all(|epoch| epoch.write(&[9], (me + 1) % size, 0));
    window.barrier();
    assert_eq!(window.atomics(me).unwrap()[0].load(SeqCst), 9);
    assert!(window.part(size).is_err());
    window.free();
}

fn shared_memory_is_refused() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let error = SharedWindow::<u64>::try_allocate(&world, 3).unwrap_err();
    assert!(error.to_string().contains("share memory"), "{error}");
}

/// A rank accumulates into its own attached memory while others do: nothing is lost, whatever the way there.
fn own_and_others_accumulates_meet() {
    use ffi::*;
    const WORDS: usize = 200;
    const ROUNDS: i64 = 300;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut memory = vec![0_i64; WORDS];
    let mut addresses = vec![0_isize; world.size() as usize];
    world.all_gather_into(&(memory.as_mut_ptr().expose_provenance() as isize), &mut addresses[..]);
    let ones = [1_i64; WORDS];
    // SAFETY: what is attached lives until it is detached and is looked at behind a barrier.
    unsafe {
        let mut win = RSMPI_WIN_NULL;
        MPI_Win_create_dynamic(RSMPI_INFO_NULL, world.as_raw(), &mut win);
        MPI_Win_attach(win, memory.as_mut_ptr().cast(), size_of_val(&memory[..]) as isize);
        world.barrier();
        MPI_Win_lock_all(0, win);
        for round in 0..ROUNDS {
            for (rank, at) in (0..).zip(&addresses) {
                let (n, from) = (WORDS as i32, ones.as_ptr().cast());
                MPI_Accumulate(from, n, RSMPI_INT64_T, rank, *at, n, RSMPI_INT64_T, RSMPI_SUM, win);
                // One word by its own, at an address of its own stripe.
                let (mut old, at) = (0_i64, at + 8 * (round as isize * 7 % WORDS as isize));
                MPI_Fetch_and_op(from, (&raw mut old).cast(), RSMPI_INT64_T, rank, at, RSMPI_SUM, win);
                MPI_Win_flush(rank, win);
            }
        }
        MPI_Win_unlock_all(win);
        world.barrier();
        MPI_Win_detach(win, memory.as_ptr().cast());
        MPI_Win_free(&mut win);
    }
    for (word, value) in memory.iter().enumerate() {
        let alone = (0..ROUNDS).filter(|round| *round * 7 % WORDS as i64 == word as i64).count() as i64;
        assert_eq!(*value, i64::from(world.size()) * (ROUNDS + alone), "word {word}");
    }
}

/// An argument that one rank cannot use, or memory that it cannot have: an error for all, and the next window is made.
fn what_one_rank_refuses_nobody_gets() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let last = world.rank() == world.size() - 1;
    let len = |wrong: usize| if last { wrong } else { 4 };
    // Too many for an address; more than any machine has.
    for wrong in [usize::MAX / 4, 1 << 42] {
        assert!(Window::<u64>::try_allocate(&world, len(wrong)).is_err(), "{wrong} words");
        assert!(SharedWindow::<u64>::try_allocate(&world, len(wrong)).is_err(), "{wrong} words, shared");
    }
    let long = "k".repeat(10_000);
    let hints: &[(&str, &str)] = if last { &[(&long, "true")] } else { &[] };
    assert!(Window::<u64>::try_allocate_with(&world, 4, hints).is_err());
    let mut window = Window::<u64>::allocate(&world, 4);
    window.fence(|epoch| epoch.put(&[7; 4], neighbours(&world).0, 0));
    window.own(|memory| assert_eq!(memory, [7; 4]));
    window.free();
}

/// The names of the C binding, with derived datatypes on the target's side, requests and attributes.
fn the_untyped_face_works() {
    use ffi::*;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let comm = world.as_raw();
    // SAFETY: handles live until they are freed below; buffers live until what uses them is complete.
    unsafe {
        let (mut base, mut win): (*mut i32, _) = (std::ptr::null_mut(), RSMPI_WIN_NULL);
        MPI_Win_allocate(40 * 4, 4, RSMPI_INFO_NULL, comm, (&raw mut base).cast(), &mut win);
        let (mut value, mut flag) = (std::ptr::null::<isize>(), 0);
        MPI_Win_get_attr(win, MPI_WIN_SIZE, (&raw mut value).cast(), &mut flag);
        assert_eq!((flag, *value), (1, 160));
        let mut column = RSMPI_DATATYPE_NULL;
        MPI_Type_vector(5, 1, 8, RSMPI_INT32_T, &mut column);
        MPI_Type_commit(&mut column);
        let values: Vec<i32> = (0..5).map(|i| i + 10 * world.rank()).collect();
        MPI_Win_fence(0, win);
        MPI_Put(values.as_ptr().cast(), 5, RSMPI_INT32_T, next, 3, 1, column, win);
        MPI_Win_fence(0, win);
        MPI_Accumulate(values.as_ptr().cast(), 5, RSMPI_INT32_T, next, 3, 1, column, RSMPI_SUM, win);
        MPI_Win_fence(0, win);
        for i in 0..40 {
            let (row, first) = (i / 8, i % 8 == 3);
            let expected = if first { 2 * (row as i32 + 10 * previous) } else { 0 };
            assert_eq!(*base.add(i), expected, "word {i}");
        }
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_lock_all(0, win);
        let (mut back, mut old, mut request) = ([0_i32; 5], [0_i32; 5], RSMPI_REQUEST_NULL);
        MPI_Rget(back.as_mut_ptr().cast(), 5, RSMPI_INT32_T, next, 3, 1, column, win, &mut request);
        MPI_Wait(&mut request, RSMPI_STATUS_IGNORE);
        assert_eq!(back.to_vec(), values.iter().map(|v| 2 * v).collect::<Vec<_>>());
        let into = old.as_mut_ptr().cast();
        MPI_Rget_accumulate(
            values.as_ptr().cast(),
            5,
            RSMPI_INT32_T,
            into,
            5,
            RSMPI_INT32_T,
            next,
            3,
            1,
            column,
            RSMPI_REPLACE,
            win,
            &mut request,
        );
        MPI_Wait(&mut request, RSMPI_STATUS_IGNORE);
        MPI_Win_flush(next, win);
        assert_eq!(old, back);
        let (new, mut was) = (77_i32, 0_i32);
        let word = (&raw mut was).cast();
        MPI_Compare_and_swap(
            (&raw const new).cast(),
            values.as_ptr().cast(),
            word,
            RSMPI_INT32_T,
            next,
            3,
            win,
        );
        MPI_Win_flush(next, win);
        assert_eq!(was, values[0]);
        MPI_Get(word, 1, RSMPI_INT32_T, next, 3, 1, RSMPI_INT32_T, win);
        MPI_Win_flush_all(win);
        assert_eq!(was, 77);
        MPI_Win_unlock_all(win);
        MPI_Type_free(&mut column);
        MPI_Win_free(&mut win);
        assert_eq!(win, RSMPI_WIN_NULL);
    }
}

fn errors_name_everything() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 10);
    window.set_name("grid");
    let direct = window.is_direct();
    let result = window.try_lock_all(|epoch| epoch.try_put(&[1, 2], 1, 9));
    let error = match result {
        Ok(inside) => inside.unwrap_err(),
        Err(late) => late,
    };
    assert!(error.is_range(), "{error}");
    let text = error.to_string();
    for fact in ["grid", "rank 1", "displacement 9", "80"] {
        assert!(text.contains(fact), "{text} lacks {fact} (direct: {direct})");
    }
    let error = window.try_lock(7, |_| ()).unwrap_err();
    assert!(error.to_string().contains("rank 7 of a window of 2 ranks"), "{error}");
    window.free();
}

fn an_open_window_is_told() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let window = Window::<u64>::allocate(&world, 10);
    window.set_name("left open");
    std::mem::forget(window);
}

/// The launcher ends the job when a rank is killed; whoever waits for its lock does not hang.
fn a_dead_holder_is_named() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 1);
    if world.rank() == 1 {
        window.lock_exclusive(0, |epoch| {
            epoch.write(&[1], 0, 0);
            epoch.flush(0);
            world.process_at_rank(0).send(&1);
            // SAFETY: this process.
            let me = nix::unistd::Pid::this();
            let _ = nix::sys::signal::kill(me, nix::sys::signal::Signal::SIGKILL);
        });
    } else {
        world.process_at_rank(1).receive::<i32>();
        let error = window.try_lock_exclusive(0, |_| ()).unwrap_err();
        assert!(error.is_failure() && error.to_string().contains("rank 1 died"), "{error}");
        // The launcher says the same and ends this rank.
        std::thread::sleep(Duration::from_secs(30));
    }
}

/// Values under keys, hints and error handlers by their C names.
fn the_untyped_objects_work() {
    use ffi::*;
    use std::os::raw::{c_char, c_int, c_void};
    use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
    static DELETED: AtomicUsize = AtomicUsize::new(0);
    static CODE: AtomicI32 = AtomicI32::new(0);
    unsafe extern "C" fn deleted(win: MPI_Win, _: c_int, value: *mut c_void, extra: *mut c_void) -> c_int {
        // SAFETY: a constant.
        assert!(win != unsafe { RSMPI_WIN_NULL });
        DELETED.fetch_add(value.addr() + extra.addr(), Relaxed);
        0
    }
    unsafe extern "C" fn handler(win: *mut MPI_Win, code: *mut c_int) {
        // SAFETY: both are given by the caller of the handler.
        unsafe {
            assert!(*win != RSMPI_WIN_NULL);
            CODE.store(*code, Relaxed);
        }
    }
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let without = |value: usize| std::ptr::without_provenance_mut::<c_void>(value);
    // SAFETY: handles live until they are freed below; buffers are as large as is asked for.
    unsafe {
        let (mut info, mut used) = (RSMPI_INFO_NULL, RSMPI_INFO_NULL);
        MPI_Info_create(&mut info);
        MPI_Info_set(info, c"no_locks".as_ptr(), c"true".as_ptr());
        let (mut base, mut win): (*mut i32, _) = (std::ptr::null_mut(), RSMPI_WIN_NULL);
        MPI_Win_allocate(64, 4, info, world.as_raw(), (&raw mut base).cast(), &mut win);
        let (mut text, mut flag, mut len) = ([0 as c_char; 256], 0, 0);
        MPI_Win_get_info(win, &mut used);
        MPI_Info_get(used, c"no_locks".as_ptr(), 200, text.as_mut_ptr(), &mut flag);
        assert_eq!((flag, std::ffi::CStr::from_ptr(text.as_ptr())), (1, c"true"));
        MPI_Win_set_name(win, c"lattice".as_ptr());
        MPI_Win_get_name(win, text.as_mut_ptr(), &mut len);
        assert_eq!((len, std::ffi::CStr::from_ptr(text.as_ptr())), (7, c"lattice"));
        let mut errors = RSMPI_ERRHANDLER_NULL;
        MPI_Win_create_errhandler(handler, &mut errors);
        MPI_Win_set_errhandler(win, errors);
        let code = MPI_Win_lock_all(0, win);
        assert!(code != MPI_SUCCESS as c_int && code == CODE.load(Relaxed), "no locks were promised");
        MPI_Win_call_errhandler(win, 3);
        assert_eq!(CODE.load(Relaxed), 3);
        MPI_Errhandler_free(&mut errors);
        MPI_Info_set(info, c"no_locks".as_ptr(), c"false".as_ptr());
        MPI_Win_set_info(win, info);
        assert_eq!(MPI_Win_lock_all(0, win), MPI_SUCCESS as c_int);
        MPI_Win_unlock_all(win);
        let (mut key, mut value) = (0, std::ptr::null_mut::<c_void>());
        MPI_Win_create_keyval(None, Some(deleted), &mut key, without(100));
        MPI_Win_get_attr(win, key, (&raw mut value).cast(), &mut flag);
        assert_eq!(flag, 0);
        MPI_Win_set_attr(win, key, without(5));
        MPI_Win_get_attr(win, key, (&raw mut value).cast(), &mut flag);
        assert_eq!((flag, value.addr()), (1, 5));
        MPI_Win_set_attr(win, key, without(6));
        assert_eq!(DELETED.load(Relaxed), 105);
        MPI_Win_delete_attr(win, key);
        MPI_Win_set_attr(win, key, without(7));
        MPI_Win_free_keyval(&mut key);
        assert_eq!(key, MPI_KEYVAL_INVALID);
        MPI_Info_free(&mut info);
        MPI_Info_free(&mut used);
        MPI_Win_free(&mut win);
        assert_eq!(DELETED.load(Relaxed), 105 + 106 + 107, "the last with the window");
    }
}
