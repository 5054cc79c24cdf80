//! What ranks do that connect with others, inside a job and between two.

use crate::common::{receive, ring, send};
use crate::ranks::join;
use crate::worlds::{check_sum, in_time, me};
use mpi_comm::{Dest, ErrorHandler, Source, ThreadLevel};
use mpi_p2p::{ErrorClass, Tag};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub fn run(scenario: &str, rest: &[String]) -> bool {
    match scenario {
        "connects_inside" => connects_inside(),
        "names" => names(),
        "ports" => ports(),
        "two_jobs" => two_jobs(),
        "late_strangers" => late_strangers(),
        "many_strangers" => many_strangers(),
        "blocked_across" => blocked_across(),
        "accept_reports" => accept_reports(),
        "joins" => joins(),
        "accepts" => accepts(rest),
        "connects" => connects(rest),
        "two_linked_jobs" => two_linked_jobs(),
        "dead_strangers" => dead_strangers(),
        "waits_for_the_dead" => waits_for_the_dead(rest),
        "dies_unheard" => dies_unheard(),
        "circle_across" => circle_across(),
        "child_of_circle" => child_of_circle(),
        _ => return false,
    }
    true
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

/// Ten thousand at once do not either.
fn many_strangers() {
    let world = join(ThreadLevel::Single);
    let own = mpi_comm::self_comm();
    if world.rank() == 0 {
        let port = mpi_comm::open_port().unwrap();
        let address: std::net::SocketAddr = port.split('/').nth(1).unwrap().parse().unwrap();
        mpi_comm::publish_name("strangers", &port).unwrap();
        // They come over and over, each silent for as long as it is let.
        let flood = std::thread::spawn(move || {
            let timeout = Duration::from_millis(100);
            (0..10_000).filter(|_| std::net::TcpStream::connect_timeout(&address, timeout).is_ok()).count()
        });
        let held: Vec<_> = (0..500)
            .map_while(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok())
            .collect();
        world.barrier().unwrap();
        let start = std::time::Instant::now();
        let inter = in_time("accept", || own.accept(&port, 0).unwrap());
        assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
        send(&inter, Dest::Rank(0), 0, 5).unwrap();
        drop(held);
        mpi_comm::close_port(&port).unwrap();
        flood.join().unwrap();
    } else {
        world.barrier().unwrap();
        let port = mpi_comm::lookup_name("strangers").unwrap();
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
    command.arg(std::env::current_exe().unwrap()).arg("rank").args(scenario.split(' '));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The same, but that the second job's rank dies while they are connected: the first ends too.
fn two_linked_jobs() {
    let (mut first, mut second) = (job(2, "accepts linked"), job(3, "connects linked"));
    let mut line = String::new();
    let mut out = std::io::BufReader::new(first.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    second.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    assert_eq!(second.wait_with_output().unwrap().status.code(), Some(9));
    let first = first.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&first.stderr);
    assert_eq!(first.status.code(), Some(1), "{said}");
    assert!(said.contains("the peer is gone"), "{said}");
}

/// No rank itself: starts two jobs that connect and exchange nothing; all of the second die, and the first, which
/// waits for them in several ways, hears of it.
fn dead_strangers() {
    for how in ["named", "any", "probe", "late", "test"] {
        let (mut first, mut second) = (job(2, &format!("waits_for_the_dead {how}")), job(2, "dies_unheard"));
        let mut line = String::new();
        let mut out = std::io::BufReader::new(first.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        second.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        assert_eq!(second.wait_with_output().unwrap().status.code(), Some(9));
        let first = first.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&first.stderr);
        assert_eq!(first.status.code(), Some(0), "{how}: {said}");
    }
}

fn waits_for_the_dead(how: &[String]) {
    let world = join(ThreadLevel::Single);
    let port = match world.rank() {
        0 => mpi_comm::open_port().unwrap(),
        _ => String::new(),
    };
    if world.rank() == 0 {
        println!("{port}");
    }
    let inter = world.accept(&port, 0).unwrap();
    inter.set_error_handler(ErrorHandler::Return);
    let rank = world.rank() as i32;
    let error = match how[0].as_str() {
        "named" => receive(&inter, Source::Rank(rank), Tag::Any).unwrap_err(),
        "any" => receive(&inter, Source::Any, Tag::Any).unwrap_err(),
        "probe" => inter.probe(Source::Any, Tag::Any).unwrap_err(),
        "late" => {
            std::thread::sleep(Duration::from_millis(1500));
            receive(&inter, Source::Any, Tag::Any).unwrap_err()
        }
        _ => loop {
            match inter.iprobe(Source::Any, Tag::Any) {
                Ok(found) => assert!(found.is_none()),
                Err(error) => break error,
            }
            std::thread::sleep(Duration::from_millis(1));
        },
    };
    assert_eq!(error.class, ErrorClass::ProcFailed, "{error}");
    mpi_comm::finalize().unwrap();
}

fn dies_unheard() {
    let world = join(ThreadLevel::Single);
    let mut port = String::new();
    if world.rank() == 0 {
        std::io::stdin().read_line(&mut port).unwrap();
    }
    let _inter = world.connect(&port, 0).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    std::process::exit(9);
}

fn accepts(linked: &[String]) {
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
        if !linked.is_empty() {
            let _ = inter.handle(receive(&inter, Source::Rank(1), Tag::Is(8)));
            panic!("nobody sends that");
        }
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

fn connects(linked: &[String]) {
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
        if !linked.is_empty() {
            world.barrier().unwrap();
            if world.rank() == 1 {
                std::process::exit(9);
            }
            std::thread::sleep(Duration::from_secs(60));
        }
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

/// Parent and child wait for each other.
fn circle_across() {
    let world = join(ThreadLevel::Single);
    let inter = world.spawn(0, &[me("child_of_circle", &[], 1)]).unwrap();
    let _ = receive(&inter, Source::Rank(0), Tag::Is(1));
}

fn child_of_circle() {
    join(ThreadLevel::Single);
    let _ = receive(&mpi_comm::parent().unwrap(), Source::Rank(0), Tag::Is(2));
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
