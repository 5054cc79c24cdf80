//! Every line of the table of exit statuses, with real processes.

mod common;

use common::{Directory, Run};
use std::time::Duration;

/// Every rank is gone within 2 s of a failure; generous here, since the machine may be busy, and
/// far below the 100 s that the ranks would sleep.
const CONTAINED: Duration = Duration::from_secs(20);

fn check(options: &str, steps: &str, status: i32, expected: &str) {
    let done = Run::new(options).rank(steps).done();
    assert_eq!(done.status, status, "{done:?}");
    assert!(done.err.contains(expected), "{expected:?} is not in {done:?}");
    assert!(done.took < CONTAINED, "{done:?}");
    if expected.is_empty() {
        assert_eq!(done.err, "", "a good end says nothing");
    }
}

#[test]
fn all_exit_0() {
    check("-q -n 3", "init events finalize", 0, "");
    check("-q -n 3", "print:hello", 0, "");
}

#[test]
fn a_rank_exits_with_a_status() {
    check("-n 2", "init events @1 exit:7 @all sleep:100", 7, "mpiexec: rank 1 (pid ");
    check("-n 2", "@0 exit:9 @all sleep:100", 9, ") exited with status 9");
}

#[test]
fn ranks_that_ignore_the_terminate_signal_are_killed() {
    let done =
        Run::new("-n 2").sh("if [ $MPI_PMI_RANK = 1 ]; then exit 5; fi; trap '' TERM; sleep 100").done();
    assert_eq!(done.status, 5, "{done:?}");
    assert!(done.took < CONTAINED, "{done:?}");
}

#[test]
fn a_rank_dies_of_a_signal() {
    check("-n 2", "init events @1 kill:KILL @all sleep:100", 137, "was killed by signal 9 (SIGKILL)");
    check("-n 2", "@0 kill:ABRT @all sleep:100", 134, "rank 0");
}

#[test]
fn abort_has_its_code() {
    check("-n 3", "init events @2 abort:6 @all sleep:100", 6, "rank 2");
    check("-n 2", "init events @1 abort:0 @all sleep:100", 1, "called abort(0): so the test says");
    check("-n 2", "init events @1 abort:256 @all sleep:100", 1, "called abort(256)");
    check("-n 2", "init events @1 abort:-1 @all sleep:100", 255, "called abort(-1)");
}

#[test]
fn a_panic_is_101_after_its_own_message() {
    let done = Run::new("-n 2").rank("init events @1 panic:ouch @all sleep:100").done();
    assert_eq!(done.status, 101, "{done:?}");
    let (own, ours) = (done.err.find("ouch"), done.err.find("exited with status 101"));
    assert!(own.is_some() && own < ours, "{done:?}");
}

#[test]
fn leaving_without_finalizing_while_others_go_on() {
    check(
        "-n 3",
        "init events @1 exit:0 @all sleep:100",
        1,
        "without finalizing MPI, while the others go on",
    );
    check("-q -n 2", "@1 exit:0 @all init events sleep:0.2 finalize", 0, "");
}

#[test]
fn the_lowest_of_those_that_fail_together() {
    for _ in 0..common::size("MPI_TEST_REPEATS", 5) {
        // Both wait at the fence, so that they fail at the same time.
        check("-n 4", "init fence @1 exit:21 @2 exit:22 @all sleep:100", 21, "rank 1 ");
    }
}

#[test]
fn nothing_is_started_after_a_usage_error() {
    for (options, expected) in [
        ("-n 0 true", "-n \"0\""),
        ("-n 2 --bogus true", "--bogus"),
        ("-n 2", "no program"),
        ("-n 5000 true", "4096"),
        ("-n 2 --stdin 2 true", "ranks 0 to 1"),
        ("-n 1 --hostfile /no/such/file true", "--hostfile \"/no/such/file\": No such file"),
        ("--stdin 7 -n 1 true", "--stdin \"7\": the job has rank 0 only"),
        ("--oversubscribe --no-oversubscribe true", "give one of them"),
        ("--soft zz true", "--soft \"zz\": expected"),
        ("--no-oversubscribe -n 4000 true", "which needs 4000"),
        ("-configfile /nonexistent", "/nonexistent"),
        ("-n 2 --iface nosuch0 true", "--iface \"nosuch0\": "),
        ("-n 2 --output-from 9 true", "--output-from \"9\": the job has ranks 0 to 1"),
        ("-n 1 --trace same --report ./same true", "goes into the same file"),
        ("-n 2 --port-range 0-3 true", "--port-range \"0-3\": expected"),
    ] {
        let done = Run::new(options).done();
        assert_eq!(done.status, 2, "{done:?}");
        assert!(done.err.contains(expected) && done.err.starts_with("mpiexec: "), "{done:?}");
    }
}

/// What the kernel does not run is given to the shell only if it is a text; and that still is.
#[test]
fn a_program_for_other_processors_is_no_script() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("mpiexec-foreign-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let make = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // A machine that does not exist; as a script it would write a file.
    let mut foreign = std::fs::read("/proc/self/exe").unwrap();
    foreign.truncate(4096);
    foreign[18..20].copy_from_slice(&[0xfe, 0xca]);
    foreign.extend_from_slice(b"\n>written\necho read as a script\n");
    let foreign = make("foreign", &foreign);
    let script = make("script", b"echo \"$0: $# $2\"\n");
    let odd = make("odd", b"\0\0echo read as a script\n");
    for options in ["-n 2", "-n 2 --launcher fork --host localhost,127.0.0.1 --oversubscribe"] {
        for program in [&foreign, &odd] {
            let refused = Run::new(options).args(&[program]).dir(&directory).done();
            assert_eq!(refused.status, 126, "{options}: {refused:?}");
            assert!(
                refused.err.contains("Exec format error") && refused.err.contains(program),
                "{refused:?}"
            );
            assert!(!refused.out.contains("read as") && !refused.err.contains("not found"), "{refused:?}");
        }
        assert!(!directory.join("written").exists());
        let ran = Run::new("-n 2").args(&[&script, "a b", "c"]).dir(&directory).done();
        assert_eq!(ran.status, 0, "{ran:?}");
        assert_eq!(ran.out, format!("{script}: 2 c\n").repeat(2));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn programs_that_cannot_run() {
    let directory = std::env::temp_dir().join(format!("mpiexec-status-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("odd-script");
    std::fs::write(&file, "#!/nonexistent/interpreter\n").unwrap();
    let path = file.to_str().unwrap();
    let not_executable = Run::new("-n 2").args(&[path]).done();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let no_interpreter = Run::new("-n 2").args(&[path]).done();
    let here = Run::new("-n 2").args(&["odd-script"]).dir(&directory).done();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(not_executable.status, 126, "{not_executable:?}");
    assert!(not_executable.err.contains(path), "{not_executable:?}");
    assert_eq!(no_interpreter.status, 126, "{no_interpreter:?}");
    assert!(no_interpreter.err.contains("interpreter"), "{no_interpreter:?}");
    assert_eq!(here.status, 127, "{here:?}");
    assert!(here.err.contains("write ./odd-script"), "{here:?}");
    let missing = Run::new("-n 2 no-such-program-anywhere").done();
    assert_eq!(missing.status, 127, "{missing:?}");
    let wdir = Run::new("-n 2 -wdir /nonexistent/dir true").done();
    assert_eq!(wdir.status, 3, "{wdir:?}");
    assert!(wdir.err.contains("/nonexistent/dir") && wdir.err.contains(" on "), "{wdir:?}");
}

/// The example program, made one for another processor: the kernel refuses it, whoever starts it.
#[test]
fn a_program_of_another_machine_is_never_a_script() {
    let directory = Directory::new("machine");
    let mut bytes = std::fs::read(common::rank_program()).unwrap();
    let cut_off = bytes[..40].to_vec();
    bytes[18..20].copy_from_slice(&[0xB7, 0]);
    let odd = [
        (b"no\x00text > created\n".to_vec(), "it is neither a program of this machine nor a script"),
        (cut_off, "although it is for this processor: it is damaged, or cut off"),
        (bytes, "it is a program for aarch64, 64 bits; this machine is"),
    ];
    for (bytes, expected) in odd {
        let path = directory.file("odd", &bytes);
        for options in ["-n 2", "-n 2 --launcher fork -host a,b", "-n 2 --launcher fork -host a,b --pty"] {
            let done = Run::new(options).args(&[&path]).dir(&directory.path).done();
            assert_eq!(done.status, 126, "{options}: {done:?}");
            assert!(done.err.contains(expected) && done.err.contains(&path), "{options}: {done:?}");
            assert_eq!(done.out, "", "{options}: {done:?}");
        }
        let done = Run::new("-n 1").rank(&format!("init spawn:{path} finalize")).done();
        assert_eq!(done.status, 0, "{done:?}");
        assert!(done.out.contains("Failed") && done.out.contains("cannot be run"), "{done:?}");
    }
    assert!(!directory.path.join("created").exists());
    // Text needs no first line: a shell reads it, as for execvp, with all its arguments.
    let script = directory.file("script", b"echo $0 $1 $MPI_PMI_RANK\n");
    for options in ["-q -n 1", "-q -n 1 --launcher fork -host a"] {
        let done = Run::new(options).args(&[&script, "one"]).done();
        assert_eq!((done.status, done.out), (0, format!("{script} one 0\n")), "{options}: {}", done.err);
    }
}

#[test]
fn the_timeout_shows_what_the_ranks_wait_for() {
    let done = Run::new("-n 3 --timeout 0.5").rank("@1 init events:tea @0 init @all sleep:100").done();
    assert_eq!(done.status, 124, "{done:?}");
    assert!(done.took < CONTAINED, "{done:?}");
    for expected in ["rank 1: tea", "rank 0: pid ", "it does not answer", "rank 2: has not initialised MPI"] {
        assert!(done.err.contains(expected), "{expected:?} is not in {done:?}");
    }
}

#[test]
fn a_rank_that_is_blocked_for_long_shows_what_all_wait_for() {
    let done =
        Run::new("-n 3").rank("init events:coffee @1 report:tea sleep:1 @0 sleep:1 @all finalize").done();
    assert_eq!(done.status, 0, "{done:?}");
    for expected in ["rank 1 has been blocked for long", "  rank 1: tea", "  rank 0: coffee"] {
        assert!(done.err.contains(expected), "{expected:?} is not in {done:?}");
    }
}

#[test]
fn a_cargo_example_is_built_and_run() {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let done = Run::new("-q -n 2 --example rank -p mpiexec -- print:hello\\n").dir(package).done();
    assert_eq!((done.status, done.out.as_str()), (0, "hello\nhello\n"), "{done:?}");
    let done = Run::new("-q -n 2 --example no-such-example").dir(package).done();
    assert_eq!(done.status, 2, "{done:?}");
    assert!(done.err.contains("no example \"no-such-example\"; there are: "), "{done:?}");
}

#[test]
fn the_environment_sets_options_too() {
    let done = Run::new("-n 1").env("MPIEXEC_TIMEOUT", "0.3").args(&["sleep", "100"]).done();
    assert_eq!(done.status, 124, "{done:?}");
    let done = Run::new("-n 1").env("MPIEXEC_TIMEOUT", "soon").args(&["true"]).done();
    assert_eq!(done.status, 2, "{done:?}");
    assert!(done.err.contains("MPIEXEC_TIMEOUT=\"soon\""), "{done:?}");
    // Those by which ranks are told are known too, and found before anything starts.
    for (name, value) in [("MPI_IFACE", "nosuch0"), ("MPI_PORT_RANGE", "9-1"), ("MPI_BIND_TO", "moon")] {
        let done = Run::new("-n 2").env(name, value).rank("print:started").done();
        assert_eq!((done.status, done.out.as_str()), (2, ""), "{done:?}");
        assert!(done.err.starts_with(&format!("mpiexec: {name}={value:?}: ")), "{done:?}");
    }
    let settings =
        [("MPI_BTL", "carrier"), ("MPI_CHECK", "maybe"), ("MPI_PMI_TIMEOUT", "0"), ("MPI_HOST_IP", "me")];
    for (name, value) in settings {
        let done = Run::new("-n 2").env(name, value).rank("print:started").done();
        assert_eq!((done.status, done.out.as_str()), (2, ""), "{done:?}");
        assert!(done.err.starts_with(&format!("mpiexec: {name}={value:?}: expected ")), "{done:?}");
    }
    let done = Run::new("-q -n 1 --port-range 7000-7100")
        .env("MPI_PORT_RANGE", "9-1")
        .rank("env:MPI_PORT_RANGE")
        .done();
    assert_eq!((done.status, done.out.as_str()), (0, "7000-7100\n"), "the flag beats it: {done:?}");
}

#[test]
fn a_misspelt_variable_costs_a_line() {
    let run = |options: &str| {
        Run::new(options).env("MPIEXEC_TIMOUT", "3").env("MPI_HOME", "/opt").rank("print:x").done()
    };
    let done = run("-n 1");
    assert_eq!((done.status, done.out.as_str()), (0, "x"), "{done:?}");
    let expected =
        "mpiexec: the variable MPIEXEC_TIMOUT is known to nobody here; did you mean MPIEXEC_TIMEOUT?\n";
    assert_eq!(done.err, expected);
    assert_eq!(run("-q -n 1").err, "");
}

#[test]
fn programs_come_from_a_file_that_a_variable_names() {
    let directory = Directory::new("programs");
    let rank = common::rank_program().display().to_string();
    let path = directory.file("programs", format!("-n 1 {rank} print:one\n").as_bytes());
    let done = Run::new("-q").env("MPIEXEC_CONFIGFILE", &path).done();
    assert_eq!((done.status, done.out.as_str()), (0, "one"), "{done:?}");
    let done = Run::new("-q -n 1").env("MPIEXEC_CONFIGFILE", &path).rank("print:two").done();
    assert_eq!((done.status, done.out.as_str()), (0, "two"), "the command line beats it: {done:?}");
    let config = directory.file("config", b"verbose = yes\ngenv = A='b c'\nallow-run-as-root = yes\n");
    let done = Run::new("-n 1").env("MPIEXEC_CONFIG", &config).rank("env:A").done();
    assert_eq!((done.status, done.out.as_str()), (0, "b c\n"), "{done:?}");
    assert!(done.err.contains("rank 0 is pid"), "{done:?}");
}

/// The command line, a hostfile, a file of programs and variables, damaged at random: whenever something is
/// wrong with them nothing is started, and the status is that of a usage error.
#[test]
fn after_damaged_input_nothing_is_started() {
    let directory = Directory::new("damage");
    let rank = common::rank_program().display().to_string();
    let mut state = 20261201_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let odd = ['-', '=', ':', ',', '[', '\'', '"', '#', '9', 'x', ' ', '\u{e4}'];
    let mut refused = 0;
    for round in 0..60 {
        let mut damage = |text: &str| {
            let mut chars: Vec<char> = text.chars().collect();
            let at = random(chars.len());
            chars[at] = odd[random(odd.len())];
            chars.into_iter().collect::<String>()
        };
        let run = match round % 4 {
            0 => Run::new(&damage("-n 2 --stdin 0 --timeout 50 --map-by node")).rank("print:started"),
            1 => {
                let hosts = directory.file("hosts", damage("localhost:2\nlocalhost slots=2").as_bytes());
                Run::new("-n 1 --launcher fork --timeout 50 --hostfile").args(&[&hosts]).rank("print:started")
            }
            2 => {
                let line = format!("{} '{rank}' print:started", damage("-n 1 -l --timeout 50 -x A=b"));
                Run::new("-configfile").args(&[&directory.file("programs", line.as_bytes())])
            }
            _ => Run::new("-n 1 --timeout 50").env("MPIEXEC_BIND_TO", &damage("core")).rank("print:started"),
        };
        let done = run.done();
        let good = done.status == 0 && done.out.contains("started");
        let bad =
            matches!(done.status, 2 | 126 | 127) && done.out.is_empty() && done.err.starts_with("mpiexec: ");
        assert!((good || bad) && !done.err.contains("panicked"), "round {round}: {done:?}");
        refused += usize::from(bad);
    }
    assert!(refused > 10, "only {refused} of them were refused");
}

#[test]
fn files_of_settings_are_read_or_refused_with_a_place() {
    let directory = Directory::new("files");
    for (option, text, expected) in [
        ("MPIEXEC_CONFIG", &b"ppn = 2\nppn = 3\n"[..], ":2:1: ppn is set to another value at "),
        ("MPIEXEC_CONFIG", b"ppn = 2\n# \xff\n", ":2:3: the byte 0xff is not UTF-8"),
        ("--hostfile", b"a\nb\xe4\n", ":2:2: the byte 0xe4 is not UTF-8"),
        ("--hostfile", b"a\n [::1\n", ":2:2: a bracket that does not end"),
        ("-configfile", b"-n 1 true\n\x80", ":2:1: the byte 0x80 is not UTF-8"),
    ] {
        let path = directory.file("file", text);
        let run = if option.starts_with('-') {
            Run::new("").args(&[option, &path])
        } else {
            Run::new("-n 1").env(option, &path)
        };
        let done = if option == "-configfile" { run.done() } else { run.rank("print:started").done() };
        assert_eq!((done.status, done.out.as_str()), (2, ""), "{done:?}");
        assert!(done.err.starts_with(&format!("mpiexec: {path}{expected}")), "{expected}: {done:?}");
    }
}

#[test]
fn all_exit_statuses_are_printed() {
    let done = Run::new("-n 3 --print-all-exitcodes").sh("exit $MPI_PMI_RANK").done();
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.err.contains("exit statuses: rank 0: 0, rank 1: 1, rank 2: "), "{done:?}");
    // Whoever was ended with the others has no status of its own.
    let done = Run::new("-n 2 --print-all-exitcodes").rank("init events:x @1 exit:7 @all sleep:60").done();
    assert_eq!(done.status, 7, "{done:?}");
    assert!(done.err.contains("exit statuses: rank 0: ended by mpiexec, rank 1: 7"), "{done:?}");
}

#[test]
fn the_help_has_the_table() {
    let done = Run::new("--help").done();
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    for expected in ["128+S", "126 / 127", "130 / 143", "--tag-output", "-np"] {
        assert!(done.out.contains(expected), "{expected}");
    }
}
