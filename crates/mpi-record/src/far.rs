//! Records of ranks on another host: what has changed since the last time goes to the launcher in pieces.
//!
//! A piece is words of 8 bytes, little-endian. The first says what follows: counters (the clock of
//! that host, then runs of words: where and how many, the words themselves), or events (how many were
//! lost so far, then the events, their times in nanoseconds of that host's monotonic clock).

use crate::RecordError;
use crate::clock::{Rate, ticks};
use crate::layout::{EVENT_WORDS, Event, Layout};
use crate::reader::{Block, Reader, Tail, block_of};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

const COUNTERS: u64 = 1;
const EVENTS: u64 = 2;
/// Words in front of the runs: what it is, start in ticks and nanoseconds, nanoseconds per tick, now.
const COUNTERS_HEAD: usize = 5;
/// Equal words between two runs that cost no more than a further run.
const GAP_MAX: usize = 2;
/// Events that wait at the launcher for the trace at most.
const WAITING_MAX: usize = 1 << 20;

/// On the ranks' own host.
#[derive(Debug)]
pub struct Courier {
    reader: Reader,
    ranks: BTreeMap<usize, (Vec<u64>, Tail)>,
}

impl Courier {
    /// For the ranks that write into the file behind `fd`.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn new(fd: BorrowedFd<'_>) -> Result<Courier, RecordError> {
        Ok(Courier { reader: Reader::new(fd)?, ranks: BTreeMap::new() })
    }

    /// What a rank has written down since the last time, in pieces of at most `most` bytes.
    pub fn take(&mut self, rank: usize, most: usize) -> Vec<Vec<u8>> {
        let most = most / 8;
        let mut pieces = Vec::new();
        let (sent, tail) = self.ranks.entry(rank).or_default();
        let rate = self.reader.rate();
        if let Ok(events) = self.reader.events(rank, tail) {
            let nanos = |at: u64| self.reader.start_nanos() + rate.at(at);
            for some in events.chunks((most.saturating_sub(2) / EVENT_WORDS).max(1)) {
                let mut words = vec![EVENTS, tail.lost];
                words.extend(some.iter().flat_map(|event| event.timed_by(nanos).encode()));
                pieces.push(words);
            }
        }
        // Counters last: they stand for what has been told.
        if let Ok(now) = self.reader.words(rank) {
            sent.resize(now.len(), 0);
            let head =
                [COUNTERS, rate.start, self.reader.start_nanos(), rate.nanos_per_tick.to_bits(), ticks()];
            let mut piece = head.to_vec();
            for (at, run) in runs(sent, &now, most.saturating_sub(COUNTERS_HEAD + 1).max(1)) {
                if piece.len() + 1 + run.len() > most {
                    pieces.push(std::mem::replace(&mut piece, head.to_vec()));
                }
                piece.push((at as u64) << 32 | run.len() as u64);
                piece.extend(run);
            }
            pieces.push(piece);
            *sent = now;
        }
        pieces.into_iter().map(|words| words.into_iter().flat_map(u64::to_le_bytes).collect()).collect()
    }
}

/// The stretches of words that have changed, none longer than `most`.
fn runs<'a>(old: &[u64], new: &'a [u64], most: usize) -> Vec<(usize, &'a [u64])> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let changed = (0..new.len()).filter(|at| old.get(*at) != new.get(*at));
    for at in changed {
        match found.last_mut() {
            Some((first, end)) if at <= *end + GAP_MAX && at + 1 - *first <= most => *end = at + 1,
            _ => found.push((at, at + 1)),
        }
    }
    found.into_iter().filter_map(|(first, end)| Some((first, new.get(first..end)?))).collect()
}

/// What the launcher has been told of a rank on another host.
#[derive(Debug, Default)]
pub struct Far {
    words: Vec<u64>,
    clock: Option<Clock>,
    /// When the process was known to have ended, by the other host's clock.
    ended: Option<u64>,
    events: Vec<Event>,
    lost: u64,
}

/// The other host's clock, as of the last piece.
#[derive(Clone, Copy, Debug)]
struct Clock {
    rate: Rate,
    start_nanos: u64,
    now: u64,
}

impl Far {
    /// A piece has come.
    ///
    /// # Errors
    /// [`RecordError::Foreign`]: no courier makes such a piece; what came before it stands.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), RecordError> {
        let foreign = |field, found| RecordError::Foreign { field, found };
        if piece.len() % 8 != 0 {
            return Err(foreign("length", piece.len() as u64));
        }
        let word = |chunk: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| chunk[i]));
        let words: Vec<u64> = piece.chunks_exact(8).map(word).collect();
        match words.as_slice() {
            [COUNTERS, start, start_nanos, rate, now, runs @ ..] => {
                let nanos_per_tick = f64::from_bits(*rate);
                if !(nanos_per_tick.is_finite() && nanos_per_tick > 0.0) {
                    return Err(foreign("rate", *rate));
                }
                self.take_runs(runs)?;
                let rate = Rate { start: *start, nanos_per_tick };
                self.clock = Some(Clock { rate, start_nanos: *start_nanos, now: *now });
                Ok(())
            }
            [EVENTS, lost, events @ ..] if events.len() % EVENT_WORDS == 0 => {
                let come = events.len() / EVENT_WORDS;
                let room = WAITING_MAX.saturating_sub(self.events.len());
                let dropped = come.saturating_sub(room) as u64;
                self.lost = self.lost.max(*lost) + dropped;
                self.events.extend(events.chunks_exact(EVENT_WORDS).take(room).filter_map(Event::decode));
                Ok(())
            }
            _ => Err(foreign("kind", words.first().copied().unwrap_or(0))),
        }
    }

    fn take_runs(&mut self, mut runs: &[u64]) -> Result<(), RecordError> {
        self.words.resize(Layout::counters(), 0);
        while let [head, rest @ ..] = runs {
            let (at, count) = ((head >> 32) as usize, (head & u64::from(u32::MAX)) as usize);
            let foreign = RecordError::Foreign { field: "run", found: *head };
            let (Some(own), Some(new)) =
                (self.words.get_mut(at..at.saturating_add(count)), rest.get(..count))
            else {
                return Err(foreign);
            };
            own.copy_from_slice(new);
            runs = &rest[count..];
        }
        Ok(())
    }

    /// The process has ended: its time stands still.
    pub fn has_ended(&mut self) {
        self.ended = self.ended.or(self.clock.map(|clock| clock.now));
    }

    /// What the rank had written down when it was last heard of. `start_nanos` is the job's beginning by
    /// this machine's monotonic clock, by `ahead` nanoseconds of which the other host's is ahead.
    #[must_use]
    pub fn block(&self, start_nanos: u64, ahead: i64) -> Block {
        let Some(clock) = &self.clock else { return Block::default() };
        let block = block_of(self.words.clone(), &clock.rate, self.ended.unwrap_or(clock.now));
        let here =
            |since_start: u64| shift(clock.start_nanos.saturating_add(since_start), start_nanos, ahead);
        Block { begun: here(block.begun), ended: block.ended.map(here), ..block }
    }

    /// Events that came since the last time, their times in nanoseconds from the start of the job, and how
    /// many were lost so far.
    pub fn events(&mut self, start_nanos: u64, ahead: i64) -> (Vec<Event>, u64) {
        let events = std::mem::take(&mut self.events);
        let here = |nanos: u64| shift(nanos, start_nanos, ahead);
        (events.into_iter().map(|event| event.timed_by(here)).collect(), self.lost)
    }
}

/// A time of another host in nanoseconds since the start of the job here.
fn shift(nanos: u64, start_nanos: u64, ahead: i64) -> u64 {
    (i128::from(nanos) - i128::from(ahead) - i128::from(start_nanos)).clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_those_of_the_job() {
        assert_eq!(shift(1_500, 1_000, 0), 500);
        assert_eq!(shift(1_500, 1_000, 400), 100, "its clock is ahead");
        assert_eq!(shift(1_500, 1_000, -400), 900);
        assert_eq!(shift(5, 1_000, 0), 0, "before the job there is nothing");
    }

    proptest! {
        #[test]
        fn runs_make_the_new_out_of_the_old(
            old in proptest::collection::vec(0..3_u64, 40),
            new in proptest::collection::vec(0..3_u64, 40),
            most in 1..12_usize,
        ) {
            let mut made = old.clone();
            for (at, run) in runs(&old, &new, most) {
                prop_assert!(run.len() <= most);
                made[at..at + run.len()].copy_from_slice(run);
            }
            prop_assert_eq!(made, new);
        }

        #[test]
        fn any_piece_is_taken_or_refused(
            kind in 0..4_u64,
            words in proptest::collection::vec(any::<u64>(), 0..40),
            odd in 0..8_usize,
        ) {
            let mut far = Far::default();
            let mut piece: Vec<u8> =
                std::iter::once(kind).chain(words).flat_map(u64::to_le_bytes).collect();
            piece.extend(vec![0; odd]);
            let _ = far.take(&piece);
            let _ = (far.block(7, -3), far.events(7, i64::MAX));
        }
    }
}
