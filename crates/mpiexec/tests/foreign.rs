//! Programs and launchers of MPICH, where its wheel is unpacked under `target/peers/mpich`.

mod common;

use common::{Run, rank_program};
use std::path::PathBuf;
use std::process::Command;

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
fn programs_run_under_the_launcher_of_mpich() {
    let Some(bin) = mpich() else { return };
    let mut command = Command::new(bin.join("mpiexec.hydra"));
    command.args(["-n", "3"]).arg(rank_program()).args(["init", "fence", "get:2", "who", "finalize"]);
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("MPI") || n.starts_with("PMI")) {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((text.matches("rank 2\n").count(), text.matches(" of 3 in ").count()), (3, 3), "{output:?}");
}
