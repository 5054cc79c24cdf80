//! Files: `-configfile` (programs) and the configuration file (defaults).

use super::table::{self, Opt, Takes};
use super::{UsageError, Words, parse, utf8};
use std::ffi::OsString;
use std::path::Path;

/// Reads the programs of a `-configfile`: one section per line, `#` starts a comment line.
///
/// # Errors
/// [`UsageError`] with file and line.
pub fn programs(path: &Path) -> Result<Words, UsageError> {
    let bytes =
        std::fs::read(path).map_err(|e| UsageError::new(format!("-configfile {}: {e}", path.display())))?;
    let name = path.display().to_string();
    parse_programs(&name, &utf8(&name, bytes)?)
}

/// The same, of a text; `name` is what its places are in.
///
/// # Errors
/// [`UsageError`] with file, line and column.
pub fn parse_programs(name: &str, text: &str) -> Result<Words, UsageError> {
    let mut all = Words::default();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let words = split_placed(line).map_err(|column| {
            UsageError::new(format!("{name}:{number}:{column}: a quote that does not end"))
        })?;
        let (columns, words): (Vec<usize>, Vec<String>) = words.into_iter().unzip();
        if words.is_empty() {
            continue;
        }
        let place = |at: usize| format!("{name}:{number}:{}", columns.get(at).unwrap_or(&1));
        let mut parsed = parse::parse_placed(words.into_iter().map(OsString::from))
            .map_err(|(at, e)| UsageError::new(format!("{}: {e}", place(at))))?;
        if let Some(given) = parsed.job.iter().find(|given| given.opt.name == "configfile") {
            return Err(UsageError::new(format!("{}: -configfile inside a configfile", place(given.at))));
        }
        let options = parsed.sections.iter_mut().flat_map(|section| &mut section.options);
        for given in parsed.job.iter_mut().chain(options) {
            given.spelled = format!("{}: {}", place(given.at), given.spelled);
        }
        parsed.sections.iter_mut().for_each(|section| section.place = Some(place(0)));
        all.job.extend(parsed.job);
        all.sections.extend(parsed.sections);
    }
    if all.sections.is_empty() {
        return Err(UsageError::new(format!("{name}: no program in this file")));
    }
    Ok(all)
}

/// One default from the configuration file: the option, its value, and where it stands.
pub type Default = (&'static Opt, String, String);

/// Reads defaults, `name = value` per line.
///
/// # Errors
/// [`UsageError`] with file, line and column.
pub fn defaults(name: &str, text: &str) -> Result<Vec<Default>, UsageError> {
    let mut all: Vec<Default> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = |at: &str| {
            let before = line.get(..at.as_ptr() as usize - line.as_ptr() as usize).unwrap_or_default();
            format!("{name}:{}:{}", number + 1, before.chars().count() + 1)
        };
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let Some((key, value)) = content.split_once('=') else {
            return Err(UsageError::new(format!("{}: expected name = value", place(content))));
        };
        let key = key.trim();
        let opt = table::find(key.trim_start_matches('-'))
            .filter(|opt| opt.has_default())
            .ok_or_else(|| UsageError::new(format!("{}: no setting is called {key:?}", place(content))))?;
        let value = value.trim();
        // As on the command line: silently taking one of two would be a guess.
        let single = matches!(opt.takes, Takes::Flag | Takes::Value(_));
        if let Some((.., earlier)) =
            all.iter().find(|(o, v, _)| single && std::ptr::eq(*o, opt) && v != value)
        {
            let message = format!("{}: {key} is set to another value at {earlier}", place(content));
            return Err(UsageError::new(message));
        }
        all.push((opt, value.to_owned(), place(content)));
    }
    Ok(all)
}

/// Splits a line into words as a shell does, with `'`, `"` and `\`; the error is the column of a
/// quote that does not end.
pub fn split(line: &str) -> Result<Vec<String>, usize> {
    Ok(split_placed(line)?.into_iter().map(|(_, word)| word).collect())
}

/// The same, each word with its column.
fn split_placed(line: &str) -> Result<Vec<(usize, String)>, usize> {
    let mut words = Vec::new();
    let mut word: Option<(usize, String)> = None;
    let mut chars = line.chars().enumerate();
    while let Some((index, c)) = chars.next() {
        let column = index + 1;
        match c {
            '\\' => begun(&mut word, column).extend(chars.next().map(|(_, c)| c)),
            '\'' | '"' => {
                let quoted = begun(&mut word, column);
                loop {
                    match chars.next().ok_or(column)?.1 {
                        end if end == c => break,
                        '\\' if c == '"' => quoted.extend(chars.next().map(|(_, c)| c)),
                        other => quoted.push(other),
                    }
                }
            }
            '#' if word.is_none() => break,
            c if c.is_whitespace() => words.extend(word.take()),
            c => begun(&mut word, column).push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The word that is being read, which begins at `column` if none was.
fn begun(word: &mut Option<(usize, String)>, column: usize) -> &mut String {
    &mut word.get_or_insert_with(|| (column, String::new())).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let line = r#"-n 1 'a b'"c d" e\ f "" # rest"#;
        assert_eq!(split(line), Ok(["-n", "1", "a bc d", "e f", ""].map(String::from).to_vec()));
        assert_eq!(split("ab 'cd"), Err(4));
    }

    #[test]
    fn programs_come_one_per_line() {
        let words = parse_programs("f", "# a job\n-n 1 a x\n\n-n 2 b\n").unwrap();
        assert_eq!(words.sections.len(), 2);
        for (text, expected) in [
            ("", "f: no program"),
            ("\n-n 1 'a", "f:2:6: a quote"),
            ("-nope a", "f:1:1: unknown option"),
            ("-n 1  -nope a", "f:1:7: unknown option"),
            ("-n 1 a\n  -n", "f:2:3: -n needs N"),
            ("'-n' \"1\" -x", "f:1:10: -x needs NAME=VALUE"),
            ("-l -configfile g", "f:1:4: -configfile inside"),
        ] {
            let error = parse_programs("f", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn defaults_name_their_place() {
        let found = defaults("c", "# comment\n timeout = 30\ntag-output=yes").unwrap();
        let found: Vec<_> = found.iter().map(|(o, v, p)| (o.name, v.as_str(), p.as_str())).collect();
        assert_eq!(found, [("timeout", "30", "c:2:2"), ("tag-output", "yes", "c:3:1")]);
        assert_eq!(defaults("c", "timeout = 2\ntimeout=2").map(|all| all.len()), Ok(2));
        for (text, expected) in [
            ("x", "c:1:1: expected"),
            ("\n  colour = red", "c:2:3: no setting"),
            ("timeout = 2\n timeout=3", "c:2:2: timeout is set to another value at c:1:1"),
            ("l = yes\ntag-output = no", "c:2:1: tag-output is set to another value at c:1:1"),
        ] {
            let error = defaults("c", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn hostile_files_never_panic(text: String) {
            let _ = defaults("c", &text);
            let _ = parse_programs("f", &text);
        }
    }
}
