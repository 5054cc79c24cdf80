//! The collectives, blocking, immediate and persistent, from the same programs.

use crate::between::Between;
use crate::neighbors::Neighborhood;
use crate::notes::{self, Notes};
use crate::plan::Call;
use crate::program::Program;
use crate::run::Run;
use crate::{InPlaceOr, Root, Team, direct, fed, gathered, small, staged};
use mpi_datatype::{Op, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Engine, Error, RequestId};

macro_rules! collective {
    (
        $(#[$doc:meta])* $name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* )
        direct $direct:path, small $small:path
    ) => {
        collective! {
            blocking |e, team| {
                if let Some(result) = $direct(e, team, $($arg),*) {
                    return result;
                }
                if team.is_plain() {
                    if let Some(result) = $small(e, team, $($arg),*) {
                        return result;
                    }
                }
            };
            $(#[$doc])* $name, $immediate, $init($($arg: $ty),*)
        }
    };
    (
        $(#[$doc:meta])* $name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* ) small $small:path
    ) => {
        collective! {
            blocking |e, team| if team.is_plain() {
                if let Some(result) = $small(e, team, $($arg),*) {
                    return result;
                }
            };
            $(#[$doc])* $name, $immediate, $init($($arg: $ty),*)
        }
    };
    (
        $(#[$doc:meta])* $name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* )
        direct $direct:path
    ) => {
        collective! {
            blocking |e, team| if let Some(result) = $direct(e, team, $($arg),*) {
                return result;
            };
            $(#[$doc])* $name, $immediate, $init($($arg: $ty),*)
        }
    };
    ($(#[$doc:meta])* $name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* )) => {
        collective! { blocking |e, team| {}; $(#[$doc])* $name, $immediate, $init($($arg: $ty),*) }
    };
    (
        blocking |$e:ident, $team:ident| $small:expr;
        $(#[$doc:meta])* $name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* )
    ) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// Arguments that do not fit together; what became of the transfers. The communicator is not to be
        /// used for further collectives then.
        pub fn $name($e: &Engine, $team: &Team, $($arg: $ty),*) -> Result<(), Error> {
            $small
            let tag = $team.next_tag();
            let mut run = plan($e, $team, stringify!($name), tag, |call| program!(call, $name($($arg),*)))?;
            $e.run(&mut run).map(|_| ())
        }

        #[doc = concat!("Immediate [`", stringify!($name), "`]: complete when the request is. The buffers are the")]
        /// operation's until then; arrays of counts, displacements and types are read before this returns.
        ///
        /// # Errors
        /// Arguments that do not fit together; the rest is the request's result.
        pub fn $immediate(e: &Engine, team: &Team, $($arg: $ty),*) -> Result<RequestId, Error> {
            let tag = team.next_tag();
            Ok(e.start(Box::new(plan(e, team, stringify!($name), tag, |call| program!(call, $name($($arg),*)))?)))
        }

        #[doc = concat!("Persistent [`", stringify!($name), "`]: started with `Engine::restart`, again and again. The")]
        /// buffers are the operation's while it runs; arrays of counts, displacements and types are read before this
        /// returns. All ranks make their persistent requests in the same order, and may start them in any
        /// (MPI 4.1, section 6.13).
        ///
        /// # Errors
        /// Arguments that do not fit together; the rest is the request's result.
        pub fn $init(e: &Engine, team: &Team, $($arg: $ty),*) -> Result<RequestId, Error> {
            let tag = team.next_persistent_tag();
            Ok(e.init(Box::new(plan(e, team, stringify!($name), tag, |call| program!(call, $name($($arg),*)))?)))
        }
    };
}

/// The program of a call within one group, or between two.
macro_rules! program {
    ($call:ident, $name:ident($($arg:expr),*)) => {
        if $call.team.far().is_some() { Between($call).$name($($arg),*) } else { $call.$name($($arg),*) }
    };
}

/// The collective's number is taken already, whatever becomes of it: all ranks count alike.
fn plan(
    e: &Engine,
    team: &Team,
    name: &'static str,
    tag: i32,
    write: impl FnOnce(Call<'_>) -> Result<Program, Error>,
) -> Result<Run, Error> {
    let notes = Notes::new();
    let nodes = team.nodes(e, name)?;
    let checked = team.settings().is_checked();
    let mut program = match write(Call { team, name, notes: &notes, nodes }) {
        Ok(program) => program,
        Err(error) => {
            // The others are waiting for what this rank calls. It does not wait for them.
            if let (true, Ok(check)) = (checked, notes::refused(team, name, &notes)) {
                let _ = e.free(e.start(Box::new(Run::new(team, tag, name, check))));
            }
            return Err(error);
        }
    };
    if checked {
        program = notes::checked(team, name, &notes, program).map_err(|e| team.datatype_error(name, &e))?;
    }
    Ok(Run::new(team, tag, name, program))
}

collective! {
    /// No rank leaves before all have entered.
    barrier, ibarrier, barrier_init() small small::barrier
}
collective! {
    /// The root's data to all.
    broadcast, ibroadcast, broadcast_init(buf: RecvBuf<'_>, root: impl Into<Root> + Copy)
    direct fed::broadcast, small small::broadcast
}
collective! {
    /// Everyone's `send` to the root, where rank `i`'s is the `i`-th of equal blocks of `recv`. In place (root only): its
    /// own block stands there already.
    gather, igather, gather_init(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, root: impl Into<Root> + Copy) small small::gather
}
collective! {
    /// As [`gather`] with a block of its own place and length for each rank.
    gatherv, igatherv, gatherv_init(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBlocks<'_>>, root: impl Into<Root> + Copy)
}
collective! {
    /// The `i`-th of equal blocks of the root's `send` to rank `i`. In place (root only): its own block stays.
    scatter, iscatter, scatter_init(send: Option<SendBuf<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: impl Into<Root> + Copy) small small::scatter
}
collective! {
    /// As [`scatter`] with a block of its own place and length for each rank.
    scatterv, iscatterv, scatterv_init(send: Option<SendBlocks<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: impl Into<Root> + Copy)
}
collective! {
    /// Everyone's `send` to everyone: rank `i`'s is the `i`-th of equal blocks of `recv`. In place: one's own block
    /// stands there already.
    allgather, iallgather, allgather_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>)
    direct gathered::allgather, small small::allgather
}
collective! {
    /// As [`allgather`] with a block of its own place and length for each rank.
    allgatherv, iallgatherv, allgatherv_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBlocks<'_>)
    direct gathered::allgatherv
}
collective! {
    /// The `i`-th of equal blocks of `send` to rank `i`; what rank `i` sends is the `i`-th of `recv`. In place: `recv` holds
    /// what is sent, and is replaced.
    alltoall, ialltoall, alltoall_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>)
    direct gathered::alltoall, small small::alltoall
}
collective! {
    /// As [`alltoall`] with a block of its own place and length (and type: `MPI_Alltoallw`) for each rank. Empty blocks
    /// are no messages.
    alltoallv, ialltoallv, alltoallv_init(send: InPlaceOr<SendBlocks<'_>>, recv: RecvBlocks<'_>)
}
collective! {
    /// Everyone's `send`, combined in the order of ranks, into the root's `recv`. In place (root only): its operand is
    /// in `recv`.
    reduce, ireduce, reduce_init(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, op: &Op, root: impl Into<Root> + Copy)
    direct staged::reduce, small small::reduce
}
collective! {
    /// Everyone's `send` combined into everyone's `recv`: the same bits on all ranks. In place: the operand is in
    /// `recv`.
    allreduce, iallreduce, allreduce_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
    direct direct::allreduce, small small::allreduce
}
collective! {
    /// What ranks `0 ..= r` send, combined, to rank `r`. In place: the operand is in `recv`.
    scan, iscan, scan_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
}
collective! {
    /// What ranks `0 .. r` send, combined, to rank `r`; the `recv` of rank 0 is left as it is. In place: the operand
    /// is in `recv`.
    exscan, iexscan, exscan_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
}
collective! {
    /// Everyone's `send` combined; the `r`-th of its equal blocks to rank `r`. In place: the operand is in `recv`, the
    /// result at its beginning.
    reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
}
collective! {
    /// As [`reduce_scatter_block`] with `counts[r]` elements for rank `r`; the same `counts` everywhere.
    reduce_scatter, ireduce_scatter, reduce_scatter_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, counts: &[usize], op: &Op)
}
collective! {
    /// `send` to every destination, what the `i`-th source sends as the `i`-th of equal blocks of `recv`. The block of a
    /// null process is left as it is.
    neighbor_allgather, ineighbor_allgather, neighbor_allgather_init(
        hood: Neighborhood<'_>, send: SendBuf<'_>, recv: RecvBuf<'_>
    )
}
collective! {
    /// As [`neighbor_allgather`] with a block of its own place and length for each source.
    neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init(
        hood: Neighborhood<'_>, send: SendBuf<'_>, recv: RecvBlocks<'_>
    )
}
collective! {
    /// The `i`-th of equal blocks of `send` to the `i`-th destination, what the `i`-th source sends as the `i`-th of
    /// `recv`. The block of a null process is left as it is.
    neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init(
        hood: Neighborhood<'_>, send: SendBuf<'_>, recv: RecvBuf<'_>
    )
}
collective! {
    /// As [`neighbor_alltoall`] with a block of its own place and length (and type: `MPI_Neighbor_alltoallw`) for each
    /// neighbour.
    neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(
        hood: Neighborhood<'_>, send: SendBlocks<'_>, recv: RecvBlocks<'_>
    )
}
