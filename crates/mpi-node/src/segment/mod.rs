//! The memory that the ranks of a node share.
//!
//! The launcher makes it ([`create`]) as an anonymous file of sealed size and lets the ranks
//! inherit it; each rank maps it ([`Segment::attach`]). Nothing has a name, so nothing is left behind.
//! Blocks are reserved before they are touched, so that no access raises SIGBUS.

mod access;
mod again;
mod control;
mod layout;
mod region;

use crate::limits::{BOARDS, INBOX_BYTES, MAX_RANKS, REGION_SLOTS, RING_CELLS};
use crate::{faults, membarrier, sleep};
pub(crate) use access::process_ended;
pub use access::{Offered, Part, Presence, SleepOn, Sleeper, TakeError, Taking};
use layout::{Layout, PAGE};
pub use region::Offer;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// First word of a segment: "MPInode1" read little-endian; it stands in the order of the host that made the segment.
const MAGIC: u64 = u64::from_le_bytes(*b"MPInode1");
/// Changes whenever the layout or the meaning of any shared word changes.
const VERSION: u32 = 3;

/// A segment cannot be made or joined.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// Too few or too many ranks. The caller's fault.
    #[error("a node segment holds 1 to {MAX_RANKS} ranks, not {0}")]
    Ranks(u32),
    /// The kernel refused.
    #[error("{what} of the node segment ({bytes} bytes): {error}")]
    System {
        /// What was asked.
        what: &'static str,
        /// Size in question.
        bytes: usize,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// The descriptor does not hold a segment of this version and size.
    #[error(
        "the descriptor holds no node segment that this program understands: {field} is {found}, expected {expected}"
    )]
    Foreign {
        /// What differs.
        field: &'static str,
        /// What was found.
        found: u64,
        /// What was expected.
        expected: u64,
    },
    /// What is shared has this host's byte order, and the one who made the segment has the other (a program under
    /// emulation).
    #[error(
        "the node segment was made by a process of the other byte order; MPI_BTL=tcp for all ranks serves both"
    )]
    ByteOrder,
    /// The slot is none of the segment's.
    #[error("slot {slot} outside a node segment of {ranks} ranks")]
    Slot {
        /// The slot.
        slot: u32,
        /// How many there are.
        ranks: u32,
    },
    /// The sides cannot agree on how to fence.
    #[error("this process may not use membarrier, on which the others of the node rely")]
    Fence,
}

/// First page of a segment, as words of 8 bytes. Written once by [`create`].
#[repr(usize)]
#[derive(Clone, Copy)]
enum Field {
    Magic,
    Version,
    Ranks,
    Total,
    Inbox,
    RingCells,
    RingBody,
    RingsPerRank,
    RegionSlots,
    Boards,
    Stage,
    /// 1: sleepers fence by membarrier. 0: senders fence themselves.
    Membarrier,
    Count,
}

/// Makes a segment for `ranks` ranks: zeroed, size sealed, control areas and inboxes backed by
/// memory. The descriptor closes on exec: whoever starts the ranks lets them inherit it.
///
/// # Errors
/// [`SegmentError`].
pub fn create(ranks: u32) -> Result<OwnedFd, SegmentError> {
    let layout = Layout::new(ranks).ok_or(SegmentError::Ranks(ranks))?;
    let total = layout.total();
    let system = |what| move |error| SegmentError::System { what, bytes: total, error };
    faults::memory().map_err(system("reservation"))?;
    faults::descriptor().map_err(system("creation"))?;
    // SAFETY: the name is a terminated string.
    let raw =
        unsafe { libc::memfd_create(c"mpi-node".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if raw < 0 {
        return Err(system("creation")(std::io::Error::last_os_error()));
    }
    // SAFETY: just opened, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let file = File::from(fd);
    file.set_len(total as u64).map_err(system("sizing"))?;
    reserve(&file, 0, layout.reserved()).map_err(system("reservation"))?;
    let mut words = [0_u64; Field::Count as usize];
    let fence = u64::from(membarrier::supported().global);
    for (field, value) in expected(&layout, fence) {
        words[field as usize] = value;
    }
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).map_err(system("header"))?;
    // SAFETY: plain integers on an open descriptor.
    let sealed = unsafe {
        libc::fcntl(
            file.as_raw_fd(),
            libc::F_ADD_SEALS,
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
        )
    };
    if sealed < 0 {
        return Err(system("sealing")(std::io::Error::last_os_error()));
    }
    Ok(OwnedFd::from(file))
}

/// The header's fields and what they must be.
fn expected(layout: &Layout, fence: u64) -> [(Field, u64); Field::Count as usize] {
    [
        (Field::Magic, MAGIC),
        (Field::Version, u64::from(VERSION)),
        (Field::Ranks, u64::from(layout.ranks)),
        (Field::Total, layout.total() as u64),
        (Field::Inbox, INBOX_BYTES as u64),
        (Field::RingCells, RING_CELLS as u64),
        (Field::RingBody, layout.ring_body as u64),
        (Field::RingsPerRank, layout.rings_per_rank as u64),
        (Field::RegionSlots, REGION_SLOTS as u64),
        (Field::Boards, u64::from(BOARDS)),
        (Field::Stage, layout.stage as u64),
        (Field::Membarrier, fence),
    ]
}

/// Backs a range of the file with memory.
pub(crate) fn reserve(file: &File, offset: usize, len: usize) -> std::io::Result<()> {
    let (Ok(offset), Ok(len)) = (libc::off_t::try_from(offset), libc::off_t::try_from(len)) else {
        return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
    };
    loop {
        // SAFETY: plain integers on an open descriptor.
        if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, len) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// A mapped segment, seen from one slot.
#[derive(Debug)]
pub struct Segment {
    map: memmap2::MmapRaw,
    file: File,
    layout: Layout,
    slot: u32,
    /// Senders must fence themselves.
    fence: bool,
    inbox_taken: AtomicBool,
    /// The first word of this attachment's doorbell: no other attachment shows the same.
    name: AtomicU64,
    /// A bit per ring into this rank.
    rings_opened: AtomicU64,
}

impl Segment {
    /// Maps the segment behind `fd` as slot `slot`. The descriptor is copied; the caller may
    /// close its own. Where a process was in this slot before, the segment is made as it was at first: the
    /// caller sees to it that every process of the time before has finished with it.
    ///
    /// # Errors
    /// [`SegmentError`]: a foreign descriptor, another version, a slot outside; no memory to begin anew.
    pub fn attach(fd: BorrowedFd<'_>, slot: u32) -> Result<Segment, SegmentError> {
        let segment = Segment::attach_unseen(fd, slot)?;
        segment.appear_afresh()?;
        Ok(segment)
    }

    /// As [`attach`](Self::attach), but nobody sees this process: the slot stays that of whoever is in it. For tests of
    /// what a rank does that breaks the rules.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    #[doc(hidden)]
    pub fn attach_unseen(fd: BorrowedFd<'_>, slot: u32) -> Result<Segment, SegmentError> {
        let system = |what, bytes| move |error| SegmentError::System { what, bytes, error };
        faults::descriptor().map_err(system("descriptor", 0))?;
        let file = File::from(fd.try_clone_to_owned().map_err(system("descriptor", 0))?);
        let layout = Self::check(&file)?;
        if slot >= layout.0.ranks {
            return Err(SegmentError::Slot { slot, ranks: layout.0.ranks });
        }
        let (layout, fence_by_kernel) = layout;
        if fence_by_kernel && !membarrier::register().global {
            return Err(SegmentError::Fence);
        }
        let map = memmap2::MmapOptions::new()
            .len(layout.total())
            .map_raw(&file)
            .map_err(system("mapping", layout.total()))?;
        Ok(Segment {
            map,
            file,
            layout,
            slot,
            fence: !fence_by_kernel,
            inbox_taken: AtomicBool::new(false),
            name: AtomicU64::new(0),
            rings_opened: AtomicU64::new(0),
        })
    }

    /// Reads and checks the header without mapping anything.
    fn check(file: &File) -> Result<(Layout, bool), SegmentError> {
        let size =
            file.metadata().map_err(|error| SegmentError::System { what: "size", bytes: 0, error })?.len();
        let foreign = |field, found, expected| SegmentError::Foreign { field, found, expected };
        if size < PAGE as u64 {
            return Err(foreign("size in bytes", size, PAGE as u64));
        }
        let mut bytes = [0; Field::Count as usize * 8];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0)
            .map_err(|error| SegmentError::System { what: "header", bytes: PAGE, error })?;
        let word = |field: Field| {
            let at = field as usize * 8;
            u64::from_ne_bytes(core::array::from_fn(|i| bytes[at + i]))
        };
        if word(Field::Magic) == MAGIC.swap_bytes() {
            return Err(SegmentError::ByteOrder);
        }
        if word(Field::Magic) != MAGIC {
            return Err(foreign("magic", word(Field::Magic), MAGIC));
        }
        let ranks = word(Field::Ranks);
        let layout = u32::try_from(ranks)
            .ok()
            .and_then(Layout::new)
            .ok_or_else(|| foreign("number of ranks", ranks, u64::from(MAX_RANKS)))?;
        let fence = word(Field::Membarrier) & 1;
        const NAMES: [&str; Field::Count as usize] = [
            "magic",
            "version",
            "number of ranks",
            "total size",
            "inbox size",
            "cells per ring",
            "body bytes per ring",
            "rings per rank",
            "region slots",
            "boards",
            "stage bytes",
            "fence scheme",
        ];
        for ((field, value), name) in expected(&layout, fence).into_iter().zip(NAMES) {
            if word(field) != value {
                return Err(foreign(name, word(field), value));
            }
        }
        if size != layout.total() as u64 {
            return Err(foreign("size in bytes", size, layout.total() as u64));
        }
        Ok((layout, fence == 1))
    }

    /// How many ranks the segment holds.
    pub fn ranks(&self) -> u32 {
        self.layout.ranks
    }

    /// The slot of this process.
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.disappear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn attach_accepts_what_create_made() {
        let fd = create(3).expect("memfd");
        let segment = Segment::attach(fd.as_fd(), 2).expect("attaches");
        assert_eq!((segment.ranks(), segment.slot()), (3, 2));
        assert!(matches!(Segment::attach(fd.as_fd(), 3), Err(SegmentError::Slot { slot: 3, ranks: 3 })));
    }

    #[test]
    fn attach_refuses_strangers() {
        let file = tempfile();
        assert!(matches!(Segment::attach(file.as_fd(), 0), Err(SegmentError::Foreign { .. })));
        file.set_len(1 << 20).expect("grow");
        assert!(matches!(
            Segment::attach(file.as_fd(), 0),
            Err(SegmentError::Foreign { field: "magic", .. })
        ));
        let fd = File::from(create(2).expect("memfd"));
        for field in 1..Field::Membarrier as u64 {
            let mut word = [0; 8];
            std::os::unix::fs::FileExt::read_exact_at(&fd, &mut word, field * 8).expect("read");
            std::os::unix::fs::FileExt::write_all_at(&fd, &u64::MAX.to_le_bytes(), field * 8).expect("write");
            assert!(
                matches!(Segment::attach(fd.as_fd(), 0), Err(SegmentError::Foreign { .. })),
                "field {field}"
            );
            std::os::unix::fs::FileExt::write_all_at(&fd, &word, field * 8).expect("write");
        }
        assert!(Segment::attach(fd.as_fd(), 0).is_ok());
        // A maker of the other byte order.
        std::os::unix::fs::FileExt::write_all_at(&fd, &MAGIC.swap_bytes().to_ne_bytes(), 0).expect("write");
        assert!(matches!(Segment::attach(fd.as_fd(), 0), Err(SegmentError::ByteOrder)));
        assert!(matches!(create(0), Err(SegmentError::Ranks(0))));
    }

    fn tempfile() -> File {
        // SAFETY: the name is a terminated string; the descriptor is owned by nobody else.
        unsafe { File::from_raw_fd(libc::memfd_create(c"stranger".as_ptr(), libc::MFD_CLOEXEC)) }
    }

    #[test]
    fn large_nodes_can_be_made() {
        let fd = create(512).expect("memfd");
        assert!(Segment::attach(fd.as_fd(), 511).is_ok());
    }
}
