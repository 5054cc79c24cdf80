//! Addresses: several candidates, none that answers, port ranges, settings.

mod common;

use common::{addresses, env, open, open_with, until};
use mpi_btl::{Am, Body, Btl, ConnectError, Down, Ep, OpId, OpenEnv, OpenError, SendError, Sent, Span};
use mpi_btl_sim::conformance::Recorder;
use mpi_btl_tcp::{TcpBtl, address};
use mpi_wire::Header;
use std::net::{SocketAddr, TcpListener};

fn am<'a>(tag: i32, body: Body<'a>) -> Am<'a> {
    let header = Header { tag, length: body.len() as u64, ..Header::default() };
    Am { header, body, more: false }
}

/// A port that nobody listens on.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port")
}

#[test]
fn the_candidate_that_answers_is_found_among_others() {
    let (mut a, mut b) = (open(0), open(1));
    let (mut log_a, mut log_b) = (Recorder::new(0), Recorder::new(1));
    // Somebody who accepts and never answers, a closed port, another rank's listener, the right one.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = open(2);
    let list =
        [mute.local_addr().expect("an address"), closed_port(), addresses(&other)[0], addresses(&b)[0]];
    let mut info = b.info.clone();
    info.addresses.insert("tcp".to_owned(), address::encode(&list));
    a.tx.connect(&info).expect("known");
    b.tx.connect(&a.info).expect("known");
    // It waits here for its connection.
    assert_eq!(a.tx.send(Ep(1), am(3, Body::Bytes(b"found"))), Ok(Sent::Held));
    let start = std::time::Instant::now();
    until("the message", &mut [(&mut a, &mut log_a), (&mut b, &mut log_b)], |w| w[1].1.tags(Ep(0)) == [3]);
    assert!(start.elapsed() < mpi_btl_tcp::limits::CONNECT_TIMEOUT, "it waited for the mute one");
}

#[test]
fn a_peer_that_cannot_be_reached_is_reported_with_every_fact() {
    let (mut a, mut log) = (open(0), Recorder::new(0));
    let list = [closed_port(), closed_port()];
    let mut info = open(1).info;
    info.host = "node17".to_owned();
    info.addresses.insert("tcp".to_owned(), address::encode(&list));
    a.tx.connect(&info).expect("known");
    let mut lent = vec![1; 1 << 20];
    let body = Body::Lent(Span::new(lent.as_mut_ptr(), lent.len()), OpId(4));
    assert_eq!(a.tx.send(Ep(1), am(3, body)), Ok(Sent::Pending));
    until("down", &mut [(&mut a, &mut log)], |w| !w[0].1.downs(Ep(1)).is_empty());
    let downs = log.downs(Ep(1));
    let [Down::Unreachable(why)] = &downs[..] else { panic!("{downs:?}") };
    for fact in [
        &list[0].to_string(),
        &list[1].to_string(),
        "nobody listens there",
        "rank 1 on node17",
        "its process has ended",
    ] {
        assert!(why.contains(fact), "{fact} is missing: {why}");
    }
    assert!(!why.contains("MPI_IFACE"), "no network is to blame: {why}");
    assert!(matches!(&log.completions(OpId(4))[..], [Err(_)]), "the lent body came back as failed");
    assert!(matches!(a.tx.send(Ep(1), am(3, Body::Bytes(b""))), Err(SendError::Down(_))));
}

#[test]
fn an_address_that_no_network_leads_to_brings_advice_about_networks() {
    let (mut a, mut log) = (open(0), Recorder::new(0));
    let mut info = open(1).info;
    // Refused by this host itself: nothing is connected to with broadcast.
    let list = ["255.255.255.255:9".parse().expect("an address"), closed_port()];
    info.addresses.insert("tcp".to_owned(), address::encode(&list));
    a.tx.connect(&info).expect("known");
    assert_eq!(a.tx.send(Ep(1), am(3, Body::Bytes(b"far"))), Ok(Sent::Held));
    until("down", &mut [(&mut a, &mut log)], |w| !w[0].1.downs(Ep(1)).is_empty());
    let downs = log.downs(Ep(1));
    let [Down::Unreachable(why)] = &downs[..] else { panic!("{downs:?}") };
    for fact in
        ["255.255.255.255:9: ", "this is rank 0 at 127.0.0.1:", "MPI_IFACE=NAME", "MPI_PORT_RANGE=A-B"]
    {
        assert!(why.contains(fact), "{fact} is missing: {why}");
    }
}

#[test]
fn a_peer_without_an_address_is_another_backends_and_a_damaged_one_is_named() {
    let mut a = open(0);
    let mut info = open(1).info;
    info.addresses.clear();
    assert!(matches!(a.tx.connect(&info), Err(ConnectError::Unreachable { backend: "tcp", .. })));
    info.addresses.insert("tcp".to_owned(), vec![1, 4, 127]);
    let error = a.tx.connect(&info).expect_err("damaged");
    assert!(error.to_string().contains("address list malformed at byte 1 of 3"), "{error}");
}

#[test]
fn ports_stay_in_the_range_and_a_range_in_use_is_named() {
    // A range of one port that is free, and taken afterwards.
    static RANGE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let port = closed_port().port();
    RANGE.get_or_init(|| format!("{port}-{port}"));
    let settings = |name: &str| if name == "MPI_PORT_RANGE" { RANGE.get().cloned() } else { None };
    let env = OpenEnv { settings, ..env(0) };
    let first = open_with(&env).expect("the port is free");
    assert_eq!(addresses(&first)[0].port(), port);
    let Err(OpenError::Failed { reason, .. }) = open_with(&env) else { panic!("two on one port") };
    assert!(reason.contains(&format!("{port}-{port}")) && reason.contains("os error"), "{reason}");
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    fn check(settings: fn(&str) -> Option<String>, fact: &str) {
        let error = TcpBtl.open(&OpenEnv { settings, multihost: true, ..env(0) }).err().expect("refused");
        assert!(error.to_string().contains(fact), "{error}");
    }
    check(|n| (n == "MPI_PORT_RANGE").then(|| "9-3".to_owned()), "MPI_PORT_RANGE=9-3");
    check(|n| (n == "MPI_HOST_IP").then(|| "here".to_owned()), "MPI_HOST_IP=here");
    check(|n| (n == "MPI_TCP_EAGER_BYTES").then(|| "-1".to_owned()), "MPI_TCP_EAGER_BYTES=-1");
    check(|n| (n == "MPI_IFACE").then(|| "none7".to_owned()), "there are: lo");
}

#[test]
fn one_host_offers_loopback_and_several_hosts_never_do() {
    assert!(addresses(&open(0)).iter().all(|a| a.ip().is_loopback()));
    match open_with(&OpenEnv { multihost: true, ..env(0) }) {
        Ok(end) => assert!(addresses(&end).iter().all(|a| !a.ip().is_loopback())),
        // A machine without a network: said, not worked around.
        Err(e) => assert!(e.to_string().contains("no interface that is up"), "{e}"),
    }
}

#[test]
fn jobs_that_let_each_other_in_connect_and_others_do_not() {
    use mpi_wire::hello::{JobTag, guest_secret};
    let host_env = OpenEnv { job: "host".to_owned(), secret: [1; 32], ..env(0) };
    let guest_env = OpenEnv { job: "guest".to_owned(), secret: [2; 32], ..env(0) };
    let (mut host, mut guest) = (open_with(&host_env).unwrap(), open_with(&guest_env).unwrap());
    let key = guest_secret(&host_env.secret, JobTag::of("guest"));
    let theirs = mpi_btl::PeerInfo { ep: Ep(7), guest_secret: Some(key), ..host.info.clone() };
    let ours = mpi_btl::PeerInfo { ep: Ep(9), guest_secret: None, ..guest.info.clone() };
    guest.tx.connect(&theirs).unwrap();
    host.tx.connect(&ours).unwrap();
    guest.tx.send(Ep(7), am(5, Body::Bytes(b""))).unwrap();
    let (mut host_log, mut guest_log) = (Recorder::new(0), Recorder::new(0));
    until("a guest's message", &mut [(&mut host, &mut host_log), (&mut guest, &mut guest_log)], |w| {
        w[0].1.tags(Ep(9)) == [5]
    });
    // One that has only its own secret is turned away.
    let mut liar = open_with(&OpenEnv { job: "liar".to_owned(), ..guest_env }).unwrap();
    let theirs = mpi_btl::PeerInfo { ep: Ep(7), guest_secret: Some([2; 32]), ..host.info.clone() };
    liar.tx.connect(&theirs).unwrap();
    liar.tx.send(Ep(7), am(6, Body::Bytes(b""))).unwrap();
    let mut liar_log = Recorder::new(0);
    until("the refusal", &mut [(&mut host, &mut host_log), (&mut liar, &mut liar_log)], |w| {
        !w[1].1.downs(Ep(7)).is_empty()
    });
    assert_eq!(host_log.introduced, [] as [u32; 0]);
}
