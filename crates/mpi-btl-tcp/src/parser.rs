//! The stream of a connection, taken apart: bytes in, deliveries out. No socket and no clock.

use crate::limits::WHOLE_BYTES;
use crate::sys;
use mpi_btl::{BulkId, Ep, Place, Sink, Span};
use mpi_wire::{HEADER_LEN, Header, HeaderError, reserved};

/// Why the parser stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Everything that can be delivered was; at least this many bytes more are needed.
    Needs(usize),
    /// The next message is there and the budget is used up.
    Budget,
    /// The peer said goodbye. Nothing behind it is looked at.
    Goodbye,
    /// The peer sent what is no header.
    Bad(HeaderError),
}

/// What one call took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fed {
    /// Bytes consumed from the front; the others are to be offered again, with more behind them.
    pub consumed: usize,
    /// Why it ended.
    pub stop: Stop,
}

/// Where the rest of a body goes.
#[derive(Clone, Copy)]
enum Rest {
    Discard(u64),
    Chunks(BulkId, u64),
    Direct(BulkId, Span),
}

/// The state of a stream between two reads: inside a body, or between two messages.
pub struct Parser {
    from: Ep,
    rest: Option<Rest>,
}

impl Parser {
    /// A stream of messages from `from`, at its beginning.
    pub fn new(from: Ep) -> Parser {
        Parser { from, rest: None }
    }

    /// Delivers what stands in `bytes`, at most `budget` messages (and counts it down).
    pub fn feed(&mut self, bytes: &[u8], budget: &mut usize, sink: &mut dyn Sink) -> Fed {
        let mut at = 0;
        loop {
            if self.rest.is_some() {
                at += self.body(&bytes[at..], sink);
                if self.rest.is_some() {
                    return Fed { consumed: at, stop: Stop::Needs(1) };
                }
            }
            let here = &bytes[at..];
            let Some((head, behind)) = here.split_first_chunk::<HEADER_LEN>() else {
                return Fed { consumed: at, stop: Stop::Needs(HEADER_LEN - here.len()) };
            };
            let header = match Header::decode(head) {
                Ok(header) if header.context == reserved::GOODBYE => {
                    return Fed { consumed: at, stop: Stop::Goodbye };
                }
                Ok(header) => header,
                Err(error) => return Fed { consumed: at, stop: Stop::Bad(error) },
            };
            let have = usize::try_from(header.length).unwrap_or(usize::MAX).min(behind.len());
            let missing = header.length - have as u64;
            if missing > 0 && header.length <= WHOLE_BYTES as u64 {
                return Fed { consumed: at, stop: Stop::Needs(missing as usize) };
            }
            if *budget == 0 {
                return Fed { consumed: at, stop: Stop::Budget };
            }
            *budget -= 1;
            at += HEADER_LEN + have;
            self.message(&header, &behind[..have], missing, sink);
        }
    }

    /// Inside of a body that goes straight to its place: the part that is still empty. The caller
    /// may fill its front itself and say so with [`filled`](Parser::filled).
    pub(crate) fn direct(&self) -> Option<Span> {
        match self.rest {
            Some(Rest::Direct(_, into)) => Some(into),
            _ => None,
        }
    }

    /// The front `n` bytes of [`direct`](Parser::direct) are filled.
    pub(crate) fn filled(&mut self, n: usize, sink: &mut dyn Sink) {
        if let Some(Rest::Direct(bulk, into)) = self.rest {
            let into = into.after(n);
            self.rest = Some(Rest::Direct(bulk, into));
            if into.is_empty() {
                self.rest = None;
                sink.arrived(self.from, bulk);
            }
        }
    }

    /// True inside of a body: the end of the stream here is a message cut in two.
    pub fn inside(&self) -> bool {
        self.rest.is_some()
    }

    /// Throws the rest of a body away if it is the one named. `true`: it was.
    pub fn revoke(&mut self, which: BulkId) -> bool {
        let left = match self.rest {
            Some(Rest::Chunks(bulk, left)) if bulk == which => left,
            Some(Rest::Direct(bulk, into)) if bulk == which => into.len() as u64,
            _ => return false,
        };
        self.rest = Some(Rest::Discard(left));
        true
    }

    fn message(&mut self, header: &Header, have: &[u8], missing: u64, sink: &mut dyn Sink) {
        let place = sink.message(self.from, header, have, header.length);
        self.rest = match place {
            Place::Done if missing == 0 => None,
            Place::Done => Some(Rest::Discard(missing)),
            Place::Direct { bulk, into } => {
                assert_eq!(into.len() as u64, missing, "a direct place is as long as the rest of the body");
                if missing == 0 {
                    sink.arrived(self.from, bulk);
                    None
                } else {
                    Some(Rest::Direct(bulk, into))
                }
            }
            Place::Chunks(bulk) if missing == 0 => {
                sink.chunk(self.from, bulk, &[], true);
                None
            }
            Place::Chunks(bulk) => Some(Rest::Chunks(bulk, missing)),
        };
    }

    /// Takes bytes of the body under way; how many.
    fn body(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> usize {
        let take = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        match self.rest {
            None => 0,
            Some(Rest::Discard(left)) => {
                let n = take(left);
                let left = left - n as u64;
                self.rest = (left > 0).then_some(Rest::Discard(left));
                n
            }
            Some(Rest::Chunks(bulk, left)) => {
                let n = take(left);
                let left = left - n as u64;
                if n > 0 {
                    self.rest = (left > 0).then_some(Rest::Chunks(bulk, left));
                    sink.chunk(self.from, bulk, &bytes[..n], left == 0);
                }
                n
            }
            Some(Rest::Direct(_, into)) => {
                let n = take(into.len() as u64);
                sys::fill(into, &bytes[..n]);
                self.filled(n, sink);
                n
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_btl::{Down, OpId};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Puts bodies together again, whatever place it chose for them.
    #[derive(Default)]
    struct Collect {
        whole: Vec<(i32, Vec<u8>)>,
        open: BTreeMap<u64, (i32, Vec<u8>, usize)>,
        next: u64,
    }

    impl Sink for Collect {
        fn message(&mut self, _: Ep, header: &Header, have: &[u8], total: u64) -> Place {
            let bulk = self.next;
            self.next += 1;
            let rest = total as usize - have.len();
            let mut body = have.to_vec();
            match bulk % 3 {
                0 if rest == 0 => {
                    self.whole.push((header.tag, body));
                    Place::Done
                }
                1 => {
                    // Room behind `have`, never reallocated afterwards.
                    body.resize(total as usize, 0);
                    let entry = self.open.entry(bulk).or_insert((header.tag, body, have.len()));
                    let into = Span::new(entry.1[have.len()..].as_mut_ptr(), rest);
                    Place::Direct { bulk: BulkId(bulk), into }
                }
                _ => {
                    self.open.insert(bulk, (header.tag, body, 0));
                    Place::Chunks(BulkId(bulk))
                }
            }
        }
        fn chunk(&mut self, from: Ep, bulk: BulkId, bytes: &[u8], last: bool) {
            self.open.get_mut(&bulk.0).expect("an open body").1.extend_from_slice(bytes);
            if last {
                self.arrived(from, bulk);
            }
        }
        fn arrived(&mut self, _: Ep, bulk: BulkId) {
            let (tag, body, _) = self.open.remove(&bulk.0).expect("an open body");
            self.whole.push((tag, body));
        }
        fn completed(&mut self, _: Ep, _: OpId, _: Result<(), String>) {}
        fn writable(&mut self, _: Ep) {}
        fn down(&mut self, _: Ep, _: Down) {}
    }

    fn stream(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, body) in bodies.iter().enumerate() {
            let header = Header { tag: tag as i32, length: body.len() as u64, ..Header::default() };
            out.extend_from_slice(&header.encode());
            out.extend_from_slice(body);
        }
        out
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(
            sizes in proptest::collection::vec(prop_oneof![0_usize..100, 0_usize..3 * WHOLE_BYTES], 0..8),
            cuts in proptest::collection::vec(1_usize..20_000, 1..40),
            budget in 1_usize..4,
        ) {
            let bodies: Vec<Vec<u8>> = sizes
                .iter()
                .enumerate()
                .map(|(i, n)| (0..*n).map(|j| (i * 31 + j) as u8).collect())
                .collect();
            let stream = stream(&bodies);
            let mut parser = Parser::new(Ep(0));
            let mut sink = Collect::default();
            let (mut start, mut end) = (0, 0);
            let mut cuts = cuts.iter().cycle();
            loop {
                let fed = parser.feed(&stream[start..end], &mut { budget }, &mut sink);
                start += fed.consumed;
                match fed.stop {
                    Stop::Budget => {}
                    Stop::Needs(n) if end < stream.len() => {
                        prop_assert!(n > 0);
                        end = (end + cuts.next().expect("a cycle")).min(stream.len());
                    }
                    stop => {
                        prop_assert_eq!(stop, Stop::Needs(HEADER_LEN));
                        break;
                    }
                }
            }
            prop_assert_eq!(start, stream.len());
            let expected: Vec<(i32, Vec<u8>)> =
                bodies.into_iter().enumerate().map(|(i, b)| (i as i32, b)).collect();
            prop_assert_eq!(sink.whole, expected);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, magic: bool, length in 0_u64..200) {
            let mut stream = bytes;
            if magic {
                let header = Header { length, ..Header::default() };
                stream.splice(0..0, header.encode());
            }
            let fed = Parser::new(Ep(0)).feed(&stream, &mut 100, &mut Collect::default());
            prop_assert!(fed.consumed <= stream.len());
        }
    }

    #[test]
    fn a_wrong_magic_and_a_huge_length_are_named() {
        let mut bytes = Header { length: 5, ..Header::default() }.encode();
        bytes[39] = 0x80;
        let fed = Parser::new(Ep(0)).feed(&bytes, &mut 1, &mut Collect::default());
        assert!(matches!(fed.stop, Stop::Bad(HeaderError::Length { .. })), "{fed:?}");
        let fed = Parser::new(Ep(0)).feed(&[b'x'; 40], &mut 1, &mut Collect::default());
        assert!(matches!(fed.stop, Stop::Bad(HeaderError::Magic { .. })), "{fed:?}");
    }

    #[test]
    fn a_revoked_body_is_thrown_away() {
        let stream = stream(&[vec![1; 2 * WHOLE_BYTES], vec![2; 3]]);
        let mut parser = Parser::new(Ep(0));
        let mut sink = Collect { next: 1, ..Collect::default() };
        let fed = parser.feed(&stream[..100], &mut 5, &mut sink);
        assert_eq!(fed.consumed, 100);
        assert!(parser.inside());
        assert!(parser.revoke(BulkId(1)));
        assert!(!parser.revoke(BulkId(1)));
        let fed = parser.feed(&stream[100..], &mut 5, &mut sink);
        assert_eq!(fed.consumed, stream.len() - 100);
        assert_eq!(sink.whole, [(1, vec![2; 3])]);
    }
}
