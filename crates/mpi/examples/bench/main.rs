//! The Rust half of `cargo xtask bench`. `bench/c` is the C half, which every C implementation of MPI compiles. The
//! two hold the same loops, the same sizes, the same batches and the same statistics: a change on one side is a
//! change on both.
//!
//! Usage: `bench CASE [SIZES]`, SIZES being a comma-separated list of bytes.
//! Output, from rank 0: `RESULT key value`.

mod coll;
mod layout;
mod one_sided;
mod p2p;
mod util;
mod window;
mod work;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    let sizes: Vec<usize> = match arguments.next() {
        None => Vec::new(),
        Some(list) => list.split(',').map(|size| size.parse().expect("SIZES must be numbers")).collect(),
    };

    match case.as_str() {
        "latency" => p2p::latency(&world, &sizes),
        "window" => window::window(&world, &sizes),
        "layouts" => layout::layouts(&world, &sizes),
        "idle" => work::idle(&world),
        "unexpected" => work::unexpected(&world),
        "overlap" => work::overlap(&world),
        "ring" => work::ring(&world),
        "empty" => work::empty(&world),
        "one-sided" => one_sided::one_sided(&world, &sizes, false),
        "one-sided-created" => one_sided::one_sided(&world, &sizes, true),
        "tickets" => one_sided::tickets(&world),
        "fences" => one_sided::fences(&world),
        "computing" => one_sided::computing(&world),
        "collectives" => coll::collectives(&world, &sizes),
        "overlap-allreduce" => coll::overlap(&world),
        case if case.starts_with("tune-") => coll::tune(&world, &case["tune-".len()..], &sizes),
        _ => panic!(
            "usage: bench latency|window|layouts|idle|unexpected|overlap|ring|empty|collectives|overlap-allreduce|\
             one-sided|one-sided-created|tickets|fences|computing [SIZES]"
        ),
    }
}
