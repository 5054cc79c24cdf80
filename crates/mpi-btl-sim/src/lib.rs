//! A seeded simulated transport, and the conformance tests that every transport passes.
//!
//! A [`Net`] holds many endpoints in one process under virtual time. It is deterministic: the same
//! seed, configuration and sequence of calls give the same deliveries. Nothing happens between
//! calls; [`Net::advance`] moves the clock.
//!
//! ```
//! use mpi_btl_sim::{Net, SimConfig};
//! let net = Net::new(7, SimConfig::rough(2));
//! let (tx, rx) = net.endpoint(0);
//! # let _ = (tx, rx);
//! // give tx `net.peer_info(1)`, send, poll every endpoint until idle, advance, until:
//! assert!(net.quiet());
//! ```
//!
//! What never happens: this crate opens no socket, starts no thread and reads no clock.
#![deny(missing_docs)]

mod backend;
mod boards;
mod config;
pub mod conformance;
mod memory;
mod net;
mod rng;
mod rx;
mod state;
mod tx;

pub use backend::SimBtl;
pub use config::SimConfig;
pub use net::Net;
pub use rng::Rng;
