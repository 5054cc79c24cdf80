//! Runs a program inside the engine.

use crate::program::{Program, Step};
use crate::{Team, errors, notes};
use mpi_p2p::{Activity, Context, Error, ErrorClass, Inside, RequestId, Source, Status, Tag};
use std::sync::Arc;

/// A collective on its way.
pub(crate) struct Run {
    name: &'static str,
    context: Arc<Context>,
    /// The way to the other group: its ranks are counted on from those of the own one.
    far: Option<Arc<Context>>,
    tag: i32,
    program: Program,
    /// The next step.
    next: usize,
    /// The requests of started transfers, by step.
    requests: Vec<Option<RequestId>>,
    /// Transfers before this step are complete; only for the end of the program.
    settled: usize,
    failed: Option<Error>,
}

impl Run {
    pub fn new(team: &Team, tag: i32, name: &'static str, program: Program) -> Run {
        let requests = vec![None; program.steps.len()];
        let (context, far) = (team.context().clone(), team.far().cloned());
        Run { name, context, far, tag, program, next: 0, requests, settled: 0, failed: None }
    }

    /// Where a rank of a program is: in which context, and under which number.
    #[inline]
    fn way(&self, rank: u32) -> (&Arc<Context>, u32) {
        match &self.far {
            Some(far) if rank >= self.context.size() => (far, rank - self.context.size()),
            _ => (&self.context, rank),
        }
    }

    /// Goes through the steps until one has to wait; `true` at the end.
    fn steps(&mut self, inside: &mut Inside<'_>) -> Result<bool, Error> {
        while let Some(&step) = self.program.steps.get(self.next) {
            match step {
                Step::Send { to, data } => {
                    let buf = self.program.source(data);
                    let (context, to) = self.way(to);
                    self.requests[self.next] = Some(inside.isend(context, to, self.tag, buf)?);
                }
                Step::Recv { from, data } => {
                    let (context, from) = self.way(from);
                    let (source, tag) = (Source::Rank(from), Tag::Is(self.tag));
                    let buf = self.program.room(data);
                    self.requests[self.next] = Some(inside.irecv(context, source, tag, buf)?);
                }
                Step::Wait(of) => {
                    if !self.settle(of as usize, inside)? {
                        return Ok(false);
                    }
                }
                Step::Compare(all) | Step::Heed(all) => {
                    let find = match step {
                        Step::Compare(_) => notes::difference,
                        _ => notes::bad_verdict,
                    };
                    if let Some(what) = self.program.source(all).contiguous().and_then(find) {
                        let name = self.context.name();
                        return Err(Error::new(ErrorClass::Arg, self.name, what).on(name, self.context.id()));
                    }
                }
                local => {
                    self.program.local(local).map_err(|e| {
                        let name = self.context.name();
                        Error::new(errors::class(&e), self.name, e.to_string()).on(name, self.context.id())
                    })?;
                }
            }
            self.next += 1;
        }
        Ok(true)
    }

    /// Takes the result of the transfer that a step started; `true` when there is none any more.
    fn settle(&mut self, step: usize, inside: &mut Inside<'_>) -> Result<bool, Error> {
        let Some(id) = self.requests[step] else { return Ok(true) };
        let Some(result) = inside.take(id) else { return Ok(false) };
        self.requests[step] = None;
        let status = result.map_err(|e| errors::of_transfer(self.name, e))?;
        if let Step::Recv { from, data } = self.program.steps[step] {
            let expected = self.program.room(data).bytes();
            if status.bytes != expected as u64 {
                let (context, from) = self.way(from);
                return Err(errors::short(context, self.name, from as usize, status.bytes, expected));
            }
        }
        Ok(true)
    }

    /// Waits for what is still under way, since its memory goes with the program; `true` when nothing is.
    fn drain(&mut self, inside: &mut Inside<'_>) -> bool {
        while self.settled < self.requests.len() {
            match self.settle(self.settled, inside) {
                Ok(false) => return false,
                Ok(true) => {}
                Err(e) => self.fail(e, inside),
            }
            self.settled += 1;
        }
        true
    }

    /// The first error counts. What is still under way is called back: nobody may come for it any more.
    fn fail(&mut self, mut e: Error, inside: &mut Inside<'_>) {
        e.op = self.name;
        e.tag = None;
        if self.failed.is_none() {
            self.failed = Some(e);
            self.requests.iter().flatten().for_each(|id| inside.cancel(*id));
        }
    }
}

impl Activity for Run {
    fn advance(&mut self, inside: &mut Inside<'_>) -> Result<mpi_p2p::Step, Error> {
        if self.failed.is_none() {
            match self.steps(inside) {
                Ok(true) => {}
                Ok(false) => return Ok(mpi_p2p::Step::Pending),
                Err(e) => self.fail(e, inside),
            }
        }
        if !self.drain(inside) {
            return Ok(mpi_p2p::Step::Pending);
        }
        match self.failed.take() {
            Some(e) => Err(e),
            None => Ok(mpi_p2p::Step::Done(Status::EMPTY)),
        }
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn rearm(&mut self) -> bool {
        (self.next, self.settled) = (0, 0);
        true
    }
}
