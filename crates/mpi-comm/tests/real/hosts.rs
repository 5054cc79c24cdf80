//! Two hosts, made of network namespaces joined by a pair of virtual cards: ranks of one share memory, those of two speak
//! over TCP.
//!
//! Needs the right to make namespaces (root) and `ip`; elsewhere the launches say so and pass.

use crate::launch::mpiexec;
use crate::ranks::join;
use mpi_comm::{SplitKind, ThreadLevel};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const SECONDS: &str = "120";
/// How mpiexec reaches them.
pub const LAUNCHER: &str = "exec:ip netns exec {host} {command}";

/// The namespaces of one launch.
pub struct Hosts(String);

impl Hosts {
    /// Makes two with an address each; the reason where that is not permitted here.
    pub fn new() -> Result<Hosts, String> {
        Hosts::with(&["10.79.0.1/24"], &["10.79.0.2/24"])
    }

    /// Makes two with these addresses on the cards that join them.
    pub fn with(first: &[&str], second: &[&str]) -> Result<Hosts, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let hosts = Hosts(format!("mpihosts{}-{number}", std::process::id()));
        let [a, b] = hosts.names();
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!("-n {a} link add v0 type veth peer name v0 netns {b}"))?;
        for (host, addresses) in [(&a, first), (&b, second)] {
            ip(&format!("-n {host} link set lo up"))?;
            ip(&format!("-n {host} link set v0 up"))?;
            for address in addresses {
                // Without the second that IPv6 takes to see whether an address is free.
                let flags = if address.contains(':') { " nodad" } else { "" };
                ip(&format!("-n {host} addr add {address} dev v0{flags}"))?;
            }
        }
        Ok(hosts)
    }

    pub fn names(&self) -> [String; 2] {
        ["a", "b"].map(|end| format!("{}{end}", self.0))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in self.names() {
            let _ = ip(&format!("netns del {host}"));
        }
    }
}

pub fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// A launch over two hosts.
pub struct TwoHosts {
    pub scenario: &'static str,
    pub ranks: u32,
    pub round_robin: bool,
    /// Slots of each host, where they are more than its ranks.
    pub slots: Option<[u32; 2]>,
    pub variables: &'static [(&'static str, &'static str)],
    /// Texts that are on standard error.
    pub says: &'static [&'static str],
}

impl TwoHosts {
    /// What was printed; `None` where there are no namespaces.
    pub fn run(&self) -> Result<Option<String>, String> {
        let hosts = match Hosts::new() {
            Ok(hosts) => hosts,
            Err(why) => {
                println!("not tested, namespaces cannot be made here: {why}");
                return Ok(None);
            }
        };
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(mpiexec());
        let [a, b] = hosts.names();
        let here = self.ranks.div_ceil(2);
        let [first, second] = self.slots.unwrap_or([here, self.ranks - here]);
        let list = format!("{a}:{first},{b}:{second}");
        command.args(["--timeout", SECONDS, "--launcher", LAUNCHER, "--host", &list]);
        command.args(["--map-by", if self.round_robin { "node" } else { "slot" }]);
        command
            .args(["--oversubscribe", "-n", &self.ranks.to_string()])
            .arg(&me)
            .args(["rank", self.scenario]);
        command.env("MPI_TEST_HOSTS", format!("{a},{b}"));
        command.envs(self.variables.iter().copied()).stdin(Stdio::null());
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let missing = self.says.iter().find(|text| !err.contains(**text));
        match (output.status.success(), missing) {
            (true, None) => Ok(Some(out.into_owned())),
            (_, missing) => Err(format!(
                "{}, missing {missing:?}\n{command:?}\n--- stdout\n{out}\n--- stderr\n{err}",
                output.status
            )),
        }
    }
}

/// As a rank: the node has the ranks that it should, and only those of the other are spoken to over TCP.
pub fn shares_memory() {
    let world = join(ThreadLevel::Single);
    let node = world.split_type(SplitKind::Shared, 0).unwrap();
    let (size, mine) = (world.size(), own_addresses());
    assert_eq!(node.size(), size / 2, "ranks on a node");
    // Everybody speaks to everybody.
    for distance in 1..size {
        let (to, from) = ((world.rank() + distance) % size, (world.rank() + size - distance) % size);
        crate::common::send(&world, mpi_comm::Dest::Rank(to as i32), 3, 7).unwrap();
        let source = mpi_comm::Source::Rank(from as i32);
        assert_eq!(crate::common::receive(&world, source, mpi_p2p::Tag::Is(3)).unwrap().0, 7);
    }
    let peers = connected();
    assert!(!peers.is_empty(), "the other host is reached over TCP");
    assert!(
        peers.iter().all(|peer| !mine.contains(peer)),
        "{peers:?} are not all on the other host than {mine:?}"
    );
    world.barrier().unwrap();
    mpi_comm::finalize().unwrap();
}

/// IPv4 addresses of this host, as `/proc` writes them in hexadecimal.
pub fn own_addresses() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/net/fib_trie").unwrap();
    let mut found = Vec::new();
    let mut last = String::new();
    for line in text.lines() {
        match line.trim().strip_prefix("|-- ") {
            Some(address) => address.clone_into(&mut last),
            None if line.contains("host LOCAL") => {
                let address: std::net::Ipv4Addr = last.parse().unwrap();
                found.push(format!("{:08X}", u32::from_ne_bytes(address.octets())));
            }
            None => {}
        }
    }
    found
}

/// Remote addresses of this process's TCP connections, as `/proc` writes them.
fn connected() -> Vec<String> {
    let sockets: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let mut peers = Vec::new();
    for (file, digits) in [("/proc/self/net/tcp", 8), ("/proc/self/net/tcp6", 32)] {
        for line in std::fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let established = words.get(3) == Some(&"01");
            if established && words.get(9).is_some_and(|inode| sockets.iter().any(|own| own == inode)) {
                // An IPv4 address inside of an IPv6 one stands at its end.
                let address = words[2].split(':').next().unwrap_or_default();
                peers.push(address[digits - 8..].to_owned());
            }
        }
    }
    peers
}
