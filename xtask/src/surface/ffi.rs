//! Which names of the C binding rsmpi's code and examples use.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// Every `MPI_…` and `RSMPI_…` in the sources and examples of a package.
pub fn used(package: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = BTreeSet::new();
    for folder in ["src", "examples"] {
        in_folder(&package.join(folder), &mut found)?;
    }
    Ok(found.into_iter().collect())
}

fn in_folder(folder: &Path, found: &mut BTreeSet<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            in_folder(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let tokens: Result<TokenStream, _> = std::fs::read_to_string(&path)?.parse();
            in_tokens(tokens.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?, found);
        }
    }
    Ok(())
}

fn in_tokens(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let mut after_dot = false;
    for tree in tokens {
        // A field's name, such as `status.MPI_TAG`, is a part of the struct.
        let is_field =
            std::mem::replace(&mut after_dot, matches!(&tree, TokenTree::Punct(p) if p.as_char() == '.'));
        match tree {
            TokenTree::Group(group) => in_tokens(group.stream(), found),
            TokenTree::Ident(ident) if !is_field => {
                let name = ident.to_string();
                if name.starts_with("MPI_") || name.starts_with("RSMPI_") {
                    found.insert(name);
                }
            }
            _ => {}
        }
    }
}
