//! How an operation gets to its target: epoch, rank, displacement and bounds are checked, and the way is found.

use crate::access::Target;
use crate::accumulate::{Place, Site, Trouble};
use crate::board::Seat;
use crate::create::Flavor;
use crate::memory::span;
use crate::window::{Inner, Reach};
use mpi_comm::Dest;
use mpi_datatype::{Datatype, RecvBuf, Signature};
use mpi_p2p::{Error, ErrorClass};

/// Where an operation goes.
pub(crate) enum Way<'a> {
    Direct { place: Place, offset: usize, seat: &'a Seat },
    Mail { at: u64 },
}

impl Inner {
    /// Checks epoch, rank, displacement and bounds, and finds the way.
    pub(crate) fn way(&self, op: &'static str, rank: i32, target: &Target<'_>) -> Result<Way<'_>, Error> {
        let to = rank as u32;
        if to >= self.cx.size() {
            let detail = format!("rank {rank} of a window of {} ranks", self.cx.size());
            return Err(self.error(ErrorClass::Rank, op, None, detail));
        }
        self.epoch.check(self, op, to)?;
        if self.flavor == Flavor::Dynamic {
            return self.way_to_address(op, to, target);
        }
        let (seat, size, unit, place) = match self.reach(to) {
            Reach::Direct { seat, base, size, unit } => (seat, size, unit, Place::Here(base)),
            Reach::Cross { seat, pid, address, size, unit } => {
                (seat, size, unit, Place::There { pid, address })
            }
            Reach::Mail => {
                return match u64::try_from(target.at) {
                    Ok(at) => Ok(Way::Mail { at }),
                    Err(_) => Err(self.negative(op, to, target)),
                };
            }
        };
        let inside = || {
            let (first, end) = span(target.count, target.datatype)?;
            let from = target.at.checked_mul(unit as i64)?;
            let (first, end) = (from.checked_add(first as i64)?, from.checked_add(end as i64)?);
            (first >= 0 && end <= size as i64 && target.at >= 0).then_some(from as usize)
        };
        match inside() {
            Some(offset) => Ok(Way::Direct { place, offset, seat }),
            None => Err(self.out_of_range(op, to, target, size, unit)),
        }
    }

    fn way_to_address(&self, op: &'static str, to: u32, target: &Target<'_>) -> Result<Way<'_>, Error> {
        if to != self.cx.rank() {
            return Ok(Way::Mail { at: target.at as u64 });
        }
        let fits = span(target.count, target.datatype).is_some_and(|(first, end)| {
            let from = (target.at as usize).wrapping_add(first as usize);
            self.is_attached(from, (end - first) as usize)
        });
        if !fits {
            let detail = format!("{} bytes at {:#x} are not attached", target.bytes(), target.at);
            return Err(self.error(ErrorClass::RmaRange, op, Some(to), detail));
        }
        // The address is the offset, as where others' operations arrive: both must come to the same stripes.
        let base = std::ptr::with_exposed_provenance_mut(0);
        Ok(Way::Direct { place: Place::Here(base), offset: target.at as usize, seat: self.my_seat() })
    }

    #[cold]
    fn negative(&self, op: &'static str, to: u32, target: &Target<'_>) -> Error {
        let detail = format!("displacement {} is negative", target.at);
        self.error(ErrorClass::Disp, op, Some(to), detail)
    }

    #[cold]
    fn out_of_range(
        &self,
        op: &'static str,
        to: u32,
        target: &Target<'_>,
        size: usize,
        unit: usize,
    ) -> Error {
        if target.at < 0 {
            return self.negative(op, to, target);
        }
        let detail = format!(
            "displacement {} (units of {unit} bytes): {} × {} of {} bytes, the target's part has {size} bytes",
            target.at,
            target.count,
            target.datatype.name(),
            target.datatype.size(),
        );
        self.error(ErrorClass::RmaRange, op, Some(to), detail)
    }

    #[inline]
    pub(crate) fn site<'a>(&'a self, seat: &'a Seat, place: Place) -> Site<'a> {
        let own = &self.my_seat().own.0;
        Site { board: &self.board, seat, place, who: self.cx.rank(), own, lane: 0, threads: self.threads }
    }

    #[cold]
    pub(crate) fn trouble(&self, op: &'static str, rank: i32, trouble: Trouble) -> Error {
        let target = Some(rank as u32);
        match trouble {
            Trouble::Dead(dead) => self.died(op, dead, "inside of an accumulate on this memory"),
            Trouble::Kernel(e) => self.error(ErrorClass::Other, op, target, format!("its memory: {e}")),
        }
    }

    #[inline]
    pub(crate) fn check_types(
        &self,
        op: &'static str,
        from: &Datatype,
        bytes: usize,
        target: &Target<'_>,
    ) -> Result<(), Error> {
        let agree = Signature::agree(from.signature(), target.datatype.signature());
        if bytes == target.bytes() && (agree || bytes == 0) {
            return Ok(());
        }
        Err(self.mismatch(op, from, bytes, target))
    }

    #[inline]
    pub(crate) fn check_room(
        &self,
        op: &'static str,
        to: &RecvBuf<'_>,
        target: &Target<'_>,
    ) -> Result<(), Error> {
        let agree = Signature::agree(to.datatype().signature(), target.datatype.signature());
        if target.bytes() <= to.bytes() && (agree || target.bytes() == 0) {
            return Ok(());
        }
        Err(self.mismatch(op, to.datatype(), to.bytes(), target))
    }

    #[cold]
    fn mismatch(&self, op: &'static str, own: &Datatype, bytes: usize, target: &Target<'_>) -> Error {
        let rank = rank_of(target);
        if Signature::agree(own.signature(), target.datatype.signature()) {
            let detail = format!("displacement {}: {bytes} bytes here, {} there", target.at, target.bytes());
            return self.error(ErrorClass::Truncate, op, rank, detail);
        }
        let detail = format!(
            "displacement {}: elements of {} here, of {} there",
            target.at,
            own.name(),
            target.datatype.name()
        );
        self.error(ErrorClass::Type, op, rank, detail)
    }
}

fn rank_of(target: &Target<'_>) -> Option<u32> {
    match target.rank {
        Dest::Rank(rank) => u32::try_from(rank).ok(),
        Dest::Null => None,
    }
}
