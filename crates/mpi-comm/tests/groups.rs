//! Groups against a model: plain lists of process numbers.

use mpi_btl::Ep;
use mpi_comm::{Group, Relation};
use proptest::prelude::*;

const WORLD: u32 = 14;
const ME: u32 = 3;

fn group(members: &[u32]) -> Group {
    Group::list(members.iter().copied().map(Ep).collect(), Ep(ME))
}

fn members(group: &Group) -> Vec<u32> {
    let all: Vec<u32> = group.members().map(|ep| ep.0).collect();
    assert_eq!(all.len(), group.size() as usize);
    // The ways to ask for a member agree.
    for (rank, process) in (0..).zip(&all) {
        assert_eq!(group.member(rank), Some(Ep(*process)));
        assert_eq!(group.rank_of(Ep(*process)), Some(rank));
    }
    assert_eq!(group.member(group.size()), None);
    assert_eq!(group.rank(), all.iter().position(|process| *process == ME).map(|rank| rank as u32));
    all
}

/// Some processes in some order; often a run, which is kept in another way.
fn some() -> impl Strategy<Value = Vec<u32>> {
    let any = proptest::sample::subsequence((0..WORLD).collect::<Vec<_>>(), 0..=WORLD as usize);
    let run = (0..WORLD, 0..WORLD).prop_map(|(a, b)| (a.min(b)..a.max(b)).collect::<Vec<_>>());
    prop_oneof![any.prop_shuffle(), run]
}

/// The ranks that a list of ranges names, and whether the ranges make sense in a group of `size`.
fn expanded(ranges: &[(i32, i32, i32)], size: usize) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for &(first, last, stride) in ranges {
        if stride == 0 {
            return None;
        }
        let mut rank = first;
        while if stride > 0 { rank <= last } else { rank >= last } {
            let rank_here = usize::try_from(rank).ok().filter(|rank| *rank < size)?;
            if all.contains(&rank_here) {
                return None;
            }
            all.push(rank_here);
            rank += stride;
        }
    }
    Some(all)
}

fn ranges() -> impl Strategy<Value = Vec<(i32, i32, i32)>> {
    prop::collection::vec((-1..16, -1..16, -4..5), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn set_operations(a in some(), b in some()) {
        let (ga, gb) = (group(&a), group(&b));
        let only = |a: &[u32], b: &[u32], both: bool| -> Vec<u32> {
            a.iter().copied().filter(|x| b.contains(x) == both).collect()
        };
        prop_assert_eq!(members(&ga), a.clone());
        prop_assert_eq!(members(&ga.union(&gb)), [a.clone(), only(&b, &a, false)].concat());
        prop_assert_eq!(members(&ga.intersection(&gb)), only(&a, &b, true));
        prop_assert_eq!(members(&ga.difference(&gb)), only(&a, &b, false));
        // As sets, whatever the order.
        let sorted = |mut list: Vec<u32>| { list.sort_unstable(); list };
        let union = sorted(members(&gb.union(&ga)));
        prop_assert_eq!(&union, &sorted(members(&ga.union(&gb))));
        prop_assert_eq!(sorted(members(&ga.difference(&gb).union(&ga.intersection(&gb)))), sorted(a));
    }

    #[test]
    fn comparison(a in some(), b in some()) {
        let sorted = |list: &[u32]| { let mut list = list.to_vec(); list.sort_unstable(); list };
        let expected = match (a == b, sorted(&a) == sorted(&b)) {
            (true, _) => Relation::Identical,
            (false, true) => Relation::Similar,
            (false, false) => Relation::Unequal,
        };
        prop_assert_eq!(group(&a).compare(&group(&b)), expected);
        let mut reversed = a.clone();
        reversed.reverse();
        let same = if reversed == a { Relation::Identical } else { Relation::Similar };
        prop_assert_eq!(group(&a).compare(&group(&reversed)), same);
    }

    #[test]
    fn translation(a in some(), b in some(), outside in 0..100i32) {
        let (ga, gb) = (group(&a), group(&b));
        let ranks: Vec<i32> = (0..a.len() as i32).collect();
        let expected: Vec<Option<u32>> =
            a.iter().map(|x| b.iter().position(|y| y == x).map(|rank| rank as u32)).collect();
        prop_assert_eq!(&ga.translate_all(&ranks, &gb).unwrap(), &expected);
        for (rank, there) in ranks.iter().zip(expected) {
            prop_assert_eq!(ga.translate(*rank, &gb).unwrap(), there);
        }
        prop_assert!(ga.translate(a.len() as i32 + outside, &gb).is_err());
        prop_assert!(ga.translate(-1 - outside, &gb).is_err());
    }

    #[test]
    fn picking_by_rank(a in some(), ranks in prop::collection::vec(-1..16i32, 0..8)) {
        let all: Vec<(i32, i32, i32)> = ranks.iter().map(|rank| (*rank, *rank, 1)).collect();
        check(&a, expanded(&all, a.len()), group(&a).include(&ranks).ok(), group(&a).exclude(&ranks).ok());
    }

    #[test]
    fn picking_by_ranges(a in some(), ranges in ranges()) {
        let g = group(&a);
        check(&a, expanded(&ranges, a.len()), g.range_include(&ranges).ok(), g.range_exclude(&ranges).ok());
    }
}

/// `ranks` that make sense pick those, in their order, and leave the others; those that do not are errors.
fn check(a: &[u32], ranks: Option<Vec<usize>>, included: Option<Group>, excluded: Option<Group>) {
    match ranks {
        None => assert!(included.is_none() && excluded.is_none(), "{a:?}"),
        Some(ranks) => {
            let picked: Vec<u32> = ranks.iter().map(|rank| a[*rank]).collect();
            let left: Vec<u32> =
                (0..a.len()).filter(|rank| !ranks.contains(rank)).map(|rank| a[rank]).collect();
            assert_eq!(members(&included.unwrap()), picked);
            assert_eq!(members(&excluded.unwrap()), left);
        }
    }
}
