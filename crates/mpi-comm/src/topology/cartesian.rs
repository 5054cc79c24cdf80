//! Grids: where a rank sits, who is next to it (MPI 4.1 section 8.5). Row-major, as the standard
//! asks: the last coordinate varies fastest.

use mpi_p2p::{Error, ErrorClass};

/// A grid of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cartesian {
    dims: Vec<i32>,
    periods: Vec<bool>,
}

impl Cartesian {
    /// A grid with `dims[i]` processes along dimension `i`, closed to a ring where `periods[i]`.
    ///
    /// # Errors
    /// `Dims` when the lengths differ, a dimension is below 1, or the grid has more places than an
    /// `i32` counts.
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Cartesian, Error> {
        let fault = |detail| Err(Error::new(ErrorClass::Dims, "cartesian create", detail));
        if dims.len() != periods.len() {
            return fault(format!("{} dimensions and {} periods", dims.len(), periods.len()));
        }
        if let Some(at) = dims.iter().position(|dim| *dim < 1) {
            return fault(format!("dimension {at} is {}", dims[at]));
        }
        if dims.iter().try_fold(1i32, |all, dim| all.checked_mul(*dim)).is_none() {
            return fault(format!("the grid {dims:?} has too many places"));
        }
        Ok(Cartesian { dims: dims.to_vec(), periods: periods.to_vec() })
    }

    /// Processes along each dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Which dimensions are rings.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Number of places; 1 for a grid without dimensions.
    pub fn places(&self) -> u32 {
        self.dims.iter().product::<i32>() as u32
    }

    /// The coordinates of a rank.
    ///
    /// # Errors
    /// `Rank` for a rank outside the grid.
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>, Error> {
        if rank < 0 || rank as u32 >= self.places() {
            let detail = format!("rank {rank} is not in the grid {:?}", self.dims);
            return Err(Error::new(ErrorClass::Rank, "cartesian coords", detail));
        }
        let mut left = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = left % dim;
            left /= dim;
        }
        Ok(coords)
    }

    /// The rank at coordinates; along a ring they may lie outside and wrap around.
    ///
    /// # Errors
    /// `Dims` for a wrong number of coordinates, `Arg` for one that lies outside a dimension that is no ring.
    pub fn rank(&self, coords: &[i32]) -> Result<u32, Error> {
        const OP: &str = "cartesian rank";
        if coords.len() != self.dims.len() {
            let detail = format!("{} coordinates for {} dimensions", coords.len(), self.dims.len());
            return Err(Error::new(ErrorClass::Dims, OP, detail));
        }
        let mut rank = 0;
        for (at, (&coord, &dim)) in coords.iter().zip(&self.dims).enumerate() {
            let inside = match self.periods[at] {
                true => coord.rem_euclid(dim),
                false if (0..dim).contains(&coord) => coord,
                false => {
                    let detail = format!("coordinate {at} is {coord}, outside 0..{dim}");
                    return Err(Error::new(ErrorClass::Arg, OP, detail));
                }
            };
            rank = rank * dim + inside;
        }
        Ok(rank as u32)
    }

    /// Source and destination of a shift by `displacement` along `dimension`, for `rank`: who is
    /// that far behind and ahead. `None` where the grid ends (the null process).
    ///
    /// # Errors
    /// `Dims` for a dimension that there is not, `Rank` for a rank outside.
    pub fn shift(
        &self,
        rank: i32,
        dimension: i32,
        displacement: i32,
    ) -> Result<(Option<u32>, Option<u32>), Error> {
        let coords = self.coords(rank)?;
        let Some(at) = usize::try_from(dimension).ok().filter(|at| *at < coords.len()) else {
            let detail = format!("dimension {dimension} of {}", coords.len());
            return Err(Error::new(ErrorClass::Dims, "cartesian shift", detail));
        };
        let moved = |by: i64| {
            let (there, dim) = (i64::from(coords[at]) + by, i64::from(self.dims[at]));
            let there = if self.periods[at] { there.rem_euclid(dim) } else { there };
            if !(0..dim).contains(&there) {
                return None;
            }
            let mut coords = coords.clone();
            coords[at] = there as i32;
            self.rank(&coords).ok()
        };
        let by = i64::from(displacement);
        Ok((moved(-by), moved(by)))
    }

    /// The grid of the dimensions kept, with the color (which of the sub-grids) and the key (the
    /// place in it) of `rank`.
    ///
    /// # Errors
    /// `Dims` when `keep` has another length than the dimensions, `Rank` for a rank outside.
    pub(crate) fn sub(&self, rank: i32, keep: &[bool]) -> Result<(Cartesian, u32, u32), Error> {
        if keep.len() != self.dims.len() {
            let detail = format!("{} flags for {} dimensions", keep.len(), self.dims.len());
            return Err(Error::new(ErrorClass::Dims, "cartesian sub", detail));
        }
        let coords = self.coords(rank)?;
        let (mut color, mut key) = (0, 0);
        let mut sub = Cartesian { dims: Vec::new(), periods: Vec::new() };
        for (at, &kept) in keep.iter().enumerate() {
            let place = if kept { &mut key } else { &mut color };
            *place = *place * self.dims[at] as u32 + coords[at] as u32;
            if kept {
                sub.dims.push(self.dims[at]);
                sub.periods.push(self.periods[at]);
            }
        }
        Ok((sub, color, key))
    }

    /// The neighbours in the order of neighbourhood collectives: per dimension the one behind,
    /// then the one ahead.
    pub fn neighbours(&self, rank: i32) -> Result<Vec<Option<u32>>, Error> {
        let mut out = Vec::with_capacity(2 * self.dims.len());
        for dimension in 0..self.dims.len() {
            let (behind, ahead) = self.shift(rank, dimension as i32, 1)?;
            out.extend([behind, ahead]);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_torus_and_a_strip() {
        let grid = Cartesian::new(&[2, 3], &[false, true]).unwrap();
        assert_eq!(grid.coords(5).unwrap(), [1, 2]);
        assert_eq!(grid.rank(&[1, -1]).unwrap(), 5);
        assert_eq!(grid.shift(0, 0, 1).unwrap(), (None, Some(3)));
        assert_eq!(grid.shift(0, 1, 1).unwrap(), (Some(2), Some(1)));
        assert_eq!(grid.shift(4, 1, 3).unwrap(), (Some(4), Some(4)));
        assert_eq!(grid.neighbours(0).unwrap(), [None, Some(3), Some(2), Some(1)]);
        let (sub, color, key) = grid.sub(5, &[false, true]).unwrap();
        assert_eq!((sub.dims(), color, key), (&[3][..], 1, 2));
    }

    #[test]
    fn a_grid_without_dimensions_is_one_place() {
        let grid = Cartesian::new(&[], &[]).unwrap();
        assert_eq!(grid.places(), 1);
        assert_eq!(grid.rank(&[]).unwrap(), 0);
        assert!(grid.coords(1).is_err());
    }

    #[test]
    fn what_lies_outside_is_named() {
        let grid = Cartesian::new(&[2, 2], &[false, true]).unwrap();
        assert!(grid.rank(&[2, 0]).unwrap_err().to_string().contains("coordinate 0 is 2"));
        assert!(grid.shift(0, 2, 1).unwrap_err().to_string().contains("dimension 2 of 2"));
        assert!(Cartesian::new(&[0], &[false]).unwrap_err().to_string().contains("dimension 0 is 0"));
        assert!(Cartesian::new(&[i32::MAX, 2], &[false, false]).is_err());
    }

    proptest! {
        #[test]
        fn coordinates_and_ranks_are_inverse(dims in proptest::collection::vec(1i32..5, 0..4), seed: u32) {
            let grid = Cartesian::new(&dims, &vec![false; dims.len()]).unwrap();
            let rank = seed % grid.places();
            prop_assert_eq!(grid.rank(&grid.coords(rank as i32).unwrap()).unwrap(), rank);
        }

        #[test]
        fn who_is_ahead_has_me_behind(dims in proptest::collection::vec(1i32..5, 1..4),
                                      ring: bool, seed: u32, by in -7i32..7) {
            let grid = Cartesian::new(&dims, &vec![ring; dims.len()]).unwrap();
            let rank = seed % grid.places();
            let along = (seed as usize % dims.len()) as i32;
            if let (_, Some(ahead)) = grid.shift(rank as i32, along, by).unwrap() {
                prop_assert_eq!(grid.shift(ahead as i32, along, by).unwrap().0, Some(rank));
            }
        }
    }
}
