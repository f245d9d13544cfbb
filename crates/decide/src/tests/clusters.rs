//! The entries of a ledger that count after a change of the cluster, or after its datastore was reset.

use super::*;

fn identity(ca: &str, datastore: Option<&str>) -> ClusterIdentity {
    ClusterIdentity {
        datastore: datastore.map(str::to_owned),
        ..of_ca(ca)
    }
}

fn of_ca(ca: &str) -> ClusterIdentity {
    ClusterIdentity {
        ca: Some(ca.to_owned()),
        datastore: None,
    }
}

#[test]
fn what_rke2_applied_counts_only_while_the_cluster_knows_of_it() {
    let text = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let once = annotated("b", "windrow.dev/apply: once");
    let mut node = Node::new(&[("a.yaml", &text), ("b.yaml", &once), ("c.yaml", &free("c"))]);
    node.api();
    node.exists(config_map("x"));
    node.tick();
    for file in ["a.yaml", "b.yaml", "c.yaml"] {
        node.applied(file);
    }
    let applied = node.tick().status.staging.applied;
    assert_eq!(applied.len(), 2);
    // As long as no API answers, the last answer counts.
    node.restart();
    assert_eq!(node.tick().status.staging.applied.len(), 2);
    assert_eq!(node.held(), ["b.yaml"]);
    // The datastore was reset to a time before the files.
    node.api();
    node.observe(ClusterEvent::Object(config_map("x"), ObjectSeen::Absent));
    let decision = node.tick();
    assert_eq!(decision.status.staging.applied.len(), 0);
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
    let waiting = Addon {
        checksum: String::new(),
        source: "/var/lib/rancher/rke2/server/manifests/c.yaml".to_owned(),
    };
    node.observe(ClusterEvent::Addon("c".into(), Some(waiting)));
    assert_eq!(node.tick().status.staging.applied.len(), 0);
    node.applied("c.yaml");
    assert_eq!(node.tick().status.staging.applied.len(), 1);
}

#[test]
fn a_ledger_outlives_a_new_certificate_authority_and_no_new_datastore() {
    let mut node = Node::new(&[("a.yaml", &waits_for("a", "/Node/x (exists)"))]);
    node.api();
    node.tick();
    let release = Manual {
        hold: false,
        by: "root".to_owned(),
        at: node.now,
        reason: "now".to_owned(),
    };
    node.state
        .hold_or_release(&"a.yaml".into(), &BTreeMap::new(), release, node.now)
        .unwrap();
    // An older ledger has no datastore.
    assert_eq!(node.state.set_cluster(of_ca("one")), None);
    assert_eq!(node.state.set_cluster(identity("one", Some("d"))), None);
    assert_eq!(node.state.set_cluster(identity("two", Some("d"))), None);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    // `rm -rf server/db`: until RKE2 has started, there is none.
    let told = node.state.set_cluster(of_ca("two")).unwrap();
    assert_eq!(told.code, Code::NewCluster);
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    assert_eq!(node.state.set_cluster(identity("two", Some("e"))), None);
}

#[test]
fn a_ledger_of_a_former_cluster_lets_nothing_through_in_a_new_one() {
    let text = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", &text), ("b.yaml", &free("b"))]);
    assert_eq!(node.state.set_cluster(ClusterIdentity::default()), None);
    node.api();
    node.tick();
    assert_eq!(node.state.set_cluster(of_ca("one")), None);
    let hold = Manual {
        hold: true,
        by: "root".to_owned(),
        at: node.now,
        reason: "mine".to_owned(),
    };
    node.state
        .hold_or_release(&"b.yaml".into(), &BTreeMap::new(), hold, node.now)
        .unwrap();
    node.exists(config_map("x"));
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    assert_eq!(node.ledger_on_disk.cluster.as_deref(), Some("one"));
    node.restart();
    assert_eq!(
        node.state.set_cluster(of_ca("one")),
        None,
        "the same cluster"
    );
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    // RKE2 is removed and installed again: it has no CA until it starts for the first time.
    node.restart();
    let told = node.state.set_cluster(ClusterIdentity::default()).unwrap();
    assert_eq!(told.code, Code::NewCluster);
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
}

#[test]
fn what_is_known_of_the_cluster_is_written_before_anything_is_lifted() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    node.state.set_cluster(of_ca("one"));
    assert!(matches!(node.tick().actions[..], [Action::SaveLedger(_)]));
    assert_eq!(node.tick().actions, []);
}

/// A node whose file `a.yaml` RKE2 has applied in the cluster `one`, and whose daemon still runs.
fn applied_in_one() -> Node {
    let text = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", &text)]);
    node.state.set_cluster(identity("one", Some("d")));
    node.api();
    node.tick();
    node.exists(config_map("x"));
    node.tick();
    node.applied("a.yaml");
    node.fails("a.yaml", "an earlier failure");
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    node
}

#[test]
fn what_was_known_of_a_former_cluster_lets_nothing_through_while_the_daemon_stays() {
    for now in [
        identity("one", Some("e")),
        identity("two", Some("e")),
        of_ca("one"),
    ] {
        let mut node = applied_in_one();
        let event = node.state.set_cluster(now.clone());
        assert_eq!(event.unwrap().code, Code::NewCluster);
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "{now:?}");
        let known = node.state.observation();
        assert!(known.addons.is_none() && known.addons_as_first.is_empty());
        assert!(known.kinds.is_empty() && known.objects.is_empty());
        assert!(known.failures.is_empty() && known.api.first_reachable.is_none());
        node.restart();
        assert_eq!(node.state.set_cluster(now), None);
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "the ledger says the same");
    }
}

#[test]
fn what_was_applied_once_in_a_former_cluster_is_applied_in_the_new_one_if_the_directory_is_read_in_between()
 {
    let once = annotated("b", "windrow.dev/apply: once");
    let mut node = Node::new(&[("b.yaml", &once)]);
    node.state.set_cluster(identity("one", Some("d")));
    node.api();
    node.tick();
    node.applied("b.yaml");
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    node.state.set_cluster(identity("two", Some("e"))).unwrap();
    // For example, another part of a large directory.
    node.scan();
    let decision = node.tick();
    assert_eq!(decision.status.staging.held[0].code, Code::OnceUnconfirmed);
    let renewed = node.state.interests().renewed;
    node.observe(ClusterEvent::SessionBegins { renewed });
    node.api();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn another_cluster_ends_no_hold_of_a_file_that_is_gone_for_a_moment() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(Some(Platform::Harvester), &[("vm.yaml", vm)]);
    node.state.set_cluster(identity("one", Some("d1")));
    node.tick();
    node.files.clear();
    node.scan();
    node.tick();
    node.state.set_cluster(identity("one", Some("d2")));
    node.tick();
    assert_eq!(node.held(), ["vm.yaml"]);
}

#[test]
fn what_waits_in_a_former_cluster_waits_anew_in_the_new_one_if_the_directory_is_read_in_between() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.state.set_cluster(identity("one", Some("d")));
    node.api();
    node.tick();
    node.later(60);
    let late = format!("{}---\n{WIDGET}", free("late"));
    node.files.insert("b.yaml".to_owned(), late);
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    node.state.set_cluster(identity("two", Some("e"))).unwrap();
    // For example, another part of a large directory.
    node.scan();
    node.tick();
    assert_eq!(
        node.held(),
        ["b.yaml"],
        "kube-apiserver of the new cluster has not answered yet"
    );
}
