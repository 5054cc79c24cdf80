//! What a job shows of itself: the tables, pictures and files that the launcher's options ask for, after every kind of
//! end.

mod support;

use mpi::traits::*;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{CASE_VARIABLE, RUN_LIMIT, mpiexec};

/// What ranks run, by name.
const PROGRAMS: &[(&str, fn())] = &[
    ("ring", ring),
    ("killed_in_the_middle", killed_in_the_middle),
    ("receives_for_ever", receives_for_ever),
    ("windows", windows),
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
    ("a_report_is_complete", a_report_is_complete),
    ("a_report_survives_a_killed_rank", a_report_survives_a_killed_rank),
    ("a_trace_has_an_arrow_per_message", a_trace_has_an_arrow_per_message),
    ("a_trace_survives_an_interrupt", a_trace_survives_an_interrupt),
    ("a_picture_is_written_for_programs", a_picture_is_written_for_programs),
    ("pages_are_drawn_by_a_browser", pages_are_drawn_by_a_browser),
    ("a_capture_is_dissected", a_capture_is_dissected),
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

/// Something of everything that TCP carries: a small message, an announced one.
fn talks() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut large = vec![0_u8; 300_000];
    if world.rank() == 0 {
        world.process_at_rank(1).send_with_tag(&[1_u64, 2, 3][..], 31_337);
        world.process_at_rank(1).synchronous_send_with_tag(&large[..], 31_338);
    } else {
        world.process_at_rank(0).receive_vec_with_tag::<u64>(31_337);
        world.process_at_rank(0).receive_into_with_tag(&mut large[..], 31_338);
    }
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

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn a_report_is_complete(folder: &Path) {
    let done = run("--report report.json", 3, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    done.says("mpiexec: report: report.json");
    let report = read(&folder.join("report.json"));
    assert!(report["partial"].is_null());
    for (number_, rank) in report["ranks"].as_array().expect("ranks").iter().enumerate() {
        assert_eq!(rank["finalised"], true);
        let of = |name: &str| number(&rank[name]);
        let parts = of("computing_ns") + of("waiting_ns") + of("copying_ns") + of("matching_ns");
        assert_eq!(parts, of("elapsed_ns"), "the parts of the time are the whole of it");
        let right = (number_ + 1) % 3;
        let to = rank["to"].as_array().expect("peers").iter().find(|to| to["rank"] == right).expect("a peer");
        assert!(number(&to["bytes"]) >= 2 * 4096 && number(&to["messages"]) >= 2, "{to}");
        assert_eq!(number(&rank["sizes_sent"][13]), 2, "two messages of 4096 bytes");
        assert_eq!(number(&rank["sizes_received"][13]), 2);
        let op = |name: &str| {
            let ops = rank["operations"].as_array().expect("operations");
            ops.iter()
                .find(|op| op["name"] == name)
                .cloned()
                .unwrap_or_else(|| panic!("no {name} in {ops:?}"))
        };
        assert_eq!(number(&op("send")["sent_bytes"]), 8192);
        assert_eq!(number(&op("receive")["received_bytes"]), 8192);
        assert_eq!(number(&op("barrier")["calls"]), 1);
        let bins = rank["timeline"]["inside_waiting_copying_ns"].as_array().expect("bins");
        let drawn: u64 = bins.iter().map(|bin| number(&bin[0])).sum();
        let inside = of("elapsed_ns") - of("computing_ns");
        assert!(drawn.abs_diff(inside) < 100_000, "{drawn} of {inside} ns are in the timeline");
    }
    // Rank 1 keeps the token for 100 ms twice, while it is in no operation; the others wait for it.
    let ranks = &report["ranks"];
    assert!(number(&ranks[1]["computing_ns"]) > 190_000_000, "{}", ranks[1]);
    assert!(number(&ranks[2]["waiting_ns"]) > 90_000_000, "{}", ranks[2]);
}

fn a_report_survives_a_killed_rank(folder: &Path) {
    let done = run("--report report.html", 2, "killed_in_the_middle", folder);
    assert_eq!(done.status, Some(137), "{}", done.err);
    done.says("mpiexec: report (PARTIAL): report.html");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page is there");
    assert!(page.contains("\"partial\":\"rank 1 (pid "), "the page says what ended the job");
}

fn events<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
    trace.as_array().expect("an array").iter().filter(|event| event["ph"] == phase).collect()
}

fn a_trace_has_an_arrow_per_message(folder: &Path) {
    let done = run("--trace trace.json", 3, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    done.says("mpiexec: trace: trace.json");
    let trace = read(&folder.join("trace.json"));
    let (starts, ends) = (events(&trace, "s"), events(&trace, "f"));
    let tokens: Vec<_> = starts.iter().filter(|arrow| arrow["args"]["bytes"] == 4096).collect();
    assert_eq!(tokens.len(), 6, "three ranks pass the token on twice");
    assert_eq!(starts.len(), ends.len());
    let slices = events(&trace, "X");
    for start in &tokens {
        let end = ends.iter().find(|end| end["id"] == start["id"]).expect("an arrow has an end");
        assert_eq!((number(&start["pid"]) + 1) % 3, number(&end["pid"]), "to the right");
        let time = |event: &Value| event["ts"].as_f64().expect("a time");
        assert!(time(start) <= time(end), "{start} {end}");
        for (place, name) in [(*start, "send"), (end, "receive")] {
            let inside = |slice: &&&Value| {
                slice["name"] == name
                    && slice["pid"] == place["pid"]
                    && time(slice) <= time(place)
                    && time(place) <= time(slice) + slice["dur"].as_f64().expect("a length") + 0.002
            };
            assert!(slices.iter().any(|slice| inside(&slice)), "{place} is in no {name}");
        }
    }
    assert!(slices.iter().any(|slice| slice["name"] == "waiting"));
    assert_eq!(events(&trace, "M").iter().filter(|event| event["name"] == "process_name").count(), 3);
}

fn a_trace_survives_an_interrupt(folder: &Path) {
    let child = start("--trace trace.json", 2, "receives_for_ever", folder);
    (0..2).for_each(|rank| wait_for(&folder.join(format!("ready-{rank}"))));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("mpiexec lives");
    let done = end(child, folder);
    assert_eq!(done.status, Some(130), "{}", done.err);
    done.says("; PARTIAL");
    let trace = read(&folder.join("trace.json"));
    assert_eq!(events(&trace, "i")[0]["name"], "PARTIAL: the launcher got SIGINT");
    assert_eq!(events(&trace, "X").iter().filter(|slice| slice["name"] == "barrier").count(), 2);
}

fn a_picture_is_written_for_programs(folder: &Path) {
    let done = run("--picture picture.json --timeout 2", 2, "receives_for_ever", folder);
    assert_eq!(done.status, Some(124), "{}", done.err);
    let picture = read(&folder.join("picture.json"));
    assert_eq!(picture["conclusions"][0]["kind"], "circle", "{picture}");
    assert_eq!(picture["conclusions"][0]["ranks"], serde_json::json!([0, 1]));
    assert_eq!(picture["ranks"][1]["waits"][0]["ranks"], serde_json::json!([0]));
    let done = run("--picture /no/such/folder/p.json --timeout 2", 2, "receives_for_ever", folder);
    assert_eq!(done.status, Some(124), "{}", done.err);
    done.says("the picture cannot be written to /no/such/folder/p.json: No such file");
}

/// The first browser that runs without a window.
fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let version =
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    })
}

fn pages_are_drawn_by_a_browser(folder: &Path) {
    for ranks in [4, 64] {
        let page = format!("ring-{ranks}.html");
        let done = run(&format!("--report {page}"), ranks, "ring", folder);
        assert_eq!(done.status, Some(0), "{}", done.err);
        let Some(browser) = browser() else {
            println!("skipped: no chromium is installed that could draw {page}");
            continue;
        };
        let shot = folder.join(format!("ring-{ranks}.png"));
        let call = |last: &[&str]| {
            let mut command = Command::new("timeout");
            command.args(["100", browser, "--headless", "--no-sandbox", "--disable-gpu"]);
            command.args(["--hide-scrollbars", "--window-size=1240,3600"]).args(last);
            let url = format!("file://{}", folder.join(&page).display());
            command.arg(url).current_dir(folder).stderr(Stdio::null()).output().expect("the browser starts")
        };
        let dom = String::from_utf8_lossy(&call(&["--dump-dom"]).stdout).into_owned();
        assert!(dom.contains("data-drawn=\"yes\""), "the page's script did not reach its end");
        assert!(dom.matches("messages, ").count() >= ranks as usize, "a cell per pair that talks");
        call(&[&format!("--screenshot={}", shot.display())]);
        let bytes = std::fs::read(&shot).expect("a picture of the page");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{} bytes", bytes.len());
    }
}

/// Everything that goes over the loopback interface, as a pcap file; an error where that is not permitted.
fn capture(stop: &AtomicBool) -> nix::Result<Vec<u8>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let tap = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    // More than the whole job sends: nothing is lost while this thread waits for a processor.
    setsockopt(&tap, RcvBufForce, &(64 << 20)).or_else(|_| setsockopt(&tap, RcvBuf, &(4 << 20)))?;
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    let mut packet = vec![0; 128 << 10];
    let start = Instant::now();
    loop {
        match recv(tap.as_raw_fd(), &mut packet, MsgFlags::empty()) {
            Ok(length) => {
                let at = start.elapsed();
                let words = [at.as_secs() as u32, at.subsec_micros(), length as u32, length as u32];
                words.iter().for_each(|word| file.extend(word.to_le_bytes()));
                file.extend(&packet[..length]);
            }
            Err(Errno::EAGAIN) if stop.load(Ordering::Relaxed) => return Ok(file),
            Err(Errno::EAGAIN) => std::thread::sleep(Duration::from_micros(100)),
            Err(e) => return Err(e),
        }
    }
}

fn a_capture_is_dissected(folder: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let tap = std::thread::spawn({
        let stop = stop.clone();
        move || capture(&stop)
    });
    std::thread::sleep(Duration::from_millis(50));
    let done = run("-genv MPI_BTL tcp", 2, "talks", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    stop.store(true, Ordering::Relaxed);
    let file = match tap.join().expect("the tap ends") {
        Ok(file) => file,
        Err(e) => return println!("skipped: packets may not be captured here ({e})"),
    };
    std::fs::write(folder.join("job.pcap"), &file).expect("the capture is kept");
    let lines = mpi_dissect::dissect(&file).expect("our own pcap");
    let all = lines.join("\n");
    std::fs::write(folder.join("job.txt"), &all).expect("the lines are kept");
    let small =
        lines.iter().position(|l| l.contains("-> 1 tag 31337, 3 x type ") && l.ends_with(", 24 bytes"));
    let small = small.unwrap_or_else(|| panic!("no small message in\n{all}"));
    let (time_and_ends, _) = lines[small].split_once("  message: ").expect("a message");
    let ends = time_and_ends.trim_start().split_once(' ').expect("a time").1;
    // What this very connection carried, in order.
    let ours: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(ends)?.1.trim())).collect();
    let at = |text: &str| {
        ours.iter().position(|l| l.starts_with(text)).unwrap_or_else(|| panic!("no {text} in\n{all}"))
    };
    assert!(
        at("hello: rank ").min(at("proof")) < at("message: ") || ours[0].starts_with("reply: rank "),
        "{all}"
    );
    let announced = at("announcement: ");
    assert!(ours[announced].contains("tag 31338") && ours[announced].contains("of 300000 bytes"), "{all}");
    assert!(announced < at("data: "), "{all}");
    let back =
        ends.split_once(" > ").map(|(from, to)| format!("{to} > {from}  clear to send: ")).expect("ends");
    assert!(all.contains(&back), "no {back} in\n{all}");
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
    for (option, what) in [("--trace", "trace"), ("--report", "report")] {
        for (path, why) in [("/no/such/folder/f", "No such file"), ("/dev/full", "No space left on device")] {
            let done = run(&format!("{option} {path}"), 3, "ring", folder);
            assert_eq!(done.status, Some(0), "{}", done.err);
            let line = format!("the {what} cannot be written to {path}: {why}");
            assert_eq!(done.err.lines().filter(|l| l.contains(&line)).count(), 1, "{line}\n{}", done.err);
        }
    }
    let done = run("--top", 3, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    let line = "--top: standard error is no terminal; the job goes on without a view";
    assert_eq!(done.err.lines().filter(|l| l.contains(line)).count(), 1, "{}", done.err);
}
