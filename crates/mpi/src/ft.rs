//! Going on when processes fail: user-level failure mitigation (ULFM), which rsmpi has not.
//!
//! Start the job with `mpiexec --enable-recovery`: the launcher then goes on when a rank dies, and tells the others.
//! Call the operations named `try_…` of [`ext`](crate::ext), which return errors as values; plain ones end the job, as
//! ever.
//!
//! What a failure means for those who live:
//! - an operation with the failed process ends with [`ProcFailed`](crate::ext::ErrorClass::ProcFailed); messages that it sent
//!   before may still be received;
//! - a receive from any source ends with `ProcFailed`, an immediate one with
//!   [`ProcFailedPending`](crate::ext::ErrorClass::ProcFailedPending), until the failure is [acknowledged](FaultTolerance::ack_failed).
//!   Such a receive is over; a message that it might have taken is there for the next one;
//! - collectives on a communicator with a failed member end with `ProcFailed`, on every member that is inside one or enters one later.
//!   One that has all it needs may still succeed;
//! - once any member [revokes](FaultTolerance::revoke) a communicator, everything on it ends with
//!   [`Revoked`](crate::ext::ErrorClass::Revoked), on all members;
//! - [`shrink`](FaultTolerance::shrink) makes a communicator of those who live; [`agree`](FaultTolerance::agree) lets them
//!   agree. Both work on revoked communicators, and whatever fails meanwhile.
//!
//! Whatever else makes communicators of one with a failed member fails; shrink it first. A process that panics or calls
//! abort still ends the job: it says that the whole is wrong.
//!
//! ```no_run
//! use mpi::collective::SystemOperation;
//! use mpi::ext::prelude::*;
//! use mpi::ft::FaultTolerance;
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let mut comm = universe.world().duplicate();
//! let mut sum = 0;
//! while comm.try_all_reduce_into(&1, &mut sum, SystemOperation::sum()).is_err() {
//!     comm.revoke();
//!     comm = comm.shrink().expect("those who live agree");
//! }
//! println!("{sum} processes have lived so long");
//! ```
//!
//! Where it differs from the C interface of ULFM: an immediate receive from any source that ends with
//! `ProcFailedPending` does not stay posted, as Rust's borrow of its buffer ends with the error; and outcomes of
//! [`agree`](FaultTolerance::agree) say who has failed, instead of an error class. Inter-communicators can be revoked and
//! asked who has failed, and are neither shrunk nor agreed on: merge them first.

use std::os::raw::c_int;

use crate::Rank;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::topology::traits::*;
use crate::topology::{SimpleCommunicator, UserGroup, core_comm};

/// The outcome of [`FaultTolerance::agree`]: the same on every process that gets one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The bits that all have set.
    pub flags: c_int,
    /// The ranks that have failed, in order, as far as anyone of those who agreed knew.
    pub failed: Vec<Rank>,
    /// Everyone who agreed has acknowledged all of these.
    pub acknowledged: bool,
}

impl From<mpi_comm::Agreed> for Agreement {
    fn from(agreed: mpi_comm::Agreed) -> Agreement {
        let failed = agreed.failed.into_iter().map(|rank| rank as Rank).collect();
        Agreement { flags: agreed.flags, failed, acknowledged: agreed.acknowledged }
    }
}

/// An agreement on its way: [`FaultTolerance::immediate_agree`]. Dropped, it goes on without anybody to hear of it.
#[must_use = "the outcome is had from `wait`"]
#[derive(Debug)]
pub struct PendingAgreement(mpi_comm::PendingAgreement);

impl PendingAgreement {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// `Other` after finalisation.
    #[track_caller]
    pub fn wait(self) -> Result<Agreement, Error> {
        Ok(caught(self.0.wait())?.into())
    }

    /// The outcome if it is there, or itself again.
    ///
    /// # Errors
    /// `Other` after finalisation.
    #[track_caller]
    pub fn test(self) -> Result<Result<Agreement, PendingAgreement>, Error> {
        Ok(caught(self.0.test())?.map(Agreement::from).map_err(PendingAgreement))
    }
}

/// What those who live can do about failures.
pub trait FaultTolerance: Communicator {
    /// Revokes the communicator: whatever waits on it ends with [`Revoked`](crate::ext::ErrorClass::Revoked), here and soon on every other
    /// member, and so does what is started later (`MPIX_Comm_revoke`). Local: waits for nobody.
    fn revoke(&self) {
        // After finalisation there is nothing to be revoked.
        let _ = core_comm(self).revoke();
    }

    /// True once the communicator is known here to be revoked (`MPIX_Comm_is_revoked`).
    fn is_revoked(&self) -> bool {
        core_comm(self).is_revoked()
    }

    /// A communicator of the members that live, in the same order (`MPIX_Comm_shrink`). Collective over those. Who fails
    /// meanwhile may still be in it.
    ///
    /// # Errors
    /// `Comm` for an inter-communicator; `ProcFailed` where the others have taken this process for failed; those of a
    /// new communicator.
    #[track_caller]
    fn shrink(&self) -> Result<SimpleCommunicator, Error> {
        Ok(SimpleCommunicator::made(caught(core_comm(self).shrink())?))
    }

    /// Agrees on flags, bit by bit "and", and on who has failed (`MPIX_Comm_agree`): the same outcome on every member that
    /// gets one, whatever fails meanwhile. Collective over the members that live.
    ///
    /// # Errors
    /// `Comm` for an inter-communicator.
    #[track_caller]
    fn agree(&self, flags: c_int) -> Result<Agreement, Error> {
        Ok(caught(core_comm(self).agree(flags))?.into())
    }

    /// Starts [`agree`](FaultTolerance::agree) (`MPIX_Comm_iagree`). Members start their agreements, and shrinkings, in the
    /// same order.
    ///
    /// # Errors
    /// As [`agree`](FaultTolerance::agree).
    #[track_caller]
    fn immediate_agree(&self, flags: c_int) -> Result<PendingAgreement, Error> {
        Ok(PendingAgreement(caught(core_comm(self).iagree(flags))?))
    }

    /// The ranks that are known here to have failed, in the order in which that became known; of an inter-communicator
    /// those of the remote group. Local.
    fn failed_ranks(&self) -> Vec<Rank> {
        core_comm(self).failed().into_iter().map(|rank| rank as Rank).collect()
    }

    /// The processes that are known here to have failed (`MPIX_Comm_get_failed`), in the order of
    /// [`failed_ranks`](FaultTolerance::failed_ranks). Local.
    ///
    /// # Errors
    /// None that are known.
    #[track_caller]
    fn get_failed(&self) -> Result<UserGroup, Error> {
        Ok(UserGroup::made(caught(core_comm(self).failed_group())?))
    }

    /// Acknowledges the first `count` of [`failed_ranks`](FaultTolerance::failed_ranks) (`MPIX_Comm_ack_failed`): receives
    /// from any source go on without them. Gives how many are acknowledged now; it never becomes fewer. Local.
    fn ack_failed(&self, count: usize) -> usize {
        core_comm(self).acknowledge_failed(count)
    }
}

impl<C: Communicator + ?Sized> FaultTolerance for C {}
