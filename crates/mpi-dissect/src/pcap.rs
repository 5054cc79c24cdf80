//! pcap files (the classic format): packets, IPv4 and IPv6, the segments of each TCP direction put in order.

use crate::Stream;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

/// Bytes of segments that wait for earlier ones, of one direction, before the earlier ones count as lost.
const WAITING_MAX_BYTES: usize = 4 << 20;
/// Directions that are followed at a time; further ones are left out, with a line.
const DIRECTIONS_MAX: usize = 1 << 14;
/// Longest packet that a file may claim.
const PACKET_MAX_BYTES: usize = 1 << 20;

/// The file is no pcap that this program reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PcapError {
    /// Another format.
    Magic([u8; 4]),
    /// A link layer that is not known.
    Link(u32),
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PcapError::Magic([0x0a, 0x0d, 0x0d, 0x0a]) => f.write_str(
                "a pcapng file; the classic format is read: tcpdump writes it, editcap -F pcap converts",
            ),
            PcapError::Magic(bytes) => write!(f, "no pcap file: it begins with {bytes:02x?}"),
            PcapError::Link(link) => write!(f, "packets of link layer {link}, which is not known"),
        }
    }
}

impl std::error::Error for PcapError {}

/// One end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Port(IpAddr, u16);

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.1),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.1),
        }
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    stream: Stream,
    /// The next byte's number; `None` before the first segment.
    next: Option<u32>,
    /// Segments that came before their time, by distance from the first byte seen.
    early: BTreeMap<u32, Vec<u8>>,
    waiting: usize,
}

/// All of a pcap file in lines: time, ends, what was said. Only connections that carry messages of a job are there.
///
/// # Errors
/// [`PcapError`].
pub fn dissect(file: &[u8]) -> Result<Vec<String>, PcapError> {
    let mut reader = Reader::new(file)?;
    let mut directions: HashMap<(Port, Port), Direction> = HashMap::new();
    let mut out = Vec::new();
    let mut first = None;
    let mut left_out = 0_u64;
    let mut last = 0.0;
    while let Some((time, packet)) = reader.packet() {
        let Some(segment) = reader.segment(packet) else { continue };
        let first = *first.get_or_insert(time);
        let ends = (segment.from, segment.to);
        if directions.len() >= DIRECTIONS_MAX && !directions.contains_key(&ends) {
            left_out += 1;
            continue;
        }
        let mut lines = Vec::new();
        directions.entry(ends).or_default().segment(&segment, &mut lines);
        last = time - first;
        say(&mut out, last, ends, lines);
    }
    let mut unfinished: Vec<_> = directions.into_iter().collect();
    unfinished.sort_by_key(|(ends, _)| *ends);
    for (ends, mut direction) in unfinished {
        let mut lines = Vec::new();
        direction.end(&mut lines);
        say(&mut out, last, ends, lines);
    }
    if left_out > 0 {
        out.push(format!("{left_out} packets of more than {DIRECTIONS_MAX} directions are left out"));
    }
    if !reader.rest.is_empty() {
        let count = reader.rest.len();
        out.push(format!(
            "the file is cut off or damaged inside of a packet: its last {count} bytes are left out"
        ));
    }
    Ok(out)
}

fn say(out: &mut Vec<String>, time: f64, (from, to): (Port, Port), lines: Vec<String>) {
    // Other traffic on the same network makes no sense here, and is no news.
    let noise = ["make no sense", "are not in the capture"];
    let sense = lines.into_iter().filter(|line| !noise.iter().any(|end| line.ends_with(end)));
    out.extend(sense.map(|line| format!("{time:>10.6} {from} > {to}  {line}")));
}

impl Direction {
    fn segment(&mut self, segment: &Segment<'_>, lines: &mut Vec<String>) {
        if segment.starts {
            *self = Direction { next: Some(segment.number.wrapping_add(1)), ..Direction::default() };
            return;
        }
        if segment.bytes.is_empty() {
            return;
        }
        let next = *self.next.get_or_insert(segment.number);
        let ahead = segment.number.wrapping_sub(next);
        if ahead < 1 << 31 {
            // Sent again before its time, perhaps with more behind it: the longer one has it all.
            let known = self.early.get(&segment.number).map_or(0, Vec::len);
            if segment.bytes.len() > known {
                self.early.insert(segment.number, segment.bytes.to_vec());
                self.waiting += segment.bytes.len() - known;
            }
        } else {
            // Sent again, perhaps with more behind it.
            let known = next.wrapping_sub(segment.number) as usize;
            if let Some(rest @ [_, ..]) = segment.bytes.get(known..) {
                self.deliver(rest, lines);
            }
        }
        self.in_order(lines);
        if self.waiting > WAITING_MAX_BYTES {
            self.skip(lines);
        }
    }

    fn deliver(&mut self, bytes: &[u8], lines: &mut Vec<String>) {
        self.next = self.next.map(|next| next.wrapping_add(bytes.len() as u32));
        self.stream.push(bytes, lines);
    }

    /// The early segment that is nearest, by the numbers' circle.
    fn nearest(&self) -> Option<u32> {
        let next = self.next?;
        self.early.keys().copied().min_by_key(|number| number.wrapping_sub(next).wrapping_add(1 << 30))
    }

    fn in_order(&mut self, lines: &mut Vec<String>) {
        while let (Some(number), Some(next)) = (self.nearest(), self.next) {
            let ahead = number.wrapping_sub(next);
            if ahead != 0 && ahead < 1 << 31 {
                return;
            }
            let Some(bytes) = self.early.remove(&number) else { return };
            self.waiting -= bytes.len();
            let known = next.wrapping_sub(number) as usize;
            if let Some(rest @ [_, ..]) = bytes.get(known..) {
                self.deliver(rest, lines);
            }
        }
    }

    /// The file has ended.
    fn end(&mut self, lines: &mut Vec<String>) {
        while !self.early.is_empty() {
            self.skip(lines);
        }
        self.stream.end(lines);
    }

    /// What is missing will not come.
    fn skip(&mut self, lines: &mut Vec<String>) {
        if let (Some(number), Some(next)) = (self.nearest(), self.next) {
            self.stream.gap(u64::from(number.wrapping_sub(next)), lines);
            self.next = Some(number);
            self.in_order(lines);
        }
    }
}

/// A TCP segment.
struct Segment<'a> {
    from: Port,
    to: Port,
    number: u32,
    starts: bool,
    bytes: &'a [u8],
}

struct Reader<'a> {
    rest: &'a [u8],
    big: bool,
    nanos: bool,
    link: u32,
}

impl<'a> Reader<'a> {
    fn new(file: &'a [u8]) -> Result<Reader<'a>, PcapError> {
        let magic: [u8; 4] = array(file, 0).unwrap_or_default();
        let (big, nanos) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true),
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true),
            other => return Err(PcapError::Magic(other)),
        };
        let mut reader = Reader { rest: file.get(24..).unwrap_or_default(), big, nanos, link: 0 };
        reader.link = reader.word(file, 20).unwrap_or(u32::MAX) & 0x0fff_ffff;
        match reader.link {
            0 | 1 | 12 | 14 | 101 | 113 | 276 => Ok(reader),
            other => Err(PcapError::Link(other)),
        }
    }

    fn word(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = array(bytes, at)?;
        Some(if self.big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// Time in seconds and the captured bytes of the next packet; `None` where the rest holds no whole one.
    fn packet(&mut self) -> Option<(f64, &'a [u8])> {
        let rest = self.rest;
        let (seconds, part) = (self.word(rest, 0)?, self.word(rest, 4)?);
        let length = self.word(rest, 8)? as usize;
        if length > PACKET_MAX_BYTES {
            return None;
        }
        let packet = rest.get(16..16 + length)?;
        self.rest = rest.get(16 + length..)?;
        let part = f64::from(part) * if self.nanos { 1e-9 } else { 1e-6 };
        Some((f64::from(seconds) + part, packet))
    }

    fn segment(&self, packet: &'a [u8]) -> Option<Segment<'a>> {
        let ip = match self.link {
            0 => packet.get(4..)?,
            1 => {
                let tagged = array(packet, 12)? == [0x81, 0x00];
                packet.get(if tagged { 18 } else { 14 }..)?
            }
            113 => packet.get(16..)?,
            276 => packet.get(20..)?,
            _ => packet,
        };
        match ip.first()? >> 4 {
            4 => {
                let length = usize::from(u16::from_be_bytes(array(ip, 2)?));
                // Large segments of a virtual interface have no length of their own.
                let ip = if length == 0 { ip } else { ip.get(..length)? };
                let fragment = u16::from_be_bytes(array(ip, 6)?) & 0x3fff;
                if *ip.get(9)? != 6 || fragment != 0 {
                    return None;
                }
                let (from, to) = (array::<4>(ip, 12)?, array::<4>(ip, 16)?);
                tcp(ip.get(usize::from(ip.first()? & 15) * 4..)?, from.into(), to.into())
            }
            6 => {
                let length = usize::from(u16::from_be_bytes(array(ip, 4)?));
                let ip = if length == 0 { ip } else { ip.get(..40 + length)? };
                if *ip.get(6)? != 6 {
                    return None;
                }
                let (from, to) = (array::<16>(ip, 8)?, array::<16>(ip, 24)?);
                tcp(ip.get(40..)?, from.into(), to.into())
            }
            _ => None,
        }
    }
}

fn tcp(bytes: &[u8], from: IpAddr, to: IpAddr) -> Option<Segment<'_>> {
    let port = |at| Some(u16::from_be_bytes(array(bytes, at)?));
    let body = bytes.get(usize::from(*bytes.get(12)? >> 4) * 4..)?;
    Some(Segment {
        from: Port(from, port(0)?),
        to: Port(to, port(2)?),
        number: u32::from_be_bytes(array(bytes, 4)?),
        starts: *bytes.get(13)? & 2 != 0,
        bytes: body,
    })
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_wire::control::goodbye;
    use proptest::prelude::*;

    /// A raw-IPv4 pcap of segments: number, whether it starts the connection, bytes.
    pub(super) fn file(segments: &[(u32, bool, &[u8])]) -> Vec<u8> {
        let mut out = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        out.extend([2, 0, 4, 0]);
        out.extend([0; 8]);
        out.extend(65_535_u32.to_le_bytes());
        out.extend(101_u32.to_le_bytes());
        for (at, (number, starts, bytes)) in segments.iter().enumerate() {
            let length = 40 + bytes.len() as u32;
            out.extend((at as u32).to_le_bytes());
            out.extend(0_u32.to_le_bytes());
            out.extend(length.to_le_bytes());
            out.extend(length.to_le_bytes());
            out.extend([0x45, 0]);
            out.extend((length as u16).to_be_bytes());
            out.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2]);
            out.extend([0x12, 0x34, 0x56, 0x78]);
            out.extend(number.to_be_bytes());
            out.extend([0, 0, 0, 0, 0x50, if *starts { 2 } else { 16 }, 0, 0, 0, 0, 0, 0]);
            out.extend(*bytes);
        }
        out
    }

    #[test]
    fn segments_are_put_in_order() {
        let bytes = [goodbye(3, 0).encode(), goodbye(4, 0).encode()].concat();
        let start = u32::MAX - 20;
        let at = |n: usize| start.wrapping_add(1 + n as u32);
        let lines = dissect(&file(&[
            (start, true, &[]),
            (at(50), false, &bytes[50..]),
            (at(0), false, &bytes[..30]),
            (at(0), false, &bytes[..30]),
            (at(20), false, &bytes[20..50]),
        ]))
        .unwrap();
        assert_eq!(
            lines,
            [
                "  4.000000 127.0.0.1:4660 > 127.0.0.2:22136  goodbye: rank 3 leaves",
                "  4.000000 127.0.0.1:4660 > 127.0.0.2:22136  goodbye: rank 4 leaves",
            ]
        );
    }

    #[test]
    fn what_is_sent_again_before_its_time_is_said_once() {
        let bytes = [goodbye(3, 0).encode(), goodbye(4, 0).encode()].concat();
        let early = |to: usize| (111_u32, false, &bytes[10..to]);
        let first = (101_u32, false, &bytes[..10]);
        // Longer than before, then shorter, then what was missing.
        let lines =
            dissect(&file(&[(100, true, &[]), early(20), early(bytes.len()), early(30), first])).unwrap();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].ends_with("goodbye: rank 3 leaves") && lines[1].ends_with("goodbye: rank 4 leaves"));
    }

    #[test]
    fn a_file_that_is_cut_off_says_so() {
        let bytes = goodbye(3, 0).encode();
        let whole = file(&[(7, false, &bytes), (7 + bytes.len() as u32, false, &bytes)]);
        assert_eq!(dissect(&whole).unwrap().len(), 2);
        // The second packet begins behind the file's head, and the first with its own heads.
        let second = 24 + 16 + 40 + bytes.len();
        for end in second + 1..whole.len() {
            let lines = dissect(&whole[..end]).unwrap();
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines[0].ends_with("goodbye: rank 3 leaves"));
            let left = format!("its last {} bytes are left out", end - second);
            assert!(lines[1].ends_with(&left), "{lines:?}");
        }
        assert_eq!(dissect(&whole[..second]).unwrap().len(), 1);
        let mut damaged = whole;
        damaged[second + 8..second + 12].fill(0xff);
        assert!(dissect(&damaged).unwrap()[1].contains("cut off or damaged"));
    }

    #[test]
    fn both_versions_of_ip_are_read() {
        let bytes = goodbye(3, 0).encode();
        let tcp = |out: &mut Vec<u8>| {
            out.extend([0x12, 0x34, 0x56, 0x78, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 16, 0, 0, 0, 0, 0, 0]);
            out.extend(&bytes);
        };
        let mut packet = vec![0; 12];
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        packet.extend((20 + bytes.len() as u16).to_be_bytes());
        packet.extend([6, 64]);
        for last in [1, 2] {
            packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        tcp(&mut packet);
        // A short frame is padded; what is behind the datagram is not the stream's.
        packet.extend([0; 6]);
        let mut six = file(&[]);
        six[20] = 1;
        let length = (packet.len() as u32).to_le_bytes();
        six.extend([[0; 4], [0; 4], length, length].concat());
        six.extend(&packet);
        assert_eq!(
            dissect(&six).unwrap(),
            ["  0.000000 [fd00::1]:4660 > [fd00::2]:22136  goodbye: rank 3 leaves"]
        );
        let four = dissect(&file(&[(9, false, &bytes)])).unwrap();
        assert_eq!(four, ["  0.000000 127.0.0.1:4660 > 127.0.0.2:22136  goodbye: rank 3 leaves"]);
    }

    #[test]
    fn other_files_are_named() {
        assert_eq!(dissect(b"MPI!helo and so on"), Err(PcapError::Magic(*b"MPI!")));
        assert!(dissect(&[0x0a, 0x0d, 0x0d, 0x0a]).unwrap_err().to_string().contains("pcapng"));
        let mut strange = file(&[]);
        strange[20] = 77;
        assert_eq!(dissect(&strange), Err(PcapError::Link(77)));
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), link in 0..3_usize) {
            let mut all = file(&[(7, false, &[1, 2, 3])]);
            all[20] = [0, 1, 113][link];
            all.append(&mut bytes);
            let _ = dissect(&all);
            let _ = dissect(&all[link..]);
        }

        #[test]
        fn hostile_segments_never_panic(
            segments in proptest::collection::vec(
                (prop_oneof![any::<u32>(), 100..130_u32], any::<bool>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..30)
        ) {
            let segments: Vec<_> = segments.iter().map(|(n, s, b)| (*n, *s, b.as_slice())).collect();
            let _ = dissect(&file(&segments));
        }
    }
}
