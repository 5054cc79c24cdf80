//! What a collective costs on paper: its programs for any number of ranks, run without data over a network with a
//! latency and a bandwidth (Hockney, "The communication challenge for MPP", 1994; a sender's messages leave one after
//! the other). Thousands of ranks fit into one process, since only sizes move.

use crate::algorithms::{allreduce, alltoall, barrier};
use crate::program::{Builder, Built, Program, Step};
use crate::{Allreduce, Alltoall};
use mpi_datatype::{Datatype, DatatypeError, Op, Primitive};
use std::collections::{HashMap, VecDeque};

/// A network between ranks, each on a host of its own.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// From the first byte sent to the first received, in nanoseconds.
    pub latency_ns: u64,
    /// Time that a mebibyte takes to leave a rank, in nanoseconds.
    pub mebibyte_ns: u64,
}

/// A collective by one algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// A barrier, by dissemination.
    Barrier,
    /// An allreduce of so many doubles.
    Allreduce(Allreduce, usize),
    /// An alltoall of blocks of so many bytes.
    Alltoall(Alltoall, usize),
}

/// What it costs. Of messages and bytes, those that the busiest rank sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Messages of the busiest rank.
    pub messages: u64,
    /// Bytes of the busiest rank.
    pub bytes: u64,
    /// Messages of all ranks.
    pub all_messages: u64,
    /// Until the last rank is done, in nanoseconds.
    pub time_ns: u64,
}

/// What is left of a program's step.
#[derive(Clone, Copy)]
enum Move {
    Send(u32, u64),
    Recv(u32),
    /// Until the receive that the move at this place started is complete.
    Wait(u32),
}

#[derive(Default)]
struct Rank {
    moves: Vec<Move>,
    next: usize,
    clock: u64,
    /// When the last byte sent so far is out.
    out: u64,
    /// When each receive is complete, by its place among the moves.
    done: HashMap<u32, u64>,
    messages: u64,
    bytes: u64,
}

/// One direction between two ranks: messages that arrived, and receives that wait, by place.
#[derive(Default)]
struct Channel {
    arrived: VecDeque<u64>,
    waiting: VecDeque<u32>,
}

/// Runs a collective of `ranks` ranks.
///
/// # Errors
/// No memory for a program's temporaries.
pub fn cost(ranks: usize, collective: Collective, network: Network) -> Result<Cost, DatatypeError> {
    let all = (0..ranks).map(|rank| Ok(Rank { moves: moves(rank, ranks, collective)?, ..Rank::default() }));
    let mut all = all.collect::<Built<Vec<Rank>>>()?;
    let mut channels: HashMap<(u32, u32), Channel> = HashMap::new();
    let mut ready: VecDeque<u32> = (0..ranks as u32).collect();
    while let Some(rank) = ready.pop_front() {
        run(rank, &mut all, &mut channels, &mut ready, network);
    }
    let of = |take: fn(&Rank) -> u64| all.iter().map(take);
    Ok(Cost {
        messages: of(|r| r.messages).max().unwrap_or(0),
        bytes: of(|r| r.bytes).max().unwrap_or(0),
        all_messages: of(|r| r.messages).sum(),
        time_ns: of(|r| r.done.values().copied().max().unwrap_or(0).max(r.clock).max(r.out))
            .max()
            .unwrap_or(0),
    })
}

/// Runs one rank until it has to wait.
fn run(
    rank: u32,
    all: &mut [Rank],
    channels: &mut HashMap<(u32, u32), Channel>,
    ready: &mut VecDeque<u32>,
    network: Network,
) {
    while let Some(step) = all[rank as usize].moves.get(all[rank as usize].next).copied() {
        let me = &mut all[rank as usize];
        match step {
            Move::Send(to, bytes) => {
                me.out = me.out.max(me.clock) + (bytes * network.mebibyte_ns) / (1 << 20);
                (me.messages, me.bytes) = (me.messages + 1, me.bytes + bytes);
                let at = me.out + network.latency_ns;
                let channel = channels.entry((rank, to)).or_default();
                match channel.waiting.pop_front() {
                    Some(place) => {
                        let you = &mut all[to as usize];
                        you.done.insert(place, at);
                        if matches!(you.moves.get(you.next), Some(Move::Wait(of)) if *of == place) {
                            ready.push_back(to);
                        }
                    }
                    None => channel.arrived.push_back(at),
                }
            }
            Move::Recv(from) => {
                let channel = channels.entry((from, rank)).or_default();
                let place = me.next as u32;
                match channel.arrived.pop_front() {
                    Some(at) => {
                        me.done.insert(place, at);
                    }
                    None => channel.waiting.push_back(place),
                }
            }
            Move::Wait(of) => match me.done.get(&of) {
                Some(at) => me.clock = me.clock.max(*at),
                None => return,
            },
        }
        all[rank as usize].next += 1;
    }
}

/// The program of one rank without its memory: sends are complete when they are started.
fn moves(rank: usize, ranks: usize, collective: Collective) -> Built<Vec<Move>> {
    let program = program(rank, ranks, collective)?;
    let mut places = HashMap::new();
    let mut moves = Vec::new();
    for (at, step) in program.steps.iter().enumerate() {
        match *step {
            Step::Send { to, data } => moves.push(Move::Send(to, program.source(data).bytes() as u64)),
            Step::Recv { from, .. } => {
                places.insert(at as u32, moves.len() as u32);
                moves.push(Move::Recv(from));
            }
            Step::Wait(of) => moves.extend(places.get(&of).map(|place| Move::Wait(*place))),
            Step::Copy { .. }
            | Step::Reduce { .. }
            | Step::Compare(_)
            | Step::Judge { .. }
            | Step::Heed(_) => {}
        }
    }
    Ok(moves)
}

fn program(rank: usize, ranks: usize, collective: Collective) -> Built<Program> {
    let mut b = Builder::new(rank, ranks).with_op(&Op::Sum);
    match collective {
        Collective::Barrier => barrier::dissemination(&mut b)?,
        Collective::Allreduce(by, count) => {
            let doubles = Datatype::predefined(Primitive::F64);
            let (own, result) = (b.scratch(count, &doubles)?, b.scratch(count, &doubles)?);
            allreduce::allreduce(&mut b, own, result, by)?;
        }
        Collective::Alltoall(by, bytes) => {
            // All blocks may lie in one place: nothing is moved.
            let block = b.packed(bytes)?;
            alltoall::alltoall(&mut b, &vec![block; ranks], &vec![block; ranks], by)?;
        }
    }
    Ok(b.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Network = Network { latency_ns: 1000, mebibyte_ns: 1 << 20 };

    fn of(ranks: usize, collective: Collective) -> Cost {
        cost(ranks, collective, NETWORK).unwrap()
    }

    #[test]
    fn sixty_four_ranks_cost_what_the_formulas_say() {
        let (n, log) = (64u64, 6u64);
        let barrier = of(64, Collective::Barrier);
        assert_eq!(barrier, Cost { messages: log, bytes: 0, all_messages: n * log, time_ns: log * 1000 });

        // Whole vectors in log2 P rounds.
        let bytes = 8 * 6400;
        let doubling = of(64, Collective::Allreduce(Allreduce::Doubling, 6400));
        let time_ns = log * (1000 + bytes);
        assert_eq!(doubling, Cost { messages: log, bytes: log * bytes, all_messages: n * log, time_ns });

        // Halves, quarters, ... and back: 2 (P - 1) / P of the vector in 2 log2 P rounds.
        let halving = of(64, Collective::Allreduce(Allreduce::Rabenseifner, 6400));
        let moved = 2 * bytes * (n - 1) / n;
        assert_eq!(
            (halving.messages, halving.bytes, halving.time_ns),
            (2 * log, moved, 2 * log * 1000 + moved)
        );

        // The same in 2 (P - 1) rounds.
        let ring = of(64, Collective::Allreduce(Allreduce::Ring, 6400));
        let rounds = 2 * (n - 1);
        assert_eq!((ring.messages, ring.bytes, ring.time_ns), (rounds, moved, rounds * 1000 + moved));

        // Half of all blocks in each of log2 P rounds, or each block alone.
        let bruck = of(64, Collective::Alltoall(Alltoall::Bruck, 8));
        let time_ns = log * (1000 + 8 * n / 2);
        assert_eq!((bruck.messages, bruck.bytes, bruck.time_ns), (log, log * 8 * n / 2, time_ns));
        let pairwise = of(64, Collective::Alltoall(Alltoall::Pairwise, 1024));
        let time_ns = (n - 1) * (1000 + 1024);
        assert_eq!((pairwise.messages, pairwise.bytes, pairwise.time_ns), (n - 1, (n - 1) * 1024, time_ns));
        let scattered = of(64, Collective::Alltoall(Alltoall::Scattered, 1024));
        assert_eq!((scattered.messages, scattered.time_ns), (n - 1, 1000 + (n - 1) * 1024));
    }

    /// The formula of an algorithm on a power of two of ranks: rounds, messages and bytes of each rank, and the bytes that
    /// cannot overlap.
    fn formula(ranks: u64, collective: Collective) -> Cost {
        let log = u64::from(ranks.ilog2());
        let others = ranks - 1;
        let (messages, bytes) = match collective {
            Collective::Barrier => (log, 0),
            Collective::Allreduce(Allreduce::Doubling, n) => (log, log * 8 * n as u64),
            // Without shared memory those that work on the memory of others are Rabenseifner's.
            Collective::Allreduce(Allreduce::Rabenseifner | Allreduce::Direct | Allreduce::Staged, n) => {
                (2 * log, 2 * others * 8 * n as u64 / ranks)
            }
            Collective::Allreduce(Allreduce::Ring, n) => (2 * others, 2 * others * 8 * n as u64 / ranks),
            Collective::Alltoall(Alltoall::Bruck, n) => (log, log * n as u64 * ranks / 2),
            Collective::Alltoall(_, n) => (others, others * n as u64),
        };
        // One round after the other, but for what leaves all at once.
        let rounds = if let Collective::Alltoall(Alltoall::Scattered, _) = collective { 1 } else { messages };
        Cost { messages, bytes, all_messages: ranks * messages, time_ns: rounds * 1000 + bytes }
    }

    #[test]
    fn thousands_of_ranks_cost_what_the_formulas_say() {
        for ranks in [64, 1024, 4096] {
            let mut all = vec![
                Collective::Barrier,
                Collective::Allreduce(Allreduce::Doubling, 1),
                Collective::Allreduce(Allreduce::Doubling, 128),
                Collective::Allreduce(Allreduce::Rabenseifner, 1 << 13),
                Collective::Allreduce(Allreduce::Rabenseifner, 1 << 17),
                Collective::Alltoall(Alltoall::Bruck, 8),
            ];
            // Of more ranks these are too many messages to hold, or to run in a test.
            if ranks <= 1024 {
                all.push(Collective::Allreduce(Allreduce::Ring, 1 << 17));
                all.push(Collective::Alltoall(Alltoall::Pairwise, 32 << 10));
                all.push(Collective::Alltoall(Alltoall::Bruck, 256));
            }
            if ranks == 64 {
                all.push(Collective::Alltoall(Alltoall::Scattered, 1024));
            }
            for collective in all {
                assert_eq!(
                    of(ranks, collective),
                    formula(ranks as u64, collective),
                    "{ranks}: {collective:?}"
                );
            }
        }
    }

    /// No algorithm takes fewer rounds than the bound, nor do those for long vectors send more bytes than it.
    #[test]
    fn bounds_are_kept_and_met() {
        for ranks in [64_u64, 1024, 4096] {
            let log = u64::from(ranks.ilog2());
            let least = 2 * (ranks - 1) * (8 << 17) / ranks;
            let long = formula(ranks, Collective::Allreduce(Allreduce::Rabenseifner, 1 << 17));
            assert_eq!((long.bytes, long.messages), (least, 2 * log));
            assert_eq!(formula(ranks, Collective::Barrier).messages, log);
            assert_eq!(formula(ranks, Collective::Allreduce(Allreduce::Doubling, 1)).messages, log);
            let each = formula(ranks, Collective::Alltoall(Alltoall::Pairwise, 1024));
            assert_eq!(each.bytes, (ranks - 1) * 1024);
            let few = formula(ranks, Collective::Alltoall(Alltoall::Bruck, 8));
            assert!(few.messages == log && few.bytes >= (ranks - 1) * 8);
        }
    }
}
