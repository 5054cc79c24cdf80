//! Which rank runs what, where: decided before anything starts.

use crate::cli::UsageError;
use crate::error::LaunchError;
use crate::find;
use crate::settings::{Job, Oversubscribe, StdinTo, What};
use std::ffi::OsString;
use std::path::PathBuf;

/// A program that can be started.
#[derive(Debug)]
pub struct Ready {
    /// Absolute path of the executable.
    pub executable: PathBuf,
    /// What it is told to be called (argument 0).
    pub name: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its directory.
    pub wdir: Option<PathBuf>,
    /// Its variables.
    pub env: Vec<(String, String)>,
}

/// One rank of the plan.
#[derive(Debug)]
pub struct Place {
    /// Index of its program.
    pub program: usize,
    /// Processors that it is bound to.
    pub processors: Option<Vec<usize>>,
}

/// The whole job, ready to start.
#[derive(Debug)]
pub struct Plan {
    /// The programs.
    pub programs: Vec<Ready>,
    /// The ranks, in order.
    pub ranks: Vec<Place>,
    /// Name of this host.
    pub host: String,
    /// Processors that the job may use.
    pub processors: Vec<usize>,
}

impl Plan {
    /// Finds the programs, builds what is to be built, places the ranks.
    ///
    /// # Errors
    /// [`LaunchError`]; nothing has been started then.
    pub fn new(job: &Job) -> Result<Plan, LaunchError> {
        let processors = match mpi_node::cpuset::allowed() {
            all if all.is_empty() => (0..mpi_node::cpuset::allowed_count()).collect(),
            some => some,
        };
        let host = mpi_pmi::host_name();
        let counts: Vec<usize> = job.programs.iter().map(|p| p.count.unwrap_or(processors.len())).collect();
        let size: usize = counts.iter().sum();
        check_size(job, size, &host, processors.len())?;
        let programs =
            job.programs.iter().map(|p| ready(p, &host, job.quiet)).collect::<Result<Vec<_>, _>>()?;
        let ranks = counts
            .iter()
            .enumerate()
            .flat_map(|(program, count)| std::iter::repeat_n(program, *count))
            .enumerate()
            .map(|(rank, program)| Place {
                program,
                processors: job
                    .bind_to_core
                    .then(|| processors.get(rank % processors.len()).copied().into_iter().collect()),
            })
            .collect();
        Ok(Plan { programs, ranks, host, processors })
    }

    /// The line for more ranks than processors, where there are.
    pub fn oversubscription(&self) -> Option<String> {
        let (ranks, processors) = (self.ranks.len(), self.processors.len());
        (ranks > processors).then(|| {
            format!(
                "{ranks} ranks share {processors} {} of {} (--oversubscribe: say nothing; \
                 --no-oversubscribe: refuse)",
                if processors == 1 { "processor" } else { "processors" },
                self.host
            )
        })
    }

    /// Processors that the ranks may use together.
    pub fn processors_used(&self) -> usize {
        let bound = self.ranks.iter().filter_map(|place| place.processors.as_ref());
        let used: std::collections::BTreeSet<usize> = bound.flatten().copied().collect();
        if used.is_empty() { self.processors.len() } else { used.len() }
    }

    /// What would be started, for `--dry-run`.
    pub fn describe(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for (rank, place) in self.ranks.iter().enumerate() {
            let processors = place.processors.as_ref().unwrap_or(&self.processors);
            let _ = write!(out, "rank {rank}: {}, processors {}: ", self.host, ranges(processors));
            let Some(program) = self.programs.get(place.program) else { continue };
            for (name, value) in &program.env {
                let _ = write!(out, "{name}={} ", quoted(value.as_ref()));
            }
            let _ = write!(out, "{}", quoted(program.executable.as_os_str()));
            for argument in &program.arguments {
                let _ = write!(out, " {}", quoted(argument));
            }
            if let Some(wdir) = &program.wdir {
                let _ = write!(out, " (in {})", wdir.display());
            }
            out.push('\n');
        }
        out
    }
}

fn check_size(job: &Job, size: usize, host: &str, processors: usize) -> Result<(), LaunchError> {
    if size > crate::limits::RANKS_MAX {
        let message = format!("{size} ranks on {host}: at most {}", crate::limits::RANKS_MAX);
        return Err(UsageError::new(message).into());
    }
    if job.oversubscribe == Oversubscribe::Refuse && size > processors {
        let message = format!(
            "--no-oversubscribe: {host} has {processors} processors for this job, which needs {size}"
        );
        return Err(UsageError::new(message).into());
    }
    match job.stdin {
        StdinTo::Rank(rank) if rank >= size => {
            let message = format!("-stdin {rank}: the job has ranks 0 to {}", size - 1);
            Err(UsageError::new(message).into())
        }
        _ => Ok(()),
    }
}

fn ready(program: &crate::settings::Program, host: &str, quiet: bool) -> Result<Ready, LaunchError> {
    if let Some(wdir) = &program.wdir {
        find::directory(wdir, host)?;
    }
    let (executable, name) = match &program.what {
        What::Named(name) => {
            let executable = find::program(name, program.path.as_deref(), program.wdir.as_deref(), host)?;
            (executable, name.clone())
        }
        What::Cargo(target) => {
            let executable = crate::cargo::build(target, quiet)?;
            let name = executable.clone().into_os_string();
            (executable, name)
        }
    };
    Ok(Ready {
        executable,
        name,
        arguments: program.arguments.clone(),
        wdir: program.wdir.clone(),
        env: program.env.clone(),
    })
}

/// `0-3,8` for 0, 1, 2, 3, 8.
pub fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let show = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

/// A word as a shell reads it.
fn quoted(word: &std::ffi::OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_shown_as_ranges() {
        assert_eq!(super::ranges(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
        assert_eq!(super::ranges(&[]), "");
    }

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        assert_eq!(super::quoted("a/b".as_ref()), "a/b");
        assert_eq!(super::quoted("it's".as_ref()), r"'it'\''s'");
        assert_eq!(super::quoted("".as_ref()), "''");
    }
}
