//! Put, get, accumulate and their kin (MPI 5.0, section 12.3): checked, then done directly or sent.

use crate::accumulate::{Place, Site, Trouble};
use crate::create::Flavor;
use crate::memory::{self, Laid, span};
use crate::messages::{Deed, Errand};
use crate::window::{Inner, Reach, Window};
use mpi_comm::Dest;
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf, Signature};
use mpi_p2p::record::{self, Way as Moved, ops::Op as RecordedOp};
use mpi_p2p::{Error, ErrorClass, RequestId};

/// Memory of a target: which rank, where, how many elements of which type.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The rank. Operations on the null process are done at once.
    pub rank: Dest,
    /// Displacement in units of the target; in a dynamic window an address.
    pub at: i64,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub datatype: &'a Datatype,
}

impl Target<'_> {
    /// Bytes of data.
    #[inline]
    fn bytes(&self) -> usize {
        self.count.saturating_mul(self.datatype.size())
    }
}

/// Where an operation goes.
enum Way<'a> {
    Direct { place: Place, offset: usize, seat: &'a crate::board::Seat },
    Mail { at: u64 },
}

impl Window {
    /// Writes to a target.
    ///
    /// # Errors
    /// `RmaSync` outside of an epoch, `Rank`, `Disp`, `RmaRange`, `Type`, `Truncate`, `ProcFailed`. What only the
    /// target can find wrong is reported by what closes or flushes the epoch.
    #[inline]
    pub fn put(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        if record::on() {
            let recording =
                || self.recording(const { RecordedOp::named("put") }, target.rank, Moved::Put, from.bytes());
            return record::with(recording, || self.put_now(from, target));
        }
        self.put_now(from, target)
    }

    #[inline]
    fn put_now(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        if self.0.put_plain(&from, &target) {
            return Ok(());
        }
        self.put_long(from, target)
    }

    fn put_long(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        let w = self.alive("put")?;
        let Dest::Rank(rank) = target.rank else { return Ok(()) };
        w.check_types("put", from.datatype(), from.bytes(), &target)?;
        match w.way("put", rank, &target)? {
            Way::Direct { place, offset, .. } => {
                // SAFETY: the way was found inside the target's memory; sizes were checked.
                unsafe { memory::put(place, offset, &from, target.count, target.datatype) }
                    .map_err(|t| w.trouble("put", rank, t))
            }
            Way::Mail { at } => w.run_errand(&Errand {
                name: "put",
                deed: Deed::Put,
                target: rank as u32,
                at,
                count: target.count,
                datatype: target.datatype,
                data: Some(from),
                to: None,
                bytes: from.bytes(),
                primitive: None,
                request: None,
            }),
        }
    }

    /// Reads from a target. The memory is filled when the epoch is closed or flushed.
    ///
    /// # Errors
    /// As [`put`](Window::put).
    #[inline]
    pub fn get(&self, to: RecvBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        if !record::on() && self.0.get_plain(&to, &target) {
            return Ok(());
        }
        self.get_as("get", to, target, None)
    }

    fn get_as(
        &self,
        name: &'static str,
        to: RecvBuf<'_>,
        target: Target<'_>,
        request: Option<RequestId>,
    ) -> Result<(), Error> {
        if record::on() {
            let recording =
                || self.recording(const { RecordedOp::named("get") }, target.rank, Moved::Got, to.bytes());
            return record::with(recording, || self.get_now(name, to, target, request));
        }
        self.get_now(name, to, target, request)
    }

    #[inline]
    fn get_now(
        &self,
        name: &'static str,
        to: RecvBuf<'_>,
        target: Target<'_>,
        request: Option<RequestId>,
    ) -> Result<(), Error> {
        let w = self.alive(name)?;
        let Dest::Rank(rank) = target.rank else { return w.done(request) };
        w.check_room(name, &to, &target)?;
        match w.way(name, rank, &target)? {
            Way::Direct { place, offset, .. } => {
                // SAFETY: the way was found inside the target's memory; sizes were checked.
                unsafe { memory::get(place, offset, &to, target.count, target.datatype) }
                    .map_err(|t| w.trouble(name, rank, t))
                    .and_then(|()| w.done(request))
            }
            Way::Mail { at } => w.run_errand(&Errand {
                name,
                deed: Deed::Get,
                target: rank as u32,
                at,
                count: target.count,
                datatype: target.datatype,
                data: None,
                to: Some(to.to_mem()),
                bytes: target.bytes(),
                primitive: None,
                request,
            }),
        }
    }

    /// Combines with a target's memory, atomically per element. Accumulates of one rank on the same element are
    /// done in the order of the calls.
    ///
    /// # Errors
    /// As [`put`](Window::put); `Op` for an operation that is not predefined or not defined on the type.
    #[inline]
    pub fn accumulate(&self, from: SendBuf<'_>, target: Target<'_>, op: &Op) -> Result<(), Error> {
        if record::on() {
            let recording = || {
                self.recording(
                    const { RecordedOp::named("accumulate") },
                    target.rank,
                    Moved::Put,
                    from.bytes(),
                )
            };
            return record::with(recording, || self.accumulate_now(from, target, op));
        }
        self.accumulate_now(from, target, op)
    }

    #[inline]
    fn accumulate_now(&self, from: SendBuf<'_>, target: Target<'_>, op: &Op) -> Result<(), Error> {
        if self.0.combine_plain_word(&from, &target, op, None) {
            return Ok(());
        }
        self.accumulate_long(from, target, op)
    }

    fn accumulate_long(&self, from: SendBuf<'_>, target: Target<'_>, op: &Op) -> Result<(), Error> {
        let w = self.alive("accumulate")?;
        let Dest::Rank(rank) = target.rank else { return Ok(()) };
        if matches!(op, Op::NoOp) {
            return Ok(());
        }
        // One word of a predefined type: nothing to lay out.
        if let (Datatype::Predefined(p), Datatype::Predefined(q)) = (from.datatype(), target.datatype) {
            if p == q && from.count() == target.count && op.defined_on(*p) && !matches!(op, Op::User(_)) {
                if let Way::Direct { place, offset, seat } = w.way("accumulate", rank, &target)? {
                    let site = w.site(seat, place);
                    // SAFETY: the way was found inside the target's memory; `from` has as many elements.
                    let done = unsafe { site.combine(op, *p, offset, target.count, from.ptr(), None) };
                    return done.map_err(|t| w.trouble("accumulate", rank, t));
                }
            }
        }
        w.combine("accumulate", Some(from), None, rank, &target, op, None)
    }

    /// Reads what was there, then combines, as one step per element. With [`Op::NoOp`] it is an atomic
    /// get, for which `from` is not looked at.
    ///
    /// # Errors
    /// As [`accumulate`](Window::accumulate).
    pub fn get_accumulate(
        &self,
        from: SendBuf<'_>,
        result: RecvBuf<'_>,
        target: Target<'_>,
        op: &Op,
    ) -> Result<(), Error> {
        let w = self.alive("get accumulate")?;
        let Dest::Rank(rank) = target.rank else { return Ok(()) };
        let _recording = self.recording(
            const { RecordedOp::named("get-accumulate") },
            target.rank,
            Moved::Got,
            result.bytes(),
        );
        w.combine("get accumulate", Some(from), Some(result), rank, &target, op, None)
    }

    /// As [`get_accumulate`](Window::get_accumulate) for one element of a predefined type.
    ///
    /// # Errors
    /// As there; `Type` for a derived type.
    #[inline]
    pub fn fetch_and_op(
        &self,
        from: SendBuf<'_>,
        result: RecvBuf<'_>,
        rank: Dest,
        at: i64,
        op: &Op,
    ) -> Result<(), Error> {
        if record::on() {
            let recording = || {
                self.recording(const { RecordedOp::named("fetch-and-op") }, rank, Moved::Got, result.bytes())
            };
            return record::with(recording, || self.fetch_and_op_now(from, result, rank, at, op));
        }
        self.fetch_and_op_now(from, result, rank, at, op)
    }

    #[inline]
    fn fetch_and_op_now(
        &self,
        from: SendBuf<'_>,
        result: RecvBuf<'_>,
        rank: Dest,
        at: i64,
        op: &Op,
    ) -> Result<(), Error> {
        let target = Target { rank, at, count: 1, datatype: result.datatype() };
        if self.0.combine_plain_word(&from, &target, op, Some(result.ptr())) {
            return Ok(());
        }
        self.fetch_and_op_long(from, result, rank, at, op)
    }

    fn fetch_and_op_long(
        &self,
        from: SendBuf<'_>,
        result: RecvBuf<'_>,
        rank: Dest,
        at: i64,
        op: &Op,
    ) -> Result<(), Error> {
        let name = "fetch and op";
        let w = self.alive(name)?;
        let Dest::Rank(rank) = rank else { return Ok(()) };
        let datatype = result.datatype();
        let Datatype::Predefined(p) = datatype else { return Err(w.not_predefined(name, rank, datatype)) };
        let target = Target { rank: Dest::Rank(rank), at, count: 1, datatype };
        if matches!(op, Op::User(_)) || !op.defined_on(*p) {
            return Err(w.not_defined(name, rank, op, datatype));
        }
        match w.way(name, rank, &target)? {
            Way::Direct { place, offset, seat } => {
                let site = w.site(seat, place);
                // SAFETY: the way was found inside the target's memory; one element at each address.
                let done = unsafe { site.combine(op, *p, offset, 1, from.ptr(), Some(result.ptr())) };
                done.map_err(|t| w.trouble(name, rank, t))
            }
            Way::Mail { .. } => w.combine(name, Some(from), Some(result), rank, &target, op, None),
        }
    }

    /// Puts one element in where another one stands; `result` gets what was there.
    ///
    /// # Errors
    /// As [`put`](Window::put); `Type` for a type that is not predefined or has a fraction.
    pub fn compare_and_swap(
        &self,
        new: SendBuf<'_>,
        compare: SendBuf<'_>,
        result: RecvBuf<'_>,
        rank: Dest,
        at: i64,
    ) -> Result<(), Error> {
        let name = "compare and swap";
        let w = self.alive(name)?;
        let Dest::Rank(rank) = rank else { return Ok(()) };
        let _recording = self.recording(
            const { RecordedOp::named("compare-and-swap") },
            Dest::Rank(rank),
            Moved::Got,
            result.bytes(),
        );
        let datatype = result.datatype();
        let p = match datatype {
            Datatype::Predefined(p) if p.pair().is_none() && p.size() <= 8 => *p,
            _ => return Err(w.not_predefined(name, rank, datatype)),
        };
        let target = Target { rank: Dest::Rank(rank), at, count: 1, datatype };
        match w.way(name, rank, &target)? {
            Way::Direct { place, offset, seat } => {
                let site = w.site(seat, place);
                let (c, n, r) = (compare.ptr(), new.ptr(), result.ptr());
                // SAFETY: the way was found inside the target's memory; one element at each address.
                unsafe { site.compare_and_swap(p, offset, c, n, r) }.map_err(|t| w.trouble(name, rank, t))
            }
            Way::Mail { at } => {
                let mut both = vec![0; 2 * p.size()];
                compare.pack(0, &mut both[..p.size()]);
                new.pack(0, &mut both[p.size()..]);
                w.run_errand(&Errand {
                    name,
                    deed: Deed::CompareAndSwap,
                    target: rank as u32,
                    at,
                    count: 1,
                    datatype,
                    data: Some(SendBuf::packed(&both)),
                    to: Some(result.to_mem()),
                    bytes: p.size(),
                    primitive: Some(p),
                    request: None,
                })
            }
        }
    }

    // ---- request forms

    /// [`put`](Window::put) with a request, complete when the origin's memory may be used again.
    ///
    /// # Errors
    /// As there; `RmaSync` outside of a passive epoch.
    pub fn rput(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<RequestId, Error> {
        self.passive("rput", &target)?;
        // Data are in place, or copied into messages, when this returns.
        self.put(from, target).map(|()| RequestId::DONE)
    }

    /// [`get`](Window::get) with a request, complete when the data are here.
    ///
    /// # Errors
    /// As [`rput`](Window::rput).
    pub fn rget(&self, to: RecvBuf<'_>, target: Target<'_>) -> Result<RequestId, Error> {
        self.passive("rget", &target)?;
        self.with_request(&target, |request| self.get_as("rget", to, target, request))
    }

    /// [`accumulate`](Window::accumulate) with a request, complete when the origin's memory may be used again.
    ///
    /// # Errors
    /// As [`rput`](Window::rput).
    pub fn raccumulate(&self, from: SendBuf<'_>, target: Target<'_>, op: &Op) -> Result<RequestId, Error> {
        self.passive("raccumulate", &target)?;
        self.accumulate(from, target, op).map(|()| RequestId::DONE)
    }

    /// [`get_accumulate`](Window::get_accumulate) with a request, complete when the result is here.
    ///
    /// # Errors
    /// As [`rput`](Window::rput).
    pub fn rget_accumulate(
        &self,
        from: SendBuf<'_>,
        result: RecvBuf<'_>,
        target: Target<'_>,
        op: &Op,
    ) -> Result<RequestId, Error> {
        let name = "rget accumulate";
        self.passive(name, &target)?;
        let Dest::Rank(rank) = target.rank else { return Ok(RequestId::DONE) };
        let w = self.alive(name)?;
        self.with_request(&target, |request| {
            w.combine(name, Some(from), Some(result), rank, &target, op, request)
        })
    }

    fn passive(&self, op: &'static str, target: &Target<'_>) -> Result<(), Error> {
        let w = self.alive(op)?;
        match target.rank {
            Dest::Rank(rank) => w.epoch.check_passive(w, op, u32::try_from(rank).ok()),
            Dest::Null => Ok(()),
        }
    }

    /// Runs an operation with a request where it goes by message; where it is direct it is done on return.
    fn with_request(
        &self,
        target: &Target<'_>,
        f: impl FnOnce(Option<RequestId>) -> Result<(), Error>,
    ) -> Result<RequestId, Error> {
        let w = &*self.0;
        let by_mail = match target.rank {
            Dest::Rank(rank) if target.bytes() > 0 => {
                u32::try_from(rank).is_ok_and(|r| r < w.cx.size() && matches!(w.reach(r), Reach::Mail))
                    && rank as u32 != w.cx.rank()
            }
            _ => false,
        };
        if !by_mail {
            return f(None).map(|()| RequestId::DONE);
        }
        let request = w.engine().with_port(&w.cx, |port| port.begin());
        match f(Some(request)) {
            Ok(()) => Ok(request),
            Err(e) => {
                w.engine().with_port(&w.cx, |port| port.finish(request, Err(e.clone())));
                let _ = w.engine().wait(request);
                Err(e)
            }
        }
    }
}

impl Inner {
    /// A request for what is done already.
    fn done(&self, request: Option<RequestId>) -> Result<(), Error> {
        if let Some(request) = request {
            self.engine().with_port(&self.cx, |port| port.finish(request, Ok(mpi_p2p::Status::EMPTY)));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn site<'a>(&'a self, seat: &'a crate::board::Seat, place: Place) -> Site<'a> {
        let own = &self.my_seat().own.0;
        Site { board: &self.board, seat, place, who: self.cx.rank(), own, lane: 0, threads: self.threads }
    }

    #[cold]
    fn trouble(&self, op: &'static str, rank: i32, trouble: Trouble) -> Error {
        let target = Some(rank as u32);
        match trouble {
            Trouble::Dead(dead) => self.died(op, dead, "inside of an accumulate on this memory"),
            Trouble::Kernel(e) => self.error(ErrorClass::Other, op, target, format!("its memory: {e}")),
        }
    }

    #[inline]
    fn check_types(
        &self,
        op: &'static str,
        from: &Datatype,
        bytes: usize,
        target: &Target<'_>,
    ) -> Result<(), Error> {
        let agree = Signature::agree(from.signature(), target.datatype.signature());
        if bytes == target.bytes() && (agree || bytes == 0) {
            return Ok(());
        }
        Err(self.mismatch(op, from, bytes, target))
    }

    #[inline]
    fn check_room(&self, op: &'static str, to: &RecvBuf<'_>, target: &Target<'_>) -> Result<(), Error> {
        let agree = Signature::agree(to.datatype().signature(), target.datatype.signature());
        if target.bytes() <= to.bytes() && (agree || target.bytes() == 0) {
            return Ok(());
        }
        Err(self.mismatch(op, to.datatype(), to.bytes(), target))
    }

    #[cold]
    fn mismatch(&self, op: &'static str, own: &Datatype, bytes: usize, target: &Target<'_>) -> Error {
        let rank = rank_of(target);
        if Signature::agree(own.signature(), target.datatype.signature()) {
            let detail = format!("displacement {}: {bytes} bytes here, {} there", target.at, target.bytes());
            return self.error(ErrorClass::Truncate, op, rank, detail);
        }
        let detail = format!(
            "displacement {}: elements of {} here, of {} there",
            target.at,
            own.name(),
            target.datatype.name()
        );
        self.error(ErrorClass::Type, op, rank, detail)
    }

    #[cold]
    fn not_predefined(&self, op: &'static str, rank: i32, datatype: &Datatype) -> Error {
        let detail = format!("not defined on {}", datatype.name());
        self.error(ErrorClass::Type, op, Some(rank as u32), detail)
    }

    #[cold]
    fn not_defined(&self, op: &'static str, rank: i32, what: &Op, datatype: &Datatype) -> Error {
        let detail = match what {
            Op::User(_) => "only predefined operations combine with a window".to_owned(),
            _ => format!("{} is not defined on {}", what.name(), datatype.name()),
        };
        self.error(ErrorClass::Op, op, Some(rank as u32), detail)
    }

    /// Checks epoch, rank, displacement and bounds, and finds the way.
    fn way(&self, op: &'static str, rank: i32, target: &Target<'_>) -> Result<Way<'_>, Error> {
        let to = rank as u32;
        if to >= self.cx.size() {
            let detail = format!("rank {rank} of a window of {} ranks", self.cx.size());
            return Err(self.error(ErrorClass::Rank, op, None, detail));
        }
        self.epoch.check(self, op, to)?;
        if self.flavor == Flavor::Dynamic {
            return self.way_to_address(op, to, target);
        }
        let (seat, size, unit, place) = match self.reach(to) {
            Reach::Direct { seat, base, size, unit } => (seat, size, unit, Place::Here(base)),
            Reach::Cross { seat, pid, address, size, unit } => {
                (seat, size, unit, Place::There { pid, address })
            }
            Reach::Mail => {
                return match u64::try_from(target.at) {
                    Ok(at) => Ok(Way::Mail { at }),
                    Err(_) => Err(self.negative(op, to, target)),
                };
            }
        };
        let inside = || {
            let (first, end) = span(target.count, target.datatype)?;
            let from = target.at.checked_mul(unit as i64)?;
            let (first, end) = (from.checked_add(first as i64)?, from.checked_add(end as i64)?);
            (first >= 0 && end <= size as i64 && target.at >= 0).then_some(from as usize)
        };
        match inside() {
            Some(offset) => Ok(Way::Direct { place, offset, seat }),
            None => Err(self.out_of_range(op, to, target, size, unit)),
        }
    }

    fn way_to_address(&self, op: &'static str, to: u32, target: &Target<'_>) -> Result<Way<'_>, Error> {
        if to != self.cx.rank() {
            return Ok(Way::Mail { at: target.at as u64 });
        }
        let fits = span(target.count, target.datatype).is_some_and(|(first, end)| {
            let from = (target.at as usize).wrapping_add(first as usize);
            self.is_attached(from, (end - first) as usize)
        });
        if !fits {
            let detail = format!("{} bytes at {:#x} are not attached", target.bytes(), target.at);
            return Err(self.error(ErrorClass::RmaRange, op, Some(to), detail));
        }
        let base = std::ptr::with_exposed_provenance_mut(target.at as usize);
        Ok(Way::Direct { place: Place::Here(base), offset: 0, seat: self.my_seat() })
    }

    #[cold]
    fn negative(&self, op: &'static str, to: u32, target: &Target<'_>) -> Error {
        let detail = format!("displacement {} is negative", target.at);
        self.error(ErrorClass::Disp, op, Some(to), detail)
    }

    #[cold]
    fn out_of_range(
        &self,
        op: &'static str,
        to: u32,
        target: &Target<'_>,
        size: usize,
        unit: usize,
    ) -> Error {
        if target.at < 0 {
            return self.negative(op, to, target);
        }
        let detail = format!(
            "displacement {} (units of {unit} bytes): {} × {} of {} bytes, the target's part has {size} bytes",
            target.at,
            target.count,
            target.datatype.name(),
            target.datatype.size(),
        );
        self.error(ErrorClass::RmaRange, op, Some(to), detail)
    }

    /// Combines, whatever the types.
    #[allow(clippy::too_many_arguments, reason = "MPI_Rget_accumulate has more")]
    fn combine(
        &self,
        name: &'static str,
        from: Option<SendBuf<'_>>,
        result: Option<RecvBuf<'_>>,
        rank: i32,
        target: &Target<'_>,
        op: &Op,
        request: Option<RequestId>,
    ) -> Result<(), Error> {
        let from = from.filter(|_| !matches!(op, Op::NoOp));
        let Some(p) = target.datatype.homogeneous() else {
            if target.bytes() == 0 {
                return self.done(request);
            }
            return Err(self.not_predefined(name, rank, target.datatype));
        };
        if matches!(op, Op::User(_)) || !op.defined_on(p) {
            return Err(self.not_defined(name, rank, op, target.datatype));
        }
        if let Some(from) = &from {
            self.check_types(name, from.datatype(), from.bytes(), target)?;
        }
        if let Some(result) = &result {
            self.check_room(name, result, target)?;
        }
        let way = self.way(name, rank, target)?;
        let n = target.bytes() / p.size();
        match way {
            Way::Direct { place, offset, seat } => {
                let site = self.site(seat, place);
                let mut input = match &from {
                    Some(from) => {
                        let mut packed = vec![0; from.bytes()];
                        from.pack(0, &mut packed);
                        Laid::of_packed(p, n, &packed)
                    }
                    None => Laid::new(p, 0),
                };
                let mut old = Laid::new(p, if result.is_some() { n } else { 0 });
                let combined =
                    self.combine_strips(&site, p, offset, target, op, &mut input, &mut old, &result);
                combined.map_err(|t| self.trouble(name, rank, t))?;
                if let Some(result) = &result {
                    result.unpack(0, &old.pack());
                }
                self.done(request)
            }
            Way::Mail { at } => self.run_errand(&Errand {
                name,
                deed: if result.is_some() { Deed::GetAccumulate(op) } else { Deed::Accumulate(op) },
                target: rank as u32,
                at,
                count: target.count,
                datatype: target.datatype,
                data: from,
                to: result.map(|r| r.to_mem()),
                bytes: target.bytes(),
                primitive: Some(p),
                request,
            }),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one operation")]
    fn combine_strips(
        &self,
        site: &Site<'_>,
        p: Primitive,
        offset: usize,
        target: &Target<'_>,
        op: &Op,
        input: &mut Laid,
        old: &mut Laid,
        result: &Option<RecvBuf<'_>>,
    ) -> Result<(), Trouble> {
        let (input, old) = (input.ptr(), result.is_some().then(|| old.ptr()));
        let (mut done, mut all) = (0, Ok(()));
        let mut block = |at: isize, n: usize| {
            if all.is_ok() {
                let skip = done * p.extent();
                let at = offset.wrapping_add(at as usize);
                let old = old.map(|o| o.wrapping_add(skip));
                // SAFETY: the span of the whole lies inside the target's memory; the temporaries have all elements.
                all = unsafe { site.combine(op, p, at, n, input.wrapping_add(skip), old) };
                done += n;
            }
        };
        match target.datatype {
            Datatype::Predefined(_) => block(0, target.count),
            derived => derived.strips(target.count, 0, target.bytes(), &mut |strip| {
                for i in 0..strip.repeat as isize {
                    block(strip.offset + strip.stride * i, strip.bytes / p.size());
                }
            }),
        }
        all
    }
}

fn rank_of(target: &Target<'_>) -> Option<u32> {
    match target.rank {
        Dest::Rank(rank) => u32::try_from(rank).ok(),
        Dest::Null => None,
    }
}
