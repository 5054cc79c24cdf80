//! Runs a table of cases on ranks: the test program starts itself under mpiexec.
//!
//! A test with `harness = false` gives its cases to [`main`]. Without [`CASE_VARIABLE`] in the environment it is the
//! harness: for every case, transport and number of ranks it starts `mpiexec -n RANKS itself`, with the case in the
//! environment, bounds the run, and looks at the exit status and what was written. With it, it is a rank.

#![allow(dead_code, reason = "each test program uses a part")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Which case a rank runs.
pub const CASE_VARIABLE: &str = "MPI_TEST_CASE";
/// A run that takes longer is ended and has failed. Generous: machines that test are busy.
pub const RUN_LIMIT: Duration = Duration::from_secs(120);
/// A picture that has not come by then is missing.
const PICTURE_LIMIT: Duration = Duration::from_secs(60);
/// How often the harness asks for it.
const PICTURE_INTERVAL: Duration = Duration::from_millis(300);
/// How often the harness looks whether a run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Something to run on ranks.
pub struct Case {
    pub name: &'static str,
    /// Numbers of ranks to run on.
    pub ranks: &'static [u32],
    /// Transports to run over, as `MPI_BTL` names them.
    pub transports: &'static [&'static str],
    /// What every rank does.
    pub run: fn(),
    /// Settings of the run: variables and their values.
    pub settings: &'static [(&'static str, &'static str)],
    pub expect: Expect,
}

/// How a run must end.
pub enum Expect {
    /// With status 0 and nothing on standard error.
    Success,
    /// With status 0, and on standard error at most reports that something takes long.
    SlowSuccess,
    /// With this status, and these texts on standard error.
    Failure(i32, &'static [&'static str]),
    /// With this status, and these texts in this order where both streams are one.
    InOrder(i32, &'static [&'static str]),
    /// Not at all by itself: these texts come to stand in the picture that the launcher draws when it
    /// is asked, after which the harness ends the job.
    Picture(&'static [&'static str]),
}

/// Status of a job that an MPI error ended.
pub const ERROR_STATUS: i32 = 1;
pub const BOTH: &[&str] = &["shm", "tcp"];
pub const FEW: &[u32] = &[1, 2, 3, 5];

/// A case that succeeds on a few numbers of ranks, over both transports.
pub const fn case(name: &'static str, run: fn()) -> Case {
    Case { name, ranks: FEW, transports: BOTH, run, settings: &[], expect: Expect::Success }
}

impl Case {
    pub const fn on(mut self, ranks: &'static [u32]) -> Case {
        self.ranks = ranks;
        self
    }

    pub const fn over(mut self, transports: &'static [&'static str]) -> Case {
        self.transports = transports;
        self
    }

    pub const fn with(mut self, settings: &'static [(&'static str, &'static str)]) -> Case {
        self.settings = settings;
        self
    }

    /// The run moves so much memory that ranks may say that they wait.
    pub const fn slow(mut self) -> Case {
        self.expect = Expect::SlowSuccess;
        self
    }

    pub const fn says_in_order(mut self, status: i32, texts: &'static [&'static str]) -> Case {
        self.expect = Expect::InOrder(status, texts);
        self
    }

    pub const fn hangs(mut self, texts: &'static [&'static str]) -> Case {
        self.expect = Expect::Picture(texts);
        self
    }

    pub const fn fails(mut self, status: i32, texts: &'static [&'static str]) -> Case {
        self.expect = Expect::Failure(status, texts);
        self
    }
}

/// The main function of a test program. An argument that is no option selects the cases whose names contain it.
pub fn main(cases: &[Case]) -> ExitCode {
    if let Ok(name) = std::env::var(CASE_VARIABLE) {
        let case = cases.iter().find(|case| case.name == name).expect("the harness names a case that exists");
        (case.run)();
        return ExitCode::SUCCESS;
    }
    let given = |option: &str| std::env::args().any(|arg| arg == option);
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if given("--list") {
        // A runner asks a second time for those that are ignored, and skips what it hears then: there are none.
        if !given("--ignored") {
            cases.iter().for_each(|case| println!("{}: test", case.name));
        }
        return ExitCode::SUCCESS;
    }
    let exact = given("--exact");
    let mpiexec = mpiexec();
    let selected = cases.iter().filter(|case| {
        filter.as_ref().is_none_or(|f| if exact { case.name == f } else { case.name.contains(f.as_str()) })
    });
    let mut failed = 0;
    let mut run = 0;
    for case in selected {
        for &transport in case.transports {
            for &ranks in case.ranks {
                let start = Instant::now();
                let result = run_case(&mpiexec, case, transport, ranks);
                let verdict = if result.is_ok() { "ok" } else { "FAILED" };
                let time = start.elapsed().as_secs_f64();
                println!("{} on {ranks} over {transport} ... {verdict} ({time:.2} s)", case.name);
                if let Err(why) = result {
                    println!("{why}");
                    failed += 1;
                }
                run += 1;
            }
        }
    }
    println!("{run} runs, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// True in a rank, false in the harness.
pub fn is_rank() -> bool {
    std::env::var_os(CASE_VARIABLE).is_some()
}

/// An example of another package, built now if need be.
pub fn built_example(package: &str, name: &str) -> PathBuf {
    let launcher = mpiexec();
    let profile_dir = launcher.parent().expect("it lies in the profile's folder");
    let target = profile_dir.parent().expect("cargo puts profiles into the target directory");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", package, "--example", name, "--target-dir"]).arg(target);
    if profile_dir.ends_with("release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "{name} could not be built");
    profile_dir.join("examples").join(name)
}

/// The launcher, built now if need be, from the same target directory and profile as this test.
pub fn mpiexec() -> PathBuf {
    if let Some(path) = std::env::var_os("MPI_MPIEXEC") {
        return path.into();
    }
    let me = std::env::current_exe().expect("a running program has a path");
    let profile_dir = me.parent().and_then(Path::parent).expect("cargo puts tests two levels deep");
    let target = profile_dir.parent().expect("cargo puts profiles into the target directory");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", "mpiexec", "--target-dir"]).arg(target);
    if profile_dir.ends_with("release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "mpiexec could not be built");
    profile_dir.join("mpiexec")
}

fn run_case(mpiexec: &Path, case: &Case, transport: &str, ranks: u32) -> Result<(), String> {
    let (both, ours) = UnixStream::pair().map_err(|e| format!("no pair of sockets: {e}"))?;
    let mut command = Command::new(mpiexec);
    command
        .args(["--timeout", &(RUN_LIMIT.as_secs() - 10).to_string(), "-n", &ranks.to_string()])
        .arg(std::env::current_exe().expect("a running program has a path"))
        .env(CASE_VARIABLE, case.name)
        .env("MPI_BTL", transport)
        .envs(case.settings.iter().copied())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if matches!(case.expect, Expect::InOrder(..)) {
        let stream = || both.try_clone().map(|both| Stdio::from(OwnedFd::from(both)));
        command.stdout(stream().map_err(|e| e.to_string())?).stderr(stream().map_err(|e| e.to_string())?);
    }
    let mut child =
        command.spawn().map_err(|e| format!("{} could not be started: {e}", mpiexec.display()))?;
    // The pair ends with the launcher, as pipes do.
    drop((command, both));
    let out = match child.stdout.take() {
        Some(pipe) => collect(Some(pipe)),
        None => collect(Some(ours)),
    };
    let heard = Heard::default();
    let err = heard.collect(child.stderr.take());
    if let Expect::Picture(texts) = case.expect {
        ask_for_picture(&child, &heard, texts);
    }
    let status = wait_bounded(&mut child)?;
    let _ = err.join();
    let (out, err) = (out.join().unwrap_or_default(), heard.text());
    let heard = quiet(&err);
    let complaint = match &case.expect {
        Expect::Success | Expect::SlowSuccess if status != Some(0) => {
            Some(format!("status {status:?}, not 0"))
        }
        Expect::Success if !heard.is_empty() => Some("something was written to standard error".into()),
        Expect::Success | Expect::SlowSuccess => None,
        Expect::Picture(texts) => missing(texts, &err),
        Expect::Failure(code, _) | Expect::InOrder(code, _) if status != Some(*code) => {
            Some(format!("status {status:?}, not {code}"))
        }
        Expect::InOrder(_, texts) => out_of_order(texts, &out),
        Expect::Failure(_, texts) => missing(texts, &err),
    };
    match complaint {
        None => Ok(()),
        Some(why) => Err(format!("{why}\n--- standard output\n{out}\n--- standard error\n{err}\n---")),
    }
}

fn out_of_order(texts: &[&str], out: &str) -> Option<String> {
    let mut rest = out;
    for text in texts {
        match rest.split_once(text) {
            Some((_, after)) => rest = after,
            None => return Some(format!("no {text:?} where it should be")),
        }
    }
    None
}

fn missing(texts: &[&str], err: &str) -> Option<String> {
    texts.iter().find(|text| !err.contains(**text)).map(|text| format!("no {text:?} in standard error"))
}

/// Asks the launcher, as Ctrl-\\ does, until all texts have come to be seen, then ends the job.
fn ask_for_picture(child: &Child, heard: &Heard, texts: &[&str]) {
    let launcher = Pid::from_raw(child.id() as i32);
    let start = Instant::now();
    while start.elapsed() < PICTURE_LIMIT && missing(texts, &heard.text()).is_some() {
        thread::sleep(PICTURE_INTERVAL);
        let _ = kill(launcher, Signal::SIGQUIT);
    }
    let _ = kill(launcher, Signal::SIGTERM);
}

/// What has been written so far.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn collect(&self, stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<()> {
        let heard = self.0.clone();
        thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                heard.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..read]);
            }
        })
    }
}

/// Standard error without the line that says that there are more ranks than processors.
fn quiet(err: &str) -> String {
    err.lines().filter(|line| !line.contains("processors") && !line.trim().is_empty()).collect()
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait_bounded(child: &mut Child) -> Result<Option<i32>, String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status.code());
        }
        if start.elapsed() > RUN_LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("still running after {RUN_LIMIT:?}"));
        }
        thread::sleep(POLL_INTERVAL);
    }
}
