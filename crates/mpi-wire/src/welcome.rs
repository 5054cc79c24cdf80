//! What a rank learns at its start.

use crate::codec::{DecodeError, Put, Reader};
use crate::limits::{JOB_MAX_BYTES, TEXT_MAX_BYTES};
#[cfg(doc)]
use crate::startup::STARTUP_VERSION;

/// Everything that a rank learns at its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Welcome {
    /// The launcher's [`STARTUP_VERSION`].
    pub version: u32,
    /// Id of the job.
    pub job: String,
    /// The job's secret.
    pub secret: [u8; 32],
    /// Rank of the process in its world.
    pub rank: u32,
    /// Processes in the world.
    pub size: u32,
    /// Name of the host, for people.
    pub host: String,
    /// Slot in the node segment.
    pub node_slot: Option<u32>,
    /// Ranks of the world on this node.
    pub node_size: u32,
    /// Processors that the ranks of this node may use together.
    pub node_processors: u32,
    /// Processors that this rank was given.
    pub own_processors: u32,
    /// Several hosts are in the job.
    pub multihost: bool,
    /// Number of the program in an MPMD job.
    pub appnum: Option<i32>,
    /// Processes that the launcher believes could run.
    pub universe_size: Option<u32>,
    /// Port of the parent, in a spawned world.
    pub parent: Option<String>,
}

impl Welcome {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.version);
        out.put_text(&self.job, JOB_MAX_BYTES);
        out.extend_from_slice(&self.secret);
        out.put_u32(self.rank);
        out.put_u32(self.size);
        out.put_text(&self.host, TEXT_MAX_BYTES);
        out.put_option(self.node_slot, Put::put_u32);
        out.put_u32(self.node_size);
        out.put_u32(self.node_processors);
        out.put_u32(self.own_processors);
        out.put_u8(self.multihost.into());
        out.put_option(self.appnum, |out, v| out.put_u32(v as u32));
        out.put_option(self.universe_size, Put::put_u32);
        out.put_option(self.parent.as_deref(), |out, v| out.put_text(v, TEXT_MAX_BYTES));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Welcome, DecodeError> {
        Ok(Welcome {
            version: r.u32("version")?,
            job: r.text("job", JOB_MAX_BYTES)?,
            secret: r.array("secret")?,
            rank: r.u32("rank")?,
            size: r.u32("size")?,
            host: r.text("host", TEXT_MAX_BYTES)?,
            node_slot: r.option("node slot", |r| r.u32("node slot"))?,
            node_size: r.u32("node size")?,
            node_processors: r.u32("processors of the node")?,
            own_processors: r.u32("processors of the rank")?,
            multihost: r.flag("multihost")?,
            appnum: r.option("appnum", |r| Ok(r.u32("appnum")? as i32))?,
            universe_size: r.option("universe size", |r| r.u32("universe size"))?,
            parent: r.option("parent", |r| r.text("parent", TEXT_MAX_BYTES))?,
        })
    }
}
