//! Client of PMI-1, version 1.1: a line out, a line back.

use crate::PmiError;
use crate::pmi::{From, Identity, Limits, Link, Wire, field, malformed, unwritable};
use mpi_wire::pmi1::{Line, Lines};
use mpi_wire::pmi1_spawn::Spawn;
use mpi_wire::spawn::NameRequest;

/// A connection on which the handshake is done.
pub(crate) struct Pmi1 {
    link: Link,
    lines: Lines,
    space: String,
    limits: Limits,
    finalized: bool,
}

/// Shakes hands and asks who this process is.
pub(crate) fn connect(link: Link, from: From) -> Result<(Pmi1, Identity), PmiError> {
    let limits = Limits { key: 64, value: 1024 };
    let mut pmi = Pmi1 { link, lines: Lines::default(), space: String::new(), limits, finalized: false };
    let (rank, size) = match from {
        From::Descriptor { rank, size, .. } => (rank, size),
        From::Port { id } => pmi.introduce(id)?,
    };
    pmi.init()?;
    let maxes = pmi.ask("get_maxes", &[], "maxes")?;
    pmi.limits = Limits {
        key: field("get_maxes", maxes.get("keylen_max"))?,
        value: field("get_maxes", maxes.get("vallen_max"))?,
    };
    let appnum = pmi.ask("get_appnum", &[], "appnum")?.get("appnum").and_then(|v| v.parse().ok());
    let universe = pmi.ask("get_universe_size", &[], "universe_size")?;
    // -1: not known.
    let universe_size = universe.get("size").and_then(|v| v.parse().ok());
    let space = pmi.ask("get_my_kvsname", &[], "my_kvsname")?;
    pmi.space = space.get("kvsname").map(str::to_owned).ok_or_else(|| PmiError::Protocol {
        what: "get_my_kvsname",
        reason: String::from("no kvsname in the answer"),
    })?;
    let appnum = appnum.filter(|n: &i32| *n >= 0);
    let identity = Identity { rank, size, appnum, universe_size, space: pmi.space.clone() };
    Ok((pmi, identity))
}

impl Pmi1 {
    /// On a port the client says who it is, and learns rank and size.
    fn introduce(&mut self, id: u32) -> Result<(u32, u32), PmiError> {
        self.ask("initack", &[("pmiid", &id.to_string())], "initack")?;
        let (mut rank, mut size) = (None, None);
        for _ in 0..3 {
            let line = self.receive("initack")?;
            rank = rank.or(line.get("rank").map(str::to_owned));
            size = size.or(line.get("size").map(str::to_owned));
        }
        Ok((field("initack", rank.as_deref())?, field("initack", size.as_deref())?))
    }

    fn init(&mut self) -> Result<(), PmiError> {
        let answer = self.exchange("init", &[("pmi_version", "1"), ("pmi_subversion", "1")])?;
        let theirs = answer.get("pmi_version").unwrap_or("none").to_owned();
        if answer.code().map_err(malformed("init"))? != 0 || theirs != "1" {
            let reason = answer.get("msg").unwrap_or("it does not take this version").to_owned();
            return Err(PmiError::Version {
                ours: String::from("PMI 1.1"),
                theirs: format!("PMI {theirs}"),
                reason,
            });
        }
        Ok(())
    }

    /// A question whose answer must be `expected` with code 0.
    fn ask(&mut self, what: &'static str, fields: &[(&str, &str)], expected: &str) -> Result<Line, PmiError> {
        let answer = self.exchange(what, fields)?;
        check(what, &answer, expected)?;
        if answer.code().map_err(malformed(what))? != 0 {
            let reason = answer.get("msg").unwrap_or("without a reason").to_owned();
            return Err(PmiError::Refused { what, reason });
        }
        Ok(answer)
    }

    fn exchange(&mut self, what: &'static str, fields: &[(&str, &str)]) -> Result<Line, PmiError> {
        let mut line = Line::new(what);
        for (key, value) in fields {
            line = line.with(key, value).map_err(unwritable(what))?;
        }
        self.link.send(what, &line.encode())?;
        self.receive(what)
    }

    fn receive(&mut self, what: &'static str) -> Result<Line, PmiError> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(line) = self.lines.pop().map_err(malformed(what))? {
                return Ok(line);
            }
            let n = self.link.read(what, &mut bytes)?;
            self.lines.push(bytes.get(..n).unwrap_or_default());
        }
    }
}

impl Wire for Pmi1 {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let space = self.space.clone();
        self.ask("put", &[("kvsname", &space), ("key", key), ("value", value)], "put_result").map(drop)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        let space = self.space.clone();
        let answer = self.exchange("get", &[("kvsname", &space), ("key", key)])?;
        check("get", &answer, "get_result")?;
        // Any other code means that nothing is there.
        let found = answer.code().map_err(malformed("get"))? == 0;
        Ok(answer.get("value").filter(|_| found).map(str::to_owned))
    }

    fn attribute(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        self.get(key)
    }

    fn fence(&mut self) -> Result<(), PmiError> {
        self.ask("barrier_in", &[], "barrier_out").map(drop)
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        if std::mem::replace(&mut self.finalized, true) {
            return Ok(());
        }
        self.ask("finalize", &[], "finalize_ack").map(drop)
    }

    fn abort(&mut self, code: i32, _message: &str) -> Result<(), PmiError> {
        let line = Line::new("abort").with("exitcode", &code.to_string()).map_err(unwritable("abort"))?;
        self.link.send("abort", &line.encode())
    }

    fn spawn(&mut self, request: &Spawn) -> Result<Vec<i64>, PmiError> {
        const WHAT: &str = "spawn";
        self.link.send(WHAT, &request.encode().map_err(unwritable(WHAT))?)?;
        let answer = self.receive(WHAT)?;
        check(WHAT, &answer, "spawn_result")?;
        if answer.code().map_err(malformed(WHAT))? != 0 {
            let reason = answer.get("msg").unwrap_or("without a reason").to_owned();
            return Err(PmiError::Refused { what: WHAT, reason });
        }
        // A code that is no number stands for no success.
        let codes = answer.get("errcodes").unwrap_or_default().split(',').filter(|code| !code.is_empty());
        Ok(codes.map(|code| code.parse().unwrap_or(-1)).collect())
    }

    fn name(&mut self, request: &NameRequest) -> Result<Option<String>, PmiError> {
        const WHAT: &str = "name";
        let service = request.service();
        let answer = match request {
            NameRequest::Publish { port, .. } => {
                self.exchange("publish_name", &[("service", service), ("port", port)])?
            }
            NameRequest::Unpublish { .. } => self.exchange("unpublish_name", &[("service", service)])?,
            NameRequest::Lookup { .. } => self.exchange("lookup_name", &[("service", service)])?,
        };
        // Some servers give a code, some say it in a word.
        let code = answer.code().map_err(malformed(WHAT))?;
        if code != 0 || answer.get("info").is_some_and(|info| info != "ok") {
            return Ok(None);
        }
        Ok(Some(answer.get("port").unwrap_or_default().to_owned()))
    }
}

fn check(what: &'static str, answer: &Line, expected: &str) -> Result<(), PmiError> {
    if answer.command() == expected {
        return Ok(());
    }
    Err(PmiError::Protocol { what, reason: format!("expected {expected}, got {}", answer.command()) })
}
