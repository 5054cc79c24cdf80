//! Start and end of MPI in this process, and what can be asked about it (MPI-4.1 §9, §11).

use std::cmp::Ordering;
use std::os::raw::{c_double, c_int};
use std::string::FromUtf8Error;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use mpi_comm::ThreadLevel;

use crate::error;
use crate::topology::SimpleCommunicator;

/// The thread that initialised MPI.
static MAIN_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// MPI in this process, from initialisation until this value is dropped, which finalises it.
///
/// Where a panic unwinds through its scope, the job ends with status 101 instead: nothing waits for peers.
pub struct Universe {
    buffer_size: usize,
}

impl Universe {
    /// All processes that started together (`MPI_COMM_WORLD`).
    #[track_caller]
    pub fn world(&self) -> SimpleCommunicator {
        SimpleCommunicator::world()
    }

    /// How many processes the job has room for, where that is known (`MPI_UNIVERSE_SIZE`).
    pub fn size(&self) -> Option<usize> {
        mpi_comm::universe_size().map(|size| size as usize)
    }

    /// Which program of the launch line this process runs, where that is known (`MPI_APPNUM`).
    pub fn appnum(&self) -> Option<isize> {
        mpi_comm::appnum().map(|number| number as isize)
    }

    /// Room for buffered sends, in bytes.
    pub fn buffer_size(&self) -> usize {
        self.buffer_size
    }

    /// Makes room for buffered sends, in bytes; 0 takes it away (MPI-4.1 §3.6, `MPI_Buffer_attach`).
    ///
    /// Waits until all messages have left the buffer that was there before.
    #[track_caller]
    pub fn set_buffer_size(&mut self, size: usize) {
        self.detach_buffer();
        if size > 0 {
            error::ok_world(mpi_comm::attach_buffer(size));
            self.buffer_size = size;
        }
    }

    /// Takes the room for buffered sends away, once all messages have left it (`MPI_Buffer_detach`).
    #[track_caller]
    pub fn detach_buffer(&mut self) {
        if std::mem::take(&mut self.buffer_size) > 0 {
            error::ok_world(mpi_comm::detach_buffer());
        }
    }

    /// Lets go of the way to the processes that spawned this one (MPI-4.1 §11.10.4, `MPI_Comm_disconnect`).
    pub fn disconnect_parent(&mut self) {
        mpi_comm::disconnect_parent();
    }
}

impl Drop for Universe {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.detach_buffer();
            self.disconnect_parent();
        }
        mpi_comm::leave();
    }
}

/// Which threads may call (MPI-4.1 §11.6). Ordered: each level allows all that the ones before it do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Threading {
    /// There is one thread.
    Single,
    /// Only the thread that initialised calls.
    Funneled,
    /// One thread calls at a time.
    Serialized,
    /// Any thread calls at any time.
    Multiple,
}

impl Threading {
    pub(crate) fn as_raw(self) -> c_int {
        match self {
            Threading::Single => 0,
            Threading::Funneled => 1024,
            Threading::Serialized => 2048,
            Threading::Multiple => 4096,
        }
    }

    fn level(self) -> ThreadLevel {
        match self {
            Threading::Single => ThreadLevel::Single,
            Threading::Funneled => ThreadLevel::Funneled,
            Threading::Serialized => ThreadLevel::Serialized,
            Threading::Multiple => ThreadLevel::Multiple,
        }
    }
}

impl From<ThreadLevel> for Threading {
    fn from(level: ThreadLevel) -> Threading {
        match level {
            ThreadLevel::Single => Threading::Single,
            ThreadLevel::Funneled => Threading::Funneled,
            ThreadLevel::Serialized => Threading::Serialized,
            ThreadLevel::Multiple => Threading::Multiple,
        }
    }
}

impl PartialOrd<Threading> for Threading {
    fn partial_cmp(&self, other: &Threading) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Threading {
    fn cmp(&self, other: &Threading) -> Ordering {
        self.as_raw().cmp(&other.as_raw())
    }
}

impl From<c_int> for Threading {
    /// # Panics
    /// If the number means no level.
    fn from(i: c_int) -> Threading {
        [Threading::Single, Threading::Funneled, Threading::Serialized, Threading::Multiple]
            .into_iter()
            .find(|level| level.as_raw() == i)
            .unwrap_or_else(|| panic!("{i} is no thread level"))
    }
}

/// Whether MPI has been initialised; it stays so after finalisation (`MPI_Initialized`).
pub fn is_initialized() -> bool {
    mpi_comm::is_initialized()
}

/// Whether MPI has been finalised (`MPI_Finalized`).
pub fn is_finalized() -> bool {
    mpi_comm::is_finalized()
}

/// Initialises MPI for one thread; `None` if that was done before in this process (`MPI_Init`).
///
/// ```no_run
/// let universe = mpi::initialize().unwrap();
/// ```
///
/// A process that no launcher started is rank 0 of 1. What cannot be initialised ends the process with a message.
pub fn initialize() -> Option<Universe> {
    initialize_with_threading(Threading::Single).map(|(universe, _)| universe)
}

/// Initialises MPI for the given use of threads, and says what is provided, which is what was asked for; `None` if
/// that was done before in this process (`MPI_Init_thread`).
pub fn initialize_with_threading(threading: Threading) -> Option<(Universe, Threading)> {
    if !claim_initialization() {
        return None;
    }
    let level = mpi_comm::init_or_exit(threading.level(), crate::backends());
    abort_where_nothing_unwinds();
    Some((Universe { buffer_size: 0 }, level.into()))
}

/// Whether this call is the one that initialises; of several threads, one wins.
fn claim_initialization() -> bool {
    !mpi_comm::is_initialized() && MAIN_THREAD.set(thread::current().id()).is_ok()
}

/// In a program built to abort on panic no destructor runs, so the hook ends the job, after the message.
fn abort_where_nothing_unwinds() {
    if cfg!(panic = "abort") {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            print(info);
            mpi_comm::abort(error::PANIC_EXIT_CODE, "panicked");
        }));
    }
}

/// Panics where a derived datatype cannot be made: before initialisation, after finalisation, or on a thread that
/// the thread level does not allow to call.
pub(crate) fn check_can_build(type_name: &str) {
    assert!(
        is_initialized(),
        "the datatype of `{type_name}` was asked for before MPI was initialised: call mpi::initialize first"
    );
    assert!(!is_finalized(), "the datatype of `{type_name}` was asked for after MPI was finalised");
    let here = MAIN_THREAD.get() == Some(&thread::current().id());
    assert!(
        here || threading_support() == Threading::Multiple,
        "the datatype of `{type_name}` was first asked for on a thread that may not call MPI: ask for it once on \
         the thread that initialised, with `{type_name}::equivalent_datatype()`, or initialise with \
         Threading::Multiple"
    );
}

/// What use of threads is provided (`MPI_Query_thread`).
pub fn threading_support() -> Threading {
    mpi_comm::thread_level().into()
}

/// The version of the standard that is followed: major, minor (`MPI_Get_version`).
pub fn version() -> (c_int, c_int) {
    mpi_comm::version()
}

/// What this library calls itself (`MPI_Get_library_version`).
///
/// # Errors
/// None: the signature is that of a library written in C.
pub fn library_version() -> Result<String, FromUtf8Error> {
    Ok(format!("mpi {} (Rust, from the socket up)", env!("CARGO_PKG_VERSION")))
}

/// The name of the machine that this process runs on (`MPI_Get_processor_name`).
///
/// # Errors
/// If the name is no UTF-8.
pub fn processor_name() -> Result<String, FromUtf8Error> {
    Ok(mpi_comm::processor_name())
}

/// Seconds since some time in the past, the same one for as long as the process runs (`MPI_Wtime`).
pub fn time() -> c_double {
    mpi_comm::wtime()
}

/// The resolution of [`time`], in seconds (`MPI_Wtick`).
pub fn time_resolution() -> c_double {
    mpi_comm::wtick()
}
