//! The remembered results of earlier changes for a drop-in as a whole: it failed, an operator took it back, or it
//! replaced another one.
//!
//! A failed trial is a result for the whole text: it may have failed because of a gate that it no longer sets.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::check::may_be_one_of;
use super::dropin::read_gates;
use super::settle::{KnownGood, same};
use super::{GateRequest, TargetVersion};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedDropIn {
    /// The version in the form of [`super::version_text`].
    pub version: String,
    /// Its text; `None` for no drop-in.
    pub content: Option<String>,
    /// The error in one line.
    pub why: String,
}

/// The newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedDropIns {
    /// At most [`FailedDropIns::MOST`].
    pub drop_ins: Vec<FailedDropIn>,
}

impl FailedDropIns {
    pub const MOST: usize = 64;

    pub fn add(&mut self, failed: FailedDropIn) {
        self.drop_ins
            .retain(|known| (&known.version, &known.content) != (&failed.version, &failed.content));
        self.drop_ins.push(failed);
        let more = self.drop_ins.len().saturating_sub(Self::MOST);
        self.drop_ins.drain(..more);
    }

    /// Forgets those that set these gates, because the gates were observed to work.
    pub fn forget(&mut self, gates: &[GateRequest], own: &str) {
        self.drop_ins
            .retain(|known| !same(&gates_of(own, known.content.as_deref()), gates));
    }

    /// The newest that sets these gates and failed on a version that may start.
    pub fn find(
        &self,
        gates: &[GateRequest],
        target: &TargetVersion,
        own: &str,
    ) -> Option<&FailedDropIn> {
        self.drop_ins.iter().rev().find(|known| {
            may_be_one_of(target, &known.version)
                && same(&gates_of(own, known.content.as_deref()), gates)
        })
    }
}

/// The decision of an operator against the requests of the configuration. It applies to these requests until
/// `windrow gates apply` is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    pub by: String,
    pub at: Timestamp,
    /// The requests of the configuration in the form of [`request_text`]; `None` if it was not read completely. It is
    /// then the text of the next complete one.
    #[serde(default)]
    pub request: Option<String>,
    /// The version in the form of [`super::version_text`].
    pub version: String,
    /// The drop-in's text that was taken back; `None` for no drop-in.
    pub content: Option<String>,
}

impl TakenBack {
    pub fn is_of(&self, request: &str) -> bool {
        self.request.as_ref().is_none_or(|known| known == request)
    }
}

/// The requests of a configuration without their reasons: two configurations with the same text are one request.
pub fn request_text(requests: &[GateRequest]) -> String {
    let mut lines: Vec<String> = requests
        .iter()
        .map(|request| {
            let when = request.when.as_ref().map(|when| format!(" when {when}"));
            let (component, gate) = (request.component, &request.gate);
            format!(
                "{component} {gate}={}{}\n",
                request.value,
                when.unwrap_or_default()
            )
        })
        .collect();
    lines.sort();
    lines.concat()
}

/// The last change of the drop-in because of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastChange {
    /// The drop-in's text since then.
    pub content: Option<String>,
    /// Its text before.
    pub before: Option<String>,
}

impl LastChange {
    /// The last change after the drop-in's text became `content`. If RKE2's version only removed a gate, there is
    /// nothing to roll back, and the last change stays.
    #[must_use]
    pub fn after(
        known: Option<LastChange>,
        current: Option<&str>,
        content: Option<&str>,
        is_asked_for: bool,
    ) -> Option<Self> {
        let content = content.map(str::to_owned);
        if is_asked_for {
            let before = current.map(str::to_owned);
            return Some(Self { content, before });
        }
        let known = known.filter(|known| known.content.as_deref() == current)?;
        Some(Self { content, ..known })
    }
}

/// The drop-in from before the last change, as far as the version accepts it (`fit`); `None` if it is unknown.
pub fn before_last_change(
    current: Option<&str>,
    known: Option<&KnownGood>,
    last: Option<&LastChange>,
    fit: impl Fn(Option<&str>) -> Option<String>,
) -> Option<Option<String>> {
    if let Some(last) = last.filter(|last| last.content.as_deref() == current) {
        return Some(fit(last.before.as_deref()));
    }
    let known = known?;
    let good = fit(known.content.as_deref());
    if good.as_deref() != current {
        return Some(good);
    }
    let previous = known.previous.as_ref()?;
    Some(fit(previous.content.as_deref()))
}

fn gates_of(own: &str, content: Option<&str>) -> Vec<GateRequest> {
    read_gates(own, content.unwrap_or_default(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dropin::{DropInSnapshot, text};
    use crate::testing::{api, at};

    const OWN: &str = "own.yaml";

    fn failed(version: &str, gates: &[GateRequest]) -> FailedDropIn {
        FailedDropIn {
            version: version.to_owned(),
            content: text(gates),
            why: "why".to_owned(),
        }
    }

    #[test]
    fn a_failed_text_is_known_again_on_its_version_whatever_its_comments_are() {
        let gates = [api("A", true), api("B", false)];
        let mut all = FailedDropIns::default();
        all.add(failed("1.34.2 or 1.35.6", &gates));
        all.add(FailedDropIn {
            content: None,
            ..failed("1.34.2", &[])
        });
        let turned = [api("B", false), api("A", true)];
        for (gates, version, is_known) in [
            (&gates[..], "1.34.2", true),
            (&turned[..], "1.35.6", true),
            (&gates[..], "1.36.3", false),
            (&gates[..1], "1.34.2", false),
            (&[], "1.34.2", true),
            (&[], "1.35.6", false),
        ] {
            let found = all.find(gates, &at(version), OWN);
            assert_eq!(found.is_some(), is_known, "{gates:?} {version}");
        }
        all.forget(&turned, OWN);
        assert_eq!(all.drop_ins.len(), 1);
    }

    #[test]
    fn no_more_failed_texts_are_remembered_than_there_is_room_for() {
        let mut all = FailedDropIns::default();
        for number in 0..FailedDropIns::MOST + 2 {
            all.add(failed("1.34.2", &[api(&format!("G{number}"), true)]));
        }
        all.add(failed("1.34.2", &[api("G5", true)]));
        assert_eq!(all.drop_ins.len(), FailedDropIns::MOST);
        let newest = [api("G5", true)];
        assert!(all.find(&newest, &at("1.34.2"), OWN).is_some());
        assert!(all.find(&[api("G1", true)], &at("1.34.2"), OWN).is_none());
    }

    #[test]
    fn a_request_is_the_same_whatever_its_order_and_its_reasons_are() {
        let mut with_reason = api("A", true);
        with_reason.reason = Some("because".to_owned());
        let one = [api("B", false), with_reason];
        let other = [api("A", true), api("B", false)];
        assert_eq!(request_text(&one), request_text(&other));
        assert_ne!(request_text(&one), request_text(&other[..1]));
        let mut limited = other.clone();
        limited[0].when = Some("<1.34".parse().unwrap());
        assert_ne!(request_text(&one), request_text(&limited));
    }

    #[test]
    fn a_rollback_goes_back_one_change_however_the_change_was_made() {
        let (a, ab) = (
            text(&[api("A", true)]),
            text(&[api("A", true), api("B", true)]),
        );
        let good = |content: &Option<String>, previous: Option<&Option<String>>| KnownGood {
            version: "1.34.2".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            content: content.clone(),
            previous: previous.map(|content| DropInSnapshot {
                content: content.clone(),
            }),
            verified: None,
        };
        let last = |content: &Option<String>, before: &Option<String>| LastChange {
            content: content.clone(),
            before: before.clone(),
        };
        let whole = |content: Option<&str>| content.map(str::to_owned);
        for (known, change, current, goal) in [
            // A boot has added B to the gates that a trial has kept; the record of the change may be missing.
            (Some(good(&a, Some(&None))), None, &ab, Some(a.clone())),
            (
                Some(good(&None, None)),
                Some(last(&ab, &a)),
                &ab,
                Some(a.clone()),
            ),
            // The trial was the last change.
            (Some(good(&ab, Some(&a))), None, &ab, Some(a.clone())),
            (
                Some(good(&ab, Some(&a))),
                Some(last(&ab, &a)),
                &ab,
                Some(a.clone()),
            ),
            // A record of an earlier change does not count.
            (
                Some(good(&a, Some(&None))),
                Some(last(&None, &ab)),
                &a,
                Some(None),
            ),
            // An earlier version of Windrow has written it at a boot.
            (None, None, &a, None),
            (None, None, &None, None),
            // Nothing is known about the time before a rollback.
            (Some(good(&a, None)), None, &a, None),
        ] {
            let found =
                before_last_change(current.as_deref(), known.as_ref(), change.as_ref(), whole);
            assert_eq!(found, goal, "{known:?} {change:?}");
        }
        // A gate of the last-known-good that the new version refuses is not a change.
        let known = good(&ab, Some(&None));
        let fit = |content: Option<&str>| content.and(a.clone());
        let found = before_last_change(a.as_deref(), Some(&known), None, fit);
        assert_eq!(found, Some(None));
    }

    #[test]
    fn a_gate_that_the_version_takes_out_leaves_the_change_to_go_back_from() {
        let change = LastChange::after(None, Some("a"), Some("ab"), true).unwrap();
        assert_eq!(change.before.as_deref(), Some("a"));
        let dropped = LastChange::after(Some(change.clone()), Some("ab"), Some("b"), false);
        assert_eq!(dropped.unwrap().before.as_deref(), Some("a"));
        assert_eq!(
            LastChange::after(Some(change), Some("other"), None, false),
            None
        );
    }
}
