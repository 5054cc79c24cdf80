//! Small blocking collectives on a board of the node: everybody publishes, everybody reads.
//!
//! Flat: one meeting whatever the number of ranks, so that where they outnumber the processors each
//! runs once. A sum is formed by every rank, from everybody's operand, in the order in which recursive
//! doubling forms it: the same bits as over messages.

use crate::algorithms::Fold;
use crate::choose::{Allreduce, STAGED};
use crate::limits::{
    BOARD_AFTER_MEETINGS, BOARD_AFTER_REACHES, BOARD_ALLREDUCE_ALL_BYTES, BOARD_ALLREDUCE_FEW_BYTES,
    BOARD_ALLREDUCE_MAX_RANKS, BOARD_BRING_MAX_BYTES, DIRECT_LEAST_BYTES,
};
use crate::{InPlaceOr, Team, errors, small};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf, SmallScratch, copy};
use mpi_p2p::{Board, Engine, Error, ErrorClass, record, within};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Which collective a rank is in, for the others to compare.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Barrier = 1,
    Allreduce,
    DirectAllreduce,
    StagedAllreduce,
    StagedReduce,
    StagedAllgather,
    StagedAlltoall,
    FedBroadcast,
}

/// A collective that goes through memory that the ranks share.
pub(crate) struct Which {
    pub name: &'static str,
    /// What stands after `MPI_COLL_`.
    pub setting: &'static str,
    /// The same for records.
    pub op: record::ops::Op,
    pub kind: Kind,
}

/// What a board is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// To meet, where that takes fewer turns of the processor than messages do.
    Meeting,
    /// To reach into each other's memory between two meetings.
    Reaching,
    /// To stage data in the node's memory.
    Staging,
}

/// A team's board, once it has proved to be worth one.
#[derive(Debug, Default)]
pub(crate) struct TeamBoard {
    board: OnceLock<Board>,
    meeting: Agreement,
    reaching: Agreement,
    staging: Agreement,
}

/// Whether the ranks of a team may use its board for something.
#[derive(Debug, Default)]
struct Agreement {
    made: OnceLock<bool>,
    /// Collectives so far that could have used it.
    calls: AtomicU32,
}

impl TeamBoard {
    /// The board for a collective that may use one; all ranks call alike. After the first few calls they
    /// agree on one, so that the few boards go to the teams that use them.
    #[inline]
    pub(crate) fn get(&self, e: &Engine, team: &Team, to: Use) -> Result<Option<&Board>, Error> {
        if team.context().is_stopped() {
            // Who comes to a meeting has others come, too.
            if let Some(error) = e.refusal(team.context()) {
                return Err(error);
            }
        }
        let agreement = match to {
            Use::Meeting => &self.meeting,
            Use::Reaching => &self.reaching,
            Use::Staging => &self.staging,
        };
        match agreement.made.get() {
            Some(true) => Ok(self.board.get()),
            Some(false) => Ok(None),
            None => self.count(e, team, to, agreement),
        }
    }

    fn count(
        &self,
        e: &Engine,
        team: &Team,
        to: Use,
        agreement: &Agreement,
    ) -> Result<Option<&Board>, Error> {
        let calls = agreement.calls.load(Ordering::Relaxed) + 1;
        agreement.calls.store(calls, Ordering::Relaxed);
        let (first, mark) = match to {
            Use::Meeting => (BOARD_AFTER_MEETINGS, Board::CROWDED),
            Use::Reaching => (BOARD_AFTER_REACHES, Board::REACHES),
            Use::Staging => (BOARD_AFTER_REACHES, Board::STAGES),
        };
        if calls <= first || team.size() == 1 {
            return Ok(None);
        }
        // From here on everything is the same on all ranks.
        let free = small::common_bits(e, team, e.free_boards(team.context()))?;
        let boards = free & !(Board::CROWDED | Board::REACHES | Board::STAGES);
        if free & mark != 0 && self.board.get().is_none() && boards != 0 {
            let board = e.take_board(team.context(), boards.trailing_zeros());
            if let Some(board) = board.filter(|board| board.capacity() >= BOARD_BRING_MAX_BYTES) {
                let _ = self.board.set(board);
            }
        }
        let mut board = self.board.get().filter(|_| free & mark != 0);
        if let (Use::Staging, Some(there)) = (to, board) {
            let ready = small::common_bits(e, team, u64::from(there.ready_stages()))?;
            board = board.filter(|_| ready != 0);
        }
        let _ = agreement.made.set(board.is_some());
        Ok(board)
    }
}

/// Brings `bytes`, and waits until all have come. `each` is given what every other rank brought, in the order of
/// ranks.
#[inline]
pub(crate) fn meet(
    e: &Engine,
    team: &Team,
    board: &Board,
    (name, kind): (&'static str, Kind),
    bytes: &[u8],
    each: impl FnMut(usize, &[u8]),
) -> Result<(), Error> {
    within(name);
    e.meet(team.context(), board, kind as u32, bytes).map_err(|e| named(e, name))?;
    look(team, board, (name, kind), bytes.len(), each)
}

/// This rank has moved bytes of a collective into or out of another one's memory itself.
#[inline(always)]
pub(crate) fn moved(team: &Team, rank: usize, way: record::Way, bytes: usize) {
    record::moved(|| team.context().peers().get(rank).map(|ep| ep.0), way, bytes as u64);
}

/// The end of a collective in which ranks reached into each other's memory; else as [`meet`].
pub(crate) fn part(
    e: &Engine,
    team: &Team,
    board: &Board,
    (name, kind): (&'static str, Kind),
    bytes: &[u8],
    each: impl FnMut(usize, &[u8]),
) -> Result<(), Error> {
    within(name);
    e.part(team.context(), board, kind as u32, bytes).map_err(|e| named(e, name))?;
    look(team, board, (name, kind), bytes.len(), each)
}

#[cold]
pub(crate) fn named(mut e: Error, name: &'static str) -> Error {
    e.op = name;
    e
}

#[inline]
fn look(
    team: &Team,
    board: &Board,
    (name, kind): (&'static str, Kind),
    len: usize,
    mut each: impl FnMut(usize, &[u8]),
) -> Result<(), Error> {
    let mut theirs = [0; BOARD_BRING_MAX_BYTES];
    for rank in 0..team.size() {
        match board.brought(rank, &mut theirs) {
            None => {}
            Some(brought) if brought == (kind as u32, len) => each(rank, &theirs[..len]),
            Some(brought) => return Err(other(team, name, rank, brought, kind as u32, len)),
        }
    }
    Ok(())
}

/// What one rank brought to the meeting that has begun, and has published.
pub(crate) fn look_at<const N: usize>(
    team: &Team,
    board: &Board,
    (name, kind): (&'static str, Kind),
    rank: usize,
) -> Result<[u8; N], Error> {
    let mut theirs = [0; N];
    match board.brought(rank, &mut theirs) {
        Some(brought) if brought != (kind as u32, N) => Err(other(team, name, rank, brought, kind as u32, N)),
        _ => Ok(theirs),
    }
}

/// A rank is in another collective, or its counts differ.
#[cold]
fn other(
    team: &Team,
    name: &'static str,
    rank: usize,
    brought: (u32, usize),
    word: u32,
    expected: usize,
) -> Error {
    match brought {
        (kind, bytes) if kind == word => errors::short(team.context(), name, rank, bytes as u64, expected),
        _ => {
            let mut e = team.error(
                name,
                ErrorClass::Other,
                format!("the rank is in another collective{}", errors::DISAGREEMENT),
            );
            e.peer = Some(rank as i32);
            e
        }
    }
}

/// Everybody comes.
pub(crate) fn barrier(e: &Engine, team: &Team) -> Option<Result<(), Error>> {
    within("barrier");
    match team.board().get(e, team, Use::Meeting) {
        Ok(board) => Some(meet(e, team, board?, ("barrier", Kind::Barrier), &[], |_, _| ())),
        Err(e) => Some(Err(e)),
    }
}

/// The operand is in `acc`, where the result will be. For operations of MPI's own, whose types are the same on
/// all ranks.
pub(crate) fn allreduce(e: &Engine, team: &Team, acc: RecvBuf<'_>, op: &Op) -> Option<Result<(), Error>> {
    let own = !matches!(op, Op::User(_)) && acc.datatype().as_primitive().is_some();
    // Two ranks are as well served by one message each way.
    let crowd = (3..=BOARD_ALLREDUCE_MAX_RANKS).contains(&team.size());
    if !own || acc.bytes() > BOARD_BRING_MAX_BYTES || !crowd {
        return None;
    }
    match team.board().get(e, team, Use::Meeting) {
        // What is not needed of the stack is not cleared either.
        Ok(board) if acc.bytes() * team.size() <= BOARD_ALLREDUCE_FEW_BYTES => {
            Some(reduce_all::<BOARD_ALLREDUCE_FEW_BYTES>(e, team, board?, acc, op))
        }
        Ok(board) => Some(reduce_all::<BOARD_ALLREDUCE_ALL_BYTES>(e, team, board?, acc, op)),
        Err(e) => Some(Err(e)),
    }
}

/// The board of a call that is to go through memory that the ranks share; `None` where it does not. All ranks answer
/// alike.
#[inline]
pub(crate) fn for_stages<'t>(
    e: &Engine,
    team: &'t Team,
    which: &Which,
    bytes: usize,
) -> Option<Result<&'t Board, Error>> {
    let settings = team.settings();
    if team.far().is_some() || settings.is_checked() {
        return None;
    }
    let board = match team.board().get(e, team, Use::Staging) {
        Ok(board) => board?,
        Err(e) => return Some(Err(e)),
    };
    record::algorithm(which.op, const { record::ops::algorithm(STAGED) });
    if settings.is_told() {
        let by = (which.setting, STAGED);
        settings.tell(which.name, &team.context().name(), by, (team.size(), bytes), None);
    }
    Some(Ok(board))
}

/// A way of an allreduce of longer vectors through memory that the ranks share.
pub(crate) struct Way {
    /// Its name in the table.
    pub by: Allreduce,
    pub to: Use,
    pub least_ranks: usize,
}

/// The board and the operand of an allreduce that goes `way`; `None` where it does not. All ranks answer alike.
pub(crate) fn for_allreduce<'t, 'b>(
    e: &Engine,
    team: &'t Team,
    (send, acc): (InPlaceOr<SendBuf<'b>>, RecvBuf<'b>),
    op: &Op,
    way: &Way,
) -> Option<Result<(&'t Board, SendBuf<'b>), Error>> {
    let (settings, datatype) = (team.settings(), acc.datatype());
    let few = acc.bytes() < DIRECT_LEAST_BYTES || team.size() < way.least_ranks;
    if few || team.far().is_some() || settings.is_checked() {
        return None;
    }
    if settings.choose_allreduce(team.size(), acc.count(), acc.bytes(), op.commutes()) != way.by {
        return None;
    }
    if !is_own(datatype, op) {
        return None;
    }
    let own = match send {
        InPlaceOr::Buf(own) if own.count() != acc.count() || !own.datatype().same(datatype) => return None,
        InPlaceOr::Buf(own) => own,
        InPlaceOr::InPlace => acc.as_send(),
    };
    let board = match team.board().get(e, team, way.to) {
        Ok(board) => board?,
        Err(e) => return Some(Err(e)),
    };
    if record::on() {
        record::algorithm(
            const { record::ops::Op::named("allreduce") },
            record::ops::algorithm(way.by.text()),
        );
    }
    if settings.is_told() {
        let by = ("ALLREDUCE", way.by.text());
        settings.tell("allreduce", &team.context().name(), by, (team.size(), acc.bytes()), None);
    }
    Some(Ok((board, own)))
}

/// An operation of MPI's own, whose types are the same on all ranks. What comes is not validated. Asked of the type
/// and not of its form on the wire, which depends on the byte order: ranks of either must answer alike.
pub(crate) fn is_own(datatype: &Datatype, op: &Op) -> bool {
    let dense = datatype.as_primitive().is_some_and(Primitive::is_dense);
    let plain = dense && !datatype.needs_validation();
    plain && !matches!(op, Op::User(_)) && op.check(datatype).is_ok()
}

fn reduce_all<const N: usize>(
    e: &Engine,
    team: &Team,
    board: &Board,
    acc: RecvBuf<'_>,
    op: &Op,
) -> Result<(), Error> {
    let mut scratch = SmallScratch::<N>::default();
    let (n, count) = (team.size(), acc.count());
    let Some(all) = scratch.room(n * count, acc.datatype()) else {
        return Err(team.error("allreduce", ErrorClass::Type, "the type has gaps"));
    };
    let block = |rank: usize| all.part(rank * count, count);
    let mut own = [0; BOARD_BRING_MAX_BYTES];
    let own = &mut own[..acc.bytes()];
    acc.as_send().pack(0, own);
    block(team.rank()).unpack(0, own);
    meet(e, team, board, ("allreduce", Kind::Allreduce), own, |rank, theirs| {
        moved(team, rank, record::Way::Got, theirs.len());
        block(rank).unpack(0, theirs);
    })?;
    let result = fold(n, |left, right| op.apply(block(left).as_send(), block(right)))
        .map_err(|e| team.datatype_error("allreduce", &e))?;
    copy(block(result).as_send(), acc).map_err(|e| team.datatype_error("allreduce", &e))
}

/// Combines `n` operands pair by pair as recursive doubling does; `combine` leaves the result in place of its
/// right one. Where the whole is.
pub(crate) fn fold<E>(n: usize, mut combine: impl FnMut(usize, usize) -> Result<(), E>) -> Result<usize, E> {
    let fold = Fold::new(n);
    for new in 0..fold.pow2 {
        if fold.first(new) != fold.rank(new) {
            combine(fold.first(new), fold.rank(new))?;
        }
    }
    let mut mask = 1;
    while mask < fold.pow2 {
        for first in (0..fold.pow2).step_by(2 * mask) {
            combine(fold.rank(first + mask - 1), fold.rank(first + 2 * mask - 1))?;
        }
        mask *= 2;
    }
    Ok(fold.rank(fold.pow2 - 1))
}

#[cfg(test)]
mod tests {
    use super::fold;

    /// The bracketing of recursive doubling, by hand.
    #[test]
    fn operands_are_combined_in_order_and_pair_by_pair() {
        let check = |n: usize, expected: &str| {
            let mut values: Vec<String> = (0..n).map(|i| i.to_string()).collect();
            let at = fold(n, |a, b| {
                values[b] = format!("({}{})", values[a], values[b]);
                Ok::<(), ()>(())
            });
            assert_eq!(values[at.expect("no error")], expected);
        };
        check(1, "0");
        check(2, "(01)");
        check(3, "((01)2)");
        check(4, "((01)(23))");
        check(5, "(((01)2)(34))");
        check(6, "(((01)(23))(45))");
        check(8, "(((01)(23))((45)(67)))");
    }
}
