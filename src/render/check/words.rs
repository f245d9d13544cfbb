//! A finding in one text, for formats that have room for no more.

use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::check::{CheckVerdict, CheckedFinding};

pub(super) fn message(one: &CheckedFinding) -> String {
    let message = &one.finding.message;
    let mut text = match message.contains(&one.advice) {
        true => message.clone(),
        false => sentences(message, &one.advice),
    };
    if let Some(accepted) = &one.accepted {
        text = format!("accepted ({}): {text}", accepted.reason);
    }
    text
}

/// The severity; a finding that could not be judged counts as a warning.
pub(super) fn level(one: &CheckedFinding) -> Severity {
    match one.counts() {
        CheckVerdict::Fail => Severity::Error,
        CheckVerdict::Unknown | CheckVerdict::Warn => Severity::Warning,
        CheckVerdict::Pass => Severity::Notice,
    }
}

/// The message with its advice. A message that ends a sentence gets no second full stop.
fn sentences(message: &str, advice: &str) -> String {
    let end = match message.ends_with(['.', '?', '!']) {
        true => "",
        false => ".",
    };
    format!("{message}{end} {advice}")
}

#[cfg(test)]
mod tests {
    use super::sentences;

    #[test]
    fn a_message_and_its_advice_are_two_sentences_with_one_mark_each() {
        assert_eq!(
            sentences("did you mean `a`?", "Correct it."),
            "did you mean `a`? Correct it."
        );
        assert_eq!(
            sentences("it is there", "Remove it."),
            "it is there. Remove it."
        );
    }
}
