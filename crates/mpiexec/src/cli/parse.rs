//! From words to options and programs. Knows the table and nothing of what options mean.

use super::table::{self, Opt, Scope, Support, Takes};
use super::{Given, Section, UsageError, Words};
use std::ffi::OsString;

/// Reads the words behind `mpiexec`.
///
/// # Errors
/// [`UsageError`] with the option and the reason.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Words, UsageError> {
    parse_placed(words).map_err(|(_, error)| error)
}

/// The same; with an error comes the number of the word at fault.
pub fn parse_placed(words: impl IntoIterator<Item = OsString>) -> Result<Words, (usize, UsageError)> {
    let mut parsed = Words::default();
    let mut rest = Rest { words: words.into_iter(), taken: 0 };
    loop {
        let mut section = Section::default();
        let more = read_section(&mut rest, &mut parsed.job, &mut section);
        let more = more.map_err(|error| (rest.taken.saturating_sub(1), error))?;
        parsed.sections.push(section);
        if !more {
            return Ok(parsed);
        }
    }
}

/// The words that are not read yet.
struct Rest<I> {
    words: I,
    taken: usize,
}

impl<I: Iterator<Item = OsString>> Iterator for Rest<I> {
    type Item = OsString;

    fn next(&mut self) -> Option<OsString> {
        self.words.next().inspect(|_| self.taken += 1)
    }
}

/// Reads up to the next `:` (true) or the end (false).
fn read_section(
    rest: &mut Rest<impl Iterator<Item = OsString>>,
    job: &mut Vec<Given>,
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
        let given = read_option(option, rest)?;
        match given.opt.scope {
            Scope::Job => job.push(given),
            Scope::Program => section.options.push(given),
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

fn read_option(option: &str, rest: &mut Rest<impl Iterator<Item = OsString>>) -> Result<Given, UsageError> {
    let at = rest.taken.saturating_sub(1);
    let spelled = format!("-{}", option.split_once('=').map_or(option, |(name, _)| name));
    let name = option.strip_prefix('-').unwrap_or(option);
    let (name, attached) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (name, None),
    };
    let (opt, attached) = match table::find(name) {
        Some(opt) => (opt, attached),
        None => count_attached(name).ok_or_else(|| unknown(&spelled, name))?,
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
    Ok(Given { opt, value, spelled, at })
}

/// `-n4`, `-np4`: the one option whose value people write without a space.
fn count_attached(name: &str) -> Option<(&'static Opt, Option<String>)> {
    let digits = name.strip_prefix("np").or_else(|| name.strip_prefix('n'))?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| table::find("n").map(|opt| (opt, Some(digits.to_owned())))).flatten()
}

/// Options of other launchers, and what stands for them here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("N", "-n is the number of ranks, --ppn that of each host"),
    ("c", "-n is the number of ranks"),
    (
        "mca",
        "there are no MCA parameters: MPI_BTL chooses the transport, mpiexec --show-config lists the settings",
    ),
    ("use-hwthread-cpus", "ranks use all processors that they may; --bind-to core binds them"),
    ("cpu-bind", "the option is --bind-to"),
    ("binding", "the option is --bind-to"),
    ("prepend-rank", "the option is -l"),
    ("nolocal", "ranks run on the hosts that --hostfile or -host names, and on no other"),
];

/// How much alike two names must be, from 0 to 1, for one to be a slip of the other.
const ALIKE: f64 = 0.75;

fn unknown(spelled: &str, name: &str) -> UsageError {
    let hint = match ELSEWHERE.iter().find(|(other, _)| *other == name) {
        Some((_, hint)) => (*hint).to_owned(),
        None => match resembling(name) {
            Some(known) => format!("did you mean {}{known}?", if known.len() > 1 { "--" } else { "-" }),
            None => String::from("options of the program follow the program (or --), see mpiexec --help"),
        },
    };
    UsageError::new(format!("unknown option {spelled}; {hint}"))
}

/// The option whose name is closest, if one is close.
fn resembling(name: &str) -> Option<&'static str> {
    let names = table::OPTIONS.iter().flat_map(|opt| opt.aliases.iter().copied().chain([opt.name]));
    let score = |known: &str| strsim::jaro_winkler(known, name);
    // Of one letter everything is made.
    let close = names.filter(|known| known.len() > 2 && score(known) >= ALIKE);
    close.max_by(|a, b| score(a).total_cmp(&score(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<String, String> {
        let parsed = parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())?;
        let show = |options: &[Given]| {
            options.iter().map(|given| format!("{}={} ", given.opt.name, given.value)).collect::<String>()
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
            ("-file f a", "-file: the format"),
            ("-nx4 a", "unknown option -nx4; options of the program"),
            ("--timout 3 a", "unknown option --timout; did you mean --timeout?"),
            ("--tag-ouput a", "unknown option --tag-ouput; did you mean --tag-output?"),
            ("--mca btl self a", "unknown option --mca; there are no MCA parameters: MPI_BTL"),
            ("-N 2 a", "unknown option -N; -n is the number of ranks, --ppn"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
