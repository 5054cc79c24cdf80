//! Moving everything on, and waiting: spin, hand the processor over, park.

use crate::core::{Core, Leftover, State};
use crate::engine::{Engine, Shared};
use crate::limits::{
    CLOCK_TURNS, NOTE_MANY_OPERATIONS, NOTE_MANY_PERIOD, OUTSIDE_SLICE_MAX, OUTSIDE_SLICE_MIN, PARK_SLICE,
    PARK_SLICE_MIN, PARK_SLICE_WORD, POLL_BUDGET_MESSAGES, POLL_QUIET_TURNS, SHORT_SLEEP,
};
use crate::patience::{Patience, Pause};
use crate::record;
use crate::report::{Blocked, Fatal};
use crate::sleep::{Bed, arm, disarm, sleep};
use mpi_btl::{BtlRx, Polled};
use mpi_node::{Guard, Parker};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// A backend that found nothing this often in a row is polled only once in a while.
const QUIET_AFTER: u8 = 200;

impl Core {
    /// Polls the backends and does what follows from what they delivered. True when anything moved.
    #[inline]
    pub fn poll(&mut self) -> bool {
        self.since_quiet += 1;
        self.poll_those(self.since_quiet >= POLL_QUIET_TURNS)
    }

    /// The same with the quiet backends in any case.
    pub fn poll_all(&mut self) -> bool {
        self.poll_those(true)
    }

    #[inline]
    fn poll_those(&mut self, all: bool) -> bool {
        let mut moved = false;
        if all {
            self.since_quiet = 0;
        }
        for (rx, idle) in self.rx.iter_mut().zip(&mut self.idle) {
            if all || *idle < QUIET_AFTER {
                if rx.poll(POLL_BUDGET_MESSAGES, &mut self.state) == Polled::Progress {
                    *idle = 0;
                    moved = true;
                } else {
                    *idle = idle.saturating_add(1);
                }
            }
        }
        self.state.settle(&mut self.rx);
        if !self.state.looking.is_empty() {
            self.state.look_again();
        }
        moved
    }
}

impl State {
    /// Does what deliveries left to be done.
    #[inline]
    pub fn settle(&mut self, rx: &mut [Box<dyn BtlRx>]) {
        let idle = self.dirty.is_empty() && self.retry.is_empty() && self.ready.is_empty();
        if !idle || !self.revoked.is_empty() {
            self.settle_now(rx);
        }
    }

    #[cold]
    fn settle_now(&mut self, rx: &mut [Box<dyn BtlRx>]) {
        for (route, bulk) in self.revoked.drain(..) {
            rx[route].revoke(bulk);
        }
        while let Some(ep) = self.dirty.pop() {
            self.pump(ep);
        }
        for i in std::mem::take(&mut self.retry) {
            if self.requests[i].phase == crate::request::Phase::Pulling {
                self.pull(i);
            }
        }
        self.advance_ready();
        // What activities sent must not wait for the next call.
        self.flush_owed();
    }

    /// Pushes out what was held back.
    #[inline]
    pub fn flush_owed(&mut self) {
        self.since_flush = 0;
        if self.owed {
            self.flush_now();
        }
    }

    /// Owed until nothing waits inside the process any more.
    #[cold]
    fn flush_now(&mut self) {
        self.owed = false;
        for tx in &mut self.tx {
            tx.flush();
            self.owed |= !tx.quiet();
        }
    }
}

thread_local! {
    static PARKER: Arc<Parker> = Arc::new(Parker::new());
}

/// What a waiting thread waits for.
pub(crate) trait Wait {
    type Result;
    /// The result, once it is there.
    fn done(&mut self, state: &mut State) -> Option<Self::Result>;
    /// Marks what is waited for, so that its completion wakes `waiter`.
    fn watch(&self, state: &mut State, waiter: u32);
    /// Any new message may end the wait.
    fn probing(&self) -> bool {
        false
    }
    /// What is waited for comes from elsewhere than the backends, and is there.
    fn came(&self) -> bool {
        false
    }
    /// What is said of it when it takes long.
    fn facts(&self, state: &State) -> Blocked;
}

/// A wait that has become long.
struct Long {
    key: u64,
    since: Instant,
    reported: bool,
    /// When what it waits for was last written down, and of how many operations.
    noted: (Instant, usize),
}

impl Long {
    /// What was written down is good for a while longer: finding it out anew takes time that grows with the number of
    /// operations, and a thread goes to sleep often while many of them complete.
    fn is_noted(&self) -> bool {
        self.noted.1 >= NOTE_MANY_OPERATIONS && self.noted.0.elapsed() < NOTE_MANY_PERIOD
    }
}

impl Engine {
    /// Waits with the lock `core`, which is let go while the thread sleeps, and afterwards.
    #[inline]
    pub(crate) fn wait_until<'a, W: Wait>(&'a self, core: Guard<'a, Core>, wait: W) -> W::Result {
        let (core, result) = self.wait_inside(core, wait);
        self.shared.leave(core);
        result
    }

    /// The same, and gives the lock back.
    pub(crate) fn wait_inside<'a, W: Wait>(
        &'a self,
        mut core: Guard<'a, Core>,
        mut wait: W,
    ) -> (Guard<'a, Core>, W::Result) {
        core.state.flush_owed();
        if core.state.multiple {
            return self.wait_among_threads(core, wait);
        }
        // What is complete already, as small sends are, pays for no poll.
        if let Some(result) = wait.done(&mut core.state) {
            return (core, result);
        }
        let mut waiting = record::Waiting::NOT;
        let mut patience = Patience::new(&self.shared.spin, core.state.slept_short);
        let mut long = None;
        loop {
            waiting.begin(patience.turns());
            let moved = core.poll();
            if let Some(result) = wait.done(&mut core.state) {
                self.finish_long(&mut core, long);
                return (core, result);
            }
            if moved {
                patience.renew();
                core.state.flush_owed();
                core = self.shared.tell(core);
                continue;
            }
            match patience.next() {
                Pause::Again => {
                    if patience.turns() % CLOCK_TURNS == 0 {
                        core.yield_to_others();
                    }
                }
                Pause::Yield => {
                    record::waits_long();
                    core.yield_to_others();
                    patience.yield_now();
                }
                Pause::Park => {
                    core = self.park(core, &wait, &mut long, false);
                    patience.renew();
                }
            }
        }
    }

    /// Waits for what other processes bring about in shared memory, of which no backend hears.
    /// `sleep` sleeps on it, at most as long as it is told.
    pub(crate) fn wait_outside<W: Wait>(&self, mut wait: W, sleep: &dyn Fn(Duration)) -> W::Result {
        let mut core = self.shared.lock.enter();
        core.state.flush_owed();
        let mut patience = Patience::new(&self.shared.spin, core.state.slept_short);
        let mut long = None;
        let mut slice = OUTSIDE_SLICE_MIN;
        let mut waiting = record::Waiting::NOT;
        loop {
            // Another thread may sleep in the backends' arms.
            if !core.state.waiters.polling && core.poll() {
                core.state.flush_owed();
                patience.renew();
            }
            if let Some(result) = wait.done(&mut core.state) {
                self.finish_long(&mut core, long);
                self.shared.leave(core);
                return result;
            }
            waiting.begin(patience.turns());
            match patience.next() {
                Pause::Again => {
                    if patience.turns() % CLOCK_TURNS == 0 {
                        core.yield_to_others();
                    }
                }
                Pause::Yield if core.state.multiple => {
                    record::waits_long();
                    drop(core);
                    patience.yield_now();
                    core = self.shared.lock.enter();
                }
                Pause::Yield => {
                    record::waits_long();
                    core.yield_to_others();
                    patience.yield_now();
                }
                Pause::Park => {
                    self.note_long(&mut core.state, &wait, &mut long);
                    core.state.flush_owed();
                    core = self.shared.tell(core);
                    drop(core);
                    sleep(slice);
                    slice = (slice * 2).min(OUTSIDE_SLICE_MAX);
                    core = self.shared.lock.enter();
                    core.poll_all();
                    core = self.report_long(core, &wait, &mut long);
                }
            }
        }
    }

    /// Sleeps until a backend wakes this thread, at most one slice.
    fn park<'a, W: Wait>(
        &'a self,
        mut core: Guard<'a, Core>,
        wait: &W,
        long: &mut Option<Long>,
        descriptors: bool,
    ) -> Guard<'a, Core> {
        self.note_long(&mut core.state, wait, long);
        core.state.forget_dropped();
        core.state.flush_owed();
        let Some(bed) = arm(&mut core.rx, descriptors) else { return core };
        // What came between the last look and arming is seen now, or has changed the bed.
        if core.poll_all() || wait.came() || core.state.has_news() {
            disarm(&mut core.rx);
            return self.shared.tell(core);
        }
        core.state.waiters.fall_asleep(&bed);
        let doorbell = core.state.waiters.doorbell.clone();
        let mut slice = slice_of(&bed, descriptors, core.state.limits.blocked_report);
        if !core.state.retry.is_empty() {
            // Nobody says when the transport has room for a further pull.
            slice = PARK_SLICE_MIN;
        }
        let asleep = Instant::now();
        drop(core);
        sleep(&bed, &doorbell, slice);
        let mut core = self.shared.lock.enter();
        core.state.slept_short = asleep.elapsed() < SHORT_SLEEP;
        core.state.waiters.awake();
        disarm(&mut core.rx);
        self.report_long(core, wait, long)
    }

    /// Writes the operation down as blocked, and what it waits for now: of several requests some
    /// may have completed since the last time.
    fn note_long<W: Wait>(&self, state: &mut State, wait: &W, long: &mut Option<Long>) {
        state.seek();
        if long.as_ref().is_some_and(Long::is_noted) {
            return;
        }
        let facts = wait.facts(state);
        let noted = (Instant::now(), facts.others);
        record::waits_for(facts.waits_for.first().map(|ep| ep.0));
        match long {
            Some(long) => {
                long.noted = noted;
                if let Some(blocked) = state.waiters.blocked.iter_mut().find(|b| b.0 == long.key) {
                    blocked.2 = facts;
                }
            }
            None => {
                let key = state.waiters.blocked.last().map_or(0, |b| b.0 + 1);
                let since = noted.0;
                state.waiters.blocked.push((key, since, facts));
                *long = Some(Long { key, since, reported: false, noted });
            }
        }
    }

    /// Tells the hook of an operation that has been blocked for too long.
    fn report_long<'a, W: Wait>(
        &'a self,
        core: Guard<'a, Core>,
        wait: &W,
        long: &mut Option<Long>,
    ) -> Guard<'a, Core> {
        let Some(long) = long else { return core };
        if long.reported || long.since.elapsed() < core.state.limits.blocked_report {
            return core;
        }
        long.reported = true;
        let mut facts = wait.facts(&core.state);
        facts.since = long.since.elapsed();
        drop(core);
        (self.shared.hooks.on_blocked)(&facts);
        self.shared.lock.enter()
    }

    fn finish_long(&self, core: &mut Guard<'_, Core>, long: Option<Long>) {
        if let Some(long) = long {
            core.state.waiters.blocked.retain(|b| b.0 != long.key);
        }
    }

    /// The same where several threads wait: one polls, the others sleep until what they wait for is
    /// done, or until it is their turn to poll.
    #[cold]
    fn wait_among_threads<'a, W: Wait>(
        &'a self,
        mut core: Guard<'a, Core>,
        mut wait: W,
    ) -> (Guard<'a, Core>, W::Result) {
        let parker = PARKER.with(Arc::clone);
        let me = core.state.waiters.register(parker.clone(), wait.probing());
        let mut patience = Patience::new(&self.shared.spin, core.state.slept_short);
        let mut long = None;
        let mut polls = false;
        let mut waiting = record::Waiting::NOT;
        let result = loop {
            if let Some(result) = wait.done(&mut core.state) {
                break result;
            }
            waiting.begin(patience.turns());
            core.state.waiters.rest(me);
            wait.watch(&mut core.state, me);
            if !polls && !core.state.waiters.polling {
                polls = true;
                core.state.waiters.polling = true;
                core.state.waiters.poller = Some(me);
            }
            if !polls {
                self.note_long(&mut core.state, &wait, &mut long);
                drop(core);
                parker.park(Some(PARK_SLICE));
                core = self.shared.lock.enter();
                core = self.report_long(core, &wait, &mut long);
                continue;
            }
            if core.poll() {
                core.state.flush_owed();
                core = self.shared.tell(core);
                patience.renew();
                continue;
            }
            match patience.next() {
                Pause::Again => core.yield_to_others(),
                Pause::Yield => {
                    record::waits_long();
                    drop(core);
                    patience.yield_now();
                    core = self.shared.lock.enter();
                }
                Pause::Park => {
                    core = self.park(core, &wait, &mut long, true);
                    patience.renew();
                }
            }
        };
        core.state.waiters.leave(me);
        // Also when this thread was asked to poll and found its own result first.
        if polls || !core.state.waiters.polling {
            core.state.waiters.hand_over();
        }
        self.finish_long(&mut core, long);
        (core, result)
    }
}

/// How long to sleep. Other threads of the process cannot be sure to wake a sleeper on a backend's
/// word, so that one looks around more often.
fn slice_of(bed: &Bed, among_threads: bool, report: Duration) -> Duration {
    let slice = PARK_SLICE.min(report.max(PARK_SLICE_MIN));
    match bed {
        Bed::Word(..) if among_threads => PARK_SLICE_MIN,
        Bed::Word(..) => slice.min(PARK_SLICE_WORD),
        Bed::Descriptors(_) => slice,
    }
}

/// What is done where the lock is free.
pub(crate) struct News {
    fatal: Vec<Fatal>,
    wakers: Vec<Waker>,
    leftovers: Vec<Leftover>,
}

impl News {
    /// What the end of this process makes no news any more.
    pub fn without_fatal(self) -> News {
        News { fatal: Vec::new(), ..self }
    }
}

impl Shared {
    /// Lets the lock go and tells the hooks and the helper what they are to know.
    #[inline(always)]
    pub fn leave(&self, core: Guard<'_, Core>) {
        let state = &core.state;
        if state.serve != 0 || state.owed || !state.fatal.is_empty() {
            self.leave_with_news(core);
        }
    }

    #[cold]
    fn leave_with_news(&self, mut core: Guard<'_, Core>) {
        let news = core.state.news();
        let serve = core.state.serve != 0 || core.state.owed;
        drop(core);
        self.spread(news);
        if serve {
            self.helper.needed();
        }
    }

    /// Tells hooks and wakers with the lock let go meanwhile.
    #[inline]
    fn tell<'a>(&'a self, core: Guard<'a, Core>) -> Guard<'a, Core> {
        if core.state.has_news() { self.tell_now(core) } else { core }
    }

    #[cold]
    fn tell_now<'a>(&'a self, mut core: Guard<'a, Core>) -> Guard<'a, Core> {
        let news = core.state.news();
        drop(core);
        self.spread(news);
        self.lock.enter()
    }

    /// Calls hooks and wakers, and drops what is left over, without the lock.
    pub fn spread(&self, news: News) {
        news.fatal.iter().for_each(|fatal| (self.hooks.on_fatal)(fatal));
        news.wakers.into_iter().for_each(Waker::wake);
        drop(news.leftovers);
    }
}

impl State {
    /// Hooks or wakers are to be called, or something to be dropped.
    #[inline]
    fn has_news(&self) -> bool {
        !self.fatal.is_empty() || !self.wakers.is_empty() || !self.leftovers.is_empty()
    }

    /// What hooks and wakers are to be told, for [`Shared::spread`].
    pub fn news(&mut self) -> News {
        let (wakers, leftovers) = (std::mem::take(&mut self.wakers), std::mem::take(&mut self.leftovers));
        self.serve -= (wakers.len() + leftovers.len()) as u32;
        News { fatal: std::mem::take(&mut self.fatal), wakers, leftovers }
    }
}
