//! Feature gates for users and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_gates::{
    Assessment, Component, DropIn, JudgedArguments, ObservedGates, ResolvedVersion, TargetVersion,
    TrialOutcome, TrialStatus,
};
use windrow_model::checks::CheckOutcome;
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Severity;
use windrow_model::unchecked::NotChecked;

use super::checks::write_verdict;
use super::table::{Style, findings};
use crate::printable::printable;

/// What `windrow gates check -o json` prints. The names of its fields never change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatesReport {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Gates`
    pub kind: String,
    /// The versions that may start; empty when unknown.
    pub versions: Vec<String>,
    /// The source of the version, or the reason why it is unknown.
    pub because: String,
    /// False if something that was checked keeps a component from starting. Null when that is unknown.
    pub starts: Option<bool>,
    /// Whether an error keeps a component from starting. A wrong request does not: Windrow does not write it.
    #[serde(skip)]
    pub stops: bool,
    /// What could not be read, a line each: the rest was checked all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// What was not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<NotChecked>,
    /// The components with gates.
    pub components: Vec<ComponentReport>,
    /// Gates that the configuration asks for and Windrow does not write.
    pub left_out: Vec<LeftOutReport>,
    /// All findings.
    #[serde(serialize_with = "windrow_model::findings::serialize_advised")]
    #[schemars(with = "Vec<windrow_model::findings::AdvisedFinding<'static>>")]
    pub findings: Vec<Finding>,
    /// On a node, the current trial or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialStatus>,
}

/// One component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentReport {
    /// `kube-apiserver` and the like.
    pub component: String,
    /// Its gates, by name.
    pub gates: Vec<GateReport>,
    /// Why Windrow cannot tell which gates are in effect, if it tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unobserved: Option<String>,
}

/// One gate that is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateReport {
    /// Its name.
    pub gate: String,
    /// The value in effect.
    pub value: bool,
    /// The place of this setting; for Windrow's own drop-in, the place in the configuration that requests it.
    pub at: Location,
    /// The reason for the request, if the configuration has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where other values were written before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Location>,
    /// The value in effect, as the running component reports it; absent where that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_effect: Option<bool>,
    /// The value in the arguments of the component's static pod; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_argument: Option<bool>,
}

/// A requested gate that is not written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutReport {
    /// `kube-apiserver` and the like.
    pub component: String,
    /// The gate.
    pub gate: String,
    /// The requested value.
    pub value: bool,
    /// Why it is not written.
    pub why: String,
    /// The place of the request.
    pub at: Location,
}

impl GatesReport {
    /// The report of a configuration: the effect of the files together with Windrow's drop-in.
    /// `own` is that drop-in's path.
    pub fn new(
        resolved: &ResolvedVersion,
        assessment: &Assessment,
        drop_in: &DropIn,
        own: &str,
    ) -> Self {
        let asked = |component, gate: &str| {
            drop_in
                .written
                .iter()
                .find(|request| request.component == component && request.gate == gate)
        };
        let components = assessment
            .components
            .iter()
            .map(|view| ComponentReport {
                component: view.component.to_string(),
                gates: view
                    .gates
                    .iter()
                    .map(|gate| {
                        let request =
                            asked(view.component, &gate.gate).filter(|_| gate.at.file == own);
                        GateReport {
                            gate: gate.gate.clone(),
                            value: gate.value,
                            at: request.map_or(&gate.at, |request| &request.at).clone(),
                            reason: request.and_then(|request| request.reason.clone()),
                            overrides: gate.overrides.iter().map(|(_, at)| at.clone()).collect(),
                            in_effect: None,
                            pod_argument: None,
                        }
                    })
                    .collect(),
                unobserved: None,
            })
            .collect();
        let left_out = drop_in
            .left_out
            .iter()
            .map(|left| LeftOutReport {
                component: left.request.component.to_string(),
                gate: left.request.gate.clone(),
                value: left.request.value,
                why: left.why.clone(),
                at: left.request.at.clone(),
            })
            .collect();
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Gates".to_owned(),
            versions: match &resolved.target {
                TargetVersion::Known(version) => vec![version.to_string()],
                TargetVersion::OneOf(versions) => {
                    versions.iter().map(ToString::to_string).collect()
                }
                TargetVersion::Unknown => Vec::new(),
            },
            because: resolved.because.clone(),
            starts: match (assessment.starts(), assessment.uncertain()) {
                (false, _) => Some(false),
                (true, true) => None,
                (true, false) => Some(true),
            },
            stops: false,
            unread: Vec::new(),
            not_checked: Vec::new(),
            components,
            left_out,
            findings: assessment.findings.clone(),
            trial: None,
        }
    }

    /// Adds the findings on the components' arguments, and the arguments that could not be checked.
    pub fn add_arguments(&mut self, arguments: JudgedArguments) {
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        if arguments.findings.iter().any(is_error) {
            self.starts = Some(false);
            self.stops = true;
        }
        self.findings.extend(arguments.findings);
        self.leave_unchecked(arguments.unchecked);
    }

    /// Adds what no rule judges. Windrow cannot tell whether every component starts if one of them may not.
    pub fn leave_unchecked(&mut self, unchecked: Vec<NotChecked>) {
        if unchecked.iter().any(NotChecked::can_stop_the_node) && self.starts == Some(true) {
            self.starts = None;
        }
        self.not_checked.extend(unchecked);
    }

    /// Adds unreadable files. Windrow then cannot tell whether every component would start.
    pub fn leave_unread(&mut self, unread: Vec<String>) {
        if !unread.is_empty() && self.starts == Some(true) {
            self.starts = None;
        }
        self.unread = unread;
    }

    /// Adds a component's own report of its gates, and its static pod's arguments.
    pub fn observe(
        &mut self,
        component: Component,
        observed: Result<ObservedGates, String>,
        pod: Option<&BTreeMap<String, bool>>,
    ) {
        let Some(view) = self
            .components
            .iter_mut()
            .find(|view| view.component == component.as_str())
        else {
            return;
        };
        for gate in &mut view.gates {
            gate.in_effect = observed
                .as_ref()
                .ok()
                .and_then(|observed| observed.gates.get(&gate.gate).copied());
            gate.pod_argument = pod.and_then(|pod| pod.get(&gate.gate).copied());
        }
        view.unobserved = observed.err();
    }

    pub fn to_table(&self, style: Style) -> String {
        let mut out = String::new();
        let versions = match self.versions.as_slice() {
            [] => "an unknown Kubernetes version".to_owned(),
            versions => format!("Kubernetes {}", versions.join(" or ")),
        };
        let _ = writeln!(
            out,
            "{} ({})",
            style.strong(&format!("Feature gates for {versions}")),
            printable(&self.because)
        );
        self.write_components(&mut out, style);
        self.write_left_out(&mut out, style);
        if let Some(trial) = &self.trial {
            let _ = writeln!(out, "\n{}", style.strong("Last trial"));
            let _ = writeln!(out, "  {}", printable(&trial_line(trial)));
        }
        out.push_str(&findings(&self.findings, style));
        let sentence = match self.starts {
            Some(true) => "Nothing that was checked keeps a component from starting.",
            Some(false) => "Not every component would start, or a request is wrong.",
            None if !self.unread.is_empty() => {
                "Windrow cannot tell whether every component would start: it could not read everything."
            }
            None => "Windrow cannot tell whether every component would start.",
        };
        write_verdict(&mut out, self.verdict(), sentence, style);
        if !self.not_checked.is_empty() {
            let heading = format!("Not checked ({})", self.not_checked.len());
            let _ = writeln!(out, "\n{}", style.strong(&heading));
            for line in &self.not_checked {
                let _ = writeln!(out, "  {}", printable(&line.to_string()));
            }
        }
        out
    }

    /// The verdict in one word.
    pub fn verdict(&self) -> CheckOutcome {
        let warns = |finding: &Finding| finding.severity == Severity::Warning;
        match self.starts {
            Some(true) if self.findings.iter().any(warns) => CheckOutcome::Warn,
            Some(true) => CheckOutcome::Pass,
            Some(false) => CheckOutcome::Fail,
            None => CheckOutcome::Unknown,
        }
    }

    fn write_components(&self, out: &mut String, style: Style) {
        let rows = self.components.iter().flat_map(|view| &view.gates);
        let width = rows
            .map(|gate| gate.gate.chars().count() + 6)
            .max()
            .unwrap_or(0)
            .min(60);
        for view in &self.components {
            let _ = writeln!(out, "\n{}", style.strong(&view.component));
            for gate in &view.gates {
                let set = printable(&format!("{}={}", gate.gate, gate.value));
                let origin = printable(&origin(gate));
                let _ = writeln!(out, "  {set:<width$}  {}", style.dim(&origin));
                if let Some(line) = differs(gate) {
                    let _ = writeln!(out, "  {:<width$}  {}", "", style.bad(&line));
                }
            }
            write_in_effect(out, view, style);
        }
        if self.components.is_empty() {
            out.push_str("\nNo feature gates are set.\n");
        }
    }

    fn write_left_out(&self, out: &mut String, style: Style) {
        if self.left_out.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", style.strong("Requested, but not written"));
        for left in &self.left_out {
            let same = |finding: &Finding| {
                finding.message.starts_with(&left.why) && finding.at.contains(&left.at)
            };
            let why = match self.findings.iter().any(same) {
                true => "see the findings",
                false => &left.why,
            };
            let line = format!(
                "{} {}={} ({}): {why}",
                left.component, left.gate, left.value, left.at
            );
            let _ = writeln!(out, "  {}", printable(&line));
        }
    }
}

fn origin(gate: &GateReport) -> String {
    let mut origin = gate.at.to_string();
    if let Some(reason) = &gate.reason {
        let _ = write!(origin, " ({reason})");
    }
    if !gate.overrides.is_empty() {
        let places: Vec<String> = gate.overrides.iter().map(ToString::to_string).collect();
        let _ = write!(origin, ", over {}", places.join(", "));
    }
    origin
}

/// The number of a component's gates that are in effect, if it was read.
fn write_in_effect(out: &mut String, view: &ComponentReport, style: Style) {
    if let Some(why) = &view.unobserved {
        let line = format!("Windrow cannot tell which gates are in effect: {why}");
        let _ = writeln!(out, "  {}", style.waiting(&printable(&line)));
    } else if view.gates.iter().any(|gate| gate.in_effect.is_some()) {
        let as_set = view
            .gates
            .iter()
            .filter(|gate| gate.in_effect == Some(gate.value));
        let line = format!(
            "{} of {} in effect as set",
            as_set.count(),
            view.gates.len()
        );
        let _ = writeln!(out, "  {}", style.dim(&line));
    }
}

fn differs(gate: &GateReport) -> Option<String> {
    let value = gate.in_effect.filter(|value| *value != gate.value)?;
    Some(match gate.pod_argument {
        Some(argument) if argument == gate.value => {
            format!("in effect: {value}, although its static pod has the argument")
        }
        _ => format!("in effect: {value}; RKE2 has not been started with it yet"),
    })
}

fn trial_line(trial: &TrialStatus) -> String {
    let how = match (trial.outcome, &trial.why) {
        (None, _) => "under way".to_owned(),
        (Some(TrialOutcome::Kept), _) => "kept".to_owned(),
        (Some(TrialOutcome::RolledBack), why) => {
            format!(
                "rolled back: {}",
                why.as_deref().unwrap_or("unknown reason")
            )
        }
        (Some(_), why) => {
            format!("not tried: {}", why.as_deref().unwrap_or("unknown reason"))
        }
    };
    format!(
        "{} (requested by {} at {}): {how}",
        trial.gates, trial.by, trial.at
    )
}
