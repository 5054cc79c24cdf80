//! What waits to be sent on one connection.

use crate::limits::{
    GATHER_PIECES, QUEUE_BUFFER_BYTES, QUEUE_MAX_BYTES, QUEUE_MAX_PIECES, SEND_PIECE_BYTES, SPARE_BUFFERS,
};
use crate::sys::{self, Piece};
use mpi_btl::{Body, OpId, Span};
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
    /// What is left of a lent body.
    Lent { left: Span, op: OpId },
}

/// A queue of bytes in order.
#[derive(Default)]
pub(crate) struct Out {
    parts: VecDeque<Part>,
    own_bytes: usize,
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

    /// Appends a copy of memory that is lent for the length of the call.
    pub fn push_span(&mut self, span: Span, spare: &mut Spare) {
        if !span.is_empty() {
            sys::append(self.room(span.len(), spare), span);
        }
    }

    /// Appends lent memory.
    pub fn push_lent(&mut self, left: Span, op: OpId) {
        self.parts.push_back(Part::Lent { left, op });
    }

    /// Appends a message from byte `skip` of header and body on. `lend`: a lent body is not copied.
    /// True when it stays lent.
    pub fn push_message(
        &mut self,
        head: &[u8],
        body: Body<'_>,
        mut skip: usize,
        lend: bool,
        spare: &mut Spare,
    ) -> bool {
        let after = |bytes: &mut usize, len: usize| {
            let from = (*bytes).min(len);
            *bytes -= from;
            from
        };
        let from = after(&mut skip, head.len());
        self.push(&head[from..], spare);
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
                if lend && !left.is_empty() {
                    self.push_lent(left, op);
                    return true;
                }
                self.push_span(left, spare);
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
                let mut piece = match part {
                    Part::Own { buffer, at } => Piece::out(&buffer[*at..]),
                    Part::Lent { left, .. } => Piece::lent(*left),
                };
                piece.cut(0, SEND_PIECE_BYTES - total);
                total += piece.len();
                pieces[count] = piece;
                count += 1;
                if total == SEND_PIECE_BYTES {
                    break;
                }
            }
            match sys::send(socket, &pieces[..count]) {
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
                Part::Lent { op, .. } => ops.push(op),
            }
        }
        self.own_bytes = 0;
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
            let len = match front {
                Part::Own { buffer, at } => buffer.len() - *at,
                Part::Lent { left, .. } => left.len(),
            };
            if sent < len {
                match front {
                    Part::Own { at, .. } => {
                        *at += sent;
                        self.own_bytes -= sent;
                    }
                    Part::Lent { left, .. } => *left = left.after(sent),
                }
                return;
            }
            sent -= len;
            match self.parts.pop_front() {
                Some(Part::Own { buffer, .. }) => {
                    self.own_bytes -= len;
                    spare.give(buffer);
                }
                Some(Part::Lent { op, .. }) => done.push(op),
                None => {}
            }
        }
    }
}
