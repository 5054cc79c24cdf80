//! Faults on purpose: system calls that are cut short, interrupted, refused or late, by lot.
//!
//! `MPI_FAULTS=seed=7,short=0.2,eintr=0.1` makes each place where a transport calls the kernel draw whether the call is
//! disturbed. Off, such a place is one plain load and a branch beside a system call. Memory rings make no system call: there a
//! transport is opened through a wrapper of `mpi-btl` that delays and refuses (see there), and only where this is on.
//!
//! The lot is drawn from the seed, the rank and the thread, so that a run with the same seed meets the same faults as far as
//! its threads do the same.

use crate::limits::{FAULT_DELAY_MAX, FAULT_PROBABILITY_MAX, FAULT_STALL_MAX};
use std::cell::Cell;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The variable that says which.
pub const VARIABLE: &str = "MPI_FAULTS";
/// What it may hold.
pub const FORM: &str = "NAME=VALUE,... of seed (a number), delay, stall, short, eintr, eagain, reset, cma, shm, fds (the probability of \
                        each call, from 0 to 1), membarrier (refuse)";

/// What may happen, each with its probability.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Where the lots begin.
    pub seed: u64,
    chances: [f64; KINDS.len()],
}

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Fault {
    /// The call is a little late.
    Delay,
    /// The process stands still for long.
    Stall,
    /// Only a part is sent, received or copied.
    Short,
    /// The call was interrupted by a signal.
    Interrupted,
    /// The call would block, though it would not.
    Again,
    /// The connection is reset.
    Reset,
    /// Another process's memory may not be read or written.
    CrossCopy,
    /// No memory for what processes share.
    Memory,
    /// No descriptor left.
    Descriptors,
    /// The kernel knows no membarrier. Drawn once.
    Membarrier,
}

/// Name, word for "always", and whether it may happen each time: what is tried again until it succeeds may not.
const KINDS: [(&str, &str, bool); 10] = [
    ("delay", "", false),
    ("stall", "", false),
    ("short", "always", true),
    ("eintr", "", false),
    ("eagain", "", false),
    ("reset", "always", true),
    ("cma", "refuse", true),
    ("shm", "exhausted", true),
    ("fds", "exhausted", true),
    ("membarrier", "refuse", true),
];

/// The variable cannot be followed. The user's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{VARIABLE}={setting:?}: {part:?}: {reason}; expected {FORM}")]
pub struct FaultsError {
    setting: String,
    part: String,
    reason: String,
}

impl FaultsError {
    /// What is expected instead, and which part is not that.
    pub fn expected(&self) -> String {
        format!("{FORM}; {:?}: {}", self.part, self.reason)
    }
}

impl Plan {
    /// Reads the variable. Without a seed one is drawn.
    ///
    /// # Errors
    /// [`FaultsError`].
    pub fn parse(setting: &str) -> Result<Plan, FaultsError> {
        let mut plan = Plan { seed: 0, chances: [0.0; KINDS.len()] };
        let mut seeded = false;
        for part in setting.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let fail =
                |reason: String| FaultsError { setting: setting.to_owned(), part: part.to_owned(), reason };
            let (name, value) = part.split_once('=').ok_or_else(|| fail("there is no \"=\"".to_owned()))?;
            if name == "seed" {
                plan.seed = value.parse().map_err(|_| fail("no whole number".to_owned()))?;
                seeded = true;
                continue;
            }
            let kind = KINDS.iter().position(|(known, _, _)| *known == name);
            let kind = kind.ok_or_else(|| fail("there is no such fault".to_owned()))?;
            let (_, word, always) = KINDS[kind];
            let chance = match value == word && !word.is_empty() {
                true => 1.0,
                false => value.parse::<f64>().map_err(|_| fail("no probability".to_owned()))?,
            };
            let most = if always { 1.0 } else { FAULT_PROBABILITY_MAX };
            if !(0.0..=most).contains(&chance) {
                return Err(fail(format!("not between 0 and {most}")));
            }
            plan.chances[kind] = chance;
        }
        if !seeded {
            plan.seed = crate::cross_copy::random_words()[0] >> 32;
        }
        Ok(plan)
    }

    fn chance(&self, fault: Fault) -> f64 {
        self.chances[fault as usize]
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        for ((name, _, _), chance) in KINDS.iter().zip(&self.chances).filter(|(_, chance)| **chance > 0.0) {
            write!(f, ",{name}={chance}")?;
        }
        Ok(())
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<(Plan, u64)> = OnceLock::new();
static THREADS: AtomicU64 = AtomicU64::new(0);

/// Makes faults happen in this process from now on, as `setting` says; what was installed first stays. `who` sets the lots
/// of this process apart from those of others.
///
/// # Errors
/// [`FaultsError`].
pub fn install(setting: Option<&str>, who: u64) -> Result<Option<&'static Plan>, FaultsError> {
    let Some(setting) = setting.map(str::trim).filter(|s| !s.is_empty()) else { return Ok(None) };
    let plan = Plan::parse(setting)?;
    let (plan, _) = INSTALLED.get_or_init(|| (plan, who));
    ON.store(true, Ordering::Relaxed);
    Ok(Some(plan))
}

/// True where faults happen: the one thing that is asked where none do.
#[inline(always)]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Draws whether this happens now. Late calls and standing still have happened when it returns.
#[cold]
pub fn strikes(fault: Fault) -> bool {
    let Some((plan, _)) = INSTALLED.get() else { return false };
    let chance = plan.chance(fault);
    if chance <= 0.0 {
        return false;
    }
    let struck = ((draw() >> 11) as f64) < chance * (1_u64 << 53) as f64;
    match fault {
        Fault::Delay if struck => std::thread::sleep(part_of(FAULT_DELAY_MAX)),
        Fault::Stall if struck => std::thread::sleep(part_of(FAULT_STALL_MAX)),
        _ => {}
    }
    struck
}

/// What is drawn for a call of the kernel that moves `len` bytes: how many it may move, or its error.
///
/// # Errors
/// Interrupted, would block.
#[cold]
pub fn transfer(len: usize) -> io::Result<usize> {
    strikes(Fault::Delay);
    strikes(Fault::Stall);
    if strikes(Fault::Interrupted) {
        return Err(io::Error::from_raw_os_error(libc::EINTR));
    }
    if strikes(Fault::Again) {
        return Err(io::Error::from_raw_os_error(libc::EAGAIN));
    }
    // A part of nothing would be the end of a stream.
    Ok(if len > 1 && strikes(Fault::Short) { 1 + (draw() % (len as u64 - 1)) as usize } else { len })
}

/// What is drawn for a call that makes a descriptor.
///
/// # Errors
/// None is left.
#[inline]
pub fn descriptor() -> io::Result<()> {
    match on() && strikes(Fault::Descriptors) {
        true => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        false => Ok(()),
    }
}

/// What is drawn for a call that reserves memory for several processes.
///
/// # Errors
/// None is left.
#[inline]
pub fn memory() -> io::Result<()> {
    match on() && strikes(Fault::Memory) {
        true => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
        false => Ok(()),
    }
}

fn part_of(most: Duration) -> Duration {
    most.mul_f64((draw() >> 11) as f64 / (1_u64 << 53) as f64)
}

/// The next of this thread's numbers. Source: G. Steele and others, "Fast splittable pseudorandom number generators" (2014),
/// the generator called SplitMix64.
fn draw() -> u64 {
    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }
    STATE.with(|state| {
        let before = state.get().unwrap_or_else(|| {
            let (plan, who) = INSTALLED.get().map_or((0, 0), |(plan, who)| (plan.seed, *who));
            let thread = THREADS.fetch_add(1, Ordering::Relaxed);
            mixed(mixed(plan ^ 0x5EED) ^ mixed(who << 16 | thread))
        });
        let now = before.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(Some(now));
        mixed(now)
    })
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_and_written() {
        let plan = Plan::parse("seed=7, short=0.25,cma=refuse,eintr=0.5").expect("good");
        assert_eq!((plan.seed, plan.chance(Fault::Short), plan.chance(Fault::CrossCopy)), (7, 0.25, 1.0));
        assert_eq!(plan.chance(Fault::Reset), 0.0);
        assert_eq!(Plan::parse(&plan.to_string()), Ok(plan));
        // Without a seed one is drawn, and is told.
        let drawn = Plan::parse("short=0.5").expect("good");
        assert_eq!(Plan::parse(&drawn.to_string()), Ok(drawn));
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        for (setting, part, reason) in [
            ("short", "short", "no \"=\""),
            ("short=much", "short=much", "no probability"),
            ("eintr=0.1,short=1.5", "short=1.5", "not between 0 and 1"),
            ("eintr=1", "eintr=1", "not between 0 and 0.9"),
            ("stall=refuse", "stall=refuse", "no probability"),
            ("short=NaN", "short=NaN", "not between"),
            ("seed=x", "seed=x", "no whole number"),
            ("flood=0.5", "flood=0.5", "no such fault"),
        ] {
            let text = Plan::parse(setting).expect_err(setting).to_string();
            assert!(text.contains(&format!("{part:?}")) && text.contains(reason), "{text}");
            assert!(text.starts_with(&format!("MPI_FAULTS={setting:?}: ")), "{text}");
        }
    }
}
