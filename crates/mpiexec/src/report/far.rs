//! Records of ranks on other hosts, which their daemons pass on.

use super::Reports;
use mpi_record::{Options, RecordError};

/// What daemons are told to have recorded.
pub fn wanted(options: Option<Options>) -> u8 {
    options.map_or(0, |options| 1 + u8::from(options.events))
}

/// What a daemon was told to have recorded; `None`: nothing.
pub fn options(wanted: u8) -> Option<Options> {
    (wanted > 0).then_some(Options { events: wanted > 1 })
}

/// How far the clock of another host is ahead, as far as that is known: by the answer that was quickest to come.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ahead {
    nanos: i64,
    /// Time from the question to the answer.
    round_trip: Option<u64>,
}

impl Ahead {
    /// Asked at one time of this machine's clock, the other host answered with its own; now it is `now`.
    pub fn answered(&mut self, asked: u64, theirs: u64, now: u64) {
        let Some(took) = now.checked_sub(asked) else { return };
        if self.round_trip.is_none_or(|best| took < best) {
            let middle = i128::from(asked) + i128::from(took / 2);
            let ahead = i128::from(theirs) - middle;
            self.nanos = ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            self.round_trip = Some(took);
        }
    }

    /// In nanoseconds; right to half of the quickest round trip.
    pub fn nanos(self) -> i64 {
        self.nanos
    }
}

impl Reports {
    /// What ranks elsewhere are to record.
    pub fn wanted_elsewhere(&self) -> u8 {
        wanted(self.options())
    }

    /// A daemon passes on what a process of the job has written down.
    ///
    /// # Errors
    /// No daemon says such a thing.
    pub fn far(&mut self, number: usize, piece: &[u8], ahead: Ahead) -> Result<(), RecordError> {
        let of_it =
            |world: &&mut super::World| (world.first..world.first + world.reader.ranks()).contains(&number);
        let Some(world) = self.worlds.iter_mut().find(of_it) else { return Ok(()) };
        let rank = world.far.entry(number - world.first).or_default();
        rank.ahead = ahead.nanos();
        rank.records.take(piece)
    }

    /// Nothing has come of what a process on another host has written down.
    pub fn nothing_of(&self, number: usize) -> bool {
        let of_it =
            |world: &&super::World| (world.first..world.first + world.reader.ranks()).contains(&number);
        self.worlds.iter().find(of_it).is_none_or(|world| !world.far.contains_key(&(number - world.first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_answer_counts() {
        let mut ahead = Ahead::default();
        ahead.answered(1_000, 10_000, 3_000);
        assert_eq!(ahead.nanos(), 8_000);
        ahead.answered(5_000, 99_000, 9_000);
        assert_eq!(ahead.nanos(), 8_000, "it took longer");
        ahead.answered(5_000, 4_000, 5_100);
        assert_eq!(ahead.nanos(), -1_050);
        ahead.answered(5_000, 4_000, 4_000);
        assert_eq!(ahead.nanos(), -1_050, "an answer before the question");
    }

    #[test]
    fn what_is_wanted_is_understood() {
        for options in [None, Some(Options { events: false }), Some(Options { events: true })] {
            assert_eq!(super::options(wanted(options)), options);
        }
    }
}
