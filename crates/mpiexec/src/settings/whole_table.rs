//! Tests over the whole table of options, and of input that is damaged at random.

use super::*;
use crate::cli::table::{self, ON_THE_COMMAND_LINE_ONLY, OPTIONS, Opt, Support, Takes};
use crate::cli::{configfile, parse};
use crate::plan::Plan;
use proptest::prelude::*;

fn words(line: &[&str]) -> Result<Words, UsageError> {
    parse::parse(line.iter().map(OsString::from))
}

/// The job, as text, without the words by which it was asked for.
fn shown(line: &[&str], outside: &Outside) -> String {
    let mut job = Job::new(words(line).unwrap(), outside).unwrap();
    job.stdin_said.clear();
    job.output_from_said.clear();
    job.iface.iter_mut().for_each(|(_, said)| said.clear());
    format!("{job:?}")
}

/// A value that changes something, and the words in front of which it does.
fn sample(opt: &Opt) -> (&'static str, &'static [&'static str]) {
    let value = match opt.name {
        "n" | "ppn" | "fan-out" => "3",
        "wdir" | "path" | "output-dir" | "matrix" | "report" | "trace" | "picture" => "/tmp/somewhere",
        "env" | "genv" => "NAME=some=thing",
        "initial-errhandler" => "mpi_errors_return",
        "arch" => std::env::consts::ARCH,
        "soft" => "1:4",
        "example" | "bin" => return ("heat", &[]),
        "package" | "profile" | "features" => return ("some", &["--example", "heat"]),
        "release" | "no-default-features" => return ("yes", &["--example", "heat"]),
        "map-by" => "node",
        "bind-to" => "core",
        "output-from" => "0",
        "stdin" => "all",
        "timeout" | "silence" | "wait-hosts" => "7",
        "hostfile" => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/one-host"),
        "host" => "a:2,b",
        "launcher" => "fork",
        "iface" => "lo",
        "port-range" => "7000-7010",
        _ if matches!(opt.takes, Takes::Flag) => "yes",
        other => panic!("{other} is new: give it a value here that changes something"),
    };
    // The matrix is drawn with --stats.
    (value, if opt.name == "matrix" { &["--stats", "a"] } else { &["a"] })
}

/// A new option is one that variables and files set too: to the same thing as the command line.
#[test]
fn every_option_has_a_variable_and_a_line_in_the_configuration_file() {
    for opt in OPTIONS {
        if matches!(opt.support, Support::Refused(_)) || ON_THE_COMMAND_LINE_ONLY.contains(&opt.name) {
            assert!(!opt.has_default(), "{}", opt.name);
            continue;
        }
        // It is replaced by the programs in it; `configfile` has a test of its own.
        if opt.name == "configfile" {
            assert!(opt.has_default());
            continue;
        }
        let (value, rest) = sample(opt);
        let flag = format!("--{}={value}", opt.name);
        let given = shown(&[&[flag.as_str()], rest].concat(), &Outside::default());
        let file = configfile::defaults("f", &format!("{} = {value}\n", opt.name)).unwrap();
        assert_eq!(file.len(), 1);
        assert_eq!(shown(rest, &Outside { environment: vec![], file }), given, "file: {}", opt.name);
        for variable in opt.variables() {
            let environment = vec![(opt, value.to_owned(), variable.clone())];
            assert_eq!(shown(rest, &Outside { environment, file: vec![] }), given, "{variable}");
        }
        let says_nothing = ["arch", "soft", "allow-run-as-root", "top"].contains(&opt.name);
        if !rest.is_empty() && !says_nothing {
            assert_ne!(shown(rest, &Outside::default()), given, "{} changes nothing", opt.name);
        }
    }
}

/// Each with the origin of its value; nothing that can be set is left out.
#[test]
fn every_option_is_shown_with_where_it_comes_from() {
    for opt in OPTIONS.iter().filter(|opt| opt.has_default()) {
        let (value, rest) = if opt.name == "configfile" { ("/f", &["a"][..]) } else { sample(opt) };
        let line = |text: &str| {
            let line = text.lines().find(|line| line.split(" = ").next().map(str::trim) == Some(opt.name));
            line.unwrap_or_else(|| panic!("{} is not shown", opt.name)).to_owned()
        };
        let nothing = line(&show(&words(rest).unwrap(), &Outside::default()));
        let is_given = rest.iter().any(|word| word.trim_start_matches('-') == opt.name);
        assert!(nothing.contains(&opt.variable()) || is_given, "{nothing}");
        let file = configfile::defaults("f", &format!("\n {} = {value}\n", opt.name)).unwrap();
        let shown = line(&show(&words(rest).unwrap(), &Outside { environment: vec![], file }));
        assert!(shown.contains("f:2:2") && shown.contains(value), "{shown}");
        let environment = vec![(opt, value.to_owned(), opt.variable())];
        let shown = line(&show(&words(rest).unwrap(), &Outside { environment, file: vec![] }));
        assert!(shown.contains(&opt.variable()) && shown.contains(value), "{shown}");
    }
    let all = show(&words(&["a"]).unwrap(), &Outside::default());
    for setting in mpi_pmi::settings::SETTINGS {
        assert!(all.contains(&format!("\n{} ", setting.name)), "{} is not shown", setting.name);
    }
}

#[test]
fn variables_of_several_words_add_up_and_later_ones_win() {
    let genv = table::find("genv").unwrap();
    let set = |text: &str| (genv, text.to_owned(), genv.variable());
    let file = vec![(genv, String::from("A=file B=file"), String::from("f:1:1"))];
    let outside = Outside { environment: vec![set("B='the environment'")], file };
    let job = Job::new(words(&["-genv", "C", "flag", "a"]).unwrap(), &outside).unwrap();
    let shown: Vec<String> = job.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(shown, ["A=file", "B=file", "B=the environment", "C=flag"]);
    let outside = Outside { environment: vec![set("A='b")], file: vec![] };
    let error = Job::new(words(&["a"]).unwrap(), &outside).unwrap_err().to_string();
    assert_eq!(error, "MPIEXEC_GENV=\"A='b\": character 3: a quote that does not end");
}

#[test]
fn what_the_library_would_refuse_is_refused_before_anything_starts() {
    let error = |line: &[&str]| Job::new(words(line).unwrap(), &Outside::default()).unwrap_err().to_string();
    for (assignment, expected) in [
        ("MPI_BTL=carrier", "MPI_BTL=\"carrier\": expected shm and tcp"),
        ("MPI_CHECK=maybe", "MPI_CHECK=\"maybe\": expected 0 or 1"),
        ("MPI_BLOCKED_REPORT_SECONDS=soon", "MPI_BLOCKED_REPORT_SECONDS=\"soon\": expected a number"),
        ("MPI_FAULTS=flood=1", "MPI_FAULTS=\"flood=1\": expected NAME=VALUE"),
        ("MPI_HOST_IP=here", "MPI_HOST_IP=\"here\": expected an IP address"),
    ] {
        for option in ["-genv", "-x"] {
            assert!(error(&[option, assignment, "a"]).starts_with(expected), "{option} {assignment}");
        }
        assert!(error(&["a", ":", "-x", assignment, "b"]).starts_with(expected), "the second program's too");
    }
    let line = ["-genv", "MPI_BTL=carrier", "-x", "MPI_BTL=tcp", "a"];
    assert!(Job::new(words(&line).unwrap(), &Outside::default()).is_ok(), "a program's own value counts");
}

#[test]
fn programs_with_other_transports_are_no_job() {
    let check = |first: &str, second: &str| {
        let of = |value: &str| format!("MPI_BTL={value}");
        let line = words(&["-x", &of(first), "a", ":", "-x", &of(second), "b"]).unwrap();
        Job::new(line, &Outside::default()).map(drop).map_err(|e| e.to_string())
    };
    for (first, second) in
        [("tcp", "tcp"), ("tcp,shm", "shm, tcp"), ("", "shm,tcp"), ("^shm", "tcp"), ("^tcp", "shm")]
    {
        assert_eq!(check(first, second), Ok(()), "{first:?} and {second:?}");
    }
    for (first, second) in [("tcp", "shm"), ("", "tcp"), ("shm,tcp", "^shm")] {
        let error = check(first, second).unwrap_err();
        assert!(
            error.starts_with(&format!("MPI_BTL is {first:?} for program 1 and {second:?} for program 2")),
            "{error}"
        );
    }
    let line = words(&["-x", "MPI_BTL=tcp", "a", ":", "b"]).unwrap();
    assert!(Job::new(line, &Outside::default()).is_err());
}

#[test]
fn values_out_of_a_file_of_programs_have_their_place() {
    let path = std::env::temp_dir().join(format!("mpiexec-programs-{}", std::process::id()));
    for (text, expected) in [
        ("-n 1 a\n-n x b\n", ":2:1: -n \"x\": expected"),
        ("  -n 1 -host a,,b c", ":1:8: -host \"a,,b\": character 3"),
        ("-n 1 a\n\n -n 2", ":3:2: no program is given"),
        ("-n 1 -x =1 a", ":1:6: -x \"=1\": expected NAME=VALUE"),
        ("--timeout 1 a\n-n 2 --timeout 2 b", ":1:1: --timeout \"1\" and "),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = configfile::programs(&path).and_then(|words| Job::new(words, &Outside::default()));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}{expected}", path.display())), "{text}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// Takes, puts in, doubles or replaces characters of a text.
fn damaged(text: &str, damage: &[(usize, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, how, with) in damage {
        let at = at % (chars.len() + 1);
        match how {
            0 if at < chars.len() => _ = chars.remove(at),
            1 if at < chars.len() => chars[at] = *with,
            2 if at < chars.len() => chars.insert(at, chars[at]),
            _ => chars.insert(at, *with),
        }
    }
    chars.into_iter().collect()
}

/// The first line names file, line and column that are there.
fn has_place(error: &str, name: &str, text: &str) -> bool {
    let place = error.strip_prefix(&format!("{name}:")).and_then(|rest| {
        let mut parts = rest.splitn(3, ':');
        Some((parts.next()?.parse::<usize>().ok()?, parts.next()?.parse::<usize>().ok()?))
    });
    place.is_some_and(|(line, column)| {
        let line = text.lines().nth(line.wrapping_sub(1));
        line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&column))
    })
}

proptest! {
    /// However a file or a line is damaged: it is understood, or the fault has its place; nobody panics.
    #[test]
    fn damaged_input_is_understood_or_named(
        damage in proptest::collection::vec((any::<usize>(), 0u8..4, prop_oneof![
            prop::sample::select(vec!['-', '=', ':', ',', '[', ']', '\'', '"', '\\', '#', '\n', ' ', '0', '9', '\u{e4}', '\0']),
            any::<char>(),
        ]), 1..4),
    ) {
        let hosts = damaged("a\nb:2 # two\nc slots=3 max_slots=4\nme@d\n[fe80::1]:2\nr[01-04,7]n\n", &damage);
        if let Err(fault) = hostfile::file(&hosts) {
            prop_assert!(has_place(&format!("f:{fault}"), "f", &hosts), "{hosts:?}: {fault}");
        }
        let defaults = damaged("timeout = 3\n# more\n tag-output=yes\nbind-to = core\n", &damage);
        match configfile::defaults("f", &defaults) {
            Err(e) => prop_assert!(has_place(&e.to_string(), "f", &defaults), "{defaults:?}: {e}"),
            Ok(file) => {
                let outside = Outside { environment: vec![], file };
                if let Err(e) = Job::new(words(&["a"]).unwrap(), &outside) {
                    prop_assert!(has_place(&e.to_string(), "f", &defaults), "{defaults:?}: {e}");
                }
            }
        }
        let line = damaged("-n 2 -l --timeout 3 --stdin all -x A=1 --bind-to core -host a,b:2 prog arg : -n 1 b", &damage);
        let split: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        // Words with a zero byte reach no program.
        if !line.contains('\0') {
            if let Ok(job) = parse::parse(split).and_then(|words| Job::new(words, &Outside::default())) {
                // A Cargo target would be built.
                if job.programs.iter().all(|program| matches!(program.what, What::Named(_))) {
                    let _ = Plan::new(&Job { quiet: true, ..job });
                }
            }
        }
    }

    #[test]
    fn damaged_files_of_programs_are_understood_or_named(
        damage in proptest::collection::vec((any::<usize>(), 0u8..4, any::<char>()), 1..4),
    ) {
        let text = damaged("# two programs\n-n 2 -host a 'one program' x\n-n 1 -x A=b two \"y z\"\n", &damage);
        let result = configfile::parse_programs("f", &text);
        match result.and_then(|words| Job::new(words, &Outside::default())) {
            Ok(_) => {}
            Err(e) => prop_assert!(
                has_place(&e.to_string(), "f", &text) || e.to_string() == "f: no program in this file",
                "{text:?}: {e}"
            ),
        }
    }
}
