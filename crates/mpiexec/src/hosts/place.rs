//! Which rank goes to which host: arithmetic on slots, before anything starts.

/// A host with room for ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// Ranks that it takes before others are asked to take more than theirs.
    pub slots: usize,
    /// Ranks that it takes at most.
    pub most: usize,
}

/// Ranks of one program, and the hosts that they may go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// How many.
    pub count: usize,
    /// Indices of the hosts, in order.
    pub hosts: Vec<usize>,
}

/// In which order hosts are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// All slots of a host, then the next host.
    Slots,
    /// One rank on each host in turn.
    Nodes,
}

/// There is no room for a program: its number, and the ranks that found a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// The program.
    pub program: usize,
    /// Ranks of it that found room.
    pub placed: usize,
}

/// The host of each rank, in the order of the ranks. With more ranks than slots the hosts are gone
/// round again, each taking up to as many more.
///
/// # Errors
/// [`NoRoom`].
pub fn place(rooms: &[Room], wanted: &[Wanted], order: Order) -> Result<Vec<usize>, NoRoom> {
    place_beside(rooms, vec![0; rooms.len()], wanted, order)
}

/// As [`place`], where the hosts have ranks already, so many each.
///
/// # Errors
/// [`NoRoom`].
pub fn place_beside(
    rooms: &[Room],
    mut used: Vec<usize>,
    wanted: &[Wanted],
    order: Order,
) -> Result<Vec<usize>, NoRoom> {
    used.resize(rooms.len(), 0);
    let mut all = Vec::new();
    for (program, wanted) in wanted.iter().enumerate() {
        let placed = one(rooms, &mut used, wanted, order);
        if placed.len() < wanted.count {
            return Err(NoRoom { program, placed: placed.len() });
        }
        all.extend(placed);
    }
    Ok(all)
}

fn one(rooms: &[Room], used: &mut [usize], wanted: &Wanted, order: Order) -> Vec<usize> {
    let mut placed = Vec::new();
    let mut round = 1;
    let at_once = match order {
        Order::Slots => usize::MAX,
        Order::Nodes => 1,
    };
    while placed.len() < wanted.count {
        let before = placed.len();
        for &host in &wanted.hosts {
            let (Some(room), Some(used)) = (rooms.get(host), used.get_mut(host)) else { continue };
            let cap = room.slots.saturating_mul(round).min(room.most);
            let take = cap.saturating_sub(*used).min(at_once).min(wanted.count - placed.len());
            *used += take;
            placed.extend(std::iter::repeat_n(host, take));
        }
        if placed.len() == before {
            let full = |host: &usize| {
                let (room, used) = (rooms.get(*host), used.get(*host));
                room.zip(used).is_none_or(|(room, used)| *used >= room.most || room.slots == 0)
            };
            if wanted.hosts.iter().all(full) {
                return placed;
            }
            round += 1;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rooms(slots: &[usize]) -> Vec<Room> {
        slots.iter().map(|slots| Room { slots: *slots, most: usize::MAX }).collect()
    }

    fn all(count: usize, hosts: usize) -> Vec<Wanted> {
        vec![Wanted { count, hosts: (0..hosts).collect() }]
    }

    #[test]
    fn slots_are_filled_and_gone_round() {
        let by =
            |slots: &[usize], count, order| place(&rooms(slots), &all(count, slots.len()), order).unwrap();
        assert_eq!(by(&[2, 1], 3, Order::Slots), [0, 0, 1]);
        assert_eq!(by(&[2, 1], 7, Order::Slots), [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(by(&[3, 1], 4, Order::Nodes), [0, 1, 0, 0]);
        assert_eq!(by(&[2, 2], 6, Order::Nodes), [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn programs_share_the_room() {
        let wanted = [Wanted { count: 1, hosts: vec![0, 1] }, Wanted { count: 2, hosts: vec![0, 1] }];
        assert_eq!(place(&rooms(&[2, 1]), &wanted, Order::Slots), Ok(vec![0, 0, 1]));
        let wanted = [Wanted { count: 1, hosts: vec![1] }, Wanted { count: 2, hosts: vec![0] }];
        assert_eq!(place(&rooms(&[2, 1]), &wanted, Order::Slots), Ok(vec![1, 0, 0]));
    }

    #[test]
    fn those_who_come_later_fill_what_is_left() {
        let beside = |slots: &[usize], used: &[usize], count| {
            place_beside(&rooms(slots), used.to_vec(), &all(count, slots.len()), Order::Slots).unwrap()
        };
        assert_eq!(beside(&[2, 2], &[2, 1], 1), [1]);
        assert_eq!(beside(&[2, 2], &[1, 0], 4), [0, 1, 1, 0]);
        assert_eq!(beside(&[1, 1], &[3, 1], 1), [1], "whoever has less takes it");
    }

    #[test]
    fn a_full_host_takes_no_more() {
        let rooms = [Room { slots: 1, most: 2 }, Room { slots: 1, most: 1 }];
        assert_eq!(place(&rooms, &all(3, 2), Order::Slots), Ok(vec![0, 1, 0]));
        assert_eq!(place(&rooms, &all(4, 2), Order::Slots), Err(NoRoom { program: 0, placed: 3 }));
        assert_eq!(place(&rooms, &all(1, 0), Order::Nodes), Err(NoRoom { program: 0, placed: 0 }));
    }

    proptest! {
        #[test]
        fn everybody_has_a_place_and_nobody_is_overfull(
            slots in proptest::collection::vec(1..5usize, 1..6), count in 0..60usize, nodes: bool,
        ) {
            let order = if nodes { Order::Nodes } else { Order::Slots };
            let placed = place(&rooms(&slots), &all(count, slots.len()), order).unwrap();
            prop_assert_eq!(placed.len(), count);
            let total: usize = slots.iter().sum();
            for (host, slots) in slots.iter().enumerate() {
                let here = placed.iter().filter(|h| **h == host).count();
                prop_assert!(here <= slots * count.div_ceil(total));
            }
        }
    }
}
