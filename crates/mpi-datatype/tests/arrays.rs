//! Sub-arrays and distributed arrays against the standard's definitions, element by element (MPI 5.0 sections 5.1.3 and
//! 5.1.4).

use mpi_datatype::{ArrayOrder, Datatype, Distribution, Primitive, SendBuf};
use proptest::prelude::*;

/// The indices of every element of an array, in the order in which they lie in memory.
fn in_memory(sizes: &[usize], order: ArrayOrder) -> Vec<Vec<usize>> {
    let total: usize = sizes.iter().product();
    let mut dims: Vec<usize> = (0..sizes.len()).collect();
    // The last of these varies fastest.
    if matches!(order, ArrayOrder::Fortran) {
        dims.reverse();
    }
    let index = |mut at: usize| {
        let mut index = vec![0; sizes.len()];
        for d in dims.iter().rev() {
            index[*d] = at % sizes[*d];
            at /= sizes[*d];
        }
        index
    };
    (0..total).map(index).collect()
}

/// Positions of the elements that the datatype picks from an array of `total`, and its bounds in elements.
fn picked(of: &Datatype, datatype: &Datatype, total: usize) -> (Vec<usize>, isize, isize) {
    let width = of.extent() as usize;
    let mut memory = vec![0xEE_u8; total * width];
    for (at, element) in memory.chunks_exact_mut(width).enumerate() {
        element[..4].copy_from_slice(&(at as u32).to_le_bytes());
    }
    // SAFETY: the memory is that of the whole array.
    let buf = unsafe { SendBuf::new(memory.as_ptr(), 1, datatype) };
    let mut packed = vec![0; datatype.size()];
    assert_eq!(buf.pack(0, &mut packed), packed.len());
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let width = width as isize;
    (packed.chunks_exact(4).map(number).collect(), datatype.lb() / width, datatype.extent() / width)
}

/// An element of four bytes, dense or with a hole behind it.
fn element(hole: usize) -> Datatype {
    let plain = Datatype::predefined(Primitive::U32);
    if hole == 0 { plain } else { Datatype::resized(&plain, 0, 4 + hole as isize).unwrap() }
}

fn order() -> impl Strategy<Value = ArrayOrder> {
    prop::sample::select(vec![ArrayOrder::C, ArrayOrder::Fortran])
}

/// One dimension: elements, processes, and how they are dealt out.
fn dimension() -> impl Strategy<Value = (usize, usize, Distribution)> {
    (1usize..9, 1usize..4, 0usize..4, 1usize..5).prop_map(|(n, p, kind, block)| match kind {
        0 => (n, 1, Distribution::Whole),
        1 => (n, p, Distribution::Block(None)),
        2 => (n, p, Distribution::Block(Some(n.div_ceil(p) + block - 1))),
        _ if block == 1 => (n, p, Distribution::Cyclic(None)),
        _ => (n, p, Distribution::Cyclic(Some(block))),
    })
}

/// Who owns element `i` of `n` that are dealt out over `p` processes: the standard's words.
fn owner(i: usize, n: usize, p: usize, distribution: Distribution) -> usize {
    match distribution {
        Distribution::Whole => 0,
        Distribution::Block(None) => i / n.div_ceil(p),
        Distribution::Block(Some(block)) => i / block,
        Distribution::Cyclic(None) => i % p,
        Distribution::Cyclic(Some(block)) => i / block % p,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_distributed_array_is_what_the_definition_says(
        dims in prop::collection::vec(dimension(), 1..4), order in order(), hole in 0usize..9,
    ) {
        let sizes: Vec<usize> = dims.iter().map(|d| d.0).collect();
        let processes: Vec<usize> = dims.iter().map(|d| d.1).collect();
        let distributions: Vec<Distribution> = dims.iter().map(|d| d.2).collect();
        let (total, of): (usize, _) = (sizes.iter().product(), element(hole));
        let ranks: usize = processes.iter().product();
        for rank in 0..ranks {
            // Ranks lie in the grid in C order, whatever the order of the elements.
            let mut rest = rank;
            let mut me = vec![0; dims.len()];
            for d in (0..dims.len()).rev() {
                me[d] = rest % processes[d];
                rest /= processes[d];
            }
            let mine = |index: &[usize]| {
                (0..dims.len()).all(|d| owner(index[d], sizes[d], processes[d], distributions[d]) == me[d])
            };
            let all = in_memory(&sizes, order);
            let expected: Vec<usize> = (0..total).filter(|at| mine(&all[*at])).collect();
            let part =
                Datatype::distributed_array(ranks, rank, &sizes, &distributions, &processes, order, &of).unwrap();
            prop_assert_eq!(picked(&of, &part, total), (expected, 0, total as isize), "rank {} of {:?}", rank, dims);
        }
    }

    #[test]
    fn a_subarray_is_what_the_definition_says(
        dims in prop::collection::vec((1usize..7, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
        order in order(), hole in 0usize..9,
    ) {
        let sizes: Vec<usize> = dims.iter().map(|d| d.0).collect();
        let subsizes: Vec<usize> = dims.iter().map(|d| 1 + d.1.index(d.0)).collect();
        let starts: Vec<usize> = dims.iter().zip(&subsizes).map(|(d, sub)| d.2.index(d.0 - sub + 1)).collect();
        let (total, of): (usize, _) = (sizes.iter().product(), element(hole));
        let inside = |index: &[usize]| {
            (0..dims.len()).all(|d| (starts[d]..starts[d] + subsizes[d]).contains(&index[d]))
        };
        let all = in_memory(&sizes, order);
        let expected: Vec<usize> = (0..total).filter(|at| inside(&all[*at])).collect();
        let part = Datatype::subarray(&sizes, &subsizes, &starts, order, &of).unwrap();
        prop_assert_eq!(picked(&of, &part, total), (expected, 0, total as isize));
    }
}
