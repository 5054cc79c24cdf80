//! Where the crate `mpi` is.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{DeriveInput, Error, Ident, LitStr, Path};

/// The path of the crate `mpi`: what `#[mpi(crate = "…")]` says, else the name in `Cargo.toml`, else `::mpi`.
pub(crate) fn find(input: &DeriveInput) -> syn::Result<TokenStream> {
    let mut attributes = input.attrs.iter().filter(|attribute| attribute.path().is_ident("mpi"));
    let Some(attribute) = attributes.next() else { return Ok(by_name()) };
    if let Some(second) = attributes.next() {
        return Err(Error::new_spanned(second, "only one `mpi` attribute is allowed"));
    }
    let mut found: Option<Path> = None;
    attribute.parse_nested_meta(|meta| {
        if !meta.path.is_ident("crate") {
            let name = meta.path.to_token_stream();
            return Err(meta.error(format!("unexpected attribute `{name}`: expected `crate`")));
        }
        let path: LitStr = meta.value()?.parse()?;
        if found.replace(path.parse()?).is_some() {
            return Err(meta.error("`crate` is given twice"));
        }
        Ok(())
    })?;
    match found {
        Some(path) => Ok(path.into_token_stream()),
        None => Err(Error::new_spanned(attribute, "expected `crate = \"path::to::mpi\"`")),
    }
}

pub(crate) fn by_name() -> TokenStream {
    match crate_name("mpi") {
        Ok(FoundCrate::Name(name)) => {
            let name = Ident::new(&name, Span::call_site());
            quote!(::#name)
        }
        // Inside the package itself the library calls itself `mpi`; elsewhere the compiler's message says the most.
        Ok(FoundCrate::Itself) | Err(_) => quote!(::mpi),
    }
}
