//! A server of PMI-2 for tests, in this process: as strict as Slurm's and as Hydra's are, each in its own style.

use crate::bootstrap::Lookup;
use crate::{Bootstrap, PmiError, pmi};
use mpi_wire::pmi1_spawn::Spawn;
use mpi_wire::pmi2::{Message, Messages};
use mpi_wire::pmi2_spawn;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The bound of every wait: far above what anything takes.
const BOUND: Duration = Duration::from_secs(30);

/// Whose habits the server has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Lengths padded on the right, what is absent is `found=FALSE`, all of three fields wanted in `fullinit`.
    Slurm,
    /// Lengths padded on the left, what is absent is `rc=1`, an empty value ends the job.
    Hydra,
}

/// The server of one world.
pub(crate) struct Fake {
    style: Style,
    size: u32,
    state: Mutex<State>,
    fenced: Condvar,
}

/// What it has been told.
#[derive(Default)]
pub(crate) struct State {
    values: HashMap<String, String>,
    /// Put, and not visible before the fence.
    fresh: HashMap<String, String>,
    in_fence: u32,
    fences: u32,
    names: HashMap<String, String>,
    pub(crate) spawned: Vec<Spawn>,
    pub(crate) aborted: Option<String>,
    pub(crate) finalized: u32,
}

impl Fake {
    pub(crate) fn new(style: Style, size: u32) -> Arc<Fake> {
        Arc::new(Fake { style, size, state: Mutex::default(), fenced: Condvar::new() })
    }

    /// What it has been told so far.
    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Runs `program` as each rank of the world, started by this server; gives what each returns.
    pub(crate) fn run<T: Send>(self: &Arc<Fake>, program: impl Fn(Bootstrap) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..self.size)
                .map(|rank| {
                    let (client, server) = UnixStream::pair().unwrap();
                    let (fake, program) = (self.clone(), &program);
                    scope.spawn(move || fake.serve(server, rank));
                    scope.spawn(move || program(start(&client, rank, self.size, &[]).unwrap()))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    /// Answers one rank until it closes.
    fn serve(&self, socket: UnixStream, rank: u32) {
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "cmd=init pmi_version=2 pmi_subversion=0\n");
        (&socket).write_all(b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n").unwrap();
        let mut messages = Messages::default();
        let mut bytes = [0; 700];
        loop {
            while let Some(message) = messages.pop().unwrap() {
                if let Some(answer) = self.answer(rank, &message) {
                    (&socket).write_all(self.framed(&answer).as_bytes()).unwrap();
                }
            }
            match reader.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(n) => messages.push(&bytes[..n]),
            }
        }
    }

    fn framed(&self, body: &str) -> String {
        match self.style {
            Style::Slurm => format!("{:<6}{body}", body.len()),
            Style::Hydra => format!("{:>6}{body}", body.len()),
        }
    }

    fn answer(&self, rank: u32, message: &Message) -> Option<String> {
        let field = |key: &str| message.get(key).map(str::to_owned);
        let needed = |key: &str| field(key).unwrap_or_else(|| panic!("{key} is missing in {message:?}"));
        assert!(message.fields().all(|(_, value)| !value.is_empty()), "{message:?}");
        let name = message.command();
        let rest = match name {
            "fullinit" => {
                let whole = ["pmijobid", "pmirank", "threaded"].iter().all(|key| field(key).is_some());
                assert_eq!(needed("pmirank"), rank.to_string());
                match whole || self.style == Style::Hydra {
                    true => format!("rc=0;rank={rank};size={};appnum=-1;pmiverbose=FALSE;", self.size),
                    false => "rc=3;".to_owned(),
                }
            }
            "job-getid" => "rc=0;jobid=7.0;".to_owned(),
            "info-getjobattr" => match needed("key").as_str() {
                "PMI_process_mapping" => {
                    self.found(Some(format!("(vector,(0,2,{}))", self.size.div_ceil(2))))
                }
                "universeSize" => self.found(Some("64".to_owned())),
                _ => self.found(None),
            },
            "kvs-put" => {
                self.state().fresh.insert(needed("key"), needed("value"));
                "rc=0;".to_owned()
            }
            "kvs-get" => self.found(self.state().values.get(&needed("key")).cloned()),
            "kvs-fence" => {
                self.fence();
                "rc=0;".to_owned()
            }
            "name-publish" => {
                self.state().names.insert(needed("name"), needed("port"));
                "rc=0;".to_owned()
            }
            "name-unpublish" => {
                let known = self.state().names.remove(&needed("name")).is_some();
                format!("rc={};", i32::from(!known))
            }
            "name-lookup" => match (self.state().names.get(&needed("name")), self.style) {
                (Some(port), Style::Slurm) => format!("rc=0;value={port};"),
                (Some(port), Style::Hydra) => format!("rc=0;found=TRUE;port={port};"),
                (None, Style::Slurm) => "rc=1;".to_owned(),
                (None, Style::Hydra) => "rc=0;found=FALSE;".to_owned(),
            },
            "spawn" => {
                let spawn = pmi2_spawn::decode(message).unwrap();
                let refused = spawn.programs.iter().any(|program| program.name.contains("no-such"));
                self.state().spawned.push(spawn);
                if refused { "rc=-1;errmsg=spawn failed;" } else { "rc=0;jobid=7.0-1;nerrs=0;" }.to_owned()
            }
            "abort" => {
                assert_eq!(needed("isworld"), "TRUE", "Slurm ends nothing otherwise");
                self.state().aborted = field("msg");
                return None;
            }
            "finalize" => {
                self.state().finalized += 1;
                "rc=0;".to_owned()
            }
            other => panic!("no server knows the command {other}"),
        };
        Some(format!("cmd={name}-response;{rest}"))
    }

    fn found(&self, value: Option<String>) -> String {
        match (value, self.style) {
            (Some(value), _) => format!("rc=0;found=TRUE;value={value};"),
            (None, Style::Slurm) => "rc=0;found=FALSE;".to_owned(),
            (None, Style::Hydra) => "rc=1;".to_owned(),
        }
    }

    fn fence(&self) {
        let mut state = self.state();
        state.in_fence += 1;
        let mine = state.fences;
        if state.in_fence == self.size {
            state.in_fence = 0;
            state.fences += 1;
            let fresh = std::mem::take(&mut state.fresh);
            state.values.extend(fresh);
            self.fenced.notify_all();
        }
        let (_state, late) =
            self.fenced.wait_timeout_while(state, BOUND, |state| state.fences == mine).unwrap();
        assert!(!late.timed_out(), "a rank has not come to the fence");
    }
}

/// Starts as a rank whose server is at the other end of `socket`; `more` variables beat the usual ones.
pub(crate) fn start(
    socket: &UnixStream,
    rank: u32,
    size: u32,
    more: &[(&str, &str)],
) -> Result<Bootstrap, PmiError> {
    let lookup = |name: &str| {
        if let Some((_, value)) = more.iter().find(|(key, _)| *key == name) {
            return Some((*value).to_owned());
        }
        Some(match name {
            "PMI_FD" => socket.as_raw_fd().to_string(),
            "PMI_RANK" => rank.to_string(),
            "PMI_SIZE" => size.to_string(),
            "PMI_JOBID" => "7.0".to_owned(),
            "MPI_PMI_PROTOCOL" => "pmi2".to_owned(),
            "MPI_PMI_TIMEOUT" => BOUND.as_secs().to_string(),
            _ => return None,
        })
    };
    let lookup: Lookup<'_> = &lookup;
    Ok(pmi::start(lookup)?.expect("there is a descriptor"))
}
