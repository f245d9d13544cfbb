//! Brings the drop-in up to date, and reports its state for the status. Only reads files and waits for nothing.

use std::io;
use std::time::Duration;

use windrow_decide::Event;
use windrow_gates::{
    GateSet, GatesStatus, LastChange, LeftOut, RefusedGates, Rke2State, Settled, assess, check,
    list,
};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::inputs::DropInInputs;
use crate::act::{GatesLock, StateFile, TakenOut, put_drop_in, take_out_of_drop_in};
use crate::configuration::Configuration;
use crate::fs;

/// How often everything is read if other processes change it each time.
const MOST_READS: u32 = 3;

/// The part of the status document about feature gates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatesView {
    pub section: GatesStatus,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SettleOutcome {
    /// For the status; `None` when this node has nothing to do with gates.
    pub view: Option<GatesView>,
    /// For the journal.
    pub events: Vec<Event>,
}

impl DropInInputs {
    /// The report for the status once the drop-in is `settled`.
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
        // A problem with our own gates is located where the configuration requests them.
        findings.retain(|finding| {
            finding.at.is_empty() || finding.at.iter().any(|at| at.file != self.own)
        });
        let mut add = |finding: Finding| {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        };
        for finding in check(&settled.kept, &self.resolved.target, &merge(&self.files)) {
            // The operator who forced a gate has been warned, and a trial has shown otherwise.
            if finding.severity != Severity::Error {
                add(finding);
            }
        }
        for left in settled.asked.left_out.iter().filter(|left| !left.not_meant) {
            add(left_out(Code::GateLeftOut, left));
        }
        let message = if settled.pending {
            Some((Code::GatePending, pending(settled)))
        } else {
            withheld(settled).map(|message| (Code::GatesWithheld, message))
        };
        if let Some((code, message)) = message {
            let first = self.settings.feature_gates.first();
            add(Finding {
                incident: None,
                code,
                severity: code.severity(),
                message,
                at: first
                    .map(|request| request.at.clone())
                    .into_iter()
                    .collect(),
            });
        }
        GatesView { section, findings }
    }
}

/// Brings the drop-in up to date for this state of RKE2. Before RKE2 starts, it decides as the hook before the start
/// does.
pub fn settle(configuration: &Configuration, rke2: Rke2State) -> SettleOutcome {
    let mut patience = GatesLock::PATIENCE;
    let read = || DropInInputs::read_for(configuration, rke2 == Rke2State::Running);
    settle_as_read(read, rke2, &mut patience)
}

/// As [`settle`], right before a start: the installed version is the one that starts, even during an upgrade. `unwritten` are all known
/// refusals, if some of them could not be written.
pub(super) fn settle_for_start(
    configuration: &Configuration,
    rke2: Rke2State,
    unwritten: Option<&RefusedGates>,
    patience: &mut Duration,
) -> SettleOutcome {
    let read = || DropInInputs::read_for(configuration, false).with_unwritten(unwritten);
    let mut outcome = settle_as_read(read, rke2, patience);
    // The boot's only chance: a restart of RKE2 adds nothing.
    if rke2 == Rke2State::Stopped
        && let Some(view) = &outcome.view
    {
        let withheld = view.findings.iter();
        let withheld = withheld.filter(|finding| finding.code == Code::GatesWithheld);
        outcome
            .events
            .extend(withheld.map(|finding| Event::new(finding.code, finding.message.clone())));
    }
    outcome
}

/// Reading takes seconds on a slow disk, so it is not done under the lock. Another process may have changed the gates, or RKE2,
/// meanwhile: then it is read again.
pub(super) fn settle_as_read(
    read: impl Fn() -> DropInInputs,
    rke2: Rke2State,
    patience: &mut Duration,
) -> SettleOutcome {
    let mut inputs = read();
    let mut settled = inputs.settled(rke2);
    let mut events = Vec::new();
    if let Some(why) = &inputs.unread_drop_in {
        events.push(failed("read Windrow's feature gates", why));
    } else if settled.content != inputs.current || settled.taken_back != inputs.history.taken_back {
        let mut lock = GatesLock::take_within(&inputs.layout, patience);
        let mut reads = 1;
        while reads < MOST_READS && !inputs.are_current() {
            drop(lock);
            inputs = read();
            settled = inputs.settled(rke2);
            reads += 1;
            lock = GatesLock::take_within(&inputs.layout, patience);
        }
        events = put(&inputs, &mut settled);
        drop(lock);
    }
    let concerns = !inputs.settings.feature_gates.is_empty() || inputs.current.is_some();
    let view = inputs.view(&settled);
    SettleOutcome {
        view: (concerns || !view.section.effective.is_empty() || !view.findings.is_empty())
            .then_some(view),
        events,
    }
}

/// Writes the drop-in as it is `settled`. If that fails, `settled` becomes the state on the disk. Returns the events to
/// report.
fn put(inputs: &DropInInputs, settled: &mut Settled) -> Vec<Event> {
    let (layout, own) = (&inputs.layout, &inputs.own);
    if settled.taken_back != inputs.history.taken_back
        && let Some(taken_back) = &settled.taken_back
    {
        // If that fails, the next look tries again.
        let _ = StateFile::TakenBack.keep(layout, taken_back);
    }
    if let Err(error) = remember_change(inputs, settled) {
        let path = StateFile::LastChange.path(layout);
        let why = format!("write {}", path.display());
        let event = failed(&why, &error.to_string());
        let there = inputs.there();
        let mut kept = settled.kept.iter();
        // Nobody would find its refusal after it was taken out again, and each boot would begin with it.
        if kept.any(|gate| !there.iter().any(|known| known.sets_as(gate))) {
            settled.dropped.clear();
            settled.kept = there;
            settled.content.clone_from(&inputs.current);
            return vec![event];
        }
    }
    let content = settled.content.as_deref();
    let done = if settled.dropped.is_empty() {
        put_drop_in(layout, content).map(TakenOut::Put)
    } else {
        take_out_of_drop_in(layout, content)
    };
    let mut events = Vec::new();
    match &done {
        Ok(TakenOut::Put(true)) => {
            events.push(Event::new(
                Code::GatesWritten,
                Code::GatesWritten.say(&[("path", own), ("gates", &list(&settled.kept))]),
            ));
            events.extend(no_longer_asked_for(settled));
        }
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
            events.push(failed(&format!("write {own}"), &error.to_string()));
            settled.dropped.clear();
            settled.kept = inputs.there();
            settled.content.clone_from(&inputs.current);
        }
    }
    // Reported for the written drop-in.
    for left in &settled.dropped {
        let message = left_out(Code::GateDropped, left).message;
        events.push(Event::new(Code::GateDropped, message));
    }
    events
}

/// Records the gates that a change of the configuration replaces. Without this record, a rollback uses the record of
/// the last trial.
fn remember_change(inputs: &DropInInputs, settled: &Settled) -> io::Result<()> {
    let (current, content) = (inputs.current.as_deref(), settled.content.as_deref());
    // The last change still has the gate whose refusal could not be written: so the next start looks for the refusal again.
    if current == content || inputs.knows_unwritten {
        return Ok(());
    }
    let there = inputs.there();
    let mut added = settled.kept.iter();
    let is_asked_for = !settled.removed.is_empty()
        || added.any(|gate| !there.iter().any(|known| known.sets_as(gate)));
    let file = StateFile::LastChange;
    let known = file.recall(&inputs.layout).unwrap_or_default();
    match LastChange::after(known, current, content, is_asked_for) {
        Some(change) => file.keep(&inputs.layout, &change),
        None => file.forget(&inputs.layout),
    }
}

/// Each gate that a boot removes is worth a warning: the configuration may have lost it by mistake.
fn no_longer_asked_for(settled: &Settled) -> impl Iterator<Item = Event> {
    settled.removed.iter().map(|gate| {
        let mut kept = settled.kept.iter();
        let replaced =
            kept.any(|other| (other.component, &other.gate) == (gate.component, &gate.gate));
        let why = if replaced {
            "the configuration now asks for the other value"
        } else {
            "the configuration does not ask for it any more"
        };
        let removed = LeftOut {
            request: gate.clone(),
            why: why.to_owned(),
            not_meant: false,
        };
        Event::new(
            Code::GateDropped,
            left_out(Code::GateDropped, &removed).message,
        )
    })
}

fn failed(what: &str, error: &str) -> Event {
    Event::new(
        Code::ActionFailed,
        Code::ActionFailed.say(&[("what", what), ("error", error)]),
    )
}

fn withheld(settled: &Settled) -> Option<String> {
    let why = settled.withheld.as_ref()?.to_string();
    let difference = settled.difference();
    Some(Code::GatesWithheld.say(&[("difference", &difference), ("why", &why)]))
}

/// Whether anything must be done before RKE2 starts. If no gate is requested, nothing is read and nothing is delayed.
pub fn concerns(configuration: &Configuration) -> bool {
    let layout = configuration.layout();
    !configuration.settings().feature_gates.is_empty()
        || fs::symlink_metadata(layout.gates_drop_in()).is_ok()
        || fs::symlink_metadata(StateFile::Trial.path(layout)).is_ok()
}

fn pending(settled: &Settled) -> String {
    Code::GatePending.say(&[("gates", &list(&settled.asked.written))])
}

pub(super) fn left_out(code: Code, left: &LeftOut) -> Finding {
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
