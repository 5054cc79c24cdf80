//! Twins of the plain operations that return errors as values. Both call the same function.

mod collective;
mod communicator;
mod datatype;
mod destination;
mod exchange;
mod group;
mod request;
mod root;
mod source;

pub use self::collective::TryCommunicatorCollectives;
pub use self::communicator::TryCommunicator;
pub use self::datatype::TryUserDatatype;
pub use self::destination::TryDestination;
pub use self::exchange::{
    try_send_receive_into_with_tags, try_send_receive_replace_into_with_tags, try_send_receive_with_tags,
};
pub use self::group::TryGroup;
pub use self::request::{TryMessage, TryRequest};
pub use self::root::TryRoot;
pub use self::source::TrySource;
