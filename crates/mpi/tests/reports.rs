//! What a job shows of itself: the tables, pictures and files that the launcher's options ask for, after every kind of
//! end.

mod support;

use mpi::traits::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use support::{CASE_VARIABLE, RUN_LIMIT, mpiexec};

/// What ranks run, by name.
const PROGRAMS: &[(&str, fn())] = &[
    ("ring", ring),
    ("killed_in_the_middle", killed_in_the_middle),
    ("receives_for_ever", receives_for_ever),
    ("windows", windows),
];

const TESTS: &[(&str, fn(&Path))] = &[
    ("stats_count_a_ring", stats_count_a_ring),
    ("stats_survive_a_killed_rank", stats_survive_a_killed_rank),
    ("stats_survive_the_timeout", stats_survive_the_timeout),
    ("stats_survive_an_interrupt", stats_survive_an_interrupt),
    ("stats_count_one_sided_access", stats_count_one_sided_access),
    ("stats_of_programs_without_mpi", stats_of_programs_without_mpi),
    ("what_cannot_be_written_costs_a_line", what_cannot_be_written_costs_a_line),
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
    let mut command = Command::new(mpiexec());
    command.args(options.split_whitespace()).args(["--oversubscribe", "-n", &ranks.to_string()]);
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

// ---- what ranks run

/// A token goes round twice, with 4096 bytes; rank 1 keeps it for a while. Then all meet.
fn ring() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (left, right) =
        (world.process_at_rank((rank + size - 1) % size), world.process_at_rank((rank + 1) % size));
    let mut token = vec![0_u8; 4096];
    for _ in 0..2 {
        if rank != 0 {
            left.receive_into(&mut token[..]);
        }
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(100));
        }
        right.send(&token[..]);
        if rank == 0 {
            left.receive_into(&mut token[..]);
        }
    }
    let mut sum = 0;
    world.all_reduce_into(&1_i32, &mut sum, mpi::collective::SystemOperation::sum());
    assert_eq!(sum, size);
    world.barrier();
}

/// Rank 1 dies of SIGKILL after it has sent three messages.
fn killed_in_the_middle() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        for _ in 0..3 {
            world.process_at_rank(0).send(&[7_u64; 16][..]);
        }
        world.process_at_rank(0).receive::<u8>();
        kill(Pid::this(), Signal::SIGKILL).unwrap();
    } else {
        for _ in 0..3 {
            world.process_at_rank(1).receive_vec::<u64>();
        }
        world.process_at_rank(1).send(&0_u8);
        world.process_at_rank(1).receive::<u8>();
    }
}

/// Both wait for the other, for ever; each leaves a file when it is about to.
fn receives_for_ever() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.barrier();
    std::fs::write(format!("ready-{}", world.rank()), "").unwrap();
    world.process_at_rank(1 - world.rank()).receive::<i32>();
}

fn windows() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = [1_u8; 512];
    let mut window = mpi::window::Window::<u8>::allocate(&world, 1024);
    window.fence(|epoch| {
        if world.rank() == 0 {
            epoch.put(&data, 1, 0);
        }
    });
}

// ---- what is looked at

fn stats_count_a_ring(folder: &Path) {
    for btl in ["shm", "tcp"] {
        let done = run(&format!("--stats -genv MPI_BTL {btl}"), 3, "ring", folder);
        assert_eq!(done.status, Some(0), "{}", done.err);
        done.says("mpiexec: statistics of 3 ranks over ");
        assert!(!done.err.contains("PARTIAL"), "{}", done.err);
        let all = row(&done.err, "send ");
        assert_eq!(
            (all[0].as_str(), all[3].as_str(), all[4].as_str()),
            ("6", "24.0 KiB", "0 B"),
            "{}",
            done.err
        );
        let all = row(&done.err, "receive ");
        assert_eq!((all[0].as_str(), all[4].as_str()), ("6", "24.0 KiB"), "{}", done.err);
        let all = row(&done.err, "allreduce ");
        assert_eq!(all[0], "3", "{}", done.err);
        done.says("algorithms of barrier: dissemination 3");
        done.says("algorithms of allreduce: doubling 3");
        // Rank 1 computes, as far as MPI sees; the others wait for it.
        let (slow, fast) = (row(&done.err, "rank 1 "), row(&done.err, "rank 2 "));
        let percent = |cell: &str| cell.trim_end_matches(" %").parse::<f64>().expect("a percentage");
        assert!(percent(&slow[1]) > percent(&fast[1]), "{}", done.err);
        assert!(percent(&fast[2]) > percent(&slow[2]), "{}", done.err);
        done.says("mpiexec: communication matrix: mpi-matrix.svg");
        let svg = std::fs::read_to_string(folder.join("mpi-matrix.svg")).expect("the picture is there");
        assert!(svg.contains("<title>rank 0 to rank 1: ") && svg.ends_with("</svg>\n"), "{svg}");
    }
}

fn stats_survive_a_killed_rank(folder: &Path) {
    let done = run("--stats", 2, "killed_in_the_middle", folder);
    assert_eq!(done.status, Some(137), "{}", done.err);
    done.says("PARTIAL, gathered until the end: rank 1 (pid ");
    assert_eq!(row(&done.err, "send ")[0], "4", "{}", done.err);
    assert_eq!(row(&done.err, "  rank 1 ")[0], "3", "what the killed rank wrote is there\n{}", done.err);
}

fn stats_survive_the_timeout(folder: &Path) {
    let done = run("--stats --timeout 2", 2, "receives_for_ever", folder);
    assert_eq!(done.status, Some(124), "{}", done.err);
    done.says("a circle: ");
    done.says("PARTIAL, gathered until the end: the job has run for 2 s (--timeout)");
    assert_eq!(row(&done.err, "barrier ")[0], "2", "{}", done.err);
}

fn stats_survive_an_interrupt(folder: &Path) {
    let child = start("--stats", 2, "receives_for_ever", folder);
    (0..2).for_each(|rank| wait_for(&folder.join(format!("ready-{rank}"))));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("mpiexec lives");
    let done = end(child, folder);
    assert_eq!(done.status, Some(130), "{}", done.err);
    done.says("PARTIAL, gathered until the end: the launcher got SIGINT");
    assert_eq!(row(&done.err, "barrier ")[0], "2", "{}", done.err);
}

fn stats_count_one_sided_access(folder: &Path) {
    let done = run("--stats", 2, "windows", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    let put = row(&done.err, "put ");
    assert_eq!((put[0].as_str(), put[3].as_str()), ("1", "512 B"), "{}", done.err);
    assert!(row(&done.err, "fence ")[0].parse::<u32>().is_ok_and(|calls| calls >= 2), "{}", done.err);
}

fn stats_of_programs_without_mpi(folder: &Path) {
    let done = run("--stats", 2, "true", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    done.says("no rank has initialised MPI");
}

fn what_cannot_be_written_costs_a_line(folder: &Path) {
    let done = run("--stats --matrix /no/such/folder/m.svg", 3, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    let line =
        "the communication matrix cannot be written to /no/such/folder/m.svg: No such file or directory";
    assert_eq!(done.err.lines().filter(|l| l.contains(line)).count(), 1, "{}", done.err);
    done.says("statistics of 3 ranks");
    let done = run("--stats --matrix /dev/full", 3, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    let line = "communication matrix cannot be written to /dev/full: No space left on device";
    assert_eq!(done.err.lines().filter(|l| l.contains(line)).count(), 1, "{}", done.err);
}
