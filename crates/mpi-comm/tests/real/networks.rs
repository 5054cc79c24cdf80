//! Networks between two hosts that are not as they should be: the job connects all the same, or ends in time with
//! an error that names host and fact.
//!
//! Needs the right to make namespaces (root) and `ip`; elsewhere the tests say so and pass.

use crate::common::{receive, send};
use crate::hosts::{Hosts, LAUNCHER, ip};
use crate::launch::mpiexec;
use crate::ranks::join;
use mpi_comm::{Dest, Source, ThreadLevel};
use mpi_p2p::Tag;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A connection that cannot be made is an error after 15 s; the rest is for a machine that does other things too.
const TOLD_WITHIN: Duration = Duration::from_secs(40);
/// Data that nobody acknowledges ends a connection after 30 s.
const MISSED_WITHIN: Duration = Duration::from_secs(60);

/// Starts two ranks, one on each host.
fn start(hosts: &Hosts, scenario: &str, options: &[&str]) -> Child {
    let me = std::env::current_exe().expect("the path of the test program");
    let mut command = Command::new(mpiexec());
    command.args(["--timeout", "100", "--launcher", LAUNCHER, "--host", &hosts.names().join(",")]);
    command.args(options).arg(me).args(["rank", scenario]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("mpiexec starts")
}

/// How a job ended.
struct Ended {
    success: bool,
    err: String,
    took: Duration,
}

fn end(mut job: Child, begun: Instant) -> Ended {
    let mut err = String::new();
    job.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    let success = job.wait().expect("mpiexec ends").success();
    Ended { success, err, took: begun.elapsed() }
}

/// Hosts with these addresses, changed by these commands (`A` and `B` are their names).
fn network(first: &[&str], second: &[&str], commands: &[&str]) -> Option<Hosts> {
    let made = Hosts::with(first, second).and_then(|hosts| {
        let [a, b] = hosts.names();
        let whole =
            |command: &&str| command.replace("-n A", &format!("-n {a}")).replace("-n B", &format!("-n {b}"));
        commands.iter().try_for_each(|command| ip(&whole(command)))?;
        Ok(hosts)
    });
    match made {
        Ok(hosts) => Some(hosts),
        Err(why) => {
            println!("not tested, such a network cannot be made here: {why}");
            None
        }
    }
}

/// Two ranks talk, with no option.
fn connects(first: &[&str], second: &[&str], commands: &[&str]) -> Result<(), String> {
    let Some(hosts) = network(first, second, commands) else { return Ok(()) };
    let ended = end(start(&hosts, "hello", &[]), Instant::now());
    // Far below the time after which an address is given up: the dead ones hold nobody up.
    match ended.success && ended.err.is_empty() && ended.took < Duration::from_secs(13) {
        true => Ok(()),
        false => Err(format!("after {:?}: {}", ended.took, ended.err)),
    }
}

pub fn a_bridge_that_both_hosts_have() -> Result<(), String> {
    let bridge = |host: &str| {
        [
            format!("-n {host} link add docker0 type bridge"),
            format!("-n {host} link set docker0 up"),
            format!("-n {host} addr add 172.17.0.1/16 dev docker0"),
        ]
    };
    let commands = [bridge("A"), bridge("B")].concat();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    connects(&["10.79.0.1/24"], &["10.79.0.2/24"], &commands)
}

/// Packets to the second address of each go to a card that nobody has.
pub fn one_dead_route_and_one_live() -> Result<(), String> {
    connects(
        &["10.78.0.1/32", "10.79.0.1/24"],
        &["10.78.0.2/32", "10.79.0.2/24"],
        &[
            "-n A neigh add 10.78.0.2 lladdr 02:00:00:00:00:99 dev v0 nud permanent",
            "-n A route add 10.78.0.2/32 dev v0",
            "-n B neigh add 10.78.0.1 lladdr 02:00:00:00:00:99 dev v0 nud permanent",
            "-n B route add 10.78.0.1/32 dev v0",
        ],
    )
}

pub fn ipv4_alone() -> Result<(), String> {
    connects(
        &["10.79.0.1/24"],
        &["10.79.0.2/24"],
        &["-n A addr flush dev v0 scope link", "-n B addr flush dev v0 scope link"],
    )
}

pub fn ipv6_alone() -> Result<(), String> {
    connects(&["fd79::1/64"], &["fd79::2/64"], &[])
}

/// What the second host answers never arrives at the first.
pub fn a_blocked_way_back() -> Result<(), String> {
    let Some(hosts) =
        network(&["10.79.0.1/24"], &["10.79.0.2/24"], &["-n B route add blackhole 10.79.0.1/32"])
    else {
        return Ok(());
    };
    let ended = end(start(&hosts, "talks", &[]), Instant::now());
    let [_, b] = hosts.names();
    let says = ["rank 1", b.as_str(), "10.79.0.2:", "no answer within 15 s", "MPI_IFACE", "MPI_PORT_RANGE"];
    let missing = says.iter().find(|text| !ended.err.contains(**text));
    match (ended.success, missing, ended.took < TOLD_WITHIN) {
        (false, None, true) => Ok(()),
        _ => Err(format!("after {:?}, missing {missing:?}: {}", ended.took, ended.err)),
    }
}

pub fn a_cable_pulled_in_mid_job() -> Result<(), String> {
    let Some(hosts) = network(&["10.79.0.1/24"], &["10.79.0.2/24"], &[]) else { return Ok(()) };
    let mut job = start(&hosts, "talks", &[]);
    let mut out = BufReader::new(job.stdout.take().expect("a pipe"));
    let mut line = String::new();
    if out.read_line(&mut line).is_err() || line != "up\n" {
        return Err(format!("{line:?}: {}", end(job, Instant::now()).err));
    }
    let begun = Instant::now();
    let pulled = ip(&format!("-n {} link set v0 down", hosts.names()[0]));
    let ended = end(job, begun);
    pulled?;
    // Which of the two misses the other first is a matter of who sent last.
    let names_a_peer = ["rank 0", "rank 1"].iter().any(|rank| ended.err.contains(rank));
    let says_how = ["timed out", "unreachable", "No route", "lost"].iter().any(|how| ended.err.contains(how));
    match !ended.success && names_a_peer && says_how && ended.took < MISSED_WITHIN {
        true => Ok(()),
        false => Err(format!("after {:?}: {}", ended.took, ended.err)),
    }
}

pub fn every_port_is_in_the_range() -> Result<(), String> {
    let Some(hosts) = network(&["10.79.0.1/24"], &["10.79.0.2/24"], &[]) else { return Ok(()) };
    let ended =
        end(start(&hosts, "listens", &["--port-range", "41000-41009", "--iface", "v0"]), Instant::now());
    if ended.success { Ok(()) } else { Err(ended.err) }
}

/// As a rank: a message there and one back, for ever.
pub fn talks() {
    let world = join(ThreadLevel::Single);
    let other = 1 - world.rank() as i32;
    for round in 0.. {
        let said = match world.rank() {
            0 => send(&world, Dest::Rank(1), 0, round)
                .and_then(|()| receive(&world, Source::Rank(other), Tag::Is(0))),
            _ => receive(&world, Source::Rank(other), Tag::Is(0))
                .and_then(|got| send(&world, Dest::Rank(0), 0, round).map(|()| got)),
        };
        match said {
            Ok((got, _)) => assert_eq!(got, round),
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(9);
            }
        }
        if round == 3 && world.rank() == 0 {
            println!("up");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// As a rank: everything that it, and who started it, listens at is within the range.
pub fn listens() {
    let world = join(ThreadLevel::Single);
    world.barrier().unwrap();
    let port = mpi_comm::open_port().unwrap();
    let addresses = port.split('/').nth(1).unwrap();
    assert!(addresses.starts_with("10.79.0.") && !addresses.contains(','), "{addresses}");
    let own = listening(std::process::id());
    assert!(own.len() >= 2, "the transport's and the port: {own:?}");
    assert!(own.iter().all(|port| (41000..=41009).contains(port)), "{own:?}");
    let daemon = std::os::unix::process::parent_id();
    assert_eq!(listening(daemon), [0u16; 0], "the daemon needs no port");
    world.barrier().unwrap();
    mpi_comm::finalize().unwrap();
}

/// The TCP ports that a process of this host listens at.
fn listening(pid: u32) -> Vec<u16> {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let mut ports = Vec::new();
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        for line in std::fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let listens = words.get(3) == Some(&"0A");
            if listens && words.get(9).is_some_and(|inode| sockets.iter().any(|own| own == inode)) {
                let port = words[1].rsplit(':').next().unwrap();
                ports.push(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports
}
