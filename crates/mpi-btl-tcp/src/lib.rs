//! MPI transport over TCP.
//!
//! [`TcpBtl`] opens into the two halves of [`mpi_btl`]. Connections are made on the first send;
//! both sides prove that they belong to the job before a byte is parsed. No thread is started: all
//! work happens inside the calls of the engine, and a sleeper waits on one epoll descriptor.
//!
//! The path of a message: `tx.rs` (one `sendmsg`, or a place in `out.rs`), the socket, `rx.rs` (one
//! `recv`), `parser.rs`, the engine's `Sink`.
//!
//! What never happens: a name is looked up, a call blocks, memory is taken on a peer's word, a
//! panic is caused by a peer. The crate must never know a request, a communicator or a datatype.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod accept;
pub mod address;
mod core;
mod dial;
mod greeting;
pub mod limits;
mod open;
mod out;
pub mod parser;
mod peer;
mod rx;
mod shared;
mod sys;
mod tx;

pub(crate) use open::NAME;
pub use open::TcpBtl;
