//! Numbers as people read them.

/// Bytes, with a unit.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, 0);
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Nanoseconds, with a unit.
pub fn time(nanos: u64) -> String {
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.3} s", nanos as f64 / 1e9),
    }
}

/// A part of a whole, in percent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// The sizes of a class of messages: class 0 is empty, class `n` goes from `2^(n-1)` bytes up to the next.
pub fn size_class(class: usize) -> String {
    match class {
        0 => String::from("empty"),
        1 => String::from("1 B"),
        n => format!("from {}", bytes(1 << (n - 1))),
    }
}

/// Rows as lines with columns under each other: the first to the left, the rest to the right.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += &if at == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        let all = [0, 1023, 1024, 1536, 1 << 20, (1 << 30) - 1, u64::MAX].map(bytes);
        assert_eq!(all, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 GiB", "16.0 EiB"]);
        let all = [7, 1_500, 2_000_000, 61_000_000_000].map(time);
        assert_eq!(all, ["7 ns", "1.5 us", "2.0 ms", "61.000 s"]);
        assert_eq!(percent(1, 4), "25.0 %");
        assert_eq!(percent(0, 0), "0.0 %");
        assert_eq!([0, 1, 2, 11].map(size_class), ["empty", "1 B", "from 2 B", "from 1.0 KiB"]);
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "100".into()], vec!["e".into()]];
        assert_eq!(columns(&rows), ["a      1", "bcd  100", "e"]);
    }
}
