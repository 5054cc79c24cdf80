//! The macros of the crate `mpi`, which re-exports it: use them from there, with the features `derive` and `test`.
//!
//! What never happens: the generated code names no type by guess. It asks the compiler for every offset and every
//! field's datatype, so that padding, reordering and nesting are as they are.
#![deny(missing_docs)]

mod crate_path;
mod layout;
mod test_macro;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, ItemFn, parse_macro_input};

/// Implements `mpi::traits::Equivalence`: values of the type can be sent and received.
///
/// It works for structs with named fields, with unnamed fields and with none; fields may be arrays and tuples, nested
/// to any depth, of types that are equivalent themselves. Type and constant parameters are allowed. Bytes between
/// fields are never sent and never written.
///
/// An enum without fields whose representation is declared, as in `#[repr(u8)]`, travels as that integer; a value that
/// it does not have is an error of the receive.
///
/// ```ignore
/// use mpi::traits::*;
///
/// #[derive(Equivalence)]
/// struct Particle {
///     position: [f64; 3],
///     velocity: (f64, f64, f64),
///     alive: bool,
/// }
/// ```
///
/// The crate `mpi` is found under the name that `Cargo.toml` gives it. Where it is reached through another crate, an
/// attribute says how:
///
/// ```ignore
/// #[derive(Equivalence)]
/// #[mpi(crate = "::physics::mpi")]
/// struct Charge(f64);
/// ```
#[proc_macro_derive(Equivalence, attributes(mpi))]
pub fn derive_equivalence(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a test that runs on ranks: `cargo test` starts the test program again under `mpiexec`, once for each rank.
///
/// The function takes nothing, and initialises MPI itself, or it takes the world, `&SimpleCommunicator`. It fails where
/// a rank panics, or returns an error, or takes longer than `timeout_seconds` (60 if it is not given), after which the
/// launcher prints who waits for whom.
///
/// ```ignore
/// use mpi::topology::SimpleCommunicator;
/// use mpi::traits::*;
///
/// #[mpi::test(np = 4)]
/// fn all_know_each_other(world: &SimpleCommunicator) {
///     assert_eq!(world.size(), 4);
/// }
/// ```
///
/// `mpiexec` is what the function gives that `launcher = path::to::function` names (it returns a `PathBuf`), else what
/// the variable `MPI_MPIEXEC` names, else the one beside the test program in Cargo's target directory, else the first in
/// `PATH`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut wishes = test_macro::Wishes::default();
    let parser = syn::meta::parser(|meta| wishes.parse(&meta));
    parse_macro_input!(arguments with parser);
    let function = parse_macro_input!(item as ItemFn);
    test_macro::expand(&wishes, &function).unwrap_or_else(|error| error.into_compile_error()).into()
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let mpi = crate_path::find(input)?;
    match &input.data {
        Data::Struct(data) => layout::of_struct(&mpi, input, &data.fields),
        Data::Enum(data) => layout::of_enum(&mpi, input, data),
        Data::Union(data) => Err(syn::Error::new(
            data.union_token.span,
            "a union has no equivalent datatype: nobody knows which field holds",
        )),
    }
}
