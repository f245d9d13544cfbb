//! Level 4: the daemon on a node whose RKE2 is the real deploy controller against a real API server.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::Value;
use support::cluster::{self, DEADLINE, Who, eventually};

use crate::support;

static CLUSTER: cluster::SharedCluster = cluster::SharedCluster::const_new();

/// A root with a daemon on it. It ends with the value.
pub(crate) struct Node {
    root: PathBuf,
    pub(crate) daemon: Child,
}

impl Node {
    pub(crate) fn manifests(root: &Path) -> PathBuf {
        root.join("var/lib/rancher/rke2/server/manifests")
    }

    pub(crate) fn start(root: &Path, kubeconfig: &Path) -> Self {
        fs::create_dir_all(Self::manifests(root)).unwrap();
        let place = root.join("etc/rancher/rke2/rke2.yaml");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(kubeconfig, place).unwrap();
        let daemon = Command::new(env!("CARGO_BIN_EXE_windrowd"))
            .arg("--root")
            .arg(root)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            root: root.to_owned(),
            daemon,
        }
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let content = fs::read(self.root.join("run/windrow/status.json")).ok()?;
        serde_json::from_slice(&content).ok()
    }

    /// Is the file in this list of the status?
    pub(crate) fn lists(&self, list: &str, file: &str) -> bool {
        self.status().is_some_and(|status| {
            status["staging"][list]
                .as_array()
                .is_some_and(|files| files.iter().any(|entry| entry["file"] == file))
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

const CUSTOM: &str = "apiVersion: daemon.example.com/v1
kind: Widget
metadata: {name: first, namespace: daemon-widgets}
";
const DEFINITION: &str = "apiVersion: v1
kind: Namespace
metadata: {name: daemon-widgets}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.daemon.example.com}
spec:
  group: daemon.example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn a_custom_resource_waits_for_its_definition_and_is_applied_without_one_failure() {
    let Some(cluster) = cluster::shared(&CLUSTER).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    let root = cluster.dir().join("daemon-order");
    let manifests = Node::manifests(&root);
    fs::create_dir_all(&manifests).unwrap();
    // Sorts first, needs what sorts last.
    fs::write(manifests.join("daemon-10-custom.yaml"), CUSTOM).unwrap();
    let node = Node::start(&root, &cluster.kubeconfig(Who::Admin));
    eventually("the marker", DEADLINE, async || {
        manifests
            .join("daemon-10-custom.yaml.skip")
            .exists()
            .then_some(())
    })
    .await;
    fs::write(manifests.join("daemon-20-definition.yaml"), DEFINITION).unwrap();
    let Some(_rke2) = cluster.deploy(&manifests) else {
        return;
    };
    eventually("the custom resource applied", DEADLINE, async || {
        node.lists("applied", "daemon-10-custom.yaml").then_some(())
    })
    .await;
    assert!(!manifests.join("daemon-10-custom.yaml.skip").exists());
    assert_eq!(
        failures(cluster, &["daemon-10", "daemon-20"]).await,
        [""; 0]
    );
}

/// What RKE2 said of its failures with files whose names begin so.
pub(crate) async fn failures(cluster: &cluster::Cluster, names: &[&str]) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(cluster.client(Who::Admin).await, "kube-system");
    let warnings = ListParams::default().fields("type=Warning");
    let events = events.list(&warnings).await.unwrap().items.into_iter();
    let is_about = |event: &Event| {
        let name = event.involved_object.name.as_deref();
        name.is_some_and(|name| names.iter().any(|begin| name.starts_with(begin)))
    };
    let events = events.filter(is_about);
    events.filter_map(|event| event.message).collect()
}

/// As Gatekeeper's own: it fails closed, and is asked about namespaces alone; here about those with a label.
const GUARD: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: 'https://127.0.0.1:9/'}
  objectSelector: {matchLabels: {guarded: 'yes'}}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [namespaces]}]
";
const GUARDED: &str = "apiVersion: v1
kind: Namespace
metadata: {name: guarded, labels: {guarded: 'yes'}}
";
const INSIDE: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: inside, namespace: guarded}
spec:
  replicas: 0
  selector: {matchLabels: {app: inside}}
  template:
    metadata: {labels: {app: inside}}
    spec: {containers: [{name: inside, image: inside.invalid/inside}]}
";

#[tokio::test]
async fn a_file_does_not_fail_because_a_webhook_refuses_its_namespace() {
    let Some(cluster) = cluster::shared(&CLUSTER).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    let root = cluster.dir().join("daemon-guard");
    let manifests = Node::manifests(&root);
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("guard-10.yaml"), GUARD).unwrap();
    fs::write(manifests.join("guard-20.yaml"), GUARDED).unwrap();
    fs::write(manifests.join("guard-30.yaml"), INSIDE).unwrap();
    let node = Node::start(&root, &cluster.kubeconfig(Who::Admin));
    eventually("the marker", DEADLINE, async || {
        manifests.join("guard-30.yaml.skip").exists().then_some(())
    })
    .await;
    let Some(_rke2) = cluster.deploy(&manifests) else {
        return;
    };
    eventually("the namespace refused", DEADLINE, async || {
        node.lists("failed", "guard-20.yaml").then_some(())
    })
    .await;
    let open = GUARD.replace("Policy: Fail", "Policy: Ignore");
    fs::write(manifests.join("guard-10.yaml"), open).unwrap();
    eventually("the object applied", DEADLINE, async || {
        node.lists("applied", "guard-30.yaml").then_some(())
    })
    .await;
    assert_eq!(failures(cluster, &["guard-30"]).await, [""; 0]);
}

/// A password that its definition refuses, and words that it takes for a number.
const REFUSED: &str = "apiVersion: refused.example.com/v1
kind: Widget
metadata: {name: first, namespace: default}
spec: {password: p4sswordThatIsQuoted, motto: m0ttoThatIsQuoted, count: c0untThatIsQuoted}
";
const STRICT: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.refused.example.com}
spec:
  group: refused.example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                password: {type: string, minLength: 40}
                motto: {type: string, pattern: '^[a-z]+$', enum: [one, two]}
                count: {type: integer}
";
const QUOTED: &str = "ThatIsQuoted";

/// Files below a directory that contain this text.
fn with_text(below: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap().map_while(Result::ok) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(with_text(&path, text));
        } else if kind.is_file()
            && String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(text)
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn what_the_api_quotes_of_a_refused_object_is_in_nothing_that_the_daemon_writes() {
    let Some(cluster) = cluster::shared(&CLUSTER).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    let root = cluster.dir().join("daemon-quotes");
    let manifests = Node::manifests(&root);
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("daemon-50-refused.yaml"), REFUSED).unwrap();
    fs::write(manifests.join("daemon-60-strict.yaml"), STRICT).unwrap();
    let node = Node::start(&root, &cluster.kubeconfig(Who::Admin));
    let Some(_rke2) = cluster.deploy(&manifests) else {
        return;
    };
    let events: Api<Event> = Api::namespaced(cluster.client(Who::Admin).await, "kube-system");
    // RKE2 has the values in its own event: the API quoted them.
    eventually("RKE2's event with a value in it", DEADLINE, async || {
        let warnings = ListParams::default().fields("type=Warning");
        let all = events.list(&warnings).await.unwrap().items;
        all.into_iter()
            .filter_map(|event| event.message)
            .any(|message| message.contains(QUOTED))
            .then_some(())
    })
    .await;
    let status = eventually("the refusal in the status", DEADLINE, async || {
        let status = node.status()?.to_string();
        (status.contains("Invalid value") && status.contains("spec.password")).then_some(status)
    })
    .await;
    assert!(!status.contains(QUOTED), "{status}");
    assert!(status.contains("[redacted]"), "{status}");
    let written = with_text(&root, QUOTED);
    assert_eq!(written, [manifests.join("daemon-50-refused.yaml")]);
}
