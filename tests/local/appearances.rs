//! Level 3: who brings what, as the real daemon records it in the flight, against a kube-apiserver that lists in pages, refuses, forgets,
//! and sends objects with giant metadata.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;

use apiserver::{Answer, ApiServer, list};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Daemon, Node};
use windrow_decide::flight::{
    Appeared, FlightLine, Provenance, RecordedAppearance, RecordedRelease,
};
use windrow_model::manifest::GroupKind;
use windrow_replay::{Flights, Replay};

use crate::support::apiserver;
use crate::support::daemon as support;

const FLIGHT: &str = "/var/lib/rancher/windrow/flight.jsonl";
const KUBECONFIG: &str = "/etc/rancher/rke2/rke2.yaml";
/// Waits for a kind that nothing brings: as long as it does, the boot is under way.
const WAITS: &str =
    "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: g, namespace: default}\n";
const LONG_AGO: &str = "2020-01-02T03:04:05Z";

/// A node with a file that waits.
fn node(server: &ApiServer, settings: &str) -> Node {
    let node = Node::with(&[("10-waits.yaml", WAITS)]);
    node.write(
        "/etc/windrow/conf.d/10-test.yaml",
        &format!("probes: {{enabled: false}}\n{settings}"),
    );
    node.write(KUBECONFIG, &server.kubeconfig("first"));
    node
}

fn namespace(name: &str, created: &str, extra: Value) -> Value {
    let mut metadata = json!({"name": name, "uid": format!("uid-{name}"), "creationTimestamp": created,
        "resourceVersion": "7"});
    for (key, value) in extra.as_object().unwrap() {
        metadata[key] = value.clone();
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn now() -> String {
    Timestamp::now().to_string()
}

fn by_helm() -> Value {
    json!({"annotations": {"meta.helm.sh/release-name": "store", "meta.helm.sh/release-namespace": "shop"},
        "labels": {"helm.sh/chart": "store-1.2.3_up4"}})
}

/// A line of a watch.
fn line(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

/// Serves a list, and a watch that says this.
fn serve(server: &ApiServer, plural: &str, items: &[Value], said: String) {
    let path = format!("/{plural}?");
    server.fault(&format!("{path} watch=true"), Answer::Says(said));
    server.fault(
        &format!("{path} limit="),
        Answer::Body(list(items, 1).to_string()),
    );
}

fn lines(node: &Node) -> Vec<FlightLine> {
    let text = fs::read_to_string(node.path(FLIGHT)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let read = whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    read.collect()
}

fn appeared(node: &Node) -> Vec<RecordedAppearance> {
    let lines = lines(node).into_iter();
    let one = |line| match line {
        FlightLine::Appeared(one) => Some(one),
        _ => None,
    };
    lines.filter_map(one).collect()
}

/// The one appearance of an object of this name.
fn only(node: &Node, name: &str) -> Option<RecordedAppearance> {
    let all = appeared(node).into_iter();
    let mut found: Vec<_> = all
        .filter(|one| matches!(&one.what, Appeared::Object(object) if object.name == name))
        .collect();
    assert!(found.len() < 2, "{found:?}");
    found.pop()
}

fn until_seen(daemon: &Daemon, node: &Node, name: &str) -> RecordedAppearance {
    daemon.until(name, || only(node, name).is_some());
    only(node, name).unwrap()
}

fn is_replayed(node: &Node) {
    let flights = Flights::read(&fs::read_to_string(node.path(FLIGHT)).unwrap()).unwrap();
    assert_eq!(flights.damage, [""; 0]);
    for segment in &flights.segments {
        let mut replay = Replay::new(segment);
        while let Some(moment) = replay.step().unwrap() {
            assert_eq!(moment.differences, [], "line {}", moment.line);
        }
    }
}

#[test]
fn what_came_is_recorded_once_with_who_brought_it_and_what_was_there_says_so() {
    let server = ApiServer::start();
    let node = node(&server, "");
    let giant = json!({"annotations": {"objectset.rio.cattle.io/applied": "x".repeat(1 << 20),
        "objectset.rio.cattle.io/owner-gvk": "k3s.cattle.io/v1, Kind=Addon", "objectset.rio.cattle.io/owner-name": "widgets"}});
    let first: Vec<Value> = (0..100)
        .map(|number| namespace(&format!("old-{number}"), LONG_AGO, json!({})))
        .collect();
    let mut first = list(&first, 1);
    first["metadata"]["continue"] = "the second page".into();
    let second = list(&[namespace("giant", LONG_AGO, giant)], 1);
    server.fault(
        "/namespaces? continue=the%20second%20page",
        Answer::Body(second.to_string()),
    );
    let new = namespace("new", &now(), by_helm());
    let said = line("ADDED", &new) + &line("MODIFIED", &new);
    server.fault("/namespaces? watch=true", Answer::Says(said));
    server.fault("/namespaces? limit=100", Answer::Body(first.to_string()));
    let secret = |status: &str| {
        json!({"metadata": {"name": "sh.helm.release.v1.store.v1", "namespace": "shop", "uid": "s", "resourceVersion": "8",
            "creationTimestamp": "2099-01-02T03:04:05Z", "labels": {"owner": "helm", "name": "store", "status": status, "version": "1",
            "modifiedAt": "4070908800", "site": "hunter2"}}})
    };
    let said = line("MODIFIED", &secret("deployed")) + &line("MODIFIED", &secret("deployed"));
    serve(&server, "secrets", &[secret("pending-install")], said);
    let daemon = node.ready();
    let new = until_seen(&daemon, &node, "new");
    assert!(!new.was_there && new.created.is_some());
    let release = Provenance::Helm {
        release: "store".to_owned(),
        namespace: "shop".to_owned(),
        chart: Some("store".to_owned()),
        version: Some("1.2.3+up4".to_owned()),
    };
    assert_eq!(new.by, release);
    let giant = until_seen(&daemon, &node, "giant");
    assert!(giant.was_there);
    assert_eq!(
        giant.by,
        Provenance::Addon {
            name: "widgets".to_owned()
        }
    );
    for number in 0..100 {
        let old = only(&node, &format!("old-{number}")).unwrap();
        assert!(old.was_there && old.by == Provenance::NotKnown);
    }
    let releases = || -> Vec<RecordedRelease> {
        let of = |line| match line {
            FlightLine::Release(one) => Some(one),
            _ => None,
        };
        lines(&node).into_iter().filter_map(of).collect()
    };
    daemon.until("the release to be deployed", || releases().len() >= 2);
    // The server's watch ends, and its list then begins again with the release that is being installed.
    let statuses: Vec<_> = releases()
        .into_iter()
        .take(2)
        .map(|one| (one.status, one.was_there))
        .collect();
    assert_eq!(
        statuses,
        [
            ("pending-install".to_owned(), false),
            ("deployed".to_owned(), false)
        ]
    );
    let machine = lines(&node).into_iter().find_map(|line| match line {
        FlightLine::Machine(one) => one.kubernetes,
        _ => None,
    });
    assert_eq!(machine.as_deref(), Some("v1.34.0"));
    // Only the labels of Helm's Secrets are asked for, and only of those.
    assert_eq!(
        server.asked("/secrets?"),
        server.asked("/secrets? owner=helm helm.sh%2Frelease.v1")
    );
    daemon.end(Signal::SIGTERM);
    is_replayed(&node);
    let text = fs::read_to_string(node.path(FLIGHT)).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("xxxxxxxx"));
}

#[test]
fn a_kind_is_recorded_when_it_is_served_by_the_operator_that_defined_it() {
    let server = ApiServer::start();
    let node = node(&server, "");
    let created = now();
    let by_operator = json!({"managedFields": [
        {"manager": "kube-apiserver", "operation": "Update", "time": created, "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "widget-operator", "operation": "Update", "time": created, "fieldsV1": {"f:spec": {}}}]});
    let definition = namespace("widgets.example.com", &created, by_operator);
    serve(
        &server,
        "customresourcedefinitions",
        &[],
        line("ADDED", &definition),
    );
    let daemon = node.ready();
    daemon.until("discovery to be asked", || {
        server.asked("/apis/example.com?") > 0
    });
    assert_eq!(appeared(&node), []);
    let version = json!({"groupVersion": "example.com/v1", "version": "v1"});
    let group = json!({"kind": "APIGroup", "name": "example.com", "versions": [version], "preferredVersion": version});
    let resource = json!({"kind": "Widget", "name": "widgets", "namespaced": true, "singularName": "", "verbs": []});
    let resources = json!({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [resource]});
    server.fault("/apis/example.com/v1?", Answer::Body(resources.to_string()));
    server.fault("/apis/example.com?", Answer::Body(group.to_string()));
    daemon.until("the kind", || !appeared(&node).is_empty());
    let [kind] = &appeared(&node)[..] else {
        panic!("{:?}", appeared(&node))
    };
    let widget = Appeared::Kind {
        kind: GroupKind::new("example.com", "Widget"),
        namespaced: true,
    };
    assert_eq!(kind.what, widget);
    assert_eq!(
        kind.by,
        Provenance::Manager {
            name: "widget-operator".to_owned()
        }
    );
    assert!(!kind.was_there);
}

#[test]
fn a_version_that_is_too_old_is_followed_by_a_list_and_nothing_is_recorded_twice() {
    let server = ApiServer::start();
    let node = node(&server, "");
    let gone = json!({"kind": "Status", "metadata": {}, "code": 410, "message": "too old resource version"});
    let old = namespace("old", LONG_AGO, json!({}));
    serve(
        &server,
        "namespaces",
        std::slice::from_ref(&old),
        line("ERROR", &gone),
    );
    let daemon = node.ready();
    assert!(until_seen(&daemon, &node, "old").was_there);
    daemon.until("a second list", || server.asked("/namespaces? limit=") > 1);
    server.heal();
    serve(
        &server,
        "namespaces",
        &[old, namespace("new", LONG_AGO, json!({}))],
        String::new(),
    );
    let new = until_seen(&daemon, &node, "new");
    assert!(!new.was_there, "it came while Windrow looked");
    assert!(only(&node, "old").is_some());
}

#[test]
fn what_is_refused_is_left_out_said_once_and_hurts_nothing_else() {
    let server = ApiServer::start();
    let node = node(&server, "");
    let refused = Answer::Refuse(
        403,
        "Forbidden",
        "namespaces is forbidden: User cannot list resource",
    );
    server.fault("/namespaces? limit=", refused);
    serve(
        &server,
        "storageclasses",
        &[namespace("fast", LONG_AGO, json!({}))],
        String::new(),
    );
    let daemon = node.ready();
    until_seen(&daemon, &node, "fast");
    daemon.until("a second try", || server.asked("/namespaces? limit=") > 1);
    let said = daemon.said();
    let told: Vec<_> = said
        .lines()
        .filter(|line| line.contains("each Namespace"))
        .collect();
    assert_eq!(told.len(), 1, "{said}");
    assert!(
        told[0].starts_with("info") && told[0].contains("cannot list resource"),
        "{said}"
    );
    assert!(node.is_marked("10-waits.yaml"));
    let [one] = &appeared(&node)[..] else {
        panic!("{:?}", appeared(&node))
    };
    assert!(one.was_there);
}

#[test]
fn nothing_is_watched_once_every_file_is_applied_or_kept_on_purpose() {
    let server = ApiServer::start();
    let node = node(&server, "");
    serve(
        &server,
        "namespaces",
        &[namespace("old", LONG_AGO, json!({}))],
        String::new(),
    );
    let daemon = node.ready();
    until_seen(&daemon, &node, "old");
    daemon.until("the watch", || server.asked("/namespaces? watch=true") > 0);
    node.request("1", "hold", "10-waits.yaml");
    daemon.until("the hold by hand", || {
        node.status()["staging"]["settled"] == true
    });
    let (lists, addons) = (server.asked("/namespaces?"), server.asked("/addons?"));
    // Every open watch ends with a change.
    server.put("configmaps", "c", json!({}));
    daemon.until("RKE2's Addons to be asked for again", || {
        server.asked("/addons?") > addons + 1
    });
    assert_eq!(server.asked("/namespaces?"), lists);
    node.request("2", "release", "10-waits.yaml");
    daemon.until("it to be looked at again", || {
        server.asked("/namespaces? limit=") > 1
    });
    assert!(only(&node, "old").is_some());
}

#[test]
fn a_process_that_begins_in_the_middle_says_what_was_there_and_a_file_that_begins_again_names_the_machine()
 {
    let server = ApiServer::start();
    let node = node(&server, "");
    serve(
        &server,
        "namespaces",
        &[],
        line("ADDED", &namespace("new", &now(), json!({}))),
    );
    let daemon = node.ready();
    assert!(!until_seen(&daemon, &node, "new").was_there);
    daemon.end(Signal::SIGKILL);
    let before = lines(&node).len();
    server.heal();
    serve(
        &server,
        "namespaces",
        &[namespace("new", LONG_AGO, json!({}))],
        String::new(),
    );
    let daemon = node.ready();
    let again = || appeared(&node).len() == 2;
    daemon.until("the second process to see it", again);
    assert!(appeared(&node)[1].was_there);
    let named =
        |line: &FlightLine| matches!(line, FlightLine::Machine(one) if one.kubernetes.is_some());
    daemon.until("the second process to name the machine", || {
        lines(&node)[before..].iter().any(named)
    });
    daemon.end(Signal::SIGTERM);
    is_replayed(&node);
}

#[test]
fn a_sites_names_can_be_hashed_or_left_out() {
    for names in ["hash", "drop"] {
        let server = ApiServer::start();
        let node = node(&server, &format!("flight: {{names: {names}}}\n"));
        let mut shop = namespace("shop-of-ann", LONG_AGO, by_helm());
        shop["metadata"]["annotations"]["meta.helm.sh/release-name"] = "store-of-ann".into();
        serve(&server, "namespaces", &[shop], String::new());
        let daemon = node.ready();
        daemon.until("the namespace", || !appeared(&node).is_empty());
        let text = fs::read_to_string(node.path(FLIGHT)).unwrap();
        assert!(!text.contains("of-ann"), "{text}");
        assert!(text.contains("1.2.3+up4"), "{text}");
        assert_eq!(text.contains("sha256:"), names == "hash", "{text}");
    }
}
