//! The numbers: a rectangle of the plate with one layer of cells around it, and the whole plate in one piece.

use std::f64::consts::PI;
use std::ops::Range;

/// Rows and columns of the plate.
pub type Part = (Range<usize>, Range<usize>);

/// Share of the difference to its neighbours that a cell makes up in one step; stable up to 1/4.
const DIFFUSION: f64 = 0.24;

/// A part of the plate with a border one cell wide: neighbours' edges, or the fixed temperature at the plate's rim.
pub struct Tile {
    pub rows: usize,
    pub columns: usize,
    /// (rows + 2) × (columns + 2) cells, row by row.
    pub cells: Vec<f64>,
    next: Vec<f64>,
}

impl Tile {
    pub fn new(part: &Part, whole: usize) -> Tile {
        let (rows, columns) = (part.0.len(), part.1.len());
        let mut cells = Vec::with_capacity((rows + 2) * (columns + 2));
        // Counted from the rim of the plate at 0, so that no coordinate is negative.
        for row in part.0.start..part.0.end + 2 {
            for column in part.1.start..part.1.end + 2 {
                cells.push(at_start(row, column, whole));
            }
        }
        Tile { rows, columns, next: cells.clone(), cells }
    }

    /// Cells from one row to the next.
    pub fn stride(&self) -> usize {
        self.columns + 2
    }

    /// One explicit step of the five-point scheme; returns the largest change of a cell.
    pub fn step(&mut self) -> f64 {
        let stride = self.stride();
        let mut largest = 0.0_f64;
        for row in 1..=self.rows {
            let at = row * stride;
            let above = &self.cells[at - stride..at];
            let here = &self.cells[at..at + stride];
            let below = &self.cells[at + stride..at + 2 * stride];
            let next = &mut self.next[at..at + stride];
            for column in 1..=self.columns {
                let around = (above[column] + below[column]) + (here[column - 1] + here[column + 1]);
                let change = DIFFUSION * (around - 4.0 * here[column]);
                next[column] = here[column] + change;
                largest = largest.max(change.abs());
            }
        }
        // The border of the other buffer is as old as the step before; the rim never changes and the rest is received.
        self.keep_border();
        std::mem::swap(&mut self.cells, &mut self.next);
        largest
    }

    fn keep_border(&mut self) {
        let stride = self.stride();
        let last = (self.rows + 1) * stride;
        self.next[..stride].copy_from_slice(&self.cells[..stride]);
        self.next[last..].copy_from_slice(&self.cells[last..]);
        for row in 1..=self.rows {
            for at in [row * stride, row * stride + stride - 1] {
                self.next[at] = self.cells[at];
            }
        }
    }

    /// The cells without the border, row by row.
    pub fn inner(&self) -> Vec<f64> {
        let stride = self.stride();
        (1..=self.rows).flat_map(|row| &self.cells[row * stride + 1..][..self.columns]).copied().collect()
    }
}

/// The rim: warm along the top, cool elsewhere. Inside: two hot discs on a cold plate.
fn at_start(row: usize, column: usize, whole: usize) -> f64 {
    let unit = |index: usize| index as f64 / (whole + 1) as f64;
    let (y, x) = (unit(row), unit(column));
    if row == 0 {
        return (PI * x).sin();
    }
    if row == whole + 1 || column == 0 || column == whole + 1 {
        return 0.0;
    }
    let inside = |x0: f64, y0: f64, radius: f64| (x - x0).hypot(y - y0) < radius;
    if inside(0.3, 0.6, 0.12) || inside(0.7, 0.75, 0.08) { 1.0 } else { 0.0 }
}

/// The whole plate without its rim.
pub struct Plate {
    pub cells: Vec<f64>,
    width: usize,
}

impl Plate {
    pub fn new(width: usize) -> Plate {
        Plate { cells: vec![f64::NAN; width * width], width }
    }

    /// Puts the cells of one part in their place.
    pub fn place(&mut self, part: &Part, cells: &[f64]) {
        assert_eq!(cells.len(), part.0.len() * part.1.len(), "a block of another size arrived");
        for (row, line) in part.0.clone().zip(cells.chunks(part.1.len())) {
            self.cells[row * self.width..][part.1.clone()].copy_from_slice(line);
        }
    }
}

/// NaN where a cell was never computed.
pub fn largest_difference(one: &Plate, other: &Plate) -> f64 {
    let differences = one.cells.iter().zip(&other.cells).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |largest, d| if d.is_nan() || d > largest { d } else { largest })
}
