//! Contexts by number, each with its two matching queues.

use crate::context::Face;
use crate::failure::{Aside, Fate};
use crate::limits::CONTEXT_MAX;
use crate::matching::{Posted, Unexpected};
use crate::service::Service;
use std::sync::Arc;

/// One context.
pub(crate) struct Lane {
    /// `None` while the context is not known here yet: its messages wait in `early`.
    pub face: Option<Arc<Face>>,
    pub posted: Posted,
    pub unexpected: Unexpected,
    /// Messages, by place in the store, that came before the context was made.
    pub early: Vec<u32>,
    /// Dropped by its owner, receives still posted.
    pub closing: bool,
    /// Its messages go here instead of to receives.
    pub service: Option<Box<dyn Service>>,
    /// What keeps it from being used as ever.
    pub fate: Option<Box<Fate>>,
    /// What goes beside it.
    pub aside: Option<Box<Aside>>,
}

impl Lane {
    fn new() -> Lane {
        Lane {
            face: None,
            posted: Posted::new(),
            unexpected: Unexpected::new(),
            early: Vec::new(),
            closing: false,
            service: None,
            fate: None,
            aside: None,
        }
    }
}

/// All contexts. Numbers are small agreed integers, so this is a plain table.
#[derive(Default)]
pub(crate) struct Lanes(Vec<Option<Box<Lane>>>);

impl Lanes {
    #[inline]
    pub fn get(&self, context: u32) -> Option<&Lane> {
        self.0.get(context as usize)?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, context: u32) -> Option<&mut Lane> {
        self.0.get_mut(context as usize)?.as_deref_mut()
    }

    /// The lane of a number, made if need be; `None` for a number that no context may have.
    pub fn make(&mut self, context: u32) -> Option<&mut Lane> {
        if context >= CONTEXT_MAX {
            return None;
        }
        let i = context as usize;
        if i >= self.0.len() {
            self.0.resize_with(i + 1, || None);
        }
        Some(self.0[i].get_or_insert_with(|| Box::new(Lane::new())))
    }

    pub fn remove(&mut self, context: u32) -> Option<Box<Lane>> {
        self.0.get_mut(context as usize)?.take()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.0.iter().enumerate().filter_map(|(i, l)| Some((i as u32, l.as_deref()?)))
    }
}
