//! KubeVirt, by its operator's report.

use serde_json::Value;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;

use crate::objects::Condition;

/// Is KubeVirt deployed, available, and on its way to no other version?
pub fn kubevirt_works(kubevirt: &Value) -> ProbeOutcome {
    let status = &kubevirt["status"];
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    if text("phase") != "Deployed" {
        return ProbeOutcome::failed(match text("phase") {
            "" => "virt-operator has reported no status yet".to_owned(),
            phase => format!("its phase is {}", redact::quoted(phase)),
        });
    }
    for (kind, good) in [
        ("Available", "True"),
        ("Degraded", "False"),
        ("Progressing", "False"),
    ] {
        let Some(found) = Condition::of(kubevirt, kind) else {
            return ProbeOutcome::unknown(format!("KubeVirt's {kind}"), "it has no such condition");
        };
        if found.status != good {
            return ProbeOutcome::failed(format!("it is not {kind}={good}: {}", found.message));
        }
    }
    let (runs, wanted) = (
        text("observedKubeVirtVersion"),
        text("targetKubeVirtVersion"),
    );
    match runs == wanted {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed(format!(
            "{} runs, {} is wanted",
            redact::quoted(runs),
            redact::quoted(wanted)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubevirt(phase: &str, progressing: &str, target: &str) -> ProbeOutcome {
        kubevirt_works(&json!({"status": {
            "phase": phase, "observedKubeVirtVersion": "1.5.2", "targetKubeVirtVersion": target,
            "conditions": [
                {"type": "Available", "status": "True"},
                {"type": "Progressing", "status": progressing, "message": "Deploying version 1.6.0"},
                {"type": "Degraded", "status": "False"},
            ],
        }}))
    }

    #[test]
    fn kubevirt_works_when_it_is_deployed_and_on_its_way_to_nothing() {
        assert_eq!(kubevirt("Deployed", "False", "1.5.2"), ProbeOutcome::Passed);
        assert_eq!(
            kubevirt("Deploying", "True", "1.5.2"),
            ProbeOutcome::failed("its phase is `Deploying`")
        );
        assert_eq!(
            kubevirt("Deployed", "True", "1.6.0"),
            ProbeOutcome::failed("it is not Progressing=False: Deploying version 1.6.0")
        );
        assert_eq!(
            kubevirt("Deployed", "False", "1.6.0"),
            ProbeOutcome::failed("`1.5.2` runs, `1.6.0` is wanted")
        );
        let without = kubevirt_works(&json!({"status": {"phase": "Deployed"}}));
        assert!(matches!(without, ProbeOutcome::Unknown { .. }));
    }
}
