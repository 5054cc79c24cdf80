//! The communication matrix as a picture: who sends how much to whom.

use super::gather::Gathered;
use super::numbers::bytes;
use std::fmt::Write;

/// Width and height of the field of cells, in units of the picture.
const FIELD: f64 = 640.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 70.0;
/// Most labels along an axis.
const LABELS: usize = 16;
/// Cells of the legend.
const STEPS: u32 = 6;

/// The picture as SVG. A row per sender, a column per receiver, darker for more bytes, by powers.
pub fn svg(all: &Gathered) -> String {
    let n = all.ranks.len().max(1);
    let cell = FIELD / n as f64;
    let cells: Vec<(usize, usize, u64, u64)> = all
        .ranks
        .iter()
        .flat_map(|rank| {
            rank.traffic
                .iter()
                .filter_map(move |(to, (messages, bytes))| Some((rank.number, (*to)?, *messages, *bytes)))
        })
        .collect();
    let most = cells.iter().map(|cell| cell.3).max().unwrap_or(0);
    let (width, height) = (LEFT + FIELD + 150.0, TOP + FIELD + 40.0);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">Bytes from each rank (rows) to each (columns){}</text>\n\
         <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{FIELD}\" height=\"{FIELD}\" fill=\"#f4f4f4\" stroke=\"#888\"/>",
        if all.partial.is_some() { ", partial" } else { "" }
    );
    for (from, to, messages, sent) in &cells {
        let (x, y) = (LEFT + *to as f64 * cell, TOP + *from as f64 * cell);
        let _ = writeln!(
            out,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{cell:.2}\" height=\"{cell:.2}\" fill=\"{}\"><title>rank {from} \
             to rank {to}: {messages} messages, {}</title></rect>",
            colour(*sent, most),
            bytes(*sent)
        );
    }
    labels(&mut out, n, cell);
    legend(&mut out, most);
    out.push_str("</svg>\n");
    out
}

fn labels(out: &mut String, n: usize, cell: f64) {
    for rank in (0..n).step_by(n.div_ceil(LABELS)) {
        let middle = (rank as f64 + 0.5) * cell;
        let _ = writeln!(
            out,
            "<text x=\"{:.2}\" y=\"{}\" text-anchor=\"middle\">{rank}</text><text x=\"{}\" y=\"{:.2}\" \
             text-anchor=\"end\">{rank}</text>",
            LEFT + middle,
            TOP - 8.0,
            LEFT - 8.0,
            TOP + middle + 4.0
        );
    }
}

fn legend(out: &mut String, most: u64) {
    let x = LEFT + FIELD + 20.0;
    for step in 0..STEPS {
        // From the most down to a byte, by equal factors.
        let value = (most as f64).powf(1.0 - f64::from(step) / f64::from(STEPS - 1));
        let y = TOP + f64::from(step) * 24.0;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"18\" height=\"18\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            colour(value as u64, most),
            x + 26.0,
            y + 13.0,
            bytes(value as u64)
        );
        if most <= 1 {
            break;
        }
    }
}

/// From light to dark by the logarithm.
fn colour(value: u64, most: u64) -> String {
    let part = ((value as f64 + 1.0).ln() / (most as f64 + 1.0).ln().max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    let mix = |light: f64, dark: f64| (light + (dark - light) * part) as u8;
    format!("#{:02x}{:02x}{:02x}", mix(222.0, 8.0), mix(235.0, 48.0), mix(247.0, 107.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::gather::Rank;
    use std::collections::BTreeMap;

    #[test]
    fn a_cell_per_pair_that_talks() {
        let ranks = (0..3)
            .map(|number| Rank {
                number,
                traffic: BTreeMap::from([(Some((number + 1) % 3), (2, 2048)), (None, (1, 1))]),
                ..Rank::default()
            })
            .collect();
        let svg = svg(&Gathered { ranks, partial: None });
        assert_eq!(svg.matches("<title>").count(), 3);
        assert!(svg.contains("<title>rank 2 to rank 0: 2 messages, 2.0 KiB</title>"));
        assert!(svg.contains(&colour(2048, 2048)) && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(!svg(&Gathered::default()).contains("<title>"));
        assert_eq!(colour(0, 0), "#deebf7");
        assert_eq!(colour(9, 9), "#08306b");
    }
}
