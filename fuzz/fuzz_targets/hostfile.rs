//! Hostfiles and lists of hosts: any text is hosts or an error with its place.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The launcher is a program and no library; its reader of hostfiles stands alone.
#[allow(dead_code)]
#[path = "../../crates/mpiexec/src/hosts/hostfile.rs"]
mod hostfile;

fuzz_target!(|text: &str| {
    for result in [hostfile::file(text), hostfile::list(text)] {
        match result {
            Ok(entries) => {
                assert!(entries.len() <= hostfile::HOSTS_MAX);
                assert!(entries.iter().all(|e| !e.host.is_empty() && !e.host.starts_with('-')));
            }
            Err(fault) => assert!(fault.line >= 1 && fault.column >= 1),
        }
    }
});
