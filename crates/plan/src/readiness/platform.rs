//! The one judge of each kind of Harvester's platform that more than staging looks at: a file that waits for the object, the node's probe
//! and the incidents get their answers here. Where the questions differ, the answers do, and the reason is beside them.

use serde_json::Value;
use windrow_model::manifest::ObjectRef;
use windrow_model::object::Condition;
use windrow_model::redact::quoted;

use super::Judgement;
use super::fields::{has_status, one_line, progressing, ready, says, text, unknown};
use super::node::ProbeOutcome;

/// The state of KubeVirt, from the report of its operator (`syncInstallation` in `pkg/virt-operator/kubevirt.go` and
/// `pkg/virt-operator/util/client.go`, alike in KubeVirt v1.2.2 to v1.7.0).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KubeVirtState<'o> {
    /// virt-operator has not written a status yet.
    NoStatus,
    /// Its first installation is not complete; before it begins, there is no phase. The phase is `Deployed` from the end of the first installation on, and stays so.
    Installing {
        phase: &'o str,
    },
    /// virt-operator replaces its parts with those of another version. Available is True until they are written, and False until they are
    /// ready.
    Updating {
        message: &'o str,
    },
    /// A part is not ready, perhaps only the virt-handler of a node that is down.
    Impaired {
        condition: Condition<'o>,
    },
    /// A condition is missing.
    Unclear {
        missing: &'static str,
    },
    Works,
}

impl<'o> KubeVirtState<'o> {
    pub fn of(kubevirt: &'o Value) -> Self {
        match text(kubevirt, &["status", "phase"]) {
            "Deployed" => {}
            "" if !has_status(kubevirt) => return Self::NoStatus,
            phase => return Self::Installing { phase },
        }
        for (kind, good) in [
            ("Available", "True"),
            ("Degraded", "False"),
            ("Progressing", "False"),
        ] {
            let Some(condition) = Condition::of(kubevirt, kind) else {
                return Self::Unclear { missing: kind };
            };
            if condition.status == good {
                continue;
            }
            return if condition.reason == "UpdateInProgress" {
                Self::Updating {
                    message: condition.message,
                }
            } else {
                Self::Impaired { condition }
            };
        }
        let version = |key| text(kubevirt, &["status", key]);
        if version("observedKubeVirtVersion") == version("targetKubeVirtVersion") {
            Self::Works
        } else {
            Self::Updating {
                message: "the installed version is not the target version",
            }
        }
    }

    /// Is it unavailable as a whole, by its operator's own word?
    pub fn is_unavailable(self) -> bool {
        match self {
            Self::Installing { .. } => true,
            Self::Impaired { condition } => condition.name == "Available",
            _ => false,
        }
    }

    /// For a file that waits for KubeVirt: does kube-apiserver accept its VMs? That takes virt-api, which serves from the end of the
    /// first installation on, also while KubeVirt is updated or while the virt-handler of another node is not ready. If virt-api itself
    /// fails later, kube-apiserver refuses the file, RKE2 tries again, and no harm is done. A file that waited for Available would wait as
    /// long as any node is down.
    fn for_staging(self) -> Judgement {
        match self {
            Self::NoStatus => unknown("NoStatus", "virt-operator has reported no status yet"),
            Self::Installing { phase: "" } => progressing("KubeVirtInstalling", "not ready yet"),
            Self::Installing { phase } => progressing(
                "KubeVirtInstalling",
                format!("not ready yet: its phase is {phase}"),
            ),
            Self::Updating { .. } | Self::Impaired { .. } | Self::Unclear { .. } | Self::Works => {
                ready("KubeVirtDeployed", "ready: its phase is Deployed")
            }
        }
    }
}

/// For the node: does all of KubeVirt work?
impl From<KubeVirtState<'_>> for ProbeOutcome {
    fn from(state: KubeVirtState<'_>) -> Self {
        match state {
            KubeVirtState::NoStatus | KubeVirtState::Installing { phase: "" } => {
                Self::failed("virt-operator has reported no status yet")
            }
            KubeVirtState::Installing { phase } => {
                Self::failed(format!("its phase is {}", quoted(phase)))
            }
            KubeVirtState::Updating { message } => {
                Self::failed(format!("it is updated: {}", one_line(message)))
            }
            KubeVirtState::Impaired { condition } => Self::failed(format!(
                "its condition {} is {}: {}",
                condition.name,
                condition.status,
                says(&condition)
            )),
            KubeVirtState::Unclear { missing } => {
                Self::unknown(format!("KubeVirt's {missing}"), "it has no such condition")
            }
            KubeVirtState::Works => Self::Passed,
        }
    }
}

/// The state of a ManagedChart: its condition Ready, which Rancher copies from its Bundle. A chart that was only changed after its installation is installed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChartState<'o> {
    NoStatus,
    NotReady(Condition<'o>),
    Installed,
}

impl<'o> ChartState<'o> {
    pub fn of(chart: &'o Value) -> Self {
        match Condition::of(chart, "Ready") {
            None => Self::NoStatus,
            Some(ready) if ready.is_true() || only_modified(ready.message) => Self::Installed,
            Some(ready) => Self::NotReady(ready),
        }
    }
}

/// For the node: is the chart installed?
impl From<ChartState<'_>> for ProbeOutcome {
    fn from(state: ChartState<'_>) -> Self {
        match state {
            ChartState::NoStatus => Self::failed("Fleet has reported no status yet"),
            ChartState::NotReady(condition) => Self::failed(says(&condition)),
            ChartState::Installed => Self::Passed,
        }
    }
}

/// Fleet reports Modified for a chart that was changed after its installation, and only the installation counts here.
/// (`NotReady(1) Modified(2) [Cluster …]` lists several states.)
pub fn only_modified(message: &str) -> bool {
    let states: Vec<&str> = message
        .split([' ', ';'])
        .take_while(|word| !word.starts_with('['))
        .filter(|word| word.ends_with(')') && word.contains('('))
        .collect();
    !states.is_empty() && states.iter().all(|state| state.starts_with("Modified("))
}

/// The verdict for a file that waits for the object; `None` for any other kind.
pub(super) fn judge(object: &Value, id: &ObjectRef) -> Option<Judgement> {
    Some(match (id.group.as_str(), id.kind.as_str()) {
        ("kubevirt.io", "KubeVirt") => KubeVirtState::of(object).for_staging(),
        ("management.cattle.io", "ManagedChart") => match ChartState::of(object) {
            ChartState::NoStatus => unknown("NoStatus", "Fleet has reported no status yet"),
            ChartState::NotReady(condition) => progressing(
                "NotReadyYet",
                format!(
                    "its condition Ready is {}: {}",
                    condition.status,
                    says(&condition)
                ),
            ),
            ChartState::Installed => ready("Ready", "it is installed"),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Verdict;
    use super::*;

    /// The conditions as `UpdateConditions…` of virt-operator write them.
    fn kubevirt(phase: &str, statuses: [&str; 3], reason: &str, message: &str) -> Value {
        let names = ["Available", "Progressing", "Degraded"];
        let conditions: Vec<Value> = names
            .iter()
            .zip(statuses)
            .map(|(name, status)| json!({"type": name, "status": status, "reason": reason, "message": message}))
            .collect();
        json!({"status": {"phase": phase, "conditions": conditions,
            "observedKubeVirtVersion": "v1.7.0", "targetKubeVirtVersion": "v1.7.0"}})
    }

    #[test]
    fn a_file_waits_for_the_first_installation_of_kubevirt_and_the_node_for_all_of_it() {
        let works = ("All components are ready.", "AllComponentsReady");
        let parts = ("Deploying version v1.7.0", "DeploymentInProgress");
        let update = (
            "Transitioning from previous version v1.6.6",
            "UpdateInProgress",
        );
        for (object, verdict, node) in [
            (
                json!({}),
                Verdict::Unknown,
                Some("virt-operator has reported no status yet"),
            ),
            (
                kubevirt("Deploying", ["False", "True", "False"], parts.1, parts.0),
                Verdict::Progressing,
                Some("its phase is `Deploying`"),
            ),
            (
                kubevirt("Deployed", ["True", "False", "False"], works.1, works.0),
                Verdict::Ready,
                None,
            ),
            (
                kubevirt("Deployed", ["False", "True", "False"], parts.1, parts.0),
                Verdict::Ready,
                Some(
                    "its condition Available is False: DeploymentInProgress: Deploying version v1.7.0",
                ),
            ),
            (
                kubevirt("Deployed", ["True", "True", "True"], update.1, update.0),
                Verdict::Ready,
                Some("it is updated: Transitioning from previous version v1.6.6"),
            ),
        ] {
            let state = KubeVirtState::of(&object);
            assert_eq!(state.for_staging().verdict, verdict, "{object}");
            let outcome = match node {
                None => ProbeOutcome::Passed,
                Some(why) => ProbeOutcome::failed(why),
            };
            assert_eq!(ProbeOutcome::from(state), outcome, "{object}");
        }
        let mut other = kubevirt("Deployed", ["True", "False", "False"], works.1, works.0);
        other["status"]["targetKubeVirtVersion"] = json!("v1.7.4");
        let updated = "it is updated: the installed version is not the target version";
        assert_eq!(
            ProbeOutcome::from(KubeVirtState::of(&other)),
            ProbeOutcome::failed(updated)
        );
        let unclear = json!({"status": {"phase": "Deployed"}});
        let outcome = ProbeOutcome::from(KubeVirtState::of(&unclear));
        assert!(matches!(outcome, ProbeOutcome::Unknown { .. }));
    }

    #[test]
    fn a_chart_that_was_only_changed_is_installed_for_a_file_and_for_the_node() {
        let chart = |status: &str, message: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": message}]}});
        let modified = chart("False", "Modified(1) [Cluster fleet-local/local]");
        assert_eq!(ChartState::of(&modified), ChartState::Installed);
        let waits = chart("False", "WaitApplied(1) [Cluster fleet-local/local]");
        let id = ObjectRef::namespaced(
            "management.cattle.io",
            "ManagedChart",
            "fleet-local",
            "harvester",
        );
        let verdict = |chart: &Value| judge(chart, &id).map(|judged| judged.verdict);
        assert_eq!(verdict(&modified), Some(Verdict::Ready));
        assert_eq!(verdict(&waits), Some(Verdict::Progressing));
        assert_eq!(
            ProbeOutcome::from(ChartState::of(&waits)),
            ProbeOutcome::failed("WaitApplied(1) [Cluster fleet-local/local]")
        );
        assert_eq!(verdict(&json!({})), Some(Verdict::Unknown));
    }
}
