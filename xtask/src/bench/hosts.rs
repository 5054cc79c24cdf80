//! Two hosts on this machine: network namespaces joined by a pair of virtual cards, each with a core and a name of its own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::shell::Cmd;
use crate::workspace::target;

const LIMIT: Duration = Duration::from_secs(10);
pub const ADDRESSES: [&str; 2] = ["10.81.0.1", "10.81.0.2"];
/// The card's name on both.
pub const CARD: &str = "v0";

/// Gone when dropped.
pub struct Hosts {
    names: [String; 2],
    agent: PathBuf,
}

impl Hosts {
    /// Makes them; needs the right to make namespaces.
    pub fn make() -> anyhow::Result<Hosts> {
        let names = ["a", "b"].map(|end| format!("mpibench{}{end}", std::process::id()));
        let agent = target().join("bench/host");
        std::fs::create_dir_all(agent.parent().context("a script lies in a folder")?)?;
        let hosts = Hosts { names, agent };
        let [a, b] = &hosts.names;
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!("-n {a} link add {CARD} type veth peer name {CARD} netns {b}"))?;
        for (host, address) in hosts.names.iter().zip(ADDRESSES) {
            ip(&format!("-n {host} addr add {address}/24 dev {CARD}"))?;
            ip(&format!("-n {host} link set lo up"))?;
            ip(&format!("-n {host} link set {CARD} up"))?;
        }
        std::fs::write(&hosts.agent, hosts.script())?;
        Cmd::new("chmod").arg("+x").arg(&hosts.agent).run(LIMIT)?;
        Ok(hosts)
    }

    /// Runs a command on a host, which is given by name or address, as ssh does.
    fn script(&self) -> String {
        let [a, b] = &self.names;
        format!(
            "#!/bin/sh\n\
             while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\n\
             case \"$1\" in {a}|{}) host={a} core=0 ;; *) host={b} core=1 ;; esac\n\
             shift\n\
             exec taskset -c $core ip netns exec $host unshare --uts sh -c \"hostname $host; $*\"\n",
            ADDRESSES[0]
        )
    }

    /// The command that takes a host and what is to run there.
    pub fn agent(&self) -> &PathBuf {
        &self.agent
    }

    pub fn names(&self) -> &[String; 2] {
        &self.names
    }

    /// A command on the first host: where the launchers of others run.
    pub fn on_first(&self, program: &std::path::Path) -> Cmd {
        Cmd::new(&self.agent).arg(ADDRESSES[0]).arg(program)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &self.names {
            let _ = ip(&format!("netns del {host}"));
        }
    }
}

fn ip(words: &str) -> anyhow::Result<()> {
    Cmd::new("ip").words(words).read(LIMIT).map(drop)
}
