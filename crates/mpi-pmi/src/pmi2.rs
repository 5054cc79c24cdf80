//! Client of PMI-2: begins with a line of PMI-1, goes on with framed messages.

use crate::PmiError;
use crate::pmi::{From, Identity, Limits, Link, Wire, field, malformed, unwritable};
use mpi_wire::pmi1::Line;
use mpi_wire::pmi2::{Message, Messages};

/// A connection on which the handshake is done.
pub(crate) struct Pmi2 {
    link: Link,
    messages: Messages,
    finalized: bool,
}

/// Shakes hands and asks who this process is.
pub(crate) fn connect(link: Link, from: From) -> Result<(Pmi2, Identity), PmiError> {
    let From::Descriptor { rank, job, .. } = from else {
        return Err(PmiError::Refused {
            what: "init",
            reason: String::from("PMI-2 needs PMI_FD; a server on a port speaks PMI-1"),
        });
    };
    let mut pmi = Pmi2 { link, messages: Messages::default(), finalized: false };
    pmi.init()?;
    let rank_text = rank.to_string();
    let mut fields = vec![("pmirank", rank_text.as_str()), ("threaded", "FALSE")];
    if let Some(job) = job.as_deref().filter(|job| !job.is_empty()) {
        fields.insert(0, ("pmijobid", job));
    }
    let full = pmi.ask("fullinit", &fields)?;
    let own: u32 = field("fullinit", full.get("rank"))?;
    let size = field("fullinit", full.get("size"))?;
    let appnum = full.get("appnum").and_then(|v| v.parse().ok()).filter(|n: &i32| *n >= 0);
    let space = pmi.ask("job-getid", &[])?.get("jobid").map(str::to_owned).or(job).ok_or_else(|| {
        PmiError::Protocol { what: "job-getid", reason: String::from("no jobid in the answer") }
    })?;
    let universe_size = pmi.attribute("universeSize")?.and_then(|v| v.parse().ok());
    Ok((pmi, Identity { rank: own, size, appnum, universe_size, space }))
}

impl Pmi2 {
    fn init(&mut self) -> Result<(), PmiError> {
        self.link.send("init", "cmd=init pmi_version=2 pmi_subversion=0\n")?;
        let mut line = Vec::new();
        let mut byte = [0];
        // Byte by byte, since what follows the line has another framing.
        while byte != *b"\n" {
            if line.len() > 256 {
                return Err(PmiError::Protocol {
                    what: "init",
                    reason: String::from("no line within 256 bytes"),
                });
            }
            self.link.read("init", &mut byte)?;
            line.extend_from_slice(&byte);
        }
        let answer = Line::decode(&line).map_err(malformed("init"))?;
        let theirs = answer.get("pmi_version").unwrap_or("none").to_owned();
        if answer.code().map_err(malformed("init"))? != 0 || theirs != "2" {
            let reason = answer.get("msg").unwrap_or("it does not take this version").to_owned();
            return Err(PmiError::Version {
                ours: String::from("PMI 2.0"),
                theirs: format!("PMI {theirs}"),
                reason,
            });
        }
        Ok(())
    }

    fn ask(&mut self, what: &'static str, fields: &[(&str, &str)]) -> Result<Message, PmiError> {
        let answer = self.exchange(what, fields)?;
        if answer.code().map_err(malformed(what))? != 0 {
            let reason = answer.get("errmsg").unwrap_or("without a reason").to_owned();
            return Err(PmiError::Refused { what, reason });
        }
        Ok(answer)
    }

    fn exchange(&mut self, what: &'static str, fields: &[(&str, &str)]) -> Result<Message, PmiError> {
        let mut message = Message::new(what);
        for (key, value) in fields {
            message = message.with(key, value).map_err(unwritable(what))?;
        }
        self.link.send(what, &message.encode())?;
        let mut bytes = [0; 4096];
        loop {
            if let Some(answer) = self.messages.pop().map_err(malformed(what))? {
                if answer.command().strip_suffix("-response") == Some(what) {
                    return Ok(answer);
                }
                let reason = format!("expected {what}-response, got {}", answer.command());
                return Err(PmiError::Protocol { what, reason });
            }
            let n = self.link.read(what, &mut bytes)?;
            self.messages.push(bytes.get(..n).unwrap_or_default());
        }
    }

    /// A question whose answer may be that nothing is there.
    fn find(&mut self, what: &'static str, fields: &[(&str, &str)]) -> Result<Option<String>, PmiError> {
        let answer = self.exchange(what, fields)?;
        let found = answer.code().map_err(malformed(what))? == 0 && answer.get("found") != Some("FALSE");
        Ok(answer.get("value").filter(|_| found).map(str::to_owned))
    }
}

impl Wire for Pmi2 {
    fn limits(&self) -> Limits {
        Limits { key: 64, value: 1024 }
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        self.ask("kvs-put", &[("key", key), ("value", value)]).map(drop)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        self.find("kvs-get", &[("srcid", "-1"), ("key", key)])
    }

    fn attribute(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        self.find("info-getjobattr", &[("key", key)])
    }

    fn fence(&mut self) -> Result<(), PmiError> {
        self.ask("kvs-fence", &[]).map(drop)
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        if std::mem::replace(&mut self.finalized, true) {
            return Ok(());
        }
        self.ask("finalize", &[]).map(drop)
    }

    fn abort(&mut self, code: i32, message: &str) -> Result<(), PmiError> {
        let text: String = format!("abort({code}) {message}").replace([';', '\n'], ",");
        let message = Message::new("abort").with("isworld", "TRUE").and_then(|m| m.with("msg", &text));
        self.link.send("abort", &message.map_err(unwritable("abort"))?.encode())
    }
}
