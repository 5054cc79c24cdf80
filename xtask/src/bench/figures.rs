//! Units, targets, samples and their medians.

use std::collections::BTreeMap;

use super::cases::{Figure, NOT_COUNTED};
use super::implementations::Implementation;

/// How a cost is shown. Rates and bandwidths are kept as microseconds per message.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Us,
    Seconds,
    Kib,
    Cores,
    Share,
    MessageRate,
    Bandwidth(u32),
}

#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Of the best peer's cost in the same run.
    Ratio(f64),
    /// Of the value itself.
    AtMost(f64),
    /// Recorded only.
    Open,
}

impl Unit {
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Us => format!("{} µs", digits(value)),
            Unit::Seconds => format!("{} s", digits(value)),
            Unit::Kib => format!("{:.1} MiB", value / 1024.0),
            Unit::Cores => format!("{value:.4} cores"),
            Unit::Share => format!("{value:.3}"),
            Unit::MessageRate => format!("{} M/s", digits(1.0 / value)),
            Unit::Bandwidth(bytes) => format!("{:.0} MB/s", f64::from(bytes) / value),
        }
    }
}

/// Three digits that count.
fn digits(value: f64) -> String {
    let decimals = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 4);
    format!("{value:.*}", decimals as usize)
}

/// Samples by case, key and implementation, one of each per round.
#[derive(Default)]
pub struct Samples(BTreeMap<(String, String, Implementation), Vec<f64>>);

impl Samples {
    pub fn add(&mut self, case: &str, key: &str, who: Implementation, value: f64) {
        self.0.entry((case.into(), key.into(), who)).or_default().push(value);
    }

    pub fn of(&self, figure: &Figure, who: Implementation) -> &[f64] {
        self.0.get(&(figure.case.into(), figure.key.into(), who)).map_or(&[], |values| values)
    }

    pub fn median(&self, figure: &Figure, who: Implementation) -> Option<f64> {
        median(self.of(figure, who))
    }

    /// The least of the three peers' medians, without those that do not count.
    pub fn best_peer(&self, figure: &Figure) -> Option<f64> {
        let counts = |peer: &&Implementation| {
            !NOT_COUNTED
                .iter()
                .any(|(case, key, who, _)| (*case, *key, who) == (figure.case, figure.key, peer))
        };
        let peers = Implementation::PEERS.iter().filter(counts);
        let medians = peers.filter_map(|&peer| self.median(figure, peer));
        medians.min_by(f64::total_cmp)
    }
}

/// The middle sample, the mean of the middle two where their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some((sorted.get(sorted.len() / 2 - 1)? + upper) / 2.0),
        _ => Some(upper),
    }
}

/// What became of a target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    Met,
    Missed,
    NoTarget,
    NotMeasured,
}

impl Verdict {
    pub fn of(figure: &Figure, samples: &Samples) -> Verdict {
        let ours = samples.median(figure, Implementation::Ours);
        let met = match (figure.target, ours, samples.best_peer(figure)) {
            (Target::Open, ..) => return Verdict::NoTarget,
            (Target::AtMost(limit), Some(ours), _) => ours <= limit,
            (Target::Ratio(limit), Some(ours), Some(best)) => ours <= limit * best,
            _ => return Verdict::NotMeasured,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }

    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::NoTarget => "",
            Verdict::NotMeasured => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn three_digits_are_shown() {
        let shown = [0.1234, 1.234, 12.34, 123.4, 1234.0].map(digits);
        assert_eq!(shown, ["0.123", "1.23", "12.3", "123", "1234"]);
    }
}
