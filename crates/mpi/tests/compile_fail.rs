//! The safety rules that the compiler holds: programs that break one do not build.

#[test]
fn broken_rules_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}
