//! From the arguments of a neighbourhood collective to the program of this rank.

use crate::algorithms::neighbors;
use crate::between::Between;
use crate::plan::Call;
use crate::program::{Builder, Data, Program};
use mpi_datatype::{RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass};

type Result<T> = std::result::Result<T, Error>;

/// Whom a rank hears and whom it speaks to, in the order of the topology; `None` is the null process at the edge of a
/// grid.
#[derive(Clone, Copy, Debug)]
pub struct Neighborhood<'a> {
    /// Those it hears.
    pub sources: &'a [Option<u32>],
    /// Those it speaks to.
    pub destinations: &'a [Option<u32>],
    /// A grid: both are pairs of the one below and the one above.
    pub grid: bool,
}

impl Call<'_> {
    fn checked(&self, hood: Neighborhood<'_>) -> Result<Builder> {
        let size = self.team.size() as u32;
        match hood.sources.iter().chain(hood.destinations).flatten().find(|rank| **rank >= size) {
            Some(rank) => Err(self.bad(ErrorClass::Rank, format!("neighbour {rank} of {size} ranks"))),
            None => Ok(self.builder()),
        }
    }

    /// Equal blocks, one for each neighbour.
    fn shares(&self, whole: Data, neighbors: usize) -> Result<Vec<Data>> {
        if neighbors == 0 {
            return Ok(Vec::new());
        }
        if whole.count % neighbors != 0 {
            let detail = format!("{} elements are no equal blocks for {neighbors} neighbours", whole.count);
            return Err(self.bad(ErrorClass::Count, detail));
        }
        let len = whole.count / neighbors;
        Ok((0..neighbors).map(|i| whole.part(i * len, len)).collect())
    }

    fn one_for_each(&self, blocks: usize, neighbors: usize) -> Result<usize> {
        match blocks == neighbors {
            true => Ok(blocks),
            false => Err(self.bad(ErrorClass::Count, format!("{blocks} blocks for {neighbors} neighbours"))),
        }
    }

    fn rooms(&self, b: &mut Builder, blocks: RecvBlocks<'_>, neighbors: usize) -> Result<Vec<Data>> {
        let n = self.one_for_each(blocks.len(), neighbors)?;
        Ok((0..n).map(|i| b.output(blocks.block(i))).collect())
    }

    fn told(&self, mut b: Builder, hood: Neighborhood<'_>, from: &[Data], into: &[Data]) -> Program {
        self.loads(&b, (hood.sources, into), (hood.destinations, from), hood.grid);
        neighbors::exchange(&mut b, (hood.sources, into), (hood.destinations, from), hood.grid);
        b.finish()
    }

    pub fn neighbor_allgather(
        &self,
        hood: Neighborhood<'_>,
        send: SendBuf<'_>,
        recv: RecvBuf<'_>,
    ) -> Result<Program> {
        let mut b = self.checked(hood)?;
        let (own, whole) = (b.input(send), b.output(recv));
        let into = self.shares(whole, hood.sources.len())?;
        Ok(self.told(b, hood, &vec![own; hood.destinations.len()], &into))
    }

    pub fn neighbor_allgatherv(
        &self,
        hood: Neighborhood<'_>,
        send: SendBuf<'_>,
        recv: RecvBlocks<'_>,
    ) -> Result<Program> {
        let mut b = self.checked(hood)?;
        let own = b.input(send);
        let into = self.rooms(&mut b, recv, hood.sources.len())?;
        Ok(self.told(b, hood, &vec![own; hood.destinations.len()], &into))
    }

    pub fn neighbor_alltoall(
        &self,
        hood: Neighborhood<'_>,
        send: SendBuf<'_>,
        recv: RecvBuf<'_>,
    ) -> Result<Program> {
        let mut b = self.checked(hood)?;
        let (from, into) = (b.input(send), b.output(recv));
        let (from, into) =
            (self.shares(from, hood.destinations.len())?, self.shares(into, hood.sources.len())?);
        Ok(self.told(b, hood, &from, &into))
    }

    pub fn neighbor_alltoallv(
        &self,
        hood: Neighborhood<'_>,
        send: SendBlocks<'_>,
        recv: RecvBlocks<'_>,
    ) -> Result<Program> {
        let mut b = self.checked(hood)?;
        let n = self.one_for_each(send.len(), hood.destinations.len())?;
        let from: Vec<Data> = (0..n).map(|i| b.input(send.block(i))).collect();
        let into = self.rooms(&mut b, recv, hood.sources.len())?;
        Ok(self.told(b, hood, &from, &into))
    }
}

/// An inter-communicator carries no topology.
impl Between<'_> {
    pub fn neighbor_allgather(&self, _: Neighborhood<'_>, _: SendBuf<'_>, _: RecvBuf<'_>) -> Result<Program> {
        self.no_order()
    }

    pub fn neighbor_allgatherv(
        &self,
        _: Neighborhood<'_>,
        _: SendBuf<'_>,
        _: RecvBlocks<'_>,
    ) -> Result<Program> {
        self.no_order()
    }

    pub fn neighbor_alltoall(&self, _: Neighborhood<'_>, _: SendBuf<'_>, _: RecvBuf<'_>) -> Result<Program> {
        self.no_order()
    }

    pub fn neighbor_alltoallv(
        &self,
        _: Neighborhood<'_>,
        _: SendBlocks<'_>,
        _: RecvBlocks<'_>,
    ) -> Result<Program> {
        self.no_order()
    }
}
