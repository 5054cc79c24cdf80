//! Items in a normal form that two libraries can be compared in.
//!
//! Names of parameters do not matter, their order does: lifetimes and types become `'1`, `T1` in the order of their
//! declaration. Paths are reduced to their last name, elided lifetimes are left out. Bounds are not compared: the
//! programs of the conformance runs hold them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Fields, FnArg, GenericParam, Generics, ImplItem, Item, Signature, TraitItem, Type};

use super::tree::{Crate, applies, is_public};

/// What a public item is, and its parts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub kind: &'static str,
    pub shape: String,
    /// Methods, fields, variants, associated types, implementations: name and normal form.
    pub parts: BTreeMap<String, String>,
}

/// Names of parameters and what they are called in the normal form.
#[derive(Clone, Default)]
struct Names {
    map: HashMap<String, String>,
    order: Vec<String>,
    lifetimes: usize,
    types: usize,
}

impl Names {
    fn with(&self, generics: &Generics) -> Names {
        let mut names = Names { order: Vec::new(), ..self.clone() };
        for parameter in &generics.params {
            let (name, normal) = match parameter {
                GenericParam::Lifetime(lifetime) => {
                    names.lifetimes += 1;
                    (lifetime.lifetime.ident.to_string(), format!("'{}", names.lifetimes))
                }
                GenericParam::Type(ty) => {
                    names.types += 1;
                    (ty.ident.to_string(), format!("T{}", names.types))
                }
                GenericParam::Const(constant) => {
                    names.types += 1;
                    (constant.ident.to_string(), format!("const T{}", names.types))
                }
            };
            names.map.insert(name, normal.clone());
            names.order.push(normal);
        }
        names
    }

    fn list(&self) -> String {
        if self.order.is_empty() { String::new() } else { format!("<{}>", self.order.join(", ")) }
    }

    fn normal(&self, tokens: impl ToTokens) -> String {
        let mut words = Vec::new();
        self.words(tokens.to_token_stream(), &mut words);
        let mut text = words.join(" ");
        for (long, short) in [
            (" '_ ,", ""),
            ("< '_ >", ""),
            ("& '_ ", "& "),
            (" :: ", "::"),
            ("< ", "<"),
            (" <", "<"),
            (" >", ">"),
            (" ,", ","),
            ("& ", "&"),
            ("( ", "("),
            (" )", ")"),
            (",>", ">"),
            (",)", ")"),
        ] {
            text = text.replace(long, short);
        }
        text.trim().to_owned()
    }

    fn words(&self, tokens: TokenStream, words: &mut Vec<String>) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, c: char| matches!(trees.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut at = 0;
        while at < trees.len() {
            match &trees[at] {
                // `crate::a::B` is `B`; but `Self::Raw` and `T::Out` are what they are.
                TokenTree::Ident(name) if is(at + 1, ':') && is(at + 2, ':') => {
                    let name = name.to_string();
                    if name == "Self" || self.map.contains_key(&name) {
                        words.push(self.map.get(&name).cloned().unwrap_or(name));
                        words.push("::".into());
                    }
                    at += 2;
                }
                TokenTree::Punct(p) if p.as_char() == '\'' => {
                    let name = trees.get(at + 1).map(ToString::to_string).unwrap_or_default();
                    words.push(self.map.get(&name).cloned().unwrap_or(format!("'{name}")));
                    at += 1;
                }
                TokenTree::Punct(p) if p.as_char() == ':' && is(at + 1, ':') => at += 1,
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    words.push(self.map.get(&name).cloned().unwrap_or(name));
                }
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                        proc_macro2::Delimiter::Bracket => ("[", "]"),
                        proc_macro2::Delimiter::Brace => ("{", "}"),
                        proc_macro2::Delimiter::None => ("", ""),
                    };
                    words.push(open.into());
                    self.words(group.stream(), words);
                    words.push(close.into());
                }
                other => words.push(other.to_string()),
            }
            at += 1;
        }
    }

    fn function(&self, signature: &Signature) -> String {
        let names = self.with(&signature.generics);
        let mut text = String::new();
        for (is, word) in
            [(signature.asyncness.is_some(), "async "), (signature.unsafety.is_some(), "unsafe ")]
        {
            text += if is { word } else { "" };
        }
        let inputs: Vec<String> = signature
            .inputs
            .iter()
            .map(|input| match input {
                FnArg::Receiver(receiver) => {
                    let by_hand = receiver.colon_token.map(|_| names.normal(&receiver.ty));
                    let lifetime = receiver.reference.as_ref().and_then(|(_, lifetime)| lifetime.as_ref());
                    let borrow = match (&receiver.reference, lifetime) {
                        (None, _) => String::new(),
                        (Some(_), lifetime) => format!("&{} ", names.normal(lifetime)).replace("& ", "&"),
                    };
                    let mutable = receiver.reference.is_some() && receiver.mutability.is_some();
                    by_hand.unwrap_or(format!("{borrow}{}self", if mutable { "mut " } else { "" }))
                }
                FnArg::Typed(typed) => names.normal(&typed.ty),
            })
            .collect();
        text += &format!("fn{}({})", names.list(), inputs.join(", "));
        if let syn::ReturnType::Type(_, ty) = &signature.output {
            text += &format!(" -> {}", names.normal(ty));
        }
        text
    }
}

/// Describes an item together with the implementations for it anywhere in the crate.
pub fn describe(of: &Crate, item: &Item) -> Description {
    let none = Names::default();
    match item {
        Item::Fn(item) => Description { kind: "fn", shape: none.function(&item.sig), ..Default::default() },
        Item::Const(item) => {
            Description { kind: "const", shape: none.normal(&item.ty), ..Default::default() }
        }
        Item::Static(item) => {
            Description { kind: "static", shape: none.normal(&item.ty), ..Default::default() }
        }
        Item::Type(item) => {
            let names = none.with(&item.generics);
            let shape = format!("{}= {}", names.list(), names.normal(&item.ty));
            Description { kind: "type", shape, ..Default::default() }
        }
        Item::Trait(item) => describe_trait(of, item),
        Item::Struct(item) => {
            let names = none.with(&item.generics);
            let mut parts = fields(&names, &item.fields);
            implementations(of, &item.ident.to_string(), &item.attrs, &mut parts);
            Description { kind: "struct", shape: names.list(), parts }
        }
        Item::Enum(item) => {
            let names = none.with(&item.generics);
            let mut parts = BTreeMap::new();
            for variant in &item.variants {
                let types: Vec<String> = variant.fields.iter().map(|field| names.normal(&field.ty)).collect();
                parts.insert(format!("::{}", variant.ident), types.join(", "));
            }
            implementations(of, &item.ident.to_string(), &item.attrs, &mut parts);
            Description { kind: "enum", shape: names.list(), parts }
        }
        _ => Description { kind: "item", ..Default::default() },
    }
}

fn describe_trait(of: &Crate, item: &syn::ItemTrait) -> Description {
    let names = Names::default().with(&item.generics);
    let mut parts = BTreeMap::new();
    for inner in &item.items {
        trait_item(of, &names, inner, &mut parts);
    }
    // Traits that a user can neither name nor call do not count.
    let above: BTreeSet<String> = item.supertraits.iter().map(|bound| names.normal(bound)).collect();
    for bound in above.iter().filter(|bound| !bound.contains("Sealed")) {
        parts.insert(format!(": {bound}"), String::new());
    }
    let unsafety = if item.unsafety.is_some() { "unsafe " } else { "" };
    Description { kind: "trait", shape: format!("{unsafety}{}", names.list()), parts }
}

fn trait_item(of: &Crate, names: &Names, item: &TraitItem, parts: &mut BTreeMap<String, String>) {
    match item {
        TraitItem::Fn(method) if applies(&method.attrs) => {
            parts.insert(format!("{}()", method.sig.ident), names.function(&method.sig));
        }
        TraitItem::Type(ty) => {
            let bounds: BTreeSet<String> = ty.bounds.iter().map(|bound| names.normal(bound)).collect();
            let bounds = bounds.into_iter().collect::<Vec<_>>().join(" + ");
            parts.insert(format!("type {}", ty.ident), bounds);
        }
        TraitItem::Const(constant) => {
            parts.insert(format!("const {}", constant.ident), names.normal(&constant.ty));
        }
        TraitItem::Macro(call) => {
            let made = of.expand(&call.mac).map(|made| quote::quote!(trait T { #made }));
            if let Some(Ok(made)) = made.map(syn::parse2::<syn::ItemTrait>) {
                made.items.iter().for_each(|item| trait_item(of, names, item, parts));
            }
        }
        _ => {}
    }
}

fn fields(names: &Names, fields: &Fields) -> BTreeMap<String, String> {
    let public = fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis));
    let name = |(at, field): (usize, &syn::Field)| match &field.ident {
        Some(ident) => format!(".{ident}"),
        None => format!(".{at}"),
    };
    public.map(|(at, field)| (name((at, field)), names.normal(&field.ty))).collect()
}

/// Adds the public methods of a type, and the traits it has.
fn implementations(
    of: &Crate,
    name: &str,
    attributes: &[syn::Attribute],
    parts: &mut BTreeMap<String, String>,
) {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let list = syn::punctuated::Punctuated::<syn::Path, syn::Token![,]>::parse_terminated;
        for path in attribute.parse_args_with(list).into_iter().flatten() {
            if let Some(last) = path.segments.last() {
                parts.insert(format!("impl {}", last.ident), String::new());
            }
        }
    }
    for item in of.all_items() {
        let Item::Impl(item) = item else { continue };
        if self_name(&item.self_ty).as_deref() != Some(name) {
            continue;
        }
        let mut names = Names::default().with(&item.generics);
        if let Some((_, path, _)) = &item.trait_ {
            // Where its parameters are called matters less than that it is there.
            parts.insert(format!("impl {}", names.normal(path)), String::new());
            continue;
        }
        names.map.insert("Self".into(), names.normal(&item.self_ty));
        for inner in &item.items {
            method(of, &names, inner, parts);
        }
    }
}

fn method(of: &Crate, names: &Names, item: &ImplItem, parts: &mut BTreeMap<String, String>) {
    match item {
        ImplItem::Fn(method) if is_public(&method.vis) && applies(&method.attrs) => {
            parts.insert(format!("{}()", method.sig.ident), names.function(&method.sig));
        }
        ImplItem::Const(constant) if is_public(&constant.vis) => {
            parts.insert(format!("const {}", constant.ident), names.normal(&constant.ty));
        }
        ImplItem::Macro(call) => {
            let made = of.expand(&call.mac).map(|made| quote::quote!(impl T { #made }));
            if let Some(Ok(made)) = made.map(syn::parse2::<syn::ItemImpl>) {
                made.items.iter().for_each(|item| self::method(of, names, item, parts));
            }
        }
        _ => {}
    }
}

/// The name of the type that an implementation is for, where that is a plain one.
fn self_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Group(group) => self_name(&group.elem),
        Type::Paren(paren) => self_name(&paren.elem),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of(item: &str, part: &str) -> String {
        let Ok(item) = syn::parse_str::<Item>(item) else { return format!("cannot be parsed: {item}") };
        describe(&Crate::default(), &item).parts.get(part).cloned().unwrap_or_default()
    }

    /// Whether a method of a trait is the same in two spellings.
    fn check(there: &str, here: &str, same: bool) {
        let method = |text: &str| part_of(&format!("trait T<A> {{ {text} }}"), "f()");
        let (there, here) = (method(there), method(here));
        assert!(!there.is_empty());
        assert_eq!(there == here, same, "{there} and {here}");
    }

    #[test]
    fn names_and_paths_do_not_matter() {
        check(
            "fn f<'a, S, R>(&self, s: &'a S, r: &mut crate::x::R2<R>) -> Vec<u8>;",
            "fn f<'b, X, Y>(&self, data: &'b X, room: &mut R2<Y>) -> std::vec::Vec<u8> where X: Send;",
            true,
        );
        check("fn f(&self) -> D<'_>;", "fn f(&self) -> D;", true);
    }

    #[test]
    fn order_unsafe_and_types_matter() {
        check("fn f<S, R>(s: S, r: R);", "fn f<R, S>(s: S, r: R);", false);
        check("unsafe fn f();", "fn f();", false);
        check("fn f() -> i32;", "fn f() -> u32;", false);
        check("fn f();", "fn f() -> u32;", false);
        check("fn f(&self);", "fn f(&mut self);", false);
        check("fn f(&self) -> Self::Out;", "fn f(&self) -> A;", false);
        check("fn f<'a>(x: &'a u8, y: &u8);", "fn f<'a>(x: &u8, y: &'a u8);", false);
    }

    #[test]
    fn public_fields_and_variants_are_parts() {
        assert_eq!(part_of("struct S { pub a: c_int, b: u8 }", ".a"), "c_int");
        assert_eq!(part_of("struct S { pub a: c_int, b: u8 }", ".b"), "");
        assert_eq!(part_of("enum E { A(#[from] Rank, u8) }", "::A"), "Rank, u8");
    }
}
