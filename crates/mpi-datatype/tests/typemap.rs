//! Layouts, bounds and packing against a naive interpreter of type maps.

use mpi_datatype::{
    ArrayOrder, Datatype, Distribution, Primitive, RecvBuf, Scratch, SendBuf, Signature, copy,
};
use proptest::prelude::*;

/// A recipe for a datatype, small enough to interpret element by element.
#[derive(Clone, Debug)]
enum Recipe {
    Leaf(Primitive),
    Contiguous(usize, Box<Recipe>),
    Vector(usize, usize, isize, Box<Recipe>),
    Hindexed(Vec<(usize, isize)>, Box<Recipe>),
    Struct(Vec<(usize, isize, Recipe)>),
    Resized(isize, isize, Box<Recipe>),
}

/// A naive type map: every primitive with its displacement, and the extent.
#[derive(Clone, Debug)]
struct Map {
    entries: Vec<(Primitive, isize)>,
    extent: isize,
}

impl Recipe {
    fn build(&self) -> Datatype {
        match self {
            Recipe::Leaf(p) => Datatype::predefined(*p),
            Recipe::Contiguous(n, of) => Datatype::contiguous(*n, &of.build()).unwrap(),
            Recipe::Vector(n, b, s, of) => Datatype::vector(*n, *b, *s, &of.build()).unwrap(),
            Recipe::Hindexed(list, of) => {
                let (b, d): (Vec<_>, Vec<_>) = list.iter().copied().unzip();
                Datatype::hindexed(&b, &d, &of.build()).unwrap()
            }
            Recipe::Struct(list) => {
                let b: Vec<_> = list.iter().map(|e| e.0).collect();
                let d: Vec<_> = list.iter().map(|e| e.1).collect();
                let t: Vec<_> = list.iter().map(|e| e.2.build()).collect();
                Datatype::structured(&b, &d, &t).unwrap()
            }
            Recipe::Resized(lb, extent, of) => Datatype::resized(&of.build(), *lb, *extent).unwrap(),
        }
    }

    /// Entries by the definitions of MPI 5.0 section 5.1; extents as the datatype reports them, which
    /// `bounds_follow_the_definition` checks on its own.
    fn map(&self) -> Map {
        let mut entries = Vec::new();
        let mut block = |count: usize, at: isize, of: &Recipe| {
            let inner = of.map();
            for i in 0..count as isize {
                entries.extend(inner.entries.iter().map(|(p, d)| (*p, at + i * inner.extent + d)));
            }
        };
        match self {
            Recipe::Leaf(p) => match p.pair() {
                Some((a, b, second)) => entries = vec![(a, 0), (b, second as isize)],
                None => entries = vec![(*p, 0)],
            },
            Recipe::Contiguous(n, of) => block(*n, 0, of),
            Recipe::Vector(n, b, s, of) => {
                let extent = of.map().extent;
                (0..*n as isize).for_each(|i| block(*b, i * s * extent, of));
            }
            Recipe::Hindexed(list, of) => list.iter().for_each(|(b, d)| block(*b, *d, of)),
            Recipe::Struct(list) => list.iter().for_each(|(b, d, of)| block(*b, *d, of)),
            Recipe::Resized(_, _, of) => entries = of.map().entries,
        }
        Map { entries, extent: self.build().extent() }
    }
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let leaf = prop::sample::select(Primitive::ALL.to_vec()).prop_map(Recipe::Leaf);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            (0usize..4, boxed.clone()).prop_map(|(n, of)| Recipe::Contiguous(n, of)),
            (0usize..4, 0usize..4, -5isize..6, boxed.clone())
                .prop_map(|(n, b, s, of)| Recipe::Vector(n, b, s, of)),
            (prop::collection::vec((0usize..3, -64isize..64), 0..4), boxed.clone())
                .prop_map(|(l, of)| Recipe::Hindexed(l, of)),
            prop::collection::vec((0usize..3, -64isize..64, inner), 0..4).prop_map(Recipe::Struct),
            (-32isize..32, -64isize..64, boxed).prop_map(|(lb, e, of)| Recipe::Resized(lb, e, of)),
        ]
    })
}

/// Memory around an origin that displacements of either sign are counted from.
struct Memory {
    bytes: Vec<u8>,
    origin: usize,
}

impl Memory {
    fn around(map: &Map, count: usize, fill: impl Fn(usize) -> u8) -> Memory {
        let ends = |i: isize| map.entries.iter().map(move |(p, d)| (i * map.extent + d, p.size() as isize));
        let all: Vec<_> = (0..count as isize).flat_map(ends).collect();
        let low = all.iter().map(|(d, _)| *d).min().unwrap_or(0).min(0);
        let high = all.iter().map(|(d, n)| d + n).max().unwrap_or(0).max(0);
        Memory { bytes: (0..(high - low) as usize).map(fill).collect(), origin: low.unsigned_abs() }
    }
    fn ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(self.origin)
    }
    fn at(&self, displacement: isize) -> usize {
        (self.origin as isize + displacement) as usize
    }
}

/// Every byte of data in the order of the type map, as displacements.
fn order(map: &Map, count: usize) -> Vec<isize> {
    let mut all = Vec::new();
    for i in 0..count as isize {
        for (p, d) in &map.entries {
            all.extend((0..p.size() as isize).map(|k| i * map.extent + d + k));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packs_as_the_naive_interpreter(recipe in recipe(), count in 0usize..4, cuts in prop::collection::vec(1usize..40, 1..8)) {
        let (datatype, map) = (recipe.build().commit(), recipe.map());
        let order = order(&map, count);
        prop_assert_eq!(datatype.size() * count, order.len());
        let mut memory = Memory::around(&map, count, |i| (i * 7 + 3) as u8);
        let expected: Vec<u8> = order.iter().map(|d| memory.bytes[memory.at(*d)]).collect();
        // SAFETY: the memory covers every entry of the map.
        let buf = unsafe { SendBuf::new(memory.ptr(), count, &datatype) };
        let mut packed = vec![0u8; expected.len()];
        prop_assert_eq!(buf.pack(0, &mut packed), expected.len());
        prop_assert_eq!(&packed, &expected);
        // The same in arbitrary pieces, and past the end.
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            let mut piece = vec![0u8; *cut];
            let n = buf.pack(pieces.len(), &mut piece);
            pieces.extend_from_slice(&piece[..n]);
            if n < *cut { break; }
        }
        prop_assert_eq!(&pieces, &expected);
    }

    #[test]
    fn unpack_writes_data_and_no_hole(recipe in recipe(), count in 0usize..4, cuts in prop::collection::vec(1usize..40, 1..8)) {
        let (datatype, map) = (recipe.build(), recipe.map());
        let order = order(&map, count);
        let bytes: Vec<u8> = (0..order.len()).map(|i| (i * 11 + 1) as u8).collect();
        let mut expected = Memory::around(&map, count, |_| 0xEE);
        for (d, b) in order.iter().zip(&bytes) {
            let at = expected.at(*d);
            expected.bytes[at] = *b;
        }
        let mut memory = Memory::around(&map, count, |_| 0xEE);
        // SAFETY: the memory covers every entry of the map.
        let buf = unsafe { RecvBuf::new(memory.ptr(), count, &datatype) };
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            if at == bytes.len() { break; }
            let end = (at + cut).min(bytes.len());
            prop_assert_eq!(buf.unpack(at, &bytes[at..end]), end - at);
            at = end;
        }
        prop_assert_eq!(buf.unpack(at, &[1, 2, 3]), 0);
        prop_assert_eq!(&memory.bytes, &expected.bytes);
    }

    #[test]
    fn bounds_follow_the_definition(recipe in recipe()) {
        let (datatype, map) = (recipe.build(), recipe.map());
        // Pair types count their padding as data here; every other primitive is its size.
        let plain = !format!("{recipe:?}").contains("Int");
        let low = map.entries.iter().map(|(_, d)| *d).min().unwrap_or(0);
        let high = map.entries.iter().map(|(p, d)| d + p.size() as isize).max().unwrap_or(0);
        if plain {
            prop_assert_eq!((datatype.true_lb(), datatype.true_extent()), (low, high - low));
        }
        if plain && !format!("{recipe:?}").contains("Resized") && !map.entries.is_empty() {
            prop_assert_eq!(datatype.lb(), low);
            let pad = datatype.extent() - (high - low);
            prop_assert!(pad >= 0, "negative padding {}", pad);
            if !format!("{recipe:?}").contains("Struct") {
                prop_assert_eq!(pad, 0);
            }
        }
    }

    #[test]
    fn signature_depends_on_the_sequence_only(recipe in recipe(), times in 1usize..4) {
        let datatype = recipe.build();
        let flat: Vec<Datatype> = recipe.map().entries.iter().map(|(p, _)| Datatype::predefined(*p)).collect();
        let all: Vec<Datatype> = (0..times).flat_map(|_| flat.clone()).collect();
        let at: Vec<isize> = (0..all.len() as isize).map(|i| i * 16).collect();
        let spelled = Datatype::structured(&vec![1; all.len()], &at, &all).unwrap();
        prop_assert_eq!(datatype.signature(), spelled.signature());
        prop_assert!(Signature::agree(datatype.signature(), spelled.signature()));
    }

    #[test]
    fn copies_between_layouts(recipe in recipe(), count in 0usize..40) {
        let (datatype, map) = (recipe.build(), recipe.map());
        let order = order(&map, count);
        let distinct: std::collections::HashSet<_> = order.iter().collect();
        prop_assume!(distinct.len() == order.len());
        let mut from = Memory::around(&map, count, |i| (i * 5 + 1) as u8);
        let expected: Vec<u8> = order.iter().map(|d| from.bytes[from.at(*d)]).collect();
        // SAFETY: the memory covers every entry of the map.
        let source = unsafe { SendBuf::new(from.ptr(), count, &datatype) };
        let same_layout = Scratch::new(count, &datatype).unwrap();
        copy(source, same_layout.recv()).unwrap();
        let mut spread = Memory::around(&map, count, |_| 0);
        // SAFETY: as above.
        copy(same_layout.send(), unsafe { RecvBuf::new(spread.ptr(), count, &datatype) }).unwrap();
        // SAFETY: as above.
        let packed = unsafe { SendBuf::new(spread.ptr(), count, &datatype) };
        let dense = Scratch::packed(expected.len()).unwrap();
        copy(packed, dense.recv()).unwrap();
        prop_assert_eq!(dense.send().contiguous().unwrap(), &expected[..]);
    }
}

#[test]
fn huge_counts_cost_nothing_and_never_overflow() {
    let f64s = Datatype::predefined(Primitive::F64);
    let row = Datatype::contiguous(1 << 40, &f64s).unwrap();
    assert_eq!((row.size(), row.extent()), (1 << 43, 1 << 43));
    assert!(row.is_contiguous());
    let wide = Datatype::vector(1 << 33, 1, 2, &f64s).unwrap();
    assert_eq!((wide.size(), wide.extent()), (1 << 36, (1 << 37) - 8));
    assert!(Datatype::contiguous(usize::MAX, &f64s).is_err());
    assert!(Datatype::contiguous(1 << 30, &row).is_err());
    assert!(Datatype::vector(1 << 33, 1, isize::MAX, &f64s).is_err());
    assert!(Datatype::hvector(usize::MAX, 0, isize::MIN, &f64s).is_ok_and(|t| t.size() == 0));
    let nothing = Datatype::resized(&Datatype::contiguous(0, &f64s).unwrap(), 0, 8).unwrap();
    assert!(
        Datatype::hvector(usize::MAX, 1, isize::MIN, &nothing).is_err_and(|e| e.to_string().contains("fit"))
    );
    assert!(Datatype::resized(&f64s, isize::MAX, isize::MAX).is_err());
    assert!(Datatype::hindexed(&[1, 1], &[isize::MIN, isize::MAX], &f64s).is_err());
    // SAFETY: nothing is read.
    let buf = unsafe { SendBuf::new(std::ptr::null(), usize::MAX, &f64s) };
    assert_eq!(buf.bytes(), usize::MAX);
    assert!(Scratch::new(usize::MAX, &f64s).unwrap_err().to_string().contains("address space"));
    assert_eq!(
        Scratch::packed(1 << 60).unwrap_err().to_string(),
        "no memory for a temporary of 1152921504606846976 bytes"
    );
}

#[test]
fn nesting_is_bounded() {
    let mut t = Datatype::predefined(Primitive::U8);
    for _ in 0..mpi_datatype::limits::MAX_NESTING_LEVELS {
        t = Datatype::vector(2, 1, 3, &Datatype::resized(&t, 0, 1).unwrap_or(t.clone())).unwrap_or(t);
    }
    let mut t = Datatype::predefined(Primitive::U8);
    let error = loop {
        match Datatype::dup(&t) {
            Ok(next) => t = next,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("513 levels"), "{error}");
}

#[test]
fn struct_padding_and_set_bounds() {
    let (c, d) = (Datatype::predefined(Primitive::U8), Datatype::predefined(Primitive::F64));
    let padded = Datatype::structured(&[1, 1], &[0, 8], &[d.clone(), c.clone()]).unwrap();
    assert_eq!((padded.size(), padded.extent(), padded.alignment()), (9, 16, 8));
    let set = Datatype::resized(&c, -3, 9).unwrap();
    let holds = Datatype::structured(&[1, 1], &[0, 8], &[d, set]).unwrap();
    assert_eq!((holds.lb(), holds.extent(), holds.true_lb(), holds.true_extent()), (5, 9, 0, 9));
}

#[test]
fn subarray_and_distributed_array() {
    let t = Datatype::predefined(Primitive::U8);
    let picks = |t: &Datatype, len: usize| {
        let from: Vec<u8> = (0..len as u8).collect();
        // SAFETY: the array covers the type.
        let buf = unsafe { SendBuf::new(from.as_ptr(), 1, t) };
        let mut out = vec![0; t.size()];
        buf.pack(0, &mut out);
        out
    };
    let c = Datatype::subarray(&[4, 5], &[2, 3], &[1, 2], ArrayOrder::C, &t).unwrap();
    assert_eq!(picks(&c, 20), [7, 8, 9, 12, 13, 14]);
    assert_eq!((c.lb(), c.extent()), (0, 20));
    let f = Datatype::subarray(&[4, 5], &[2, 3], &[1, 2], ArrayOrder::Fortran, &t).unwrap();
    assert_eq!(picks(&f, 20), [9, 10, 13, 14, 17, 18]);
    assert!(Datatype::subarray(&[4], &[3], &[2], ArrayOrder::C, &t).is_err());
    assert!(Datatype::subarray(&[4], &[usize::MAX], &[2], ArrayOrder::C, &t).is_err());

    // Every element belongs to exactly one process, whatever the distribution.
    use Distribution::*;
    for dist in
        [[Block(None), Cyclic(None)], [Cyclic(Some(2)), Block(Some(4))], [Cyclic(Some(3)), Cyclic(Some(9))]]
    {
        for order in [ArrayOrder::C, ArrayOrder::Fortran] {
            let mut owners = vec![0; 77];
            for rank in 0..6 {
                let part = Datatype::distributed_array(6, rank, &[7, 11], &dist, &[2, 3], order, &t).unwrap();
                assert_eq!((part.lb(), part.extent()), (0, 77));
                picks(&part, 77).into_iter().for_each(|i| owners[i as usize] += 1);
            }
            assert!(owners.iter().all(|n| *n == 1), "{dist:?} {order:?}: {owners:?}");
        }
    }
    let first = Datatype::distributed_array(2, 1, &[7], &[Cyclic(Some(2))], &[2], ArrayOrder::C, &t).unwrap();
    assert_eq!(picks(&first, 7), [2, 3, 6]);
}

#[test]
fn values_of_a_peer_are_checked() {
    let t = Datatype::structured(
        &[1, 2, 1],
        &[0, 4, 8],
        &[Primitive::Char, Primitive::Bool, Primitive::U32].map(Datatype::predefined),
    )
    .unwrap();
    assert!(t.needs_validation());
    let mut good = Vec::from(u32::from('ß').to_le_bytes());
    good.extend([1, 0, 9, 9, 9, 9]);
    assert_eq!(t.validate(&good), Ok(()));
    let mut bad = good.clone();
    bad[5] = 2;
    assert!(t.validate(&bad).unwrap_err().to_string().contains("0x2, which is no bool"));
    bad[..4].copy_from_slice(&0xD800u32.to_le_bytes());
    assert!(t.validate(&bad).unwrap_err().to_string().contains("no char"));
    let room = Scratch::new(1, &t).unwrap();
    room.recv().unpack(0, &bad);
    assert!(room.recv().sanitize(bad.len()).is_err());
    assert_eq!(room.recv().sanitize(bad.len()), Ok(()));
    let mut back = vec![0; 10];
    room.send().pack(0, &mut back);
    assert_eq!(back, [0, 0, 0, 0, 1, 0, 9, 9, 9, 9]);
}
