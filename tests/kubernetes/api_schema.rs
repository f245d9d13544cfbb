//! Level 4: what the crate `windrow-apischema` says of an object, held to kube-apiserver of the oldest and of the newest minor here.
//!
//! `api_schema/whole.yaml` has objects that both take. Each is broken in each of its fields in each way of [`BREAKS`], and sent as RKE2's
//! apply sends it (create, the default field validation), as a dry run. What is called refused must be refused. What is refused and not
//! called so stands in `api_schema/not_judged.txt` with the server's reason; a new one fails the test, and so does one that no longer
//! occurs. With `WINDROW_UPDATE=1` that file is written, and `data/enforced.txt` of the crate.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use futures::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Minor, Spec, Who, eventually};
use support::objects::{Gvk, api};
use windrow_apischema::{CustomKind, Problem, ProblemKind, ValueRules};
use windrow_model::manifest::{self, FileContent, Object, ReadLimits};
use windrow_plan::kubernetes::{Minors, served_kinds};

use crate::support;

const WHOLE: &str = include_str!("api_schema/whole.yaml");
const DEFINITION: &str = include_str!("api_schema/definition.yaml");
const WIDGET: Gvk = ("example.com", "v1", "Widget");
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubernetes/api_schema");
const ENFORCED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/crates/apischema/data/enforced.txt"
);
const MINORS: [(Minor, u16); 2] = [(Minor::V1_31, 31), (Minor::V1_36, 36)];

/// The ways in which a field is broken.
const BREAKS: [&str; 8] = [
    "removed",
    "null",
    "of another type",
    "empty",
    "nonsense",
    "negative",
    "with a field more",
    "twice",
];

/// One object of the corpus.
struct Case {
    /// `Pod spec.containers[].name removed`, and the number of the object that it was made from.
    name: String,
    json: Value,
}

/// What kube-apiserver said.
struct Answer {
    refused: bool,
    /// It warned of a field that it dropped.
    dropped: bool,
    message: String,
    fields: Vec<String>,
}

fn objects(text: &str) -> Vec<Object> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    file.objects().cloned().collect()
}

/// Everything that is sent: the whole objects, and each of them broken.
fn corpus() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for object in objects(WHOLE) {
        let whole = object.node.to_json();
        let kind = object.id.kind.as_str();
        let mut add = |what: String, json: Value| {
            let number = names.entry(what.clone()).or_default();
            *number += 1;
            let name = if *number == 1 {
                what
            } else {
                format!("{what} ({number})")
            };
            cases.push(Case { name, json });
        };
        add(format!("{kind} whole"), whole.clone());
        let mut places = Vec::new();
        find_places(&whole, String::new(), &mut places);
        for place in places {
            for how in BREAKS {
                if let Some(json) = broken(&whole, &place, how) {
                    let path = shown_path(&place);
                    add(format!("{kind} {path} {how}"), json);
                }
            }
        }
    }
    cases
}

/// JSON pointers to every field and item below the top, but what says which object it is.
fn find_places(value: &Value, at: String, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let at = format!("{at}/{key}");
        if ["/apiVersion", "/kind", "/metadata/name"].contains(&&*at) {
            continue;
        }
        if at != "/metadata" {
            places.push(at.clone());
        }
        find_places(child, at, places);
    }
}

/// `/spec/containers/0/name` as `spec.containers[].name`.
fn shown_path(place: &str) -> String {
    let mut text = String::new();
    for part in place.split('/').skip(1) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            text.push_str("[]");
            continue;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(&part.replace("~1", "/"));
    }
    text
}

fn broken(whole: &Value, place: &str, how: &str) -> Option<Value> {
    let mut json = whole.clone();
    let (parent, key) = place.rsplit_once('/')?;
    if how == "removed" {
        match json.pointer_mut(parent)? {
            Value::Object(map) => drop(map.remove(&key.replace("~1", "/"))),
            Value::Array(items) => drop(items.remove(key.parse().ok()?)),
            _ => return None,
        }
        return Some(json);
    }
    let value = json.pointer_mut(place)?;
    // RKE2 drops labels of an object that are no text before kube-apiserver sees them, and the check leaves them to others.
    let of_object =
        place.starts_with("/metadata/labels") || place.starts_with("/metadata/annotations");
    let new = match (how, &*value) {
        ("null", Value::Null) => return None,
        ("null" | "of another type" | "with a field more", _) if of_object => return None,
        ("null", _) => Value::Null,
        ("of another type", Value::String(_)) => json!(8080),
        ("of another type", Value::Number(_)) => json!("text"),
        ("of another type", Value::Bool(_)) => json!("true"),
        ("of another type", Value::Array(_)) => json!({"a": "b"}),
        ("of another type", Value::Object(_)) => json!(["a"]),
        ("empty", Value::String(text)) if !text.is_empty() => json!(""),
        ("empty", Value::Number(_)) => json!(0),
        ("empty", Value::Array(_)) => json!([]),
        ("empty", Value::Object(map)) if !map.is_empty() => json!({}),
        ("nonsense", Value::String(_)) => json!("Not Valid_!/"),
        ("nonsense", Value::Number(_)) => json!(70_000),
        ("negative", Value::Number(_)) => json!(-1),
        ("with a field more", Value::Object(map)) => {
            let mut map = map.clone();
            map.insert("unheardOf".to_owned(), json!("x"));
            Value::Object(map)
        }
        ("twice", Value::Array(items)) => {
            let mut items = items.clone();
            items.extend(items.first().cloned());
            Value::Array(items)
        }
        _ => return None,
    };
    *value = new;
    Some(json)
}

/// Where objects of each kind are sent.
async fn addresses(client: &Client) -> BTreeMap<(String, String), String> {
    let mut addresses = BTreeMap::new();
    let all: BTreeSet<String> = objects(WHOLE)
        .iter()
        .map(|object| object.node.str_at(&["apiVersion"]).unwrap().to_owned())
        .collect();
    for api_version in all {
        let root = match api_version.contains('/') {
            true => format!("/apis/{api_version}"),
            false => format!("/api/{api_version}"),
        };
        let request = http::Request::get(&root).body(Vec::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if name.contains('/') {
                continue;
            }
            let place = match resource["namespaced"].as_bool().unwrap() {
                true => format!("{root}/namespaces/default/{name}"),
                false => format!("{root}/{name}"),
            };
            let kind = resource["kind"].as_str().unwrap().to_owned();
            addresses.insert((api_version.clone(), kind), place);
        }
    }
    addresses
}

async fn send(client: &Client, address: &str, json: &Value) -> Answer {
    let request = http::Request::post(format!("{address}?dryRun=All"))
        .header("content-type", "application/json")
        .body(Body::from(serde_json::to_vec(json).unwrap()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let status = response.status().as_u16();
    let dropped = response
        .headers()
        .get_all("warning")
        .iter()
        .any(|value| value.to_str().unwrap_or_default().contains("unknown field"));
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let refused = status >= 400;
    let causes = body["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    Answer {
        refused,
        dropped,
        message: body["message"].as_str().unwrap_or_default().to_owned(),
        fields: causes
            .iter()
            .filter_map(|cause| Some(without_indexes(cause["field"].as_str()?)))
            // So it calls the taints of a Node's spec.
            .map(|field| field.replace("metadata.taints", "spec.taints"))
            .collect(),
    }
}

fn without_indexes(field: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for ch in field.chars() {
        match ch {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => text.push(ch),
            _ => {}
        }
    }
    text
}

/// The first of what the server says, without the name of the object.
fn reason(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first
        .split_once(" is invalid: ")
        .map_or(first, |(_, rest)| rest);
    first.chars().take(120).collect()
}

fn problems(object: &Object, custom: &CustomKind, minor: u16) -> Vec<Problem> {
    let minors = Minors::of_version(minor);
    let mut rules = ValueRules::default();
    match object.id.group == "example.com" {
        true => custom.check(object, minors, &mut |rule, value| rules.judge(rule, value)),
        false => windrow_apischema::check(object, minors),
    }
}

/// Everything that one minor said, by the name of the case; `None` when the parts are not here.
async fn ask(minor: Minor, cases: &[Case]) -> Option<Vec<Answer>> {
    let spec = Spec {
        minor,
        ..Spec::default()
    };
    let cluster = Cluster::start(spec).await?;
    let client = cluster.client(Who::Admin).await;
    let definition = objects(DEFINITION)[0].node.to_json();
    support::objects::create(&api(&client, support::objects::DEFINITION, ""), definition).await;
    let served = api(&client, WIDGET, "default");
    eventually("the kind is served", DEADLINE, async || {
        served.list(&Default::default()).await.ok().map(drop)
    })
    .await;
    let addresses = addresses(&client).await;
    let answers = stream::iter(cases).map(|case| {
        let kind = (
            case.json["apiVersion"].as_str().unwrap().to_owned(),
            case.json["kind"].as_str().unwrap().to_owned(),
        );
        send(&client, &addresses[&kind], &case.json)
    });
    Some(answers.buffered(16).collect().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_called_refused_is_refused_and_what_is_not_judged_is_listed() {
    let cases = corpus();
    assert!(cases.len() >= 2000, "{}", cases.len());
    let custom = CustomKind::read(&objects(DEFINITION)[0]).unwrap();
    let mut wrong = Vec::new();
    let mut missed: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    // Claims of the published specification, and whether each object against one was refused for it.
    let mut claims: BTreeMap<String, bool> = BTreeMap::new();
    for (minor, number) in MINORS {
        let Some(answers) = ask(minor, &cases).await else {
            return;
        };
        for (case, answer) in cases.iter().zip(&answers) {
            let read = objects(&case.json.to_string());
            let object = &read[0];
            let problems = problems(object, &custom, number);
            let refused: Vec<&Problem> = problems.iter().filter(|one| one.refuses()).collect();
            let name = format!("1.{number} {}", case.name);
            for (claim, path) in windrow_apischema::claims(object, Minors::of_version(number)) {
                let path = without_indexes(&path);
                let about = answer.fields.iter().any(|field| {
                    !field.is_empty()
                        && (path.starts_with(field.as_str()) || field.starts_with(&path))
                });
                let enforced = answer.refused && (about || answer.fields.is_empty());
                *claims.entry(claim).or_insert(true) &= enforced;
            }
            match (refused.is_empty(), answer.refused) {
                (false, false) => {
                    wrong.push(format!("{name}: taken, and called refused: {refused:?}"))
                }
                (true, true) => {
                    let of_case = missed.entry(case.name.clone()).or_default();
                    of_case.0 = reason(&answer.message);
                    of_case.1.push(format!("1.{number}"));
                }
                (true, false) => {
                    let says = problems
                        .iter()
                        .any(|one| one.kind == ProblemKind::UnknownField);
                    if says != answer.dropped {
                        wrong.push(format!(
                            "{name}: drops a field: {}, said: {says}",
                            answer.dropped
                        ));
                    }
                }
                (false, true) => {}
            }
        }
    }
    let update = std::env::var_os("WINDROW_UPDATE").is_some();
    compare_enforced(&claims, update, &mut wrong);
    compare_missed(&missed, update, &mut wrong);
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn compare_enforced(claims: &BTreeMap<String, bool>, update: bool, wrong: &mut Vec<String>) {
    let mut text = String::from(
        "# What the published specification calls required or an enum, and kube-apiserver 1.31 and 1.36 enforce: written by\n\
         # tests/kubernetes/api_schema.rs with WINDROW_UPDATE=1, out of what they refused. What is not here is not judged.\n",
    );
    for (claim, _) in claims.iter().filter(|(_, enforced)| **enforced) {
        writeln!(text, "{claim}").unwrap();
    }
    compare(Path::new(ENFORCED), &text, update, wrong);
}

fn compare_missed(
    missed: &BTreeMap<String, (String, Vec<String>)>,
    update: bool,
    wrong: &mut Vec<String>,
) {
    let mut text = String::from(
        "# What kube-apiserver refuses and windrow-apischema does not judge, with the server's reason: the kind, the field, how it was\n\
         # broken, and the minor where it is only one. Written by tests/kubernetes/api_schema.rs with WINDROW_UPDATE=1. To miss is better than to give a false alarm.\n",
    );
    for (name, (reason, minors)) in missed {
        let only = match minors.len() == MINORS.len() {
            true => String::new(),
            false => format!(" ({})", minors.join(", ")),
        };
        writeln!(text, "{name}{only}: {reason}").unwrap();
    }
    compare(
        &Path::new(FILES).join("not_judged.txt"),
        &text,
        update,
        wrong,
    );
}

/// Holds a file to what it should be, line by line.
fn compare(path: &Path, text: &str, update: bool, wrong: &mut Vec<String>) {
    if update {
        std::fs::write(path, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let (known, now): (BTreeSet<&str>, BTreeSet<&str>) =
        (known.lines().collect(), text.lines().collect());
    let name = path.file_name().unwrap().to_string_lossy();
    wrong.extend(
        now.difference(&known)
            .map(|line| format!("{name} lacks: {line}")),
    );
    wrong.extend(
        known
            .difference(&now)
            .map(|line| format!("{name} has what no longer occurs: {line}")),
    );
}

#[tokio::test]
async fn the_kinds_that_are_called_served_are_those_of_discovery() {
    let mut wrong = Vec::new();
    for (minor, number) in MINORS {
        let spec = Spec {
            minor,
            ..Spec::default()
        };
        let Some(cluster) = Cluster::start(spec).await else {
            return;
        };
        let client = cluster.client(Who::Admin).await;
        let request = http::Request::get("/apis").body(Vec::new()).unwrap();
        let groups: Value = client.request(request).await.unwrap();
        let mut roots = vec![("v1".to_owned(), "/api/v1".to_owned())];
        for group in groups["groups"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                let name = version["groupVersion"].as_str().unwrap();
                roots.push((name.to_owned(), format!("/apis/{name}")));
            }
        }
        let mut served: BTreeSet<(String, String)> = BTreeSet::new();
        for (api_version, root) in roots {
            let request = http::Request::get(&root).body(Vec::new()).unwrap();
            let list: Value = client.request(request).await.unwrap();
            for resource in list["resources"].as_array().unwrap() {
                let creates = resource["verbs"]
                    .as_array()
                    .unwrap()
                    .contains(&json!("create"));
                if creates && !resource["name"].as_str().unwrap().contains('/') {
                    let kind = resource["kind"].as_str().unwrap();
                    served.insert((api_version.clone(), kind.to_owned()));
                }
            }
        }
        let known: BTreeSet<(String, String)> = served_kinds(Minors::of_version(number))
            .map(|(api_version, kind)| (api_version.to_owned(), kind.to_owned()))
            .collect();
        wrong.extend(
            served
                .difference(&known)
                .map(|kind| format!("1.{number} serves {kind:?}")),
        );
        wrong.extend(
            known
                .difference(&served)
                .map(|kind| format!("1.{number} does not serve {kind:?}")),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
