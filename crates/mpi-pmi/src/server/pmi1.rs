//! The launcher's side of PMI-1, for programs that are linked with another MPI.
//!
//! It shares the world with the native protocol: who asks for its rank and size, and how far each has
//! come. The key-value space is one per world, as PMI has it; a barrier makes nothing visible that was
//! not before.

use super::{Action, Phase, Server};
use crate::limits::KEYSPACE_PER_RANK_MAX_BYTES;
use mpi_wire::pmi1::Line;
use mpi_wire::pmi1_spawn::Spawn;
use mpi_wire::spawn::{NameOutcome, NameRequest, SpawnCommand, SpawnOutcome, SpawnRequest};
use mpi_wire::startup::ToRank;
use std::collections::HashMap;

/// Longest name of a key-value space, key and value that a client may use, in bytes.
const KVS_NAME_MAX: usize = 256;
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;

/// Which rank is on which node.
const MAPPING: &str = "PMI_process_mapping";

/// The key-value space and the barrier of a world.
#[derive(Default)]
pub(super) struct Space {
    values: HashMap<String, String>,
    bytes: usize,
    in_barrier: Vec<u32>,
}

impl Space {
    pub(super) fn of(values: Vec<(String, String)>) -> Space {
        Space { values: values.into_iter().collect(), ..Space::default() }
    }
}

impl Server {
    /// Takes a line of a rank.
    pub(super) fn take_line(
        &mut self,
        rank: u32,
        line: &Line,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let Some(welcome) = self.world.get(rank as usize) else {
            return Err(format!("there is no rank {rank}"));
        };
        let field = |key: &str| line.get(key).map(str::to_owned);
        let service = || field("service").ok_or_else(|| String::from("a name is missing"));
        let mut name = |request| actions.push(Action::Name { rank, id: 0, request });
        let answer = match line.command() {
            "init" => return self.init(rank, line, actions),
            "get_maxes" => reply(
                "maxes",
                &[
                    ("kvsname_max", &KVS_NAME_MAX.to_string()),
                    ("keylen_max", &KEY_MAX.to_string()),
                    ("vallen_max", &VALUE_MAX.to_string()),
                ],
            ),
            "get_appnum" => reply("appnum", &[("appnum", &welcome.appnum.unwrap_or(0).to_string())]),
            "get_universe_size" => {
                let size = welcome.universe_size.map_or(String::from("-1"), |size| size.to_string());
                reply("universe_size", &[("size", &size)])
            }
            "get_my_kvsname" => reply("my_kvsname", &[("kvsname", &welcome.job)]),
            "put" => {
                let (key, value) = (field("key").unwrap_or_default(), field("value").unwrap_or_default());
                self.put_value(key, value)?;
                reply("put_result", &[])
            }
            "get" => match self.value(line.get("key").unwrap_or_default()) {
                Some(value) => reply("get_result", &[("value", &value)]),
                None => failed("get_result", "no_such_key"),
            },
            "barrier_in" => return self.barrier(rank, actions),
            "finalize" => {
                self.ranks[rank as usize].phase = Phase::Finalized;
                reply("finalize_ack", &[])
            }
            "abort" => {
                let code = field("exitcode").and_then(|code| code.parse().ok()).unwrap_or(1);
                let message = field("message").unwrap_or_default();
                actions.push(Action::Abort { rank, code, message });
                return Ok(());
            }
            "publish_name" => {
                let port = field("port").unwrap_or_default();
                name(NameRequest::Publish { service: service()?, port });
                self.asked_name(rank, "publish_result");
                return Ok(());
            }
            "unpublish_name" => {
                name(NameRequest::Unpublish { service: service()? });
                self.asked_name(rank, "unpublish_result");
                return Ok(());
            }
            "lookup_name" => {
                name(NameRequest::Lookup { service: service()? });
                self.asked_name(rank, "lookup_result");
                return Ok(());
            }
            other => return Err(format!("it sent the PMI command {other:?}, which is not known")),
        };
        actions.push(Action::Text { rank, text: answer });
        Ok(())
    }

    /// A request to spawn: its programs start where the launcher is, unless they say otherwise.
    pub(super) fn take_spawn(&mut self, rank: u32, spawn: Spawn, actions: &mut Vec<Action>) {
        let command = |program: mpi_wire::pmi1_spawn::Program| SpawnCommand {
            program: program.name.into_bytes(),
            arguments: program.arguments.into_iter().map(String::into_bytes).collect(),
            count: program.count,
            directory: Vec::new(),
            info: program.info,
        };
        let commands = spawn.programs.into_iter().map(command).collect();
        let request = Box::new(SpawnRequest { commands, port: String::new() });
        actions.push(Action::Spawn { rank, id: 0, request, values: spawn.preput });
    }

    /// What a message to a rank is in the protocol that it speaks: the text of PMI-1, if that is it. Of
    /// what PMI-1 has no words for, nothing.
    pub fn in_pmi1(&mut self, rank: u32, message: &ToRank) -> Option<String> {
        let r = self.ranks.get_mut(rank as usize)?;
        if !r.speaks_pmi1 {
            return None;
        }
        let mut asked = || r.asked_name.take().unwrap_or("lookup_result");
        Some(match message {
            ToRank::Spawned { outcome: SpawnOutcome::Started { .. }, .. } => reply("spawn_result", &[]),
            ToRank::Spawned { outcome: SpawnOutcome::Failed { .. }, .. } => failed("spawn_result", "failed"),
            ToRank::Named { outcome: NameOutcome::Done(port), .. } => {
                let port = port.clone().map(|port| ("port", port));
                let fields: Vec<(&str, &str)> =
                    port.iter().map(|(key, port)| (*key, port.as_str())).collect();
                reply(asked(), &[&[("info", "ok")], fields.as_slice()].concat())
            }
            ToRank::Named { .. } => failed(asked(), "fail"),
            _ => String::new(),
        })
    }

    fn init(&mut self, rank: u32, line: &Line, actions: &mut Vec<Action>) -> Result<(), String> {
        let known = line.get("pmi_version") == Some("1");
        let rc = if known { "0" } else { "1" };
        let fields = [("rc", rc), ("pmi_version", "1"), ("pmi_subversion", "1")];
        let r = &mut self.ranks[rank as usize];
        r.speaks_pmi1 = true;
        if known {
            (r.phase, r.visible) = (Phase::Started, true);
        }
        actions.push(Action::Text { rank, text: written("response_to_init", &fields) });
        Ok(())
    }

    fn put_value(&mut self, key: String, value: String) -> Result<(), String> {
        if key.is_empty() || key.len() > KEY_MAX || value.len() > VALUE_MAX {
            return Err(format!("it put {} bytes under a key of {} bytes", value.len(), key.len()));
        }
        let most = KEYSPACE_PER_RANK_MAX_BYTES.saturating_mul(self.ranks.len());
        self.space.bytes += key.len() + value.len();
        if self.space.bytes > most {
            return Err(format!("it filled the key-value space, which has {most} bytes"));
        }
        self.space.values.insert(key, value);
        Ok(())
    }

    fn value(&self, key: &str) -> Option<String> {
        match key {
            MAPPING => self.mapping(),
            _ => self.space.values.get(key).cloned(),
        }
    }

    /// The value of [`MAPPING`]: runs of ranks on one node. Absent where it would be too long; clients
    /// compare the names of their hosts then.
    fn mapping(&self) -> Option<String> {
        let mut nodes: Vec<&str> = Vec::new();
        let mut runs: Vec<(usize, usize, usize)> = Vec::new();
        for welcome in &self.world {
            let node = nodes.iter().position(|known| *known == welcome.host).unwrap_or_else(|| {
                nodes.push(&welcome.host);
                nodes.len() - 1
            });
            match runs.last_mut() {
                Some((last, _, each)) if *last == node => *each += 1,
                _ => runs.push((node, 1, 1)),
            }
        }
        let mut joined: Vec<(usize, usize, usize)> = Vec::new();
        for (node, _, each) in runs {
            match joined.last_mut() {
                Some((first, count, same)) if *first + *count == node && *same == each => *count += 1,
                _ => joined.push((node, 1, each)),
            }
        }
        let items: Vec<String> = joined.iter().map(|(x, y, z)| format!("({x},{y},{z})")).collect();
        Some(format!("(vector,{})", items.join(","))).filter(|text| text.len() <= VALUE_MAX)
    }

    fn barrier(&mut self, rank: u32, actions: &mut Vec<Action>) -> Result<(), String> {
        if self.space.in_barrier.contains(&rank) {
            return Err(String::from("it entered a barrier while it stands in one"));
        }
        self.space.in_barrier.push(rank);
        if self.space.in_barrier.len() == self.ranks.len() {
            let out = |rank| Action::Text { rank, text: reply("barrier_out", &[]) };
            actions.extend(std::mem::take(&mut self.space.in_barrier).into_iter().map(out));
        }
        Ok(())
    }

    fn asked_name(&mut self, rank: u32, command: &'static str) {
        self.ranks[rank as usize].asked_name = Some(command);
    }
}

/// A good answer.
fn reply(command: &str, fields: &[(&str, &str)]) -> String {
    written(command, &[&[("rc", "0")], fields].concat())
}

/// A bad one.
fn failed(command: &str, message: &str) -> String {
    written(command, &[("rc", "1"), ("info", "fail"), ("msg", message)])
}

/// Fields that cannot be written are left out: a client that misses one says so.
fn written(command: &str, fields: &[(&str, &str)]) -> String {
    let line = Line::new(command);
    fields.iter().fold(line, |line, (key, value)| line.clone().with(key, value).unwrap_or(line)).encode()
}

#[cfg(test)]
mod tests {
    use super::super::Said;
    use super::*;
    use mpi_wire::startup::Welcome;

    fn world(hosts: &[&str]) -> Server {
        let welcome = |(rank, host): (usize, &&str)| Welcome {
            rank: rank as u32,
            size: hosts.len() as u32,
            host: (*host).to_owned(),
            job: String::from("job"),
            ..Welcome::default()
        };
        Server::new(hosts.iter().enumerate().map(welcome).collect())
    }

    /// What the server says to whom, `rank text` a line.
    fn say(server: &mut Server, rank: u32, line: &str) -> String {
        let line = Line::decode(line.as_bytes()).unwrap();
        let show = |action: Action| match action {
            Action::Text { rank, text } => format!("{rank} {text}"),
            other => format!("{other:?}\n"),
        };
        server.hear(rank, Said::Line(line)).into_iter().map(show).collect()
    }

    #[test]
    fn a_start_and_an_end() {
        let mut server = world(&["a", "a"]);
        for rank in 0..2 {
            let answer = say(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1");
            assert_eq!(answer, format!("{rank} cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"));
        }
        assert_eq!(server.phase(0), Phase::Started);
        assert_eq!(say(&mut server, 0, "cmd=get_my_kvsname"), "0 cmd=my_kvsname rc=0 kvsname=job\n");
        assert_eq!(say(&mut server, 0, "cmd=put kvsname=job key=k value=v"), "0 cmd=put_result rc=0\n");
        assert_eq!(say(&mut server, 0, "cmd=barrier_in"), "");
        assert_eq!(say(&mut server, 1, "cmd=barrier_in"), "0 cmd=barrier_out rc=0\n1 cmd=barrier_out rc=0\n");
        assert_eq!(say(&mut server, 1, "cmd=get kvsname=job key=k"), "1 cmd=get_result rc=0 value=v\n");
        assert!(say(&mut server, 1, "cmd=get kvsname=job key=absent").starts_with("1 cmd=get_result rc=1 "));
        assert_eq!(say(&mut server, 0, "cmd=finalize"), "0 cmd=finalize_ack rc=0\n");
        assert_eq!((server.phase(0), server.phase(1)), (Phase::Finalized, Phase::Started));
        let abort = server.hear(1, Said::Line(Line::decode(b"cmd=abort exitcode=7").unwrap()));
        assert!(matches!(&abort[..], [Action::Abort { rank: 1, code: 7, .. }]), "{abort:?}");
    }

    #[test]
    fn nodes_are_told_in_runs() {
        for (hosts, expected) in [
            (&["a", "a"][..], "(vector,(0,1,2))"),
            (&["a", "a", "b", "b"], "(vector,(0,2,2))"),
            (&["a", "b", "a", "b"], "(vector,(0,2,1),(0,2,1))"),
            (&["a", "a", "b"], "(vector,(0,1,2),(1,1,1))"),
        ] {
            let text = world(hosts).mapping().unwrap();
            assert_eq!(text, expected);
            let back = mpi_wire::pmi1::process_mapping(&text, hosts.len() as u32).unwrap();
            let same = |a: usize, b: usize| (hosts[a] == hosts[b]) == (back[a] == back[b]);
            assert!((0..hosts.len()).all(|a| (0..hosts.len()).all(|b| same(a, b))));
        }
    }

    #[test]
    fn whoever_breaks_the_rules_is_named() {
        let mut server = world(&["a", "a"]);
        let long = "x".repeat(VALUE_MAX + 1);
        let lines =
            ["cmd=nonsense".to_owned(), format!("cmd=put key=k value={long}"), "cmd=put value=v".to_owned()];
        for line in lines {
            assert!(say(&mut server, 0, &line).starts_with("Broken { rank: 0"), "{line}");
        }
        assert_eq!(say(&mut server, 0, "cmd=barrier_in"), "");
        assert!(say(&mut server, 0, "cmd=barrier_in").contains("stands in one"));
        assert!(say(&mut server, 9, "cmd=init").starts_with("Broken { rank: 9"));
    }

    #[test]
    fn answers_are_in_the_protocol_of_who_asked() {
        let mut server = world(&["a", "a"]);
        say(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
        assert!(say(&mut server, 0, "cmd=lookup_name service=s").contains("Lookup"));
        let done = ToRank::Named { id: 0, outcome: NameOutcome::Done(Some(String::from("p"))) };
        let text = server.in_pmi1(0, &done);
        assert_eq!(text.as_deref(), Some("cmd=lookup_result rc=0 info=ok port=p\n"));
        assert_eq!(server.in_pmi1(0, &ToRank::ReportWanted).as_deref(), Some(""));
        assert_eq!(server.in_pmi1(1, &done), None);
    }
}
