//! MPI's point-to-point engine: matching, eager and rendezvous, requests, probe, progress, parking.
//!
//! An [`Engine`] owns the open backends of a process and moves messages between their peers and the
//! user's buffers. It speaks MPI's untyped terms: context, rank, tag, buffer with datatype, request,
//! status, error class. Everything above (communicators, collectives, one-sided access) stands on it.
//!
//! The path of a message: `engine.rs` (the call) → `send.rs` (at once, announced or queued) → a
//! backend → `sink.rs` (delivered, matched) → `recv.rs` (put in place), and for large ones
//! `rendezvous.rs` and `stream.rs`.
//!
//! What never happens: the engine names no backend; it knows no communicator beyond [`Context`]; it
//! never holds its lock while it sleeps or calls a hook; it never panics on anything a peer sent.
//!
//! `unsafe` lives in `memory.rs` (the user's buffers) and `sleep.rs` (system calls), and in
//! [`Engine::recv_alloc`], which passes its caller's promise on.
#![deny(missing_docs)]

mod activity;
mod board;
mod config;
mod context;
mod core;
mod direct;
mod engine;
mod error;
mod failure;
mod flow;
mod helper;
mod lanes;
mod lend;
pub mod limits;
mod matching;
mod memory;
mod patience;
mod peer;
mod polling;
mod progress;
mod recv;
mod rendezvous;
mod report;
mod request;
mod requests_api;
mod send;
mod service;
mod silent;
mod sink;
mod sleep;
mod status;
mod store;
mod stream;
mod waiting;
mod waits;
mod waking;

pub use activity::{Activity, Inside, Step};
pub use board::{Board, Lent};
pub use config::{Directory, EngineConfig, Hooks, Limits, SpinPolicy};
pub use context::{Context, ContextSpec};
pub use engine::Engine;
pub use error::{Error, ErrorClass, ErrorFacts};
/// What is written down for `mpiexec --stats` and its kin.
pub use mpi_record as record;
pub use recv::FINALISED;
pub use report::{Blocked, Fatal, Open, Report, Waiting};
pub use request::{AllocFn, RequestId};
pub use requests_api::Completed;
pub use service::{About, Port, Service};
pub use status::{SendMode, Source, Status, Tag};
pub use store::Message;
pub use waits::within;
