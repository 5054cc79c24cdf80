//! What ranks do that spawn others, and those that are spawned.

use crate::common::{receive, ring, send};
use crate::ranks::{join, number};
use mpi_coll::InPlaceOr;
use mpi_comm::{Comm, Dest, Info, Source, SpawnCommand, ThreadLevel, parent};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{Error, ErrorClass, Tag};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the issue allows for each of: spawn, merge, disconnect.
const STEP: Duration = Duration::from_secs(5);

pub fn run(scenario: &str, rest: &[String]) -> bool {
    match scenario {
        "spawns" => spawns(),
        "spawns_several" => spawns_several(),
        "spawns_from_part" => spawns_from_part(),
        "spawns_grandchildren" => spawns_grandchildren(),
        "spawns_often" => spawns_often(),
        "spawns_on_hosts" => spawns_on_hosts(),
        "child_says_where" => child_says_where(),
        "spawn_fails" => spawn_fails(),
        "spawn_dies_early" => spawn_dies_early(),
        "spawn_follows_hints" => spawn_follows_hints(),
        "child_panics" => child_panics(),
        "parent_dies" => parent_dies(),
        "child_fails_apart" => child_fails_apart(),
        "child_merges" => child_merges(),
        "child_told" => child_told(rest),
        "child_spawns" => child_spawns(),
        "grandchild" => grandchild(),
        "child_fails" => child_fails(rest),
        "child_of_hints" => child_of_hints(),
        "child_waits" => child_waits(),
        "family" => family(),
        "leaves_nothing" => leaves_nothing(),
        _ => return false,
    }
    true
}

/// This test program again, as `scenario`.
pub fn me(scenario: &str, rest: &[&str], count: i32) -> SpawnCommand {
    let arguments = ["rank", scenario].iter().chain(rest).map(|word| (*word).into()).collect();
    let program = std::env::current_exe().unwrap().into_os_string();
    SpawnCommand { program, arguments, count, info: Info::new() }
}

/// Every rank gives its rank plus one: proof that collectives work over all of a communicator.
pub fn check_sum(comm: &Comm) {
    let int = Datatype::predefined(Primitive::I64);
    let mine = i64::from(comm.rank()) + 1;
    let mut sum = 0i64;
    // SAFETY: both numbers live until the blocking call is over, and nobody else looks at them.
    let (from, to) = unsafe {
        (SendBuf::new((&raw const mine).cast(), 1, &int), RecvBuf::new((&raw mut sum).cast(), 1, &int))
    };
    comm.allreduce(InPlaceOr::Buf(from), to, &Op::Sum).unwrap();
    let size = i64::from(comm.size());
    assert_eq!(sum, size * (size + 1) / 2);
}

pub fn in_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = work();
    assert!(begin.elapsed() < STEP, "{what} took {:?}", begin.elapsed());
    if std::env::var_os("MPI_TEST_TIMES").is_some() {
        eprintln!("{what}: {:.3} s", begin.elapsed().as_secs_f64());
    }
    result
}

/// `MPI_TEST_CHILDREN` children (1), twice.
fn spawns() {
    let world = join(ThreadLevel::Single);
    assert!(parent().is_none());
    let children = number("MPI_TEST_CHILDREN", 1) as i32;
    for _ in 0..2 {
        let inter = in_time("spawn", || world.spawn(0, &[me("child_merges", &[], children)]).unwrap());
        assert_eq!((inter.remote_size() as i32, inter.size()), (children, world.size()));
        let all = in_time("merge", || inter.merge(false).unwrap());
        assert_eq!((all.size() as i32, all.rank()), (world.size() as i32 + children, world.rank()));
        ring(&all);
        check_sum(&all);
        // The ids are agreed among all: old and new worlds make further communicators together.
        ring(&all.split(Some(all.rank() as i32 % 2), 0).unwrap().unwrap());
        ring(&world.dup().unwrap());
        in_time("disconnect", || {
            all.disconnect().unwrap();
            inter.disconnect().unwrap();
        });
    }
    mpi_comm::finalize().unwrap();
}

fn child_merges() {
    let world = join(ThreadLevel::Single);
    let back = parent().unwrap();
    assert_eq!(back.name(), "MPI_COMM_PARENT");
    let all = back.merge(true).unwrap();
    assert_eq!(all.rank(), back.remote_size() + world.rank());
    ring(&all);
    check_sum(&all);
    ring(&all.split(Some(all.rank() as i32 % 2), 0).unwrap().unwrap());
    all.disconnect().unwrap();
    drop(back);
    mpi_comm::disconnect_parent();
    assert!(parent().is_none());
    ring(&world);
    mpi_comm::finalize().unwrap();
}

/// On two hosts of 2 or 1 and 3 slots, `MPI_TEST_HOSTS` being their names; the first has all ranks or one.
fn spawns_on_hosts() {
    let world = join(ThreadLevel::Single);
    let names = std::env::var("MPI_TEST_HOSTS").unwrap();
    let (first, second) = names.split_once(',').unwrap();
    // The last byte of a host's address is its number.
    let where_they_are = |host: &str, count: i32| -> Vec<i32> {
        let mut command = me("child_says_where", &[], count);
        if !host.is_empty() {
            command.info.set("host", host).unwrap();
        }
        let inter = world.spawn(0, &[command]).unwrap();
        assert_eq!(inter.remote_size() as i32, count);
        let mut all = Vec::new();
        if world.rank() == 0 {
            for rank in 0..count {
                all.push(receive(&inter, Source::Rank(rank), Tag::Is(4)).unwrap().0);
            }
        }
        let both = inter.merge(false).unwrap();
        ring(&both);
        check_sum(&both);
        both.disconnect().unwrap();
        inter.disconnect().unwrap();
        all
    };
    let told =
        |found: Vec<i32>, expected: &[i32]| assert!(world.rank() > 0 || found == expected, "{found:?}");
    told(where_they_are(second, 2), &[2, 2]);
    told(where_they_are(first, 1), &[1]);
    told(where_they_are(&names, 3), &[1, 2, 1]);
    told(where_they_are(&format!("{second}:2,{first}"), 3), &[2, 2, 1]);
    // Those of before may be on their way out still: at most the free slots of the second are taken.
    let found = where_they_are("", 2);
    assert!(world.rank() > 0 || found.contains(&2), "{found:?}");
    for (key, value, expected) in [
        ("host", "elsewhere", ["host=elsewhere: it is none of the job's hosts, which are ", second]),
        ("wdir", "/no/such/directory", ["working directory /no/such/directory on ", second]),
    ] {
        let mut command = me("child_says_where", &[], 1);
        command.info.set("host", second).unwrap();
        command.info.set(key, value).unwrap();
        spawn_error(&world, command, ErrorClass::Spawn, &expected);
    }
    let mut command = SpawnCommand { program: "/no/such/program".into(), ..me("", &[], 1) };
    command.info.set("host", &names).unwrap();
    command.count = 2;
    spawn_error(&world, command, ErrorClass::Spawn, &["/no/such/program is not found on "]);
    told(where_they_are(second, 1), &[2]);
    mpi_comm::finalize().unwrap();
}

fn child_says_where() {
    let world = join(ThreadLevel::Single);
    let own = crate::hosts::own_addresses();
    // In hexadecimal, the last byte of the address first.
    let number = |host: &i32| own.iter().any(|address| *address == format!("{host:02X}004F0A"));
    let host = [1, 2].into_iter().find(number).unwrap();
    let back = parent().unwrap();
    ring(&world);
    send(&back, Dest::Rank(0), 4, host).unwrap();
    let both = back.merge(true).unwrap();
    ring(&both);
    check_sum(&both);
    both.disconnect().unwrap();
    drop(back);
    mpi_comm::disconnect_parent();
    mpi_comm::finalize().unwrap();
}

fn spawns_several() {
    let world = join(ThreadLevel::Single);
    let root = world.size() as i32 - 1;
    let commands = [me("child_told", &["first", "two words"], 2), me("child_told", &["second", ""], 1)];
    let inter = world.spawn(root, &commands).unwrap();
    assert_eq!(inter.remote_size(), 3);
    if world.rank() as i32 == root {
        for rank in 0..3 {
            let (appnum, status) = receive(&inter, Source::Rank(rank), Tag::Is(3)).unwrap();
            assert_eq!((appnum, status.source), (i32::from(rank == 2), rank));
        }
    }
    mpi_comm::finalize().unwrap();
}

fn child_told(words: &[String]) {
    let world = join(ThreadLevel::Single);
    let appnum = mpi_comm::appnum().unwrap();
    assert_eq!(appnum, i32::from(world.rank() == 2));
    assert_eq!(*words, [["first", "two words"], ["second", ""]][appnum as usize]);
    assert!(mpi_comm::universe_size().is_some());
    ring(&world);
    let back = parent().unwrap();
    send(&back, Dest::Rank(back.remote_size() as i32 - 1), 3, appnum).unwrap();
    drop(back);
    mpi_comm::finalize().unwrap();
}

fn spawns_from_part() {
    let world = join(ThreadLevel::Single);
    let part = world.split(Some(world.rank() as i32 % 2), -(world.rank() as i32)).unwrap().unwrap();
    if world.rank() % 2 == 1 {
        let inter = part.spawn(0, &[me("child_merges", &[], 2)]).unwrap();
        let all = inter.merge(false).unwrap();
        assert_eq!((all.size(), all.rank()), (part.size() + 2, part.rank()));
        ring(&all);
        check_sum(&all);
        ring(&all.split(Some(all.rank() as i32 % 2), 0).unwrap().unwrap());
    }
    ring(&world);
    mpi_comm::finalize().unwrap();
}

fn spawns_grandchildren() {
    let world = join(ThreadLevel::Single);
    let inter = world.spawn(0, &[me("child_spawns", &[], 2)]).unwrap();
    let family = inter.merge(false).unwrap();
    // Grandparents and grandchildren meet over the parents, whom both know.
    let root = (family.rank() == 0).then_some((&family, world.size() as i32));
    let elders = world.intercomm_create(0, root, 5).unwrap();
    assert_eq!(elders.remote_size(), 4);
    let all = elders.merge(false).unwrap();
    ring(&all);
    check_sum(&all);
    mpi_comm::finalize().unwrap();
}

fn child_spawns() {
    let world = join(ThreadLevel::Single);
    let family = parent().unwrap().merge(true).unwrap();
    let own = world.spawn(1, &[me("grandchild", &[], 2)]).unwrap().merge(false).unwrap();
    ring(&own);
    let root = (own.rank() == 0).then_some((&family, 0));
    meet_elders(&own, root);
}

fn grandchild() {
    join(ThreadLevel::Single);
    let own = parent().unwrap().merge(true).unwrap();
    ring(&own);
    meet_elders(&own, None);
}

fn meet_elders(own: &Comm, root: Option<(&Comm, i32)>) {
    let elders = own.intercomm_create(0, root, 5).unwrap();
    let all = elders.merge(true).unwrap();
    assert_eq!(all.rank(), elders.remote_size() + own.rank());
    ring(&all);
    check_sum(&all);
    mpi_comm::finalize().unwrap();
}

fn spawns_often() {
    let world = join(ThreadLevel::Single);
    let mut ids = Vec::new();
    for _ in 0..number("MPI_TEST_SPAWNS", 10) {
        let inter = world.spawn(0, &[me("child_merges", &[], 1)]).unwrap();
        let all = inter.merge(false).unwrap();
        ring(&all);
        check_sum(&all);
        ring(&all.split(Some(all.rank() as i32 % 2), 0).unwrap().unwrap());
        ids.push(inter.context_id());
    }
    assert!(ids.iter().all(|id| *id < 100), "{ids:?}");
    mpi_comm::finalize().unwrap();
}

fn spawn_error(world: &Comm, command: SpawnCommand, class: ErrorClass, says: &[&str]) {
    let error: Error = world.spawn(0, &[me("child_merges", &[], 1), command]).unwrap_err();
    assert_eq!(error.class, class, "{error}");
    for text in says {
        assert!(error.to_string().contains(text), "{error}");
    }
}

fn spawn_fails() {
    let world = join(ThreadLevel::Single);
    let named = |program: &str| SpawnCommand { program: program.into(), count: 1, ..Default::default() };
    let hinted = |key: &str, value: &str| {
        let mut command = me("child_merges", &[], 1);
        command.info.set(key, value).unwrap();
        command
    };
    use ErrorClass::{Arg, Root, Spawn};
    spawn_error(&world, named("./no-such-program"), Spawn, &["no-such-program", "not found"]);
    spawn_error(&world, named("no-such-program-in-path"), Spawn, &["no-such-program-in-path", "PATH"]);
    spawn_error(&world, named("/etc/passwd"), Spawn, &["/etc/passwd", "cannot be run"]);
    spawn_error(&world, named("/tmp"), Spawn, &["/tmp", "directory"]);
    spawn_error(&world, hinted("wdir", "/no/such/place"), Spawn, &["/no/such/place"]);
    spawn_error(&world, hinted("host", "elsewhere"), Spawn, &["elsewhere"]);
    spawn_error(&world, hinted("soft", "no number"), Arg, &["soft"]);
    spawn_error(&world, hinted("file", "/no/such/hints"), Arg, &["/no/such/hints"]);
    let error = world.spawn(0, &[named("/no/such/program")]).unwrap_err();
    assert_eq!(error.to_string().matches("/no/such/program").count(), 1, "{error}");
    let none = SpawnCommand { count: 0, ..named("true") };
    let error = world.spawn(0, &[none]).unwrap_err();
    assert!(error.class == Arg && error.detail.contains("0 processes; a call starts 1 to"), "{error}");
    let too_many = SpawnCommand { count: 100_000, ..named("true") };
    spawn_error(&world, too_many, Arg, &["100001 processes"]);
    let negative = SpawnCommand { count: -1, ..named("true") };
    spawn_error(&world, negative, Arg, &["-1"]);
    let error = world.spawn(99, &[me("child_merges", &[], 1)]).unwrap_err();
    assert_eq!(error.class, Root);
    ring(&world);
    mpi_comm::finalize().unwrap();
}

fn spawn_dies_early() {
    let world = join(ThreadLevel::Single);
    let run = |words: &[&str]| {
        let arguments = words[1..].iter().map(|word| (*word).into()).collect();
        SpawnCommand { program: words[0].into(), arguments, count: 2, ..Default::default() }
    };
    for (words, says) in [
        (&["true"][..], "exited with status 0 before"),
        (&["sh", "-c", "exit 7"], "exited with status 7 before"),
        (&["sh", "-c", "kill -9 $$"], "signal 9"),
    ] {
        let error = world.spawn(0, &[run(words)]).unwrap_err();
        assert_eq!(error.class, ErrorClass::Spawn);
        assert!(error.to_string().contains(says), "{error}");
    }
    ring(&world);
    mpi_comm::finalize().unwrap();
}

fn spawn_follows_hints() {
    let world = join(ThreadLevel::Single);
    let mut command = me("child_of_hints", &[], 7);
    let directory = std::env::temp_dir().canonicalize().unwrap();
    for (key, value) in [
        ("wdir", directory.to_str().unwrap()),
        ("env", "MPI_TEST_HINT=a b"),
        ("soft", "1:100:3"),
        ("host", "localhost"),
        ("arch", "whatever"),
        ("unknown", "hint"),
    ] {
        command.info.set(key, value).unwrap();
    }
    let program = std::path::PathBuf::from(std::mem::take(&mut command.program));
    command.program = program.file_name().unwrap().to_owned();
    command.info.set("path", program.parent().unwrap().to_str().unwrap()).unwrap();
    let inter = world.spawn(0, &[command]).unwrap();
    assert_eq!(inter.remote_size(), 7);
    mpi_comm::finalize().unwrap();
}

fn child_of_hints() {
    join(ThreadLevel::Single);
    let directory = std::env::temp_dir().canonicalize().unwrap();
    assert_eq!(std::env::current_dir().unwrap(), directory);
    assert_eq!(std::env::var("MPI_TEST_HINT").as_deref(), Ok("a b"));
    assert_eq!(std::env::var("MPI_SPAWN").as_deref(), Ok("1"));
    mpi_comm::finalize().unwrap();
}

// ---- failures

fn child_panics() {
    let world = join(ThreadLevel::Single);
    let _inter = world.spawn(0, &[me("child_fails", &["panic"], 2)]).unwrap();
    // Whatever it is blocked in, it ends with them.
    let _ = receive(&world, Source::Any, Tag::Any);
    std::thread::sleep(Duration::from_secs(60));
}

fn child_fails(how: &[String]) {
    let world = join(ThreadLevel::Single);
    match how[0].as_str() {
        "panic" if world.rank() == 1 => {
            struct Leave;
            impl Drop for Leave {
                fn drop(&mut self) {
                    mpi_comm::leave();
                }
            }
            let _leave = Leave;
            panic!("the child panics on purpose");
        }
        "later" => {
            // The parents say when they are no longer connected.
            let back = parent().unwrap();
            receive(&back, Source::Rank(0), Tag::Is(1)).unwrap();
            drop(back);
            mpi_comm::disconnect_parent();
            std::process::exit(9);
        }
        _ => {
            let _ = receive(&world, Source::Any, Tag::Any);
        }
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn parent_dies() {
    let world = join(ThreadLevel::Single);
    let inter = world.spawn(0, &[me("child_waits", &[], 2)]).unwrap();
    if world.rank() == 0 {
        for rank in 0..2 {
            receive(&inter, Source::Rank(rank), Tag::Is(4)).unwrap();
        }
        let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn child_waits() {
    let world = join(ThreadLevel::Single);
    let back = parent().unwrap();
    send(&back, Dest::Rank(0), 4, std::process::id() as i32).unwrap();
    let _ = receive(&world, Source::Any, Tag::Any);
    std::thread::sleep(Duration::from_secs(60));
}

/// The children fail when they are no longer connected: the parents go on to their good end, and
/// the job's status tells of the failure all the same.
fn child_fails_apart() {
    let world = join(ThreadLevel::Single);
    let inter = world.spawn(0, &[me("child_fails", &["later"], 1)]).unwrap();
    if world.rank() == 0 {
        send(&inter, Dest::Rank(0), 1, 0).unwrap();
    }
    inter.disconnect().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    ring(&world);
    eprintln!("rank {} is well", world.rank());
    mpi_comm::finalize().unwrap();
}

/// Tells its own process and those of its children, and waits for one of them.
fn family() {
    let world = join(ThreadLevel::Single);
    let inter = world.spawn(0, &[me("child_waits", &[], 2)]).unwrap();
    let pid = |rank| receive(&inter, Source::Rank(rank), Tag::Is(4)).unwrap().0;
    println!("{} {} {}", std::process::id(), pid(0), pid(1));
    let _ = receive(&inter, Source::Any, Tag::Is(5));
    std::thread::sleep(Duration::from_secs(60));
}

/// No rank itself: kills one process of a family after the other kind, with and without a launcher
/// from the start, and looks whether anything is left.
fn leaves_nothing() {
    let mpiexec = std::env::var_os("MPI_MPIEXEC").unwrap();
    for alone in [true, false] {
        for victim in ["parent", "child", "launcher"] {
            let me = std::env::current_exe().unwrap();
            let mut command = if alone { Command::new(&me) } else { Command::new(&mpiexec) };
            if !alone {
                command.args(["-n", "1"]).arg(&me);
            }
            let says_why = alone && victim == "launcher";
            let err = if says_why { Stdio::piped() } else { Stdio::null() };
            command.args(["rank", "family"]).stdout(Stdio::piped()).stderr(err);
            let mut started = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(started.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let pids: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
            let launcher = parent_of(pids[1]);
            let all = [pids[0], pids[1], pids[2], launcher];
            let target = match victim {
                "parent" => pids[0],
                "child" => pids[2],
                _ => launcher,
            };
            assert!(Command::new("kill").args(["-9", &target.to_string()]).status().unwrap().success());
            let begin = Instant::now();
            while let Some(left) = all.iter().find(|pid| lives(**pid)) {
                assert!(
                    begin.elapsed() < STEP,
                    "{left} of {all:?} lives on ({victim} killed, alone: {alone})"
                );
                std::thread::sleep(Duration::from_millis(10));
            }
            let ended = started.wait_with_output().unwrap();
            assert!(!ended.status.success());
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(!says_why || said.contains("mpiexec, which watched over the job, is gone"), "{said:?}");
        }
    }
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

fn parent_of(pid: u32) -> u32 {
    stat(pid).and_then(|fields| fields.get(1)?.parse().ok()).unwrap()
}

/// Not gone, nor dead and waiting for its parent to notice.
fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| !["Z", "X"].contains(&fields[0].as_str()))
}
