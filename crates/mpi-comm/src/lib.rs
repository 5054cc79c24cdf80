//! MPI communicators: groups, contexts, topologies, attributes, error handlers, and the life of the
//! world from `init` to `finalize`.
//!
//! Everything here is untyped and returns errors by MPI's classes; a typed face and a C face stand
//! on the same functions. Error handlers run where a face calls [`Comm::handle`], nowhere else.
//!
//! What never happens: no transport is named; no message is matched; no call holds a lock of this
//! crate while it waits for another process.
#![deny(unsafe_code)]
#![deny(missing_docs)]

mod agreement;
mod attributes;
mod comm;
mod context_ids;
mod control;
mod core;
mod directory;
mod dynamic;
mod errhandler;
mod ft;
mod group;
mod info;
mod pending;
mod process;
mod requests;
mod start;
mod words;

pub mod limits;
pub mod settings;
pub mod topology;

pub use crate::core::{Node, Predefined};
pub use attributes::{
    AttributeValue, CopyCallback, DeleteCallback, Keyval, OnCopy, create_keyval, create_lent_keyval,
    free_keyval,
};
pub use comm::{Comm, Dest, Matched, NULL_STATUS, Neighbours, PendingComm, Source, SplitKind};
pub use dynamic::{
    SpawnCommand, close_port, join, lookup_name, open_port, publish_name, spawn_limit, unpublish_name,
};
pub use errhandler::{
    ErrorHandler, Place, UserHandler, fatal, fatal_at, handle_by_context, handle_by_context_at,
};
pub use ft::{Agreed, PendingAgreement};
pub use group::{Group, RankRange, Relation};
pub use info::Info;
pub use process::{
    ThreadLevel, abort, appnum, at_finalize, disconnect_parent, finalize, init, init_or_exit, is_finalized,
    is_initialized, is_main_thread, leave, parent, processor_name, self_comm, thread_level, try_self_comm,
    try_world, universe_size, version, world, wtick, wtime,
};
pub use requests::{
    attach_buffer, cancel, detach_buffer, engine, free, request_status, restart, start, test, test_all,
    test_any, test_some, wait, wait_all, wait_all_into, wait_any, wait_some,
};

/// [`Status::source`](mpi_p2p::Status::source) of a receive from the null process: the value of
/// `MPI_PROC_NULL` in the MPI-5 ABI.
pub const NULL_SOURCE: i32 = -2;

/// Largest tag (`MPI_TAG_UB`).
pub const TAG_UB: i32 = limits::TAG_UB;

/// True: clocks are those of the machine, not agreed between machines (`MPI_WTIME_IS_GLOBAL` is
/// therefore false where a world has several hosts).
pub const WTIME_IS_GLOBAL: bool = false;
