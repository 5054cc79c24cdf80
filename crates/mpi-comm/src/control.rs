//! The thread that listens to the launcher, and what a rank says of itself when it is blocked.

use crate::dynamic::Foreign;
use crate::limits::{CONTROL_THREAD_STACK_BYTES, OPEN_SHOWN, POLLING_LOOK};
use mpi_btl::Ep;
use mpi_p2p::{Blocked, Engine, Fatal, Hooks, Report};
use mpi_pmi::{Bootstrap, Client, Event, Kind, exit_status};
use mpi_wire::waits::{self, Wait};
use std::io::Write;
use std::sync::{Arc, Weak};

/// Status of a rank that ends because nobody watches it any more.
const LAUNCHER_GONE_STATUS: i32 = 3;

/// What the engine tells.
pub(crate) fn hooks(boot: &Bootstrap, foreign: Arc<Foreign>) -> Hooks {
    let (client, rank) = (boot.client.clone(), boot.rank);
    // Where no launcher gathers reports the client prints them itself.
    let gathered = boot.kind == Kind::Native;
    Hooks {
        on_blocked: Box::new(move |blocked| {
            // A finalisation that takes long speaks for itself; its own receives would tell people nothing.
            if let Some(text) = in_finalize() {
                let _ = client.report(&text, &[]);
                return;
            }
            if gathered {
                eprintln!("mpi: rank {rank}: {blocked}");
            }
            let _ = client.report(&blocked.to_string(), &[wait_of(blocked, &foreign)]);
        }),
        // A peer that is gone is an error of the operations that need it, and the launcher knows
        // better what happened to it.
        on_fatal: Box::new(move |fatal| match fatal {
            Fatal::Abort { code, .. } => std::process::exit(exit_status(*code)),
            Fatal::Notice { text } => eprintln!("mpi: rank {rank}: {text}"),
            Fatal::PeerGone { .. } => {}
        }),
    }
}

/// Starts the thread, where the launcher has anything to say.
pub(crate) fn start(client: &Arc<dyn Client>, engine: &Arc<Engine>, foreign: &Arc<Foreign>) {
    let Some(mut events) = client.events() else { return };
    let client = client.clone();
    let (engine, foreign) = (Arc::downgrade(engine), foreign.clone());
    let body = move || {
        loop {
            act(events.wait(), &client, &engine, &foreign);
        }
    };
    let builder = std::thread::Builder::new().name(String::from("mpi-control"));
    if let Err(error) = builder.stack_size(CONTROL_THREAD_STACK_BYTES).spawn(body) {
        eprintln!("mpi: the thread that listens to the launcher cannot be started: {error}");
    }
}

fn act(event: Event, client: &Arc<dyn Client>, engine: &Weak<Engine>, foreign: &Foreign) {
    match event {
        Event::Abort { code, .. } => std::process::exit(exit_status(code)),
        Event::LauncherGone => {
            // Standard error may have led through the launcher.
            let _ = writeln!(std::io::stderr(), "{}", launcher_gone(std::process::id()));
            std::process::exit(LAUNCHER_GONE_STATUS)
        }
        Event::ReportWanted => {
            let (text, waits) = match engine.upgrade() {
                Some(engine) => said(&engine, foreign),
                None => (String::from("finalised"), Vec::new()),
            };
            let _ = client.report(&text, &waits);
        }
        Event::PeerDied { job, rank, how } => {
            let ep = if job.is_empty() { Some(Ep(rank)) } else { foreign.identify(&job, rank) };
            if let (Some(engine), Some(ep)) = (engine.upgrade(), ep) {
                engine.peer_died(ep, how);
            }
        }
    }
}

/// What the engine's state comes to, in words, and whom it waits for.
fn said(engine: &Engine, foreign: &Foreign) -> (String, Vec<Wait>) {
    let mut report = engine.report();
    let mut polls = false;
    if report.blocked.is_empty() {
        // Whether it polls is seen by looking twice.
        std::thread::sleep(POLLING_LOOK);
        let before = std::mem::replace(&mut report, engine.report());
        polls = report.blocked.is_empty() && report.fruitless != before.fruitless;
    }
    let mut waits: Vec<Wait> = report.blocked.iter().map(|blocked| wait_of(blocked, foreign)).collect();
    if polls {
        let asked = if report.open.is_empty() { report.probed.as_slice() } else { &report.open };
        // What completes any of them may let it go on; of one that nobody in particular completes nothing is known.
        if asked.iter().all(|open| !open.waits_for.is_empty()) {
            let mut wait = Wait { any: true, polls: true, ..Wait::default() };
            asked.iter().for_each(|open| name(&open.waits_for, &mut wait, foreign));
            wait.peers.sort_unstable();
            wait.peers.dedup();
            waits.push(wait);
        }
    }
    (describe(&report, polls), waits)
}

fn launcher_gone(pid: u32) -> String {
    format!(
        "mpi: pid {pid}: mpiexec, which watched over the job, is gone (killed?); this process ends with status \
         {LAUNCHER_GONE_STATUS}"
    )
}

/// Whom a blocked call waits for.
fn wait_of(blocked: &Blocked, others: &Foreign) -> Wait {
    let mut wait = Wait { any: blocked.any, ..Wait::default() };
    name(&blocked.waits_for, &mut wait, others);
    wait
}

fn name(processes: &[Ep], wait: &mut Wait, others: &Foreign) {
    for ep in processes {
        match others.identity(*ep) {
            Some(who) => wait.foreign.push(waits::Foreign { job: who.job, rank: who.rank }),
            None => wait.peers.push(ep.0),
        }
    }
}

/// What a finalisation that is going on waits for.
fn in_finalize() -> Option<String> {
    Some(format!("in finalize; it waits for {}", crate::process::finalizing()?))
}

/// A report as one line.
fn describe(report: &Report, polls: bool) -> String {
    if let Some(text) = in_finalize() {
        return text;
    }
    let outside = crate::dynamic::waiting_outside();
    if !outside.is_empty() {
        return outside.join("; also: ");
    }
    if report.blocked.is_empty() {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let posted = count(report.posted_total, "receive");
        let unexpected = count(report.unexpected_total, "message");
        let open = open(report);
        let seen = format!("{posted} posted, {unexpected} not yet received");
        return match (polls, open, &report.probed) {
            (true, Some(open), _) => format!("polls, in vain so far: {open}; {unexpected} not yet received"),
            (true, None, Some(probed)) => format!("polls, in vain so far: {}; {seen}", probed.text),
            (true, None, None) => format!("polls, in vain so far; {seen}"),
            (false, Some(open), _) => format!("runs outside of MPI; {seen}; under way: {open}"),
            (false, None, _) => format!("runs outside of MPI; {seen}"),
        };
    }
    report.blocked.iter().map(ToString::to_string).collect::<Vec<_>>().join("; also: ")
}

/// What is under way without a call that waits for it, in words.
fn open(report: &Report) -> Option<String> {
    let shown: Vec<&str> = report.open.iter().take(OPEN_SHOWN).map(|open| open.text.as_str()).collect();
    let more = report.open_total - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}
