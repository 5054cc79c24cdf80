//! Reports of jobs on several hosts, which are made of network namespaces.

use crate::files::{events, number, read};
use crate::{end, row, run_with, start_with, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;

#[path = "../../../mpiexec/tests/common/net.rs"]
#[allow(dead_code, reason = "a part of another package's tests")]
mod net;
use net::{Hosts, LAUNCHER};

/// The options that start ranks on hosts: one on each.
fn on<'a>(list: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["-q", "--launcher", LAUNCHER, "-host", list], more].concat()
}

pub fn ranks_on_other_hosts_are_in_the_report(folder: &Path) {
    let Some(hosts) = Hosts::new("r", 3) else { return };
    let list = hosts.list("");
    let done = run_with(&on(&list, &["--stats", "--report", "report.json"]), 3, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert!(!done.err.contains("nothing is recorded") && !done.err.contains("PARTIAL"), "{}", done.err);
    let all = row(&done.err, "send ");
    assert_eq!((all[0].as_str(), all[3].as_str()), ("6", "24.0 KiB"), "{}", done.err);
    let report = read(&folder.join("report.json"));
    for at in 0..3 {
        let rank = &report["ranks"][at];
        assert_eq!((&rank["initialised"], &rank["finalised"]), (&true.into(), &true.into()), "{rank}");
        let parts = ["computing_ns", "waiting_ns", "copying_ns", "matching_ns"];
        let sum: u64 = parts.iter().map(|part| number(&rank[part])).sum();
        assert_eq!(sum, number(&rank["elapsed_ns"]));
        assert!(number(&rank["begun_ns"]) < 60_000_000_000, "by the launcher's clock: {rank}");
        let to = rank["to"].as_array().expect("peers");
        assert!(to.iter().any(|to| to["rank"] == (at + 1) % 3 && number(&to["bytes"]) >= 2 * 4096), "{rank}");
    }
    assert!(number(&report["ranks"][1]["computing_ns"]) > 190_000_000, "rank 1 is the slow one");
}

pub fn arrows_reach_over_hosts(folder: &Path) {
    let Some(hosts) = Hosts::new("t", 2) else { return };
    let list = hosts.list("");
    let done = run_with(&on(&list, &["--trace", "trace.json"]), 2, "ring", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    let trace = read(&folder.join("trace.json"));
    let (starts, ends) = (events(&trace, "s"), events(&trace, "f"));
    let tokens: Vec<_> = starts.iter().filter(|arrow| arrow["args"]["bytes"] == 4096).collect();
    assert_eq!(tokens.len(), 4, "two ranks pass the token on twice");
    for start in tokens {
        let end = ends.iter().find(|end| end["id"] == start["id"]).expect("an arrow has an end");
        assert_ne!(start["pid"], end["pid"]);
        let time = |event: &serde_json::Value| event["ts"].as_f64().expect("a time");
        // Both hosts have this machine's clock, so what is left is what the launcher took their clocks for.
        assert!(time(end) - time(start) > -20_000.0, "{start} {end}");
    }
}

pub fn a_killed_daemon_leaves_what_it_told(folder: &Path) {
    let Some(hosts) = Hosts::new("k", 2) else { return };
    let list = hosts.list("");
    let options = on(&list, &["-v", "--stats", "--report", "report.json"]);
    let child = start_with(&options, 2, "receives_for_ever", folder);
    (0..2).for_each(|rank| wait_for(&folder.join(format!("ready-{rank}"))));
    // Daemons pass records on four times a second.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let err = std::fs::read_to_string(folder.join("stderr")).expect("what it said");
    let line = err.lines().find(|line| line.contains("rank 1 is pid ")).expect("-v names the pid");
    let pid: i32 =
        line.split("pid ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a pid");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let daemon =
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok()).expect("a parent");
    kill(Pid::from_raw(daemon), Signal::SIGKILL).expect("the daemon lives");
    let done = end(child, folder);
    assert_eq!(done.status, Some(3), "{}", done.err);
    done.says("PARTIAL, gathered until the end: host ");
    assert_eq!(row(&done.err, "barrier ")[0], "2", "rank 1's host had told of its barrier\n{}", done.err);
    let report = read(&folder.join("report.json"));
    assert!(
        report["partial"].as_str().is_some_and(|why| why.contains("is lost, and with it rank 1")),
        "{report}"
    );
    assert_eq!(report["ranks"][1]["now"]["operation"], "receive", "{}", report["ranks"][1]);
}
