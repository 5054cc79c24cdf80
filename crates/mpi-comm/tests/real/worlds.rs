//! What ranks do that spawn others, or connect with them.

use crate::common::{receive, ring, send};
use crate::ranks::{join, number};
use mpi_coll::InPlaceOr;
use mpi_comm::{Comm, Dest, ErrorHandler, Info, Source, SpawnCommand, ThreadLevel, parent};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{Error, ErrorClass, Tag};
use std::io::Write;
use std::process::{Child, Command, Stdio};
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
        "spawn_fails" => spawn_fails(),
        "spawn_dies_early" => spawn_dies_early(),
        "spawn_follows_hints" => spawn_follows_hints(),
        "child_panics" => child_panics(),
        "parent_dies" => parent_dies(),
        "child_fails_apart" => child_fails_apart(),
        "connects_inside" => connects_inside(),
        "names" => names(),
        "ports" => ports(),
        "two_jobs" => two_jobs(),
        "late_strangers" => late_strangers(),
        "blocked_across" => blocked_across(),
        "accept_reports" => accept_reports(),
        "joins" => joins(),
        "child_merges" => child_merges(),
        "child_told" => child_told(rest),
        "child_spawns" => child_spawns(),
        "grandchild" => grandchild(),
        "child_fails" => child_fails(rest),
        "child_of_hints" => child_of_hints(),
        "child_waits" => child_waits(),
        "accepts" => accepts(rest),
        "connects" => connects(rest),
        _ => return false,
    }
    true
}

/// This test program again, as `scenario`.
fn me(scenario: &str, rest: &[&str], count: i32) -> SpawnCommand {
    let arguments = ["rank", scenario].iter().chain(rest).map(|word| (*word).into()).collect();
    let program = std::env::current_exe().unwrap().into_os_string();
    SpawnCommand { program, arguments, count, info: Info::new() }
}

/// Every rank gives its rank plus one: proof that collectives work over all of a communicator.
fn check_sum(comm: &Comm) {
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

fn in_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
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

// ---- connecting

/// The two halves of a world connect twice: by a name, and again by the same port.
fn connects_inside() {
    let world = join(ThreadLevel::Single);
    let low = world.rank() < world.size() / 2;
    let half = world.split(Some(i32::from(low)), 0).unwrap().unwrap();
    for round in 0..2 {
        let inter = if low {
            let port = match half.rank() == 0 {
                true => mpi_comm::open_port().unwrap(),
                false => String::new(),
            };
            if half.rank() == 0 {
                mpi_comm::publish_name("halves", &port).unwrap();
            }
            world.barrier().unwrap();
            let inter = half.accept(&port, 0).unwrap();
            if half.rank() == 0 {
                mpi_comm::unpublish_name("halves").unwrap();
                mpi_comm::close_port(&port).unwrap();
            }
            inter
        } else {
            world.barrier().unwrap();
            let root = half.size() as i32 - 1;
            let port = match half.rank() as i32 == root {
                true => mpi_comm::lookup_name("halves").unwrap(),
                false => String::new(),
            };
            half.connect(&port, root).unwrap()
        };
        assert_eq!(inter.remote_size(), world.size() - half.size());
        let all = inter.merge(!low).unwrap();
        assert_eq!((all.rank(), all.size()), (world.rank(), world.size()), "round {round}");
        ring(&all);
        check_sum(&all);
        inter.disconnect().unwrap();
        world.barrier().unwrap();
    }
    mpi_comm::finalize().unwrap();
}

fn names() {
    let world = join(ThreadLevel::Single);
    if world.rank() == 0 {
        let absent = mpi_comm::lookup_name("service").unwrap_err();
        assert_eq!(absent.class, ErrorClass::Name, "{absent}");
        assert!(absent.to_string().contains("\"service\""), "{absent}");
        let port = mpi_comm::open_port().unwrap();
        mpi_comm::publish_name("service", &port).unwrap();
        assert_eq!(mpi_comm::lookup_name("service").unwrap(), port);
        assert_eq!(mpi_comm::publish_name("service", &port).unwrap_err().class, ErrorClass::Service);
        mpi_comm::unpublish_name("service").unwrap();
        assert_eq!(mpi_comm::unpublish_name("service").unwrap_err().class, ErrorClass::Service);
        assert_eq!(mpi_comm::lookup_name("service").unwrap_err().class, ErrorClass::Name);
        let long = mpi_comm::publish_name(&"n".repeat(5000), &port).unwrap_err();
        assert!(long.to_string().contains("5000 bytes"), "{long}");
        mpi_comm::close_port(&port).unwrap();
    }
    mpi_comm::finalize().unwrap();
}

fn ports() {
    let world = join(ThreadLevel::Multiple);
    let own = mpi_comm::self_comm();
    let port = mpi_comm::open_port().unwrap();
    mpi_comm::close_port(&port).unwrap();
    for (error, says) in [
        (own.connect(&port, 0).unwrap_err(), "nobody listens"),
        (own.connect("no port at all", 0).unwrap_err(), "no port name"),
        (own.accept(&port, 0).unwrap_err(), "no such port open"),
        (mpi_comm::close_port(&port).unwrap_err(), "no such port open"),
    ] {
        assert_eq!(error.class, ErrorClass::Port, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        // The key of the port is nobody's business.
        assert!(!error.to_string().contains(port.rsplit('/').next().unwrap()), "{error}");
    }
    // All of a communicator hear of it.
    let error = world.connect(&port, 0).unwrap_err();
    assert_eq!(error.class, ErrorClass::Port, "{error}");
    // Closed while somebody waits.
    let port = mpi_comm::open_port().unwrap();
    let closer = {
        let port = port.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            mpi_comm::close_port(&port).unwrap();
        })
    };
    let error = own.accept(&port, 0).unwrap_err();
    assert!(error.class == ErrorClass::Port && error.to_string().contains("closed"), "{error}");
    closer.join().unwrap();
    assert_eq!(world.connect(&port, 7).unwrap_err().class, ErrorClass::Root);
    mpi_comm::finalize().unwrap();
}

/// Strangers at a port hold nobody up.
fn late_strangers() {
    let world = join(ThreadLevel::Single);
    let own = mpi_comm::self_comm();
    if world.rank() == 0 {
        let port = mpi_comm::open_port().unwrap();
        let address: std::net::SocketAddr = port.split('/').nth(1).unwrap().parse().unwrap();
        let silent: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let mut loud = std::net::TcpStream::connect(address).unwrap();
        loud.write_all(&[b'x'; 4096]).unwrap();
        mpi_comm::publish_name("strangers", &port).unwrap();
        world.barrier().unwrap();
        let inter = in_time("accept", || own.accept(&port, 0).unwrap());
        send(&inter, Dest::Rank(0), 0, 5).unwrap();
        drop(silent);
    } else {
        world.barrier().unwrap();
        let port = mpi_comm::lookup_name("strangers").unwrap();
        // One who knows the address and not the key.
        let (head, _) = port.rsplit_once('/').unwrap();
        let wrong = format!("{head}/{}", "00".repeat(32));
        let error = own.connect(&wrong, 0);
        assert!(error.is_err());
        let inter = own.connect(&port, 0).unwrap();
        assert_eq!(receive(&inter, Source::Rank(0), Tag::Any).unwrap().0, 5);
    }
    mpi_comm::finalize().unwrap();
}

// ---- two jobs

/// No rank itself: starts two jobs, of which one dies after they have disconnected, and the other
/// goes on.
fn two_jobs() {
    let (mut first, mut second) = (job(2, "accepts"), job(3, "connects"));
    let mut line = String::new();
    let mut out = std::io::BufReader::new(first.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    // A name travels by any way but a command line: whoever sees it can connect.
    second.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let second = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(9), "{said}");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    let first = first.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&first.stderr);
    assert_eq!(first.status.code(), Some(0), "{said}");
    assert!(rest.contains("all is well"), "{rest}{said}");
}

fn job(ranks: u32, scenario: &str) -> Child {
    let mut command = Command::new(std::env::var_os("MPI_MPIEXEC").unwrap());
    command.args(["-n", &ranks.to_string(), "--oversubscribe", "--timeout", "60"]);
    command.arg(std::env::current_exe().unwrap()).args(["rank", scenario]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn accepts(_: &[String]) {
    let world = join(ThreadLevel::Single);
    let port = match world.rank() {
        0 => mpi_comm::open_port().unwrap(),
        _ => String::new(),
    };
    if world.rank() == 0 {
        println!("{port}");
    }
    for _ in 0..2 {
        let inter = world.accept(&port, 0).unwrap();
        assert_eq!(inter.remote_size(), 3);
        let all = inter.merge(false).unwrap();
        assert_eq!((all.size(), all.rank()), (5, world.rank()));
        ring(&all);
        check_sum(&all);
        all.disconnect().unwrap();
        inter.disconnect().unwrap();
    }
    // The others die now.
    std::thread::sleep(Duration::from_millis(1500));
    ring(&world);
    check_sum(&world);
    if world.rank() == 0 {
        println!("all is well");
    }
    mpi_comm::finalize().unwrap();
}

fn connects(_: &[String]) {
    let world = join(ThreadLevel::Single);
    let mut port = String::new();
    if world.rank() == 0 {
        std::io::stdin().read_line(&mut port).unwrap();
    }
    for _ in 0..2 {
        let inter = world.connect(&port, 0).unwrap();
        let all = inter.merge(true).unwrap();
        assert_eq!(all.rank(), 2 + world.rank());
        ring(&all);
        check_sum(&all);
        all.disconnect().unwrap();
        inter.disconnect().unwrap();
    }
    world.barrier().unwrap();
    if world.rank() == 1 {
        std::process::exit(9);
    }
    std::thread::sleep(Duration::from_secs(60));
}

// ---- reports

fn blocked_across() {
    let world = join(ThreadLevel::Single);
    let inter = world.spawn(0, &[me("child_waits", &[], 1)]).unwrap();
    inter.set_name("to the children");
    let _ = receive(&inter, Source::Rank(0), Tag::Is(77));
}

fn accept_reports() {
    let world = join(ThreadLevel::Single);
    let port = mpi_comm::open_port().unwrap();
    let _ = world.accept(&port, 0);
}

fn joins() {
    let world = join(ThreadLevel::Single);
    world.set_error_handler(ErrorHandler::Return);
    let path = std::env::temp_dir().join(format!("join-{}", std::env::var("MPI_JOBID").unwrap()));
    let mut socket = if world.rank() == 0 {
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        world.barrier().unwrap();
        let socket = listener.accept().unwrap().0;
        std::fs::remove_file(&path).unwrap();
        socket
    } else {
        world.barrier().unwrap();
        std::os::unix::net::UnixStream::connect(&path).unwrap()
    };
    let inter = mpi_comm::join(&mut socket).unwrap();
    assert_eq!((inter.size(), inter.remote_size()), (1, 1));
    send(&inter, Dest::Rank(0), 0, 10 + world.rank() as i32).unwrap();
    assert_eq!(receive(&inter, Source::Rank(0), Tag::Any).unwrap().0, 11 - world.rank() as i32);
    mpi_comm::finalize().unwrap();
}
