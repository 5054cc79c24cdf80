//! Worlds of real processes, started by mpiexec. The test program is its own rank program:
//! `real rank SCENARIO` runs as a rank, anything else runs the launches, bounded by `--timeout`.

#[path = "../common/mod.rs"]
mod common;
mod drawn;
mod hosts;
mod launch;
mod meeting;
mod networks;
mod ranks;
mod worlds;

use hosts::TwoHosts;
use launch::Launch;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, scenario, rest @ ..] = args.as_slice() {
        if first == "rank" {
            return ranks::run(scenario, rest);
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
    for (name, test) in OVER_HOSTS.iter().filter(|(name, _)| wanted(name)) {
        if listing {
            println!("{name}: test");
            continue;
        }
        match test() {
            Ok(()) => println!("test {name} ... ok"),
            Err(why) => {
                println!("test {name} ... FAILED\n{why}");
                failed.push((*name).to_owned());
            }
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        std::process::exit(1);
    }
}

type Test = fn() -> Result<(), String>;

/// Launches over two hosts.
const OVER_HOSTS: &[(&str, Test)] = &[
    ("hosts_share_memory_inside", hosts_share_memory_inside),
    ("hosts_collectives", hosts_collectives),
    ("hosts_same_bits", hosts_same_bits),
    ("hosts_spawn", hosts_spawn),
    ("hosts_spawn_on_a_new_one", hosts_spawn_on_a_new_one),
    ("a_bridge_that_both_hosts_have", networks::a_bridge_that_both_hosts_have),
    ("one_dead_route_and_one_live", networks::one_dead_route_and_one_live),
    ("ipv4_alone", networks::ipv4_alone),
    ("ipv6_alone", networks::ipv6_alone),
    ("a_blocked_way_back", networks::a_blocked_way_back),
    ("a_cable_pulled_in_mid_job", networks::a_cable_pulled_in_mid_job),
    ("every_port_is_in_the_range", networks::every_port_is_in_the_range),
];

fn over_hosts(scenario: &'static str, ranks: u32) -> TwoHosts {
    TwoHosts { scenario, ranks, round_robin: false, slots: None, variables: &[], says: &[] }
}

fn hosts_share_memory_inside() -> Result<(), String> {
    for round_robin in [false, true] {
        TwoHosts { round_robin, ..over_hosts("shares_memory", 4) }.run()?;
    }
    Ok(())
}

/// What ranks spawn goes to the hosts of the job: where they say, where there is room.
fn hosts_spawn() -> Result<(), String> {
    TwoHosts { slots: Some([2, 3]), ..over_hosts("spawns_on_hosts", 2) }.run()?;
    TwoHosts { slots: Some([2, 3]), round_robin: true, ..over_hosts("spawns", 2) }.run()?;
    let tcp: &[(&str, &str)] = &[("MPI_BTL", "tcp"), ("MPI_TEST_CHILDREN", "4")];
    TwoHosts { slots: Some([2, 3]), variables: tcp, ..over_hosts("spawns", 2) }.run().map(drop)
}

/// The job begins on one host, and comes to the other by spawning there.
fn hosts_spawn_on_a_new_one() -> Result<(), String> {
    TwoHosts { slots: Some([1, 3]), ..over_hosts("spawns_on_hosts", 1) }.run()?;
    let tcp: &[(&str, &str)] = &[("MPI_BTL", "tcp"), ("MPI_TEST_CHILDREN", "5")];
    TwoHosts { slots: Some([2, 1]), variables: tcp, ..over_hosts("spawns", 2) }.run().map(drop)
}

/// By leaders, and flat where the user says so.
fn hosts_collectives() -> Result<(), String> {
    let told: &[(&str, &str)] = &[("MPI_COLL_VERBOSE", "1"), ("MPI_TEST_ROUNDS", "1")];
    let says: &[&str] = &[
        "barrier on \"MPI_COMM_WORLD\", 4 ranks, 0 bytes: leaders; the ranks share 2 nodes",
        "broadcast on \"MPI_COMM_WORLD\"",
    ];
    TwoHosts { variables: told, says, ..over_hosts("drawn", 4) }.run()?;
    TwoHosts { round_robin: true, ..over_hosts("drawn", 4) }.run()?;
    TwoHosts { variables: &[("MPI_TEST_SEED", "9"), ("MPI_TEST_ROUNDS", "2")], ..over_hosts("drawn", 7) }
        .run()?;
    let flat: &[(&str, &str)] = &[("MPI_COLL_VERBOSE", "1"), ("MPI_COLL_BARRIER", "dissemination")];
    let says: &[&str] = &["0 bytes: dissemination; as MPI_COLL_BARRIER says"];
    TwoHosts { variables: flat, says, ..over_hosts("drawn", 4) }.run().map(drop)
}

fn hosts_same_bits() -> Result<(), String> {
    for round_robin in [false, true] {
        let launch = || TwoHosts { round_robin, ..over_hosts("same_bits", 5) }.run();
        if let (Some(one), Some(two)) = (launch()?, launch()?) {
            same_lines(&[one, two])?;
        }
    }
    Ok(())
}

/// All ranks and all runs printed the same of each sum.
fn same_lines(outputs: &[String]) -> Result<(), String> {
    let mut sums = std::collections::BTreeMap::new();
    for line in outputs.iter().flat_map(|out| out.lines()) {
        let Some((what, bits)) = line.split_once(": ") else { continue };
        let first = sums.entry(what.to_owned()).or_insert_with(|| bits.to_owned());
        if first != bits {
            return Err(format!("{what}: {first} and {bits}"));
        }
    }
    if sums.len() == 4 { Ok(()) } else { Err(format!("expected four sums: {outputs:?}")) }
}

fn launches() -> Vec<Launch> {
    vec![
        Launch::of("hello", 1),
        Launch::of("hello", 2).named("hello_2").silent(),
        Launch::of("hello", 5).named("hello_5").silent(),
        Launch::of("hello", 32).named("hello_32").silent(),
        Launch::of("hello", 3).named("hello_tcp").with("MPI_BTL", "tcp"),
        Launch::of("hello", 0).named("hello_alone").silent(),
        Launch::of("hello", 3)
            .named("one_program_after_another")
            .by_script(r#""$0" "$@" && "$0" "$@" && "$0" "$@""#)
            .with("MPI_BTL", "shm")
            .silent(),
        Launch::of("hello", 1)
            .named("one_program_after_another_that_died")
            .by_script(r#""$0" rank dies; "$0" "$@""#)
            .with("MPI_BTL", "shm"),
        Launch::of("hello", 1)
            .named("two_programs_at_once")
            .by_script(r#""$0" rank stays | { read line; "$0" "$@"; }"#)
            .ends(3)
            .says("runs MPI as rank 0 already"),
        Launch::of("communicators", 4),
        Launch::of("communicators", 3).named("communicators_tcp").with("MPI_BTL", "tcp"),
        Launch::of("drawn", 2).named("drawn_2").silent(),
        Launch::of("drawn", 3).named("drawn_3").silent(),
        Launch::of("drawn", 8).named("drawn_8").silent(),
        Launch::of("drawn", 2).named("drawn_2_tcp").with("MPI_BTL", "tcp").with("MPI_TEST_SEED", "100"),
        Launch::of("drawn", 3).named("drawn_3_tcp").with("MPI_BTL", "tcp").with("MPI_TEST_SEED", "200"),
        Launch::of("drawn", 8).named("drawn_8_tcp").with("MPI_BTL", "tcp").with("MPI_TEST_SEED", "300"),
        Launch::of("many", 2).silent(),
        Launch::of("many", 8).named("many_8").silent(),
        Launch::of("many", 3).named("many_tcp").with("MPI_BTL", "tcp"),
        Launch::of("disagrees", 2).with("MPI_CHECK", "1").silent(),
        Launch::of("disagrees", 3).named("disagrees_3").with("MPI_CHECK", "1").silent(),
        Launch::of("disagrees", 3).named("disagrees_tcp").with("MPI_CHECK", "1").with("MPI_BTL", "tcp"),
        Launch::of("same_bits", 3).prints(same_lines),
        Launch::of("same_bits", 8).named("same_bits_tcp").with("MPI_BTL", "tcp").prints(same_lines),
        Launch::of("dup_free", 2),
        Launch::of("dup_free", 1).named("dup_free_million").with("MPI_TEST_DUP_CYCLES", "1000000"),
        Launch::of("threads", 2),
        Launch::of("life", 2),
        Launch::of("panics", 3).ends(101).says("on purpose"),
        Launch::of("aborts", 2).ends(7).says("rank 1"),
        Launch::of("leaves", 2).ends(1),
        Launch::of("is_fatal", 2).ends(1).says("rank 2 is not in the communicator of size 2"),
        Launch::of("blocked", 2).with("MPI_BLOCKED_REPORT_SECONDS", "1").says("\"MPI_COMM_WORLD\""),
        Launch::of("finalizes_late", 2)
            .with("MPI_FINALIZE_REPORT_SECONDS", "0.5")
            .says("rank 0: finalize has waited 0.5 s for: rank 1"),
        Launch::of("killed", 3).ends(137),
        Launch::of("hello", 2).named("bad_btl").with("MPI_BTL", "carrier").ends(2).says("carrier"),
        Launch::of("hello", 0)
            .named("bad_setting")
            .with("MPI_BLOCKED_REPORT_SECONDS", "soon")
            .ends(3)
            .says("MPI_BLOCKED_REPORT_SECONDS=\"soon\""),
        Launch::of("hello", 2)
            .named("bad_cma")
            .with("MPI_SHM_CMA", "maybe")
            .ends(2)
            .says_once("MPI_SHM_CMA=\"maybe\""),
        Launch::of("hello", 2)
            .named("bad_iface")
            .with("MPI_IFACE", "nix")
            .ends(2)
            .says_once("MPI_IFACE=\"nix\""),
        Launch::of("hello", 4).named("hello_on_two_hosts").on_two_hosts().silent(),
        Launch::of("hello", 2).named("hello_one_on_each_host").on_a_host_each().silent(),
        Launch::of("hello", 4)
            .named("no_way_between_hosts")
            .on_two_hosts()
            .with("MPI_BTL", "^tcp")
            .ends(3)
            .says("2 of 4 ranks are on other hosts"),
        Launch::of("hello", 4)
            .named("no_port_between_hosts")
            .on_two_hosts()
            .with("MPI_PORT_RANGE", "1-1")
            .ends(3)
            .says("2 of 4 ranks are on other hosts; tcp: "),
        Launch::of("hello", 3)
            .named("bad_handler")
            .with("MPI_INITIAL_ERRHANDLER", "foo")
            .ends(2)
            .says_once("MPI_INITIAL_ERRHANDLER=\"foo\": expected mpi_errors_are_fatal"),
        Launch::of("hello", 0).named("foreign").with("OMPI_COMM_WORLD_SIZE", "4").ends(3).says("Open MPI"),
        Launch::of("spawns", 2).named("spawns_1").silent(),
        Launch::of("spawns", 1).named("spawns_8").with("MPI_TEST_CHILDREN", "8").silent(),
        Launch::of("spawns", 2).named("spawns_64").with("MPI_TEST_CHILDREN", "64").silent(),
        Launch::of("spawns", 3).named("spawns_tcp").with("MPI_BTL", "tcp").with("MPI_TEST_CHILDREN", "2"),
        Launch::of("spawns", 0).named("spawns_alone").with("MPI_TEST_CHILDREN", "2").silent(),
        Launch::of("spawns_several", 2).silent(),
        Launch::of("spawns_from_part", 4).silent(),
        Launch::of("spawns_grandchildren", 2).silent(),
        Launch::of("spawns_often", 2).silent(),
        Launch::of("spawns", 1).named("spawns_shm").with("MPI_BTL", "shm").ends(101).says("MPI_BTL"),
        Launch::of("spawn_fails", 3).silent(),
        Launch::of("spawn_fails", 0).named("spawn_fails_alone").silent(),
        Launch::of("spawn_dies_early", 2).silent(),
        Launch::of("spawn_follows_hints", 2).silent(),
        Launch::of("spawns", 0)
            .named("spawns_without_launcher")
            .with("MPI_MPIEXEC", "/no/such/mpiexec")
            .ends(101)
            .says("/no/such/mpiexec"),
        Launch::of("spawns", 0)
            .named("spawns_with_a_wrong_launcher")
            .with("MPI_MPIEXEC", "/bin/cat")
            .ends(101)
            .says("/bin/cat"),
        Launch::of("child_panics", 2).ends(101).says("rank 1 of spawned world 1"),
        Launch::of("child_panics", 0).named("child_panics_alone").ends(101).says("rank 1 of spawned world 1"),
        Launch::of("parent_dies", 2).ends(137).says("mpiexec: rank 0 (pid"),
        Launch::of("child_fails_apart", 2).ends(9).says("rank 0 is well").says("rank 1 is well"),
        Launch::of("connects_inside", 5).silent(),
        Launch::of("connects_inside", 2).named("connects_inside_tcp").with("MPI_BTL", "tcp").silent(),
        Launch::of("names", 2).silent(),
        Launch::of("names", 0).named("names_alone").silent(),
        Launch::of("ports", 2).silent(),
        Launch::of("late_strangers", 2).says("without its key dropped"),
        Launch::of("many_strangers", 2).says("without its key dropped"),
        Launch::of("two_jobs", 0).silent(),
        Launch::of("two_linked_jobs", 0).silent(),
        Launch::of("dead_strangers", 0).silent(),
        Launch::of("leaves_nothing", 0).silent(),
        Launch::of("joins", 2).silent(),
        Launch::of("blocked_across", 2)
            .with("MPI_BLOCKED_REPORT_SECONDS", "1")
            .for_at_most("4")
            .ends(124)
            .says("\"to the children\"")
            .says("that is rank 0 of spawned world 1"),
        Launch::of("circle_across", 1)
            .with("MPI_BLOCKED_REPORT_SECONDS", "1")
            .for_at_most("4")
            .ends(124)
            .says("a circle: rank 0 waits for rank 0 of spawned world 1"),
        Launch::of("accept_reports", 1)
            .with("MPI_BLOCKED_REPORT_SECONDS", "1")
            .for_at_most("4")
            .ends(124)
            .says("accept waits for a connection on port mpi-tcp/"),
        Launch::of("accept_reports", 2)
            .named("accept_reports_elsewhere")
            .with("MPI_BLOCKED_REPORT_SECONDS", "1")
            .for_at_most("4")
            .ends(124)
            .says("rank 1: accept has been blocked for"),
        Launch::of("uninitialised", 0).ends(1).says("world: MPI is not initialised"),
        Launch::of("finalised", 0).ends(1).says("world: MPI is finalised"),
    ]
}
