//! Graphs of processes: the whole graph known to all (MPI 4.1 section 8.5.3), and the distributed
//! kind, of which every process knows its own edges (section 8.5.4).

use mpi_p2p::{Error, ErrorClass};

/// A graph that every process knows whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Where the neighbours of rank `i` end in `edges`.
    index: Vec<u32>,
    edges: Vec<u32>,
}

impl Graph {
    /// The graph with the neighbours of rank `i` at `edges[index[i - 1]..index[i]]`.
    ///
    /// # Errors
    /// `Arg` when `index` falls or does not end at the number of edges, `Rank` for an edge that
    /// leads to no node.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Graph, Error> {
        const OP: &str = "graph create";
        let falls = index.iter().scan(0, |last, end| Some(std::mem::replace(last, *end) > *end));
        if let Some(at) = falls.into_iter().position(|falls| falls) {
            return Err(Error::new(ErrorClass::Arg, OP, format!("the index falls at node {at}")));
        }
        let end = index.last().copied().unwrap_or(0);
        if end as usize != edges.len() {
            let detail = format!("the index ends at {end} and there are {} edges", edges.len());
            return Err(Error::new(ErrorClass::Arg, OP, detail));
        }
        if let Some(edge) = edges.iter().find(|edge| **edge < 0 || **edge as usize >= index.len()) {
            let detail = format!("an edge leads to rank {edge} of {}", index.len());
            return Err(Error::new(ErrorClass::Rank, OP, detail));
        }
        let unsigned = |list: &[i32]| list.iter().map(|x| *x as u32).collect();
        Ok(Graph { index: unsigned(index), edges: unsigned(edges) })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.index.len() as u32
    }

    /// Where the neighbours of each rank end in [`Graph::edges`].
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// All edges, by the rank they start from.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a rank.
    ///
    /// # Errors
    /// `Rank` for a rank outside the graph.
    pub fn neighbours(&self, rank: i32) -> Result<&[u32], Error> {
        let node = usize::try_from(rank).ok().filter(|node| *node < self.index.len());
        let Some(node) = node else {
            let detail = format!("rank {rank} is not in the graph of {} nodes", self.index.len());
            return Err(Error::new(ErrorClass::Rank, "graph neighbors", detail));
        };
        let start = if node == 0 { 0 } else { self.index[node - 1] };
        Ok(&self.edges[start as usize..self.index[node] as usize])
    }
}

/// The calling process's part of a distributed graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DistGraph {
    /// Ranks with an edge to this process.
    pub sources: Vec<u32>,
    /// Ranks to which this process has an edge.
    pub destinations: Vec<u32>,
    /// Weights of the edges from `sources` and to `destinations`, if the graph has any.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        // MPI 4.1, section 8.5.3: 0: 1 3, 1: 0, 2: 3, 3: 0 2.
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        assert_eq!(graph.nodes(), 4);
        assert_eq!(graph.neighbours(0).unwrap(), [1, 3]);
        assert_eq!(graph.neighbours(2).unwrap(), [3]);
        assert_eq!(graph.neighbours(3).unwrap(), [0, 2]);
        assert!(graph.neighbours(4).is_err());
        assert!(graph.neighbours(-1).is_err());
    }

    #[test]
    fn malformed_graphs_are_refused() {
        for (index, edges, word) in [
            (&[2, 1][..], &[0, 1][..], "falls at node 1"),
            (&[-1][..], &[][..], "falls at node 0"),
            (&[1][..], &[][..], "ends at 1"),
            (&[1][..], &[1][..], "leads to rank 1 of 1"),
        ] {
            let text = Graph::new(index, edges).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
