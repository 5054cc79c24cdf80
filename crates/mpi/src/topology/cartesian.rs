//! Grids of processes (MPI-4.1 §8.5).

use mpi_comm::topology::Cartesian;

use super::sealed::{AsHandle, CommunicatorHandle};
use super::simple::communicator;
use super::{AsCommunicator, Communicator, IntoTopology, Rank, SimpleCommunicator, core_comm};
use crate::ffi::MPI_Comm;
use crate::raw::traits::*;
use crate::{Count, error};

/// The shape of a grid and the calling process's place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartesianLayout {
    /// How many processes there are along each dimension.
    pub dims: Vec<Count>,
    /// Whether each dimension closes to a ring.
    pub periods: Vec<bool>,
    /// The calling process's coordinate along each dimension.
    pub coords: Vec<Count>,
}

/// A communicator whose ranks lie on a grid.
pub struct CartesianCommunicator(pub(crate) SimpleCommunicator);

communicator!(CartesianCommunicator, |this| this.0.as_handle(), target_size: size);

impl FromRaw for CartesianCommunicator {
    unsafe fn from_raw(raw: <Self as AsRaw>::Raw) -> Self {
        // SAFETY: the caller's promise.
        CartesianCommunicator(unsafe { SimpleCommunicator::from_raw(raw) })
    }
}

impl CartesianCommunicator {
    /// Takes over the communicator that a handle names, if it has a grid.
    ///
    /// # Safety
    /// As for [`FromRaw::from_raw`], except that any kind of communicator and the null handle may come.
    pub unsafe fn try_from_raw(raw: MPI_Comm) -> Option<CartesianCommunicator> {
        // SAFETY: the caller's promise.
        let handle = unsafe { CommunicatorHandle::try_from_raw(raw) }?;
        match SimpleCommunicator(handle).into_topology() {
            IntoTopology::Cartesian(c) => Some(c),
            other => {
                std::mem::forget(other); // the caller still owns what was not taken
                None
            }
        }
    }

    #[track_caller]
    fn grid(&self) -> &Cartesian {
        let comm = core_comm(self);
        error::ok(comm, comm.cartesian())
    }

    /// The coordinates of a rank that exists.
    #[track_caller]
    fn coords(&self, rank: Rank) -> Vec<Count> {
        error::ok(core_comm(self), self.grid().coords(rank))
    }

    /// How many dimensions the grid has (`MPI_Cartdim_get`).
    pub fn num_dimensions(&self) -> Count {
        self.grid().dims().len() as Count
    }

    /// As [`get_layout_into`](Self::get_layout_into); lengths are still checked.
    ///
    /// # Safety
    /// Each slice must be as long as there are dimensions.
    ///
    /// # Panics
    /// If one is shorter.
    pub unsafe fn get_layout_into_unchecked(
        &self,
        dims: &mut [Count],
        periods: &mut [bool],
        coords: &mut [Count],
    ) {
        let n = self.grid().dims().len();
        self.fill_layout(&mut dims[..n], &mut periods[..n], &mut coords[..n]);
    }

    /// Writes shape and place into slices (`MPI_Cart_get`).
    ///
    /// # Panics
    /// If a slice is not as long as there are dimensions.
    #[track_caller]
    pub fn get_layout_into(&self, dims: &mut [Count], periods: &mut [bool], coords: &mut [Count]) {
        let n = self.grid().dims().len();
        for len in [dims.len(), periods.len(), coords.len()] {
            assert_eq!(len, n, "dims, periods and coords must be as long as there are dimensions");
        }
        self.fill_layout(dims, periods, coords);
    }

    fn fill_layout(&self, dims: &mut [Count], periods: &mut [bool], coords: &mut [Count]) {
        let grid = self.grid();
        dims.copy_from_slice(grid.dims());
        periods.copy_from_slice(grid.periods());
        coords.copy_from_slice(&self.coords(self.rank()));
    }

    /// Shape and place (`MPI_Cart_get`).
    pub fn get_layout(&self) -> CartesianLayout {
        let grid = self.grid();
        CartesianLayout {
            dims: grid.dims().to_vec(),
            periods: grid.periods().to_vec(),
            coords: self.coords(self.rank()),
        }
    }

    /// The rank at the given coordinates (`MPI_Cart_rank`).
    ///
    /// # Safety
    /// There must be a coordinate for each dimension, inside the grid where the dimension is not periodic.
    pub unsafe fn coordinates_to_rank_unchecked(&self, coords: &[Count]) -> Rank {
        self.coordinates_to_rank(coords)
    }

    /// The rank at the given coordinates; those along periodic dimensions wrap around (`MPI_Cart_rank`).
    ///
    /// # Panics
    /// If there is not one coordinate for each dimension, or one lies outside of a dimension that is not periodic.
    #[track_caller]
    pub fn coordinates_to_rank(&self, coords: &[Count]) -> Rank {
        let comm = core_comm(self);
        match self.grid().rank(coords) {
            Ok(rank) => rank as Rank,
            Err(why) => panic!("coordinates {coords:?} on the grid \"{}\": {why}", comm.name()),
        }
    }

    /// As [`rank_to_coordinates_into`](Self::rank_to_coordinates_into).
    ///
    /// # Safety
    /// The rank must exist, and the slice be as long as there are dimensions.
    pub unsafe fn rank_to_coordinates_into_unchecked(&self, rank: Rank, coords: &mut [Count]) {
        self.rank_to_coordinates_into(rank, coords);
    }

    /// Writes the coordinates of a rank into a slice (`MPI_Cart_coords`).
    ///
    /// # Panics
    /// If the rank does not exist, or the slice is not as long as there are dimensions.
    pub fn rank_to_coordinates_into(&self, rank: Rank, coords: &mut [Count]) {
        coords.copy_from_slice(&self.rank_to_coordinates(rank));
    }

    /// The coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Panics
    /// If the rank does not exist.
    #[track_caller]
    pub fn rank_to_coordinates(&self, rank: Rank) -> Vec<Count> {
        let size = self.size();
        assert!((0..size).contains(&rank), "rank {rank} is not on the grid, which has {size} ranks");
        self.coords(rank)
    }

    /// As [`shift`](Self::shift).
    ///
    /// # Safety
    /// The dimension must exist.
    pub unsafe fn shift_unchecked(
        &self,
        dimension: Count,
        displacement: Count,
    ) -> (Option<Rank>, Option<Rank>) {
        self.shift(dimension, displacement)
    }

    /// Whom to receive from and whom to send to, to move data `displacement` steps along a dimension; none where
    /// that lies outside of the grid (`MPI_Cart_shift`).
    ///
    /// # Panics
    /// If the dimension does not exist.
    #[track_caller]
    pub fn shift(&self, dimension: Count, displacement: Count) -> (Option<Rank>, Option<Rank>) {
        let n = self.num_dimensions();
        assert!((0..n).contains(&dimension), "dimension {dimension} does not exist: the grid has {n}");
        let comm = core_comm(self);
        let (source, destination) = error::ok(comm, comm.cart_shift(dimension, displacement));
        (source.map(|rank| rank as Rank), destination.map(|rank| rank as Rank))
    }

    /// As [`subgroup`](Self::subgroup).
    ///
    /// # Safety
    /// The slice must be as long as there are dimensions.
    pub unsafe fn subgroup_unchecked(&self, retain: &[bool]) -> CartesianCommunicator {
        self.subgroup(retain)
    }

    /// Cuts the grid into grids of the retained dimensions, and returns the one that this process is in
    /// (`MPI_Cart_sub`). Collective.
    ///
    /// # Panics
    /// If the slice is not as long as there are dimensions.
    #[track_caller]
    pub fn subgroup(&self, retain: &[bool]) -> CartesianCommunicator {
        let n = self.grid().dims().len();
        assert_eq!(retain.len(), n, "it must be said of each dimension whether it is retained");
        let comm = core_comm(self);
        CartesianCommunicator(SimpleCommunicator::made(error::ok(comm, comm.cart_sub(retain))))
    }
}
