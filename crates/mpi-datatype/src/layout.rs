//! The committed form of a type map: a few classes of pieces, merged where they touch.
//!
//! A type map is a sequence of (primitive, displacement). Here it is a tree over that sequence
//! in which a leaf is a block of touching bytes, a `Repeat` is blocks (or anything) at a
//! constant stride, and a `List` is the general case. The order of the sequence, and so of packed
//! data, is never changed. The size of the tree does not depend on counts, so a vector of 2^40
//! elements costs what one of two costs. (The idea is that of dataloops: Ross, Miller, Gropp,
//! "Implementing fast and reusable datatype processing", 2003.)

use crate::Primitive;
use std::sync::Arc;

/// Payloads are little-endian on the wire: this host swaps.
pub(crate) const SWAPS: bool = cfg!(target_endian = "big");

/// What the bytes of a block are, as far as moving them is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    /// Bytes swapped as one on a host of the other byte order.
    pub unit: u8,
    /// Whether every bit pattern is a value.
    pub check: Check,
}

/// Values that must be looked at before Rust may see them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    Nothing,
    Bool,
    Char,
    /// A field-less enum; the block's unit is its width.
    OneOf(&'static Values),
}

/// The values that a field-less enum has, as the bits of its representation.
#[derive(PartialEq, Eq, Debug)]
pub struct Values {
    /// Name of the enum, for errors.
    pub name: &'static str,
    /// At least one.
    pub bits: &'static [u64],
}

impl Kind {
    pub const fn of(p: Primitive) -> Kind {
        let check = match p {
            Primitive::Bool => Check::Bool,
            Primitive::Char => Check::Char,
            _ => Check::Nothing,
        };
        Kind { unit: p.unit() as u8, check }
    }
    fn merges(self, other: Kind, swaps: bool) -> bool {
        self.check == other.check && (!swaps || self.unit == other.unit)
    }
}

/// A part of a type map, its displacements counted from where it is placed.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Bytes of data.
    pub size: usize,
    pub node: Node,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Touching bytes.
    Block(Kind),
    /// The body `count` times (at least twice), `stride` bytes apart.
    Repeat { count: usize, stride: isize, body: Arc<Piece> },
    /// Pieces one after the other in the sequence (at least two).
    List(Arc<[Placed]>),
}

/// A piece and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Displacement in bytes.
    pub offset: isize,
    /// Bytes of data before it in its list.
    pub start: usize,
    pub piece: Piece,
}

/// Receives the blocks of a walk, in the order of the type map.
pub(crate) trait Visit {
    /// `count` whole blocks of `len` bytes, `stride` bytes apart, the first at `offset`.
    fn blocks(&mut self, offset: isize, stride: isize, count: usize, len: usize, kind: Kind);
    /// Bytes `skip .. skip + len` of the block at `offset`.
    fn part(&mut self, offset: isize, skip: usize, len: usize, kind: Kind);
    /// `count` times all blocks of a list that has only blocks, `stride` bytes apart: an array of structs.
    fn structs(&mut self, offset: isize, stride: isize, count: usize, list: &[Placed]) {
        each_block(self, offset, stride, count, list);
    }
}

/// [`Visit::structs`], block by block.
pub(crate) fn each_block(
    visit: &mut (impl Visit + ?Sized),
    offset: isize,
    stride: isize,
    count: usize,
    list: &[Placed],
) {
    for i in 0..count as isize {
        for placed in list {
            if let Node::Block(kind) = placed.piece.node {
                let at = offset.wrapping_add(stride.wrapping_mul(i)).wrapping_add(placed.offset);
                visit.blocks(at, 0, 1, placed.piece.size, kind);
            }
        }
    }
}

impl Piece {
    pub const fn block(size: usize, kind: Kind) -> Piece {
        Piece { size, node: Node::Block(kind) }
    }

    /// Walks bytes `from .. to` (`from <= to <= size`) of the piece placed at `offset`.
    pub fn walk(&self, offset: isize, from: usize, to: usize, visit: &mut impl Visit) {
        if from == to {
            return;
        }
        match &self.node {
            Node::Block(kind) => visit.part(offset, from, to - from, *kind),
            Node::Repeat { stride, body, .. } => walk_repeat(body, *stride, offset, from, to, visit),
            Node::List(list) => {
                let first = list.partition_point(|p| p.start + p.piece.size <= from);
                for placed in &list[first..] {
                    if placed.start >= to {
                        break;
                    }
                    let begin = from.saturating_sub(placed.start);
                    let end = (to - placed.start).min(placed.piece.size);
                    let at = offset.wrapping_add(placed.offset);
                    match placed.piece.node {
                        Node::Block(kind) if begin == 0 && end == placed.piece.size => {
                            visit.blocks(at, 0, 1, end, kind);
                        }
                        _ => placed.piece.walk(at, begin, end, visit),
                    }
                }
            }
        }
    }

    /// True when some block is to be checked for values.
    pub fn checks(&self) -> bool {
        match &self.node {
            Node::Block(kind) => kind.check != Check::Nothing,
            Node::Repeat { body, .. } => body.checks(),
            Node::List(list) => list.iter().any(|p| p.piece.checks()),
        }
    }
}

/// Walks bytes `from .. to` of `body` repeated at `stride`. Also serves the elements of a buffer,
/// which are a repeat that is never stored.
pub(crate) fn walk_repeat(
    body: &Piece,
    stride: isize,
    offset: isize,
    from: usize,
    to: usize,
    visit: &mut impl Visit,
) {
    if from == to {
        return;
    }
    let place = |i: usize| offset.wrapping_add(stride.wrapping_mul(i as isize));
    let (mut i, skip) = (from / body.size, from % body.size);
    let (end, rest) = (to / body.size, to % body.size);
    if i == end {
        return body.walk(place(i), skip, rest, visit);
    }
    if skip > 0 {
        body.walk(place(i), skip, body.size, visit);
        i += 1;
    }
    match &body.node {
        _ if i == end => {}
        Node::Block(kind) => visit.blocks(place(i), stride, end - i, body.size, *kind),
        Node::List(list) if list.iter().all(|p| matches!(p.piece.node, Node::Block(_))) => {
            visit.structs(place(i), stride, end - i, list);
        }
        _ => (i..end).for_each(|k| body.walk(place(k), 0, body.size, visit)),
    }
    body.walk(place(end), 0, rest, visit);
}

impl Placed {
    pub fn new(offset: isize, piece: Piece) -> Placed {
        Placed { offset, start: 0, piece }
    }

    pub const EMPTY: Placed =
        Placed { offset: 0, start: 0, piece: Piece::block(0, Kind { unit: 1, check: Check::Nothing }) };

    /// `count` times this, `stride` bytes apart. The caller has checked that everything fits.
    pub fn repeat(&self, count: usize, stride: isize, swaps: bool) -> Placed {
        if count == 0 || self.piece.size == 0 {
            return Placed::EMPTY;
        }
        if count == 1 {
            return self.clone();
        }
        let size = self.piece.size * count;
        let node = match &self.piece.node {
            Node::Block(kind) if stride == self.piece.size as isize && kind.merges(*kind, swaps) => {
                Node::Block(*kind)
            }
            Node::Repeat { count: inner, stride: step, body }
                if step.checked_mul(*inner as isize) == Some(stride) =>
            {
                Node::Repeat { count: inner * count, stride: *step, body: body.clone() }
            }
            _ => Node::Repeat { count, stride, body: Arc::new(self.piece.clone()) },
        };
        Placed { offset: self.offset, start: 0, piece: Piece { size, node } }
    }

    /// All of `parts` in a row, merged where they touch, and as a `Repeat` where they are regular.
    pub fn list(parts: impl IntoIterator<Item = Placed>, swaps: bool) -> Placed {
        let mut flat: Vec<Placed> = Vec::new();
        for part in parts {
            match &part.piece.node {
                Node::List(inner) => {
                    for p in inner.iter() {
                        append(&mut flat, part.offset.wrapping_add(p.offset), p.piece.clone(), swaps);
                    }
                }
                _ => append(&mut flat, part.offset, part.piece, swaps),
            }
        }
        if let Some(one) = regular(&flat) {
            return one;
        }
        match flat.len() {
            0 => Placed::EMPTY,
            1 => Placed { start: 0, ..flat.swap_remove(0) },
            _ => {
                let mut size = 0;
                for p in &mut flat {
                    p.start = size;
                    size += p.piece.size;
                }
                Placed::new(0, Piece { size, node: Node::List(flat.into()) })
            }
        }
    }
}

fn append(flat: &mut Vec<Placed>, offset: isize, piece: Piece, swaps: bool) {
    if piece.size == 0 {
        return;
    }
    if let (Some(last), Node::Block(kind)) = (flat.last_mut(), &piece.node) {
        if let Node::Block(before) = last.piece.node {
            if before.merges(*kind, swaps) && last.offset.wrapping_add(last.piece.size as isize) == offset {
                last.piece.size += piece.size;
                return;
            }
        }
    }
    flat.push(Placed::new(offset, piece));
}

/// Equal blocks at a constant stride, as indexed types often are.
fn regular(flat: &[Placed]) -> Option<Placed> {
    let [first, second, ..] = flat else { return None };
    let Node::Block(kind) = first.piece.node else { return None };
    let stride = second.offset.checked_sub(first.offset)?;
    let same =
        |p: &Placed| p.piece.size == first.piece.size && matches!(p.piece.node, Node::Block(k) if k == kind);
    let even = |w: &[Placed]| w[1].offset.checked_sub(w[0].offset) == Some(stride);
    if !flat.iter().all(same) || !flat.windows(2).all(even) {
        return None;
    }
    let node = Node::Repeat { count: flat.len(), stride, body: Arc::new(first.piece.clone()) };
    Some(Placed::new(first.offset, Piece { size: first.piece.size * flat.len(), node }))
}

/// The layout of a predefined type.
pub(crate) fn of_primitive(p: Primitive, swaps: bool) -> Placed {
    match p.pair() {
        None => Placed::new(0, Piece::block(p.size(), Kind::of(p))),
        Some((a, b, second)) => {
            let at = |offset, p: Primitive| Placed::new(offset, Piece::block(p.size(), Kind::of(p)));
            Placed::list([at(0, a), at(second as isize, b)], swaps)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: isize, size: usize) -> Placed {
        Placed::new(offset, Piece::block(size, Kind { unit: 4, check: Check::Nothing }))
    }

    #[test]
    fn classes() {
        assert!(matches!(block(0, 8).repeat(10, 8, false).piece.node, Node::Block(_)));
        assert!(matches!(block(0, 8).repeat(10, 16, false).piece.node, Node::Repeat { count: 10, .. }));
        let nested = block(0, 8).repeat(10, 16, false).repeat(5, 160, false);
        assert!(matches!(nested.piece.node, Node::Repeat { count: 50, stride: 16, .. }));
        let merged = Placed::list([block(0, 4), block(4, 4), block(12, 4)], false);
        assert!(matches!(&merged.piece.node, Node::List(l) if l.len() == 2 && l[1].start == 8));
        let even = Placed::list([block(0, 4), block(-12, 4), block(-24, 4)], false);
        assert!(matches!(even.piece.node, Node::Repeat { count: 3, stride: -12, .. }));
        let gone = Placed::list([block(0, 0), block(40, 4)], false);
        assert!(matches!(gone.piece.node, Node::Block(_)) && gone.offset == 40);
    }

    #[test]
    fn other_byte_order_keeps_units_apart() {
        let two = |swaps| {
            let byte = Placed::new(4, Piece::block(4, Kind { unit: 1, check: Check::Nothing }));
            Placed::list([block(0, 4), byte], swaps)
        };
        assert!(matches!(two(false).piece.node, Node::Block(_)));
        assert!(matches!(two(true).piece.node, Node::List(_)));
    }
}
