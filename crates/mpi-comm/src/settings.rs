//! What the environment variables of a rank mean; their names, forms and defaults are
//! [`mpi_pmi::settings`].

use crate::errhandler::ErrorHandler;
use crate::limits::FINALIZE_REPORT_AFTER;
pub use mpi_pmi::settings::*;
use std::time::Duration;

/// A variable of the environment, if it is set and valid UTF-8.
pub fn lookup(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The time blocked after which a rank reports; `None` for never.
pub fn blocked_report_after(lookup: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let time = seconds(lookup, BLOCKED_REPORT_SECONDS).unwrap_or(Duration::from_secs(30));
    (!time.is_zero()).then_some(time)
}

/// The time after which a finalize that cannot complete says what it waits for.
pub fn finalize_report_after(lookup: impl Fn(&str) -> Option<String>) -> Duration {
    seconds(lookup, FINALIZE_REPORT_SECONDS).unwrap_or(FINALIZE_REPORT_AFTER)
}

/// Whether peers may fail while the job goes on.
pub fn recovery(lookup: impl Fn(&str) -> Option<String>) -> bool {
    lookup(RECOVERY).is_some_and(|value| value.trim() == "1")
}

/// The error handler that the predefined communicators start with.
pub fn initial_handler(lookup: impl Fn(&str) -> Option<String>) -> ErrorHandler {
    match lookup(INITIAL_ERRHANDLER).as_deref().map(str::trim) {
        Some("mpi_errors_abort") => ErrorHandler::Abort,
        Some("mpi_errors_return") => ErrorHandler::Return,
        _ => ErrorHandler::Fatal,
    }
}

fn seconds(lookup: impl Fn(&str) -> Option<String>, name: &str) -> Option<Duration> {
    lookup(name)?.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_handler_is_the_one_named() {
        let with = |value: &'static str| format!("{:?}", initial_handler(move |_| Some(value.to_owned())));
        assert_eq!(HANDLERS.map(with), ["Fatal", "Abort", "Return"]);
        assert!(matches!(initial_handler(|_| None), ErrorHandler::Fatal));
    }

    #[test]
    fn zero_seconds_means_never() {
        let with = |value: &'static str| blocked_report_after(move |_| Some(value.to_owned()));
        assert_eq!(with("0"), None);
        assert_eq!(with("2.5"), Some(Duration::from_millis(2500)));
        assert_eq!(blocked_report_after(|_| None), Some(Duration::from_secs(30)));
    }
}
