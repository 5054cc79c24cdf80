//! A crate's modules, read from its sources with every feature on, and what each of them makes public.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use syn::{Attribute, Item, ItemUse, Meta, Token, UseTree, Visibility};

use super::macros::Macro;

/// Deeper than any path of re-exports in a crate that compiles.
const DEEPEST_REEXPORT: usize = 16;

/// A module by its path from the crate's root.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    items: Vec<Item>,
    uses: Vec<ItemUse>,
    children: Vec<String>,
    public_children: Vec<String>,
}

#[derive(Default)]
pub struct Crate {
    modules: BTreeMap<ModulePath, Module>,
    macros: HashMap<String, Macro>,
    /// Calls of macros in modules, until all macros are known.
    calls: Vec<(syn::Macro, PathBuf, ModulePath)>,
}

/// A public name: where its definition is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Module(ModulePath),
    /// The module and the name there.
    Item(ModulePath, String),
    /// Of another package.
    External(String),
}

impl Crate {
    /// Reads `src/lib.rs` and what belongs to it.
    pub fn read(package: &Path) -> anyhow::Result<Crate> {
        let mut found = Crate::default();
        let src = package.join("src");
        found.file(&src.join("lib.rs"), &src, Vec::new())?;
        while let Some((call, folder, path)) = found.calls.pop() {
            let Some(made) = found.expand(&call) else { continue };
            let items = syn::parse2::<syn::File>(made.clone())
                .with_context(|| format!("cannot parse what a macro of {path:?} makes: {made}"))?;
            found.items(items.items, &folder, path)?;
        }
        Ok(found)
    }

    fn file(&mut self, file: &Path, folder: &Path, path: ModulePath) -> anyhow::Result<()> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        self.items(parsed.items, folder, path)
    }

    fn items(&mut self, items: Vec<Item>, folder: &Path, path: ModulePath) -> anyhow::Result<()> {
        self.modules.entry(path.clone()).or_default();
        for item in items {
            if !applies(attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let mut inner = path.clone();
                    inner.push(name.clone());
                    let entry = self.modules.entry(path.clone()).or_default();
                    entry.children.push(name.clone());
                    let hidden = module.attrs.iter().any(is_doc_hidden);
                    if is_public(&module.vis) && !hidden {
                        entry.public_children.push(name.clone());
                    }
                    match module.content {
                        Some((_, items)) => self.items(items, &folder.join(&name), inner)?,
                        None => {
                            let (file, folder) = file_of(folder, &name)?;
                            self.file(&file, &folder, inner)?;
                        }
                    }
                }
                Item::Macro(call) => match &call.ident {
                    Some(name) if call.mac.path.is_ident("macro_rules") => {
                        self.macros.insert(name.to_string(), Macro::parse(call.mac.tokens.clone()));
                    }
                    _ => self.calls.push((call.mac, folder.to_owned(), path.clone())),
                },
                Item::Use(item) => self.modules.entry(path.clone()).or_default().uses.push(item),
                Item::ForeignMod(block) => {
                    self.modules.entry(path.clone()).or_default().items.extend(foreign(block));
                }
                item => self.modules.entry(path.clone()).or_default().items.push(item),
            }
        }
        Ok(())
    }

    /// What a call of one of the crate's own macros becomes.
    pub fn expand(&self, call: &syn::Macro) -> Option<proc_macro2::TokenStream> {
        self.macros.get(&call.path.segments.last()?.ident.to_string())?.expand(call.tokens.clone())
    }

    /// Every item of every module, whoever may see it.
    pub fn all_items(&self) -> impl Iterator<Item = &Item> {
        self.modules.values().flat_map(|module| &module.items)
    }

    /// The item that a target names.
    pub fn item(&self, module: &[String], name: &str) -> Option<&Item> {
        self.modules.get(module)?.items.iter().find(|item| item_name(item).as_deref() == Some(name))
    }

    /// Every public path of the crate and what stands there.
    pub fn public(&self) -> BTreeMap<String, Target> {
        let mut found = BTreeMap::new();
        self.public_below(&Vec::new(), &mut found);
        found
    }

    fn public_below(&self, path: &ModulePath, found: &mut BTreeMap<String, Target>) {
        let Some(module) = self.modules.get(path) else { return };
        for (name, target) in self.exports(path, 0) {
            found.insert(join(path, &name), target);
        }
        for child in &module.public_children {
            let mut inner = path.clone();
            inner.push(child.clone());
            found.insert(inner.join("::"), Target::Module(inner.clone()));
            self.public_below(&inner, found);
        }
    }

    /// The names that a module makes public, without its modules.
    fn exports(&self, path: &[String], depth: usize) -> Vec<(String, Target)> {
        let Some(module) = self.modules.get(path).filter(|_| depth < DEEPEST_REEXPORT) else {
            return Vec::new();
        };
        let own = module.items.iter().filter(|item| visibility(item).is_some_and(is_public));
        let mut found: Vec<(String, Target)> =
            own.filter_map(item_name).map(|name| (name.clone(), Target::Item(path.to_vec(), name))).collect();
        for item in module.uses.iter().filter(|item| is_public(&item.vis)) {
            self.reexports(&item.tree, path, Vec::new(), depth, &mut found);
        }
        found
    }

    fn reexports(
        &self,
        tree: &UseTree,
        here: &[String],
        mut prefix: Vec<String>,
        depth: usize,
        found: &mut Vec<(String, Target)>,
    ) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.reexports(&path.tree, here, prefix, depth, found);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.reexports(tree, here, prefix.clone(), depth, found);
                }
            }
            UseTree::Glob(_) => {
                if let Some(module) = self.module(here, &prefix) {
                    found.extend(self.exports(&module, depth + 1));
                }
            }
            UseTree::Name(name) => {
                let (shown, name) = (name.ident.to_string(), name.ident.to_string());
                found.extend(self.named(here, &prefix, &name, depth).map(|target| (shown, target)));
            }
            UseTree::Rename(rename) => {
                let (shown, name) = (rename.rename.to_string(), rename.ident.to_string());
                found.extend(self.named(here, &prefix, &name, depth).map(|target| (shown, target)));
            }
        }
    }

    fn named(&self, here: &[String], prefix: &[String], name: &str, depth: usize) -> Option<Target> {
        let Some(module) = self.module(here, prefix) else {
            return Some(Target::External(join(prefix, name)));
        };
        let mut inner = module.clone();
        inner.push(name.to_owned());
        if self.modules.contains_key(&inner) {
            return Some(Target::Module(inner));
        }
        if self.item(&module, name).is_some() {
            return Some(Target::Item(module, name.to_owned()));
        }
        let further = self.exports(&module, depth + 1);
        further.into_iter().find(|(found, _)| found == name).map(|(_, target)| target)
    }

    /// The module that a path names, seen from another; none when it belongs to another package.
    fn module(&self, here: &[String], path: &[String]) -> Option<ModulePath> {
        let (mut at, rest) = match path.first().map(String::as_str) {
            Some("crate") => (Vec::new(), &path[1..]),
            Some("self") => (here.to_vec(), &path[1..]),
            Some("super") => (here[..here.len().checked_sub(1)?].to_vec(), &path[1..]),
            _ => (here.to_vec(), path),
        };
        for name in rest {
            at.push(name.clone());
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

/// The statics of an `extern` block, as items of their own.
fn foreign(block: syn::ItemForeignMod) -> impl Iterator<Item = Item> {
    block.items.into_iter().filter_map(|item| {
        let syn::ForeignItem::Static(item) = item else { return None };
        let (vis, name, ty) = (item.vis, item.ident, item.ty);
        Some(syn::parse_quote!(#vis static #name: #ty = elsewhere;))
    })
}

fn file_of(folder: &Path, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let inside = folder.join(name);
    let flat = folder.join(format!("{name}.rs"));
    let file = if flat.exists() { flat } else { inside.join("mod.rs") };
    ensure!(file.exists(), "the module {name} is not in {}", folder.display());
    Ok((file, inside))
}

fn join(path: &[String], name: &str) -> String {
    path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::")
}

pub fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_doc_hidden(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
        && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
}

pub fn item_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn visibility(item: &Item) -> Option<&Visibility> {
    Some(match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Union(item) => &item.vis,
        _ => return None,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is there with every feature on, outside of tests, and not with Microsoft's library.
pub fn applies(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .all(|attribute| attribute.parse_args::<Meta>().map_or(true, |condition| holds(&condition)))
}

fn holds(condition: &Meta) -> bool {
    let inner = |list: &syn::MetaList| -> Vec<bool> {
        let all = syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated;
        list.parse_args_with(all).map_or(Vec::new(), |all| all.iter().map(holds).collect())
    };
    match condition {
        Meta::Path(path) => !(path.is_ident("test") || path.is_ident("msmpi")),
        Meta::NameValue(_) => true,
        Meta::List(list) if list.path.is_ident("not") => !inner(list).into_iter().all(|is| is),
        Meta::List(list) if list.path.is_ident("any") => inner(list).into_iter().any(|is| is),
        Meta::List(list) => inner(list).into_iter().all(|is| is),
    }
}
