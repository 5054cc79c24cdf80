//! From `#[mpi::test]` to a test function that starts itself on ranks.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, FnArg, ItemFn, LitInt, LitStr, Path, ReturnType, Token};

/// What the attribute asks for.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Number of ranks.
    np: Option<LitInt>,
    /// Seconds that a run may take.
    timeout: Option<LitInt>,
    /// A function that gives the path of the launcher.
    launcher: Option<Path>,
    /// Where the crate `mpi` is.
    path: Option<Path>,
}

impl Wishes {
    /// Reads one part of the attribute's arguments.
    pub(crate) fn parse(&mut self, meta: &syn::meta::ParseNestedMeta<'_>) -> syn::Result<()> {
        let twice = |is: bool| if is { Err(meta.error("given twice")) } else { Ok(()) };
        if meta.path.is_ident("np") {
            let number: LitInt = meta.value()?.parse()?;
            match number.base10_parse::<u32>() {
                Ok(1..) => {}
                _ => return Err(Error::new_spanned(number, "at least one rank is needed")),
            }
            twice(self.np.replace(number).is_some())
        } else if meta.path.is_ident("timeout_seconds") {
            let number: LitInt = meta.value()?.parse()?;
            match number.base10_parse::<u32>() {
                Ok(1..) => {}
                _ => return Err(Error::new_spanned(number, "at least one second is needed")),
            }
            twice(self.timeout.replace(number).is_some())
        } else if meta.path.is_ident("launcher") {
            twice(self.launcher.replace(meta.value()?.parse()?).is_some())
        } else if meta.path.is_ident("crate") {
            let path: LitStr = meta.value()?.parse()?;
            twice(self.path.replace(path.parse()?).is_some())
        } else {
            Err(meta
                .error("expected `np = RANKS`, `timeout_seconds = SECONDS`, `launcher = FUNCTION` or `crate = \"path::to::mpi\"`"))
        }
    }
}

/// The test function around the given one.
pub(crate) fn expand(wishes: &Wishes, function: &ItemFn) -> syn::Result<TokenStream> {
    let Some(np) = &wishes.np else {
        let text = "how many ranks? as in `#[mpi::test(np = 4)]`";
        return Err(Error::new_spanned(&function.sig.ident, text));
    };
    let mpi = match &wishes.path {
        Some(path) => quote!(#path),
        None => crate::crate_path::by_name(),
    };
    let call = call(function)?;
    let (name, attributes) = (&function.sig.ident, &function.attrs);
    let (inputs, block, output) = (&function.sig.inputs, &function.block, &function.sig.output);
    let (text, timeout, launcher) = (name.to_string(), option(&wishes.timeout), option(&wishes.launcher));
    let result = match output {
        ReturnType::Default => quote!(let () = #call;),
        ReturnType::Type(..) => quote! {
            if let ::core::result::Result::Err(error) = #call {
                #[allow(unused_imports)]
                use #mpi::ext::testing::{ByDebug as _, ByDisplay as _};
                ::std::panic!("the test returned an error: {}", (&#mpi::ext::testing::Told(&error)).told());
            }
        },
    };
    Ok(quote! {
        #(#attributes)*
        #[::core::prelude::v1::test]
        fn #name() {
            fn body(#inputs) #output #block
            #mpi::ext::testing::run(::core::module_path!(), #text, #np, #timeout, #launcher, |world| {
                let _ = world;
                #result
            });
        }
    })
}

fn option(value: &Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// The call of the function: with the world, if it asks for it.
fn call(function: &ItemFn) -> syn::Result<TokenStream> {
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        return Err(Error::new_spanned(
            token,
            "a test on ranks is no async function: it may run an executor",
        ));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(&sig.generics, "a test has no parameters of types"));
    }
    let inputs: &syn::punctuated::Punctuated<FnArg, Token![,]> = &sig.inputs;
    match inputs.len() {
        0 => Ok(quote!(body())),
        1 => Ok(quote!(body(world()))),
        _ => Err(Error::new_spanned(inputs, "a test takes nothing, or the world: `&SimpleCommunicator`")),
    }
}
