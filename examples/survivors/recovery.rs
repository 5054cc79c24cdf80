//! From a communicator in which somebody has died to one in which all live.

use std::process::Command;

use mpi::ext::prelude::*;
use mpi::ft::FaultTolerance;
use mpi::topology::{InterCommunicator, MergeOrder, SimpleCommunicator};
use mpi::traits::*;

const TAG_GO: i32 = 2;

/// What is done about a loss.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Those left share the work.
    Shrink,
    /// Others are started in the place of the dead.
    Respawn,
}

/// Those who live, and where that is wanted others in the place of the dead.
pub fn recover(team: &SimpleCommunicator, way: Way, size: i32) -> SimpleCommunicator {
    let mut left = team.shrink().expect("survivors agree");
    while way == Way::Respawn && left.size() < size {
        match respawn(&left, size) {
            Some(whole) => return whole,
            // Somebody has died meanwhile.
            None => left = left.shrink().expect("survivors agree"),
        }
    }
    left
}

/// Those left, and new ones behind them; nothing where one of them has died.
fn respawn(left: &SimpleCommunicator, size: i32) -> Option<SimpleCommunicator> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(std::env::args().skip(1));
    let spawned = left.process_at_rank(0).try_spawn(&command, size - left.size()).ok();
    let merged = spawned.as_ref().and_then(|inter| inter.try_merge(MergeOrder::Low).ok());
    // All of those left go on with it, or none of them does.
    let agreed = left.agree(merged.is_some().into()).expect("survivors agree");
    match merged {
        Some(whole) if agreed.flags == 1 => {
            for new in left.size()..whole.size() {
                // One that has died already is missed soon enough.
                let _ = whole.process_at_rank(new).try_send_with_tag(&1, TAG_GO);
            }
            Some(whole)
        }
        merged => {
            // The new ones may wait in either.
            merged.iter().for_each(FaultTolerance::revoke);
            spawned.iter().for_each(FaultTolerance::revoke);
            None
        }
    }
}

/// The team of one that was started in the place of another, once one of those who were left has said that they go on
/// with it. Where they do not, this process ends, and is one of the dead: nobody waits for those.
pub fn join(parent: &InterCommunicator, new: i32) -> SimpleCommunicator {
    let told = |team: &SimpleCommunicator| {
        (0..team.size() - new)
            .any(|old| team.process_at_rank(old).try_receive_with_tag::<i32>(TAG_GO).is_ok())
    };
    match parent.try_merge(MergeOrder::High).ok().filter(told) {
        Some(team) => team,
        None => std::process::exit(0),
    }
}
