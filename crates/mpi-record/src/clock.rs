//! Ticks: the processor's counter where the kernel itself trusts it, else the kernel's clock.
//!
//! All ranks of a node and their launcher read the same clock, whose kind the launcher chose.

use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};

static COUNTER: AtomicBool = AtomicBool::new(false);

/// The kernel keeps its own time by the processor's counter: it runs evenly, and alike on all
/// processors.
pub(crate) fn counter_is_good() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|name| name.trim() == "tsc")
}

/// Chooses the clock of this process.
pub(crate) fn choose(counter: bool) {
    COUNTER.store(counter, Ordering::Relaxed);
}

/// The time now, in ticks of the clock that was chosen.
#[inline]
pub fn ticks() -> u64 {
    if COUNTER.load(Ordering::Relaxed) { crate::map::counter() } else { nanos() }
}

/// Nanoseconds of the kernel's monotonic clock.
#[must_use]
pub fn nanos() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// How ticks become nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    pub(crate) start: u64,
    pub(crate) nanos_per_tick: f64,
}

impl Rate {
    /// By a pair of readings at the start, and the time now.
    pub(crate) fn since(start_ticks: u64, start_nanos: u64, counter: bool) -> Rate {
        let nanos_per_tick = if counter {
            let (ticks, nanos) = (crate::map::counter(), nanos());
            let (ticks, nanos) = (ticks.saturating_sub(start_ticks), nanos.saturating_sub(start_nanos));
            if ticks == 0 { 1.0 } else { nanos as f64 / ticks as f64 }
        } else {
            1.0
        };
        Rate { start: start_ticks, nanos_per_tick }
    }

    /// Nanoseconds from the start of the job to a point in time.
    #[must_use]
    pub fn at(&self, ticks: u64) -> u64 {
        self.span(ticks.saturating_sub(self.start))
    }

    /// A number of ticks in nanoseconds.
    #[must_use]
    pub fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanos_per_tick) as u64
    }
}
