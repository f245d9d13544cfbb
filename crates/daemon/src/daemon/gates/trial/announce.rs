//! How a trial is reported: in the journal step by step, and as a finding once it is over.

use windrow_decide::Event;
use windrow_gates::trial::TrialState;
use windrow_gates::{Trial, TrialOutcome, list};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;

use crate::report::journal;

pub(super) fn trial_finding(trial: &Trial, own: &str) -> Option<Finding> {
    let finding = |code: Code, message: String| Finding {
        incident: None,
        code,
        severity: code.severity(),
        message,
        at: Vec::new(),
    };
    match trial.outcome? {
        TrialOutcome::RolledBack => {
            let event = ended(trial, own)?;
            Some(finding(event.code, event.message))
        }
        TrialOutcome::Kept if !trial.unverified.is_empty() => {
            let code = Code::GateUnverified;
            let message = code.say(&[("why", &trial.unverified.join("; "))]);
            Some(finding(code, message))
        }
        _ => None,
    }
}

pub(super) fn announce_step(trial: &Trial, own: &str, step: &str) {
    let gates = list(&trial.gates(own, &[]));
    journal::write_event(&Event::new(
        Code::GateTrial,
        Code::GateTrial.say(&[("gates", &gates), ("step", step)]),
    ));
}

pub(super) fn announce_state(trial: &Trial, own: &str) {
    let step = match trial.state {
        TrialState::Written => "written; rke2-server has to be restarted",
        TrialState::Restarting => "rke2-server restarts",
        TrialState::Verifying => "waits until kube-apiserver is ready with the gates",
        TrialState::RollingBack if !trial.started => {
            "is not tried; the previous gates are restored"
        }
        TrialState::RollingBack => "does not work; the previous gates are restored",
        _ => "",
    };
    match ended(trial, own) {
        Some(event) => journal::write_event(&event),
        None if !step.is_empty() => announce_step(trial, own, step),
        None => {}
    }
}

fn ended(trial: &Trial, own: &str) -> Option<Event> {
    let gates = list(&trial.gates(own, &[]));
    let why = trial.why.as_deref().unwrap_or_default();
    let code = match trial.outcome? {
        TrialOutcome::Kept => Code::GateTrialKept,
        TrialOutcome::RolledBack => Code::GateTrialRolledBack,
        TrialOutcome::NotTried | TrialOutcome::Unchanged => Code::GateTrialRefused,
    };
    Some(Event::new(
        code,
        code.say(&[("gates", &gates), ("why", why)]),
    ))
}
