//! Groups: ordered sets of processes, and everything that can be computed from them locally.
//!
//! MPI 4.1 section 7.3. No call here communicates.

use mpi_btl::Ep;
use mpi_p2p::{Error, ErrorClass};
use std::collections::HashMap;
use std::sync::Arc;

/// An ordered set of processes; a rank in the group is a position in that order.
///
/// Cheap to clone. A run of consecutive processes (a world, most of all) takes no memory per member.
#[derive(Clone, Debug)]
pub struct Group {
    members: Members,
    /// Who asks: needed for [`Group::rank`] and nothing else.
    me: Ep,
}

#[derive(Clone, Debug)]
enum Members {
    Run { first: u32, count: u32 },
    List(Arc<[Ep]>),
}

/// How two groups, or two communicators, relate (`MPI_IDENT`, `MPI_CONGRUENT`, …).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// The same members in the same order; for communicators, the same communicator.
    Identical,
    /// Communicators only: the same members in the same order, different contexts.
    Congruent,
    /// The same members in another order.
    Similar,
    /// Different members.
    Unequal,
}

/// `first`, `last`, `stride` of ranks, as in `MPI_Group_range_incl`. The stride may be negative.
pub type RankRange = (i32, i32, i32);

impl Group {
    /// The group of `count` consecutive processes from `first`, seen by process `me`.
    pub fn run(first: Ep, count: u32, me: Ep) -> Group {
        Group { members: Members::Run { first: first.0, count }, me }
    }

    /// The group of the processes listed, which must be distinct, seen by process `me`.
    pub fn list(members: Vec<Ep>, me: Ep) -> Group {
        let first = members.first().map_or(0, |ep| ep.0);
        let consecutive = members.iter().zip(first..).all(|(ep, expected)| ep.0 == expected);
        let members = match consecutive {
            true => Members::Run { first, count: members.len() as u32 },
            false => Members::List(members.into()),
        };
        Group { members, me }
    }

    /// The group without members (`MPI_GROUP_EMPTY`).
    pub fn empty() -> Group {
        Group::run(Ep(0), 0, Ep(u32::MAX))
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        match &self.members {
            Members::Run { count, .. } => *count,
            Members::List(list) => list.len() as u32,
        }
    }

    /// Rank of the calling process, if it is a member.
    pub fn rank(&self) -> Option<u32> {
        self.rank_of(self.me)
    }

    /// The process at `rank`, if there is one.
    pub fn member(&self, rank: u32) -> Option<Ep> {
        match &self.members {
            Members::Run { first, count } => (rank < *count).then(|| Ep(first + rank)),
            Members::List(list) => list.get(rank as usize).copied(),
        }
    }

    /// Rank of a process, if it is a member. Linear in the size unless the group is a run.
    pub fn rank_of(&self, ep: Ep) -> Option<u32> {
        match &self.members {
            Members::Run { first, count } => ep.0.checked_sub(*first).filter(|rank| rank < count),
            Members::List(list) => list.iter().position(|member| *member == ep).map(|at| at as u32),
        }
    }

    /// The members in rank order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Ep> + '_ {
        (0..self.size()).map(|rank| self.member(rank).unwrap_or(self.me))
    }

    /// Whether any member's number is one of those for which `holds`, which are all numbers from
    /// some number on.
    pub(crate) fn reaches(&self, holds: impl Fn(Ep) -> bool) -> bool {
        match &self.members {
            Members::Run { first, count } => *count > 0 && holds(Ep(first + (count - 1))),
            Members::List(list) => list.iter().any(|ep| holds(*ep)),
        }
    }

    /// All of `self` in order, then those of `other` that are not in `self`.
    pub fn union(&self, other: &Group) -> Group {
        let mine = self.index();
        let more = other.members().filter(|ep| !mine.contains(*ep));
        self.with(self.members().chain(more).collect(), other)
    }

    /// Those of `self`, in order, that are in `other` too.
    pub fn intersection(&self, other: &Group) -> Group {
        let theirs = other.index();
        self.with(self.members().filter(|ep| theirs.contains(*ep)).collect(), other)
    }

    /// Those of `self`, in order, that are not in `other`.
    pub fn difference(&self, other: &Group) -> Group {
        let theirs = other.index();
        self.with(self.members().filter(|ep| !theirs.contains(*ep)).collect(), other)
    }

    /// The members at `ranks`, in that order.
    ///
    /// # Errors
    /// `Rank` for a rank outside the group or one named twice.
    pub fn include(&self, ranks: &[i32]) -> Result<Group, Error> {
        let ranks = self.distinct(ranks.iter().copied().map(i64::from), "group include")?;
        Ok(self.pick(ranks.into_iter()))
    }

    /// The members that are not at `ranks`, in order.
    ///
    /// # Errors
    /// `Rank` for a rank outside the group or one named twice.
    pub fn exclude(&self, ranks: &[i32]) -> Result<Group, Error> {
        let ranks = self.distinct(ranks.iter().copied().map(i64::from), "group exclude")?;
        Ok(self.without(&ranks))
    }

    /// [`Group::include`] of all ranks in the ranges, one range after the other.
    ///
    /// # Errors
    /// `Rank` as there; `Arg` for a stride of zero.
    pub fn range_include(&self, ranges: &[RankRange]) -> Result<Group, Error> {
        let ranks = self.expand(ranges, "group range include")?;
        Ok(self.pick(ranks.into_iter()))
    }

    /// [`Group::exclude`] of all ranks in the ranges.
    ///
    /// # Errors
    /// `Rank` as there; `Arg` for a stride of zero.
    pub fn range_exclude(&self, ranges: &[RankRange]) -> Result<Group, Error> {
        let ranks = self.expand(ranges, "group range exclude")?;
        Ok(self.without(&ranks))
    }

    /// The rank in `other` of the process that is at `rank` here; `None` if it is no member there.
    ///
    /// # Errors
    /// `Rank` for a rank outside this group.
    pub fn translate(&self, rank: i32, other: &Group) -> Result<Option<u32>, Error> {
        Ok(other.rank_of(self.at(i64::from(rank), "group translate ranks")?))
    }

    /// [`Group::translate`] for many ranks at once, in time linear in both sizes.
    ///
    /// # Errors
    /// `Rank` for a rank outside this group.
    pub fn translate_all(&self, ranks: &[i32], other: &Group) -> Result<Vec<Option<u32>>, Error> {
        let index = other.index();
        let translate = |rank: &i32| {
            let ep = self.at(i64::from(*rank), "group translate ranks")?;
            Ok(index.rank_of(ep))
        };
        ranks.iter().map(translate).collect()
    }

    /// Identical, similar or unequal.
    pub fn compare(&self, other: &Group) -> Relation {
        if self.size() != other.size() {
            return Relation::Unequal;
        }
        if self.members().eq(other.members()) {
            return Relation::Identical;
        }
        let theirs = other.index();
        match self.members().all(|ep| theirs.contains(ep)) {
            true => Relation::Similar,
            false => Relation::Unequal,
        }
    }

    /// A group seen by whoever looks at `self`, or at `other` where `self` is the empty constant.
    fn with(&self, members: Vec<Ep>, other: &Group) -> Group {
        let me = if self.me.0 == u32::MAX { other.me } else { self.me };
        Group::list(members, me)
    }

    fn at(&self, rank: i64, op: &'static str) -> Result<Ep, Error> {
        u32::try_from(rank).ok().and_then(|rank| self.member(rank)).ok_or_else(|| {
            Error::new(
                ErrorClass::Rank,
                op,
                format!("rank {rank} is not in the group of {} processes", self.size()),
            )
        })
    }

    fn distinct(&self, ranks: impl Iterator<Item = i64>, op: &'static str) -> Result<Vec<u32>, Error> {
        let mut seen = vec![false; self.size() as usize];
        let mut out = Vec::new();
        for rank in ranks {
            self.at(rank, op)?;
            if std::mem::replace(&mut seen[rank as usize], true) {
                return Err(Error::new(ErrorClass::Rank, op, format!("rank {rank} is named twice")));
            }
            out.push(rank as u32);
        }
        Ok(out)
    }

    fn expand(&self, ranges: &[RankRange], op: &'static str) -> Result<Vec<u32>, Error> {
        if let Some((first, last, _)) = ranges.iter().find(|range| range.2 == 0) {
            return Err(Error::new(
                ErrorClass::Arg,
                op,
                format!("the range from {first} to {last} has a stride of 0"),
            ));
        }
        let ranks = ranges.iter().flat_map(|&(first, last, stride)| {
            let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
            let steps = (last - first) / stride;
            // A range that runs away from its end is empty.
            let empty = (last - first).signum() * stride.signum() < 0;
            (0..=if empty { -1 } else { steps }).map(move |step| first + step * stride)
        });
        self.distinct(ranks, op)
    }

    fn pick(&self, ranks: impl Iterator<Item = u32>) -> Group {
        Group::list(ranks.filter_map(|rank| self.member(rank)).collect(), self.me)
    }

    fn without(&self, ranks: &[u32]) -> Group {
        let mut gone = vec![false; self.size() as usize];
        for rank in ranks {
            gone[*rank as usize] = true;
        }
        self.pick((0..self.size()).filter(|rank| !gone[*rank as usize]))
    }

    fn index(&self) -> Index<'_> {
        match &self.members {
            Members::Run { .. } => Index::Run(self),
            Members::List(list) => Index::Map(list.iter().zip(0..).map(|(ep, rank)| (*ep, rank)).collect()),
        }
    }
}

/// Membership in constant time.
enum Index<'a> {
    Run(&'a Group),
    Map(HashMap<Ep, u32>),
}

impl Index<'_> {
    fn rank_of(&self, ep: Ep) -> Option<u32> {
        match self {
            Index::Run(group) => group.rank_of(ep),
            Index::Map(map) => map.get(&ep).copied(),
        }
    }

    fn contains(&self, ep: Ep) -> bool {
        self.rank_of(ep).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn world(size: u32) -> Group {
        Group::run(Ep(0), size, Ep(1))
    }

    fn ranks(group: &Group) -> Vec<u32> {
        group.members().map(|ep| ep.0).collect()
    }

    #[test]
    fn ranges_follow_the_standard_example() {
        // MPI 4.1, section 7.3.2: {(6,7,1),(1,6,2),(0,9,4)} -> a6 a7 a1 a3 a5 a0 a4 a8.
        let group = world(10).range_include(&[(6, 7, 1), (1, 6, 2), (0, 9, 4)]).unwrap();
        assert_eq!(ranks(&group), [6, 7, 1, 3, 5, 0, 4, 8]);
        let group = world(10).range_exclude(&[(6, 7, 1), (1, 6, 2), (0, 9, 4)]).unwrap();
        assert_eq!(ranks(&group), [2, 9]);
        let group = world(6).range_include(&[(5, 0, -2), (4, 3, 1)]).unwrap();
        assert_eq!(ranks(&group), [5, 3, 1]);
    }

    #[test]
    fn bad_ranks_are_named() {
        let text = world(3).include(&[0, 3]).unwrap_err().to_string();
        assert!(text.contains("rank 3 is not in the group of 3"), "{text}");
        let text = world(3).exclude(&[-1]).unwrap_err().to_string();
        assert!(text.contains("rank -1"), "{text}");
        let text = world(3).include(&[2, 2]).unwrap_err().to_string();
        assert!(text.contains("rank 2 is named twice"), "{text}");
        let text = world(3).range_include(&[(0, 2, 0)]).unwrap_err().to_string();
        assert!(text.contains("stride of 0"), "{text}");
    }

    #[test]
    fn empty_group_has_no_rank() {
        assert_eq!(Group::empty().rank(), None);
        assert_eq!(Group::empty().size(), 0);
        assert_eq!(world(3).intersection(&Group::empty()).size(), 0);
        assert_eq!(Group::empty().union(&world(3)).rank(), Some(1));
        assert_eq!(world(3).include(&[]).unwrap().compare(&Group::empty()), Relation::Identical);
    }

    #[test]
    fn comparison_tells_order_from_members() {
        let world = world(4);
        assert_eq!(world.compare(&world.clone()), Relation::Identical);
        assert_eq!(world.include(&[1, 0, 3, 2]).unwrap().compare(&world), Relation::Similar);
        assert_eq!(world.include(&[1, 0, 3]).unwrap().compare(&world), Relation::Unequal);
        let (a, b) = (world.include(&[0, 1]).unwrap(), world.include(&[0, 2]).unwrap());
        assert_eq!(a.compare(&b), Relation::Unequal);
    }

    proptest! {
        #[test]
        fn set_operations_agree_with_a_model(
            a in proptest::sample::subsequence((0..12).collect::<Vec<i32>>(), 0..12).prop_shuffle(),
            b in proptest::sample::subsequence((0..12).collect::<Vec<i32>>(), 0..12).prop_shuffle(),
        ) {
            let (ga, gb) = (world(12).include(&a).unwrap(), world(12).include(&b).unwrap());
            let union: Vec<i32> = a.iter().chain(b.iter().filter(|x| !a.contains(x))).copied().collect();
            let both: Vec<i32> = a.iter().filter(|x| b.contains(x)).copied().collect();
            let only: Vec<i32> = a.iter().filter(|x| !b.contains(x)).copied().collect();
            let as_ranks = |list: &[i32]| list.iter().map(|x| *x as u32).collect::<Vec<_>>();
            prop_assert_eq!(ranks(&ga.union(&gb)), as_ranks(&union));
            prop_assert_eq!(ranks(&ga.intersection(&gb)), as_ranks(&both));
            prop_assert_eq!(ranks(&ga.difference(&gb)), as_ranks(&only));
            prop_assert_eq!(ga.rank(), a.iter().position(|x| *x == 1).map(|x| x as u32));
            let all: Vec<i32> = (0..a.len() as i32).collect();
            let translated = ga.translate_all(&all, &gb).unwrap();
            for (rank, there) in translated.iter().enumerate() {
                let expected = b.iter().position(|x| *x == a[rank]).map(|x| x as u32);
                prop_assert_eq!(*there, expected);
                prop_assert_eq!(ga.translate(rank as i32, &gb).unwrap(), expected);
            }
        }
    }
}
