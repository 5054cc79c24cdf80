//! Output of all ranks, and the launcher's own lines, towards standard output and error.

use super::mixer::{Mixer, Tags};
use super::sink::Sink;
use crate::error::LaunchError;
use crate::limits::{FLUSH_AT_END, KILL_AFTER_FAILURE, OUTPUT_WAITING_MAX_BYTES};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{Write, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One lane per place that output goes to: two, or one where both streams lead to the same place
/// (a terminal, `2>&1`), so that their lines are not torn either.
pub struct Streams {
    lanes: Vec<Lane>,
    /// Each process's own files, output and error, where they are wanted.
    files: Option<Files>,
    /// Whose output is shown; of spawned processes all is, or none.
    shown: Option<Vec<usize>>,
    /// What of the launcher's own streams cannot be written any more, told once.
    failure: Option<String>,
    /// Files of processes that are incomplete, and the line that tells of the first, told once.
    incomplete: usize,
    loss: Option<String>,
    /// Pieces that were written by anybody.
    pieces: u64,
}

/// A directory with two files per process.
struct Files {
    directory: PathBuf,
    open: Vec<[Option<File>; 2]>,
}

impl Files {
    fn add(&mut self, label: &str) -> std::io::Result<()> {
        let file = |kind: &str| {
            File::create(self.directory.join(format!("rank.{}.{kind}", label.replace(':', "."))))
        };
        self.open.push([Some(file("out")?), Some(file("err")?)]);
        Ok(())
    }

    /// No later byte of a file can be in the place of one that is lost: what fails is closed.
    fn write(&mut self, rank: usize, stream: usize, bytes: &[u8]) -> std::io::Result<()> {
        let Some(slot) = self.open.get_mut(rank).and_then(|files| files.get_mut(stream)) else {
            return Ok(());
        };
        let Some(file) = slot else { return Ok(()) };
        file.write_all(bytes).inspect_err(|_| *slot = None)
    }
}

struct Lane {
    mixer: Mixer,
    sink: Sink,
    name: &'static str,
}

/// The launcher's standard input.
pub fn standard_input() -> BorrowedFd<'static> {
    // The handle is a static inside the standard library: what it lends lives as long.
    static STDIN: std::sync::OnceLock<std::io::Stdin> = std::sync::OnceLock::new();
    STDIN.get_or_init(stdin).as_fd()
}

fn standard_output() -> BorrowedFd<'static> {
    static STDOUT: std::sync::OnceLock<std::io::Stdout> = std::sync::OnceLock::new();
    STDOUT.get_or_init(stdout).as_fd()
}

fn standard_error() -> BorrowedFd<'static> {
    static STDERR: std::sync::OnceLock<std::io::Stderr> = std::sync::OnceLock::new();
    STDERR.get_or_init(stderr).as_fd()
}

impl Streams {
    /// For `size` ranks.
    pub fn new(size: usize, tags: Tags) -> Streams {
        let out = match mpi_node::standard::output_was_closed() {
            true => Sink::closed(standard_output()),
            false => Sink::new(standard_output()),
        };
        let err = Sink::new(standard_error());
        let ranks = || 0..size;
        let lanes = if out.same_place(&err) {
            vec![Lane {
                mixer: Mixer::new(ranks().flat_map(|rank| [rank, rank]), tags),
                sink: out,
                name: "standard output",
            }]
        } else {
            vec![
                Lane { mixer: Mixer::new(ranks(), tags), sink: out, name: "standard output" },
                Lane { mixer: Mixer::new(ranks(), tags), sink: err, name: "standard error" },
            ]
        };
        Streams { lanes, files: None, shown: None, failure: None, incomplete: 0, loss: None, pieces: 0 }
    }

    /// Shows only these ranks' output.
    pub fn show_only(&mut self, ranks: Vec<usize>) {
        self.shown = Some(ranks);
    }

    /// Writes the output of each of `size` ranks into files of its own.
    ///
    /// # Errors
    /// Directory or file cannot be made; the path is named.
    pub fn write_to(&mut self, directory: &Path, size: usize) -> Result<(), LaunchError> {
        let failed = || LaunchError::system(format!("--output-dir {}", directory.display()));
        std::fs::create_dir_all(directory).map_err(failed())?;
        let mut files = Files { directory: directory.to_path_buf(), open: Vec::new() };
        (0..size).try_for_each(|rank| files.add(&rank.to_string())).map_err(failed())?;
        self.files = Some(files);
        Ok(())
    }

    fn lose(&mut self, what: String) {
        if self.incomplete == 0 {
            self.loss = Some(format!("{what} (the job goes on; what comes further of this is lost)"));
        }
        self.incomplete += 1;
    }

    /// The line for the first file that is incomplete, told once.
    pub fn take_loss(&mut self) -> Option<String> {
        self.loss.take()
    }

    /// Files of processes that are incomplete.
    pub fn incomplete(&self) -> usize {
        self.incomplete
    }

    /// What cannot be written any more, told once.
    pub fn take_failure(&mut self) -> Option<String> {
        for lane in &mut self.lanes {
            if let Some(errno) = lane.sink.take_failure() {
                let why = if errno == nix::errno::Errno::EBADF { "it is closed" } else { errno.desc() };
                self.failure = Some(format!("{} of mpiexec: {why} (what ranks write is lost)", lane.name));
            }
        }
        self.failure.take()
    }

    /// One more process, under the next number.
    pub fn add(&mut self, label: String) {
        if let Some(files) = &mut self.files {
            if let Err(e) = files.add(&label) {
                let what = format!("the files of rank {label} in {}: {e}", files.directory.display());
                // The processes behind it keep their places.
                files.open.push([None, None]);
                self.lose(what);
            }
        }
        match self.lanes.as_mut_slice() {
            [one] => {
                one.mixer.add(label.clone());
                one.mixer.add(label);
            }
            lanes => lanes.iter_mut().for_each(|lane| lane.mixer.add(label.clone())),
        }
    }

    /// Lane and source of a rank's stream (0: output, 1: error).
    fn at(&self, rank: usize, stream: usize) -> (usize, usize) {
        if self.lanes.len() == 1 { (0, 2 * rank + stream) } else { (stream, rank) }
    }

    /// How many pieces were written so far, by ranks and by the launcher.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// A rank wrote these bytes.
    pub fn push(&mut self, rank: usize, stream: usize, bytes: &[u8], now: Instant) {
        self.pieces += 1;
        if let Some(files) = &mut self.files {
            if let Err(e) = files.write(rank, stream, bytes) {
                let kind = if stream == 0 { "out" } else { "err" };
                let what = format!("rank.{rank}.{kind} in {}: {e}", files.directory.display());
                self.lose(what);
            }
        }
        if self.shown.as_ref().is_some_and(|shown| !shown.contains(&rank)) {
            return;
        }
        let (lane, source) = self.at(rank, stream);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.mixer.push(source, bytes, now);
        }
    }

    /// A rank's stream has ended.
    pub fn close(&mut self, rank: usize, stream: usize, now: Instant) {
        let (lane, source) = self.at(rank, stream);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.mixer.close(source, now);
        }
    }

    /// More may be read from this stream: its reader keeps up.
    pub fn takes(&mut self, rank: usize, stream: usize) -> bool {
        let (lane, source) = self.at(rank, stream);
        self.lanes.get_mut(lane).is_none_or(|lane| {
            lane.mixer.out().len() < OUTPUT_WAITING_MAX_BYTES
                && lane.mixer.pending(source) < OUTPUT_WAITING_MAX_BYTES
        })
    }

    /// What has come is mostly written: more may come.
    pub fn keeps_up(&mut self) -> bool {
        self.lanes.iter_mut().all(|lane| lane.mixer.out().len() < OUTPUT_WAITING_MAX_BYTES)
    }

    /// Nobody reads this stream any more: the rank should know.
    pub fn broken(&self, rank: usize, stream: usize) -> bool {
        let (lane, _) = self.at(rank, stream);
        self.lanes.get(lane).is_some_and(|lane| lane.sink.is_left_alone())
    }

    /// A line of the launcher's own, on standard error.
    pub fn message(&mut self, line: &str) {
        self.pieces += 1;
        if let Some(lane) = self.lanes.last_mut() {
            lane.mixer.message(line);
        }
    }

    /// When [`tick`](Streams::tick) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(|lane| lane.mixer.deadline()).min()
    }

    /// Shows parts of lines whose time has come.
    pub fn tick(&mut self, now: Instant) {
        self.lanes.iter_mut().for_each(|lane| lane.mixer.tick(now));
    }

    /// Writes what can be written; true when something is left.
    pub fn flush(&mut self) -> bool {
        let mut left = false;
        for lane in &mut self.lanes {
            lane.sink.write(lane.mixer.out());
            left |= !lane.mixer.out().is_empty();
        }
        left
    }

    /// Descriptors that have to become writable.
    pub fn blocked(&mut self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes.iter_mut().filter(|lane| lane.mixer.has_out()).map(|lane| lane.sink.as_fd())
    }

    /// Nothing more comes from any rank.
    pub fn finish(&mut self) {
        let now = Instant::now();
        self.lanes.iter_mut().for_each(|lane| lane.mixer.finish(now));
    }

    /// Writes what ranks wrote before a report is printed; a reader that does not read delays the
    /// report for a bounded time only.
    pub fn flush_before_report(&mut self) {
        self.flush_within(KILL_AFTER_FAILURE / 2);
    }

    /// Writes the rest.
    pub fn flush_at_end(&mut self) {
        self.flush_within(FLUSH_AT_END);
    }

    fn flush_within(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.flush() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let mut fds: Vec<PollFd<'_>> =
                self.blocked().map(|fd| PollFd::new(fd, PollFlags::POLLOUT)).collect();
            let _ = poll(&mut fds, PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX));
        }
    }
}
