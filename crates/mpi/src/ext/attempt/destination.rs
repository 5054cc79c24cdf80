//! Sends with errors as values.

use mpi_p2p::SendMode;

use crate::Tag;
use crate::datatype::traits::*;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::point_to_point::Destination;
use crate::point_to_point::destination::{send, start};
use crate::request::{Request, Scope};

/// The operations of [`Destination`] with errors as values.
///
/// ```no_run
/// use mpi::ext::{ErrorClass, prelude::*};
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let error = world.this_process().try_send_with_tag(&1, -5).unwrap_err();
/// assert_eq!((error.class(), error.peer()), (ErrorClass::Tag, Some(world.rank())));
/// ```
pub trait TryDestination: Destination {
    /// [`send_with_tag`](Destination::send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, tag, SendMode::Standard))
    }

    /// [`immediate_send_with_tag`](Destination::immediate_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// As [`try_send_with_tag`](Self::try_send_with_tag); what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, tag, SendMode::Standard))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`send`](Destination::send) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_send<Buf>(&self, buf: &Buf) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, Tag::default(), SendMode::Standard))
    }

    /// [`immediate_send`](Destination::immediate_send) with its error as a value.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send); what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, Tag::default(), SendMode::Standard))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`buffered_send_with_tag`](Destination::buffered_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`, `Buffer`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_buffered_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, tag, SendMode::Buffered))
    }

    /// [`immediate_buffered_send_with_tag`](Destination::immediate_buffered_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// As [`try_buffered_send_with_tag`](Self::try_buffered_send_with_tag); what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_buffered_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, tag, SendMode::Buffered))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`buffered_send`](Destination::buffered_send) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`, `Buffer`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_buffered_send<Buf>(&self, buf: &Buf) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, Tag::default(), SendMode::Buffered))
    }

    /// [`immediate_buffered_send`](Destination::immediate_buffered_send) with its error as a value.
    ///
    /// # Errors
    /// As [`try_buffered_send`](Self::try_buffered_send); what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_buffered_send<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, Tag::default(), SendMode::Buffered))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`synchronous_send_with_tag`](Destination::synchronous_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_synchronous_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, tag, SendMode::Synchronous))
    }

    /// [`immediate_synchronous_send_with_tag`](Destination::immediate_synchronous_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// As [`try_synchronous_send_with_tag`](Self::try_synchronous_send_with_tag); what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_synchronous_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, tag, SendMode::Synchronous))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`synchronous_send`](Destination::synchronous_send) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_synchronous_send<Buf>(&self, buf: &Buf) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, Tag::default(), SendMode::Synchronous))
    }

    /// [`immediate_synchronous_send`](Destination::immediate_synchronous_send) with its error as a value.
    ///
    /// # Errors
    /// As [`try_synchronous_send`](Self::try_synchronous_send); what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_synchronous_send<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, Tag::default(), SendMode::Synchronous))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`ready_send_with_tag`](Destination::ready_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`; `ProcFailed` where the peer is gone.
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn try_ready_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, tag, SendMode::Ready))
    }

    /// [`immediate_ready_send_with_tag`](Destination::immediate_ready_send_with_tag) with its error as a value.
    ///
    /// # Errors
    /// As [`try_ready_send_with_tag`](Self::try_ready_send_with_tag); what goes wrong later is the request's.
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn try_immediate_ready_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, tag, SendMode::Ready))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`ready_send`](Destination::ready_send) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`, `Type`; `ProcFailed` where the peer is gone.
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn try_ready_send<Buf>(&self, buf: &Buf) -> Result<(), Error>
    where
        Buf: ?Sized + Buffer,
    {
        caught(send(self, buf, Tag::default(), SendMode::Ready))
    }

    /// [`immediate_ready_send`](Destination::immediate_ready_send) with its error as a value.
    ///
    /// # Errors
    /// As [`try_ready_send`](Self::try_ready_send); what goes wrong later is the request's.
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn try_immediate_ready_send<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = caught(start(self, buf, Tag::default(), SendMode::Ready))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }
}

impl<D: Destination + ?Sized> TryDestination for D {}
