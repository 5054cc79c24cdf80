//! The rod, and a rank's part of it.

use mpi::datatype::PartitionMut;
use mpi::ext::{Error, prelude::*};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

pub const CELLS: usize = 1000;
const TAG_END: i32 = 1;

/// The whole rod after so many steps.
#[derive(Clone, PartialEq, Debug)]
pub struct Rod {
    pub step: u64,
    pub cells: Vec<f64>,
}

/// Cells of one rank, between one more at each end that is a neighbour's.
pub struct Part {
    cells: Vec<f64>,
    counts: Vec<i32>,
}

impl Rod {
    pub fn new() -> Rod {
        let cells = (0..CELLS).map(|i| if i % 97 < 40 { 100.0 } else { (i % 13) as f64 }).collect();
        Rod { step: 0, cells }
    }

    /// What one rank computes alone.
    pub fn alone(steps: u64) -> Rod {
        let mut part = Rod::new().part(0, 1);
        (0..steps).for_each(|_| part.step());
        Rod { step: steps, cells: part.own().to_vec() }
    }

    /// The one that the first rank has.
    pub fn of_the_first(team: &SimpleCommunicator, mine: Option<&Rod>) -> Result<Rod, Error> {
        let mut rod = mine.cloned().unwrap_or_else(Rod::new);
        let first = team.process_at_rank(0);
        first.try_broadcast_into(&mut rod.step)?;
        first.try_broadcast_into(&mut rod.cells[..])?;
        Ok(rod)
    }

    /// The part of one of `size` ranks.
    pub fn part(&self, rank: usize, size: usize) -> Part {
        let cut = |rank: usize| CELLS * rank / size;
        let mut cells = vec![0.0; cut(rank + 1) - cut(rank) + 2];
        let end = cells.len() - 1;
        cells[1..end].copy_from_slice(&self.cells[cut(rank)..cut(rank + 1)]);
        let counts = (0..size).map(|rank| (cut(rank + 1) - cut(rank)) as i32).collect();
        Part { cells, counts }
    }
}

impl Part {
    fn own(&self) -> &[f64] {
        &self.cells[1..self.cells.len() - 1]
    }

    /// Gets the neighbours' cells; beyond the ends of the rod there is nothing to be got.
    pub fn exchange_ends(&mut self, team: &SimpleCommunicator) -> Result<(), Error> {
        let (rank, size, last) = (team.rank(), team.size(), self.cells.len() - 1);
        for (at, peer) in [(1, rank - 1), (last - 1, rank + 1)] {
            if (0..size).contains(&peer) {
                team.process_at_rank(peer).try_send_with_tag(&self.cells[at], TAG_END)?;
            }
        }
        for (at, peer) in [(0, rank - 1), (last, rank + 1)] {
            if (0..size).contains(&peer) {
                let from = team.process_at_rank(peer);
                from.try_receive_into_with_tag(&mut self.cells[at], TAG_END)?;
            }
        }
        Ok(())
    }

    pub fn step(&mut self) {
        let before = self.cells.clone();
        for i in 1..self.cells.len() - 1 {
            self.cells[i] = before[i] + 0.25 * (before[i - 1] - 2.0 * before[i] + before[i + 1]);
        }
    }

    /// Everybody gets the whole rod.
    pub fn gather(&self, team: &SimpleCommunicator, step: u64) -> Result<Rod, Error> {
        let mut cells = vec![0.0; CELLS];
        let starts: Vec<i32> = (0..self.counts.len()).map(|rank| self.counts[..rank].iter().sum()).collect();
        {
            let mut places = PartitionMut::new(&mut cells[..], &self.counts[..], &starts[..]);
            team.try_all_gather_varcount_into(self.own(), &mut places)?;
        }
        Ok(Rod { step, cells })
    }
}
