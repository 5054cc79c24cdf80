//! Everything scripted.
fn main() {}
