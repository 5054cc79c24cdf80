//! The simplest transport that wakes a sleeper for real: a queue per endpoint and a socket pair to
//! sleep on. Delivers whole messages in order; announced ones come in frames.

use mpi_btl::{
    Am, Armed, Body, BtlRx, BtlTx, BulkId, Caps, ConnectError, Down, Ep, OpId, PeerInfo, Place, Polled,
    RegionKey, RemoteError, SendError, Sent, Sink, Span, WakeBy,
};
use mpi_wire::Header;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Inbox = Mutex<VecDeque<(Ep, Header, Vec<u8>)>>;

struct Mailbox {
    queue: Inbox,
    bell: UnixStream,
}

/// Endpoints in one process.
pub struct Queues {
    /// Everything that is sent waits for a flush.
    pub holding: bool,
    /// Whoever waits on one peer next panics.
    pub trap: Arc<AtomicBool>,
    boxes: Vec<Arc<Mailbox>>,
    ears: Vec<Option<UnixStream>>,
}

impl Queues {
    pub fn new(n: usize) -> Queues {
        let (mut boxes, mut ears) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let (bell, ear) = UnixStream::pair().unwrap();
            bell.set_nonblocking(true).unwrap();
            ear.set_nonblocking(true).unwrap();
            boxes.push(Arc::new(Mailbox { queue: Mutex::default(), bell }));
            ears.push(Some(ear));
        }
        Queues { holding: false, trap: Arc::default(), boxes, ears }
    }

    pub fn endpoint(&mut self, at: usize) -> (Box<dyn BtlTx>, Box<dyn BtlRx>) {
        let me = Ep(at as u32);
        let tx = Tx { me, boxes: self.boxes.clone(), holding: self.holding, held: Vec::new() };
        let (mine, trap) = (self.boxes[at].clone(), self.trap.clone());
        let rx = Rx { mine, ear: self.ears[at].take().unwrap(), trap };
        (Box::new(tx), Box::new(rx))
    }
}

struct Tx {
    me: Ep,
    boxes: Vec<Arc<Mailbox>>,
    holding: bool,
    held: Vec<(Ep, Header, Vec<u8>)>,
}

impl Tx {
    fn put(&self, ep: Ep, header: Header, body: Vec<u8>) {
        let to = &self.boxes[ep.0 as usize];
        to.queue.lock().unwrap().push_back((self.me, header, body));
        // A full pair wakes as well as one more byte would.
        _ = (&to.bell).write(&[1]);
    }
}

impl BtlTx for Tx {
    fn caps(&self, _: Ep) -> Caps {
        Caps {
            inline_limit: 64,
            eager_limit: 4096,
            frame_limit: 16 << 10,
            get: false,
            lend: false,
            node: false,
        }
    }
    fn connect(&mut self, _: &PeerInfo) -> Result<(), ConnectError> {
        Ok(())
    }
    fn send(&mut self, ep: Ep, msg: Am<'_>) -> Result<Sent, SendError> {
        let body = match msg.body {
            Body::Bytes(a) => a.to_vec(),
            Body::Two(a, b) => [a, b].concat(),
            Body::Lent(..) => unreachable!("nothing is lent to it"),
        };
        if self.holding {
            self.held.push((ep, msg.header, body));
            return Ok(Sent::Held);
        }
        self.put(ep, msg.header, body);
        Ok(Sent::Done)
    }
    fn flush(&mut self) {
        for (ep, header, body) in std::mem::take(&mut self.held) {
            self.put(ep, header, body);
        }
    }
    fn quiet(&self) -> bool {
        self.held.is_empty()
    }
    fn expose(&mut self, _: Ep, _: Span, _: OpId) -> Option<RegionKey> {
        None
    }
    fn withdraw(&mut self, _: Ep, _: OpId) -> bool {
        false
    }
    unsafe fn get(
        &mut self,
        _: Ep,
        _: &RegionKey,
        _: u64,
        _: Span,
        _: OpId,
        _: bool,
    ) -> Result<Sent, RemoteError> {
        Err(RemoteError::Refused("frames only".into()))
    }
    fn close(&mut self, ep: Ep) {
        let header = Header { context: mpi_wire::reserved::GOODBYE, ..Header::default() };
        _ = self.send(ep, Am { header, body: Body::Bytes(&[]), more: false });
    }
    fn wake(&mut self, _: Ep) {}
}

struct Rx {
    mine: Arc<Mailbox>,
    ear: UnixStream,
    trap: Arc<AtomicBool>,
}

impl BtlRx for Rx {
    fn poll(&mut self, budget: usize, sink: &mut dyn Sink) -> Polled {
        let mut polled = Polled::Idle;
        for _ in 0..budget {
            let next = self.mine.queue.lock().unwrap().pop_front();
            let Some((from, header, body)) = next else { break };
            polled = Polled::Progress;
            if header.context == mpi_wire::reserved::GOODBYE {
                sink.down(from, Down::Goodbye);
                continue;
            }
            match sink.message(from, &header, &body, header.length) {
                Place::Done => {}
                Place::Direct { bulk, .. } => sink.arrived(from, bulk),
                Place::Chunks(bulk) => sink.chunk(from, bulk, &[], true),
            }
        }
        polled
    }
    fn poll_from(&mut self, _: Ep, sink: &mut dyn Sink) -> Polled {
        assert!(!self.trap.swap(false, Ordering::Relaxed), "the trap");
        self.poll(1, sink)
    }
    fn arm(&mut self, _: WakeBy) -> Armed<'_> {
        // Bytes of messages taken already are no news.
        while matches!((&self.ear).read(&mut [0; 512]), Ok(n) if n > 0) {}
        if !self.mine.queue.lock().unwrap().is_empty() {
            return Armed::Ready;
        }
        Armed::Descriptor(self.ear.as_raw_fd())
    }
    fn disarm(&mut self) {}
    fn revoke(&mut self, _: BulkId) {}
    fn service_descriptor(&self) -> Option<RawFd> {
        Some(self.ear.as_raw_fd())
    }
}
