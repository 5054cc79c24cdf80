//! Small blocking collectives, straight: no program, no allocation, one send and one receive after the other.
//! The same algorithms, and the same messages, as the programs': ranks may take either.

use crate::algorithms::{Fold, tree};
use crate::choose::{Allreduce, Broadcast};
use crate::limits::SMALL_ALLREDUCE_MAX_BYTES;
use crate::{InPlaceOr, Team, errors};
use mpi_datatype::{Op, RecvBuf, SendBuf, SmallScratch, copy};
use mpi_p2p::{Engine, Error, SendMode, Source, Tag};

/// A collective under its name and tag.
struct Straight<'a> {
    e: &'a Engine,
    team: &'a Team,
    name: &'static str,
    tag: i32,
}

impl Straight<'_> {
    #[cold]
    fn named(&self, mut e: Error) -> Error {
        e.op = self.name;
        e.tag = None;
        e
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

    /// Sends and receives; both are complete on return, whatever happens.
    #[inline]
    fn exchange(&self, to: usize, out: SendBuf<'_>, from: usize, into: RecvBuf<'_>) -> Result<(), Error> {
        let cx = self.team.context();
        let sent =
            self.e.isend(cx, to as u32, self.tag, out, SendMode::Standard).map_err(|e| self.named(e))?;
        let received = self.recv(from, into);
        let sent = self.e.wait(sent).map(|_| ()).map_err(|e| self.named(e));
        received.and(sent)
    }
}

/// Dissemination; see [`crate::algorithms::barrier`].
pub(crate) fn barrier(e: &Engine, team: &Team) -> Option<Result<(), Error>> {
    Some(disseminate(e, team))
}

fn disseminate(e: &Engine, team: &Team) -> Result<(), Error> {
    let s = Straight { e, team, name: "barrier", tag: team.next_tag() };
    let (n, r) = (team.size(), team.rank());
    let mut distance = 1;
    while distance < n {
        let (to, from) = ((r + distance) % n, (r + n - distance) % n);
        s.exchange(to, SendBuf::packed(&[]), from, RecvBuf::packed(&mut []))?;
        distance *= 2;
    }
    Ok(())
}

/// Down a binomial tree. `None`: another algorithm serves this call.
pub(crate) fn broadcast(e: &Engine, team: &Team, buf: RecvBuf<'_>, root: usize) -> Option<Result<(), Error>> {
    let n = team.size();
    if root >= n || team.settings().choose_broadcast(n, buf.bytes()) != Broadcast::Binomial {
        return None;
    }
    let s = Straight { e, team, name: "broadcast", tag: team.next_tag() };
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

/// Recursive doubling. `None`: another algorithm serves this call.
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
    let by = team.settings().choose_allreduce(n, acc.count(), bytes, op.commutes());
    let mut scratch = SmallScratch::<SMALL_ALLREDUCE_MAX_BYTES>::default();
    let tmp = scratch.room(acc.count(), acc.datatype())?;
    if by != Allreduce::Doubling || op.check(acc.datatype()).is_err() {
        return None;
    }
    if let InPlaceOr::Buf(send) = send {
        if send.count() != acc.count() || copy(send, acc).is_err() {
            return None;
        }
    }
    let s = Straight { e, team, name: "allreduce", tag: team.next_tag() };
    Some(doubling(&s, acc, tmp, op))
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
