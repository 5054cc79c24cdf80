//! The request of PMI-2 to spawn: one message, whose fields stand in a fixed order and repeat their keys.
//!
//! `ncmds`, `preputcount` and its `ppkeyN`/`ppvalN`; then for each program `subcmd`, `maxprocs`, `argc`, its `argvN`, and
//! `infokeycount` with its `infokeyN`/`infovalN`, which may be absent.

use crate::codec::DecodeError;
use crate::limits::{SPAWN_COMMANDS_MAX, SPAWN_INFO_MAX, SPAWN_WORDS_MAX};
use crate::pmi1::Unwritable;
use crate::pmi1_spawn::{Program, Spawn};
use crate::pmi2::Message;
use std::iter::Peekable;

/// The command of the message.
pub const COMMAND: &str = "spawn";

/// Writes a request.
///
/// # Errors
/// [`Unwritable`] for a text that is empty or holds a `;`.
pub fn encode(spawn: &Spawn) -> Result<Message, Unwritable> {
    let number = |n: usize| n.to_string();
    let mut message = Message::new(COMMAND)
        .with("ncmds", &number(spawn.programs.len()))?
        .with("preputcount", &number(spawn.preput.len()))?;
    message = pairs(message, ("ppkey", "ppval"), &spawn.preput)?;
    for program in &spawn.programs {
        message = message
            .with("subcmd", &program.name)?
            .with("maxprocs", &program.count.to_string())?
            .with("argc", &number(program.arguments.len()))?;
        for (at, argument) in program.arguments.iter().enumerate() {
            message = message.with(&format!("argv{at}"), argument)?;
        }
        message = message.with("infokeycount", &number(program.info.len()))?;
        message = pairs(message, ("infokey", "infoval"), &program.info)?;
    }
    Ok(message)
}

fn pairs(
    mut message: Message,
    (key_name, value_name): (&str, &str),
    pairs: &[(String, String)],
) -> Result<Message, Unwritable> {
    for (at, (key, value)) in pairs.iter().enumerate() {
        message = message.with(&format!("{key_name}{at}"), key)?.with(&format!("{value_name}{at}"), value)?;
    }
    Ok(message)
}

/// Reads a request.
///
/// # Errors
/// A field that is missing, out of order, no number where one belongs, or above its limit.
pub fn decode(message: &Message) -> Result<Spawn, DecodeError> {
    if message.command() != COMMAND {
        return Err(DecodeError::Value { what: "command of a request to spawn", value: 0 });
    }
    let mut fields = Fields { rest: message.fields().peekable() };
    let programs = fields.number("ncmds", SPAWN_COMMANDS_MAX)?;
    let preput = fields.number("preputcount", SPAWN_INFO_MAX)?;
    let mut spawn = Spawn { preput: fields.pairs(preput, ("ppkey", "ppval"))?, programs: Vec::new() };
    for _ in 0..programs {
        let name = fields.next("subcmd")?.to_owned();
        let count = fields.number("maxprocs", u32::MAX as usize)? as u32;
        let arguments = fields.number("argc", SPAWN_WORDS_MAX)?;
        let arguments = (0..arguments)
            .map(|at| Ok(fields.next(&format!("argv{at}"))?.to_owned()))
            .collect::<Result<_, DecodeError>>()?;
        let info = match fields.rest.peek() {
            Some(("infokeycount", _)) => fields.number("infokeycount", SPAWN_INFO_MAX)?,
            _ => 0,
        };
        let info = fields.pairs(info, ("infokey", "infoval"))?;
        spawn.programs.push(Program { name, count, arguments, info });
    }
    match fields.rest.count() {
        0 => Ok(spawn),
        extra => Err(DecodeError::Long { what: "fields of a request to spawn", extra }),
    }
}

struct Fields<'a, I: Iterator<Item = (&'a str, &'a str)>> {
    rest: Peekable<I>,
}

impl<'a, I: Iterator<Item = (&'a str, &'a str)>> Fields<'a, I> {
    /// The value of the next field, which must be that of `key`.
    fn next(&mut self, key: &str) -> Result<&'a str, DecodeError> {
        const WHAT: &str = "field of a request to spawn";
        let (name, value) = self.rest.next().ok_or(DecodeError::Short { what: WHAT, need: 1, have: 0 })?;
        if name != key || value.is_empty() {
            return Err(DecodeError::Value { what: WHAT, value: value.len() as u64 });
        }
        Ok(value)
    }

    fn number(&mut self, key: &'static str, limit: usize) -> Result<usize, DecodeError> {
        let number = self.next(key)?.parse().map_err(|_| DecodeError::Value { what: key, value: 0 })?;
        if number > limit {
            return Err(DecodeError::Limit { what: key, length: number, limit });
        }
        Ok(number)
    }

    fn pairs(
        &mut self,
        count: usize,
        (key_name, value_name): (&str, &str),
    ) -> Result<Vec<(String, String)>, DecodeError> {
        (0..count)
            .map(|at| {
                let key = self.next(&format!("{key_name}{at}"))?.to_owned();
                Ok((key, self.next(&format!("{value_name}{at}"))?.to_owned()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi2::LENGTH_LEN;
    use proptest::prelude::*;

    fn example() -> Spawn {
        let program = |name: &str, arguments: &[&str], info: &[(&str, &str)]| Program {
            name: name.to_owned(),
            count: 2,
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            info: info.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        };
        Spawn {
            preput: vec![("port".to_owned(), "a b".to_owned())],
            programs: vec![program("/bin/a", &["x", "y"], &[]), program("b", &[], &[("wdir", "/tmp")])],
        }
    }

    #[test]
    fn the_order_is_that_of_the_protocol() {
        let text = encode(&example()).unwrap().encode();
        let expected = "cmd=spawn;ncmds=2;preputcount=1;ppkey0=port;ppval0=a b;\
                        subcmd=/bin/a;maxprocs=2;argc=2;argv0=x;argv1=y;infokeycount=0;\
                        subcmd=b;maxprocs=2;argc=0;infokeycount=1;infokey0=wdir;infoval0=/tmp;";
        assert_eq!(&text[LENGTH_LEN..], expected);
        // Where no hints are, their number may be absent.
        let short = expected.replace("infokeycount=0;", "");
        assert_eq!(decode(&Message::decode(short.as_bytes()).unwrap()), Ok(example()));
        for broken in [";", "a;b"] {
            let mut spawn = example();
            spawn.programs[0].arguments[0] = broken.to_owned();
            assert!(encode(&spawn).is_err(), "{broken}");
        }
    }

    #[test]
    fn malformed_requests_are_errors() {
        let good = encode(&example()).unwrap().encode();
        for (from, to) in [
            ("cmd=spawn", "cmd=swim"),
            ("ncmds=2", "ncmds=3"),
            ("ncmds=2", "ncmds=1"),
            ("ncmds=2", "ncmds=99999999"),
            ("preputcount=1", "preputcount=2"),
            ("preputcount=1", "preputcount=-1"),
            ("ppkey0=port", "ppkey1=port"),
            ("maxprocs=2", "maxprocs=two"),
            ("maxprocs=2", "maxprocs=4294967296"),
            ("argc=2", "argc=4294967295"),
            ("argv1=y;", ""),
            ("infokeycount=1", "infokeycount=9999999"),
            ("infoval0=/tmp;", ""),
            ("subcmd=b", "subcmd="),
        ] {
            let text = good.replacen(from, to, 1);
            let message = Message::decode(&text.as_bytes()[LENGTH_LEN..]).unwrap();
            assert!(decode(&message).is_err(), "{from} -> {to}");
        }
    }

    proptest! {
        #[test]
        fn requests_come_back(
            words in proptest::collection::vec("[^;]{1,12}", 0..5),
            pairs in proptest::collection::vec(("[a-z]{1,8}", "[^;]{1,12}"), 0..4),
            count: u32,
            programs in 0usize..4,
        ) {
            let program =
                Program { name: "p".into(), count, arguments: words.clone(), info: pairs.clone() };
            let spawn = Spawn { preput: pairs, programs: vec![program; programs] };
            let message = encode(&spawn).unwrap();
            prop_assert_eq!(decode(&message), Ok(spawn));
        }

        #[test]
        fn any_message_is_a_request_or_an_error(
            fields in proptest::collection::vec(("(ncmds|preputcount|ppkey0|subcmd|argc|infokeycount)", "[0-9a]{1,3}"), 0..12),
        ) {
            let mut message = Message::new(COMMAND);
            for (key, value) in &fields {
                message = message.with(key, value).unwrap();
            }
            if let Ok(spawn) = decode(&message) {
                prop_assert_eq!(decode(&encode(&spawn).unwrap()), Ok(spawn));
            }
        }
    }
}
