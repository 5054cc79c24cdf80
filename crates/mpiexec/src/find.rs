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
