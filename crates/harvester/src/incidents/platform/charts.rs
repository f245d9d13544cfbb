//! Charts of Harvester that are not Ready. Rancher makes Bundle `mcc-NAME` of a ManagedChart and gives the ManagedChart the Bundle's
//! status (`pkg/controllers/provisioningv2/managedchart`); Fleet installs it by a BundleDeployment of the same name, which says most.
//!
//! ```text
//!   ManagedChart ──> Bundle mcc-NAME ──> BundleDeployment ──> what it installed
//!        │ not Ready: Harvester begins no upgrade       │ changed since: Modified
//!        └ paused, or not applied yet: no incident      └ not up: NotReady, slow at first
//! ```

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_model::redact::Learner;

use super::{MOST, is_upgrading, quoted};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, condition, items, named, text};
use crate::upgrade::{label, time};

/// Fleet looks again every few minutes.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// Longer than Harvester's own charts take to come up.
const ROLLED_OUT: SignedDuration = SignedDuration::from_mins(30);
const LOCAL: &str = "fleet-local";

/// What Fleet calls a chart that is not Ready, by the fields that count them.
const STATES: &[(&str, &str)] = &[
    ("/status/summary/errApplied", "ErrApplied"),
    ("/status/summary/modified", "Modified"),
    ("/status/summary/notReady", "NotReady"),
    ("/status/summary/waitApplied", "WaitApplied"),
    ("/status/summary/outOfSync", "OutOfSync"),
    ("/status/summary/pending", "Pending"),
];

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let charts = objects.all(ObjectKind::MANAGED_CHART)?.iter();
    let charts: Vec<&Value> = charts
        .filter(|chart| text(chart, "/metadata/namespace") == LOCAL)
        .collect();
    // Without them it is no Harvester, and its bundles are somebody's own.
    if charts.is_empty() {
        return Ok(Vec::new());
    }
    let deployments = objects.all(ObjectKind::BUNDLE_DEPLOYMENT)?.iter();
    let mut deployments: Vec<&Value> = deployments
        .filter(|one| label(one, "fleet.cattle.io~1bundle-namespace") == LOCAL)
        .collect();
    let mut unready = Vec::new();
    for chart in charts {
        let bundle = format!("mcc-{}", text(chart, "/metadata/name"));
        let is_its = |one: &&Value| text(one, "/metadata/name") == bundle;
        let deployment = deployments.iter().copied().find(is_its);
        deployments.retain(|one| !is_its(one));
        unready.extend(Unready::read(chart, deployment));
    }
    // Rancher's own, of which an upgrade waits for some.
    let others = deployments.iter();
    unready.extend(others.filter_map(|one| Unready::read(one, Some(one))));
    let upgrading = !unready.is_empty() && is_upgrading(objects)?;
    let overdue = unready.iter().filter(|one| one.is_overdue(upgrading, now));
    Ok(overdue.map(Unready::finding).collect())
}

/// A chart, or a bundle without one, that is not Ready.
struct Unready<'o> {
    object: &'o Value,
    deployment: Option<&'o Value>,
    ready: &'o Value,
    state: &'o str,
}

impl<'o> Unready<'o> {
    fn read(object: &'o Value, deployment: Option<&'o Value>) -> Option<Self> {
        let ready = condition(object, "Ready")?;
        let is_paused = object.pointer("/spec/paused") == Some(&Value::Bool(true));
        if text(ready, "/status") == "True" || is_paused {
            return None;
        }
        // What is said of a deployment that is being replaced is over.
        let id = |pointer| deployment.map(|one| text(one, pointer));
        let state = match id("/spec/deploymentID") == id("/status/appliedDeploymentID") {
            true => state(object),
            false => "WaitApplied",
        };
        Some(Self {
            object,
            deployment,
            ready,
            state,
        })
    }

    fn is_overdue(&self, upgrading: bool, now: Timestamp) -> bool {
        let patience = match self.state {
            "Modified" | "ErrApplied" => SETTLED,
            // While nodes are drained and charts upgraded, much is on its way.
            _ if upgrading => return false,
            _ => ROLLED_OUT,
        };
        let since = time(self.ready, "/lastUpdateTime");
        since.is_some_and(|since| now.duration_since(since) > patience)
    }

    fn finding(&self) -> IncidentFinding {
        let kind = match self.is_managed() {
            true => "ManagedChart",
            false => "BundleDeployment",
        };
        let subject = format!("{kind} {}", named(self.object));
        let code = match self.state {
            "Modified" => Code::ChartModified,
            _ => Code::ManagedChartNotReady,
        };
        let mut evidence = vec![Evidence::new(
            &subject,
            "condition Ready",
            format!(
                "{} ({}) since {}",
                text(self.ready, "/status"),
                self.state,
                text(self.ready, "/lastUpdateTime")
            ),
        )];
        let installed = self.deployment.map(seen).unwrap_or_default();
        let why = match (installed.first(), installed.len()) {
            (Some(first), 1) => format!("{}: {}", first.object, first.field),
            (Some(first), more) => format!("{} and {} more", first.object, more - 1),
            (None, _) => format!("Fleet calls it {}", self.state),
        };
        evidence.extend(installed.into_iter().take(MOST));
        let mut finding = IncidentFinding::new(code, subject, &why).seen(evidence);
        if self.state == "ErrApplied" {
            finding.severity = Severity::Error;
        }
        finding.proof.push(match self.is_managed() {
            true => "Harvester begins no upgrade while a ManagedChart is not Ready",
            false => {
                "an upgrade of Harvester waits for Rancher's own bundles in Upgrading system services; its \
                 start does not"
            }
        }.to_owned());
        if code == Code::ChartModified {
            let stays = "Fleet tells the difference and does not take it back";
            finding.proof.push(stays.to_owned());
        }
        finding
    }

    fn is_managed(&self) -> bool {
        text(self.object, "/metadata/namespace") == LOCAL
    }
}

/// What Fleet calls it.
fn state(object: &Value) -> &str {
    let counts = |pointer| object.pointer(pointer).and_then(Value::as_u64) > Some(0);
    let counted = STATES.iter().find(|(pointer, _)| counts(pointer));
    match (text(object, "/status/display/state"), counted) {
        ("", Some((_, state))) => state,
        ("", None) => "not Ready",
        (state, _) => state,
    }
}

/// What a BundleDeployment says of the objects that it installed, and of itself.
fn seen(deployment: &Value) -> Vec<Evidence> {
    let modified = items(deployment, "/status/modifiedStatus").iter();
    let not_ready = items(deployment, "/status/nonReadyStatus").iter();
    let failed = ["Installed", "Deployed"].iter().filter_map(|name| {
        let failed = condition(deployment, name)?;
        (text(failed, "/status") == "False").then(|| {
            Evidence::new(
                format!("BundleDeployment {}", text(deployment, "/metadata/name")),
                format!("condition {name}"),
                quoted(text(failed, "/message")),
            )
        })
    });
    let modified = modified.map(modification);
    let not_ready = not_ready.map(|one| {
        let said: Vec<&str> = items(one, "/summary/message")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let state = text(one, "/summary/state");
        Evidence::new(object(one), state, quoted(&said.join(", ")))
    });
    modified.chain(failed).chain(not_ready).collect()
}

/// How an object differs from its chart. How a Secret does is nobody's business.
fn modification(one: &Value) -> Evidence {
    let is = |key| one.pointer(key) == Some(&Value::Bool(true));
    let (field, value) = match text(one, "/patch") {
        _ if is("/missing") => (
            "missing",
            "the chart has it, the cluster does not".to_owned(),
        ),
        _ if is("/delete") => ("extra", "the chart has no such object".to_owned()),
        _ if text(one, "/kind") == "Secret" => ("modified", "its data is not shown".to_owned()),
        "" => ("modified", "Fleet does not say how".to_owned()),
        patch => ("modified", redacted_patch(patch)),
    };
    Evidence::new(object(one), field, value)
}

/// A patch, without what its keys say is a secret.
fn redacted_patch(patch: &str) -> String {
    match serde_json::from_str::<Value>(patch) {
        Ok(patch) => quoted(&Learner::default().redactor().value(&patch).to_string()),
        Err(_) => "its patch cannot be read".to_owned(),
    }
}

fn object(one: &Value) -> String {
    let (namespace, name) = (text(one, "/namespace"), text(one, "/name"));
    match namespace {
        "" => format!("{} {name}", text(one, "/kind")),
        namespace => format!("{} {namespace}/{name}", text(one, "/kind")),
    }
}
