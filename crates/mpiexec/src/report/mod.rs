//! What the job shows of itself: `--stats`, `--report`, `--trace`, `--top`, `--picture`.
//!
//! The ranks write into memory that this launcher made ([`mpi_record`]); it is read here whenever that
//! is wanted, and at the end in any case, however the ranks ended. What cannot be written costs one
//! line and nothing else: the job goes on.

pub mod far;
mod gather;
mod matrix;
mod numbers;
mod profile;
mod table;
mod top;
mod trace;

use crate::limits;
use crate::settings::Wanted;
use gather::World;
pub use gather::{Fate, Gathered};
use mpi_record::{Options, Reader};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;
use top::Top;
use trace::Trace;

/// The reports of a job, from its start to its end.
pub struct Reports {
    stats: bool,
    matrix: Option<Output>,
    report: Option<Output>,
    trace: Option<Trace>,
    top: Option<Top>,
    picture: Option<PathBuf>,
    worlds: Vec<World>,
    /// When events are taken, and the view is drawn, next.
    next_take: Instant,
    next_view: Instant,
}

/// A file that a report goes to, opened before the job starts, so that it is known at once when that
/// cannot be.
struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// `None`, and a line, where it cannot be opened.
    fn open(what: &str, path: Option<&Path>, lines: &mut Vec<String>) -> Option<Output> {
        let path = path?.to_path_buf();
        match File::create(&path) {
            Ok(file) => Some(Output { path, file }),
            Err(e) => {
                lines.push(format!(
                    "the {what} cannot be written to {}: {e}; the job goes on without",
                    path.display()
                ));
                None
            }
        }
    }

    /// Writes the whole report; gives a line that says where it is, or why it is not.
    fn write(mut self, what: &str, text: &str) -> String {
        let path = self.path.display();
        match self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush()) {
            Ok(()) => format!("{what}: {path}"),
            Err(e) => format!("the {what} cannot be written to {path}: {e}"),
        }
    }
}

impl Reports {
    /// Prepares what is wanted; what cannot be is said in `lines`.
    pub fn new(wanted: &Wanted, lines: &mut Vec<String>) -> Reports {
        let matrix = wanted.matrix.as_deref().filter(|_| wanted.stats);
        let trace = Output::open("trace", wanted.trace.as_deref(), lines);
        let picture = wanted.picture.as_deref();
        Reports {
            stats: wanted.stats,
            matrix: Output::open("communication matrix", matrix, lines),
            report: Output::open("report", wanted.report.as_deref(), lines),
            trace: trace.map(|output| Trace::new(output.file, &output.path)),
            top: if wanted.top { Top::new(lines) } else { None },
            picture: Output::open("picture", picture, lines).map(|output| output.path),
            worlds: Vec::new(),
            next_take: Instant::now(),
            next_view: Instant::now(),
        }
    }

    /// What the ranks are to record, if anything.
    fn options(&self) -> Option<Options> {
        let any = self.stats || self.report.is_some() || self.trace.is_some() || self.top.is_some();
        any.then_some(Options { events: self.trace.is_some() })
    }

    /// One more world of `size` ranks, the first of which is the job's process number `first`: the
    /// memory for the records of those that are on this machine (`here`), if any are wanted.
    pub fn world(
        &mut self,
        first: usize,
        size: usize,
        here: impl IntoIterator<Item = u32>,
        lines: &mut Vec<String>,
    ) -> Option<OwnedFd> {
        let options = self.options()?;
        let made = mpi_record::create_for(size as u32, options, here)
            .and_then(|fd| Reader::new(fd.as_fd()).map(|reader| (fd, reader)));
        match made {
            Ok((fd, reader)) => {
                self.worlds.push(World { first, reader, far: BTreeMap::new(), ended: BTreeMap::new() });
                Some(fd)
            }
            Err(e) => {
                lines.push(format!("nothing is recorded: {e}"));
                None
            }
        }
    }

    /// The process with this number has ended.
    pub fn has_ended(&mut self, number: usize) {
        let own = |world: &&mut World| (world.first..world.first + world.reader.ranks()).contains(&number);
        if let Some(world) = self.worlds.iter_mut().find(own) {
            world.has_ended(number - world.first);
        }
    }

    /// When [`tick`](Reports::tick) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let take = self.trace.as_ref().map(|_| self.next_take);
        let view = self.top.as_ref().map(|_| self.next_view);
        [take, view].into_iter().flatten().min()
    }

    /// Takes events for the trace and draws the view, where it is time to; gives lines to be said.
    /// `name` is what a process is called, `written` counts what others have written to the terminal.
    pub fn tick(&mut self, now: Instant, name: &dyn Fn(usize) -> String, written: u64) -> Vec<String> {
        let mut lines = Vec::new();
        if now >= self.next_take {
            self.next_take = now + limits::EVENTS_TAKEN_EVERY;
            if let Some(Err(why)) = self.trace.as_mut().map(|trace| trace.take(&mut self.worlds, name)) {
                self.trace = None;
                lines.push(why);
            }
        }
        if now >= self.next_view && self.top.as_mut().is_some_and(Top::is_left) {
            self.top = None;
            lines.push(String::from("the view has ended (q); the job goes on"));
        }
        if let Some(top) = self.top.as_mut().filter(|_| now >= self.next_view) {
            self.next_view = now + limits::VIEW_DRAWN_EVERY;
            let count = self.worlds.iter().map(|world| world.first + world.reader.ranks()).max().unwrap_or(0);
            let fates: Vec<Fate> = (0..count).map(|at| Fate { name: name(at), trouble: None }).collect();
            top.draw(&Gathered::new(&self.worlds, &fates, None), now, written);
        }
        lines
    }

    /// Writes a picture of who waits for whom over the one before; a line where that cannot be.
    pub fn picture(&mut self, picture: &serde_json::Value) -> Option<String> {
        let path = self.picture.as_ref()?;
        let written = std::fs::write(path, format!("{picture:#}\n"));
        written.err().map(|e| format!("the picture cannot be written to {}: {e}", path.display()))
    }

    /// The job has ended: writes every report. `fates` are the ends of all processes by number,
    /// `ended_by` is what ended the job before its time.
    pub fn finish(&mut self, fates: &[Fate], ended_by: Option<String>) -> Vec<String> {
        self.top = None;
        if self.worlds.is_empty() {
            return Vec::new();
        }
        let gathered = Gathered::new(&self.worlds, fates, ended_by);
        let mut lines = Vec::new();
        if self.stats {
            lines.extend(table::lines(&gathered));
        }
        if let Some(output) = self.matrix.take() {
            lines.push(output.write("communication matrix", &matrix::svg(&gathered)));
        }
        if let Some(output) = self.report.take() {
            let is_page = output.path.extension().is_some_and(|e| e == "html" || e == "htm");
            let text = if is_page { profile::page(&gathered) } else { profile::json(&gathered).to_string() };
            let what = if gathered.partial.is_some() { "report (PARTIAL)" } else { "report" };
            lines.push(output.write(what, &text));
        }
        if let Some(mut trace) = self.trace.take() {
            let name = |at: usize| fates.get(at).map_or_else(|| format!("rank {at}"), |f| f.name.clone());
            match trace.take(&mut self.worlds, &name) {
                Ok(()) => {
                    lines.extend(trace.under_way(&gathered));
                    lines.extend(trace.finish(gathered.partial.as_deref(), gathered.elapsed(), &name));
                }
                Err(why) => lines.push(why),
            }
        }
        lines
    }
}
