//! Whom a blocked rank waits for, so that the launcher can find who keeps whom.

use crate::codec::{DecodeError, Put, Reader};
use crate::limits::{WAIT_PEERS_MAX, WAITS_MAX};

/// One blocked call of a rank: whose act would end it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wait {
    /// World ranks of those who could. Empty: nobody in particular, or not known.
    pub peers: Vec<u32>,
    /// One of them is enough (a receive from any source, a wait for any of several requests);
    /// else all have to act.
    pub any: bool,
}

/// Appends a list of waits. What exceeds the limits is left out: a wait without peers is one of
/// which nothing is known, so nothing wrong is concluded from it.
pub(crate) fn encode(waits: &[Wait], out: &mut Vec<u8>) {
    let waits = &waits[..waits.len().min(WAITS_MAX)];
    out.put_u32(waits.len() as u32);
    for wait in waits {
        let peers: &[u32] = if wait.peers.len() > WAIT_PEERS_MAX { &[] } else { &wait.peers };
        out.put_u8(wait.any.into());
        out.put_u32(peers.len() as u32);
        peers.iter().for_each(|peer| out.put_u32(*peer));
    }
}

pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Vec<Wait>, DecodeError> {
    let count = bounded(r, "waits", WAITS_MAX)?;
    let mut waits = Vec::new();
    for _ in 0..count {
        let any = r.flag("one peer is enough")?;
        let peers = bounded(r, "peers of a wait", WAIT_PEERS_MAX)?;
        let peers = (0..peers).map(|_| r.u32("peer of a wait")).collect::<Result<_, _>>()?;
        waits.push(Wait { peers, any });
    }
    Ok(waits)
}

fn bounded(r: &mut Reader<'_>, what: &'static str, limit: usize) -> Result<usize, DecodeError> {
    let length = r.u32(what)? as usize;
    if length > limit { Err(DecodeError::Limit { what, length, limit }) } else { Ok(length) }
}
