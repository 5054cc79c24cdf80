//! Virtual topologies: what can be known without communicating. Making communicators that carry one
//! is in [`crate::Comm`].

mod cartesian;
mod dims;
mod graph;

pub use cartesian::Cartesian;
pub use dims::dims_create;
pub use graph::{DistGraph, Graph};

/// The topology that a communicator carries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Topology {
    /// None.
    #[default]
    Undefined,
    /// A grid.
    Cartesian(Cartesian),
    /// A graph known whole.
    Graph(Graph),
    /// A distributed graph.
    DistGraph(DistGraph),
}
