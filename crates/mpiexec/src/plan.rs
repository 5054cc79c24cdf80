//! Which rank runs what, where: decided before anything starts.

use crate::cli::UsageError;
use crate::error::LaunchError;
use crate::find;
use crate::hosts::launcher::shown;
use crate::hosts::{self, Host};
use crate::settings::{Job, StdinTo, What};
use crate::topology::Topology;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A program that can be started.
#[derive(Clone, Debug)]
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

/// A program as it is asked for: each host looks for it by itself.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Name or path.
    pub name: OsString,
    /// Directories to look through first.
    pub path: Option<String>,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its directory, where it is not the launcher's.
    pub wdir: Option<PathBuf>,
    /// Its variables.
    pub env: Vec<(String, String)>,
}

impl Wanted {
    /// Looks for it on this machine, which is called `host`; `search` is the list in PATH.
    ///
    /// # Errors
    /// [`LaunchError`] naming host and path.
    pub fn ready(&self, search: Option<&OsStr>, host: &str) -> Result<Ready, LaunchError> {
        if let Some(wdir) = &self.wdir {
            find::directory(wdir, host)?;
        }
        let executable = find::program(&self.name, self.path.as_deref(), search, self.wdir.as_deref(), host)?;
        Ok(self.as_if_at(executable))
    }

    /// As if it had been found there.
    pub fn as_if_at(&self, executable: PathBuf) -> Ready {
        Ready {
            executable,
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            wdir: self.wdir.clone(),
            env: self.env.clone(),
        }
    }
}

/// One rank of the plan.
#[derive(Clone, Debug)]
pub struct Place {
    /// Index of its program.
    pub program: usize,
    /// Index of its host.
    pub host: usize,
    /// Its place among the ranks of its world on that host.
    pub node_slot: usize,
    /// Processors of this machine that it is bound to.
    pub processors: Option<Vec<usize>>,
}

/// The whole job, ready to start.
#[derive(Debug)]
pub struct Plan {
    /// The programs; of one that no rank of this machine runs, the path is only its name.
    pub programs: Vec<Ready>,
    /// The programs for other hosts.
    pub wanted: Vec<Wanted>,
    /// The ranks, in order.
    pub ranks: Vec<Place>,
    /// The hosts: first those that have ranks, then those that spawned ones may go to.
    pub hosts: Vec<Host>,
    /// How many of them have ranks.
    pub used: usize,
    /// Name of this machine.
    pub host: String,
    /// Processors of this machine that the job may use.
    pub processors: Vec<usize>,
}

impl Plan {
    /// Places the ranks, builds what is to be built, finds the programs of this machine's ranks.
    ///
    /// # Errors
    /// [`LaunchError`]; nothing has been started then.
    pub fn new(job: &Job) -> Result<Plan, LaunchError> {
        let processors = match mpi_node::cpuset::allowed() {
            all if all.is_empty() => (0..mpi_node::cpuset::allowed_count()).collect(),
            some => some,
        };
        let host = mpi_pmi::host_name();
        let placement = hosts::placement(job, &host, processors.len())?;
        check_stdin(job, placement.ranks.len())?;
        check_shown(job, placement.ranks.len())?;
        let mut per_host = vec![0; placement.hosts.len()];
        let mut ranks: Vec<Place> = Vec::new();
        for (program, host) in placement.ranks {
            let Some(next) = per_host.get_mut(host) else { continue };
            ranks.push(Place { program, host, node_slot: *next, processors: None });
            *next += 1;
        }
        let wanted = job.programs.iter().map(|p| wanted(p, job.quiet)).collect::<Result<Vec<_>, _>>()?;
        let used = placement.hosts.len();
        let hosts = [placement.hosts, placement.spare].concat();
        let mut plan = Plan { programs: Vec::new(), wanted, ranks, hosts, used, host, processors };
        plan.check_interface(job)?;
        plan.check_directory()?;
        plan.lay_out(job);
        plan.find_programs()?;
        Ok(plan)
    }

    /// Ranks elsewhere begin in the launcher's directory: it must have a name.
    fn check_directory(&self) -> Result<(), LaunchError> {
        let named = |wanted: &Wanted| wanted.wdir.as_ref().is_some_and(|wdir| wdir.is_absolute());
        if self.other_hosts().is_empty() || self.wanted.iter().all(named) {
            return Ok(());
        }
        std::env::current_dir().map(drop).map_err(|e| LaunchError::Directory {
            path: PathBuf::from("."),
            host: self.host.clone(),
            detail: format!("{e}; other hosts need its name (-wdir gives them another one)"),
        })
    }

    /// An interface must be there, where all ranks are on this machine; of others their hosts know.
    fn check_interface(&self, job: &Job) -> Result<(), UsageError> {
        let Some((name, said)) = &job.iface else { return Ok(()) };
        let Ok(all) = mpi_node::addresses::interfaces() else { return Ok(()) };
        let names = mpi_node::addresses::names(&all);
        if names.contains(name) || !self.other_hosts().is_empty() {
            return Ok(());
        }
        let there = names.join(", ");
        Err(UsageError::new(format!("{said}: {} has no such interface; there are: {there}", self.host)))
    }

    /// Gives the ranks of this machine their processors.
    fn lay_out(&mut self, job: &Job) {
        let here = self.hosts.iter().position(|host| host.here);
        let own: Vec<&mut Place> = self.ranks.iter_mut().filter(|place| Some(place.host) == here).collect();
        let layout = Topology::read(&self.processors).layout(own.len(), job.map_by, job.bind_to);
        own.into_iter().zip(layout).for_each(|(place, processors)| place.processors = processors);
    }

    fn find_programs(&mut self) -> Result<(), LaunchError> {
        let search = std::env::var_os("PATH");
        for (at, wanted) in self.wanted.iter().enumerate() {
            let runs_here = self.ranks.iter().any(|place| place.program == at && self.is_here(place.host));
            self.programs.push(match runs_here {
                true => wanted.ready(search.as_deref(), &self.host)?,
                false => wanted.as_if_at(PathBuf::from(&wanted.name)),
            });
        }
        Ok(())
    }

    /// The hosts that have ranks.
    pub fn hosts_used(&self) -> &[Host] {
        self.hosts.get(..self.used).unwrap_or_default()
    }

    /// The host is this machine.
    pub fn is_here(&self, host: usize) -> bool {
        self.hosts.get(host).is_some_and(|host| host.here)
    }

    /// What a host is called.
    pub fn host_name(&self, host: usize) -> &str {
        self.hosts.get(host).map_or(self.host.as_str(), |host| host.name.as_str())
    }

    /// The ranks of a host, in order.
    pub fn ranks_of(&self, host: usize) -> impl Iterator<Item = (usize, &Place)> {
        self.ranks.iter().enumerate().filter(move |(_, place)| place.host == host)
    }

    /// The line for more ranks than processors on this machine, where there are.
    pub fn oversubscription(&self) -> Option<String> {
        let here = self.hosts.iter().position(|host| host.here)?;
        let (ranks, processors) = (self.ranks_of(here).count(), self.processors.len());
        (ranks > processors).then(|| oversubscription(ranks, processors, &self.host))
    }

    /// Processors that the ranks of this machine may use together.
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
            let _ = write!(out, "rank {rank}: {}", self.host_name(place.host));
            if self.is_here(place.host) {
                let processors = place.processors.as_ref().unwrap_or(&self.processors);
                let _ = write!(out, ", processors {}", ranges(processors));
            }
            out.push_str(": ");
            let Some(program) = self.programs.get(place.program) else { continue };
            for (name, value) in &program.env {
                let _ = write!(out, "{name}={} ", shown(value.as_ref()));
            }
            let _ = write!(out, "{}", shown(program.executable.as_os_str()));
            for argument in &program.arguments {
                let _ = write!(out, " {}", shown(argument));
            }
            if let Some(wdir) = &program.wdir {
                let _ = write!(out, " (in {})", wdir.display());
            }
            out.push('\n');
        }
        out
    }

    /// The hosts, other than this machine, that have ranks.
    pub fn other_hosts(&self) -> Vec<&Host> {
        let other = |at: &usize| !self.is_here(*at) && self.ranks_of(*at).next().is_some();
        (0..self.hosts.len()).filter(other).filter_map(|at| self.hosts.get(at)).collect()
    }

    /// The commands that would start the daemons of other hosts, for `--dry-run`.
    pub fn commands(&self, job: &Job) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("mpiexec"));
        let copy = job.copy_self.then(|| std::fs::metadata(&own).map_or(0, |file| file.len()));
        for host in self.other_hosts() {
            let words = job.launcher.command(host, &own, copy);
            let words: Vec<String> = words.iter().map(|word| shown(OsStr::from_bytes(word))).collect();
            let _ = writeln!(out, "host {}: {}", host.name, words.join(" "));
        }
        out
    }

    /// The map as JSON: an array with an object per rank. `known` gives processors and process id of
    /// a rank that runs.
    pub fn json(&self, known: impl Fn(usize) -> (Option<Vec<usize>>, Option<u32>)) -> String {
        let one = |(rank, place): (usize, &Place)| {
            let (processors, pid) = known(rank);
            let program = self.programs.get(place.program);
            serde_json::json!({
                "rank": rank,
                "host": self.host_name(place.host),
                "processors": processors,
                "pid": pid,
                "program": program.map(|p| p.name.to_string_lossy()),
            })
        };
        let all: Vec<serde_json::Value> = self.ranks.iter().enumerate().map(one).collect();
        serde_json::Value::Array(all).to_string()
    }

    /// Processors of a rank that has not started: known of this machine.
    pub fn processors_of(&self, rank: usize) -> Option<Vec<usize>> {
        let place = self.ranks.get(rank).filter(|place| self.is_here(place.host))?;
        Some(place.processors.clone().unwrap_or_else(|| self.processors.clone()))
    }
}

/// The line for more ranks than processors.
pub fn oversubscription(ranks: usize, processors: usize, host: &str) -> String {
    format!(
        "{ranks} ranks share {processors} {} of {host} (--oversubscribe: say nothing; \
         --no-oversubscribe: refuse)",
        if processors == 1 { "processor" } else { "processors" },
    )
}

fn check_stdin(job: &Job, size: usize) -> Result<(), UsageError> {
    match job.stdin {
        StdinTo::Rank(rank) if rank >= size => {
            Err(UsageError::new(format!("{}: the job has {}", job.stdin_said, ranks_there(size))))
        }
        _ => Ok(()),
    }
}

fn check_shown(job: &Job, size: usize) -> Result<(), UsageError> {
    match &job.output_from {
        Some(ranks) if ranks.iter().any(|rank| *rank >= size) => {
            Err(UsageError::new(format!("{}: the job has {}", job.output_from_said, ranks_there(size))))
        }
        _ => Ok(()),
    }
}

fn ranks_there(size: usize) -> String {
    if size == 1 { String::from("rank 0 only") } else { format!("ranks 0 to {}", size - 1) }
}

fn wanted(program: &crate::settings::Program, quiet: bool) -> Result<Wanted, LaunchError> {
    let name = match &program.what {
        What::Named(name) => name.clone(),
        What::Cargo(target) => crate::cargo::build(target, quiet)?.into_os_string(),
    };
    Ok(Wanted {
        name,
        path: program.path.clone(),
        arguments: program.arguments.clone(),
        wdir: program.wdir.as_deref().map(Path::to_path_buf),
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

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_shown_as_ranges() {
        assert_eq!(super::ranges(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
        assert_eq!(super::ranges(&[]), "");
    }
}
