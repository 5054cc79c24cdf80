//! The programs in rsmpi's documentation, as documentation tests on our facade.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};

use super::package::{build_folder, from_registry, write_package};
use super::{BUILD_LIMIT, rsmpi};
use crate::shell::Cmd;
use crate::workspace::{cargo, target};

/// A program inside a documentation comment.
struct Block {
    /// What follows the opening fence: `no_run`, `ignore`, nothing.
    mark: String,
    text: String,
    /// Counted from one.
    line: usize,
}

pub fn run() -> anyhow::Result<()> {
    let sources = from_registry("mpi", rsmpi::VERSION)?.join("src");
    let mut library = String::new();
    let mut count = 0;
    for file in rust_files(&sources)? {
        let text = std::fs::read_to_string(&file)?;
        let name = file.strip_prefix(&sources)?.to_string_lossy().replace(['/', '.'], "_");
        for block in
            blocks(&text).iter().filter(|block| matches!(block.mark.as_str(), "" | "no_run" | "rust"))
        {
            count += 1;
            writeln!(library, "/// ```{}", block.mark)?;
            for line in block.text.lines() {
                writeln!(library, "/// {line}")?;
            }
            writeln!(library, "/// ```\npub fn {name}_line_{}() {{}}\n", block.line)?;
        }
    }
    ensure!(count > 0, "no programs were found in rsmpi's documentation");
    let folder = target().join("conformance/documented");
    write_package(&folder, &rsmpi::manifest(), &library)?;
    println!("{count} programs of rsmpi's documentation:");
    let cmd = Cmd::new(cargo()).words("test --quiet --doc --target-dir").arg(build_folder()).dir(&folder);
    cmd.run(BUILD_LIMIT).context("programs of rsmpi's documentation")
}

/// The programs in a file's documentation comments.
pub fn blocks_of(file: &Path, mark: &str) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(file)?;
    Ok(blocks(&text).into_iter().filter(|block| block.mark == mark).map(|block| block.text).collect())
}

fn blocks(source: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            open = false;
            continue;
        };
        let text = text.strip_prefix(' ').unwrap_or(text);
        match text.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(mark) => {
                open = true;
                found.push(Block { mark: mark.trim().to_owned(), text: String::new(), line: number + 1 });
            }
            None if open => {
                if let Some(block) = found.last_mut() {
                    block.text += text;
                    block.text.push('\n');
                }
            }
            None => {}
        }
    }
    found
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_their_marks() {
        let text = "//! ```toml\n//! [a]\n//! ```\nfn f() {}\n    /// ```no_run\n    /// let a = 1;\n    ///   let b;\n    /// ```\n";
        let found: Vec<(String, String, usize)> =
            blocks(text).into_iter().map(|block| (block.mark, block.text, block.line)).collect();
        assert_eq!(
            found,
            [
                ("toml".to_owned(), "[a]\n".to_owned(), 1),
                ("no_run".to_owned(), "let a = 1;\n  let b;\n".to_owned(), 5)
            ]
        );
    }
}
