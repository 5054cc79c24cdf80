//! Balanced dimensions for a grid (`MPI_Dims_create`, MPI 4.1 section 8.5.2).

use mpi_p2p::{Error, ErrorClass};

/// Fills the zeros of `dims` so that the product is `nodes`, as close to each other as possible and
/// in falling order; entries above zero are kept.
///
/// Of all ways the one with the smallest largest dimension is taken, then the smallest second
/// largest, and so on.
///
/// # Errors
/// `Dims` for a negative entry, or when the fixed entries do not divide `nodes`; `Arg` for no nodes.
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<(), Error> {
    const OP: &str = "dims create";
    if nodes <= 0 {
        return Err(Error::new(ErrorClass::Arg, OP, format!("{nodes} nodes")));
    }
    if let Some(at) = dims.iter().position(|dim| *dim < 0) {
        return Err(Error::new(ErrorClass::Dims, OP, format!("dimension {at} is {}", dims[at])));
    }
    let fixed = dims.iter().filter(|dim| **dim > 0).try_fold(1i32, |all, dim| all.checked_mul(*dim));
    let Some(fixed) = fixed.filter(|fixed| nodes % fixed == 0) else {
        let detail = format!("{nodes} nodes cannot be divided by the fixed dimensions of {dims:?}");
        return Err(Error::new(ErrorClass::Dims, OP, detail));
    };
    let free = dims.iter().filter(|dim| **dim == 0).count();
    let rest = (nodes / fixed) as u32;
    if free == 0 && rest != 1 {
        let detail = format!("the dimensions {dims:?} make {fixed} nodes, not {nodes}");
        return Err(Error::new(ErrorClass::Dims, OP, detail));
    }
    let mut factors = balanced(rest, free).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = factors.next().unwrap_or(1) as i32;
    }
    Ok(())
}

/// `n` as a product of `k` factors in falling order, lexicographically smallest.
fn balanced(n: u32, k: usize) -> Vec<u32> {
    let mut out = Vec::with_capacity(k);
    if k > 0 {
        split(n, k, n, &mut out);
    }
    out
}

/// Appends `k` factors of `n`, none above `most`; `false`, with `out` unchanged, if there are none.
fn split(n: u32, k: usize, most: u32, out: &mut Vec<u32>) -> bool {
    if n == 1 {
        out.extend(std::iter::repeat_n(1, k));
        return true;
    }
    if k == 1 {
        if n <= most {
            out.push(n);
        }
        return n <= most;
    }
    let reaches = |d: u32| u64::from(d).checked_pow(k as u32).is_none_or(|power| power >= u64::from(n));
    for d in divisors(n).into_iter().filter(|d| *d <= most && reaches(*d)) {
        out.push(d);
        if split(n / d, k - 1, d, out) {
            return true;
        }
        out.pop();
    }
    false
}

/// The divisors in rising order.
fn divisors(n: u32) -> Vec<u32> {
    let low: Vec<u32> = (1..=n.isqrt()).filter(|d| n % d == 0).collect();
    let mut all = low.clone();
    all.extend(low.iter().rev().map(|d| n / d));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(nodes: i32, dims: &[i32], expected: &[i32]) {
        let mut dims = dims.to_vec();
        dims_create(nodes, &mut dims).unwrap();
        assert_eq!(dims, expected, "{nodes} nodes");
    }

    #[test]
    fn examples_of_the_standard() {
        check(6, &[0, 0], &[3, 2]);
        check(7, &[0, 0], &[7, 1]);
        check(6, &[0, 3, 0], &[2, 3, 1]);
        assert!(dims_create(7, &mut [0, 3, 0]).is_err());
    }

    #[test]
    fn balanced_beyond_greedy_factors() {
        check(36, &[0, 0], &[6, 6]);
        check(60, &[0, 0, 0], &[5, 4, 3]);
        check(48, &[0, 0], &[8, 6]);
        check(1024, &[0, 0, 0], &[16, 8, 8]);
        check(1, &[0, 0, 0], &[1, 1, 1]);
        check(1, &[], &[]);
    }

    #[test]
    fn what_cannot_be_is_an_error_with_the_facts() {
        for (nodes, mut dims, word) in
            [(0, vec![0], "0 nodes"), (4, vec![-1, 0], "dimension 0 is -1"), (4, vec![3, 0], "[3, 0]")]
        {
            let text = dims_create(nodes, &mut dims).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
        assert!(dims_create(6, &mut [2, 2]).is_err());
    }

    proptest! {
        #[test]
        fn the_product_is_the_number_of_nodes_in_falling_order(nodes in 1i32..5000, k in 1usize..6) {
            let mut dims = vec![0; k];
            dims_create(nodes, &mut dims).unwrap();
            prop_assert_eq!(dims.iter().product::<i32>(), nodes);
            prop_assert!(dims.windows(2).all(|pair| pair[0] >= pair[1]));
        }
    }
}
