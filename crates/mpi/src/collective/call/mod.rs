//! The collectives themselves, each once: the plain ones hand their errors to the communicator's handler, those of
//! [`ext`](crate::ext) return them.

mod communicator;
mod root;

pub(crate) use communicator::*;
pub(crate) use root::*;
