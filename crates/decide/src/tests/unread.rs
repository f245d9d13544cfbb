//! Files that RKE2 reads and Windrow does not: a link out of the directory, or a file that is too large.

use super::*;
use crate::why::explain;

/// A node with one entry that was not read, and with kube-apiserver, which has no Addons.
fn node_with(path: &str, content: FileContent) -> Node {
    let mut node = Node::new(&[]);
    node.state.take_directory(Directory {
        files: vec![FileChange {
            path: path.into(),
            content: Some(Arc::new(content)),
        }],
        markers: Vec::new(),
    });
    node.api();
    node
}

fn link() -> FileContent {
    FileContent::SymlinkOutside {
        target: "/opt/x".to_owned(),
    }
}

fn unreadable() -> FileContent {
    FileContent::Unreadable {
        error: "Input/output error".to_owned(),
    }
}

fn addon(path: &str, checksum: &str) -> ClusterEvent {
    let addon = Addon {
        checksum: checksum.to_owned(),
        source: format!("/var/lib/rancher/rke2/server/manifests/{path}"),
    };
    ClusterEvent::Addon(ManifestPath::from(path).addon(), Some(addon))
}

fn why(status: &Status, asked: &str) -> String {
    let answer = explain(status, asked, std::path::Path::new("/m")).unwrap();
    answer.files[0].why.clone()
}

#[test]
fn an_addon_that_rke2_only_began_does_not_say_that_a_file_is_applied() {
    for content in [
        link(),
        unreadable(),
        FileContent::TooLarge { size: 1 << 30 },
    ] {
        let mut node = node_with("a.yaml", content.clone());
        node.observe(addon("a.yaml", ""));
        node.fails("a.yaml", "boom");
        let staging = node.tick().status.staging;
        assert_eq!(staging.applied, [], "{content:?}");
        assert_eq!(staging.failed[0].message, "boom");
        assert!(!staging.settled);
    }
}

#[test]
fn a_file_that_is_not_read_is_applied_once_rke2_says_so_of_some_content() {
    for content in [
        link(),
        unreadable(),
        FileContent::TooLarge { size: 1 << 30 },
    ] {
        let mut node = node_with("a.yaml", content.clone());
        node.observe(addon("a.yaml", "abc"));
        let status = node.tick().status;
        assert_eq!(status.staging.applied.len(), 1, "{content:?}");
        assert!(status.staging.settled && status.staging.applied[0].unread);
        assert!(why(&status, "a.yaml").contains("it cannot tell whether"));
        let mut events = node.events.iter();
        let said = events.find(|event| event.code == Code::Applied).unwrap();
        assert!(said.message.contains("it cannot tell whether"), "{said:?}");
    }
}

#[test]
fn the_addon_of_another_file_says_nothing_of_one_that_is_not_read() {
    let mut node = node_with("a.yaml", link());
    let ClusterEvent::Addon(_, other) = addon("sub/a.yaml", "abc") else {
        unreachable!()
    };
    let name = ManifestPath::from("a.yaml").addon();
    node.observe(ClusterEvent::Addon(name, other));
    assert_eq!(node.tick().status.staging.applied, []);
}

#[test]
fn a_link_at_which_rke2_stops_is_not_applied_whatever_was_once() {
    let target = "nowhere".to_owned();
    let mut node = node_with("a.yaml", FileContent::DanglingSymlink { target });
    node.observe(addon("a.yaml", "abc"));
    let staging = node.tick().status.staging;
    assert_eq!(staging.applied, []);
    assert!(!staging.settled);
}

#[test]
fn nothing_waits_for_a_linked_directory_elsewhere_and_what_is_applied_of_it_is_not_known() {
    let mut node = node_with("custom", link());
    let status = node.tick().status;
    assert!(status.staging.settled);
    assert_eq!(status.phase, Phase::Staged);
    let why = why(&status, "custom");
    assert!(why.contains("cannot tell"), "{why}");
}

/// Reads the directory although this path cannot be read, decides, and returns whether a marker was removed.
fn lifts_without(node: &mut Node, path: &'static str) -> bool {
    node.unreadable = vec![path];
    node.scan();
    let before = node.markers.len();
    node.tick();
    node.markers.len() < before
}

#[test]
fn a_failed_read_lifts_no_hold_and_changes_no_decision() {
    for path in ["sub/vm.yaml", "sub/vm.yaml.skip", "sub"] {
        for step in ["nothing", "configured", "restarted", "ledger lost"] {
            let mut node = Node::on(Some(Platform::Harvester), &[("sub/vm.yaml", VM)]);
            node.tick();
            match step {
                "configured" => {
                    let platform = Some(Platform::Harvester);
                    node.state.configure(Settings::default(), rules(), platform);
                }
                "ledger lost" => node.ledger_on_disk = Ledger::default(),
                _ => {}
            }
            if matches!(step, "restarted" | "ledger lost") {
                node.unreadable = vec![path];
                node.restart();
            }
            let known = |node: &Node| {
                let entry = node.ledger_on_disk.files.get("sub/vm.yaml").cloned();
                entry.map(|entry| (entry.digest.clone(), entry.first_seen, entry.state.clone()))
            };
            let entry = known(&node);
            for _ in 0..3 {
                assert!(!lifts_without(&mut node, path), "{path}, {step}");
                node.later(60);
            }
            if step != "ledger lost" {
                assert_eq!(known(&node), entry, "{path}, {step}");
            }
            node.unreadable.clear();
            node.scan();
            node.tick();
            assert_eq!(node.held(), ["sub/vm.yaml"], "{path}, {step}");
        }
    }
}

#[test]
fn a_file_that_could_not_be_read_is_examined_by_the_settings_in_force_once_it_can_be() {
    let mut node = Node::on(None, &[("vm.yaml", VM)]);
    node.api();
    node.observe(ClusterEvent::Kind(
        GroupKind::new("kubevirt.io", "VirtualMachine"),
        KindSeen::SERVED,
    ));
    let platform = Some(Platform::Harvester);
    node.state.configure(Settings::default(), rules(), platform);
    node.unreadable = vec!["vm.yaml"];
    node.scan();
    node.tick();
    node.unreadable.clear();
    node.scan();
    let rules = node.state.plan().files[0].requirements();
    assert!(rules.into_iter().any(|requirement| !requirement.inferred));
}

#[test]
fn a_failed_read_is_reported_once_and_a_hold_that_does_no_harm_ends_after_a_while() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    node.tick();
    node.observe(ClusterEvent::Kind(kind, KindSeen::SERVED));
    for _ in 0..2 {
        assert!(!lifts_without(&mut node, "a.yaml"), "it may have changed");
    }
    let reported = node.reported_codes();
    let count = reported
        .iter()
        .filter(|code| **code == Code::FileUnreadable);
    assert_eq!(count.count(), 1);
    node.later(10);
    assert!(lifts_without(&mut node, "a.yaml"));
    // A new process knows only that the file was held.
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.tick();
    node.unreadable = vec!["a.yaml"];
    node.restart();
    node.api();
    assert!(!lifts_without(&mut node, "a.yaml"));
    node.later(10);
    assert!(lifts_without(&mut node, "a.yaml"));
    assert!(node.reported_codes().contains(&Code::Yielded));
}

#[test]
fn what_was_released_stays_so_while_it_cannot_be_read_and_after_it() {
    for restarts in [false, true] {
        let mut node = Node::new(&[("a.yaml", &free("a"))]);
        node.api();
        node.tick();
        node.applied("a.yaml");
        node.tick();
        node.unreadable = vec!["a.yaml"];
        if restarts {
            node.restart();
        }
        assert!(!lifts_without(&mut node, "a.yaml"));
        let entry = node.ledger_on_disk.files["a.yaml"].state.clone();
        assert!(matches!(entry, FileStage::Applied { .. }), "{entry:?}");
        assert_eq!(node.held(), [""; 0]);
    }
}

#[test]
fn what_cannot_be_read_is_let_go_by_a_person_who_orders_that_meanwhile_and_by_no_earlier_order() {
    let release = |node: &mut Node| {
        let manual = Manual {
            hold: false,
            by: "root".to_owned(),
            at: node.now,
            reason: "testing".to_owned(),
        };
        let (path, released) = ("vm.yaml".into(), BTreeMap::new());
        let done = node
            .state
            .hold_or_release(&path, &released, manual, node.now);
        done.unwrap();
    };
    let mut node = Node::on(Some(Platform::Harvester), &[("vm.yaml", VM)]);
    node.tick();
    assert!(!lifts_without(&mut node, "vm.yaml"));
    node.later(1);
    release(&mut node);
    assert!(lifts_without(&mut node, "vm.yaml"));
    // Other content was written since then, and has its mark.
    let mark = Mark::provisional(&"vm.yaml".into(), node.now);
    node.markers.insert(marker_of("vm.yaml"), Some(mark));
    node.unreadable.clear();
    node.scan();
    node.unreadable = vec!["vm.yaml"];
    node.later(1);
    assert!(!lifts_without(&mut node, "vm.yaml"));
}

#[test]
fn a_directory_that_was_never_read_is_unknown_and_no_file_counts_as_gone() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.tick();
    let known = node.state.ledger().files.clone();
    assert_eq!(known.len(), 1);
    // A new process.
    let platform = node.state.plan().platform;
    node.state = new_state(node.ledger_on_disk.clone(), platform, node.now);
    node.api();
    node.state
        .keep_directory("/m", "Input/output error", node.now);
    let Decision { status, events, .. } = node.tick();
    assert_eq!(status.readiness, Readiness::Unknown);
    assert_eq!(status.reason.code, Code::ManifestsUnreadable);
    assert_eq!(
        status.reason.message,
        "/m cannot be read: Input/output error"
    );
    assert!(!status.staging.settled);
    assert_eq!(status.findings[0].code, Code::ManifestsUnreadable);
    assert_eq!(events, []);
    assert_eq!(node.state.ledger().files, known);
    // An empty result is also an answer.
    node.markers.clear();
    node.state.take_directory(Directory::default());
    let status = node.tick().status;
    assert!(status.staging.settled && status.findings.is_empty());
    // A directory that was missing, and cannot be read when it appears, was never read.
    node.state.take_missing();
    node.state
        .keep_directory("/m", "Input/output error", node.now);
    let reason = node.tick().status.reason;
    assert_eq!(reason.code, Code::ManifestsUnreadable);
}

#[test]
fn markers_stay_while_the_directory_cannot_be_read() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    node.state
        .keep_directory("/m", "Input/output error", node.now);
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind, KindSeen::SERVED));
    let status = node.tick().status;
    assert_eq!(node.held(), ["a.yaml"], "its content may be another one");
    assert_eq!(
        status.findings.last().unwrap().code,
        Code::ManifestsUnreadable
    );
    node.scan();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_hold_by_hand_survives_a_lost_ledger_if_its_marker_cannot_be_read_at_first() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    let manual = Manual {
        hold: true,
        by: "root".to_owned(),
        at: node.now,
        reason: "testing".to_owned(),
    };
    node.state
        .hold_or_release(&"a.yaml".into(), &BTreeMap::new(), manual, node.now)
        .unwrap();
    node.tick();
    node.ledger_on_disk = Ledger::default();
    node.unreadable = vec!["a.yaml.skip"];
    node.later(1);
    node.restart();
    node.api();
    node.tick();
    node.unreadable.clear();
    node.scan();
    let status = node.tick().status;
    assert_eq!(node.held(), ["a.yaml"]);
    assert_eq!(status.staging.held[0].code, Code::HeldByHand);
}

/// A user holds `sub/a.yaml`, or releases its present content.
fn order(node: &mut Node, hold: bool) -> Result<(), OrderError> {
    let path: ManifestPath = "sub/a.yaml".into();
    let manual = Manual {
        hold,
        by: "root".to_owned(),
        at: node.now,
        reason: "testing".to_owned(),
    };
    let limits = windrow_model::manifest::ReadLimits::default();
    let content = FileContent::Bytes(node.files[path.as_str()].clone().into_bytes());
    let read = windrow_model::manifest::read(&path, &content, &limits);
    let released = BTreeMap::from([(path.clone(), read.digest.to_string())]);
    node.state
        .hold_or_release(&path, &released, manual, node.now)
}

#[test]
fn an_order_about_what_a_new_process_cannot_read_is_not_refused_and_counts_later() {
    for unreadable in ["sub/a.yaml.skip", "sub/a.yaml", "sub"] {
        for is_ledger_lost in [false, true] {
            let mut node = Node::new(&[("sub/a.yaml", &free("a"))]);
            node.api();
            order(&mut node, true).unwrap();
            node.tick();
            assert_eq!(node.held(), ["sub/a.yaml"]);
            if is_ledger_lost {
                node.ledger_on_disk = Ledger::default();
            }
            node.later(1);
            node.unreadable = vec![unreadable];
            node.restart();
            node.api();
            let released = order(&mut node, false);
            assert!(
                matches!(released, Err(OrderError::NotNow(_))),
                "{unreadable}, {is_ledger_lost}: {released:?}"
            );
            node.tick();
            node.unreadable.clear();
            node.scan();
            order(&mut node, false).unwrap();
            node.tick();
            assert_eq!(node.held(), [""; 0], "{unreadable}, {is_ledger_lost}");
        }
    }
}

#[test]
fn a_hold_about_a_marker_that_a_new_process_cannot_read_is_not_refused() {
    let mut node = Node::new(&[("sub/a.yaml", &free("a"))]);
    order(&mut node, true).unwrap();
    node.tick();
    node.unreadable = vec!["sub/a.yaml.skip"];
    node.restart();
    let held = order(&mut node, true);
    assert!(matches!(held, Err(OrderError::NotNow(_))), "{held:?}");
    // A marker from another program is read, and causes a rejection.
    node.unreadable.clear();
    node.markers.insert(marker_of("sub/a.yaml"), None);
    node.scan();
    let held = order(&mut node, true);
    assert!(matches!(held, Err(OrderError::Refused(_))), "{held:?}");
}
