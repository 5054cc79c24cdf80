//! One launch and what is expected of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Seconds after which mpiexec ends a job that does not end by itself.
const TIMEOUT_SECONDS: &str = "120";

/// Looks at what runs printed.
type Check = fn(&[String]) -> Result<(), String>;

pub struct Launch {
    pub name: String,
    scenario: &'static str,
    /// 0: without mpiexec.
    ranks: u32,
    /// What the shell does as each rank; `"$0" "$@"` is the scenario.
    script: Option<&'static str>,
    /// More options of mpiexec.
    options: &'static str,
    variables: Vec<(&'static str, &'static str)>,
    status: i32,
    says: Vec<&'static str>,
    says_once: Vec<&'static str>,
    silent: bool,
    seconds: &'static str,
    /// What two runs print is to pass this.
    prints: Option<Check>,
}

impl Launch {
    pub fn of(scenario: &'static str, ranks: u32) -> Launch {
        let (name, variables, says) = (scenario.to_owned(), Vec::new(), Vec::new());
        let script = None;
        Launch {
            name,
            scenario,
            ranks,
            script,
            options: "",
            variables,
            status: 0,
            says,
            says_once: Vec::new(),
            silent: false,
            seconds: TIMEOUT_SECONDS,
            prints: None,
        }
    }
    pub fn named(mut self, name: &str) -> Launch {
        name.clone_into(&mut self.name);
        self
    }
    pub fn with(mut self, name: &'static str, value: &'static str) -> Launch {
        self.variables.push((name, value));
        self
    }
    /// Runs on hosts that are this machine under other names.
    pub fn on_two_hosts(mut self) -> Launch {
        self.options = "--launcher fork --host a:2,b:2";
        self
    }
    /// The same, with one rank on each.
    pub fn on_a_host_each(mut self) -> Launch {
        self.options = "--launcher fork --host a,b";
        self
    }
    /// Each rank is a shell that does this.
    pub fn by_script(mut self, script: &'static str) -> Launch {
        self.script = Some(script);
        self
    }
    /// Seconds after which mpiexec ends it.
    pub fn for_at_most(mut self, seconds: &'static str) -> Launch {
        self.seconds = seconds;
        self
    }
    /// The exit status.
    pub fn ends(mut self, status: i32) -> Launch {
        self.status = status;
        self
    }
    /// Text that stderr contains.
    pub fn says(mut self, text: &'static str) -> Launch {
        self.says.push(text);
        self
    }
    /// Text that stderr contains once, whatever the number of ranks.
    pub fn says_once(mut self, text: &'static str) -> Launch {
        self.says_once.push(text);
        self
    }
    /// Nothing on stderr.
    pub fn silent(mut self) -> Launch {
        self.silent = true;
        self
    }

    /// Run twice; what was printed has to pass `check`.
    pub fn prints(mut self, check: Check) -> Launch {
        self.prints = Some(check);
        self
    }

    pub fn run(&self) -> Result<Duration, String> {
        let begin = Instant::now();
        let first = self.run_once()?;
        if let Some(check) = self.prints {
            check(&[first, self.run_once()?])?;
        }
        Ok(begin.elapsed())
    }

    /// What was printed.
    fn run_once(&self) -> Result<String, String> {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = match self.ranks {
            0 => Command::new(&me),
            ranks => {
                let mut command = Command::new(mpiexec());
                command.args(["-n", &ranks.to_string(), "--oversubscribe", "--timeout", self.seconds]);
                command.args(self.options.split_whitespace());
                command.args(self.script.iter().flat_map(|script| ["sh", "-c", script])).arg(&me);
                command
            }
        };
        command.env("MPI_MPIEXEC", mpiexec());
        command.args(["rank", self.scenario]).envs(self.variables.iter().copied()).stdin(Stdio::null());
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let mut faults = Vec::new();
        if output.status.code() != Some(self.status) {
            faults.push(format!("{}, expected status {}", output.status, self.status));
        }
        for text in self.says.iter().filter(|text| !err.contains(**text)) {
            faults.push(format!("stderr does not say {text:?}"));
        }
        for text in self.says_once.iter().filter(|text| err.matches(**text).count() != 1) {
            faults.push(format!("stderr does not say {text:?} exactly once"));
        }
        if self.silent && !err.is_empty() {
            faults.push(String::from("stderr is not empty"));
        }
        match faults.is_empty() {
            true => Ok(out.into_owned()),
            false => Err(format!("{}\n{command:?}\n--- stdout\n{out}\n--- stderr\n{err}", faults.join("\n"))),
        }
    }
}

/// The launcher of this workspace, built as the tests were.
pub fn mpiexec() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let me = std::env::current_exe().expect("the path of the test program");
        let profile = me.ancestors().nth(2).expect("target/PROFILE/deps/real");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "mpiexec"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().is_ok_and(|status| status.success()), "mpiexec cannot be built");
        profile.join("mpiexec")
    })
}
