//! The tables, pictures and files of a job, after every kind of end.

use crate::{end, row, run, start, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

pub fn stats_count_a_ring(folder: &Path) {
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

pub fn stats_survive_a_killed_rank(folder: &Path) {
    let done = run("--stats", 2, "killed_in_the_middle", folder);
    assert_eq!(done.status, Some(137), "{}", done.err);
    done.says("PARTIAL, gathered until the end: rank 1 (pid ");
    assert_eq!(row(&done.err, "send ")[0], "4", "{}", done.err);
    assert_eq!(row(&done.err, "  rank 1 ")[0], "3", "what the killed rank wrote is there\n{}", done.err);
}

pub fn stats_survive_the_timeout(folder: &Path) {
    let done = run("--stats --timeout 2", 2, "receives_for_ever", folder);
    assert_eq!(done.status, Some(124), "{}", done.err);
    done.says("a circle: ");
    done.says("PARTIAL, gathered until the end: the job has run for 2 s (--timeout)");
    assert_eq!(row(&done.err, "barrier ")[0], "2", "{}", done.err);
    // What they hang in is what one looks for.
    assert_eq!(row(&done.err, "receive ")[0], "0 + 2 open", "{}", done.err);
}

pub fn a_trace_has_the_call_that_hangs(folder: &Path) {
    let done = run("--trace trace.json --timeout 2", 2, "receives_for_ever", folder);
    assert_eq!(done.status, Some(124), "{}", done.err);
    let trace = read(&folder.join("trace.json"));
    for rank in 0..2 {
        let hangs = |slice: &&&Value| {
            slice["name"] == "receive" && slice["pid"] == rank && slice["args"]["has_returned"] == false
        };
        let slices = events(&trace, "X");
        let call = slices.iter().find(hangs).expect("the call that has not returned");
        assert_eq!(call["args"]["peer"], 1 - rank);
        assert!(call["dur"].as_f64().is_some_and(|micros| micros > 1e6), "{call}");
    }
}

/// The time of a rank that died ends with it, although the job goes on.
pub fn a_dead_rank_computes_no_more(folder: &Path) {
    let done = run("--enable-recovery --report report.json", 2, "dies_early", folder);
    let report = read(&folder.join("report.json"));
    let time = |rank: usize, of: &str| number(&report["ranks"][rank][of]);
    assert!(time(0, "elapsed_ns") >= 3_000_000_000, "{}", done.err);
    assert!(time(1, "elapsed_ns") < 2_000_000_000, "{report}");
    assert!(time(1, "computing_ns") < 2_000_000_000, "{report}");
}

pub fn stats_survive_an_interrupt(folder: &Path) {
    let child = start("--stats", 2, "receives_for_ever", folder);
    (0..2).for_each(|rank| wait_for(&folder.join(format!("ready-{rank}"))));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("mpiexec lives");
    let done = end(child, folder);
    assert_eq!(done.status, Some(130), "{}", done.err);
    done.says("PARTIAL, gathered until the end: the launcher got SIGINT");
    assert_eq!(row(&done.err, "barrier ")[0], "2", "{}", done.err);
}

pub fn stats_count_one_sided_access(folder: &Path) {
    let done = run("--stats", 2, "windows", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    let put = row(&done.err, "put ");
    assert_eq!((put[0].as_str(), put[3].as_str()), ("1", "512 B"), "{}", done.err);
    assert!(row(&done.err, "fence ")[0].parse::<u32>().is_ok_and(|calls| calls >= 2), "{}", done.err);
}

pub fn stats_of_programs_without_mpi(folder: &Path) {
    let done = run("--stats", 2, "true", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    done.says("no rank has initialised MPI");
}

pub fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub fn a_report_is_complete(folder: &Path) {
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

pub fn a_report_survives_a_killed_rank(folder: &Path) {
    let done = run("--report report.html", 2, "killed_in_the_middle", folder);
    assert_eq!(done.status, Some(137), "{}", done.err);
    done.says("mpiexec: report (PARTIAL): report.html");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page is there");
    assert!(page.contains("\"partial\":\"rank 1 (pid "), "the page says what ended the job");
}

pub fn events<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
    trace.as_array().expect("an array").iter().filter(|event| event["ph"] == phase).collect()
}

pub fn a_trace_has_an_arrow_per_message(folder: &Path) {
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

pub fn a_trace_survives_an_interrupt(folder: &Path) {
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

pub fn a_picture_is_written_for_programs(folder: &Path) {
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
pub fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let version =
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    })
}

pub fn pages_are_drawn_by_a_browser(folder: &Path) {
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

pub fn what_cannot_be_written_costs_a_line(folder: &Path) {
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

fn ranks_of(report: &Value) -> &[Value] {
    report["ranks"].as_array().expect("ranks").as_slice()
}

pub fn bytes_in_shared_memory_are_counted(folder: &Path) {
    for (ranks, by) in [(2, "direct"), (4, "staged")] {
        let done =
            run(&format!("--report report.json -genv MPI_COLL_ALLREDUCE {by}"), ranks, "boards", folder);
        assert_eq!(done.status, Some(0), "{}", done.err);
        let report = read(&folder.join("report.json"));
        let all = ranks_of(&report);
        let sum = |name: &str| all.iter().map(|rank| number(&rank[name])).sum::<u64>();
        // Where ranks may not reach into each other's memory, the others go by messages.
        let used = all[0]["algorithms"].as_array().expect("algorithms").iter().any(|a| a["algorithm"] == by);
        if !used {
            println!("skipped: {by} is not used here");
            continue;
        }
        assert!(sum("got_bytes") > 1 << 20, "{report}");
        assert_eq!(sum("got_bytes"), sum("got_by_others_bytes"), "each byte has two ends");
        assert_eq!(sum("put_bytes"), sum("put_by_others_bytes"));
        let cell = |from: usize, to: u32| {
            let to = all[from]["to"].as_array().expect("peers").iter().find(|peer| peer["rank"] == to);
            to.map_or(0, |peer| number(&peer["bytes"]))
        };
        let matrix: u64 = (0..all.len())
            .flat_map(|from| (0..ranks).map(move |to| (from, to)))
            .map(|(f, t)| cell(f, t))
            .sum();
        let sent = all.iter().map(|rank| number(&rank["sent"]["bytes"])).sum::<u64>();
        assert_eq!(matrix, sent + sum("got_bytes") + sum("put_bytes"), "the matrix has every byte once");
        assert!(cell(0, 1) > 0 && cell(1, 0) + cell(1, 2) > 0, "{report}");
    }
}

pub fn a_profile_is_in_the_terms_of_the_standard(folder: &Path) {
    for btl in ["shm", "tcp"] {
        let done = run(
            &format!("--stats --report report.json -genv MPI_BTL {btl}"),
            2,
            "messages_of_each_kind",
            folder,
        );
        assert_eq!(done.status, Some(0), "{}", done.err);
        let report = read(&folder.join("report.json"));
        let (sender, receiver) = (&ranks_of(&report)[0], &ranks_of(&report)[1]);
        assert!(number(&sender["waiting_ns"]) > 50_000_000, "rank 0 waits while rank 1 computes: {sender}");
        assert!(number(&receiver["computing_ns"]) > 50_000_000, "{receiver}");
        // 4 MiB are copied by one of them at least; over TCP the kernel does it while they read and write.
        let copying = number(&sender["copying_ns"]) + number(&receiver["copying_ns"]);
        assert!(copying > 50_000, "{copying} ns for 4 MiB");
        assert!(number(&receiver["matching_ns"]) > 0);
        let unexpected = &receiver["unexpected_peak"];
        assert!(number(&unexpected["messages"]) >= 5 && number(&unexpected["bytes"]) >= 500, "{unexpected}");
        assert_eq!(number(&sender["sizes_sent"][7]), 5, "five of 64 to 127 bytes");
        assert_eq!(number(&receiver["sizes_received"][23]), 1, "one of 4 MiB");
        done.says("from 64 B");
        done.says("from 4.0 MiB");
        let row = row(&done.err, "rank 1 ");
        assert!(row.last().is_some_and(|cell| !cell.starts_with("0 (")), "{row:?}");
    }
}

pub fn a_picture_is_drawn_and_the_job_goes_on(folder: &Path) {
    let child = start("--picture picture.json", 2, "receives_for_ever", folder);
    (0..2).for_each(|rank| wait_for(&folder.join(format!("ready-{rank}"))));
    let launcher = Pid::from_raw(child.id() as i32);
    let pictures =
        || std::fs::read_to_string(folder.join("stderr")).map_or(0, |said| said.matches("SIGQUIT;").count());
    for wanted in 1..=2 {
        let begun = std::time::Instant::now();
        while pictures() < wanted {
            assert!(begun.elapsed() < crate::support::RUN_LIMIT, "picture {wanted} never came");
            kill(launcher, Signal::SIGQUIT).expect("mpiexec lives");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    }
    assert_eq!(read(&folder.join("picture.json"))["version"], 1);
    kill(launcher, Signal::SIGTERM).expect("the job has gone on");
    assert_eq!(end(child, folder).status, Some(143));
}
