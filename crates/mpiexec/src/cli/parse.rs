//! From words to options and programs. Knows the table and nothing of what options mean.

use super::table::{self, Opt, Scope, Support, Takes};
use super::{Section, UsageError, Words};
use std::ffi::OsString;

/// Reads the words behind `mpiexec`.
///
/// # Errors
/// [`UsageError`] with the option and the reason.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Words, UsageError> {
    let mut parsed = Words::default();
    let mut rest = words.into_iter();
    loop {
        let mut section = Section::default();
        let more = read_section(&mut rest, &mut parsed.job, &mut section)?;
        parsed.sections.push(section);
        if !more {
            return Ok(parsed);
        }
    }
}

/// Reads up to the next `:` (true) or the end (false).
fn read_section(
    rest: &mut impl Iterator<Item = OsString>,
    job: &mut Vec<(&'static Opt, String)>,
    section: &mut Section,
) -> Result<bool, UsageError> {
    while let Some(word) = rest.next() {
        if word == ":" {
            return Ok(true);
        }
        let option = word.to_str().filter(|w| w.len() > 1).and_then(|w| w.strip_prefix('-'));
        let Some(option) = option else {
            section.words.push(word);
            return Ok(program_words(rest, section));
        };
        if option == "-" {
            return Ok(program_words(rest, section));
        }
        let (opt, value) = read_option(option, rest)?;
        match opt.scope {
            Scope::Job => job.push((opt, value)),
            Scope::Program => section.options.push((opt, value)),
        }
    }
    Ok(false)
}

/// All that follows the program is the program's.
fn program_words(rest: &mut impl Iterator<Item = OsString>, section: &mut Section) -> bool {
    for word in rest {
        if word == ":" {
            return true;
        }
        section.words.push(word);
    }
    false
}

fn read_option(
    option: &str,
    rest: &mut impl Iterator<Item = OsString>,
) -> Result<(&'static Opt, String), UsageError> {
    let spelled = format!("-{option}");
    let name = option.strip_prefix('-').unwrap_or(option);
    let (name, attached) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (name, None),
    };
    let (opt, attached) = match table::find(name) {
        Some(opt) => (opt, attached),
        None => count_attached(name).ok_or_else(|| unknown(&spelled))?,
    };
    if let Support::Refused(why) = opt.support {
        return Err(UsageError::new(format!("{spelled}: {why}")));
    }
    let mut next = |what: &str| -> Result<String, UsageError> {
        let word = rest.next().ok_or_else(|| UsageError::new(format!("{spelled} needs {what}")))?;
        word.into_string().map_err(|w| UsageError::new(format!("{spelled} {w:?}: not UTF-8")))
    };
    let value = match (opt.takes, attached) {
        (Takes::Flag, None) => String::from("true"),
        (_, Some(value)) => value,
        (Takes::Value(what), None) => next(what)?,
        // MPICH's -env takes two words, Open MPI's -x one; the long name tells them apart.
        (Takes::Assignment, None) if name == "x" => next("NAME=VALUE")?,
        (Takes::Assignment | Takes::Pair, None) => {
            let first = next("NAME=VALUE")?;
            if first.contains('=') { first } else { format!("{first}={}", next("a value")?) }
        }
    };
    Ok((opt, value))
}

/// `-n4`, `-np4`: the one option whose value people write without a space.
fn count_attached(name: &str) -> Option<(&'static Opt, Option<String>)> {
    let digits = name.strip_prefix("np").or_else(|| name.strip_prefix('n'))?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| table::find("n").map(|opt| (opt, Some(digits.to_owned())))).flatten()
}

fn unknown(spelled: &str) -> UsageError {
    UsageError::new(format!(
        "unknown option {spelled}; options of the program follow the program (or --), see mpiexec --help"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<String, String> {
        let parsed = parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())?;
        let show = |options: &[(&'static Opt, String)]| {
            options.iter().map(|(o, v)| format!("{}={v} ", o.name)).collect::<String>()
        };
        let sections: Vec<String> = parsed
            .sections
            .iter()
            .map(|s| {
                let words: Vec<_> = s.words.iter().map(|w| w.to_string_lossy()).collect();
                format!("{}| {}", show(&s.options), words.join(" "))
            })
            .collect();
        Ok(format!("{}/ {}", show(&parsed.job), sections.join(" / ")))
    }

    #[test]
    fn lines_are_read() {
        for (line, expected) in [
            ("-n 4 a b c", "/ n=4 | a b c"),
            ("--n 4 a -n 5 --unknown", "/ n=4 | a -n 5 --unknown"),
            ("-np 4 -l a", "tag-output=true / n=4 | a"),
            ("-n4 a", "/ n=4 | a"),
            ("-np16 a", "/ n=16 | a"),
            ("--timeout=3 -n=2 a", "timeout=3 / n=2 | a"),
            ("-n 1 a x : -n 2 b y", "/ n=1 | a x / n=2 | b y"),
            ("-env A 1 -x B=2 -x C -genv D 4 -genv E=5 a", "genv=D=4 genv=E=5 / env=A=1 env=B=2 env=C | a"),
            ("--example heat -- --size 3", "/ example=heat | --size 3"),
            ("-n 2 -- -odd-name", "/ n=2 | -odd-name"),
            ("-", "/ | -"),
            ("", "/ | "),
        ] {
            assert_eq!(words(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn errors_name_the_option() {
        for (line, expected) in [
            ("-nonsense a", "unknown option -nonsense"),
            ("--nope a", "unknown option --nope"),
            ("-n", "-n needs N"),
            ("-env A", "-env needs a value"),
            ("--hostfile h a", "--hostfile: this release runs jobs on one machine"),
            ("-file f a", "-file: the format"),
            ("-nx4 a", "unknown option -nx4"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
