//! What waits to be sent on one connection.

use crate::limits::{
    GATHER_PIECES, QUEUE_BUFFER_BYTES, QUEUE_MAX_BYTES, QUEUE_MAX_PIECES, SEND_PIECE_BYTES, SPARE_BUFFERS,
};
use crate::sys::{self, Piece};
use mpi_btl::{Body, OpId, Span};
use mpi_wire::HEADER_LEN;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

/// Buffers used again, so that a steady stream allocates nothing.
#[derive(Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    fn take(&mut self, at_least: usize) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.reserve(at_least.max(QUEUE_BUFFER_BYTES));
        buffer
    }
    fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARE_BUFFERS && buffer.capacity() <= 2 * QUEUE_BUFFER_BYTES {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

enum Part {
    /// Our copy, from byte `at` on.
    Own { buffer: Vec<u8>, at: usize },
    /// A header in front of a lent body, from byte `at` on: not worth a buffer.
    Head { bytes: [u8; HEADER_LEN], at: usize },
    /// What is left of a lent body.
    Lent { left: Span, op: OpId },
}

impl Part {
    fn piece(&self) -> Piece<'_> {
        match self {
            Part::Own { buffer, at } => Piece::out(&buffer[*at..]),
            Part::Head { bytes, at } => Piece::out(&bytes[*at..]),
            Part::Lent { left, .. } => Piece::lent(*left),
        }
    }

    fn skip(&mut self, bytes: usize) {
        match self {
            Part::Own { at, .. } | Part::Head { at, .. } => *at += bytes,
            Part::Lent { left, .. } => *left = left.after(bytes),
        }
    }
}

/// A queue of bytes in order.
#[derive(Default)]
pub(crate) struct Out {
    parts: VecDeque<Part>,
    /// Copied bytes, headers included.
    own_bytes: usize,
    lent_bytes: usize,
    /// A send of so many bytes was refused: the engine waits to hear that there is room.
    pub refused: Option<usize>,
}

impl Out {
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes of our own that wait.
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// All bytes that wait.
    pub fn bytes(&self) -> usize {
        self.own_bytes + self.lent_bytes
    }

    /// A message with so many bytes to be copied finds room. An empty queue takes anything.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.parts.is_empty()
            || (self.own_bytes + bytes <= QUEUE_MAX_BYTES && self.parts.len() < QUEUE_MAX_PIECES)
    }

    /// Enough has left that a refused sender should hear of it.
    pub fn is_roomy(&self) -> bool {
        self.parts.is_empty()
            || (self.own_bytes <= QUEUE_MAX_BYTES / 2
                && self.own_bytes + self.refused.unwrap_or(0) <= QUEUE_MAX_BYTES
                && self.parts.len() <= QUEUE_MAX_PIECES / 2)
    }

    /// Appends a copy.
    pub fn push(&mut self, bytes: &[u8], spare: &mut Spare) {
        if !bytes.is_empty() {
            self.room(bytes.len(), spare).extend_from_slice(bytes);
        }
    }

    /// Appends lent memory.
    pub fn push_lent(&mut self, left: Span, op: OpId) {
        self.lent_bytes += left.len();
        self.parts.push_back(Part::Lent { left, op });
    }

    /// Appends the header of a lent body.
    fn push_head(&mut self, head: &[u8; HEADER_LEN], at: usize) {
        if at < HEADER_LEN {
            self.own_bytes += HEADER_LEN - at;
            self.parts.push_back(Part::Head { bytes: *head, at });
        }
    }

    /// Appends a message from byte `skip` of header and body on.
    /// True when its body stays lent.
    pub fn push_message(
        &mut self,
        head: &[u8; HEADER_LEN],
        body: Body<'_>,
        mut skip: usize,
        spare: &mut Spare,
    ) -> bool {
        let after = |bytes: &mut usize, len: usize| {
            let from = (*bytes).min(len);
            *bytes -= from;
            from
        };
        let from = after(&mut skip, head.len());
        if matches!(body, Body::Lent(..)) {
            self.push_head(head, from);
        } else {
            self.push(&head[from..], spare);
        }
        match body {
            Body::Bytes(a) => {
                let from = after(&mut skip, a.len());
                self.push(&a[from..], spare);
            }
            Body::Two(a, b) => {
                let from = after(&mut skip, a.len());
                self.push(&a[from..], spare);
                let from = after(&mut skip, b.len());
                self.push(&b[from..], spare);
            }
            Body::Lent(span, op) => {
                let left = span.after(after(&mut skip, span.len()));
                if !left.is_empty() {
                    self.push_lent(left, op);
                    return true;
                }
            }
        }
        false
    }

    /// Sends until the queue is empty (`true`) or the socket takes no more. Lent bodies that left
    /// are appended to `done`.
    pub fn drain(
        &mut self,
        socket: BorrowedFd<'_>,
        done: &mut Vec<OpId>,
        spare: &mut Spare,
    ) -> io::Result<bool> {
        while !self.parts.is_empty() {
            let mut pieces = [Piece::EMPTY; GATHER_PIECES];
            let (mut count, mut total) = (0, 0);
            for part in self.parts.iter().take(GATHER_PIECES) {
                let mut piece = part.piece();
                piece.cut(0, SEND_PIECE_BYTES - total);
                total += piece.len();
                pieces[count] = piece;
                count += 1;
                if total == SEND_PIECE_BYTES {
                    break;
                }
            }
            // A lone buffer, which is what a few small messages are, goes by the shorter call.
            let sent = match (self.parts.front(), count) {
                (Some(Part::Own { buffer, at }), 1) => sys::send_one(socket, &buffer[*at..*at + total]),
                _ => sys::send(socket, &pieces[..count]),
            };
            match sent {
                Ok(sent) => {
                    self.advance(sent, done, spare);
                    if sent < total {
                        return Ok(false);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Throws everything away; the operations whose memory was lent.
    pub fn abandon(&mut self, spare: &mut Spare) -> Vec<OpId> {
        let mut ops = Vec::new();
        for part in self.parts.drain(..) {
            match part {
                Part::Own { buffer, .. } => spare.give(buffer),
                Part::Head { .. } => {}
                Part::Lent { op, .. } => ops.push(op),
            }
        }
        (self.own_bytes, self.lent_bytes) = (0, 0);
        ops
    }

    /// The buffer at the end, with room for `more` bytes, which are counted as waiting.
    fn room(&mut self, more: usize, spare: &mut Spare) -> &mut Vec<u8> {
        self.own_bytes += more;
        let fits = match self.parts.back() {
            Some(Part::Own { buffer, .. }) => buffer.capacity() - buffer.len() >= more,
            _ => false,
        };
        if !fits {
            self.parts.push_back(Part::Own { buffer: spare.take(more), at: 0 });
        }
        match self.parts.back_mut() {
            Some(Part::Own { buffer, .. }) => buffer,
            _ => unreachable!("a buffer was just put there"),
        }
    }

    fn advance(&mut self, mut sent: usize, done: &mut Vec<OpId>, spare: &mut Spare) {
        while let Some(front) = self.parts.front_mut() {
            let len = front.piece().len();
            let gone = sent.min(len);
            match front {
                Part::Lent { .. } => self.lent_bytes -= gone,
                Part::Own { .. } | Part::Head { .. } => self.own_bytes -= gone,
            }
            if sent < len {
                front.skip(sent);
                return;
            }
            sent -= len;
            match self.parts.pop_front() {
                Some(Part::Own { buffer, .. }) => spare.give(buffer),
                Some(Part::Lent { op, .. }) => done.push(op),
                Some(Part::Head { .. }) | None => {}
            }
        }
    }
}
