//! A few power cuts between the writes of a disk on which a daemon and a rack work; `tests/soak/cuts` by itself makes as many as you like.

use std::process::Command;

#[test]
fn after_a_power_cut_between_any_two_writes_all_that_was_acknowledged_is_there() {
    let place = tempfile::tempdir().expect("a directory");
    let cuts = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soak/cuts"))
        .args(["--windrow", env!("CARGO_BIN_EXE_windrow")])
        .args(["--cuts", "24", "--seconds", "6", "--out"])
        .arg(place.path().join("cuts"))
        .output();
    let cuts = match cuts {
        Ok(cuts) => cuts,
        Err(error) => {
            return eprintln!("skipped: power cuts need Debian's python3: {error}");
        }
    };
    let said = String::from_utf8_lossy(&cuts.stdout) + String::from_utf8_lossy(&cuts.stderr);
    if cuts.status.code() == Some(77) {
        return eprintln!("{said}");
    }
    assert!(cuts.status.success(), "{said}");
}
