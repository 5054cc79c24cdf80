//! The native start-up protocol through the real launcher, and the environment around it.

mod common;

use common::{Run, rank_program};
use std::process::Command;

#[test]
fn ranks_learn_who_they_are() {
    let done = Run::new("-q -n 4").rank("init who finalize").done();
    assert_eq!(done.status, 0, "{done:?}");
    for rank in 0..4 {
        assert!(done.out.contains(&format!("{rank} of 4 in ")), "{done:?}");
    }
}

#[test]
fn values_are_found_without_a_fence() {
    // Rank 0 asks before rank 3 has even started.
    let done = Run::new("-q -n 4").rank("@3 sleep:0.3 @all init @0 get:3 get:0 @all finalize").done();
    assert_eq!(done.out, "rank 3\nrank 0\n", "{done:?}");
}

#[test]
fn fences_can_be_repeated_by_many() {
    let done = Run::new("-q -n 20").rank("init fence fence put:x fence @7 get:19 @all fence finalize").done();
    assert_eq!((done.status, done.out.as_str()), (0, "x\n"), "{done:?}");
}

#[test]
fn a_value_of_a_rank_that_left_is_nothing() {
    let done = Run::new("-q -n 2").rank("@1 exit:0 @0 init get:1 finalize").done();
    assert_eq!((done.status, done.out.as_str()), (0, "nothing\n"), "{done:?}");
}

#[test]
fn one_rank_after_another_in_a_script() {
    let rank = rank_program().display().to_string();
    let done =
        Run::new("-q -n 2").sh(&format!("{rank} init who finalize && {rank} init who finalize")).done();
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.out.matches(" of 2 in ").count(), 4, "{done:?}");
}

#[test]
fn many_programs_make_one_world() {
    let rank = rank_program().to_str().unwrap().to_owned();
    let done = Run::new("-q -n 1 -x A=1")
        .args(&[&rank, "init", "who", "env:A", "finalize", ":", "-n", "2", "-env", "A", "2", &rank, "init"])
        .args(&["who", "env:A", "finalize"])
        .done();
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.out.matches(" of 3 in ").count(), 3, "{done:?}");
    assert_eq!(done.out.lines().filter(|l| *l == "2").count(), 2, "{done:?}");
}

#[test]
fn programs_come_from_a_file_too() {
    let path = std::env::temp_dir().join(format!("mpiexec-config-{}", std::process::id()));
    std::fs::write(&path, "# two programs\n-n 1 echo 'a b'\n-n 2 echo c\n").unwrap();
    let done = Run::new(&format!("-q -configfile {}", path.display())).done();
    std::fs::remove_file(&path).unwrap();
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a b", "c", "c"], "{done:?}");
}

#[test]
fn a_launcher_inside_a_rank_starts_a_job_of_its_own() {
    let inner =
        format!("{} -q -n 3 {} init who finalize", common::mpiexec().display(), rank_program().display());
    let done = Run::new("-q -n 2").sh(&inner).done();
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.out.matches(" of 3 in ").count(), 6, "{done:?}");
}

#[test]
fn a_job_inside_a_rank_ends_with_its_rank() {
    let inner = format!("{} -q -n 2 sh -c 'echo rank $$; exec sleep 1000'", common::mpiexec().display());
    let live = Run::new("-q -n 2").sh(&inner).start();
    while common::numbers(&live.wait_out("rank"), "rank ").len() < 4 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let pids = common::numbers(&live.wait_out("rank"), "rank ");
    live.signal("INT");
    assert_eq!(live.done().status, 130);
    for pid in pids {
        common::wait_gone(pid);
    }
}

/// Runs the rank program without a launcher.
fn alone(env: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(rank_program());
    command.args(["init", "who", "finalize"]);
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("MPI") || n.starts_with("SLURM")) {
        command.env_remove(name);
    }
    let output = command.envs(env.iter().copied()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn without_a_launcher_a_process_is_rank_0_of_1() {
    let (status, text) = alone(&[]);
    assert!(status == Some(0) && text.starts_with("0 of 1 in singleton-"), "{text}");
}

#[test]
fn bad_variables_are_named() {
    for (env, expected) in [
        (&[("MPI_PMI_ROOT", "fd:9"), ("MPI_PMI_RANK", "x"), ("MPI_PMI_SIZE", "2")][..], "MPI_PMI_RANK=\"x\""),
        (
            &[("MPI_PMI_ROOT", "fd:99"), ("MPI_PMI_RANK", "0"), ("MPI_PMI_SIZE", "2")],
            "MPI_PMI_ROOT=\"fd:99\"",
        ),
        (&[("MPI_PMI_ROOT", "fd:0"), ("MPI_PMI_RANK", "0"), ("MPI_PMI_SIZE", "2")], "launcher"),
        (&[("MPI_PMI_RANK", "0")], "MPI_PMI_RANK is set and MPI_PMI_ROOT is not"),
        (&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")], "Open MPI"),
        (&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "1")], "srun --mpi=pmi2"),
    ] {
        let (status, text) = alone(env);
        assert!(status == Some(3) && text.contains(expected), "{status:?} {text}");
    }
    let (status, text) = alone(&[("OMPI_COMM_WORLD_SIZE", "4"), ("MPI_ALLOW_SINGLETON", "1")]);
    assert!(status == Some(0) && text.starts_with("0 of 1"), "{text}");
}

#[test]
fn foreign_variables_do_not_reach_the_ranks() {
    let done = Run::new("-q -n 2").env("PMI_RANK", "5").env("PMIX_RANK", "5").sh("env").done();
    assert!(!done.out.contains("PMIX_RANK") && !done.out.contains("\nPMI_RANK=5"), "{done:?}");
    let own = |rank: u32| done.out.lines().any(|l| l == format!("PMI_RANK={rank}"));
    assert!(own(0) && own(1), "the launcher's own are there: {done:?}");
}

#[test]
fn nonsense_on_the_control_channel_fails_the_job() {
    let script =
        "fd=${MPI_PMI_ROOT#fd:}; [ $MPI_PMI_RANK = 1 ] && eval \"echo nonsense >&$fd\"; exec sleep 100";
    let done = Run::new("-q -n 2").args(&["bash", "-c", script]).done();
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.err.contains("rank 1") && done.err.contains("start-up protocol"), "{done:?}");
}

#[test]
fn more_ranks_than_processors_have_one_line() {
    let done = Run::new("-n 300 true").done();
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(done.err.contains("300 ranks share"), "{done:?}");
    let done = Run::new("-n 300 --oversubscribe true").done();
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{done:?}");
}

#[test]
fn many_ranks_fit_into_the_open_files_of_a_shell() {
    let mpiexec = common::mpiexec().display().to_string();
    let script = format!("ulimit -Sn 1024; {mpiexec} -q -n 512 sh -c 'ulimit -Sn' | sort | uniq -c");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["512", "1024"], "{output:?}");
}

#[test]
fn many_ranks_meet_and_end_within_the_open_files_of_a_shell() {
    let (mpiexec, rank) = (common::mpiexec().display().to_string(), rank_program().display().to_string());
    let script = format!("ulimit -Sn 1024; exec {mpiexec} -q -n 512 {rank} init fence who finalize");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.matches(" of 512 in ").count(), 512);
}

#[test]
fn the_map_is_read_back_from_the_kernel() {
    let done = Run::new("-n 2 --show-map --bind-to core -q").args(&["sleep", "0.2"]).done();
    let lines: Vec<&str> = done.err.lines().filter(|l| l.contains("processors ")).collect();
    assert_eq!(lines.len(), 2, "{done:?}");
    let allowed =
        |line: &str| line.split("processors ").nth(1).map(|rest| rest.split(',').next().unwrap().to_owned());
    let bound = lines.iter().map(|l| allowed(l).unwrap()).collect::<Vec<_>>();
    assert!(bound.iter().all(|cpu| cpu.parse::<usize>().is_ok()), "one processor each: {bound:?}");
}

#[test]
fn ranks_know_the_processors_that_they_share() {
    let count = std::thread::available_parallelism().unwrap().get().min(2);
    let shared = |options: &str, front: &[&str]| {
        let rank = rank_program().to_str().unwrap();
        let steps = [front, &[rank, "init", "processors", "finalize"]].concat();
        let done = Run::new(options).args(&steps).done();
        assert_eq!(done.status, 0, "{done:?}");
        done.out.lines().map(|l| l.replace(" processors", "").parse().unwrap()).collect::<Vec<usize>>()
    };
    assert_eq!(shared("-q -n 2 --bind-to core", &[]), [count, count], "each has one, together they have all");
    let first =
        "for c in $(seq 0 1023); do taskset -c $c true 2>/dev/null && exec taskset -c $c \"$@\"; done";
    assert_eq!(shared("-q -n 2", &["sh", "-c", first, "sh"]), [1, 1], "bound by somebody else");
}

#[test]
fn settings_are_shown_with_their_origin() {
    let path = std::env::temp_dir().join(format!("mpiexec-settings-{}", std::process::id()));
    std::fs::write(&path, "stdin = none\ntag-output = yes\n").unwrap();
    let done = Run::new("--timeout 5 --show-config")
        .env("MPIEXEC_CONFIG", path.to_str().unwrap())
        .env("MPIEXEC_TAG_OUTPUT", "no")
        .done();
    std::fs::remove_file(&path).unwrap();
    let line = |name: &str| done.out.lines().find(|l| l.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("timeout").contains("= 5 ") && line("timeout").contains("command line"), "{done:?}");
    assert!(line("tag-output").contains("environment, MPIEXEC_TAG_OUTPUT"), "{done:?}");
    assert!(line("stdin").contains("none") && line("stdin").contains(":1:1"), "{done:?}");
    assert!(line("verbose").contains("default") && line("bind-to").contains("default"), "{done:?}");
    assert!(done.out.contains("SIMULTANEOUS"), "{done:?}");
}

#[test]
fn a_dry_run_starts_nothing() {
    let done = Run::new("-n 2 --dry-run -x A=1").args(&["sh", "-c", "echo started >&2"]).done();
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.out.matches("A=1").count(), 2, "{done:?}");
}
