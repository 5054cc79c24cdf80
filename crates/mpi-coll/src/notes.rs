//! What a call says of itself while its program is written: for checked mode, and for those who want to know which
//! algorithm was chosen and why.

use crate::algorithms::neighbors;
use crate::program::{Builder, Built, Data, Program};
use crate::{Root, Team};
use mpi_datatype::{Datatype, Op, SendBuf, Signature};
use std::cell::{Cell, RefCell};

/// What ranks must agree on in one call. Numbers that say nothing are [`SILENT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Terms {
    root: u64,
    bytes: u64,
    signature: u32,
    op: &'static str,
    /// The rank's own arguments make no program.
    refused: bool,
}

const SILENT: u64 = u64::MAX;
/// The root is in this group of an inter-communicator.
const ROOT_HERE: u64 = u64::MAX - 1;
/// Signature of data whose type says nothing.
const NO_SIGNATURE: u32 = 0;

/// Bytes of a message and the signature of its data.
pub(crate) type Load = (u64, u32);

/// The messages of one rank where every two ranks must agree on theirs, in the order of a neighbourhood.
pub(crate) struct Loads {
    pub sources: Vec<Option<u32>>,
    pub expected: Vec<Load>,
    pub destinations: Vec<Option<u32>>,
    pub sent: Vec<Load>,
    pub grid: bool,
}

/// Kept while a program is written.
pub(crate) struct Notes(Cell<Terms>, RefCell<Option<Loads>>);

impl Notes {
    pub fn new() -> Notes {
        let silent = Terms { root: SILENT, bytes: SILENT, signature: NO_SIGNATURE, op: "", refused: false };
        Notes(Cell::new(silent), RefCell::new(None))
    }

    fn change(&self, change: impl FnOnce(&mut Terms)) {
        let mut terms = self.0.get();
        change(&mut terms);
        self.0.set(terms);
    }

    pub fn root(&self, root: Root) {
        self.change(|t| {
            t.root = match root {
                Root::Rank(rank) => rank as u64,
                Root::Root | Root::Null => ROOT_HERE,
            }
        });
    }

    /// Data of which every rank has as much.
    pub fn data(&self, data: SendBuf<'_>) {
        self.bytes(data.bytes(), data.datatype());
    }

    pub fn bytes(&self, bytes: usize, datatype: &Datatype) {
        self.change(|t| {
            t.bytes = bytes as u64;
            t.signature = if bytes > 0 { datatype.signature() } else { NO_SIGNATURE };
        });
    }

    pub fn loads(&self, loads: Loads) {
        self.1.replace(Some(loads));
    }

    pub fn op(&self, op: &Op) {
        self.change(|t| t.op = op.name());
    }

    /// The rank ends with an error of its own; the others are to know.
    pub fn refuse(&self) {
        self.change(|t| t.refused = true);
        self.1.take();
    }
}

/// One rank's call as it goes to the others: name and operation of fixed length, then the numbers.
const TEXT_BYTES: usize = 24;
const CALL_BYTES: usize = 2 * TEXT_BYTES + 4 * 8;

fn encode(name: &str, terms: &Terms) -> [u8; CALL_BYTES] {
    let mut out = [0; CALL_BYTES];
    for (at, text) in [(0, name), (TEXT_BYTES, terms.op)] {
        let len = text.len().min(TEXT_BYTES);
        out[at..at + len].copy_from_slice(&text.as_bytes()[..len]);
    }
    let numbers = [terms.root, terms.bytes, u64::from(terms.signature), terms.refused.into()];
    for (i, number) in numbers.into_iter().enumerate() {
        out[2 * TEXT_BYTES + 8 * i..][..8].copy_from_slice(&number.to_le_bytes());
    }
    out
}

/// What a rank called, as it says itself.
struct Heard<'a>(&'a [u8]);

impl Heard<'_> {
    fn text(&self, at: usize) -> String {
        let bytes = self.0.get(at..at + TEXT_BYTES).unwrap_or_default();
        String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
    }

    fn number(&self, i: usize) -> u64 {
        let bytes = self.0.get(2 * TEXT_BYTES + 8 * i..).and_then(|b| b.first_chunk::<8>());
        bytes.map_or(SILENT, |b| u64::from_le_bytes(*b))
    }

    fn agrees(&self, other: &Heard<'_>) -> bool {
        let silent = |i| self.number(i) == SILENT || other.number(i) == SILENT;
        let (mine, theirs) = (self.number(2) as u32, other.number(2) as u32);
        self.text(0) == other.text(0)
            && self.text(TEXT_BYTES) == other.text(TEXT_BYTES)
            && self.number(0) == other.number(0)
            && self.number(3) == other.number(3)
            && (silent(1) || self.number(1) == other.number(1))
            && (mine == NO_SIGNATURE || theirs == NO_SIGNATURE || Signature::agree(mine, theirs))
    }

    fn describe(&self) -> String {
        let mut said = self.text(0);
        match self.number(0) {
            SILENT => {}
            ROOT_HERE => said += " with the root in its own group",
            root => said += &format!(" with root {root}"),
        }
        if self.number(1) != SILENT {
            said += &format!(" of {} bytes", self.number(1));
        }
        let signature = self.number(2) as u32;
        if signature != NO_SIGNATURE {
            said += &format!(" of {}", Signature::describe(signature));
        }
        let op = self.text(TEXT_BYTES);
        if !op.is_empty() {
            said += &format!(" by {op}");
        }
        if self.number(3) == 1 {
            said += " with arguments that its rank refuses";
        }
        said
    }
}

/// What stands in the way of a collective, if the calls of all ranks, in their order, do not fit together: the first
/// two that differ.
pub(crate) fn difference(all: &[u8]) -> Option<String> {
    let calls: Vec<Heard<'_>> = all.chunks_exact(CALL_BYTES).map(Heard).collect();
    let first = calls.first()?;
    let (rank, other) = calls.iter().enumerate().find(|(_, call)| !first.agrees(call))?;
    let (one, two) = (first.describe(), other.describe());
    Some(format!("the ranks disagree: rank 0 calls {one}, rank {rank} calls {two}"))
}

/// Puts in front of a program that all ranks of the group tell each other what they call, and go on only if that is
/// the same.
pub(crate) fn checked(team: &Team, name: &'static str, notes: &Notes, program: Program) -> Built<Program> {
    let mut b = Builder::new(team.rank(), team.size());
    let all = b.packed(CALL_BYTES * team.size())?;
    let part = |i: usize, n: usize| all.part(i * CALL_BYTES, n * CALL_BYTES);
    b.room(part(b.rank, 1)).unpack(0, &encode(name, &notes.0.get()));
    let (n, r) = (b.size, b.rank);
    // Round a ring: every message has one size, whatever the ranks are about to do.
    for step in 0..n - 1 {
        let (out, into) = ((r + n - step) % n, (r + 2 * n - step - 1) % n);
        b.exchange((r + 1) % n, part(out, 1), (r + n - 1) % n, part(into, 1));
    }
    b.compare(all);
    if let Some(loads) = notes.1.take() {
        compare_loads(&mut b, &loads)?;
    }
    Ok(b.then(program))
}

/// The same for a rank whose arguments make no program: the others hear of it, and go no further.
pub(crate) fn refused(team: &Team, name: &'static str, notes: &Notes) -> Built<Program> {
    notes.refuse();
    checked(team, name, notes, Program::default())
}

/// One rank's load as it goes to the other.
const LOAD_BYTES: usize = 12;
/// What one rank expects: from whom, as whom, and the load.
const EXPECTED_BYTES: usize = 8 + LOAD_BYTES;
/// The first message of a rank that is not what it expects, with both loads; all zero where there is none.
const VERDICT_BYTES: usize = 4 + EXPECTED_BYTES + LOAD_BYTES;

fn encode_load((bytes, signature): Load) -> [u8; LOAD_BYTES] {
    let mut out = [0; LOAD_BYTES];
    out[..8].copy_from_slice(&bytes.to_le_bytes());
    out[8..].copy_from_slice(&signature.to_le_bytes());
    out
}

fn decode_load(from: &[u8]) -> Option<Load> {
    let (bytes, signature) = (from.first_chunk::<8>()?, from.get(8..)?.first_chunk::<4>()?);
    Some((u64::from_le_bytes(*bytes), u32::from_le_bytes(*signature)))
}

/// Who sends tells who receives how much that is; who finds that it expects something else tells all.
fn compare_loads(b: &mut Builder, loads: &Loads) -> Built<()> {
    let parts = |b: &mut Builder, len: usize, n: usize| -> Built<(Data, Vec<Data>)> {
        // There are no temporaries of no bytes.
        let all = b.packed((len * n).max(1))?.part(0, len * n);
        Ok((all, (0..n).map(|i| all.part(i * len, len)).collect()))
    };
    let (_, out) = parts(b, LOAD_BYTES, loads.sent.len())?;
    for (data, load) in out.iter().zip(&loads.sent) {
        b.room(*data).unpack(0, &encode_load(*load));
    }
    let (told, into) = parts(b, LOAD_BYTES, loads.expected.len())?;
    let (expected, each) = parts(b, EXPECTED_BYTES, loads.expected.len())?;
    for ((data, told), (source, load)) in
        each.iter().zip(&into).zip(loads.sources.iter().zip(&loads.expected))
    {
        let mut one = [0; EXPECTED_BYTES];
        one[..4].copy_from_slice(&source.unwrap_or(b.rank as u32).to_le_bytes());
        one[4..8].copy_from_slice(&(b.rank as u32).to_le_bytes());
        one[8..].copy_from_slice(&encode_load(*load));
        b.room(*data).unpack(0, &one);
        // The null process sends what is expected.
        b.room(*told).unpack(0, &encode_load(*load));
    }
    let sources = (&loads.sources[..], &into[..]);
    let receives = neighbors::exchange(b, sources, (&loads.destinations, &out), loads.grid);
    receives.into_iter().for_each(|receive| b.wait(receive));
    let (n, r) = (b.size, b.rank);
    let (all, verdicts) = parts(b, VERDICT_BYTES, n)?;
    b.judge(told, expected, verdicts[r]);
    for step in 0..n - 1 {
        let (out, into) = ((r + n - step) % n, (r + 2 * n - step - 1) % n);
        b.exchange((r + 1) % n, verdicts[out], (r + n - 1) % n, verdicts[into]);
    }
    b.heed(all);
    Ok(())
}

/// The verdict of one rank on what it was `told` of its messages.
pub(crate) fn judge(told: &[u8], expected: &[u8]) -> [u8; VERDICT_BYTES] {
    let mut verdict = [0; VERDICT_BYTES];
    for (told, expected) in told.chunks_exact(LOAD_BYTES).zip(expected.chunks_exact(EXPECTED_BYTES)) {
        let (Some(sent), Some(wanted)) = (decode_load(told), decode_load(&expected[8..])) else { break };
        let types = sent.0 == 0 || Signature::agree(sent.1, wanted.1);
        if sent.0 != wanted.0 || !types {
            verdict[0] = 1;
            verdict[4..4 + EXPECTED_BYTES].copy_from_slice(expected);
            verdict[4 + EXPECTED_BYTES..].copy_from_slice(told);
            break;
        }
    }
    verdict
}

/// What stands in the way of a collective by the verdicts of all ranks: the first bad one.
pub(crate) fn bad_verdict(all: &[u8]) -> Option<String> {
    let bad = all.chunks_exact(VERDICT_BYTES).find(|verdict| verdict[0] != 0)?;
    let rank =
        |at: usize| bad.get(at..).and_then(|b| b.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b));
    let load = |at: usize| {
        let (bytes, signature) = bad.get(at..).and_then(decode_load).unwrap_or_default();
        match bytes {
            0 => String::from("nothing"),
            _ => format!("{bytes} bytes of {}", Signature::describe(signature)),
        }
    };
    let (sent, wanted) = (load(4 + EXPECTED_BYTES), load(12));
    Some(format!(
        "the ranks disagree: rank {from} sends {sent} to rank {to}, rank {to} expects {wanted} of rank {from}",
        from = rank(4),
        to = rank(8)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_datatype::Primitive;

    fn call(name: &str, set: impl FnOnce(&Notes)) -> Vec<u8> {
        let notes = Notes::new();
        set(&notes);
        encode(name, &notes.0.get()).to_vec()
    }

    #[test]
    fn what_differs_is_named_on_both_sides() {
        let (i32s, f64s) = (Datatype::predefined(Primitive::I32), Datatype::predefined(Primitive::F64));
        let of = |root: usize, bytes: usize, datatype: &Datatype| {
            call("broadcast", |n| {
                n.root(Root::Rank(root));
                n.bytes(bytes, datatype);
            })
        };
        assert_eq!(difference(&[of(1, 8, &i32s), of(1, 8, &i32s)].concat()), None);
        assert_eq!(difference(&[of(1, 0, &i32s), of(1, 0, &f64s)].concat()), None, "no data, no type");
        let said = difference(&[of(1, 8, &i32s), of(1, 8, &i32s), of(2, 8, &i32s)].concat()).unwrap();
        assert_eq!(
            said,
            "the ranks disagree: rank 0 calls broadcast with root 1 of 8 bytes of i32, \
             rank 2 calls broadcast with root 2 of 8 bytes of i32"
        );
        let refused = call("broadcast", |n| {
            n.root(Root::Rank(1));
            n.refuse();
        });
        assert_eq!(
            difference(&[of(1, 8, &i32s), refused.clone()].concat()).unwrap(),
            "the ranks disagree: rank 0 calls broadcast with root 1 of 8 bytes of i32, \
             rank 1 calls broadcast with root 1 with arguments that its rank refuses"
        );
        assert_eq!(difference(&[refused.clone(), refused].concat()), None, "each has its own error");
        assert!(difference(&[of(1, 8, &i32s), of(1, 16, &i32s)].concat()).unwrap().contains("16 bytes"));
        assert!(difference(&[of(1, 8, &i32s), of(1, 8, &f64s)].concat()).unwrap().contains("f64"));
        let sum = call("reduce", |n| n.op(&Op::Sum));
        let max = call("reduce", |n| n.op(&Op::Max));
        assert!(difference(&[sum, max].concat()).unwrap().contains("by maximum"));
    }

    #[test]
    fn a_message_that_is_not_the_expected_one_is_named_on_both_sides() {
        let (i32s, f64s) = (Primitive::I32 as u32, Primitive::F64 as u32);
        let expects = |bytes: u64, signature: u32| {
            let mut one = vec![3, 0, 0, 0, 1, 0, 0, 0];
            one.extend(encode_load((bytes, signature)));
            one
        };
        let verdict = |told: Load, expected: Vec<u8>| bad_verdict(&judge(&encode_load(told), &expected));
        assert_eq!(verdict((8, i32s), expects(8, i32s)), None);
        assert_eq!(verdict((0, i32s), expects(0, f64s)), None, "no data, no type");
        assert_eq!(
            verdict((8, i32s), expects(4, i32s)).unwrap(),
            "the ranks disagree: rank 3 sends 8 bytes of i32 to rank 1, rank 1 expects 4 bytes of i32 of rank 3"
        );
        assert!(verdict((8, i32s), expects(8, f64s)).unwrap().contains("expects 8 bytes of f64"));
        assert!(verdict((0, i32s), expects(8, f64s)).unwrap().contains("sends nothing"));
        assert_eq!(bad_verdict(&[]), None);
        let _ = bad_verdict(&[0xFF; 3 * VERDICT_BYTES + 1]);
    }

    #[test]
    fn nothing_heard_is_no_panic() {
        assert_eq!(difference(&[]), None);
        assert_eq!(difference(&[7; CALL_BYTES + 3]), None);
        let _ = difference(&[0xFF; 3 * CALL_BYTES]);
    }
}
