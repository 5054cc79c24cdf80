//! Every limit of this crate.

/// Deepest nesting of constructors; deeper is an error, so that no walk exhausts the stack.
pub const MAX_NESTING_LEVELS: usize = 512;

/// Longest type signature, in runs of equal primitives, that is brought to its canonical form.
/// A longer one travels as [`Signature::ANY`](crate::Signature::ANY): unchecked instead of wrong.
pub const MAX_SIGNATURE_RUNS: usize = 1 << 16;

/// Size of the piece, in bytes, in which data goes from one non-contiguous layout to another.
pub const COPY_PIECE_BYTES: usize = 4096;

/// Alignment of [`Scratch`](crate::Scratch) memory, in bytes: the strictest of all primitives, and
/// a cache line.
pub const SCRATCH_ALIGN_BYTES: usize = 64;

/// Blocks of temporary memory that a thread keeps for the next use.
pub const SCRATCH_KEPT_BLOCKS: usize = 8;

/// Bytes of temporary memory that a thread keeps for the next use.
pub const SCRATCH_KEPT_BYTES: usize = 32 << 20;

/// Blocks at least so many bytes apart are asked for ahead of their turn.
pub const PREFETCH_STRIDE_BYTES: usize = 256;

/// How many blocks ahead.
pub const PREFETCH_BLOCKS: isize = 16;
