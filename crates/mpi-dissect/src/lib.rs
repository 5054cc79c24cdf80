//! Reads a captured stream or pcap of an MPI job's TCP transport into lines for people.
//!
//! ```
//! use mpi_dissect::Stream;
//! use mpi_wire::Header;
//!
//! let header = Header { source: 0, dest: 1, tag: 7, count: 2, length: 2, ..Header::default() };
//! let mut lines = Vec::new();
//! let mut stream = Stream::default();
//! stream.push(&header.encode(), &mut lines);
//! stream.push(b"hi", &mut lines);
//! assert_eq!(lines[0], "message: context 0 (communicator 0, point-to-point) 0 -> 1 tag 7, 2 x type 0x0, 2 bytes");
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod pcap;
mod stream;

pub use pcap::{PcapError, dissect};
pub use stream::Stream;
