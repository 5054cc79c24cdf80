//! `--report`: everything that was gathered, as JSON or as one page that needs nothing else.

use super::gather::{Gathered, Rank};
use mpi_record::ops::{ALGORITHMS, Kind};
use serde_json::{Value, json};

/// Changes with the meaning of any field.
const VERSION: u32 = 1;
const PAGE: &str = include_str!("page.html");
/// Where in the page the data go.
const DATA: &str = "{{DATA}}";

/// As JSON, in one line. Times are in nanoseconds.
pub fn json(all: &Gathered) -> Value {
    json!({
        "version": VERSION,
        "partial": all.partial,
        "elapsed_ns": all.elapsed(),
        "ranks": all.ranks.iter().map(rank).collect::<Vec<_>>(),
    })
}

/// As a page for a browser.
pub fn page(all: &Gathered) -> String {
    // Inside of a script element only its end is special.
    PAGE.replacen(DATA, &json(all).to_string().replace('<', "\\u003c"), 1)
}

fn rank(rank: &Rank) -> Value {
    let b = &rank.block;
    let pair = |(messages, bytes): (u64, u64)| json!({ "messages": messages, "bytes": bytes });
    let to = rank.traffic.iter().map(|(to, sum)| json!({ "rank": to, "messages": sum.0, "bytes": sum.1 }));
    json!({
        "rank": rank.number,
        "name": rank.name,
        "initialised": b.pid != 0,
        "finalised": b.ended.is_some(),
        "begun_ns": b.begun,
        "elapsed_ns": b.elapsed,
        "computing_ns": rank.computing(),
        "waiting_ns": b.waiting,
        "copying_ns": b.copying,
        "matching_ns": rank.matching(),
        "sent": pair(b.sent),
        "received": pair(b.received),
        "put_bytes": b.direct.0,
        "got_bytes": b.direct.1,
        "got_by_others_bytes": rank.got_by_others,
        "put_by_others_bytes": rank.put_by_others,
        "unexpected_peak": pair(b.unexpected),
        "sizes_sent": b.sizes_sent,
        "sizes_received": b.sizes_received,
        "to": to.collect::<Vec<_>>(),
        "operations": b.ops.iter().map(|c| json!({
            "name": c.op.name(),
            "kind": kind(c.op.kind()),
            "calls": c.calls,
            "open_calls": c.open,
            "time_ns": c.time,
            "waiting_ns": c.waiting,
            "sent_bytes": c.sent,
            "received_bytes": c.received,
            "longest_ns": c.longest,
        })).collect::<Vec<_>>(),
        "algorithms": b.algorithms.iter().map(|(op, by, count)| json!({
            "collective": op.name(),
            "algorithm": ALGORITHMS.get(*by).unwrap_or(&"other"),
            "calls": count,
        })).collect::<Vec<_>>(),
        "timeline": {
            "bin_ns": b.bin,
            "inside_waiting_copying_ns":
                b.timeline.iter().map(|bin| [bin.inside, bin.waiting, bin.copying]).collect::<Vec<_>>(),
        },
        "now": b.now.map(|now| json!({
            "operation": now.op.name(),
            "for_ns": now.time,
            "peer": now.peer,
            "waiting_ns": now.waits,
        })),
    })
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::PointToPoint => "point-to-point",
        Kind::Requests => "requests",
        Kind::Collective => "collective",
        Kind::OneSided => "one-sided",
        Kind::Management => "management",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_the_data_and_needs_nothing_else() {
        let partial = Some(String::from("</script><b>"));
        let ranks = vec![Rank { name: String::from("rank 0"), ..Rank::default() }];
        let page = page(&Gathered { ranks, partial });
        assert!(page.contains("\"name\":\"rank 0\"") && !page.contains(DATA));
        assert!(!page.contains("</script><b>"), "what the job says cannot leave the script element");
        for outside in ["src=", "href=\"http", "url(", "@import", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
