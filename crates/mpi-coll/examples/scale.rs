//! Writes the table of docs/scale.md: collectives of 64, 1,024 and 4,096 ranks in one process, against the bounds.
//! `cargo xtask scale` runs it.

use mpi_coll::model::{Collective, Network, cost};
use mpi_coll::{Allreduce, Alltoall};

const NETWORK: Network = Network { latency_ns: 2_000, mebibyte_ns: 100_000 };
const DOUBLES: usize = 1 << 17;

fn main() -> Result<(), mpi_datatype::DatatypeError> {
    println!("# Collectives of many ranks, on paper\n");
    println!(
        "Written by `cargo xtask scale`. The programs of all ranks run in one process over a network of 2 µs"
    );
    println!(
        "latency and 10 GiB/s, every rank on a host of its own. Messages and bytes are those that the busiest rank"
    );
    println!("sends. No algorithm takes fewer rounds than log2 P, no allreduce of n bytes sends fewer than");
    println!("2 (P - 1) / P n, no alltoall of blocks of m bytes fewer than (P - 1) m.\n");
    println!("| ranks | collective | algorithm | messages | bytes | least rounds | least bytes | time |");
    println!("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for ranks in [64, 1024, 4096] {
        for row in rows(ranks) {
            print(ranks, row)?;
        }
    }
    Ok(())
}

fn rows(ranks: usize) -> Vec<Collective> {
    let mut rows = vec![
        Collective::Barrier,
        Collective::Allreduce(Allreduce::Doubling, 1),
        Collective::Allreduce(Allreduce::Doubling, 128),
        Collective::Allreduce(Allreduce::Rabenseifner, 1 << 13),
        Collective::Allreduce(Allreduce::Rabenseifner, DOUBLES),
    ];
    if ranks <= 1024 {
        rows.push(Collective::Allreduce(Allreduce::Ring, DOUBLES));
    }
    rows.push(Collective::Alltoall(Alltoall::Bruck, 8));
    if ranks <= 1024 {
        rows.push(Collective::Alltoall(Alltoall::Bruck, 256));
        rows.push(Collective::Alltoall(Alltoall::Scattered, 1024));
        rows.push(Collective::Alltoall(Alltoall::Pairwise, 32 << 10));
    }
    rows
}

fn print(ranks: usize, row: Collective) -> Result<(), mpi_datatype::DatatypeError> {
    let cost = cost(ranks, row, NETWORK)?;
    let others = ranks as u64 - 1;
    let (name, by, least) = match row {
        Collective::Barrier => ("barrier".to_owned(), "dissemination", 0),
        Collective::Allreduce(by, count) => {
            let bytes = 8 * count as u64;
            (format!("allreduce, {}", size(bytes)), by.text(), (2 * others * bytes).div_ceil(ranks as u64))
        }
        Collective::Alltoall(by, bytes) => {
            (format!("alltoall, blocks of {}", size(bytes as u64)), by.text(), others * bytes as u64)
        }
    };
    println!(
        "| {ranks} | {name} | {by} | {} | {} | {} | {least} | {:.1} µs |",
        cost.messages,
        cost.bytes,
        ranks.next_power_of_two().ilog2(),
        cost.time_ns as f64 / 1000.0
    );
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
