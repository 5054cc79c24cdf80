//! `--top`: what every rank does now, drawn over itself in the terminal.

use super::gather::{Gathered, Rank};
use super::numbers::{bytes, columns, time};
use nix::errno::Errno;
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, read, tcgetpgrp};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::os::fd::AsFd;
use std::time::Instant;

/// Ranks that are shown at most: those that have been longest in their operation first.
const RANKS_SHOWN_MAX: usize = 40;

/// Long lines are cut from here on, and are not any more.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The view.
pub struct Top {
    keys: Option<Keys>,
    /// Lines of the last one, and how much others had written by then.
    drawn: usize,
    written: u64,
    /// Messages and bytes sent by then, by process.
    before: BTreeMap<usize, (u64, u64)>,
    at: Instant,
}

impl Top {
    /// `None`, and a line, where there is no terminal to draw in, or one that takes nothing but text.
    pub fn new(lines: &mut Vec<String>) -> Option<Top> {
        if !stderr().is_terminal() {
            lines.push(String::from("--top: standard error is no terminal; the job goes on without a view"));
            return None;
        }
        if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            lines.push(String::from(
                "--top: this terminal cannot be drawn over (TERM=dumb); the job goes on without a view",
            ));
            return None;
        }
        Some(Top { keys: Keys::take(), drawn: 0, written: 0, before: BTreeMap::new(), at: Instant::now() })
    }

    /// The user wants no more of it.
    pub fn is_left(&mut self) -> bool {
        self.keys.as_mut().is_some_and(Keys::left)
    }

    /// Draws over the last view, or below what has been written since.
    pub fn draw(&mut self, all: &Gathered, now: Instant, written: u64) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        let rows = mpi_node::terminal::size(stderr().as_fd()).map(|(rows, _)| usize::from(rows));
        let lines = view(all, &self.before, seconds, shown_in(rows));
        self.before = all.ranks.iter().map(|rank| (rank.number, sent(rank))).collect();
        self.at = now;
        let up = if self.drawn > 0 && self.written == written {
            format!("\x1b[{}A\x1b[J", self.drawn)
        } else {
            String::new()
        };
        (self.drawn, self.written) = (lines.len(), written);
        // What does not fit into a line is cut by the terminal, whatever its width is by now: else the view would be
        // higher than it has lines. A terminal that takes nothing misses a view.
        let view = format!("{up}{CUT}{}\n{WRAP}", lines.join("\n"));
        let _ = stderr().write_all(view.as_bytes());
    }
}

/// The keys of the terminal, one by one, while there is a view. Ctrl-C, Ctrl-\\ and Ctrl-Z keep their meaning.
struct Keys {
    before: Termios,
}

impl Keys {
    /// `None` where standard input is none, or belongs to another job: changing it would stop this one.
    fn take() -> Option<Keys> {
        let own = |at: nix::Result<Pid>| at.map_or_else(|e| e == Errno::ENOTTY, |group| group == getpgrp());
        if !stdin().is_terminal() || !own(tcgetpgrp(stdin())) {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut wanted = before.clone();
        wanted.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        // A read gives what is there and waits for nothing.
        wanted.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        wanted.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(stdin(), SetArg::TCSANOW, &wanted).ok()?;
        Some(Keys { before })
    }

    /// The key q was pressed.
    fn left(&mut self) -> bool {
        let mut keys = [0; 64];
        matches!(read(stdin(), &mut keys), Ok(count) if keys[..count].contains(&b'q'))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn sent(rank: &Rank) -> (u64, u64) {
    (rank.block.sent.0, rank.block.sent.1 + rank.block.direct.0)
}

/// Ranks that a terminal of so many rows has room for, beside the heading, the line of how many more there are, and the
/// row that the cursor is in: a view that is higher could not be drawn over.
fn shown_in(rows: Option<usize>) -> usize {
    rows.map_or(RANKS_SHOWN_MAX, |rows| rows.saturating_sub(3).clamp(1, RANKS_SHOWN_MAX))
}

/// The view's lines, of `most` ranks at most; `before` is what had been sent `seconds` ago.
fn view(all: &Gathered, before: &BTreeMap<usize, (u64, u64)>, seconds: f64, most: usize) -> Vec<String> {
    let head = ["rank", "state", "since", "waits for", "messages/s", "bytes/s", "waiting"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut ranks: Vec<&Rank> = all.ranks.iter().collect();
    if ranks.len() > most {
        ranks.sort_by_key(|rank| std::cmp::Reverse(rank.block.now.map_or(0, |now| now.time)));
    }
    for rank in ranks.iter().take(most) {
        let (state, since, waits_for) = match (&rank.block.now, rank.block.ended, rank.block.pid) {
            (_, _, 0) => (String::from("not in MPI yet"), String::new(), String::new()),
            (_, Some(_), _) => (String::from("finalised"), String::new(), String::new()),
            (Some(now), ..) => {
                let peer = now.peer.filter(|_| now.waits.is_some());
                (
                    now.op.name().to_owned(),
                    time(now.time),
                    peer.map_or_else(String::new, |p| format!("rank {p}")),
                )
            }
            (None, ..) => (String::from("computes"), String::new(), String::new()),
        };
        let (old, new) = (before.get(&rank.number).copied().unwrap_or_default(), sent(rank));
        let per_second = |new: u64, old: u64| (new.saturating_sub(old) as f64 / seconds.max(1e-3)) as u64;
        rows.push(vec![
            rank.name.clone(),
            state,
            since,
            waits_for,
            per_second(new.0, old.0).to_string(),
            bytes(per_second(new.1, old.1)),
            super::numbers::percent(rank.block.waiting, rank.block.elapsed),
        ]);
    }
    let mut lines = columns(&rows);
    if all.ranks.len() > most {
        lines.push(format!("({} more)", all.ranks.len() - most));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_record::ops::RECEIVE;
    use mpi_record::{Block, Now};

    #[test]
    fn every_rank_says_what_it_does() {
        let now = Now { op: RECEIVE, time: 2_000_000, peer: Some(3), waits: Some(1_000_000) };
        let blocks = [
            Block { pid: 1, now: Some(now), ..Block::default() },
            Block { pid: 2, sent: (30, 3000), ..Block::default() },
            Block { pid: 3, ended: Some(5), ..Block::default() },
            Block::default(),
        ];
        let rank =
            |(number, block)| Rank { number, name: format!("rank {number}"), block, ..Rank::default() };
        let ranks = blocks.into_iter().enumerate().map(rank).collect();
        let before = BTreeMap::from([(1, (10, 1000))]);
        let lines = view(&Gathered { ranks, partial: None }, &before, 2.0, 40);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[1]), "rank 0 receive 2.0 ms rank 3 0 0 B 0.0 %");
        assert_eq!(words(&lines[2]), "rank 1 computes 10 1000 B 0.0 %");
        assert_eq!(words(&lines[3]), "rank 2 finalised 0 0 B 0.0 %");
        assert!(lines[4].contains("not in MPI yet"));
        let many = Gathered { ranks: (0..100).map(|n| rank((n, Block::default()))).collect(), partial: None };
        for (rows, lines) in [(None, 42), (Some(100), 42), (Some(24), 23), (Some(4), 3), (Some(2), 3)] {
            assert_eq!(view(&many, &before, 1.0, shown_in(rows)).len(), lines, "{rows:?}");
        }
    }
}
