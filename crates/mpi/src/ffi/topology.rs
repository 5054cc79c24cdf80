//! Grids and graphs under their C names (MPI-4.1 §8).

use std::os::raw::c_int;
use std::ptr;

use mpi_comm::topology::{DistGraph, Graph, Topology};
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::communicator::{comm_numbers, made};
use super::constants::*;
use super::handles::*;

comm_numbers! {
    /// What structure the ranks have.
    MPI_Topo_test = |comm| match comm.topology() {
        Topology::Undefined => MPI_UNDEFINED,
        Topology::Cartesian(_) => 211,
        Topology::Graph(_) => 212,
        Topology::DistGraph(_) => 213,
    };
    /// How many dimensions the grid has.
    MPI_Cartdim_get = |comm| comm.cartesian()?.dims().len();
}

/// # Safety
/// There are `n` numbers.
unsafe fn flags(values: *const c_int, n: usize) -> Vec<bool> {
    // SAFETY: the caller's promise.
    unsafe { slice(values, n) }.iter().map(|&flag| flag != 0).collect()
}

/// Lays a grid over the ranks.
///
/// # Safety
/// The communicator lives; there are `n` dimensions and periods; `newcomm` is writable.
pub unsafe extern "C" fn MPI_Cart_create(
    comm: MPI_Comm,
    n: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let n = count(n)?;
            put(newcomm, made(comm.cart_create(slice(dims, n), &flags(periods, n), reorder != 0)?));
            Ok(())
        })
    }
}

/// The rank that this process would have on a grid, or `MPI_UNDEFINED`.
///
/// # Safety
/// The communicator lives; there are `n` dimensions and periods; `rank` is writable.
pub unsafe extern "C" fn MPI_Cart_map(
    comm: MPI_Comm,
    n: c_int,
    dims: *const c_int,
    periods: *const c_int,
    rank: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let n = count(n)?;
            let found = comm.cart_map(slice(dims, n), &flags(periods, n))?;
            put(rank, found.map_or(MPI_UNDEFINED, |rank| rank as c_int));
            Ok(())
        })
    }
}

/// The shape of the grid and this process's place.
///
/// # Safety
/// The communicator lives; there is room for `n` numbers each.
pub unsafe extern "C" fn MPI_Cart_get(
    comm: MPI_Comm,
    n: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (grid, n) = (comm.cartesian()?, count(n)?);
            let here = grid.coords(comm.rank() as i32)?;
            let each = grid.dims().iter().zip(grid.periods()).zip(here).take(n);
            for (i, ((&dim, &period), coord)) in each.enumerate() {
                put(dims.add(i), dim);
                put(periods.add(i), c_int::from(period));
                put(coords.add(i), coord);
            }
            Ok(())
        })
    }
}

/// The rank at coordinates.
///
/// # Safety
/// The communicator lives; there are as many coordinates as dimensions; `rank` is writable.
pub unsafe extern "C" fn MPI_Cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let grid = comm.cartesian()?;
            put(rank, grid.rank(slice(coords, grid.dims().len()))? as c_int);
            Ok(())
        })
    }
}

/// The coordinates of a rank.
///
/// # Safety
/// The communicator lives; there is room for `n` numbers.
pub unsafe extern "C" fn MPI_Cart_coords(comm: MPI_Comm, rank: c_int, n: c_int, coords: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let found = comm.cartesian()?.coords(rank)?;
            for (place, coord) in slice_mut(coords, count(n)?).iter_mut().zip(found) {
                *place = coord;
            }
            Ok(())
        })
    }
}

/// Source and destination of a shift.
///
/// # Safety
/// The communicator lives; both results are writable.
pub unsafe extern "C" fn MPI_Cart_shift(
    comm: MPI_Comm,
    dimension: c_int,
    displacement: c_int,
    source: *mut c_int,
    dest: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (behind, ahead) = comm.cart_shift(dimension, displacement)?;
            put(source, behind.map_or(MPI_PROC_NULL, |rank| rank as c_int));
            put(dest, ahead.map_or(MPI_PROC_NULL, |rank| rank as c_int));
            Ok(())
        })
    }
}

/// The sub-grid that this process is in.
///
/// # Safety
/// The communicator lives; there are as many flags as dimensions; `newcomm` is writable.
pub unsafe extern "C" fn MPI_Cart_sub(comm: MPI_Comm, keep: *const c_int, newcomm: *mut MPI_Comm) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let n = comm.cartesian()?.dims().len();
            put(newcomm, made(Some(comm.cart_sub(&flags(keep, n))?)));
            Ok(())
        })
    }
}

/// Lays a graph over the ranks, of which every process knows the whole.
///
/// # Safety
/// The communicator lives; there are `nnodes` numbers in `index`, and as many `edges` as the last of them says;
/// `newcomm` is writable.
pub unsafe extern "C" fn MPI_Graph_create(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (index, edges) = whole(nnodes, index, edges)?;
            put(newcomm, made(comm.graph_create(index, edges, reorder != 0)?));
            Ok(())
        })
    }
}

/// The rank that this process would have in a graph, or `MPI_UNDEFINED`.
///
/// # Safety
/// As [`MPI_Graph_create`]; `newrank` is writable.
pub unsafe extern "C" fn MPI_Graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (index, edges) = whole(nnodes, index, edges)?;
            let inside = comm.rank() < Graph::new(index, edges)?.nodes();
            put(newrank, if inside { comm.rank() as c_int } else { MPI_UNDEFINED });
            Ok(())
        })
    }
}

/// # Safety
/// There are `nnodes` numbers in `index`, and as many `edges` as the last of them says.
unsafe fn whole<'a>(
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Outcome<(&'a [c_int], &'a [c_int])> {
    // SAFETY: the caller's promise.
    unsafe {
        let index = slice(index, count(nnodes)?);
        Ok((index, slice(edges, count(index.last().copied().unwrap_or(0))?)))
    }
}

/// How many nodes and edges the graph has.
///
/// # Safety
/// The communicator lives; both results are writable.
pub unsafe extern "C" fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let graph = comm.graph()?;
            put(nnodes, int(graph.nodes()));
            put(nedges, int(graph.edges().len()));
            Ok(())
        })
    }
}

/// The graph.
///
/// # Safety
/// The communicator lives; there is room for `maxindex` and `maxedges` numbers.
pub unsafe extern "C" fn MPI_Graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let graph = comm.graph()?;
            put_ranks(graph.index(), index, maxindex)?;
            put_ranks(graph.edges(), edges, maxedges)
        })
    }
}

/// How many neighbours a rank has in the graph.
///
/// # Safety
/// The communicator lives; `nneighbors` is writable.
pub unsafe extern "C" fn MPI_Graph_neighbors_count(
    comm: MPI_Comm,
    rank: c_int,
    nneighbors: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put(nneighbors, int(comm.graph()?.neighbours(rank)?.len()));
            Ok(())
        })
    }
}

/// The neighbours of a rank in the graph.
///
/// # Safety
/// The communicator lives; there is room for `maxneighbors` numbers.
pub unsafe extern "C" fn MPI_Graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(comm, |comm| put_ranks(comm.graph()?.neighbours(rank)?, neighbors, maxneighbors)) }
}

/// Lays a graph over the ranks, of which every process gives its own edges.
///
/// # Safety
/// The communicator lives; there are `indegree` sources and `outdegree` destinations, and as many weights each unless
/// they are [`MPI_UNWEIGHTED`] or [`MPI_WEIGHTS_EMPTY`]; `newcomm` is writable.
pub unsafe extern "C" fn MPI_Dist_graph_create_adjacent(
    comm: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    _info: MPI_Info,
    reorder: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (from, to) = (count(indegree)?, count(outdegree)?);
            let weights = match (weights(sourceweights, from)?, weights(destweights, to)?) {
                (Some(from), Some(to)) => Some((from.to_vec(), to.to_vec())),
                (None, None) => None,
                _ => return Err(half_weighted()),
            };
            // What is no rank becomes one that is in no communicator.
            let ranks = |place, n| slice(place, n).iter().map(|rank: &c_int| *rank as u32).collect();
            let own =
                DistGraph { sources: ranks(sources, from), destinations: ranks(destinations, to), weights };
            put(newcomm, MPI_Comm::give(comm.dist_graph_create_adjacent(own, reorder != 0)?));
            Ok(())
        })
    }
}

/// Lays a graph over the ranks, of which every process gives any edges: from `sources[i]` to the next `degrees[i]` of
/// `destinations`.
///
/// # Safety
/// The communicator lives; there are `n` sources and degrees, as many destinations as the degrees add up to, and as
/// many weights unless they are [`MPI_UNWEIGHTED`] or [`MPI_WEIGHTS_EMPTY`]; `newcomm` is writable.
pub unsafe extern "C" fn MPI_Dist_graph_create(
    comm: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    edge_weights: *const c_int,
    _info: MPI_Info,
    reorder: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let n = count(n)?;
            let (sources, degrees) = (slice(sources, n), slice(degrees, n));
            let edges = degrees.iter().try_fold(0, |sum, degree| Ok::<_, Error>(sum + count(*degree)?))?;
            let (destinations, weights) = (slice(destinations, edges), weights(edge_weights, edges)?);
            let made = comm.dist_graph_create(sources, degrees, destinations, weights, reorder != 0)?;
            put(newcomm, MPI_Comm::give(made));
            Ok(())
        })
    }
}

/// # Safety
/// There are `n` weights, or the place is a mark.
unsafe fn weights<'a>(place: *const c_int, n: usize) -> Outcome<Option<&'a [c_int]>> {
    if ptr::eq(place, MPI_UNWEIGHTED) {
        return Ok(None);
    }
    if n > 0 && ptr::eq(place, MPI_WEIGHTS_EMPTY) {
        let detail = format!("{n} edges have no weights, and the graph is weighted");
        return Err(Error::new(ErrorClass::Arg, "distributed graph create", detail));
    }
    // SAFETY: the caller's promise.
    Ok(Some(unsafe { slice(place, n) }))
}

fn half_weighted() -> Error {
    let detail = "edges of one direction have weights, those of the other have none";
    Error::new(ErrorClass::Arg, "distributed graph create", detail)
}

/// How many edges of the distributed graph end and start at this process, and whether they have weights.
///
/// # Safety
/// The communicator lives; the results are writable.
pub unsafe extern "C" fn MPI_Dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let graph = comm.dist_graph()?;
            put(indegree, int(graph.sources.len()));
            put(outdegree, int(graph.destinations.len()));
            put(weighted, c_int::from(graph.weights.is_some()));
            Ok(())
        })
    }
}

/// The edges of the distributed graph that end and start at this process. Weights are written where the graph has any.
///
/// # Safety
/// The communicator lives; there is room for `maxindegree` sources and `maxoutdegree` destinations, and for as many
/// weights each unless they are [`MPI_UNWEIGHTED`] or the graph has none.
pub unsafe extern "C" fn MPI_Dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let graph = comm.dist_graph()?;
            put_ranks(&graph.sources, sources, maxindegree)?;
            put_ranks(&graph.destinations, destinations, maxoutdegree)?;
            if let Some((from, to)) = &graph.weights {
                put_weights(from, sourceweights, maxindegree)?;
                put_weights(to, destweights, maxoutdegree)?;
            }
            Ok(())
        })
    }
}

/// # Safety
/// There is room for `max` numbers.
unsafe fn put_ranks(ranks: &[u32], place: *mut c_int, max: c_int) -> Outcome {
    let max = count(max)?.min(ranks.len());
    // SAFETY: the caller's promise.
    for (place, rank) in unsafe { slice_mut(place, max) }.iter_mut().zip(ranks) {
        *place = int(*rank);
    }
    Ok(())
}

/// # Safety
/// There is room for `max` numbers, or the place is a mark.
unsafe fn put_weights(weights: &[i32], place: *mut c_int, max: c_int) -> Outcome {
    let max = count(max)?.min(weights.len());
    if !ptr::eq(place, MPI_UNWEIGHTED) {
        // SAFETY: the caller's promise.
        unsafe { slice_mut(place, max) }.copy_from_slice(&weights[..max]);
    }
    Ok(())
}
