//! Whom a blocked rank waits for, so that the launcher can find who keeps whom.

use crate::codec::{DecodeError, Put, Reader};
use crate::limits::{JOB_MAX_BYTES, WAIT_PEERS_MAX, WAITS_MAX};

/// One blocked call of a rank: whose act would end it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wait {
    /// World ranks of those who could. Empty: nobody in particular, or not known.
    pub peers: Vec<u32>,
    /// Those of them that are of other worlds.
    pub foreign: Vec<Foreign>,
    /// One of them is enough (a receive from any source, a wait for any of several requests);
    /// else all have to act.
    pub any: bool,
    /// It is no blocked call: the rank asks again and again, and may do something else in between.
    pub polls: bool,
}

/// Bits of the byte in front of a wait.
const ANY: u8 = 1;
const POLLS: u8 = 2;

/// A process of another world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Foreign {
    /// Id of its job.
    pub job: String,
    /// Its rank there.
    pub rank: u32,
}

/// Appends a list of waits. What exceeds the limits is left out: a wait without peers is one of
/// which nothing is known, so nothing wrong is concluded from it.
pub(crate) fn encode(waits: &[Wait], out: &mut Vec<u8>) {
    let waits = &waits[..waits.len().min(WAITS_MAX)];
    out.put_u32(waits.len() as u32);
    for wait in waits {
        let too_many = wait.peers.len() + wait.foreign.len() > WAIT_PEERS_MAX;
        let (peers, foreign) = if too_many { (&[][..], &[][..]) } else { (&*wait.peers, &*wait.foreign) };
        out.put_u8((u8::from(wait.any) * ANY) | (u8::from(wait.polls) * POLLS));
        out.put_u32(peers.len() as u32);
        peers.iter().for_each(|peer| out.put_u32(*peer));
        out.put_u32(foreign.len() as u32);
        for peer in foreign {
            out.put_text(&peer.job, JOB_MAX_BYTES);
            out.put_u32(peer.rank);
        }
    }
}

pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Vec<Wait>, DecodeError> {
    let count = bounded(r, "waits", WAITS_MAX)?;
    let mut waits = Vec::new();
    for _ in 0..count {
        let bits = r.u8("kind of a wait")?;
        if bits & !(ANY | POLLS) != 0 {
            return Err(DecodeError::Value { what: "kind of a wait", value: bits.into() });
        }
        let (any, polls) = (bits & ANY != 0, bits & POLLS != 0);
        let peers = bounded(r, "peers of a wait", WAIT_PEERS_MAX)?;
        let peers = (0..peers).map(|_| r.u32("peer of a wait")).collect::<Result<_, _>>()?;
        let foreign = bounded(r, "foreign peers of a wait", WAIT_PEERS_MAX)?;
        let foreign = (0..foreign)
            .map(|_| Ok(Foreign { job: r.text("job", JOB_MAX_BYTES)?, rank: r.u32("peer of a wait")? }));
        let foreign = foreign.collect::<Result<_, DecodeError>>()?;
        waits.push(Wait { peers, foreign, any, polls });
    }
    Ok(waits)
}

fn bounded(r: &mut Reader<'_>, what: &'static str, limit: usize) -> Result<usize, DecodeError> {
    let length = r.u32(what)? as usize;
    if length > limit { Err(DecodeError::Limit { what, length, limit }) } else { Ok(length) }
}
