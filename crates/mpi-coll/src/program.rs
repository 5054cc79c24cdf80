//! Programs: what one rank does in a collective, step by step.
//!
//! A program is written like code with immediate sends and receives: steps run in order, sends and receives are
//! only started, `Wait` holds the program until one of them is complete, and the end waits for all.
//! What does not wait runs on, so independent transfers overlap.

use crate::notes;
use mpi_datatype::{Datatype, DatatypeError, Op, RecvBuf, RecvMem, Scratch, SendBuf, SendMem};

/// A piece of memory that steps work on.
#[derive(Debug)]
pub(crate) enum Slot {
    /// The user's data.
    Input(SendMem),
    /// The user's room.
    Output(RecvMem),
    /// A temporary.
    Scratch(Scratch),
}

/// Part of a slot: `count` elements from `first` on, or packed bytes of a contiguous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    slot: u32,
    first: usize,
    pub count: usize,
    bytes: bool,
}

impl Data {
    /// Elements (or bytes) `first .. first + count` of this part.
    pub fn part(self, first: usize, count: usize) -> Data {
        debug_assert!(first + count <= self.count, "{first} + {count} of {self:?}");
        Data { first: self.first + first, count, ..self }
    }
}

/// A started transfer: its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer(u32);

/// One thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Send {
        to: u32,
        data: Data,
    },
    Recv {
        from: u32,
        data: Data,
    },
    /// Until the transfer that this step started is complete.
    Wait(u32),
    Copy {
        from: Data,
        to: Data,
    },
    /// `inout = input op inout`.
    Reduce {
        input: Data,
        inout: Data,
    },
    /// Goes on only if the calls of all ranks, which stand there, fit together.
    Compare(Data),
    /// Compares what this rank was told of its messages with what it expects, and puts the verdict there.
    Judge {
        told: Data,
        expected: Data,
        verdict: Data,
    },
    /// Goes on only if the verdicts of all ranks, which stand there, are good.
    Heed(Data),
}

/// Steps and their memory.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub steps: Vec<Step>,
    slots: Vec<Slot>,
    op: Option<Op>,
}

impl Program {
    /// The memory of `data`, to send from.
    pub fn source(&self, data: Data) -> SendBuf<'_> {
        let whole = match &self.slots[data.slot as usize] {
            Slot::Input(mem) => mem.buf(),
            Slot::Output(mem) => mem.buf().as_send(),
            Slot::Scratch(scratch) => scratch.send(),
        };
        if data.bytes {
            whole.byte_part(data.first, data.count).unwrap_or(SendBuf::packed(&[]))
        } else {
            whole.part(data.first, data.count)
        }
    }

    /// The memory of `data`, to receive into.
    pub fn room(&self, data: Data) -> RecvBuf<'_> {
        let whole = match &self.slots[data.slot as usize] {
            Slot::Input(_) => RecvBuf::packed(&mut []),
            Slot::Output(mem) => mem.buf(),
            Slot::Scratch(scratch) => scratch.recv(),
        };
        if data.bytes {
            whole.byte_part(data.first, data.count).unwrap_or(RecvBuf::packed(&mut []))
        } else {
            whole.part(data.first, data.count)
        }
    }

    /// Carries out a step that needs no other rank.
    pub fn local(&self, step: Step) -> Result<(), DatatypeError> {
        match step {
            Step::Copy { from, to } => {
                let source = self.source(from);
                mpi_datatype::copy(source, self.room(to))?;
                // Packed on the way, it comes from a peer unchecked.
                self.room(to).sanitize(source.bytes())
            }
            Step::Reduce { input, inout } => {
                let op = self.op.as_ref().unwrap_or(&Op::NoOp);
                op.apply(self.source(input), self.room(inout))
            }
            Step::Judge { told, expected, verdict } => {
                let (told, expected) = (self.source(told), self.source(expected));
                if let (Some(told), Some(expected)) = (told.contiguous(), expected.contiguous()) {
                    self.room(verdict).unpack(0, &notes::judge(told, expected));
                }
                Ok(())
            }
            Step::Send { .. } | Step::Recv { .. } | Step::Wait(_) | Step::Compare(_) | Step::Heed(_) => {
                Ok(())
            }
        }
    }
}

/// Writes a program for one rank of many.
///
/// Ranks are those of the own group; those of the other group of an inter-communicator are counted on from there.
pub(crate) struct Builder {
    pub rank: usize,
    pub size: usize,
    /// Ranks of the other group.
    pub far_size: usize,
    /// The ranks that the steps are written for, by their numbers in there, while these are not all.
    among: Option<Vec<u32>>,
    program: Program,
    /// Per step, whether a `Wait` names it already.
    waited: Vec<bool>,
}

pub(crate) type Built<T> = Result<T, DatatypeError>;

impl Builder {
    pub fn new(rank: usize, size: usize) -> Builder {
        let program = Program { steps: Vec::new(), slots: Vec::new(), op: None };
        Builder { rank, size, far_size: 0, among: None, program, waited: Vec::new() }
    }

    /// With another group of so many ranks.
    pub fn with_far(self, far_size: usize) -> Builder {
        Builder { far_size, ..self }
    }

    /// The number of a rank of the other group.
    pub fn far(&self, rank: usize) -> usize {
        self.size + rank
    }

    /// Has `write` write steps for some of the ranks, as if these were all: `ranks[i]` is rank `i` there. Nothing for
    /// a rank that is not one of them.
    ///
    /// Messages of one rank to another match in the order of steps, so parts may follow each other without more.
    pub fn among(&mut self, ranks: &[u32], write: impl FnOnce(&mut Builder) -> Built<()>) -> Built<()> {
        let Some(place) = ranks.iter().position(|rank| *rank as usize == self.rank) else { return Ok(()) };
        debug_assert!(self.among.is_none(), "parts have no parts");
        let (rank, size) = (self.rank, self.size);
        (self.rank, self.size, self.among) = (place, ranks.len(), Some(ranks.to_vec()));
        let result = write(self);
        (self.rank, self.size, self.among) = (rank, size, None);
        result
    }

    /// The rank in the whole group.
    fn whole(&self, rank: usize) -> u32 {
        match &self.among {
            Some(ranks) => ranks[rank],
            None => rank as u32,
        }
    }

    /// With the operation that `reduce` applies.
    pub fn with_op(mut self, op: &Op) -> Builder {
        self.program.op = Some(op.clone());
        self
    }

    /// Checks that the operation is defined on the elements.
    pub fn check_op(&self, data: Data) -> Built<()> {
        let op = self.program.op.as_ref().unwrap_or(&Op::NoOp);
        op.check(self.program.source(data).datatype())
    }

    /// Whether the operation allows any order of operands.
    pub fn commutes(&self) -> bool {
        self.program.op.as_ref().is_none_or(Op::commutes)
    }

    pub fn finish(self) -> Program {
        self.program
    }

    /// The memory of `data`, to fill while the program is written.
    pub fn room(&self, data: Data) -> RecvBuf<'_> {
        self.program.room(data)
    }

    /// Ends unless the calls of all ranks fit together.
    pub fn compare(&mut self, calls: Data) {
        self.step(Step::Compare(calls));
    }

    /// Puts the verdict there, on what this rank was told and what it expects.
    pub fn judge(&mut self, told: Data, expected: Data, verdict: Data) {
        self.step(Step::Judge { told, expected, verdict });
    }

    /// Ends unless the verdicts of all ranks are good.
    pub fn heed(&mut self, verdicts: Data) {
        self.step(Step::Heed(verdicts));
    }

    /// What was written so far, then `program`.
    pub fn then(mut self, program: Program) -> Program {
        let (steps, slots) = (self.program.steps.len() as u32, self.program.slots.len() as u32);
        let moved = |data: Data| Data { slot: data.slot + slots, ..data };
        self.program.slots.extend(program.slots);
        self.program.steps.extend(program.steps.into_iter().map(|step| match step {
            Step::Send { to, data } => Step::Send { to, data: moved(data) },
            Step::Recv { from, data } => Step::Recv { from, data: moved(data) },
            Step::Wait(step) => Step::Wait(step + steps),
            Step::Copy { from, to } => Step::Copy { from: moved(from), to: moved(to) },
            Step::Reduce { input, inout } => Step::Reduce { input: moved(input), inout: moved(inout) },
            Step::Compare(data) => Step::Compare(moved(data)),
            Step::Judge { told, expected, verdict } => {
                Step::Judge { told: moved(told), expected: moved(expected), verdict: moved(verdict) }
            }
            Step::Heed(data) => Step::Heed(moved(data)),
        }));
        self.program.op = program.op;
        self.program
    }

    fn slot(&mut self, slot: Slot, count: usize) -> Data {
        self.program.slots.push(slot);
        Data { slot: self.program.slots.len() as u32 - 1, first: 0, count, bytes: false }
    }

    /// The user's data.
    pub fn input(&mut self, buf: SendBuf<'_>) -> Data {
        self.slot(Slot::Input(buf.to_mem()), buf.count())
    }

    /// The user's room.
    pub fn output(&mut self, buf: RecvBuf<'_>) -> Data {
        self.slot(Slot::Output(buf.to_mem()), buf.count())
    }

    /// A temporary of `count` elements.
    pub fn scratch(&mut self, count: usize, datatype: &Datatype) -> Built<Data> {
        let scratch = Scratch::new(count, datatype)?;
        Ok(self.slot(Slot::Scratch(scratch), count))
    }

    /// A temporary like `data`.
    pub fn like(&mut self, data: Data) -> Built<Data> {
        let datatype = self.datatype(data);
        self.scratch(data.count, &datatype)
    }

    /// A temporary of `count` elements of the type of `data`.
    pub fn scratch_like(&mut self, data: Data, count: usize) -> Built<Data> {
        let datatype = self.datatype(data);
        self.scratch(count, &datatype)
    }

    /// A temporary of packed bytes.
    pub fn packed(&mut self, len: usize) -> Built<Data> {
        Ok(self.slot(Slot::Scratch(Scratch::packed(len)?), len))
    }

    /// Type of the elements of `data`.
    pub fn datatype(&self, data: Data) -> Datatype {
        self.program.source(data).datatype().clone()
    }

    /// Packed bytes in `data`.
    pub fn bytes(&self, data: Data) -> usize {
        self.program.source(data).bytes()
    }

    /// `data` as packed bytes in place, if it is contiguous.
    pub fn flat(&self, data: Data) -> Option<Data> {
        if data.bytes {
            return Some(data);
        }
        let whole = self.program.source(data);
        let size = whole.datatype().size();
        whole.contiguous().map(|bytes| Data {
            first: data.first * size,
            count: bytes.len(),
            bytes: true,
            ..data
        })
    }

    fn step(&mut self, step: Step) -> Transfer {
        self.program.steps.push(step);
        self.waited.push(false);
        Transfer(self.program.steps.len() as u32 - 1)
    }

    /// Starts a send.
    pub fn send(&mut self, to: usize, data: Data) -> Transfer {
        let to = self.whole(to);
        self.step(Step::Send { to, data })
    }

    /// Starts a receive.
    pub fn recv(&mut self, from: usize, data: Data) -> Transfer {
        let from = self.whole(from);
        self.step(Step::Recv { from, data })
    }

    /// Starts a send, unless there is nothing to send: both sides know that.
    pub fn send_some(&mut self, to: usize, data: Data) -> Option<Transfer> {
        (data.count > 0).then(|| self.send(to, data))
    }

    /// Starts a receive, unless there is nothing to receive: both sides know that.
    pub fn recv_some(&mut self, from: usize, data: Data) -> Option<Transfer> {
        (data.count > 0).then(|| self.recv(from, data))
    }

    /// Goes on when the transfer is complete.
    pub fn wait(&mut self, transfer: Transfer) {
        let at = transfer.0 as usize;
        if !std::mem::replace(&mut self.waited[at], true) {
            self.step(Step::Wait(transfer.0));
        }
    }

    /// Goes on when all are complete.
    pub fn wait_all(&mut self, transfers: impl IntoIterator<Item = Transfer>) {
        transfers.into_iter().for_each(|t| self.wait(t));
    }

    /// Goes on when all that was started is complete.
    pub fn settle(&mut self) {
        for at in 0..self.program.steps.len() {
            if matches!(self.program.steps[at], Step::Send { .. } | Step::Recv { .. }) {
                self.wait(Transfer(at as u32));
            }
        }
    }

    /// Sends and receives, and goes on when both are complete. Empty halves are left out: both sides
    /// know that they are empty.
    pub fn exchange(&mut self, to: usize, out: Data, from: usize, into: Data) {
        let recv = (into.count > 0).then(|| self.recv(from, into));
        let send = (out.count > 0).then(|| self.send(to, out));
        self.wait_all(recv);
        self.wait_all(send);
    }

    /// Copies at once.
    pub fn copy(&mut self, from: Data, to: Data) {
        if from.count > 0 && from != to {
            self.step(Step::Copy { from, to });
        }
    }

    /// `inout = input op inout` at once.
    pub fn reduce(&mut self, input: Data, inout: Data) {
        if inout.count > 0 {
            self.step(Step::Reduce { input, inout });
        }
    }
}

/// `n` things dealt to `parts`, as evenly as can be: where part `i` begins. `i` may be `parts`.
pub(crate) fn cut(n: usize, parts: usize, i: usize) -> usize {
    i * (n / parts) + i.min(n % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_cover_everything() {
        for n in 0..40 {
            for parts in 1..9 {
                assert_eq!((cut(n, parts, 0), cut(n, parts, parts)), (0, n));
                for i in 0..parts {
                    let len = cut(n, parts, i + 1) - cut(n, parts, i);
                    assert!(len == n / parts || len == n / parts + 1);
                }
            }
        }
    }
}
