//! What a forked child becomes: a program, called as the kernel calls it.
//!
//! The C library runs what the kernel refuses as a script of the shell, whatever it is: a program of another architecture
//! ends in pages of errors, and may write files. Here only a text is given to the shell.
//!
//! One of the files with `unsafe`: the pointers of an argument list.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// So much of a file is looked at to tell a text from a program.
const LOOK_BYTES: usize = 256;
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// A program with its arguments and its environment.
#[derive(Debug)]
pub struct Image {
    path: CString,
    arguments: List,
    environment: List,
    /// The shell's arguments, where the file is a text.
    script: Option<List>,
}

impl Image {
    /// `path` called as `arguments`, of which the first is the name, in `environment`.
    ///
    /// # Errors
    /// A byte 0 in any of them.
    pub fn new<'a>(
        path: &Path,
        arguments: impl Iterator<Item = &'a OsStr>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> io::Result<Image> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let arguments: Vec<CString> =
            arguments.map(|a| CString::new(a.as_bytes())).collect::<Result<_, _>>()?;
        let environment = environment
            .map(|(name, value)| {
                let mut pair = name.into_vec();
                pair.push(b'=');
                pair.extend_from_slice(value.as_bytes());
                CString::new(pair)
            })
            .collect::<Result<_, _>>()?;
        let script = is_text(&path).then(|| {
            let rest = arguments.iter().skip(1).cloned();
            List::new([c"sh".to_owned(), path.clone()].into_iter().chain(rest).collect())
        });
        Ok(Image { path, arguments: List::new(arguments), environment: List::new(environment), script })
    }

    /// Becomes the program; returns only when that is refused. Async-signal-safe: it allocates nothing.
    pub(crate) fn become_it(&self) -> io::Error {
        // SAFETY: each is an array of pointers to strings that live in `self`, with a null pointer at its end.
        unsafe { libc::execve(self.path.as_ptr(), self.arguments.pointers(), self.environment.pointers()) };
        let refused = io::Error::last_os_error();
        if refused.raw_os_error() == Some(libc::ENOEXEC) {
            if let Some(script) = &self.script {
                // SAFETY: as above.
                unsafe { libc::execve(SHELL.as_ptr(), script.pointers(), self.environment.pointers()) };
            }
        }
        refused
    }
}

/// Strings, and the array of pointers that the kernel wants of them.
#[derive(Debug)]
struct List {
    _strings: Vec<CString>,
    /// Addresses of the strings' bytes, which do not move when the vector does, and 0.
    addresses: Vec<usize>,
}

impl List {
    fn new(strings: Vec<CString>) -> List {
        let addresses = strings.iter().map(|s| s.as_ptr().expose_provenance()).chain([0]).collect();
        List { _strings: strings, addresses }
    }

    fn pointers(&self) -> *const *const libc::c_char {
        self.addresses.as_ptr().cast()
    }
}

/// A file that a shell may be given: it begins neither as a program of some kernel does nor with bytes 0.
fn is_text(path: &CString) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = std::fs::File::open(OsStr::from_bytes(path.as_bytes()))
        .and_then(|file| file.take(LOOK_BYTES as u64).read_to_end(&mut start));
    read.is_ok() && !start.starts_with(b"\x7fELF") && !start.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_from_a_program() {
        let dir = std::env::temp_dir().join(format!("mpi-node-image-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (content, text) in [
            (&b"echo hello\n"[..], true),
            (b"", true),
            (b"\x7fELF\x02\x01\x01", false),
            (b"MZ\x00\x01", false),
            ("größer\n".as_bytes(), true),
        ] {
            let path = dir.join("file");
            std::fs::write(&path, content).unwrap();
            assert_eq!(is_text(&CString::new(path.as_os_str().as_bytes()).unwrap()), text, "{content:?}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(!is_text(&c"/nonexistent".to_owned()));
    }

    #[test]
    fn a_byte_that_ends_a_string_is_refused() {
        let odd = OsString::from_vec(b"a\0b".to_vec());
        assert!(
            Image::new(Path::new("/bin/true"), [odd.as_os_str()].into_iter(), std::iter::empty()).is_err()
        );
        let pair = (OsString::from("NAME"), odd);
        assert!(Image::new(Path::new("/bin/true"), std::iter::empty(), [pair].into_iter()).is_err());
    }
}
