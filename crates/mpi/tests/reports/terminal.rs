//! `--top` in a terminal, which is a pair of pseudo-terminals.

use crate::support::{CASE_VARIABLE, RUN_LIMIT, mpiexec};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::{Pid, read, ttyname, write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Written in front of every view.
const CUT: &str = "\x1b[?7l";

/// More ranks than rows: the view is never higher than what it can be drawn over in.
pub fn a_view_fits_a_low_terminal(folder: &Path) {
    let low = Winsize { ws_row: 6, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&low), None).expect("a pseudo-terminal");
    let slave = Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    let mut command = Command::new(mpiexec());
    command.args(["--top", "-q", "--timeout", "3", "-n", "8", "--oversubscribe"]);
    command.arg(std::env::current_exe().expect("a path"));
    command
        .env(CASE_VARIABLE, "all_receive_for_ever")
        .env("MPIEXEC_CONFIG", "/dev/null")
        .env("TERM", "xterm");
    command.current_dir(folder);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(slave).spawn().expect("mpiexec starts");
    drop((command, pty.slave));
    let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = read(&pty.master, &mut bytes) {
        heard.extend_from_slice(&bytes[..count]);
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(124));
    let text = String::from_utf8_lossy(&heard).into_owned();
    let views: Vec<&str> = text.split(CUT).skip(1).collect();
    assert!(views.len() > 3, "{text}");
    for view in &views[..views.len() - 1] {
        let view = view.split("\x1b[?7h").next().unwrap_or_default();
        assert_eq!(view.lines().count(), 5, "{view}");
        assert!(view.contains("(5 more)"), "{view}");
    }
    assert!(text.contains("\x1b[5A"), "{text}");
}

/// A terminal that takes nothing but text gets a line, and none of the sequences that move the cursor.
pub fn a_dumb_terminal_gets_a_line(folder: &Path) {
    let pty = openpty(None, None).expect("a pseudo-terminal");
    let slave = Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    let mut command = Command::new(mpiexec());
    command.args(["--top", "-n", "2", "--oversubscribe"]).arg(std::env::current_exe().expect("a path"));
    command.env(CASE_VARIABLE, "ring").env("MPIEXEC_CONFIG", "/dev/null").env("TERM", "dumb");
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(slave);
    let mut child = command.spawn().expect("mpiexec starts");
    drop((command, pty.slave));
    let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = read(&pty.master, &mut bytes) {
        heard.extend_from_slice(&bytes[..count]);
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let text = String::from_utf8_lossy(&heard);
    assert_eq!(text.matches("(TERM=dumb); the job goes on without a view").count(), 1, "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
}

pub fn a_view_is_drawn_in_a_terminal(folder: &Path) {
    let narrow = Winsize { ws_row: 24, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&narrow), None).expect("a pseudo-terminal");
    let slave = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    let mut command = Command::new(mpiexec());
    command.args(["--top", "--oversubscribe", "-n", "2"]).arg(std::env::current_exe().expect("a path"));
    command.env(CASE_VARIABLE, "receives_for_ever").env("MPIEXEC_CONFIG", "/dev/null").env("TERM", "xterm");
    command.current_dir(folder);
    let mut child =
        command.stdin(slave()).stdout(Stdio::null()).stderr(slave()).spawn().expect("mpiexec starts");

    let heard = Arc::new(Mutex::new(String::new()));
    let (master, hears) = (pty.master.try_clone().expect("a descriptor"), heard.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = read(&master, &mut bytes) {
            hears.lock().expect("nobody panics").push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    });
    let text = || heard.lock().expect("nobody panics").clone();
    let wait = |what: &str, is_there: &dyn Fn(&str) -> bool| {
        let start = Instant::now();
        while !is_there(&text()) {
            assert!(start.elapsed() < RUN_LIMIT, "{what} never came:\n{}", text());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let views = |text: &str| text.matches(CUT).count();

    wait("a view of the blocked ranks", &|text| {
        let last = text.rsplit(CUT).next().unwrap_or_default();
        last.contains("rank 0") && last.contains("receive") && last.contains("rank 1  ")
    });
    assert!(text().contains("waits for"), "{}", text());
    // Cut, and not broken: the view has as many lines as rows, whatever the width.
    let name = ttyname(pty.slave.as_fd()).expect("it has a name");
    let resized = Command::new("stty").arg("-F").arg(&name).args(["cols", "20"]).status();
    assert!(resized.expect("stty runs").success());
    let before = views(&text());
    wait("a view after the terminal became narrower", &|text| views(text) >= before + 2);
    assert!(
        text().rsplit(CUT).nth(1).is_some_and(|view| view.contains("\x1b[3A")),
        "drawn over the last: {}",
        text()
    );

    write(&pty.master, b"xq").expect("keys are pressed");
    wait("the end of the view", &|text| text.contains("the view has ended (q); the job goes on"));
    let before = views(&text());
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(views(&text()), before, "no view after its end");
    assert_eq!(child.try_wait().expect("a child"), None, "the job goes on");
    let flags = tcgetattr(pty.slave.as_fd()).expect("a terminal").local_flags;
    assert!(flags.contains(LocalFlags::ICANON | LocalFlags::ECHO), "the terminal is as it was");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("mpiexec lives");
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
}
