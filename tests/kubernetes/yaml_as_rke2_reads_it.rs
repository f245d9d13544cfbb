//! Level 4: how RKE2 reads a manifest, byte for byte, on a real API server.
//!
//! `tests/fixtures/yaml-as-rke2-reads-it.json` is a list of files, each with its result: the objects after one pass of
//! the deploy controller, or the reason and text of the failure. The reader of the `manifest` module is tested against
//! the same list without any cluster. `{1: a, "1": b}` is left out, because RKE2 takes one or the other by chance.
//! `WINDROW_UPDATE=1` records what RKE2 does now.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};
use support::cluster::{self, DEADLINE, Who, eventually};

use crate::support;

static CLUSTER: cluster::SharedCluster = cluster::SharedCluster::const_new();

const FIXTURE: &str = "tests/fixtures/yaml-as-rke2-reads-it.json";

/// Why a file was refused, from the Addon's event.
const FAILURES: [&str; 4] = [
    "ReadManifestFailed",
    "ParseManifestFailed",
    "ValidateManifestFailed",
    "ApplyManifestFailed",
];

fn probe() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("test.windrow.dev", "v1", "Probe"))
}

/// A kind that keeps every field.
async fn define_probe(client: &Client) {
    let definition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "probes.test.windrow.dev" },
        "spec": {
            "group": "test.windrow.dev",
            "scope": "Namespaced",
            "names": { "plural": "probes", "singular": "probe", "kind": "Probe", "listKind": "ProbeList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    let probes: Api<DynamicObject> = Api::all_with(client.clone(), &probe());
    eventually("Probe is served", DEADLINE, async || {
        probes.list(&ListParams::default()).await.ok()
    })
    .await;
}

/// The bytes of a case: as text, or in hex where they are none.
fn content(case: &Value) -> Vec<u8> {
    match (case["content"].as_str(), case["hex"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(hex)) => (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect(),
        _ => panic!("{} has either content or hex", case["name"]),
    }
}

/// An object as its file declared it: without what the API server and the deploy controller add.
fn declared(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    if metadata.contains_key("generateName") {
        metadata.remove("name");
    }
    for texts in ["labels", "annotations"] {
        if let Some(Value::Object(texts)) = metadata.get_mut(texts) {
            texts.retain(|key, _| !key.starts_with("objectset.rio.cattle.io/"));
        }
    }
    let keep = ["name", "namespace", "generateName", "labels", "annotations"];
    metadata.retain(|key, value| keep.contains(&key.as_str()) && *value != json!({}));
    object
}

/// The Addon whose file an object came from.
fn owner(object: &DynamicObject) -> Option<String> {
    object
        .metadata
        .annotations
        .as_ref()?
        .get("objectset.rio.cattle.io/owner-name")
        .cloned()
}

/// The result of each file after one pass.
async fn outcomes(client: &Client, names: &[String]) -> BTreeMap<String, Value> {
    let mut found: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let probes: Api<DynamicObject> = Api::all_with(client.clone(), &probe());
    for object in probes.list(&ListParams::default()).await.unwrap() {
        let Some(owner) = owner(&object) else {
            continue;
        };
        let mut value = serde_json::to_value(&object).unwrap();
        value["apiVersion"] = json!("test.windrow.dev/v1");
        value["kind"] = json!("Probe");
        let objects = found
            .entry(owner)
            .or_default()
            .entry("objects")
            .or_insert_with(|| json!([]));
        objects.as_array_mut().unwrap().push(declared(value));
    }
    let events: Api<Event> = Api::namespaced(client.clone(), "kube-system");
    for event in events.list(&ListParams::default()).await.unwrap() {
        let (Some(reason), Some(message)) = (&event.reason, &event.message) else {
            continue;
        };
        if FAILURES.contains(&reason.as_str()) {
            let (_, text) = message.split_once(" failed: ").unwrap();
            let outcome = found
                .entry(event.involved_object.name.unwrap())
                .or_default();
            outcome.insert("reason".to_owned(), json!(reason));
            outcome.insert("error".to_owned(), json!(text));
        }
    }
    names
        .iter()
        .map(|name| {
            let mut outcome = found.remove(name).unwrap_or_default();
            outcome.entry("objects").or_insert_with(|| json!([]));
            (name.clone(), Value::Object(outcome))
        })
        .collect()
}

#[tokio::test]
async fn rke2_reads_every_file_of_the_table_as_the_fixture_says() {
    let Some(cluster) = cluster::shared(&CLUSTER).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    let client = cluster.client(Who::Admin).await;
    define_probe(&client).await;

    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    let mut cases: Vec<Value> = serde_json::from_slice(&fs::read(&fixture).unwrap()).unwrap();
    let folder: PathBuf = cluster.dir().join("manifests");
    fs::create_dir(&folder).unwrap();
    let names: Vec<_> = cases
        .iter()
        .map(|case| case["name"].as_str().unwrap().to_owned())
        .collect();
    for (case, name) in cases.iter().zip(&names) {
        fs::write(folder.join(format!("{name}.yaml")), content(case)).unwrap();
    }
    let Some(controller) = cluster.deploy(&folder) else {
        return;
    };
    controller.passed(1).await;
    // Every failure has an event, and events are written asynchronously.
    let failed = failures(&controller.log());
    let seen = eventually("every failed file has its event", DEADLINE, async || {
        let outcomes = outcomes(&client, &names).await;
        let told = outcomes
            .values()
            .filter(|outcome| outcome["error"].is_string())
            .count();
        (told >= failed).then_some(outcomes)
    })
    .await;

    let mut wrong = Vec::new();
    for case in &mut cases {
        let seen = &seen[case["name"].as_str().unwrap()];
        if case["outcome"] != *seen {
            wrong.push(format!(
                "{}\n  fixture: {}\n  seen:    {seen}",
                case["name"], case["outcome"]
            ));
        }
        case["outcome"] = seen.clone();
    }
    if std::env::var_os("WINDROW_UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&cases).unwrap();
        fs::write(fixture, text + "\n").unwrap();
        return;
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// How many files the controller reports that it could not process in its first pass.
fn failures(log: &str) -> usize {
    let first = log.split("pass ended").next().unwrap_or_default();
    first.matches("failed to process /").count()
}
