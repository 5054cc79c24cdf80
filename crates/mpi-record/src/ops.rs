//! The operations and algorithms by name. An operation is its place in a table, so that a counter is
//! found without a search.

use crate::limits::{ALGORITHMS_MAX, OPS_MAX};

/// An operation: its place in the table of names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Op(pub(crate) u16);

/// What kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Sends, receives, probes.
    PointToPoint,
    /// Waits and tests for requests.
    Requests,
    /// Collectives.
    Collective,
    /// One-sided communication.
    OneSided,
    /// Start, end, communicators, windows.
    Management,
}

const NAMES: &[(Kind, &[&str])] = &[
    (
        Kind::PointToPoint,
        &[
            "send",
            "receive",
            "send-receive",
            "isend",
            "ireceive",
            "probe",
            "iprobe",
            "mprobe",
            "improbe",
            "mreceive",
            "imreceive",
            "start",
        ],
    ),
    (Kind::Requests, &["wait", "test", "cancel"]),
    (
        Kind::Collective,
        &[
            "barrier",
            "broadcast",
            "gather",
            "gatherv",
            "scatter",
            "scatterv",
            "allgather",
            "allgatherv",
            "alltoall",
            "alltoallv",
            "reduce",
            "allreduce",
            "scan",
            "exscan",
            "reduce_scatter_block",
            "reduce_scatter",
            "neighbor_allgather",
            "neighbor_allgatherv",
            "neighbor_alltoall",
            "neighbor_alltoallv",
            "ibarrier",
            "ibroadcast",
            "igather",
            "igatherv",
            "iscatter",
            "iscatterv",
            "iallgather",
            "iallgatherv",
            "ialltoall",
            "ialltoallv",
            "ireduce",
            "iallreduce",
            "iscan",
            "iexscan",
            "ireduce_scatter_block",
            "ireduce_scatter",
            "ineighbor_allgather",
            "ineighbor_allgatherv",
            "ineighbor_alltoall",
            "ineighbor_alltoallv",
        ],
    ),
    (
        Kind::OneSided,
        &[
            "put",
            "get",
            "accumulate",
            "get-accumulate",
            "fetch-and-op",
            "compare-and-swap",
            "fence",
            "post",
            "start epoch",
            "complete",
            "wait epoch",
            "lock",
            "unlock",
            "lock-all",
            "unlock-all",
            "flush",
            "flush-all",
        ],
    ),
    (Kind::Management, &["init", "finalize", "communicator", "window", "spawn", "buffer"]),
];

/// A blocking send.
pub const SEND: Op = Op::named("send");
/// A blocking receive.
pub const RECEIVE: Op = Op::named("receive");
/// Waiting for requests.
pub const WAIT: Op = Op::named("wait");
/// Testing requests.
pub const TEST: Op = Op::named("test");

/// Number of operations.
pub const COUNT: usize = {
    let (mut group, mut count) = (0, 0);
    while group < NAMES.len() {
        count += NAMES[group].1.len();
        group += 1;
    }
    count
};

const _: () = assert!(COUNT <= OPS_MAX);

impl Op {
    /// The operation of a name; a constant expression that names none does not compile.
    #[must_use]
    pub const fn named(name: &str) -> Op {
        let (mut group, mut at) = (0, 0);
        while group < NAMES.len() {
            let mut i = 0;
            while i < NAMES[group].1.len() {
                if same(NAMES[group].1[i], name) {
                    return Op(at);
                }
                (i, at) = (i + 1, at + 1);
            }
            group += 1;
        }
        panic!("no such operation")
    }

    /// The operation of a name that is known only now.
    #[must_use]
    pub fn find(name: &str) -> Option<Op> {
        (0..COUNT).filter_map(Op::at).find(|op| op.name() == name)
    }

    /// The immediate twin of a collective.
    #[must_use]
    pub const fn immediate(self) -> Op {
        let first = Op::named("barrier").0;
        let blocking = Op::named("ibarrier").0 - first;
        assert!(self.0 >= first && self.0 < first + blocking);
        Op(self.0 + blocking)
    }

    /// The operation at a place of the table.
    #[must_use]
    pub fn at(place: usize) -> Option<Op> {
        (place < COUNT).then_some(Op(place as u16))
    }

    /// Its place in the table.
    #[must_use]
    pub fn place(self) -> usize {
        usize::from(self.0)
    }

    fn entry(self) -> (Kind, &'static str) {
        let mut at = self.place();
        for (kind, names) in NAMES {
            match names.get(at) {
                Some(name) => return (*kind, name),
                None => at -= names.len(),
            }
        }
        // Not reached: every operation is one of the table's.
        (Kind::Management, "operation")
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Its kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.entry().0
    }
}

/// Names of algorithms, as settings spell them.
pub const ALGORITHMS: &[&str] = &[
    "other",
    "dissemination",
    "binomial",
    "scatter-allgather",
    "pipelined",
    "rabenseifner",
    "doubling",
    "ring",
    "linear",
    "bruck",
    "scattered",
    "pairwise",
    "halving",
    "reduce-scatter",
    "board",
    "direct",
    "staged",
    "leaders",
];

const _: () = assert!(ALGORITHMS.len() <= ALGORITHMS_MAX);

/// The place of an algorithm in [`ALGORITHMS`]; 0 for one that has none.
#[must_use]
pub const fn algorithm(name: &str) -> usize {
    let mut at = ALGORITHMS.len() - 1;
    while at > 0 && !same(ALGORITHMS[at], name) {
        at -= 1;
    }
    at
}

/// Number of blocking collectives, whose algorithms are counted.
pub(crate) const COLLECTIVES: usize = (Op::named("ibarrier").0 - FIRST_COLLECTIVE) as usize;
/// The first of them.
pub(crate) const FIRST_COLLECTIVE: u16 = Op::named("barrier").0;

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for place in 0..COUNT {
            let op = Op::at(place).unwrap();
            assert_eq!(Op::named(op.name()), op);
        }
        assert_eq!(Op::at(COUNT), None);
        assert_eq!(Op::named("reduce").immediate().name(), "ireduce");
        assert_eq!(Op::named("neighbor_alltoallv").immediate().name(), "ineighbor_alltoallv");
        assert_eq!(SEND.kind(), Kind::PointToPoint);
        assert_eq!(Op::named("buffer").kind(), Kind::Management);
        assert_eq!(ALGORITHMS[algorithm("ring")], "ring");
        assert_eq!(algorithm("unheard of"), 0);
    }
}
