//! The worst surroundings: long, full, read-only and deleted directories, no room for shared memory.

mod common;

use common::{Directory, Run};
use std::process::Command;

const HERE_AND_ELSEWHERE: [&str; 2] = ["", "--launcher fork -host a,b"];

#[test]
fn a_temporary_directory_with_a_long_name_is_one_like_others() {
    let directory = Directory::new("long");
    let long = directory.path.join("x".repeat(200));
    std::fs::create_dir_all(&long).unwrap();
    for options in ["", "--launcher fork -host a,b --copy-self"] {
        let run = Run::new(&format!("-n 2 --oversubscribe {options}")).env("TMPDIR", long.to_str().unwrap());
        let done = run.rank("init fence finalize print:x\\n").done();
        assert_eq!((done.status, done.out.as_str(), done.err.as_str()), (0, "x\nx\n", ""), "{options}");
    }
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0, "nothing is left there");
}

#[test]
fn no_room_in_dev_shm_is_none_that_is_missed() {
    let mpiexec = common::mpiexec().display().to_string();
    let rank = common::rank_program().display().to_string();
    let job = format!("{mpiexec} --oversubscribe -n 4 {rank} init fence finalize 'print:x\\n'");
    let script = format!("mount -t tmpfs -o size=4k none /dev/shm || exit 77; exec {job}");
    let output =
        Command::new("unshare").args(["-m", "sh", "-c", &script]).env("MPIEXEC_CONFIG", "/dev/null").output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) && output.status.code() != Some(1) => output,
        other => return eprintln!("not tested, a namespace of mounts cannot be made here: {other:?}"),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("x\n".repeat(4), String::new()));
    assert_eq!(output.status.code(), Some(0));
}

/// Files of `--output-dir` on a full disk cost a line and the status, not the job; the others are whole.
#[test]
fn a_full_disk_under_the_files_of_ranks_is_told_as_such() {
    if !std::path::Path::new("/dev/full").exists() {
        return eprintln!("not tested, there is no /dev/full");
    }
    for launcher in HERE_AND_ELSEWHERE {
        let directory = Directory::new("full");
        std::os::unix::fs::symlink("/dev/full", directory.path.join("rank.0.out")).unwrap();
        let options = format!("-q -n 2 {launcher} --output-dir {}", directory.path.display());
        let done = Run::new(&options)
            .rank("@0 print:lost\\n sleep:0.2 print:lost\\n @1 sleep:0.4 print:kept\\n")
            .done();
        assert_eq!(done.status, 3, "{done:?}");
        let told: Vec<&str> = done.err.lines().collect();
        assert_eq!(told.len(), 1, "{done:?}");
        assert!(
            told[0].contains("rank.0.out in ") && told[0].contains("No space left on device"),
            "{done:?}"
        );
        let kept = std::fs::read_to_string(directory.path.join("rank.1.out")).unwrap();
        assert_eq!(kept, "kept\n", "the job went on: {done:?}");
        // The status of a rank that fails is the job's, also then.
        let done = Run::new(&options).rank("@0 print:lost\\n @1 sleep:0.4 exit:7").done();
        assert_eq!(done.status, 7, "{done:?}");
    }
    let done = Run::new("-n 1 --output-dir /proc/nowhere").rank("print:x\\n").done();
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.err.contains("--output-dir /proc/nowhere: "), "{done:?}");
}

/// Where nobody can write, root included: what would be written costs a line.
#[test]
fn a_directory_without_leave_to_write_costs_a_report_and_not_the_job() {
    for launcher in HERE_AND_ELSEWHERE {
        let options = format!("-q -n 2 {launcher} --stats");
        let done = Run::new(&options).dir("/proc".as_ref()).rank("init print:x\\n finalize").done();
        assert_eq!((done.status, done.out.as_str()), (0, "x\nx\n"), "{done:?}");
        assert!(done.err.contains("communication matrix cannot be written to mpi-matrix.svg"), "{done:?}");
    }
}

/// Ranks of this machine are where the launcher is; others cannot be, and are never silently elsewhere.
#[test]
fn a_deleted_directory_is_never_changed_in_silence() {
    let directory = Directory::new("deleted");
    let mpiexec = common::mpiexec().display().to_string();
    let run = |options: &str| {
        let here = directory.path.join("here");
        std::fs::create_dir_all(&here).unwrap();
        let line = format!("rmdir '{}'; {mpiexec} {options} readlink /proc/self/cwd", here.display());
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", &line])
            .current_dir(&here)
            .env("MPIEXEC_CONFIG", "/dev/null")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, out, err) = run("-n 1");
    assert_eq!((status, out.contains("here (deleted)"), err.as_str()), (Some(0), true, ""), "{out}");
    let (status, out, err) = run("-n 2 --launcher fork -host a,b");
    assert_eq!((status, out.as_str()), (Some(3), ""), "{err}");
    assert!(
        err.contains("working directory . on ") && err.contains("No such file") && err.contains("-wdir"),
        "{err}"
    );
    let (status, out, err) = run("-q -n 2 --launcher fork -host a,b -wdir /");
    assert_eq!((status, out.as_str()), (Some(0), "/\n/\n"), "{err}");
}
