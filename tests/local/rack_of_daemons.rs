//! Real daemons in network namespaces of their own boot at once and report to one `windrow rack`: `tests/rack/play`, with as few
//! machines as there are roles, two of them fine.

use std::process::Command;

#[test]
fn a_rack_says_of_every_real_daemon_what_it_is_who_never_came_and_whose_clock_is_off() {
    let played = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rack/play"))
        .args(["--windrow", env!("CARGO_BIN_EXE_windrow"), "--nodes", "10"])
        .output();
    let played = match played {
        Ok(played) => played,
        Err(error) => {
            return eprintln!("skipped: a rack of daemons needs Debian's python3: {error}");
        }
    };
    let said = String::from_utf8_lossy(&played.stdout) + String::from_utf8_lossy(&played.stderr);
    if played.status.code() == Some(77) {
        return eprintln!("{said}");
    }
    assert!(played.status.success(), "{said}");
}
