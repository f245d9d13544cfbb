//! `windrow rack` towards who sends events in the name of a node, and towards other users of its machine.

use serde_json::{Value, json};

use crate::rack::{Serving, Site, event, post, text};

#[tokio::test]
async fn a_forged_event_does_not_end_the_wait_and_the_next_one_of_the_node_counts() {
    let site = Site::new();
    site.file("nodes.yaml", "- {name: a, host: n1}\n");
    let rack = Serving::start(site.rack("--listen 127.0.0.1:0 --nodes nodes.yaml"));
    let says = |word: &str| json!({"readiness": word});
    for (sequence, word) in [(5, "SettingUp"), (u64::MAX, "Ready")] {
        assert_eq!(
            post(rack.port, event("n1", sequence, says(word))).await,
            202
        );
    }
    let here = format!("--listen 127.0.0.1:{}", rack.port);
    let waited = site.run(&format!("{here} --wait ready --timeout 1s"));
    assert_eq!(waited.status.code(), Some(5), "{waited:?}");
    assert!(text(&waited.stdout).contains("gave up:"), "{waited:?}");

    assert_eq!(post(rack.port, event("n1", 6, says("Failed"))).await, 202);
    let once = site.run(&format!("{here} --once -o json"));
    let view: Value = serde_json::from_slice(&once.stdout).unwrap();
    let row = &view["nodes"][0];
    assert_eq!(row["readiness"], "Failed", "{row:#}");
    let note = row["notes"][0].as_str().unwrap();
    assert!(note.contains("5 to 18446744073709551615"), "{note}");
}

#[tokio::test]
async fn a_rack_on_loopback_asks_every_user_for_its_token() {
    let site = Site::new();
    let rack = Serving::start(site.rack("--listen 127.0.0.1:0 --token-file token"));
    assert_eq!(post(rack.port, event("n1", 1, json!({}))).await, 401);
    let once = format!("--once --listen 127.0.0.1:{}", rack.port);
    let refused = site.run(&once);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let shown = site.run(&format!("{once} --token-file token"));
    assert!(
        text(&shown.stdout).contains("no node has reported"),
        "{shown:?}"
    );
}
