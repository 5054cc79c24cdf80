//! What all ranks wait for, in one picture: the launcher asks, collects and prints.

use super::knot::{self, Conclusion, Doing};
use mpi_wire::waits::Wait;
use serde_json::{Value, json};
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

/// What a rank says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// In words.
    pub text: String,
    /// Whom its blocked calls wait for.
    pub waits: Vec<Wait>,
}

/// A picture that is being taken.
#[derive(Debug)]
pub struct Picture {
    /// Heading.
    pub title: String,
    /// Ranks that were asked and have not answered.
    pub asked: Vec<usize>,
    /// What ranks said.
    pub said: BTreeMap<usize, Said>,
    /// When it is printed although answers are missing.
    pub until: Instant,
    /// What follows.
    pub then: Then,
}

impl Picture {
    /// A rank says what it waits for.
    pub fn answer(&mut self, rank: usize, said: Said) {
        self.asked.retain(|asked| *asked != rank);
        self.said.insert(rank, said);
    }

    /// Nobody is left to wait for, or the time is over.
    pub fn complete(&self, now: Instant) -> bool {
        self.asked.is_empty() || now >= self.until
    }

    /// Everything together; `name` is what a rank is called, `state` tells of a rank that said nothing, `left` of one
    /// that takes no part any more.
    pub fn draw(
        &self,
        size: usize,
        name: impl Fn(usize) -> String,
        state: impl Fn(usize) -> String,
        left: impl Fn(usize) -> Option<String>,
    ) -> Drawn {
        let mut ranks = Vec::new();
        let mut doing = BTreeMap::new();
        for rank in 0..size {
            let said = self.said.get(&rank);
            let what = match said {
                Some(said) => said.text.trim_end().replace('\n', "; "),
                None if self.asked.contains(&rank) => format!("{}; it does not answer", state(rank)),
                None => state(rank),
            };
            let waits = said.map(|said| said.waits.clone()).unwrap_or_default();
            ranks.push((name(rank), what));
            let does = match left(rank) {
                Some(how) => Doing::Left(how),
                None if waits.is_empty() => Doing::Runs,
                None => Doing::Waits(waits),
            };
            doing.insert(rank as u32, does);
        }
        let conclusions = knot::conclusions(&doing);
        Drawn { title: self.title.clone(), ranks, doing, conclusions }
    }
}

/// A complete picture.
#[derive(Debug)]
pub struct Drawn {
    title: String,
    /// What each rank is called, and what it does, in words.
    ranks: Vec<(String, String)>,
    doing: BTreeMap<u32, Doing>,
    conclusions: Vec<Conclusion>,
}

impl Drawn {
    fn name(&self, rank: u32) -> String {
        self.ranks.get(rank as usize).map_or_else(|| format!("rank {rank}"), |(name, _)| name.clone())
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title.clone()];
        lines.extend(self.ranks.iter().map(|(name, what)| format!("  {name}: {what}")));
        let name = |rank: u32| self.name(rank);
        lines.extend(self.conclusions.iter().map(|c| format!("  {}", c.line(&name))));
        lines
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let rank = |(number, (name, what)): (usize, &(String, String))| {
            let (state, waits, left) = match self.doing.get(&(number as u32)) {
                Some(Doing::Waits(waits)) if waits.iter().all(|w| w.polls) => {
                    ("polls", waits.as_slice(), None)
                }
                Some(Doing::Waits(waits)) => ("blocked", waits.as_slice(), None),
                Some(Doing::Left(how)) => ("left", &[][..], Some(how)),
                Some(Doing::Runs) | None => ("runs", &[][..], None),
            };
            let waits: Vec<Value> =
                waits.iter().map(|wait| json!({ "ranks": wait.peers, "any": wait.any })).collect();
            json!({ "rank": number, "name": name, "state": state, "text": what, "waits": waits, "left": left })
        };
        let conclusion = |c: &Conclusion| {
            let text = c.line(&|rank| self.name(rank));
            match c {
                Conclusion::Circle(circle, pollers) => {
                    json!({ "kind": "circle", "ranks": circle, "polling": pollers, "text": text })
                }
                Conclusion::InVain(rank, peer, _) => {
                    json!({ "kind": "in vain", "rank": rank, "for": peer, "text": text })
                }
            }
        };
        json!({
            "version": 1,
            "title": self.title,
            "ranks": self.ranks.iter().enumerate().map(rank).collect::<Vec<_>>(),
            "conclusions": self.conclusions.iter().map(conclusion).collect::<Vec<_>>(),
        })
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
        let waits = vec![Wait { peers: vec![2], ..Wait::default() }];
        picture.answer(0, Said { text: String::from("receive from rank 2\n"), waits });
        let left = |rank| (rank == 2).then(|| String::from("has gone"));
        let drawn = picture.draw(3, |rank| format!("rank {rank}"), |rank| format!("state {rank}"), left);
        let json = drawn.json();
        assert_eq!(json["ranks"][0]["state"], "blocked");
        assert_eq!(json["ranks"][0]["waits"][0]["ranks"], json!([2]));
        assert_eq!(json["ranks"][1]["state"], "runs");
        assert_eq!(json["ranks"][2]["left"], "has gone");
        assert_eq!(json["conclusions"][0]["kind"], "in vain");
        assert_eq!(
            drawn.lines()[1..],
            [
                "  rank 0: receive from rank 2",
                "  rank 1: state 1; it does not answer",
                "  rank 2: state 2",
                "  rank 0 waits in vain: rank 2 has gone",
            ]
        );
    }

    #[test]
    fn a_process_has_a_state() {
        assert!(["running", "sleeping"].contains(&process_state(std::process::id()).as_str()));
        assert_eq!(process_state(u32::MAX), "in an unknown state");
    }
}
