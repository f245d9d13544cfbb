//! Files that require objects that RKE2 applies before them in the same pass.

use super::*;

fn space(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn object(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

fn space_id() -> ObjectRef {
    ObjectRef::cluster("", "Namespace", "t")
}

fn pair() -> Node {
    Node::new(&[("a.yaml", &space("t")), ("b.yaml", &object("o", "t"))])
}

fn state_of(node: &Node, path: &str) -> FileStage {
    node.state.ledger().files[path].state.clone()
}

const RELIES: FileStage = FileStage::Released {
    cause: Cause::SamePass,
};

#[test]
fn a_file_is_released_with_the_one_that_brings_its_namespace_and_says_why() {
    let mut node = pair();
    let decision = node.tick();
    assert_eq!(node.held(), [""; 0]);
    assert_eq!(state_of(&node, "b.yaml"), RELIES);
    let released = &decision.status.staging.released;
    assert_eq!(
        released[1].relies_on,
        ["its namespace t comes with a.yaml, which RKE2 applies before it in the same pass"]
    );
    // Nothing was held, so there is nothing to report.
    assert_eq!(node.reported_codes(), []);
    node.api();
    node.applied("a.yaml");
    node.tick();
    assert_eq!(
        node.held(),
        [""; 0],
        "the namespace is heard of later than the Addon"
    );
    node.exists(space_id());
    node.tick();
    let met = FileStage::Released { cause: Cause::Met };
    assert_eq!(state_of(&node, "b.yaml"), met);
    node.observe(ClusterEvent::Object(space_id(), ObjectSeen::Absent));
    node.tick();
    assert_eq!(
        state_of(&node, "b.yaml"),
        met,
        "a met requirement stays met"
    );
}

#[test]
fn a_file_does_not_say_that_it_relies_on_what_is_there_already() {
    let both = format!("{}---\n{}", object("o", "t"), object("o", "u"));
    let mut node = Node::new(&[
        ("a.yaml", &space("t")),
        ("b.yaml", &space("u")),
        ("c.yaml", &both),
    ]);
    node.api();
    node.exists(space_id());
    let released = node.tick().status.staging.released;
    assert_eq!(
        released[2].relies_on,
        ["its namespace u comes with b.yaml, which RKE2 applies before it in the same pass"]
    );
}

#[test]
fn when_the_file_that_brings_it_is_hidden_again_the_other_is_held_too_until_both_may_go() {
    let hide: [fn(&mut Node); 4] = [
        |node| {
            node.markers.insert(marker_of("a.yaml"), None);
            node.scan();
        },
        |node| {
            let names = ["a.yaml".into()];
            node.state.set_being_written(names.into());
        },
        |node| {
            node.files.remove("a.yaml");
            node.scan();
        },
        |node| {
            // New content that waits itself.
            let text = format!(
                "{}---\n{}",
                space("t"),
                waits_for("w", "/Namespace/u (exists)")
            );
            node.files.insert("a.yaml".to_owned(), text);
            node.scan();
        },
    ];
    for (number, hide) in hide.into_iter().enumerate() {
        let mut node = pair();
        node.tick();
        hide(&mut node);
        node.tick();
        assert!(
            node.held().contains(&"b.yaml"),
            "{number}: {:?}",
            node.held()
        );
        node.markers.remove(&marker_of("a.yaml"));
        node.state
            .set_being_written(std::collections::BTreeSet::new());
        node.files.insert("a.yaml".to_owned(), space("t"));
        node.scan();
        node.tick();
        node.tick();
        assert_eq!(node.held(), [""; 0], "{number}");
        assert_eq!(state_of(&node, "b.yaml"), RELIES, "{number}");
    }
}

#[test]
fn a_file_that_was_applied_is_not_hidden_again() {
    let mut node = pair();
    node.tick();
    node.api();
    node.applied("b.yaml");
    node.tick();
    node.files.remove("a.yaml");
    node.scan();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn markers_go_in_the_order_in_which_rke2_applies_the_files() {
    let mut node = pair();
    for path in ["a.yaml", "b.yaml"] {
        let path = ManifestPath::from(path);
        let hold = node.state.provisional_hold(&path, node.now).unwrap();
        node.act(&hold);
    }
    let decision = node.tick();
    let lifts = decision.actions.iter().filter_map(|action| match action {
        Action::Lift { path } => Some(path.to_string()),
        _ => None,
    });
    assert_eq!(lifts.collect::<Vec<_>>(), ["a.yaml.skip", "b.yaml.skip"]);
}

#[test]
fn a_marker_that_cannot_be_removed_holds_what_relies_on_its_file() {
    let mut node = pair();
    let path = ManifestPath::from("a.yaml");
    let hold = node.state.provisional_hold(&path, node.now).unwrap();
    node.act(&hold);
    let trouble = MarkerTrouble::NotRemoved("read-only".to_owned());
    node.state
        .set_marker_troubles([(path.name(), trouble)].into());
    node.tick();
    assert!(node.markers.contains_key(&marker_of("b.yaml")));
}

#[test]
fn in_another_directory_a_file_follows_only_when_nothing_has_hidden_the_first_for_a_while() {
    let mut node = Node::new(&[("a/a.yaml", &space("t")), ("b/b.yaml", &object("o", "t"))]);
    let path = ManifestPath::from("a/a.yaml");
    let hold = node.state.provisional_hold(&path, node.now).unwrap();
    node.act(&hold);
    node.tick();
    assert_eq!(
        node.held(),
        ["b/b.yaml"],
        "RKE2 may look at a/ before and at b/ after"
    );
    node.tick();
    assert_eq!(node.held(), ["b/b.yaml"], "its look may be under way");
    node.later(1);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn in_another_directory_a_file_follows_one_that_was_held_when_rke2_has_applied_that() {
    let first = format!("{WIDGET}---\n{}", space("t"));
    let mut node = Node::new(&[("a/a.yaml", &first), ("b/b.yaml", &object("o", "t"))]);
    node.api();
    node.tick();
    assert_eq!(node.held(), ["a/a.yaml", "b/b.yaml"]);
    node.later(11);
    for _ in 0..2 {
        node.tick();
        assert_eq!(
            node.held(),
            ["b/b.yaml"],
            "RKE2 may have found a/a.yaml hidden and look at b/ now"
        );
    }
    node.exists(space_id());
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn what_relies_on_others_is_decided_anew_as_long_as_its_marker_is_there() {
    let mut node = Node::new(&[("b.yaml", &object("o", "t"))]);
    node.api();
    node.tick();
    node.files.insert("a.yaml".to_owned(), space("t"));
    node.scan();
    // The marker cannot be removed from the disk.
    for action in &node.state.decide(node.now).actions {
        if !matches!(action, Action::Lift { .. }) {
            node.act(action);
        }
    }
    assert_eq!(state_of(&node, "b.yaml"), RELIES);
    node.applied("a.yaml");
    node.observe(ClusterEvent::Object(space_id(), ObjectSeen::Absent));
    node.tick();
    assert!(node.markers.contains_key(&marker_of("b.yaml")));
    assert!(matches!(state_of(&node, "b.yaml"), FileStage::Held { .. }));
}

#[test]
fn what_was_applied_already_is_not_applied_again_for_a_new_file() {
    let mut node = Node::new(&[("a.yaml", &space("t"))]);
    node.api();
    node.applied("a.yaml");
    node.tick();
    node.observe(ClusterEvent::Object(space_id(), ObjectSeen::Absent));
    node.files.insert("b.yaml".to_owned(), object("o", "t"));
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
}

#[test]
fn a_namespace_on_its_way_out_holds() {
    let mut node = pair();
    node.api();
    let leaving = json!({"metadata": {"name": "t", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    node.observe(ClusterEvent::Object(
        space_id(),
        ObjectSeen::Present(Arc::new(leaving)),
    ));
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
}

#[test]
fn a_crash_between_the_ledger_and_the_markers_changes_nothing() {
    let mut node = pair();
    for path in ["a.yaml", "b.yaml"] {
        let hold = node.state.provisional_hold(&path.into(), node.now).unwrap();
        node.act(&hold);
    }
    let decision = node.state.decide(node.now);
    for action in decision.actions.iter().take(2) {
        node.act(action);
    }
    node.restart();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    assert_eq!(state_of(&node, "b.yaml"), RELIES);
}

#[test]
fn a_failure_of_the_first_file_holds_nothing_longer_than_rke2_would() {
    let mut node = pair();
    node.tick();
    node.api();
    node.fails("a.yaml", "etcdserver: request timed out");
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_held_file_says_whether_another_name_would_have_spared_the_hold() {
    let mut node = Node::new(&[
        ("a.yaml", &object("o", "t")),
        ("b.yaml", &space("t")),
        ("c.yaml", &object("p", "elsewhere")),
    ]);
    let held = node.tick().status.staging.held;
    let said: Vec<_> = held
        .iter()
        .map(|file| {
            let (name, why) = (&file.name_spares_hold, &file.no_name_spares_hold);
            (name.as_deref().map(str::to_owned), why.as_deref())
        })
        .collect();
    let no = "it waits for more than another file order can provide";
    assert_eq!(
        said,
        [(Some("zz-a.yaml".to_owned()), None), (None, Some(no))]
    );
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {volumes: [{name: c, configMap: {name: o}}]}}}\n";

fn named() -> ObjectRef {
    config_map("o")
}

#[test]
fn a_file_goes_with_the_one_that_it_names_though_that_comes_later_in_the_pass() {
    let mut node = Node::new(&[("a.yaml", DEPLOYMENT), ("b.yaml", &free("o"))]);
    let decision = node.tick();
    assert_eq!(node.held(), [""; 0]);
    assert_eq!(
        decision.status.staging.released[0].relies_on,
        ["ConfigMap default/o comes with b.yaml, which RKE2 applies after it in the same pass"]
    );
    // If that one is hidden before RKE2 reads it, this one waits as well.
    node.markers.insert(marker_of("b.yaml"), None);
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.markers.remove(&marker_of("b.yaml"));
    node.scan();
    node.tick();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    node.restart();
    node.tick();
    assert_eq!(node.held(), [""; 0], "nor does a restart hold it");
}

#[test]
fn a_file_waits_as_long_as_the_one_that_it_names_has_to_and_no_pass_longer() {
    let late = waits_for("o", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", DEPLOYMENT), ("b.yaml", &late)]);
    node.api();
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
    node.exists(config_map("x"));
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    node.applied("b.yaml");
    node.tick();
    assert_eq!(
        node.held(),
        [""; 0],
        "the event of the named object comes later"
    );
    node.exists(named());
    node.tick();
    assert_eq!(
        state_of(&node, "a.yaml"),
        FileStage::Released { cause: Cause::Met }
    );
}

#[test]
fn a_file_that_comes_when_the_one_that_it_names_was_applied_waits_until_that_is_seen() {
    let mut node = Node::new(&[("b.yaml", &free("o"))]);
    node.api();
    node.tick();
    node.applied("b.yaml");
    node.tick();
    node.files
        .insert("a.yaml".to_owned(), DEPLOYMENT.to_owned());
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.exists(named());
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_file_that_failed_again_with_what_it_relied_on_waits_for_what_it_lacks() {
    let mut node = pair();
    node.tick();
    node.api();
    node.fails(
        "b.yaml",
        "dial tcp 127.0.0.1:6443: connect: connection refused",
    );
    node.tick();
    assert_eq!(node.held(), [""; 0], "the next pass may apply both");
    node.later(1);
    node.fails("b.yaml", "namespaces \"t\" not found");
    for _ in 0..2 {
        node.tick();
        assert_eq!(node.held(), ["b.yaml"]);
    }
    node.exists(space_id());
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    // Other content was never tried.
    node.files.insert("b.yaml".to_owned(), object("p", "t"));
    node.observe(ClusterEvent::Object(space_id(), ObjectSeen::Absent));
    node.later(1);
    node.scan();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    assert_eq!(state_of(&node, "b.yaml"), RELIES);
}

#[test]
fn a_file_that_failed_again_is_not_held_for_what_a_field_merely_names() {
    let mut node = Node::new(&[("a.yaml", DEPLOYMENT), ("b.yaml", &free("o"))]);
    node.tick();
    node.api();
    node.later(1);
    node.fails("a.yaml", "etcdserver: request timed out");
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_deadline_that_is_over_does_not_keep_a_file_that_relies_on_another_from_being_held_again() {
    let advised = object("o", "t").replace(
        "namespace: t",
        "namespace: t, annotations: {windrow.dev/depends-on: '/namespaces/default/Secret/never (advisory)'}",
    );
    let first = format!(
        "{}---\n{}",
        space("t"),
        waits_for("w", "/Namespace/u (exists)")
    );
    let mut node = Node::new(&[("a.yaml", &first), ("b.yaml", &advised)]);
    node.api();
    node.tick();
    node.later(5);
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
    node.exists(ObjectRef::cluster("", "Namespace", "u"));
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    node.markers.insert(marker_of("a.yaml"), None);
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
}

#[test]
fn a_webhook_that_rke2_applied_before_may_not_answer_yet() {
    let hook = |policy: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: w}}\nwebhooks: [{{name: w.example.com, failurePolicy: {policy}, clientConfig: {{url: 'https://192.0.2.1/'}}, rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [namespaces]}}]}}]\n"
        )
    };
    let held_behind = |file: &str, hook: &str| {
        let mut node = Node::new(&[(file, hook)]);
        node.api();
        node.applied(file);
        node.tick();
        node.files.insert("b.yaml".to_owned(), space("t"));
        node.files.insert("c.yaml".to_owned(), object("o", "t"));
        node.scan();
        node.tick();
        node.held().join(" ")
    };
    for file in ["a.yaml", "z.yaml"] {
        assert_eq!(held_behind(file, &hook("Ignore")), "");
        assert_eq!(held_behind(file, &hook("Fail")), "c.yaml");
    }
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec: {group: example.com, names: {kind: Widget, plural: widgets}, scope: Namespaced}\n";

fn many(first: &str) -> String {
    let maps = (0..10).map(|number| free(&format!("o{number}")));
    let maps: Vec<String> = [free(first)].into_iter().chain(maps).collect();
    maps.join("---\n")
}

#[test]
fn objects_that_rke2_has_already_give_a_kind_no_time_to_be_served() {
    let files = [
        ("a.yaml", DEFINITION),
        ("b.yaml", &many("new")),
        ("c.yaml", WIDGET),
    ];
    let mut fresh = Node::new(&files);
    fresh.tick();
    assert_eq!(fresh.held(), [""; 0]);

    let installed = || {
        let mut node = Node::new(&[("b.yaml", &many("old")), ("z.yaml", &free("z"))]);
        node.api();
        node.applied("b.yaml");
        node.applied("z.yaml");
        node.tick();
        for (path, text) in files {
            node.files.insert(path.to_owned(), text.to_owned());
        }
        node
    };
    let mut running = installed();
    running.scan();
    // The reboot of a node with another image: RKE2's Addons are not listed yet.
    let mut booting = installed();
    booting.restart();
    for mut node in [running, booting] {
        for _ in 0..2 {
            node.tick();
            assert_eq!(node.held(), ["c.yaml"]);
        }
    }
}

#[test]
fn advice_that_has_yielded_does_not_hold_a_file_again_when_kube_apiserver_answers() {
    let advised = object("o", "t").replace(
        "namespace: t",
        "namespace: t, annotations: {windrow.dev/depends-on: '/namespaces/default/Secret/never (advisory)'}",
    );
    let mut node = Node::new(&[("a.yaml", &space("t")), ("b.yaml", &advised)]);
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    node.later(31);
    node.tick();
    assert_eq!(state_of(&node, "b.yaml"), RELIES);
    node.api();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}
