//! Waiting for what other ranks of the node do in shared memory, and noticing that one of them is dead.

use crate::window::Inner;
use mpi_node::block::process_has_ended;
use mpi_p2p::{About, Error, ErrorClass, Port};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Inner {
    /// Waits until `done`. `dead` is asked once in a while whether that can still come to pass.
    pub(crate) fn wait_outside(
        &self,
        about: impl Fn() -> About,
        mut done: impl FnMut() -> bool,
        mut dead: impl FnMut(&mut Port<'_>) -> Option<Error>,
        sleep: &dyn Fn(Duration),
    ) -> Result<(), Error> {
        // Looked for a moment before the engine is entered: where all are on processors of their own, that is enough.
        for _ in 0..crate::limits::FIRST_LOOKS {
            if done() {
                return Ok(());
            }
        }
        let mut asked: Option<Instant> = None;
        self.engine().wait_outside_for(
            &self.cx,
            about,
            |port| {
                if done() {
                    return Some(Ok(()));
                }
                match asked {
                    None => asked = Some(Instant::now()),
                    Some(at) if at.elapsed() >= crate::limits::LIVENESS_PERIOD => {
                        asked = Some(Instant::now());
                        return dead(port).map(Err);
                    }
                    Some(_) => {}
                }
                None
            },
            sleep,
        )
    }

    /// A rank of the node that is gone, if any.
    pub(crate) fn dead_neighbour(&self, port: &mut Port<'_>, which: impl Fn(u32) -> bool) -> Option<u32> {
        (0..self.board.seats()).filter(|at| which(*at)).find_map(|at| {
            let seat = self.board.seat(at);
            let rank = seat.rank.load(Ordering::Relaxed);
            let pid = seat.pid.load(Ordering::Relaxed);
            let gone = port.gone(rank).is_some() || (pid != 0 && process_has_ended(pid));
            gone.then_some(rank)
        })
    }

    /// A target, or every rank where none is named, has not failed: memory that is mapped here outlives its owner, and
    /// would take what nobody reads. Where the job ends with a rank there is nothing to ask.
    #[inline]
    pub(crate) fn check_living(&self, op: &'static str, target: Option<u32>) -> Result<(), Error> {
        if self.losses.load(Ordering::Relaxed) { self.check_each(op, target) } else { Ok(()) }
    }

    #[cold]
    fn check_each(&self, op: &'static str, target: Option<u32>) -> Result<(), Error> {
        let which = target.map_or(0..self.cx.size(), |target| target..target + 1);
        let me = self.cx.rank();
        let dead = self.engine().with_port(&self.cx, |port| {
            which.filter(|rank| *rank != me).find_map(|rank| Some((rank, port.gone(rank)?)))
        });
        match dead {
            None => Ok(()),
            Some((rank, how)) => Err(self.error(ErrorClass::ProcFailed, op, Some(rank), how)),
        }
    }

    #[cold]
    pub(crate) fn died(&self, op: &'static str, rank: u32, doing: &str) -> Error {
        self.error(ErrorClass::ProcFailed, op, Some(rank), format!("rank {rank} died {doing}"))
    }
}
