//! The collectives, blocking and immediate, from the same programs.

use crate::plan::Call;
use crate::run::Run;
use crate::{InPlaceOr, Team, small};
use mpi_datatype::{Op, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Engine, Error, RequestId};

macro_rules! collective {
    ($(#[$doc:meta])* $name:ident, $immediate:ident ( $($arg:ident : $ty:ty),* ) small $small:path) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// Arguments that do not fit together; what became of the transfers. The communicator is not to be
        /// used for further collectives then.
        pub fn $name(e: &Engine, team: &Team, $($arg: $ty),*) -> Result<(), Error> {
            if let Some(result) = $small(e, team, $($arg),*) {
                return result;
            }
            e.run(&mut plan(team, stringify!($name), |call| call.$name($($arg),*))?).map(|_| ())
        }
        collective! { immediate $name, $immediate($($arg: $ty),*) }
    };
    ($(#[$doc:meta])* $name:ident, $immediate:ident ( $($arg:ident : $ty:ty),* )) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// Arguments that do not fit together; what became of the transfers. The communicator is not to be
        /// used for further collectives then.
        pub fn $name(e: &Engine, team: &Team, $($arg: $ty),*) -> Result<(), Error> {
            e.run(&mut plan(team, stringify!($name), |call| call.$name($($arg),*))?).map(|_| ())
        }
        collective! { immediate $name, $immediate($($arg: $ty),*) }
    };
    (immediate $name:ident, $immediate:ident ( $($arg:ident : $ty:ty),* )) => {
        #[doc = concat!("Immediate [`", stringify!($name), "`]: complete when the request is. The buffers are the")]
        /// operation's until then; arrays of counts, displacements and types are read before this returns.
        ///
        /// # Errors
        /// Arguments that do not fit together; the rest is the request's result.
        pub fn $immediate(e: &Engine, team: &Team, $($arg: $ty),*) -> Result<RequestId, Error> {
            Ok(e.start(Box::new(plan(team, stringify!($name), |call| call.$name($($arg),*))?)))
        }
    };
}

/// Takes the collective's number, whatever becomes of it: all ranks count alike.
fn plan(
    team: &Team,
    name: &'static str,
    program: impl FnOnce(Call<'_>) -> Result<crate::program::Program, Error>,
) -> Result<Run, Error> {
    let tag = team.next_tag();
    Ok(Run::new(team.context(), tag, name, program(Call { team, name })?))
}

collective! {
    /// No rank leaves before all have entered.
    barrier, ibarrier() small small::barrier
}
collective! {
    /// The root's data to all.
    broadcast, ibroadcast(buf: RecvBuf<'_>, root: usize) small small::broadcast
}
collective! {
    /// Everyone's `send` to the root, where rank `i`'s is the `i`-th of equal blocks of `recv`. In place (root only): its
    /// own block stands there already.
    gather, igather(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, root: usize) small small::gather
}
collective! {
    /// As [`gather`] with a block of its own place and length for each rank.
    gatherv, igatherv(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBlocks<'_>>, root: usize)
}
collective! {
    /// The `i`-th of equal blocks of the root's `send` to rank `i`. In place (root only): its own block stays.
    scatter, iscatter(send: Option<SendBuf<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: usize) small small::scatter
}
collective! {
    /// As [`scatter`] with a block of its own place and length for each rank.
    scatterv, iscatterv(send: Option<SendBlocks<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: usize)
}
collective! {
    /// Everyone's `send` to everyone: rank `i`'s is the `i`-th of equal blocks of `recv`. In place: one's own block
    /// stands there already.
    allgather, iallgather(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) small small::allgather
}
collective! {
    /// As [`allgather`] with a block of its own place and length for each rank.
    allgatherv, iallgatherv(send: InPlaceOr<SendBuf<'_>>, recv: RecvBlocks<'_>)
}
collective! {
    /// The `i`-th of equal blocks of `send` to rank `i`; what rank `i` sends is the `i`-th of `recv`. In place: `recv` holds
    /// what is sent, and is replaced.
    alltoall, ialltoall(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) small small::alltoall
}
collective! {
    /// As [`alltoall`] with a block of its own place and length (and type: `MPI_Alltoallw`) for each rank. Empty blocks
    /// are no messages.
    alltoallv, ialltoallv(send: InPlaceOr<SendBlocks<'_>>, recv: RecvBlocks<'_>)
}
collective! {
    /// Everyone's `send`, combined in the order of ranks, into the root's `recv`. In place (root only): its operand is
    /// in `recv`.
    reduce, ireduce(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, op: &Op, root: usize) small small::reduce
}
collective! {
    /// Everyone's `send` combined into everyone's `recv`: the same bits on all ranks. In place: the operand is in
    /// `recv`.
    allreduce, iallreduce(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) small small::allreduce
}
collective! {
    /// What ranks `0 ..= r` send, combined, to rank `r`. In place: the operand is in `recv`.
    scan, iscan(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
}
collective! {
    /// What ranks `0 .. r` send, combined, to rank `r`; the `recv` of rank 0 is left as it is. In place: the operand
    /// is in `recv`.
    exscan, iexscan(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
}
collective! {
    /// Everyone's `send` combined; the `r`-th of its equal blocks to rank `r`. In place: the operand is in `recv`, the
    /// result at its beginning.
    reduce_scatter_block, ireduce_scatter_block(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
}
collective! {
    /// As [`reduce_scatter_block`] with `counts[r]` elements for rank `r`; the same `counts` everywhere.
    reduce_scatter, ireduce_scatter(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, counts: &[usize], op: &Op)
}
