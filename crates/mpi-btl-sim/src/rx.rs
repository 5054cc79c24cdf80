//! The receiving half of a simulated endpoint.

use crate::state::{Goes, Message, Notice, State, Stored, What};
use crate::tx::copy_region;
use crate::{Net, memory};
use mpi_btl::{Armed, BtlRx, BulkId, Down, Ep, OpId, Place, Polled, Sink, WakeBy};
use mpi_wire::Header;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Rx {
    pub net: Net,
    pub me: usize,
    pub doorbell: Arc<AtomicU32>,
}

/// One thing to tell the engine, decided under the lock and told without it: the engine may send
/// from inside a callback.
enum Step {
    Introduce {
        rank: u32,
    },
    Begin {
        ep: Ep,
        header: Header,
        have: Vec<u8>,
    },
    Chunk {
        ep: Ep,
        bulk: BulkId,
        bytes: Vec<u8>,
        last: bool,
    },
    Arrived {
        ep: Ep,
        bulk: BulkId,
    },
    /// Bytes moved and nobody is to be told.
    Quietly,
    Down {
        ep: Ep,
        why: Down,
        failed: Vec<OpId>,
        fact: String,
    },
}

impl BtlRx for Rx {
    fn poll(&mut self, budget: usize, sink: &mut dyn Sink) -> Polled {
        if self.net.lock().has_nothing(self.me) {
            return Polled::Idle;
        }
        let mut found = self.notices(sink);
        found |= self.settle_lent(sink);
        let n = self.net.lock().nodes.len();
        let first = self.net.lock().rng.below(n as u64) as usize;
        let mut left = budget;
        let (mut before, mut peers): (Vec<usize>, Vec<usize>) = {
            let state = self.net.lock();
            let some = state.inbound(self.me).filter(|(_, link)| !link.items.is_empty());
            some.map(|(from, _)| from).partition(|from| *from < first)
        };
        peers.append(&mut before);
        for peer in peers {
            while left > 0 {
                match self.step(peer, sink) {
                    None => break,
                    Some(messages) => {
                        found = true;
                        left -= messages;
                    }
                }
            }
        }
        if found { Polled::Progress } else { Polled::Idle }
    }

    fn poll_from(&mut self, ep: Ep, sink: &mut dyn Sink) -> Polled {
        let mut found = self.notices(sink);
        let peer = self.net.lock().nodes[self.me].eps.get(&ep).copied();
        if let Some(peer) = peer {
            while let Some(messages) = self.step(peer, sink) {
                found = true;
                if messages > 0 {
                    break;
                }
            }
        }
        if found { Polled::Progress } else { Polled::Idle }
    }

    fn arm(&mut self, _by: WakeBy) -> Armed<'_> {
        let mut state = self.net.lock();
        let expected = self.doorbell.load(Ordering::Acquire);
        if state.has_due(self.me) {
            return Armed::Ready;
        }
        state.nodes[self.me].armed = true;
        drop(state);
        Armed::Word { word: &self.doorbell, expected }
    }

    fn disarm(&mut self) {
        self.net.lock().nodes[self.me].armed = false;
    }

    fn revoke(&mut self, bulk: BulkId) {
        let mut state = self.net.lock();
        let peers: Vec<usize> = state.inbound(self.me).map(|(from, _)| from).collect();
        for from in peers {
            if let Some(What::Message(m)) = state.link(from, self.me).items.front_mut().map(|i| &mut i.what) {
                let mine = matches!(m.goes, Goes::Direct(b, _) | Goes::Chunks(b) if b == bulk);
                if mine {
                    m.goes = Goes::Discard;
                }
            }
        }
    }

    fn service_descriptor(&self) -> Option<RawFd> {
        None
    }
}

impl Rx {
    /// Tells everything that is due and belongs to no link.
    fn notices(&mut self, sink: &mut dyn Sink) -> bool {
        let mut found = false;
        loop {
            // A statement of its own: the lock must be free while the engine is told.
            let notice = self.net.lock().due_notice(self.me);
            let Some(notice) = notice else { break };
            found = true;
            match notice {
                Notice::Completed(ep, op, result) => sink.completed(ep, op, result),
                Notice::Writable(to) => {
                    let name = {
                        let mut state = self.net.lock();
                        let link = state.link(self.me, to);
                        (link.refused, link.notified) = (false, false);
                        let me = &state.nodes[self.me];
                        if me.down.contains_key(&to) { None } else { me.names.get(&to).copied() }
                    };
                    if let Some(ep) = name {
                        sink.writable(ep);
                    }
                }
                Notice::Got { ep, op, owner, region, offset, into, last } => {
                    let there = copy_region(&mut self.net.lock(), owner, region, offset, into, last);
                    let result = if there { Ok(()) } else { Err("the peer is gone".to_owned()) };
                    sink.completed(ep, op, result);
                }
            }
        }
        found
    }

    /// By chance, the network takes lent bodies of this node before the receiver does.
    fn settle_lent(&mut self, sink: &mut dyn Sink) -> bool {
        let mut done = Vec::new();
        {
            let mut state = self.net.lock();
            let names: Vec<_> = state.nodes[self.me].names.iter().map(|(to, ep)| (*to, *ep)).collect();
            for (to, ep) in names {
                if !state.rng.chance(200) {
                    continue;
                }
                for item in &mut state.link(self.me, to).items {
                    if let What::Message(Message { body, .. }) = &mut item.what {
                        if let Stored::Lent(span, op) = *body {
                            *body = Stored::Own(memory::read(span, 0..span.len()));
                            done.push((ep, op));
                        }
                    }
                }
            }
        }
        for (ep, op) in &done {
            sink.completed(*ep, *op, Ok(()));
        }
        !done.is_empty()
    }

    /// Moves the link from `peer` on by one step. `Some(messages begun)` or `None`: nothing is due.
    fn step(&mut self, peer: usize, sink: &mut dyn Sink) -> Option<usize> {
        let step = self.net.lock().next_step(peer, self.me)?;
        match step {
            Step::Introduce { rank } => {
                let ep = sink.introduced(Net::JOB, rank)?;
                let mut state = self.net.lock();
                let me = &mut state.nodes[self.me];
                me.eps.insert(ep, peer);
                me.names.insert(peer, ep);
                Some(0)
            }
            Step::Begin { ep, header, have } => {
                let place = sink.message(ep, &header, &have, header.length);
                let rest = self.net.lock().placed(peer, self.me, place);
                match place {
                    Place::Direct { bulk, .. } if rest == 0 => sink.arrived(ep, bulk),
                    Place::Chunks(bulk) if rest == 0 => sink.chunk(ep, bulk, &[], true),
                    _ => {}
                }
                Some(1)
            }
            Step::Chunk { ep, bulk, bytes, last } => {
                sink.chunk(ep, bulk, &bytes, last);
                Some(0)
            }
            Step::Arrived { ep, bulk } => {
                sink.arrived(ep, bulk);
                Some(0)
            }
            Step::Quietly => Some(0),
            Step::Down { ep, why, failed, fact } => {
                for op in failed {
                    sink.completed(ep, op, Err(fact.clone()));
                }
                sink.down(ep, why);
                Some(0)
            }
        }
    }
}

impl State {
    fn due_notice(&mut self, me: usize) -> Option<Notice> {
        let now = self.now;
        let notices = &mut self.nodes[me].notices;
        if notices.front().is_some_and(|(due, _)| *due <= now) {
            return notices.pop_front().map(|(_, notice)| notice);
        }
        None
    }

    /// What is due first on the link, with everything done that needs the lock.
    fn next_step(&mut self, from: usize, me: usize) -> Option<Step> {
        if !self.nodes[me].alive {
            return None;
        }
        let now = self.now;
        let item = self.link(from, me).items.front()?;
        if item.due > now || matches!(&item.what, What::Message(m) if m.held) {
            return None;
        }
        let Some(&ep) = self.nodes[me].names.get(&from) else {
            return Some(Step::Introduce { rank: from as u32 });
        };
        let pieces = self.config.pieces;
        let mut rng = self.rng.clone();
        let item = self.link(from, me).items.front_mut()?;
        let step = match &mut item.what {
            What::End(_) => return self.end(from, me, ep),
            What::Message(m) => {
                let left = m.body.len() - m.taken;
                let piece = if pieces && rng.chance(700) { rng.upto(left) } else { left };
                let bytes = m.body.read(m.taken, m.taken + piece);
                let last = piece == left;
                m.taken += piece;
                match m.goes {
                    Goes::Undecided => {
                        m.shown = piece;
                        Step::Begin { ep, header: m.header, have: bytes }
                    }
                    Goes::Discard => Step::Quietly,
                    Goes::Chunks(bulk) => Step::Chunk { ep, bulk, bytes, last },
                    Goes::Direct(bulk, into) => {
                        memory::write(into, m.taken - piece - m.shown, &bytes);
                        if last { Step::Arrived { ep, bulk } } else { Step::Quietly }
                    }
                }
            }
        };
        self.rng = rng;
        self.note(now ^ (from as u64) << 48 ^ (me as u64) << 32);
        if !matches!(step, Step::Begin { .. }) {
            self.pop_if_complete(from, me);
        }
        Some(step)
    }

    /// The engine chose a place for the message in front; how many bytes are still to come.
    fn placed(&mut self, from: usize, me: usize, place: Place) -> usize {
        let mut rest = 0;
        if let Some(What::Message(m)) = self.link(from, me).items.front_mut().map(|i| &mut i.what) {
            rest = m.body.len() - m.taken;
            m.goes = match place {
                Place::Done => Goes::Discard,
                Place::Chunks(bulk) => Goes::Chunks(bulk),
                Place::Direct { bulk, into } => {
                    assert_eq!(into.len(), rest, "a direct place is as long as the rest of the body");
                    Goes::Direct(bulk, into)
                }
            };
        }
        self.pop_if_complete(from, me);
        rest
    }

    /// Removes the message in front when all of it was handed over; otherwise its next piece comes
    /// a little later.
    fn pop_if_complete(&mut self, from: usize, me: usize) {
        let now = self.now;
        let wait = if self.rng.chance(500) { self.rng.below(self.config.jitter_ns + 1) } else { 0 };
        let link = self.link(from, me);
        let Some(item) = link.items.front_mut() else { return };
        let What::Message(m) = &item.what else { return };
        if m.taken < m.body.len() {
            item.due = now + wait;
            return self.expect(me, now + wait);
        }
        let len = m.body.len();
        let lent = if let Stored::Lent(_, op) = m.body { Some(op) } else { None };
        link.bytes -= len;
        link.items.pop_front();
        if let Some(op) = lent {
            if let Some(&ep) = self.nodes[from].names.get(&me) {
                self.notify(from, true, Notice::Completed(ep, op, Ok(())));
            }
        }
        self.relieve(from, me);
    }

    /// The peer is gone, for whatever reason stands in front of the link.
    fn end(&mut self, from: usize, me: usize, ep: Ep) -> Option<Step> {
        let item = self.link(from, me).items.pop_front()?;
        let What::End(why) = item.what else { return None };
        let fact = match &why {
            Down::Goodbye => "the peer said goodbye".to_owned(),
            Down::Reset(s) | Down::Protocol(s) | Down::Unreachable(s) => s.clone(),
        };
        if self.nodes[me].down.contains_key(&from) {
            return Some(Step::Quietly);
        }
        self.nodes[me].down.insert(from, fact.clone());
        // Memory that is still lent goes back now, so nothing behind it may stay under way.
        let first_lent = self
            .link(me, from)
            .items
            .iter()
            .position(|i| matches!(&i.what, What::Message(m) if matches!(m.body, Stored::Lent(..))));
        if let Some(keep) = first_lent {
            self.orphan(me, from, keep);
        }
        let mut failed = self.nodes[me].orphans.remove(&from).unwrap_or_default();
        let node = &mut self.nodes[me];
        node.regions.retain(|_, r| {
            if r.ep == ep {
                failed.push(r.op);
            }
            r.ep != ep
        });
        let mut gets = Vec::new();
        node.notices.retain(|(_, n)| match n {
            Notice::Got { ep: e, op, .. } if *e == ep => {
                gets.push(*op);
                false
            }
            _ => true,
        });
        failed.extend(gets);
        Some(Step::Down { ep, why, failed, fact })
    }
}
