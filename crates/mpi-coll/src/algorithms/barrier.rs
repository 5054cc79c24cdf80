//! Barrier by dissemination: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.

use crate::program::{Builder, Built};

/// In round k, a token to the rank 2^k ahead and one from the rank 2^k behind: ceil(log2 n) rounds.
pub(crate) fn dissemination(b: &mut Builder) -> Built<()> {
    let token = b.packed(0)?;
    let mut distance = 1;
    while distance < b.size {
        let got = b.recv((b.rank + b.size - distance) % b.size, token);
        b.send((b.rank + distance) % b.size, token);
        b.wait(got);
        distance *= 2;
    }
    Ok(())
}
