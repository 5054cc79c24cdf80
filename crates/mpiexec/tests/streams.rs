//! Input and output: every byte, whole lines, no line torn, nothing read too early.

mod common;

use common::Run;
use std::time::{Duration, Instant};

/// Lines of each rank, in order, whatever stands between them.
fn check_lines(out: &str, ranks: usize, count: usize, tag: bool) {
    let mut next = vec![0; ranks];
    for line in out.lines() {
        let (tagged, line) = match line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
            Some((rank, line)) => (Some(rank), line),
            None => (None, line),
        };
        let words: Vec<&str> = line.split(' ').collect();
        let ["rank", rank, "line", number, _] = words[..] else { panic!("a torn line: {line:?}") };
        assert_eq!(tagged, tag.then_some(rank), "{line:?}");
        let rank: usize = rank.parse().expect("a rank");
        assert_eq!(number.parse::<usize>().expect("a number"), next[rank], "{line:?}");
        next[rank] += 1;
    }
    assert_eq!(next, vec![count; ranks]);
}

#[test]
fn lines_of_many_ranks_are_whole_and_in_order() {
    let count = common::size("MPI_TEST_LINES", 20_000);
    for options in ["-q -n 6", "-q -n 6 -l"] {
        let done = Run::new(options).rank(&format!("lines:{count},13")).done();
        assert_eq!(done.status, 0, "{}", done.err);
        check_lines(&done.out, 6, count, options.ends_with("-l"));
    }
}

#[test]
fn what_was_written_before_death_stands_before_the_report() {
    let path = std::env::temp_dir().join(format!("mpiexec-streams-{}", std::process::id()));
    for last in ["kill:KILL", "exit:3", "panic:x"] {
        let file = std::fs::File::create(&path).unwrap();
        let steps = format!("@1 lines:5000,20 eprint:last\\n {last} @all sleep:100");
        let done = Run::new("-n 2").rank(&steps).both_to(file).done();
        assert_ne!(done.status, 0);
        let text = std::fs::read_to_string(&path).unwrap();
        let report = text.find("mpiexec: rank 1").expect("a report");
        assert!(text.find("last").is_some_and(|at| at < report), "{last}");
        assert!(text.find("rank 1 line 4999").is_some_and(|at| at < report), "{last}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn one_rank_is_exact_to_the_byte() {
    let done = Run::new("-n 1").rank("print:no\\0end").done();
    assert_eq!((done.out.as_str(), done.err.as_str()), ("no\0end", ""));
}

#[test]
fn a_prompt_of_a_lone_writer_is_shown() {
    let begun = Instant::now();
    let live = Run::new("-q -n 2").rank("@0 print:name? sleep:100").start();
    live.wait_out("name?");
    // The promise is 100 ms; what is asserted is that the end of the line was not waited for.
    assert!(begun.elapsed() < Duration::from_secs(30));
    live.signal("TERM");
    assert_eq!(live.done().status, 143);
}

#[test]
fn a_line_of_another_waits_for_the_end_of_a_prompt() {
    let steps = "@0 print:one sleep:0.4 print:two\\n @1 sleep:0.2 print:three\\n";
    let done = Run::new("-q -n 2").rank(steps).done();
    assert!(done.out == "onetwo\nthree\n" || done.out == "three\nonetwo\n", "{done:?}");
}

#[test]
fn errors_and_output_go_where_they_belong() {
    let done = Run::new("-q -n 2 -l").rank("print:out\\n eprint:err\\n").done();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&done.out), ["[0] out", "[1] out"]);
    assert_eq!(sorted(&done.err), ["[0] err", "[1] err"]);
}

#[test]
fn times_stand_in_front() {
    let done = Run::new("-n 1 --timestamp-output -l").rank("print:x\\n").done();
    let (time, rest) = done.out.split_once(' ').expect("a time");
    assert!(time.ends_with('Z') && time.len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
    assert_eq!(rest, "[0] x\n");
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 & 0x7F
        })
        .collect()
}

#[test]
fn input_goes_to_rank_0_exact_to_the_byte() {
    let input = noise(5 << 20);
    let expected = String::from_utf8(input.clone()).unwrap();
    let done = Run::new("-q -n 3").input(input).rank("cat").done();
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(done.out == expected, "{} bytes of {}", done.out.len(), expected.len());
}

/// From a file and from a pipe, to one rank, another, and all.
#[test]
fn input_of_any_size_is_exact() {
    let size = common::size("MPI_TEST_INPUT_BYTES", 8 << 20);
    let directory = common::Directory::new("input");
    let path = directory.path.join("input");
    let make = format!("head -c {size} /dev/urandom > input && cksum < input");
    let made =
        std::process::Command::new("sh").args(["-c", &make]).current_dir(&directory.path).output().unwrap();
    let sum = String::from_utf8(made.stdout).unwrap();
    assert!(sum.ends_with(&format!(" {size}\n")), "{sum}");
    for (who, readers) in [("0", 1), ("2", 1), ("all", 3)] {
        for launcher in ["", "--launcher fork -host a,b"] {
            let options = format!("-q -n 3 {launcher} --stdin {who}");
            let script = format!("test {who} = all -o {who} = $MPI_PMI_RANK && cksum || true");
            let file = std::fs::File::open(&path).unwrap();
            let done = Run::new(&options).stdin(file.into()).sh(&script).done();
            assert_eq!((done.status, done.out), (0, sum.repeat(readers)), "{options}: {}", done.err);
        }
        let mpiexec = common::mpiexec().display().to_string();
        let script = format!("cat input | {mpiexec} -q -n 3 --stdin {who} sh -c 'cksum'");
        let piped =
            std::process::Command::new("sh").args(["-c", &script]).current_dir(&directory.path).output();
        let out = String::from_utf8(piped.unwrap().stdout).unwrap();
        assert_eq!(out.matches(sum.as_str()).count(), readers, "{who}: {out}");
    }
}

/// Tags, times and files of ranks go together, also where a line has no end yet.
#[test]
fn the_options_of_output_go_together() {
    let directory = common::Directory::new("together");
    let out = directory.path.join("out").display().to_string();
    let rank0 = "@0 print:no sleep:0.3 print:end\\n print:last @1 sleep:0.1 print:line\\n";
    for launcher in ["", "--launcher fork -host a,b"] {
        let options = format!("-q -n 2 {launcher} -l --timestamp-output --output-from 0 --output-dir {out}");
        let done = Run::new(&options).rank(rank0).done();
        assert_eq!(done.status, 0, "{done:?}");
        let lines: Vec<&str> = done.out.lines().collect();
        assert_eq!(lines.len(), 2, "{done:?}");
        for (line, text) in lines.iter().zip(["noend", "last"]) {
            let (time, rest) = line.split_once(' ').expect("a time");
            assert_eq!((time.len(), rest), (24, format!("[0] {text}").as_str()), "{done:?}");
        }
        let file = |name: &str| std::fs::read_to_string(directory.path.join("out").join(name)).unwrap();
        assert_eq!(file("rank.0.out"), "noend\nlast", "files have what was written, and no more");
        assert_eq!(file("rank.1.out"), "line\n");
    }
    // In a terminal of its own both streams of a rank are one.
    let done = Run::new("-q -n 2 --pty -l").sh("printf par; sleep 0.3; echo ty; echo err >&2").done();
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        (lines, done.err.trim_end()),
        (vec!["[0] err", "[0] party", "[1] party"], "[1] err"),
        "{}",
        done.status
    );
}

#[test]
fn input_goes_to_the_rank_that_is_named_or_to_none() {
    let to =
        |who: &str| Run::new(&format!("-q -n 3 -l --stdin {who}")).input(b"x\n".to_vec()).rank("cat").done();
    assert_eq!(to("2").out, "[2] x\n");
    assert_eq!(to("none").out, "");
    let all = to("all").out;
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] x", "[1] x", "[2] x"]);
}

#[test]
fn input_to_all_waits_for_the_slowest_and_survives_one_that_leaves() {
    let mut input = vec![b'x'; 3 << 20];
    input.extend_from_slice(b"\n");
    let done =
        Run::new("-q -n 3 --stdin all").input(input.clone()).rank("@0 exit:0 @2 sleep:0.3 @all cat").done();
    assert_eq!(done.status, 0, "{}", done.err);
    assert_eq!(done.out.len(), 2 * input.len());
}

#[test]
fn a_job_that_reads_nothing_takes_nothing() {
    let path = std::env::temp_dir().join(format!("mpiexec-input-{}", std::process::id()));
    std::fs::write(&path, "first\nsecond\n").unwrap();
    let script = format!("{} -q -n 2 true; cat", common::mpiexec().display());
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdin(std::fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "first\nsecond\n");
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let script = format!("{} -n 2 yes | head -n 3", common::mpiexec().display());
    let begun = Instant::now();
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "y\ny\ny\n");
    assert!(begun.elapsed() < common::BOUND);
}

#[test]
fn a_slow_reader_slows_the_job_and_loses_nothing() {
    let script = format!("{} -q -n 2 sh -c 'seq 1 500000' | (sleep 1; wc -l)", common::mpiexec().display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1000000");
}

#[test]
fn each_rank_has_its_files_where_they_are_wanted() {
    let directory = std::env::temp_dir().join(format!("mpiexec-output-{}/deep", std::process::id()));
    let options = format!("-q -n 2 --output-dir {}", directory.display());
    let done = Run::new(&options).rank("print:out\\n eprint:err @1 print:part").done();
    assert_eq!((done.status, done.out.as_str(), done.err.as_str()), (0, "", ""), "{done:?}");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert_eq!((read("rank.0.out"), read("rank.0.err")), ("out\n".to_owned(), "err".to_owned()));
    assert_eq!((read("rank.1.out"), read("rank.1.err")), ("out\npart".to_owned(), "err".to_owned()));
    std::fs::remove_dir_all(directory.parent().unwrap()).unwrap();
}

#[test]
fn only_the_wanted_ranks_are_shown() {
    let done = Run::new("-q -l -n 4 --output-from 0,2-2").rank("print:x\\n").done();
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((done.status, lines), (0, vec!["[0] x", "[2] x"]), "{done:?}");
}

#[test]
fn a_full_disk_is_told_as_such() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return eprintln!("not tested, there is no /dev/full");
    };
    for steps in ["print:x\\n", "lines:100000 sleep:60"] {
        let done = Run::new("-q -n 2").stdout(full.try_clone().unwrap()).rank(steps).done();
        assert_eq!(done.status, 3, "{done:?}");
        assert!(done.err.contains("standard output of mpiexec: No space left on device"), "{done:?}");
        assert!(!done.err.contains("roken pipe"), "{done:?}");
    }
}

/// A limit of the size of files costs what does not fit it, with a line for each, and kills nobody.
#[test]
fn a_limit_of_file_sizes_is_told_as_such() {
    let directory = std::env::temp_dir().join(format!("mpiexec-limit-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let limited = |options: &str, steps: &str| {
        let (mpiexec, rank) = (common::mpiexec(), common::rank_program());
        let script = format!("ulimit -f 10; exec {} {options} {} {steps}", mpiexec.display(), rank.display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(&directory).output().unwrap()
    };
    let small = limited("-q -n 2 --timeout 50 --trace t.json", "init finalize");
    let err = String::from_utf8_lossy(&small.stderr).into_owned();
    assert_eq!(small.status.code(), Some(0), "{err}");
    for what in ["no shared memory", "nothing is recorded"] {
        assert!(err.lines().any(|l| l.contains(what) && l.contains("File too large")), "{what}: {err}");
    }
    let large = limited("-q -n 2 --timeout 50 --output-dir out", "lines:100000");
    let err = String::from_utf8_lossy(&large.stderr).into_owned();
    assert_eq!(large.status.code(), Some(3), "{err}");
    assert!(err.contains(".out in out: File too large"), "{err}");
    // The ranks have the signal as ever.
    let own = std::process::Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -f 10; exec {} -q -n 1 sh -c 'yes > big'", common::mpiexec().display()),
        ])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert_eq!(own.status.code(), Some(128 + 25), "{own:?}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_closed_standard_output_is_told_as_such() {
    let mpiexec = common::mpiexec().display().to_string();
    let run = |line: &str| {
        let output = std::process::Command::new("sh").args(["-c", line]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, err) = run(&format!("{mpiexec} -q -n 2 echo hello >&-"));
    assert_eq!(status, Some(3), "{err}");
    assert!(err.contains("standard output of mpiexec: it is closed"), "{err}");
    // What is thrown away on purpose, or not written at all, is no fault.
    for line in ["-q -n 2 echo hello >/dev/null", "-q -n 2 true >&-", "-q -n 1 echo hello 2>&- >/dev/null"] {
        assert_eq!(run(&format!("{mpiexec} {line}")), (Some(0), String::new()), "{line}");
    }
}

/// A file may not become larger than the limit says: the write fails, and nobody is killed for it.
#[test]
fn a_limit_of_file_sizes_costs_a_line_and_not_the_job() {
    let directory = common::Directory::new("fsize");
    let mpiexec = common::mpiexec().display().to_string();
    let rank = common::rank_program().display().to_string();
    let run = |limit: &str, options: &str, steps: &str| {
        let line = format!("ulimit -f {limit}; {mpiexec} {options} {rank} {steps}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).current_dir(&directory.path).env("MPIEXEC_CONFIG", "/dev/null");
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for launcher in ["", "--launcher fork -host a,b"] {
        let options = format!("-q -n 2 {launcher} --output-dir out");
        let (status, _, err) = run("10", &options, "@1 lines:10000 @0 print:short\\\\n");
        assert_eq!(status, Some(3), "{err}");
        let lines: Vec<&str> = err.lines().filter(|line| line.contains("rank.1.out")).collect();
        assert_eq!(lines.len(), 1, "{err}");
        assert!(lines[0].contains("File too large") && lines[0].contains("the job goes on"), "{err}");
        let whole = std::fs::read_to_string(directory.path.join("out/rank.0.out")).unwrap();
        assert_eq!(whole, "short\n", "{err}");
    }
    let (status, out, err) = run("0", "-q -n 2 --trace t.json --report r.json", "init print:x\\\\n finalize");
    assert_eq!((status, out.as_str()), (Some(0), "x\nx\n"), "{err}");
    assert!(err.contains("File too large"), "{err}");
    // The ranks have the signal as they would have it without a launcher.
    let (status, _, err) = run("0", "-q -n 1", "kill:XFSZ");
    assert_eq!(status, Some(153), "{err}");
}
