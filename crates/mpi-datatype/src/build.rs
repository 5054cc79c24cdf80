//! The constructors. Arithmetic is done in 128 bits and fitted at the end, so no product of counts,
//! strides and extents overflows.

use crate::constructor::Constructor;
use crate::datatype::{Bounds, Derived};
use crate::layout::{Check, Kind, Piece, Placed, SWAPS, Values};
use crate::limits::MAX_NESTING_LEVELS;
use crate::signature::Sequence;
use crate::{Datatype, DatatypeError, Primitive};
use std::sync::Arc;

type Result<T> = std::result::Result<T, DatatypeError>;

impl Datatype {
    /// `count` elements in a row (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// Sizes that overflow; nesting too deep. The same holds for all constructors.
    pub fn contiguous(count: usize, of: &Datatype) -> Result<Datatype> {
        let part = Part { block: count, displacement: 0, of };
        build(&[part], Constructor::Contiguous { count, of: of.clone() })
    }

    /// `count` blocks of `block` elements, `stride` extents apart (`MPI_Type_vector`).
    ///
    /// # Errors
    /// See [`contiguous`](Datatype::contiguous).
    pub fn vector(count: usize, block: usize, stride: isize, of: &Datatype) -> Result<Datatype> {
        let bytes = fit(stride as i128 * of.extent() as i128, "stride of a vector")?;
        strided(count, block, bytes, of, Constructor::Vector { count, block, stride, of: of.clone() })
    }

    /// `count` blocks of `block` elements, `stride` bytes apart (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// See [`contiguous`](Datatype::contiguous).
    pub fn hvector(count: usize, block: usize, stride: isize, of: &Datatype) -> Result<Datatype> {
        strided(count, block, stride, of, Constructor::Hvector { count, block, stride, of: of.clone() })
    }

    /// Blocks of `blocks[i]` elements at `displacements[i]` extents (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// Arrays of different lengths, and see [`contiguous`](Datatype::contiguous).
    pub fn indexed(blocks: &[usize], displacements: &[isize], of: &Datatype) -> Result<Datatype> {
        same_length("indexed", blocks.len(), "blocks", displacements.len())?;
        let bytes = in_bytes(displacements, of)?;
        let made = Constructor::Indexed {
            blocks: blocks.to_vec(),
            displacements: displacements.to_vec(),
            of: of.clone(),
        };
        build(&parts(blocks.iter().copied(), &bytes, of), made)
    }

    /// Blocks of `blocks[i]` elements at `displacements[i]` bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// See [`indexed`](Datatype::indexed).
    pub fn hindexed(blocks: &[usize], displacements: &[isize], of: &Datatype) -> Result<Datatype> {
        same_length("hindexed", blocks.len(), "blocks", displacements.len())?;
        let made = Constructor::Hindexed {
            blocks: blocks.to_vec(),
            displacements: displacements.to_vec(),
            of: of.clone(),
        };
        build(&parts(blocks.iter().copied(), displacements, of), made)
    }

    /// Blocks of `block` elements at `displacements[i]` extents (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// See [`contiguous`](Datatype::contiguous).
    pub fn indexed_block(block: usize, displacements: &[isize], of: &Datatype) -> Result<Datatype> {
        let bytes = in_bytes(displacements, of)?;
        let made = Constructor::IndexedBlock { block, displacements: displacements.to_vec(), of: of.clone() };
        build(&parts(std::iter::repeat_n(block, bytes.len()), &bytes, of), made)
    }

    /// Blocks of `block` elements at `displacements[i]` bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// See [`contiguous`](Datatype::contiguous).
    pub fn hindexed_block(block: usize, displacements: &[isize], of: &Datatype) -> Result<Datatype> {
        let made =
            Constructor::HindexedBlock { block, displacements: displacements.to_vec(), of: of.clone() };
        build(&parts(std::iter::repeat_n(block, displacements.len()), displacements, of), made)
    }

    /// Blocks of `blocks[i]` elements of `of[i]` at `displacements[i]` bytes (`MPI_Type_create_struct`).
    /// The extent is rounded up to the strictest alignment, unless a bound was set by `resized`.
    ///
    /// # Errors
    /// See [`indexed`](Datatype::indexed).
    pub fn structured(blocks: &[usize], displacements: &[isize], of: &[Datatype]) -> Result<Datatype> {
        same_length("struct", blocks.len(), "blocks", displacements.len())?;
        same_length("struct", of.len(), "types", displacements.len())?;
        let parts: Vec<Part<'_>> = (0..of.len())
            .map(|i| Part { block: blocks[i], displacement: displacements[i], of: &of[i] })
            .collect();
        let made = Constructor::Struct {
            blocks: blocks.to_vec(),
            displacements: displacements.to_vec(),
            of: of.to_vec(),
        };
        build(&parts, made)
    }

    /// The same type map with other bounds (`MPI_Type_create_resized`). Bytes.
    ///
    /// # Errors
    /// See [`contiguous`](Datatype::contiguous).
    pub fn resized(of: &Datatype, lb: isize, extent: isize) -> Result<Datatype> {
        let ub = fit(lb as i128 + extent as i128, "upper bound")?;
        let bounds = Bounds { lb, ub, lb_set: true, ub_set: true, ..of.bounds() };
        finish(bounds, of, Constructor::Resized { lb, extent, of: of.clone() })
    }

    /// A primitive integer of which only some values may be received: a field-less enum of Rust. On the wire it is
    /// the integer. Received data is checked as for `bool`; a wrong value is replaced by the first right one.
    ///
    /// # Errors
    /// A primitive that is no integer, or no values.
    pub fn one_of(integer: Primitive, values: &'static Values) -> Result<Datatype> {
        use Primitive::{I8, I16, I32, I64, U8, U16, U32, U64};
        if !matches!(integer, I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64) || values.bits.is_empty() {
            let detail =
                format!("{} of {} values of type {}", values.name, values.bits.len(), integer.name());
            return Err(DatatypeError::Argument { what: "enum", detail });
        }
        let of = Datatype::predefined(integer);
        let kind = Kind { unit: integer.size() as u8, check: Check::OneOf(values) };
        let placed = Placed::new(0, Piece::block(integer.size(), kind));
        let derived = Derived::new(of.bounds(), of.size(), placed, of.sequence(), Constructor::Dup(of));
        Ok(Datatype::Derived(Arc::new(derived)))
    }

    /// A new handle with its own name and committed mark (`MPI_Type_dup`).
    ///
    /// # Errors
    /// Nesting too deep.
    pub fn dup(of: &Datatype) -> Result<Datatype> {
        let new = finish(of.bounds(), of, Constructor::Dup(of.clone()))?;
        Ok(if of.is_committed() { new.commit() } else { new })
    }
}

/// `block` elements of `of` at `displacement` bytes.
pub(crate) struct Part<'a> {
    pub block: usize,
    pub displacement: isize,
    pub of: &'a Datatype,
}

/// A type that is another one with other bounds.
pub(crate) fn finish(bounds: Bounds, of: &Datatype, made: Constructor) -> Result<Datatype> {
    let derived = Derived::new(bounds, of.size(), of.placed().clone(), of.sequence(), made);
    Ok(Datatype::Derived(Arc::new(nested(derived)?)))
}

/// A type of parts in a row.
pub(crate) fn build(parts: &[Part<'_>], made: Constructor) -> Result<Datatype> {
    let mut size = 0u128;
    let mut gather = Gather::default();
    for part in parts {
        size += part.block as u128 * part.of.size() as u128;
        gather.add(part.displacement as i128, part.block, part.of.extent() as i128, &part.of.bounds());
        if size > isize::MAX as u128 {
            return Err(DatatypeError::Overflow { what: "size of a datatype" });
        }
    }
    let bounds = gather.bounds(matches!(made, Constructor::Struct { .. }))?;
    let placed = Placed::list(
        parts.iter().map(|part| {
            let run = part.of.placed().repeat(part.block, part.of.extent(), SWAPS);
            Placed { offset: run.offset.wrapping_add(part.displacement), ..run }
        }),
        SWAPS,
    );
    let sequences: Vec<Sequence> = parts.iter().map(|p| p.of.sequence().repeat(p.block)).collect();
    let derived = Derived::new(bounds, size as usize, placed, Sequence::concat(&sequences), made);
    Ok(Datatype::Derived(Arc::new(nested(derived)?)))
}

/// `count` blocks `stride` bytes apart, without listing them.
fn strided(count: usize, block: usize, stride: isize, of: &Datatype, made: Constructor) -> Result<Datatype> {
    let size = (count as u128).checked_mul(block as u128).and_then(|n| n.checked_mul(of.size() as u128));
    let size = match size {
        Some(size) if size <= isize::MAX as u128 => size as usize,
        _ => return Err(DatatypeError::Overflow { what: "size of a datatype" }),
    };
    let mut one = Gather::default();
    one.add(0, block, of.extent() as i128, &of.bounds());
    let mut all = Gather::default();
    if one.any {
        all.add(0, count, stride as i128, &one.bounds(false)?);
    }
    let run = of.placed().repeat(block, of.extent(), SWAPS);
    let placed = Placed::list([run.repeat(count, stride, SWAPS)], SWAPS);
    let sequence = of.sequence().repeat(block).repeat(count);
    let derived = Derived::new(all.bounds(false)?, size, placed, sequence, made);
    Ok(Datatype::Derived(Arc::new(nested(derived)?)))
}

fn nested(derived: Derived) -> Result<Derived> {
    match derived.levels {
        levels if levels > MAX_NESTING_LEVELS => {
            Err(DatatypeError::Nesting { levels, limit: MAX_NESTING_LEVELS })
        }
        _ => Ok(derived),
    }
}

fn parts<'a>(
    blocks: impl Iterator<Item = usize>,
    displacements: &[isize],
    of: &'a Datatype,
) -> Vec<Part<'a>> {
    blocks.zip(displacements).map(|(block, &displacement)| Part { block, displacement, of }).collect()
}

fn in_bytes(displacements: &[isize], of: &Datatype) -> Result<Vec<isize>> {
    let extent = of.extent() as i128;
    displacements.iter().map(|d| fit(*d as i128 * extent, "displacement")).collect()
}

fn same_length(what: &'static str, left: usize, left_name: &'static str, right: usize) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(DatatypeError::Lengths { what, left, left_name, right, right_name: "displacements" })
}

pub(crate) fn fit(value: i128, what: &'static str) -> Result<isize> {
    // Half the range on either side, so that differences of two fitted values fit as well.
    if value.unsigned_abs() <= (isize::MAX / 2) as u128 {
        Ok(value as isize)
    } else {
        Err(DatatypeError::Overflow { what })
    }
}

/// Collects bounds of parts.
#[derive(Default)]
struct Gather {
    any: bool,
    lb: i128,
    ub: i128,
    data: bool,
    true_lb: i128,
    true_ub: i128,
    lb_set: bool,
    ub_set: bool,
    alignment: usize,
}

impl Gather {
    /// `count` times something of bounds `b`, `stride` bytes apart from `at`.
    fn add(&mut self, at: i128, count: usize, stride: i128, b: &Bounds) {
        let empty = b.true_lb == b.true_ub && !b.lb_set && !b.ub_set;
        if count == 0 || empty {
            return;
        }
        // Saturating: what saturates is far outside of what `fit` lets pass.
        let last = (count as i128 - 1).saturating_mul(stride);
        let (low, high) = (at.saturating_add(last.min(0)), at.saturating_add(last.max(0)));
        let (lb, ub) = (low.saturating_add(b.lb as i128), high.saturating_add(b.ub as i128));
        // A bound that was set beats every natural one; among equals the outermost counts.
        if !self.any || (b.lb_set && !self.lb_set) || (b.lb_set == self.lb_set && lb < self.lb) {
            self.lb = lb;
        }
        if !self.any || (b.ub_set && !self.ub_set) || (b.ub_set == self.ub_set && ub > self.ub) {
            self.ub = ub;
        }
        self.lb_set |= b.lb_set;
        self.ub_set |= b.ub_set;
        if b.true_ub > b.true_lb {
            let (lb, ub) = (low.saturating_add(b.true_lb as i128), high.saturating_add(b.true_ub as i128));
            self.true_lb = if self.data { self.true_lb.min(lb) } else { lb };
            self.true_ub = if self.data { self.true_ub.max(ub) } else { ub };
            self.data = true;
        }
        self.alignment = self.alignment.max(b.alignment);
        self.any = true;
    }

    fn bounds(&self, pad: bool) -> Result<Bounds> {
        let alignment = self.alignment.max(1);
        let mut ub = self.ub;
        if pad && !self.ub_set && !self.lb_set {
            let over = (ub - self.lb).rem_euclid(alignment as i128);
            ub += if over == 0 { 0 } else { alignment as i128 - over };
        }
        Ok(Bounds {
            lb: fit(self.lb, "lower bound")?,
            ub: fit(ub, "upper bound")?,
            true_lb: fit(self.true_lb, "lower bound")?,
            true_ub: fit(self.true_ub, "upper bound")?,
            lb_set: self.lb_set,
            ub_set: self.ub_set,
            alignment,
        })
    }
}
