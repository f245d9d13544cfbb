//! The free space that a release asks for in an annotation of its Version.

use super::*;

fn asking(least: &str) -> Build {
    let mut build = Build::new("v1.4.3");
    build.to = Some("v1.5.0".parse().unwrap());
    build.space("n3", 100, 60);
    build.add(
        "harvesterhci.io/v1beta1",
        "Version",
        "harvester-system/v1.5.0",
        json!({"annotations": {"harvesterhci.io/minFreeDiskSpaceGB": least}}),
    );
    build
}

#[test]
fn a_release_may_ask_for_another_amount_of_free_space() {
    asking("40").is("space-on-system", Pass, "");
    asking("41").is("space-on-system", Fail, "Node n3");
    let mut small = asking("20");
    small.space("n3", 100, 80);
    small.is("space-on-system", Pass, "");
}

#[test]
fn an_amount_that_harvester_cannot_read_blocks_the_upgrade() {
    for amount in ["40Gi", "+40", ""] {
        asking(amount).is("space-on-system", Fail, "minFreeDiskSpaceGB");
    }
}
