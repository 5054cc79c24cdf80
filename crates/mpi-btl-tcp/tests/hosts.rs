//! Two hosts, made of network namespaces: IPv4 only, IPv6 only, both; a bridge address that both
//! share; one address that leads nowhere.
//!
//! Needs the right to make namespaces (root) and `ip`; elsewhere the test says so and ends.

mod common;

use common::{addresses, env, open_with, until};
use mpi_btl::{Am, Body, Ep, OpenEnv, PeerInfo};
use mpi_btl_sim::conformance::Recorder;
use mpi_wire::Header;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// In the environment of this program when it runs as a rank inside of a namespace.
const RANK: &str = "MPI_BTL_TCP_TEST_RANK";

struct Hosts(String);

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in ["a", "b"] {
            let _ = ip(&format!("netns del {}{host}", self.0));
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// Two namespaces joined by a pair of virtual cards, with these addresses.
fn hosts(name: &str, a: &[&str], b: &[&str]) -> Result<Hosts, String> {
    let hosts = Hosts(format!("mpitcp{}{name}", std::process::id()));
    let n = &hosts.0;
    ip(&format!("netns add {n}a"))?;
    ip(&format!("netns add {n}b"))?;
    ip(&format!("-n {n}a link add v0 type veth peer name v0 netns {n}b"))?;
    for (host, list) in [("a", a), ("b", b)] {
        let at = format!("-n {n}{host}");
        ip(&format!("{at} link set lo up"))?;
        ip(&format!("{at} link set v0 up"))?;
        // A bridge that has the same address on every host, as container engines make them.
        ip(&format!("{at} link add docker0 type bridge"))?;
        ip(&format!("{at} link set docker0 up"))?;
        for address in list {
            let (device, address) = address.split_once(' ').unwrap_or(("v0", address));
            let flags = if address.contains(':') { " nodad" } else { "" };
            ip(&format!("{at} addr add {address} dev {device}{flags}"))?;
        }
    }
    Ok(hosts)
}

fn start(hosts: &Hosts, rank: u32) -> Child {
    let host = if rank == 0 { "a" } else { "b" };
    Command::new("ip")
        .args(["netns", "exec", &format!("{}{host}", hosts.0)])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_rank", "--nocapture", "--test-threads=1"])
        .env(RANK, rank.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ip runs")
}

/// What one process does when it is started as a rank; nothing otherwise.
#[test]
fn a_rank() {
    let Some(rank) = std::env::var(RANK).ok().and_then(|r| r.parse::<u32>().ok()) else { return };
    let mut end = open_with(&OpenEnv { multihost: true, ..env(rank) }).expect("addresses are there");
    let mut log = Recorder::new(rank);
    let bytes = &end.info.addresses["tcp"];
    println!("\naddress {}", bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(" "));
    eprintln!("rank {rank} offers {:?}", addresses(&end));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the peer's address");
    let peer: Vec<u8> = line.split_whitespace().map(|b| b.parse().expect("a byte")).collect();
    let other = 1 - rank;
    let info = PeerInfo {
        ep: Ep(other),
        world_rank: other,
        addresses: [("tcp".to_owned(), peer)].into(),
        guest_secret: None,
        ..end.info.clone()
    };
    end.tx.connect(&info).expect("known");
    let header = Header { tag: rank as i32, length: 5, ..Header::default() };
    end.tx.send(Ep(other), Am { header, body: Body::Bytes(b"hello"), more: false }).expect("taken");
    until("the peer's message", &mut [(&mut end, &mut log)], |w| !w[0].1.tags(Ep(other)).is_empty());
    end.tx.close(Ep(other));
    until("goodbye", &mut [(&mut end, &mut log)], |w| {
        !w[0].1.downs(Ep(other)).is_empty() && w[0].0.tx.quiet()
    });
    println!("\nheard {:?}", log.tags(Ep(other)));
}

fn reach(name: &str, a: &[&str], b: &[&str]) {
    let hosts = match hosts(name, a, b) {
        Ok(hosts) => hosts,
        Err(why) => return eprintln!("not tested, namespaces cannot be made here: {why}"),
    };
    let mut ranks: Vec<Child> = (0..2).map(|rank| start(&hosts, rank)).collect();
    let mut outs: Vec<_> =
        ranks.iter_mut().map(|r| BufReader::new(r.stdout.take().expect("a pipe")).lines()).collect();
    let mut find = |rank: usize, word: &str| -> String {
        let mut all = outs[rank].by_ref().map(|l| l.expect("text"));
        all.find_map(|l| l.strip_prefix(word).map(str::to_owned))
            .unwrap_or_else(|| panic!("{name}: rank {rank} ended without \"{word}\""))
    };
    let lists: Vec<String> = (0..2).map(|rank| find(rank, "address ")).collect();
    for (rank, child) in ranks.iter_mut().enumerate() {
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{}", lists[1 - rank]).expect("the rank listens");
    }
    assert_eq!([find(0, "heard "), find(1, "heard ")], ["[1]", "[0]"], "{name}");
    for mut rank in ranks {
        assert!(rank.wait().expect("the rank ends").success());
    }
}

#[test]
fn both_families_and_a_shared_bridge_address() {
    reach(
        "both",
        &["10.77.0.1/24", "fd77::1/64", "docker0 172.17.0.1/16"],
        &["10.77.0.2/24", "fd77::2/64", "docker0 172.17.0.1/16"],
    );
}

#[test]
fn ipv4_alone() {
    reach("four", &["10.77.1.1/24"], &["10.77.1.2/24"]);
}

#[test]
fn ipv6_alone() {
    reach("six", &["fd77:1::1/64"], &["fd77:1::2/64"]);
}

#[test]
fn an_address_that_leads_nowhere_does_not_hold_up_the_other() {
    // 10.78.0.0/16 of each is its own: packets to the other's go nowhere or have no route.
    reach("deaf", &["docker0 10.78.1.1/24", "10.77.2.1/24"], &["docker0 10.78.2.1/24", "10.77.2.2/24"]);
}
