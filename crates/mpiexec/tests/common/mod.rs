//! Starts the real launcher, with a bound on everything: a test fails loudly, it never hangs.
//!
//! `Run::new("-n 2")` collects options, `.rank("init exit:3")` runs the example program `rank` with
//! these steps, `.program(..)` any other; `.done()` waits and gives status and output, `.start()`
//! gives a [`Live`] job to be poked at.
#![allow(dead_code)]

pub mod net;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The bound of every wait. Far above what anything takes; a test that meets it has failed.
pub const BOUND: Duration = Duration::from_secs(60);

/// A size of a test: small, unless this variable says otherwise.
pub fn size(variable: &str, small: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?}: expected a number")),
        Err(_) => small,
    }
}

/// The launcher under test.
pub fn mpiexec() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_mpiexec"))
}

/// The example program `rank`.
pub fn rank_program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| example("mpiexec", "rank"))
}

/// The example program `self_check` of the library: ranks that speak MPI with each other.
pub fn self_check() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| example("mpi", "self_check"))
}

/// An example program of a package. It is built here, since `cargo test --test NAME` builds no examples and would leave
/// an old one; where it is fresh that takes no time.
fn example(package: &str, name: &str) -> PathBuf {
    let directory = mpiexec().parent().expect("a directory").to_owned();
    let path = directory.join("examples").join(name);
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", package, "--example", name]);
    if directory.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo").success());
    assert!(path.exists(), "{} is not there after it was built", path.display());
    path
}

/// A job to be.
pub struct Run {
    command: Command,
    input: Option<Vec<u8>>,
}

/// How a job ended.
#[derive(Debug)]
pub struct Done {
    pub status: i32,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Run {
    /// With these options, split at spaces.
    pub fn new(options: &str) -> Run {
        let mut command = Command::new(mpiexec());
        command.args(options.split_whitespace());
        for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("MPI") || n.starts_with("SLURM")) {
            command.env_remove(name);
        }
        command.env("MPIEXEC_CONFIG", "/dev/null");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Run { command, input: None }
    }

    /// The rank program with these steps, split at spaces.
    pub fn rank(mut self, steps: &str) -> Run {
        self.command.arg(rank_program()).args(steps.split_whitespace());
        self
    }

    /// More words.
    pub fn args(mut self, words: &[&str]) -> Run {
        self.command.args(words);
        self
    }

    /// A shell script as the program.
    pub fn sh(self, script: &str) -> Run {
        self.args(&["sh", "-c", script])
    }

    /// A variable of the launcher's environment.
    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.command.env(name, value);
        self
    }

    /// The launcher's directory.
    pub fn dir(mut self, dir: &Path) -> Run {
        self.command.current_dir(dir);
        self
    }

    /// The launcher's standard input, through a pipe.
    pub fn input(mut self, bytes: Vec<u8>) -> Run {
        self.input = Some(bytes);
        self.command.stdin(Stdio::piped());
        self
    }

    /// The launcher's standard input.
    pub fn stdin(mut self, from: Stdio) -> Run {
        self.command.stdin(from);
        self
    }

    /// Standard output goes into a file.
    pub fn stdout(mut self, file: std::fs::File) -> Run {
        self.command.stdout(file);
        self
    }

    /// Standard error goes where standard output goes: a file.
    pub fn both_to(mut self, file: std::fs::File) -> Run {
        self.command.stderr(file.try_clone().expect("file")).stdout(file);
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Live {
        let begun = Instant::now();
        let mut child = self.command.spawn().expect("mpiexec starts");
        if let (Some(input), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            // A job that ends without reading closes the pipe: no failure of this test.
            std::thread::spawn(move || drop(pipe.write_all(&input)));
        }
        let out = Collected::of(child.stdout.take());
        let err = Collected::of(child.stderr.take());
        Live { child, out, err, begun }
    }

    /// Starts it and waits for its end.
    pub fn done(self) -> Done {
        self.start().done()
    }
}

/// A job that runs.
pub struct Live {
    child: Child,
    out: Collected,
    err: Collected,
    begun: Instant,
}

impl Live {
    /// The launcher's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the launcher a signal (`INT`, `KILL`).
    pub fn signal(&self, signal: &str) {
        signal_to(self.pid(), signal);
    }

    /// Waits until `needle` stands on standard output; gives all of it.
    pub fn wait_out(&self, needle: &str) -> String {
        self.out.wait(needle)
    }

    /// Waits until `needle` stands on standard error.
    pub fn wait_err(&self, needle: &str) -> String {
        self.err.wait(needle)
    }

    /// Waits for the end.
    pub fn done(mut self) -> Done {
        let until = Instant::now() + BOUND;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            assert!(Instant::now() < until, "mpiexec does not end; {:?}", self.err.text());
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.begun.elapsed();
        use std::os::unix::process::ExitStatusExt;
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Done { status, out: self.out.end(), err: self.err.end(), took }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // After a failed assertion nothing of the job stays behind: its guard sees to the ranks.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came through a pipe, as it comes.
struct Collected {
    shared: Arc<(Mutex<Text>, Condvar)>,
}

/// The bytes so far, and whether they are all.
type Text = (Vec<u8>, bool);

impl Collected {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Collected {
        let shared = Arc::new((Mutex::new((Vec::new(), pipe.is_none())), Condvar::new()));
        if let Some(mut pipe) = pipe {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut bytes = vec![0; 1 << 16];
                loop {
                    let n = pipe.read(&mut bytes).unwrap_or(0);
                    let mut state = shared.0.lock().expect("lock");
                    state.0.extend_from_slice(&bytes[..n]);
                    state.1 = n == 0;
                    shared.1.notify_all();
                    if n == 0 {
                        return;
                    }
                }
            });
        }
        Collected { shared }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.0.lock().expect("lock").0).into_owned()
    }

    fn wait(&self, needle: &str) -> String {
        self.until(|text, _| text.contains(needle), needle)
    }

    fn end(&self) -> String {
        self.until(|_, ended| ended, "the end of the output")
    }

    fn until(&self, enough: impl Fn(&str, bool) -> bool, what: &str) -> String {
        let until = Instant::now() + BOUND;
        let mut state = self.shared.0.lock().expect("lock");
        loop {
            let text = String::from_utf8_lossy(&state.0).into_owned();
            if enough(&text, state.1) {
                return text;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !state.1, "waited for {what:?}, got {text:?}");
            state = self.shared.1.wait_timeout(state, left).expect("lock").0;
        }
    }
}

/// A directory that is gone when this is dropped.
pub struct Directory {
    pub path: PathBuf,
}

impl Directory {
    /// A new one for this test.
    pub fn new(test: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("mpiexec-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("directory");
        Directory { path }
    }

    /// Writes an executable file there; gives its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path.join(name);
        std::fs::write(&path, bytes).expect("file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        path.to_str().expect("text").to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Sends a process a signal.
pub fn signal_to(pid: u32, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().expect("kill");
    assert!(sent.success(), "kill -s {signal} {pid}");
}

/// Waits until a process is gone (or a zombie).
pub fn wait_gone(pid: u32) -> Duration {
    let begun = Instant::now();
    while alive(pid) {
        assert!(begun.elapsed() < BOUND, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

/// A process is there and no zombie.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The numbers behind `prefix` at the start of lines.
pub fn numbers(text: &str, prefix: &str) -> Vec<u32> {
    text.lines().filter_map(|line| line.strip_prefix(prefix)?.trim().parse().ok()).collect()
}
