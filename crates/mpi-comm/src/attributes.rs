//! Attributes: values that users hang on a communicator under a key (MPI 4.1 section 7.7).
//!
//! A value is one machine word, as in C; what it means, and whether it points to something, is the
//! business of whoever made the key. Callbacks run without any lock of this crate held.
//!
//! Values of a key that was made with [`create_lent_keyval`] may be looked at for as long as a handle to the
//! communicator lives. So one that is replaced or deleted is deleted at once only where nobody can still look at it,
//! and with the last handle otherwise.

use crate::Comm;
use mpi_p2p::{Error, ErrorClass};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, ThreadId};

/// A key for attributes, valid until [`free_keyval`] and the last attribute under it are gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Keyval(pub u32);

/// The value of an attribute.
pub type AttributeValue = usize;

/// What happens to an attribute when its communicator is duplicated.
pub enum OnCopy {
    /// It is not passed on (`MPI_COMM_NULL_COPY_FN`).
    Leave,
    /// The value is passed on as it is (`MPI_COMM_DUP_FN`).
    Same,
    /// The callback decides: a value to pass on, or none. `Err` is the code with which the
    /// duplication fails.
    Call(CopyCallback),
}

/// Decides what a duplicate gets: communicator that is duplicated, key, value.
pub type CopyCallback =
    Box<dyn Fn(&Comm, Keyval, AttributeValue) -> Result<Option<AttributeValue>, i32> + Send + Sync>;

/// Told that an attribute is deleted or replaced, or that its communicator is freed. `Err` is the
/// code with which that fails.
pub type DeleteCallback = Box<dyn Fn(&Comm, Keyval, AttributeValue) -> Result<(), i32> + Send + Sync>;

struct Definition {
    on_copy: OnCopy,
    on_delete: Option<DeleteCallback>,
    /// Whoever has a handle may still look at a value that was replaced or deleted.
    lent: bool,
}

/// All keys of the process. A key that was freed leaves a hole, and is not used again.
static KEYVALS: RwLock<Vec<Option<Arc<Definition>>>> = RwLock::new(Vec::new());

/// Makes a key.
pub fn create_keyval(on_copy: OnCopy, on_delete: Option<DeleteCallback>) -> Keyval {
    define(Definition { on_copy, on_delete, lent: false })
}

/// Makes a key whose values are lent to whoever has a handle, so that the callback is not called while one may still
/// look.
pub fn create_lent_keyval(on_copy: OnCopy, on_delete: DeleteCallback) -> Keyval {
    define(Definition { on_copy, on_delete: Some(on_delete), lent: true })
}

fn define(definition: Definition) -> Keyval {
    let mut all = KEYVALS.write().unwrap_or_else(PoisonError::into_inner);
    all.push(Some(Arc::new(definition)));
    Keyval(all.len() as u32 - 1)
}

/// Frees a key. Attributes under it stay, and so do its callbacks for them.
///
/// # Errors
/// `Keyval` when there is no such key.
pub fn free_keyval(key: Keyval) -> Result<(), Error> {
    let mut all = KEYVALS.write().unwrap_or_else(PoisonError::into_inner);
    match all.get_mut(key.0 as usize).and_then(Option::take) {
        Some(_) => Ok(()),
        None => Err(no_key("free keyval", key)),
    }
}

fn definition(op: &'static str, key: Keyval) -> Result<Arc<Definition>, Error> {
    let all = KEYVALS.read().unwrap_or_else(PoisonError::into_inner);
    all.get(key.0 as usize).and_then(Clone::clone).ok_or_else(|| no_key(op, key))
}

fn no_key(op: &'static str, key: Keyval) -> Error {
    Error::new(ErrorClass::Keyval, op, format!("there is no attribute key {}", key.0))
}

/// The attributes of one communicator, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Attributes {
    list: Mutex<Vec<Attribute>>,
    /// Replaced or deleted while somebody may still look at the value.
    retired: Mutex<Vec<Attribute>>,
}

#[derive(Clone)]
struct Attribute {
    key: Keyval,
    value: AttributeValue,
    /// The thread that the value is for; none where it is for all.
    owner: Option<ThreadId>,
    definition: Arc<Definition>,
}

impl Attribute {
    /// `alone` says that nothing that the caller knows of looks at the value through the caller's handle.
    fn delete(self, comm: &Comm, alone: bool, op: &'static str) -> Result<(), Error> {
        // Asked after the attribute has left the list: who comes by a handle later does not find it.
        if self.definition.lent && !(alone && comm.is_only_handle()) {
            comm.attributes().retired().push(self);
            return Ok(());
        }
        self.delete_now(comm, op)
    }

    fn delete_now(self, comm: &Comm, op: &'static str) -> Result<(), Error> {
        if self.owner.is_some_and(|owner| owner != thread::current().id()) {
            // Not even its end may be seen elsewhere, so that the value stays for ever.
            return Ok(());
        }
        let Some(callback) = &self.definition.on_delete else { return Ok(()) };
        callback(comm, self.key, self.value).map_err(|code| {
            let detail = format!("the delete callback of attribute key {} answered error {code}", self.key.0);
            comm.attach(Error::new(ErrorClass::Other, op, detail))
        })
    }
}

impl Attributes {
    fn list(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: Keyval) -> Option<Attribute> {
        let mut list = self.list();
        let at = list.iter().position(|attribute| attribute.key == key)?;
        Some(list.remove(at))
    }

    /// What a duplicate of `comm` gets.
    pub(crate) fn copied(&self, comm: &Comm) -> Result<Attributes, Error> {
        let all = self.list().clone();
        let mut list = Vec::new();
        for attribute in all {
            let value = match &attribute.definition.on_copy {
                OnCopy::Leave => None,
                OnCopy::Same => Some(attribute.value),
                OnCopy::Call(callback) => callback(comm, attribute.key, attribute.value).map_err(|code| {
                    let detail = format!(
                        "the copy callback of attribute key {} answered error {code}",
                        attribute.key.0
                    );
                    comm.attach(Error::new(ErrorClass::Other, "duplicate", detail))
                })?,
            };
            let owner = attribute.owner.map(|_| thread::current().id());
            list.extend(value.map(|value| Attribute { value, owner, ..attribute }));
        }
        Ok(Attributes { list: Mutex::new(list), retired: Mutex::default() })
    }

    /// Deletes all, the last set first.
    pub(crate) fn clear(&self, comm: &Comm) -> Result<(), Error> {
        loop {
            // One at a time: a callback may look at the others.
            let Some(last) = self.list().pop() else { return Ok(()) };
            last.delete(comm, true, "free")?;
        }
    }

    /// Deletes what was retired, once there is no handle any more.
    pub(crate) fn bury(&self, comm: &Comm) -> Result<(), Error> {
        loop {
            let Some(last) = self.retired().pop() else { return Ok(()) };
            last.delete_now(comm, "free")?;
        }
    }
}

impl Comm {
    /// The attribute under a key; `None` when there is none.
    ///
    /// # Errors
    /// `Keyval` when there is no such key.
    pub fn attribute(&self, key: Keyval) -> Result<Option<AttributeValue>, Error> {
        Ok(self.attribute_with_owner(key)?.map(|(value, _)| value))
    }

    /// The attribute under a key, and the thread that it is for, if it is not for all.
    ///
    /// # Errors
    /// As [`Comm::attribute`].
    pub fn attribute_with_owner(
        &self,
        key: Keyval,
    ) -> Result<Option<(AttributeValue, Option<ThreadId>)>, Error> {
        let found = self.attributes().list().iter().find(|a| a.key == key).map(|a| (a.value, a.owner));
        match found {
            Some(found) => Ok(Some(found)),
            None => definition("get attribute", key).map(|_| None).map_err(|e| self.attach(e)),
        }
    }

    /// Sets an attribute; one that was there under the key is deleted first.
    ///
    /// # Errors
    /// `Keyval` when there is no such key, `Other` when the delete callback fails.
    pub fn set_attribute(&self, key: Keyval, value: AttributeValue) -> Result<(), Error> {
        self.set_attribute_for(key, value, None, false)
    }

    /// As [`Comm::set_attribute`], for one thread only where an owner is given: no other may look at it, and no
    /// callback is called with it elsewhere, at the price that it is never deleted then. `alone` says that nothing
    /// looks at what was under the key through this handle.
    ///
    /// # Errors
    /// As there.
    pub fn set_attribute_for(
        &self,
        key: Keyval,
        value: AttributeValue,
        owner: Option<ThreadId>,
        alone: bool,
    ) -> Result<(), Error> {
        let definition = definition("set attribute", key).map_err(|e| self.attach(e))?;
        if let Some(old) = self.attributes().take(key) {
            old.delete(self, alone, "set attribute")?;
        }
        self.attributes().list().push(Attribute { key, value, owner, definition });
        Ok(())
    }

    /// Deletes an attribute.
    ///
    /// # Errors
    /// `Keyval` when there is none under the key, `Other` when the delete callback fails.
    pub fn delete_attribute(&self, key: Keyval) -> Result<(), Error> {
        match self.attributes().take(key) {
            Some(old) => old.delete(self, false, "delete attribute"),
            None => Err(self.attach(no_key("delete attribute", key))),
        }
    }
}
