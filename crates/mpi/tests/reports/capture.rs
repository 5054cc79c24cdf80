//! Captured traffic of a job, dissected.

use crate::run;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Everything that goes over the loopback interface, as a pcap file; an error where that is not permitted.
fn capture(stop: &AtomicBool) -> nix::Result<Vec<u8>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let tap = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    // More than the whole job sends: nothing is lost while this thread waits for a processor.
    setsockopt(&tap, RcvBufForce, &(64 << 20)).or_else(|_| setsockopt(&tap, RcvBuf, &(4 << 20)))?;
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    let mut packet = vec![0; 128 << 10];
    let start = Instant::now();
    loop {
        match recv(tap.as_raw_fd(), &mut packet, MsgFlags::empty()) {
            Ok(length) => {
                let at = start.elapsed();
                let words = [at.as_secs() as u32, at.subsec_micros(), length as u32, length as u32];
                words.iter().for_each(|word| file.extend(word.to_le_bytes()));
                file.extend(&packet[..length]);
            }
            Err(Errno::EAGAIN) if stop.load(Ordering::Relaxed) => return Ok(file),
            Err(Errno::EAGAIN) => std::thread::sleep(Duration::from_micros(100)),
            Err(e) => return Err(e),
        }
    }
}

pub fn a_capture_is_dissected(folder: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let tap = std::thread::spawn({
        let stop = stop.clone();
        move || capture(&stop)
    });
    std::thread::sleep(Duration::from_millis(50));
    let done = run("-genv MPI_BTL tcp", 2, "talks", folder);
    assert_eq!(done.status, Some(0), "{}", done.err);
    stop.store(true, Ordering::Relaxed);
    let file = match tap.join().expect("the tap ends") {
        Ok(file) => file,
        Err(e) => return println!("skipped: packets may not be captured here ({e})"),
    };
    std::fs::write(folder.join("job.pcap"), &file).expect("the capture is kept");
    let lines = mpi_dissect::dissect(&file).expect("our own pcap");
    let all = lines.join("\n");
    std::fs::write(folder.join("job.txt"), &all).expect("the lines are kept");
    let small =
        lines.iter().position(|l| l.contains("-> 1 tag 31337, 3 x type ") && l.ends_with(", 24 bytes"));
    let small = small.unwrap_or_else(|| panic!("no small message in\n{all}"));
    let (time_and_ends, _) = lines[small].split_once("  message: ").expect("a message");
    let ends = time_and_ends.trim_start().split_once(' ').expect("a time").1;
    // What this very connection carried, in order.
    let ours: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(ends)?.1.trim())).collect();
    let at = |text: &str| {
        ours.iter().position(|l| l.starts_with(text)).unwrap_or_else(|| panic!("no {text} in\n{all}"))
    };
    assert!(
        at("hello: rank ").min(at("proof")) < at("message: ") || ours[0].starts_with("reply: rank "),
        "{all}"
    );
    let announced = at("announcement: ");
    assert!(ours[announced].contains("tag 31338") && ours[announced].contains("of 300000 bytes"), "{all}");
    assert!(announced < at("data: "), "{all}");
    let back =
        ends.split_once(" > ").map(|(from, to)| format!("{to} > {from}  clear to send: ")).expect("ends");
    assert!(all.contains(&back), "no {back} in\n{all}");
}
