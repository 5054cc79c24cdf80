//! From fields to the code that builds a datatype.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::visit::Visit;
use syn::{DataEnum, DeriveInput, Error, Fields, Generics, Index, Path, Type, parse_quote};

/// The implementation for a struct.
pub(crate) fn of_struct(mpi: &TokenStream, input: &DeriveInput, fields: &Fields) -> syn::Result<TokenStream> {
    let mut leaves = Vec::new();
    let parts = fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let member = match &field.ident {
                Some(name) => name.to_token_stream(),
                None => Index::from(i).to_token_stream(),
            };
            let layout = of_type(mpi, &field.ty, &mut leaves)?;
            Ok(quote!((::core::mem::offset_of!(Self, #member), #layout)))
        })
        .collect::<syn::Result<Vec<_>>>()?;

    let layout = quote!(#mpi::datatype::internal::Layout::of_struct::<Self>(::std::vec![#(#parts),*]));
    Ok(implementation(mpi, input, &leaves, &layout))
}

/// The implementation for an enum without fields.
pub(crate) fn of_enum(mpi: &TokenStream, input: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let (repr, bits) = representation(input)?;
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let text = "an enum whose variants hold fields has no equivalent datatype: send a struct";
            return Err(Error::new_spanned(variant, text));
        }
    }
    if data.variants.is_empty() {
        return Err(Error::new_spanned(&input.ident, "an enum without variants has no values to send"));
    }
    let (name, text) = (&input.ident, input.ident.to_string());
    let variants = data.variants.iter().map(|variant| &variant.ident);
    let layout = quote!({
        static VALUES: #mpi::datatype::internal::Values = #mpi::datatype::internal::Values {
            name: #text,
            bits: &[#((#name::#variants as #repr) as #bits as u64),*],
        };
        #mpi::datatype::internal::Layout::of_enum::<#repr>(&VALUES)
    });
    Ok(implementation(mpi, input, &[], &layout))
}

/// The integer that represents an enum, and the one of the same width without sign.
fn representation(input: &DeriveInput) -> syn::Result<(TokenStream, TokenStream)> {
    let mut found = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            found = match meta.path.to_token_stream().to_string().as_str() {
                "u8" | "i8" => Some((meta.path.to_token_stream(), quote!(u8))),
                "u16" | "i16" => Some((meta.path.to_token_stream(), quote!(u16))),
                "u32" | "i32" => Some((meta.path.to_token_stream(), quote!(u32))),
                "u64" | "i64" => Some((meta.path.to_token_stream(), quote!(u64))),
                "usize" | "isize" => Some((meta.path.to_token_stream(), quote!(usize))),
                _ => return Err(meta.error("an integer of 8 to 64 bits is needed, as in `#[repr(u8)]`")),
            };
            Ok(())
        })?;
    }
    found.ok_or_else(|| {
        let text = "the representation of the enum must be declared, as in `#[repr(u8)]`";
        Error::new_spanned(&input.ident, text)
    })
}

/// The implementation of the trait around the expression for a layout.
fn implementation(
    mpi: &TokenStream,
    input: &DeriveInput,
    leaves: &[Type],
    layout: &TokenStream,
) -> TokenStream {
    let name = &input.ident;
    let generics = bounded(mpi, &input.generics, leaves);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let text = name.to_string();
    // A `static` cannot depend on parameters, so that the datatypes of a generic type are found by its id.
    let slot = if has_parameters(&input.generics) {
        quote!(#mpi::datatype::internal::slot_of::<Self>())
    } else {
        quote!({
            static SLOT: #mpi::datatype::internal::Slot = #mpi::datatype::internal::Slot::new();
            &SLOT
        })
    };
    quote! {
        unsafe impl #impl_generics #mpi::datatype::Equivalence for #name #type_generics #where_clause {
            type Out = #mpi::datatype::DatatypeRef<'static>;
            fn equivalent_datatype() -> Self::Out {
                #slot.get_or_build(#text, || #layout.commit())
            }
        }
    }
}

/// The expression for the layout of a type; `leaves` collects the types that must be equivalent themselves.
fn of_type(mpi: &TokenStream, ty: &Type, leaves: &mut Vec<Type>) -> syn::Result<TokenStream> {
    match ty {
        Type::Paren(inner) => of_type(mpi, &inner.elem, leaves),
        Type::Group(inner) => of_type(mpi, &inner.elem, leaves),
        Type::Path(_) | Type::Macro(_) => {
            leaves.push(ty.clone());
            Ok(quote!(#mpi::datatype::internal::Layout::of::<#ty>()))
        }
        Type::Array(array) => {
            let (element, len) = (of_type(mpi, &array.elem, leaves)?, &array.len);
            Ok(quote!(#mpi::datatype::internal::Layout::of_array(#len, #element)))
        }
        Type::Tuple(tuple) => {
            let parts = tuple
                .elems
                .iter()
                .enumerate()
                .map(|(i, element)| {
                    let (member, layout) = (Index::from(i), of_type(mpi, element, leaves)?);
                    Ok(quote!((::core::mem::offset_of!(#tuple, #member), #layout)))
                })
                .collect::<syn::Result<Vec<_>>>()?;
            Ok(quote!(#mpi::datatype::internal::Layout::of_struct::<#tuple>(::std::vec![#(#parts),*])))
        }
        other => Err(Error::new_spanned(
            other,
            "this type has no equivalent datatype: a field must be a named type, an array or a tuple",
        )),
    }
}

fn has_parameters(generics: &Generics) -> bool {
    generics.type_params().next().is_some() || generics.const_params().next().is_some()
}

/// Adds the bounds that the generated code needs.
fn bounded(mpi: &TokenStream, generics: &Generics, leaves: &[Type]) -> Generics {
    let mut bounded = generics.clone();
    if !has_parameters(generics) {
        return bounded;
    }
    let clause = bounded.make_where_clause();
    for leaf in leaves.iter().filter(|leaf| mentions_parameter(generics, leaf)) {
        clause.predicates.push(parse_quote!(#leaf: #mpi::datatype::Equivalence));
    }
    clause.predicates.push(parse_quote!(Self: 'static));
    bounded
}

fn mentions_parameter(generics: &Generics, ty: &Type) -> bool {
    struct Search<'a>(&'a Generics, bool);
    impl<'a> Visit<'a> for Search<'a> {
        fn visit_path(&mut self, path: &'a Path) {
            let is_parameter = |p: &syn::TypeParam| path.segments.first().is_some_and(|s| s.ident == p.ident);
            self.1 |= self.0.type_params().any(is_parameter);
            syn::visit::visit_path(self, path);
        }
    }
    let mut search = Search(generics, false);
    search.visit_type(ty);
    search.1
}
