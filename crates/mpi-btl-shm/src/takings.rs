//! Memory of peers that this rank takes, while a piece of the owner's is under way.

use crate::shared::{Event, Peer};
use mpi_btl::OpId;
use mpi_node::doorbell::Ringer;
use mpi_node::segment::Taking;
use std::sync::Arc;

struct Open {
    taking: Taking,
    peer: Arc<Peer>,
    op: OpId,
    last: bool,
}

/// All takings that were not complete when `get` returned.
#[derive(Default)]
pub(crate) struct Takings {
    open: Vec<Open>,
    ringer: Ringer,
}

impl Takings {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn add(&mut self, taking: Taking, peer: Arc<Peer>, op: OpId, last: bool) {
        self.open.push(Open { taking, peer, op, last });
    }

    pub(crate) fn look(&mut self, events: &mut Vec<Event>) {
        let mut at = 0;
        while at < self.open.len() {
            if !self.open[at].taking.is_done() {
                at += 1;
                continue;
            }
            let open = self.open.swap_remove(at);
            let result = open.taking.finish(open.last).map_err(|e| e.to_string());
            open.peer.sleeper.wake_if_asleep(&mut self.ringer);
            events.push(Event::Completed(open.peer.ep, open.op, result));
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        self.open.iter().any(|open| open.taking.is_done())
    }

    /// The owner is gone: a piece that it had claimed never comes.
    pub(crate) fn fail(&mut self, peer: &Peer, why: &str, events: &mut Vec<Event>) {
        let mut at = 0;
        while at < self.open.len() {
            if self.open[at].peer.ep != peer.ep {
                at += 1;
                continue;
            }
            let open = self.open.swap_remove(at);
            let result = if open.taking.is_done() { Ok(()) } else { Err(why.to_owned()) };
            events.push(Event::Completed(open.peer.ep, open.op, result));
        }
    }
}
