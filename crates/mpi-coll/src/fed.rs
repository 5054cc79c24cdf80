//! Blocking broadcast to the ranks of a node through memory that all share.
//!
//! The root *feeds* its message, piece by piece, to all others, and goes on: it waits only where somebody is many pieces
//! behind. A short message is in the line that says that it is there. A copy in and a copy out for each of the others; where
//! ranks outnumber the processors, one turn.
//!
//! The pieces of all broadcasts are counted together, by all ranks alike, and apart from the meetings of other collectives: how
//! far a root is ahead does not matter to them.

use crate::board::{self, Kind, Which};
use crate::limits::{FEED_INLINE_MAX_BYTES, FEED_LINE_BYTES};
use crate::{Root, Team, errors};
use mpi_datatype::RecvBuf;
use mpi_p2p::{Board, Engine, Error, ErrorClass, record, within};

const WHICH: Which = Which {
    name: "broadcast",
    setting: "BROADCAST",
    op: record::ops::Op::named("broadcast"),
    kind: Kind::FedBroadcast,
};

/// `None` where other algorithms serve the call; all ranks answer alike.
pub(crate) fn broadcast(
    e: &Engine,
    team: &Team,
    buf: RecvBuf<'_>,
    root: impl Into<Root>,
) -> Option<Result<(), Error>> {
    let Root::Rank(root) = root.into() else { return None };
    let bytes = buf.bytes();
    if bytes == 0 || root >= team.size() || !team.settings().stages_broadcast(team.size(), bytes) {
        return None;
    }
    let board = match board::for_stages(e, team, &WHICH, bytes)? {
        Ok(board) => board,
        Err(e) => return Some(Err(e)),
    };
    within(WHICH.name);
    let one = Fed { e, team, board, root };
    Some(if team.rank() == root { one.give(buf) } else { one.take(buf) })
}

struct Fed<'a> {
    e: &'a Engine,
    team: &'a Team,
    board: &'a Board,
    root: usize,
}

impl Fed<'_> {
    fn give(&self, buf: RecvBuf<'_>) -> Result<(), Error> {
        let (cx, data, bytes) = (self.team.context(), buf.as_send(), buf.bytes());
        let signature = buf.datatype().signature();
        let mut line = [0; FEED_LINE_BYTES];
        let (head, rest) = line.split_at_mut(HEAD_BYTES);
        head.copy_from_slice(&(bytes as u64).to_le_bytes());
        let feed = |line: &[u8], beside| {
            self.e.feed(cx, self.board, (signature, line), beside).map_err(|e| board::named(e, WHICH.name))
        };
        if bytes <= FEED_INLINE_MAX_BYTES {
            data.pack(0, rest);
            return feed(&line[..HEAD_BYTES + bytes], None).map(|_| ());
        }
        let mut from = 0;
        while from < bytes {
            let taken = feed(head, Some((data, from)))?;
            if taken == 0 {
                return Err(self.team.error(WHICH.name, ErrorClass::Other, "there is no room for a piece"));
            }
            from += taken;
        }
        Ok(())
    }

    fn take(&self, buf: RecvBuf<'_>) -> Result<(), Error> {
        let (cx, bytes) = (self.team.context(), buf.bytes());
        let (mut from, mut total) = (0, 1);
        let mut result = Ok(());
        // Also of a message that is not the expected one every piece is taken: the root's next ones stand behind.
        while from < total {
            self.e.await_piece(cx, self.board, self.root).map_err(|e| board::named(e, WHICH.name))?;
            let mut line = [0; FEED_LINE_BYTES];
            let Some((signature, _)) = self.board.fed(self.root, &mut line) else { break };
            total = u64::from_le_bytes(std::array::from_fn(|i| line[i])) as usize;
            let told = (total as u64, signature);
            let wrong = errors::check_data(self.team, WHICH.name, self.root, told, buf);
            let fits = wrong.is_ok();
            result = result.and(wrong);
            let len = match total {
                ..=FEED_INLINE_MAX_BYTES => total,
                _ => self.board.piece_bytes().min(total - from),
            };
            if fits && bytes <= FEED_INLINE_MAX_BYTES {
                buf.unpack(0, &line[HEAD_BYTES..HEAD_BYTES + bytes]);
            } else if fits {
                self.board.take_piece(self.root, len, buf, from);
            }
            self.e.done_with_piece(cx, self.board);
            from += len.max(1);
        }
        result?;
        board::moved(self.team, self.root, record::Way::Got, bytes);
        buf.sanitize(bytes).map_err(|e| self.team.datatype_error(WHICH.name, &e))
    }
}

/// Length of the message, at the beginning of each piece's line.
const HEAD_BYTES: usize = 8;
const _: () = assert!(FEED_LINE_BYTES == HEAD_BYTES + FEED_INLINE_MAX_BYTES);
