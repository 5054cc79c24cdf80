//! Puts the outputs of many ranks into one, line by line. No I/O, no clock.
//!
//! Whole lines are passed on as they come. A part of a line is kept until its end comes, except
//! that a writer who is alone for a while (a prompt, a progress bar) sees its part shown; lines of
//! others then wait for the end of that line, for a bounded time. Without tags the bytes of a lone
//! writer pass unchanged.

use crate::limits::{LINE_MAX_BYTES, PARTIAL_LINE_HOLDS, PARTIAL_LINE_SHOWN};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What stands at the start of each line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tags {
    /// `[rank] `.
    pub rank: bool,
    /// The time.
    pub time: bool,
}

/// Many sources, one output.
#[derive(Debug)]
pub struct Mixer {
    sources: Vec<Source>,
    tags: Tags,
    /// What is ready to be written.
    out: Vec<u8>,
    /// The source whose unfinished line stands at the end of the output.
    open: Option<usize>,
    /// Sources with bytes that are not passed on yet.
    waiting: BTreeSet<usize>,
    /// Who wrote last, when, and when somebody else did before.
    last: Option<(usize, Instant)>,
    last_other: Option<Instant>,
}

#[derive(Debug, Default)]
struct Source {
    /// Who it is, for tags.
    label: String,
    pending: Vec<u8>,
    /// When the part of a line that is pending began to wait.
    since: Option<Instant>,
    /// When whole lines began to wait for another's open line.
    held: Option<Instant>,
    closed: bool,
}

impl Mixer {
    /// A mixer of sources that belong to these ranks.
    pub fn new(ranks: impl IntoIterator<Item = usize>, tags: Tags) -> Mixer {
        let source = |rank: usize| Source { label: rank.to_string(), ..Source::default() };
        let sources = ranks.into_iter().map(source).collect();
        Mixer {
            sources,
            tags,
            out: Vec::new(),
            open: None,
            waiting: BTreeSet::new(),
            last: None,
            last_other: None,
        }
    }

    /// One more source, under the next number.
    pub fn add(&mut self, label: String) {
        self.sources.push(Source { label, ..Source::default() });
    }

    /// What is to be written now; the caller takes off what it has written.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Something is to be written.
    pub fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Bytes of one source that wait for something other than the reader.
    pub fn pending(&self, source: usize) -> usize {
        self.sources.get(source).map_or(0, |s| s.pending.len())
    }

    /// `source` wrote these bytes.
    pub fn push(&mut self, source: usize, bytes: &[u8], now: Instant) {
        match self.last {
            Some((last, _)) if last == source => {}
            other => self.last_other = other.map(|(_, at)| at),
        }
        self.last = Some((source, now));
        if let Some(s) = self.sources.get_mut(source) {
            s.pending.extend_from_slice(bytes);
            self.settle(source, now, false);
            self.release(now);
        }
    }

    /// `source` will write no more.
    pub fn close(&mut self, source: usize, now: Instant) {
        if let Some(s) = self.sources.get_mut(source) {
            s.closed = true;
            self.settle(source, now, false);
            self.release(now);
        }
    }

    /// A line of the launcher's own, complete, which waits for nobody.
    pub fn message(&mut self, line: &str) {
        self.end_open_line();
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    /// Nothing more comes: everything that waits is passed on.
    pub fn finish(&mut self, now: Instant) {
        for source in 0..self.sources.len() {
            self.sources[source].closed = true;
            self.settle(source, now, true);
        }
    }

    /// When [`tick`](Mixer::tick) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|source| self.due(*source)).min()
    }

    fn due(&self, source: usize) -> Option<Instant> {
        let s = self.sources.get(source)?;
        match (s.held, self.open) {
            (Some(held), _) => Some(held + PARTIAL_LINE_HOLDS),
            (None, None) => s.since.map(|since| since + PARTIAL_LINE_SHOWN),
            (None, Some(_)) => None,
        }
    }

    /// Shows parts of lines, and ends waits, whose time has come.
    pub fn tick(&mut self, now: Instant) {
        let due: Vec<usize> =
            self.waiting.iter().copied().filter(|s| self.due(*s).is_some_and(|at| at <= now)).collect();
        for source in due {
            if self.sources[source].held.is_some() {
                self.settle(source, now, true);
            } else if self.open.is_none() {
                if self.alone(source, now) {
                    let all = self.sources[source].pending.len();
                    self.emit(source, all);
                    self.open = Some(source);
                    self.sources[source].since = None;
                    self.waiting.remove(&source);
                } else {
                    self.sources[source].since = Some(now);
                }
            }
        }
        self.release(now);
    }

    fn alone(&self, source: usize, now: Instant) -> bool {
        let other = match self.last {
            Some((last, at)) if last != source => Some(at),
            _ => self.last_other,
        };
        other.is_none_or(|at| now.saturating_duration_since(at) >= PARTIAL_LINE_SHOWN)
    }

    /// Passes on what can be passed on of one source; `force` ends another's open line.
    fn settle(&mut self, source: usize, now: Instant, force: bool) {
        let Some(end) = self.passable(source) else {
            self.wait(source, now);
            return;
        };
        if let Some(open) = self.open.filter(|open| *open != source) {
            if !force && !self.sources[open].closed {
                self.sources[source].held.get_or_insert(now);
                self.waiting.insert(source);
                return;
            }
            self.end_open_line();
        }
        self.emit(source, end);
        let ended = self.out.last().is_none_or(|byte| *byte == b'\n');
        self.open = if ended { None } else { Some(source) };
        self.sources[source].held = None;
        self.sources[source].since = None;
        self.wait(source, now);
    }

    /// Notes whether a part of a line is left.
    fn wait(&mut self, source: usize, now: Instant) {
        if self.sources[source].pending.is_empty() {
            self.waiting.remove(&source);
        } else {
            self.sources[source].since.get_or_insert(now);
            self.waiting.insert(source);
        }
    }

    /// How many pending bytes may be passed on now, were no other's line open.
    fn passable(&self, source: usize) -> Option<usize> {
        let s = &self.sources[source];
        let all = s.pending.len();
        let whole = self.open == Some(source) || s.closed || all > LINE_MAX_BYTES;
        let end = if whole {
            all
        } else {
            s.pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        (end > 0).then_some(end)
    }

    /// The open line has ended: those who waited for it come now.
    fn release(&mut self, now: Instant) {
        if self.open.is_some_and(|open| !self.sources[open].closed) {
            return;
        }
        let held: Vec<usize> =
            self.waiting.iter().copied().filter(|s| self.sources[*s].held.is_some()).collect();
        for source in held {
            self.settle(source, now, false);
        }
    }

    fn end_open_line(&mut self) {
        if self.open.take().is_some() {
            self.out.push(b'\n');
        }
    }

    /// Moves the first `end` pending bytes to the output, with tags.
    fn emit(&mut self, source: usize, end: usize) {
        let s = &mut self.sources[source];
        if self.tags == Tags::default() {
            self.out.extend_from_slice(&s.pending[..end]);
        } else {
            let mut inside = self.open == Some(source);
            for line in s.pending[..end].split_inclusive(|byte| *byte == b'\n') {
                if !inside {
                    tag(&mut self.out, self.tags, &s.label);
                }
                self.out.extend_from_slice(line);
                inside = false;
            }
        }
        s.pending.drain(..end);
    }
}

fn tag(out: &mut Vec<u8>, tags: Tags, rank: &str) {
    if tags.time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        out.extend_from_slice(timestamp(since).as_bytes());
        out.push(b' ');
    }
    if tags.rank {
        out.extend_from_slice(format!("[{rank}] ").as_bytes());
    }
}

/// RFC 3339 in UTC with milliseconds, from the time since 1970.
fn timestamp(since: Duration) -> String {
    let seconds = since.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date by eras of 400 years that start in March (H. Hinnant, chrono-compatible
    // low-level date algorithms).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let milli = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{milli:03}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Tags = Tags { rank: false, time: false };
    const TAGGED: Tags = Tags { rank: true, time: false };

    fn text(mixer: &mut Mixer) -> String {
        String::from_utf8(std::mem::take(mixer.out())).unwrap()
    }

    #[test]
    fn parts_wait_for_their_end() {
        let now = Instant::now();
        let mut mixer = Mixer::new(0..2, TAGGED);
        mixer.push(0, b"ab", now);
        mixer.push(1, b"x\ny", now);
        mixer.push(0, b"c\n", now);
        mixer.push(1, b"z\n", now);
        assert_eq!(text(&mut mixer), "[1] x\n[0] abc\n[1] yz\n");
    }

    #[test]
    fn a_lone_writer_sees_its_part_soon_and_others_wait_for_its_end() {
        let start = Instant::now();
        let mut mixer = Mixer::new(0..2, TAGGED);
        mixer.push(0, b"10%", start);
        assert_eq!(text(&mut mixer), "");
        let soon = mixer.deadline().unwrap();
        assert!(soon - start < Duration::from_millis(100));
        mixer.tick(soon);
        assert_eq!(text(&mut mixer), "[0] 10%");
        mixer.push(0, b" 20%", soon);
        assert_eq!(text(&mut mixer), " 20%", "the rest of an open line does not wait");
        mixer.push(1, b"line\n", soon);
        assert_eq!(text(&mut mixer), "");
        mixer.push(0, b" done\n", soon);
        assert_eq!(text(&mut mixer), " done\n[1] line\n");
    }

    #[test]
    fn an_open_line_holds_others_for_a_bounded_time() {
        let start = Instant::now();
        let mut mixer = Mixer::new(0..2, PLAIN);
        mixer.push(0, b"name? ", start);
        mixer.tick(start + PARTIAL_LINE_SHOWN);
        mixer.push(1, b"line\n", start + PARTIAL_LINE_SHOWN);
        let due = mixer.deadline().unwrap();
        mixer.tick(due);
        assert_eq!(text(&mut mixer), "name? \nline\n");
    }

    #[test]
    fn no_newline_is_added_for_a_lone_writer_and_one_between_two() {
        let now = Instant::now();
        let mut mixer = Mixer::new(0..2, PLAIN);
        mixer.push(0, b"no end", now);
        mixer.close(0, now);
        assert_eq!(text(&mut mixer), "no end");
        mixer.push(1, b"more\n", now);
        mixer.finish(now);
        assert_eq!(text(&mut mixer), "\nmore\n");
    }

    #[test]
    fn a_message_stands_on_its_own_line() {
        let now = Instant::now();
        let mut mixer = Mixer::new(0..1, PLAIN);
        mixer.push(0, b"part", now);
        mixer.close(0, now);
        mixer.message("mpiexec: it failed");
        assert_eq!(text(&mut mixer), "part\nmpiexec: it failed\n");
    }

    #[test]
    fn an_endless_line_is_passed_on_in_parts() {
        let now = Instant::now();
        let mut mixer = Mixer::new(0..1, TAGGED);
        for _ in 0..3 {
            mixer.push(0, &vec![b'x'; LINE_MAX_BYTES], now);
        }
        assert!(mixer.pending(0) <= LINE_MAX_BYTES);
        assert!(mixer.out().len() > 2 * LINE_MAX_BYTES);
    }

    #[test]
    fn times_are_calendar_times() {
        assert_eq!(timestamp(Duration::from_millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(Duration::from_millis(951_827_696_789)), "2000-02-29T12:34:56.789Z");
        assert_eq!(timestamp(Duration::from_secs(1_798_761_599)), "2026-12-31T23:59:59.000Z");
    }

    proptest! {
        /// However the writes are cut and interleaved: every line is whole, in order, tagged once.
        #[test]
        fn lines_are_never_torn(cuts in proptest::collection::vec((0usize..3, 1usize..9, 0u64..80), 0..200)) {
            let streams: Vec<Vec<u8>> = (0..3)
                .map(|r| (0..40).flat_map(|i| format!("rank {r} line {i}\n").into_bytes()).collect())
                .collect();
            let mut now = Instant::now();
            let mut mixer = Mixer::new(0..3, TAGGED);
            let mut sent = [0; 3];
            for (source, length, millis) in cuts {
                // Shorter than the hold, so that no line is broken by it.
                now += Duration::from_millis(millis / 40);
                let end = streams[source].len().min(sent[source] + length);
                mixer.push(source, &streams[source][sent[source]..end], now);
                sent[source] = end;
                mixer.tick(now);
            }
            for source in 0..3 {
                mixer.push(source, &streams[source][sent[source]..], now);
            }
            mixer.finish(now);
            let got = text(&mut mixer);
            for (rank, stream) in streams.iter().enumerate() {
                let prefix = format!("[{rank}] ");
                let own: String = got
                    .lines()
                    .filter_map(|line| line.strip_prefix(&prefix))
                    .map(|line| format!("{line}\n"))
                    .collect();
                prop_assert_eq!(own.as_bytes(), &stream[..]);
            }
        }
    }
}
