//! Blocking allreduce and reduce of several ranks of a node through memory that all share.
//!
//! Every rank stages its operand and publishes that once: those who stand to the left of another one in the bracketing
//! of recursive doubling at once, the others when they have combined what stands to their left into theirs. The last
//! rank's stage is the result, which all copy. Where ranks outnumber processors most of them run once for each vector:
//! who finds the result goes on to the next collective's operand.
//!
//! A reduce is combined along the binomial tree that the messages would take, each rank combining its children's stages into
//! its own, the root into its result. All wait for the root, so that here too whoever goes on knows that all had come.
//!
//! Stages have two sides. Number `k + 2` of a rank takes the place of its number `k`, which is done with: the rank has
//! seen the result of number `k + 1`, for which everybody had come, and so had copied that of number `k`.

use crate::algorithms::tree;
use crate::board::{self, Kind, Use, Way, Which, fold};
use crate::choose::Allreduce;
use crate::limits::DIRECT_LEAST_BYTES;
use crate::{InPlaceOr, Root, Team, errors};
use mpi_datatype::{Op, RecvBuf, SendBuf, copy};
use mpi_p2p::{Board, Engine, Error, ErrorClass, record};

const ALLREDUCE: (&str, Kind) = ("allreduce", Kind::StagedAllreduce);
const REDUCE: Which = Which {
    name: "reduce",
    setting: "REDUCE",
    op: record::ops::Op::named("reduce"),
    kind: Kind::StagedReduce,
};
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
            let one = Staged { e, team, board, which: ALLREDUCE };
            Some((0..acc.count()).step_by(most).try_for_each(|first| {
                let count = most.min(acc.count() - first);
                one.reduce_to_all(own.part(first, count), acc.part(first, count), op)
            }))
        }
        Err(e) => Some(Err(e)),
    }
}

/// The same of a reduce, for operations that commute.
pub(crate) fn reduce(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    recv: Option<RecvBuf<'_>>,
    op: &Op,
    root: impl Into<Root>,
) -> Option<Result<(), Error>> {
    let Root::Rank(root) = root.into() else { return None };
    let (n, at_root) = (team.size(), team.rank() == root);
    let own = match send {
        InPlaceOr::Buf(own) => own,
        InPlaceOr::InPlace => recv.filter(|_| at_root)?.as_send(),
    };
    let (count, bytes, datatype) = (own.count(), own.bytes(), own.datatype());
    if root >= n || bytes < DIRECT_LEAST_BYTES || !board::is_own(datatype, op) {
        return None;
    }
    if !team.settings().stages_reduce(n, count, bytes, op.commutes()) {
        return None;
    }
    let acc = match at_root {
        true => Some(recv.filter(|acc| acc.count() == count && acc.datatype().same(datatype))?),
        false => None,
    };
    let board = match board::for_stages(e, team, &REDUCE, bytes)? {
        Ok(board) => board,
        Err(e) => return Some(Err(e)),
    };
    let most = (board.stage_bytes() / datatype.size()).max(1);
    let one = Staged { e, team, board, which: (REDUCE.name, REDUCE.kind) };
    Some((0..count).step_by(most).try_for_each(|first| {
        let count = most.min(count - first);
        one.reduce_to(root, own.part(first, count), acc.map(|acc| acc.part(first, count)), op)
    }))
}

struct Staged<'a> {
    e: &'a Engine,
    team: &'a Team,
    board: &'a Board,
    which: (&'static str, Kind),
}

impl Staged<'_> {
    /// Says that this rank has done its part. Also after a failure: the others must not wait.
    fn tell(&self, own: SendBuf<'_>, done: Result<(), Error>) -> Result<(), Error> {
        let word = match errors::fault(&done) {
            0 => own.bytes() as u64,
            class => FAILED + u64::from(class),
        };
        self.e.publish(self.team.context(), self.board, self.which.1 as u32, &word.to_le_bytes());
        done
    }

    /// One stage full of elements to the root, whose result is `acc`.
    fn reduce_to(
        &self,
        root: usize,
        own: SendBuf<'_>,
        acc: Option<RecvBuf<'_>>,
        op: &Op,
    ) -> Result<(), Error> {
        self.board.begin();
        self.tell(own, self.combine_children(root, own, acc, op))?;
        if acc.is_some() {
            return Ok(());
        }
        // It has come when all have.
        self.await_stage(root, own).map(|_| ())
    }

    fn combine_children(
        &self,
        root: usize,
        own: SendBuf<'_>,
        acc: Option<RecvBuf<'_>>,
        op: &Op,
    ) -> Result<(), Error> {
        let (n, r) = (self.team.size(), self.team.rank());
        let mine = acc.map_or_else(|| self.stage(r, own), Ok)?;
        copy(own, mine).map_err(|e| self.team.datatype_error(self.which.0, &e))?;
        for child in tree::children((r + n - root) % n, n) {
            self.combine_with((child + root) % n, own, mine, op)?;
        }
        Ok(())
    }

    /// What `rank` has staged, combined into `mine`.
    fn combine_with(&self, rank: usize, own: SendBuf<'_>, mine: RecvBuf<'_>, op: &Op) -> Result<(), Error> {
        let theirs = self.await_stage(rank, own)?;
        board::moved(self.team, rank, record::Way::Got, own.bytes());
        op.apply(theirs.as_send(), mine).map_err(|e| self.team.datatype_error(self.which.0, &e))
    }

    /// One stage full of elements.
    fn reduce_to_all(&self, own: SendBuf<'_>, acc: RecvBuf<'_>, op: &Op) -> Result<(), Error> {
        self.board.begin();
        self.tell(own, self.combine(own, op))?;
        // The last one has combined everything.
        let last = self.team.size() - 1;
        let result = match last == self.team.rank() {
            true => self.stage(last, own)?,
            false => self.await_stage(last, own)?,
        };
        if last != self.team.rank() {
            board::moved(self.team, last, record::Way::Got, own.bytes());
        }
        copy(result.as_send(), acc).map_err(|e| self.team.datatype_error(self.which.0, &e))
    }

    /// Stages the operand, combined with all that stands to its left.
    fn combine(&self, own: SendBuf<'_>, op: &Op) -> Result<(), Error> {
        let (n, r) = (self.team.size(), self.team.rank());
        let mine = self.stage(r, own)?;
        copy(own, mine).map_err(|e| self.team.datatype_error(self.which.0, &e))?;
        fold(n, |left, right| {
            if right != r {
                return Ok(());
            }
            self.combine_with(left, own, mine, op)
        })
        .map(|_| ())
    }

    fn stage<'a>(&'a self, rank: usize, like: SendBuf<'a>) -> Result<RecvBuf<'a>, Error> {
        let stage = self.board.stage(rank, like.count(), like.datatype());
        stage.ok_or_else(|| {
            self.team.error(self.which.0, ErrorClass::Other, "the vector does not fit the stage")
        })
    }

    fn await_stage<'a>(&'a self, rank: usize, like: SendBuf<'a>) -> Result<RecvBuf<'a>, Error> {
        let (cx, team, name) = (self.team.context(), self.team, self.which.0);
        self.e.await_rank(cx, self.board, rank).map_err(|e| board::named(e, name))?;
        let len = like.bytes();
        match u64::from_le_bytes(board::look_at(team, self.board, self.which, rank)?) {
            there if there == len as u64 => self.stage(rank, like),
            there if there > FAILED => Err(errors::theirs(
                team,
                name,
                rank,
                (there - FAILED) as u8,
                "the rank could not do its part",
            )),
            there => Err(errors::short(cx, name, rank, there, len)),
        }
    }
}
