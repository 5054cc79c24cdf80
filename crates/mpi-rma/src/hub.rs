//! What the windows of a communicator share: their messages' way in, and who sits on this node.

use crate::messages::HashMap;
use crate::window::Inner;
use mpi_comm::{Comm, SplitKind};
use mpi_p2p::{Error, Port, Service};
use mpi_wire::rma::Rma;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// One per communicator that has, or had, a window.
#[derive(Default)]
pub(crate) struct Hub {
    windows: Mutex<HashMap<u32, Weak<Inner>>>,
    node: OnceLock<Node>,
}

/// The ranks that share memory with this one.
pub(crate) struct Node {
    /// `None`: this rank is alone.
    pub comm: Option<Comm>,
    /// Rank to seat, where not every rank is here.
    seats: Option<HashMap<u32, u32>>,
}

impl Hub {
    pub fn add(&self, window: &Arc<Inner>) {
        self.all().insert(window.number, Arc::downgrade(window));
    }

    pub fn remove(&self, number: u32) {
        self.all().remove(&number);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Weak<Inner>>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, number: u32) -> Option<Arc<Inner>> {
        self.all().get(&number)?.upgrade()
    }

    /// The seat of a rank of this node.
    pub fn seat_of(&self, rank: u32) -> Option<u32> {
        self.node.get()?.seats.as_ref()?.get(&rank).copied()
    }

    /// Who is on this node. Collective over `comm` the first time.
    pub fn node(&self, comm: &Comm) -> Result<&Node, Error> {
        if self.node.get().is_none() {
            let node = Node::find(comm)?;
            let _ = self.node.set(node);
        }
        Ok(self.node.get().unwrap_or(const { &Node { comm: None, seats: None } }))
    }

    /// Lets every window look after what it put off. True when there is still something.
    pub fn look(&self, port: &mut Port<'_>) -> bool {
        let all: Vec<_> = self.all().values().filter_map(Weak::upgrade).collect();
        let mut again = false;
        for window in all {
            again |= window.look(port);
        }
        again
    }
}

impl Node {
    fn find(comm: &Comm) -> Result<Node, Error> {
        let here = comm.split_type(SplitKind::Shared, comm.rank() as i32)?;
        // One that is reached by another transport than shared memory, as the user may wish, shares none.
        let group = here.group();
        let other = if here.rank() == 0 { 1 } else { 0 };
        let shares =
            here.size() == 1 || group.member(other).is_some_and(|ep| comm.engine().shares_memory(ep));
        if !crate::create::agree(&here, shares)? || here.size() == 1 {
            return Ok(Node { comm: None, seats: None });
        }
        let seats = if here.size() == comm.size() {
            None
        } else {
            let ranks: Vec<i32> = (0..here.size() as i32).collect();
            let of = group.translate_all(&ranks, &comm.group())?;
            Some(of.into_iter().zip(0..).filter_map(|(rank, seat)| Some((rank?, seat))).collect())
        };
        Ok(Node { comm: Some(here), seats })
    }
}

/// Hands messages to their windows.
pub(crate) struct Postman(pub Arc<Hub>);

impl Service for Postman {
    fn message(&mut self, from: u32, tag: i32, body: &[u8], port: &mut Port<'_>) -> Result<(), String> {
        let message = Rma::decode(body).map_err(|e| format!("one-sided message: {e}"))?;
        match self.0.find(tag as u32) {
            Some(window) => window.receive(from, message, body, port),
            // Late words for one that was freed concern nobody.
            None => Ok(()),
        }
    }

    fn look(&mut self, port: &mut Port<'_>) -> bool {
        self.0.look(port)
    }
}
