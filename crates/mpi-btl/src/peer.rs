//! Who is on the other end.

use std::collections::BTreeMap;

/// A peer process, by the number the layer above gave it in [`PeerInfo::ep`]. Dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ep(pub u32);

/// A backend's own addresses, opaque to everyone else: backend name to bytes.
pub type Addresses = BTreeMap<String, Vec<u8>>;

/// What is known of a peer when it is first needed.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// The number under which both halves speak of this peer.
    pub ep: Ep,
    /// Id of the job (world) that the peer belongs to.
    pub job: String,
    /// Rank of the peer in its own world; with `job` it is the peer's identity in a hello.
    pub world_rank: u32,
    /// `Some(slot)` when the peer shares this process's node segment: its slot there.
    pub node_slot: Option<u32>,
    /// Host name, for messages to people.
    pub host: String,
    /// What each backend of the peer published.
    pub addresses: Addresses,
    /// The secret that a peer of another job let this job have; `None` for one of the own job.
    pub guest_secret: Option<[u8; 32]>,
}

/// A peer cannot be reached by this backend.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// This backend has no way to the peer; another may.
    #[error("{backend} does not reach rank {world_rank} on {host}")]
    Unreachable {
        /// Name of the backend.
        backend: &'static str,
        /// Rank of the peer in its world.
        world_rank: u32,
        /// Host of the peer.
        host: String,
    },
    /// There was a way and it failed; every attempt is listed with its reason.
    #[error("{backend} cannot connect to rank {world_rank} on {host}: {attempts}")]
    Failed {
        /// Name of the backend.
        backend: &'static str,
        /// Rank of the peer in its world.
        world_rank: u32,
        /// Host of the peer.
        host: String,
        /// One line: each address tried with its errno, and the flag that helps.
        attempts: String,
    },
}
