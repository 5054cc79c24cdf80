//! Enough of `macro_rules!` to see the items that both libraries write with macros of their own.
//!
//! A fragment such as a type or an expression ends where the pattern's next token stands, or at the end of the group.

use std::collections::HashMap;

use proc_macro2::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};

/// The rules of one macro: pattern and body.
#[derive(Clone, Default)]
pub struct Macro(Vec<(Vec<TokenTree>, Vec<TokenTree>)>);

/// What a variable stands for, once or in each turn of a repetition.
#[derive(Clone, Debug)]
enum Bound {
    Once(Vec<TokenTree>),
    Turns(Vec<Bound>),
}

type Bindings = HashMap<String, Bound>;

impl Macro {
    /// Reads the rules between the braces of `macro_rules! name { … }`.
    pub fn parse(rules: TokenStream) -> Macro {
        let groups: Vec<Group> = rules
            .into_iter()
            .filter_map(|tree| match tree {
                TokenTree::Group(group) => Some(group),
                _ => None,
            })
            .collect();
        let trees = |group: &Group| group.stream().into_iter().collect();
        Macro(groups.chunks_exact(2).map(|rule| (trees(&rule[0]), trees(&rule[1]))).collect())
    }

    /// What a call becomes, by the first rule that matches.
    pub fn expand(&self, call: TokenStream) -> Option<TokenStream> {
        let call: Vec<TokenTree> = call.into_iter().collect();
        self.0.iter().find_map(|(pattern, body)| {
            let mut bindings = Bindings::new();
            let used = matches(pattern, &call, &mut bindings)?;
            (used == call.len()).then(|| transcribe(body, &bindings).into_iter().collect())
        })
    }
}

/// A part of a pattern: what it is, and how many trees of the pattern it takes.
enum Part<'a> {
    Variable(String, String),
    Repeat { inner: Vec<TokenTree>, separator: Option<char>, once: bool },
    Token(&'a TokenTree),
}

fn part(pattern: &[TokenTree]) -> Option<(Part<'_>, usize)> {
    let first = pattern.first()?;
    if !is_punct(first, '$') {
        return Some((Part::Token(first), 1));
    }
    match pattern.get(1)? {
        TokenTree::Ident(name) => {
            // In a body the variable stands alone, in a pattern its kind follows.
            let kind = match (pattern.get(2), pattern.get(3)) {
                (Some(colon), Some(TokenTree::Ident(kind))) if is_punct(colon, ':') => kind.to_string(),
                _ => String::new(),
            };
            let taken = if kind.is_empty() { 2 } else { 4 };
            Some((Part::Variable(name.to_string(), kind), taken))
        }
        TokenTree::Group(group) => {
            let inner = group.stream().into_iter().collect();
            let operator = |tree: Option<&TokenTree>| match tree {
                Some(TokenTree::Punct(p)) if "*+?".contains(p.as_char()) => Some(p.as_char()),
                _ => None,
            };
            let separator = match pattern.get(2) {
                Some(TokenTree::Punct(p)) if operator(pattern.get(2)).is_none() => Some(p.as_char()),
                _ => None,
            };
            let taken = if separator.is_some() { 4 } else { 3 };
            let once = operator(pattern.get(taken - 1)) == Some('?');
            Some((Part::Repeat { inner, separator, once }, taken))
        }
        _ => None,
    }
}

/// How many trees of `call` the pattern takes.
fn matches(pattern: &[TokenTree], call: &[TokenTree], bindings: &mut Bindings) -> Option<usize> {
    let (mut at, mut used) = (0, 0);
    while at < pattern.len() {
        let (part, taken) = part(&pattern[at..])?;
        at += taken;
        used += match part {
            Part::Token(token) => one_token(token, call.get(used)?, bindings)?,
            Part::Variable(name, kind) => {
                let len = fragment(&kind, &call[used..], pattern.get(at))?;
                let mut trees = call[used..used + len].to_vec();
                if kind == "stmt" {
                    // A statement is one without its semicolon, too, but only to the compiler.
                    trees.push(Punct::new(';', Spacing::Alone).into());
                }
                bindings.insert(name, Bound::Once(trees));
                len
            }
            Part::Repeat { inner, separator, once } => {
                repeat(&inner, separator, once, &call[used..], bindings)
            }
        };
    }
    Some(used)
}

fn one_token(pattern: &TokenTree, call: &TokenTree, bindings: &mut Bindings) -> Option<usize> {
    match (pattern, call) {
        (TokenTree::Group(p), TokenTree::Group(c)) if p.delimiter() == c.delimiter() => {
            let (p, c): (Vec<_>, Vec<_>) =
                (p.stream().into_iter().collect(), c.stream().into_iter().collect());
            (matches(&p, &c, bindings)? == c.len()).then_some(1)
        }
        (TokenTree::Group(_), _) | (_, TokenTree::Group(_)) => None,
        _ => (pattern.to_string() == call.to_string()).then_some(1),
    }
}

/// How many trees a fragment of this kind takes, given the token after it in the pattern.
fn fragment(kind: &str, call: &[TokenTree], next: Option<&TokenTree>) -> Option<usize> {
    let single = match (kind, call.first()?) {
        ("ident", TokenTree::Ident(_)) | ("tt" | "literal", _) => true,
        ("block", TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
        ("ident" | "block", _) => return None,
        _ => false,
    };
    if single {
        return Some(1);
    }
    // What the compiler lets stand behind a type or an expression ends it too, outside of `<…>`.
    let closers = match kind {
        "ty" | "path" => ",;=",
        "expr" => ",;",
        _ => "",
    };
    let mut inside = 0;
    let mut ends = |tree: &TokenTree| {
        inside += i32::from(is_punct(tree, '<')) - i32::from(is_punct(tree, '>') && inside > 0);
        let closes = inside == 0 && closers.chars().any(|c| is_punct(tree, c));
        closes || next.is_some_and(|next| next.to_string() == tree.to_string())
    };
    let len = call.iter().position(&mut ends).unwrap_or(call.len());
    (len > 0).then_some(len)
}

/// Matches as many turns as there are; how many trees they take.
fn repeat(
    inner: &[TokenTree],
    separator: Option<char>,
    once: bool,
    call: &[TokenTree],
    bindings: &mut Bindings,
) -> usize {
    let mut turns: Vec<Bindings> = Vec::new();
    let mut used = 0;
    while used < call.len() && (!once || turns.is_empty()) {
        let from = match separator {
            Some(separator) if !turns.is_empty() && is_punct(&call[used], separator) => used + 1,
            Some(_) if !turns.is_empty() => break,
            _ => used,
        };
        let mut turn = Bindings::new();
        match matches(inner, &call[from..], &mut turn) {
            Some(len) if len > 0 => used = from + len,
            _ => break,
        }
        turns.push(turn);
    }
    for name in variables(inner) {
        let each = turns.iter().filter_map(|turn| turn.get(&name).cloned()).collect();
        bindings.insert(name, Bound::Turns(each));
    }
    used
}

/// The variables inside a pattern or a body.
fn variables(trees: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) => {
                found.extend(variables(&group.stream().into_iter().collect::<Vec<_>>()))
            }
            TokenTree::Ident(name) if at > 0 && is_punct(&trees[at - 1], '$') => found.push(name.to_string()),
            _ => {}
        }
    }
    found
}

fn transcribe(body: &[TokenTree], bindings: &Bindings) -> Vec<TokenTree> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some((part, taken)) = part(&body[at..]) {
        match part {
            Part::Token(TokenTree::Group(group)) => {
                let inner = transcribe(&group.stream().into_iter().collect::<Vec<_>>(), bindings);
                out.push(Group::new(group.delimiter(), inner.into_iter().collect()).into());
            }
            Part::Token(token) => out.push(token.clone()),
            Part::Variable(name, kind) => {
                match bindings.get(&name) {
                    Some(Bound::Once(trees)) => out.extend(trees.iter().cloned()),
                    // `$crate`, which every path is compared without.
                    _ => out.extend(body[at + 1..at + 2].iter().cloned()),
                }
                if !kind.is_empty() {
                    // Not a kind but what follows a variable in the body, such as the colon of `$a: T`.
                    at += 2;
                    continue;
                }
            }
            Part::Repeat { inner, separator, .. } => {
                for (turn, bound) in each_turn(&variables(&inner), bindings).into_iter().enumerate() {
                    if let (Some(separator), true) = (separator, turn > 0) {
                        out.push(Punct::new(separator, Spacing::Alone).into());
                    }
                    out.extend(transcribe(&inner, &bound));
                }
            }
        }
        at += taken;
    }
    out
}

/// The bindings of every turn of a repetition over these variables.
fn each_turn(names: &[String], bindings: &Bindings) -> Vec<Bindings> {
    let turns = names.iter().filter_map(|name| match bindings.get(name) {
        Some(Bound::Turns(turns)) => Some(turns.len()),
        _ => None,
    });
    (0..turns.max().unwrap_or(0))
        .map(|turn| {
            let mut inside = bindings.clone();
            for name in names {
                let Some(Bound::Turns(turns)) = bindings.get(name) else { continue };
                inside.extend(turns.get(turn).map(|bound| (name.clone(), bound.clone())));
            }
            inside
        })
        .collect()
}

fn is_punct(tree: &TokenTree, which: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == which)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &str, call: &str, expected: &str) {
        let text = |s: &str| s.parse::<TokenStream>().unwrap_or_default();
        let made = Macro::parse(text(rules)).expand(text(call)).unwrap_or_default();
        assert_eq!(made.to_string(), text(expected).to_string());
    }

    #[test]
    fn a_type_ends_where_the_pattern_goes_on() {
        check("($name:ident => $t:ty) => { struct $name($t); }", "A => Vec<u8>", "struct A(Vec<u8>);");
    }

    #[test]
    fn repetitions_nest() {
        check(
            "($($(#[$doc:meta])* $name:ident: $t:ty = $v:expr;)*) => {$($(#[$doc])* const $name: $t = $v;)*}",
            "#[a = 1] #[b] X: u8 = 1 + 2; Y: f64 = 3.0;",
            "#[a = 1] #[b] const X: u8 = 1 + 2; const Y: f64 = 3.0;",
        );
    }

    #[test]
    fn an_option_may_follow_a_type() {
        check(
            "($($t:ty $(=> $a:ident)?),*) => {$(f!($t $($a)?);)*}",
            "u8 => A, Vec<u8, B>, C",
            "f!(u8 A); f!(Vec<u8, B>); f!(C);",
        );
    }

    #[test]
    fn separators_are_put_back() {
        check("($($name:ident),*) => { f($($name: T),*) }", "a, b", "f(a: T, b: T)");
    }
}
