//! docs/promises.md names tests that exist.

use crate::workspace::root;

/// Relative to the root.
const TABLE: &str = "docs/promises.md";

/// Each `file::name` in backticks is a test of that file: a function, or a case by its name.
pub fn check(problems: &mut Vec<String>) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root().join(TABLE))?;
    let read = |file: &str| std::fs::read_to_string(root().join("crates").join(file)).ok();
    problems.extend(missing(&text, read).into_iter().map(|what| format!("{TABLE}: {what}")));
    Ok(())
}

fn missing(table: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let quoted = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let named = quoted.filter_map(|word| word.split_once(".rs::"));
    let absent = |(file, name): (&str, &str)| {
        let file = format!("{file}.rs");
        let Some(source) = read(&file) else { return Some(format!("{file} is not there")) };
        let is_there =
            [format!("fn {name}("), format!("\"{name}\"")].iter().any(|form| source.contains(form));
        (!is_there).then(|| format!("{file} has no test {name}"))
    };
    named.filter_map(absent).collect()
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn tests_that_are_not_there_are_named() {
        let read = |file: &str| (file == "a/b.rs").then(|| String::from("fn one() {}\ncase(\"two\", two)"));
        let table = "`c.rs::text` is no row\n| x | `a/b.rs::one`, `cargo x` |\n| y | `a/b.rs::two`; `a/b.rs::three` |\n| z | `c.rs::d` |";
        assert_eq!(missing(table, read), ["a/b.rs has no test three", "c.rs is not there"]);
    }
}
