//! Collectives in place, as the root calls them.

use super::call;
use crate::collective::parts::{started, try_started};
use crate::collective::root::root;
use crate::collective::traits::*;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::request::{Request, Scope};
use crate::topology::core_comm;

/// Collectives in place, as the root calls them; the others call the plain ones.
pub trait InPlaceRoot: Root {
    /// `buf` holds a part for each rank, and the root's own stands in its place: the others are gathered (MPI-4.1 §6.5,
    /// `MPI_Gather`). Only the root calls it.
    #[track_caller]
    fn gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::gather_in_place(comm, root(self), buf));
    }

    /// [`gather_in_place`](Self::gather_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        caught(call::gather_in_place(core_comm(self.as_communicator()), root(self), buf))
    }

    /// Starts [`gather_in_place`](Self::gather_in_place).
    #[track_caller]
    fn immediate_gather_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_gather_in_place(comm, root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_gather_in_place`](Self::immediate_gather_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_gather_in_place<'a, B, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_gather_in_place(core_comm(self.as_communicator()), root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// Gives rank `i` the `i`th part of `buf`, and leaves the root's own where it is (MPI-4.1 §6.6, `MPI_Scatter`). Only the
    /// root calls it.
    #[track_caller]
    fn scatter_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::scatter_in_place(comm, root(self), buf));
    }

    /// [`scatter_in_place`](Self::scatter_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scatter_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        caught(call::scatter_in_place(core_comm(self.as_communicator()), root(self), buf))
    }

    /// Starts [`scatter_in_place`](Self::scatter_in_place).
    #[track_caller]
    fn immediate_scatter_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_scatter_in_place(comm, root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_scatter_in_place`](Self::immediate_scatter_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_scatter_in_place<'a, B, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_scatter_in_place(core_comm(self.as_communicator()), root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// Replaces each element by the combination of those of all ranks (MPI-4.1 §6.9.1, `MPI_Reduce`). Only the root calls
    /// it.
    #[track_caller]
    fn reduce_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::reduce_in_place(comm, root(self), buf, &op));
    }

    /// [`reduce_in_place`](Self::reduce_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(
        &self,
        buf: &mut B,
        op: O,
    ) -> Result<(), Error> {
        caught(call::reduce_in_place(core_comm(self.as_communicator()), root(self), buf, &op))
    }

    /// Starts [`reduce_in_place`](Self::reduce_in_place).
    #[track_caller]
    fn immediate_reduce_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_reduce_in_place(comm, root(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_reduce_in_place`](Self::immediate_reduce_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_reduce_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request =
            call::immediate_reduce_in_place(core_comm(self.as_communicator()), root(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }
}

impl<R: Root + ?Sized> InPlaceRoot for R {}
