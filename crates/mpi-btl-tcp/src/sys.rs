//! The system calls of the fast path, and memory named by spans: all unsafe code of this crate.
//!
//! The standard library's vectored calls take slices; lent memory and posted buffers are spans
//! (a posted buffer may be uninitialised), so the calls are made directly. They go past the C library's
//! own wrappers, which in a process of several threads make each call a cancellation point, at four locked
//! instructions a message.
#![allow(unsafe_code)]

use mpi_btl::Span;
use mpi_node::faults::{self, Fault};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::marker::PhantomData;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A piece of memory for a vectored call. Borrows what it was made from, except for a span, whose
/// validity its owner promised.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Piece<'a>(libc::iovec, PhantomData<&'a [u8]>);

impl<'a> Piece<'a> {
    pub const EMPTY: Piece<'static> =
        Piece(libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }, PhantomData);

    /// Memory to be sent.
    pub fn out(bytes: &'a [u8]) -> Piece<'a> {
        Piece(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }, PhantomData)
    }

    /// Lent memory to be sent: the lender keeps it valid until it is reported complete.
    pub fn lent(span: Span) -> Piece<'a> {
        Piece(libc::iovec { iov_base: span.ptr().cast(), iov_len: span.len() }, PhantomData)
    }

    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Cuts the piece to at most `most` bytes from byte `from` (at most its length) on.
    pub fn cut(&mut self, from: usize, most: usize) {
        assert!(from <= self.0.iov_len, "a cut outside of the piece");
        self.0.iov_base = self.0.iov_base.cast::<u8>().wrapping_add(from).cast();
        self.0.iov_len = (self.0.iov_len - from).min(most);
    }
}

/// Sends as much of `pieces` as the socket takes now.
pub(crate) fn send(socket: BorrowedFd<'_>, pieces: &[Piece<'_>]) -> io::Result<usize> {
    send_with(socket, pieces, 0)
}

/// As [`send`]; a last segment that is not full waits for more, or for `TCP_NODELAY` to be set again.
pub(crate) fn send_more(socket: BorrowedFd<'_>, pieces: &[Piece<'_>]) -> io::Result<usize> {
    send_with(socket, pieces, libc::MSG_MORE)
}

fn send_with(socket: BorrowedFd<'_>, pieces: &[Piece<'_>], flags: libc::c_int) -> io::Result<usize> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if faults::on() {
        let len = disturbed(socket, pieces.iter().map(Piece::len).sum())?;
        return send_undisturbed(socket, &first(pieces, len), flags);
    }
    send_undisturbed(socket, pieces, flags)
}

#[inline]
fn send_undisturbed(socket: BorrowedFd<'_>, pieces: &[Piece<'_>], flags: libc::c_int) -> io::Result<usize> {
    loop {
        // SAFETY: `msghdr` is plain data for which all zeroes are valid (no name, no control data).
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_ptr().cast_mut().cast();
        message.msg_iovlen = pieces.len() as _;
        // SAFETY: the descriptor is open while borrowed; `Piece` is a transparent `iovec`; each names
        // memory that is borrowed for this call or lent by the engine; the call only reads it.
        let n = unsafe { libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const message, flags) };
        match checked(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Sends as much of `bytes` as the socket takes now.
pub(crate) fn send_one(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let bytes = if faults::on() { &bytes[..disturbed(socket, bytes.len())?] } else { bytes };
    loop {
        // SAFETY: the descriptor is open while borrowed; the call only reads the borrowed bytes.
        let n = unsafe {
            let (to, to_len) = (std::ptr::null::<libc::sockaddr>(), 0_usize);
            libc::syscall(
                libc::SYS_sendto,
                socket.as_raw_fd(),
                bytes.as_ptr(),
                bytes.len(),
                flags,
                to,
                to_len,
            )
        };
        match checked(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads what is there into `buffer`. 0 is the end of the stream (or an empty buffer).
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let all = buffer.len();
    let buffer = if faults::on() { &mut buffer[..disturbed(socket, all)?] } else { buffer };
    loop {
        // SAFETY: the descriptor is open while borrowed; the buffer is exclusively ours for its length.
        let n = unsafe {
            let none = std::ptr::null_mut::<libc::c_void>();
            let (to, len, flags) = (buffer.as_mut_ptr(), buffer.len(), libc::MSG_DONTWAIT);
            libc::syscall(libc::SYS_recvfrom, socket.as_raw_fd(), to, len, flags, none, none)
        };
        match checked(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads what is there into a posted buffer and, when that is full, on into `behind`.
pub(crate) fn recv_direct(socket: BorrowedFd<'_>, into: Span, behind: &mut [u8]) -> io::Result<usize> {
    let mut pieces = [
        libc::iovec { iov_base: into.ptr().cast(), iov_len: into.len() },
        libc::iovec { iov_base: behind.as_mut_ptr().cast(), iov_len: behind.len() },
    ];
    if faults::on() {
        let len = disturbed(socket, into.len() + behind.len())?;
        pieces[0].iov_len = into.len().min(len);
        pieces[1].iov_len = len - pieces[0].iov_len;
    }
    loop {
        // SAFETY: as in `send`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = pieces.len() as _;
        // SAFETY: the descriptor is open while borrowed; the engine keeps `into` valid for writes and
        // untouched until it is told that the body arrived, revokes it, or the peer is down;
        // `behind` is exclusively ours.
        let n = unsafe {
            libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT)
        };
        match checked(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Copies `bytes` to the front of a posted buffer.
pub(crate) fn fill(into: Span, bytes: &[u8]) {
    assert!(bytes.len() <= into.len(), "write outside of a posted buffer");
    // SAFETY: the length was checked; the engine keeps `into` valid for writes and untouched until the
    // body has arrived; `bytes` is our own look-ahead buffer, which the engine never posts.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.ptr(), bytes.len()) }
}

/// How many of `len` bytes the next call may move, where faults happen on purpose. One that is interrupted is made again.
///
/// # Errors
/// Would block; the connection is reset, which the peer sees, too.
#[cold]
fn disturbed(socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    if faults::strikes(Fault::Reset) {
        let _ = SockRef::from(&socket).shutdown(Shutdown::Both);
        return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
    }
    loop {
        match faults::transfer(len) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The first `len` bytes of `pieces`.
#[cold]
fn first<'a>(pieces: &[Piece<'a>], mut len: usize) -> Vec<Piece<'a>> {
    let cut = |piece: &Piece<'a>| {
        let mut piece = *piece;
        piece.cut(0, len);
        len -= piece.len();
        piece
    };
    pieces.iter().map(cut).collect()
}

/// A socket for connections of this family.
///
/// # Errors
/// The kernel's: no descriptor left.
pub(crate) fn socket(domain: Domain) -> io::Result<Socket> {
    faults::descriptor()?;
    Socket::new(domain, Type::STREAM, Some(Protocol::TCP))
}

/// Takes a connection from the listener.
///
/// # Errors
/// The kernel's: none waits, no descriptor left.
pub(crate) fn accept(listener: &Socket) -> io::Result<Socket> {
    faults::descriptor()?;
    listener.accept().map(|(socket, _)| socket)
}

fn checked(n: libc::c_long) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
