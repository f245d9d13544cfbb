//! Refusals of kube-apiserver: the kind, and the text without values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windrow_model::manifest::GroupKind;
use windrow_model::redact;

use crate::bounds::{LONGEST_TEXT, MOST_REFUSALS};
use crate::row::ObservedRefusal;

/// The cause that is learned for words in the refusal (`k8s.io/apiserver` `pkg/util/webhook`, Go's `net`).
const CAUSES: &[(&str, &str)] = &[
    (
        "no endpoints available for service",
        "no pod behind the webhook's Service answered yet",
    ),
    ("connection refused", "the webhook's pod did not listen yet"),
    (
        "context deadline exceeded",
        "the webhook did not answer in time",
    ),
    (
        "certificate signed by unknown authority",
        "the webhook's certificate was not in its configuration yet",
    ),
    ("no matches for kind", "the kind was not served yet"),
];

/// The refusals of a boot.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeSet<ObservedRefusal>);

impl Refusals {
    /// Takes the failures among the facts of a decision.
    pub(super) fn take(&mut self, facts: &BTreeMap<String, Value>) {
        let failures = facts
            .iter()
            .filter(|(name, _)| name.starts_with("failure "));
        for (_, fact) in failures {
            let Some(message) = fact.get("message").and_then(Value::as_str) else {
                continue;
            };
            if self.0.len() < MOST_REFUSALS
                && let Some(refusal) = refusal(message)
            {
                self.0.insert(refusal);
            }
        }
    }

    pub(super) fn finish(self) -> Vec<ObservedRefusal> {
        self.0.into_iter().collect()
    }
}

/// The refusal in RKE2's message: `failed to create NAMESPACE/NAME GROUP/VERSION, Kind=KIND for ADDON: REFUSAL`
/// (wrangler `pkg/apply`).
fn refusal(message: &str) -> Option<ObservedRefusal> {
    let (before, rest) = message.split_once(", Kind=")?;
    let api_version = before.rsplit(' ').next()?;
    let (group, _) = api_version.split_once('/')?;
    let length = rest
        .find(|one: char| !one.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let (kind, rest) = rest.split_at(length);
    let said = rest.split_once(": ").map_or(rest, |(_, said)| said);
    let cause = CAUSES.iter().find(|(words, _)| said.contains(words));
    let said = without_values(said);
    (!said.is_empty() && !kind.is_empty()).then(|| ObservedRefusal {
        kind: GroupKind::new(group, kind),
        said,
        cause: cause.map(|(_, cause)| (*cause).to_owned()),
    })
}

/// The text of a refusal without values. The webhook's name stays, because it identifies the source.
fn without_values(said: &str) -> String {
    for head in ["failed calling webhook \"", "admission webhook \""] {
        if let Some((_, rest)) = said.split_once(head)
            && let Some((name, _)) = rest.split_once('"')
        {
            return short(&format!("{head}{name}\""));
        }
    }
    let redacted = redact::message(said);
    let mut out = String::new();
    for (number, part) in redacted.split('"').enumerate() {
        match number % 2 {
            0 => out.push_str(part),
            _ => out.push_str("\"...\""),
        }
    }
    short(&out)
}

/// One line of printable ASCII.
fn short(text: &str) -> String {
    let plain = text.chars().map(|one| match one {
        ' '..='~' => one,
        one if one.is_whitespace() => ' ',
        _ => '?',
    });
    let text: String = plain.take(LONGEST_TEXT).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_its_kind_and_its_words_without_values() {
        let head =
            "failed to create default/a cert-manager.io/v1, Kind=Certificate for  kube-system/b: ";
        let silent = format!(
            "{head}Internal error occurred: failed calling webhook \"webhook.cert-manager.io\": failed to call webhook: Post \
             \"https://x.svc:443/\": no endpoints available for service \"x\""
        );
        let one = refusal(&silent).unwrap();
        assert_eq!(one.kind, GroupKind::new("cert-manager.io", "Certificate"));
        assert_eq!(
            one.said,
            "failed calling webhook \"webhook.cert-manager.io\""
        );
        assert_eq!(
            one.cause.as_deref(),
            Some("no pod behind the webhook's Service answered yet")
        );
        let invalid =
            format!("{head}Certificate \"a\" is invalid: spec: Invalid value: \"se\ncret\": no");
        let said = refusal(&invalid).unwrap().said;
        assert!(
            !said.contains("cret") && said.contains("is invalid"),
            "{said}"
        );
        assert_eq!(refusal("something else"), None);
    }
}
