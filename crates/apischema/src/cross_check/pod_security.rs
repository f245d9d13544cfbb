//! Namespaces that enforce a Pod Security Standard, and the pods that they refuse.

use std::collections::BTreeMap;

use windrow_model::findings::Location;
use windrow_model::manifest::{Object, ObjectRef, PodTemplate};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::SourceMap;

use super::finding;
use super::refusals::Refusals;
use crate::PodSecurityLevel;

const LABEL: &str = "pod-security.kubernetes.io/enforce";

#[derive(Debug, Default)]
pub(super) struct PodSecurity {
    /// The level that each namespace enforces, in every manifest that declares it.
    enforced: BTreeMap<String, Vec<(Option<PodSecurityLevel>, Location)>>,
    pods: Vec<JudgedPods>,
    /// An object of the files may change pods before they are checked.
    are_changed: bool,
}

#[derive(Debug)]
struct JudgedPods {
    /// With the name in its manifest.
    of: ObjectRef,
    namespace: String,
    at: Location,
    baseline: Vec<String>,
    restricted: Vec<String>,
}

impl PodSecurity {
    pub(super) fn add(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        let id = &object.id;
        self.are_changed |= changes_pods(id);
        if id.group.is_empty() && id.kind == "Namespace" {
            let labels = object.node.at(&["metadata", "labels"]);
            let label = labels.and_then(|labels| labels.entry(LABEL));
            let level = label.and_then(|label| label.value.as_str());
            let level = level.and_then(PodSecurityLevel::from_label);
            let at = shown.at(Some(label.map_or(object.line, |label| label.line)));
            let declared = self.enforced.entry(id.name.to_string()).or_default();
            declared.push((level, at));
        }
        let Some(PodTemplate { spec, .. }) = object.running_pod_template() else {
            return;
        };
        let restricted = PodSecurityLevel::Restricted.refuses(spec);
        if !restricted.is_empty() {
            self.pods.push(JudgedPods {
                of: id.clone(),
                namespace: namespace.to_owned(),
                at: shown.at(Some(spec.line)),
                baseline: PodSecurityLevel::Baseline.refuses(spec),
                restricted,
            });
        }
    }

    pub(super) fn are_changed(&self) -> bool {
        self.are_changed
    }

    pub(super) fn finish(&self) -> Refusals {
        let mut all = Refusals::default();
        for pods in &self.pods {
            let namespace = &*pods.namespace;
            let Some((level, label)) = self.level_of(namespace) else {
                continue;
            };
            let why = match level {
                PodSecurityLevel::Baseline => &pods.baseline,
                PodSecurityLevel::Restricted => &pods.restricted,
            };
            if why.is_empty() {
                continue;
            }
            let (why, level) = (why.join(", "), level.as_str());
            let is_pod = pods.of.kind == "Pod";
            let what = pods.of.to_string();
            let code = Code::PodSecurityRefuses;
            let words = [("level", level), ("what", &what), ("why", &why)];
            let mut found = finding(code, code.say(&words), vec![pods.at.clone(), label.clone()]);
            if self.are_changed {
                // A webhook or policy of these files may set the missing values.
                found.severity = Severity::Notice;
            } else if is_pod {
                let says = format!(
                    "pods \"{}\" is forbidden: violates PodSecurity \"{level}:latest\": {why}",
                    pods.of.name
                );
                all.refused.insert(pods.of.clone(), says);
            } else {
                let says = format!("its namespace refuses its pods: {why}");
                let named = ObjectRef {
                    namespace: Some(namespace.into()),
                    ..pods.of.clone()
                };
                all.without_pods.insert(named, says);
            }
            all.findings.push(found);
        }
        all
    }

    /// The level that a namespace enforces, if all its declarations agree.
    fn level_of(&self, namespace: &str) -> Option<(PodSecurityLevel, &Location)> {
        let declared = self.enforced.get(namespace)?;
        let (level, at) = declared.first()?;
        let agree = declared.iter().all(|(other, _)| other == level);
        level.filter(|_| agree).map(|level| (level, at))
    }
}

/// Whether objects of this kind may change pods during their creation.
fn changes_pods(id: &ObjectRef) -> bool {
    match (id.group.as_str(), id.kind.as_str()) {
        ("admissionregistration.k8s.io", kind) => kind.starts_with("Mutating"),
        ("kyverno.io" | "policies.kyverno.io" | "mutations.gatekeeper.sh", _) => true,
        _ => false,
    }
}
