//! What `--help` prints.

use super::table::{OPTIONS, Opt, Support, Takes};
use std::fmt::Write;

const USAGE: &str = "\
Start N copies of a program as the ranks of an MPI job.

    mpiexec [OPTIONS] PROGRAM [ARGUMENTS]
    mpiexec [OPTIONS] --example NAME [-- ARGUMENTS]
    mpiexec [OPTIONS] PROGRAM [ARGUMENTS] : [OPTIONS] PROGRAM [ARGUMENTS]

One dash and two are the same. Each option with a value, and each flag, can also be set by an
environment variable (MPIEXEC_ and its name: MPIEXEC_TIMEOUT=60) and in the configuration file
($MPIEXEC_CONFIG, else ~/.config/mpiexec.conf; lines such as timeout = 60).
";

/// The exit statuses; the README shows the same table.
const STATUSES: &str = "
Exit status:
    all ranks exit 0                                             0
    a rank exits with N (not 0)                                  N of the first to fail
    a rank dies of signal S                                      128+S
    a rank calls abort(CODE)                                     CODE & 255, and 1 where that is 0
    a rank panics                                                101
    an MPI call fails (and its error handler is the default one) 1
    a rank exits 0 without finalizing while others go on         1
    usage or placement error, nothing started                    2
    launch, connection or protocol error                         3
    with --enable-recovery: a rank exits 0 in the end            0, else that of the first to die
    --timeout reached                                            124
    program not executable / not found                           126 / 127
    SIGINT / SIGTERM                                             130 / 143
";

/// The whole text.
pub fn text() -> String {
    let mut out = String::from(USAGE);
    let mut groups: Vec<&str> = Vec::new();
    for opt in OPTIONS {
        if !groups.contains(&opt.group) {
            groups.push(opt.group);
        }
    }
    for group in groups {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\n{group}:");
        for opt in OPTIONS.iter().filter(|opt| opt.group == group) {
            let _ = writeln!(out, "    {:<32} {}", synopsis(opt), line(opt));
        }
    }
    out.push_str(STATUSES);
    out
}

fn synopsis(opt: &Opt) -> String {
    let dashed = |name: &str| if name.len() == 1 { format!("-{name}") } else { format!("--{name}") };
    let mut names: Vec<String> = [opt.name].iter().chain(opt.aliases).map(|name| dashed(name)).collect();
    names.sort_by_key(String::len);
    let value = match opt.takes {
        Takes::Flag => String::new(),
        Takes::Value(what) => format!(" {what}"),
        Takes::Pair => String::from(" NAME VALUE"),
        Takes::Assignment => String::from(" NAME=VALUE"),
    };
    names.join(", ") + &value
}

fn line(opt: &Opt) -> String {
    match opt.support {
        Support::Refused(why) => format!("refused: {why}"),
        Support::Yes | Support::Needless => opt.help.to_owned(),
    }
}
