//! The datatype handle and what can be asked of it.

use crate::layout::{Node, Piece, Placed, SWAPS, of_primitive};
use crate::signature::Sequence;
use crate::{Constructor, Primitive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

/// An MPI datatype: a type map with bounds. Cheap to clone; a predefined one is a plain value.
///
/// Two handles of a derived type share its name and its committed mark, as two copies of an
/// `MPI_Datatype` do. Clones are independent owners: a type lives as long as any of them, or any
/// type or operation built on it.
#[derive(Clone, Debug)]
pub enum Datatype {
    /// One of the predefined types.
    Predefined(Primitive),
    /// Made by a constructor.
    Derived(Arc<Derived>),
}

/// A type made by a constructor. Opaque; see [`Datatype`].
#[derive(Debug)]
pub struct Derived {
    pub(crate) bounds: Bounds,
    pub(crate) size: usize,
    pub(crate) placed: Placed,
    pub(crate) sequence: Sequence,
    pub(crate) signature: u32,
    /// n elements are n × size bytes from displacement 0, without gaps.
    pub(crate) dense: bool,
    /// Dense, and the same bytes on the wire.
    pub(crate) contiguous: bool,
    pub(crate) checks: bool,
    pub(crate) levels: usize,
    pub(crate) constructor: Constructor,
    pub(crate) committed: AtomicBool,
    pub(crate) name: RwLock<Option<String>>,
}

/// Where a type begins and ends. Bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub lb: isize,
    pub ub: isize,
    /// Smallest displacement of data, and the end of the last.
    pub true_lb: isize,
    pub true_ub: isize,
    /// The bound was set by `resized`; such bounds override natural ones (MPI 5.0, 5.1.7).
    pub lb_set: bool,
    pub ub_set: bool,
    pub alignment: usize,
}

/// Layouts of the predefined types, in the order of [`Primitive::ALL`].
static LAYOUTS: LazyLock<[Placed; Primitive::ALL.len()]> =
    LazyLock::new(|| Primitive::ALL.map(|p| of_primitive(p, SWAPS)));

impl Datatype {
    /// A predefined type.
    #[inline]
    pub const fn predefined(p: Primitive) -> Datatype {
        Datatype::Predefined(p)
    }

    /// The primitive, for a predefined type.
    #[inline]
    pub const fn as_primitive(&self) -> Option<Primitive> {
        match self {
            Datatype::Predefined(p) => Some(*p),
            Datatype::Derived(_) => None,
        }
    }

    /// The one primitive that every entry of the type map is. Pair types count as one entry only where they
    /// are predefined.
    pub fn homogeneous(&self) -> Option<Primitive> {
        match self {
            Datatype::Predefined(p) => Some(*p),
            Datatype::Derived(d) => d.sequence.homogeneous(),
        }
    }

    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> usize {
        match self {
            Datatype::Predefined(p) => p.size(),
            Datatype::Derived(d) => d.size,
        }
    }

    /// Bytes from one element to the next; may be negative or zero.
    #[inline]
    pub fn extent(&self) -> isize {
        match self {
            Datatype::Predefined(p) => p.extent() as isize,
            Datatype::Derived(d) => d.bounds.ub - d.bounds.lb,
        }
    }

    /// Lower bound in bytes.
    pub fn lb(&self) -> isize {
        self.bounds().lb
    }

    /// Displacement in bytes of the first byte of data in memory (0 without data).
    pub fn true_lb(&self) -> isize {
        self.bounds().true_lb
    }

    /// Bytes between the first and the last byte of data, both included.
    pub fn true_extent(&self) -> isize {
        let b = self.bounds();
        b.true_ub - b.true_lb
    }

    /// Strictest alignment, in bytes, of the primitives in it.
    pub fn alignment(&self) -> usize {
        self.bounds().alignment
    }

    /// True when n elements are n × [`size`](Datatype::size) bytes from displacement 0, in memory
    /// as on the wire. The fast path of everything.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        match self {
            Datatype::Predefined(p) => p.is_dense() && (!SWAPS || p.unit() == 1),
            Datatype::Derived(d) => d.contiguous,
        }
    }

    /// As [`is_contiguous`](Datatype::is_contiguous), in memory only.
    #[inline]
    pub(crate) fn is_dense(&self) -> bool {
        match self {
            Datatype::Predefined(p) => p.is_dense(),
            Datatype::Derived(d) => d.dense,
        }
    }

    /// Id of the type signature for a message header; see [`Signature`](crate::Signature).
    #[inline]
    pub fn signature(&self) -> u32 {
        match self {
            Datatype::Predefined(p) => p.signature(),
            Datatype::Derived(d) => d.signature,
        }
    }

    /// True when not every bit pattern is a value (`bool`, `char`), so that received data is to be
    /// checked: see [`RecvBuf::sanitize`](crate::RecvBuf::sanitize).
    #[inline]
    pub fn needs_validation(&self) -> bool {
        match self {
            Datatype::Predefined(p) => matches!(p, Primitive::Bool | Primitive::Char),
            Datatype::Derived(d) => d.checks,
        }
    }

    /// Makes the type ready for communication. Predefined types always are.
    pub fn commit(&self) -> Datatype {
        if let Datatype::Derived(d) = self {
            d.committed.store(true, Ordering::Release);
        }
        self.clone()
    }

    /// True after [`commit`](Datatype::commit).
    #[inline]
    pub fn is_committed(&self) -> bool {
        match self {
            Datatype::Predefined(_) => true,
            Datatype::Derived(d) => d.committed.load(Ordering::Acquire),
        }
    }

    /// How it was made (`MPI_Type_get_envelope`, `MPI_Type_get_contents`).
    pub fn constructor(&self) -> Constructor {
        match self {
            Datatype::Predefined(p) => Constructor::Named(*p),
            Datatype::Derived(d) => d.constructor.clone(),
        }
    }

    /// Its name: the one set, else one that says what it is.
    pub fn name(&self) -> String {
        match self {
            Datatype::Predefined(p) => p.name().to_owned(),
            Datatype::Derived(d) => {
                let set = d.name.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                set.unwrap_or_else(|| format!("{} of {} bytes", d.constructor.combiner(), d.size))
            }
        }
    }

    /// Names a derived type. `false`: predefined names are fixed.
    pub fn set_name(&self, name: &str) -> bool {
        match self {
            Datatype::Predefined(_) => false,
            Datatype::Derived(d) => {
                *d.name.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(name.to_owned());
                true
            }
        }
    }

    /// True for the same predefined type or two handles of one derived type.
    pub fn same(&self, other: &Datatype) -> bool {
        match (self, other) {
            (Datatype::Predefined(a), Datatype::Predefined(b)) => a == b,
            (Datatype::Derived(a), Datatype::Derived(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        match self {
            Datatype::Predefined(p) => {
                let extent = p.extent() as isize;
                let alignment = p.alignment();
                Bounds {
                    lb: 0,
                    ub: extent,
                    true_lb: 0,
                    true_ub: extent,
                    lb_set: false,
                    ub_set: false,
                    alignment,
                }
            }
            Datatype::Derived(d) => d.bounds,
        }
    }

    pub(crate) fn placed(&self) -> &Placed {
        match self {
            Datatype::Predefined(p) => &LAYOUTS[*p as usize - 1],
            Datatype::Derived(d) => &d.placed,
        }
    }

    pub(crate) fn sequence(&self) -> Sequence {
        match self {
            Datatype::Predefined(p) => Sequence::of(*p),
            Datatype::Derived(d) => d.sequence.clone(),
        }
    }

    pub(crate) fn levels(&self) -> usize {
        match self {
            Datatype::Predefined(_) => 0,
            Datatype::Derived(d) => d.levels,
        }
    }
}

impl Derived {
    pub(crate) fn new(
        bounds: Bounds,
        size: usize,
        placed: Placed,
        sequence: Sequence,
        constructor: Constructor,
    ) -> Self {
        let kind = match placed.piece {
            Piece { node: Node::Block(kind), .. } if placed.offset == 0 => Some(kind),
            _ => None,
        };
        let dense = size == 0 || (kind.is_some() && (bounds.ub - bounds.lb) as usize == size);
        let levels = 1 + constructor.children().iter().map(|d| d.levels()).max().unwrap_or(0);
        Derived {
            bounds,
            size,
            dense,
            contiguous: dense && (!SWAPS || kind.is_none_or(|k| k.unit == 1)),
            checks: placed.piece.checks(),
            signature: sequence.id(),
            placed,
            sequence,
            levels,
            constructor,
            committed: AtomicBool::new(false),
            name: RwLock::new(None),
        }
    }
}
