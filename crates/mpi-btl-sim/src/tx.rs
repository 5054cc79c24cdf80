//! The sending half of a simulated endpoint.

use crate::boards::View;
use crate::state::{Goes, Message, Notice, Region, State, Stored, What};
use crate::{Net, SimBtl, memory};
use mpi_btl::{
    Am, Boards, Body, BtlTx, Caps, ConnectError, Down, Ep, OpId, PeerInfo, RegionKey, RemoteError, SendError,
    Sent, Span,
};
use std::sync::Arc;

pub(crate) struct Tx {
    pub net: Net,
    pub me: usize,
}

impl BtlTx for Tx {
    fn caps(&self, _ep: Ep) -> Caps {
        self.net.lock().config.caps
    }

    fn connect(&mut self, peer: &PeerInfo) -> Result<(), ConnectError> {
        let mut state = self.net.lock();
        let to = peer.world_rank as usize;
        if peer.job != Net::JOB || to >= state.nodes.len() || to == self.me {
            return Err(ConnectError::Unreachable {
                backend: SimBtl::NAME,
                world_rank: peer.world_rank,
                host: peer.host.clone(),
            });
        }
        let me = &mut state.nodes[self.me];
        me.eps.insert(peer.ep, to);
        me.names.insert(to, peer.ep);
        Ok(())
    }

    fn send(&mut self, ep: Ep, msg: Am<'_>) -> Result<Sent, SendError> {
        assert_eq!(msg.header.length, msg.body.len() as u64, "header.length is the length of the body");
        let mut state = self.net.lock();
        let to = target(&state, self.me, ep)?;
        assert!(msg.body.len() <= state.config.caps.frame_limit, "body above the frame limit");
        if let Some(refusal) = refuse(&mut state, self.me, to, msg.body.len()) {
            return Err(refusal);
        }
        let pending_per_mille = state.config.pending_per_mille;
        let body = match msg.body {
            Body::Bytes(a) => Stored::Own(a.to_vec()),
            Body::Two(a, b) => Stored::Own([a, b].concat()),
            Body::Lent(span, op) => {
                if state.config.caps.lend && !span.is_empty() && state.rng.chance(pending_per_mille) {
                    Stored::Lent(span, op)
                } else {
                    Stored::Own(memory::read(span, 0..span.len()))
                }
            }
        };
        let pending = matches!(body, Stored::Lent(..));
        if !state.nodes[to].alive {
            return Ok(send_to_the_dead(&mut state, self.me, to, body));
        }
        // Whatever stands behind a held message is held too: the order of the pair.
        let behind = state.link(self.me, to).items.back().is_some_and(|i| match &i.what {
            What::Message(m) => m.held,
            What::End(_) => false,
        });
        let hold_per_mille = state.config.hold_per_mille;
        let held = behind || (msg.more && state.rng.chance(hold_per_mille));
        let message = Message { header: msg.header, body, taken: 0, shown: 0, goes: Goes::Undecided, held };
        state.push(self.me, to, What::Message(message));
        if held && !msg.more {
            release(&mut state, self.me, to);
        }
        Ok(match (pending, held && msg.more) {
            (true, _) => Sent::Pending,
            (false, true) => Sent::Held,
            (false, false) => Sent::Done,
        })
    }

    fn boards(&self) -> Option<Arc<dyn Boards>> {
        let (boards, reach) = {
            let config = &self.net.lock().config;
            (config.boards, config.reach)
        };
        let view = View { table: self.net.1.clone(), me: self.me as u32, reach };
        boards.then(|| Arc::new(view) as Arc<dyn Boards>)
    }

    fn place(&self, ep: Ep) -> Option<u32> {
        self.net.lock().nodes[self.me].eps.get(&ep).map(|to| *to as u32)
    }

    fn flush(&mut self) {
        let mut state = self.net.lock();
        let peers: Vec<usize> = state.nodes[self.me].names.keys().copied().collect();
        for to in peers {
            release(&mut state, self.me, to);
        }
    }

    fn quiet(&self) -> bool {
        true
    }

    fn expose(&mut self, ep: Ep, mem: Span, op: OpId) -> Option<RegionKey> {
        let mut state = self.net.lock();
        if !state.config.caps.get || target(&state, self.me, ep).is_err() {
            return None;
        }
        let id = state.next_region;
        state.next_region += 1;
        state.nodes[self.me].regions.insert(id, Region { mem, op, ep, begun: false });
        let mut bytes = [0; RegionKey::LEN];
        bytes[..8].copy_from_slice(&(self.me as u64).to_le_bytes());
        bytes[8..16].copy_from_slice(&id.to_le_bytes());
        Some(RegionKey { bytes })
    }

    fn withdraw(&mut self, _ep: Ep, op: OpId) -> bool {
        let mut state = self.net.lock();
        let regions = &mut state.nodes[self.me].regions;
        let id = regions.iter().find(|(_, r)| r.op == op && !r.begun).map(|(id, _)| *id);
        id.is_some_and(|id| regions.remove(&id).is_some())
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
        let mut state = self.net.lock();
        if !state.config.caps.get {
            return Err(RemoteError::Refused("the simulation has it switched off".to_owned()));
        }
        let (owner, id) = decode_key(key).ok_or(RemoteError::Key)?;
        if state.nodes[self.me].eps.get(&ep) != Some(&owner) {
            return Err(RemoteError::Key);
        }
        if !state.nodes[owner].alive {
            return Err(RemoteError::Refused("the peer is gone".to_owned()));
        }
        let busy_per_mille = state.config.get_busy_per_mille;
        if state.rng.chance(busy_per_mille) {
            return Err(RemoteError::Busy);
        }
        let region = state.nodes[owner].regions.get_mut(&id).ok_or(RemoteError::Key)?;
        let offset = usize::try_from(offset).map_err(|_| RemoteError::Key)?;
        if offset.checked_add(into.len()).is_none_or(|end| end > region.mem.len()) {
            return Err(RemoteError::Key);
        }
        region.begun = true;
        let pending_per_mille = state.config.get_pending_per_mille;
        if state.rng.chance(pending_per_mille) {
            let got = Notice::Got { ep, op, owner, region: id, offset, into, last };
            state.notify(self.me, true, got);
            return Ok(Sent::Pending);
        }
        copy_region(&mut state, owner, id, offset, into, last);
        Ok(Sent::Done)
    }

    fn close(&mut self, ep: Ep) {
        let mut state = self.net.lock();
        let Some(&to) = state.nodes[self.me].eps.get(&ep) else { return };
        if !state.nodes[self.me].alive || state.nodes[self.me].closed.contains(&to) {
            return;
        }
        state.nodes[self.me].closed.insert(to);
        release(&mut state, self.me, to);
        // A pair that never spoke has no connection to say goodbye on.
        if state.nodes[to].alive && state.is_connected(self.me, to) {
            state.push(self.me, to, What::End(Down::Goodbye));
        }
    }

    fn wake(&mut self, _ep: Ep) {}
}

/// The node behind an endpoint number, if it still takes messages.
fn target(state: &State, me: usize, ep: Ep) -> Result<usize, SendError> {
    let node = &state.nodes[me];
    let gone = |why: &str| Err(SendError::Down(why.to_owned()));
    match node.eps.get(&ep) {
        _ if !node.alive => gone("this endpoint was killed"),
        None => gone("no peer was connected under this number"),
        Some(&to) => match node.down.get(&to) {
            Some(why) => gone(why),
            None if node.closed.contains(&to) => gone("this side said goodbye"),
            None => Ok(to),
        },
    }
}

/// Decides, by room and by chance, whether a message is refused.
fn refuse(state: &mut State, me: usize, to: usize, len: usize) -> Option<SendError> {
    let (messages, bytes, chance) =
        (state.config.queue_messages, state.config.queue_bytes, state.config.full_per_mille);
    let by_chance = state.rng.chance(chance);
    let link = state.link(me, to);
    let room = link.items.is_empty() || (link.items.len() < messages && link.bytes + len <= bytes);
    if room && !by_chance && !link.refused {
        return None;
    }
    (link.refused, link.refused_len) = (true, len);
    state.relieve(me, to);
    Some(SendError::Full)
}

/// Nobody is there and this side does not know it yet: the message is lost, and the news comes.
fn send_to_the_dead(state: &mut State, me: usize, to: usize, body: Stored) -> Sent {
    if !state.is_connected(me, to) {
        let why = Down::Unreachable(format!("endpoint {to} does not answer"));
        state.push(to, me, What::End(why));
    }
    match body {
        Stored::Lent(_, op) => {
            state.nodes[me].orphans.entry(to).or_default().push(op);
            Sent::Pending
        }
        Stored::Own(_) => Sent::Done,
    }
}

/// Lets held messages go.
fn release(state: &mut State, me: usize, to: usize) {
    let now = state.now;
    let link = state.link(me, to);
    for item in &mut link.items {
        if let What::Message(m) = &mut item.what {
            if m.held {
                m.held = false;
                item.due = item.due.max(now);
            }
        }
    }
    let mut latest = 0;
    for item in &mut link.items {
        latest = item.due.max(latest);
        item.due = latest;
    }
    link.last_due = link.last_due.max(latest);
    let times: Vec<u64> = link.items.iter().map(|item| item.due).collect();
    times.into_iter().for_each(|due| state.expect(to, due));
}

fn decode_key(key: &RegionKey) -> Option<(usize, u64)> {
    let word = |at: usize| key.bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some((usize::try_from(word(0)?).ok()?, word(8)?))
}

/// Copies part of an exposed region and, at the end, gives it back to its owner. `false`: it is gone.
pub(crate) fn copy_region(
    state: &mut State,
    owner: usize,
    id: u64,
    offset: usize,
    into: Span,
    last: bool,
) -> bool {
    let Some(region) = state.nodes[owner].regions.get(&id) else { return false };
    let bytes = memory::read(region.mem, offset..offset + into.len());
    memory::write(into, 0, &bytes);
    if last {
        if let Some(region) = state.nodes[owner].regions.remove(&id) {
            state.notify(owner, true, Notice::Completed(region.ep, region.op, Ok(())));
        }
    }
    true
}
