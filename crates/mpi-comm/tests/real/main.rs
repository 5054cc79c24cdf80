//! Worlds of real processes, started by mpiexec. The test program is its own rank program:
//! `real rank SCENARIO` runs as a rank, anything else runs the launches, bounded by `--timeout`.

mod launch;
mod ranks;

use launch::Launch;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, scenario, ..] = args.as_slice() {
        if first == "rank" {
            return ranks::run(scenario);
        }
    }
    let given = |option: &str| args.iter().any(|arg| arg == option);
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    let listing = given("--list");
    if listing && given("--ignored") {
        // A runner skips what it hears here: none of these is ignored.
        return;
    }
    let exact = given("--exact");
    let wanted = |name: &str| if exact { name == filter } else { name.contains(&filter) };
    let mut failed = Vec::new();
    for launch in launches().into_iter().filter(|launch| wanted(&launch.name)) {
        if listing {
            println!("{}: test", launch.name);
            continue;
        }
        match launch.run() {
            Ok(time) => println!("test {} ... ok ({:.2} s)", launch.name, time.as_secs_f64()),
            Err(why) => {
                println!("test {} ... FAILED\n{why}", launch.name);
                failed.push(launch.name);
            }
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        std::process::exit(1);
    }
}

fn launches() -> Vec<Launch> {
    vec![
        Launch::of("hello", 1),
        Launch::of("hello", 2).named("hello_2").silent(),
        Launch::of("hello", 5).named("hello_5").silent(),
        Launch::of("hello", 32).named("hello_32").silent(),
        Launch::of("hello", 3).named("hello_tcp").with("MPI_BTL", "tcp"),
        Launch::of("hello", 0).named("hello_alone").silent(),
        Launch::of("communicators", 4),
        Launch::of("communicators", 3).named("communicators_tcp").with("MPI_BTL", "tcp"),
        Launch::of("dup_free", 2),
        Launch::of("threads", 2),
        Launch::of("life", 2),
        Launch::of("panics", 3).ends(101).says("on purpose"),
        Launch::of("aborts", 2).ends(7).says("rank 1"),
        Launch::of("leaves", 2).ends(1),
        Launch::of("is_fatal", 2).ends(6).says("rank 2 is not in the communicator of size 2"),
        Launch::of("blocked", 2).with("MPI_BLOCKED_REPORT_SECONDS", "1").says("\"MPI_COMM_WORLD\""),
        Launch::of("finalizes_late", 2)
            .with("MPI_FINALIZE_REPORT_SECONDS", "0.5")
            .says("rank 0: finalize has waited 0.5 s for: rank 1"),
        Launch::of("killed", 3).ends(137),
        Launch::of("hello", 2).named("bad_btl").with("MPI_BTL", "carrier").ends(3).says("carrier"),
        Launch::of("hello", 0)
            .named("bad_setting")
            .with("MPI_BLOCKED_REPORT_SECONDS", "soon")
            .ends(3)
            .says("MPI_BLOCKED_REPORT_SECONDS=\"soon\""),
        Launch::of("hello", 0).named("foreign").with("OMPI_COMM_WORLD_SIZE", "4").ends(3).says("Open MPI"),
        Launch::of("uninitialised", 0).ends(16).says("world: MPI is not initialised"),
        Launch::of("finalised", 0).ends(16).says("world: MPI is finalised"),
    ]
}
