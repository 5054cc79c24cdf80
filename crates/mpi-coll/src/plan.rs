//! From the arguments of a collective to the program of this rank: checks, choice, wiring.

use crate::algorithms;
use crate::algorithms::leaders::Leaders;
use crate::choose::{Barrier, Gather, LEADERS, Scan, Scatter};
use crate::limits::{LEADERS_ALLTOALL_MAX_BYTES, LEADERS_BLOCK_MAX_BYTES};
use crate::nodes::Nodes;
use crate::notes::{Loads, Notes};
use crate::program::{Builder, Data, Program};
use crate::{InPlaceOr, Root, Team};
use InPlaceOr::{Buf, InPlace};
use mpi_datatype::{DatatypeError, Op, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass, record};

type Result<T> = std::result::Result<T, Error>;

/// One call of one collective.
pub(crate) struct Call<'a> {
    pub team: &'a Team,
    pub name: &'static str,
    pub notes: &'a Notes,
    /// The nodes that the ranks share, where leaders have something to do.
    pub nodes: Option<&'a Nodes>,
}

impl Call<'_> {
    pub fn builder(&self) -> Builder {
        Builder::new(self.team.rank(), self.team.size()).with_far(self.team.far_size())
    }

    pub fn bad(&self, class: ErrorClass, detail: impl Into<String>) -> Error {
        self.team.error(self.name, class, detail)
    }

    pub fn wrong(&self) -> impl Fn(DatatypeError) -> Error + '_ {
        |e| self.team.datatype_error(self.name, &e)
    }

    /// The root's rank.
    fn root(&self, root: impl Into<Root>) -> Result<usize> {
        let (size, root) = (self.team.size(), root.into());
        self.notes.root(root);
        match root {
            Root::Rank(root) if root < size => Ok(root),
            Root::Rank(root) => Err(self.bad(ErrorClass::Root, format!("root {root} of {size} ranks"))),
            other => Err(self.bad(ErrorClass::Root, format!("{other:?} is for inter-communicators"))),
        }
    }

    /// Tells what was chosen, to those who want to know.
    #[inline]
    pub fn chose(&self, name: &str, by: &str, bytes: usize) {
        if let Some(op) = record::on().then(|| record::ops::Op::find(self.name)).flatten() {
            record::algorithm(op, record::ops::algorithm(by));
        }
        let settings = self.team.settings();
        if settings.is_told() {
            let nodes = self.nodes.map(Nodes::count);
            let what = (self.team.size(), bytes);
            settings.tell(self.name, &self.team.context().name(), (name, by), what, nodes);
        }
    }

    /// The leaders that serve a call, if they do: where they can, and the user wants them or else it is `worth` it.
    fn leaders(&self, name: &str, bytes: usize, can: bool, worth: bool) -> Option<Leaders<'_>> {
        let (nodes, settings) = (self.nodes.filter(|_| can)?, self.team.settings());
        settings.leads(name, worth).then(|| {
            self.chose(name, LEADERS, bytes);
            Leaders { nodes, settings }
        })
    }

    /// The same for a reduction, whose operands may have to keep their order.
    fn leaders_of(&self, name: &str, bytes: usize, op: &Op) -> Option<Leaders<'_>> {
        let in_order = self.nodes.is_some_and(Nodes::in_order);
        self.leaders(name, bytes, op.commutes() || in_order, true)
    }

    /// Notes the messages of this rank, where the ranks compare them: from whom it expects what, and what goes to whom.
    pub fn loads(
        &self,
        b: &Builder,
        (sources, into): (&[Option<u32>], &[Data]),
        (destinations, from): (&[Option<u32>], &[Data]),
        grid: bool,
    ) {
        if !self.team.settings().is_checked() {
            return;
        }
        let loads = |all: &[Data]| {
            all.iter().map(|data| (b.bytes(*data) as u64, b.datatype(*data).signature())).collect()
        };
        self.notes.loads(Loads {
            sources: sources.to_vec(),
            expected: loads(into),
            destinations: destinations.to_vec(),
            sent: loads(from),
            grid,
        });
    }

    /// The same between the root and all, itself among them where it has `own` data for itself.
    fn loads_of_root(&self, b: &Builder, root: usize, own: Option<Data>, all: &[Data], gathers: bool) {
        let with = |rank: &usize| *rank != root || own.is_some();
        let at_root: Vec<usize> = (0..all.len()).filter(with).collect();
        let ranks: Vec<Option<u32>> = at_root.iter().map(|rank| Some(*rank as u32)).collect();
        let blocks: Vec<Data> = at_root.iter().map(|rank| all[*rank]).collect();
        let to_root = vec![Some(root as u32); usize::from(own.is_some())];
        let own: Vec<Data> = own.into_iter().collect();
        match gathers {
            true => self.loads(b, (&ranks, &blocks), (&to_root, &own), false),
            false => self.loads(b, (&to_root, &own), (&ranks, &blocks), false),
        }
    }

    /// All ranks, in the form of neighbours.
    fn everybody(&self) -> Vec<Option<u32>> {
        (0..self.team.size() as u32).map(Some).collect()
    }

    fn at(&self, root: usize) -> bool {
        root == self.team.rank()
    }

    /// Length of each of `count` elements' equal blocks.
    fn block(&self, count: usize) -> Result<usize> {
        let size = self.team.size();
        if count % size == 0 {
            return Ok(count / size);
        }
        Err(self.bad(ErrorClass::Count, format!("{count} elements are no {size} equal blocks")))
    }

    fn blocks(&self, whole: Data) -> Result<Vec<Data>> {
        let len = self.block(whole.count)?;
        Ok((0..self.team.size()).map(|i| whole.part(i * len, len)).collect())
    }

    fn one_each(&self, blocks: usize) -> Result<()> {
        let size = self.team.size();
        if blocks == size {
            return Ok(());
        }
        Err(self.bad(ErrorClass::Count, format!("{blocks} blocks for {size} ranks")))
    }

    pub fn needed<T>(&self, buf: Option<T>, what: &str) -> Result<T> {
        buf.ok_or_else(|| self.bad(ErrorClass::Buffer, format!("the root has no {what} buffer")))
    }

    pub fn no_in_place(&self) -> Error {
        self.bad(ErrorClass::Buffer, "in place is not for this rank of this collective")
    }

    fn inputs(&self, b: &mut Builder, blocks: SendBlocks<'_>) -> Result<Vec<Data>> {
        self.one_each(blocks.len())?;
        Ok((0..blocks.len()).map(|i| b.input(blocks.block(i))).collect())
    }

    fn outputs(&self, b: &mut Builder, blocks: RecvBlocks<'_>) -> Result<Vec<Data>> {
        self.one_each(blocks.len())?;
        Ok((0..blocks.len()).map(|i| b.output(blocks.block(i))).collect())
    }

    pub fn barrier(&self) -> Result<Program> {
        let mut b = self.builder();
        match self.leaders("BARRIER", 0, true, true) {
            Some(leaders) => leaders.barrier(&mut b),
            None => {
                self.chose("BARRIER", Barrier::Dissemination.text(), 0);
                algorithms::barrier::dissemination(&mut b)
            }
        }
        .map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn broadcast(&self, buf: RecvBuf<'_>, root: impl Into<Root>) -> Result<Program> {
        let root = self.root(root)?;
        let mut b = self.builder();
        let data = b.output(buf);
        self.notes.data(buf.as_send());
        if let Some(leaders) = self.leaders("BROADCAST", buf.bytes(), true, true) {
            leaders.broadcast(&mut b, data, root).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_broadcast(b.size, buf.bytes());
        self.chose("BROADCAST", by.text(), buf.bytes());
        algorithms::broadcast::broadcast(&mut b, data, root, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn gather(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: Option<RecvBuf<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let root = self.root(root)?;
        let mut b = self.builder();
        let into = match self.at(root) {
            true => {
                let whole = b.output(self.needed(recv, "receive")?);
                self.blocks(whole)?
            }
            false => Vec::new(),
        };
        let own = self.own_to_gather(&mut b, send, root)?;
        let block = own.unwrap_or_else(|| into[root]);
        let bytes = b.bytes(block);
        self.notes.bytes(bytes, &b.datatype(block));
        if let Some(leaders) = self.leaders("GATHER", bytes, true, bytes <= LEADERS_BLOCK_MAX_BYTES) {
            leaders.gather(&mut b, own, &into, root, bytes).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_gather(b.size, bytes);
        self.chose("GATHER", by.text(), bytes);
        algorithms::gather::gather(&mut b, own, &into, root, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn gatherv(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: Option<RecvBlocks<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let root = self.root(root)?;
        let mut b = self.builder();
        let into = match self.at(root) {
            true => self.outputs(&mut b, self.needed(recv, "receive")?)?,
            false => Vec::new(),
        };
        let own = self.own_to_gather(&mut b, send, root)?;
        self.loads_of_root(&b, root, own, &into, true);
        algorithms::gather::gather(&mut b, own, &into, root, Gather::Linear).map_err(self.wrong())?;
        Ok(b.finish())
    }

    fn own_to_gather(
        &self,
        b: &mut Builder,
        send: InPlaceOr<SendBuf<'_>>,
        root: usize,
    ) -> Result<Option<Data>> {
        match send {
            Buf(send) => Ok(Some(b.input(send))),
            InPlace if b.rank == root => Ok(None),
            InPlace => Err(self.no_in_place()),
        }
    }

    pub fn scatter(
        &self,
        send: Option<SendBuf<'_>>,
        recv: InPlaceOr<RecvBuf<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let root = self.root(root)?;
        let mut b = self.builder();
        let from = match self.at(root) {
            true => {
                let whole = b.input(self.needed(send, "send")?);
                self.blocks(whole)?
            }
            false => Vec::new(),
        };
        let own = self.own_of_scatter(&mut b, recv, root)?;
        let block = own.unwrap_or_else(|| from[root]);
        let bytes = b.bytes(block);
        self.notes.bytes(bytes, &b.datatype(block));
        if let Some(leaders) = self.leaders("SCATTER", bytes, true, bytes <= LEADERS_BLOCK_MAX_BYTES) {
            leaders.scatter(&mut b, &from, own, root, bytes).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_scatter(b.size, bytes);
        self.chose("SCATTER", by.text(), bytes);
        algorithms::scatter::scatter(&mut b, &from, own, root, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn scatterv(
        &self,
        send: Option<SendBlocks<'_>>,
        recv: InPlaceOr<RecvBuf<'_>>,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let root = self.root(root)?;
        let mut b = self.builder();
        let from = match self.at(root) {
            true => self.inputs(&mut b, self.needed(send, "send")?)?,
            false => Vec::new(),
        };
        let own = self.own_of_scatter(&mut b, recv, root)?;
        self.loads_of_root(&b, root, own, &from, false);
        algorithms::scatter::scatter(&mut b, &from, own, root, Scatter::Linear).map_err(self.wrong())?;
        Ok(b.finish())
    }

    fn own_of_scatter(
        &self,
        b: &mut Builder,
        recv: InPlaceOr<RecvBuf<'_>>,
        root: usize,
    ) -> Result<Option<Data>> {
        match recv {
            Buf(recv) => Ok(Some(b.output(recv))),
            InPlace if b.rank == root => Ok(None),
            InPlace => Err(self.no_in_place()),
        }
    }

    /// One's own block, when it is not in place.
    fn own_block(&self, b: &mut Builder, send: InPlaceOr<SendBuf<'_>>, place: Data) -> Result<Option<Data>> {
        let Buf(send) = send else { return Ok(None) };
        let own = b.input(send);
        match b.bytes(own) == b.bytes(place) {
            true => Ok(Some(own)),
            false => {
                let detail = format!("{} bytes to send, room for {}", b.bytes(own), b.bytes(place));
                Err(self.bad(ErrorClass::Count, detail))
            }
        }
    }

    pub fn allgather(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) -> Result<Program> {
        let mut b = self.builder();
        let whole = b.output(recv);
        let blocks = self.blocks(whole)?;
        let own = self.own_block(&mut b, send, blocks[self.team.rank()])?;
        self.notes.bytes(b.bytes(blocks[0]), recv.datatype());
        if let Some(leaders) = self.leaders("ALLGATHER", recv.bytes(), true, true) {
            leaders.allgather(&mut b, own, &blocks).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_allgather(b.size, recv.bytes(), true);
        self.chose("ALLGATHER", by.text(), recv.bytes());
        algorithms::allgather::allgather(&mut b, own, &blocks, Some(whole), by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn allgatherv(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBlocks<'_>) -> Result<Program> {
        let mut b = self.builder();
        let blocks = self.outputs(&mut b, recv)?;
        let own = self.own_block(&mut b, send, blocks[self.team.rank()])?;
        let total = blocks.iter().fold(0, |sum: usize, d| sum.saturating_add(b.bytes(*d)));
        let all = self.everybody();
        let mine = vec![own.unwrap_or(blocks[self.team.rank()]); all.len()];
        self.loads(&b, (&all, &blocks), (&all, &mine), false);
        if let Some(leaders) = self.leaders("ALLGATHER", total, true, true) {
            leaders.allgather(&mut b, own, &blocks).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_allgather(b.size, total, false);
        self.chose("ALLGATHER", by.text(), total);
        algorithms::allgather::allgather(&mut b, own, &blocks, None, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn alltoall(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) -> Result<Program> {
        let mut b = self.builder();
        let whole = b.output(recv);
        let into = self.blocks(whole)?;
        let from = match send {
            Buf(send) => {
                let whole = b.input(send);
                self.blocks(whole)?
            }
            InPlace => {
                let copy = b.like(whole).map_err(self.wrong())?;
                b.copy(whole, copy);
                self.blocks(copy)?
            }
        };
        let bytes = b.bytes(into[b.rank]);
        self.notes.bytes(bytes, recv.datatype());
        if let Some(leaders) = self.leaders("ALLTOALL", bytes, true, bytes <= LEADERS_ALLTOALL_MAX_BYTES) {
            leaders.alltoall(&mut b, &from, &into).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_alltoall(b.size, bytes, true);
        self.chose("ALLTOALL", by.text(), bytes);
        algorithms::alltoall::alltoall(&mut b, &from, &into, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn alltoallv(&self, send: InPlaceOr<SendBlocks<'_>>, recv: RecvBlocks<'_>) -> Result<Program> {
        let mut b = self.builder();
        let into = self.outputs(&mut b, recv)?;
        let from = match send {
            Buf(send) => self.inputs(&mut b, send)?,
            InPlace => {
                let mut copies = Vec::with_capacity(into.len());
                for block in &into {
                    let copy = b.like(*block).map_err(self.wrong())?;
                    b.copy(*block, copy);
                    copies.push(copy);
                }
                copies
            }
        };
        let all = self.everybody();
        self.loads(&b, (&all, &into), (&all, &from), false);
        let largest = into.iter().map(|d| b.bytes(*d)).max().unwrap_or(0);
        let by = self.team.settings().choose_alltoall(b.size, largest, false);
        self.chose("ALLTOALL", by.text(), largest);
        algorithms::alltoall::alltoall(&mut b, &from, &into, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    /// The operand and the result of a reduction over `recv`.
    fn operands(
        &self,
        b: &mut Builder,
        send: InPlaceOr<SendBuf<'_>>,
        recv: RecvBuf<'_>,
    ) -> Result<(Data, Data)> {
        let result = b.output(recv);
        match send {
            InPlace => Ok((result, result)),
            Buf(send) if send.count() == recv.count() => Ok((b.input(send), result)),
            Buf(send) => {
                let detail = format!("{} elements to send, {} to receive", send.count(), recv.count());
                Err(self.bad(ErrorClass::Count, detail))
            }
        }
    }

    /// Checks that the operation is defined on the operands, and writes both down.
    pub fn check_op(&self, b: &Builder, own: Data, op: &Op) -> Result<()> {
        self.notes.bytes(b.bytes(own), &b.datatype(own));
        self.notes.op(op);
        b.check_op(own).map_err(self.wrong())
    }

    pub fn reduce(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: Option<RecvBuf<'_>>,
        op: &Op,
        root: impl Into<Root>,
    ) -> Result<Program> {
        let root = self.root(root)?;
        let mut b = self.builder().with_op(op);
        let (own, result) = match (self.at(root), send) {
            (true, send) => {
                let (own, result) = self.operands(&mut b, send, self.needed(recv, "receive")?)?;
                (own, Some(result))
            }
            (false, Buf(send)) => (b.input(send), None),
            (false, InPlace) => return Err(self.no_in_place()),
        };
        self.check_op(&b, own, op)?;
        if let Some(leaders) = self.leaders_of("REDUCE", b.bytes(own), op) {
            leaders.reduce(&mut b, own, result, root).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let settings = self.team.settings();
        let by = settings.choose_reduce(b.size, own.count, b.bytes(own), op.commutes());
        self.chose("REDUCE", by.text(), b.bytes(own));
        algorithms::reduce::reduce(&mut b, own, result, root, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn allreduce(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) -> Result<Program> {
        let mut b = self.builder().with_op(op);
        let (own, result) = self.operands(&mut b, send, recv)?;
        self.check_op(&b, own, op)?;
        if let Some(leaders) = self.leaders_of("ALLREDUCE", b.bytes(own), op) {
            leaders.allreduce(&mut b, own, result).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let settings = self.team.settings();
        let by = settings.choose_steps_of_allreduce(b.size, own.count, b.bytes(own), op.commutes());
        self.chose("ALLREDUCE", by.text(), b.bytes(own));
        algorithms::allreduce::allreduce(&mut b, own, result, by).map_err(self.wrong())?;
        Ok(b.finish())
    }

    fn prefixes(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: RecvBuf<'_>,
        op: &Op,
        exclusive: bool,
    ) -> Result<Program> {
        let mut b = self.builder().with_op(op);
        let (own, result) = self.operands(&mut b, send, recv)?;
        self.check_op(&b, own, op)?;
        let bytes = b.bytes(own);
        // What a rank gets depends on its place, whether the operation commutes or not.
        let in_order = self.nodes.is_some_and(Nodes::in_order);
        if let Some(leaders) = self.leaders("SCAN", bytes, in_order, true) {
            leaders.scan(&mut b, own, result, exclusive).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        self.chose("SCAN", Scan::Doubling.text(), bytes);
        match exclusive {
            true => algorithms::scan::exscan(&mut b, own, result),
            false => algorithms::scan::scan(&mut b, own, result),
        }
        .map_err(self.wrong())?;
        Ok(b.finish())
    }

    pub fn scan(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) -> Result<Program> {
        self.prefixes(send, recv, op, false)
    }

    pub fn exscan(&self, send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) -> Result<Program> {
        self.prefixes(send, recv, op, true)
    }

    pub fn reduce_scatter_block(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: RecvBuf<'_>,
        op: &Op,
    ) -> Result<Program> {
        let len = match send {
            Buf(_) => recv.count(),
            InPlace => self.block(recv.count())?,
        };
        self.reduce_scatter(send, recv, &vec![len; self.team.size()], op)
    }

    pub fn reduce_scatter(
        &self,
        send: InPlaceOr<SendBuf<'_>>,
        recv: RecvBuf<'_>,
        counts: &[usize],
        op: &Op,
    ) -> Result<Program> {
        self.one_each(counts.len())?;
        let mut b = self.builder().with_op(op);
        let total = counts.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
        let own = match send {
            Buf(send) => b.input(send),
            InPlace => b.output(recv),
        };
        if own.count != total || recv.count() < counts[b.rank] {
            let (have, mine) = (own.count, counts[b.rank]);
            let detail = format!("{have} elements for {total}, room for {} of {mine}", recv.count());
            return Err(self.bad(ErrorClass::Count, detail));
        }
        let result = match send {
            Buf(_) => b.output(recv),
            InPlace => own,
        };
        let result = result.part(0, counts[b.rank]);
        let all = self.everybody();
        let ends = counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count)));
        let blocks: Vec<Data> = ends.zip(counts).map(|(first, count)| own.part(first, *count)).collect();
        self.loads(&b, (&all, &vec![result; all.len()]), (&all, &blocks), false);
        self.check_op(&b, own, op)?;
        if let Some(leaders) = self.leaders_of("REDUCE_SCATTER", b.bytes(own), op) {
            leaders.reduce_scatter(&mut b, own, counts, result).map_err(self.wrong())?;
            return Ok(b.finish());
        }
        let by = self.team.settings().choose_reduce_scatter(b.size, b.bytes(own), op.commutes());
        self.chose("REDUCE_SCATTER", by.text(), b.bytes(own));
        algorithms::reduce_scatter::reduce_scatter(&mut b, own, counts, result, by).map_err(self.wrong())?;
        Ok(b.finish())
    }
}
