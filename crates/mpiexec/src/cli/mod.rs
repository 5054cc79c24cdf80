//! The command line: [`parse`](parse::parse) gives words to options, [`configfile`] does so for
//! files, [`settings`](crate::settings) gives them meaning.

pub mod configfile;
pub mod help;
pub mod parse;
pub mod table;

use std::ffi::OsString;
use table::Opt;

/// One option of the command line.
#[derive(Clone, Debug)]
pub struct Given {
    /// Which.
    pub opt: &'static Opt,
    /// Its value, `true` for a flag.
    pub value: String,
    /// As it was written, without the value: `-np`, `--timeout`; out of a file, behind its place.
    pub spelled: String,
    /// Which of the words it was.
    pub at: usize,
}

/// The command line, a setting or the placement makes no sense: exit status 2, nothing started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// With the option (or file, line and column) and the reason.
    pub fn new(message: impl Into<String>) -> UsageError {
        UsageError(message.into())
    }
}

/// The text of a file of settings, which is called `name`.
///
/// # Errors
/// The first byte that is no UTF-8, with its line and column.
pub fn utf8(name: &str, bytes: Vec<u8>) -> Result<String, UsageError> {
    String::from_utf8(bytes).map_err(|e| {
        let good = e.as_bytes().get(..e.utf8_error().valid_up_to()).unwrap_or_default();
        let byte = e.as_bytes().get(good.len()).copied().unwrap_or_default();
        let good = String::from_utf8_lossy(good);
        let line = good.matches('\n').count() + 1;
        let column = good.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        UsageError::new(format!("{name}:{line}:{column}: the byte 0x{byte:02x} is not UTF-8"))
    })
}

/// The command line, read.
#[derive(Debug, Default)]
pub struct Words {
    /// Options for the whole job, in order.
    pub job: Vec<Given>,
    /// The programs, at least one section.
    pub sections: Vec<Section>,
}

/// What stands between two `:`.
#[derive(Debug, Default)]
pub struct Section {
    /// Options for this program, in order.
    pub options: Vec<Given>,
    /// Program and arguments; with a Cargo target, arguments only.
    pub words: Vec<OsString>,
    /// File, line and column, where it stands in a file.
    pub place: Option<String>,
}
