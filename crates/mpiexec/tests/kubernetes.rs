//! What docs/kubernetes says, with files and variables as the MPI Operator makes them, and hosts that come late.

mod common;

use common::Run;
use std::path::{Path, PathBuf};

/// The hostfile, as the operator writes it: by `name slots=N` or `name:N`, after `mpiImplementation`.
fn hostfile(test: &str, slots: fn(u32) -> String) -> PathBuf {
    let path = std::env::temp_dir().join(format!("mpiexec-operator-{}-{test}", std::process::id()));
    let line = |at: u32| format!("hello-worker-{at}.hello-worker.default.svc{}\n", slots(2));
    std::fs::write(&path, line(0) + &line(1)).unwrap();
    path
}

/// The list behind `key:` in a container of the manifest.
fn words(key: &str, container: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes/mpijob.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("name: {container}\n")).expect("the container");
    let line = rest.lines().find_map(|line| line.trim().strip_prefix(&format!("{key}: "))).expect("its key");
    serde_json::from_str(line).expect("a list of words")
}

/// `worker N` of ranks, in order.
fn workers(out: &str) -> Vec<&str> {
    let ranks = out.lines().filter(|line| line.starts_with("rank "));
    ranks.filter_map(|line| line.split_once("hello-worker-")?.1.get(..1)).collect()
}

#[test]
fn the_manifest_starts_what_it_says() {
    assert_eq!(words("command", "launcher"), ["mpiexec"]);
    let args = words("args", "launcher");
    for slots in [|n: u32| format!(":{n}"), |n: u32| format!(" slots={n}")] {
        let file = hostfile("manifest", slots);
        let file_name = file.to_str().unwrap();
        let args: Vec<String> =
            args.iter().map(|word| word.replace("/etc/mpi/hostfile", file_name)).collect();
        assert!(args.iter().any(|word| word == file_name), "{args:?}");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let done = Run::new("--dry-run").args(&args).done();
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{done:?}");
        assert_eq!(workers(&done.out), ["0", "0", "1", "1"], "{done:?}");
        for worker in [0, 1] {
            let name = format!("hello-worker-{worker}.hello-worker.default.svc");
            let command = format!("host {name}: ssh -x -T -o BatchMode=yes -o ConnectTimeout=10 -- {name} '");
            assert!(done.out.contains(&command), "{command}: {done:?}");
        }
        assert_eq!(done.out.matches("mpiexec --daemon-of-a-job'\n").count(), 2, "{done:?}");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn in_the_launchers_pod_nothing_needs_to_be_said() {
    let file = hostfile("silent", |n| format!(":{n}"));
    let path = file.to_str().unwrap();
    let other = file.with_extension("other");
    std::fs::write(&other, "elsewhere\n").unwrap();
    for variable in ["HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile"] {
        let pod = |options: &str| Run::new(options).env("K_MPI_JOB_ROLE", "launcher").env(variable, path);
        let done = pod("--dry-run true").done();
        assert_eq!((done.status, workers(&done.out)), (0, vec!["0", "0", "1", "1"]), "{done:?}");
        // An option beats what the operator says.
        let done = pod("--dry-run").args(&["-n", "1", "--hostfile", other.to_str().unwrap(), "true"]).done();
        assert!(done.status == 0 && done.out.starts_with("rank 0: elsewhere: true"), "{done:?}");
        // A worker's pod is no launcher's.
        let done = pod("--dry-run -n 1 true").env("K_MPI_JOB_ROLE", "worker").done();
        assert_eq!((done.status, workers(&done.out).len()), (0, 0), "{done:?}");
    }
    // Its hosts are waited for without being told to.
    let job = Run::new("--launcher")
        .args(&["exec:sh -c 'echo {host} is not there >&2; exit 1; {command}'", "true"]);
    let job = job.env("K_MPI_JOB_ROLE", "launcher").env("HYDRA_HOST_FILE", path).start();
    let said = job.wait_err("hello-worker-1");
    assert!(said.contains("mpiexec: waiting up to 300 s for 2 of 2 hosts: hello-worker-0"), "{said}");
    [file, other].iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

#[test]
fn hosts_that_come_late_are_waited_for() {
    let directory = std::env::temp_dir().join(format!("mpiexec-late-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // A host is there when the file of its name is.
    let launcher = format!(
        "exec:sh -c 'test -e {}/{{host}} || {{ echo no {{host}} yet >&2; exit 255; }}; exec {{command}}'",
        directory.display()
    );
    let job = |wait: &str| Run::new("-host a,b").args(&["--launcher", &launcher, wait]);
    let late = job("--wait-hosts=50").rank("init get:1 who finalize").start();
    late.wait_err("waiting up to 50 s for 2 of 2 hosts: a (no a yet), b (no b yet)");
    for host in ["a", "b"] {
        std::fs::write(directory.join(host), "").unwrap();
    }
    let done = late.done();
    assert_eq!((done.status, done.out.matches("rank 1\n").count()), (0, 2), "{done:?}");
    std::fs::remove_file(directory.join("b")).unwrap();
    let done = job("--wait-hosts=1").rank("init finalize").done();
    assert_eq!((done.status, done.out.as_str()), (3, ""), "{done:?}");
    let last = done.err.lines().last().unwrap_or_default();
    assert_eq!(last, "mpiexec: 1 of 2 hosts: b (no b yet) cannot be reached after 1 s (--wait-hosts)");
    // Without it the job fails at once, as before.
    let done = job("-q").rank("init finalize").done();
    assert!(done.status == 3 && done.err.contains("host b"), "{done:?}");
    std::fs::remove_dir_all(&directory).unwrap();
}
