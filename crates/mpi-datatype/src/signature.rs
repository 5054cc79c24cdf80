//! Type signatures: the sequence of primitives of a datatype, without displacements, brought to
//! a canonical form and hashed for the wire.
//!
//! A signature is kept as the smallest unit that, repeated, gives the whole sequence. "One element of three
//! f64" and "three elements of one f64" have the same unit, as have a struct and an array of it.

use crate::Primitive;
use crate::limits::MAX_SIGNATURE_RUNS;
use std::sync::Arc;

/// Equal primitives in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub primitive: Primitive,
    pub count: usize,
}

impl Run {
    pub const fn new(primitive: Primitive, count: usize) -> Run {
        Run { primitive, count }
    }
}

/// Id of a type signature as it stands in a message header, and how two of them compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature;

impl Signature {
    /// Of data without elements: agrees with everything.
    pub const NONE: u32 = 0;
    /// Of packed data, and of types too intricate to bring to a canonical form: agrees with everything.
    pub const ANY: u32 = Primitive::Packed as u32;
    /// Set in the hash of a signature that is not homogeneous. The top bit stays free for the
    /// announcement mark.
    pub const HASHED: u32 = 0x4000_0000;

    /// True when data of signature `a` may be received as `b`.
    #[inline]
    pub const fn agree(a: u32, b: u32) -> bool {
        a == b || a <= Self::ANY || b <= Self::ANY
    }

    /// What an id says, for people.
    pub fn describe(id: u32) -> String {
        match Primitive::from_id(id) {
            Some(p) => p.name().to_owned(),
            None if id == Self::NONE => "nothing".to_owned(),
            None => format!("struct {id:08x}"),
        }
    }
}

/// FNV-1a (Fowler, Noll, Vo) over 64 bits, folded to 30.
pub(crate) const fn hash_runs(runs: &[Run]) -> u32 {
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    let mut i = 0;
    while i < runs.len() {
        h = (h ^ runs[i].primitive as u64).wrapping_mul(0x0100_0000_01b3);
        let count = (runs[i].count as u64).to_le_bytes();
        let mut k = 0;
        while k < 8 {
            h = (h ^ count[k] as u64).wrapping_mul(0x0100_0000_01b3);
            k += 1;
        }
        i += 1;
    }
    ((h ^ (h >> 30) ^ (h >> 60)) & 0x3fff_ffff) as u32 | Signature::HASHED
}

/// A sequence of primitives: `unit` repeated `times` times.
#[derive(Clone, Debug)]
pub(crate) enum Sequence {
    Empty,
    /// `unit` has no smaller period.
    Repeated {
        unit: Arc<[Run]>,
        times: usize,
    },
    /// Too long to bring to its canonical form.
    Intricate,
}

impl Sequence {
    pub fn of(primitive: Primitive) -> Sequence {
        match primitive.pair() {
            Some((a, b, _)) if a == b => canonical(vec![Run::new(a, 2)]),
            Some((a, b, _)) => canonical(vec![Run::new(a, 1), Run::new(b, 1)]),
            None => canonical(vec![Run::new(primitive, 1)]),
        }
    }

    /// This sequence `n` times. The caller has checked that the size fits.
    pub fn repeat(&self, n: usize) -> Sequence {
        match self {
            _ if n == 0 => Sequence::Empty,
            Sequence::Repeated { unit, times } => {
                Sequence::Repeated { unit: unit.clone(), times: times.saturating_mul(n) }
            }
            other => other.clone(),
        }
    }

    /// All parts in a row.
    pub fn concat(parts: &[Sequence]) -> Sequence {
        let mut runs: Vec<Run> = Vec::new();
        let mut shared: Option<(&Arc<[Run]>, usize)> = None;
        let mut same = true;
        let mut total = 0usize;
        for part in parts {
            match part {
                Sequence::Empty => {}
                Sequence::Intricate => return Sequence::Intricate,
                Sequence::Repeated { unit, times } => {
                    total = total.saturating_add(if unit.len() == 1 {
                        1
                    } else {
                        unit.len().saturating_mul(*times)
                    });
                    match &mut shared {
                        None => shared = Some((unit, *times)),
                        Some((first, sum)) if *first == unit => *sum = sum.saturating_add(*times),
                        Some(_) => same = false,
                    }
                }
            }
        }
        match shared {
            None => return Sequence::Empty,
            Some((unit, times)) if same => return Sequence::Repeated { unit: unit.clone(), times },
            Some(_) if total > MAX_SIGNATURE_RUNS => return Sequence::Intricate,
            Some(_) => {}
        }
        for part in parts {
            if let Sequence::Repeated { unit, times } = part {
                match **unit {
                    [one] => push(&mut runs, Run::new(one.primitive, one.count.saturating_mul(*times))),
                    _ => (0..*times).for_each(|_| unit.iter().for_each(|run| push(&mut runs, *run))),
                }
            }
        }
        canonical(runs)
    }

    /// The id on the wire.
    pub fn id(&self) -> u32 {
        match self {
            Sequence::Empty => Signature::NONE,
            Sequence::Intricate => Signature::ANY,
            Sequence::Repeated { unit, .. } => match **unit {
                [one] => one.primitive as u32,
                ref runs => hash_runs(runs),
            },
        }
    }

    /// The one primitive that the sequence is made of.
    pub fn homogeneous(&self) -> Option<Primitive> {
        match self {
            Sequence::Repeated { unit, .. } if unit.len() == 1 => Some(unit[0].primitive),
            _ => None,
        }
    }
}

fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.primitive == run.primitive => last.count = last.count.saturating_add(run.count),
        _ => runs.push(run),
    }
}

/// Finds the smallest repeating unit. A word is a power exactly when its cyclic word is periodic,
/// so the search runs over the cyclic runs (last and first merged when equal), never over
/// single primitives.
fn canonical(runs: Vec<Run>) -> Sequence {
    if let [one] = runs[..] {
        return Sequence::Repeated { unit: [Run::new(one.primitive, 1)].into(), times: one.count };
    }
    let mut cyclic = runs.clone();
    if cyclic.len() > 1 && cyclic[0].primitive == cyclic[cyclic.len() - 1].primitive {
        let last = cyclic.pop().map_or(0, |r| r.count);
        cyclic[0].count = cyclic[0].count.saturating_add(last);
    }
    let times = cyclic.len() / smallest_period(&cyclic);
    let total: usize = runs.iter().map(|r| r.count).fold(0, usize::saturating_add);
    let mut left = total / times;
    let mut unit = Vec::new();
    for run in &runs {
        let take = run.count.min(left);
        if take == 0 {
            break;
        }
        unit.push(Run::new(run.primitive, take));
        left -= take;
    }
    Sequence::Repeated { unit: unit.into(), times }
}

/// Smallest `d` that divides the length such that the sequence is its first `d` items repeated
/// (failure function of Knuth, Morris and Pratt).
fn smallest_period(word: &[Run]) -> usize {
    let n = word.len();
    let mut fail = vec![0usize; n];
    for i in 1..n {
        let mut k = fail[i - 1];
        while k > 0 && word[i] != word[k] {
            k = fail[k - 1];
        }
        fail[i] = if word[i] == word[k] { k + 1 } else { 0 };
    }
    let d = n - fail.last().copied().unwrap_or(0);
    if n % d == 0 { d } else { n }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Primitive::*;

    fn seq(word: &[Primitive]) -> Sequence {
        Sequence::concat(&word.iter().map(|p| Sequence::of(*p)).collect::<Vec<_>>())
    }

    #[test]
    fn repetition_does_not_change_the_id() {
        let a = seq(&[F64, I32, F64]);
        assert_eq!(a.id(), seq(&[F64, I32, F64, F64, I32, F64]).id());
        assert_eq!(a.id(), a.repeat(1 << 40).id());
        assert_eq!(a.id(), Sequence::concat(&[a.repeat(3), a.clone()]).id());
        assert_ne!(a.id(), seq(&[F64, F64, I32]).id());
        assert_eq!(seq(&[F64, F64]).id(), F64 as u32);
        assert_eq!(Sequence::of(FloatInt).id(), FloatInt.signature());
        assert_eq!(Sequence::of(TwoInt).id(), TwoInt.signature());
        assert_eq!(seq(&[I64, I32, I64, I32]).id(), LongInt.signature());
    }

    #[test]
    fn long_ones_agree_with_everything() {
        let a = seq(&[F64, I32]).repeat(1 << 40);
        let b = Sequence::concat(&[a, Sequence::of(U8)]);
        assert_eq!(b.id(), Signature::ANY);
        let c = Sequence::concat(&[Sequence::of(F64).repeat(1 << 40), Sequence::of(U8)]);
        assert!(c.id() & Signature::HASHED != 0);
    }
}
