//! Lists of hosts: the lines of a hostfile, and the value of `-host`.
//!
//! ```text
//! # one host a line; both usual ways to say how many ranks it takes
//! node1
//! node2:4
//! node3 slots=4 max_slots=8
//! someone@node4
//! [fe80::2]:4
//! rack[01-16]n[1,3]:2
//! ```
//!
//! Knows nothing of the rest of the launcher, so that it can be fuzzed by itself.

use std::fmt;
use std::net::Ipv6Addr;

/// Hosts that one list may name, ranges counted out.
pub const HOSTS_MAX: usize = 16 << 10;
/// Slots that one entry may give a host.
pub const SLOTS_MAX: usize = 1 << 20;
/// Longest name of a host, in bytes (as in DNS).
const NAME_MAX_BYTES: usize = 255;

/// One host, as it is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Who logs in there.
    pub user: Option<String>,
    /// Name or numeric address, without brackets.
    pub host: String,
    /// Ranks that it takes before others are asked to take more than theirs.
    pub slots: Option<usize>,
    /// Ranks that it takes at most.
    pub max_slots: Option<usize>,
}

/// What cannot be read, and where: line and column count from 1, in characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub line: usize,
    pub column: usize,
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.reason)
    }
}

/// A fault inside of a text: the part at fault, which lies in the text, and the reason.
type Wrong<'a> = (&'a str, String);

/// Reads a hostfile.
///
/// # Errors
/// The first [`Fault`].
pub fn file(text: &str) -> Result<Vec<Entry>, Fault> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default();
        let fault =
            |(part, reason): Wrong<'_>| Fault { line: number + 1, column: column(line, part), reason };
        entry_line(content, &mut all).map_err(fault)?;
        if all.len() > HOSTS_MAX {
            return Err(fault((line, format!("more than {HOSTS_MAX} hosts"))));
        }
    }
    Ok(all)
}

/// Reads a list between commas.
///
/// # Errors
/// The first [`Fault`], on line 1.
pub fn list(text: &str) -> Result<Vec<Entry>, Fault> {
    let mut all = Vec::new();
    for part in split_outside_brackets(text) {
        let fault = |(part, reason): Wrong<'_>| Fault { line: 1, column: column(text, part), reason };
        if part.trim().is_empty() {
            return Err(fault((part, String::from("expected the name of a host"))));
        }
        entry(part.trim(), &mut all).map_err(fault)?;
        if all.len() > HOSTS_MAX {
            return Err(fault((part, format!("more than {HOSTS_MAX} hosts"))));
        }
    }
    Ok(all)
}

/// Where in `line` its part `part` begins.
fn column(line: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.char_indices().take_while(|(index, _)| *index < at).count() + 1
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

/// A host and `key=value` words behind it; nothing at all is in order too.
fn entry_line<'a>(line: &'a str, all: &mut Vec<Entry>) -> Result<(), Wrong<'a>> {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Ok(()) };
    let from = all.len();
    entry(first, all)?;
    for word in words {
        let expected = "expected slots=N, max_slots=N or user=NAME behind the host";
        let (key, value) = word.split_once('=').ok_or((word, expected.to_owned()))?;
        for entry in all.iter_mut().skip(from) {
            match key {
                "slots" if entry.slots.is_some() => {
                    return Err((word, String::from("the number of slots is given twice")));
                }
                "slots" => entry.slots = Some(number(value)?),
                "max_slots" | "max-slots" => entry.max_slots = Some(number(value)?),
                "user" if !value.is_empty() && !value.starts_with('-') => {
                    entry.user = Some(value.to_owned());
                }
                _ => return Err((word, expected.to_owned())),
            }
        }
    }
    let entry = all.get(from);
    match entry.and_then(|e| Some((e.slots?, e.max_slots?))) {
        Some((slots, most)) if slots > most => {
            Err((first, format!("{slots} slots are more than max_slots={most}")))
        }
        _ => Ok(()),
    }
}

fn number(text: &str) -> Result<usize, Wrong<'_>> {
    match text.parse::<usize>() {
        Ok(n) if (1..=SLOTS_MAX).contains(&n) => Ok(n),
        _ => Err((text, format!("expected a number of slots, 1 to {SLOTS_MAX}"))),
    }
}

/// `user@host:N`, the host being a name, an address, or a name with ranges.
fn entry<'a>(word: &'a str, all: &mut Vec<Entry>) -> Result<(), Wrong<'a>> {
    let (user, rest) = match word.split_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, word),
    };
    if let Some(user) = user.filter(|u| u.is_empty() || u.starts_with('-')) {
        return Err((user, String::from("expected the name of a user in front of @")));
    }
    let (name, slots) = name_and_slots(rest)?;
    let slots = slots.map(number).transpose()?;
    let hosts = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        Some(address) => match address.split('%').next().unwrap_or_default().parse::<Ipv6Addr>() {
            Ok(_) => vec![address.to_owned()],
            Err(_) => return Err((name, format!("{address:?} is no IPv6 address"))),
        },
        None if name.parse::<Ipv6Addr>().is_ok() => vec![name.to_owned()],
        None => expand(name)?,
    };
    let user = user.map(str::to_owned);
    all.extend(hosts.into_iter().map(|host| Entry { user: user.clone(), host, slots, max_slots: None }));
    Ok(())
}

/// Splits the `:N` off. An IPv6 address without brackets keeps its colons.
fn name_and_slots(word: &str) -> Result<(&str, Option<&str>), Wrong<'_>> {
    if word.parse::<Ipv6Addr>().is_ok() {
        return Ok((word, None));
    }
    if word.starts_with('[') && !word.contains(']') {
        return Err((word, String::from("a bracket that does not end")));
    }
    let from = word.rfind(']').unwrap_or(0);
    let tail = word.get(from..).unwrap_or_default();
    match tail.find(':') {
        None => Ok((word, None)),
        Some(at) => {
            let (name, slots) = word.split_at(from + at);
            Ok((name, Some(slots.get(1..).unwrap_or_default())))
        }
    }
}

/// Counts out the ranges of a name: `a[01-03,7]b` is a01b, a02b, a03b, a7b.
fn expand(name: &str) -> Result<Vec<String>, Wrong<'_>> {
    let mut all = vec![String::new()];
    let mut rest = name;
    while let Some((head, tail)) = rest.split_once('[') {
        plain(head)?;
        let (inside, after) = tail.split_once(']').ok_or_else(|| {
            (rest.get(head.len()..).unwrap_or_default(), String::from("a bracket that does not end"))
        })?;
        let parts = ranges(inside)?;
        if all.len().saturating_mul(parts.len()) > HOSTS_MAX {
            return Err((name, format!("more than {HOSTS_MAX} hosts")));
        }
        all = all.iter().flat_map(|one| parts.iter().map(move |part| format!("{one}{head}{part}"))).collect();
        rest = after;
    }
    plain(rest)?;
    all.iter_mut().for_each(|one| one.push_str(rest));
    match all.first() {
        Some(first) if first.is_empty() => Err((name, String::from("expected the name of a host"))),
        // It would be an option of the command that goes there.
        Some(first) if first.starts_with('-') => {
            Err((name, String::from("the name of a host does not begin with a dash")))
        }
        Some(first) if first.len() > NAME_MAX_BYTES => {
            Err((name, format!("the name of a host has at most {NAME_MAX_BYTES} bytes")))
        }
        _ => Ok(all),
    }
}

/// Letters and digits of any language, and what joins them.
fn plain(part: &str) -> Result<(), Wrong<'_>> {
    match part.char_indices().find(|(_, c)| !c.is_alphanumeric() && !"-._%".contains(*c)) {
        None => Ok(()),
        Some((at, c)) => {
            let here = part.get(at..).unwrap_or_default();
            Err((here, format!("{c:?} does not belong into the name of a host")))
        }
    }
}

fn ranges(inside: &str) -> Result<Vec<String>, Wrong<'_>> {
    let mut all = Vec::new();
    for part in inside.split(',') {
        let wrong = || (part, String::from("expected a range of numbers such as 01-16"));
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return Err(wrong());
        }
        let (a, b): (u64, u64) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if a > b {
            return Err((part, format!("{a} is above {b}")));
        }
        if b - a >= HOSTS_MAX as u64 || all.len() + (b - a) as usize >= HOSTS_MAX {
            return Err((part, format!("more than {HOSTS_MAX} hosts")));
        }
        let width = first.len();
        all.extend((a..=b).map(|n| format!("{n:0width$}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As it would be written.
    fn show(entries: &[Entry]) -> String {
        let one = |e: &Entry| {
            let user = e.user.as_ref().map(|u| format!("{u}@")).unwrap_or_default();
            let slots = e.slots.map(|n| format!(":{n}")).unwrap_or_default();
            let most = e.max_slots.map(|n| format!("<={n}")).unwrap_or_default();
            format!("{user}{}{slots}{most}", e.host)
        };
        entries.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn both_grammars_are_read() {
        for (text, expected) in [
            ("", ""),
            ("# nothing\n\n   \n", ""),
            ("a\nb # two\r\n", "a b"),
            ("a:4", "a:4"),
            ("a slots=4", "a:4"),
            ("a\tslots=4 max_slots=8", "a:4<=8"),
            ("a max-slots=8", "a<=8"),
            ("me@a:2", "me@a:2"),
            ("a user=me", "me@a"),
            ("[fe80::2]:4", "fe80::2:4"),
            ("[fe80::2%eth0] slots=4", "fe80::2%eth0:4"),
            ("fe80::2", "fe80::2"),
            ("10.0.0.1:3", "10.0.0.1:3"),
            ("a[08-11]", "a08 a09 a10 a11"),
            ("a[1,3-4]b:2", "a1b:2 a3b:2 a4b:2"),
            ("r[1-2]n[1-2] slots=2", "r1n1:2 r1n2:2 r2n1:2 r2n2:2"),
            ("node-1.example.org", "node-1.example.org"),
        ] {
            let entries = file(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(show(&entries), expected, "{text:?}");
        }
        assert_eq!(show(&list("a,b:2,c[1-2,4],me@[::1]:3").unwrap()), "a b:2 c1 c2 c4 me@::1:3");
    }

    #[test]
    fn faults_have_their_place() {
        for (text, expected) in [
            ("a\n  b:x", "2:5: expected a number of slots"),
            ("a:", "1:3: expected a number of slots"),
            ("a:0", "1:3: expected a number of slots"),
            ("a slots=-1", "1:9: expected a number of slots"),
            ("a slots", "1:3: expected slots=N"),
            ("a slot=2", "1:3: expected slots=N"),
            ("a:2 slots=2", "1:5: the number of slots is given twice"),
            ("a slots=9 max_slots=8", "1:1: 9 slots are more"),
            ("@a", "1:1: expected the name of a user"),
            ("-l@a", "1:1: expected the name of a user"),
            ("me@", "1:4: expected the name of a host"),
            ("-oProxyCommand=x", "1:15: '=' does not belong"),
            ("-a", "1:1: the name of a host does not begin"),
            ("ä b", "1:3: expected slots=N"),
            ("a;b", "1:2: ';' does not belong"),
            ("[::1", "1:1: a bracket that does not end"),
            ("me@[fe80::2:4", "1:4: a bracket that does not end"),
            ("a[1-", "1:2: a bracket that does not end"),
            ("a[x]", "1:3: expected a range"),
            ("a[3-1]", "1:3: 3 is above 1"),
            ("a[1-99999999]", "1:3: more than 16384 hosts"),
            ("a[1-9999]b[1-9999]", "1:1: more than 16384 hosts"),
            ("[1-3]", "1:1: \"1-3\" is no IPv6 address"),
        ] {
            let fault = file(text).expect_err(text).to_string();
            assert!(fault.starts_with(expected), "{text:?}: {fault}");
        }
        assert_eq!(list("a,,b").unwrap_err().column, 3);
        assert_eq!(list("").unwrap_err().column, 1);
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in "[a-c0-9@:\\[\\],\\-=# \n\u{e4}%.]{0,40}", any: String) {
            for text in [text, any] {
                for result in [file(&text), list(&text)] {
                    match result {
                        Ok(entries) => prop_assert!(entries.iter().all(|e| !e.host.starts_with('-'))),
                        Err(fault) => prop_assert!(fault.line >= 1 && fault.column >= 1),
                    }
                }
            }
        }

        #[test]
        fn what_is_written_is_read(
            user in proptest::option::of("[a-z]{1,5}"),
            host in "[a-z][a-z0-9.-]{0,9}",
            slots in proptest::option::of(1..=SLOTS_MAX),
        ) {
            let entry = Entry { user, host, slots, max_slots: None };
            let text = show(std::slice::from_ref(&entry));
            prop_assert_eq!(file(&text), Ok(vec![entry.clone()]));
            prop_assert_eq!(list(&text), Ok(vec![entry]));
        }
    }
}
