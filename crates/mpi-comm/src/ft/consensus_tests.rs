//! Agreements of simulated processes, any of which dies at any step; all that happens is drawn from a seed.
//!
//! `MPI_FT_SEED=n` runs one seed, `MPI_FT_SEEDS=n` so many.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

const AGREEMENTS: u64 = 3;

struct Process {
    consensus: Consensus,
    alive: bool,
    /// Deaths that it has not heard of.
    unaware: Vec<u32>,
    outcomes: Vec<Decision>,
    said: Vec<u64>,
    /// It takes part in an agreement that is not over.
    inside: bool,
}

struct Net {
    seed: u64,
    processes: Vec<Process>,
    /// In order from one process to another.
    wires: HashMap<(u32, u32), VecDeque<Letter>>,
    deaths_left: u32,
}

impl Net {
    fn new(seed: u64, size: u32, deaths: u32) -> Net {
        let process = |rank| Process {
            consensus: Consensus::new(rank, size),
            alive: true,
            unaware: Vec::new(),
            outcomes: Vec::new(),
            said: Vec::new(),
            inside: false,
        };
        let processes = (0..size).map(process).collect();
        Net {
            seed: seed.wrapping_mul(2).wrapping_add(1),
            processes,
            wires: HashMap::new(),
            deaths_left: deaths,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) as usize % n
    }

    fn living(&self) -> Vec<u32> {
        (0..self.processes.len() as u32).filter(|rank| self.processes[*rank as usize].alive).collect()
    }

    /// Puts what a process has to send on the wires. One that dies now sends a part of it.
    fn send_of(&mut self, rank: u32) {
        let mut letters = self.processes[rank as usize].consensus.letters();
        if self.deaths_left > 0 && self.living().len() > 1 && self.below(20) == 0 {
            self.deaths_left -= 1;
            let sent = self.below(letters.len() + 1);
            letters.truncate(sent);
            self.processes[rank as usize].alive = false;
            for other in self.living() {
                self.processes[other as usize].unaware.push(rank);
            }
        }
        for (to, letter) in letters {
            let read = Letter::decode(&letter.encode());
            assert_eq!(read.as_ref(), Some(&letter));
            self.wires.entry((rank, to)).or_default().push_back(letter);
        }
    }

    fn collect(&mut self, rank: u32) {
        let process = &mut self.processes[rank as usize];
        for number in process.consensus.news() {
            assert_eq!(number, process.outcomes.len() as u64, "decided out of turn");
            let decision = process.consensus.decision(number).expect("it is decided").clone();
            process.outcomes.push(decision);
            process.inside = false;
        }
    }

    /// Something happens. False when nothing can.
    fn step(&mut self) -> bool {
        enum Event {
            Start(u32),
            Hear(u32),
            Deliver(u32, u32),
        }
        let mut possible = Vec::new();
        for rank in self.living() {
            let process = &self.processes[rank as usize];
            if !process.inside && (process.said.len() as u64) < AGREEMENTS {
                possible.push(Event::Start(rank));
            }
            if !process.unaware.is_empty() {
                possible.push(Event::Hear(rank));
            }
        }
        let alive = |rank: &u32| self.processes[*rank as usize].alive;
        let wires = self.wires.iter().filter(|((_, to), wire)| alive(to) && !wire.is_empty());
        let mut wires: Vec<(u32, u32)> = wires.map(|(ends, _)| *ends).collect();
        wires.sort_unstable();
        possible.extend(wires.into_iter().map(|(from, to)| Event::Deliver(from, to)));
        if possible.is_empty() {
            return false;
        }
        let at = self.below(possible.len());
        let rank = match possible.swap_remove(at) {
            Event::Start(rank) => {
                let word = self.below(1 << 16) as u64 | 1 << 20;
                let process = &mut self.processes[rank as usize];
                process.said.push(word);
                process.inside = true;
                process.consensus.start(&[word], None);
                rank
            }
            Event::Hear(rank) => {
                let dead = self.processes[rank as usize].unaware.pop().expect("there is one");
                self.processes[rank as usize].consensus.gone(dead);
                rank
            }
            Event::Deliver(from, to) => {
                let letter =
                    self.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("there is one");
                self.processes[to as usize].consensus.heard(from, letter);
                to
            }
        };
        self.collect(rank);
        self.send_of(rank);
        true
    }
}

fn run(seed: u64) {
    let size = 1 + (seed % 9) as u32;
    let mut net = Net::new(seed, size, size.min((seed / 9 % 6) as u32));
    let mut steps = 0;
    while net.step() {
        steps += 1;
        assert!(steps < 200_000, "seed {seed}: it never ends");
    }
    let living = net.living();
    let dead: Vec<u32> = (0..size).filter(|rank| !living.contains(rank)).collect();
    for rank in &living {
        let outcomes = net.processes[*rank as usize].outcomes.len() as u64;
        assert_eq!(outcomes, AGREEMENTS, "seed {seed}: rank {rank} of {living:?} waits for ever");
    }
    for number in 0..AGREEMENTS as usize {
        let outcomes = || net.processes.iter().filter_map(|process| process.outcomes.get(number));
        // Also those that died later.
        let first = outcomes().next().expect("somebody lives");
        assert!(outcomes().all(|other| other == first), "seed {seed}: {:?}", outcomes().collect::<Vec<_>>());
        assert!(first.failed.iter().all(|rank| dead.contains(rank)), "seed {seed}: {first:?}, dead {dead:?}");
        for rank in &living {
            let said = net.processes[*rank as usize].said[number];
            assert_eq!(first.words[0] & !said, 0, "seed {seed}: rank {rank} was not heard");
        }
        assert_eq!(first.words[0] >> 20, 1, "seed {seed}: what all have set is lost");
        assert_eq!(first.acknowledged, first.failed.is_empty(), "seed {seed}");
    }
    let sets: Vec<&Vec<u32>> = net.processes[living[0] as usize].outcomes.iter().map(|d| &d.failed).collect();
    assert!(
        sets.windows(2).all(|two| two[0].iter().all(|rank| two[1].contains(rank))),
        "seed {seed}: {sets:?}"
    );
}

#[test]
fn survivors_agree_whoever_dies_at_any_step() {
    if let Some(seed) = std::env::var("MPI_FT_SEED").ok().and_then(|text| text.parse().ok()) {
        return run(seed);
    }
    let seeds = std::env::var("MPI_FT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    (0..seeds).for_each(run);
}

#[test]
fn acknowledged_are_those_that_all_have_acknowledged() {
    for all in [true, false] {
        let mut two: Vec<Consensus> = (0..2).map(|rank| Consensus::new(rank, 3)).collect();
        two.iter_mut().for_each(|one| one.gone(2));
        two[0].start(&[3], [2]);
        two[1].start(&[5], if all { Some(2) } else { None });
        loop {
            let mut quiet = true;
            for from in 0..2 {
                for (to, letter) in two[from].letters() {
                    quiet = false;
                    if to < 2 {
                        two[to as usize].heard(from as u32, letter);
                    }
                }
            }
            if quiet {
                break;
            }
        }
        for one in &two {
            let decision = one.decision(0).expect("decided");
            assert_eq!(
                (&decision.words[..], &decision.failed[..], decision.acknowledged),
                (&[1][..], &[2][..], all)
            );
        }
    }
}

#[test]
fn what_everybody_has_is_forgotten() {
    let mut one = Consensus::new(0, 1);
    for number in 0..1000 {
        assert_eq!(one.start(&[7], None), number);
        assert_eq!(one.news(), [number]);
    }
    assert!(one.rounds.len() <= 2, "{}", one.rounds.len());
}

proptest! {
    #[test]
    fn any_words_are_a_letter_or_none(words in proptest::collection::vec(0u64..9, 0..30)) {
        if let Some(letter) = Letter::decode(&words) {
            let again = Letter::decode(&letter.encode());
            prop_assert_eq!(again.as_ref(), Some(&letter));
            let mut one = Consensus::new(1, 4);
            one.start(&[1], None);
            one.heard(2, letter);
        }
    }
}
