//! One rank's part of the plate, and the exchange of its edges with the ranks beside it.

use mpi::datatype::{UserDatatype, View};
use mpi::topology::{CartesianCommunicator, Process};
use mpi::traits::*;

use crate::plate::{Part, Tile};

const TAG_UP: i32 = 1;
const TAG_DOWN: i32 = 2;
const TAG_LEFT: i32 = 3;
const TAG_RIGHT: i32 = 4;

pub struct Block {
    pub part: Part,
    pub tile: Tile,
    /// One column of the tile: a cell per row, a row apart.
    column: UserDatatype,
}

impl Block {
    pub fn new(grid: &CartesianCommunicator, cells: usize) -> Block {
        let part = Block::part_of(grid, grid.rank(), cells);
        let tile = Tile::new(&part, cells);
        let column =
            UserDatatype::vector(tile.rows as i32, 1, tile.stride() as i32, &f64::equivalent_datatype());
        Block { part, tile, column }
    }

    /// The rows and columns that a rank owns.
    pub fn part_of(grid: &CartesianCommunicator, rank: i32, cells: usize) -> Part {
        let dims = grid.get_layout().dims;
        let coords = grid.rank_to_coordinates(rank);
        (share(cells, dims[0], coords[0]), share(cells, dims[1], coords[1]))
    }

    /// Sends the four edges of the block and receives those of its neighbours into the border.
    pub fn exchange_edges(&mut self, grid: &CartesianCommunicator) {
        let neighbours = |dimension| {
            let (before, after) = grid.shift(dimension, 1);
            (before.map(|rank| grid.process_at_rank(rank)), after.map(|rank| grid.process_at_rank(rank)))
        };
        let ((up, down), (left, right)) = (neighbours(0), neighbours(1));
        self.exchange_rows(up, down);
        self.exchange_columns(left, right);
    }

    /// Rows lie in memory as they are sent; the border rows are received in place.
    fn exchange_rows(&mut self, up: Option<Process<'_>>, down: Option<Process<'_>>) {
        let (stride, columns, rows) = (self.tile.stride(), self.tile.columns, self.tile.rows);
        let (top, rest) = self.tile.cells.split_at_mut(stride);
        let (inner, bottom) = rest.split_at_mut(rows * stride);
        let edge = 1..=columns;
        mpi::request::multiple_scope(4, |scope, requests| {
            if let Some(up) = &up {
                requests.add(up.immediate_receive_into_with_tag(scope, &mut top[edge.clone()], TAG_DOWN));
                requests.add(up.immediate_send_with_tag(scope, &inner[edge.clone()], TAG_UP));
            }
            if let Some(down) = &down {
                requests.add(down.immediate_receive_into_with_tag(scope, &mut bottom[edge.clone()], TAG_UP));
                let last = &inner[(rows - 1) * stride..][edge.clone()];
                requests.add(down.immediate_send_with_tag(scope, last, TAG_DOWN));
            }
            requests.wait_all(&mut Vec::with_capacity(4));
        });
    }

    /// Columns are sent through the vector datatype, straight from the tile, and received as plain numbers.
    fn exchange_columns(&mut self, left: Option<Process<'_>>, right: Option<Process<'_>>) {
        let (stride, columns, rows) = (self.tile.stride(), self.tile.columns, self.tile.rows);
        let mut from_left = vec![0.0; rows];
        let mut from_right = vec![0.0; rows];
        let cells = &self.tile.cells;
        // SAFETY: a column has one cell in each of `rows` rows, `stride` apart, and starts in the first inner row:
        // its last cell is in the last inner row, below which the tile has one more.
        let column =
            |at: usize| unsafe { View::with_count_and_datatype(&cells[stride + at..], 1, &self.column) };
        let (first, last) = (column(1), column(columns));
        mpi::request::scope(|scope| {
            let received = (
                left.as_ref()
                    .map(|p| p.immediate_receive_into_with_tag(scope, &mut from_left[..], TAG_RIGHT)),
                right
                    .as_ref()
                    .map(|p| p.immediate_receive_into_with_tag(scope, &mut from_right[..], TAG_LEFT)),
            );
            let sent = (
                left.as_ref().map(|p| p.immediate_send_with_tag(scope, &first, TAG_LEFT)),
                right.as_ref().map(|p| p.immediate_send_with_tag(scope, &last, TAG_RIGHT)),
            );
            [received.0, received.1].into_iter().flatten().for_each(|request| request.wait_without_status());
            [sent.0, sent.1].into_iter().flatten().for_each(|request| request.wait_without_status());
        });
        for (border, received, at) in [(&left, &from_left, 0), (&right, &from_right, stride - 1)] {
            if border.is_some() {
                for (row, cell) in received.iter().enumerate() {
                    self.tile.cells[(row + 1) * stride + at] = *cell;
                }
            }
        }
    }
}

/// Two factors of the number of ranks, as close to each other as can be.
pub fn balanced(ranks: i32) -> [i32; 2] {
    let few =
        (1..=ranks).take_while(|few| few * few <= ranks).filter(|few| ranks % few == 0).last().unwrap_or(1);
    [ranks / few, few]
}

/// The share of `cells` that falls to `index` of `parts`: no two shares differ by more than one.
fn share(cells: usize, parts: i32, index: i32) -> std::ops::Range<usize> {
    let (parts, index) = (parts as usize, index as usize);
    cells * index / parts..cells * (index + 1) / parts
}
