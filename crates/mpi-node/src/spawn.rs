//! Starting a process and what it inherits: descriptors, group, processors, death with its parent.
//!
//! Both ends of the inheritance are here: [`Inheritance::apply`] prepares a command, [`inherited`]
//! is what the started process does with a descriptor's number that it was told.

use crate::image::Image;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a command gets from its parent beyond arguments, environment and standard streams.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Descriptors that stay open in the child, under the same numbers. They must stay open in
    /// the parent until the child has started.
    pub keep: Vec<RawFd>,
    /// The child leads a process group of its own, so that its children can be reached with it.
    pub own_group: bool,
    /// The child leads a session of its own, and a group in it, whose terminal is its standard input.
    pub own_terminal: bool,
    /// The kernel kills the child when the thread that started it ends.
    pub die_with_parent: bool,
    /// Processors that the child may run on; `None` leaves them as they are.
    pub processors: Option<Vec<usize>>,
    /// Soft limit of open files in the child; `None` leaves it as it is.
    pub open_files: Option<u64>,
    /// What the child becomes, in place of the command's own program, arguments and environment.
    pub image: Option<Image>,
}

impl Inheritance {
    /// Prepares `command`. Takes effect between fork and exec. The child's signal mask is empty,
    /// whatever the parent blocks.
    ///
    /// # Errors
    /// A processor number above what the kernel's mask can hold.
    pub fn apply(self, command: &mut Command) -> io::Result<()> {
        let mask = self.processors.as_deref().map(cpu_mask).transpose()?;
        if self.own_group && !self.own_terminal {
            command.process_group(0);
        }
        let parent = std::process::id();
        let Inheritance { keep, own_terminal, die_with_parent, open_files, image, .. } = self;
        let before_exec = move || {
            for fd in &keep {
                set_close_on_exec(*fd, false)?;
            }
            if own_terminal {
                // SAFETY: setsid has no preconditions; the forked child leads no group.
                check(unsafe { libc::setsid() })?;
                // SAFETY: the request takes an integer; an input that is no terminal gives ENOTTY.
                check(unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) })?;
            }
            let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: sigemptyset fills the set, which sigprocmask reads; both live here.
            check(unsafe {
                libc::sigemptyset(none.as_mut_ptr());
                libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
            })?;
            if let Some(mask) = &mask {
                // SAFETY: the mask is a whole cpu_set_t that lives across the call; 0 names the
                // calling thread.
                check(unsafe { libc::sched_setaffinity(0, size_of_val(mask), mask) })?;
            }
            if let Some(soft) = open_files {
                lower_open_files(soft)?;
            }
            if die_with_parent {
                // SAFETY: prctl with this option takes one integer and touches no memory.
                check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
                // SAFETY: getppid has no preconditions.
                if unsafe { libc::getppid() } as u32 != parent {
                    // The parent died before the line above could see it.
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            // Nothing is left to be done between here and the program.
            image.as_ref().map_or(Ok(()), |image| Err(image.become_it()))
        };
        // SAFETY: the closure runs in the forked child and calls only fcntl, setsid, ioctl, sigemptyset,
        // sigprocmask, sched_setaffinity, getrlimit, setrlimit, prctl, getppid and execve, which are async-signal-safe
        // system calls; it allocates nothing (errors are made from raw numbers).
        unsafe { command.pre_exec(before_exec) };
        Ok(())
    }
}

/// An own, close-on-exec duplicate of a descriptor that this process inherited under the number
/// `fd`; the inherited one is marked close-on-exec too, so that this process's children do not
/// get it.
///
/// # Errors
/// The descriptor is not open (`EBADF`).
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_DUPFD_CLOEXEC reads no memory of ours; an fd that is not open gives EBADF.
    let own = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    set_close_on_exec(fd, true)?;
    // SAFETY: `own` was opened by the call above and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

/// Marks a descriptor to be closed, or kept, at the next exec.
///
/// # Errors
/// The errno of fcntl.
pub fn close_on_exec(fd: BorrowedFd<'_>, close: bool) -> io::Result<()> {
    set_close_on_exec(fd.as_raw_fd(), close)
}

fn set_close_on_exec(fd: RawFd, close: bool) -> io::Result<()> {
    // SAFETY: F_SETFD takes an integer and touches no memory; an fd that is not open gives EBADF.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, if close { libc::FD_CLOEXEC } else { 0 }) })?;
    Ok(())
}

fn lower_open_files(soft: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a whole rlimit that the call fills.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = soft.min(limit.rlim_max);
    // SAFETY: `limit` is a whole rlimit that the call reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(())
}

fn cpu_mask(processors: &[usize]) -> io::Result<libc::cpu_set_t> {
    // SAFETY: cpu_set_t is an array of integers, for which all zeros is the empty set.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in processors {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the number lies inside the set, as just checked.
        unsafe { libc::CPU_SET(cpu, &mut mask) };
    }
    Ok(mask)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
