//! What a daemon is to run: programs, ranks, environment.

use super::{put_words, words};
use crate::codec::{DecodeError, Put, Reader};
use crate::limits::{DAEMON_LIST_MAX, JOB_MAX_BYTES, SPAWN_WORD_MAX_BYTES, TEXT_MAX_BYTES};
use crate::spawn::{many, word};

/// What a world runs on one host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prepare {
    /// The world's number in the job.
    pub world: u32,
    /// Its id.
    pub id: String,
    /// Its ranks, on all hosts.
    pub size: u32,
    /// It has ranks on several hosts.
    pub several: bool,
    /// A rank spawned it.
    pub spawned: bool,
    /// Directory in which the launcher was started, or the process that spawns.
    pub directory: Vec<u8>,
    /// The launcher's environment.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The error handler that ranks start with.
    pub errhandler: Option<String>,
    /// How ranks are laid over the host's processors.
    pub map_by: u8,
    /// What they are bound to.
    pub bind_to: u8,
    /// What the ranks are to write down for the job's reports: 0 nothing, 1 counters, 2 events too.
    pub records: u8,
    /// Ranks of other worlds that the host has: those of this one are laid behind them.
    pub before: u32,
    /// Ranks that read standard input have a terminal of so many rows and columns.
    pub terminal: Option<(u16, u16)>,
    /// The programs.
    pub programs: Vec<Program>,
    /// The ranks on this host, in the order of their places.
    pub ranks: Vec<RankHere>,
}

/// A program to run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// Name or path.
    pub name: Vec<u8>,
    /// Directories that are looked through first.
    pub path: Option<String>,
    /// Working directory, where it is not the launcher's.
    pub wdir: Option<Vec<u8>>,
    /// Arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Variables of its own.
    pub environment: Vec<(String, String)>,
}

/// A rank to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RankHere {
    /// Its number among all processes of the job.
    pub slot: u32,
    /// Its rank in its world.
    pub rank: u32,
    /// Its program.
    pub program: u32,
    /// It reads standard input, which comes in `ToDaemon::Input`.
    pub reads: bool,
}

impl Prepare {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.world);
        out.put_text(&self.id, JOB_MAX_BYTES);
        out.put_u32(self.size);
        out.put_u8(self.several.into());
        out.put_u8(self.spawned.into());
        out.put_bytes(&self.directory, SPAWN_WORD_MAX_BYTES);
        let environment = &self.environment[..self.environment.len().min(DAEMON_LIST_MAX)];
        out.put_u32(environment.len() as u32);
        for (name, value) in environment {
            out.put_bytes(name, SPAWN_WORD_MAX_BYTES);
            out.put_bytes(value, SPAWN_WORD_MAX_BYTES);
        }
        out.put_option(self.errhandler.as_deref(), |out, v| out.put_text(v, TEXT_MAX_BYTES));
        out.put_u8(self.map_by);
        out.put_u8(self.bind_to);
        out.put_u8(self.records);
        out.put_u32(self.before);
        out.put_option(self.terminal, |out, (rows, columns)| {
            out.put_u32(u32::from(rows) << 16 | u32::from(columns));
        });
        let programs = &self.programs[..self.programs.len().min(DAEMON_LIST_MAX)];
        out.put_u32(programs.len() as u32);
        programs.iter().for_each(|program| program.encode(out));
        let ranks = &self.ranks[..self.ranks.len().min(DAEMON_LIST_MAX)];
        out.put_u32(ranks.len() as u32);
        for rank in ranks {
            out.put_u32(rank.slot);
            out.put_u32(rank.rank);
            out.put_u32(rank.program);
            out.put_u8(rank.reads.into());
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Prepare, DecodeError> {
        Ok(Prepare {
            world: r.u32("world")?,
            id: r.text("job", JOB_MAX_BYTES)?,
            size: r.u32("size")?,
            several: r.flag("several hosts")?,
            spawned: r.flag("spawned")?,
            directory: word(r, "directory")?,
            environment: many(r, "variables", DAEMON_LIST_MAX, |r| {
                Ok((word(r, "variable")?, word(r, "variable")?))
            })?,
            errhandler: r.option("error handler", |r| r.text("error handler", TEXT_MAX_BYTES))?,
            map_by: r.u8("mapping")?,
            bind_to: r.u8("binding")?,
            records: r.u8("records")?,
            before: r.u32("ranks before")?,
            terminal: r.option("terminal", |r| {
                let size = r.u32("size of the terminal")?;
                Ok(((size >> 16) as u16, size as u16))
            })?,
            programs: many(r, "programs", DAEMON_LIST_MAX, Program::decode)?,
            ranks: many(r, "ranks", DAEMON_LIST_MAX, |r| {
                Ok(RankHere {
                    slot: r.u32("slot")?,
                    rank: r.u32("rank")?,
                    program: r.u32("program")?,
                    reads: r.flag("input")?,
                })
            })?,
        })
    }
}

impl Program {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(&self.name, SPAWN_WORD_MAX_BYTES);
        out.put_option(self.path.as_deref(), |out, v| out.put_text(v, SPAWN_WORD_MAX_BYTES));
        out.put_option(self.wdir.as_deref(), |out, v| out.put_bytes(v, SPAWN_WORD_MAX_BYTES));
        put_words(&self.arguments, out);
        let environment = &self.environment[..self.environment.len().min(DAEMON_LIST_MAX)];
        out.put_u32(environment.len() as u32);
        for (name, value) in environment {
            out.put_text(name, SPAWN_WORD_MAX_BYTES);
            out.put_text(value, SPAWN_WORD_MAX_BYTES);
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Program, DecodeError> {
        Ok(Program {
            name: word(r, "program")?,
            path: r.option("path", |r| r.text("path", SPAWN_WORD_MAX_BYTES))?,
            wdir: r.option("directory", |r| word(r, "directory"))?,
            arguments: words(r)?,
            environment: many(r, "variables", DAEMON_LIST_MAX, |r| {
                Ok((r.text("variable", SPAWN_WORD_MAX_BYTES)?, r.text("variable", SPAWN_WORD_MAX_BYTES)?))
            })?,
        })
    }
}
