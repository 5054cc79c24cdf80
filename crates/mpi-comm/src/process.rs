//! The life of MPI in this process: initialised once, finalised once, or aborted.

use crate::comm::{Comm, WaitsFor};
use crate::core::Predefined;
use crate::errhandler::fatal;
use crate::limits::{
    CLOSE_TIMEOUT, CONTROL_THREAD_STACK_BYTES, ERROR_EXIT_STATUS, FLUSH_TIMEOUT, START_FAILURE_GRACE,
};
use crate::start;
use mpi_btl::Btl;
use mpi_p2p::{Engine, Error, ErrorClass, record};
use mpi_pmi::Client;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How many threads of a process call MPI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ThreadLevel {
    /// There is one thread.
    Single,
    /// Only the thread that initialised.
    Funneled,
    /// One at a time.
    Serialized,
    /// Any, at once.
    Multiple,
}

/// A process between `init` and `finalize`.
pub(crate) struct Process {
    pub(crate) predefined: Predefined,
    pub(crate) engine: Arc<Engine>,
    pub(crate) client: Arc<dyn Client>,
    pub(crate) rank: u32,
    pub(crate) level: ThreadLevel,
    pub(crate) main: ThreadId,
    /// The way to the processes that spawned this world.
    pub(crate) parent: Mutex<Option<Comm>>,
    pub(crate) appnum: Option<i32>,
    pub(crate) universe_size: Option<u32>,
    /// After this time a finalize that cannot complete says what it waits for.
    pub(crate) finalize_report: Duration,
}

enum State {
    Before,
    Running(Arc<Process>),
    /// Being finalised: what user callbacks need still works.
    Ending(Arc<Process>),
    Over,
}

/// Set once, at initialisation: the way to the engine that costs a load.
static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();

static STATE: RwLock<State> = RwLock::new(State::Before);

/// Initialises MPI: joins the world that the launcher made, or a world of one. The thread level
/// asked for is the level had.
///
/// # Errors
/// `Other`, when MPI was initialised before, or the start-up fails; the text says which and why.
pub fn init(level: ThreadLevel, backends: &[&'static dyn Btl]) -> Result<ThreadLevel, Error> {
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    match *state {
        State::Before => {}
        State::Running(_) | State::Ending(_) => return Err(misuse("init", "MPI is initialised already")),
        State::Over => return Err(misuse("init", "MPI was finalised and cannot be initialised again")),
    }
    let process = start::start(level, backends)
        .map_err(|error| Error::new(ErrorClass::Other, "init", error.to_string()))?;
    let _ = ENGINE.set(process.engine.clone());
    process.keep_predefined(true);
    *state = State::Running(Arc::new(process));
    Ok(level)
}

/// Exit status of a process that could not join its world.
const START_FAILURE_STATUS: i32 = 3;

/// [`init`] for a face that cannot return an error: prints it and exits with status 3.
pub fn init_or_exit(level: ThreadLevel, backends: &[&'static dyn Btl]) -> ThreadLevel {
    match init(level, backends) {
        Ok(level) => level,
        Err(error) => {
            let rank = std::env::var(mpi_pmi::variables::RANK).ok();
            if rank.is_some_and(|rank| rank.trim() != "0") {
                // What is wrong is usually wrong for all ranks. Rank 0 says so, and the launcher ends the others
                // meanwhile.
                std::thread::sleep(START_FAILURE_GRACE);
            }
            eprintln!("mpi: {error}");
            std::process::exit(START_FAILURE_STATUS);
        }
    }
}

/// The engine, from initialisation until finalisation.
#[inline]
pub(crate) fn engine(op: &'static str) -> Result<&'static Arc<Engine>, Error> {
    match ENGINE.get() {
        Some(engine) if !engine.is_closed() => Ok(engine),
        state => Err(no_engine(op, state.is_some())),
    }
}

#[cold]
fn no_engine(op: &'static str, was: bool) -> Error {
    misuse(op, if was { mpi_p2p::FINALISED } else { "MPI is not initialised" })
}

/// The process, while there is one.
pub(crate) fn running(op: &'static str) -> Result<Arc<Process>, Error> {
    match &*STATE.read().unwrap_or_else(PoisonError::into_inner) {
        State::Running(process) | State::Ending(process) => Ok(process.clone()),
        State::Before => Err(misuse(op, "MPI is not initialised")),
        State::Over => Err(misuse(op, mpi_p2p::FINALISED)),
    }
}

fn misuse(op: &'static str, detail: &str) -> Error {
    Error::new(ErrorClass::Other, op, detail)
}

/// True once `init` has succeeded, after `finalize` too.
pub fn is_initialized() -> bool {
    !matches!(*STATE.read().unwrap_or_else(PoisonError::into_inner), State::Before)
}

/// True once `finalize` has completed.
pub fn is_finalized() -> bool {
    matches!(*STATE.read().unwrap_or_else(PoisonError::into_inner), State::Over)
}

/// The communicator of all processes of the world. Before initialisation and after finalisation the
/// error is printed and the process ends, as with every call that concerns no communicator and
/// returns no error; [`try_world`] returns it.
#[track_caller]
pub fn world() -> Comm {
    match try_world() {
        Ok(world) => world,
        // No closure, which would hide the caller's place.
        Err(error) => fatal(&error),
    }
}

/// As [`world`].
///
/// # Errors
/// `Other` before initialisation and after finalisation.
pub fn try_world() -> Result<Comm, Error> {
    running("world").map(|process| process.predefined.world.clone())
}

/// The communicator of the calling process alone; as [`world`].
#[track_caller]
pub fn self_comm() -> Comm {
    match try_self_comm() {
        Ok(comm) => comm,
        Err(error) => fatal(&error),
    }
}

/// As [`self_comm`].
///
/// # Errors
/// `Other` before initialisation and after finalisation.
pub fn try_self_comm() -> Result<Comm, Error> {
    running("self").map(|process| process.predefined.self_comm.clone())
}

/// The inter-communicator to the processes that spawned this one; none for a process that was not
/// spawned, or has disconnected from them.
pub fn parent() -> Option<Comm> {
    running("get parent").ok()?.parent.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Disconnects from the processes that spawned this one, as [`Comm::disconnect`]; nothing where there
/// are none. Other handles to that communicator keep it.
pub fn disconnect_parent() {
    if let Ok(process) = running("disconnect parent") {
        process.forget_parent();
    }
}

/// The thread level asked for at initialisation; `Single` before.
pub fn thread_level() -> ThreadLevel {
    running("query thread").map_or(ThreadLevel::Single, |process| process.level)
}

/// True on the thread that initialised MPI.
pub fn is_main_thread() -> bool {
    running("is thread main").is_ok_and(|process| process.main == std::thread::current().id())
}

/// Number of the program in a job of several (`MPI_APPNUM`), where that is known.
pub fn appnum() -> Option<i32> {
    running("get attribute").ok()?.appnum
}

/// Number of processes that the launcher believes could run (`MPI_UNIVERSE_SIZE`), where that is
/// known.
pub fn universe_size() -> Option<u32> {
    running("get attribute").ok()?.universe_size
}

/// Seconds since some time in the past, which stays the same while the process runs.
pub fn wtime() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// The resolution of [`wtime`], in seconds.
pub fn wtick() -> f64 {
    1e-9
}

/// Name of the host.
pub fn processor_name() -> String {
    mpi_pmi::host_name()
}

/// Version of the MPI standard: major, minor.
pub fn version() -> (i32, i32) {
    (4, 1)
}

/// Finalises MPI. Waits until every process of the world has come here; after ten seconds it says
/// what it waits for.
///
/// # Errors
/// `Other` when MPI is not running; what keeps the end from being reached in good order, in which
/// case MPI is finalised all the same.
pub fn finalize() -> Result<(), Error> {
    let process = {
        let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
        let process = match &*state {
            State::Running(process) => process.clone(),
            State::Before => return Err(misuse("finalize", "MPI is not initialised")),
            State::Ending(_) | State::Over => return Err(misuse("finalize", "MPI is finalised already")),
        };
        *state = State::Ending(process.clone());
        process
    };
    let recording = record::op(const { record::ops::Op::named("finalize") }, || None);
    let result = process.end();
    drop(recording);
    record::finished();
    *STATE.write().unwrap_or_else(PoisonError::into_inner) = State::Over;
    result
}

/// What a face does when the value that stands for MPI goes out of scope: finalises, or, while
/// the thread unwinds from a panic, ends the job with status 101. Does nothing when MPI is not
/// running.
pub fn leave() {
    if running("finalize").is_err() {
        return;
    }
    if std::thread::panicking() {
        // The panic has printed its own message. Nobody can be waited for.
        end_job(101, "a thread that uses MPI panicked");
    }
    if let Err(error) = finalize() {
        abort(ERROR_EXIT_STATUS, &format!("{}: {error}", error.class.name()));
    }
}

/// Ends the job; the launcher, or this process where there is none, prints the message. The process
/// exits with the low byte of `code`, with 1 where that is 0.
pub fn abort(code: i32, message: &str) -> ! {
    if running("abort").is_err() {
        eprintln!("mpi: {message}");
    }
    end_job(code, message)
}

fn end_job(code: i32, message: &str) -> ! {
    flush_output();
    if let Ok(process) = running("abort") {
        process.client.abort(code, message);
    }
    let status = mpi_pmi::exit_status(code);
    if is_finalized() {
        // The program may be at its own end already, in the destructor of a thread's value: to exit in an exit would
        // abort.
        crate::comm::exit_at_once(status);
    }
    std::process::exit(status)
}

/// Hands what the program has printed to the launcher before the launcher hears of the end, so that
/// it is shown before the report of it. Another thread may hold the stream for ever, so the wait is
/// bounded.
fn flush_output() {
    let (flushed, done) = std::sync::mpsc::channel();
    let flush = move || {
        let _ = std::io::Write::flush(&mut std::io::stdout());
        let _ = flushed.send(());
    };
    let builder = std::thread::Builder::new().stack_size(CONTROL_THREAD_STACK_BYTES);
    if builder.spawn(flush).is_ok() {
        let _ = done.recv_timeout(FLUSH_TIMEOUT);
    }
}

impl Process {
    fn forget_parent(&self) {
        // Taken first: the communicator's callbacks may ask for it.
        let parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(parent);
    }

    fn keep_predefined(&self, kept: bool) {
        self.predefined.world.keep(kept);
        self.predefined.self_comm.keep(kept);
    }

    fn end(&self) -> Result<(), Error> {
        let Predefined { world, self_comm } = &self.predefined;
        self.keep_predefined(false);
        self.engine.ending();
        // The standard frees the attributes of the own communicator first, so that libraries can
        // still communicate in their callbacks.
        let callbacks = self_comm.attributes().clear(self_comm);
        let launcher = |error: mpi_pmi::PmiError| misuse("finalize", &error.to_string());
        self.client.finalizing().map_err(launcher)?;
        let watch = Watch::start(self.rank, self.finalize_report, &self.engine);
        for what in STILL_OPEN.read().unwrap_or_else(PoisonError::into_inner).iter().flat_map(|f| f()) {
            eprintln!("mpi: rank {}: finalize with {what} still open", self.rank);
        }
        // None attached is no error here.
        let _ = self.engine.detach_buffer();
        // Nobody leaves while others still need what it sent, or its memory.
        let together = match self.engine.recovers() {
            // A tree has holes where ranks have failed.
            true => world.agree(0).map(drop),
            false => world.barrier_of_tree(&watch.0.waits_for),
        };
        self.engine.close(CLOSE_TIMEOUT);
        drop(watch);
        self.forget_parent();
        self.client.finalized().map_err(launcher)?;
        callbacks.and(together)
    }
}

/// Called at finalisation, before it waits for anybody: gives what is still open, in a few words each.
type StillOpen = Box<dyn Fn() -> Vec<String> + Send + Sync>;
static STILL_OPEN: RwLock<Vec<StillOpen>> = RwLock::new(Vec::new());

/// Has finalisation ask what is still open, for a line on standard error each.
pub fn at_finalize(open: StillOpen) {
    STILL_OPEN.write().unwrap_or_else(PoisonError::into_inner).push(open);
}

/// Says what a finalisation waits for, when it takes long.
struct Watch(Arc<Watched>);

struct Watched {
    over: Mutex<bool>,
    changed: Condvar,
    waits_for: WaitsFor,
    /// What the user left pending; the barrier's own receives are not news.
    pending: Vec<String>,
}

/// The finalisation that is going on, for those who ask what it waits for.
static FINALIZING: Mutex<Weak<Watched>> = Mutex::new(Weak::new());

/// What the finalisation of this process waits for; `None` while there is none.
pub(crate) fn finalizing() -> Option<String> {
    FINALIZING.lock().unwrap_or_else(PoisonError::into_inner).upgrade().map(|watched| watched.waits())
}

impl Watch {
    fn start(rank: u32, after: Duration, engine: &Engine) -> Watch {
        let watched = Arc::new(Watched {
            over: Mutex::new(false),
            changed: Condvar::new(),
            waits_for: WaitsFor::default(),
            pending: engine.pending_summary(),
        });
        *FINALIZING.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&watched);
        let body = {
            let watched = watched.clone();
            move || {
                if watched.is_over_within(after) {
                    return;
                }
                let seconds = after.as_secs_f64();
                eprintln!("mpi: rank {rank}: finalize has waited {seconds} s for: {}", watched.waits());
            }
        };
        let builder = std::thread::Builder::new().name(String::from("mpi-finalize"));
        // Without the thread there is one line less in a rare case.
        let _ = builder.stack_size(CONTROL_THREAD_STACK_BYTES).spawn(body);
        Watch(watched)
    }
}

impl Watched {
    fn waits(&self) -> String {
        let mut waits = self.pending.clone();
        if let Some(peer) = self.waits_for.get() {
            waits.push(format!("rank {peer}, or one behind it, to call finalize"));
        }
        if waits.is_empty() {
            waits.push(String::from("what was sent to be on its way"));
        }
        waits.join("; ")
    }

    fn is_over_within(&self, time: Duration) -> bool {
        let guard = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(guard, time, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}
