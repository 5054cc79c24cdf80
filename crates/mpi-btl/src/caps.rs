//! What a backend can do towards one peer.

/// Limits and abilities of a backend towards one peer. All sizes in bytes of body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Up to this size a body travels in the header's own cache line or packet.
    pub inline_limit: usize,
    /// Up to this size a message is sent at once; above, it is announced (rendezvous).
    pub eager_limit: usize,
    /// Largest body of one frame; longer data goes in several frames.
    pub frame_limit: usize,
    /// [`BtlTx::get`](crate::BtlTx::get) works: the receiver pulls announced messages itself.
    pub get: bool,
    /// [`Body::Lent`](crate::Body::Lent) is taken without a copy and completed later.
    pub lend: bool,
    /// The peer runs on this machine, under the same kernel: memory can be shared with it.
    pub node: bool,
}
