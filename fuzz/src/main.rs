//! The program that libFuzzer drives: `WINDROW_FUZZ` names the target. `fuzz/run` builds and runs it.
#![no_main]

use std::sync::LazyLock;

use windrow_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("WINDROW_FUZZ").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("WINDROW_FUZZ names a target: {}", names.join(", "))
    })
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (CHOSEN.run)(bytes));
