//! Which algorithm: the switch table, and overrides by the user.
//!
//! All ranks must choose alike, so a choice depends only on what the standard makes equal on all of them.

use crate::limits::{DIRECT_LEAST_BYTES, SMALL_ALLREDUCE_MAX_BYTES};
use crate::table::{self, Row};

/// A setting that cannot be followed. The user's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingError {
    /// No such collective.
    #[error("MPI_COLL_{name}: no collective of that name has algorithms to choose from; there are: {known}")]
    Collective {
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No such algorithm.
    #[error("MPI_COLL_{name}={value}: there is no such algorithm; there are: {known}")]
    Algorithm {
        /// The collective.
        name: String,
        /// The algorithm asked for.
        value: String,
        /// The algorithms there are.
        known: String,
    },
}

macro_rules! algorithms {
    ($( $(#[$doc:meta])* $field:ident: $name:ident($variable:literal) { $( $(#[$adoc:meta])* $algorithm:ident = $text:literal ),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub enum $name { $( $(#[$adoc])* $algorithm ),* }

            impl $name {
                /// Every algorithm with its name in settings.
                pub const ALL: &[(&str, $name)] = &[ $( ($text, $name::$algorithm) ),* ];

                /// The name in settings.
                pub fn text(self) -> &'static str {
                    match self { $( $name::$algorithm => $text ),* }
                }
            }
        )*

        /// Choices forced by the user (`MPI_COLL_<NAME>=algorithm`); the same on all ranks. A choice
        /// that the operands do not allow (an order-changing algorithm for an operation that does
        /// not commute) falls back to the table's.
        #[derive(Clone, Debug, Default)]
        pub struct Settings {
            $( pub(crate) $field: Option<$name>, )*
            /// Names of the collectives that are to go by leaders.
            pub(crate) led: Vec<&'static str>,
            pub(crate) check: bool,
            pub(crate) tell: Option<fn(&str)>,
        }

        impl Settings {
            /// Names of the collectives, as they stand after `MPI_COLL_`.
            pub const NAMES: &[&str] = &[ $( $variable ),* ];

            /// The algorithm that the user forces.
            fn forced(&self, name: &str) -> Option<&'static str> {
                if self.led.contains(&name) {
                    return Some(LEADERS);
                }
                match name {
                    $( $variable => self.$field.map($name::text), )*
                    _ => None,
                }
            }

            /// Takes one setting; `name` is what stands after `MPI_COLL_`.
            ///
            /// # Errors
            /// [`SettingError`]; nothing is changed then.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
                let value = value.trim();
                match name {
                    $( $variable => {
                        let led = value == LEADERS;
                        let found = $name::ALL.iter().find(|(text, _)| *text == value);
                        if found.is_none() && !led {
                            let known = $name::ALL.iter().map(|(text, _)| *text).chain([LEADERS]);
                            return Err(SettingError::Algorithm {
                                name: name.to_owned(),
                                value: value.to_owned(),
                                known: known.collect::<Vec<_>>().join(", "),
                            });
                        }
                        self.$field = found.map(|(_, by)| *by);
                        self.led.retain(|name| *name != $variable);
                        self.led.extend(led.then_some($variable));
                    } )*
                    _ => return Err(SettingError::Collective {
                        name: name.to_owned(),
                        known: Self::NAMES.join(", "),
                    }),
                }
                Ok(())
            }
        }
    };
}

/// Inside each node, between the nodes' leaders, inside again: the algorithm that is there wherever ranks of one
/// team share several nodes.
pub(crate) const LEADERS: &str = "leaders";

/// Through memory that the ranks of a node share.
pub(crate) const STAGED: &str = "staged";

algorithms! {
    /// Of barrier.
    barrier: Barrier("BARRIER") {
        /// Tokens at doubling distances.
        Dissemination = "dissemination",
    }
    /// Of broadcast.
    broadcast: Broadcast("BROADCAST") {
        /// The whole message down a binomial tree.
        Binomial = "binomial",
        /// Scattered down the tree, gathered round a ring.
        ScatterAllgather = "scatter-allgather",
        /// In pieces down a chain.
        Pipelined = "pipelined",
        /// Through memory that the ranks of a node share; blocking. Others go as the table says behind it.
        Staged = "staged",
    }
    /// Of reduce.
    reduce: Reduce("REDUCE") {
        /// The whole vector up a binomial tree.
        Binomial = "binomial",
        /// Reduce-scatter by halving, then gathered.
        Rabenseifner = "rabenseifner",
        /// Through memory that the ranks of a node share; blocking, MPI's own operations on predefined types. Others
        /// go by `binomial`, which combines in the same order.
        Staged = "staged",
    }
    /// Of allreduce.
    allreduce: Allreduce("ALLREDUCE") {
        /// The whole vector exchanged at doubling distances.
        Doubling = "doubling",
        /// Reduce-scatter by halving, allgather by doubling.
        Rabenseifner = "rabenseifner",
        /// Reduce-scatter and allgather round a ring.
        Ring = "ring",
        /// Straight out of the other ranks' memory; within a node, blocking, MPI's own operations on predefined
        /// types. Others go by `rabenseifner`, short ones by `doubling`.
        Direct = "direct",
        /// Through memory that the ranks of a node share; for the same calls.
        Staged = "staged",
    }
    /// Of gather.
    gather: Gather("GATHER") {
        /// Up a binomial tree.
        Binomial = "binomial",
        /// Straight to the root.
        Linear = "linear",
    }
    /// Of scatter.
    scatter: Scatter("SCATTER") {
        /// Down a binomial tree.
        Binomial = "binomial",
        /// Straight from the root.
        Linear = "linear",
    }
    /// Of allgather and allgatherv.
    allgather: Allgather("ALLGATHER") {
        /// Doubling distances, rotated blocks.
        Bruck = "bruck",
        /// Doubling distances in place; powers of two and equal blocks only.
        Doubling = "doubling",
        /// Round a ring.
        Ring = "ring",
        /// Through memory that the ranks of a node share; blocking. Others go as the table says behind it.
        Staged = "staged",
    }
    /// Of alltoall.
    alltoall: Alltoall("ALLTOALL") {
        /// Blocks forwarded at doubling distances; equal blocks only.
        Bruck = "bruck",
        /// All messages at once.
        Scattered = "scattered",
        /// One exchange after the other.
        Pairwise = "pairwise",
        /// Through memory that the ranks of a node share; blocking, equal blocks. Others go as the table says behind it.
        Staged = "staged",
    }
    /// Of reduce-scatter.
    reduce_scatter: ReduceScatter("REDUCE_SCATTER") {
        /// Recursive halving.
        Halving = "halving",
        /// One exchange after the other.
        Pairwise = "pairwise",
        /// Reduced at rank 0 and scattered; keeps the order of operands.
        ReduceThenScatter = "reduce-scatter",
    }
    /// Of scan and exscan.
    scan: Scan("SCAN") {
        /// Partial results at doubling distances.
        Doubling = "doubling",
    }
}

impl Settings {
    /// With the calls of all ranks compared before each collective (`MPI_CHECK=1`): where they differ in operation,
    /// root, count or type, all ranks get an error that names both sides. The same on all ranks.
    pub fn checked(self, check: bool) -> Settings {
        Settings { check, ..self }
    }

    /// With every choice of an algorithm, and its reason, told to `tell` in one line.
    pub fn told(self, tell: Option<fn(&str)>) -> Settings {
        Settings { tell, ..self }
    }

    pub(crate) fn is_checked(&self) -> bool {
        self.check
    }

    pub(crate) fn is_told(&self) -> bool {
        self.tell.is_some()
    }

    /// Whether a call that leaders can serve goes by them: as the user says, else if it is `worth` it.
    pub(crate) fn leads(&self, name: &str, worth: bool) -> bool {
        self.forced(name).map_or(worth, |by| by == LEADERS)
    }

    /// Tells what was chosen for a call of `op` on `comm`, whose ranks share so many `nodes`, if they share several.
    #[cold]
    pub(crate) fn tell(
        &self,
        op: &str,
        comm: &str,
        (name, by): (&str, &str),
        (ranks, bytes): (usize, usize),
        nodes: Option<usize>,
    ) {
        let Some(tell) = self.tell else { return };
        let why = match (self.forced(name), self.row(name, ranks, bytes)) {
            (None, _) if by == LEADERS => format!("the ranks share {} nodes", nodes.unwrap_or(0)),
            (Some(forced), _) if forced == by => format!("as MPI_COLL_{name} says"),
            (Some(forced), _) => format!("as {forced}, which MPI_COLL_{name} says, is not for this call"),
            (None, Some((most, up_to, text))) => {
                let limit = |n: usize, what: &str| match n {
                    usize::MAX => format!("any number of {what}"),
                    n => format!("up to {n} {what}"),
                };
                let row =
                    format!("the table's row for {} and {}", limit(most, "ranks"), limit(up_to, "bytes"));
                if text == by { row } else { format!("{row} says {text}, which is not for this call") }
            }
            (None, None) => String::from("nothing else is there"),
        };
        tell(&format!("{op} on \"{comm}\", {ranks} ranks, {bytes} bytes: {by}; {why}"));
    }

    /// Limits and algorithm of the table's row for a call.
    fn row(&self, name: &str, ranks: usize, bytes: usize) -> Option<(usize, usize, &'static str)> {
        fn found<T: Copy>(
            rows: &[Row<T>],
            ranks: usize,
            bytes: usize,
            text: impl Fn(T) -> &'static str,
        ) -> Option<(usize, usize, &'static str)> {
            table::find(rows, ranks, bytes).map(|row| (row.ranks, row.bytes, text(row.by)))
        }
        match name {
            "BROADCAST" => found(table::BROADCAST, ranks, bytes, Broadcast::text),
            "REDUCE" => found(table::REDUCE, ranks, bytes, Reduce::text),
            "ALLREDUCE" => found(table::ALLREDUCE, ranks, bytes, Allreduce::text),
            "GATHER" => found(table::GATHER, ranks, bytes, Gather::text),
            "SCATTER" => found(table::SCATTER, ranks, bytes, Scatter::text),
            "ALLGATHER" => found(table::ALLGATHER, ranks, bytes, Allgather::text),
            "ALLTOALL" => found(table::ALLTOALL, ranks, bytes, Alltoall::text),
            "REDUCE_SCATTER" => found(table::REDUCE_SCATTER, ranks, bytes, ReduceScatter::text),
            _ => None,
        }
    }

    /// Whether a broadcast is to go through memory that the ranks share.
    #[inline]
    pub(crate) fn stages_broadcast(&self, size: usize, bytes: usize) -> bool {
        let asked = self.broadcast;
        asked.unwrap_or_else(|| by_table(table::BROADCAST, size, bytes, Broadcast::Binomial))
            == Broadcast::Staged
    }

    /// By which steps a broadcast goes that does not.
    pub(crate) fn choose_broadcast(&self, size: usize, bytes: usize) -> Broadcast {
        let asked = self.broadcast.filter(|by| *by != Broadcast::Staged);
        asked.unwrap_or_else(|| {
            by_table_of_steps(table::BROADCAST, size, bytes, (Broadcast::Staged, Broadcast::Binomial))
        })
    }

    fn asked_of_reduce(&self, size: usize, count: usize, bytes: usize, commutes: bool) -> Reduce {
        if !commutes || count < size {
            return Reduce::Binomial;
        }
        self.reduce.unwrap_or_else(|| by_table(table::REDUCE, size, bytes, Reduce::Binomial))
    }

    /// Whether a reduce is to go through memory that the ranks share.
    #[inline]
    pub(crate) fn stages_reduce(&self, size: usize, count: usize, bytes: usize, commutes: bool) -> bool {
        self.asked_of_reduce(size, count, bytes, commutes) == Reduce::Staged
    }

    /// By which steps a reduce goes that does not. Their order of operands is the same.
    pub(crate) fn choose_reduce(&self, size: usize, count: usize, bytes: usize, commutes: bool) -> Reduce {
        match self.asked_of_reduce(size, count, bytes, commutes) {
            Reduce::Staged => Reduce::Binomial,
            by => by,
        }
    }

    pub(crate) fn choose_allreduce(
        &self,
        size: usize,
        count: usize,
        bytes: usize,
        commutes: bool,
    ) -> Allreduce {
        let by = match self.allreduce {
            Some(forced) => forced,
            None if count < size => Allreduce::Doubling,
            None => by_table(table::ALLREDUCE, size, bytes, Allreduce::Doubling),
        };
        match by {
            Allreduce::Ring if !commutes => Allreduce::Rabenseifner,
            Allreduce::Direct | Allreduce::Staged if bytes < DIRECT_LEAST_BYTES => Allreduce::Doubling,
            by => by,
        }
    }

    /// The same for a program of steps.
    pub(crate) fn choose_steps_of_allreduce(
        &self,
        size: usize,
        count: usize,
        bytes: usize,
        commutes: bool,
    ) -> Allreduce {
        match self.choose_allreduce(size, count, bytes, commutes) {
            // Below, a vector is not worth cutting.
            Allreduce::Direct | Allreduce::Staged if bytes <= SMALL_ALLREDUCE_MAX_BYTES => {
                Allreduce::Doubling
            }
            Allreduce::Direct | Allreduce::Staged => Allreduce::Rabenseifner,
            by => by,
        }
    }

    pub(crate) fn choose_gather(&self, size: usize, block_bytes: usize) -> Gather {
        self.gather.unwrap_or_else(|| by_table(table::GATHER, size, block_bytes, Gather::Linear))
    }

    pub(crate) fn choose_scatter(&self, size: usize, block_bytes: usize) -> Scatter {
        self.scatter.unwrap_or_else(|| by_table(table::SCATTER, size, block_bytes, Scatter::Linear))
    }

    /// Whether an allgather is to go through memory that the ranks share.
    #[inline]
    pub(crate) fn stages_allgather(&self, size: usize, total_bytes: usize) -> bool {
        let asked = self.allgather;
        asked.unwrap_or_else(|| by_table(table::ALLGATHER, size, total_bytes, Allgather::Ring))
            == Allgather::Staged
    }

    /// By which steps an allgather goes that does not.
    pub(crate) fn choose_allgather(&self, size: usize, total_bytes: usize, equal: bool) -> Allgather {
        let asked = self.allgather.filter(|by| *by != Allgather::Staged);
        let by = asked.unwrap_or_else(|| {
            by_table_of_steps(table::ALLGATHER, size, total_bytes, (Allgather::Staged, Allgather::Ring))
        });
        let doubles = equal && size.is_power_of_two();
        if by == Allgather::Doubling && !doubles { Allgather::Bruck } else { by }
    }

    /// Whether an alltoall is to go through memory that the ranks share.
    #[inline]
    pub(crate) fn stages_alltoall(&self, size: usize, block_bytes: usize) -> bool {
        let asked = self.alltoall;
        asked.unwrap_or_else(|| by_table(table::ALLTOALL, size, block_bytes, Alltoall::Pairwise))
            == Alltoall::Staged
    }

    /// By which steps an alltoall goes that does not.
    pub(crate) fn choose_alltoall(&self, size: usize, block_bytes: usize, equal: bool) -> Alltoall {
        let asked = self.alltoall.filter(|by| *by != Alltoall::Staged);
        let by = asked.unwrap_or_else(|| {
            by_table_of_steps(table::ALLTOALL, size, block_bytes, (Alltoall::Staged, Alltoall::Pairwise))
        });
        // With blocks of different sizes no rank knows what the others choose, nor needs to: the others
        // send the same messages.
        if by == Alltoall::Bruck && !equal { Alltoall::Scattered } else { by }
    }

    pub(crate) fn choose_reduce_scatter(&self, size: usize, bytes: usize, commutes: bool) -> ReduceScatter {
        if !commutes {
            return ReduceScatter::ReduceThenScatter;
        }
        let asked = self.reduce_scatter;
        asked.unwrap_or_else(|| by_table(table::REDUCE_SCATTER, size, bytes, ReduceScatter::Pairwise))
    }
}

#[inline]
fn by_table<T: Copy>(rows: &[Row<T>], ranks: usize, bytes: usize, else_by: T) -> T {
    table::find(rows, ranks, bytes).map_or(else_by, |row| row.by)
}

/// The same of the rows that are not `but`.
#[inline]
fn by_table_of_steps<T: Copy + PartialEq>(
    rows: &[Row<T>],
    ranks: usize,
    bytes: usize,
    (but, else_by): (T, T),
) -> T {
    let fits = |row: &&Row<T>| ranks <= row.ranks && bytes <= row.bytes && row.by != but;
    rows.iter().find(fits).map_or(else_by, |row| row.by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_validated() {
        let mut s = Settings::default();
        s.set("ALLREDUCE", "ring").unwrap();
        assert_eq!(s.choose_allreduce(4, 100, 8, true), Allreduce::Ring);
        assert_eq!(s.choose_allreduce(4, 100, 8, false), Allreduce::Rabenseifner);
        let e = s.set("ALLREDUCE", "magic").unwrap_err().to_string();
        assert_eq!(
            e,
            "MPI_COLL_ALLREDUCE=magic: there is no such algorithm; there are: doubling, rabenseifner, ring, \
             direct, staged, leaders"
        );
        assert!(s.set("FOO", "ring").unwrap_err().to_string().contains("MPI_COLL_FOO"));
        assert_eq!(s.allreduce, Some(Allreduce::Ring));
    }

    #[test]
    fn leaders_are_asked_for_by_name() {
        let mut s = Settings::default();
        assert!(s.leads("ALLREDUCE", true) && !s.leads("ALLREDUCE", false));
        s.set("ALLREDUCE", "ring").unwrap();
        assert!(!s.leads("ALLREDUCE", true) && s.leads("REDUCE", true));
        s.set("ALLREDUCE", "leaders").unwrap();
        assert!(s.leads("ALLREDUCE", false));
        assert_eq!(s.choose_allreduce(4, 100, 8, true), Allreduce::Doubling, "inside a node");
        s.set("ALLREDUCE", "ring").unwrap();
        assert!(!s.leads("ALLREDUCE", true));
    }
}
