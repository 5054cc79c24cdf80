//! Which ranks share a node, and who leads them.

use std::collections::HashMap;

/// The nodes of a team whose ranks are on several, of which at least one holds more than one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nodes {
    /// Ranks of each node in ascending order; nodes in the order of their first ranks.
    members: Vec<Vec<u32>>,
    /// Node of each rank.
    node: Vec<u32>,
    /// Every node holds ranks that follow each other.
    in_order: bool,
}

impl Nodes {
    /// From the number of each rank's node. `None` where leaders have nothing to do: all ranks are on one node, or each
    /// is on one of its own.
    pub fn new(numbers: &[u64]) -> Option<Nodes> {
        let mut known = HashMap::new();
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut node = Vec::with_capacity(numbers.len());
        for (rank, number) in numbers.iter().enumerate() {
            let at = *known.entry(number).or_insert(members.len());
            if at == members.len() {
                members.push(Vec::new());
            }
            members[at].push(rank as u32);
            node.push(at as u32);
        }
        let in_order = node.is_sorted();
        (members.len() > 1 && members.len() < numbers.len()).then_some(Nodes { members, node, in_order })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Number of a rank's node.
    pub fn of(&self, rank: usize) -> usize {
        self.node[rank] as usize
    }

    /// The ranks of a node.
    pub fn ranks(&self, node: usize) -> &[u32] {
        &self.members[node]
    }

    /// The ranks on the node of `rank`, itself among them.
    pub fn mates(&self, rank: usize) -> &[u32] {
        &self.members[self.of(rank)]
    }

    /// Its place among them.
    pub fn place(&self, rank: usize) -> usize {
        self.mates(rank).iter().position(|mate| *mate as usize == rank).unwrap_or(0)
    }

    /// Whether what the nodes hold, one after the other, are the ranks in their order.
    pub fn in_order(&self) -> bool {
        self.in_order
    }

    /// All ranks, node by node.
    pub fn by_node(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().flatten().map(|rank| *rank as usize)
    }

    /// The rank that leads each node: the first, on the root's node the root.
    pub fn leaders(&self, root: usize) -> Vec<u32> {
        let mut leaders: Vec<u32> = self.members.iter().map(|ranks| ranks[0]).collect();
        leaders[self.of(root)] = root as u32;
        leaders
    }

    /// The rank at this place of each node; every node has as many.
    pub fn across(&self, place: usize) -> Vec<u32> {
        self.members.iter().filter_map(|ranks| ranks.get(place).copied()).collect()
    }

    /// Ranks of the smallest node.
    pub fn least(&self) -> usize {
        self.members.iter().map(Vec::len).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_in_the_order_of_their_first_ranks() {
        let nodes = Nodes::new(&[7, 9, 7, 3, 9, 7]).unwrap();
        assert_eq!((nodes.count(), nodes.in_order(), nodes.least()), (3, false, 1));
        assert_eq!((nodes.ranks(0), nodes.ranks(1), nodes.ranks(2)), (&[0, 2, 5][..], &[1, 4][..], &[3][..]));
        assert_eq!((nodes.of(4), nodes.place(4), nodes.mates(4)), (1, 1, &[1, 4][..]));
        assert_eq!(nodes.leaders(5), [5, 1, 3]);
        assert_eq!(nodes.across(0), [0, 1, 3]);
        assert_eq!(nodes.by_node().collect::<Vec<_>>(), [0, 2, 5, 1, 4, 3]);
        assert!(Nodes::new(&[9, 9, 3, 3]).unwrap().in_order());
    }

    #[test]
    fn nobody_leads_where_nobody_needs_it() {
        assert_eq!(Nodes::new(&[]), None);
        assert_eq!(Nodes::new(&[4, 4, 4]), None);
        assert_eq!(Nodes::new(&[1, 2, 3]), None);
    }
}
