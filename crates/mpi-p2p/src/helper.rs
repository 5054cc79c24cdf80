//! Progress without calls: a thread that moves large sends on while the rank computes.
//!
//! It is made on first need and sleeps on a futex of its own while nothing needs it. While something
//! does, it waits on the backends' service descriptors and looks around in between; it never enters
//! the engine while a thread of the rank is inside.

use crate::engine::Shared;
use crate::limits::{
    HELPER_IDLE_PARTS, HELPER_LINGER, HELPER_PERIOD, HELPER_PERIOD_MAX, HELPER_REPORT_PERIOD,
    HELPER_STANDING_PERIOD,
};
use crate::sleep::wait_readable;
use mpi_node::Parker;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NONE: u32 = 0;
const ASLEEP: u32 = 1;
const ACTIVE: u32 = 2;
const STOP: u32 = 3;

/// The helper as the engine sees it.
pub(crate) struct Helper {
    state: AtomicU32,
    parker: Parker,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What it works for; set once the engine stands.
    engine: Mutex<Weak<Shared>>,
    descriptors: Mutex<Vec<RawFd>>,
}

impl Helper {
    /// `wanted`: else it is over before it has begun.
    pub fn new(descriptors: Vec<RawFd>, wanted: bool) -> Helper {
        Helper {
            state: AtomicU32::new(if wanted { NONE } else { STOP }),
            parker: Parker::new(),
            thread: Mutex::new(None),
            engine: Mutex::new(Weak::new()),
            descriptors: Mutex::new(descriptors),
        }
    }

    /// One more backend has something to wait on.
    pub fn watch(&self, descriptor: RawFd) {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner).push(descriptor);
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn belongs_to(&self, engine: &Arc<Shared>) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(engine);
    }

    /// A thread leaves MPI while something needs progress. One plain load where the helper is up.
    #[inline]
    pub fn needed(&self) {
        if self.state.load(Ordering::Relaxed) != ACTIVE {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        match self.state.compare_exchange(ASLEEP, ACTIVE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => self.parker.unpark(),
            Err(NONE) => self.start(),
            Err(_) => {}
        }
    }

    fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = self.engine.lock().unwrap_or_else(PoisonError::into_inner).upgrade() else {
            return;
        };
        if self.state.compare_exchange(NONE, ACTIVE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let spawned =
                std::thread::Builder::new().name("mpi-progress".into()).spawn(move || serve(&engine));
            // Without a thread, progress is made by calls alone: slower, not wrong.
            match spawned {
                Ok(handle) => *thread = Some(handle),
                Err(_) => self.state.store(STOP, Ordering::Release),
            }
        }
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.state.store(STOP, Ordering::Release);
        self.parker.unpark();
        let handle = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            // The helper itself may hold the last reference: it cannot wait for itself.
            if handle.thread().id() != std::thread::current().id() {
                _ = handle.join();
            }
        }
    }
}

/// What one look found.
enum Look {
    /// Nothing needs progress.
    Needless,
    /// A thread of the rank is inside; it makes the progress.
    Occupied,
    /// Something moved, or nothing did.
    Served(bool),
    /// Nothing is under way; something may come at any time.
    Stood,
}

fn serve(engine: &Shared) {
    let helper = &engine.helper;
    let mut needed = Instant::now();
    let mut moved = Instant::now();
    let mut report = Instant::now();
    let mut back_off = HELPER_PERIOD;
    // The rank may come back at once: it is given a moment.
    helper.parker.park(Some(HELPER_PERIOD));
    while helper.state.load(Ordering::Acquire) != STOP {
        match look(engine) {
            Look::Served(progress) => {
                needed = Instant::now();
                back_off = HELPER_PERIOD;
                if progress {
                    moved = needed;
                }
                if report <= needed {
                    report = needed + HELPER_REPORT_PERIOD;
                    report_awaited(engine);
                }
                // What has not moved for long is not looked at so often.
                let period = (moved.elapsed() / HELPER_IDLE_PARTS).clamp(HELPER_PERIOD, HELPER_PERIOD_MAX);
                wait_readable(&helper.descriptors(), None, period);
            }
            Look::Stood => {
                needed = Instant::now();
                back_off = HELPER_PERIOD;
                wait_readable(&helper.descriptors(), None, HELPER_STANDING_PERIOD);
            }
            Look::Occupied => {
                needed = Instant::now();
                helper.parker.park(Some(back_off));
                back_off = (back_off * 2).min(Duration::from_millis(4));
            }
            Look::Needless if needed.elapsed() < HELPER_LINGER => {
                helper.parker.park(Some(HELPER_PERIOD * 4));
            }
            Look::Needless => {
                if helper.state.compare_exchange(ACTIVE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err()
                {
                    continue;
                }
                while helper.state.load(Ordering::Acquire) == ASLEEP {
                    helper.parker.park(None);
                }
                needed = Instant::now();
                moved = needed;
                back_off = HELPER_PERIOD;
                helper.parker.park(Some(HELPER_PERIOD));
            }
        }
    }
}

fn look(engine: &Shared) -> Look {
    let Some(mut core) = engine.lock.try_enter() else { return Look::Occupied };
    if core.state.waiters.is_asleep() || core.state.waiters.polling {
        return Look::Occupied;
    }
    if core.state.serve == 0 && !core.state.owed && core.state.standing == 0 {
        return Look::Needless;
    }
    core.state.flush_owed();
    let moved = core.poll_all();
    core.state.flush_owed();
    let news = core.state.news();
    for rx in &mut core.rx {
        rx.before_service();
    }
    let quiet = !moved && core.state.serve == 0 && !core.state.owed && core.state.looking.is_empty();
    drop(core);
    engine.spread(news);
    if quiet { Look::Stood } else { Look::Served(moved) }
}

/// Tells the hook of what tasks have awaited for too long: no thread waits that could.
fn report_awaited(engine: &Shared) {
    let Some(mut core) = engine.lock.try_enter() else { return };
    let overdue = core.state.overdue_awaited();
    drop(core);
    if let Some(facts) = overdue {
        (engine.hooks.on_blocked)(&facts);
    }
}
