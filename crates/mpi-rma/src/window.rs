//! The window: whose memory it is, and what hangs on it.

use crate::attributes::Attributes;
use crate::board::{Board, Seat};
use crate::create::Flavor;
use crate::epoch::Epoch;
use crate::hub::Hub;
use crate::limits::NAME_MAX_BYTES;
use crate::messages::Mail;
use mpi_comm::{Comm, Dest, ErrorHandler, Group, Info};
use mpi_p2p::{About, Context, Engine, Error, ErrorClass, record};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A window. A clone is another handle to the same one. It is to be [freed](Window::free) by all of
/// its ranks together: dropping the last handle frees nothing that others may still reach.
#[derive(Clone)]
pub struct Window(pub(crate) Arc<Inner>);

/// Everything of a window.
pub(crate) struct Inner {
    pub comm: Comm,
    pub cx: Arc<Context>,
    pub hub: Arc<Hub>,
    /// Tells the windows of a communicator apart: the tag of its messages.
    pub number: u32,
    pub flavor: Flavor,
    pub board: Board,
    /// This rank's seat.
    pub me: u32,
    /// All ranks sit at the board.
    pub all_here: bool,
    /// Ranks of the node may copy from and to each other's memory.
    pub cross: bool,
    /// Ranks of the node cannot make each other's processors pass a barrier.
    pub full_fence: bool,
    /// This rank's part.
    pub base: *mut u8,
    pub size: usize,
    pub unit: usize,
    /// Several threads of this process call at the same time.
    pub threads: bool,
    pub epoch: Epoch,
    /// Made for the first message: a window whose ranks share memory mostly has none.
    pub mail: OnceLock<Box<Mutex<Mail>>>,
    /// Attached memory of a dynamic window: address and size.
    pub attached: RwLock<Vec<(usize, usize)>>,
    /// Fences so far.
    pub fences: std::sync::atomic::AtomicU64,
    pub freed: AtomicBool,
    /// Somebody has failed, not necessarily a rank of the window.
    pub losses: Arc<AtomicBool>,
    /// The helper serves messages while this rank computes.
    pub served: bool,
    pub manners: RwLock<Manners>,
    /// The hint of that name.
    pub no_locks: AtomicBool,
    pub attributes: Attributes,
    /// Messages that wait for an answer: what `flush` has to wait for. A hint kept beside `mail`.
    pub dirty: AtomicU32,
}

// SAFETY: the base is an address; who follows it, in `memory.rs` and `accumulate.rs`, answers for that.
unsafe impl Send for Inner {}
// SAFETY: as above; everything else is.
unsafe impl Sync for Inner {}

/// What users set on a window. Behind one lock: a window is to be small.
pub(crate) struct Manners {
    pub handler: ErrorHandler,
    pub name: Box<str>,
    pub info: Info,
}

/// Where a rank's memory of a shared window is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared {
    /// First byte, in this process.
    pub base: *mut u8,
    /// Bytes.
    pub size: usize,
    /// Bytes per unit of displacement.
    pub unit: usize,
}

/// How a target's memory is reached.
pub(crate) enum Reach<'a> {
    /// It is mapped here.
    Direct { seat: &'a Seat, base: *mut u8, size: usize, unit: usize },
    /// It lies in another process of the node.
    Cross { seat: &'a Seat, pid: u32, address: u64, size: usize, unit: usize },
    /// By messages.
    Mail,
}

impl Inner {
    #[inline]
    pub fn engine(&self) -> &Arc<Engine> {
        self.comm.engine()
    }

    /// Nothing that went by message waits for an answer.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) == 0
    }

    pub fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seat of a rank at this node's board.
    #[inline]
    pub fn seat_of(&self, rank: u32) -> Option<u32> {
        if self.all_here {
            return Some(rank);
        }
        if self.board.seats() == 1 {
            return (rank == self.cx.rank()).then_some(0);
        }
        self.hub.seat_of(rank)
    }

    #[inline]
    pub fn my_seat(&self) -> &Seat {
        self.board.seat(self.me)
    }

    /// How to get at a target's memory.
    #[inline]
    pub fn reach(&self, target: u32) -> Reach<'_> {
        let Some(at) = self.seat_of(target) else { return Reach::Mail };
        let seat = self.board.seat(at);
        if at == self.me {
            return Reach::Direct { seat, base: self.base, size: self.size, unit: self.unit };
        }
        let size = seat.size.load(Ordering::Relaxed) as usize;
        let unit = seat.unit.load(Ordering::Relaxed) as usize;
        match self.flavor {
            Flavor::Allocate | Flavor::Shared => match self.board.part(seat) {
                Some(base) => Reach::Direct { seat, base, size, unit },
                None => Reach::Mail,
            },
            Flavor::Create if self.cross => Reach::Cross {
                seat,
                pid: seat.pid.load(Ordering::Relaxed),
                address: seat.address.load(Ordering::Relaxed),
                size,
                unit,
            },
            Flavor::Create | Flavor::Dynamic => Reach::Mail,
        }
    }

    pub fn manners(&self) -> RwLockReadGuard<'_, Manners> {
        self.manners.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change_manners(&self) -> RwLockWriteGuard<'_, Manners> {
        self.manners.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Name for people.
    pub fn title(&self) -> String {
        let name = &self.manners().name;
        if name.is_empty() { format!("window {}", self.number) } else { format!("window {name:?}") }
    }

    /// What a wait is for, and on whom.
    pub fn about(&self, op: &'static str, peers: Vec<u32>) -> About {
        About { op, peers, object: Some(self.title()) }
    }

    /// An error with everything known.
    #[cold]
    pub fn error(
        &self,
        class: ErrorClass,
        op: &'static str,
        target: Option<u32>,
        detail: impl Into<String>,
    ) -> Error {
        let detail: String = detail.into();
        let mut e = Error::new(class, op, format!("{}: {detail}", self.title()))
            .on(self.comm.name(), self.comm.context_id());
        e.peer = target.map(|t| t as i32);
        e.outgoing = true;
        e
    }
}

impl Window {
    /// An operation on a target begins, of so many bytes to it or from it.
    #[inline]
    pub(crate) fn recording(
        &self,
        op: record::ops::Op,
        target: Dest,
        way: record::Way,
        bytes: usize,
    ) -> record::Recording {
        let peer = || match target {
            Dest::Rank(rank) => self.0.cx.peers().get(rank as usize).map(|ep| ep.0),
            Dest::Null => None,
        };
        let recording = record::op(op, peer);
        record::moved(peer, way, bytes as u64);
        recording
    }

    /// The communicator whose ranks the window's are.
    pub fn comm(&self) -> &Comm {
        &self.0.comm
    }

    /// Its group (`MPI_Win_get_group`).
    pub fn group(&self) -> Group {
        self.0.comm.group()
    }

    /// This rank's memory: `MPI_WIN_BASE`. Null-like for an empty part and for a dynamic window.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.0.base
    }

    /// Its size in bytes: `MPI_WIN_SIZE`.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Bytes per unit of displacement: `MPI_WIN_DISP_UNIT`.
    #[inline]
    pub fn unit(&self) -> usize {
        self.0.unit
    }

    /// How it was made: `MPI_WIN_CREATE_FLAVOR`.
    pub fn flavor(&self) -> Flavor {
        self.0.flavor
    }

    /// True after [`free`](Window::free).
    pub fn is_freed(&self) -> bool {
        self.0.freed.load(Ordering::Relaxed)
    }

    /// True in the unified memory model, `MPI_WIN_MODEL`: always.
    pub fn is_unified(&self) -> bool {
        true
    }

    /// True when every rank's memory is reached by loads and stores of this process.
    pub fn is_direct(&self) -> bool {
        self.0.all_here && matches!(self.0.flavor, Flavor::Allocate | Flavor::Shared)
    }

    /// The number that tells it apart from others of its communicator.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// The name; empty when none was given.
    pub fn name(&self) -> String {
        self.0.manners().name.to_string()
    }

    /// Gives a name, which errors and reports show. Longer ones are cut at [`NAME_MAX_BYTES`].
    pub fn set_name(&self, name: &str) {
        let mut end = name.len().min(NAME_MAX_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        self.0.change_manners().name = name[..end].into();
    }

    /// The error handler.
    pub fn error_handler(&self) -> ErrorHandler {
        self.0.manners().handler.clone()
    }

    /// Sets the error handler.
    pub fn set_error_handler(&self, handler: ErrorHandler) {
        self.0.change_manners().handler = handler;
    }

    /// Where a rank's part of a shared window is in this process (`MPI_Win_shared_query`); `None` asks for the
    /// first rank with any memory.
    ///
    /// # Errors
    /// `RmaFlavor` when the window is not of shared memory, `Rank`.
    pub fn shared_query(&self, rank: Option<u32>) -> Result<Shared, Error> {
        let w = &*self.0;
        let op = "shared query";
        if w.flavor != Flavor::Shared {
            return Err(w.error(ErrorClass::RmaFlavor, op, rank, "it was not made by allocate shared"));
        }
        let at = match rank {
            Some(rank) if rank < w.comm.size() => w.seat_of(rank),
            Some(rank) => {
                let detail = format!("rank {rank} of a communicator of {}", w.comm.size());
                return Err(w.error(ErrorClass::Rank, op, None, detail));
            }
            None => {
                let first = w.board.all_seats().position(|s| s.size.load(Ordering::Relaxed) > 0);
                Some(first.unwrap_or(0) as u32)
            }
        };
        let seat = w.board.seat(at.unwrap_or(w.me));
        match w.board.part(seat) {
            Some(base) => Ok(Shared {
                base,
                size: seat.size.load(Ordering::Relaxed) as usize,
                unit: seat.unit.load(Ordering::Relaxed) as usize,
            }),
            None => Err(w.error(ErrorClass::RmaShared, op, rank, "the part is not inside the shared memory")),
        }
    }

    /// True for two handles of one window.
    pub fn same(&self, other: &Window) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Refuses what is done with a window that was freed.
    #[inline]
    pub(crate) fn alive(&self, op: &'static str) -> Result<&Inner, Error> {
        if self.0.freed.load(Ordering::Relaxed) { Err(self.gone(op)) } else { Ok(&self.0) }
    }

    #[cold]
    fn gone(&self, op: &'static str) -> Error {
        self.0.error(ErrorClass::Win, op, None, "it was freed")
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let w = &*self.0;
        write!(f, "{} of {:?} ({} bytes here, {:?})", w.title(), w.comm, w.size, w.flavor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::front_bytes;
    use crate::limits::OVERHEAD_MAX_BYTES;

    /// What a rank of a large node pays for a window beside its data. Ranks of other nodes cost nothing; what is under
    /// way costs while it is.
    #[test]
    fn a_window_costs_little_however_many_ranks_there_are() {
        // The count of handles in front of what they share, and the entry of the communicator's list.
        let own = size_of::<Inner>() + 2 * size_of::<usize>() + 2 * size_of::<(u32, usize)>();
        for ranks in [2, 64, 4096] {
            let bytes = front_bytes(ranks) / ranks + own;
            assert!(bytes < OVERHEAD_MAX_BYTES, "{bytes} bytes per rank of {ranks}: {own} of them its own");
        }
    }
}
