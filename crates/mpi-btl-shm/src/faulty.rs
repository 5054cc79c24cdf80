//! The two halves where faults happen on purpose (`MPI_FAULTS`): late calls, no room, nothing found, no operation free.
//!
//! Rings are memory and make no system call that could be disturbed, so the faults are put around them; where none happen,
//! the transport is opened without this.
#![allow(unsafe_code)]

use mpi_btl::{
    Am, Armed, Boards, Body, BtlRx, BtlTx, BulkId, Caps, ConnectError, Ep, OpId, PeerInfo, Polled, RegionKey,
    RemoteError, SendError, Sent, Sink, Span, WakeBy,
};
use mpi_node::faults::{Fault, strikes};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Peers towards which there was no room on purpose: the engine is to hear that there is again.
#[derive(Clone, Default)]
struct Refused(Arc<Mutex<Vec<Ep>>>);

impl Refused {
    fn add(&self, ep: Ep) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ep);
    }

    fn take(&self) -> Vec<Ep> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Both halves, disturbed.
pub(crate) fn disturbed(tx: Box<dyn BtlTx>, rx: Box<dyn BtlRx>) -> (Box<dyn BtlTx>, Box<dyn BtlRx>) {
    let refused = Refused::default();
    (Box::new(Tx { tx, refused: refused.clone() }), Box::new(Rx { rx, refused, armed: false }))
}

struct Tx {
    tx: Box<dyn BtlTx>,
    refused: Refused,
}

impl BtlTx for Tx {
    fn caps(&self, ep: Ep) -> Caps {
        self.tx.caps(ep)
    }

    fn connect(&mut self, peer: &PeerInfo) -> Result<(), ConnectError> {
        self.tx.connect(peer)
    }

    fn send(&mut self, ep: Ep, msg: Am<'_>) -> Result<Sent, SendError> {
        strikes(Fault::Delay);
        if !matches!(msg.body, Body::Lent(..)) && strikes(Fault::Again) {
            self.refused.add(ep);
            return Err(SendError::Full);
        }
        self.tx.send(ep, msg)
    }

    fn flush(&mut self) {
        self.tx.flush();
    }

    fn quiet(&self) -> bool {
        self.tx.quiet()
    }

    fn expose(&mut self, ep: Ep, mem: Span, op: OpId) -> Option<RegionKey> {
        self.tx.expose(ep, mem, op)
    }

    fn withdraw(&mut self, ep: Ep, op: OpId) -> bool {
        self.tx.withdraw(ep, op)
    }

    unsafe fn get(
        &mut self,
        ep: Ep,
        key: &RegionKey,
        offset: u64,
        into: Span,
        op: OpId,
        last: bool,
    ) -> Result<Sent, RemoteError> {
        strikes(Fault::Delay);
        if strikes(Fault::Again) {
            return Err(RemoteError::Busy);
        }
        // SAFETY: the caller's promise is handed on.
        unsafe { self.tx.get(ep, key, offset, into, op, last) }
    }

    fn close(&mut self, ep: Ep) {
        self.tx.close(ep);
    }

    fn boards(&self) -> Option<Arc<dyn Boards>> {
        self.tx.boards()
    }

    fn place(&self, ep: Ep) -> Option<u32> {
        self.tx.place(ep)
    }

    fn wake(&mut self, ep: Ep) {
        self.tx.wake(ep);
    }
}

struct Rx {
    rx: Box<dyn BtlRx>,
    refused: Refused,
    /// Between arming and sleeping a poll tells the truth: the sleeper relies on it.
    armed: bool,
}

impl Rx {
    /// What is drawn for a poll; `Some` is its answer.
    fn instead(&mut self, sink: &mut dyn Sink) -> Option<Polled> {
        let refused = self.refused.take();
        refused.iter().for_each(|ep| sink.writable(*ep));
        if !refused.is_empty() {
            return Some(Polled::Progress);
        }
        if self.armed {
            return None;
        }
        strikes(Fault::Stall);
        strikes(Fault::Again).then_some(Polled::Idle)
    }
}

impl BtlRx for Rx {
    fn poll(&mut self, budget: usize, sink: &mut dyn Sink) -> Polled {
        if let Some(answer) = self.instead(sink) {
            return answer;
        }
        let budget = if strikes(Fault::Short) { 1 } else { budget };
        self.rx.poll(budget, sink)
    }

    fn poll_from(&mut self, ep: Ep, sink: &mut dyn Sink) -> Polled {
        match self.instead(sink) {
            Some(answer) => answer,
            None => self.rx.poll_from(ep, sink),
        }
    }

    fn arm(&mut self, by: WakeBy) -> Armed<'_> {
        if !self.refused.is_empty() {
            return Armed::Ready;
        }
        self.armed = true;
        self.rx.arm(by)
    }

    fn disarm(&mut self) {
        self.armed = false;
        self.rx.disarm();
    }

    fn revoke(&mut self, bulk: BulkId) {
        self.rx.revoke(bulk);
    }

    fn service_descriptor(&self) -> Option<RawFd> {
        self.rx.service_descriptor()
    }
}
