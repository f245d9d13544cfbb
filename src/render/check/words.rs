//! A finding in one text, for formats that have room for no more.

use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::check::{CheckVerdict, CheckedFinding};

pub(super) fn message(one: &CheckedFinding) -> String {
    let message = &one.finding.message;
    let mut text = match message.contains(&one.advice) {
        true => message.clone(),
        false => format!("{message}. {}", one.advice),
    };
    if let Some(accepted) = &one.accepted {
        text = format!("accepted ({}): {text}", accepted.reason);
    }
    text
}

/// The severity; a finding that could not be judged counts as a warning.
pub(super) fn level(one: &CheckedFinding) -> Severity {
    match one.counts() {
        CheckVerdict::CannotWork => Severity::Error,
        CheckVerdict::Unknown | CheckVerdict::Slower => Severity::Warning,
        CheckVerdict::Fine => Severity::Notice,
    }
}
