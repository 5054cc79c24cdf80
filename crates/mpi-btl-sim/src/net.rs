//! The handle of a simulated network.

use crate::boards::Table;
use crate::rx::Rx;
use crate::state::State;
use crate::tx::Tx;
use crate::{SimBtl, SimConfig, memory};
use mpi_btl::{BtlRx, BtlTx, Ep, PeerInfo};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated network. Cloning gives another handle to the same network.
#[derive(Clone)]
pub struct Net(Arc<Mutex<State>>, pub(crate) Arc<Table>);

impl Net {
    /// A network of `config.endpoints` endpoints whose every choice comes from `seed`.
    pub fn new(seed: u64, config: SimConfig) -> Net {
        Net(Arc::new(Mutex::new(State::new(seed, config))), Arc::default())
    }

    /// The two halves of endpoint `index`. They know no peer yet: `connect` names them.
    ///
    /// # Panics
    /// When there is no such endpoint, or it was taken before.
    pub fn endpoint(&self, index: usize) -> (Box<dyn BtlTx>, Box<dyn BtlRx>) {
        let doorbell = self.lock().take(index);
        (
            Box::new(Tx { net: self.clone(), me: index }),
            Box::new(Rx { net: self.clone(), me: index, doorbell }),
        )
    }

    /// Endpoint `index` as a backend that can be opened, once, by an engine.
    pub fn backend(&self, index: usize) -> SimBtl {
        SimBtl { net: self.clone(), index }
    }

    /// What the others need to know of endpoint `index`. `ep` and `world_rank` are `index`; a test
    /// may give another `ep`: the endpoint is found by `job` and `world_rank`.
    pub fn peer_info(&self, index: usize) -> PeerInfo {
        PeerInfo {
            ep: Ep(index as u32),
            job: Net::JOB.to_owned(),
            world_rank: index as u32,
            node_slot: None,
            host: "simulated".to_owned(),
            addresses: [(SimBtl::NAME.to_owned(), (index as u32).to_le_bytes().to_vec())].into(),
            guest_secret: None,
        }
    }

    /// Moves the clock to the next moment at which something happens. `false`: nothing is
    /// scheduled after now. What is due now and was not polled yet is no reason to go on.
    pub fn advance(&self) -> bool {
        let Some(sleepers) = self.lock().advance() else { return false };
        sleepers.iter().for_each(|word| memory::wake(word));
        true
    }

    /// Virtual time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.lock().now
    }

    /// What is under way: messages (held and partly delivered ones included) and notices that a
    /// living endpoint has not taken yet.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight()
    }

    /// Nothing is in flight. When this is false and [`advance`](Net::advance) says false too after
    /// every endpoint polled itself idle, something is stuck: a flush is owed, or a peer unnamed.
    pub fn quiet(&self) -> bool {
        self.in_flight() == 0
    }

    /// Endpoint `index` dies: what it sent last may be lost, in the middle of a message too. Every
    /// peer that had a connection with it gets `Down::Reset`.
    pub fn kill(&self, index: usize) {
        self.lock().kill(index);
    }

    /// Endpoint `from` sends `to` bytes that are no message.
    pub fn garbage(&self, from: usize, to: usize) {
        self.lock().garbage(from, to);
    }

    /// A number that depends on every delivery so far: equal for equal runs.
    pub fn digest(&self) -> u64 {
        self.lock().digest
    }

    /// The job that all endpoints belong to.
    pub const JOB: &str = "sim";

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
