//! Windows in worlds that are not plain: several threads, memory that nobody may reach across processes, ranks of which
//! some share memory and some do not; much memory; and many epochs.

mod support;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::window::{Epoch, ErrorHandler, Window};
use mpi_comm::Dest;
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_rma::{Assert, LockKind, Target};
use support::{Case, case};

/// Windows made and freed, and epochs on each, by `many_windows_leave_nothing`; `MPI_TEST_WINDOWS` sets another number.
const WINDOWS: u64 = 400;
const EPOCHS: u64 = 8;
/// Epochs on one window by `many_epochs_leave_nothing`; `MPI_TEST_EPOCHS` sets another number.
const EPOCHS_OF_ONE: u64 = 8_000;
/// Ranks of the world over two hosts.
const MIXED_RANKS: u32 = 4;

const CASES: &[Case] = &[
    case("threads_share_a_window", threads_share_a_window).on(&[2, 3]),
    case("refused_cross_copies_change_nothing", refused_cross_copies_change_nothing)
        .on(&[2, 3])
        .over(&["shm"]),
    case("hints_values_and_handlers", hints_values_and_handlers).on(&[2]),
    case("no_check_is_believed", no_check_is_believed).on(&[1, 2, 3]),
    case("many_windows_leave_nothing", many_windows_leave_nothing).on(&[2]),
    case("many_epochs_leave_nothing", many_epochs_leave_nothing).on(&[2]),
    case("more_than_2_31_bytes", more_than_2_31_bytes).on(&[2]).slow(),
    case("all_operations", all_operations).on(&[4]),
];

fn main() -> ExitCode {
    let (code, rank) = (support::main(CASES), support::is_rank());
    let alone = std::env::args().skip(1).all(|arg| arg.starts_with('-') || arg.starts_with("over_two_hosts"));
    if rank || !alone || std::env::args().any(|arg| arg == "--list") {
        return code;
    }
    match over_two_hosts() {
        Ok(text) => {
            println!("over_two_hosts ... {text}");
            code
        }
        Err(why) => {
            println!("over_two_hosts ... FAILED\n{why}");
            ExitCode::FAILURE
        }
    }
}

/// The same operations where two ranks share memory and two others are elsewhere: network namespaces of this machine.
/// Needs the right to make them.
fn over_two_hosts() -> Result<&'static str, String> {
    let launcher = support::built_example("mpi-pmi", "hosts");
    let names = ["a", "b"].map(|end| format!("mpiwin{}{end}", std::process::id()));
    let made = two_namespaces(&names);
    let result = made.as_ref().map_err(String::clone).and_then(|()| {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(&launcher);
        command.args(["-n", &MIXED_RANKS.to_string()]).args(&names).arg("--").arg(me);
        command.env(support::CASE_VARIABLE, "all_operations").env_remove("MPI_BTL").stdin(Stdio::null());
        let output = command.env("WINDOWS_MIXED", "1").output().map_err(|e| e.to_string())?;
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok("ok") } else { Err(format!("{}\n{err}", output.status)) }
    });
    for name in &names {
        let _ = ip(&format!("netns del {name}"));
    }
    match made {
        Ok(()) => result,
        Err(why) => {
            println!("namespaces cannot be made here: {why}");
            Ok("not tested")
        }
    }
}

fn two_namespaces([a, b]: &[String; 2]) -> Result<(), String> {
    ip(&format!("netns add {a}"))?;
    ip(&format!("netns add {b}"))?;
    ip(&format!("-n {a} link add v0 type veth peer name v0 netns {b}"))?;
    for (name, address) in [(a, "10.78.0.1/24"), (b, "10.78.0.2/24")] {
        ip(&format!("-n {name} addr add {address} dev v0"))?;
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("-n {name} link set v0 up"))?;
    }
    Ok(())
}

fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr))),
    }
}

/// Every kind of epoch and operation, from every rank to every rank, on both kinds of memory.
fn all_operations() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if std::env::var_os("WINDOWS_MIXED").is_some() {
        let node = world.split_shared(world.rank());
        assert_eq!((world.size(), node.size()), (4, 2), "two ranks share memory, two are elsewhere");
    }
    exercise(&world);
}

fn exercise(world: &SimpleCommunicator) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let everybody: Vec<mpi::Rank> = (0..world.size()).collect();
    // One word that all add to, one of which one of all draws, then some words of each origin.
    let (own, length) = (300, 2 + size * 300);
    for allocated in [true, false] {
        let mut window = match allocated {
            true => Window::<u64>::allocate(world, length),
            false => Window::over(world, vec![0; length]),
        };
        let mut added = 0;
        for round in 1..=8_u64 {
            let data: Vec<Vec<u64>> = (0..size)
                .map(|to| {
                    (0..own as u64).map(|i| round * 1_000_000 + (me * 100 + to) as u64 * 1000 + i).collect()
                })
                .collect();
            let perform = |epoch: &Epoch<'_, '_, u64>, to: usize| {
                // The layer below has copied the data when it returns; the borrow is the face's.
                let values: &'static [u64] = Box::leak(data[to].clone().into_boxed_slice());
                epoch.put(values, to as i32, 2 + me * own);
                epoch.accumulate(&[1], to as i32, 0, SystemOperation::sum());
            };
            match round % 4 {
                0 => window.fence(|epoch| (0..size).for_each(|to| perform(epoch, to))),
                1 => window.exchange(&everybody, &everybody, |epoch| {
                    (0..size).for_each(|to| perform(epoch, to));
                }),
                2 => window.lock_all(|epoch| {
                    epoch.batch(|batch| (0..size).for_each(|to| perform(batch, to)));
                }),
                _ => (0..size).for_each(|to| {
                    window.lock_exclusive(to as i32, |epoch| perform(epoch, to));
                }),
            }
            added += size as u64;
            world.barrier();
            window.own(|memory| {
                assert_eq!(memory[0], added, "round {round}");
                for from in 0..size {
                    let first = round * 1_000_000 + (from * 100 + me) as u64 * 1000;
                    let part = &memory[2 + from * own..][..own];
                    assert!(
                        part.iter().zip(first..).all(|(v, w)| *v == w),
                        "round {round}, from rank {from}"
                    );
                }
            });
            world.barrier();
        }
        let mut drawn: Vec<u64> = window.lock_all(|epoch| {
            (0..20).map(|_| epoch.fetch_and_op(size as i32 - 1, 1, 1, SystemOperation::sum())).collect()
        });
        let mut all = vec![0_u64; 20 * size];
        world.all_gather_into(&drawn[..], &mut all[..]);
        all.sort_unstable();
        assert!(all.iter().zip(0..).all(|(v, i)| *v == i), "every ticket once");
        drawn.clear();
        let mut back = vec![0; own];
        window.lock((size - 1 - me) as i32, |epoch| {
            epoch.read_into(&mut back, (size - 1 - me) as i32, 2 + me * own);
        });
        let first = 8_000_000 + (me * 100 + size - 1 - me) as u64 * 1000;
        assert!(back.iter().zip(first..).all(|(v, w)| *v == w), "read back what was put");
        world.barrier();
        window.free();
    }
}

/// Each thread has a window of its own and adds to one that all threads share.
fn threads_share_a_window() {
    const THREADS: u64 = 4;
    const TIMES: u64 = 200;
    let (universe, level) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    assert_eq!(level, Threading::Multiple);
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 2 + THREADS as usize);
    let mut foreign = Window::<u64>::over(&world, vec![0; 1]);
    let size = world.size();
    // The typed epochs stay with a thread; what is below them does not mind.
    // SAFETY: what is done through them is over before either window is used again.
    let (core, other) = unsafe { (window.core().clone(), foreign.core().clone()) };
    core.lock_all(Assert::default()).unwrap();
    other.lock_all(Assert::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (core, other) = (&core, &other);
            scope.spawn(move || {
                for i in 0..TIMES {
                    let to = (i + thread) as u32 % size as u32;
                    let mut old = 0;
                    core.accumulate(word(&1), at(to, 0), &Op::Sum).unwrap();
                    let result = room(&mut old);
                    core.fetch_and_op(word(&1), result, Dest::Rank(0), 1, &Op::Sum).unwrap();
                    other.accumulate(word(&1), at(to, 0), &Op::Sum).unwrap();
                    core.put(word(&i), at(to, 2 + thread as i64)).unwrap();
                    let request = other.rget(room(&mut old), at(to, 0)).unwrap();
                    core.comm().engine().wait(request).unwrap();
                    core.flush(to).unwrap();
                    other.flush(to).unwrap();
                }
            });
        }
    });
    core.unlock_all().unwrap();
    other.unlock_all().unwrap();
    world.barrier();
    let (sum, tickets) = window.own(|memory| (memory[0], memory[1]));
    let mut all = [0_u64; 2];
    let other = foreign.own(|memory| memory[0]);
    world.all_reduce_into(&[sum, other][..], &mut all[..], SystemOperation::sum());
    let expected = THREADS * TIMES * size as u64;
    assert_eq!(all, [expected, expected]);
    if world.rank() == 0 {
        assert_eq!(tickets, expected);
    }
    world.barrier();
    window.free();
    foreign.free();
}

/// Where the kernel, or a setting, forbids it to copy across processes, windows on a program's own memory go by
/// messages.
fn refused_cross_copies_change_nothing() {
    // SAFETY: no other thread yet.
    unsafe { std::env::set_var("MPI_SHM_CMA", "0") };
    let universe = mpi::initialize().unwrap();
    exercise(&universe.world());
}

/// Hints, values of the program's own, and what is done with errors.
fn hints_values_and_handlers() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let hints = [("no_locks", "true"), ("accumulate_ops", "same_op"), ("unheard_of", "1")];
    let mut window = Window::<u64>::try_allocate_with(&world, 4, &hints).unwrap();
    let used = window.hints();
    let value = |key: &str| used.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    assert_eq!(
        (value("no_locks"), value("accumulate_ops"), value("unheard_of")),
        (Some("true"), Some("same_op"), None)
    );
    let error = window.try_lock_all(|_| ()).unwrap_err();
    assert!(error.is_epoch() && error.to_string().contains("no_locks"), "{error}");
    window.set_hints(&[("no_locks", "false")]).unwrap();
    window.lock_all(|_| ());
    let shared = Arc::new(());
    assert!(window.set_attr(shared.clone()).is_none() && window.set_attr(7_u8).is_none());
    assert_eq!(window.set_attr(8_u8), Some(7));
    assert_eq!((window.get_attr::<u8>(), window.get_attr::<u16>()), (Some(&8), None));
    assert_eq!(Arc::strong_count(&shared), 2);
    let heard = Arc::new(std::sync::Mutex::new(String::new()));
    let ear = heard.clone();
    window.set_error_handler(ErrorHandler::custom(move |error| *ear.lock().unwrap() = error.to_string()));
    std::panic::set_hook(Box::new(|_| ()));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| window.lock(9, |_| ())));
    assert!(outcome.is_err(), "a plain operation panics behind a handler that returns");
    assert!(heard.lock().unwrap().contains("rank 9"), "{heard:?}");
    assert_eq!(window.remove_attr::<u8>(), Some(8));
    world.barrier();
    window.free();
    assert_eq!(Arc::strong_count(&shared), 1, "values go with the window");
}

static WORD: Datatype = Datatype::predefined(Primitive::U64);

fn word(value: &u64) -> SendBuf<'_> {
    // SAFETY: a borrowed word; data are copied before the call that takes it returns.
    unsafe { SendBuf::new(std::ptr::from_ref(value).cast(), 1, &WORD) }
}

fn room(value: &mut u64) -> RecvBuf<'_> {
    // SAFETY: a borrowed word, which lives until the flush behind the call that takes it.
    unsafe { RecvBuf::new(std::ptr::from_mut(value).cast(), 1, &WORD) }
}

fn at(rank: u32, at: i64) -> Target<'static> {
    Target { rank: Dest::Rank(rank as i32), at, count: 1, datatype: &WORD }
}

/// Epochs whose locks were promised to be free take none, and do the same.
fn no_check_is_believed() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let window = Window::<u64>::allocate(&world, world.size() as usize);
    // SAFETY: no epoch is open but those that are opened here, and nobody looks at the memory meanwhile.
    let core = unsafe { window.core() };
    let (next, promise) =
        ((world.rank() as u32 + 1) % world.size() as u32, Assert { no_check: true, ..Assert::default() });
    for value in 1..=3_u64 {
        match value {
            1 => core.lock_all(promise).unwrap(),
            _ => core.lock(LockKind::Exclusive, next, promise).unwrap(),
        }
        core.put(word(&value), at(next, world.rank().into())).unwrap();
        core.flush(next).unwrap();
        match value {
            1 => core.unlock_all().unwrap(),
            _ => core.unlock(next).unwrap(),
        }
    }
    world.barrier();
    let mut window = window;
    let before = (world.rank() + world.size() - 1) % world.size();
    assert_eq!(window.own(|memory| memory[before as usize]), 3);
    world.barrier();
    window.free();
}

/// Resident memory in KiB and open descriptors of this process.
fn held() -> (u64, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (kib, std::fs::read_dir("/proc/self/fd").unwrap().count())
}

/// Windows come and go, with epochs of every kind: nothing of them stays.
fn many_windows_leave_nothing() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let next = (world.rank() + 1) % world.size();
    let windows = number("MPI_TEST_WINDOWS", WINDOWS);
    let mut after = None;
    for i in 0..windows {
        let mut window = match i % 2 {
            0 => Window::<u64>::allocate(&world, 1000),
            _ => Window::over(&world, vec![0; 1000]),
        };
        let data = [i; 16];
        (0..EPOCHS).for_each(|kind| some_epoch(&mut window, kind, &data, next));
        world.barrier();
        window.free();
        if i == windows / 4 {
            after = Some(held());
        }
    }
    let ((kib, descriptors), (kib_then, descriptors_then)) = (held(), after.unwrap());
    assert_eq!(descriptors, descriptors_then, "descriptors");
    // A page here and there belongs to the allocator; one KiB per window would be hundreds.
    assert!(kib <= kib_then + 200, "{kib_then} KiB grew to {kib} KiB over {windows} windows");
}

/// Epochs of every kind on one window: nothing of them stays.
fn many_epochs_leave_nothing() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let next = (world.rank() + 1) % world.size();
    let epochs = number("MPI_TEST_EPOCHS", EPOCHS_OF_ONE);
    for own in [true, false] {
        let mut window = match own {
            true => Window::<u64>::allocate(&world, 1000),
            false => Window::over(&world, vec![0; 1000]),
        };
        let mut after = None;
        for i in 0..epochs / 2 {
            some_epoch(&mut window, i, &[i; 16], next);
            if i == epochs / 8 {
                after = Some(held());
            }
        }
        let ((kib, descriptors), (kib_then, descriptors_then)) = (held(), after.unwrap());
        assert_eq!(descriptors, descriptors_then, "descriptors");
        // A page here and there belongs to the allocator; 70 bytes per epoch would be more.
        assert!(kib <= kib_then + 200, "{kib_then} KiB grew to {kib} KiB over {epochs} epochs");
        println!(
            "{epochs} epochs, allocated {own}: {kib_then} KiB then, {kib} KiB now, {descriptors} descriptors"
        );
        world.barrier();
        window.free();
    }
}

fn some_epoch(window: &mut Window<u64>, kind: u64, data: &[u64], next: mpi::Rank) {
    match kind % 4 {
        0 => window.fence(|e| e.put(data, next, 3)),
        1 => window.exchange(&[next], &[next], |e| e.accumulate(data, next, 40, SystemOperation::sum())),
        2 => window.lock_exclusive(next, |e| e.write(data, next, 100)),
        _ => _ = window.lock_all(|e| e.read(next, 0)),
    }
}

/// A number from the environment.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// One put and one get of more than 2^31 bytes. Two buffers of that size exist at once.
fn more_than_2_31_bytes() {
    const BYTES: usize = (1 << 31) + 24;
    const WORDS: usize = BYTES / 8;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let value = |i: usize| (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut window = Window::<u64>::allocate(&world, if world.rank() == 1 { WORDS } else { 0 });
    let mut data: Vec<u64> = Vec::new();
    if world.rank() == 0 {
        data.extend((0..WORDS).map(value));
    }
    window.fence(|epoch| {
        if !data.is_empty() {
            epoch.put(&data, 1, 0);
        }
    });
    if world.rank() == 1 {
        window.own(|memory| {
            assert_eq!(memory.len(), WORDS);
            assert!(memory.iter().enumerate().all(|(i, v)| *v == value(i)));
            memory.iter_mut().for_each(|v| *v = !*v);
        });
    }
    window.fence(|epoch| {
        if !data.is_empty() {
            epoch.get(&mut data, 1, 0);
        }
    });
    assert!(data.iter().enumerate().all(|(i, v)| *v == !value(i)));
    window.free();
}
