//! A rank that does what its arguments say: the program that the launcher's tests start.
//!
//! Each word is one step; `@R` makes the following steps those of rank R only, `@all` of all again.
//! `rank init @1 exit:3 @all sleep:60` has rank 1 exit with 3 while the others sleep.

use mpi_pmi::{Bootstrap, Event};
use mpi_wire::spawn::{SpawnCommand, SpawnOutcome, SpawnRequest};
use mpi_wire::waits::Wait;
use nix::sys::signal::{SigSet, Signal};
use std::io::{Read, Write};
use std::process::exit;
use std::time::Duration;

fn main() {
    let mut world: Option<Bootstrap> = None;
    let own = std::env::var("MPI_PMI_RANK").unwrap_or_default();
    let mut mine = true;
    for step in std::env::args().skip(1) {
        if let Some(rank) = step.strip_prefix('@') {
            mine = rank == "all" || rank == own;
        } else if mine {
            let (verb, value) = step.split_once(':').unwrap_or((&step, ""));
            perform(verb, value, &mut world);
        }
    }
}

fn perform(verb: &str, value: &str, world: &mut Option<Bootstrap>) {
    let text = || value.replace("\\n", "\n").replace("\\0", "\0");
    match verb {
        "print" => write(&mut std::io::stdout(), text().as_bytes()),
        "eprint" => write(&mut std::io::stderr(), text().as_bytes()),
        "lines" => lines(value),
        "cat" => cat(),
        "sleep" => std::thread::sleep(Duration::from_secs_f64(number(value))),
        "busy" => loop {
            std::hint::spin_loop();
        },
        "exit" => exit(number(value)),
        "trap-term" => trap_term(Duration::from_secs_f64(number(value))),
        "panic" => panic!("{value}"),
        "kill" => signal_self(value),
        "child" => child(value),
        "env" => println!("{}", std::env::var(value).unwrap_or_else(|_| String::from("unset"))),
        "init" => *world = Some(init()),
        _ => with_world(verb, value, world.as_ref().expect("init comes first")),
    }
}

/// Steps that need the launcher.
fn with_world(verb: &str, value: &str, world: &Bootstrap) {
    let client = &world.client;
    match verb {
        "finalize" => client.finalizing().and_then(|()| client.finalized()).expect("finalize"),
        "abort" => {
            client.abort(number(value), "so the test says");
            exit(mpi_pmi::exit_status(number(value)));
        }
        "processors" => println!("{} processors", world.processors),
        "who" => println!("{} of {} in {}", world.rank, world.size, world.job),
        "put" => client.put("key", value.as_bytes()).expect("put"),
        "get" => {
            let got = client.get(number(value), "key").expect("get");
            println!("{}", got.map_or(String::from("nothing"), |v| String::from_utf8_lossy(&v).into_owned()));
        }
        "fence" => client.fence().expect("fence"),
        "events" => watch(world, value.to_owned()),
        "report" => client.report(value, &waits(value)).expect("report"),
        "spawn" => println!("{:?}", spawned(&**client, value)),
        "again" => client.started().expect("started"),
        _ => panic!("no step is called {verb}"),
    }
}

/// Spawns one process of a program.
fn spawned(client: &dyn mpi_pmi::Client, program: &str) -> SpawnOutcome {
    let command = SpawnCommand { program: program.into(), count: 1, ..SpawnCommand::default() };
    client.spawn(SpawnRequest { commands: vec![command], port: String::new() }).expect("spawn")
}

/// On SIGTERM takes some time to tidy up. Comes before any step that starts a thread.
fn trap_term(time: Duration) {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.thread_block().expect("block SIGTERM");
    std::thread::spawn(move || {
        set.wait().expect("wait for SIGTERM");
        std::thread::sleep(time);
        write(&mut std::io::stdout(), b"tidied\n");
        exit(0);
    });
}

fn init() -> Bootstrap {
    match mpi_pmi::bootstrap() {
        Ok(world) => {
            // What comes first must be there when others look.
            world.client.put("key", format!("rank {}", world.rank).as_bytes()).expect("put");
            world.client.started().expect("started");
            world
        }
        Err(e) => {
            eprintln!("start-up failed: {e}");
            exit(3);
        }
    }
}

/// A control thread, as the library has one: ends the process when the job ends, and answers.
fn watch(world: &Bootstrap, report: String) {
    let client = world.client.clone();
    let events = client.events().expect("events are taken once");
    std::thread::spawn(move || {
        for event in events {
            match event {
                Event::Abort { code, .. } => exit(code),
                Event::LauncherGone => exit(1),
                Event::ReportWanted => client.report(&report, &waits(&report)).expect("report"),
                Event::PeerDied { .. } => {}
            }
        }
    });
}

/// Whom a report names as those it waits for: `tea for 1 2` for both, `tea for any of 1 2` for one.
fn waits(report: &str) -> Vec<Wait> {
    let Some((_, whom)) = report.split_once(" for ") else { return Vec::new() };
    let peers = whom.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    vec![Wait { peers, any: whom.starts_with("any"), ..Wait::default() }]
}

/// `lines:N` or `lines:N,LENGTH`: numbered lines, written in pieces that end anywhere.
fn lines(value: &str) {
    let (count, length) = value.split_once(',').unwrap_or((value, "0"));
    let (count, length): (usize, usize) = (number(count), number(length));
    let rank = std::env::var("MPI_PMI_RANK").unwrap_or_default();
    let all: String = (0..count).map(|i| format!("rank {rank} line {i} {}\n", "x".repeat(length))).collect();
    for piece in all.as_bytes().chunks(1000) {
        write(&mut std::io::stdout(), piece);
    }
}

fn cat() {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match std::io::stdin().read(&mut bytes) {
            Ok(0) => return,
            Ok(n) => write(&mut std::io::stdout(), &bytes[..n]),
            Err(e) => panic!("standard input: {e}"),
        }
    }
}

fn signal_self(signal: &str) {
    let pid = std::process::id().to_string();
    let status = std::process::Command::new("kill").args(["-s", signal, &pid]).status();
    assert!(status.expect("kill").success());
    std::thread::sleep(Duration::from_secs(60));
}

/// `child:own` and `child:session`: a child that would live on, in this group or in a session of
/// its own; its process id goes to standard output.
fn child(value: &str) {
    let session = if value == "session" { "setsid " } else { "" };
    let script = format!("{session}sleep 1000 </dev/null >/dev/null 2>&1 & echo child $!");
    let shell = std::process::Command::new("sh").args(["-c", &script]).status();
    assert!(shell.expect("sh").success());
}

fn write(to: &mut impl Write, bytes: &[u8]) {
    to.write_all(bytes).and_then(|()| to.flush()).expect("output");
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
