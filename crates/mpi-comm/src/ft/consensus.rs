//! Agreement among processes of which any may fail at any time, without I/O: what came in, what goes out.
//!
//! The one who coordinates is the lowest rank that is not known to be gone. Everybody tells it what it has to say. When it
//! has heard from all who live, it *proposes* the outcome; everybody *adopts* a proposal and says so; when all who live
//! have adopted it, it is *decided*, and told to all. When a coordinator is gone, everybody turns to the next one and
//! tells it, too, what it has adopted, or that it is decided: that is proposed again, or known then.
//!
//! Why all get the same, the dead included: who has got a decision got it after all who lived had adopted it, so that
//! every later coordinator hears of it from everybody. Who has turned to a coordinator takes no proposal of an earlier one
//! any more, so that no second outcome is proposed that one who lives has not told of. This needs that nobody is taken
//! for gone who goes on, and that everybody hears in the end who is gone: the launcher sees to both.
//!
//! Sources: three-phase commit (D. Skeen, "Nonblocking commit protocols", 1981); coordinators in turn (T. Chandra and
//! S. Toueg, "Unreliable failure detectors for reliable distributed systems", 1996); for MPI, by phases of ballot,
//! agreement and commit: D. Buntinas, "Scalable distributed consensus to support MPI fault tolerance", 2012. Without
//! failures that is four messages one after the other and 4·(n-1) in all.

use std::collections::{BTreeMap, BTreeSet};

/// What was agreed on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Decision {
    /// The bits that all have set, of those who were heard.
    pub(crate) words: Vec<u64>,
    /// Ranks that are gone, to the knowledge of anyone who was heard; in order.
    pub(crate) failed: Vec<u32>,
    /// Everyone who was heard has acknowledged all of these.
    pub(crate) acknowledged: bool,
    /// Everyone has the decisions before this number.
    done: u64,
}

/// What one process has to say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Said {
    words: Vec<u64>,
    failed: BTreeSet<u32>,
    acknowledged: BTreeSet<u32>,
    /// It has the decisions before this number.
    done: u64,
    /// What it has adopted, and whose proposal that was.
    adopted: Option<(u32, Decision)>,
}

/// A message about the agreement of a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Letter {
    number: u64,
    content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Content {
    Said(Said),
    Proposed(Decision),
    Adopted,
    Decided(Decision),
}

/// One agreement, as one process sees it.
#[derive(Debug, Default)]
struct Round {
    /// What this process has to say, once it takes part.
    mine: Option<Said>,
    adopted: Option<(u32, Decision)>,
    /// The coordinator that knows both.
    told: Option<u32>,
    /// What others have said to this process.
    heard: BTreeMap<u32, Said>,
    /// Who has adopted this process's proposal.
    adopters: Option<BTreeSet<u32>>,
    decided: Option<Decision>,
}

/// All agreements of one communicator, as one process sees them.
#[derive(Debug)]
pub(crate) struct Consensus {
    me: u32,
    size: u32,
    gone: BTreeSet<u32>,
    rounds: BTreeMap<u64, Round>,
    /// The number of the next agreement that this process takes part in.
    next: u64,
    /// Everyone has the decisions before this number.
    forgotten: u64,
    /// Letters to be sent.
    out: Vec<(u32, Letter)>,
    /// Agreements decided since that was asked for.
    news: Vec<u64>,
}

impl Consensus {
    pub(crate) fn new(me: u32, size: u32) -> Consensus {
        let (gone, rounds, out, news) = Default::default();
        Consensus { me, size, gone, rounds, next: 0, forgotten: 0, out, news }
    }

    /// Takes part in the next agreement; gives its number.
    pub(crate) fn start(&mut self, words: &[u64], acknowledged: impl IntoIterator<Item = u32>) -> u64 {
        let number = self.next;
        self.next += 1;
        let undecided = |n: &u64| self.rounds.get(n).is_none_or(|round| round.decided.is_none());
        let done = (self.forgotten..number).find(undecided).unwrap_or(number);
        let said = Said {
            words: words.to_vec(),
            acknowledged: acknowledged.into_iter().collect(),
            done,
            ..Said::default()
        };
        self.rounds.entry(number).or_default().mine = Some(said);
        self.advance(number);
        number
    }

    /// What came of an agreement that this process takes part in.
    pub(crate) fn decision(&self, number: u64) -> Option<&Decision> {
        self.rounds.get(&number)?.decided.as_ref()
    }

    /// Letters to be sent, each with the rank that it goes to.
    pub(crate) fn letters(&mut self) -> Vec<(u32, Letter)> {
        std::mem::take(&mut self.out)
    }

    /// Agreements decided since that was asked last.
    pub(crate) fn news(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.news)
    }

    /// A rank is gone.
    pub(crate) fn gone(&mut self, rank: u32) {
        let before = self.coordinator();
        if rank == self.me || rank >= self.size || !self.gone.insert(rank) {
            return;
        }
        let coordinator = self.coordinator();
        for number in self.rounds.keys().copied().collect::<Vec<_>>() {
            let decided = self.rounds.get(&number).and_then(|round| round.decided.clone());
            match decided {
                // The new coordinator waits for what everybody has to say, and may be the one who does not know.
                Some(decision) if coordinator != before && coordinator != self.me => {
                    let content = Content::Decided(decision);
                    self.out.push((coordinator, Letter { number, content }));
                }
                Some(_) => {}
                None => self.advance(number),
            }
        }
    }

    /// A letter has come.
    pub(crate) fn heard(&mut self, from: u32, letter: Letter) {
        let Letter { number, content } = letter;
        if number < self.forgotten || from >= self.size || from == self.me {
            return;
        }
        let coordinator = self.coordinator();
        let round = self.rounds.entry(number).or_default();
        match (content, &round.decided) {
            (Content::Decided(_), Some(_)) | (Content::Adopted, Some(_)) => {}
            (Content::Decided(decision), None) => self.decide(number, decision),
            (_, Some(decision)) => {
                let content = Content::Decided(decision.clone());
                self.out.push((from, Letter { number, content }));
            }
            (Content::Said(said), None) => {
                round.heard.insert(from, said);
                self.advance(number);
            }
            // Whoever turned to a later one has done with it.
            (Content::Proposed(_), None) if from < coordinator => {}
            (Content::Proposed(decision), None) => {
                round.adopted = Some((from, decision));
                round.told = Some(from);
                self.out.push((from, Letter { number, content: Content::Adopted }));
            }
            (Content::Adopted, None) => {
                if let Some(adopters) = &mut round.adopters {
                    adopters.insert(from);
                    self.advance(number);
                }
            }
        }
    }

    fn coordinator(&self) -> u32 {
        (0..self.size).find(|rank| !self.gone.contains(rank)).unwrap_or(self.me)
    }

    /// Those who live, but for this one.
    fn others(&self) -> impl Iterator<Item = u32> + use<'_> {
        (0..self.size).filter(|rank| *rank != self.me && !self.gone.contains(rank))
    }

    /// Does what can be done for an agreement that is not decided.
    fn advance(&mut self, number: u64) {
        let coordinator = self.coordinator();
        let gone = self.gone.clone();
        let Some(round) = self.rounds.get_mut(&number) else { return };
        let Some(mine) = &round.mine else { return };
        if round.decided.is_some() {
            return;
        }
        let said = Said { failed: gone, adopted: round.adopted.clone(), ..mine.clone() };
        if coordinator != self.me {
            if round.told != Some(coordinator) {
                round.told = Some(coordinator);
                self.out.push((coordinator, Letter { number, content: Content::Said(said) }));
            }
            return;
        }
        if round.adopters.is_none() {
            round.heard.insert(self.me, said);
            self.propose(number);
        }
        self.commit(number);
    }

    /// As the coordinator: everybody who lives was heard, and nothing is proposed yet.
    fn propose(&mut self, number: u64) {
        let everybody = |round: &Round| self.others().all(|rank| round.heard.contains_key(&rank));
        let Some(round) = self.rounds.get(&number).filter(|round| everybody(round)) else { return };
        let adopted = round.heard.values().filter_map(|said| said.adopted.as_ref()).max_by_key(|(by, _)| *by);
        let decision = match adopted {
            Some((_, decision)) => decision.clone(),
            None => combine(round.heard.values(), &self.gone),
        };
        let others: Vec<u32> = self.others().collect();
        for to in others {
            self.out.push((to, Letter { number, content: Content::Proposed(decision.clone()) }));
        }
        let me = self.me;
        if let Some(round) = self.rounds.get_mut(&number) {
            round.adopted = Some((me, decision));
            round.adopters = Some(BTreeSet::new());
        }
    }

    /// As the coordinator: everybody who lives has adopted the proposal.
    fn commit(&mut self, number: u64) {
        let Some(round) = self.rounds.get(&number) else { return };
        let Some(adopters) = &round.adopters else { return };
        if self.others().all(|rank| adopters.contains(&rank)) {
            if let Some((_, decision)) = round.adopted.clone() {
                self.decide(number, decision);
            }
        }
    }

    fn decide(&mut self, number: u64, decision: Decision) {
        // Whoever waits for this process to say so.
        let waiting: Vec<u32> = match self.rounds.get(&number) {
            Some(round) if round.adopters.is_some() => self.others().collect(),
            Some(round) => round.heard.keys().copied().filter(|rank| *rank != self.me).collect(),
            None => Vec::new(),
        };
        for to in waiting {
            self.out.push((to, Letter { number, content: Content::Decided(decision.clone()) }));
        }
        let done = decision.done;
        let round = self.rounds.entry(number).or_default();
        (round.heard, round.adopters, round.adopted) = Default::default();
        round.decided = Some(decision);
        self.news.push(number);
        if done > self.forgotten {
            self.forgotten = done;
            self.rounds = self.rounds.split_off(&done);
        }
    }
}

/// The outcome of what was said.
fn combine<'a>(all: impl Iterator<Item = &'a Said> + Clone, gone: &BTreeSet<u32>) -> Decision {
    let mut failed = gone.clone();
    all.clone().for_each(|said| failed.extend(&said.failed));
    let acknowledged = all.clone().all(|said| failed.is_subset(&said.acknowledged));
    let done = all.clone().map(|said| said.done).min().unwrap_or(0);
    let words = all.map(|said| said.words.clone()).reduce(|mut words, other| {
        words.truncate(other.len());
        words.iter_mut().zip(other).for_each(|(word, more)| *word &= more);
        words
    });
    Decision { words: words.unwrap_or_default(), failed: failed.into_iter().collect(), acknowledged, done }
}

// ---- letters as words

impl Letter {
    pub(crate) fn encode(&self) -> Vec<u64> {
        let mut out = vec![self.number];
        match &self.content {
            Content::Said(said) => {
                out.push(0);
                put(&mut out, said.words.iter().copied());
                put(&mut out, said.failed.iter().map(|rank| u64::from(*rank)));
                put(&mut out, said.acknowledged.iter().map(|rank| u64::from(*rank)));
                out.push(said.done);
                match &said.adopted {
                    None => out.push(0),
                    Some((by, decision)) => {
                        out.extend([1, u64::from(*by)]);
                        decision.encode(&mut out);
                    }
                }
            }
            Content::Proposed(decision) => {
                out.push(1);
                decision.encode(&mut out);
            }
            Content::Adopted => out.push(2),
            Content::Decided(decision) => {
                out.push(3);
                decision.encode(&mut out);
            }
        }
        out
    }

    /// Reads one; `None` for what is none.
    pub(crate) fn decode(words: &[u64]) -> Option<Letter> {
        let mut from = words;
        let number = take(&mut from)?;
        let content = match take(&mut from)? {
            0 => Content::Said(Said {
                words: list(&mut from)?.to_vec(),
                failed: ranks(&mut from)?.into_iter().collect(),
                acknowledged: ranks(&mut from)?.into_iter().collect(),
                done: take(&mut from)?,
                adopted: match take(&mut from)? {
                    0 => None,
                    _ => Some((u32::try_from(take(&mut from)?).ok()?, Decision::decode(&mut from)?)),
                },
            }),
            1 => Content::Proposed(Decision::decode(&mut from)?),
            2 => Content::Adopted,
            3 => Content::Decided(Decision::decode(&mut from)?),
            _ => return None,
        };
        from.is_empty().then_some(Letter { number, content })
    }
}

impl Decision {
    fn encode(&self, out: &mut Vec<u64>) {
        put(out, self.words.iter().copied());
        put(out, self.failed.iter().map(|rank| u64::from(*rank)));
        out.extend([self.acknowledged.into(), self.done]);
    }

    fn decode(from: &mut &[u64]) -> Option<Decision> {
        Some(Decision {
            words: list(from)?.to_vec(),
            failed: ranks(from)?,
            acknowledged: take(from)? != 0,
            done: take(from)?,
        })
    }
}

fn put(out: &mut Vec<u64>, list: impl ExactSizeIterator<Item = u64>) {
    out.push(list.len() as u64);
    out.extend(list);
}

fn take(from: &mut &[u64]) -> Option<u64> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

fn list<'a>(from: &mut &'a [u64]) -> Option<&'a [u64]> {
    let len = usize::try_from(take(from)?).ok()?;
    let (list, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(list)
}

fn ranks(from: &mut &[u64]) -> Option<Vec<u32>> {
    list(from)?.iter().map(|rank| u32::try_from(*rank).ok()).collect()
}

#[cfg(test)]
#[path = "consensus_tests.rs"]
mod tests;
