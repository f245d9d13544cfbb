//! Level 4: the simulated deploy controller does what the one of `tests/cluster/node` does on a real API server.
//!
//! Both get the same directories with the same changes between the same passes (`support/directories.rs`). The
//! comparison covers which files each pass took up and in which order, the events of each, which failed and with which
//! message; and in the end the Addons, the objects with their owners and content, the order in which they were last
//! written, and the number of writes. Where the two differ, the simulation is wrong.
//!
//! `docs/dev/testing.md` says which parts of the real controller are real.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod cases;
mod directories;
mod real;
mod simulated;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use cases::cases;
use directories::{DIRECTORIES, Directory, Kind, LATE};
use kube::core::GroupVersionKind;
use real::{Meeting, Real};
use serde_json::Value;
use simulated::Simulated;
use support::cluster::{AuditLog, Cluster, Recorder, Spec, Who};

use crate::support;

/// The result of a directory.
#[derive(Debug, Default)]
struct Outcome {
    passes: Vec<Pass>,
    /// Checksum and file.
    addons: BTreeMap<String, (String, String)>,
    /// The Addon that each object belongs to.
    objects: BTreeMap<String, String>,
    /// The objects whose writes only the controller decides, by their last write.
    order: Vec<String>,
    /// Successful writes, without events.
    writes: usize,
}

/// One pass.
#[derive(Debug, Default)]
struct Pass {
    /// File and event, in order.
    events: Vec<String>,
    /// What failed, and the message; empty where there is no event.
    failed: BTreeMap<String, String>,
    /// Why no file was looked at.
    aborted: Option<String>,
}

impl Outcome {
    /// All of it, a fact a line.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (pass, number) in self.passes.iter().zip(1..) {
            let told = pass.events.iter().zip(1..);
            lines.extend(told.map(|(event, at)| format!("pass {number}, event {at}: {event}")));
            let failed = pass.failed.iter();
            lines.extend(failed.map(|(file, why)| format!("pass {number}: {file} failed: {why}")));
            let aborted = pass.aborted.iter();
            lines.extend(aborted.map(|why| format!("pass {number}: aborted: {why}")));
            lines.push(format!("pass {number} is over"));
        }
        let addons = self.addons.iter();
        lines.extend(addons.map(|(name, (sum, file))| format!("Addon {name} of {file}: {sum:?}")));
        let objects = self.objects.iter();
        lines.extend(objects.map(|(object, owner)| format!("{object} of {owner}")));
        lines.push(format!("written in order: {}", self.order.join(", ")));
        lines.push(format!("{} writes", self.writes));
        lines
    }
}

#[tokio::test]
async fn the_simulated_deploy_controller_does_what_the_real_one_does() {
    let webhooks = cases().into_iter().filter(guards);
    let directories = DIRECTORIES.iter().copied().chain(webhooks);
    held_to_reality(directories, Promptness::Quick).await;
}

#[tokio::test]
async fn a_kind_that_is_served_late_fares_as_on_an_api_server_that_waits_for_others() {
    held_to_reality([LATE].into_iter(), Promptness::WaitsForOthers).await;
}

#[tokio::test]
async fn the_manifests_of_every_known_way_to_deadlock_fare_as_on_a_real_api_server() {
    let cases = cases().into_iter().filter(|case| !guards(case));
    held_to_reality(cases, Promptness::Quick).await;
}

/// Does it bring a webhook? That would be asked about the pods of all the others, and has to be in a cluster without any.
fn guards(case: &Directory) -> bool {
    let hook = |kind: &Kind| kind.kind.ends_with("WebhookConfiguration");
    case.kinds.iter().any(hook)
}

/// How soon kube-apiserver serves the kind of a new definition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promptness {
    /// Some hundredths of a second later.
    Quick,
    /// Five seconds later: it believes that there are others, which have to hear of it first.
    WaitsForOthers,
}

async fn held_to_reality(directories: impl Iterator<Item = Directory>, promptness: Promptness) {
    let only = std::env::var("WINDROW_DIRECTORY").ok();
    let chosen: Vec<Directory> = directories
        .filter(|directory| only.as_deref().is_none_or(|name| name == directory.name))
        .collect();
    let arguments: &[&str] = match promptness {
        Promptness::Quick => &[],
        Promptness::WaitsForOthers => &["--apiserver-count=2"],
    };
    let spec = Spec {
        audit: AuditLog::Writes,
        arguments: arguments.iter().map(ToString::to_string).collect(),
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let recorder = Recorder::start(cluster.client(Who::Admin).await).await;
    // The kinds of RKE2 itself are there before many controllers want to register them at once.
    let empty = cluster.dir().join("empty");
    fs::create_dir(&empty).unwrap();
    let Some(first) = cluster.deploy(&empty) else {
        return;
    };
    first.passed(1).await;
    drop(first);
    let meeting = Meeting::of(&chosen);
    let differences = futures::future::join_all(
        chosen
            .iter()
            .map(|directory| difference(directory, promptness, &cluster, &recorder, &meeting)),
    )
    .await;
    drop(recorder);
    let Some(differences) = differences.into_iter().collect::<Option<Vec<String>>>() else {
        return;
    };
    // Its logs would bury the differences.
    drop(cluster);
    let all = differences.concat();
    assert!(all.is_empty(), "{all}");
}

/// Where simulation and reality differ; empty when they do not, `None` when there is no controller here.
async fn difference(
    directory: &Directory,
    promptness: Promptness,
    cluster: &Cluster,
    recorder: &Recorder,
    meeting: &Meeting,
) -> Option<String> {
    let mut simulated = Simulated::new(directory, promptness);
    let expected = simulated.run();
    let real = Real::new(directory, cluster, recorder, meeting);
    let (seen, contents) = real.run().await?;

    let (theirs, ours) = (seen.lines(), expected.lines());
    let mut text = String::new();
    for (sign, lines, others) in [("real", &theirs, &ours), ("simulated", &ours, &theirs)] {
        for line in lines.iter().filter(|line| !others.contains(line)) {
            let _ = writeln!(text, "only {sign}: {line}");
        }
    }
    if text.is_empty() && theirs != ours {
        let _ = writeln!(text, "another order: real {theirs:#?}\nsimulated {ours:#?}");
    }
    for (object, theirs) in contents {
        let Some(ours) = simulated.content(&object) else {
            continue;
        };
        for field in ["data", "spec", "rules", "metadata"] {
            let (ours, theirs) = (&ours[field], &theirs[field]);
            if !within(ours, theirs) {
                let _ = writeln!(text, "{object}: real {theirs}, simulated {ours}");
            }
        }
    }
    if !text.is_empty() {
        text = format!("=== {}\n{text}", directory.name);
    }
    Some(text)
}

/// Does the object have all that was asked for? The API server adds defaults, numbers and addresses, and leaves out
/// what is empty.
fn within(asked: &Value, there: &Value) -> bool {
    match (asked, there) {
        (Value::Null, _) => true,
        (Value::Array(asked), Value::Null) => asked.is_empty(),
        (Value::Object(asked), Value::Object(there)) => asked.iter().all(|(key, value)| {
            matches!(
                key.as_str(),
                "resourceVersion" | "generation" | "name" | "clusterIP"
            ) || there.get(key).is_some_and(|there| within(value, there))
        }),
        (Value::Array(asked), Value::Array(there)) => {
            asked.len() == there.len() && asked.iter().zip(there).all(|(a, t)| within(a, t))
        }
        (asked, there) => asked == there,
    }
}

fn named(text: &str, directory: &Directory) -> String {
    text.replace('@', directory.name)
}

/// An object's name in the comparison: its beginning if the API server chose the rest.
fn called(kind: &str, metadata: &Value) -> String {
    let name = match metadata["generateName"].as_str() {
        Some(begin) => format!("{begin}*"),
        None => metadata["name"].as_str().unwrap_or_default().to_owned(),
    };
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Is the status of this kind never written, there or here?
fn is_left_alone(kind: &str) -> bool {
    matches!(
        kind,
        "ClusterRole" | "ConfigMap" | "Secret" | "ServiceAccount" | "StorageClass"
    ) || kind.ends_with("WebhookConfiguration")
}

/// Group, version and kind of everything to look for.
fn kinds(directory: &Directory) -> Vec<GroupVersionKind> {
    let mut kinds = vec![
        GroupVersionKind::gvk("", "v1", "ConfigMap"),
        GroupVersionKind::gvk("", "v1", "Namespace"),
        GroupVersionKind::gvk("", "v1", "Secret"),
        GroupVersionKind::gvk("", "v1", "ServiceAccount"),
        GroupVersionKind::gvk("apps", "v1", "Deployment"),
        GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ];
    for kind in directory.kinds {
        let group = named(kind.group, directory);
        let kind = GroupVersionKind::gvk(&group, kind.version, kind.kind);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The message of an error; nothing where there is no event with it, or where the words are the YAML reader's own.
fn words(reason: &str, message: &str) -> String {
    match reason {
        "" | "ParseManifestFailed" => String::new(),
        // `Applying manifest at "…" failed: …`
        _ => match message.split_once(" failed: ") {
            Some((doing, text)) if doing.contains("manifest") => text.to_owned(),
            _ => message.to_owned(),
        },
    }
}
