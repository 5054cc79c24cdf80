//! Accumulate and its kin (MPI 5.0, sections 12.3.4 and 12.3.5): checked, then done directly or sent.

use crate::access::Target;
use crate::accumulate::{Site, Trouble};
use crate::memory::Laid;
use crate::messages::{Deed, Errand};
use crate::way::Way;
use crate::window::{Inner, Window};
use mpi_comm::Dest;
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_p2p::record::{self, Way as Moved, ops::Op as RecordedOp};
use mpi_p2p::{Error, ErrorClass, RequestId};

impl Window {
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
}

impl Inner {
    /// Combines, whatever the types.
    #[allow(clippy::too_many_arguments, reason = "MPI_Rget_accumulate has more")]
    pub(crate) fn combine(
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
}
