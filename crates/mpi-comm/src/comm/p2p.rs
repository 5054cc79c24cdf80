//! Point-to-point operations: what the user gave is checked, the null process is answered here,
//! the rest is the engine's.
//!
//! The path of a message through this layer is a handful of compares; everything that explains an
//! error is out of line.

use crate::Comm;
use crate::limits::TAG_UB;
use mpi_datatype::{Datatype, RecvBuf, SendBuf};
use mpi_p2p::record::{self, ops::Op};
use mpi_p2p::{Error, ErrorClass, Message, RequestId, SendMode, Status, Tag};

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dest {
    /// To a rank.
    Rank(i32),
    /// To the null process: it is done at once.
    Null,
}

/// Where a message comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// From a rank.
    Rank(i32),
    /// From anyone.
    Any,
    /// From the null process: it is there at once, empty, from [`NULL_SOURCE`](crate::NULL_SOURCE)
    /// with any tag.
    Null,
}

/// A message that a matched probe found.
#[derive(Debug)]
pub enum Matched {
    /// A message, taken out of matching: only this handle receives it.
    Message(Message),
    /// That of the null process (`MPI_MESSAGE_NO_PROC`).
    Null,
}

/// The status of a receive from the null process.
pub const NULL_STATUS: Status = Status { source: crate::NULL_SOURCE, ..Status::EMPTY };

impl Comm {
    /// Sends a message.
    ///
    /// # Errors
    /// `Rank`, `Tag`, `Type` for what the caller gave; those of the engine.
    #[inline]
    pub fn send(&self, dest: Dest, tag: i32, buf: SendBuf<'_>, mode: SendMode) -> Result<(), Error> {
        if record::on() {
            let op = const { Op::named("send") };
            return record::during(op, || self.number_of_dest(dest), || self.send_now(dest, tag, buf, mode));
        }
        self.send_now(dest, tag, buf, mode)
    }

    #[inline]
    fn send_now(&self, dest: Dest, tag: i32, buf: SendBuf<'_>, mode: SendMode) -> Result<(), Error> {
        match self.outgoing(mode.operation(), dest, tag, buf.datatype())? {
            Some(rank) => self.engine().send(self.context(), rank, tag, buf, mode),
            None => Ok(()),
        }
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `Rank`, `Tag`, `Type` for what the caller gave; those of the engine.
    #[inline]
    pub fn recv(&self, source: Source, tag: Tag, buf: RecvBuf<'_>) -> Result<Status, Error> {
        if record::on() {
            let op = const { Op::named("receive") };
            return record::during(op, || self.number_of_source(source), || self.recv_now(source, tag, buf));
        }
        self.recv_now(source, tag, buf)
    }

    #[inline]
    fn recv_now(&self, source: Source, tag: Tag, buf: RecvBuf<'_>) -> Result<Status, Error> {
        match self.incoming("receive", source, tag, Some(buf.datatype()))? {
            Some(source) => self.engine().recv(self.context(), source, tag, buf),
            None => Ok(NULL_STATUS),
        }
    }

    /// Starts a send. The memory of `buf` stays valid and unchanged until the request is complete.
    ///
    /// # Errors
    /// As [`Comm::send`].
    #[inline]
    pub fn isend(&self, dest: Dest, tag: i32, buf: SendBuf<'_>, mode: SendMode) -> Result<RequestId, Error> {
        if record::on() {
            let op = const { Op::named("isend") };
            return record::during(op, || self.number_of_dest(dest), || self.isend_now(dest, tag, buf, mode));
        }
        self.isend_now(dest, tag, buf, mode)
    }

    #[inline]
    fn isend_now(&self, dest: Dest, tag: i32, buf: SendBuf<'_>, mode: SendMode) -> Result<RequestId, Error> {
        match self.outgoing(mode.operation(), dest, tag, buf.datatype())? {
            Some(rank) => self.engine().isend(self.context(), rank, tag, buf, mode),
            None => self.complete(Status::EMPTY),
        }
    }

    /// Starts a receive. The memory of `buf` is the operation's until the request is complete.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    #[inline]
    pub fn irecv(&self, source: Source, tag: Tag, buf: RecvBuf<'_>) -> Result<RequestId, Error> {
        if record::on() {
            let op = const { Op::named("ireceive") };
            return record::during(op, || self.number_of_source(source), || self.irecv_now(source, tag, buf));
        }
        self.irecv_now(source, tag, buf)
    }

    #[inline]
    fn irecv_now(&self, source: Source, tag: Tag, buf: RecvBuf<'_>) -> Result<RequestId, Error> {
        match self.incoming("receive", source, tag, Some(buf.datatype()))? {
            Some(source) => self.engine().irecv(self.context(), source, tag, buf),
            None => self.complete(NULL_STATUS),
        }
    }

    /// Waits for a message without receiving it.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn probe(&self, source: Source, tag: Tag) -> Result<Status, Error> {
        let _recording = record::op(const { Op::named("probe") }, || self.number_of_source(source));
        match self.incoming("probe", source, tag, None)? {
            Some(source) => self.engine().probe(self.context(), source, tag),
            None => Ok(NULL_STATUS),
        }
    }

    /// Looks for a message without receiving it.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn iprobe(&self, source: Source, tag: Tag) -> Result<Option<Status>, Error> {
        let _recording = record::op(const { Op::named("iprobe") }, || self.number_of_source(source));
        match self.incoming("probe", source, tag, None)? {
            Some(source) => self.engine().iprobe(self.context(), source, tag),
            None => Ok(Some(NULL_STATUS)),
        }
    }

    /// Waits for a message and takes it out of matching.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn mprobe(&self, source: Source, tag: Tag) -> Result<(Matched, Status), Error> {
        self.mprobe_for("probe", source, tag)
    }

    /// As [`mprobe`](Comm::mprobe) for an operation that begins so: what reports and errors call it.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn mprobe_for(&self, op: &'static str, source: Source, tag: Tag) -> Result<(Matched, Status), Error> {
        let _recording = record::op(const { Op::named("mprobe") }, || self.number_of_source(source));
        match self.incoming(op, source, tag, None)? {
            Some(source) => {
                let (message, status) = self.engine().mprobe_for(op, self.context(), source, tag)?;
                Ok((Matched::Message(message), status))
            }
            None => Ok((Matched::Null, NULL_STATUS)),
        }
    }

    /// Looks for a message and takes it out of matching.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn improbe(&self, source: Source, tag: Tag) -> Result<Option<(Matched, Status)>, Error> {
        let _recording = record::op(const { Op::named("improbe") }, || self.number_of_source(source));
        match self.incoming("probe", source, tag, None)? {
            Some(source) => {
                let found = self.engine().improbe(self.context(), source, tag)?;
                Ok(found.map(|(message, status)| (Matched::Message(message), status)))
            }
            None => Ok(Some((Matched::Null, NULL_STATUS))),
        }
    }

    /// Receives a matched message.
    ///
    /// # Errors
    /// `Type` for a datatype that is not committed; those of the engine.
    pub fn mrecv(&self, message: Matched, buf: RecvBuf<'_>) -> Result<Status, Error> {
        let _recording = record::op(const { Op::named("mreceive") }, || None);
        self.check_type("receive", buf.datatype())?;
        match message {
            Matched::Message(message) => self.engine().mrecv(message, buf),
            Matched::Null => Ok(NULL_STATUS),
        }
    }

    /// Starts to receive a matched message.
    ///
    /// # Errors
    /// As [`Comm::mrecv`].
    pub fn imrecv(&self, message: Matched, buf: RecvBuf<'_>) -> Result<RequestId, Error> {
        let _recording = record::op(const { Op::named("imreceive") }, || None);
        self.check_type("receive", buf.datatype())?;
        match message {
            Matched::Message(message) => self.engine().imrecv(message, buf),
            Matched::Null => self.complete(NULL_STATUS),
        }
    }

    /// Sends one message and receives another, neither waiting for the other.
    ///
    /// # Errors
    /// As [`Comm::send`] and [`Comm::recv`].
    pub fn sendrecv(
        &self,
        dest: Dest,
        send_tag: i32,
        send: SendBuf<'_>,
        source: Source,
        receive_tag: Tag,
        receive: RecvBuf<'_>,
    ) -> Result<Status, Error> {
        let _recording = record::op(const { Op::named("send-receive") }, || self.number_of_dest(dest));
        const OP: &str = "send-receive";
        let to = self.outgoing(OP, dest, send_tag, send.datatype())?;
        let from = self.incoming(OP, source, receive_tag, Some(receive.datatype()))?;
        let (engine, context) = (self.engine(), self.context());
        match (to, from) {
            (Some(to), Some(from)) => {
                engine.sendrecv(context, send, to, send_tag, receive, from, receive_tag)
            }
            (Some(to), None) => {
                engine.send(context, to, send_tag, send, SendMode::Standard)?;
                Ok(NULL_STATUS)
            }
            (None, Some(from)) => engine.recv(context, from, receive_tag, receive),
            (None, None) => Ok(NULL_STATUS),
        }
    }

    /// Sends a buffer and receives into it.
    ///
    /// # Errors
    /// As [`Comm::sendrecv`].
    pub fn sendrecv_replace(
        &self,
        buf: RecvBuf<'_>,
        dest: Dest,
        send_tag: i32,
        source: Source,
        receive_tag: Tag,
    ) -> Result<Status, Error> {
        let _recording = record::op(const { Op::named("send-receive") }, || self.number_of_source(source));
        const OP: &str = "send-receive";
        let to = self.outgoing(OP, dest, send_tag, buf.datatype())?;
        let from = self.incoming(OP, source, receive_tag, Some(buf.datatype()))?;
        let (engine, context) = (self.engine(), self.context());
        match (to, from) {
            (Some(to), Some(from)) => engine.sendrecv_replace(context, buf, to, send_tag, from, receive_tag),
            (Some(to), None) => {
                engine.send(context, to, send_tag, buf.as_send(), SendMode::Standard)?;
                Ok(NULL_STATUS)
            }
            (None, Some(from)) => engine.recv(context, from, receive_tag, buf),
            (None, None) => Ok(NULL_STATUS),
        }
    }

    /// A send to be started again and again with [`Engine::restart`](mpi_p2p::Engine::restart). The
    /// memory of `buf` stays valid, and unchanged while the request is active. To the null process
    /// every round is over at once.
    ///
    /// # Errors
    /// As [`Comm::send`].
    pub fn send_init(
        &self,
        dest: Dest,
        tag: i32,
        buf: SendBuf<'_>,
        mode: SendMode,
    ) -> Result<RequestId, Error> {
        match self.outgoing(mode.operation(), dest, tag, buf.datatype())? {
            Some(rank) => self.engine().send_init(self.context(), rank, tag, buf, mode),
            None => Ok(self.complete_each(Status::EMPTY)),
        }
    }

    /// A receive to be started again and again. The memory of `buf` stays valid, and is the
    /// operation's while the request is active. From the null process every round is over at once.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    pub fn recv_init(&self, source: Source, tag: Tag, buf: RecvBuf<'_>) -> Result<RequestId, Error> {
        match self.incoming("receive", source, tag, Some(buf.datatype()))? {
            Some(source) => self.engine().recv_init(self.context(), source, tag, buf),
            None => Ok(self.complete_each(NULL_STATUS)),
        }
    }

    /// The process behind a rank, for records.
    fn number_of_dest(&self, dest: Dest) -> Option<u32> {
        match dest {
            Dest::Rank(rank) => Some(self.context().peers().get(rank as usize)?.0),
            Dest::Null => None,
        }
    }

    fn number_of_source(&self, source: Source) -> Option<u32> {
        match source {
            Source::Rank(rank) => self.number_of_dest(Dest::Rank(rank)),
            Source::Any | Source::Null => None,
        }
    }

    /// Checks where a message goes; `None` for the null process.
    #[inline]
    pub(crate) fn outgoing(
        &self,
        op: &'static str,
        dest: Dest,
        tag: i32,
        datatype: &Datatype,
    ) -> Result<Option<u32>, Error> {
        let Dest::Rank(rank) = dest else {
            return self.null(op, tag, datatype);
        };
        // A negative rank is a huge unsigned one. `TAG_UB` is the largest tag that there is.
        if rank as u32 >= self.target_size() || tag < 0 || !datatype.is_committed() {
            return Err(self.bad_call(op, true, Some(rank), Some(tag), Some(datatype)));
        }
        Ok(Some(rank as u32))
    }

    /// Checks where a message comes from; `None` for the null process.
    #[inline]
    pub(crate) fn incoming(
        &self,
        op: &'static str,
        source: Source,
        tag: Tag,
        datatype: Option<&Datatype>,
    ) -> Result<Option<mpi_p2p::Source>, Error> {
        let bad = matches!(tag, Tag::Is(tag) if tag < 0) || datatype.is_some_and(|d| !d.is_committed());
        match source {
            Source::Rank(rank) if (rank as u32) < self.target_size() && !bad => {
                Ok(Some(mpi_p2p::Source::Rank(rank as u32)))
            }
            Source::Any if !bad => Ok(Some(mpi_p2p::Source::Any)),
            Source::Null if !bad => Ok(None),
            source => {
                let rank = match source {
                    Source::Rank(rank) => Some(rank),
                    _ => None,
                };
                let tag = match tag {
                    Tag::Is(tag) => Some(tag),
                    Tag::Any => None,
                };
                Err(self.bad_call(op, false, rank, tag, datatype))
            }
        }
    }

    #[cold]
    fn null(&self, op: &'static str, tag: i32, datatype: &Datatype) -> Result<Option<u32>, Error> {
        match tag < 0 || !datatype.is_committed() {
            true => Err(self.bad_call(op, true, None, Some(tag), Some(datatype))),
            false => Ok(None),
        }
    }

    fn check_type(&self, op: &'static str, datatype: &Datatype) -> Result<(), Error> {
        match datatype.is_committed() {
            true => Ok(()),
            false => Err(self.bad_call(op, false, None, None, Some(datatype))),
        }
    }

    /// The error of a call with arguments that cannot be.
    #[cold]
    #[inline(never)]
    fn bad_call(
        &self,
        op: &'static str,
        outgoing: bool,
        rank: Option<i32>,
        tag: Option<i32>,
        datatype: Option<&Datatype>,
    ) -> Error {
        let size = self.target_size();
        let (class, detail) = match (rank, tag) {
            (Some(rank), _) if rank < 0 || rank as u32 >= size => {
                let which = if self.is_inter() { "the remote group" } else { "the communicator" };
                (ErrorClass::Rank, format!("rank {rank} is not in {which} of size {size}"))
            }
            (_, Some(tag)) if tag < 0 => (ErrorClass::Tag, format!("tag {tag} is not in 0..={TAG_UB}")),
            _ => {
                let name = datatype.map(|d| format!("{d:?}")).unwrap_or_default();
                (ErrorClass::Type, format!("the datatype {name} is not committed"))
            }
        };
        let mut error = self.attach(Error::new(class, op, detail));
        error.outgoing = outgoing;
        // What is wrong is said in words; the rest of the two says whose message it is.
        error.peer = rank.filter(|rank| class != ErrorClass::Rank && *rank >= 0);
        error.tag = tag.filter(|tag| *tag >= 0);
        error
    }
}
