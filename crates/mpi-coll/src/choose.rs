//! Which algorithm: one table of named limits, and overrides by the user.
//!
//! All ranks must choose alike, so a choice depends only on what the standard makes equal on all of them.

use crate::limits::*;

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
            }
        )*

        /// Choices forced by the user (`MPI_COLL_<NAME>=algorithm`); the same on all ranks. A choice
        /// that the operands do not allow (an order-changing algorithm for an operation that does
        /// not commute) falls back to the table's.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Settings { $( pub(crate) $field: Option<$name> ),* }

        impl Settings {
            /// Names of the collectives, as they stand after `MPI_COLL_`.
            pub const NAMES: &[&str] = &[ $( $variable ),* ];

            /// Takes one setting; `name` is what stands after `MPI_COLL_`.
            ///
            /// # Errors
            /// [`SettingError`]; nothing is changed then.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
                match name {
                    $( $variable => {
                        let found = $name::ALL.iter().find(|(text, _)| *text == value.trim());
                        self.$field = Some(found.ok_or_else(|| SettingError::Algorithm {
                            name: name.to_owned(),
                            value: value.to_owned(),
                            known: $name::ALL.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(", "),
                        })?.1);
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

algorithms! {
    /// Of broadcast.
    broadcast: Broadcast("BROADCAST") {
        /// The whole message down a binomial tree.
        Binomial = "binomial",
        /// Scattered down the tree, gathered round a ring.
        ScatterAllgather = "scatter-allgather",
        /// In pieces down a chain.
        Pipelined = "pipelined",
    }
    /// Of reduce.
    reduce: Reduce("REDUCE") {
        /// The whole vector up a binomial tree.
        Binomial = "binomial",
        /// Reduce-scatter by halving, then gathered.
        Rabenseifner = "rabenseifner",
    }
    /// Of allreduce.
    allreduce: Allreduce("ALLREDUCE") {
        /// The whole vector exchanged at doubling distances.
        Doubling = "doubling",
        /// Reduce-scatter by halving, allgather by doubling.
        Rabenseifner = "rabenseifner",
        /// Reduce-scatter and allgather round a ring.
        Ring = "ring",
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
    }
    /// Of alltoall.
    alltoall: Alltoall("ALLTOALL") {
        /// Blocks forwarded at doubling distances; equal blocks only.
        Bruck = "bruck",
        /// All messages at once.
        Scattered = "scattered",
        /// One exchange after the other.
        Pairwise = "pairwise",
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
}

impl Settings {
    pub(crate) fn choose_broadcast(&self, size: usize, bytes: usize) -> Broadcast {
        match self.broadcast {
            Some(forced) => forced,
            // Two ranks: one message is the whole broadcast.
            None if size <= 2 || bytes <= BROADCAST_BINOMIAL_MAX_BYTES => Broadcast::Binomial,
            None if bytes <= BROADCAST_SCATTER_MAX_BYTES => Broadcast::ScatterAllgather,
            None => Broadcast::Pipelined,
        }
    }

    pub(crate) fn choose_reduce(&self, size: usize, count: usize, bytes: usize, commutes: bool) -> Reduce {
        let fits = commutes && count >= size;
        match self.reduce {
            Some(Reduce::Rabenseifner) if !fits => Reduce::Binomial,
            Some(forced) => forced,
            None if !fits || bytes <= REDUCE_BINOMIAL_MAX_BYTES => Reduce::Binomial,
            None => Reduce::Rabenseifner,
        }
    }

    pub(crate) fn choose_allreduce(
        &self,
        size: usize,
        count: usize,
        bytes: usize,
        commutes: bool,
    ) -> Allreduce {
        match self.allreduce {
            Some(Allreduce::Ring) if !commutes => Allreduce::Rabenseifner,
            Some(forced) => forced,
            None if bytes <= ALLREDUCE_DOUBLING_MAX_BYTES || count < size => Allreduce::Doubling,
            None if bytes < ALLREDUCE_RING_MIN_BYTES || !commutes || size == 2 => Allreduce::Rabenseifner,
            None => Allreduce::Ring,
        }
    }

    pub(crate) fn choose_gather(&self, size: usize, block_bytes: usize) -> Gather {
        self.gather.unwrap_or(if tree_pays(size, block_bytes) { Gather::Binomial } else { Gather::Linear })
    }

    pub(crate) fn choose_scatter(&self, size: usize, block_bytes: usize) -> Scatter {
        self.scatter.unwrap_or(if tree_pays(size, block_bytes) { Scatter::Binomial } else { Scatter::Linear })
    }

    pub(crate) fn choose_allgather(&self, size: usize, total_bytes: usize, equal: bool) -> Allgather {
        let doubles = equal && size.is_power_of_two();
        match self.allgather {
            Some(Allgather::Doubling) if !doubles => Allgather::Bruck,
            Some(forced) => forced,
            None if total_bytes > ALLGATHER_LOGARITHMIC_MAX_BYTES => Allgather::Ring,
            None if doubles => Allgather::Doubling,
            None => Allgather::Bruck,
        }
    }

    pub(crate) fn choose_alltoall(&self, size: usize, block_bytes: usize, equal: bool) -> Alltoall {
        match self.alltoall {
            Some(Alltoall::Bruck) if !equal => Alltoall::Scattered,
            Some(forced) => forced,
            None if equal && block_bytes <= ALLTOALL_BRUCK_MAX_BYTES && size >= ALLTOALL_BRUCK_MIN_RANKS => {
                Alltoall::Bruck
            }
            // With blocks of different sizes no rank knows what the others choose, nor needs to:
            // both send the same messages.
            None if block_bytes <= ALLTOALL_SCATTERED_MAX_BYTES => Alltoall::Scattered,
            None => Alltoall::Pairwise,
        }
    }

    pub(crate) fn choose_reduce_scatter(&self, bytes: usize, commutes: bool) -> ReduceScatter {
        match self.reduce_scatter {
            _ if !commutes => ReduceScatter::ReduceThenScatter,
            Some(forced) => forced,
            None if bytes <= REDUCE_SCATTER_HALVING_MAX_BYTES => ReduceScatter::Halving,
            None => ReduceScatter::Pairwise,
        }
    }
}

fn tree_pays(size: usize, block_bytes: usize) -> bool {
    size >= GATHER_BINOMIAL_MIN_RANKS && block_bytes <= GATHER_BINOMIAL_MAX_BYTES
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
            "MPI_COLL_ALLREDUCE=magic: there is no such algorithm; there are: doubling, rabenseifner, ring"
        );
        assert!(s.set("FOO", "ring").unwrap_err().to_string().contains("MPI_COLL_FOO"));
        assert_eq!(s.allreduce, Some(Allreduce::Ring));
    }
}
