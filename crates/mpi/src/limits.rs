//! Every limit of this crate, with its unit.

/// Longest message of a value that is serialised, in bytes: a longer one is refused before it is sent, and before
/// memory is taken for it.
#[cfg(feature = "serde")]
pub const SERIALIZED_MESSAGE_MAX_BYTES: usize = 1 << 30;
