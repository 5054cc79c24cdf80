//! What a stranger, a liar or a broken peer can do: nothing but lose its own connection.

mod common;

use common::{WAIT, addresses, dial, open, until};
use mpi_btl::{Am, Body, BtlRx, Down, Ep, Polled};
use mpi_btl_sim::conformance::{End, Policy, Recorder};
use mpi_wire::Header;
use mpi_wire::hello::{Dialer, HELLO_REPLY_LEN, Identity, JobTag};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn send(end: &mut End, to: u32, tag: i32, body: &[u8]) {
    let header = Header { tag, length: body.len() as u64, ..Header::default() };
    end.tx.send(Ep(to), Am { header, body: Body::Bytes(body), more: false }).expect("a message is taken");
}

/// Polls until the stranger's connection is closed by the other side.
fn until_closed(end: &mut End, log: &mut Recorder, stranger: &mut TcpStream) {
    stranger.set_nonblocking(true).expect("nonblocking");
    let deadline = Instant::now() + WAIT;
    let mut rest = Vec::new();
    loop {
        assert!(Instant::now() < deadline, "the stranger was not dropped");
        end.rx.poll(16, log);
        match stranger.read_to_end(&mut rest) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            _ => return,
        }
    }
}

/// The victim still works: a real peer connects and is heard.
fn still_works(end: &mut End, log: &mut Recorder) {
    let mut peer = open(7);
    let mut peer_log = Recorder::new(7);
    end.tx.connect(&peer.info).expect("known");
    peer.tx.connect(&end.info).expect("known");
    let rank = end.info.world_rank;
    send(&mut peer, rank, 77, b"real");
    until("the real peer's message", &mut [(end, log), (&mut peer, &mut peer_log)], |w| {
        w[0].1.tags(Ep(7)) == [77]
    });
}

#[test]
fn nonsense_instead_of_a_hello_is_dropped_at_once() {
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let mut stranger = TcpStream::connect(addresses(&end)[0]).expect("the listener is there");
    stranger.write_all(&[b'x'; 500]).expect("nonsense");
    let start = Instant::now();
    until_closed(&mut end, &mut log, &mut stranger);
    assert!(start.elapsed() < mpi_btl_tcp::limits::PROOF_TIMEOUT, "dropped by the clock, not by the bytes");
    assert!(log.events.is_empty() && log.introduced.is_empty());
    still_works(&mut end, &mut log);
}

/// A stranger's connection and what it says; dropped without a trace but a line that counts it.
#[test]
fn whatever_a_stranger_says_is_counted_and_nothing_else() {
    let identity = |rank| Identity { job: JobTag::of(common::JOB), rank };
    let header = |context, length| Header { context, length, ..Header::default() }.encode().to_vec();
    // A proper greeting that somebody overheard, with the message behind it.
    let replayed = {
        let (mut end, mut log) = (open(0), Recorder::new(0));
        let target = addresses(&end)[0];
        let thread = std::thread::spawn(move || {
            let dialer = Dialer::new(common::SECRET, identity(1), identity(0), [3; 32]);
            let mut stream = TcpStream::connect(target).expect("the listener is there");
            let mut said = dialer.hello().to_vec();
            stream.write_all(&said).expect("hello");
            let mut reply = [0; HELLO_REPLY_LEN];
            stream.read_exact(&mut reply).expect("reply");
            let proof = dialer.reply(&reply).expect("a proper reply");
            stream.write_all(&proof).expect("proof");
            said.extend(proof);
            said.extend(Header { tag: 8, ..Header::default() }.encode());
            said
        });
        until("the introduction", &mut [(&mut end, &mut log)], |w| w[0].1.introduced == [1]);
        thread.join().expect("overheard")
    };
    let mut huge = header(0, 0);
    huge[39] = 0x80;
    let pad = |mut bytes: Vec<u8>| {
        bytes.resize(bytes.len().max(mpi_wire::hello::HELLO_LEN), 0);
        bytes
    };
    let sayings = [
        ("noise", vec![0xA5; 4096]),
        ("a valid header", pad(header(0, 0))),
        ("an abort", pad(header(mpi_wire::reserved::ABORT, 0))),
        ("a length of 2^63", pad(huge)),
        ("a replayed greeting", replayed),
    ];
    let (mut end, mut log) = (open(0), Recorder::new(0));
    for (what, said) in &sayings {
        let mut stranger = TcpStream::connect(addresses(&end)[0]).expect("the listener is there");
        // It may be dropped before it has said all.
        let _ = stranger.write_all(said);
        until_closed(&mut end, &mut log, &mut stranger);
        assert!(log.events.is_empty() && log.arrivals.is_empty() && log.introduced.is_empty(), "{what}");
    }
    // The first is told of at once, the others when the next line is due.
    until("the line", &mut [(&mut end, &mut log)], |w| !w[0].1.notices.is_empty());
    assert_eq!(log.notices.len(), 1, "{:?}", log.notices);
    let line = &log.notices[0];
    assert!(line.contains("1 connection without proof") && line.contains("127.0.0.1:"), "{line}");
    still_works(&mut end, &mut log);
}

#[test]
fn ten_thousand_strangers_at_once_keep_nobody_out_and_take_a_fixed_room() {
    const STRANGERS: usize = 10_000;
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let target = addresses(&end)[0];
    let flood = std::thread::spawn(move || {
        // None waits for its connection to be made, and as many stay as the system lets us have.
        let dial = || -> std::io::Result<socket2::Socket> {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            let _ = socket.connect(&target.into());
            Ok(socket)
        };
        let strangers: Vec<_> = (0..STRANGERS).map_while(|_| dial().ok()).collect();
        std::thread::sleep(Duration::from_secs(3));
        strangers.len()
    });
    // They come first.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        end.rx.poll(16, &mut log);
    }
    let before = Instant::now();
    still_works(&mut end, &mut log);
    assert!(before.elapsed() < Duration::from_secs(5), "a peer was kept out for {:?}", before.elapsed());
    // Descriptors: what the process has beside the flood's own.
    let flooded = flood.join().expect("the flood ends");
    let (mut open, _) = (0, end.rx.poll(16, &mut log));
    for entry in std::fs::read_dir("/proc/self/fd").expect("the list of descriptors") {
        open += usize::from(entry.is_ok());
    }
    assert!(
        open < 2 * mpi_btl_tcp::limits::UNPROVEN_MAX + 200,
        "{open} descriptors after {flooded} strangers"
    );
    assert!(log.notices.len() <= 2, "{:?}", log.notices);
}

#[test]
fn silence_is_dropped_in_time_and_the_sleeper_wakes_for_it() {
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let mut stranger = TcpStream::connect(addresses(&end)[0]).expect("the listener is there");
    stranger.set_nonblocking(true).expect("nonblocking");
    let start = Instant::now();
    let mut polls = 0;
    loop {
        assert!(start.elapsed() < WAIT, "the silent stranger was not dropped");
        common_sleep(end.rx.as_mut());
        for _ in 0..100 {
            end.rx.poll(16, &mut log);
        }
        polls += 1;
        match stranger.read(&mut [0; 1]) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => break,
        }
    }
    assert!(start.elapsed() >= Duration::from_secs(4), "it had no time to speak");
    assert!(polls < 100, "slept {polls} times: the deadline spins");
}

/// Sleeps as an engine does.
fn common_sleep(rx: &mut dyn BtlRx) {
    use mpi_btl::{Armed, WakeBy};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::BorrowedFd;
    match rx.arm(WakeBy::Descriptor) {
        Armed::Descriptor(fd) => {
            // SAFETY: the receiving half keeps its descriptor open while it is armed.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let timeout = PollTimeout::try_from(20_000).expect("a timeout");
            poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout).expect("poll");
        }
        Armed::Ready => {}
        other => panic!("armed with {other:?}"),
    }
    rx.disarm();
}

#[test]
fn many_silent_strangers_keep_nobody_out() {
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let target = addresses(&end)[0];
    let strangers: Vec<TcpStream> = (0..400)
        .map(|_| {
            end.rx.poll(16, &mut log);
            TcpStream::connect(target).expect("the listener is there")
        })
        .collect();
    still_works(&mut end, &mut log);
    drop(strangers);
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides() {
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let identity = |rank| Identity { job: JobTag::of(common::JOB), rank };
    let dialer = Dialer::new([1; 32], identity(1), identity(0), [3; 32]);
    let mut liar = TcpStream::connect(addresses(&end)[0]).expect("the listener is there");
    liar.write_all(&dialer.hello()).expect("hello");
    // An invented proof, and a message behind it that must not be looked at.
    liar.write_all(&[5; 32]).expect("proof");
    liar.write_all(&Header { tag: 1, ..Header::default() }.encode()).expect("a message");
    until_closed(&mut end, &mut log, &mut liar);
    assert!(log.events.is_empty() && log.introduced.is_empty());

    // The dialling side does not accept one who cannot prove it either.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let mut info = open(1).info;
    info.addresses.insert("tcp".to_owned(), mpi_btl_tcp::address::encode(&[at]));
    end.tx.connect(&info).expect("known");
    send(&mut end, 1, 0, b"secret");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the dialling side comes");
        let mut hello = [0; mpi_wire::hello::HELLO_LEN];
        stream.read_exact(&mut hello).expect("hello");
        stream.write_all(&[9; HELLO_REPLY_LEN]).expect("an invented reply");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest.len()
    });
    until("down", &mut [(&mut end, &mut log)], |w| !w[0].1.downs(Ep(1)).is_empty());
    let downs = log.downs(Ep(1));
    let Down::Unreachable(why) = &downs[0] else { panic!("{downs:?}") };
    assert!(why.contains(&at.to_string()) && why.contains("no hello of this protocol"), "{why}");
    assert_eq!(thread.join().expect("the liar ends"), 0, "something was sent without proof");
}

#[test]
fn a_length_beyond_reason_is_a_protocol_error() {
    let (mut end, mut log) = (open(0), Recorder::new(0));
    log.introduce_as = Some(Ep(1));
    let target = addresses(&end)[0];
    let peer = std::thread::spawn(move || {
        let mut stream = dial(target, 1, 0);
        let mut bytes = Header { length: 0, ..Header::default() }.encode();
        bytes[39] = 0x80;
        stream.write_all(&bytes).expect("a header");
        let _ = stream.read(&mut [0; 1]);
    });
    until("down", &mut [(&mut end, &mut log)], |w| !w[0].1.downs(Ep(1)).is_empty());
    let downs = log.downs(Ep(1));
    assert!(matches!(&downs[..], [Down::Protocol(why)] if why.contains("9223372036854775808")), "{downs:?}");
    peer.join().expect("the peer ends");
}

#[test]
fn a_huge_announced_length_takes_no_memory_and_a_cut_message_is_named() {
    for policy in [Policy::Chunks, Policy::Discard] {
        let (mut end, mut log) = (open(0), Recorder::new(0));
        log.introduce_as = Some(Ep(1));
        log.policy = policy;
        let target = addresses(&end)[0];
        let peer = std::thread::spawn(move || {
            let mut stream = dial(target, 1, 0);
            // Two to the sixtieth bytes are announced, a few come, then the peer is gone.
            let header = Header { tag: 5, length: 1 << 60, ..Header::default() };
            stream.write_all(&header.encode()).expect("a header");
            stream.write_all(&[1; 1000]).expect("a part of the body");
        });
        until("down", &mut [(&mut end, &mut log)], |w| !w[0].1.downs(Ep(1)).is_empty());
        assert_eq!(log.tags(Ep(1)), [5]);
        let downs = log.downs(Ep(1));
        assert!(
            matches!(&downs[..], [Down::Reset(why)] if why.contains("in the middle of a message")),
            "{downs:?}"
        );
        peer.join().expect("the peer ends");
    }
}

#[test]
fn an_unnamed_peer_that_dies_lets_the_sleeper_sleep_and_is_heard_when_named() {
    use mpi_btl::{Armed, WakeBy};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let target = addresses(&end)[0];
    let peer = std::thread::spawn(move || {
        let mut stream = dial(target, 1, 0);
        // A reset throws away what is still held back to be sent with more.
        stream.set_nodelay(true).expect("no delay");
        stream.write_all(&Header { tag: 6, ..Header::default() }.encode()).expect("a message");
        // It ends by a reset, which is a hang-up at the other side; a close would be an end to read.
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("linger");
    });
    until("the introduction", &mut [(&mut end, &mut log)], |w| w[0].1.introduced == [1]);
    peer.join().expect("the peer ends");
    // Whatever the handshake left to be seen is seen; then nothing rings.
    for _ in 0..200 {
        end.rx.poll(1, &mut log);
    }
    match end.rx.arm(WakeBy::Descriptor) {
        Armed::Descriptor(fd) => {
            // SAFETY: the receiving half keeps its descriptor open while it is armed.
            let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            assert_eq!(poll(&mut fds, PollTimeout::ZERO), Ok(0), "the dead one keeps ringing");
        }
        other => panic!("armed with {other:?}"),
    }
    end.rx.disarm();
    let named = mpi_btl::PeerInfo { ep: Ep(1), world_rank: 1, ..end.info.clone() };
    end.tx.connect(&named).expect("it is there");
    until("down", &mut [(&mut end, &mut log)], |w| !w[0].1.downs(Ep(1)).is_empty());
    assert_eq!(log.tags(Ep(1)), [6]);
    assert!(matches!(&log.downs(Ep(1))[..], [Down::Reset(_)]));
}

#[test]
fn a_claimed_rank_without_proof_does_not_disturb_the_real_one() {
    // The liar claims to be rank 7 and waits; the real rank 7 is heard at once.
    let (mut end, mut log) = (open(0), Recorder::new(0));
    let identity = |rank| Identity { job: JobTag::of(common::JOB), rank };
    let dialer = Dialer::new([1; 32], identity(7), identity(0), [3; 32]);
    let mut liar = TcpStream::connect(addresses(&end)[0]).expect("the listener is there");
    liar.write_all(&dialer.hello()).expect("hello");
    for _ in 0..200 {
        assert_eq!(end.rx.poll(1, &mut log), Polled::Idle);
    }
    still_works(&mut end, &mut log);
}
