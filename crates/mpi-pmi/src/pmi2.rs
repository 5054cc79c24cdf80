//! Client of PMI-2: begins with a line of PMI-1, goes on with framed messages.

use crate::PmiError;
use crate::pmi::{From, Identity, Limits, Link, Wire, field, malformed, unwritable};
use mpi_wire::limits::PMI2_MESSAGE_MAX_BYTES;
use mpi_wire::pmi1::Line;
use mpi_wire::pmi1_spawn::Spawn;
use mpi_wire::pmi2::{Message, Messages};
use mpi_wire::pmi2_spawn;
use mpi_wire::spawn::NameRequest;

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
        self.answer(what, &message)
    }

    /// Sends a question and waits for its answer.
    fn answer(&mut self, what: &'static str, question: &Message) -> Result<Message, PmiError> {
        let (length, limit) = (question.length(), PMI2_MESSAGE_MAX_BYTES);
        if length > limit {
            return Err(PmiError::TooLong { what, length, limit });
        }
        self.link.send(what, &question.encode())?;
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

    /// The answer names no single process: a code says how all of it went.
    fn spawn(&mut self, request: &Spawn) -> Result<Vec<i64>, PmiError> {
        const WHAT: &str = pmi2_spawn::COMMAND;
        let answer = self.answer(WHAT, &pmi2_spawn::encode(request).map_err(unwritable(WHAT))?)?;
        if answer.code().map_err(malformed(WHAT))? != 0 {
            let reason = answer.get("errmsg").unwrap_or("without a reason").to_owned();
            return Err(PmiError::Refused { what: WHAT, reason });
        }
        Ok(Vec::new())
    }

    fn name(&mut self, request: &NameRequest) -> Result<Option<String>, PmiError> {
        const WHAT: &str = "name";
        let name = request.service();
        let answer = match request {
            NameRequest::Publish { port, .. } => {
                self.exchange("name-publish", &[("name", name), ("port", port)])?
            }
            NameRequest::Unpublish { .. } => self.exchange("name-unpublish", &[("name", name)])?,
            NameRequest::Lookup { .. } => self.exchange("name-lookup", &[("name", name)])?,
        };
        if answer.code().map_err(malformed(WHAT))? != 0 || answer.get("found") == Some("FALSE") {
            return Ok(None);
        }
        // Slurm calls the port a value.
        Ok(Some(answer.get("port").or(answer.get("value")).unwrap_or_default().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::{Fake, Style, start};
    use crate::{
        Bootstrap, Kind, NameOutcome, NameRequest, PmiError, SpawnCommand, SpawnOutcome, SpawnRequest,
    };
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    const STYLES: [Style; 2] = [Style::Slurm, Style::Hydra];
    const WELCOME: &str = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";

    #[test]
    fn a_world_starts_shares_values_and_ends() {
        for style in STYLES {
            let fake = Fake::new(style, 3);
            let program = |world: Bootstrap| {
                let (rank, client) = (world.rank, &world.client);
                assert_eq!((world.kind, world.size, world.job.as_str()), (Kind::Pmi2, 3, "7.0"));
                assert_eq!((world.universe_size, world.appnum, world.parent), (Some(64), None, None));
                // Two ranks on the first node, one on the second.
                assert_eq!((world.node_size, world.multihost), (if rank < 2 { 2 } else { 1 }, true));
                // Longer than one value may be.
                client.put("card", &vec![rank as u8; 3000]).unwrap();
                assert_eq!(client.get(rank, "card"), Ok(None), "nothing is visible before the fence");
                client.fence().unwrap();
                for peer in 0..3 {
                    assert_eq!(client.get(peer, "card"), Ok(Some(vec![peer as u8; 3000])));
                }
                client.finalizing().unwrap();
                client.finalized().unwrap();
                client.finalized().unwrap();
                world.secret
            };
            let secrets = fake.run(program);
            assert!(secrets.iter().all(|secret| *secret == secrets[0] && *secret != [0; 32]));
            assert_eq!(fake.state().finalized, 3, "each once");
        }
    }

    #[test]
    fn names_are_published_found_and_taken_back() {
        for style in STYLES {
            let fake = Fake::new(style, 1);
            fake.run(|world| {
                let ask = |request| world.client.name(request).unwrap();
                let service = || String::from("ocean");
                assert_eq!(ask(NameRequest::Lookup { service: service() }), NameOutcome::Unknown);
                let port = String::from("a b:9");
                assert_eq!(
                    ask(NameRequest::Publish { service: service(), port: port.clone() }),
                    NameOutcome::Done(None)
                );
                assert_eq!(ask(NameRequest::Lookup { service: service() }), NameOutcome::Done(Some(port)));
                assert_eq!(ask(NameRequest::Unpublish { service: service() }), NameOutcome::Done(None));
                assert_eq!(ask(NameRequest::Unpublish { service: service() }), NameOutcome::Unknown);
                let error =
                    world.client.name(NameRequest::Lookup { service: String::from("a;b") }).unwrap_err();
                assert!(error.to_string().contains("\"a;b\" cannot stand"), "{error}");
            });
        }
    }

    #[test]
    fn programs_are_spawned() {
        for style in STYLES {
            let fake = Fake::new(style, 1);
            fake.run(|world| {
                let command = |program: &str| SpawnCommand {
                    program: program.as_bytes().to_vec(),
                    arguments: vec![b"one".to_vec(), b"two".to_vec()],
                    count: 2,
                    directory: b"/tmp".to_vec(),
                    info: Vec::new(),
                };
                let spawn =
                    |commands| world.client.spawn(SpawnRequest { commands, port: String::from("a port") });
                let started = spawn(vec![command("child"), command("other")]).unwrap();
                assert!(matches!(started, SpawnOutcome::Started { .. }), "{started:?}");
                let failed = spawn(vec![command("no-such")]).unwrap();
                assert!(
                    matches!(&failed, SpawnOutcome::Failed { reason, .. } if reason.contains("spawn failed")),
                    "{failed:?}"
                );
                let long = SpawnCommand { arguments: vec![vec![b'x'; 70_000]], ..command("child") };
                assert!(matches!(spawn(vec![long]), Err(PmiError::TooLong { what: "spawn", .. })));
            });
            let spawned = fake.state().spawned.clone();
            assert_eq!(spawned.len(), 2, "what is too long is not sent");
            assert_eq!(spawned[0].preput, [("mpi-parent-port".to_owned(), "a port".to_owned())]);
            assert_eq!(spawned[0].programs[1].name, "other");
            assert_eq!(spawned[0].programs[1].arguments, ["one", "two"]);
            assert_eq!(spawned[0].programs[1].info, [("wdir".to_owned(), "/tmp".to_owned())]);
        }
    }

    #[test]
    fn an_abort_ends_the_world_and_says_why() {
        let fake = Fake::new(Style::Slurm, 1);
        fake.run(|world| {
            world.client.abort(7, "first; second\nthird");
            // The server has read the abort when it answers what follows.
            world.client.fence().unwrap();
        });
        assert_eq!(fake.state().aborted.as_deref(), Some("abort(7) first, second,third"));
    }

    /// What a client says whose server answers each question with the next of `answers`, and then closes.
    fn told(answers: &'static [&'static str]) -> String {
        let (client, server) = UnixStream::pair().unwrap();
        let scripted = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            for answer in answers {
                if (&server).read(&mut bytes).unwrap_or(0) == 0 {
                    return;
                }
                // The client may have closed: what it thinks is looked at elsewhere.
                let _ = (&server).write_all(answer.as_bytes());
            }
            let _ = server.shutdown(Shutdown::Write);
            let _ = (&server).read(&mut bytes);
        });
        let error = start(&client, 0, 2, &[]).err().expect("no start").to_string();
        client.shutdown(Shutdown::Both).unwrap();
        scripted.join().unwrap();
        error
    }

    #[test]
    fn a_server_that_misbehaves_is_named() {
        const LONG: &str = "cmd=response_to_init response_to_init response_to_init response_to_init response_to_init \
             response_to_init response_to_init response_to_init response_to_init response_to_init response_to_init \
             response_to_init response_to_init response_to_init response_to_init response_to_init response_to_init";
        const FULL: &str = "55    cmd=fullinit-response;rc=0;rank=0;size=2;appnum=0;a=b;;";
        for (answers, expected) in [
            (&[][..], "the launcher is gone (end of file) while \"init\" was under way"),
            (&[LONG], "malformed answer to \"init\": no line within 256 bytes"),
            (&["HTTP/1.1 400 Bad Request\n"], "malformed answer to \"init\""),
            (&["cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"], "PMI 1, this program PMI 2.0"),
            (&["cmd=response_to_init rc=-1 pmi_version=2\n"], "it does not take this version"),
            (&["cmd=response_to_init rc=x pmi_version=2\n"], "malformed answer to \"init\": rc"),
            (&[WELCOME], "gone (end of file) while \"fullinit\" was under way"),
            (&[WELCOME, "abcdefcmd=x;"], "malformed answer to \"fullinit\": length"),
            (
                &[WELCOME, "999999cmd=x;"],
                "malformed answer to \"fullinit\": length of a PMI-2 message: 999999 bytes",
            ),
            (&[WELCOME, "30    cmd=fullinit"], "gone (end of file) while \"fullinit\" was under way"),
            (&[WELCOME, "4     rc=0"], "malformed answer to \"fullinit\": cmd of a PMI-2 message"),
            (&[WELCOME, "17    cmd=put-response;"], "expected fullinit-response, got put-response"),
            (&[WELCOME, "28    cmd=fullinit-response;rc=x;;"], "malformed answer to \"fullinit\": rc"),
            (&[WELCOME, "37    cmd=fullinit-response;rc=3;errmsg=no;"], "refused \"fullinit\": no"),
            (
                &[WELCOME, "34    cmd=fullinit-response;rc=0;size=2;"],
                "\"fullinit\": expected a number, got None",
            ),
            (
                &[WELCOME, FULL, "28    cmd=job-getid-response;rc=-1"],
                "refused \"job-getid\": without a reason",
            ),
        ] {
            let error = told(answers);
            assert!(error.contains(expected), "{answers:?}: {error}");
        }
    }

    #[test]
    fn a_rank_outside_of_its_world_is_an_error() {
        let (client, server) = UnixStream::pair().unwrap();
        let mut answers = String::from(WELCOME);
        for body in [
            "cmd=fullinit-response;rc=0;rank=2;size=2;",
            "cmd=job-getid-response;rc=0;jobid=7;",
            "cmd=info-getjobattr-response;rc=1;",
        ] {
            answers += &format!("{:<6}{body}", body.len());
        }
        (&server).write_all(answers.as_bytes()).unwrap();
        let error = start(&client, 0, 2, &[]).err().unwrap().to_string();
        assert!(error.contains("it says rank 2 of 2"), "{error}");
    }

    #[test]
    fn silence_is_bounded_and_bad_variables_are_named() {
        let (client, _server) = UnixStream::pair().unwrap();
        let error = start(&client, 0, 2, &[("MPI_PMI_TIMEOUT", "1")]).err().unwrap();
        assert_eq!(error, PmiError::Timeout { what: "init", seconds: 1 });
        for (name, value) in
            [("PMI_FD", "x"), ("PMI_FD", "9999"), ("PMI_RANK", "-1"), ("MPI_PMI_PROTOCOL", "3")]
        {
            let error = start(&client, 0, 2, &[(name, value)]).err().unwrap().to_string();
            assert!(error.starts_with(&format!("{name}=\"{value}\"")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_of_a_server_are_an_error(bytes: Vec<u8>, fields in "[a-z0-9;=-]{0,60}", welcome: bool) {
            let (client, server) = UnixStream::pair().unwrap();
            if welcome {
                (&server).write_all(WELCOME.as_bytes()).unwrap();
                let body = format!("cmd=fullinit-response;{fields}");
                (&server).write_all(format!("{:<6}{body}", body.len()).as_bytes()).unwrap();
            }
            (&server).write_all(&bytes).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
            prop_assert!(start(&client, 0, 2, &[]).is_err());
        }
    }
}
