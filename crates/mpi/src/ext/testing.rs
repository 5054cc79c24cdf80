//! Tests that run on ranks: what `#[mpi::test(np = 4)]` calls.
//!
//! The test function finds out what it is. In the process that `cargo test` started it is the harness: it starts the
//! test program again under `mpiexec`, on so many ranks, for this one test, and looks how that ends. On a rank it runs
//! the test's body.

use std::env;
use std::io::Read;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::topology::SimpleCommunicator;

/// Set for the ranks: the test that they run.
const TEST_VARIABLE: &str = "MPI_TEST_ON_RANKS";
/// Names the launcher.
const LAUNCHER_VARIABLE: &str = "MPI_MPIEXEC";
/// How long a test may take that does not say, in seconds.
const TIMEOUT_SECONDS: u32 = 60;
/// Status of the launcher when the time was over.
const TIMED_OUT_STATUS: i32 = 124;

/// Runs the body on ranks. Called by the code that the attribute generates; `module` is the path of the test's module.
///
/// # Panics
/// If the test fails: with all that the ranks wrote.
#[track_caller]
pub fn run(
    module: &str,
    name: &str,
    ranks: u32,
    timeout_seconds: Option<u32>,
    launcher: Option<fn() -> PathBuf>,
    body: impl FnOnce(&dyn Fn() -> &'static SimpleCommunicator),
) {
    // The harness of Rust names a test by its path inside the crate.
    let path = match module.split_once("::") {
        Some((_, inside)) => format!("{inside}::{name}"),
        None => name.to_owned(),
    };
    match env::var(TEST_VARIABLE) {
        Ok(test) if test == path => on_rank(body),
        Ok(test) => panic!("rank of test {test} was asked to run {path}"),
        Err(_) => {
            let launcher = launcher.unwrap_or(found_launcher)();
            harness(&path, &launcher, ranks, timeout_seconds.unwrap_or(TIMEOUT_SECONDS));
        }
    }
}

/// The body, and the end of MPI, which the body may have begun itself.
fn on_rank(body: impl FnOnce(&dyn Fn() -> &'static SimpleCommunicator)) {
    let universe = std::cell::OnceCell::new();
    let world = || -> &'static SimpleCommunicator {
        // For as many threads as the test likes.
        universe.get_or_init(|| {
            crate::initialize_with_threading(crate::Threading::Multiple)
                .expect("MPI was not initialised before")
        });
        // A rank ends with its test: this is no leak that grows.
        Box::leak(Box::new(SimpleCommunicator::world()))
    };
    // A rank that panics fails the job, whatever the harness of Rust expects of the test.
    if panic::catch_unwind(AssertUnwindSafe(|| body(&world))).is_err() {
        mpi_comm::abort(crate::error::PANIC_EXIT_CODE, "a test panicked");
    }
}

/// The error of a test, in words: as people are to read it where it can say so, else as programmers do. Only the code
/// that the attribute generates uses it; which of the two traits has the method is decided by how far the compiler
/// has to look.
#[derive(Debug)]
pub struct Told<'a, E>(pub &'a E);

/// An error that is a text for people.
pub trait ByDisplay {
    /// The text.
    fn told(&self) -> String;
}

/// An error that is none.
pub trait ByDebug {
    /// The text.
    fn told(&self) -> String;
}

impl<E: std::fmt::Display> ByDisplay for Told<'_, E> {
    fn told(&self) -> String {
        self.0.to_string()
    }
}

impl<E: std::fmt::Debug> ByDebug for &Told<'_, E> {
    fn told(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[track_caller]
fn harness(path: &str, launcher: &Path, ranks: u32, timeout_seconds: u32) {
    let me = env::current_exe().expect("a running program has a path");
    let mut command = Command::new(launcher);
    command
        .args(["--timeout", &timeout_seconds.to_string(), "-n", &ranks.to_string()])
        .arg(me)
        .args(["--exact", path, "--nocapture", "--include-ignored", "--test-threads=1"])
        .env(TEST_VARIABLE, path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!(
            "{path}: the launcher {} cannot be started ({error}): build or install the package mpiexec, or name it in \
             the variable {LAUNCHER_VARIABLE}",
            launcher.display()
        ),
    };
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let status = child.wait().unwrap_or_else(|error| panic!("{path}: the launcher is lost: {error}"));
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if status.success() {
        print!("{out}");
        eprint!("{err}");
        return;
    }
    let what = match status.code() {
        Some(TIMED_OUT_STATUS) => format!("took more than {timeout_seconds} s"),
        Some(code) => format!("ended with status {code}"),
        None => String::from("was killed"),
    };
    panic!("{path} on {ranks} ranks {what}\n--- standard output\n{out}\n--- standard error\n{err}\n---");
}

/// The launcher: what the variable says, what lies beside the test program, what is found in the path.
fn found_launcher() -> PathBuf {
    if let Some(path) = env::var_os(LAUNCHER_VARIABLE) {
        return path.into();
    }
    // Cargo puts test programs into `target/PROFILE/deps`, and programs one level above.
    let beside = env::current_exe().ok().and_then(|me| Some(me.parent()?.parent()?.join("mpiexec")));
    match beside {
        Some(path) if path.is_file() => path,
        _ => PathBuf::from("mpiexec"),
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What came before a broken pipe is worth showing.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
