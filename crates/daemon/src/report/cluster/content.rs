//! The Node's condition, its annotation and events for a status. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_decide::{Pace, Readiness, Status};
use windrow_harvester::SystemPartition;
use windrow_harvester::node_condition::{
    ANNOTATION, CONDITION, FORMER_CONDITION, condition_message, condition_status, has_own_entries,
    own_condition,
};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};

use super::annotation::{annotation, line};

/// Longest message, in characters: a core/v1 Event takes 1024 bytes at most, and it is one line of `kubectl describe`.
const LONGEST: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeCondition {
    /// `True`, `False` or `Unknown`.
    pub(super) status: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) annotation: Option<String>,
}

impl NodeCondition {
    pub(super) fn from_status(status: &Status, partition: Option<SystemPartition>) -> Self {
        Self {
            status: condition_status(status.readiness, status.platform, status.role),
            reason: camel(status.reason.code),
            message: line(
                &condition_message(&status.headline, &status.reason.message),
                LONGEST,
            ),
            annotation: Some(annotation(status, partition)),
        }
    }

    pub(super) fn stopped() -> Self {
        Self {
            status: "Unknown",
            reason: camel(Code::Stopping),
            message: "Windrow was stopped: the state of this node's bootstrap is unknown"
                .to_owned(),
            annotation: None,
        }
    }

    /// The patch of the Node's status. Conditions are merged by their type, so that the kubelet's stay. The annotation goes with
    /// it, as the kubelet writes its own: kube-apiserver takes a Node's metadata with its status.
    pub(super) fn patch(&self, heartbeat: Timestamp, transition: Timestamp) -> Value {
        json!({"metadata": {"annotations": {ANNOTATION: self.annotation}}, "status": {"conditions": [{
            "type": CONDITION,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastHeartbeatTime": seconds(heartbeat),
            "lastTransitionTime": seconds(transition),
        }, deletion(FORMER_CONDITION)]}})
    }

    pub(super) fn removal() -> Value {
        let conditions = [deletion(CONDITION), deletion(FORMER_CONDITION)];
        json!({"metadata": {"annotations": {ANNOTATION: null}}, "status": {"conditions": conditions}})
    }
}

fn deletion(condition: &str) -> Value {
    json!({"$patch": "delete", "type": condition})
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeEntries {
    pub(super) condition: Option<(String, Timestamp)>,
    /// Whether it has the condition, the former condition or the annotation.
    pub(super) any: bool,
}

impl NodeEntries {
    pub(super) fn read(node: &Value) -> Self {
        Self {
            condition: condition_on_node(node),
            any: has_own_entries(node),
        }
    }
}

fn condition_on_node(node: &Value) -> Option<(String, Timestamp)> {
    let own = own_condition(node)?;
    let since = own.time("lastTransitionTime")?;
    (!own.status.is_empty()).then(|| (own.status.to_owned(), since))
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Notice {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) warning: bool,
}

impl Notice {
    fn new(code: Code, message: &str, warning: bool) -> Self {
        Self {
            reason: camel(code),
            message: line(message, LONGEST),
            warning,
        }
    }

    /// The Event, as the kubelet makes those of its Node: in `default`, with the name for a uid, where
    /// `kubectl describe node` looks for them.
    pub(super) fn event(&self, name: &str, node: &str, at: Timestamp) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
            "reason": self.reason,
            "message": self.message,
            "type": if self.warning { "Warning" } else { "Normal" },
            "source": {"component": "windrow", "host": node},
            "reportingComponent": "windrow",
            "reportingInstance": node,
            "firstTimestamp": seconds(at),
            "lastTimestamp": seconds(at),
            "count": 1,
        })
    }

    pub(super) fn again(count: u32, at: Timestamp) -> Value {
        json!({"count": count, "lastTimestamp": seconds(at)})
    }
}

/// The changes that a reader of the Node should know. The state at the daemon's start is reported too, except the
/// readiness: the condition has that.
pub(super) fn notices(before: Option<&Status>, now: &Status) -> Vec<Notice> {
    let mut notices = Vec::new();
    if let Some(before) = before
        && before.readiness != now.readiness
    {
        let worked = matches!(before.readiness, Readiness::Ready | Readiness::Degraded);
        let warning = match now.readiness {
            Readiness::Ready | Readiness::SettingUp => false,
            Readiness::Degraded | Readiness::Failed => true,
            Readiness::Unknown => worked,
        };
        let message = format!("{}: {}", now.headline, now.reason.message);
        notices.push(Notice::new(now.reason.code, &message, warning));
    }
    let hung = before.and_then(Status::hangs);
    if let Some(pace) = now.hangs().filter(|pace| Some(*pace) != hung) {
        let code = match pace {
            Pace::Stuck => Code::BootStuck,
            _ => Code::BootStalled,
        };
        let message = format!("{}: {}", now.headline, now.reason.message);
        notices.push(Notice::new(code, &message, true));
    }
    let staging = before.map(|before| &before.staging);
    for file in &now.staging.failed {
        let known = staging.is_some_and(|old| old.failed.iter().any(|one| one.file == file.file));
        if !known {
            let message = format!("{}: {}: {}", file.file, file.reason, file.message);
            notices.push(Notice::new(Code::ApplyFailed, &message, true));
        }
    }
    for file in now.staging.held.iter().filter(|file| file.overdue) {
        let known = staging.is_some_and(|old| {
            old.held
                .iter()
                .any(|one| one.overdue && one.file == file.file)
        });
        if !known {
            let message = format!("{} stays held: {}", file.file, file.why);
            notices.push(Notice::new(Code::Overdue, &message, true));
        }
    }
    let same = |one: &Finding, other: &Finding| one.code == other.code && one.at == other.at;
    for finding in &now.findings {
        let known = before.is_some_and(|old| old.findings.iter().any(|one| same(one, finding)));
        if !known && finding.severity >= Severity::Warning {
            let at = finding
                .at
                .first()
                .map_or(String::new(), |at| format!("{at}: "));
            let message = format!("{at}{}", finding.message);
            notices.push(Notice::new(finding.code, &message, true));
        }
    }
    notices
}

/// A code as Kubernetes writes reasons: `waits-for-kind` is `WaitsForKind`.
fn camel(code: Code) -> String {
    code.as_str()
        .split('-')
        .map(|part| {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_ascii_uppercase() + rest
        })
        .collect()
}

/// `metav1.Time` has no fractions.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use windrow_decide::{FailedFile, NodeRole, PhaseStatus, StatusReason};
    use windrow_model::reasons::REASONS;
    use windrow_plan::rules::Platform;
    use windrow_rack::{Heartbeat, read_node};

    use super::*;
    use crate::report::publish::sample;

    fn status(readiness: Readiness, code: Code) -> Status {
        Status {
            readiness,
            reason: StatusReason {
                code,
                message: format!("because of {code}"),
            },
            ..sample("x")
        }
    }

    #[test]
    fn every_code_makes_a_reason_that_kubernetes_takes() {
        for reason in REASONS {
            let camel = camel(reason.code);
            assert!(camel.len() <= 128, "{camel}");
            assert!(
                camel.starts_with(|one: char| one.is_ascii_uppercase()),
                "{camel}"
            );
            assert!(
                camel.bytes().all(|one| one.is_ascii_alphanumeric()),
                "{camel}"
            );
        }
        assert_eq!(camel(Code::WaitsForKind), "WaitsForKind");
    }

    #[test]
    fn the_condition_is_true_while_something_is_wrong_and_a_rack_reads_the_readiness_back() {
        for (readiness, pace, server, agent) in [
            (Readiness::Ready, None, "False", "False"),
            (Readiness::Degraded, None, "False", "False"),
            (Readiness::SettingUp, Some(Pace::Stalled), "True", "Unknown"),
            (Readiness::Failed, None, "True", "Unknown"),
            (Readiness::Failed, Some(Pace::Stuck), "True", "Unknown"),
            (Readiness::Unknown, None, "Unknown", "Unknown"),
        ] {
            for (role, expected) in [(NodeRole::FirstServer, server), (NodeRole::Agent, agent)] {
                let mut status = status(readiness, Code::ProbeUnknown);
                (status.role, status.platform) = (role, Some(Platform::Harvester));
                status.pace = pace;
                status.phases = vec![PhaseStatus::current(status.phase)];
                let now = status.since;
                status.headline = windrow_decide::sentence::headline(&status, now);
                let mut condition = NodeCondition::from_status(&status, None);
                assert_eq!(condition.status, expected);
                assert_eq!(condition.reason, "ProbeUnknown");
                // The annotation repeats a part of it.
                condition.annotation = None;
                let mut node = condition.patch(now, now);
                node["metadata"]["name"] = json!("n1");
                let state = read_node(&node, now, Heartbeat::ByItsClock).unwrap().state;
                assert_eq!(state.readiness, readiness, "{role}");
                assert_eq!(state.headline, status.headline);
                assert_eq!(state.message, status.reason.message);
                let is_there = status.headline.contains('(');
                let phase = if is_there { status.phase.as_str() } else { "" };
                assert_eq!(state.phase, phase, "{}", status.headline);
            }
        }
        let stopped = NodeCondition::stopped();
        assert_eq!(stopped.status, "Unknown");
        let mut node = stopped.patch(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        node["metadata"]["name"] = json!("n1");
        let report = read_node(&node, Timestamp::UNIX_EPOCH, Heartbeat::ByItsClock).unwrap();
        assert_eq!(report.state.readiness, Readiness::Unknown);
    }

    #[test]
    fn a_long_message_is_cut_and_has_one_line() {
        let mut long = status(Readiness::Failed, Code::NodeNotReady);
        long.reason.message = "a\nb ".repeat(400);
        let message = NodeCondition::from_status(&long, None).message;
        assert_eq!(message.chars().count(), LONGEST);
        assert!(!message.contains('\n'));
    }

    #[test]
    fn a_change_of_readiness_is_an_event_and_a_warning_only_if_something_is_wrong() {
        let ready = status(Readiness::Ready, Code::NodeReady);
        let failed = status(Readiness::Failed, Code::NodeNotReady);
        let unknown = status(Readiness::Unknown, Code::ProbeUnknown);
        let setting_up = status(Readiness::SettingUp, Code::Staging);
        for (before, now, warning) in [
            (&setting_up, &ready, false),
            (&ready, &failed, true),
            (&ready, &unknown, true),
            (&setting_up, &unknown, false),
        ] {
            let notices = notices(Some(before), now);
            assert_eq!(notices.len(), 1);
            assert_eq!(notices[0].warning, warning);
        }
        assert_eq!(notices(None, &ready), []);
        assert_eq!(notices(Some(&ready), &ready), []);
    }

    #[test]
    fn a_boot_that_hangs_is_a_warning_once() {
        let pace = |pace| {
            let mut status = status(Readiness::SettingUp, Code::ApiNotReady);
            status.pace = Some(pace);
            status.headline = "Setting up (kube-apiserver, 20+ min, stalled)".to_owned();
            status.phases = vec![PhaseStatus::current(status.phase)];
            status
        };
        let (moving, stalled) = (pace(Pace::Moving), pace(Pace::Stalled));
        let told = notices(Some(&moving), &stalled);
        assert_eq!(told.len(), 1);
        assert_eq!(
            (told[0].reason.as_str(), told[0].warning),
            ("BootStalled", true)
        );
        assert_eq!(
            told[0].message,
            "Setting up (kube-apiserver, 20+ min, stalled): because of apiserver-not-ready"
        );
        assert_eq!(notices(Some(&stalled), &stalled), []);
        assert_eq!(notices(Some(&stalled), &moving), []);
        let stuck = notices(Some(&stalled), &pace(Pace::Stuck));
        assert_eq!(stuck[0].reason, "BootStuck");
    }

    #[test]
    fn what_is_wrong_is_reported_when_it_is_new() {
        let before = status(Readiness::SettingUp, Code::Staging);
        let mut now = before.clone();
        now.staging.failed.push(FailedFile {
            file: "a.yaml".into(),
            since: Timestamp::UNIX_EPOCH,
            reason: "ApplyManifestFailed".to_owned(),
            message: "no matches".to_owned(),
        });
        now.findings.push(Finding {
            incident: None,
            code: Code::RequiredCycle,
            severity: Severity::Error,
            message: "a needs b needs a".to_owned(),
            at: Vec::new(),
        });
        now.findings.push(Finding {
            incident: None,
            code: Code::PlatformUnknown,
            severity: Severity::Notice,
            message: "normal".to_owned(),
            at: Vec::new(),
        });
        let reported: Vec<String> = notices(Some(&before), &now)
            .into_iter()
            .map(|notice| notice.reason)
            .collect();
        assert_eq!(reported, ["ApplyFailed", "RequiredCycle"]);
        assert_eq!(notices(None, &now).len(), 2);
        assert_eq!(notices(Some(&now), &now), []);
    }

    #[test]
    fn everything_that_windrow_writes_or_wrote_is_found_on_a_node() {
        let condition =
            NodeCondition::from_status(&status(Readiness::Ready, Code::NodeReady), None);
        let since: Timestamp = "2026-11-21T20:15:00Z".parse().unwrap();
        let found = NodeEntries::read(&condition.patch(since, since));
        assert_eq!(found.condition, Some(("False".to_owned(), since)));
        assert!(found.any);
        let former =
            json!({"status": {"conditions": [{"type": "WindrowBootstrap", "status": "True"}]}});
        let annotation = json!({"metadata": {"annotations": {ANNOTATION: "{}"}}});
        for (node, any) in [
            (former, true),
            (annotation, true),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                false,
            ),
            (json!({}), false),
        ] {
            let condition = None;
            assert_eq!(NodeEntries::read(&node), NodeEntries { condition, any });
        }
    }
}
