//! The processors of this machine as cores, sockets and memory nodes, read from the kernel; and how
//! ranks are laid over them.

use std::collections::BTreeMap;
use std::path::Path;

/// Over what the ranks of a host are laid in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MapBy {
    /// Hosts are filled slot by slot; cores in order.
    #[default]
    Slot,
    /// Ranks go to the hosts in turn; cores in order.
    Node,
    /// As by slot: one core after the other.
    Core,
    /// The sockets in turn.
    Socket,
    /// The memory nodes in turn.
    Numa,
}

/// What a rank is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BindTo {
    /// Nothing: it may use all processors that the launcher may.
    #[default]
    None,
    /// One hardware thread.
    Hwthread,
    /// One core, with all its hardware threads.
    Core,
    /// The cores of its socket.
    Socket,
    /// The cores of its memory node.
    Numa,
}

/// Each with the word for it; the order gives the numbers on the wire.
const MAPS: &[(&str, MapBy)] = &[
    ("slot", MapBy::Slot),
    ("node", MapBy::Node),
    ("core", MapBy::Core),
    ("socket", MapBy::Socket),
    ("numa", MapBy::Numa),
];
const BINDS: &[(&str, BindTo)] = &[
    ("none", BindTo::None),
    ("hwthread", BindTo::Hwthread),
    ("core", BindTo::Core),
    ("socket", BindTo::Socket),
    ("numa", BindTo::Numa),
];

impl MapBy {
    /// By its word.
    pub fn named(word: &str) -> Option<MapBy> {
        MAPS.iter().find(|(name, _)| *name == word).map(|(_, map)| *map)
    }

    /// Its number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// By its number.
    pub fn numbered(number: u8) -> Option<MapBy> {
        MAPS.get(usize::from(number)).map(|(_, map)| *map)
    }
}

impl BindTo {
    /// By its word.
    pub fn named(word: &str) -> Option<BindTo> {
        BINDS.iter().find(|(name, _)| *name == word).map(|(_, bind)| *bind)
    }

    /// Its number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// By its number.
    pub fn numbered(number: u8) -> Option<BindTo> {
        BINDS.get(usize::from(number)).map(|(_, bind)| *bind)
    }
}

/// Where a processor is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Place {
    socket: usize,
    numa: usize,
    core: usize,
}

/// The processors that may be used, each with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    places: Vec<(usize, Place)>,
}

impl Topology {
    /// Of these processors of this machine. What the kernel does not say counts as one core per
    /// processor on one socket with one memory node.
    pub fn read(processors: &[usize]) -> Topology {
        Topology::read_from(Path::new("/sys/devices/system"), processors)
    }

    fn read_from(system: &Path, processors: &[usize]) -> Topology {
        let numa = memory_nodes(system);
        let place = |cpu: &usize| {
            let at = system.join(format!("cpu/cpu{cpu}/topology"));
            let number = |name: &str| std::fs::read_to_string(at.join(name)).ok()?.trim().parse().ok();
            let place = Place {
                socket: number("physical_package_id").unwrap_or(0),
                numa: numa.get(cpu).copied().unwrap_or(0),
                core: number("core_id").unwrap_or(*cpu),
            };
            (*cpu, place)
        };
        let mut places: Vec<(usize, Place)> = processors.iter().map(place).collect();
        places.sort_by_key(|(cpu, place)| (*place, *cpu));
        Topology { places }
    }

    /// The processors of each of `count` ranks of this host, `None` where they are not bound.
    pub fn layout(&self, count: usize, map_by: MapBy, bind_to: BindTo) -> Vec<Option<Vec<usize>>> {
        (0..count).map(|rank| self.bound(rank, map_by, bind_to)).collect()
    }

    fn bound(&self, rank: usize, map_by: MapBy, bind_to: BindTo) -> Option<Vec<usize>> {
        let (core, turn) = match map_by {
            MapBy::Slot | MapBy::Node | MapBy::Core => nth(&self.groups(|p| p), rank),
            MapBy::Socket => self.nth_within(rank, |p| Place { socket: p.socket, ..Place::default() }),
            MapBy::Numa => self.nth_within(rank, |p| Place { numa: p.numa, ..Place::default() }),
        }?;
        let place = self.places.iter().find(|(cpu, _)| core.contains(cpu)).map(|(_, place)| *place)?;
        let those = |like: &dyn Fn(&Place) -> bool| {
            let mut cpus: Vec<usize> =
                self.places.iter().filter(|(_, p)| like(p)).map(|(cpu, _)| *cpu).collect();
            cpus.sort_unstable();
            Some(cpus)
        };
        match bind_to {
            BindTo::None => None,
            BindTo::Hwthread => core.get(turn % core.len().max(1)).map(|cpu| vec![*cpu]),
            BindTo::Core => Some(core),
            BindTo::Socket => those(&|p| p.socket == place.socket),
            BindTo::Numa => those(&|p| p.numa == place.numa),
        }
    }

    /// Processors by what `key` says of their place, in order.
    fn groups(&self, key: impl Fn(Place) -> Place) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (cpu, place) in &self.places {
            groups.entry(key(*place)).or_default().push(*cpu);
        }
        groups.into_values().collect()
    }

    /// The groups are taken in turn, and the cores of each in order.
    fn nth_within(&self, rank: usize, key: impl Fn(Place) -> Place) -> Option<(Vec<usize>, usize)> {
        let groups = self.groups(key);
        let (group, turn) = nth(&groups, rank)?;
        let places = self.places.iter().filter(|(cpu, _)| group.contains(cpu)).copied().collect();
        nth(&Topology { places }.groups(|p| p), turn)
    }
}

/// The group that is `n`-th when they are taken in turn, and how often it was taken before.
fn nth(groups: &[Vec<usize>], n: usize) -> Option<(Vec<usize>, usize)> {
    let count = groups.len().max(1);
    groups.get(n % count).map(|group| (group.clone(), n / count))
}

/// The memory node of each processor.
fn memory_nodes(system: &Path) -> BTreeMap<usize, usize> {
    let mut all = BTreeMap::new();
    let entries = std::fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let node = name.to_str().and_then(|n| n.strip_prefix("node")?.parse::<usize>().ok());
        let list = std::fs::read_to_string(entry.path().join("cpulist"));
        if let (Some(node), Ok(list)) = (node, list) {
            all.extend(numbers(list.trim()).into_iter().map(|cpu| (cpu, node)));
        }
    }
    all
}

/// The kernel's notation for a set: `0-3,8`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        Some(a.parse::<usize>().ok()?..=b.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets with a memory node each, two cores per socket, two hardware threads per core:
    /// processors 0 to 3 are the first threads, 4 to 7 the second.
    fn machine() -> Topology {
        let place = |cpu: usize| {
            let core = cpu % 4;
            (cpu, Place { socket: core / 2, numa: core / 2, core: core % 2 })
        };
        let mut places: Vec<_> = (0..8).map(place).collect();
        places.sort_by_key(|(cpu, place)| (*place, *cpu));
        Topology { places }
    }

    fn layout(count: usize, map: &str, bind: &str) -> Vec<String> {
        let (map, bind) = (MapBy::named(map).unwrap(), BindTo::named(bind).unwrap());
        let show = |cpus: Option<Vec<usize>>| cpus.map_or(String::from("all"), |c| crate::plan::ranges(&c));
        machine().layout(count, map, bind).into_iter().map(show).collect()
    }

    #[test]
    fn ranks_are_laid_over_cores_sockets_and_memory_nodes() {
        assert_eq!(layout(2, "slot", "none"), ["all", "all"]);
        assert_eq!(layout(5, "core", "core"), ["0,4", "1,5", "2,6", "3,7", "0,4"]);
        assert_eq!(layout(6, "slot", "hwthread"), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(layout(5, "socket", "core"), ["0,4", "2,6", "1,5", "3,7", "0,4"]);
        assert_eq!(layout(3, "socket", "socket"), ["0-1,4-5", "2-3,6-7", "0-1,4-5"]);
        assert_eq!(layout(2, "core", "numa"), ["0-1,4-5", "0-1,4-5"]);
        assert_eq!(layout(2, "numa", "core"), ["0,4", "2,6"]);
    }

    #[test]
    fn the_kernel_is_read() {
        let system = std::env::temp_dir().join(format!("mpiexec-topology-{}", std::process::id()));
        for (cpu, socket, core) in [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)] {
            let at = system.join(format!("cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("physical_package_id"), format!("{socket}\n")).unwrap();
            std::fs::write(at.join("core_id"), format!("{core}\n")).unwrap();
        }
        std::fs::create_dir_all(system.join("node/node0")).unwrap();
        std::fs::create_dir_all(system.join("node/node1")).unwrap();
        std::fs::write(system.join("node/node0/cpulist"), "0,2\n").unwrap();
        std::fs::write(system.join("node/node1/cpulist"), "1,3\n").unwrap();
        let topology = Topology::read_from(&system, &[0, 1, 2, 3]);
        let missing = Topology::read_from(&system.join("none"), &[4, 6]);
        std::fs::remove_dir_all(&system).unwrap();
        assert_eq!(topology.layout(1, MapBy::Slot, BindTo::Numa), [Some(vec![0, 2])]);
        assert_eq!(topology.layout(1, MapBy::Slot, BindTo::Socket), [Some(vec![0, 1])]);
        assert_eq!(missing.layout(2, MapBy::Core, BindTo::Core), [Some(vec![4]), Some(vec![6])]);
        assert_eq!(Topology::read(&[]).layout(1, MapBy::Core, BindTo::Core), [None]);
    }

    #[test]
    fn numbers_on_the_wire_are_places_in_the_tables() {
        for (at, (name, map)) in MAPS.iter().enumerate() {
            assert_eq!((usize::from(map.number()), MapBy::named(name)), (at, Some(*map)));
            assert_eq!(MapBy::numbered(map.number()), Some(*map));
        }
        for (at, (name, bind)) in BINDS.iter().enumerate() {
            assert_eq!((usize::from(bind.number()), BindTo::named(name)), (at, Some(*bind)));
            assert_eq!(BindTo::numbered(bind.number()), Some(*bind));
        }
        assert_eq!(BindTo::numbered(9), None);
    }
}
