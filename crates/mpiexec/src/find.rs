//! Looks for programs and directories as the shell would, and says what it found instead.

use crate::error::LaunchError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Finds the executable that `name` means: a path, or a name to look up in `path` (a list as in
/// PATH), then `search`, which is PATH. A relative path is looked for here, then in the ranks' directory.
///
/// # Errors
/// [`LaunchError::NotFound`], [`LaunchError::NotExecutable`].
pub fn program(
    name: &OsStr,
    path: Option<&str>,
    search: Option<&OsStr>,
    wdir: Option<&Path>,
    host: &str,
) -> Result<PathBuf, LaunchError> {
    let here = std::env::current_dir().unwrap_or_default();
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        [Some(here.join(name)), wdir.map(|wdir| here.join(wdir).join(name))].into_iter().flatten().collect()
    } else {
        let listed = path.into_iter().flat_map(std::env::split_paths);
        listed
            .chain(std::env::split_paths(search.unwrap_or_default()))
            .map(|dir| here.join(dir).join(name))
            .collect()
    };
    let mut unusable = None;
    for candidate in &candidates {
        match usable(candidate) {
            Ok(true) => return Ok(candidate.clone()),
            Ok(false) => {}
            Err(detail) => {
                unusable.get_or_insert((candidate, detail));
            }
        }
    }
    if let Some((path, detail)) = unusable {
        return Err(LaunchError::NotExecutable { path: path.clone(), host: host.to_owned(), detail });
    }
    Err(LaunchError::NotFound {
        program: name.to_string_lossy().into_owned(),
        host: host.to_owned(),
        detail: not_found(name, &candidates, &here),
    })
}

/// True: can be run. False: is not there. An error: is there and cannot be run.
fn usable(path: &Path) -> Result<bool, String> {
    match std::fs::metadata(path) {
        Err(e) if matches!(e.raw_os_error(), Some(2 | 20)) => Ok(false),
        Err(e) => Err(e.to_string()),
        Ok(meta) if meta.is_dir() => Err(String::from("it is a directory")),
        Ok(_) => match nix::unistd::access(path, nix::unistd::AccessFlags::X_OK) {
            Ok(()) => Ok(true),
            Err(e) => Err(format!("{} (chmod +x makes it executable)", e.desc())),
        },
    }
}

fn not_found(name: &OsStr, candidates: &[PathBuf], here: &Path) -> String {
    if name.as_bytes().contains(&b'/') {
        let mut tried: Vec<_> = candidates.iter().map(|c| c.display().to_string()).collect();
        tried.dedup();
        // An absolute path has been named already.
        return match tried.as_slice() {
            [one] if Path::new(one) == Path::new(name) => String::from("there is no such file"),
            several => format!("there is no file {}", several.join(", nor ")),
        };
    }
    if here.join(name).exists() {
        return format!("not in PATH; it is in this directory: write ./{}", name.to_string_lossy());
    }
    format!("looked in the {} directories of PATH (and -path)", candidates.len())
}

/// Bytes at the beginning of a file by which is told what it is.
const HEAD_BYTES: u64 = 256;

/// The processor that a file is a program for, if it is one.
fn processor_of(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)).ok()?;
    head.strip_prefix(b"\x7fELF").map(processor)
}

/// What an ELF header is for; `rest` is what follows the magic number (System V ABI, ELF header).
fn processor(rest: &[u8]) -> String {
    let (Some([class, order]), Some(machine)) = (rest.get(..2), rest.get(14..16)) else {
        return String::from("a header that ends too early");
    };
    let machine = <[u8; 2]>::try_from(machine).unwrap_or_default();
    let machine = if *order == 2 { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
    let name = match machine {
        3 => "x86",
        8 => "mips",
        20 => "powerpc",
        21 => "powerpc64",
        22 => "s390x",
        40 => "arm",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv",
        258 => "loongarch",
        other => return format!("machine number {other}"),
    };
    let bits = if *class == 1 { "32" } else { "64" };
    format!("{name}, {bits} bits")
}

/// Why the kernel does not run a file that it says it does not know.
pub fn why_unknown(path: &Path) -> String {
    let own = std::env::consts::ARCH;
    match processor_of(path) {
        Some(machine) if machine.split(',').next() == Some(own) => String::from(
            "the kernel refuses it, although it is for this processor: it is damaged, or cut off",
        ),
        Some(other) => format!("it is a program for {other}; this machine is {own}"),
        None => String::from("it is neither a program of this machine nor a script"),
    }
}

/// Checks a working directory before anything starts.
///
/// # Errors
/// [`LaunchError::Directory`].
pub fn directory(path: &Path, host: &str) -> Result<(), LaunchError> {
    let detail = match std::fs::metadata(path) {
        Err(e) => e.to_string(),
        Ok(meta) if !meta.is_dir() => String::from("not a directory"),
        Ok(_) => match nix::unistd::access(path, nix::unistd::AccessFlags::X_OK) {
            Ok(()) => return Ok(()),
            Err(e) => e.desc().to_owned(),
        },
    };
    Err(LaunchError::Directory { path: path.to_owned(), host: host.to_owned(), detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_by_their_headers() {
        let header = |class: u8, order: u8, machine: [u8; 2]| {
            processor(&[&[class, order, 1, 0], &[0; 8][..], &[2, 0], &machine, &[0; 40]].concat())
        };
        assert_eq!(processor(b"\x02\x01"), "a header that ends too early");
        assert_eq!(header(2, 1, [183, 0]), "aarch64, 64 bits");
        assert_eq!(header(2, 2, [0, 22]), "s390x, 64 bits");
        assert_eq!(header(1, 1, [3, 0]), "x86, 32 bits");
        assert_eq!(header(1, 1, [0xEF, 0xBE]), "machine number 48879");
        assert_eq!(processor_of(Path::new("/nonexistent")), None);
    }
}
