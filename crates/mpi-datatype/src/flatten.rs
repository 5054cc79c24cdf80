//! A type map as a list of strips, for whoever describes it to another process.

use crate::Datatype;
use crate::layout::{Kind, Visit};
use crate::pack::walk;

/// Equal blocks of touching bytes at a constant stride, a piece of a type map. Bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strip {
    /// Displacement of the first block.
    pub offset: isize,
    /// From one block to the next.
    pub stride: isize,
    /// Number of blocks.
    pub repeat: usize,
    /// Length of a block.
    pub bytes: usize,
    /// Bytes that are swapped as one for a host of the other byte order.
    pub unit: usize,
}

impl Datatype {
    /// The strips that bytes `from .. to` of the packed form of `count` elements stand in, in that order.
    pub fn strips(&self, count: usize, from: usize, to: usize, take: &mut dyn FnMut(Strip)) {
        let mut each = Each { take, last: None };
        walk(self, count, from, to.min(count.saturating_mul(self.size())), &mut each);
        if let Some(last) = each.last {
            (each.take)(last);
        }
    }
}

struct Each<'a> {
    take: &'a mut dyn FnMut(Strip),
    last: Option<Strip>,
}

impl Each<'_> {
    fn add(&mut self, next: Strip) {
        if let Some(last) = &mut self.last {
            if last.continues_with(&next) {
                return;
            }
            (self.take)(*last);
        }
        self.last = Some(next);
    }
}

impl Strip {
    /// Takes the next strip in, where both are one.
    fn continues_with(&mut self, next: &Strip) -> bool {
        if self.unit != next.unit || self.bytes != next.bytes {
            return false;
        }
        let step = next.offset.wrapping_sub(self.offset);
        let regular = match (self.repeat, next.repeat) {
            (1, 1) => true,
            (n, 1) => step == self.stride.wrapping_mul(n as isize),
            (1, _) => step == next.stride,
            (n, _) => next.stride == self.stride && step == self.stride.wrapping_mul(n as isize),
        };
        if regular {
            self.stride = if self.repeat > 1 { self.stride } else { step };
            self.repeat += next.repeat;
        }
        regular
    }
}

impl Visit for Each<'_> {
    fn blocks(&mut self, offset: isize, stride: isize, count: usize, len: usize, kind: Kind) {
        self.add(Strip { offset, stride, repeat: count, bytes: len, unit: usize::from(kind.unit) });
    }

    fn part(&mut self, offset: isize, skip: usize, len: usize, kind: Kind) {
        let offset = offset.wrapping_add(skip as isize);
        self.add(Strip { offset, stride: 0, repeat: 1, bytes: len, unit: usize::from(kind.unit) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Primitive;

    fn strips(d: &Datatype, count: usize, from: usize, to: usize) -> Vec<Strip> {
        let mut all = Vec::new();
        d.strips(count, from, to, &mut |s| all.push(s));
        all
    }

    #[test]
    fn vectors_are_one_strip_and_parts_of_them_few() {
        let double = Datatype::predefined(Primitive::F64);
        let all = strips(&double, 5, 0, 40);
        assert_eq!(all, [Strip { offset: 0, stride: 0, repeat: 1, bytes: 40, unit: 8 }]);
        let vector = Datatype::vector(4, 2, 5, &double).unwrap();
        let one = Strip { offset: 0, stride: 40, repeat: 4, bytes: 16, unit: 8 };
        assert_eq!(strips(&vector, 1, 0, 64), [one]);
        let cut = strips(&vector, 1, 8, 40);
        assert_eq!(cut.iter().map(|s| s.bytes * s.repeat).sum::<usize>(), 32);
        assert_eq!((cut[0].offset, cut[0].bytes), (8, 8));
        assert!(strips(&vector, 1, 8, 8).is_empty());
    }
}
