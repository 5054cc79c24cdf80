//! Plots of the same samples: one-way time by size, and every ratio beside its target.

use std::path::Path;

use plotters::prelude::*;

use super::cases::{FIGURES, Figure};
use super::figures::Target;
use super::implementations::Implementation;
use super::{Page, Run, report};

const SIZE: (u32, u32) = (900, 540);
const FONT: (&str, u32) = ("sans-serif", 15);
const COLORS: [RGBColor; 5] = [
    RGBColor(200, 30, 30),
    RGBColor(40, 90, 180),
    RGBColor(20, 140, 90),
    RGBColor(160, 110, 20),
    RGBColor(120, 120, 120),
];

pub fn write(folder: &Path, page: &Page, run: &Run) -> anyhow::Result<()> {
    latency(&folder.join("latency-shm.svg"), run, "shm-latency", "one way, shared memory")?;
    latency(&folder.join("latency-tcp.svg"), run, "tcp-latency", "one way, TCP over loopback")?;
    ratios(&folder.join(format!("{}.svg", page.ratios())), run)
}

/// One line per implementation over the message's size, both axes by powers.
fn latency(path: &Path, run: &Run, case: &str, title: &str) -> anyhow::Result<()> {
    let figures: Vec<(f64, &Figure)> = FIGURES
        .iter()
        .filter(|figure| figure.case == case)
        .filter_map(|figure| Some((figure.key.rsplit('/').next()?.parse().ok()?, figure)))
        .collect();
    let curve = |who| -> Vec<(f64, f64)> {
        figures
            .iter()
            .filter_map(|&(bytes, figure)| Some((bytes, run.samples.median(figure, who)?)))
            .collect()
    };
    let all: Vec<(f64, f64)> = run.implementations.iter().flat_map(|&who| curve(who)).collect();
    if all.is_empty() {
        return Ok(());
    }
    let span = |of: fn(&(f64, f64)) -> f64| {
        let values = || all.iter().map(of);
        values().fold(f64::INFINITY, f64::min) * 0.8..values().fold(0.0, f64::max) * 1.3
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(15)
        .x_label_area_size(45)
        .y_label_area_size(65)
        .build_cartesian_2d(span(|point| point.0).log_scale(), span(|point| point.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc("microseconds")
        .label_style(FONT)
        .light_line_style(WHITE)
        .draw()?;
    for (&who, color) in run.implementations.iter().zip(COLORS) {
        let points = curve(who);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(who.title())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(FONT)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// A bar per figure: how our cost compares with the best peer's, and a mark where it should be at most.
fn ratios(path: &Path, run: &Run) -> anyhow::Result<()> {
    let rows: Vec<(&Figure, f64)> =
        FIGURES.iter().filter_map(|figure| Some((figure, report::ratio(run, figure)?))).collect();
    if rows.is_empty() || !run.implementations.contains(&Implementation::Ours) {
        return Ok(());
    }
    let area = SVGBackend::new(path, (900, 22 * rows.len() as u32 + 90)).into_drawing_area();
    area.fill(&WHITE)?;
    let count = rows.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .caption(
            "our cost to the best peer's (below 1 is faster; the black mark is the target)",
            ("sans-serif", 16),
        )
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(410)
        .build_cartesian_2d(0.0..1.6, 0.0..count)?;
    let name = |y: &f64| {
        let index = (count - y).floor();
        rows.get(index as usize).map_or_else(String::new, |(figure, _)| figure.title.to_owned())
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .y_label_formatter(&name)
        .label_style(("sans-serif", 12))
        .draw()?;
    for (index, (figure, ratio)) in rows.iter().enumerate() {
        let (low, high) = (count - index as f64 - 0.85, count - index as f64 - 0.15);
        let met = match figure.target {
            Target::Ratio(limit) => *ratio <= limit,
            Target::AtMost(_) | Target::Open => *ratio <= 1.0,
        };
        let color = if met { COLORS[2] } else { COLORS[0] };
        chart.draw_series([Rectangle::new([(0.0, low), (ratio.min(1.6), high)], color.filled())])?;
        if let Target::Ratio(limit) = figure.target {
            chart.draw_series([PathElement::new([(limit, low), (limit, high)], BLACK.stroke_width(3))])?;
        }
        let (_, pixel_y) = chart.backend_coord(&(0.0, (low + high) / 2.0));
        let style = ("sans-serif", 12).into_text_style(&area);
        area.draw_text(figure.title, &style, (14, pixel_y - 7))?;
    }
    area.present()?;
    Ok(())
}
