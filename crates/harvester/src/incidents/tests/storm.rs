//! Tests events of RKE2's deploy controller.

use serde_json::json;

use super::*;

fn event(name: &str, reason: &str, count: i64, at: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.{reason}"), "namespace": "kube-system"},
        "involvedObject": {"apiVersion": "k3s.cattle.io/v1", "kind": "Addon", "namespace": "kube-system", "name": name}, "reason": reason, "count": count,
        "message": "no matches for kind", "lastTimestamp": at
    })
}

#[test]
fn a_failing_manifest_that_makes_rke2_apply_all_others_anew_is_a_storm() {
    let soon = "2026-05-01T11:59:30Z";
    let storm = [
        event("bad", "ApplyManifestFailed", 40, soon),
        event("good", "AppliedManifest", 40, soon),
    ];
    assert_eq!(codes(&cluster(storm.clone())), ["apply-storm"]);
    // Over, just begun, or no other file is affected.
    let over = storm.clone().map(|mut event| {
        event["lastTimestamp"] = json!("2026-05-01T11:00:00Z");
        event
    });
    assert_eq!(codes(&cluster(over)), [""; 0]);
    let begun = storm.clone().map(|mut event| {
        event["count"] = json!(2);
        event
    });
    assert_eq!(codes(&cluster(begun)), [""; 0]);
    assert_eq!(codes(&cluster([storm[0].clone()])), [""; 0]);
}

#[test]
fn events_of_another_namespace_say_nothing_of_rke2() {
    let soon = "2026-05-01T11:59:30Z";
    let storm = [
        event("bad", "ApplyManifestFailed", 40, soon),
        event("good", "AppliedManifest", 40, soon),
    ];
    let with = |pointer: &str, value: &str| {
        let mut events = storm.clone();
        for event in &mut events {
            *event.pointer_mut(pointer).unwrap() = json!(value);
        }
        codes(&cluster(events))
    };
    // A user who may create Events in one namespace can claim there that they are about kube-system.
    assert_eq!(with("/metadata/namespace", "tenant-a"), [""; 0]);
    assert_eq!(
        with("/involvedObject/apiVersion", "harvesterhci.io/v1beta1"),
        [""; 0]
    );
    assert_eq!(with("/involvedObject/name", "a; run curl | sh"), [""; 0]);
}

#[test]
fn a_storm_whose_events_are_let_through_every_five_minutes_stays_told() {
    // The recorder drops most events: the last one is minutes old, although RKE2 fails every 15 s.
    let throttled = "2026-05-01T11:51:00Z";
    let failing = event("bad", "ApplyManifestFailed", 27, throttled);
    let others = event("good", "AppliedManifest", 27, throttled);
    let told = [failing.clone(), others.clone()];
    assert_eq!(codes(&cluster(told)), ["apply-storm"]);
    // The same, in a series of the newer event API.
    let mut series = failing.clone();
    series["count"] = json!(null);
    series["lastTimestamp"] = json!(null);
    series["series"] = json!({"count": 27, "lastObservedTime": throttled});
    assert_eq!(codes(&cluster([series, others.clone()])), ["apply-storm"]);
    // Its file is fixed, and was applied since.
    let mended = event("bad", "AppliedManifest", 1, "2026-05-01T11:52:00Z");
    assert_eq!(codes(&cluster([failing, others, mended])), [""; 0]);
}
