//! What a waiting thread does between two looks, and for how long.

use crate::config::SpinPolicy;
use crate::limits::{
    CLOCK_TURNS, CLOCK_YIELDS, SHARED_YIELD, SHARING_TURNS, SPIN_FACTOR_AFTER_SHORT_SLEEP, SPIN_YIELD_PERIOD,
};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a waiting thread does between two looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    Again,
    Yield,
    Park,
}

/// Spin, then hand the processor over or park: by whether every rank of the node has a processor.
pub(crate) struct Patience {
    turns: u32,
    since: Option<Instant>,
    crowded: bool,
    limit: Duration,
    /// Spinning so long, the processor is offered once more.
    next_yield: Duration,
    /// A peer shares the processor, though there are enough: it is offered often.
    shares: bool,
}

impl Patience {
    /// `slept_short`: the last sleep was not worth it.
    #[inline]
    pub fn new(policy: &SpinPolicy, slept_short: bool) -> Patience {
        let crowded = policy.crowded();
        let limit = match (crowded, slept_short) {
            (true, _) => policy.yielding,
            (false, true) => policy.spin * SPIN_FACTOR_AFTER_SHORT_SLEEP,
            (false, false) => policy.spin,
        };
        let shares = SHARES.get();
        Patience { turns: 0, since: None, crowded, limit, next_yield: SPIN_YIELD_PERIOD, shares }
    }

    #[inline]
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Something moved: the time starts anew.
    pub fn renew(&mut self) {
        self.since = None;
        self.next_yield = SPIN_YIELD_PERIOD;
    }

    #[inline]
    pub fn next(&mut self) -> Pause {
        self.turns = self.turns.wrapping_add(1);
        let rarely = if self.crowded { CLOCK_YIELDS } else { CLOCK_TURNS };
        if self.turns % rarely == 0 {
            return self.next_by_clock();
        }
        let yields = self.crowded || (self.shares && self.turns % SHARING_TURNS == 0);
        if yields { Pause::Yield } else { Pause::Again }
    }

    /// Hands the processor over, and learns from how long it was away who else wants it.
    pub fn yield_now(&mut self) {
        if self.crowded {
            return std::thread::yield_now();
        }
        let begun = Instant::now();
        std::thread::yield_now();
        self.shares = SHARED_YIELD.contains(&begun.elapsed());
        SHARES.set(self.shares);
    }

    fn next_by_clock(&mut self) -> Pause {
        match self.since {
            None => {
                self.since = Some(Instant::now());
                if self.crowded { Pause::Yield } else { Pause::Again }
            }
            Some(since) => self.next_after(since.elapsed()),
        }
    }

    fn next_after(&mut self, waited: Duration) -> Pause {
        if waited >= self.limit {
            Pause::Park
        } else if self.crowded {
            Pause::Yield
        } else if waited >= self.next_yield {
            self.next_yield = waited + SPIN_YIELD_PERIOD;
            Pause::Yield
        } else {
            Pause::Again
        }
    }
}

thread_local! {
    /// The last offer of the processor was taken for a moment: somebody who yields, too, is here.
    static SHARES: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{self, SHORT_SLEEP};

    #[test]
    fn a_sleep_that_was_not_worth_it_makes_the_next_spin_longer() {
        let policy = SpinPolicy::new(2, 2);
        let mut usual = Patience::new(&policy, false);
        let mut longer = Patience::new(&policy, true);
        assert_eq!(usual.next_after(limits::SPIN_TIME), Pause::Park);
        assert_ne!(longer.next_after(limits::SPIN_TIME), Pause::Park);
        assert_eq!(longer.next_after(limits::SPIN_TIME * SPIN_FACTOR_AFTER_SHORT_SLEEP), Pause::Park);
        // Longer than a sleep that counts as short: else two sides could sleep by turns for ever.
        const {
            assert!(
                limits::SPIN_TIME.as_micros() * SPIN_FACTOR_AFTER_SHORT_SLEEP as u128
                    >= SHORT_SLEEP.as_micros()
            )
        };
    }

    #[test]
    fn who_spins_offers_the_processor_once_per_period() {
        let mut patience = Patience::new(&SpinPolicy::new(2, 2), true);
        let (period, moment) = (SPIN_YIELD_PERIOD, Duration::from_micros(1));
        assert_eq!(patience.next_after(period - moment), Pause::Again);
        assert_eq!(patience.next_after(period), Pause::Yield);
        assert_eq!(patience.next_after(period + moment), Pause::Again);
        assert_eq!(patience.next_after(2 * period), Pause::Yield);
        patience.renew();
        assert_eq!(patience.next_after(period), Pause::Yield);
    }

    #[test]
    fn a_crowd_yields_until_its_time_is_over() {
        let policy = SpinPolicy::new(1, 2);
        let mut patience = Patience::new(&policy, true);
        assert_eq!(patience.next_after(Duration::from_micros(1)), Pause::Yield);
        assert_eq!(patience.next_after(policy.yielding), Pause::Park);
    }
}
