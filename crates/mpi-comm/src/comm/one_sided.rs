//! What windows need of the communicator that they are made on: a context for active messages.

use super::{Comm, Plane};
use mpi_p2p::{Context, ContextSpec, Error, ErrorClass, Service};
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

/// The plane that inter-communicators, which have no windows, use for collectives of their local group.
const PLANE: u32 = Plane::Near as u32;

/// One per communicator that has, or had, a window.
pub(super) struct OneSided {
    context: Arc<Context>,
    hub: Arc<dyn Any + Send + Sync>,
    numbers: AtomicU32,
}

impl Comm {
    /// The context of active messages, and what the layer above keeps with it. Made by `make` when it is
    /// first asked for: the handler of the messages, and what is kept.
    ///
    /// # Errors
    /// `Comm` for an inter-communicator.
    pub fn one_sided(
        &self,
        make: &dyn Fn() -> (Box<dyn Service>, Arc<dyn Any + Send + Sync>),
    ) -> Result<(&Arc<Context>, &Arc<dyn Any + Send + Sync>), Error> {
        if self.is_inter() {
            let error = Error::new(ErrorClass::Comm, "window", "a window needs a communicator of one group");
            return Err(self.attach(error));
        }
        if self.0.one_sided.get().is_none() {
            // As with the context of management: only one thread may ask the engine.
            let _one = self.0.core.making_context.lock().unwrap_or_else(PoisonError::into_inner);
            if self.0.one_sided.get().is_none() {
                let (service, hub) = make();
                let spec = ContextSpec {
                    id: self.0.id.id << 2 | PLANE,
                    rank: self.rank(),
                    name: self.name(),
                    peers: self.0.p2p.peers().clone(),
                };
                let context = self.0.engine.add_service(spec, service)?;
                let numbers = AtomicU32::new(0);
                let _ = self.0.one_sided.set(OneSided { context, hub, numbers });
            }
        }
        match self.0.one_sided.get() {
            Some(all) => Ok((&all.context, &all.hub)),
            None => Err(self.attach(Error::new(ErrorClass::Intern, "window", "no context"))),
        }
    }

    /// The number of the next window: all members make windows in the same order.
    pub fn next_window(&self) -> u32 {
        self.0.one_sided.get().map_or(0, |all| all.numbers.fetch_add(1, Ordering::Relaxed) & 0x3FFF_FFFF)
    }
}
