//! The hosts of a job: from hostfile and `-host` to who runs how many ranks.

pub mod allocation;
pub mod hostfile;
pub mod launcher;
pub mod operator;
pub mod place;
pub mod wait;

use crate::cli::UsageError;
use crate::settings::{Job, Oversubscribe};
use crate::topology::MapBy;
use hostfile::Entry;
use place::{NoRoom, Order, Room, Wanted};

/// A host that may run ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// What it is called.
    pub name: String,
    /// Who logs in there.
    pub user: Option<String>,
    /// It is the machine that the launcher runs on, which needs no daemon.
    pub here: bool,
    /// Its room.
    pub room: Room,
}

/// Where the ranks go.
#[derive(Debug)]
pub struct Placement {
    /// The hosts that have ranks, in order.
    pub hosts: Vec<Host>,
    /// The others that were named: they take what ranks spawn.
    pub spare: Vec<Host>,
    /// Program and host of each rank.
    pub ranks: Vec<(usize, usize)>,
}

/// Places the ranks; `own` is the name of this machine and `processors` how many of it may be used.
///
/// # Errors
/// [`UsageError`] naming option, host, slots and need.
pub fn placement(job: &Job, own: &str, processors: usize) -> Result<Placement, UsageError> {
    let (all, allowed) = hosts(job, own, processors)?;
    let count = |at: usize| match job.programs.get(at).and_then(|p| p.count) {
        Some(count) => count,
        None => slots(&all, allowed.get(at).map_or(&[][..], Vec::as_slice)),
    };
    let wanted: Vec<Wanted> = allowed
        .iter()
        .enumerate()
        .map(|(at, hosts)| Wanted { count: count(at), hosts: hosts.clone() })
        .collect();
    check(job, &all, &wanted)?;
    let rooms: Vec<Room> = all.iter().map(|host| host.room.clone()).collect();
    let order = if job.map_by == MapBy::Node { Order::Nodes } else { Order::Slots };
    let placed = place::place(&rooms, &wanted, order).map_err(|e| no_room(job, &all, &wanted, e))?;
    let programs = wanted.iter().enumerate().flat_map(|(at, w)| std::iter::repeat_n(at, w.count));
    // Hosts without a rank are not bothered.
    let mut number = vec![None; all.len()];
    let (mut used, mut spare) = (Vec::new(), Vec::new());
    let mut has_ranks = vec![false; all.len()];
    placed.iter().for_each(|at| has_ranks[*at] = true);
    for (at, host) in all.iter().enumerate() {
        if has_ranks[at] {
            number[at] = Some(used.len());
            used.push(host.clone());
        } else {
            spare.push(host.clone());
        }
    }
    let ranks: Vec<(usize, usize)> =
        programs.zip(placed).filter_map(|(program, host)| Some((program, number[host]?))).collect();
    for (at, host) in used.iter().enumerate() {
        let here = ranks.iter().filter(|(_, host)| *host == at).count();
        if here > crate::limits::RANKS_MAX {
            let most = crate::limits::RANKS_MAX;
            return Err(UsageError::new(format!("{here} ranks on {}: at most {most}", host.name)));
        }
    }
    Ok(Placement { hosts: used, spare, ranks })
}

/// All hosts, and for each program those that it may use.
fn hosts(job: &Job, own: &str, processors: usize) -> Result<(Vec<Host>, Vec<Vec<usize>>), UsageError> {
    let is_here = |entry: &Entry| job.launcher.knows_this_machine() && is_this_host(&entry.host, own);
    let lists = || job.hostfile.iter().chain(job.programs.iter().filter_map(|p| p.hosts.as_ref()));
    // Only this machine is named: its slots are its processors, as if it were not named.
    let only_here = lists().flatten().all(is_here);
    let host = |entry: &Entry| Host {
        name: if is_here(entry) { own.to_owned() } else { entry.host.clone() },
        user: entry.user.clone().filter(|_| !is_here(entry)),
        here: is_here(entry),
        room: Room {
            slots: entry.slots.unwrap_or(if only_here { processors } else { 1 }),
            most: entry.max_slots.unwrap_or(usize::MAX),
        },
    };
    let same = |a: &Host, b: &Host| (&a.name, &a.user) == (&b.name, &b.user);
    let mut all: Vec<Host> = Vec::new();
    for entry in job.hostfile.iter().flatten() {
        let new = host(entry);
        match all.iter_mut().find(|known| same(known, &new)) {
            // Named again: it has as many slots more.
            Some(known) if !(only_here && entry.slots.is_none()) => known.room.slots += new.room.slots,
            Some(_) => {}
            None => all.push(new),
        }
    }
    let from_file = all.len();
    let mut allowed = Vec::new();
    for program in &job.programs {
        let Some(entries) = &program.hosts else {
            allowed.push(None);
            continue;
        };
        let mut own_list: Vec<usize> = Vec::new();
        for entry in entries {
            let new = host(entry);
            let named =
                |known: &Host| known.name == new.name && (new.user.is_none() || known.user == new.user);
            let at = match all.iter().position(named) {
                Some(at) => at,
                None if job.hostfile.is_some() => {
                    return Err(UsageError::new(format!(
                        "-host {}: it is neither in the hostfile nor in the allocation",
                        entry.host
                    )));
                }
                None => {
                    all.push(Host { room: Room { slots: 0, ..new.room }, ..new.clone() });
                    all.len() - 1
                }
            };
            let repeated = own_list.contains(&at);
            let room = &mut all[at].room;
            match entry.slots {
                Some(slots) if at < from_file && !repeated => room.slots = slots,
                Some(slots) => room.slots += slots,
                // What the file says holds; elsewhere each mention is a slot.
                None if at < from_file => {}
                None if only_here => room.slots = room.slots.max(processors),
                None => room.slots += 1,
            }
            if !repeated {
                own_list.push(at);
            }
        }
        allowed.push(Some(own_list));
    }
    if all.is_empty() || allowed.iter().any(|list| list.is_none() && job.hostfile.is_none()) {
        // Programs for which nothing is said run here.
        let here = all.iter().position(|host| host.here).unwrap_or_else(|| {
            let room = Room { slots: processors, most: usize::MAX };
            all.push(Host {
                name: own.to_owned(),
                user: None,
                here: job.launcher.knows_this_machine(),
                room,
            });
            all.len() - 1
        });
        for list in allowed.iter_mut().filter(|list| list.is_none()) {
            *list = Some(vec![here]);
        }
    }
    if let Some(ppn) = job.ppn {
        all.iter_mut().for_each(|host| host.room = Room { slots: ppn, most: ppn });
    }
    let everywhere: Vec<usize> = (0..from_file).collect();
    Ok((all, allowed.into_iter().map(|list| list.unwrap_or_else(|| everywhere.clone())).collect()))
}

fn slots(all: &[Host], hosts: &[usize]) -> usize {
    hosts.iter().filter_map(|host| all.get(*host)).map(|host| host.room.slots).sum()
}

fn check(job: &Job, all: &[Host], wanted: &[Wanted]) -> Result<(), UsageError> {
    let need: usize = wanted.iter().map(|w| w.count).sum();
    if need > crate::limits::RANKS_OF_A_JOB_MAX {
        let most = crate::limits::RANKS_OF_A_JOB_MAX;
        return Err(UsageError::new(format!("{need} ranks: a job has at most {most}")));
    }
    let room: usize = all.iter().map(|host| host.room.slots).sum();
    if job.oversubscribe == Oversubscribe::Refuse && need > room {
        let names: Vec<String> =
            all.iter().map(|host| format!("{} has {}", host.name, places(host))).collect();
        let message = format!("--no-oversubscribe: {} for this job, which needs {need}", names.join(", "));
        return Err(UsageError::new(message));
    }
    Ok(())
}

/// How much room it has, in words.
pub fn places(host: &Host) -> String {
    let (n, s) = (host.room.slots, if host.room.slots == 1 { "" } else { "s" });
    if host.here { format!("{n} processor{s}") } else { format!("{n} slot{s}") }
}

fn no_room(job: &Job, all: &[Host], wanted: &[Wanted], e: NoRoom) -> UsageError {
    let Some(wanted) = wanted.get(e.program) else { return UsageError::new("no room") };
    let names: Vec<String> = wanted
        .hosts
        .iter()
        .filter_map(|host| all.get(*host))
        .map(|host| format!("{} takes {}", host.name, host.room.most))
        .collect();
    let option = if job.ppn.is_some() { "--ppn" } else { "max_slots" };
    UsageError::new(format!(
        "{option}: {} of {} ranks have room ({})",
        e.placed,
        wanted.count,
        if names.is_empty() { String::from("no host is named") } else { names.join(", ") }
    ))
}

/// `host`, with or without a number of slots, is the machine `own`.
pub fn is_this_host(host: &str, own: &str) -> bool {
    let name = host.split(':').next().unwrap_or(host);
    name == own || name == "localhost" || host.starts_with("127.") || host == "::1"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::parse;
    use crate::settings::Outside;
    use std::ffi::OsString;

    /// Rank by rank `program:host`, on a machine `me` with 4 processors.
    fn placed(line: &str, hostfile: Option<&str>) -> Result<String, String> {
        let words = parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())?;
        let mut job = Job::new(words, &Outside::default()).map_err(|e| e.to_string())?;
        job.hostfile = hostfile.map(|text| hostfile::file(text).unwrap());
        let placement = placement(&job, "me", 4).map_err(|e| e.to_string())?;
        let one = |(program, host): &(usize, usize)| format!("{program}:{}", placement.hosts[*host].name);
        Ok(placement.ranks.iter().map(one).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn ranks_go_where_they_are_sent() {
        for (line, hostfile, expected) in [
            ("x", None, "0:me 0:me 0:me 0:me"),
            ("-n 2 x", None, "0:me 0:me"),
            ("-host localhost x", None, "0:me 0:me 0:me 0:me"),
            ("-host a,b x", None, "0:a 0:b"),
            ("-n 3 -host a,b x", None, "0:a 0:b 0:a"),
            ("-n 3 -host a:2,b x", None, "0:a 0:a 0:b"),
            ("-n 3 -host a,b,a x", None, "0:a 0:a 0:b"),
            ("-n 2 -host localhost,b x", None, "0:me 0:b"),
            ("-n 1 x : -n 1 -host b y", None, "0:me 1:b"),
            ("x", Some("a:2\nb"), "0:a 0:a 0:b"),
            ("-n 4 --map-by node x", Some("a:3\nb"), "0:a 0:b 0:a 0:a"),
            ("--ppn 1 x", Some("a:3\nb"), "0:a 0:b"),
            ("--ppn 2 -n 3 x", Some("a\nb"), "0:a 0:a 0:b"),
            ("-host b x", Some("a:3\nb:2"), "0:b 0:b"),
            ("-host b:1 x", Some("a:3\nb:2"), "0:b"),
            ("-n 1 x : -n 2 y", Some("a:2\nb"), "0:a 1:a 1:b"),
            ("-n 1 x : -host b y", Some("a:2\nb"), "0:a 1:b"),
            ("x", Some("a slots=1\na"), "0:a 0:a"),
            ("x", Some("localhost\nlocalhost"), "0:me 0:me 0:me 0:me"),
            ("-n 3 --launcher fork x", Some("a\nlocalhost"), "0:a 0:localhost 0:a"),
        ] {
            assert_eq!(placed(line, hostfile).as_deref(), Ok(expected), "{line} {hostfile:?}");
        }
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for (line, hostfile, expected) in [
            ("-n 5 --no-oversubscribe x", None, "--no-oversubscribe: me has 4 processors for this job"),
            (
                "-n 4 --no-oversubscribe x",
                Some("a:2\nb"),
                "--no-oversubscribe: a has 2 slots, b has 1 slot for",
            ),
            ("-n 3 --ppn 1 x", Some("a\nb"), "--ppn: 2 of 3 ranks have room (a takes 1, b takes 1)"),
            ("-n 3 x", Some("a max_slots=2"), "max_slots: 2 of 3 ranks"),
            ("-n 1 -host c x", Some("a"), "-host c: it is neither in the hostfile nor in the allocation"),
            ("-n 4097 x", Some("a"), "4097 ranks on a: at most 4096"),
        ] {
            let error = placed(line, hostfile).expect_err(line);
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
