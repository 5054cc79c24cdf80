//! What a rank waits for that tests and probes again and again instead of blocking.

use crate::core::State;
use crate::report::{Open, Report};
use crate::request::{Kind, Phase, flag};
use crate::requests_api::REPORT_ENTRIES;
use mpi_btl::Ep;

/// Tests and probes that found nothing.
#[derive(Default)]
pub(crate) struct Polling {
    count: u64,
    /// Context, source and tag of the last probe among them.
    probe: Option<(u32, i32, i32)>,
}

impl Polling {
    #[inline]
    pub fn tested(&mut self) {
        self.count += 1;
    }

    #[inline]
    pub fn probed(&mut self, context: u32, source: i32, tag: i32) {
        self.count += 1;
        self.probe = Some((context, source, tag));
    }
}

impl State {
    /// Adds what is open although no call waits for it.
    pub fn report_open(&self, report: &mut Report) {
        report.fruitless = self.polling.count;
        report.probed = self.polling.probe.map(|(context, source, tag)| Open {
            text: self.line_of(Kind::Recv, context, source, tag).replacen("receive", "a message", 1),
            waits_for: self.senders(context, source),
        });
        let open = |i: &u32| {
            let s = &self.requests[*i];
            !matches!(s.phase, Phase::Done | Phase::Inactive)
                && s.flags & (flag::OWNED | flag::DETACHED) == 0
                && s.kind != Kind::Runner
        };
        let all: Vec<u32> = self.requests.in_use().filter(open).collect();
        report.open_total = all.len();
        for i in all.into_iter().take(REPORT_ENTRIES) {
            let facts = self.facts_of("operation", self.requests.id(i), 0);
            report.open.push(Open { text: self.line(i), waits_for: facts.waits_for });
        }
    }

    /// Who could send what a probe looks for.
    fn senders(&self, context: u32, source: i32) -> Vec<Ep> {
        let Some(face) = self.lanes.get(context).and_then(|lane| lane.face.as_ref()) else {
            return Vec::new();
        };
        match usize::try_from(source) {
            Ok(source) => face.peers.get(source).copied().into_iter().collect(),
            Err(_) => {
                let mut facts = self.facts_on("probe", context);
                self.any_member(context, &mut facts);
                facts.waits_for
            }
        }
    }
}
