//! `--pty`: the rank that reads standard input has a terminal of its own.

mod common;

use common::Run;

/// What a rank finds: is its input, its output, its errors a terminal?
const LOOK: &str = "for fd in 0 1 2; do test -t $fd && printf y || printf n; done; echo \" $MPI_PMI_RANK\"";

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn one_rank_has_a_terminal_and_the_others_have_none() {
    for (options, expected) in [
        ("-q -n 2 --pty", ["nnn 1", "yyy 0"]),
        ("-q -n 2 --pty --stdin 1", ["nnn 0", "yyy 1"]),
        ("-q -n 2 --pty --stdin all", ["yyy 0", "yyy 1"]),
        ("-q -n 2", ["nnn 0", "nnn 1"]),
        ("-q --launcher fork -host a,b --pty --stdin 1", ["nnn 0", "yyy 1"]),
    ] {
        let done = Run::new(options).sh(LOOK).done();
        assert_eq!((done.status, lines(&done.out)), (0, expected.to_vec()), "{options}: {done:?}");
    }
    let done = Run::new("-q --pty -n 1").sh("stty size; tty >/dev/null && ps -o tpgid= -p $$").done();
    let (size, group) = done.out.split_once('\n').expect("two lines");
    assert_eq!(size, "24 80", "{done:?}");
    assert!(group.trim().parse::<i32>().is_ok_and(|group| group > 0), "it is its own: {done:?}");
}

#[test]
fn what_is_typed_arrives_and_so_does_its_end() {
    for options in ["-q -n 2 --pty", "-q --launcher fork -host a,b --pty"] {
        let done = Run::new(options).input(b"one\ntwo".to_vec()).sh("stty -echo; cat; echo; echo end").done();
        assert_eq!(done.status, 0, "{options}: {done:?}");
        assert!(done.out.ends_with("end\n") && done.out.contains("two\n"), "{options}: {done:?}");
        assert!(!done.out.contains('\r'), "a newline is one byte: {done:?}");
    }
    let done = Run::new("-q -n 1 --pty").sh("cat; exit 5").done();
    assert_eq!(done.status, 5, "no input at all: {done:?}");
}

#[test]
fn the_interrupt_key_reaches_the_rank_alone() {
    let done = Run::new("-q -n 1 --pty").input(vec![3]).args(&["sleep", "100"]).done();
    assert_eq!(done.status, 130, "{done:?}");
    assert!(done.err.contains("rank 0") && done.err.contains("was killed by signal 2"), "{done:?}");
}

/// With a terminal of the launcher's own, whose size changes: the rank's follows, and the rank is told.
#[test]
fn the_size_of_the_terminal_follows() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        return eprintln!("not tested, there is no script");
    }
    let mpiexec = common::mpiexec().display().to_string();
    let look = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; done";
    let resize = "while ! grep -q ready seen; do sleep 0.02; done; stty rows 44 cols 99 < $tty";
    let line = format!(
        "stty rows 33 cols 77; tty=$(tty); : > seen; ({resize}) & {mpiexec} -q -n 1 --pty sh -c \"{look}\" | tee seen"
    );
    let directory = common::Directory::new("winch");
    let mut script = std::process::Command::new("timeout");
    script.args(["60", "script", "-qec", &line, "/dev/null"]).current_dir(&directory.path);
    let output = script.env("MPIEXEC_CONFIG", "/dev/null").output().expect("script runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("44 99"), "{text:?}");
}

/// With a terminal of the launcher's own, which `script` makes.
#[test]
fn the_launchers_terminal_is_as_before_in_the_end() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        return eprintln!("not tested, there is no script");
    }
    let mpiexec = common::mpiexec().display().to_string();
    let line = format!(
        "stty rows 33 cols 77; {mpiexec} -q -n 1 --pty sh -c 'test -t 0 && stty size && read x && echo got $x'; \
         stty -a | grep -o -e '-\\?icanon' -e '-\\?isig' -e '-\\?echo '"
    );
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("MPIEXEC_CONFIG", "/dev/null");
    let mut child = script
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("script runs");
    use std::io::{Read, Write};
    let (mut keys, mut screen) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.contains("33 77") && screen.read(&mut byte).is_ok_and(|n| n > 0) {
        text.push(char::from(byte[0]));
    }
    keys.write_all(b"typed\r").expect("taken");
    screen.read_to_string(&mut text).expect("text");
    child.wait().expect("script ends");
    assert!(text.contains("33 77") && text.contains("got typed"), "{text:?}");
    for on in ["icanon", "isig", "echo"] {
        assert!(text.contains(on) && !text.contains(&format!("-{on}")), "{on} is not as before: {text:?}");
    }
}
