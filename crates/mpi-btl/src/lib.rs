//! The boundary between the engine and its transports (byte transfer layer).
//!
//! A backend opens into a sending half ([`BtlTx`]) and a receiving half ([`BtlRx`]). The engine
//! owns both and serialises all calls under its own lock, so a backend needs no lock of its own;
//! the halves are apart so that the engine can send from inside a delivery callback.
//!
//! What never happens: a backend never knows a request, a communicator or a datatype; it never
//! reorders two messages of the same pair; it never blocks; it never panics on anything a peer
//! sent; it never reads lent memory after it reported the operation completed.
#![deny(missing_docs)]

mod boards;
mod caps;
mod halves;
mod peer;
mod select;
mod sink;
mod span;

pub use boards::Boards;
pub use caps::Caps;
pub use halves::{Am, Armed, Body, BtlRx, BtlTx, Polled, RegionKey, RemoteError, SendError, Sent, WakeBy};
pub use peer::{Addresses, ConnectError, Ep, PeerInfo};
pub use select::{Btl, OpenEnv, OpenError, Opened, SelectError, Selection, select};
pub use sink::{BulkId, Down, OpId, Place, Sink};
pub use span::Span;
