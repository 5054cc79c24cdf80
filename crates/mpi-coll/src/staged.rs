//! Blocking allreduce of several ranks of a node through memory that all share.
//!
//! Every rank stages its operand and publishes that once: those who stand to the left of another one in the bracketing
//! of recursive doubling at once, the others when they have combined what stands to their left into theirs. The last
//! rank's stage is the result, which all copy. Where ranks outnumber processors most of them run once for each vector:
//! who finds the result goes on to the next collective's operand.
//!
//! Stages have two sides. Number `k + 2` of a rank takes the place of its number `k`, which is done with: the rank has
//! seen the result of number `k + 1`, for which everybody had come, and so had copied that of number `k`.

use crate::board::{self, Kind, Use, Way, fold};
use crate::choose::Allreduce;
use crate::{InPlaceOr, Team, errors};
use mpi_datatype::{Op, RecvBuf, SendBuf, copy};
use mpi_p2p::{Board, Engine, Error, ErrorClass};

const NAME: &str = "allreduce";
const WHICH: (&str, Kind) = (NAME, Kind::StagedAllreduce);
const WAY: Way = Way { by: Allreduce::Staged, to: Use::Staging, least_ranks: 3 };
/// Brought in place of a length by a rank that failed, less the class of its error: what it staged is nothing.
const FAILED: u64 = u64::MAX - u8::MAX as u64;

/// `None` where other algorithms serve the call; all ranks answer alike.
pub(crate) fn allreduce(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    acc: RecvBuf<'_>,
    op: &Op,
) -> Option<Result<(), Error>> {
    match board::for_allreduce(e, team, (send, acc), op, &WAY)? {
        Ok((board, own)) => {
            let most = (board.stage_bytes() / acc.datatype().size()).max(1);
            let one = Staged { e, team, board };
            Some((0..acc.count()).step_by(most).try_for_each(|first| {
                let count = most.min(acc.count() - first);
                one.reduce(own.part(first, count), acc.part(first, count), op)
            }))
        }
        Err(e) => Some(Err(e)),
    }
}

struct Staged<'a> {
    e: &'a Engine,
    team: &'a Team,
    board: &'a Board,
}

impl Staged<'_> {
    /// One stage full of elements.
    fn reduce(&self, own: SendBuf<'_>, acc: RecvBuf<'_>, op: &Op) -> Result<(), Error> {
        self.board.begin();
        let combined = self.combine(own, op);
        // Also after a failure: the others must not wait.
        let word = match errors::fault(&combined) {
            0 => own.bytes() as u64,
            class => FAILED + u64::from(class),
        };
        self.e.publish(self.team.context(), self.board, WHICH.1 as u32, &word.to_le_bytes());
        combined?;
        // The last one has combined everything.
        let last = self.team.size() - 1;
        let result = match last == self.team.rank() {
            true => self.stage(last, own)?,
            false => self.await_stage(last, own)?,
        };
        copy(result.as_send(), acc).map_err(|e| self.team.datatype_error(NAME, &e))
    }

    /// Stages the operand, combined with all that stands to its left.
    fn combine(&self, own: SendBuf<'_>, op: &Op) -> Result<(), Error> {
        let wrong = |e| self.team.datatype_error(NAME, &e);
        let (n, r) = (self.team.size(), self.team.rank());
        let mine = self.stage(r, own)?;
        copy(own, mine).map_err(wrong)?;
        fold(n, |left, right| {
            if right != r {
                return Ok(());
            }
            let theirs = self.await_stage(left, own)?;
            op.apply(theirs.as_send(), mine).map_err(wrong)
        })
        .map(|_| ())
    }

    fn stage<'a>(&'a self, rank: usize, like: SendBuf<'a>) -> Result<RecvBuf<'a>, Error> {
        let stage = self.board.stage(rank, like.count(), like.datatype());
        stage.ok_or_else(|| self.team.error(NAME, ErrorClass::Other, "the vector does not fit the stage"))
    }

    fn await_stage<'a>(&'a self, rank: usize, like: SendBuf<'a>) -> Result<RecvBuf<'a>, Error> {
        let (cx, team) = (self.team.context(), self.team);
        self.e.await_rank(cx, self.board, rank).map_err(|mut e| {
            e.op = NAME;
            e
        })?;
        let len = like.bytes();
        match u64::from_le_bytes(board::look_at(team, self.board, WHICH, rank)?) {
            there if there == len as u64 => self.stage(rank, like),
            there if there > FAILED => Err(errors::theirs(
                team,
                NAME,
                rank,
                (there - FAILED) as u8,
                "the rank could not do its part",
            )),
            there => Err(errors::short(cx, NAME, rank, there, len)),
        }
    }
}
