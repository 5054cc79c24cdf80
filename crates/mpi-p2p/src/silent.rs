//! Peers of other worlds, which nobody watches for this process: they are called before they are waited for, since
//! only a connection tells of their end.

use crate::core::State;
use crate::limits::CALLED_AT_ONCE_PEERS;
use crate::peer::Link;
use mpi_btl::Ep;
use mpi_wire::control::Flow;
use mpi_wire::reserved;

/// Why a receive from any rank fails.
pub(crate) const ALL_GONE: &str = "every peer of the communicator is gone";

impl State {
    /// Makes a peer of another world known to its backend.
    pub fn introduce(&mut self, ep: Ep) -> Result<(), String> {
        let unknown = self.peers.at(ep).link == Link::Unknown;
        self.reach(ep)?;
        // One that had connected before is not silent.
        if unknown && ep != self.me {
            let peer = self.peers.at(ep);
            peer.silent = true;
            peer.refresh();
            self.silent += 1;
        }
        Ok(())
    }

    /// Something goes to the peer: it is not silent any more.
    #[inline]
    pub fn spoken_to(&mut self, ep: Ep) {
        if self.silent != 0 {
            self.break_silence(ep);
        }
    }

    #[cold]
    fn break_silence(&mut self, ep: Ep) -> bool {
        let peer = self.peers.at(ep);
        let was = std::mem::take(&mut peer.silent);
        if was {
            peer.refresh();
            self.silent -= 1;
        }
        was
    }

    /// Sends a peer that somebody waits for a message that changes nothing, if it is silent: it gets a connection.
    #[cold]
    pub fn call(&mut self, ep: Ep) {
        if self.break_silence(ep) {
            let peer = self.peers.at(ep);
            let flow = Flow { announce: peer.told, held: peer.held };
            self.control(ep, reserved::FLOW, &flow.encode());
        }
    }

    /// No message can come on the context, from any rank. Where one can, its silent peers are called when somebody
    /// begins to wait for it.
    #[cold]
    pub fn is_in_vain(&mut self, context: u32) -> bool {
        let Some(face) = self.lanes.get(context).and_then(|lane| lane.face.as_ref()) else { return false };
        if self.silent != 0 && !self.seeking.contains(&context) {
            self.seeking.push(context);
        }
        let gone = |ep: &Ep| *ep != self.me && self.peers.get(*ep).is_some_and(|peer| peer.gone().is_some());
        !face.peers.is_empty() && face.peers.iter().all(gone)
    }

    /// Calls the silent peers of contexts on which somebody waits for a message from any rank.
    #[inline]
    pub fn seek(&mut self) {
        if !self.seeking.is_empty() {
            self.seek_now();
        }
    }

    #[cold]
    fn seek_now(&mut self) {
        for context in std::mem::take(&mut self.seeking) {
            let face = self.lanes.get(context).and_then(|lane| lane.face.clone());
            let Some(face) = face.filter(|face| face.peers.len() <= CALLED_AT_ONCE_PEERS) else { continue };
            face.peers.iter().for_each(|ep| self.call(*ep));
        }
    }
}
