//! Where messages go.

use mpi_p2p::{Error, SendMode};

use super::to;
use crate::Tag;
use crate::datatype::send_buf;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ffi::MPI_Request;
use crate::request::{Request, Scope};
use crate::topology::traits::*;
use crate::topology::{Process, Rank, core_comm};

/// Something to send to: a process.
///
/// Operations without a tag use tag 0. The modes differ in when they complete (MPI-4.1 §3.4): *standard* when the
/// buffer may be used again, *buffered* at once, *synchronous* when the receive has begun; *ready* demands that the
/// receive be posted already.
pub trait Destination: AsCommunicator {
    /// The rank.
    fn destination_rank(&self) -> Rank;

    /// Sends with the tag (MPI-4.1 §3.2.1, `MPI_Send`).
    #[inline]
    #[track_caller]
    fn send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: ?Sized + Buffer,
    {
        blocking(self, buf, tag, SendMode::Standard);
    }

    /// Sends (`MPI_Send`).
    #[inline]
    #[track_caller]
    fn send<Buf>(&self, buf: &Buf)
    where
        Buf: ?Sized + Buffer,
    {
        self.send_with_tag(buf, Tag::default())
    }

    /// Sends with the tag from the attached buffer, see
    /// [`Universe::set_buffer_size`](crate::environment::Universe::set_buffer_size) (`MPI_Bsend`).
    #[track_caller]
    fn buffered_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: ?Sized + Buffer,
    {
        blocking(self, buf, tag, SendMode::Buffered);
    }

    /// Sends from the attached buffer (`MPI_Bsend`).
    #[track_caller]
    fn buffered_send<Buf>(&self, buf: &Buf)
    where
        Buf: ?Sized + Buffer,
    {
        self.buffered_send_with_tag(buf, Tag::default())
    }

    /// Sends with the tag, and returns when the receive has begun (`MPI_Ssend`).
    #[track_caller]
    fn synchronous_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: ?Sized + Buffer,
    {
        blocking(self, buf, tag, SendMode::Synchronous);
    }

    /// Sends, and returns when the receive has begun (`MPI_Ssend`).
    #[track_caller]
    fn synchronous_send<Buf>(&self, buf: &Buf)
    where
        Buf: ?Sized + Buffer,
    {
        self.synchronous_send_with_tag(buf, Tag::default())
    }

    /// Sends with the tag to a receive that waits already (`MPI_Rsend`).
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn ready_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: ?Sized + Buffer,
    {
        blocking(self, buf, tag, SendMode::Ready);
    }

    /// Sends to a receive that waits already (`MPI_Rsend`).
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn ready_send<Buf>(&self, buf: &Buf)
    where
        Buf: ?Sized + Buffer,
    {
        blocking(self, buf, Tag::default(), SendMode::Ready);
    }

    /// Starts to send with the tag (MPI-4.1 §3.7.2, `MPI_Isend`).
    #[inline]
    #[track_caller]
    fn immediate_send_with_tag<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf, tag: Tag) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        immediate(self, scope, buf, tag, SendMode::Standard)
    }

    /// Starts to send (`MPI_Isend`).
    #[inline]
    #[track_caller]
    fn immediate_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        self.immediate_send_with_tag(scope, buf, Tag::default())
    }

    /// Starts to send with the tag from the attached buffer (`MPI_Ibsend`).
    #[track_caller]
    fn immediate_buffered_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        immediate(self, scope, buf, tag, SendMode::Buffered)
    }

    /// Starts to send from the attached buffer (`MPI_Ibsend`).
    #[track_caller]
    fn immediate_buffered_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        self.immediate_buffered_send_with_tag(scope, buf, Tag::default())
    }

    /// Starts to send with the tag; complete when the receive has begun (`MPI_Issend`).
    #[track_caller]
    fn immediate_synchronous_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        immediate(self, scope, buf, tag, SendMode::Synchronous)
    }

    /// Starts to send; complete when the receive has begun (`MPI_Issend`).
    #[track_caller]
    fn immediate_synchronous_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        self.immediate_synchronous_send_with_tag(scope, buf, Tag::default())
    }

    /// Starts to send with the tag to a receive that waits already (`MPI_Irsend`).
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn immediate_ready_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        immediate(self, scope, buf, tag, SendMode::Ready)
    }

    /// Starts to send to a receive that waits already (`MPI_Irsend`).
    ///
    /// # Safety
    /// The receive must have been posted.
    #[track_caller]
    unsafe fn immediate_ready_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        immediate(self, scope, buf, Tag::default(), SendMode::Ready)
    }
}

impl Destination for Process<'_> {
    #[inline(always)]
    fn destination_rank(&self) -> Rank {
        self.rank()
    }
}

#[inline(always)]
#[track_caller]
fn blocking<D, B>(destination: &D, buf: &B, tag: Tag, mode: SendMode)
where
    D: Destination + ?Sized,
    B: Buffer + ?Sized,
{
    ok(core_comm(destination.as_communicator()), send(destination, buf, tag, mode));
}

#[inline(always)]
#[track_caller]
fn immediate<'a, D, B, Sc>(
    destination: &D,
    scope: Sc,
    buf: &'a B,
    tag: Tag,
    mode: SendMode,
) -> Request<'a, B, Sc>
where
    D: Destination + ?Sized,
    B: 'a + Buffer + ?Sized,
    Sc: Scope<'a>,
{
    let request = start(destination, buf, tag, mode);
    let request = ok(core_comm(destination.as_communicator()), request);
    // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
    unsafe { Request::from_raw(request, buf, scope) }
}

/// Sends.
#[inline(always)]
pub(crate) fn send<D, B>(destination: &D, buf: &B, tag: Tag, mode: SendMode) -> Result<(), Error>
where
    D: Destination + ?Sized,
    B: Buffer + ?Sized,
{
    let comm = core_comm(destination.as_communicator());
    let datatype = buf.as_datatype();
    comm.send(to(destination.destination_rank()), tag, send_buf(buf, &datatype), mode)
}

/// Starts a send that uses `buf` until it has completed.
#[inline(always)]
pub(crate) fn start<D, B>(destination: &D, buf: &B, tag: Tag, mode: SendMode) -> Result<MPI_Request, Error>
where
    D: Destination + ?Sized,
    B: Buffer + ?Sized,
{
    let comm = core_comm(destination.as_communicator());
    let datatype = buf.as_datatype();
    let buffer = send_buf(buf, &datatype);
    let request = comm.isend(to(destination.destination_rank()), tag, buffer, mode)?;
    Ok(MPI_Request(Some(request)))
}
