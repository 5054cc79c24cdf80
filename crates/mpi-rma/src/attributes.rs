//! Attributes: values that users hang on a window under a key (MPI 5.0, section 7.7.3). A value is one word, as on
//! communicators. Windows are never duplicated, so that there is nothing to copy.

use crate::window::Window;
use mpi_p2p::{Error, ErrorClass};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A key for attributes of windows, valid until [`free_keyval`] and the last attribute under it are gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Keyval(pub u32);

/// Told that an attribute is deleted or replaced, or that its window is freed. `Err` is the code with which that fails.
pub type DeleteCallback = Box<dyn Fn(&Window, Keyval, usize) -> Result<(), i32> + Send + Sync>;

type Callback = Option<DeleteCallback>;

/// All keys of the process. A key that was freed leaves a hole, and is not used again.
static KEYVALS: RwLock<Vec<Option<Arc<Callback>>>> = RwLock::new(Vec::new());

/// Makes a key.
pub fn create_keyval(on_delete: Option<DeleteCallback>) -> Keyval {
    let mut all = KEYVALS.write().unwrap_or_else(PoisonError::into_inner);
    all.push(Some(Arc::new(on_delete)));
    Keyval(all.len() as u32 - 1)
}

/// Frees a key. Attributes under it stay, and so does its callback for them.
///
/// # Errors
/// `Keyval` when there is no such key.
pub fn free_keyval(key: Keyval) -> Result<(), Error> {
    let mut all = KEYVALS.write().unwrap_or_else(PoisonError::into_inner);
    match all.get_mut(key.0 as usize).and_then(Option::take) {
        Some(_) => Ok(()),
        None => Err(Error::new(ErrorClass::Keyval, "free keyval", no_key(key))),
    }
}

fn callback(key: Keyval) -> Option<Arc<Callback>> {
    KEYVALS.read().unwrap_or_else(PoisonError::into_inner).get(key.0 as usize)?.clone()
}

fn no_key(key: Keyval) -> String {
    format!("there is no attribute key {} of windows", key.0)
}

/// The attributes of one window, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Attributes(Mutex<Vec<Attribute>>);

struct Attribute {
    key: Keyval,
    value: usize,
    on_delete: Arc<Callback>,
}

impl Attribute {
    fn delete(self, window: &Window, op: &'static str) -> Result<(), Error> {
        let Some(callback) = &*self.on_delete else { return Ok(()) };
        callback(window, self.key, self.value).map_err(|code| {
            let detail = format!("the delete callback of attribute key {} answered error {code}", self.key.0);
            window.0.error(ErrorClass::Other, op, None, detail)
        })
    }
}

impl Attributes {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Attribute>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: Keyval) -> Option<Attribute> {
        let mut list = self.list();
        let at = list.iter().position(|attribute| attribute.key == key)?;
        Some(list.remove(at))
    }
}

impl Window {
    /// The attribute under a key; `None` when there is none.
    ///
    /// # Errors
    /// `Keyval` when there is no such key.
    pub fn attribute(&self, key: Keyval) -> Result<Option<usize>, Error> {
        let w = self.alive("get attribute")?;
        let found = w.attributes.list().iter().find(|attribute| attribute.key == key).map(|a| a.value);
        match found.is_some() || callback(key).is_some() {
            true => Ok(found),
            false => Err(w.error(ErrorClass::Keyval, "get attribute", None, no_key(key))),
        }
    }

    /// Sets an attribute; one that was there under the key is deleted first.
    ///
    /// # Errors
    /// `Keyval` when there is no such key, `Other` when the delete callback fails.
    pub fn set_attribute(&self, key: Keyval, value: usize) -> Result<(), Error> {
        let op = "set attribute";
        let w = self.alive(op)?;
        let on_delete = callback(key).ok_or_else(|| w.error(ErrorClass::Keyval, op, None, no_key(key)))?;
        if let Some(old) = w.attributes.take(key) {
            old.delete(self, op)?;
        }
        w.attributes.list().push(Attribute { key, value, on_delete });
        Ok(())
    }

    /// Deletes an attribute.
    ///
    /// # Errors
    /// `Keyval` when there is none under the key, `Other` when the delete callback fails.
    pub fn delete_attribute(&self, key: Keyval) -> Result<(), Error> {
        let op = "delete attribute";
        let w = self.alive(op)?;
        match w.attributes.take(key) {
            Some(old) => old.delete(self, op),
            None => Err(w.error(ErrorClass::Keyval, op, None, no_key(key))),
        }
    }

    /// Deletes all, the last set first. What a callback refuses stops it.
    pub(crate) fn clear_attributes(&self) -> Result<(), Error> {
        loop {
            // One at a time: a callback may look at the others.
            let Some(last) = self.0.attributes.list().pop() else { return Ok(()) };
            last.delete(self, "free window")?;
        }
    }
}
