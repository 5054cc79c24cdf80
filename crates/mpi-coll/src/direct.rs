//! Blocking allreduce of longer vectors, straight out of the other ranks' memory and into it.
//!
//! The ranks meet on the node's board and name their operands and results. Each combines one part of the vectors,
//! piece by piece: fetched from everybody, combined in the cache, stored with everybody. Then they meet again. That is
//! two meetings whatever the number of ranks, and no copy in between.
//!
//! Operands are combined in the order in which recursive doubling and halving combine them: the same bits as over
//! messages.

use crate::board::{self, Kind, Use, fold};
use crate::choose::Allreduce;
use crate::limits::{BOARD_BRING_MAX_BYTES, DIRECT_PIECE_BYTES, DIRECT_PIECE_OF_MANY_BYTES};
use crate::program::cut;
use crate::{InPlaceOr, Team, errors, staged};
use mpi_datatype::{Op, RecvBuf, Scratch, SendBuf, copy};
use mpi_p2p::record::Way;
use mpi_p2p::{Board, Engine, Error, ErrorClass, Lent};

const NAME: &str = "allreduce";
const WHICH: (&str, Kind) = (NAME, Kind::DirectAllreduce);
const WAY: board::Way = board::Way { by: Allreduce::Direct, to: Use::Reaching, least_ranks: 2 };

const _: () = assert!(2 * Lent::NAME_LEN <= BOARD_BRING_MAX_BYTES);

/// `None` where other algorithms serve the call; all ranks answer alike.
pub(crate) fn allreduce(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    acc: RecvBuf<'_>,
    op: &Op,
) -> Option<Result<(), Error>> {
    if let Some(result) = staged::allreduce(e, team, send, acc, op) {
        return Some(result);
    }
    match board::for_allreduce(e, team, (send, acc), op, &WAY)? {
        Ok((board, own)) => {
            let in_place = matches!(send, InPlaceOr::InPlace);
            let lent = (Lent::data(own)?, Lent::room(acc)?);
            Some(run(e, team, board, lent, Vectors { own, acc, in_place, op }))
        }
        Err(e) => Some(Err(e)),
    }
}

/// A call's operand and result.
struct Vectors<'a> {
    own: SendBuf<'a>,
    acc: RecvBuf<'a>,
    in_place: bool,
    op: &'a Op,
}

fn run(
    e: &Engine,
    team: &Team,
    board: &Board,
    lent: (Lent, Lent),
    vectors: Vectors<'_>,
) -> Result<(), Error> {
    let mut names = [0; 2 * Lent::NAME_LEN];
    names[..Lent::NAME_LEN].copy_from_slice(&lent.0.name());
    names[Lent::NAME_LEN..].copy_from_slice(&lent.1.name());
    let mut all = vec![lent; team.size()];
    board::meet(e, team, board, WHICH, &names, |rank, theirs| {
        let name = |at: usize| Lent::named(std::array::from_fn(|i| theirs[at + i]));
        all[rank] = (name(0), name(Lent::NAME_LEN));
    })?;
    let len = vectors.acc.bytes() as u64;
    if let Some(rank) = all.iter().position(|(data, room)| (data.bytes(), room.bytes()) != (len, len)) {
        // Every rank sees one whose length is not its own, and nobody goes on.
        return Err(errors::short(team.context(), NAME, rank, all[rank].0.bytes(), len as usize));
    }
    let done = match team.size() {
        2 => pair(team, board, all[1 - team.rank()], &vectors),
        _ => many(team, board, &all, &vectors),
    };
    // Also after a failure: the others must know, and may be reaching into this rank's memory.
    let mut failed = None;
    board::part(e, team, board, WHICH, &[errors::fault(&done)], |rank, theirs| {
        if theirs[0] != 0 {
            failed = Some((rank, theirs[0]));
        }
    })?;
    done?;
    match failed {
        None => Ok(()),
        Some((rank, class)) => {
            Err(errors::theirs(team, NAME, rank, class, "the rank could not reach another one's memory"))
        }
    }
}

fn unreachable(team: &Team, rank: usize, why: String) -> Error {
    let mut e = team.error(NAME, ErrorClass::ProcFailed, format!("its memory cannot be reached: {why}"));
    e.peer = Some(rank as i32);
    e
}

/// The part that a rank combines, as pieces of at most so many bytes: first element and count.
fn pieces(team: &Team, acc: RecvBuf<'_>, most_bytes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (n, r) = (team.size(), team.rank());
    let (from, to) = (cut(acc.count(), n, r), cut(acc.count(), n, r + 1));
    let most = (most_bytes / acc.datatype().size()).max(1);
    (from..to).step_by(most).map(move |first| (first, most.min(to - first)))
}

/// Two ranks: what is fetched is combined where it arrives.
fn pair(
    team: &Team,
    board: &Board,
    (data, room): (Lent, Lent),
    Vectors { own, acc, in_place, op }: &Vectors<'_>,
) -> Result<(), Error> {
    let peer = 1 - team.rank();
    let size = acc.datatype().size();
    let wrong = |e| team.datatype_error(NAME, &e);
    let spare = match in_place {
        true => {
            let count = acc.count().min((DIRECT_PIECE_BYTES / size).max(1));
            Some(Scratch::new(count, acc.datatype()).map_err(wrong)?)
        }
        false => None,
    };
    for (first, count) in pieces(team, *acc, DIRECT_PIECE_BYTES) {
        let (at, sum) = (first * size, acc.part(first, count));
        // They commute.
        let (into, other) = match &spare {
            Some(spare) => (spare.recv().part(0, count), spare.send().part(0, count)),
            None => (sum, own.part(first, count)),
        };
        board.fetch(peer, data, at, into).map_err(|why| unreachable(team, peer, why))?;
        board::moved(team, peer, Way::Got, into.bytes());
        op.apply(other, sum).map_err(wrong)?;
        board.store(peer, room, at, sum.as_send()).map_err(|why| unreachable(team, peer, why))?;
        board::moved(team, peer, Way::Put, sum.bytes());
    }
    Ok(())
}

/// More ranks: a piece of everybody's stands side by side.
fn many(
    team: &Team,
    board: &Board,
    all: &[(Lent, Lent)],
    Vectors { own, acc, op, .. }: &Vectors<'_>,
) -> Result<(), Error> {
    let (n, r, size) = (team.size(), team.rank(), acc.datatype().size());
    let wrong = |e| team.datatype_error(NAME, &e);
    let most = acc.count().min((DIRECT_PIECE_OF_MANY_BYTES / size).max(1));
    let room = Scratch::new(n * most, acc.datatype()).map_err(wrong)?;
    // Not all from the same one at once.
    let others = || (1..n).map(|i| (r + i) % n);
    for (first, count) in pieces(team, *acc, DIRECT_PIECE_OF_MANY_BYTES) {
        let at = first * size;
        let block = |rank: usize| room.recv().part(rank * most, count);
        for rank in others() {
            board.fetch(rank, all[rank].0, at, block(rank)).map_err(|why| unreachable(team, rank, why))?;
            board::moved(team, rank, Way::Got, block(rank).bytes());
        }
        copy(own.part(first, count), block(r)).map_err(wrong)?;
        let result = fold(n, |left, right| op.apply(block(left).as_send(), block(right))).map_err(wrong)?;
        let result = block(result).as_send();
        copy(result, acc.part(first, count)).map_err(wrong)?;
        for rank in others() {
            board.store(rank, all[rank].1, at, result).map_err(|why| unreachable(team, rank, why))?;
            board::moved(team, rank, Way::Put, result.bytes());
        }
    }
    Ok(())
}
