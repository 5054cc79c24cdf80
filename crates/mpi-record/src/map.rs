//! The file behind the records and its mapping. One of the files with `unsafe`.

use crate::RecordError;
use crate::clock;
use crate::layout::{Layout, MAGIC, PAGE_WORDS, VERSION, file, head};
use crate::limits::TIMELINE_BIN_SHIFT;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Makes the file: its size sealed, the blocks of those ranks backed by memory, so that no access raises SIGBUS.
pub(crate) fn create(layout: &Layout, here: impl IntoIterator<Item = u32>) -> Result<OwnedFd, RecordError> {
    let bytes = layout.total() * WORD;
    let system = |what| move |error: std::io::Error| RecordError::System { what, bytes, error };
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create(c"mpi-record", flags).map_err(|e| system("creation")(e.into()))?;
    let all = File::from(fd);
    all.set_len(bytes as u64).map_err(system("sizing"))?;
    let reserve = |from: usize, words: usize| {
        let (from, length) = ((from * WORD) as i64, (words * WORD) as i64);
        let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(&all, keep, from, length).map_err(|e| system("reservation")(e.into()))
    };
    reserve(0, PAGE_WORDS)?;
    let here: Vec<usize> = here.into_iter().map(|rank| rank as usize).filter(|r| *r < layout.ranks).collect();
    here.iter().try_for_each(|rank| reserve(layout.start(*rank), layout.block()))?;
    let counter = clock::counter_is_good();
    clock::choose(counter);
    let mut words = [0; file::COUNT];
    words[file::MAGIC] = MAGIC;
    words[file::VERSION] = VERSION;
    words[file::RANKS] = layout.ranks as u64;
    words[file::EVENTS] = layout.events as u64;
    words[file::COUNTER] = counter.into();
    words[file::START_TICKS] = clock::ticks();
    words[file::START_NANOS] = clock::nanos();
    write(&all, 0, &words).map_err(system("header"))?;
    for rank in here {
        write(&all, layout.start(rank) + head::BIN_SHIFT, &[TIMELINE_BIN_SHIFT.into()])
            .map_err(system("header"))?;
    }
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&all, FcntlArg::F_ADD_SEALS(seals)).map_err(|e| system("sealing")(e.into()))?;
    Ok(OwnedFd::from(all))
}

fn write(all: &File, at: usize, words: &[u64]) -> std::io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    all.write_all_at(&bytes, (at * WORD) as u64)
}

/// Reads words from the file.
pub(crate) fn read(all: &File, at: usize, count: usize) -> std::io::Result<Vec<u64>> {
    let mut bytes = vec![0; count * WORD];
    all.read_exact_at(&mut bytes, (at * WORD) as u64)?;
    let word = |chunk: &[u8]| u64::from_ne_bytes(std::array::from_fn(|i| chunk[i]));
    Ok(bytes.chunks_exact(WORD).map(word).collect())
}

/// Reads and checks the first page.
pub(crate) fn check(all: &File) -> Result<(Layout, Vec<u64>), RecordError> {
    let system = |what| move |error| RecordError::System { what, bytes: 0, error };
    let size = all.metadata().map_err(system("size"))?.len();
    let foreign = |field, found| RecordError::Foreign { field, found };
    if size < (PAGE_WORDS * WORD) as u64 {
        return Err(foreign("size", size));
    }
    let words = read(all, 0, PAGE_WORDS).map_err(system("header"))?;
    if words[file::MAGIC] != MAGIC {
        return Err(foreign("magic", words[file::MAGIC]));
    }
    if words[file::VERSION] != VERSION {
        return Err(foreign("version", words[file::VERSION]));
    }
    let layout = Layout::of(&words).ok_or(foreign("number of ranks", words[file::RANKS]))?;
    if size != (layout.total() * WORD) as u64 {
        return Err(foreign("size", size));
    }
    // What may still shrink could end this process by SIGBUS.
    let seals = fcntl(all, FcntlArg::F_GET_SEALS).unwrap_or(0);
    if !SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK) {
        return Err(foreign("seals", seals as u64));
    }
    Ok((layout, words))
}

/// Maps the block of a rank, for the rest of the process.
pub(crate) fn map(all: &File, layout: &Layout, rank: usize) -> Result<&'static [AtomicU64], RecordError> {
    let bytes = layout.block() * WORD;
    let map = memmap2::MmapOptions::new()
        .offset((layout.start(rank) * WORD) as u64)
        .len(bytes)
        .map_raw(all)
        .map_err(|error| RecordError::System { what: "mapping", bytes, error })?;
    let start = map.as_mut_ptr().cast::<AtomicU64>();
    // Kept until the process ends: hooks may run on any thread until then.
    std::mem::forget(map);
    // SAFETY: a mapping of that many words, aligned to a page, never unmapped; all processes access
    // it by atomics only (the launcher by read, which the kernel makes safe), and every bit pattern
    // is a word.
    Ok(unsafe { std::slice::from_raw_parts(start, layout.block()) })
}

/// The processor's counter of ticks.
#[inline]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction, and it touches no memory.
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    clock::nanos()
}
