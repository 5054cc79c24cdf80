//! Memory that one process makes and others of the machine map, by a handle of plain numbers.
//!
//! An anonymous file: it has no name, so nothing is left behind, and its memory is reserved when it is made, so
//! no access raises SIGBUS. Another process opens it through the maker's descriptor table in `/proc`, which
//! the kernel allows to the same user without any right to trace; a random cookie in front tells a
//! stranger's file from the right one. The maker closes its descriptor once everybody has it.

use crate::cross_copy::random_words;
use crate::faults;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Mutex;

/// How another process finds a block: its maker, the descriptor there, size and cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Handle {
    /// Process that made it.
    pub pid: u32,
    /// Its descriptor.
    pub descriptor: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// What stands in the first word.
    pub cookie: u64,
}

/// A mapped block. Zeroed but for the cookie in its first word.
#[derive(Debug)]
pub struct Block {
    map: memmap2::MmapRaw,
    /// While others may still want to open it.
    file: Mutex<Option<File>>,
    handle: Handle,
}

/// Bytes at the start that hold the cookie.
pub const COOKIE_BYTES: usize = 8;

impl Block {
    /// Makes a block that others can open.
    ///
    /// # Errors
    /// The kernel's: no descriptor left, no memory.
    pub fn create(bytes: usize) -> io::Result<Block> {
        let bytes = bytes.max(COOKIE_BYTES);
        faults::memory()?;
        faults::descriptor()?;
        // Such a file has no limit of its own: the kernel would hand out page after page until it has none left.
        if available_bytes().is_some_and(|left| bytes as u64 > left) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        // SAFETY: the name is a terminated string.
        let raw = unsafe { libc::memfd_create(c"mpi-window".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let file = unsafe { File::from_raw_fd(raw) };
        file.set_len(bytes as u64)?;
        crate::segment::reserve(&file, 0, bytes)?;
        let cookie = random_words()[0];
        std::os::unix::fs::FileExt::write_all_at(&file, &cookie.to_ne_bytes(), 0)?;
        let handle = Handle { pid: std::process::id(), descriptor: raw as u32, bytes: bytes as u64, cookie };
        Block::map(file, handle)
    }

    /// Memory of this process alone, for where nobody shares.
    ///
    /// # Errors
    /// The kernel's: no memory.
    pub fn private(bytes: usize) -> io::Result<Block> {
        let map = memmap2::MmapOptions::new().len(bytes.max(COOKIE_BYTES)).map_anon()?;
        let handle = Handle { bytes: map.len() as u64, ..Handle::default() };
        Ok(Block { map: map.into(), file: Mutex::new(None), handle })
    }

    /// Maps the block of another process.
    ///
    /// # Errors
    /// The kernel's, where it may not be opened; `InvalidData` when it is not the block meant.
    pub fn open(handle: Handle) -> io::Result<Block> {
        faults::descriptor()?;
        let path = format!("/proc/{}/fd/{}", handle.pid, handle.descriptor);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the descriptor is of something else");
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() != handle.bytes || handle.bytes < COOKIE_BYTES as u64 {
            return Err(wrong());
        }
        let mut cookie = [0; COOKIE_BYTES];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut cookie, 0)?;
        if u64::from_ne_bytes(cookie) != handle.cookie {
            return Err(wrong());
        }
        let block = Block::map(file, handle)?;
        block.close();
        Ok(block)
    }

    fn map(file: File, handle: Handle) -> io::Result<Block> {
        let bytes = usize::try_from(handle.bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = memmap2::MmapOptions::new().len(bytes).map_raw(file.as_raw_fd())?;
        Ok(Block { map, file: Mutex::new(Some(file)), handle })
    }

    /// Everybody has opened it: the descriptor is not needed any more.
    pub fn close(&self) {
        *self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// How others find it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Its first byte. Valid for [`len`](Block::len) bytes as long as the block lives.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Its size in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// True when a process has ended. Asks the kernel.
pub fn process_has_ended(pid: u32) -> bool {
    crate::segment::process_ended(pid)
}

/// Bytes of memory that the machine can still give, as the kernel estimates them; `None` where it does not say.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mapping_sees_the_same_bytes_and_strangers_are_refused() {
        let made = Block::create(10_000).expect("memory");
        let opened = Block::open(made.handle()).expect("own descriptor");
        // SAFETY: inside both mappings, which live.
        unsafe {
            made.start().add(9_999).write(7);
            assert_eq!(opened.start().add(9_999).read(), 7);
        }
        let wrong = Handle { cookie: made.handle().cookie ^ 1, ..made.handle() };
        assert_eq!(Block::open(wrong).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let wrong = Handle { bytes: 9_999, ..made.handle() };
        assert!(Block::open(wrong).is_err());
        let handle = made.handle();
        made.close();
        assert!(Block::open(handle).is_err(), "closed");
    }
}
