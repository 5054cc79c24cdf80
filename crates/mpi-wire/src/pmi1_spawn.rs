//! The request of PMI-1 to spawn: the one message of several lines.
//!
//! One block per program, from `mcmd=spawn` to `endcmd`; the request is complete with the block whose
//! `spawnssofar` is its `totspawns`. A value runs to the end of its line, may hold spaces, and is not
//! empty. What is put into the children's key-value space stands in the first block.

use crate::codec::DecodeError;
use crate::limits::{PMI1_LINE_MAX_BYTES, SPAWN_COMMANDS_MAX, SPAWN_INFO_MAX, SPAWN_WORDS_MAX};
use crate::pmi1::Unwritable;

/// Programs to spawn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spawn {
    /// What is put into the children's key-value space: key and value.
    pub preput: Vec<(String, String)>,
    /// The programs.
    pub programs: Vec<Program>,
}

/// One program to spawn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// Its name or path.
    pub name: String,
    /// How many processes.
    pub count: u32,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Hints: key and value.
    pub info: Vec<(String, String)>,
}

impl Spawn {
    /// The lines.
    ///
    /// # Errors
    /// [`Unwritable`] for a text that is empty or holds a newline: servers end the job over either.
    pub fn encode(&self) -> Result<String, Unwritable> {
        let mut out = String::new();
        let total = self.programs.len();
        for (program, at) in self.programs.iter().zip(1..) {
            let mut put = |key: &str, value: &str| match value.is_empty() || value.contains('\n') {
                true => Err(Unwritable { text: value.to_owned() }),
                false => {
                    out.push_str(key);
                    out.push('=');
                    out.push_str(value);
                    out.push('\n');
                    Ok(())
                }
            };
            put("mcmd", "spawn")?;
            put("nprocs", &program.count.to_string())?;
            put("execname", &program.name)?;
            put("totspawns", &total.to_string())?;
            put("spawnssofar", &at.to_string())?;
            put("argcnt", &program.arguments.len().to_string())?;
            for (argument, number) in program.arguments.iter().zip(1..) {
                put(&format!("arg{number}"), argument)?;
            }
            let preput = if at == 1 { self.preput.as_slice() } else { &[] };
            for (what, key_name, value_name, pairs) in [
                ("preput_num", "preput_key_", "preput_val_", preput),
                ("info_num", "info_key_", "info_val_", program.info.as_slice()),
            ] {
                put(what, &pairs.len().to_string())?;
                for (number, (key, value)) in pairs.iter().enumerate() {
                    put(&format!("{key_name}{number}"), key)?;
                    put(&format!("{value_name}{number}"), value)?;
                }
            }
            out.push_str("endcmd\n");
        }
        Ok(out)
    }

    /// Reads a whole request.
    ///
    /// # Errors
    /// A line, number or block that is missing, out of order or above its limit.
    pub fn decode(text: &str) -> Result<Spawn, DecodeError> {
        let mut lines = Block { lines: text.split('\n') };
        let mut spawn = Spawn::default();
        loop {
            if lines.next("mcmd")? != "spawn" {
                return Err(DecodeError::Value { what: "mcmd", value: 0 });
            }
            let count = lines.number("nprocs", u32::MAX as usize)? as u32;
            let name = lines.next("execname")?.to_owned();
            let total = lines.number("totspawns", SPAWN_COMMANDS_MAX)?;
            let so_far = lines.number("spawnssofar", total)?;
            if so_far != spawn.programs.len() + 1 {
                return Err(DecodeError::Value { what: "spawnssofar", value: so_far as u64 });
            }
            let arguments = lines.number("argcnt", SPAWN_WORDS_MAX)?;
            let arguments = (1..=arguments)
                .map(|at| Ok(lines.next(&format!("arg{at}"))?.to_owned()))
                .collect::<Result<_, DecodeError>>()?;
            let preput = lines.pairs("preput")?;
            if so_far == 1 {
                spawn.preput = preput;
            } else if !preput.is_empty() {
                return Err(DecodeError::Value { what: "preput_num", value: preput.len() as u64 });
            }
            let info = lines.pairs("info")?;
            if lines.lines.next() != Some("endcmd") {
                return Err(DecodeError::Short { what: "endcmd", need: 1, have: 0 });
            }
            spawn.programs.push(Program { name, count, arguments, info });
            if so_far == total {
                return match lines.lines.next() {
                    Some("") | None => Ok(spawn),
                    Some(rest) => Err(DecodeError::Long { what: "request to spawn", extra: rest.len() }),
                };
            }
        }
    }
}

/// The lines of the blocks, which all servers and clients write in one order.
struct Block<'a> {
    lines: std::str::Split<'a, char>,
}

impl<'a> Block<'a> {
    /// The value of the next line, which must be that of `key`.
    fn next(&mut self, key: &str) -> Result<&'a str, DecodeError> {
        const WHAT: &str = "line of a request to spawn";
        let line = self.lines.next().ok_or(DecodeError::Short { what: WHAT, need: 1, have: 0 })?;
        if line.len() > PMI1_LINE_MAX_BYTES {
            return Err(DecodeError::Limit { what: WHAT, length: line.len(), limit: PMI1_LINE_MAX_BYTES });
        }
        let value = line.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let value = value.filter(|value| !value.is_empty());
        value.ok_or(DecodeError::Value { what: WHAT, value: line.len() as u64 })
    }

    fn number(&mut self, key: &'static str, limit: usize) -> Result<usize, DecodeError> {
        let number = self.next(key)?.parse().map_err(|_| DecodeError::Value { what: key, value: 0 })?;
        if number > limit {
            return Err(DecodeError::Limit { what: key, length: number, limit });
        }
        Ok(number)
    }

    fn pairs(&mut self, what: &str) -> Result<Vec<(String, String)>, DecodeError> {
        let count: usize = self
            .next(&format!("{what}_num"))?
            .parse()
            .map_err(|_| DecodeError::Value { what: "number of pairs", value: 0 })?;
        if count > SPAWN_INFO_MAX {
            return Err(DecodeError::Limit { what: "pairs", length: count, limit: SPAWN_INFO_MAX });
        }
        (0..count)
            .map(|at| {
                let key = self.next(&format!("{what}_key_{at}"))?.to_owned();
                Ok((key, self.next(&format!("{what}_val_{at}"))?.to_owned()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Spawn {
        Spawn {
            preput: vec![("port".into(), "a:b c".into())],
            programs: vec![
                Program { name: "/bin/a b".into(), count: 2, arguments: vec!["x y".into()], info: vec![] },
                Program {
                    name: "c".into(),
                    count: 1,
                    arguments: vec![],
                    info: vec![("wdir".into(), "/tmp".into())],
                },
            ],
        }
    }

    #[test]
    fn the_lines_are_those_of_the_protocol() {
        let expected = "mcmd=spawn\nnprocs=2\nexecname=/bin/a b\ntotspawns=2\nspawnssofar=1\nargcnt=1\narg1=x y\n\
                        preput_num=1\npreput_key_0=port\npreput_val_0=a:b c\ninfo_num=0\nendcmd\n\
                        mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\nargcnt=0\n\
                        preput_num=0\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n";
        assert_eq!(example().encode().unwrap(), expected);
    }

    #[test]
    fn malformed_requests_are_errors() {
        let good = example().encode().unwrap();
        for (from, to) in [
            ("mcmd=spawn", "mcmd=swim"),
            ("nprocs=2", "nprocs=two"),
            ("nprocs=2\n", ""),
            ("totspawns=2", "totspawns=99999999"),
            ("spawnssofar=1", "spawnssofar=2"),
            ("argcnt=1", "argcnt=2"),
            ("argcnt=1", "argcnt=4294967295"),
            ("preput_num=1", "preput_num=-1"),
            ("info_num=1", "info_num=999999"),
            ("endcmd\nmcmd", "mcmd"),
            ("execname=c", "execname="),
            ("info_key_0=wdir", "info_key_0="),
        ] {
            assert!(Spawn::decode(&good.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
        assert!(Spawn::decode(&format!("{good}mcmd=spawn\n")).is_err());
        assert!(Spawn::decode("").is_err());
        let mut split = example();
        split.programs[0].arguments[0] = "a\nb".into();
        assert!(split.encode().is_err());
    }

    proptest! {
        #[test]
        fn requests_come_back(
            words in proptest::collection::vec("[^\n]{1,12}", 0..5),
            pairs in proptest::collection::vec(("[a-z]{1,8}", "[^\n]{1,12}"), 0..4),
            count: u32,
            programs in 1usize..4,
        ) {
            let program =
                Program { name: "p".into(), count, arguments: words.clone(), info: pairs.clone() };
            let spawn = Spawn { preput: pairs, programs: vec![program; programs] };
            prop_assert_eq!(Spawn::decode(&spawn.encode().unwrap()), Ok(spawn));
        }

        #[test]
        fn any_text_is_a_request_or_an_error(text: String, cut in 0usize..400) {
            let _ = Spawn::decode(&text);
            let good = example().encode().unwrap();
            let _ = Spawn::decode(good.get(..cut.min(good.len())).unwrap_or_default());
        }
    }
}
