//! What the job shows of itself: the loop's side of [`crate::report`].

use super::end::End;
use super::{RankPhase, Running};
use crate::report::Fate;
use std::os::fd::OwnedFd;

impl Running<'_> {
    /// Memory for the records of one more world, if any are wanted.
    pub(super) fn records(&mut self, first: usize, size: usize) -> Option<OwnedFd> {
        let mut remarks = Vec::new();
        let records = self.reports.world(first, size, &mut remarks);
        remarks.iter().for_each(|line| self.streams.message(&format!("mpiexec: {line}")));
        records
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
        let far = self.ranks.iter().filter(|rank| rank.far.is_some()).count();
        if !lines.is_empty() && far > 0 {
            lines.push(format!("of the {far} ranks on other hosts nothing is recorded"));
        }
        for line in lines {
            self.streams.message(&format!("mpiexec: {line}"));
        }
    }
}
