//! Programs and launchers of MPICH, where its wheel is unpacked under `target/peers/mpich`, and of Intel's under
//! `target/peers/impi-devel`.

mod common;

use common::{BOUND, Run, rank_program, self_check};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// The directory of MPICH's commands; `None`, and a line that says so, where it is not there.
fn mpich() -> Option<PathBuf> {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let bin = manifest.join("../../target/peers/mpich/bin");
    if bin.join("mpiexec.hydra").exists() {
        return Some(bin);
    }
    eprintln!("not tested, MPICH is not unpacked at {}", bin.display());
    None
}

const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum, one = 1;
    MPI_Comm parent, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_get_parent(&parent);
    if (argc > 1 && !strcmp(argv[1], "abort") && rank == 1) MPI_Abort(MPI_COMM_WORLD, 9);
    if (argc > 1 && !strcmp(argv[1], "abort")) MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && !strcmp(argv[1], "exit") && rank == 1) _exit(6);
    if (argc > 1 && !strcmp(argv[1], "exit")) pause();
    if (argc > 1 && !strcmp(argv[1], "names")) {
        char port[MPI_MAX_PORT_NAME] = "none";
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        if (MPI_Lookup_name("ocean", MPI_INFO_NULL, port) == MPI_SUCCESS) printf("too early: %s\n", port);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) MPI_Publish_name("ocean", MPI_INFO_NULL, "a-port");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Lookup_name("ocean", MPI_INFO_NULL, port);
        printf("found %s\n", port);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) MPI_Unpublish_name("ocean", MPI_INFO_NULL, "a-port");
        MPI_Barrier(MPI_COMM_WORLD);
        if (MPI_Lookup_name("ocean", MPI_INFO_NULL, port) == MPI_SUCCESS) printf("too late: %s\n", port);
    }
    if (argc > 1 && !strcmp(argv[1], "spawn")) {
        char *arguments[] = {"child", NULL};
        MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent, MPI_ERRCODES_IGNORE);
    }
    if (parent != MPI_COMM_NULL) {
        MPI_Intercomm_merge(parent, 0, &all);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    }
    printf("rank %d of %d, %d together\n", rank, size, sum);
    MPI_Finalize();
    return 0;
}
"#;

/// The program above, linked with MPICH.
fn linked_with_mpich(test: &str) -> Option<PathBuf> {
    let bin = mpich()?;
    let base = std::env::temp_dir().join(format!("mpiexec-mpich-{}-{test}", std::process::id()));
    let source = base.with_extension("c");
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compile = Command::new(bin.join("mpicc"));
    compile.arg(&source).arg("-o").arg(&base);
    let compiled = compile.output().is_ok_and(|out| out.status.success());
    std::fs::remove_file(&source).unwrap();
    if !compiled {
        eprintln!("not tested, MPICH's mpicc compiles nothing here");
    }
    compiled.then_some(base)
}

fn run(test: &str, options: &str, argument: &str) -> Option<common::Done> {
    let program = linked_with_mpich(test)?;
    let done =
        Run::new(&format!("-q --timeout 50 {options}")).args(&[program.to_str().unwrap(), argument]).done();
    std::fs::remove_file(program).unwrap();
    Some(done)
}

#[test]
fn a_program_of_mpich_runs_under_this_launcher() {
    let Some(done) = run("plain", "-n 3", "") else { return };
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.out.matches(" of 3, 3 together").count(), 3, "{done:?}");
}

#[test]
fn a_program_of_mpich_runs_on_several_hosts() {
    let Some(done) = run("hosts", "--launcher fork -host a:2,b:1", "") else { return };
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.out.matches(" of 3, 3 together").count(), 3, "{done:?}");
}

#[test]
fn the_abort_of_a_program_of_mpich_is_the_jobs() {
    let Some(done) = run("abort", "-n 2", "abort") else { return };
    assert_eq!(done.status, 9, "{done:?}");
    assert!(done.err.contains("rank 1 (pid "), "{done:?}");
}

#[test]
fn a_program_of_mpich_spawns() {
    let Some(done) = run("spawn", "-n 1", "spawn") else { return };
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.out.matches(", 3 together").count(), 3, "{done:?}");
}

#[test]
fn the_status_of_a_program_of_mpich_is_the_jobs() {
    let Some(done) = run("exit", "-n 2", "exit") else { return };
    assert_eq!(done.status, 6, "{done:?}");
    assert!(done.err.contains("rank 1 (pid ") && done.err.contains("exited with status 6"), "{done:?}");
}

#[test]
fn ranks_of_mpich_find_each_other_by_the_key_value_space() {
    // Told that nobody shares its memory, each rank puts its address there, and a barrier makes them known.
    let Some(done) = run("values", "-n 3 -x MPIR_CVAR_NOLOCAL=1", "") else { return };
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.out.matches(" of 3, 3 together").count(), 3, "{done:?}");
}

#[test]
fn a_program_of_mpich_publishes_names() {
    let Some(done) = run("names", "-n 2", "names") else { return };
    assert_eq!((done.status, done.out.matches("found a-port\n").count()), (0, 2), "{done:?}");
    assert!(!done.out.contains("too "), "{done:?}");
}

/// Runs a launcher of others, bounded in time, without what this test's own launcher may have set.
fn under(launcher: &Path, words: &[&str], program: &Path, arguments: &[&str]) -> (i32, Output) {
    let mut command = Command::new(launcher);
    command.args(words).arg(program).args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("MPI") || n.starts_with("PMI")) {
        command.env_remove(name);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > BOUND {
            child.kill().unwrap();
            panic!("not done in time: {:?}", child.wait_with_output());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn ranks_talk_under_the_launcher_of_mpich_in_each_of_its_ways() {
    let Some(bin) = mpich() else { return };
    let hydra = bin.join("mpiexec.hydra");
    // By an inherited descriptor, by a port, and by the younger protocol.
    for words in
        [&["-n", "3"][..], &["-pmi-port", "-n", "3"], &["-n", "3", "-env", "MPI_PMI_PROTOCOL", "pmi2"]]
    {
        let (status, output) = under(&hydra, words, self_check(), &[]);
        assert_eq!(
            (status, text(&output).matches(": all is well\n").count()),
            (0, 3),
            "{words:?} {output:?}"
        );
    }
}

#[test]
fn statuses_reach_the_launcher_of_mpich() {
    let Some(bin) = mpich() else { return };
    let hydra = bin.join("mpiexec.hydra");
    // It kills the others at once, and now and then tells of that (9) instead.
    let (status, output) = under(&hydra, &["-n", "3"], self_check(), &["exit", "1", "6"]);
    assert!([6, 9].contains(&status), "{status} {output:?}");
    let (status, output) = under(&hydra, &["-n", "3"], self_check(), &["abort", "1", "7"]);
    assert!([7, 9].contains(&status), "{status} {output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &text(&output);
    assert!(said.contains("rank 1 called abort(7) on \"MPI_COMM_WORLD\""), "{output:?}");
}

#[test]
fn programs_are_spawned_by_the_launcher_of_mpich() {
    let Some(bin) = mpich() else { return };
    for words in [&["-n", "2"][..], &["-n", "2", "-env", "MPI_PMI_PROTOCOL", "pmi2"]] {
        let (status, output) = under(&bin.join("mpiexec.hydra"), words, self_check(), &["spawn", "2"]);
        assert_eq!(status, 0, "{output:?}");
        assert!(text(&output).contains("4 together: all is well\n"), "{output:?}");
    }
}

#[test]
fn ranks_talk_under_the_launcher_of_intel() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/impi-devel");
    let hydra = root.join("bin/mpiexec.hydra");
    if !hydra.exists() {
        return eprintln!("not tested, Intel MPI is not unpacked at {}", root.display());
    }
    let (status, output) = under(&hydra, &["-n", "2"], self_check(), &[]);
    assert_eq!((status, text(&output).matches(": all is well\n").count()), (0, 2), "{output:?}");
}

#[test]
fn programs_run_under_the_launcher_of_mpich() {
    let Some(bin) = mpich() else { return };
    let steps = ["init", "fence", "get:2", "who", "finalize"];
    let (status, output) = under(&bin.join("mpiexec.hydra"), &["-n", "3"], rank_program(), &steps);
    let text = text(&output);
    assert_eq!(status, 0, "{output:?}");
    assert_eq!((text.matches("rank 2\n").count(), text.matches(" of 3 in ").count()), (3, 3), "{output:?}");
}
