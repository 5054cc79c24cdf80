//! What all ranks wait for, in one picture: the launcher asks, collects and prints.

use std::collections::BTreeMap;
use std::time::Instant;

/// What happens when the picture is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// The job goes on.
    GoOn,
    /// The job ends, with this status.
    End(i32),
}

/// A picture that is being taken.
#[derive(Debug)]
pub struct Picture {
    /// Heading.
    pub title: String,
    /// Ranks that were asked and have not answered.
    pub asked: Vec<usize>,
    /// What ranks said.
    pub said: BTreeMap<usize, String>,
    /// When it is printed although answers are missing.
    pub until: Instant,
    /// What follows.
    pub then: Then,
}

impl Picture {
    /// A rank says what it waits for.
    pub fn answer(&mut self, rank: usize, text: String) {
        self.asked.retain(|asked| *asked != rank);
        self.said.insert(rank, text);
    }

    /// Nobody is left to wait for, or the time is over.
    pub fn complete(&self, now: Instant) -> bool {
        self.asked.is_empty() || now >= self.until
    }

    /// The picture's lines; `state` tells of a rank that said nothing.
    pub fn lines(&self, size: usize, state: impl Fn(usize) -> String) -> Vec<String> {
        let mut lines = vec![self.title.clone()];
        for rank in 0..size {
            let what = match self.said.get(&rank) {
                Some(text) => text.trim_end().replace('\n', "; "),
                None if self.asked.contains(&rank) => format!("{}; it does not answer", state(rank)),
                None => state(rank),
            };
            lines.push(format!("  rank {rank}: {what}"));
        }
        lines
    }
}

/// What the kernel says of a process: running, sleeping, stopped.
pub fn process_state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; the state follows the last one.
    let letter = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    String::from(match letter {
        Some('R') => "running",
        Some('S') => "sleeping",
        Some('D') => "in the kernel, not to be interrupted",
        Some('T' | 't') => "stopped",
        Some('Z' | 'X') => "dead",
        _ => "in an unknown state",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_its_line() {
        let until = Instant::now();
        let mut picture = Picture {
            title: String::from("title"),
            asked: vec![0, 1],
            said: BTreeMap::new(),
            until,
            then: Then::GoOn,
        };
        assert!(picture.complete(until));
        picture.answer(0, String::from("receive from rank 1\n"));
        let lines = picture.lines(3, |rank| format!("state {rank}"));
        assert_eq!(
            lines[1..],
            ["  rank 0: receive from rank 1", "  rank 1: state 1; it does not answer", "  rank 2: state 2"]
        );
    }

    #[test]
    fn a_process_has_a_state() {
        assert!(["running", "sleeping"].contains(&process_state(std::process::id()).as_str()));
        assert_eq!(process_state(u32::MAX), "in an unknown state");
    }
}
