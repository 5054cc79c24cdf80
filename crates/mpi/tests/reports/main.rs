//! What a job shows of itself: the tables, pictures and files that the launcher's options ask for, after every kind of
//! end.

mod capture;
mod files;
mod hosts;
mod ranks;
#[path = "../support/mod.rs"]
mod support;
mod terminal;

use capture::*;
use files::*;
use hosts::*;
use ranks::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use support::{CASE_VARIABLE, RUN_LIMIT, mpiexec};

/// What ranks run, by name.
const PROGRAMS: &[(&str, fn())] = &[
    ("ring", ring),
    ("killed_in_the_middle", killed_in_the_middle),
    ("receives_for_ever", receives_for_ever),
    ("all_receive_for_ever", all_receive_for_ever),
    ("dies_early", dies_early),
    ("windows", windows),
    ("boards", boards),
    ("messages_of_each_kind", messages_of_each_kind),
    ("talks", talks),
];

/// A test and its name; it gets the folder for its files.
type Test = (&'static str, fn(&Path));

const TESTS: &[Test] = &[
    ("stats_count_a_ring", stats_count_a_ring),
    ("stats_survive_a_killed_rank", stats_survive_a_killed_rank),
    ("stats_survive_the_timeout", stats_survive_the_timeout),
    ("stats_survive_an_interrupt", stats_survive_an_interrupt),
    ("stats_count_one_sided_access", stats_count_one_sided_access),
    ("stats_of_programs_without_mpi", stats_of_programs_without_mpi),
    ("bytes_in_shared_memory_are_counted", bytes_in_shared_memory_are_counted),
    ("a_report_is_complete", a_report_is_complete),
    ("a_profile_is_in_the_terms_of_the_standard", a_profile_is_in_the_terms_of_the_standard),
    ("a_report_survives_a_killed_rank", a_report_survives_a_killed_rank),
    ("a_trace_has_an_arrow_per_message", a_trace_has_an_arrow_per_message),
    ("a_trace_survives_an_interrupt", a_trace_survives_an_interrupt),
    ("a_trace_has_the_call_that_hangs", a_trace_has_the_call_that_hangs),
    ("a_dead_rank_computes_no_more", a_dead_rank_computes_no_more),
    ("a_picture_is_written_for_programs", a_picture_is_written_for_programs),
    ("pages_are_drawn_by_a_browser", pages_are_drawn_by_a_browser),
    ("a_capture_is_dissected", a_capture_is_dissected),
    ("what_cannot_be_written_costs_a_line", what_cannot_be_written_costs_a_line),
    ("a_view_fits_a_low_terminal", terminal::a_view_fits_a_low_terminal),
    ("a_dumb_terminal_gets_a_line", terminal::a_dumb_terminal_gets_a_line),
    ("a_view_is_drawn_in_a_terminal", terminal::a_view_is_drawn_in_a_terminal),
    ("a_picture_is_drawn_and_the_job_goes_on", a_picture_is_drawn_and_the_job_goes_on),
    ("ranks_on_other_hosts_are_in_the_report", ranks_on_other_hosts_are_in_the_report),
    ("arrows_reach_over_hosts", arrows_reach_over_hosts),
    ("a_killed_daemon_leaves_what_it_told", a_killed_daemon_leaves_what_it_told),
];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE_VARIABLE) {
        let program = PROGRAMS.iter().find(|(known, _)| *known == name);
        program.expect("the harness names a program that exists").1();
        return ExitCode::SUCCESS;
    }
    let given = |option: &str| std::env::args().any(|arg| arg == option);
    if given("--list") {
        if !given("--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let mut failed = 0;
    for (name, test) in
        TESTS.iter().filter(|(name, _)| filter.as_ref().is_none_or(|f| name.contains(f.as_str())))
    {
        let folder = folder(name);
        let passed = std::panic::catch_unwind(|| test(&folder)).is_ok();
        println!("{name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += u32::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// An empty folder for the files of a test, which stays as its artefact.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

struct Done {
    status: Option<i32>,
    err: String,
}

impl Done {
    fn says(&self, text: &str) {
        assert!(self.err.contains(text), "no {text:?} in\n{}", self.err);
    }
}

fn start(options: &str, ranks: u32, program: &str, folder: &Path) -> Child {
    let words: Vec<&str> = options.split_whitespace().collect();
    start_with(&words, ranks, program, folder)
}

fn start_with(options: &[&str], ranks: u32, program: &str, folder: &Path) -> Child {
    let mut command = Command::new(mpiexec());
    command.args(options).args(["--oversubscribe", "-n", &ranks.to_string()]);
    match PROGRAMS.iter().any(|(known, _)| *known == program) {
        true => command.arg(std::env::current_exe().expect("a running program has a path")),
        false => command.arg(program),
    };
    command.env(CASE_VARIABLE, program).env("RUST_BACKTRACE", "0").env("MPIEXEC_CONFIG", "/dev/null");
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(folder.join("stderr")).expect("a file"));
    command.spawn().expect("mpiexec starts")
}

fn end(mut child: Child, folder: &Path) -> Done {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status.code();
        }
        if start.elapsed() > RUN_LIMIT {
            let _ = child.kill();
            panic!("still running after {RUN_LIMIT:?}:\n{}", heard(folder));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Done { status, err: heard(folder) }
}

fn run(options: &str, ranks: u32, program: &str, folder: &Path) -> Done {
    end(start(options, ranks, program, folder), folder)
}

fn run_with(options: &[&str], ranks: u32, program: &str, folder: &Path) -> Done {
    end(start_with(options, ranks, program, folder), folder)
}

fn heard(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("stderr")).unwrap_or_default()
}

/// Waits until a rank has written a file of this name.
fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < RUN_LIMIT, "{} never came", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The cells of the line that starts with `first`.
fn row(err: &str, first: &str) -> Vec<String> {
    let line = err.lines().find_map(|line| line.strip_prefix("mpiexec: ")?.strip_prefix(first));
    let line = line.unwrap_or_else(|| panic!("no line {first:?} in\n{err}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}
