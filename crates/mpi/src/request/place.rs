//! Where in the program something was begun.

use std::fmt;
#[cfg(debug_assertions)]
use std::panic::Location;

/// The caller's place in a debug build; nothing in others, where it would cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    #[cfg(debug_assertions)]
    at: &'static Location<'static>,
}

impl Place {
    #[cfg_attr(debug_assertions, track_caller)]
    #[inline(always)]
    pub(crate) fn here() -> Place {
        Place {
            #[cfg(debug_assertions)]
            at: Location::caller(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(
        &self,
        #[allow(unused_variables, reason = "a release build knows no place")] f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        #[cfg(debug_assertions)]
        write!(f, ", started at {}", self.at)?;
        Ok(())
    }
}
