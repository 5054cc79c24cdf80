//! `mpi-dissect FILE`: a pcap file, or the bytes of one direction of a connection, as lines.
#![forbid(unsafe_code)]

use mpi_dissect::{PcapError, Stream, dissect};
use std::io::{ErrorKind, Read, Write};
use std::process::ExitCode;

const USAGE: &str = "mpi-dissect FILE: a pcap of an MPI job's TCP traffic, or the bytes of one direction of one \
                     connection (- is standard input), as lines";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = words.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
        Some("--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => std::fs::read(path).map(|all| bytes = all),
    };
    if let Err(e) = read {
        eprintln!("mpi-dissect: {}: {e}", path.to_string_lossy());
        return ExitCode::FAILURE;
    }
    let lines = match dissect(&bytes) {
        Ok(lines) => lines,
        Err(PcapError::Magic([b'M', b'P', b'I', b'!'] | [0x21, 0x49, 0x50, 0x4d])) => {
            let (mut stream, mut lines) = (Stream::default(), Vec::new());
            stream.push(&bytes, &mut lines);
            stream.end(&mut lines);
            lines
        }
        Err(e) => {
            eprintln!("mpi-dissect: {}: {e}", path.to_string_lossy());
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::stdout().lock();
    for line in lines {
        match writeln!(out, "{line}") {
            Ok(()) => {}
            // Whoever reads has seen enough.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => break,
            Err(e) => {
                eprintln!("mpi-dissect: standard output: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
