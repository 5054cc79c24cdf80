//! A progress bar on the standard error stream.

use std::io::Write;

const WIDTH: usize = 30;

pub struct Progress {
    steps: usize,
    shown: usize,
}

impl Progress {
    pub fn new(steps: usize) -> Progress {
        Progress { steps, shown: usize::MAX }
    }

    /// Redraws the line when another percent is done.
    pub fn show(&mut self, step: usize, residual: f64) {
        let percent = step * 100 / self.steps;
        if percent == self.shown {
            return;
        }
        self.shown = percent;
        let done = WIDTH * step / self.steps;
        let bar = format!("{}{}", "#".repeat(done), "-".repeat(WIDTH - done));
        // A terminal that has gone away is no reason to stop computing.
        let _ = write!(std::io::stderr(), "\r[{bar}] {percent:3} %  last change {residual:.2e}");
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = writeln!(std::io::stderr());
    }
}
