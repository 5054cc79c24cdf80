//! What the job shows of itself: the loop's side of [`crate::report`].

use super::end::End;
use super::{RankPhase, Running};
use crate::plan::ranges;
use crate::report::Fate;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

impl Running<'_> {
    /// Memory for the records of one more world, if any are wanted.
    pub(super) fn records(&mut self, first: usize, size: usize) -> Option<OwnedFd> {
        let mut remarks = Vec::new();
        let records = self.reports.world(first, size, 0..size as u32, &mut remarks);
        remarks.iter().for_each(|line| self.streams.message(&format!("mpiexec: {line}")));
        records
    }

    /// Shows what is to be shown while the job runs.
    pub(super) fn show(&mut self, now: Instant) {
        if self.reports.deadline().is_none_or(|at| now < at) {
            return;
        }
        let written = self.streams.pieces();
        let names: Vec<String> = (0..self.ranks.len()).map(|slot| self.called(slot)).collect();
        let name = |slot: usize| names.get(slot).cloned().unwrap_or_else(|| format!("rank {slot}"));
        for line in self.reports.tick(now, &name, written) {
            self.streams.message(&format!("mpiexec: {line}"));
        }
    }

    /// A line for each host of whose ranks nothing has come.
    fn hosts_without_records(&self) -> Vec<String> {
        let mut missing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (slot, rank) in self.ranks.iter().enumerate().filter(|(_, rank)| rank.far.is_some()) {
            if self.reports.nothing_of(slot) {
                missing.entry(rank.host).or_default().push(slot);
            }
        }
        let line = |(host, slots): (usize, Vec<usize>)| {
            let s = if slots.len() == 1 { "" } else { "s" };
            format!("of rank{s} {} on {} nothing is recorded", ranges(&slots), self.plan.host_name(host))
        };
        missing.into_iter().map(line).collect()
    }

    /// Writes what is to be shown at the end, whatever became of the job.
    pub(super) fn report_at_end(&mut self) {
        let fate = |slot: usize| {
            let trouble = match (self.ranks[slot].end, self.phase(slot)) {
                (None, _) => Some(String::from("was left behind")),
                (Some(End::Exit(0)), RankPhase::Finalized | RankPhase::Silent) => None,
                (Some(end), _) => Some(end.to_string()),
            };
            Fate { name: self.called(slot), trouble }
        };
        let fates: Vec<Fate> = (0..self.ranks.len()).map(fate).collect();
        let ended_by = self.ended_by.clone();
        let mut lines = self.reports.finish(&fates, ended_by);
        if !lines.is_empty() {
            lines.extend(self.hosts_without_records());
        }
        for line in lines {
            self.streams.message(&format!("mpiexec: {line}"));
        }
    }
}
