//! Brings the drop-in up to date, and says what the status reports about it. Reads files only and waits for nothing.

use std::fs;

use windrow_decide::Event;
use windrow_gates::{GateSet, GatesStatus, LeftOut, Rke2State, Settled, assess, check, list};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::inputs::DropInInputs;
use crate::act::{StateFile, TakenOut, put_drop_in, take_out_of_drop_in};
use crate::configuration::Configuration;

/// What the status document reports about feature gates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatesView {
    /// Its `gates` section.
    pub section: GatesStatus,
    /// Findings about gates.
    pub findings: Vec<Finding>,
}

/// The result of settling the drop-in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SettleOutcome {
    /// For the status; `None` when this node has nothing to do with gates.
    pub view: Option<GatesView>,
    /// For the journal.
    pub events: Vec<Event>,
}

impl DropInInputs {
    /// What the status reports once the drop-in is `settled`.
    pub(super) fn view(&self, settled: &Settled) -> GatesView {
        let mut section = GatesStatus::new(
            &self.resolved,
            &self.settings.feature_gates,
            &settled.asked.left_out,
        );
        section.pending = settled.pending;
        let mut files = self.files.clone();
        if let Some(content) = &settled.content {
            files.push(Rke2ConfigFile::new(
                ConfigLayer::DropIn,
                &self.own,
                content.clone(),
            ));
        }
        let assessment = assess(&merge(&files), Some(&self.own), &self.resolved.target);
        for view in &assessment.components {
            section
                .effective
                .extend(view.gates.iter().map(|gate| GateSet {
                    component: view.component.to_string(),
                    gate: gate.gate.clone(),
                    value: gate.value,
                    at: gate.at.clone(),
                }));
        }
        let mut findings: Vec<Finding> = assessment.findings;
        // A problem with our own gates is located where the configuration asks for them.
        findings.retain(|finding| {
            finding.at.is_empty() || finding.at.iter().any(|at| at.file != self.own)
        });
        let mut add = |finding: Finding| {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        };
        for finding in check(&settled.kept, &self.resolved.target, &merge(&self.files)) {
            // Whoever forced a gate has been warned, and a trial has shown otherwise.
            if finding.severity != Severity::Error {
                add(finding);
            }
        }
        for left in settled.asked.left_out.iter().filter(|left| !left.not_meant) {
            add(left_out(Code::GateLeftOut, left));
        }
        if settled.pending {
            add(Finding {
                incident: None,
                code: Code::GatePending,
                severity: Code::GatePending.severity(),
                message: pending(settled),
                at: self
                    .settings
                    .feature_gates
                    .first()
                    .map(|request| request.at.clone())
                    .into_iter()
                    .collect(),
            });
        }
        GatesView { section, findings }
    }
}

/// Brings the drop-in up to date for this state of RKE2.
pub fn settle(configuration: &Configuration, rke2: Rke2State) -> SettleOutcome {
    settle_on(&DropInInputs::read(configuration), rke2)
}

/// The same right before a start: the installed version is the one that starts, even during an upgrade.
pub(super) fn settle_for_start(configuration: &Configuration, rke2: Rke2State) -> SettleOutcome {
    settle_on(&DropInInputs::read_for(configuration, false), rke2)
}

fn settle_on(inputs: &DropInInputs, rke2: Rke2State) -> SettleOutcome {
    let mut settled = inputs.settled(rke2);
    let events = put(inputs, &mut settled);
    let concerns = !inputs.settings.feature_gates.is_empty() || inputs.current.is_some();
    let view = inputs.view(&settled);
    SettleOutcome {
        view: (concerns || !view.section.effective.is_empty() || !view.findings.is_empty())
            .then_some(view),
        events,
    }
}

/// Puts the drop-in there as it is `settled`; where that cannot be, `settled` is what is there then. Returns what to report.
fn put(inputs: &DropInInputs, settled: &mut Settled) -> Vec<Event> {
    let (layout, own) = (&inputs.layout, &inputs.own);
    let content = settled.content.as_deref();
    let done = match settled.dropped.is_empty() {
        true => put_drop_in(layout, content).map(TakenOut::Put),
        false => take_out_of_drop_in(layout, content),
    };
    let mut events = Vec::new();
    match &done {
        Ok(TakenOut::Put(true)) => events.push(Event::new(
            Code::GatesWritten,
            Code::GatesWritten.say(&[("path", own), ("gates", &list(&settled.kept))]),
        )),
        Ok(TakenOut::Put(false)) => {}
        Ok(TakenOut::Removed(error)) => {
            let why = format!("{own} could not be written ({error}), so all of it was removed");
            let kept = std::mem::take(&mut settled.kept).into_iter();
            settled.dropped.extend(kept.map(|request| LeftOut {
                request,
                why: why.clone(),
                not_meant: false,
            }));
            settled.content = None;
        }
        Err(error) => {
            let what = format!("write {own}");
            events.push(Event::new(
                Code::ActionFailed,
                Code::ActionFailed.say(&[("what", &what), ("error", &error.to_string())]),
            ));
            settled.dropped.clear();
            settled.kept = inputs.there();
            settled.content.clone_from(&inputs.current);
        }
    }
    // Said of what is done.
    for left in &settled.dropped {
        let message = left_out(Code::GateDropped, left).message;
        events.push(Event::new(Code::GateDropped, message));
    }
    events
}

/// Must anything be done before RKE2 starts? Where no gate is asked for, nothing is read and nothing is delayed.
pub fn concerns(configuration: &Configuration) -> bool {
    let layout = configuration.layout();
    !configuration.settings().feature_gates.is_empty()
        || fs::symlink_metadata(layout.gates_drop_in()).is_ok()
        || fs::symlink_metadata(StateFile::Trial.path(layout)).is_ok()
}

fn pending(settled: &Settled) -> String {
    Code::GatePending.say(&[("gates", &list(&settled.asked.written))])
}

fn left_out(code: Code, left: &LeftOut) -> Finding {
    let gate = &left.request;
    let message = match code {
        Code::GateDropped => code.say(&[
            ("gate", &gate.gate),
            ("value", &gate.value.to_string()),
            ("component", gate.component.as_str()),
            ("why", &left.why),
        ]),
        _ => code.say(&[
            ("gate", &format!("{}={}", gate.gate, gate.value)),
            ("why", &left.why),
        ]),
    };
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message,
        at: vec![gate.at.clone()],
    }
}
