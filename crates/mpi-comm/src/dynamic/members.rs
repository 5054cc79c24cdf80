//! Two groups get to know each other: who is in them, where they are, what lets one in to the other.

use super::{Beyond, Identity};
use crate::Comm;
use crate::agreement::{Side, Tree};
use crate::attributes::Attributes;
use crate::comm::{Parts, Remote, Team, broken};
use crate::directory::Card;
use crate::group::Group;
use crate::limits::{GROUP_BLOB_MAX_BYTES, GROUP_JOBS_MAX};
use crate::topology::Topology;
use crate::words;
use mpi_btl::Ep;
use mpi_p2p::{Error, ErrorClass};
use std::collections::HashMap;
use std::sync::Arc;

/// What one process tells of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// Its rank in the communicator that meets the other.
    rank: u32,
    who: Identity,
    card: Card,
    /// The secrets that let in each job of the other group, in the order of the list of jobs; from
    /// one process of each job.
    secrets: Vec<[u8; 32]>,
    /// It cannot take part.
    fault: String,
}

impl Comm {
    /// The inter-communicator between this one's group and the group at the other end of the team's
    /// bridge. Collective over both groups.
    pub(crate) fn meet(
        &self,
        team: &Team<'_>,
        upper: bool,
        op: &'static str,
        name: &str,
    ) -> Result<Comm, Error> {
        let group = self.learn(team, upper, op)?;
        if self.group().intersection(&group).size() > 0 {
            let detail = "the groups have a member in common";
            return Err(self.attach(Error::new(ErrorClass::Comm, op, detail)));
        }
        if let Some(beyond) = self.core().beyond.as_ref() {
            let strangers: Vec<Ep> = group.members().filter(|ep| beyond.foreign.is_foreign(*ep)).collect();
            self.engine().introduce(&strangers)?;
        }
        let side = if upper { Side::Upper } else { Side::Lower };
        let id = self.hold(team.agree(Tree::new(team.index, team.size, side))?);
        Comm::new(
            self.core(),
            Parts {
                id,
                group: self.group(),
                remote: Some(Remote { group, upper }),
                topology: Topology::Undefined,
                attributes: Attributes::default(),
                handler: self.error_handler(),
                name: name.to_owned(),
            },
        )
    }

    /// The other group, as numbers of this process.
    fn learn(&self, team: &Team<'_>, upper: bool, op: &'static str) -> Result<Group, Error> {
        let me = self.core().me;
        let Some(beyond) = self.core().beyond.as_ref() else {
            // One world, whose processes have the same numbers everywhere.
            return Ok(Group::list(numbers(&team.swap(upper, &self.own_numbers())?), me));
        };
        let mine = jobs_of(beyond, &self.group());
        if mine.len() > GROUP_JOBS_MAX {
            let detail = format!("a group of processes from {} worlds; at most {GROUP_JOBS_MAX}", mine.len());
            return Err(self.attach(Error::new(ErrorClass::Other, op, detail)));
        }
        let theirs = decode_jobs(&team.swap_bytes(upper, &encode_jobs(&mine))?)?;
        if mine == theirs && mine == [beyond.own.job.clone()] {
            return Ok(Group::list(numbers(&team.swap(upper, &self.own_numbers())?), me));
        }
        let blob = team.gather_bytes(&self.entry(beyond, &theirs).encode())?;
        let blob = team.swap_bytes(upper, &blob)?;
        let mut entries = decode_entries(&blob)?;
        entries.sort_by_key(|entry| entry.rank);
        if let Some(entry) = entries.iter().find(|entry| !entry.fault.is_empty()) {
            let detail = format!("rank {} of the other group: {}", entry.rank, entry.fault);
            return Err(self.attach(Error::new(ErrorClass::Other, op, detail)));
        }
        Ok(Group::list(admit(beyond, &mine, entries)?, me))
    }

    fn own_numbers(&self) -> Vec<u64> {
        self.group().members().map(|ep| u64::from(ep.0)).collect()
    }

    /// What this process tells.
    fn entry(&self, beyond: &Beyond, theirs: &[String]) -> Entry {
        let own = &beyond.own;
        let first = self.group().members().find(|ep| beyond.identity(*ep).job == own.job);
        let speaks = first == Some(self.core().me);
        let secret = |job: &String| beyond.secret_for(job);
        let secrets = if speaks { theirs.iter().map(secret).collect() } else { Vec::new() };
        let (card, fault) = match beyond.widen() {
            Ok(card) => (card, String::new()),
            Err(e) => (Card::default(), e.detail.clone()),
        };
        Entry { rank: self.rank(), who: own.clone(), card, secrets, fault }
    }
}

fn numbers(words: &[u64]) -> Vec<Ep> {
    words.iter().map(|ep| Ep(*ep as u32)).collect()
}

/// The jobs of a group's members, each once, in the order of the members.
fn jobs_of(beyond: &Beyond, group: &Group) -> Vec<String> {
    if !group.reaches(|ep| beyond.foreign.is_foreign(ep)) {
        return vec![beyond.own.job.clone()];
    }
    let mut jobs: Vec<String> = Vec::new();
    for ep in group.members() {
        let job = beyond.identity(ep).job;
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    jobs
}

/// The other group's processes as numbers, in rank order.
fn admit(beyond: &Arc<Beyond>, mine: &[String], entries: Vec<Entry>) -> Result<Vec<Ep>, Error> {
    let place = mine.iter().position(|job| *job == beyond.own.job);
    let mut secrets: HashMap<String, [u8; 32]> = HashMap::new();
    for entry in &entries {
        if let Some(secret) = place.and_then(|place| entry.secrets.get(place)) {
            secrets.entry(entry.who.job.clone()).or_insert(*secret);
        }
    }
    let number = |entry: Entry| {
        if entry.who.job == beyond.own.job {
            return match entry.who.rank < beyond.env.world_size {
                true => Ok(Ep(entry.who.rank)),
                false => Err(broken("the other group names a rank that this world has not")),
            };
        }
        let secret = secrets.get(&entry.who.job).copied();
        let secret = secret.ok_or_else(|| broken("a job of the other group tells no secret"))?;
        Ok(beyond.foreign.admit(&entry.who, secret, entry.card))
    };
    entries.into_iter().map(number).collect()
}

// ---- encoding: lengths are u32, everything little-endian

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn take_u32(from: &mut &[u8]) -> Result<u32, Error> {
    let (head, rest) = from.split_first_chunk::<4>().ok_or_else(|| broken("a description is cut off"))?;
    *from = rest;
    Ok(u32::from_le_bytes(*head))
}

fn take<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let length = take_u32(from)? as usize;
    let (bytes, rest) = from.split_at_checked(length).ok_or_else(|| broken("a description is cut off"))?;
    *from = rest;
    Ok(bytes)
}

fn take_text(from: &mut &[u8]) -> Result<String, Error> {
    String::from_utf8(take(from)?.to_vec()).map_err(|_| broken("a description is no UTF-8"))
}

fn encode_jobs(jobs: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    jobs.iter().for_each(|job| put(&mut out, job.as_bytes()));
    out
}

fn decode_jobs(mut bytes: &[u8]) -> Result<Vec<String>, Error> {
    let mut jobs = Vec::new();
    while !bytes.is_empty() {
        if jobs.len() == GROUP_JOBS_MAX {
            return Err(broken("the other group is of too many worlds"));
        }
        jobs.push(take_text(&mut bytes)?);
    }
    Ok(jobs)
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend(self.rank.to_le_bytes());
        put(&mut body, self.who.job.as_bytes());
        body.extend(self.who.rank.to_le_bytes());
        put(&mut body, &self.card.encode());
        put(&mut body, &self.secrets.concat());
        put(&mut body, self.fault.as_bytes());
        let mut out = Vec::new();
        put(&mut out, &body);
        out
    }

    fn decode(mut body: &[u8]) -> Result<Entry, Error> {
        let from = &mut body;
        let rank = take_u32(from)?;
        let who = Identity { job: take_text(from)?, rank: take_u32(from)? };
        let card = Card::decode(who.rank, take(from)?).map_err(|e| broken(&e.to_string()))?;
        let secrets = take(from)?.chunks_exact(32).map(|chunk| {
            let mut secret = [0; 32];
            secret.copy_from_slice(chunk);
            secret
        });
        let secrets = secrets.collect();
        Ok(Entry { rank, who, card, secrets, fault: take_text(from)? })
    }
}

fn decode_entries(mut bytes: &[u8]) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        entries.push(Entry::decode(take(&mut bytes)?)?);
    }
    Ok(entries)
}

// ---- bytes of any length among a team

impl Team<'_> {
    /// As [`Team::swap`], for bytes.
    pub(crate) fn swap_bytes(&self, upper: bool, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        unpad(&self.swap(upper, &pad(bytes))?)
    }

    /// What the root says, to all; others give nothing.
    pub(crate) fn tell_bytes(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let words = if self.index == 0 { pad(bytes) } else { Vec::new() };
        let length = self.tell_from_root(vec![words.len() as u64], 1)?.first().copied().unwrap_or(0);
        check_length(length)?;
        unpad(&self.tell_from_root(words, length as usize)?)
    }

    /// What all say, one behind the other in their order, at the root; elsewhere what came from
    /// below.
    pub(crate) fn gather_bytes(&self, mine: &[u8]) -> Result<Vec<u8>, Error> {
        let tree = Tree::new(self.index, self.size, Side::Alone);
        let mut all = mine.to_vec();
        for child in tree.children() {
            let length = self.receive(*child, 1)?.first().copied().unwrap_or(0);
            check_length(length)?;
            all.extend(unpad(&self.receive(*child, length as usize)?)?);
        }
        if let Some(parent) = tree.parent() {
            let words = pad(&all);
            self.send(parent, &[words.len() as u64])?;
            self.send(parent, &words)?;
        }
        Ok(all)
    }
}

fn check_length(words: u64) -> Result<(), Error> {
    match words <= GROUP_BLOB_MAX_BYTES / 8 {
        true => Ok(()),
        false => Err(broken("a description of a group is too long")),
    }
}

/// The length, then the bytes.
fn pad(bytes: &[u8]) -> Vec<u64> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(8), 0);
    let mut all = vec![bytes.len() as u64];
    all.extend(words::from_bytes(&padded));
    all
}

fn unpad(words: &[u64]) -> Result<Vec<u8>, Error> {
    let (length, rest) = words.split_first().ok_or_else(|| broken("an exchange came short"))?;
    let mut bytes = words::to_bytes(rest);
    match usize::try_from(*length).ok().filter(|length| *length <= bytes.len()) {
        Some(length) => {
            bytes.truncate(length);
            Ok(bytes)
        }
        None => Err(broken("an exchange came short")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_back(
            ranks in proptest::collection::vec(any::<u32>(), 0..5),
            job in "[a-z.0-9-]{0,40}",
            secrets in proptest::collection::vec(any::<[u8; 32]>(), 0..3),
            fault: String,
        ) {
            let entry = |rank: u32| Entry {
                rank,
                who: Identity { job: job.clone(), rank: rank / 2 },
                card: Card::default(),
                secrets: secrets.clone(),
                fault: fault.clone(),
            };
            let entries: Vec<Entry> = ranks.into_iter().map(entry).collect();
            let bytes = entries.iter().flat_map(Entry::encode).collect::<Vec<u8>>();
            prop_assert_eq!(decode_entries(&bytes).unwrap(), entries);
        }

        #[test]
        fn bytes_survive_their_words(bytes: Vec<u8>) {
            prop_assert_eq!(unpad(&pad(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, words: Vec<u64>) {
            let _ = decode_entries(&bytes);
            let _ = decode_jobs(&bytes);
            let _ = unpad(&words);
            let mut framed = Vec::new();
            put(&mut framed, &bytes);
            let _ = decode_entries(&framed);
        }
    }
}
