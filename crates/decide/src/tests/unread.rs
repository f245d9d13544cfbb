//! Files that RKE2 reads and Windrow does not: a link out of the directory, one that is too large.

use super::*;
use crate::why::explain;

/// A node with one entry that was not read, and kube-apiserver, which knows of no Addons.
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

/// RKE2's Addon of this file, with this checksum.
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
        assert!(why(&status, "a.yaml").contains("it is not known whether"));
        let mut events = node.events.iter();
        let said = events.find(|event| event.code == Code::Applied).unwrap();
        assert!(said.message.contains("it is not known whether"), "{said:?}");
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
    assert!(why.contains("not known"), "{why}");
}
