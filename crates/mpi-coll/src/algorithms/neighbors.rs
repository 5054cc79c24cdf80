//! Neighbourhood collectives (MPI 4.1, section 8.6): every message straight to its neighbour, all at once.
//!
//! Messages between two ranks match in order, so a neighbour that is there several times is told apart by the order
//! of the lists. In a grid whose dimension has one or two places the neighbour below is also the one above: what goes
//! down arrives from above, hence each pair of receives is started the other way round.

use crate::program::{Builder, Data, Transfer};

/// `from[i]` to the `i`-th destination, what the `i`-th source sends into `into[i]`; those without a rank are left
/// out. The receives that were started.
pub(crate) fn exchange(
    b: &mut Builder,
    (sources, into): (&[Option<u32>], &[Data]),
    (destinations, from): (&[Option<u32>], &[Data]),
    grid: bool,
) -> Vec<Transfer> {
    let mut receives = Vec::with_capacity(sources.len());
    for at in 0..sources.len() {
        let i = if grid { at ^ 1 } else { at };
        if let (Some(Some(source)), Some(data)) = (sources.get(i), into.get(i)) {
            receives.push(b.recv(*source as usize, *data));
        }
    }
    for (destination, data) in destinations.iter().zip(from) {
        if let Some(destination) = destination {
            b.send(*destination as usize, *data);
        }
    }
    receives
}
