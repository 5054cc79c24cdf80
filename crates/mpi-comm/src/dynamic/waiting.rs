//! Waits that the engine does not see: for a connection through a port, for the launcher.

use super::{Beyond, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static WAITS: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// What threads of this process wait for outside of the engine.
pub(crate) fn described() -> Vec<String> {
    lock(&WAITS).iter().map(|(_, text)| text.clone()).collect()
}

/// A wait under way; over when dropped.
pub(super) struct Wait<'a> {
    number: u64,
    text: String,
    begun: Instant,
    beyond: &'a Beyond,
    reported: bool,
}

impl<'a> Wait<'a> {
    /// `text` says for what, as `accept waits for a connection`.
    pub(super) fn new(beyond: &'a Beyond, text: String) -> Wait<'a> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&WAITS).push((number, text.clone()));
        Wait { number, text, begun: Instant::now(), beyond, reported: false }
    }

    /// To be called now and then: tells the launcher once it has taken long.
    pub(super) fn look(&mut self) {
        let long = self.beyond.blocked_report.is_some_and(|after| self.begun.elapsed() >= after);
        if long && !std::mem::replace(&mut self.reported, true) {
            let text = format!("{}, for {:.0} s now", self.text, self.begun.elapsed().as_secs_f64());
            eprintln!("mpi: rank {}: {text}", self.beyond.own.rank);
            let _ = self.beyond.client.report(&text, &[]);
        }
    }

    /// Time until the next look.
    pub(super) fn slice(&self) -> Duration {
        const SLICE: Duration = Duration::from_secs(1);
        SLICE
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        lock(&WAITS).retain(|(number, _)| *number != self.number);
    }
}
