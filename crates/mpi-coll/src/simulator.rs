//! Runs the programs of all ranks in memory, in an order drawn from a seed.
//!
//! Messages between two ranks match in order. Each is, by a draw, either copied when sent or moved at some
//! time after both sides have started; so a program that changes a buffer too early, reads one too early, or
//! relies on a send that completes alone, fails for some seed.

use crate::program::{Data, Program, Step};
use std::collections::{HashMap, VecDeque};

/// A small generator (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// What moved.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub messages: usize,
    pub bytes: usize,
}

enum Payload {
    Copied(Vec<u8>),
    Lent(Data),
}

struct Sent {
    rank: usize,
    step: usize,
    payload: Payload,
}

struct Posted {
    rank: usize,
    step: usize,
    data: Data,
}

#[derive(Default)]
struct Channel {
    sent: VecDeque<Sent>,
    posted: VecDeque<Posted>,
}

struct World<'a> {
    programs: &'a [Program],
    next: Vec<usize>,
    done: Vec<Vec<bool>>,
    channels: HashMap<(usize, usize), Channel>,
    matched: Vec<(Sent, Posted)>,
    draw: Draw,
    traffic: Traffic,
}

/// Runs all programs as far as they go.
fn advance(programs: &[Program], seed: u64) -> World<'_> {
    let done = programs.iter().map(|p| vec![false; p.steps.len()]).collect();
    let mut world = World {
        programs,
        next: vec![0; programs.len()],
        done,
        channels: HashMap::new(),
        matched: Vec::new(),
        draw: Draw(seed),
        traffic: Traffic::default(),
    };
    loop {
        let ready: Vec<usize> = (0..programs.len()).filter(|r| world.can_run(*r)).collect();
        let choices = ready.len() + world.matched.len();
        if choices == 0 {
            return world;
        }
        match world.draw.below(choices) {
            k if k < ready.len() => world.step(ready[k]),
            k => {
                let (sent, posted) = world.matched.swap_remove(k - ready.len());
                world.deliver(sent, posted);
            }
        }
    }
}

/// Which programs come to their ends, if they are run as far as they go.
pub(crate) fn ended(programs: &[Program], seed: u64) -> Vec<bool> {
    let world = advance(programs, seed);
    programs.iter().zip(&world.next).map(|(program, next)| *next == program.steps.len()).collect()
}

/// Messages and bytes that leave a node.
pub(crate) fn crossing(programs: &[Program], nodes: &[u64]) -> (usize, usize) {
    let mut sum = (0, 0);
    for (rank, program) in programs.iter().enumerate() {
        for step in &program.steps {
            if let Step::Send { to, data } = step {
                if nodes[rank] != nodes[*to as usize] {
                    sum = (sum.0 + 1, sum.1 + program.source(*data).bytes());
                }
            }
        }
    }
    sum
}

/// Runs all programs to their ends.
///
/// # Panics
/// On a deadlock, a message that nobody takes, or one of another size than its room.
pub(crate) fn run(programs: &[Program], seed: u64) -> Traffic {
    let world = advance(programs, seed);
    for (r, p) in programs.iter().enumerate() {
        assert_eq!(
            world.next[r],
            p.steps.len(),
            "rank {r} is stuck at {:?} of {:#?}",
            p.steps[world.next[r]],
            p.steps
        );
    }
    for ((from, to), c) in &world.channels {
        assert!(c.sent.is_empty() && c.posted.is_empty(), "left over between {from} and {to}");
    }
    world.traffic
}

impl World<'_> {
    fn can_run(&self, rank: usize) -> bool {
        match self.programs[rank].steps.get(self.next[rank]) {
            None => false,
            Some(Step::Wait(step)) => self.done[rank][*step as usize],
            Some(_) => true,
        }
    }

    fn step(&mut self, rank: usize) {
        let step = self.next[rank];
        self.next[rank] += 1;
        let program = &self.programs[rank];
        match program.steps[step] {
            Step::Wait(_) => {}
            Step::Send { to, data } => {
                assert_ne!(to as usize, rank);
                self.traffic.messages += 1;
                self.traffic.bytes += program.source(data).bytes();
                let copied = self.draw.below(2) == 0;
                let payload =
                    if copied { Payload::Copied(packed(program, data)) } else { Payload::Lent(data) };
                self.done[rank][step] = copied;
                let channel = self.channels.entry((rank, to as usize)).or_default();
                channel.sent.push_back(Sent { rank, step, payload });
                self.pair((rank, to as usize));
            }
            Step::Recv { from, data } => {
                let channel = self.channels.entry((from as usize, rank)).or_default();
                channel.posted.push_back(Posted { rank, step, data });
                self.pair((from as usize, rank));
            }
            local => program.local(local).unwrap(),
        }
    }

    fn pair(&mut self, key: (usize, usize)) {
        let channel = self.channels.entry(key).or_default();
        if !channel.sent.is_empty() && !channel.posted.is_empty() {
            let (sent, posted) = (channel.sent.pop_front().unwrap(), channel.posted.pop_front().unwrap());
            self.matched.push((sent, posted));
        }
    }

    fn deliver(&mut self, sent: Sent, posted: Posted) {
        let bytes = match sent.payload {
            Payload::Copied(bytes) => bytes,
            Payload::Lent(data) => packed(&self.programs[sent.rank], data),
        };
        let room = self.programs[posted.rank].room(posted.data);
        assert_eq!(bytes.len(), room.bytes(), "from {} to {}", sent.rank, posted.rank);
        room.unpack(0, &bytes);
        self.done[sent.rank][sent.step] = true;
        self.done[posted.rank][posted.step] = true;
    }
}

/// The packed bytes of `data`.
pub(crate) fn packed(program: &Program, data: Data) -> Vec<u8> {
    let mut bytes = vec![0; program.source(data).bytes()];
    program.source(data).pack(0, &mut bytes);
    bytes
}
