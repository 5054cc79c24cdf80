//! The command line: [`parse`](parse::parse) gives words to options, [`configfile`] does so for
//! files, [`settings`](crate::settings) gives them meaning.

pub mod configfile;
pub mod help;
pub mod parse;
pub mod table;

use std::ffi::OsString;
use table::Opt;

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

/// The command line, read.
#[derive(Debug, Default)]
pub struct Words {
    /// Options for the whole job, in order.
    pub job: Vec<(&'static Opt, String)>,
    /// The programs, at least one section.
    pub sections: Vec<Section>,
}

/// What stands between two `:`.
#[derive(Debug, Default)]
pub struct Section {
    /// Options for this program, in order.
    pub options: Vec<(&'static Opt, String)>,
    /// Program and arguments; with a Cargo target, arguments only.
    pub words: Vec<OsString>,
}
