//! The program that libFuzzer drives: `WINDROW_FUZZ` names the target. `fuzz/run` builds and runs it.
#![no_main]

use std::sync::LazyLock;

use windrow_fuzz::{Target, target, targets};

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    // libFuzzer's hook ends the process at every panic, also at one that is caught: some libraries panic where they refuse.
    // One that is not caught ends it all the same.
    let _ = std::panic::take_hook();
    let name = std::env::var("WINDROW_FUZZ").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = targets().map(|target| target.name).collect();
        panic!("WINDROW_FUZZ names a target: {}", names.join(", "))
    })
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (CHOSEN.run)(bytes));
