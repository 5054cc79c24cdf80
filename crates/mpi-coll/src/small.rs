//! Small blocking collectives, straight: no program, no allocation, one send and one receive after the other.
//! The same algorithms, and the same messages, as the programs': ranks of one call may take either. Each answers
//! `None` where another algorithm serves the call, or where the arguments do not fit: the program's
//! checks say why.

use crate::algorithms::{Fold, tree};
use crate::choose::{Allgather, Allreduce, Alltoall, Broadcast, Gather, Reduce, Scatter};
use crate::limits::{
    SMALL_ALLREDUCE_MAX_BYTES, SMALL_ALLTOALL_MAX_RANKS, SMALL_BLOCK_MAX_BYTES, SMALL_REDUCE_MAX_BYTES,
    TINY_REDUCE_MAX_BYTES,
};
use crate::{InPlaceOr, Root, Team, board, errors};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, Scratch, SendBuf, SmallScratch, copy};
use mpi_p2p::{Engine, Error, RequestId, SendMode, Source, Tag, record, within};

/// A collective under its name and tag.
struct Straight<'a> {
    e: &'a Engine,
    team: &'a Team,
    name: &'static str,
    tag: i32,
}

/// The node's board, for records.
const BOARD: usize = record::ops::algorithm("board");

/// A collective under its next tag, and by which algorithm, for records.
macro_rules! straight {
    ($e:ident, $team:ident, $name:literal, $by:literal) => {{
        within($name);
        record::algorithm(const { record::ops::Op::named($name) }, const { record::ops::algorithm($by) });
        Straight { e: $e, team: $team, name: $name, tag: $team.next_tag() }
    }};
}

impl Straight<'_> {
    #[cold]
    fn named(&self, e: Error) -> Error {
        errors::of_transfer(self.name, e)
    }

    #[inline]
    fn send(&self, to: usize, buf: SendBuf<'_>) -> Result<(), Error> {
        let cx = self.team.context();
        self.e.send(cx, to as u32, self.tag, buf, SendMode::Standard).map_err(|e| self.named(e))
    }

    #[inline]
    fn recv(&self, from: usize, buf: RecvBuf<'_>) -> Result<(), Error> {
        let cx = self.team.context();
        match self.e.recv(cx, Source::Rank(from as u32), Tag::Is(self.tag), buf) {
            Ok(status) if status.bytes == buf.bytes() as u64 => Ok(()),
            Ok(status) => Err(errors::short(cx, self.name, from, status.bytes, buf.bytes())),
            Err(e) => Err(self.named(e)),
        }
    }

    #[inline]
    fn start_send(&self, to: usize, out: SendBuf<'_>) -> Result<RequestId, Error> {
        let cx = self.team.context();
        self.e.isend(cx, to as u32, self.tag, out, SendMode::Standard).map_err(|e| self.named(e))
    }

    #[inline]
    fn wait(&self, sent: RequestId) -> Result<(), Error> {
        // Most small sends are complete when they are started.
        if sent == RequestId::DONE {
            return Ok(());
        }
        self.e.wait(sent).map(|_| ()).map_err(|e| self.named(e))
    }

    /// Sends and receives; both are complete on return, whatever happens.
    #[inline]
    fn exchange(&self, to: usize, out: SendBuf<'_>, from: usize, into: RecvBuf<'_>) -> Result<(), Error> {
        let sent = self.start_send(to, out)?;
        let received = self.recv(from, into);
        received.and(self.wait(sent))
    }
}

/// Dissemination; see [`crate::algorithms::barrier`].
pub(crate) fn barrier(e: &Engine, team: &Team) -> Option<Result<(), Error>> {
    let met = board::barrier(e, team);
    if met.is_some() {
        record::algorithm(const { record::ops::Op::named("barrier") }, BOARD);
    }
    Some(met.unwrap_or_else(|| disseminate(e, team)))
}

fn disseminate(e: &Engine, team: &Team) -> Result<(), Error> {
    let s = straight!(e, team, "barrier", "dissemination");
    let (n, r) = (team.size(), team.rank());
    let mut distance = 1;
    while distance < n {
        let (to, from) = ((r + distance) % n, (r + n - distance) % n);
        s.exchange(to, SendBuf::packed(&[]), from, RecvBuf::packed(&mut []))?;
        distance *= 2;
    }
    Ok(())
}

/// Down a binomial tree.
pub(crate) fn broadcast(
    e: &Engine,
    team: &Team,
    buf: RecvBuf<'_>,
    root: impl Into<Root>,
) -> Option<Result<(), Error>> {
    let Root::Rank(root) = root.into() else { return None };
    let n = team.size();
    if root >= n || team.settings().choose_broadcast(n, buf.bytes()) != Broadcast::Binomial {
        return None;
    }
    let s = straight!(e, team, "broadcast", "binomial");
    let v = (team.rank() + n - root) % n;
    let run = || {
        if let Some(parent) = tree::parent(v) {
            s.recv((parent + root) % n, buf)?;
        }
        // A child only receives from here, so these sends end.
        tree::children(v, n).rev().try_for_each(|child| s.send((child + root) % n, buf.as_send()))
    };
    Some(run())
}

/// Recursive doubling.
pub(crate) fn allreduce(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    acc: RecvBuf<'_>,
    op: &Op,
) -> Option<Result<(), Error>> {
    let (n, bytes) = (team.size(), acc.bytes());
    if bytes > SMALL_ALLREDUCE_MAX_BYTES || acc.count() == 0 {
        return None;
    }
    let by = team.settings().choose_steps_of_allreduce(n, acc.count(), bytes, op.commutes());
    if by != Allreduce::Doubling || op.check(acc.datatype()).is_err() {
        return None;
    }
    // A temporary on the stack is cleared first: a small one for small vectors.
    if bytes <= TINY_REDUCE_MAX_BYTES {
        let mut scratch = SmallScratch::<TINY_REDUCE_MAX_BYTES>::default();
        let tmp = scratch.room(acc.count(), acc.datatype())?;
        return allreduce_with(e, team, send, acc, tmp, op);
    }
    if bytes <= SMALL_REDUCE_MAX_BYTES {
        let mut scratch = SmallScratch::<SMALL_REDUCE_MAX_BYTES>::default();
        let tmp = scratch.room(acc.count(), acc.datatype())?;
        return allreduce_with(e, team, send, acc, tmp, op);
    }
    if !acc.datatype().is_contiguous() {
        return None;
    }
    let scratch = Scratch::new(acc.count(), acc.datatype()).ok()?;
    allreduce_with(e, team, send, acc, scratch.recv(), op)
}

#[inline]
fn allreduce_with(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    acc: RecvBuf<'_>,
    tmp: RecvBuf<'_>,
    op: &Op,
) -> Option<Result<(), Error>> {
    let mut first = None;
    if let InPlaceOr::Buf(send) = send {
        if send.count() != acc.count() {
            return None;
        }
        // The lower one of two ranks combines where the other's operand arrives.
        if team.size() == 2 && team.rank() == 0 && send.datatype().is_contiguous() {
            first = Some(send);
        } else if copy(send, acc).is_err() {
            return None;
        }
    }
    if let Some(result) = board::allreduce(e, team, acc, op) {
        record::algorithm(const { record::ops::Op::named("allreduce") }, BOARD);
        return Some(result);
    }
    let s = straight!(e, team, "allreduce", "doubling");
    let Some(own) = first else { return Some(doubling(&s, acc, tmp, op)) };
    let failed = |e| team.datatype_error(s.name, &e);
    Some(s.exchange(1, own, 1, acc).and_then(|()| op.apply(own, acc).map_err(failed)))
}

/// The bits that all ranks have set.
pub(crate) fn common_bits(e: &Engine, team: &Team, bits: u64) -> Result<u64, Error> {
    let datatype = Datatype::predefined(Primitive::U64);
    let (mut one, mut two) = <(SmallScratch<8>, SmallScratch<8>)>::default();
    let (Some(acc), Some(tmp)) = (one.room(1, &datatype), two.room(1, &datatype)) else { return Ok(0) };
    let mut bytes = bits.to_le_bytes();
    acc.unpack(0, &bytes);
    doubling(&Straight { e, team, name: "allreduce", tag: team.next_tag() }, acc, tmp, &Op::Band)?;
    acc.as_send().pack(0, &mut bytes);
    Ok(u64::from_le_bytes(bytes))
}

fn doubling(s: &Straight<'_>, acc: RecvBuf<'_>, tmp: RecvBuf<'_>, op: &Op) -> Result<(), Error> {
    let r = s.team.rank();
    let fold = Fold::new(s.team.size());
    let failed = |e| s.team.datatype_error(s.name, &e);
    // `acc = acc op tmp` with the lower ranks' operand on the left.
    let combine = |partner: usize| {
        if partner < r {
            op.apply(tmp.as_send(), acc)
        } else {
            op.apply(acc.as_send(), tmp).and_then(|()| copy(tmp.as_send(), acc))
        }
        .map_err(failed)
    };
    let Some(new) = fold.folded(r) else {
        let partner = fold.partner(r).unwrap_or(r);
        s.send(partner, acc.as_send())?;
        return s.recv(partner, acc);
    };
    if let Some(partner) = fold.partner(r) {
        s.recv(partner, tmp)?;
        combine(partner)?;
    }
    let mut mask = 1;
    while mask < fold.pow2 {
        let partner = fold.rank(new ^ mask);
        s.exchange(partner, acc.as_send(), partner, tmp)?;
        combine(partner)?;
        mask *= 2;
    }
    match fold.partner(r) {
        Some(partner) => s.send(partner, acc.as_send()),
        None => Ok(()),
    }
}

/// Up a binomial tree, for operations that commute.
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
        InPlaceOr::Buf(send) => send,
        InPlaceOr::InPlace => recv.filter(|_| at_root)?.as_send(),
    };
    let (count, datatype, bytes) = (own.count(), own.datatype(), own.bytes());
    if root >= n || bytes > SMALL_REDUCE_MAX_BYTES || !op.commutes() || op.check(datatype).is_err() {
        return None;
    }
    if team.settings().choose_reduce(n, count, bytes, true) != Reduce::Binomial {
        return None;
    }
    let (mut one, mut two) =
        <(SmallScratch<SMALL_REDUCE_MAX_BYTES>, SmallScratch<SMALL_REDUCE_MAX_BYTES>)>::default();
    let tmp = one.room(count, datatype)?;
    let acc = match recv.filter(|_| at_root) {
        Some(recv) if recv.count() == count => recv,
        Some(_) => return None,
        None if at_root => return None,
        None => two.room(count, datatype)?,
    };
    let s = straight!(e, team, "reduce", "binomial");
    let v = (team.rank() + n - root) % n;
    let run = || {
        let leaf = tree::span(v, n) == 1 && !at_root;
        if !leaf {
            copy(own, acc).map_err(|e| team.datatype_error(s.name, &e))?;
        }
        for child in tree::children(v, n) {
            s.recv((child + root) % n, tmp)?;
            op.apply(tmp.as_send(), acc).map_err(|e| team.datatype_error(s.name, &e))?;
        }
        match tree::parent(v) {
            Some(parent) => s.send((parent + root) % n, if leaf { own } else { acc.as_send() }),
            None => Ok(()),
        }
    };
    Some(run())
}

/// Straight to the root.
pub(crate) fn gather(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    recv: Option<RecvBuf<'_>>,
    root: impl Into<Root>,
) -> Option<Result<(), Error>> {
    let Root::Rank(root) = root.into() else { return None };
    let (n, r) = (team.size(), team.rank());
    let all = recv.filter(|_| r == root);
    let own = match send {
        InPlaceOr::Buf(send) => send,
        InPlaceOr::InPlace => block(all?, n, r)?.as_send(),
    };
    if root >= n || !is_small(own) || team.settings().choose_gather(n, own.bytes()) != Gather::Linear {
        return None;
    }
    if r != root {
        return Some(straight!(e, team, "gather", "linear").send(root, own));
    }
    let all = all?;
    if let InPlaceOr::Buf(own) = send {
        copy(own, block(all, n, r)?).ok()?;
    }
    let len = all.count() / n;
    let s = straight!(e, team, "gather", "linear");
    Some((0..n).filter(|i| *i != root).try_for_each(|i| s.recv(i, all.part(i * len, len))))
}

/// Straight from the root.
pub(crate) fn scatter(
    e: &Engine,
    team: &Team,
    send: Option<SendBuf<'_>>,
    recv: InPlaceOr<RecvBuf<'_>>,
    root: impl Into<Root>,
) -> Option<Result<(), Error>> {
    let Root::Rank(root) = root.into() else { return None };
    let (n, r) = (team.size(), team.rank());
    let InPlaceOr::Buf(own) = recv else { return None };
    if root >= n
        || !is_small(own.as_send())
        || team.settings().choose_scatter(n, own.bytes()) != Scatter::Linear
    {
        return None;
    }
    if r != root {
        return Some(straight!(e, team, "scatter", "linear").recv(root, own));
    }
    let all = send.filter(|all| all.count() % n == 0)?;
    let len = all.count() / n;
    copy(all.part(r * len, len), own).ok()?;
    let s = straight!(e, team, "scatter", "linear");
    // The others only receive from here, so these sends end.
    Some((0..n).filter(|i| *i != root).try_for_each(|i| s.send(i, all.part(i * len, len))))
}

/// Groups of doubling size exchange all they have.
pub(crate) fn allgather(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    all: RecvBuf<'_>,
) -> Option<Result<(), Error>> {
    let (n, r) = (team.size(), team.rank());
    let own = block(all, n, r)?;
    if own.count() == 0 || team.settings().choose_allgather(n, all.bytes(), true) != Allgather::Doubling {
        return None;
    }
    if let InPlaceOr::Buf(send) = send {
        copy(send, own).ok()?;
    }
    let s = straight!(e, team, "allgather", "doubling");
    let mut mask = 1;
    while mask < n {
        let partner = r ^ mask;
        let group = |rank: usize| all.part((rank & !(mask - 1)) * own.count(), mask * own.count());
        if let Err(e) = s.exchange(partner, group(r).as_send(), partner, group(partner)) {
            return Some(Err(e));
        }
        mask *= 2;
    }
    Some(Ok(()))
}

/// All messages at once.
pub(crate) fn alltoall(
    e: &Engine,
    team: &Team,
    send: InPlaceOr<SendBuf<'_>>,
    recv: RecvBuf<'_>,
) -> Option<Result<(), Error>> {
    let (n, r) = (team.size(), team.rank());
    let InPlaceOr::Buf(send) = send else { return None };
    let into = block(recv, n, r)?;
    if n > SMALL_ALLTOALL_MAX_RANKS || send.count() % n != 0 || send.bytes() != recv.bytes() {
        return None;
    }
    let by = team.settings().choose_alltoall(n, into.bytes(), true);
    if by != Alltoall::Scattered || into.bytes() == 0 || !is_small(into.as_send()) {
        return None;
    }
    let (sends, receives) = (send.count() / n, into.count());
    if send.datatype().signature() != recv.datatype().signature() {
        return None;
    }
    if n == 2 {
        let s = Straight { e, team, name: "alltoall", tag: team.next_tag() };
        let (theirs, mine) = (send.part((1 - r) * sends, sends), send.part(r * sends, sends));
        // The own block is moved while the other one is on its way.
        return Some(s.start_send(1 - r, theirs).and_then(|sent| {
            let moved = copy(mine, into).map_err(|e| team.datatype_error(s.name, &e));
            let received = s.recv(1 - r, recv.part((1 - r) * receives, receives));
            moved.and(received).and(s.wait(sent))
        }));
    }
    copy(send.part(r * sends, sends), into).ok()?;
    let s = straight!(e, team, "alltoall", "scattered");
    let mut leaving = [RequestId::DONE; SMALL_ALLTOALL_MAX_RANKS];
    let mut run = || {
        for (i, sent) in leaving.iter_mut().enumerate().take(n).skip(1) {
            let to = (r + i) % n;
            *sent = s.start_send(to, send.part(to * sends, sends))?;
        }
        (1..n)
            .map(|i| (r + n - i) % n)
            .try_for_each(|from| s.recv(from, recv.part(from * receives, receives)))
    };
    // Whatever happened, nothing is under way on return.
    let result = run();
    Some(leaving.into_iter().fold(result, |result, sent| result.and(s.wait(sent))))
}

/// Small enough to be sent and received one after the other.
#[inline]
fn is_small(buf: SendBuf<'_>) -> bool {
    buf.bytes() <= SMALL_BLOCK_MAX_BYTES
}

/// The `i`-th of `n` equal blocks, if they are equal.
#[inline]
fn block(all: RecvBuf<'_>, n: usize, i: usize) -> Option<RecvBuf<'_>> {
    let len = all.count() / n;
    (all.count() % n == 0).then(|| all.part(i * len, len))
}
