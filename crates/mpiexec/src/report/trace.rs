//! `--trace`: every operation, wait and message as the events that Perfetto and chrome://tracing open.
//!
//! The file is written while the job runs, so that its size is bounded by the disk and not by memory,
//! and is a JSON array, of which readers do not need the end. A message is an arrow from the call that
//! sent it to the call that had it: the n-th message of a pair of ranks under one context and tag is
//! the n-th that arrives, as the standard's rule of order says (MPI 5.0, section 3.5).

use super::gather::{Gathered, World};
use super::numbers::bytes as in_words;
use mpi_record::clock::Rate;
use mpi_record::ops::{Kind, Op};
use mpi_record::{Event, Tail};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Messages of which one end is known that are remembered at most; beyond that there are no further arrows.
const OPEN_MESSAGES_MAX: usize = 1 << 20;

/// A trace being written.
pub struct Trace {
    out: BufWriter<File>,
    path: PathBuf,
    /// How ticks become time: fixed at the first event, so that the clock never jumps.
    rates: BTreeMap<usize, Rate>,
    tails: BTreeMap<usize, Tail>,
    /// Events that came faster than they were taken, by process.
    lost: BTreeMap<usize, u64>,
    named: BTreeSet<usize>,
    messages: Messages,
    first: bool,
}

/// Pairs the two ends of each message.
#[derive(Default)]
struct Messages {
    /// Messages so far, by end.
    counts: HashMap<(Key, End), u64>,
    /// Ends whose other end has not been seen.
    open: HashMap<(Key, u64), (End, Place)>,
    next: u64,
    /// Processes of which events are missing: the ends can no longer be counted.
    uncertain: BTreeSet<usize>,
}

/// Messages that are told apart by their order only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    from: usize,
    to: usize,
    context: u32,
    tag: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum End {
    Sent,
    Received,
}

/// Where in the trace an end is.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Place {
    process: usize,
    thread: u16,
    at: u64,
}

impl Messages {
    /// One end of a message; gives the arrow, its number first, once both are known.
    fn end(&mut self, key: Key, end: End, place: Place) -> Option<(u64, Place, Place)> {
        if self.uncertain.contains(&key.from) || self.uncertain.contains(&key.to) {
            return None;
        }
        let count = self.counts.entry((key, end)).or_default();
        let number = *count;
        *count += 1;
        match self.open.remove(&(key, number)) {
            Some((other, there)) if other != end => {
                self.next += 1;
                let (from, to) = if end == End::Sent { (place, there) } else { (there, place) };
                Some((self.next, from, to))
            }
            _ => {
                if self.open.len() < OPEN_MESSAGES_MAX {
                    self.open.insert((key, number), (end, place));
                }
                None
            }
        }
    }
}

impl Trace {
    /// Into a file that is open.
    pub fn new(file: File, path: &Path) -> Trace {
        Trace {
            out: BufWriter::with_capacity(1 << 18, file),
            path: path.to_path_buf(),
            rates: BTreeMap::new(),
            tails: BTreeMap::new(),
            lost: BTreeMap::new(),
            named: BTreeSet::new(),
            messages: Messages::default(),
            first: true,
        }
    }

    /// Takes what ranks have written since the last time.
    ///
    /// # Errors
    /// A line that says why the trace ends here.
    pub fn take(&mut self, worlds: &mut [World], name: &dyn Fn(usize) -> String) -> Result<(), String> {
        worlds.iter_mut().try_for_each(|world| self.take_world(world, name)).map_err(|e| self.broken(&e))
    }

    fn take_world(&mut self, world: &mut World, name: &dyn Fn(usize) -> String) -> std::io::Result<()> {
        let rate = *self.rates.entry(world.first).or_insert_with(|| world.reader.rate());
        for rank in 0..world.reader.ranks() {
            let number = world.first + rank;
            let (events, lost) = match world.far.get_mut(&rank) {
                Some(far) => far.records.events(world.reader.start_nanos(), far.ahead),
                None => {
                    let tail = self.tails.entry(number).or_default();
                    let events = world.reader.events(rank, tail)?;
                    (events.into_iter().map(|event| event.timed_by(|at| rate.at(at))).collect(), tail.lost)
                }
            };
            if lost > 0 {
                self.messages.uncertain.insert(number);
                self.lost.insert(number, lost);
            }
            if !events.is_empty() && self.named.insert(number) {
                let name = serde_json::Value::from(name(number));
                self.line(&format!(
                    "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{number},\"args\":{{\"name\":{name}}}}},\n\
                     {{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{number},\"args\":{{\"sort_index\":{number}}}}}"
                ))?;
            }
            for event in events {
                self.event(world, number, event)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, world: &World, number: usize, event: Event) -> std::io::Result<()> {
        let peer = |peer: u32| (peer as usize) < world.reader.ranks();
        match event {
            Event::Op { op, thread, begin, end, peer, sent, received } => {
                let Some(op) = Op::at(op.into()) else { return Ok(()) };
                let mut args =
                    format!("\"sent\":\"{}\",\"received\":\"{}\"", in_words(sent), in_words(received));
                if let Some(peer) = peer {
                    let _ = write!(args, ",\"peer\":{peer}");
                }
                let what = format!("\"name\":\"{}\",\"cat\":\"{}\"", op.name(), category(op.kind()));
                self.slice(number, thread, &what, (begin, end), &args)
            }
            Event::Wait { thread, begin, end } => {
                let what = "\"name\":\"waiting\",\"cat\":\"waiting\"";
                self.slice(number, thread, what, (begin, end), "")
            }
            Event::Sent { thread, at, peer: to, context, tag, bytes } if peer(to) => {
                let key = Key { from: number, to: world.first + to as usize, context, tag };
                let place = Place { process: number, thread, at };
                self.arrow(key, End::Sent, place, bytes)
            }
            Event::Received { thread, at, peer: from, context, tag, bytes } if peer(from) => {
                let key = Key { from: world.first + from as usize, to: number, context, tag };
                let place = Place { process: number, thread, at };
                self.arrow(key, End::Received, place, bytes)
            }
            // With a process of another job or world.
            Event::Sent { .. } | Event::Received { .. } => Ok(()),
        }
    }

    fn slice(
        &mut self,
        number: usize,
        thread: u16,
        what: &str,
        (begin, end): (u64, u64),
        args: &str,
    ) -> std::io::Result<()> {
        let (ts, dur) = (micros(begin), micros(end.saturating_sub(begin)));
        self.line(&format!(
            "{{\"ph\":\"X\",{what},\"pid\":{number},\"tid\":{thread},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}"
        ))
    }

    fn arrow(&mut self, key: Key, end: End, place: Place, bytes: u64) -> std::io::Result<()> {
        let Some((id, from, to)) = self.messages.end(key, end, place) else { return Ok(()) };
        // No message arrives before it is sent: a sender may be late in writing down that it has sent, and the clocks of
        // two hosts are compared to half of the quickest answer only.
        let from = Place { at: from.at.min(to.at), ..from };
        let common = format!("\"name\":\"message\",\"cat\":\"message\",\"id\":{id}");
        let at = |place: Place| {
            format!("\"pid\":{},\"tid\":{},\"ts\":{}", place.process, place.thread, micros(place.at))
        };
        let args = format!("{{\"tag\":{},\"bytes\":{bytes},\"context\":{}}}", key.tag, key.context);
        self.line(&format!(
            "{{\"ph\":\"s\",{common},{},\"args\":{args}}},\n{{\"ph\":\"f\",\"bp\":\"e\",{common},{}}}",
            at(from),
            at(to)
        ))
    }

    fn line(&mut self, text: &str) -> std::io::Result<()> {
        let before: &[u8] = if self.first { b"[\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(before)?;
        self.out.write_all(text.as_bytes())
    }

    /// Calls that have not returned: what a job hangs in is among them. A line where they cannot be written.
    pub fn under_way(&mut self, all: &Gathered) -> Option<String> {
        let mut write = || {
            for rank in all.recorded() {
                let Some(now) = rank.block.now else { continue };
                let end = rank.block.begun + rank.block.elapsed;
                let peer = now.peer.map_or_else(String::new, |peer| format!(",\"peer\":{peer}"));
                let what = format!("\"name\":\"{}\",\"cat\":\"{}\"", now.op.name(), category(now.op.kind()));
                let args = format!("\"has_returned\":false{peer}");
                self.slice(rank.number, 0, &what, (end.saturating_sub(now.time), end), &args)?;
                if let Some(waits) = now.waits {
                    let what = "\"name\":\"waiting\",\"cat\":\"waiting\"";
                    self.slice(rank.number, 0, what, (end.saturating_sub(waits.min(now.time)), end), "")?;
                }
            }
            Ok(())
        };
        let written: std::io::Result<()> = write();
        written.err().map(|e| self.broken(&e))
    }

    /// The job has ended; gives the lines that say so.
    pub fn finish(
        mut self,
        partial: Option<&str>,
        elapsed: u64,
        name: &dyn Fn(usize) -> String,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, lost) in &self.lost {
            lines.push(format!(
                "trace: {lost} events of {} came faster than they were taken; it has no arrows after the first of them",
                name(*number)
            ));
        }
        match self.close(partial, elapsed) {
            Ok(()) => {
                let partial = if partial.is_some() { "; PARTIAL" } else { "" };
                lines.push(format!("trace: {} (for https://ui.perfetto.dev){partial}", self.path.display()));
            }
            Err(e) => lines.push(self.broken(&e)),
        }
        lines
    }

    fn close(&mut self, partial: Option<&str>, elapsed: u64) -> std::io::Result<()> {
        if let Some(why) = partial {
            let name = serde_json::Value::from(format!("PARTIAL: {why}"));
            let ts = micros(elapsed);
            self.line(&format!(
                "{{\"ph\":\"i\",\"s\":\"g\",\"name\":{name},\"pid\":0,\"tid\":0,\"ts\":{ts}}}"
            ))?;
        }
        self.out.write_all(if self.first { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()
    }

    fn broken(&self, error: &std::io::Error) -> String {
        format!("the trace cannot be written to {}: {error}; the job goes on without", self.path.display())
    }
}

/// Nanoseconds as microseconds with three places.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::PointToPoint => "point-to-point",
        Kind::Requests => "requests",
        Kind::Collective => "collective",
        Kind::OneSided => "one-sided",
        Kind::Management => "management",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_messages_find_each_other_in_order() {
        let mut messages = Messages::default();
        let key = |tag| Key { from: 0, to: 1, context: 4, tag };
        let place = |at| Place { process: 0, thread: 0, at };
        assert_eq!(messages.end(key(7), End::Received, place(30)), None, "read before its other end was");
        assert_eq!(messages.end(key(7), End::Sent, place(10)), Some((1, place(10), place(30))));
        assert_eq!(messages.end(key(7), End::Sent, place(11)), None);
        assert_eq!(messages.end(key(7), End::Sent, place(12)), None);
        assert_eq!(messages.end(key(8), End::Received, place(40)), None, "another tag");
        assert_eq!(messages.end(key(7), End::Received, place(41)), Some((2, place(11), place(41))));
        messages.uncertain.insert(1);
        assert_eq!(messages.end(key(7), End::Received, place(42)), None, "nobody knows which it is");
    }

    #[test]
    fn time_has_three_places() {
        assert_eq!([0, 7, 12_345].map(micros), ["0.000", "0.007", "12.345"]);
    }
}
