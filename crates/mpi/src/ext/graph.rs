//! Graphs of processes, and who is whose neighbour (MPI-4.1 §8.5).

use mpi_comm::topology::DistGraph;

use super::Error;
use super::error::caught;
use crate::error::ok;
use crate::topology::sealed::AsHandle;
use crate::topology::traits::*;
use crate::topology::{
    CartesianCommunicator, DistributedGraphCommunicator, GraphCommunicator, Rank, SimpleCommunicator,
    core_comm,
};

/// A process's edges in a distributed graph: from whom it hears, and to whom it speaks.
///
/// An edge may stand in it more than once. Weights, where there are any, are one for each edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Ranks with an edge to this process.
    pub sources: Vec<Rank>,
    /// Ranks to which this process has an edge.
    pub destinations: Vec<Rank>,
    /// Weights of the edges from `sources` and of those to `destinations`.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

/// Communicators with graphs.
///
/// ```no_run
/// use mpi::ext::{Edges, prelude::*};
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let (rank, size) = (world.rank(), world.size());
/// let ring = Edges {
///     sources: vec![(rank + size - 1) % size],
///     destinations: vec![(rank + 1) % size],
///     weights: None,
/// };
/// let ring = world.create_distributed_graph_adjacent(&ring, false).unwrap();
/// assert_eq!(ring.neighbours_out(), [(rank + 1) % size]);
/// ```
pub trait GraphTopologies: Communicator {
    /// A communicator whose first ranks are the nodes of a graph that all processes give alike: the neighbours of rank
    /// `i` are `edges[index[i - 1]..index[i]]`. None for ranks that the graph does not need (`MPI_Graph_create`).
    /// Collective.
    ///
    /// # Errors
    /// `Arg` where `index` and `edges` do not fit together or there are more nodes than ranks, `Rank` for an edge that
    /// leads to no node; those of a new communicator.
    #[track_caller]
    fn create_graph(
        &self,
        index: &[i32],
        edges: &[Rank],
        reorder: bool,
    ) -> Result<Option<GraphCommunicator>, Error> {
        let made = caught(core_comm(self).graph_create(index, edges, reorder))?;
        Ok(made.map(|comm| GraphCommunicator(SimpleCommunicator::made(comm))))
    }

    /// A communicator with a graph of which every process gives its own edges (`MPI_Dist_graph_create_adjacent`).
    /// Collective.
    ///
    /// # Errors
    /// `Rank` for an edge to no rank, `Arg` where there is not one weight for each edge; those of a new communicator.
    #[track_caller]
    fn create_distributed_graph_adjacent(
        &self,
        edges: &Edges,
        reorder: bool,
    ) -> Result<DistributedGraphCommunicator, Error> {
        let comm = core_comm(self);
        let own = DistGraph {
            sources: unsigned(&edges.sources),
            destinations: unsigned(&edges.destinations),
            weights: edges.weights.clone(),
        };
        let made = caught(comm.dist_graph_create_adjacent(own, reorder))?;
        Ok(DistributedGraphCommunicator(SimpleCommunicator::made(made)))
    }

    /// A communicator with a graph of which every process gives any edges: from `sources[i]` to the next `degrees[i]` of
    /// `destinations`. All processes give weights, one for each edge, or none does (`MPI_Dist_graph_create`). Collective.
    ///
    /// # Errors
    /// As [`create_distributed_graph_adjacent`](Self::create_distributed_graph_adjacent).
    #[track_caller]
    fn create_distributed_graph(
        &self,
        sources: &[Rank],
        degrees: &[i32],
        destinations: &[Rank],
        weights: Option<&[i32]>,
        reorder: bool,
    ) -> Result<DistributedGraphCommunicator, Error> {
        let made = core_comm(self).dist_graph_create(sources, degrees, destinations, weights, reorder);
        Ok(DistributedGraphCommunicator(SimpleCommunicator::made(caught(made)?)))
    }
}

impl<C: Communicator + ?Sized> GraphTopologies for C {}

/// What is no rank becomes one that is in no communicator.
fn unsigned(ranks: &[Rank]) -> Vec<u32> {
    ranks.iter().map(|rank| *rank as u32).collect()
}

fn ranks(neighbours: Vec<Option<u32>>) -> Vec<Rank> {
    neighbours.into_iter().map(|rank| rank.map_or(crate::ffi::MPI_PROC_NULL, |rank| rank as Rank)).collect()
}

/// The neighbours of this process, in the order of neighbourhood collectives.
pub trait Neighbourhood: Communicator {
    /// Those that this process hears. At the edge of a grid that is not periodic stands `MPI_PROC_NULL`.
    #[track_caller]
    fn neighbours_in(&self) -> Vec<Rank> {
        let comm = core_comm(self);
        ranks(ok(comm, comm.neighbours()).0)
    }

    /// Those that this process speaks to.
    #[track_caller]
    fn neighbours_out(&self) -> Vec<Rank> {
        let comm = core_comm(self);
        ranks(ok(comm, comm.neighbours()).1)
    }
}

impl Neighbourhood for CartesianCommunicator {}
impl Neighbourhood for GraphCommunicator {}
impl Neighbourhood for DistributedGraphCommunicator {}

impl GraphCommunicator {
    /// The whole graph: where the neighbours of each rank end, and all edges (`MPI_Graph_get`).
    #[track_caller]
    pub fn graph(&self) -> (Vec<i32>, Vec<Rank>) {
        let comm = self.as_handle().comm();
        let graph = ok(comm, comm.graph());
        let signed = |list: &[u32]| list.iter().map(|x| *x as i32).collect();
        (signed(graph.index()), signed(graph.edges()))
    }

    /// The neighbours of any rank (`MPI_Graph_neighbors`).
    ///
    /// # Errors
    /// `Rank` where there is none.
    #[track_caller]
    pub fn neighbours_of(&self, rank: Rank) -> Result<Vec<Rank>, Error> {
        let graph = caught(self.as_handle().comm().graph())?;
        Ok(caught(graph.neighbours(rank))?.iter().map(|rank| *rank as Rank).collect())
    }
}

impl DistributedGraphCommunicator {
    /// This process's edges (`MPI_Dist_graph_neighbors`).
    #[track_caller]
    pub fn edges(&self) -> Edges {
        let comm = self.as_handle().comm();
        let graph = ok(comm, comm.dist_graph());
        let signed = |list: &[u32]| list.iter().map(|x| *x as Rank).collect();
        Edges {
            sources: signed(&graph.sources),
            destinations: signed(&graph.destinations),
            weights: graph.weights.clone(),
        }
    }
}
