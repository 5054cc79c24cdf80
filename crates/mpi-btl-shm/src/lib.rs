//! MPI transport over shared memory: the ranks of one node over the node segment.
//!
//! A pair's first messages go through the receiver's inbox; then the sender claims a ring and says
//! so in the inbox. Large messages are copied across processes by both sides at once; where the
//! kernel refuses that, the engine sends frames.
//!
//! Path of a message: [`BtlTx::send`] in `tx`, `Producer::push` and
//! `Consumer::pop` in `mpi_node::ring`, `poll_ring` and `deliver` in `rx`.
//!
//! What never happens: a body is copied more than once on the way in, a poll takes a lock for a
//! small message, a peer's word is trusted as an offset.
#![deny(missing_docs)]

mod boards;
mod faulty;
mod head;
pub mod limits;
mod offers;
mod rx;
mod shared;
mod takings;
mod tx;
mod unnamed;

use mpi_btl::{Btl, BtlRx, BtlTx, OpenEnv, OpenError, Opened};
use mpi_node::segment::Segment;
use mpi_node::{cross_copy, faults};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

const NAME: &str = "shm";

/// Setting that switches cross-process copy off: `0` (`1`, the default, probes for it). For tests of the copying path.
pub const CROSS_COPY_SETTING: &str = "MPI_SHM_CMA";

/// The backend called "shm": ranks of one node over the node segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shm;

impl Btl for Shm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn priority(&self) -> i32 {
        100
    }

    fn check(&self, settings: fn(&str) -> Option<String>) -> Result<(), String> {
        match settings(CROSS_COPY_SETTING).as_deref().map(str::trim) {
            None | Some("" | "0" | "1") => Ok(()),
            Some(other) => Err(format!("{CROSS_COPY_SETTING}={other:?}: expected 0 or 1")),
        }
    }

    fn open(&self, env: &OpenEnv) -> Result<Opened, OpenError> {
        let (Some(fd), Some(slot)) = (env.segment, env.node_slot) else {
            let reason = "the launcher gave no node segment".to_owned();
            return Err(OpenError::Unavailable { backend: NAME, reason });
        };
        if fd < 0 {
            return Err(OpenError::Failed { backend: NAME, reason: format!("{fd} is no descriptor") });
        }
        // SAFETY: not negative; the descriptor is only duplicated and looked at, and a closed one
        // is an error of that call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let failed = |reason: String| OpenError::Failed { backend: NAME, reason };
        let setting = (env.settings)(faults::VARIABLE);
        faults::install(setting.as_deref(), env.world_rank.into()).map_err(|e| failed(e.to_string()))?;
        let segment = Arc::new(Segment::attach(fd, slot).map_err(|e| failed(e.to_string()))?);
        segment.set_label(u64::from(env.world_rank));
        let inbox = segment.inbox_receiver().ok_or_else(|| failed("the inbox is taken".to_owned()))?;
        let allowed = (env.settings)(CROSS_COPY_SETTING).as_deref().map(str::trim) != Some("0");
        let (address, cookie) = cross_copy::cookie();
        let works = allowed && cross_copy::probe(std::process::id(), address, cookie);
        let shared = Arc::new(shared::Shared::new(segment, env.job.clone(), works));
        let (tx, rx): (Box<dyn BtlTx>, Box<dyn BtlRx>) =
            (Box::new(tx::Tx::new(shared.clone())), Box::new(rx::Rx::new(shared, inbox)));
        let (tx, rx) = if faults::on() { faulty::disturbed(tx, rx) } else { (tx, rx) };
        Ok(Opened { tx, rx, address: None })
    }
}
