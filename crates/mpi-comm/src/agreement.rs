//! Agreeing on the id of a new communicator, without I/O: what to send, what to receive.
//!
//! The processes concerned form a binomial tree. Each step of an agreement goes up the tree, where
//! what the processes say is combined by a bitwise "and", and down again, where the root says what
//! follows from it:
//!
//! 1. *offer*: up, the ids that are free; down, the id that the root chose among those free
//!    everywhere, or none, which moves everyone on to the next window of ids;
//! 2. *confirm*: up, whether the process could reserve that id; down, whether all could. If not,
//!    everything starts again.
//!
//! Between two groups that have no communicator in common (an inter-communicator in the making),
//! the second group's tree hangs below the first one's root by a [`Peer::Bridge`].

use crate::context_ids::{ContextIds, Window};
use std::sync::Arc;

/// Who is on the other end of a link of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// The process at an index of the group that agrees.
    Member(u32),
    /// The root of the other group.
    Bridge,
}

/// What to do next; after a receive, [`Agreement::received`] takes the words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send these words to a peer.
    Send(Peer, Vec<u64>),
    /// Receive so many words from a peer.
    Receive(Peer, usize),
    /// The agreement is over; the id is reserved here, and everywhere.
    Done(u32),
    /// No id is free on all processes concerned.
    Exhausted,
}

/// A process's place in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tree {
    parent: Option<Peer>,
    children: Vec<Peer>,
}

/// Where the group of an agreement hangs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// It agrees alone.
    Alone,
    /// Its root is the root of all, and another group's root hangs below.
    Upper,
    /// Its root hangs below the other group's root.
    Lower,
}

impl Tree {
    /// The place of the process at `index` of a group of `size`, with the root at index 0.
    pub(crate) fn new(index: u32, size: u32, side: Side) -> Tree {
        let mut children = Vec::new();
        let mut parent = None;
        let mut bit = 1;
        while bit < size {
            if index & bit != 0 {
                parent = Some(Peer::Member(index & !bit));
                break;
            }
            if index | bit < size {
                children.push(Peer::Member(index | bit));
            }
            bit <<= 1;
        }
        if index == 0 {
            match side {
                Side::Alone => {}
                Side::Upper => children.push(Peer::Bridge),
                Side::Lower => parent = Some(Peer::Bridge),
            }
        }
        Tree { parent, children }
    }

    /// Who is above; nobody for the root.
    pub(crate) fn parent(&self) -> Option<Peer> {
        self.parent
    }

    /// Who is below.
    pub(crate) fn children(&self) -> &[Peer] {
        &self.children
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Offer,
    Confirm,
}

/// One process's side of an agreement.
#[derive(Debug)]
pub(crate) struct Agreement {
    ids: Arc<ContextIds>,
    tree: Tree,
    step: Step,
    window: Window,
    attempt: u32,
    /// What goes up, then what comes down.
    words: Vec<u64>,
    at: At,
    /// The id reserved here while the others are asked.
    held: Option<u32>,
}

/// Where in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// Children heard so far.
    Gather(usize),
    Up,
    Down,
    /// Children told so far.
    Tell(usize),
    Over,
}

/// Goes down when no id of the window is free everywhere.
const NONE: u64 = u64::MAX;

impl Agreement {
    pub(crate) fn new(ids: Arc<ContextIds>, tree: Tree) -> Agreement {
        let words = ids.free_in(Window::FIRST);
        let (step, window, at) = (Step::Offer, Window::FIRST, At::Gather(0));
        Agreement { ids, tree, step, window, attempt: 0, words, at, held: None }
    }

    /// What to do next. A `Receive` is given again until [`Agreement::received`].
    pub(crate) fn next(&mut self) -> Action {
        loop {
            match self.at {
                At::Gather(heard) if heard < self.tree.children.len() => {
                    return Action::Receive(self.tree.children[heard], self.words.len());
                }
                At::Gather(_) => match self.tree.parent {
                    Some(_) => self.at = At::Up,
                    None => {
                        self.words = vec![self.decide()];
                        self.at = At::Tell(0);
                    }
                },
                At::Up => {
                    let words = std::mem::take(&mut self.words);
                    self.at = At::Down;
                    // `Gather` moves to `Up` only where there is a parent.
                    return Action::Send(self.tree.parent.unwrap_or(Peer::Bridge), words);
                }
                At::Down => return Action::Receive(self.tree.parent.unwrap_or(Peer::Bridge), 1),
                At::Tell(told) if told < self.tree.children.len() => {
                    self.at = At::Tell(told + 1);
                    return Action::Send(self.tree.children[told], self.words.clone());
                }
                At::Tell(_) => {
                    if let Some(end) = self.follow(self.words.first().copied().unwrap_or(NONE)) {
                        return end;
                    }
                }
                At::Over => return Action::Exhausted,
            }
        }
    }

    /// Takes what the last `Receive` asked for; missing words count as zeros.
    pub(crate) fn received(&mut self, words: &[u64]) {
        match self.at {
            At::Gather(heard) => {
                for (at, mine) in self.words.iter_mut().enumerate() {
                    *mine &= words.get(at).copied().unwrap_or(0);
                }
                self.at = At::Gather(heard + 1);
            }
            _ => {
                self.words = words.to_vec();
                self.at = At::Tell(0);
            }
        }
    }

    /// At the root: what goes down.
    fn decide(&self) -> u64 {
        match self.step {
            Step::Offer => self.ids.choose(self.window, &self.words, self.attempt).map_or(NONE, u64::from),
            Step::Confirm => self.words.first().copied().unwrap_or(0),
        }
    }

    /// Does what came down; `Some` ends the agreement.
    fn follow(&mut self, verdict: u64) -> Option<Action> {
        self.at = At::Gather(0);
        match self.step {
            Step::Offer if verdict == NONE => match self.window.next() {
                Some(window) => self.offer(window),
                None => {
                    self.at = At::Over;
                    return Some(Action::Exhausted);
                }
            },
            Step::Offer => {
                let id = verdict as u32;
                self.held = self.ids.reserve(id).then_some(id);
                self.step = Step::Confirm;
                self.words = vec![u64::from(self.held.is_some())];
            }
            Step::Confirm => match (verdict, self.held.take()) {
                (1, Some(id)) => {
                    self.at = At::Over;
                    return Some(Action::Done(id));
                }
                (_, held) => {
                    if let Some(id) = held {
                        self.ids.release(id);
                    }
                    self.attempt += 1;
                    self.offer(self.window);
                }
            },
        }
        None
    }

    fn offer(&mut self, window: Window) {
        self.step = Step::Offer;
        self.window = window;
        self.words = self.ids.free_in(window);
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        if let Some(id) = self.held.take() {
            self.ids.release(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    /// Agreements of several groups of simulated processes, moved on in an order that a seed gives.
    struct Net {
        processes: Vec<Arc<ContextIds>>,
        running: Vec<(usize, Vec<usize>, usize, Agreement)>,
        wires: HashMap<(usize, usize, usize), VecDeque<Vec<u64>>>,
        seed: u64,
    }

    impl Net {
        fn new(used: &[Vec<u32>], seed: u64) -> Net {
            let processes = used.iter().map(|u| Arc::new(ContextIds::new(u))).collect();
            Net { processes, running: Vec::new(), wires: HashMap::new(), seed }
        }

        fn start(&mut self, operation: usize, group: &[usize]) {
            for (index, process) in group.iter().enumerate() {
                let tree = Tree::new(index as u32, group.len() as u32, Side::Alone);
                let agreement = Agreement::new(self.processes[*process].clone(), tree);
                self.running.push((operation, group.to_vec(), index, agreement));
            }
        }

        fn random(&mut self, below: usize) -> usize {
            self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.seed >> 33) as usize % below
        }

        /// Runs everything to its end: operation to the ids that its members got.
        fn run(&mut self) -> HashMap<usize, Vec<Option<u32>>> {
            let mut results: HashMap<usize, Vec<Option<u32>>> = HashMap::new();
            let mut steps = 0;
            while !self.running.is_empty() {
                steps += 1;
                assert!(steps < 2_000_000, "the agreements do not end");
                let at = self.random(self.running.len());
                let (operation, group, index, agreement) = &mut self.running[at];
                let other = |peer| match peer {
                    Peer::Member(index) => index as usize,
                    Peer::Bridge => unreachable!("no bridge here"),
                };
                let (operation, me) = (*operation, group[*index]);
                match agreement.next() {
                    Action::Send(to, words) => {
                        let key = (operation, me, group[other(to)]);
                        self.wires.entry(key).or_default().push_back(words);
                    }
                    Action::Receive(from, _) => {
                        let key = (operation, group[other(from)], me);
                        if let Some(words) = self.wires.get_mut(&key).and_then(VecDeque::pop_front) {
                            agreement.received(&words);
                        }
                    }
                    Action::Done(id) => {
                        results.entry(operation).or_default().push(Some(id));
                        self.running.swap_remove(at);
                    }
                    Action::Exhausted => {
                        results.entry(operation).or_default().push(None);
                        self.running.swap_remove(at);
                    }
                }
            }
            results
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any number of agreements at once, over overlapping groups, in any order of events.
        #[test]
        fn members_agree_and_no_process_has_an_id_twice(
            used in proptest::collection::vec(proptest::collection::vec(0u32..300, 0..300), 2..9),
            groups in proptest::collection::vec(proptest::collection::vec(0usize..9, 1..9), 1..6),
            seed: u64,
        ) {
            let mut net = Net::new(&used, seed);
            let before: Vec<usize> = net.processes.iter().map(|p| p.in_use()).collect();
            let groups: Vec<Vec<usize>> = groups.into_iter().map(|group| {
                let mut distinct = Vec::new();
                for process in group.into_iter().map(|p| p % used.len()) {
                    if !distinct.contains(&process) { distinct.push(process); }
                }
                distinct
            }).collect();
            for (operation, group) in groups.iter().enumerate() {
                net.start(operation, group);
            }
            let results = net.run();
            let mut per_process: HashMap<usize, Vec<u32>> = HashMap::new();
            for (operation, ids) in results {
                prop_assert!(ids.iter().all(|id| *id == ids[0] && id.is_some()), "{:?}", ids);
                for process in &groups[operation] {
                    let id = ids[0].unwrap_or(0);
                    prop_assert!(!used[*process].contains(&id));
                    per_process.entry(*process).or_default().push(id);
                }
            }
            for (process, mut ids) in per_process {
                let count = ids.len();
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(ids.len(), count);
                prop_assert_eq!(net.processes[process].in_use(), before[process] + count);
            }
        }
    }

    #[test]
    fn when_no_id_is_free_everywhere_all_say_so() {
        let even: Vec<u32> = (0..ContextIds::MAX_IDS as u32).step_by(2).collect();
        let odd: Vec<u32> = (1..ContextIds::MAX_IDS as u32).step_by(2).collect();
        let mut net = Net::new(&[even, odd], 1);
        net.start(0, &[0, 1]);
        assert_eq!(net.run()[&0], [None, None]);
    }

    #[test]
    fn every_process_is_in_the_tree_once() {
        for size in 1..40 {
            let mut parents = 0;
            for index in 0..size {
                let tree = Tree::new(index, size, Side::Alone);
                for child in tree.children() {
                    let Peer::Member(child) = *child else { panic!("a bridge") };
                    let below = Tree::new(child, size, Side::Alone);
                    assert_eq!(below.parent(), Some(Peer::Member(index)));
                    parents += 1;
                }
            }
            assert_eq!(parents, size - 1);
        }
        assert_eq!(Tree::new(0, 1, Side::Lower).parent(), Some(Peer::Bridge));
        assert_eq!(Tree::new(0, 1, Side::Upper).children(), [Peer::Bridge]);
    }
}
