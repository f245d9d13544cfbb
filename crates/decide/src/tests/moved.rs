//! Files that are moved to another directory.

use super::*;

fn move_file(node: &mut Node, from: &str, to: &str) {
    let text = node.files.remove(from).unwrap();
    node.files.insert(to.to_owned(), text);
    node.scan();
}

#[test]
fn a_file_that_was_released_by_hand_stays_so_where_it_is_moved_and_over_a_restart() {
    let mut node = Node::new(&[("x.yaml", WIDGET)]);
    node.tick();
    assert_eq!(node.held(), ["x.yaml"]);
    release(&mut node, "x.yaml");
    node.tick();
    for (from, to) in [("x.yaml", "sub/x.yaml"), ("sub/x.yaml", "0/x.yaml")] {
        move_file(&mut node, from, to);
        node.tick();
        assert_eq!(node.held(), [""; 0]);
        node.restart();
        node.tick();
        assert_eq!(node.held(), [""; 0]);
    }
    let other = WIDGET.replace("name: ", "name: another-");
    node.files.insert("0/x.yaml".to_owned(), other);
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["0/x.yaml"], "other content was not released");
}

/// Its marker says so, even to a process without the ledger.
#[test]
fn a_file_that_was_applied_once_stays_so_where_it_is_moved_and_over_a_lost_ledger() {
    let once = annotated("a", "windrow.dev/apply: once");
    let mut node = Node::new(&[("a.yaml", &once)]);
    node.api();
    node.tick();
    node.applied("a.yaml");
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    // RKE2 has applied other bytes with the same objects.
    let text = format!("{once}# a comment\n");
    node.files.insert("a.yaml".to_owned(), text);
    node.scan();
    node.tick();
    move_file(&mut node, "a.yaml", "sub/a.yaml");
    for _ in 0..2 {
        node.ledger_on_disk = Ledger::default();
        node.restart();
        node.tick();
        let mark = node.markers["a.yaml.skip"].as_ref().unwrap();
        assert_eq!(mark.on_failure, OnFailure::Keep);
        assert_eq!(mark.code, Code::OnceUnconfirmed);
        assert_eq!(mark.file.as_str(), "sub/a.yaml");
    }
}

#[test]
fn a_failure_of_a_file_that_is_gone_is_of_no_other_file_of_its_addon() {
    let mut node = Node::new(&[("x.yaml", &free("x")), ("x.yml", &free("y"))]);
    node.api();
    node.tick();
    node.later(1);
    let why =
        "Applying manifest at \"/var/lib/rancher/rke2/server/manifests/x.yml\" failed: refused";
    node.fails("x.yml", why);
    let failed = |decision: Decision| {
        let failed = decision.status.staging.failed.into_iter();
        failed.map(|file| file.file.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(failed(node.tick()), ["x.yml"]);
    node.files.remove("x.yml");
    node.scan();
    assert_eq!(failed(node.tick()), [""; 0]);
}
