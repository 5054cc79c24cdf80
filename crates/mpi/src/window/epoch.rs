//! Epochs, and what may be done in them.

use std::cell::Cell;
use std::marker::PhantomData;

use mpi_comm::Dest;
use mpi_datatype::{Datatype, Op, RecvBuf, SendBuf};
use mpi_rma::Target;

use super::error::ok_in;
use super::{Element, Local, Window, WindowError, rank};
use crate::Rank;
use crate::collective::Operation;
use crate::collective::operation::core_op;
use crate::datatype::{Equivalence, core_type};

/// An epoch: the right to reach memory of others. Buffers given to its operations stay borrowed for `'b`, which is over
/// when the epoch is.
pub struct Epoch<'w, 'b, T: Element> {
    window: &'w Window<T>,
    /// The datatype of an element; lives as long as the epoch.
    element: T::Out,
    /// Invariant: buffers are borrowed for exactly as long.
    buffers: PhantomData<Cell<&'b ()>>,
}

/// An epoch of lock or lock all, in which operations can also be waited for.
pub struct Passive<'w, 'b, T: Element>(Epoch<'w, 'b, T>);

/// A part of a passive epoch, at whose end everything begun in it is done.
pub struct Batch<'w, 'b, T: Element>(Epoch<'w, 'b, T>);

/// An epoch while its closure runs.
pub(super) struct Open;

impl Open {
    /// Runs `f` in an epoch that has been opened and that the caller closes. A panic must not unwind past it: memory
    /// that is still being written would go.
    pub fn run<'w, 'b, T: Element, R>(window: &'w Window<T>, f: impl FnOnce(&Passive<'w, 'b, T>) -> R) -> R {
        let open = Open;
        let result = f(&Passive(Epoch::new(window)));
        std::mem::forget(open);
        result
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        crate::error::abort_if_unwinding("an epoch of a window was open");
    }
}

/// Runs on the datatype of an element.
#[inline]
fn with_type<T: Element, R>(element: &T::Out, f: impl FnOnce(&Datatype) -> R) -> R {
    f(core_type(element))
}

impl<'w, 'b, T: Element> Epoch<'w, 'b, T> {
    fn new(window: &'w Window<T>) -> Self {
        Epoch { window, element: <T as Equivalence>::equivalent_datatype(), buffers: PhantomData }
    }

    #[inline]
    fn core(&self) -> &'w mpi_rma::Window {
        &self.window.core
    }

    /// This rank's own memory.
    pub fn local(&self) -> Local<'_, T> {
        // SAFETY: the window's own part, which lives as long as the window.
        unsafe { Local::new(self.core().base().cast(), self.window.len()) }
    }

    #[inline]
    fn target<'a>(&self, target: Rank, at: usize, count: usize, datatype: &'a Datatype) -> Target<'a> {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        Target { rank: Dest::Rank(rank(target) as i32), at, count, datatype }
    }

    /// Writes to `target`, from its element `at` on.
    #[track_caller]
    #[inline]
    pub fn put(&self, data: &'b [T], target: Rank, at: usize) {
        ok_in(self.core(), self.try_put(data, target, at))
    }

    /// As [`put`](Epoch::put).
    ///
    /// # Errors
    /// Outside of the target's memory; a target that the epoch does not cover; a rank died.
    #[inline]
    pub fn try_put(&self, data: &'b [T], target: Rank, at: usize) -> Result<(), WindowError> {
        self.put_now(data, target, at)
    }

    /// Data are copied, or in place, when the layer below returns; a face that lends memory out would not be so free.
    #[inline]
    fn put_now(&self, data: &[T], target: Rank, at: usize) -> Result<(), WindowError> {
        with_type::<T, _>(&self.element, |d| {
            // SAFETY: a slice, whose elements the datatype describes.
            let from = unsafe { SendBuf::new(data.as_ptr().cast(), data.len(), d) };
            Ok(self.core().put(from, self.target(target, at, data.len(), d))?)
        })
    }

    /// Reads from `target`, from its element `at` on. The room is filled when the epoch, or the batch, is over.
    #[track_caller]
    #[inline]
    pub fn get(&self, room: &'b mut [T], target: Rank, at: usize) {
        ok_in(self.core(), self.try_get(room, target, at))
    }

    /// As [`get`](Epoch::get).
    ///
    /// # Errors
    /// As [`try_put`](Epoch::try_put).
    #[inline]
    pub fn try_get(&self, room: &'b mut [T], target: Rank, at: usize) -> Result<(), WindowError> {
        // SAFETY: borrowed until the epoch is over.
        unsafe { self.get_into(room.as_mut_ptr(), room.len(), target, at) }
    }

    /// # Safety
    /// The room stays valid, and nobody looks at it, until the operation is done.
    #[inline]
    unsafe fn get_into(&self, room: *mut T, len: usize, target: Rank, at: usize) -> Result<(), WindowError> {
        with_type::<T, _>(&self.element, |d| {
            // SAFETY: the caller's promise.
            let to = unsafe { RecvBuf::new(room.cast(), len, d) };
            Ok(self.core().get(to, self.target(target, at, len, d))?)
        })
    }

    /// Combines with elements of `target`, from `at` on, one by one atomically.
    #[track_caller]
    #[inline]
    pub fn accumulate<O: Operation>(&self, data: &'b [T], target: Rank, at: usize, op: O) {
        ok_in(self.core(), self.try_accumulate(data, target, at, op))
    }

    /// As [`accumulate`](Epoch::accumulate).
    ///
    /// # Errors
    /// As [`try_put`](Epoch::try_put); an operation that is the program's own, or not defined on the elements.
    #[inline]
    pub fn try_accumulate<O: Operation>(
        &self,
        data: &'b [T],
        target: Rank,
        at: usize,
        op: O,
    ) -> Result<(), WindowError> {
        self.combine(data, target, at, core_op(&op))
    }

    /// As [`put`](Epoch::put), atomically per element and in order with [`accumulate`](Epoch::accumulate).
    #[track_caller]
    pub fn replace(&self, data: &'b [T], target: Rank, at: usize) {
        ok_in(self.core(), self.combine(data, target, at, &Op::Replace))
    }

    #[inline]
    fn combine(&self, data: &[T], target: Rank, at: usize, op: &Op) -> Result<(), WindowError> {
        with_type::<T, _>(&self.element, |d| {
            // SAFETY: a slice, whose elements the datatype describes.
            let from = unsafe { SendBuf::new(data.as_ptr().cast(), data.len(), d) };
            Ok(self.core().accumulate(from, self.target(target, at, data.len(), d), op)?)
        })
    }

    /// Reads what was there into `result`, then combines, as one step per element.
    #[track_caller]
    pub fn get_accumulate<O: Operation>(
        &self,
        data: &'b [T],
        result: &'b mut [T],
        target: Rank,
        at: usize,
        op: O,
    ) {
        ok_in(self.core(), self.try_get_accumulate(data, result, target, at, op))
    }

    /// As [`get_accumulate`](Epoch::get_accumulate).
    ///
    /// # Errors
    /// As [`try_accumulate`](Epoch::try_accumulate); `result` of another length than `data`.
    pub fn try_get_accumulate<O: Operation>(
        &self,
        data: &'b [T],
        result: &'b mut [T],
        target: Rank,
        at: usize,
        op: O,
    ) -> Result<(), WindowError> {
        with_type::<T, _>(&self.element, |d| {
            // SAFETY: slices, whose elements the datatype describes; borrowed until the epoch is over.
            let (from, to) = unsafe {
                let from = SendBuf::new(data.as_ptr().cast(), data.len(), d);
                (from, RecvBuf::new(result.as_mut_ptr().cast(), result.len(), d))
            };
            Ok(self.core().get_accumulate(from, to, self.target(target, at, data.len(), d), core_op(&op))?)
        })
    }
}

impl<'w, 'b, T: Element> Passive<'w, 'b, T> {
    pub(super) fn epoch(&self) -> &Epoch<'w, 'b, T> {
        &self.0
    }

    /// Runs operations and waits until all of them are done, here and at their targets. Their buffers are free again
    /// when this returns.
    #[track_caller]
    pub fn batch<'c, R>(&self, f: impl FnOnce(&Batch<'w, 'c, T>) -> R) -> R {
        ok_in(self.0.core(), self.try_batch(f))
    }

    /// As [`batch`](Passive::batch).
    ///
    /// # Errors
    /// What an operation left behind; a rank died.
    pub fn try_batch<'c, R>(&self, f: impl FnOnce(&Batch<'w, 'c, T>) -> R) -> Result<R, WindowError> {
        let open = Open;
        let result = f(&Batch(Epoch::new(self.0.window)));
        std::mem::forget(open);
        self.0.core().flush_all()?;
        Ok(result)
    }

    /// Waits until everything begun on `target` is done there.
    #[track_caller]
    #[inline]
    pub fn flush(&self, target: Rank) {
        ok_in(self.0.core(), self.try_flush(target))
    }

    /// As [`flush`](Passive::flush).
    ///
    /// # Errors
    /// As [`try_batch`](Passive::try_batch).
    #[inline]
    pub fn try_flush(&self, target: Rank) -> Result<(), WindowError> {
        Ok(self.0.core().flush(rank(target))?)
    }

    /// The same for all targets.
    #[track_caller]
    pub fn flush_all(&self) {
        ok_in(self.0.core(), self.0.core().flush_all().map_err(WindowError::from))
    }

    /// Orders plain accesses to [`local`](Epoch::local) memory with those of others.
    #[track_caller]
    pub fn sync(&self) {
        ok_in(self.0.core(), self.0.core().sync().map_err(WindowError::from))
    }

    /// Writes without keeping the buffer.
    #[track_caller]
    #[inline]
    pub fn write(&self, data: &[T], target: Rank, at: usize) {
        ok_in(self.0.core(), self.0.put_now(data, target, at))
    }

    /// Combines without keeping the buffer.
    #[track_caller]
    #[inline]
    pub fn combine<O: Operation>(&self, data: &[T], target: Rank, at: usize, op: O) {
        ok_in(self.0.core(), self.0.combine(data, target, at, core_op(&op)))
    }

    /// Reads, and waits until the data are here.
    #[track_caller]
    #[inline]
    pub fn read_into(&self, room: &mut [T], target: Rank, at: usize) {
        ok_in(self.0.core(), self.try_read_into(room, target, at))
    }

    /// As [`read_into`](Passive::read_into).
    ///
    /// # Errors
    /// As [`try_put`](Epoch::try_put).
    #[inline]
    pub fn try_read_into(&self, room: &mut [T], target: Rank, at: usize) -> Result<(), WindowError> {
        // SAFETY: borrowed until the reads of this rank are done, below. Where that fails nobody writes any more.
        unsafe { self.0.get_into(room.as_mut_ptr(), room.len(), target, at) }?;
        Ok(self.0.core().flush_local(rank(target))?)
    }

    /// One element.
    #[track_caller]
    #[inline]
    pub fn read(&self, target: Rank, at: usize) -> T {
        let mut value = zero();
        self.read_into(std::slice::from_mut(&mut value), target, at);
        value
    }

    /// Combines an element of `target` with a value, and gives what was there before: one step for all who do so.
    #[track_caller]
    #[inline]
    pub fn fetch_and_op<O: Operation>(&self, target: Rank, at: usize, value: T, op: O) -> T {
        ok_in(self.0.core(), self.try_fetch_and_op(target, at, value, op))
    }

    /// As [`fetch_and_op`](Passive::fetch_and_op).
    ///
    /// # Errors
    /// As [`try_accumulate`](Epoch::try_accumulate).
    #[inline]
    pub fn try_fetch_and_op<O: Operation>(
        &self,
        target: Rank,
        at: usize,
        value: T,
        op: O,
    ) -> Result<T, WindowError> {
        self.fetch(target, at, value, core_op(&op))
    }

    /// Puts a value in and gives what was there before.
    #[track_caller]
    pub fn swap(&self, target: Rank, at: usize, value: T) -> T {
        ok_in(self.0.core(), self.fetch(target, at, value, &Op::Replace))
    }

    /// One element, read as one step with regard to all who combine with it.
    #[track_caller]
    pub fn fetch_value(&self, target: Rank, at: usize) -> T {
        ok_in(self.0.core(), self.fetch(target, at, zero(), &Op::NoOp))
    }

    #[inline]
    fn fetch(&self, target: Rank, at: usize, value: T, op: &Op) -> Result<T, WindowError> {
        let mut old: T = zero();
        with_type::<T, _>(&self.0.element, |d| {
            // SAFETY: two local elements, waited for below.
            let (from, to) = unsafe {
                (SendBuf::new((&raw const value).cast(), 1, d), RecvBuf::new((&raw mut old).cast(), 1, d))
            };
            let t = self.0.target(target, at, 1, d);
            self.0.core().fetch_and_op(from, to, t.rank, t.at, op)
        })?;
        self.0.core().flush_local(rank(target))?;
        Ok(old)
    }

    /// Puts `new` in where `expected` stands, and gives what was there: `expected` itself where that worked.
    #[track_caller]
    #[inline]
    pub fn compare_and_swap(&self, target: Rank, at: usize, expected: T, new: T) -> T {
        ok_in(self.0.core(), self.try_compare_and_swap(target, at, expected, new))
    }

    /// As [`compare_and_swap`](Passive::compare_and_swap).
    ///
    /// # Errors
    /// As [`try_put`](Epoch::try_put); elements that are no primitives of up to 8 bytes.
    #[inline]
    pub fn try_compare_and_swap(
        &self,
        target: Rank,
        at: usize,
        expected: T,
        new: T,
    ) -> Result<T, WindowError> {
        let mut old: T = zero();
        with_type::<T, _>(&self.0.element, |d| {
            // SAFETY: local elements, waited for below.
            let (new, expected, to) = unsafe {
                (
                    SendBuf::new((&raw const new).cast(), 1, d),
                    SendBuf::new((&raw const expected).cast(), 1, d),
                    RecvBuf::new((&raw mut old).cast(), 1, d),
                )
            };
            let t = self.0.target(target, at, 1, d);
            self.0.core().compare_and_swap(new, expected, to, t.rank, t.at)
        })?;
        self.0.core().flush_local(rank(target))?;
        Ok(old)
    }
}

/// The element of zero bytes.
fn zero<T: Element>() -> T {
    // SAFETY: the trait says that this is a value.
    unsafe { std::mem::zeroed() }
}

impl<'w, 'b, T: Element> std::ops::Deref for Passive<'w, 'b, T> {
    type Target = Epoch<'w, 'b, T>;
    fn deref(&self) -> &Epoch<'w, 'b, T> {
        &self.0
    }
}

impl<'w, 'b, T: Element> std::ops::Deref for Batch<'w, 'b, T> {
    type Target = Epoch<'w, 'b, T>;
    fn deref(&self) -> &Epoch<'w, 'b, T> {
        &self.0
    }
}
