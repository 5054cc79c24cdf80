//! Looking at code without its comments and strings, and the table of files that may contain `unsafe`.

use super::rules::UNSAFE_FILES;
use crate::workspace::root;

/// Library and program files with `unsafe` in them are exactly those of the table. Tests and examples make buffers of
/// raw parts and are free to.
pub fn check_unsafe_table(files: &[String], problems: &mut Vec<String>) -> anyhow::Result<()> {
    for file in files.iter().filter(|file| file.ends_with(".rs") && file.contains("/src/")) {
        let code = without_comments_and_strings(&std::fs::read_to_string(root().join(file))?);
        let listed = UNSAFE_FILES.iter().any(|(listed, _)| covers(listed, file));
        match (contains_word(&code, "unsafe"), listed) {
            (true, false) => {
                problems.push(format!("{file}: unsafe, but not in the table of xtask/src/tidy/rules.rs"))
            }
            (false, true) if UNSAFE_FILES.iter().any(|(listed, _)| listed == file) => {
                problems.push(format!("{file}: in the table of unsafe files without need"))
            }
            _ => {}
        }
    }
    for (listed, _) in
        UNSAFE_FILES.iter().filter(|(listed, _)| !files.iter().any(|file| covers(listed, file)))
    {
        problems.push(format!("{listed}: in the table of unsafe files, but does not exist"));
    }
    Ok(())
}

/// Whether an entry of the table, a file or a folder, speaks of this file.
fn covers(listed: &str, file: &str) -> bool {
    listed == file || (listed.ends_with('/') && file.starts_with(listed))
}

fn contains_word(code: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// The code alone; lines keep their numbers. It reads what rustfmt lets stand, not all of the grammar.
pub fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped =
            comment(rest).or_else(|| raw_string(rest)).or_else(|| string(rest)).or_else(|| character(rest));
        let taken = skipped.unwrap_or(0);
        if taken > 0 {
            code.extend(rest[..taken].chars().filter(|&c| c == '\n'));
            rest = &rest[taken..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            // A raw string's `r` must not be taken from the end of a name.
            if first.is_alphanumeric() || first == '_' {
                let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                if !(first == 'b' && rest.starts_with(['"', '\'', 'r'])) {
                    code.push_str(&rest[..word]);
                    rest = &rest[word..];
                }
            }
        }
    }
    code
}

/// The length of a comment that starts here.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(text.len())
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?;
    let count = hashes.find(|c| c != '#')?;
    let body = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

fn string(text: &str) -> Option<usize> {
    let body = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 2),
            _ => {}
        }
    }
    Some(text.len())
}

/// A character, as opposed to a lifetime.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    if let Some(escape) = body.strip_prefix('\\') {
        let end = escape.char_indices().skip(1).find(|(_, c)| *c == '\'')?.0;
        return Some(end + 3);
    }
    let first = body.chars().next()?;
    body[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str) {
        assert_eq!(without_comments_and_strings(text), code, "{text}");
    }

    #[test]
    fn comments_and_strings_go_and_code_stays() {
        check("a // unsafe\nb", "a \nb");
        check("a /* x /* y */ z */ b", "a  b");
        check(r#"f("un\"safe", x)"#, "f(, x)");
        check("f(r#\"a \" b\"#, b\"x\", var)", "f(, b, var)");
        check("let c = '\"'; let l: &'a str = d;", "let c = ; let l: &'a str = d;");
        check(r"let c = '\''; x", "let c = ; x");
        check("\"a\nb\" c", "\n c");
    }

    #[test]
    fn a_word_is_a_whole_word() {
        assert!(contains_word("unsafe { }", "unsafe"));
        assert!(!contains_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(!contains_word("not_unsafe()", "unsafe"));
    }
}
