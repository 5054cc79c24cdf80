//! One program after another in the slots of a segment.
//!
//! A script may run several MPI programs as its rank, one after the other. The first process of a later program
//! makes the segment as it was at first; the others of that program wait for it. That nobody uses the segment
//! any more from the program before is the launcher's promise: it lets a rank start again only when all ranks
//! have finished.

use super::{PAGE, Segment, SegmentError, process_ended};
use crate::limits::CLEANING_LOOK_PERIOD;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the header page holds the process that is at it, or 0.
const DOOR: usize = PAGE - 64;

impl Segment {
    /// Shows this process to the others, in a segment without traces of an earlier program.
    pub(super) fn appear_afresh(&self) -> Result<(), SegmentError> {
        self.shut_door();
        let cleaned = if self.is_fresh() { Ok(()) } else { self.clean() };
        if cleaned.is_ok() {
            self.appear();
        }
        // SYNC POINT: pairs with the acquire in `shut_door`.
        self.door().store(0, Ordering::Release);
        cleaned.map_err(|error| SegmentError::System {
            what: "making anew",
            bytes: self.layout.total() - PAGE,
            error,
        })
    }

    fn door(&self) -> &AtomicU32 {
        // SAFETY: in the header page, of which only the first words are used otherwise; aligned; atomic.
        unsafe { &*self.at(DOOR) }
    }

    /// One process at a time appears. It takes some microseconds, or a millisecond where it cleans; whoever died
    /// at it is stepped over.
    fn shut_door(&self) {
        let me = std::process::id();
        let mut turns = 0;
        // SYNC POINT: pairs with the release in `appear_afresh`.
        while let Err(holder) = self.door().compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            turns += 1;
            if turns < 100 {
                std::thread::yield_now();
                continue;
            }
            std::thread::sleep(CLEANING_LOOK_PERIOD);
            let ended = process_ended(holder);
            if ended && self.door().compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
    }

    /// Zeroes all behind the header. What has memory keeps it, as those who map it rely on; the rings give theirs
    /// back.
    fn clean(&self) -> std::io::Result<()> {
        let (start, rings, total) = (PAGE, self.layout.reserved(), self.layout.total());
        let zeros = [0; 16 * PAGE];
        let mut at = start;
        while at < rings {
            let piece = zeros.len().min(rings - at);
            self.file.write_all_at(&zeros[..piece], at as u64)?;
            at += piece;
        }
        if total > rings {
            let how = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
            let (at, len) = (rings as libc::off_t, (total - rings) as libc::off_t);
            // SAFETY: plain integers on an open descriptor.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), how, at, len) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    }
}
