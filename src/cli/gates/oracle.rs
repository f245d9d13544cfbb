//! The installed kubelet's answer on gates, if it has the version that will start: it knows more than any catalogue.

use windrow_gates::{ResolvedVersion, TargetVersion};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;

use crate::layout::Layout;
use crate::observe::kubelet::Kubelet;
use crate::render::GatesReport;

/// Asks it about each component's gates, and adds its answers to the report. If it does not answer, the report stays
/// unchanged.
pub(super) async fn confirm(layout: &Layout, resolved: &ResolvedVersion, report: &mut GatesReport) {
    let TargetVersion::Known(version) = resolved.target else {
        return;
    };
    let Some(kubelet) = Kubelet::find(layout).await else {
        return;
    };
    if kubelet.version != version {
        return;
    }
    let mut refused = Vec::new();
    for view in &report.components {
        let gates: Vec<(String, bool)> = view
            .gates
            .iter()
            .map(|gate| (gate.gate.clone(), gate.value))
            .collect();
        // Its answer cannot be understood: the catalogue decides.
        let Ok(refusals) = kubelet.all_refused(&gates).await else {
            return;
        };
        for refusal in refusals {
            for gate in &refusal.gates {
                let at = view.gates.iter().find(|set| set.gate == *gate);
                let code = Code::GateRefusedByBinary;
                refused.push(Finding {
                    incident: None,
                    code,
                    severity: code.severity(),
                    message: code.say(&[("gate", gate), ("error", &refusal.line)]),
                    at: at.map(|gate| gate.at.clone()).into_iter().collect(),
                });
            }
        }
    }
    if refused.is_empty() {
        taken(report);
    } else {
        report.starts = Some(false);
        report.findings.extend(refused);
    }
}

/// It accepts all gates that would be written, which also answers the questions that the catalogue left open.
fn taken(report: &mut GatesReport) {
    // Arguments other than the gates decide too.
    let undecided = report
        .findings
        .iter()
        .any(|finding| finding.code == Code::GateUndecided);
    if report.starts.is_none() && report.left_out.is_empty() && !undecided {
        report
            .findings
            .retain(|finding| !matches!(finding.code, Code::GateUncovered | Code::GatePatch));
        report.starts = Some(true);
    }
}
