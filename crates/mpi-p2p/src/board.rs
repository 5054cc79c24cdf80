//! Meeting on a board: every rank of a context publishes and waits until all have.
//!
//! Where ranks outnumber processors this takes each of them one turn, while messages take one for
//! every round of an algorithm. Between two meetings ranks may reach into memory that others lent at the first.

use crate::context::{Context, Face};
use crate::core::{Core, State};
use crate::engine::Engine;
use crate::limits::{BOARD_MAX_RANKS, BOARDS_MOST, POLL_OTHERS_TURNS, POLL_OTHERS_YIELDS};
use crate::patience::{Patience, Pause};
use crate::peer::Link;
use crate::progress::Wait;
use crate::report::Blocked;
use crate::{Error, ErrorClass, record};
use mpi_btl::{Boards, Ep, Span};
use mpi_datatype::{Datatype, RecvBuf, SendBuf};
use mpi_node::Guard;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A board that the ranks of one context have to themselves.
pub struct Board {
    boards: Arc<dyn Boards>,
    index: u32,
    /// The backend that has it.
    route: usize,
    /// Where each rank publishes; `None` for this one.
    places: Vec<Option<u32>>,
    /// The last meeting.
    number: AtomicU64,
    /// Pieces fed so far, by whomever.
    pieces: AtomicU64,
    /// With so many of them everybody is done, as far as this rank has looked.
    done: AtomicU64,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board")
            .field("index", &self.index)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

/// Memory that a rank lends to the others between two meetings, under a name to be brought to the first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Lent {
    address: u64,
    len: u64,
}

impl Lent {
    /// Length of a name in bytes.
    pub const NAME_LEN: usize = 16;

    /// Lends data to be fetched; `None` when it is not one piece of memory.
    pub fn data(buf: SendBuf<'_>) -> Option<Lent> {
        buf.contiguous().map(|bytes| Lent { address: bytes.as_ptr() as u64, len: bytes.len() as u64 })
    }

    /// Lends room to be stored into; `None` when it is not one piece of memory.
    pub fn room(buf: RecvBuf<'_>) -> Option<Lent> {
        buf.contiguous().map(|(ptr, len)| Lent { address: ptr as u64, len: len as u64 })
    }

    /// Bytes lent.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Its name.
    pub fn name(&self) -> [u8; Lent::NAME_LEN] {
        (u128::from(self.len) << 64 | u128::from(self.address)).to_le_bytes()
    }

    /// What a rank lends under a name that it brought.
    pub fn named(name: [u8; Lent::NAME_LEN]) -> Lent {
        let both = u128::from_le_bytes(name);
        Lent { address: both as u64, len: (both >> 64) as u64 }
    }

    /// The address of bytes `from .. from + len`.
    fn at(&self, from: usize, len: usize) -> Result<u64, String> {
        let inside = (from as u64).checked_add(len as u64).is_some_and(|end| end <= self.len);
        match inside {
            true => Ok(self.address.wrapping_add(from as u64)),
            false => Err(format!("{len} bytes from byte {from} on are not inside {} lent", self.len)),
        }
    }
}

impl Board {
    /// A mark among [free boards](Engine::free_boards): the ranks of the node outnumber its processors.
    pub const CROWDED: u64 = 1 << 62;
    /// The same: this process may reach into the memory of all ranks of the context.
    pub const REACHES: u64 = 1 << 63;

    /// The same: there is memory to stage data beside what is brought.
    pub const STAGES: u64 = 1 << 61;

    /// Bytes that each rank can stage for a meeting.
    pub fn stage_bytes(&self) -> usize {
        self.boards.stage_bytes()
    }

    /// Makes this rank's stages ready; only if all ranks say so may they be used.
    pub fn ready_stages(&self) -> bool {
        self.boards.ready_stages(self.index)
    }

    /// Where `rank` stages its data for the meeting that has [begun](Board::begin), seen as elements. It is that
    /// rank's until it has published, then whose the ranks agree on, until the next meeting but one.
    /// `None` when it does not fit.
    pub fn stage<'a>(&'a self, rank: usize, count: usize, datatype: &'a Datatype) -> Option<RecvBuf<'a>> {
        let number = self.number.load(Ordering::Relaxed);
        let span = self.boards.stage(self.index, *self.places.get(rank)?, number)?;
        let fits = datatype.is_contiguous() && count.checked_mul(datatype.size())? <= span.len();
        // SAFETY: memory of the board, as long as it lives, of which the elements cover no more than there is; any
        // bytes are initialised, and the caller keeps to the turns above.
        fits.then(|| unsafe { RecvBuf::new(span.ptr(), count, datatype) })
    }

    /// Stages packed data from byte `from` on, as much as fits into `at` of the stage, for the meeting that has
    /// [begun](Board::begin).
    pub fn stage_data(&self, data: SendBuf<'_>, from: usize, at: Range<usize>) {
        let number = self.number.load(Ordering::Relaxed);
        if let Some(span) = self.boards.stage(self.index, None, number).and_then(|span| part(span, at)) {
            pack(data, from, span);
        }
    }

    /// Unpacks what another rank staged for the meeting at `at`, as the bytes from byte `from` on of `into`, until they end.
    pub fn take_staged(&self, rank: usize, at: Range<usize>, into: RecvBuf<'_>, from: usize) {
        let number = self.number.load(Ordering::Relaxed);
        if let Some(place @ Some(_)) = self.places.get(rank) {
            let span = self.boards.stage(self.index, *place, number).and_then(|span| part(span, at));
            if let Some(span) = span {
                unpack(span, into, from);
            }
        }
    }

    /// Bytes that a piece carries beside its line.
    #[inline]
    pub fn piece_bytes(&self) -> usize {
        self.boards.piece_bytes()
    }

    /// What the line of the next piece, which `rank` has fed, carries: word and length, and bytes as far as there is
    /// room. The calling rank is not asked: `None`.
    #[inline]
    pub fn fed(&self, rank: usize, line: &mut [u8]) -> Option<(u32, usize)> {
        let place = (*self.places.get(rank)?)?;
        Some(self.boards.fed(self.index, place, self.next_piece(), line))
    }

    /// Unpacks the `len` bytes beside that line, as bytes `from ..` of what `into` has room for.
    #[inline]
    pub fn take_piece(&self, rank: usize, len: usize, into: RecvBuf<'_>, from: usize) {
        if let Some(place @ Some(_)) = self.places.get(rank) {
            let span = self.boards.piece(self.index, *place, self.next_piece());
            if let Some(span) = span.and_then(|span| part(span, 0..len)) {
                unpack(span, into, from);
            }
        }
    }

    #[inline]
    fn next_piece(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed) + 1
    }

    /// Begins a meeting: what is staged, published and waited for from now on belongs to it.
    #[inline]
    pub fn begin(&self) {
        self.number.store(self.number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Copies what another rank lent at the last meeting, from byte `from` on, to all of `into`, which is one piece of
    /// memory.
    ///
    /// # Errors
    /// Why that is not possible; the rank may be gone.
    pub fn fetch(&self, rank: usize, lent: Lent, from: usize, into: RecvBuf<'_>) -> Result<(), String> {
        let (place, (ptr, len)) = self.other(rank, into.contiguous())?;
        let address = lent.at(from, len)?;
        // SAFETY: the buffer's promise: valid for writes and nobody else's for the length of this call.
        unsafe { self.boards.fetch(place, address, Span::new(ptr, len)) }
    }

    /// Copies all of `data`, which is one piece of memory, into the room that another rank lent at the last meeting,
    /// from byte `from` on.
    ///
    /// # Errors
    /// As [`fetch`](Board::fetch).
    pub fn store(&self, rank: usize, lent: Lent, from: usize, data: SendBuf<'_>) -> Result<(), String> {
        let (place, bytes) = self.other(rank, data.contiguous())?;
        let address = lent.at(from, bytes.len())?;
        let span = Span::new(bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: the buffer's promise: valid for reads and unchanged; the rank lent the room until the next meeting.
        unsafe { self.boards.store(place, address, span) }
    }

    fn other<T>(&self, rank: usize, piece: Option<T>) -> Result<(u32, T), String> {
        let place = self.places.get(rank).copied().flatten();
        let place = place.ok_or_else(|| format!("rank {rank} has no memory elsewhere"))?;
        Ok((place, piece.ok_or("the data is not one piece of memory")?))
    }

    /// Bytes that a rank may bring to a meeting.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.boards.capacity()
    }

    /// What `rank` brought to the last meeting: the bytes, as far as `into` has room, its word, and its
    /// length in bytes. The calling rank is not asked: `None`.
    #[inline]
    pub fn brought(&self, rank: usize, into: &mut [u8]) -> Option<(u32, usize)> {
        let place = (*self.places.get(rank)?)?;
        Some(self.boards.read(self.index, place, self.number.load(Ordering::Relaxed), into))
    }

    /// True once `rank` has done what is waited for.
    #[inline]
    fn is_there(&self, rank: usize, what: Awaited) -> bool {
        let Some(place) = self.places[rank] else { return true };
        match what {
            Awaited::Meeting(number) => self.boards.has_published(self.index, place, number),
            Awaited::Piece(number) => self.boards.has_fed(self.index, place, number),
            Awaited::DoneWith(number) => self.boards.is_done_with(self.index, place, number),
        }
    }
}

/// What ranks are waited for to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    /// To come to this meeting.
    Meeting(u64),
    /// To feed this piece.
    Piece(u64),
    /// To be done with all pieces up to this one.
    DoneWith(u64),
}

/// Bytes `at` of memory, if they are inside.
fn part(span: Span, at: Range<usize>) -> Option<Span> {
    let inside = at.start <= at.end && at.end <= span.len();
    inside.then(|| Span::new(span.ptr().wrapping_add(at.start), at.len()))
}

/// Packs data from byte `from` on into memory of a board that is this rank's to write; how many bytes.
fn pack(data: SendBuf<'_>, from: usize, span: Span) -> usize {
    // SAFETY: memory of the board, as long as it lives; any bytes are initialised; nobody else touches it now, by the
    // rule of its use.
    let out = unsafe { std::slice::from_raw_parts_mut(span.ptr(), span.len()) };
    data.pack(from, out)
}

/// Unpacks what another rank has written into memory of a board.
fn unpack(span: Span, into: RecvBuf<'_>, from: usize) {
    // SAFETY: as in `pack`; its owner does not write it before this rank says that it is done.
    let bytes = unsafe { std::slice::from_raw_parts(span.ptr(), span.len()) };
    into.unpack(from, bytes);
}

impl Engine {
    /// The boards that this process could use with all ranks of a context, a bit each, marked with what holds for
    /// them ([`Board::CROWDED`], [`Board::REACHES`], [`Board::STAGES`]); 0 when the ranks share no boards. A board belongs to a context
    /// once all ranks have agreed on it and called [`take_board`](Engine::take_board), and to no other ever after.
    pub fn free_boards(&self, cx: &Context) -> u64 {
        let mut core = self.enter();
        let mut free = 0;
        if cx.face.peers.len() <= BOARD_MAX_RANKS && !core.state.multiple {
            if let Some((_, boards, places)) = core.state.common_board(&cx.face) {
                free = !core.state.boards_taken & ((1 << boards.count().min(BOARDS_MOST)) - 1);
                if self.shared.spin.crowded() {
                    free |= Board::CROWDED;
                }
                if boards.stage_bytes() > 0 {
                    free |= Board::STAGES;
                }
                // Who reaches into others' memory must be waited for, whatever happens to a third one.
                let lends = !core.state.limits.recovery;
                if lends && places.into_iter().flatten().all(|place| boards.reaches(place)) {
                    free |= Board::REACHES;
                }
            }
        }
        self.shared.leave(core);
        free
    }

    /// Takes a board that all ranks of the context agreed on; see [`free_boards`](Engine::free_boards).
    pub fn take_board(&self, cx: &Context, index: u32) -> Option<Board> {
        let mut core = self.enter();
        let board = core.state.common_board(&cx.face).map(|(route, boards, places)| {
            core.state.boards_taken |= 1 << index;
            let [number, pieces, done] = std::array::from_fn(|_| AtomicU64::new(0));
            Board { boards, index, route, places, number, pieces, done }
        });
        self.shared.leave(core);
        board
    }

    /// Publishes a word and up to [`Board::capacity`] bytes and waits until every rank of the context has
    /// published; [`Board::brought`] gives it until the next meeting.
    ///
    /// # Errors
    /// ProcFailed: a rank is gone that did not come.
    ///
    /// # Panics
    /// More bytes than the board has room for.
    pub fn meet(&self, cx: &Context, board: &Board, word: u32, bytes: &[u8]) -> Result<(), Error> {
        self.meet_until(cx, board, (word, bytes), Ends::WithTheFirstThatIsGone)
    }

    /// The same after ranks have reached into each other's memory: on return nobody does any more, also when a rank
    /// is gone.
    ///
    /// # Errors
    /// As [`meet`](Engine::meet), once every other rank has come.
    ///
    /// # Panics
    /// As [`meet`](Engine::meet).
    pub fn part(&self, cx: &Context, board: &Board, word: u32, bytes: &[u8]) -> Result<(), Error> {
        self.meet_until(cx, board, (word, bytes), Ends::WithTheLastThatComes)
    }

    fn meet_until(
        &self,
        cx: &Context,
        board: &Board,
        (word, bytes): (u32, &[u8]),
        ends: Ends,
    ) -> Result<(), Error> {
        board.begin();
        let mut core = self.enter();
        core.state.publish(cx, board, word, bytes);
        let what = Awaited::Meeting(board.number.load(Ordering::Relaxed));
        self.wait_on_board(core, ForBoard::new(&cx.face, board, (0..cx.face.peers.len(), what), ends))
    }

    /// Publishes this rank's part of a meeting that has begun, without waiting for others. Each meeting is published
    /// once by every rank, and over when that rank has seen something that came after everybody's.
    ///
    /// # Panics
    /// More bytes than the board has room for.
    pub fn publish(&self, cx: &Context, board: &Board, word: u32, bytes: &[u8]) {
        let mut core = self.enter();
        core.state.publish(cx, board, word, bytes);
        self.shared.leave(core);
    }

    /// Waits until `rank` has published its part of the meeting that has begun.
    ///
    /// # Errors
    /// ProcFailed: a rank is gone that did not come.
    pub fn await_rank(&self, cx: &Context, board: &Board, rank: usize) -> Result<(), Error> {
        let what = Awaited::Meeting(board.number.load(Ordering::Relaxed));
        self.await_on_board(cx, board, rank..rank + 1, what)
    }

    /// Waits until `rank` has fed the next piece, which [`Board::fed`] reads. Then [`done_with_piece`](Engine::done_with_piece)
    /// goes on to the next one.
    ///
    /// # Errors
    /// ProcFailed: a rank is gone that is needed.
    #[inline]
    pub fn await_piece(&self, cx: &Context, board: &Board, rank: usize) -> Result<(), Error> {
        self.await_on_board(cx, board, rank..rank + 1, Awaited::Piece(board.next_piece()))
    }

    /// Goes on to the next piece. What came with the last one is not read any more.
    pub fn done_with_piece(&self, cx: &Context, board: &Board) {
        let piece = board.next_piece();
        board.pieces.store(piece, Ordering::Relaxed);
        // Told now and then, and long before anybody has to wait for it.
        if piece % (board.boards.feed_pieces() / 4).max(1) == 0 {
            let mut core = self.enter();
            board.boards.done_with(board.index, piece);
            core.state.wake_all(cx, board);
            self.shared.leave(core);
        }
    }

    /// Feeds the next piece to all others: a word, bytes in its line, and `beside` that as much of the packed data as
    /// fits, from some byte on; how much that is. Waits only where somebody is far behind.
    ///
    /// # Errors
    /// ProcFailed: a rank is gone that is needed.
    ///
    /// # Panics
    /// More bytes than a line has room for.
    pub fn feed(
        &self,
        cx: &Context,
        board: &Board,
        (word, line): (u32, &[u8]),
        beside: Option<(SendBuf<'_>, usize)>,
    ) -> Result<usize, Error> {
        let piece = board.next_piece();
        let before = piece.saturating_sub(board.boards.feed_pieces());
        if before > board.done.load(Ordering::Relaxed) {
            let ranks = 0..cx.face.peers.len();
            // More than is needed, so that this is not looked at for every piece.
            let more = before + board.boards.feed_pieces() / 2;
            if ranks.clone().all(|rank| board.is_there(rank, Awaited::DoneWith(more))) {
                board.done.store(more, Ordering::Relaxed);
            } else {
                self.await_on_board(cx, board, ranks, Awaited::DoneWith(before))?;
                board.done.store(before, Ordering::Relaxed);
            }
        }
        let span = beside.and_then(|_| board.boards.piece(board.index, None, piece));
        let taken = match (beside, span) {
            (Some((data, from)), Some(span)) => pack(data, from, span),
            _ => 0,
        };
        let mut core = self.enter();
        core.state.flush_owed();
        board.boards.feed(board.index, piece, word, line);
        core.state.wake_all(cx, board);
        self.shared.leave(core);
        self.done_with_piece(cx, board);
        Ok(taken)
    }

    #[inline]
    fn await_on_board(
        &self,
        cx: &Context,
        board: &Board,
        ranks: Range<usize>,
        what: Awaited,
    ) -> Result<(), Error> {
        if ranks.clone().all(|rank| board.is_there(rank, what)) {
            return Ok(());
        }
        let core = self.enter();
        let wait = ForBoard::new(&cx.face, board, (ranks, what), Ends::WithTheFirstThatIsGone);
        self.wait_on_board(core, wait)
    }

    fn wait_on_board(&self, mut core: Guard<'_, Core>, mut wait: ForBoard<'_>) -> Result<(), Error> {
        let mut patience = Patience::new(&self.shared.spin, core.state.slept_short);
        let mut waiting = record::Waiting::NOT;
        while !wait.all_there() {
            waiting.begin(patience.turns());
            match patience.next() {
                Pause::Again if patience.turns() % POLL_OTHERS_TURNS == 0 => {
                    core.poll();
                    core.yield_to_others();
                }
                Pause::Again => {}
                Pause::Yield => {
                    if patience.turns() % POLL_OTHERS_YIELDS == 0 {
                        core.poll();
                    }
                    record::waits_long();
                    core.yield_to_others();
                    patience.yield_now();
                }
                Pause::Park => return self.meet_long(core, wait),
            }
        }
        self.shared.leave(core);
        Ok(())
    }

    #[cold]
    fn meet_long(&self, core: Guard<'_, Core>, wait: ForBoard<'_>) -> Result<(), Error> {
        self.wait_until(core, wait)
    }
}

/// A backend, its boards, and where each rank publishes; `None` for this one.
type Common = (usize, Arc<dyn Boards>, Vec<Option<u32>>);

impl State {
    /// Publishes, and wakes whoever sleeps.
    fn publish(&mut self, cx: &Context, board: &Board, word: u32, bytes: &[u8]) {
        self.flush_owed();
        board.boards.publish(board.index, board.number.load(Ordering::Relaxed), word, bytes);
        self.wake_all(cx, board);
    }

    fn wake_all(&mut self, cx: &Context, board: &Board) {
        for (rank, ep) in cx.face.peers.iter().enumerate() {
            if board.places[rank].is_some() {
                self.tx[board.route].wake(*ep);
            }
        }
    }

    /// The backend that reaches all ranks, with its boards and where they publish.
    fn common_board(&mut self, face: &Face) -> Option<Common> {
        let mut route = None;
        let me = self.me;
        for &ep in face.peers.iter().filter(|ep| **ep != me) {
            self.reach(ep).ok()?;
            let this = usize::from(self.peers.at(ep).route);
            if *route.get_or_insert(this) != this {
                return None;
            }
        }
        let tx = &self.tx[route?];
        let boards = tx.boards()?;
        let place = |ep: &Ep| if *ep == self.me { Some(None) } else { tx.place(*ep).map(Some) };
        let places = face.peers.iter().map(place).collect::<Option<Vec<_>>>()?;
        Some((route?, boards, places))
    }
}

/// The coming of some ranks.
struct ForBoard<'a> {
    face: &'a Face,
    board: &'a Board,
    what: Awaited,
    /// The first rank that was not seen yet.
    next: usize,
    /// Ranks from here on are not waited for.
    past: usize,
    ends: Ends,
}

/// When a meeting ends that a rank cannot come to any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    WithTheFirstThatIsGone,
    WithTheLastThatComes,
}

impl<'a> ForBoard<'a> {
    fn new(
        face: &'a Face,
        board: &'a Board,
        (ranks, what): (Range<usize>, Awaited),
        ends: Ends,
    ) -> ForBoard<'a> {
        ForBoard { face, board, what, next: ranks.start, past: ranks.end, ends }
    }

    /// Looks only at the first that is missing: whoever comes last completes the wait.
    #[inline]
    fn all_there(&mut self) -> bool {
        while self.next < self.past {
            if !self.board.is_there(self.next, self.what) {
                return false;
            }
            self.next += 1;
        }
        true
    }
}

impl Wait for ForBoard<'_> {
    type Result = Result<(), Error>;
    fn done(&mut self, state: &mut State) -> Option<Self::Result> {
        if self.all_there() {
            return Some(Ok(()));
        }
        if let Some(error) = state.refusal_of_collective(self.face) {
            return Some(Err(error));
        }
        let mut missed = None;
        // Also one that is not waited for: others may wait for it.
        for (rank, ep) in self.face.peers.iter().enumerate() {
            let gone = matches!(state.peers.at(*ep).link, Link::Left | Link::Down(_));
            // It may have come before it went: looked at in this order.
            if self.board.is_there(rank, self.what) {
                continue;
            }
            if gone && missed.is_none() {
                missed = Some((rank, state.peers.at(*ep).gone().unwrap_or_default()));
            } else if !gone && self.ends == Ends::WithTheLastThatComes {
                return None;
            }
        }
        let (rank, gone) = missed?;
        // Nor may one have gone because what is waited for had come.
        if self.all_there() {
            return Some(Ok(()));
        }
        let mut e = state.error_on(self.face.id, "collective", ErrorClass::ProcFailed, gone);
        e.peer = Some(rank as i32);
        Some(Err(e))
    }
    fn watch(&self, _: &mut State, _: u32) {}
    fn came(&self) -> bool {
        self.board.is_there(self.next, self.what)
    }
    fn facts(&self, state: &State) -> Blocked {
        let mut b = state.facts_on("collective", self.face.id);
        b.peer = Some(self.next as i32);
        let missing = (self.next..self.past).filter(|r| !self.board.is_there(*r, self.what));
        b.waits_for.extend(missing.filter_map(|rank| self.face.peers.get(rank)));
        b.others = b.waits_for.len().saturating_sub(1);
        b
    }
}
