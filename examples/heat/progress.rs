//! Progress on the standard error stream: a bar where that is a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};

const WIDTH: usize = 30;
/// Set to 1 by the launcher where the ranks' standard error ends in a terminal: what a rank writes to is a pipe.
const TERMINAL_VARIABLE: &str = "MPI_STDERR_TERMINAL";
/// Between two lines.
const PERCENT_PER_LINE: usize = 20;

pub struct Progress {
    steps: usize,
    shown: usize,
    bar: bool,
}

impl Progress {
    pub fn new(steps: usize) -> Progress {
        let through_launcher = std::env::var(TERMINAL_VARIABLE).is_ok_and(|value| value == "1");
        Progress { steps, shown: 0, bar: through_launcher || std::io::stderr().is_terminal() }
    }

    /// Shows when another percent is done; on lines, another fifth.
    pub fn show(&mut self, step: usize, residual: f64) {
        let percent = step * 100 / self.steps;
        if percent < self.shown + if self.bar { 1 } else { PERCENT_PER_LINE } {
            return;
        }
        self.shown = percent;
        if !self.bar {
            let _ = writeln!(std::io::stderr(), "heat: {percent} %, last change {residual:.2e}");
            return;
        }
        let done = WIDTH * step / self.steps;
        let bar = format!("{}{}", "#".repeat(done), "-".repeat(WIDTH - done));
        // A terminal that has gone away is no reason to stop computing.
        let _ = write!(std::io::stderr(), "\r[{bar}] {percent:3} %  last change {residual:.2e}");
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.bar {
            let _ = writeln!(std::io::stderr());
        }
    }
}
