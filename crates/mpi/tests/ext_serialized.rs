//! Messages of values that serde serialises.

mod support;

use std::collections::BTreeMap;
use std::process::ExitCode;

use mpi::ext::{SerializedError, prelude::*};
use mpi::traits::*;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use support::{Case, case};

const CASES: &[Case] = &[
    case("sent_and_received", sent_and_received),
    case("broadcast", broadcast),
    case("gathered", gathered),
    case("gathered_by_all", gathered_by_all),
    case("scattered", scattered),
    case("wrong_messages", wrong_messages).on(&[2]),
    case("values_that_cannot_be_serialised", values_that_cannot_be_serialised).on(&[3]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
enum Shape {
    Circle { radius: f64 },
    Polygon(Vec<(f64, f64)>),
    Named(String, Box<Shape>),
    Nothing,
}

fn shape(rank: i32) -> Shape {
    match rank % 4 {
        0 => Shape::Circle { radius: f64::from(rank) + 0.5 },
        1 => Shape::Polygon((0..rank * 100).map(|i| (f64::from(i), -f64::from(i))).collect()),
        2 => Shape::Named(format!("Rang {rank} – Ω"), Box::new(shape(rank - 1))),
        _ => Shape::Nothing,
    }
}

/// A value that has no serialised form.
#[derive(Debug, PartialEq)]
struct Secret;

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("it is secret"))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Secret, D::Error> {
        Ok(Secret)
    }
}

fn sent_and_received() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    world.process_at_rank(next).send_serialized_with_tag(&shape(rank), 5).unwrap();
    let (got, status) = world.process_at_rank(previous).receive_serialized_with_tag::<Shape>(5).unwrap();
    assert_eq!((got, status.tag()), (shape(previous), 5));
    world.process_at_rank(next).send_serialized("ein Text").unwrap();
    assert_eq!(world.any_process().receive_serialized::<String>().unwrap().0, "ein Text");
    world.process_at_rank(next).send_serialized(&()).unwrap(); // an empty message
    world.any_process().receive_serialized::<()>().unwrap();
}

fn broadcast() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for root in 0..world.size() {
        let root = world.process_at_rank(root);
        let table = BTreeMap::from([("a".to_owned(), shape(1)), ("b".to_owned(), shape(2))]);
        let got = root.broadcast_serialized(root.is_self().then(|| table.clone())).unwrap();
        assert_eq!(got, table);
    }
}

fn gathered() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(world.size() - 1);
    let got = root.gather_serialized(&shape(world.rank())).unwrap();
    assert_eq!(got, root.is_self().then(|| (0..world.size()).map(shape).collect::<Vec<_>>()));
}

fn gathered_by_all() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let got = world.all_gather_serialized(&shape(world.rank())).unwrap();
    assert_eq!(got, (0..world.size()).map(shape).collect::<Vec<_>>());
}

fn scattered() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(world.size() - 1);
    let all: Vec<_> = (0..world.size()).map(shape).collect();
    let got = root.scatter_serialized(root.is_self().then_some(&all[..])).unwrap();
    assert_eq!(got, shape(world.rank()));
}

fn wrong_messages() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    peer.send_serialized(&(1_u32, 2_u32)).unwrap();
    let error = peer.receive_serialized::<u32>().unwrap_err();
    assert!(matches!(error, SerializedError::Decode { bytes: 2, .. }), "{error}");
    assert!(error.to_string().contains("1 bytes are left over"), "{error}");
    peer.send(&[0xFF_u8; 3][..]);
    let error = peer.receive_serialized::<String>().unwrap_err();
    assert!(matches!(error, SerializedError::Decode { bytes: 3, .. }), "{error}");
    peer.send(&[1.5_f64][..]);
    let error = peer.receive_serialized::<String>().unwrap_err();
    assert!(matches!(error, SerializedError::Mpi(_)), "{error}");
    let error = peer.send_serialized_with_tag(&1, -5).unwrap_err();
    assert!(error.to_string().contains("tag -5"), "{error}");
    let long = vec![0_u8; mpi::limits::SERIALIZED_MESSAGE_MAX_BYTES];
    let error = peer.send_serialized(&long).unwrap_err();
    assert!(matches!(error, SerializedError::TooLong { .. }), "{error}");
    world.barrier();
}

/// Nobody hangs, and every rank is told.
fn values_that_cannot_be_serialised() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(1);
    let error = root.broadcast_serialized(root.is_self().then_some(Secret)).unwrap_err();
    let told = |error: &SerializedError| match root.is_self() {
        true => matches!(error, SerializedError::Encode(_)),
        false => matches!(error, SerializedError::Peer { rank: 1 }),
    };
    assert!(told(&error), "{error}");
    let error = root.scatter_serialized(root.is_self().then_some(&[Secret, Secret, Secret][..])).unwrap_err();
    assert!(told(&error), "{error}");
    let error = root.scatter_serialized(root.is_self().then_some(&[1_u8][..])).unwrap_err();
    let number = matches!(error, SerializedError::Number { given: 1, ranks: 3 });
    assert!(number || matches!(error, SerializedError::Peer { rank: 1 }), "{error}");
    let error = root.broadcast_serialized(None::<u8>).unwrap_err();
    assert!(matches!(error, SerializedError::Missing | SerializedError::Peer { rank: 1 }), "{error}");
    assert!(root.gather_serialized(&Secret).is_err());
    assert!(world.all_gather_serialized(&Secret).is_err());
    assert_eq!(world.all_gather_serialized(&world.rank()).unwrap(), [0, 1, 2]);
}
