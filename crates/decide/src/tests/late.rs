//! Released files that RKE2 does not apply, or does not report as applied.

use super::*;

/// Why a released file is not applied, as far as Windrow knows, and the reason of the status.
fn late(node: &mut Node) -> (Option<String>, StatusReason) {
    let status = node.tick().status;
    let [released] = &status.staging.released[..] else {
        panic!("{:?}", status.staging);
    };
    (released.late.clone(), status.reason)
}

#[test]
fn a_file_that_rke2_has_not_applied_after_twenty_passes_is_named() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.tick();
    node.later(10);
    node.api();
    assert_eq!(late(&mut node).0, None, "RKE2 could not apply it before");
    let from = node.tick().late_from;
    assert_eq!(from, Some(node.now + SignedDuration::from_mins(5)));
    node.later(5);
    let (why, reason) = late(&mut node);
    let why = why.unwrap();
    assert_eq!(why, "there is neither an Addon a nor a failure of it");
    assert_eq!(reason.code, Code::NotApplied);
    assert!(reason.message.contains("a.yaml") && reason.message.contains(&why));
    assert_eq!(node.tick().late_from, None);

    node.applied("a.yaml");
    let status = node.tick().status;
    assert_eq!(status.staging.applied[0].late, None);
    assert_ne!(status.reason.code, Code::NotApplied);
}

#[test]
fn what_is_known_of_a_file_that_is_late_is_said() {
    // RKE2 has failed with the content before, and with this one without an event.
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    node.tick();
    node.fails("a.yaml", "quota exceeded");
    node.later(1);
    let mended = format!("{}data: {{a: b}}\n", free("a"));
    node.files.insert("a.yaml".to_owned(), mended);
    node.scan();
    node.tick();
    node.later(5);
    let why = late(&mut node).0.unwrap();
    assert!(why.ends_with(": quota exceeded"), "{why}");

    // Another server has applied its own file with this name.
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    let (name, mut addon) = node.addon_of_applied("a.yaml");
    "0".clone_into(&mut addon.checksum);
    node.observe(ClusterEvent::Addon(name, Some(addon)));
    node.tick();
    node.later(5);
    let why = late(&mut node).0.unwrap();
    assert!(
        why.contains("another content, from /var/lib/rancher/rke2/server/manifests/a.yaml"),
        "{why}"
    );
}

#[test]
fn nothing_is_late_while_it_is_not_known_what_rke2_applies() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.observe(ClusterEvent::ApiReachable);
    node.tick();
    node.later(30);
    assert_eq!(late(&mut node).0, None, "the Addons were not listed");
    node.api();
    assert!(late(&mut node).0.is_some());
    node.observe(ClusterEvent::ApiUnreachable {
        why: "connection refused".to_owned(),
    });
    let (why, reason) = late(&mut node);
    assert_eq!((why, reason.code), (None, Code::ApiUnreachable));
}
