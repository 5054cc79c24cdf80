//! One direction of one connection, in whatever pieces it comes, into lines.

use mpi_wire::control::{
    ANNOUNCEMENT_LEN, Acknowledge, Announcement, ClearToSend, Flow, Outcome, abort_text,
};
use mpi_wire::hello::{HELLO_LEN, HELLO_REPLY_LEN, Hello, HelloReply, JobTag, PROOF_LEN};
use mpi_wire::rma::Rma;
use mpi_wire::{ANNOUNCEMENT, HEADER_LEN, Header, reserved};

/// Bytes of a body that are looked at; what follows is counted only.
const BODY_LOOKED_AT_BYTES: usize = 2048;
/// How a hello and its reply begin.
const HELLO_START: &[u8; 8] = b"MPI!helo";
const REPLY_START: &[u8; 8] = b"MPI!rply";

/// Turns the bytes of one direction into lines. Holds at most a few thousand bytes.
#[derive(Debug, Default)]
pub struct Stream {
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// At the start of the connection, or of a message.
    #[default]
    Between,
    /// Behind a hello: the proof.
    Proof,
    /// In the body of a message.
    Body { header: Header, seen: u64 },
    /// In bytes that make no sense, so many of them.
    Lost(u64),
}

impl Stream {
    /// Takes the next bytes; appends a line for each thing that became complete.
    pub fn push(&mut self, mut bytes: &[u8], lines: &mut Vec<String>) {
        while !bytes.is_empty() || self.can_go_on() {
            let took = self.take(bytes, lines);
            bytes = bytes.get(took..).unwrap_or_default();
            if took == 0 && !self.can_go_on() {
                break;
            }
        }
    }

    /// The stream has ended: says what was left unfinished.
    pub fn end(&mut self, lines: &mut Vec<String>) {
        match &self.state {
            State::Body { header, seen } => {
                lines.push(format!("cut off: {seen} of {} bytes of the body", header.length));
            }
            State::Lost(skipped) if *skipped > 0 => lines.push(format!("{skipped} bytes make no sense")),
            _ if !self.held.is_empty() => lines.push(format!("cut off: {} bytes", self.held.len())),
            _ => {}
        }
        *self = Stream::default();
    }

    /// Bytes of this direction are missing from here on.
    pub fn gap(&mut self, bytes: u64, lines: &mut Vec<String>) {
        lines.push(format!("{bytes} bytes are not in the capture"));
        self.held.clear();
        self.state = match std::mem::take(&mut self.state) {
            State::Body { header, seen } if seen + bytes <= header.length => {
                State::Body { header, seen: seen + bytes }
            }
            _ => State::Lost(0),
        };
    }

    /// What is held is enough for the next step.
    fn can_go_on(&self) -> bool {
        match &self.state {
            State::Body { header, seen } => *seen >= header.length,
            _ => self.wanted().is_some_and(|wanted| self.held.len() >= wanted),
        }
    }

    /// Bytes that the next step needs, as far as that is known.
    fn wanted(&self) -> Option<usize> {
        Some(match self.state {
            State::Proof => PROOF_LEN,
            State::Body { .. } => return None,
            State::Between | State::Lost(_) => match self.held.get(..8) {
                None => 8,
                Some(start) if start == HELLO_START => HELLO_LEN,
                Some(start) if start == REPLY_START => HELLO_REPLY_LEN,
                Some(_) => HEADER_LEN,
            },
        })
    }

    /// Takes some of the bytes, which may be none; says how many.
    fn take(&mut self, bytes: &[u8], lines: &mut Vec<String>) -> usize {
        if let State::Body { header, seen } = &mut self.state {
            let left = header.length.saturating_sub(*seen);
            let took = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let room = BODY_LOOKED_AT_BYTES.saturating_sub(self.held.len()).min(took);
            self.held.extend_from_slice(bytes.get(..room).unwrap_or_default());
            *seen += took as u64;
            if *seen >= header.length {
                let header = *header;
                lines.push(message(&header, &self.held));
                self.held.clear();
                self.state = State::Between;
            }
            return took;
        }
        let wanted = self.wanted().unwrap_or(HEADER_LEN);
        let took = wanted.saturating_sub(self.held.len()).min(bytes.len());
        self.held.extend_from_slice(bytes.get(..took).unwrap_or_default());
        if self.wanted().is_some_and(|wanted| self.held.len() >= wanted) {
            self.step(lines);
        }
        took
    }

    /// What is held is whole.
    fn step(&mut self, lines: &mut Vec<String>) {
        if matches!(self.state, State::Proof) {
            lines.push(String::from("proof of the job's secret"));
            self.held.clear();
            self.state = State::Between;
            return;
        }
        match self.read() {
            Some((line, next)) => {
                if let State::Lost(skipped) = self.state {
                    lines.push(format!("{skipped} bytes make no sense"));
                }
                lines.extend(line);
                self.held.clear();
                self.state = next;
            }
            None => {
                let skipped = if let State::Lost(skipped) = self.state { skipped } else { 0 };
                self.held.remove(0);
                self.state = State::Lost(skipped + 1);
            }
        }
    }

    /// A hello, a reply or a header; `None` where it is none of them.
    fn read(&self) -> Option<(Option<String>, State)> {
        if let Ok(bytes) = <&[u8; HELLO_LEN]>::try_from(self.held.as_slice()) {
            let hello = Hello::decode(bytes).ok()?;
            let (from, to) = (hello.from, hello.to);
            let guest =
                if from.job == to.job { String::new() } else { format!(" of job {}", short(from.job)) };
            let line =
                format!("hello: rank {}{guest} wants rank {} of job {}", from.rank, to.rank, short(to.job));
            return Some((Some(line), State::Proof));
        }
        if let Ok(bytes) = <&[u8; HELLO_REPLY_LEN]>::try_from(self.held.as_slice()) {
            let reply = HelloReply::decode(bytes).ok()?;
            let line =
                format!("reply: rank {} of job {}, with its proof", reply.from.rank, short(reply.from.job));
            return Some((Some(line), State::Between));
        }
        let header = Header::decode(<&[u8; HEADER_LEN]>::try_from(self.held.as_slice()).ok()?).ok()?;
        match header.length {
            0 => Some((Some(message(&header, &[])), State::Between)),
            _ => Some((None, State::Body { header, seen: 0 })),
        }
    }
}

fn short(job: JobTag) -> String {
    job.0.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The line of a message with its body, of which the first bytes are here.
fn message(header: &Header, body: &[u8]) -> String {
    let whole = body.len() as u64 == header.length;
    let unreadable = |what: &str| format!("{what} that cannot be read: {} bytes", header.length);
    if !reserved::is_reserved(header.context) {
        return match Announcement::announced_by(header) {
            true => announcement(header, body),
            false => plain(header, body),
        };
    }
    match header.context {
        reserved::ABORT => {
            let text = abort_text(body).unwrap_or("(no text that can be read)");
            format!("abort: rank {} with code {}: {}", header.source, header.tag, text.escape_debug())
        }
        reserved::CLEAR_TO_SEND => match ClearToSend::decode(body) {
            Ok(c) => format!(
                "clear to send: operation {:#x}, bytes {}..{}, into {:#x}",
                c.op,
                c.offset,
                c.offset.saturating_add(c.length),
                c.into
            ),
            Err(_) => unreadable("clear to send"),
        },
        reserved::RENDEZVOUS_DATA => {
            format!("data: {} bytes into {:#x}", header.length, header.count)
        }
        reserved::ACKNOWLEDGE => match Acknowledge::decode(body) {
            Ok(Acknowledge { op, outcome: Outcome::Taken }) => {
                format!("acknowledge: operation {op:#x} is taken")
            }
            Ok(Acknowledge { op, .. }) => format!("acknowledge: operation {op:#x} is dropped"),
            Err(_) => unreadable("acknowledge"),
        },
        reserved::CANCEL => format!("cancel: {} bytes", header.length),
        reserved::FLOW => match Flow::decode(body) {
            Ok(Flow { announce: true, held }) => format!("flow: announce everything, {held} bytes are held"),
            Ok(Flow { held, .. }) => format!("flow: send at once again, {held} bytes are held"),
            Err(_) => unreadable("flow"),
        },
        reserved::REVOKE => format!("revoke: communicator {}", header.count),
        reserved::ASIDE => {
            format!("beside context {}: {} bytes from rank {}", header.count, header.length, header.source)
        }
        reserved::GOODBYE if whole => format!("goodbye: rank {} leaves", header.source),
        other => format!("control message of unknown kind {other:#x}: {} bytes", header.length),
    }
}

fn envelope(header: &Header) -> String {
    let plane = match header.context & 3 {
        0 => "point-to-point",
        1 => "collective",
        2 => "one-sided or near group",
        _ => "management",
    };
    format!(
        "context {} (communicator {}, {plane}) {} -> {} tag {}, {} x type {:#x}",
        header.context,
        header.context >> 2,
        header.source,
        header.dest,
        header.tag,
        header.count,
        header.datatype & !ANNOUNCEMENT
    )
}

fn announcement(header: &Header, body: &[u8]) -> String {
    match Announcement::decode(body) {
        Ok((a, _)) => {
            let with = header.length.saturating_sub(ANNOUNCEMENT_LEN as u64);
            let sync = if a.sync { ", synchronous" } else { "" };
            let pull = if a.pull.is_some() { ", may be pulled" } else { "" };
            format!(
                "announcement: {}, operation {:#x} of {} bytes, {with} of them here{sync}{pull}",
                envelope(header),
                a.op,
                a.total
            )
        }
        Err(_) => format!("announcement that cannot be read: {} bytes", header.length),
    }
}

fn plain(header: &Header, body: &[u8]) -> String {
    let line = format!("message: {}, {} bytes", envelope(header), header.length);
    // Active messages of windows travel on the plane of one-sided communication.
    match header.context & 3 == 2 && body.len() as u64 == header.length {
        true => match Rma::decode(body) {
            Ok(rma) => {
                let text = format!("{rma:?}");
                let name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
                format!("{line}; one-sided {name}")
            }
            Err(_) => line,
        },
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_wire::control;
    use mpi_wire::hello::{Acceptor, Dialer, Identity};
    use proptest::prelude::*;

    fn framed(mut header: Header, body: &[u8]) -> Vec<u8> {
        header.length = body.len() as u64;
        [&header.encode()[..], body].concat()
    }

    /// A conversation with one of everything, and its lines.
    fn conversation() -> (Vec<u8>, Vec<&'static str>) {
        let job = JobTag([0xab; 32]);
        let (me, peer) = (Identity { job, rank: 0 }, Identity { job, rank: 1 });
        let dialer = Dialer::new([7; 32], me, peer, [1; 32]);
        let hello = dialer.hello();
        let (_, reply) = Acceptor::new([7; 32], peer, &Hello::decode(&hello).unwrap(), [2; 32]).unwrap();
        let proof = dialer.reply(&reply).unwrap();
        let mut bytes = [&hello[..], &proof[..]].concat();
        let plain = Header { source: 0, dest: 1, tag: 7, count: 3, datatype: 5, ..Header::default() };
        bytes.extend(framed(plain, &[0; 5000]));
        let rts = Announcement { total: 100_000, op: 0x11, sync: true, pull: None };
        let announced = Header { datatype: ANNOUNCEMENT | 5, context: 9, ..plain };
        bytes.extend(framed(announced, &[&rts.encode()[..], b"inline"].concat()));
        let control = |context| Header { context, ..Header::default() };
        let cts = ClearToSend { op: 0x11, into: 0x22, offset: 0, length: 100_000 };
        bytes.extend(framed(control(reserved::CLEAR_TO_SEND), &cts.encode()));
        bytes.extend(framed(Header { count: 0x22, ..control(reserved::RENDEZVOUS_DATA) }, &[1; 70_000]));
        let ack = Acknowledge { op: 0x11, outcome: Outcome::Taken };
        bytes.extend(framed(control(reserved::ACKNOWLEDGE), &ack.encode()));
        bytes.extend(framed(control(reserved::FLOW), &Flow { announce: true, held: 9 }.encode()));
        let (header, body) = control::abort(1, 0, -7, "no\nluck");
        bytes.extend(framed(header, &body));
        bytes.extend(control::goodbye(1, 0).encode());
        let lines = vec![
            "hello: rank 0 wants rank 1 of job abababab",
            "proof of the job's secret",
            "message: context 0 (communicator 0, point-to-point) 0 -> 1 tag 7, 3 x type 0x5, 5000 bytes",
            "announcement: context 9 (communicator 2, collective) 0 -> 1 tag 7, 3 x type 0x5, operation 0x11 of 100000 \
             bytes, 6 of them here, synchronous",
            "clear to send: operation 0x11, bytes 0..100000, into 0x22",
            "data: 70000 bytes into 0x22",
            "acknowledge: operation 0x11 is taken",
            "flow: announce everything, 9 bytes are held",
            "abort: rank 1 with code -7: no\\nluck",
            "goodbye: rank 1 leaves",
        ];
        (bytes, lines)
    }

    #[test]
    fn sense_is_found_again_behind_garbage() {
        let mut lines = Vec::new();
        let mut stream = Stream::default();
        stream.push(b"GET / HTTP/1.1\r\n\r\n and so on, for longer than a header is", &mut lines);
        stream.push(&control::goodbye(3, 0).encode(), &mut lines);
        stream.end(&mut lines);
        assert_eq!(lines, ["57 bytes make no sense", "goodbye: rank 3 leaves"]);
    }

    #[test]
    fn what_is_cut_off_says_so() {
        let (bytes, _) = conversation();
        let mut lines = Vec::new();
        let mut stream = Stream::default();
        stream.push(&bytes[..HELLO_LEN + PROOF_LEN + HEADER_LEN + 10], &mut lines);
        stream.end(&mut lines);
        assert_eq!(lines.last().map(String::as_str), Some("cut off: 10 of 5000 bytes of the body"));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(cuts in proptest::collection::vec(1_usize..3000, 1..60)) {
            let (bytes, expected) = conversation();
            let (mut lines, mut stream, mut at) = (Vec::new(), Stream::default(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(bytes.len());
                stream.push(&bytes[at..end], &mut lines);
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
            stream.end(&mut lines);
            prop_assert_eq!(lines, expected);
        }

        #[test]
        fn hostile_bytes_never_panic(pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                (any::<u32>(), any::<u32>(), 0_u64..300).prop_map(|(context, datatype, length)| {
                    Header { context, datatype, length, ..Header::default() }.encode().to_vec()
                }),
                any::<u32>().prop_map(|low| Header {
                    context: 0x7AB0_0000 | low & 0xFFFF, length: 32, ..Header::default()
                }.encode().to_vec()),
            ], 0..20)
        ) {
            let (mut lines, mut stream) = (Vec::new(), Stream::default());
            for piece in &pieces {
                stream.push(piece, &mut lines);
                prop_assert!(stream.held.len() <= BODY_LOOKED_AT_BYTES);
            }
            stream.end(&mut lines);
        }
    }
}
