//! Charts of Harvester that are not Ready. Rancher creates Bundle `mcc-NAME` from a ManagedChart and copies its status to the
//! ManagedChart (`pkg/controllers/provisioningv2/managedchart`). Fleet installs it with a BundleDeployment of the same name,
//! which contains the most details.
//!
//! ```text
//!   ManagedChart ──> Bundle mcc-NAME ──> BundleDeployment ──> installed objects
//!        │ not Ready: Harvester starts no upgrade       │ changed since: Modified
//!        │ paused: an incident only between upgrades    │ not applied: ErrApplied, with Helm's message
//!        └ not applied yet: no incident                 └ not up: NotReady, slow at first
//! ```

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_model::redact::Learner;

use super::{MOST, is_upgrading, quoted};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::label;

/// Fleet checks again every few minutes.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// Longer than the start of Harvester's own charts takes.
const ROLLED_OUT: SignedDuration = SignedDuration::from_mins(30);
const LOCAL: &str = "fleet-local";

/// No patch of Harvester's charts is this long. Longer patches are not shown.
const LONGEST_PATCH: usize = 64 << 10;

/// The advice for a difference in a certificate. Harvester's own chart creates a certificate at each render (v1.4.0 to v1.4.3,
/// `snapshot-validation-webhook/templates/webhook.yaml`), and its upgrades ignore both objects since v1.4.2
/// (`package/upgrade/migrations/managed_charts/v1.4.1.sh`). The webhook keeps using the key in its Secret.
const LEAVE_CERTIFICATES: &str = "Do not apply the patch of a certificate: one that is made at each render always differs, and a caBundle without its \
     Secret breaks its webhook.";
const EXCEPT_CERTIFICATES: &str = "Exclude objects with a certificate through spec.diff.comparePatches of the ManagedChart, with jsonPointers /data for a Secret and /webhooks \
     for a webhook configuration.";
/// A removed value would be written as it is shown.
const FILL_IN: &str = "First fill in the values that are `[redacted]`.";

/// Fleet's messages about charts that it cannot apply, and the advice of its maintainers or of Harvester's documentation.
const FAILURES: &[(&[&str], &str)] = &[
    // harvester#3616, #3675; Fleet leaves this state if its agent ends during an operation.
    (
        &["another operation (install/upgrade/rollback) is in progress"],
        "Helm was ended in the middle of a change. `helm history RELEASE -n NAMESPACE` shows the last revision that was \
         deployed, `helm rollback RELEASE REVISION -n NAMESPACE` goes back to it; Fleet then tries again.",
    ),
    // Harvester's documentation of the upgrade from v1.3.2 to v1.4.0, known issue 2.
    (
        &["no route match found for DELETE", "sh.helm.release"],
        "Delete ValidatingWebhookConfiguration harvester-validator, which Harvester creates again, and raise \
         spec.forceSyncGeneration of Bundles mcc-harvester-crd and mcc-harvester by one.",
    ),
    // harvester#7375; Harvester's documentation of the upgrade from v1.4.0 to v1.4.1, known issue 2.
    (
        &["default storage class", "already exists"],
        "Another StorageClass is the default one. Make harvester-longhorn the default, or set \
         spec.values.storageClass.defaultStorageClass of ManagedChart harvester to false.",
    ),
];
/// The advice for any other message.
const OTHER_FAILURE: &str = "Fix the error that Fleet reports; it names no single object at fault. To make Fleet apply the chart again, \
     raise spec.forceSyncGeneration of Bundle mcc-NAME by one.";

/// The field of an incomplete patch.
const LEFT_OUT: &str = "modified (secrets left out)";

/// Fleet's names for charts that are not Ready, with the fields that count them.
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
    // Without these charts the cluster is not Harvester, and its bundles belong to others.
    if charts.is_empty() {
        return Ok(Vec::new());
    }
    let deployments = objects.all(ObjectKind::BUNDLE_DEPLOYMENT)?.iter();
    let mut deployments: Vec<&Value> = deployments
        .filter(|one| label(one, "fleet.cattle.io~1bundle-namespace") == LOCAL)
        .collect();
    let mut findings = paused(objects, &charts, now)?;
    let mut unready = Vec::new();
    for chart in charts {
        let bundle = format!("mcc-{}", text(chart, "/metadata/name"));
        let is_its = |one: &&Value| text(one, "/metadata/name") == bundle;
        let deployment = deployments.iter().copied().find(is_its);
        deployments.retain(|one| !is_its(one));
        unready.extend(Unready::read(chart, deployment));
    }
    // Rancher's own bundles. An upgrade waits for some of them.
    let others = deployments.iter();
    unready.extend(others.filter_map(|one| Unready::read(one, Some(one))));
    let upgrading = !unready.is_empty() && is_upgrading(objects)?;
    let overdue = unready.iter().filter(|one| one.is_overdue(upgrading, now));
    findings.extend(overdue.map(|one| one.finding(upgrading)));
    Ok(findings)
}

/// Harvester pauses its charts for an upgrade. If an Upgrade was deleted or has failed, they stay paused.
fn paused(
    objects: &Objects,
    charts: &[&Value],
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let is_paused = |chart: &&&Value| chart.pointer("/spec/paused") == Some(&Value::Bool(true));
    let paused: Vec<_> = charts.iter().filter(is_paused).collect();
    if paused.is_empty() || is_upgrading(objects)? {
        return Ok(Vec::new());
    }
    let upgrades = objects.all(ObjectKind::UPGRADE)?.iter();
    let changes = upgrades.flat_map(Condition::all);
    let ended = changes.filter_map(|condition| condition.since()).max();
    if ended.is_some_and(|ended| now.duration_since(ended) <= SETTLED) {
        return Ok(Vec::new());
    }
    let finding = |chart: &&&Value| {
        let subject = format!("ManagedChart {}", named(chart));
        let why = "spec.paused is true, so changes to it are not rolled out";
        let seen = Evidence::new(&subject, "spec.paused", "true");
        IncidentFinding::new(Code::ChartPaused, subject, why).seen([seen])
    };
    Ok(paused.iter().map(finding).collect())
}

/// A chart, or a bundle without a chart, that is not Ready.
struct Unready<'o> {
    object: &'o Value,
    deployment: Option<&'o Value>,
    ready: Condition<'o>,
    state: &'o str,
}

impl<'o> Unready<'o> {
    fn read(object: &'o Value, deployment: Option<&'o Value>) -> Option<Self> {
        let ready = Condition::of(object, "Ready")?;
        let is_paused = object.pointer("/spec/paused") == Some(&Value::Bool(true));
        if ready.is_true() || is_paused {
            return None;
        }
        // The state of a deployment that is being replaced is outdated.
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
            // While an upgrade drains nodes and upgrades charts, many temporary states are normal.
            _ if upgrading => return false,
            _ => ROLLED_OUT,
        };
        let since = self.ready.time("lastUpdateTime");
        since.is_some_and(|since| now.duration_since(since) > patience)
    }

    fn finding(&self, upgrading: bool) -> IncidentFinding {
        let kind = match self.is_managed() {
            true => "ManagedChart",
            false => "BundleDeployment",
        };
        let subject = format!("{kind} {}", named(self.object));
        let code = match self.state {
            "Modified" => Code::ChartModified,
            _ => Code::ManagedChartNotReady,
        };
        let failed = self.failures();
        let mut evidence = vec![Evidence::new(
            &subject,
            "condition Ready",
            format!(
                "{} ({}) since {}",
                self.ready.status,
                self.shown_state(&failed),
                self.ready.text("lastUpdateTime")
            ),
        )];
        let mut installed = failed.clone();
        installed.extend(self.deployment.map(seen).unwrap_or_default());
        let why = match (failed.first(), installed.first(), installed.len()) {
            (Some(failed), _, _) if self.is_failed() => failed.value.clone(),
            (_, Some(first), 1) => format!("{}: {}", first.object, first.field),
            (_, Some(first), more) => format!("{} and {} more", first.object, more - 1),
            (_, None, _) => format!("Fleet calls it {}", self.state),
        };
        evidence.extend(installed.into_iter().take(MOST));
        let mut finding = IncidentFinding::new(code, subject, &why).seen(evidence);
        if self.is_failed() {
            finding.severity = Severity::Error;
            finding.advice = self.advice_on_failure(&failed).to_owned();
        }
        finding.proof.extend(self.blocks(upgrading));
        if code == Code::ChartModified {
            let stays = "Fleet reports the difference and does not revert it";
            finding.proof.push(stays.to_owned());
            self.advise_on_patches(&mut finding);
        }
        finding
    }

    fn is_failed(&self) -> bool {
        self.state == "ErrApplied"
    }

    /// The operation that waits for the chart. A running upgrade has already passed Harvester's preflight, and is reported
    /// separately.
    fn blocks(&self, upgrading: bool) -> Option<String> {
        let said = match (self.is_managed(), upgrading) {
            (true, true) => return None,
            (false, _) if self.is_users() => return None,
            (true, false) => "Harvester begins no upgrade while a ManagedChart is not Ready",
            (false, _) => {
                "an upgrade of Harvester waits for Rancher's own bundles in Upgrading system services; its \
                 start does not"
            }
        };
        Some(said.to_owned())
    }

    /// Helm's messages why Fleet could not apply the chart.
    fn failures(&self) -> Vec<Evidence> {
        let Some(deployment) = self.deployment else {
            return Vec::new();
        };
        let failed = ["Installed", "Deployed"].iter().filter_map(|name| {
            let failed = Condition::of(deployment, name)?;
            let said = failed.message.trim_start_matches([':', ' ']);
            failed.is_false().then(|| {
                Evidence::new(
                    format!("BundleDeployment {}", text(deployment, "/metadata/name")),
                    format!("condition {name}"),
                    quoted(said),
                )
            })
        });
        failed.collect()
    }

    /// Chooses the advice by the complete message, because the shown one may be truncated. If the deployment has no message, the
    /// message of the chart counts.
    fn advice_on_failure(&self, failed: &[Evidence]) -> &'static str {
        let conditions = self.deployment.into_iter().flat_map(Condition::all);
        let said: Vec<&str> = match failed {
            [] => vec![self.ready.message],
            _ => conditions.map(|one| one.message).collect(),
        };
        let is_said = |parts: &&[&str]| {
            said.iter()
                .any(|said| parts.iter().all(|part| said.contains(part)))
        };
        let known = FAILURES.iter().find(|(parts, _)| is_said(parts));
        known.map_or(OTHER_FAILURE, |(_, advice)| advice)
    }

    /// Warns about the patch of a certificate, which must not be applied, and about a patch with removed secrets, which must not
    /// be applied unchanged.
    fn advise_on_patches(&self, finding: &mut IncidentFinding) {
        let modified = self
            .deployment
            .map(|one| items(one, "/status/modifiedStatus"));
        let modified = modified.unwrap_or_default();
        if finding.evidence.iter().any(|seen| seen.field == LEFT_OUT) {
            finding.advice = format!("{} {FILL_IN}", finding.advice);
        }
        let certificates = modified.iter().filter(|one| has_certificate(one)).count();
        if certificates == 0 {
            return;
        }
        finding.advice = match certificates == modified.len() {
            true => format!("{LEAVE_CERTIFICATES} {EXCEPT_CERTIFICATES}"),
            false => format!(
                "{LEAVE_CERTIFICATES} {EXCEPT_CERTIFICATES} {}",
                finding.advice
            ),
        };
    }

    fn is_managed(&self) -> bool {
        text(self.object, "/metadata/namespace") == LOCAL
    }

    /// Fleet made the bundle from a GitRepo (fleet `RepoLabel`): neither Rancher's nor
    /// Harvester's.
    fn is_users(&self) -> bool {
        !label(self.object, "fleet.cattle.io~1repo-name").is_empty()
    }

    /// The state in words. A bundle whose newest attempt failed was not applied, and does not only wait for it.
    fn shown_state(&self, failed: &[Evidence]) -> &str {
        match self.state {
            "WaitApplied" if self.is_users() && !failed.is_empty() => "ErrApplied",
            state => state,
        }
    }
}

fn state(object: &Value) -> &str {
    let counts = |pointer| object.pointer(pointer).and_then(Value::as_u64) > Some(0);
    let counted = STATES.iter().find(|(pointer, _)| counts(pointer));
    match (text(object, "/status/display/state"), counted) {
        ("", Some((_, state))) => state,
        ("", None) => "not Ready",
        (state, _) => state,
    }
}

/// The state of the installed objects in a BundleDeployment.
fn seen(deployment: &Value) -> Vec<Evidence> {
    let modified = items(deployment, "/status/modifiedStatus").iter();
    let not_ready = items(deployment, "/status/nonReadyStatus").iter();
    let modified = modified.map(modification);
    let not_ready = not_ready.map(|one| {
        let said: Vec<&str> = items(one, "/summary/message")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let state = text(one, "/summary/state");
        Evidence::new(object(one), state, quoted(&said.join(", ")))
    });
    modified.chain(not_ready).collect()
}

/// The difference between an object and its chart. For a Secret, the difference is not shown.
fn modification(one: &Value) -> Evidence {
    let is = |key| one.pointer(key) == Some(&Value::Bool(true));
    let (field, value) = match text(one, "/patch") {
        _ if is("/missing") => (
            "missing",
            "the chart has it, the cluster does not".to_owned(),
        ),
        _ if is("/delete") => ("extra", "the chart has no such object".to_owned()),
        _ if text(one, "/kind") == "Secret" => ("modified", "its data is not shown".to_owned()),
        _ if has_certificate(one) => ("modified", "a certificate in it differs".to_owned()),
        "" => ("modified", "Fleet does not say how".to_owned()),
        patch => redacted_patch(patch),
    };
    Evidence::new(object(one), field, value)
}

/// Whether an object differs in a certificate: a TLS Secret, or an object that trusts its authority. If the data of a Secret were
/// removed, its name decides.
fn has_certificate(one: &Value) -> bool {
    let patch: Value = serde_json::from_str(text(one, "/patch")).unwrap_or_default();
    match (text(one, "/kind"), patch["data"].as_object()) {
        ("Secret", Some(data)) => ["tls.crt", "tls.key", "ca.crt"]
            .iter()
            .any(|key| data.contains_key(*key)),
        ("Secret", None) => ["tls", "cert"]
            .iter()
            .any(|part| text(one, "/name").contains(part)),
        _ => has_key(&patch, "caBundle"),
    }
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(fields) => {
            fields.contains_key(key) || fields.values().any(|value| has_key(value, key))
        }
        Value::Array(items) => items.iter().any(|item| has_key(item, key)),
        _ => false,
    }
}

/// A patch without the values whose keys indicate secrets. Fleet creates a JSON merge patch from the object to the content of the
/// chart (`jsonpatch.CreateMergePatch`, Fleet v0.9 `deployer/monitor.go` to v0.14 `desiredset/diff.go`).
fn redacted_patch(patch: &str) -> (&'static str, String) {
    let Ok(whole) = serde_json::from_str::<Value>(patch) else {
        return ("modified", "its patch cannot be read".to_owned());
    };
    let shown = Learner::default().redactor().value(&whole);
    let said = shown.to_string();
    if said.len() > LONGEST_PATCH {
        return ("modified", "its patch is too long to be shown".to_owned());
    }
    match shown == whole {
        true => ("modified", said),
        false => (LEFT_OUT, said),
    }
}

fn object(one: &Value) -> String {
    let (namespace, name) = (text(one, "/namespace"), text(one, "/name"));
    match namespace {
        "" => format!("{} {name}", text(one, "/kind")),
        namespace => format!("{} {namespace}/{name}", text(one, "/kind")),
    }
}
