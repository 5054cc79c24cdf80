//! Hosts made of network namespaces: all on one bridge, which stands in a namespace of its own.

use std::process::Command;

/// Some hosts; they are gone when this is dropped.
pub struct Hosts {
    prefix: String,
    count: usize,
}

impl Hosts {
    /// `count` hosts that reach each other, with the addresses 10.79.0.1, 10.79.0.2 and so on. `None`, and
    /// a line that says why, where namespaces cannot be made.
    pub fn new(test: &str, count: usize) -> Option<Hosts> {
        // The name of a network interface has 15 characters at most, that of a namespace many.
        let hosts = Hosts { prefix: format!("mpx{}{test}", std::process::id()), count };
        match hosts.make() {
            Ok(()) => Some(hosts),
            Err(why) => {
                eprintln!("not tested, network namespaces cannot be made here: {why}");
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        let net = format!("{}net", self.prefix);
        ip(&["netns", "add", &net])?;
        ip(&["-n", &net, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &net, "link", "set", "br0", "up"])?;
        for at in 0..self.count {
            let (host, port) = (self.name(at), format!("p{at}"));
            ip(&["netns", "add", &host])?;
            ip(&["-n", &net, "link", "add", &port, "type", "veth", "peer", "name", "v0", "netns", &host])?;
            ip(&["-n", &net, "link", "set", &port, "master", "br0", "up"])?;
            let address = format!("10.79.{}.{}/16", (at + 1) / 256, (at + 1) % 256);
            ip(&["-n", &host, "addr", "add", &address, "dev", "v0"])?;
            ip(&["-n", &host, "link", "set", "lo", "up"])?;
            ip(&["-n", &host, "link", "set", "v0", "up"])?;
        }
        Ok(())
    }

    /// What a host is called.
    pub fn name(&self, at: usize) -> String {
        format!("{}h{at}", self.prefix)
    }

    /// All names, between commas, each with `slots`.
    pub fn list(&self, slots: &str) -> String {
        (0..self.count).map(|at| self.name(at) + slots).collect::<Vec<_>>().join(",")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let names = (0..self.count).map(|at| self.name(at)).chain([format!("{}net", self.prefix)]);
        for name in names {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

/// The option that reaches them.
pub const LAUNCHER: &str = "exec:ip netns exec {host} {command}";

fn ip(words: &[&str]) -> Result<(), String> {
    let out = Command::new("ip").args(words).output().map_err(|e| format!("ip: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() { Ok(()) } else { Err(format!("ip {}: {said}", words.join(" "))) }
}
