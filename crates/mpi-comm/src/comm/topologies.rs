//! Communicators that carry a topology (MPI 4.1 chapter 8).

use super::Comm;
use super::exchange::Team;
use crate::topology::{Cartesian, DistGraph, Graph, Topology};
use mpi_p2p::{Error, ErrorClass};

/// Ranks in the order of neighbourhood collectives; `None` is the null process.
pub type Neighbours = Vec<Option<u32>>;

impl Comm {
    /// A communicator whose first ranks form a grid; none for the ranks that the grid does not
    /// need. Ranks keep their order, whether or not `reorder` allows another. Collective.
    ///
    /// # Errors
    /// `Dims` for a grid that cannot be, or that is larger than the communicator; those of a new
    /// communicator.
    pub fn cart_create(&self, dims: &[i32], periods: &[bool], reorder: bool) -> Result<Option<Comm>, Error> {
        self.alive("cartesian create")?;
        // Ranks on a node are equally near to each other, and the launcher placed them.
        let _ = reorder;
        let grid = self.fitting_grid(dims, periods)?;
        let places = grid.places();
        self.first_ranks(places, Topology::Cartesian(grid))
    }

    /// The rank that this process would have in a grid (`MPI_Cart_map`); none when the grid does
    /// not need it, or has no places at all.
    ///
    /// # Errors
    /// As [`Comm::cart_create`].
    pub fn cart_map(&self, dims: &[i32], periods: &[bool]) -> Result<Option<u32>, Error> {
        if dims.contains(&0) {
            return Ok(None);
        }
        let grid = self.fitting_grid(dims, periods)?;
        Ok(Some(self.rank()).filter(|rank| *rank < grid.places()))
    }

    /// The grid that the communicator carries.
    ///
    /// # Errors
    /// `Topology` when it carries none.
    pub fn cartesian(&self) -> Result<&Cartesian, Error> {
        match self.topology() {
            Topology::Cartesian(grid) => Ok(grid),
            _ => Err(self.no_topology("grid")),
        }
    }

    /// Source and destination of a shift in the grid, for this process.
    ///
    /// # Errors
    /// `Topology` without a grid, `Dims` for a dimension that there is not.
    pub fn cart_shift(&self, dimension: i32, displacement: i32) -> Result<(Option<u32>, Option<u32>), Error> {
        let grid = self.cartesian()?;
        grid.shift(self.rank() as i32, dimension, displacement).map_err(|e| self.attach(e))
    }

    /// Communicators of the sub-grids along the dimensions kept. Collective.
    ///
    /// # Errors
    /// `Topology` without a grid, `Dims` for a wrong number of flags; those of a new communicator.
    pub fn cart_sub(&self, keep: &[bool]) -> Result<Comm, Error> {
        self.alive("cartesian sub-grids")?;
        let grid = self.cartesian()?;
        let (sub, color, key) = grid.sub(self.rank() as i32, keep).map_err(|e| self.attach(e))?;
        let ranks = self.ranks_like(u64::from(color), key as i32)?;
        let id = self.agree_with_all()?;
        self.subset(id, &ranks, Topology::Cartesian(sub))
    }

    /// A communicator whose first ranks are the nodes of a graph, given whole by every process;
    /// none for the other ranks. Collective.
    ///
    /// # Errors
    /// As [`Graph::new`]; `Arg` when there are more nodes than processes; those of a new
    /// communicator.
    pub fn graph_create(&self, index: &[i32], edges: &[i32], reorder: bool) -> Result<Option<Comm>, Error> {
        self.alive("graph create")?;
        let _ = reorder;
        let graph = Graph::new(index, edges).map_err(|e| self.attach(e))?;
        self.fits(ErrorClass::Arg, "graph create", graph.nodes())?;
        let nodes = graph.nodes();
        self.first_ranks(nodes, Topology::Graph(graph))
    }

    /// The graph that the communicator carries.
    ///
    /// # Errors
    /// `Topology` when it carries none.
    pub fn graph(&self) -> Result<&Graph, Error> {
        match self.topology() {
            Topology::Graph(graph) => Ok(graph),
            _ => Err(self.no_topology("graph")),
        }
    }

    /// A communicator with a distributed graph, of which every process gives its own edges
    /// (`MPI_Dist_graph_create_adjacent`). Collective.
    ///
    /// # Errors
    /// `Rank` for an edge that leads out of the communicator, `Arg` when there is not one weight
    /// for each edge; those of a new communicator.
    pub fn dist_graph_create_adjacent(&self, graph: DistGraph, reorder: bool) -> Result<Comm, Error> {
        const OP: &str = "distributed graph create";
        self.alive(OP)?;
        let _ = reorder;
        if let Some(rank) = graph.sources.iter().chain(&graph.destinations).find(|r| **r >= self.size()) {
            // A negative rank has become one that is in no communicator.
            let detail = format!("an edge leads to rank {} of {}", *rank as i32, self.size());
            return Err(self.attach(Error::new(ErrorClass::Rank, OP, detail)));
        }
        if let Some((from, to)) = &graph.weights {
            if (from.len(), to.len()) != (graph.sources.len(), graph.destinations.len()) {
                let detail = format!(
                    "{} and {} weights for {} and {} edges",
                    from.len(),
                    to.len(),
                    graph.sources.len(),
                    graph.destinations.len()
                );
                return Err(self.attach(Error::new(ErrorClass::Arg, OP, detail)));
            }
        }
        let id = self.agree_with_all()?;
        self.with_group(id, self.group(), Topology::DistGraph(graph))
    }

    /// A communicator with a distributed graph, of which every process gives any edges: from
    /// `sources[i]` to the next `degrees[i]` of `destinations` (`MPI_Dist_graph_create`).
    /// Collective. All processes give weights, one for each edge, or none does.
    ///
    /// # Errors
    /// As [`Comm::dist_graph_create_adjacent`].
    pub fn dist_graph_create(
        &self,
        sources: &[i32],
        degrees: &[i32],
        destinations: &[i32],
        weights: Option<&[i32]>,
        reorder: bool,
    ) -> Result<Comm, Error> {
        self.alive("distributed graph create")?;
        let edges = self.edges(sources, degrees, destinations, weights)?;
        let team = Team::all(self)?;
        // Every process learns the number of edges of each, then all edges, and keeps its own.
        let counts = team.gather_to_all(&[edges.len() as u64])?;
        let most = counts.iter().copied().max().unwrap_or(0) as usize;
        let mut words: Vec<u64> =
            edges.iter().flat_map(|e| [u64::from(e.0) << 32 | u64::from(e.1), e.2 as u32 as u64]).collect();
        words.resize(most * 2, u64::MAX);
        let all = team.gather_to_all(&words)?;
        let mut graph = DistGraph::default();
        let (mut weights_in, mut weights_out) = (Vec::new(), Vec::new());
        for (process, words) in all.chunks(most.max(1) * 2).enumerate() {
            let count = counts.get(process).copied().unwrap_or(0) as usize;
            for edge in words.chunks_exact(2).take(count) {
                let (from, to, weight) = ((edge[0] >> 32) as u32, edge[0] as u32, edge[1] as u32 as i32);
                if to == self.rank() {
                    graph.sources.push(from);
                    weights_in.push(weight);
                }
                if from == self.rank() {
                    graph.destinations.push(to);
                    weights_out.push(weight);
                }
            }
        }
        graph.weights = weights.map(|_| (weights_in, weights_out));
        self.dist_graph_create_adjacent(graph, reorder)
    }

    /// The calling process's part of the distributed graph that the communicator carries.
    ///
    /// # Errors
    /// `Topology` when it carries none.
    pub fn dist_graph(&self) -> Result<&DistGraph, Error> {
        match self.topology() {
            Topology::DistGraph(graph) => Ok(graph),
            _ => Err(self.no_topology("distributed graph")),
        }
    }

    /// Those that this process hears, and those that it speaks to, in neighbourhood collectives;
    /// `None` is the null process at the edge of a grid.
    ///
    /// # Errors
    /// `Topology` when the communicator carries none.
    pub fn neighbours(&self) -> Result<(Neighbours, Neighbours), Error> {
        let some = |ranks: &[u32]| ranks.iter().copied().map(Some).collect::<Vec<_>>();
        match self.topology() {
            Topology::Undefined => Err(self.no_topology("topology")),
            Topology::Cartesian(grid) => {
                let all = grid.neighbours(self.rank() as i32).map_err(|e| self.attach(e))?;
                Ok((all.clone(), all))
            }
            Topology::Graph(graph) => {
                let all = some(graph.neighbours(self.rank() as i32).map_err(|e| self.attach(e))?);
                Ok((all.clone(), all))
            }
            Topology::DistGraph(graph) => Ok((some(&graph.sources), some(&graph.destinations))),
        }
    }

    /// The edges of a general distributed graph: from, to, weight.
    fn edges(
        &self,
        sources: &[i32],
        degrees: &[i32],
        destinations: &[i32],
        weights: Option<&[i32]>,
    ) -> Result<Vec<(u32, u32, i32)>, Error> {
        const OP: &str = "distributed graph create";
        let fault = |class, detail| Err(self.attach(Error::new(class, OP, detail)));
        let total: i64 = degrees.iter().map(|degree| i64::from(*degree)).sum();
        if sources.len() != degrees.len() || degrees.iter().any(|d| *d < 0) {
            return fault(ErrorClass::Arg, format!("degrees {degrees:?} of {} sources", sources.len()));
        }
        if total != destinations.len() as i64 || weights.is_some_and(|w| w.len() != destinations.len()) {
            let detail = format!("degrees add up to {total} and there are {} edges", destinations.len());
            return fault(ErrorClass::Arg, detail);
        }
        let out = |rank: &&i32| u32::try_from(**rank).is_err() || **rank as u32 >= self.size();
        if let Some(rank) = sources.iter().chain(destinations).find(out) {
            return fault(ErrorClass::Rank, format!("an edge touches rank {rank} of {}", self.size()));
        }
        let from = sources.iter().zip(degrees).flat_map(|(s, d)| std::iter::repeat_n(*s, *d as usize));
        let edge = |(at, (from, to)): (usize, (i32, &i32))| {
            let weight = weights.and_then(|weights| weights.get(at)).copied().unwrap_or(1);
            (from as u32, *to as u32, weight)
        };
        Ok(from.zip(destinations).enumerate().map(edge).collect())
    }

    fn fitting_grid(&self, dims: &[i32], periods: &[bool]) -> Result<Cartesian, Error> {
        let grid = Cartesian::new(dims, periods).map_err(|e| self.attach(e))?;
        self.fits(ErrorClass::Dims, "cartesian create", grid.places())?;
        Ok(grid)
    }

    fn fits(&self, class: ErrorClass, op: &'static str, places: u32) -> Result<(), Error> {
        if self.is_inter() {
            let detail = "an inter-communicator carries no topology";
            return Err(self.attach(Error::new(ErrorClass::Comm, op, detail)));
        }
        match places <= self.size() {
            true => Ok(()),
            false => {
                let detail = format!("{places} places for {} processes", self.size());
                Err(self.attach(Error::new(class, op, detail)))
            }
        }
    }

    /// A communicator of the ranks below `count`.
    fn first_ranks(&self, count: u32, topology: Topology) -> Result<Option<Comm>, Error> {
        let id = self.agree_with_all()?;
        if self.rank() >= count {
            return Ok(None);
        }
        let ranks: Vec<i32> = (0..count as i32).collect();
        self.subset(id, &ranks, topology).map(Some)
    }

    fn no_topology(&self, kind: &str) -> Error {
        let detail = format!("the communicator carries no {kind}");
        self.attach(Error::new(ErrorClass::Topology, "topology inquiry", detail))
    }
}
