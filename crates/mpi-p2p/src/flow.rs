//! How much unexpected data is held, and telling peers to announce instead of sending.

use crate::core::State;
use crate::store::Charge;
use mpi_wire::control::Flow;
use mpi_wire::reserved;

impl State {
    /// A message came into the store. Over the mark its peer is told; it is told once.
    pub fn account_kept(&mut self, charge: Charge) {
        let (from, bytes) = (charge.from(), charge.bytes());
        if bytes == 0 || from == self.me {
            return;
        }
        self.unexpected_bytes += bytes;
        let over = self.unexpected_bytes > self.limits.unexpected_mark_bytes;
        let peer = self.peers.at(from);
        peer.held += bytes;
        if over && !peer.told {
            peer.told = true;
            let held = peer.held;
            self.told.push(from);
            self.control(from, reserved::FLOW, &Flow { announce: true, held }.encode());
        }
    }

    /// A message left the store. Below half the mark everybody may send again.
    #[inline]
    pub fn account_taken(&mut self, charge: Charge) {
        let (from, bytes) = (charge.from(), charge.bytes());
        if bytes == 0 || from == self.me {
            return;
        }
        self.unexpected_bytes -= bytes;
        self.peers.at(from).held -= bytes;
        if !self.told.is_empty() && self.unexpected_bytes < self.limits.unexpected_mark_bytes / 2 {
            for ep in std::mem::take(&mut self.told) {
                let peer = self.peers.at(ep);
                peer.told = false;
                let held = peer.held;
                self.control(ep, reserved::FLOW, &Flow { announce: false, held }.encode());
            }
        }
    }
}
