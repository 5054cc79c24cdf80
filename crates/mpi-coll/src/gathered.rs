//! Blocking allgather(v) and alltoall of the ranks of a node through memory that all share.
//!
//! Every rank stages what it has for the others and publishes that once, then copies what they have for it as they come: a
//! copy in, a copy out, and one turn of the processor where ranks outnumber the processors. What does not fit a stage goes
//! in several.
//!
//! Stages have two sides. Number `k + 2` of a rank takes the place of its number `k`, which is done with: the rank has
//! seen everybody's number `k + 1`, which stands for everybody's having copied number `k`.

use crate::board::{self, Kind, Which};
use crate::{InPlaceOr, Team, errors};
use mpi_datatype::{RecvBlocks, RecvBuf, SendBuf, copy};
use mpi_p2p::{Board, Engine, Error, record, within};

const ALLGATHER: Which = Which {
    name: "allgather",
    setting: "ALLGATHER",
    op: record::ops::Op::named("allgather"),
    kind: Kind::StagedAllgather,
};
const ALLGATHERV: Which = Which { name: "allgatherv", op: record::ops::Op::named("allgatherv"), ..ALLGATHER };
const ALLTOALL: Which = Which {
    name: "alltoall",
    setting: "ALLTOALL",
    op: record::ops::Op::named("alltoall"),
    kind: Kind::StagedAlltoall,
};

/// `None` where other algorithms serve the call; all ranks answer alike.
pub(crate) fn allgather(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    all: RecvBuf<'_>,
) -> Option<Result<(), Error>> {
    let n = team.size();
    if all.count() % n != 0 {
        return None;
    }
    let len = all.count() / n;
    gather((e, team, &ALLGATHER), all.bytes(), send, |rank| all.part(rank * len, len))
}

/// The same of blocks of different lengths.
pub(crate) fn allgatherv(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    all: RecvBlocks<'_>,
) -> Option<Result<(), Error>> {
    if all.len() != team.size() {
        return None;
    }
    let total = (0..all.len()).fold(0, |sum: usize, i| sum.saturating_add(all.block(i).bytes()));
    gather((e, team, &ALLGATHERV), total, send, |rank| all.block(rank))
}

fn gather<'a>(
    (e, team, which): (&Engine, &Team, &Which),
    total: usize,
    send: InPlaceOr<SendBuf<'_>>,
    block: impl Fn(usize) -> RecvBuf<'a>,
) -> Option<Result<(), Error>> {
    if total == 0 || !team.settings().stages_allgather(team.size(), total) {
        return None;
    }
    let own = block(team.rank());
    let data = match send {
        InPlaceOr::Buf(send) if send.bytes() != own.bytes() => return None,
        InPlaceOr::Buf(send) => send,
        InPlaceOr::InPlace => own.as_send(),
    };
    let board = match board::for_stages(e, team, which, total)? {
        Ok(board) => board,
        Err(e) => return Some(Err(e)),
    };
    let one = Exchange { e, team, board, which };
    let stage = board.stage_bytes().max(1);
    let longest = (0..team.size()).map(|rank| block(rank).bytes()).max().unwrap_or(0);
    let run = || {
        one.copy(data, own)?;
        let mut wrong = Ok(());
        for from in (0..longest).step_by(stage) {
            board.begin();
            board.stage_data(data, from, 0..stage);
            one.meet(data, &mut wrong, &block, |rank, into| board.take_staged(rank, 0..stage, into, from))?;
        }
        wrong?;
        one.validate(&block)
    };
    Some(run())
}

/// The same of an alltoall: a stage has a part for each rank.
pub(crate) fn alltoall(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    recv: RecvBuf<'_>,
) -> Option<Result<(), Error>> {
    let (n, r) = (team.size(), team.rank());
    let whole = match send {
        InPlaceOr::Buf(send) => send,
        // What is replaced has been staged.
        InPlaceOr::InPlace => recv.as_send(),
    };
    let fits = whole.bytes() == recv.bytes() && whole.count() % n == 0 && recv.count() % n == 0;
    let bytes = recv.bytes() / n;
    if !fits || bytes == 0 || !team.settings().stages_alltoall(n, bytes) {
        return None;
    }
    let board = match board::for_stages(e, team, &ALLTOALL, bytes)? {
        Ok(board) => board,
        Err(e) => return Some(Err(e)),
    };
    let one = Exchange { e, team, board, which: &ALLTOALL };
    let (sends, receives) = (whole.count() / n, recv.count() / n);
    let own = |rank: usize| whole.part(rank * sends, sends);
    let block = |rank: usize| recv.part(rank * receives, receives);
    let most = (board.stage_bytes() / n).max(1);
    // What is not needed of a part is no distance between the parts.
    let part = bytes.min(most);
    let run = || {
        one.copy(own(r), block(r))?;
        let mut wrong = Ok(());
        for from in (0..bytes).step_by(most) {
            board.begin();
            for rank in (0..n).filter(|rank| *rank != r) {
                board.stage_data(own(rank), from, rank * part..(rank + 1) * part);
            }
            one.meet(own(r), &mut wrong, &block, |rank, into| {
                board.take_staged(rank, r * part..(r + 1) * part, into, from);
            })?;
        }
        wrong?;
        one.validate(&block)
    };
    Some(run())
}

/// Bytes of a block and its signature.
const ABOUT_BYTES: usize = 12;

struct Exchange<'a> {
    e: &'a Engine,
    team: &'a Team,
    board: &'a Board,
    which: &'a Which,
}

impl Exchange<'_> {
    fn copy(&self, data: SendBuf<'_>, own: RecvBuf<'_>) -> Result<(), Error> {
        copy(data, own).map_err(|e| self.team.datatype_error(self.which.name, &e))
    }

    /// Publishes what was staged, of which `like` is a block, and gives every other rank's to `take`. Whatever is wrong
    /// with one of them, the others' next meetings are this rank's too.
    fn meet<'b>(
        &self,
        like: SendBuf<'_>,
        wrong: &mut Result<(), Error>,
        block: &impl Fn(usize) -> RecvBuf<'b>,
        take: impl Fn(usize, RecvBuf<'b>),
    ) -> Result<(), Error> {
        let (cx, name) = (self.team.context(), self.which.name);
        within(name);
        let mut about = [0; ABOUT_BYTES];
        about[..8].copy_from_slice(&(like.bytes() as u64).to_le_bytes());
        about[8..].copy_from_slice(&like.datatype().signature().to_le_bytes());
        self.e.publish(cx, self.board, self.which.kind as u32, &about);
        for rank in self.others() {
            self.e.await_rank(cx, self.board, rank).map_err(|e| board::named(e, name))?;
            match self.check(rank, block(rank)) {
                Ok(()) => take(rank, block(rank)),
                Err(e) if wrong.is_ok() => *wrong = Err(e),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let r = self.team.rank();
        (0..self.team.size()).filter(move |rank| *rank != r)
    }

    /// What the other rank brought is what this one expects.
    fn check(&self, rank: usize, into: RecvBuf<'_>) -> Result<(), Error> {
        let (team, name) = (self.team, self.which.name);
        let about = board::look_at::<ABOUT_BYTES>(team, self.board, (name, self.which.kind), rank)?;
        let there = u64::from_le_bytes(std::array::from_fn(|i| about[i]));
        let signature = u32::from_le_bytes(std::array::from_fn(|i| about[8 + i]));
        errors::check_data(team, name, rank, (there, signature), into)
    }

    fn validate<'b>(&self, block: &impl Fn(usize) -> RecvBuf<'b>) -> Result<(), Error> {
        self.others().for_each(|rank| board::moved(self.team, rank, record::Way::Got, block(rank).bytes()));
        self.others().map(block).try_for_each(|got| {
            got.sanitize(got.bytes()).map_err(|e| self.team.datatype_error(self.which.name, &e))
        })
    }
}
