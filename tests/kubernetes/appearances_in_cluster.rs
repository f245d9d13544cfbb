//! Level 4: who brings what, recorded against a real API server: a file of the directory by the real deploy controller, a HelmChart by the
//! real helm-controller with helm played, an operator, and a person. Helm writes as helm does: by its own field manager.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::cluster::{AuditLog, Cluster, DEADLINE, HelmVersion, Spec, Who, eventually};
use support::helm::Helm;
use support::objects::{CHART, DEFINITION, Gvk, NAMESPACE, api, served};
use windrow_decide::flight::{
    Appeared, FlightLine, Provenance, RecordedAppearance, RecordedRelease,
};
use windrow_replay::Flights;

use super::daemon_in_cluster::Node;
use crate::support;

const SECRET: Gvk = ("", "v1", "Secret");
const CLASS: Gvk = ("storage.k8s.io", "v1", "StorageClass");
const LIMITS: Gvk = ("", "v1", "LimitRange");
const PLANTED: &str = "Pl4ntedInARelease";
/// Waits for what an operator brings last.
const WAITS: &str =
    "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: g, namespace: default}\n";
const STORE: &str = "apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: store, namespace: kube-system}
spec: {chart: store, repo: 'http://charts.example.com', version: 1.2.3, targetNamespace: shop, createNamespace: true}
";
const ADDON: &str = "apiVersion: v1
kind: Namespace
metadata: {name: from-addon}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.addon.example.com}
spec:
  group: addon.example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

fn definition(kind: &str, group: &str, scope: &str) -> Value {
    let singular = kind.to_lowercase();
    json!({"metadata": {"name": format!("{singular}s.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Makes an object as a program of this name does.
async fn by(manager: &str, client: &Client, gvk: Gvk, namespace: &str, mut object: Value) {
    let (group, version, kind) = gvk;
    object["apiVersion"] = match group {
        "" => json!(version),
        group => json!(format!("{group}/{version}")),
    };
    object["kind"] = json!(kind);
    let params = PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api: Api<DynamicObject> = api(client, gvk, namespace);
    api.create(&params, &object).await.unwrap();
}

/// What helm puts on each object of a template.
fn of_store(name: &str, mut object: Value) -> Value {
    object["metadata"] = json!({"name": name,
        "annotations": {"meta.helm.sh/release-name": "store", "meta.helm.sh/release-namespace": "shop"},
        "labels": {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "store-1.2.3"}});
    object
}

/// helm installs the chart: `crds/`, its namespace, the release, templates, the release again. It is slow: whoever watches sees that the
/// release is pending.
async fn install(client: &Client, pending_is_seen: impl AsyncFnOnce()) {
    let crd = definition("Order", "store.example.com", "Cluster");
    by("helm", client, DEFINITION, "", crd).await;
    let shop = json!({"metadata": {"name": "shop"}});
    by("helm", client, NAMESPACE, "", shop).await;
    let labels =
        json!({"owner": "helm", "name": "store", "status": "pending-install", "version": "1"});
    let name = "sh.helm.release.v1.store.v1";
    let release = json!({"metadata": {"name": name, "labels": labels}, "type": "helm.sh/release.v1",
        "stringData": {"release": PLANTED}});
    by("helm", client, SECRET, "shop", release).await;
    pending_is_seen().await;
    let class = of_store("store-fast", json!({"provisioner": "store.example.com"}));
    by("helm", client, CLASS, "", class).await;
    let crd = definition("Price", "store.example.com", "Namespaced");
    let crd = of_store("prices.store.example.com", crd);
    by("helm", client, DEFINITION, "", crd).await;
    let limits = json!({"spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}});
    by("helm", client, LIMITS, "shop", of_store("defaults", limits)).await;
    let modified = Timestamp::now().as_second().to_string();
    let done = json!({"metadata": {"labels": {"status": "deployed", "modifiedAt": modified}}});
    let params = PatchParams {
        field_manager: Some("helm".to_owned()),
        ..PatchParams::default()
    };
    let secrets: Api<DynamicObject> = api(client, SECRET, "shop");
    secrets
        .patch(name, &params, &Patch::Merge(done))
        .await
        .unwrap();
}

fn flight(root: &Path) -> Vec<FlightLine> {
    let path = root.join("var/lib/rancher/windrow/flight.jsonl");
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let lines = whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// Who brought something, where it came once: a kind by its own name, an object as `Kind/name`.
fn brought(lines: &[FlightLine], what: &str) -> Option<RecordedAppearance> {
    let name = |what: &Appeared| match what {
        Appeared::Kind { kind, .. } => kind.kind.to_string(),
        Appeared::Object(object) => format!("{}/{}", object.kind, object.name),
    };
    let mut found = lines.iter().filter_map(|line| match line {
        FlightLine::Appeared(one) if name(&one.what) == what => Some(one.clone()),
        _ => None,
    });
    let first = found.next();
    assert_eq!(found.next(), None, "{what} came twice");
    first
}

fn releases(lines: &[FlightLine]) -> Vec<RecordedRelease> {
    let releases = lines.iter().filter_map(|line| match line {
        FlightLine::Release(one) => Some(one.clone()),
        _ => None,
    });
    releases.collect()
}

#[tokio::test]
async fn each_is_recorded_with_who_brought_it_and_the_flight_stays_one_that_can_be_replayed() {
    let spec = Spec {
        controller_manager: true,
        audit: AuditLog::Everything,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    let client = cluster.client(Who::Admin).await;
    let Some(_helm_controller) = cluster.helm_controller(HelmVersion::V0_17) else {
        return;
    };
    served(&client, CHART).await;
    let root = cluster.dir().join("appearances");
    let manifests = Node::manifests(&root);
    fs::create_dir_all(&manifests).unwrap();
    let settings = root.join("etc/windrow/conf.d/10-test.yaml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(settings, "probes: {enabled: false}\n").unwrap();
    for (name, text) in [
        ("10-waits.yaml", WAITS),
        ("20-store.yaml", STORE),
        ("30-addon.yaml", ADDON),
    ] {
        fs::write(manifests.join(name), text).unwrap();
    }
    let node = Node::start(&root, &cluster.kubeconfig(Who::Admin));
    eventually("the marker", DEADLINE, async || {
        let marker = manifests.join("10-waits.yaml.skip");
        marker.exists().then_some(())
    })
    .await;
    let Some(_rke2) = cluster.deploy(&manifests) else {
        return;
    };
    let helm = Helm::new(&client, "kube-system");
    helm.job("helm-install-store").await;
    install(&client, async || {
        eventually("the release is pending", DEADLINE, async || {
            (!releases(&flight(&root)).is_empty()).then_some(())
        })
        .await;
    })
    .await;
    helm.succeed("helm-install-store").await;
    let person = json!({"metadata": {"name": "by-hand"}});
    by("kubectl-create", &client, NAMESPACE, "", person).await;
    let wait =
        async |what: &str| eventually(what, DEADLINE, async || brought(&flight(&root), what)).await;
    for what in [
        "Order",
        "Price",
        "StorageClass/store-fast",
        "LimitRange/defaults",
        "Widget",
        "Namespace/from-addon",
        "Namespace/by-hand",
    ] {
        wait(what).await;
    }
    eventually("the release is deployed", DEADLINE, async || {
        let all = releases(&flight(&root));
        all.iter().any(|one| one.status == "deployed").then_some(())
    })
    .await;
    // It releases the file that waits: the boot is over then.
    let gadget = definition("Gadget", "example.org", "Namespaced");
    by("gadget-operator", &client, DEFINITION, "", gadget).await;
    wait("Gadget").await;
    eventually("the file that waited is applied", DEADLINE, async || {
        node.lists("applied", "10-waits.yaml").then_some(())
    })
    .await;

    let lines = flight(&root);
    let store = Provenance::Helm {
        release: "store".to_owned(),
        namespace: "shop".to_owned(),
        chart: Some("store".to_owned()),
        version: Some("1.2.3".to_owned()),
    };
    let addon = Provenance::Addon {
        name: "30-addon".to_owned(),
    };
    let manager = |name: &str| Provenance::Manager {
        name: name.to_owned(),
    };
    let expected = [
        ("Order", Provenance::HelmUnnamed),
        ("Price", store.clone()),
        ("StorageClass/store-fast", store.clone()),
        ("LimitRange/defaults", store),
        ("Namespace/shop", Provenance::HelmUnnamed),
        ("Widget", addon.clone()),
        ("Namespace/from-addon", addon),
        ("Namespace/by-hand", manager("kubectl-create")),
        ("Gadget", manager("gadget-operator")),
    ];
    for (what, by) in expected {
        let found = brought(&lines, what).unwrap_or_else(|| panic!("{what} is not there"));
        assert_eq!(found.by, by, "{what}");
        assert!(!found.was_there && found.created.is_some(), "{what}");
    }
    let scope = |what: &str| brought(&lines, what).map(|one| one.what);
    assert!(matches!(
        scope("Order"),
        Some(Appeared::Kind {
            namespaced: false,
            ..
        })
    ));
    assert!(matches!(
        scope("Price"),
        Some(Appeared::Kind {
            namespaced: true,
            ..
        })
    ));
    let default = brought(&lines, "Namespace/default").unwrap();
    assert!(default.was_there);
    assert_eq!(default.by, manager("kube-apiserver"));
    let [pending, deployed] = &releases(&lines)[..] else {
        panic!("{:?}", releases(&lines))
    };
    assert_eq!(
        (pending.status.as_str(), deployed.status.as_str()),
        ("pending-install", "deployed")
    );
    assert!(deployed.modified >= deployed.began && !deployed.was_there);
    assert!(deployed.began.is_some() && deployed.namespace == "shop");
    let version = lines.iter().find_map(|line| match line {
        FlightLine::Machine(machine) => machine.kubernetes.clone(),
        _ => None,
    });
    assert!(version.is_some_and(|version| version.starts_with("v1.36.")));

    is_made_again(node, &root);
    only_metadata_was_asked_for(&cluster.audit_log());
}

/// The daemon ends; its flight is replayed and its boot is told.
fn is_made_again(node: Node, root: &Path) {
    let mut node = node;
    kill(
        Pid::from_raw(i32::try_from(node.daemon.id()).unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    node.daemon.wait().unwrap();
    let path = root.join("var/lib/rancher/windrow/flight.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(PLANTED));
    assert_eq!(Flights::read(&text).unwrap().damage, [""; 0]);
    // The same flight without the lines is told in the same words.
    let bare = root.join("bare.jsonl");
    let is_ours = |line: &&str| {
        !["appeared", "release", "machine"]
            .iter()
            .any(|is| line.contains(&format!("\"is\":\"{is}\"")))
    };
    let kept: String = text.split_inclusive('\n').filter(is_ours).collect();
    assert_ne!(kept, text);
    fs::write(&bare, kept).unwrap();
    for verb in [&["replay"][..], &["timeline", "--from"]] {
        let say = |flight: &Path| {
            let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
                .args(verb)
                .arg(flight)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            text.replace(flight.to_str().unwrap(), "FLIGHT")
        };
        assert_eq!(say(&path), say(&bare), "{verb:?}");
    }
}

/// The daemon asks for no Secrets but those of Helm. Other programs list in pages of five hundred.
fn only_metadata_was_asked_for(log: &Path) {
    let log = fs::read_to_string(log).unwrap();
    let events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let secrets: Vec<Value> = events
        .filter(|event| {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            text("requestURI").starts_with("/api/v1/secrets?limit=100") && text("verb") == "list"
        })
        .collect();
    assert!(!secrets.is_empty());
    for event in secrets {
        let uri = event["requestURI"].as_str().unwrap();
        assert!(
            uri.contains("labelSelector=owner%3Dhelm") && uri.contains("resourceVersion=0"),
            "{uri}"
        );
    }
}
