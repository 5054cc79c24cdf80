//! From the arguments of a collective between two groups to the program of this rank (MPI 4.1, section 6.2.3). What
//! the standard calls not significant is not looked at.

use crate::algorithms::between;
use crate::plan::Call;
use crate::program::{Builder, Data, Program};
use crate::{InPlaceOr, Root};
use InPlaceOr::{Buf, InPlace};
use mpi_datatype::{Op, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass};

type Result<T> = std::result::Result<T, Error>;

/// One call of one collective on an inter-communicator.
pub(crate) struct Between<'a>(pub Call<'a>);

impl Between<'_> {
    fn bad(&self, class: ErrorClass, detail: impl Into<String>) -> Error {
        self.0.bad(class, detail)
    }

    fn root(&self, root: impl Into<Root>) -> Result<Root> {
        let (root, size) = (root.into(), self.0.team.far_size());
        self.0.notes.root(root);
        match root {
            Root::Rank(rank) if rank >= size => {
                Err(self.bad(ErrorClass::Root, format!("root {rank} of {size} ranks in the other group")))
            }
            root => Ok(root),
        }
    }

    /// What stands in the other group's place has nothing to be in place of.
    fn here<T>(&self, buf: InPlaceOr<T>) -> Result<T> {
        match buf {
            Buf(buf) => Ok(buf),
            InPlace => Err(self.bad(ErrorClass::Buffer, "in place is not for inter-communicators")),
        }
    }

    /// Equal blocks, one for each rank of the other group.
    fn blocks(&self, whole: Data) -> Result<Vec<Data>> {
        let far = self.0.team.far_size();
        if far == 0 || whole.count % far != 0 {
            let detail = format!("{} elements are no {far} equal blocks", whole.count);
            return Err(self.bad(ErrorClass::Count, detail));
        }
        let len = whole.count / far;
        Ok((0..far).map(|i| whole.part(i * len, len)).collect())
    }

    fn one_each(&self, blocks: usize, ranks: usize) -> Result<()> {
        match blocks == ranks {
            true => Ok(()),
            false => Err(self.bad(ErrorClass::Count, format!("{blocks} blocks for {ranks} ranks"))),
        }
    }

    fn inputs(&self, b: &mut Builder, blocks: SendBlocks<'_>) -> Result<Vec<Data>> {
        self.one_each(blocks.len(), b.far_size)?;
        Ok((0..blocks.len()).map(|i| b.input(blocks.block(i))).collect())
    }

    fn outputs(&self, b: &mut Builder, blocks: RecvBlocks<'_>) -> Result<Vec<Data>> {
        self.one_each(blocks.len(), b.far_size)?;
        Ok((0..blocks.len()).map(|i| b.output(blocks.block(i))).collect())
    }

    pub fn barrier(&self) -> Result<Program> {
        let mut b = self.0.builder();
        between::barrier(&mut b).map_err(self.0.wrong())?;
        Ok(b.finish())
    }

    pub fn broadcast(&self, buf: RecvBuf<'_>, root: impl Into<Root>) -> Result<Program> {
        let mut b = self.0.builder();
        match self.root(root)? {
            Root::Root if buf.bytes() > 0 => {
                let data = b.output(buf);
                b.send(b.far(0), data);
            }
            Root::Root | Root::Null => {}
            Root::Rank(root) => {
                let data = b.output(buf);
                self.0.notes.data(buf.as_send());
                let by = self.0.team.settings().choose_broadcast(b.size, buf.bytes());
                between::broadcast_in(&mut b, data, root, by).map_err(self.0.wrong())?;
            }
        }
        Ok(b.finish())
    }

    /// The roots's blocks out of what each rank of the other group sends.
    fn gathered(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        root: Root,
        into: &[Data],
        mut b: Builder,
    ) -> Result<Program> {
        match root {
            Root::Rank(root) => {
                let own = b.input(self.here(send)?);
                if b.bytes(own) > 0 {
                    b.send(b.far(root), own);
                }
            }
            Root::Root | Root::Null => between::exchange(&mut b, &[], into, true),
        }
        Ok(b.finish())
    }

    pub fn gather(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: Option<RecvBuf<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let (mut b, root) = (self.0.builder(), self.root(root)?);
        let mut into = Vec::new();
        if root == Root::Root {
            let whole = b.output(self.0.needed(recv, "receive")?);
            into = self.blocks(whole)?;
        }
        self.gathered(send, root, &into, b)
    }

    pub fn gatherv(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: Option<RecvBlocks<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let (mut b, root) = (self.0.builder(), self.root(root)?);
        let mut into = Vec::new();
        if root == Root::Root {
            into = self.outputs(&mut b, self.0.needed(recv, "receive")?)?;
        }
        self.gathered(send, root, &into, b)
    }

    /// The root's blocks to the ranks of the other group.
    fn scattered(
        &self,
        recv: InPlaceOr<RecvBuf<'_>>,
        root: Root,
        from: &[Data],
        mut b: Builder,
    ) -> Result<Program> {
        match root {
            Root::Rank(root) => {
                let own = b.output(self.here(recv)?);
                if b.bytes(own) > 0 {
                    b.recv(b.far(root), own);
                }
            }
            Root::Root | Root::Null => between::exchange(&mut b, from, &[], true),
        }
        Ok(b.finish())
    }

    pub fn scatter(
        &self,
        send: Option<SendBuf<'_>>,
        recv: InPlaceOr<RecvBuf<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let (mut b, root) = (self.0.builder(), self.root(root)?);
        let mut from = Vec::new();
        if root == Root::Root {
            let whole = b.input(self.0.needed(send, "send")?);
            from = self.blocks(whole)?;
        }
        self.scattered(recv, root, &from, b)
    }

    pub fn scatterv(
        &self,
        send: Option<SendBlocks<'_>>,
        recv: InPlaceOr<RecvBuf<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let (mut b, root) = (self.0.builder(), self.root(root)?);
        let mut from = Vec::new();
        if root == Root::Root {
            from = self.inputs(&mut b, self.0.needed(send, "send")?)?;
        }
        self.scattered(recv, root, &from, b)
    }

    fn gathered_by_all(&self, mut b: Builder, own: Data, into: &[Data]) -> Result<Program> {
        let (settings, size) = (self.0.team.settings(), b.size);
        let by = |bytes| settings.choose_broadcast(size, bytes);
        between::allgather(&mut b, own, into, by).map_err(self.0.wrong())?;
        Ok(b.finish())
    }

    pub fn allgather(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) -> Result<Program> {
        let mut b = self.0.builder();
        let (own, whole) = (b.input(self.here(send)?), b.output(recv));
        let into = self.blocks(whole)?;
        self.gathered_by_all(b, own, &into)
    }

    pub fn allgatherv(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBlocks<'_>) -> Result<Program> {
        let mut b = self.0.builder();
        let own = b.input(self.here(send)?);
        let into = self.outputs(&mut b, recv)?;
        self.gathered_by_all(b, own, &into)
    }

    fn exchanged(&self, mut b: Builder, from: &[Data], into: &[Data]) -> Program {
        let largest = from.iter().chain(into).map(|d| b.bytes(*d)).max().unwrap_or(0);
        between::exchange(&mut b, from, into, largest <= crate::limits::ALLTOALL_SCATTERED_MAX_BYTES);
        b.finish()
    }

    pub fn alltoall(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) -> Result<Program> {
        let mut b = self.0.builder();
        let (from, into) = (b.input(self.here(send)?), b.output(recv));
        let (from, into) = (self.blocks(from)?, self.blocks(into)?);
        Ok(self.exchanged(b, &from, &into))
    }

    pub fn alltoallv(&self, send: InPlaceOr<SendBlocks<'_>>, recv: RecvBlocks<'_>) -> Result<Program> {
        let mut b = self.0.builder();
        let from = self.inputs(&mut b, self.here(send)?)?;
        let into = self.outputs(&mut b, recv)?;
        Ok(self.exchanged(b, &from, &into))
    }

    pub fn reduce(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: Option<RecvBuf<'_>>,
        op: &Op,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let (mut b, settings) = (self.0.builder().with_op(op), self.0.team.settings());
        match self.root(root)? {
            Root::Rank(root) => {
                let own = b.input(self.here(send)?);
                self.0.check_op(&b, own, op)?;
                let by = settings.choose_reduce(b.size, own.count, b.bytes(own), op.commutes());
                between::reduce_out(&mut b, own, root, by).map_err(self.0.wrong())?;
            }
            Root::Root => {
                let result = b.output(self.0.needed(recv, "receive")?);
                if result.count > 0 {
                    b.recv(b.far(0), result);
                }
            }
            Root::Null => {}
        }
        Ok(b.finish())
    }

    pub fn allreduce(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) -> Result<Program> {
        let (mut b, settings) = (self.0.builder().with_op(op), self.0.team.settings());
        let (own, result) = (b.input(self.here(send)?), b.output(recv));
        self.0.check_op(&b, own, op)?;
        let by = settings.choose_reduce(b.size, own.count, b.bytes(own), op.commutes());
        let down = settings.choose_broadcast(b.size, b.bytes(result));
        between::allreduce(&mut b, own, result, by, down).map_err(self.0.wrong())?;
        Ok(b.finish())
    }

    pub fn no_order<T>(&self) -> Result<T> {
        // MPI 4.1, section 6.11: only intra-communicators have one order of all ranks.
        Err(self.bad(ErrorClass::Comm, "not on an inter-communicator"))
    }

    pub fn scan(&self, _: InPlaceOr<SendBuf<'_>>, _: RecvBuf<'_>, _: &Op) -> Result<Program> {
        self.no_order()
    }

    pub fn exscan(&self, _: InPlaceOr<SendBuf<'_>>, _: RecvBuf<'_>, _: &Op) -> Result<Program> {
        self.no_order()
    }

    pub fn reduce_scatter_block(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: RecvBuf<'_>,
        op: &Op,
    ) -> Result<Program> {
        self.reduce_scatter(send, recv, &vec![recv.count(); self.0.team.size()], op)
    }

    pub fn reduce_scatter(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: RecvBuf<'_>,
        counts: &[usize],
        op: &Op,
    ) -> Result<Program> {
        let mut b = self.0.builder().with_op(op);
        self.one_each(counts.len(), b.size)?;
        let (own, mine) = (b.input(self.here(send)?), counts[b.rank]);
        let total = counts.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
        if own.count != total || recv.count() < mine {
            let detail = format!("{} elements for {total}, room for {} of {mine}", own.count, recv.count());
            return Err(self.bad(ErrorClass::Count, detail));
        }
        let result = b.output(recv).part(0, mine);
        self.0.check_op(&b, own, op)?;
        let settings = self.0.team.settings();
        let by = settings.choose_reduce(b.size, own.count, b.bytes(own), op.commutes());
        between::reduce_scatter(&mut b, own, counts, result, by).map_err(self.0.wrong())?;
        Ok(b.finish())
    }
}
