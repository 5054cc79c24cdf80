//! What the job shows of itself: `--stats`, `--profile`, `--trace`, `--top`.
//!
//! The ranks write into memory that this launcher made ([`mpi_record`]); it is read here whenever that
//! is wanted, and at the end in any case, however the ranks ended. What cannot be written costs one
//! line and nothing else: the job goes on.

mod gather;
mod matrix;
mod numbers;
mod table;

use crate::settings::Wanted;
use gather::World;
pub use gather::{Fate, Gathered};
use mpi_record::{Options, Reader};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The reports of a job, from its start to its end.
pub struct Reports {
    stats: bool,
    matrix: Option<Output>,
    worlds: Vec<World>,
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
                    "{what} cannot be written to {}: {e}; the job goes on without",
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
            Err(e) => format!("{what} cannot be written to {path}: {e}"),
        }
    }
}

impl Reports {
    /// Prepares what is wanted; what cannot be is said in `lines`.
    pub fn new(wanted: &Wanted, lines: &mut Vec<String>) -> Reports {
        let matrix = wanted.matrix.as_deref().filter(|_| wanted.stats);
        Reports {
            stats: wanted.stats,
            matrix: Output::open("the communication matrix", matrix, lines),
            worlds: Vec::new(),
        }
    }

    /// The ranks are to record.
    fn records(&self) -> bool {
        self.stats
    }

    /// One more world of `size` ranks, the first of which is the job's process number `first`: the
    /// memory for its records, if any are wanted.
    pub fn world(&mut self, first: usize, size: usize, lines: &mut Vec<String>) -> Option<OwnedFd> {
        if !self.records() {
            return None;
        }
        let options = Options { events: false };
        let made = mpi_record::create(size as u32, options)
            .and_then(|fd| Reader::new(fd.as_fd()).map(|reader| (fd, reader)));
        match made {
            Ok((fd, reader)) => {
                self.worlds.push(World { first, reader });
                Some(fd)
            }
            Err(e) => {
                lines.push(format!("nothing is recorded: {e}"));
                None
            }
        }
    }

    /// The job has ended: writes every report. `fates` are the ends of all processes by number,
    /// `ended_by` is what ended the job before its time.
    pub fn finish(&mut self, fates: &[Fate], ended_by: Option<String>) -> Vec<String> {
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
        lines
    }
}
