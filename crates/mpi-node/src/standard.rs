//! Which standard streams were closed when this process started.
//!
//! The standard library opens `/dev/null` in place of one that is closed, before `main`, so that no other
//! file gets its number; from then on nobody can tell. This looks before, and changes nothing.

use std::sync::atomic::{AtomicU8, Ordering};

/// A bit per descriptor, 0 to 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// The C library calls what stands in this section before `main` (System V ABI, initialisation functions).
#[used]
// SAFETY: the section holds pointers to functions that take what `look` takes (nothing of it is used).
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: F_GETFD touches no memory; a descriptor that is not open gives an error.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Standard output was closed when this process started.
#[must_use]
pub fn output_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) & 0b010 != 0
}
