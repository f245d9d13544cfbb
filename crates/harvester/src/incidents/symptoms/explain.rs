//! Puts each symptom under the finding that explains it, by object. One full disk is one finding and not four.
//!
//! A finding explains a symptom if both name the same object, such as a pod. There are two exceptions:
//!
//! - Many pods run on a Node. A cause explains that a Node is not Ready only if its code is in the list below, and never its other
//!   conditions. A Node explains only the symptoms that name it as the reason.
//! - A pod that crashes again and again is explained by a finding about this pod or its Job, not by one about another pod of its owner.

use std::collections::BTreeSet;

use windrow_model::reasons::{Code, Severity};

use super::pods::CRASH_LOOP;
use crate::incidents::finding::IncidentFinding;

/// Causes because of which a Node is not Ready. A stalled upgrade can be one, and can also be an effect: it has to name the condition.
const OF_NODES: [Code; 5] = [
    Code::UpgradeStalled,
    Code::RebootWaits,
    Code::KubeletCredentialExpired,
    Code::EtcdLearner,
    Code::Rke2BootstrapLoop,
];

/// Incidents that other programs report about parts of the platform that do not work: a symptom explains them. With the beginnings of
/// the names of these parts; empty if the incident itself names them.
const EFFECTS: [(Code, &[&str]); 2] = [
    (Code::ManagedChartNotReady, &[]),
    (
        Code::KubevirtNotReady,
        &[
            "Deployment harvester-system/virt-",
            "DaemonSet harvester-system/virt-handler",
            "Deployment kubevirt/virt-",
            "DaemonSet kubevirt/virt-handler",
        ],
    ),
];

/// A finding that no other one explains, and all objects of the symptoms below it.
struct Root {
    finding: IncidentFinding,
    names: BTreeSet<String>,
}

impl Root {
    fn new(finding: IncidentFinding) -> Self {
        let names = names(&finding).map(str::to_owned).collect();
        Self { finding, names }
    }

    fn explains(&self, symptom: &IncidentFinding) -> bool {
        if is_of_node(symptom) {
            let names_condition = || {
                let mut seen = self.finding.evidence.iter();
                seen.any(|seen| seen.object == symptom.subject && seen.field == "condition Ready")
            };
            return symptom.code == Code::NodeNotReady
                && self.finding.subject == symptom.subject
                && OF_NODES.contains(&self.finding.code)
                && (self.finding.code != Code::UpgradeStalled || names_condition());
        }
        if is_of_node(&self.finding) && is_symptom_of_node(&self.finding) {
            return names(symptom).any(|name| name == self.finding.subject);
        }
        let is_named = |name: &str| !is_node(name) && self.names.contains(name);
        let is_its_job = symptom.subject.starts_with("Job ") && is_named(&symptom.subject);
        names(symptom).any(is_named) && (is_its_job || crashing(symptom).all(is_named))
    }

    fn take(&mut self, symptom: &IncidentFinding) {
        self.names.extend(names(symptom).map(str::to_owned));
        // A cause that is known to do no harm is not worse because of a warning.
        if self.finding.severity > Severity::Info || symptom.severity >= Severity::Error {
            self.finding.severity = self.finding.severity.max(symptom.severity);
        }
        if symptom.subject != self.finding.subject || crashing(symptom).next().is_some() {
            self.finding.affected.push(symptom.message.clone());
        }
    }
}

/// The subject, and the objects of the evidence.
fn names(finding: &IncidentFinding) -> impl Iterator<Item = &str> {
    let seen = finding.evidence.iter().map(|seen| seen.object.as_str());
    std::iter::once(finding.subject.as_str()).chain(seen)
}

/// The pods of a symptom that crash again and again.
fn crashing(symptom: &IncidentFinding) -> impl Iterator<Item = &str> {
    let seen = symptom.evidence.iter();
    let crashes = seen.filter(|seen| seen.field == "status" && seen.value.contains(CRASH_LOOP));
    crashes.map(|seen| seen.object.as_str())
}

fn is_node(name: &str) -> bool {
    name.starts_with("Node ")
}

fn is_of_node(finding: &IncidentFinding) -> bool {
    is_node(&finding.subject) && is_symptom_of_node(finding)
}

fn is_symptom_of_node(finding: &IncidentFinding) -> bool {
    matches!(finding.code, Code::NodeNotReady | Code::NodeCondition)
}

/// The causes, each with its symptoms, and the symptoms without a known cause.
pub(in crate::incidents) fn explain(
    causes: Vec<IncidentFinding>,
    symptoms: Vec<IncidentFinding>,
) -> Vec<IncidentFinding> {
    let effect = |finding: &IncidentFinding| {
        let row = EFFECTS.iter().find(|(code, _)| *code == finding.code)?;
        // Fleet could not apply the chart at all: that is a cause.
        let is_cause =
            finding.code == Code::ManagedChartNotReady && finding.severity >= Severity::Error;
        (!is_cause).then_some(row.1)
    };
    let (effects, causes): (Vec<_>, Vec<_>) = causes
        .into_iter()
        .partition(|finding| effect(finding).is_some());
    let (nodes, others): (Vec<_>, Vec<_>) = symptoms.into_iter().partition(is_of_node);
    let mut roots: Vec<Root> = causes.into_iter().map(Root::new).collect();
    for symptom in nodes.into_iter().chain(others) {
        match roots.iter_mut().find(|root| root.explains(&symptom)) {
            Some(root) => root.take(&symptom),
            None => roots.push(Root::new(IncidentFinding {
                unexplained: true,
                ..symptom
            })),
        }
    }
    for incident in effects {
        let parts = effect(&incident).unwrap_or_default();
        let has_part = |root: &Root| {
            let mut names = root.names.iter();
            names.any(|name| parts.iter().any(|part| name.starts_with(part)))
        };
        let explains = |root: &&mut Root| root.explains(&incident) || has_part(root);
        match roots.iter_mut().find(explains) {
            Some(root) => root.take(&incident),
            None => roots.push(Root::new(incident)),
        }
    }
    roots.into_iter().map(|root| root.finding).collect()
}
