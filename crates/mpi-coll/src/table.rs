//! The switch table: which algorithm from which size and number of ranks on. Bytes are packed bytes: of the vector,
//! of one block (gather, scatter, alltoall), of the whole result (allgather).
//!
//! The first row that a call fits into decides; of calls that cannot go through memory that the ranks share, the first
//! other one. The rows are for the machine at hand: `cargo xtask tune` measures
//! them and writes them anew, between the marks. Where they come from at first is said at the algorithms.

use crate::choose::{Allgather, Allreduce, Alltoall, Broadcast, Gather, Reduce, ReduceScatter, Scatter};

/// Calls of at most so many ranks and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<T> {
    pub ranks: usize,
    pub bytes: usize,
    pub by: T,
}

const fn row<T>(ranks: usize, bytes: usize, by: T) -> Row<T> {
    Row { ranks, bytes, by }
}

/// The first row that the call fits into.
pub(crate) fn find<T: Copy>(rows: &[Row<T>], ranks: usize, bytes: usize) -> Option<Row<T>> {
    rows.iter().find(|row| ranks <= row.ranks && bytes <= row.bytes).copied()
}

const ANY: usize = usize::MAX;

// tune: begin
pub(crate) const BROADCAST: &[Row<Broadcast>] = &[
    row(2, ANY, Broadcast::Binomial),
    row(4, 1 << 10, Broadcast::Binomial),
    row(4, 64 << 10, Broadcast::Staged),
    row(4, 1 << 20, Broadcast::Binomial),
    row(16, 4 << 20, Broadcast::Staged),
    row(ANY, 64 << 10, Broadcast::Staged),
    row(8, 1 << 20, Broadcast::Binomial),
    row(ANY, 12 << 10, Broadcast::Binomial),
    row(ANY, 512 << 10, Broadcast::ScatterAllgather),
    row(ANY, ANY, Broadcast::Pipelined),
];
pub(crate) const REDUCE: &[Row<Reduce>] = &[
    row(2, 512 << 10, Reduce::Binomial),
    row(2, ANY, Reduce::Rabenseifner),
    row(8, 4 << 10, Reduce::Binomial),
    row(8, 1 << 20, Reduce::Staged),
    row(ANY, 1 << 10, Reduce::Binomial),
    row(ANY, 256 << 10, Reduce::Staged),
    row(ANY, ANY, Reduce::Rabenseifner),
];
pub(crate) const ALLREDUCE: &[Row<Allreduce>] = &[
    row(2, 8 << 10, Allreduce::Doubling),
    row(2, ANY, Allreduce::Direct),
    row(4, 4 << 10, Allreduce::Doubling),
    row(ANY, 255, Allreduce::Doubling),
    row(ANY, 256 << 10, Allreduce::Staged),
    row(ANY, 4 << 20, Allreduce::Rabenseifner),
    row(ANY, ANY, Allreduce::Ring),
];
pub(crate) const GATHER: &[Row<Gather>] =
    &[row(4, ANY, Gather::Linear), row(ANY, 2 << 10, Gather::Binomial), row(ANY, ANY, Gather::Linear)];
pub(crate) const SCATTER: &[Row<Scatter>] =
    &[row(4, ANY, Scatter::Linear), row(ANY, 2 << 10, Scatter::Binomial), row(ANY, ANY, Scatter::Linear)];
pub(crate) const ALLGATHER: &[Row<Allgather>] = &[
    row(2, 32 << 10, Allgather::Doubling),
    row(2, ANY, Allgather::Ring),
    row(4, 1 << 10, Allgather::Doubling),
    row(16, 4 << 20, Allgather::Staged),
    row(ANY, 1 << 20, Allgather::Staged),
    row(ANY, 80 << 10, Allgather::Doubling),
    row(ANY, ANY, Allgather::Ring),
];
pub(crate) const ALLTOALL: &[Row<Alltoall>] = &[
    row(2, ANY, Alltoall::Scattered),
    row(8, 64 << 10, Alltoall::Staged),
    row(ANY, 16 << 10, Alltoall::Staged),
    row(8, 8 << 10, Alltoall::Scattered),
    row(8, ANY, Alltoall::Pairwise),
    row(ANY, 256, Alltoall::Bruck),
    row(ANY, 32 << 10, Alltoall::Scattered),
    row(ANY, ANY, Alltoall::Pairwise),
];
pub(crate) const REDUCE_SCATTER: &[Row<ReduceScatter>] =
    &[row(ANY, 512 << 10, ReduceScatter::Halving), row(ANY, ANY, ReduceScatter::Pairwise)];
// tune: end

#[cfg(test)]
mod tests {
    use super::*;

    fn covers<T: Copy>(rows: &[Row<T>]) {
        for ranks in [1, 2, 3, 17, 1 << 20] {
            for bytes in [0, 1, 1 << 20, usize::MAX] {
                assert!(find(rows, ranks, bytes).is_some(), "{ranks} ranks, {bytes} bytes");
            }
        }
    }

    #[test]
    fn every_call_fits_into_a_row() {
        covers(BROADCAST);
        covers(REDUCE);
        covers(ALLREDUCE);
        covers(GATHER);
        covers(SCATTER);
        covers(ALLGATHER);
        covers(ALLTOALL);
        covers(REDUCE_SCATTER);
    }
}
