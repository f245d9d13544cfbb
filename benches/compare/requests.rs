//! Every request to kube-apiserver, from its own audit log.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

/// The harness' own requests say that they are its.
pub(crate) const HARNESS: &str = "harness";

/// One request that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// When it was answered.
    pub(crate) at: Timestamp,
    /// The program, as its user agent begins.
    pub(crate) program: String,
    verb: String,
    group: String,
    pub(crate) resource: String,
    namespace: String,
    name: String,
    code: u64,
    /// Whether it only asked what would come of it.
    is_trial: bool,
}

impl Request {
    /// Whether it asks for a change.
    pub(crate) fn is_write(&self) -> bool {
        let verbs = ["create", "update", "patch", "delete", "deletecollection"];
        verbs.contains(&self.verb.as_str()) && !self.is_trial
    }

    pub(crate) fn was_done(&self) -> bool {
        self.code < 300
    }

    /// An object that was looked for and is not there yet is no refusal.
    pub(crate) fn was_refused(&self) -> bool {
        self.code >= 400 && (self.is_write() || self.is_trial)
    }
}

/// What identifies an object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    pub(crate) group: String,
    pub(crate) plural: String,
    /// As the manifest has it: absent where the kind has none, or where it is left out.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// What was asked since a moment by everything but the cluster itself and the harness, in order.
pub(crate) fn since(log: &Path, began: Timestamp) -> Vec<Request> {
    let mut requests: Vec<Request> = fs::read_to_string(log)
        .unwrap_or_default()
        .lines()
        // The last line may be half written.
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|event| request(&event))
        .filter(|request| request.at >= began)
        .filter(|request| {
            let cluster = ["kube-apiserver", "kube-controller-manager", HARNESS];
            !cluster.contains(&request.program.as_str())
        })
        .collect();
    requests.sort_by_key(|request| request.at);
    requests
}

fn request(event: &Value) -> Option<Request> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // A watch is counted when it begins, everything else when it ends.
    let counted = match event["verb"].as_str()? {
        "watch" => "ResponseStarted",
        _ => "ResponseComplete",
    };
    if event["stage"] != counted {
        return None;
    }
    let object = &event["objectRef"];
    // Windrow as it was built before 2026-11-24 says nothing of itself.
    let agent = event["userAgent"].as_str().unwrap_or("windrow");
    Some(Request {
        at: event["stageTimestamp"].as_str()?.parse().ok()?,
        program: agent.split('/').next().unwrap_or_default().to_owned(),
        verb: text(&event["verb"]),
        group: text(&object["apiGroup"]),
        resource: match object["subresource"].as_str() {
            Some(sub) => format!("{}/{sub}", text(&object["resource"])),
            None => text(&object["resource"]),
        },
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        is_trial: event["requestURI"].to_string().contains("dryRun="),
    })
}

/// When each of these objects was there: its first write that was done.
pub(crate) fn first_writes(requests: &[Request], wanted: &[Object]) -> BTreeMap<Object, Timestamp> {
    let mut first: BTreeMap<Object, Timestamp> = BTreeMap::new();
    for request in requests
        .iter()
        .filter(|one| one.is_write() && one.was_done())
    {
        let made = wanted.iter().find(|object| {
            object.group == request.group
                && object.plural == request.resource
                && object.name == request.name
                && object.namespace.as_ref().is_none_or(|namespace| {
                    *namespace == request.namespace || request.namespace.is_empty()
                })
        });
        if let Some(object) = made {
            first.entry(object.clone()).or_insert(request.at);
        }
    }
    first
}
