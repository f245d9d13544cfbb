//! The content that Windrow's drop-in should have now, given its present content.
//!
//! While RKE2 is stopped, it contains the requested gates that work for certain: the next start reads it. While RKE2
//! runs, nothing is added. Only gates that the version that will start refuses are removed, so that an
//! upgrade does not stop at one of Windrow's gates.
//!
//! Apart from these, the drop-in does not change if the configuration was not read completely, if an operator took this
//! request back, if the resulting drop-in has failed, or if the check shows that a component would stop because of it
//! ([`Withheld`]).

use std::fmt;

use serde::{Deserialize, Serialize};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::assess::assess;
use super::catalogue::Catalogue;
use super::check::{may_be_one_of, was_asked_for};
use super::dropin::{DropInSnapshot, drop_in_trusting, read_gates, text};
use super::status::list;
use super::verdicts::{FailedDropIns, TakenBack, request_text};
use super::{DropIn, GateRequest, LeftOut, TargetVersion};

/// Is a server or agent of RKE2 running?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rke2State {
    /// A change is read at the next start.
    Stopped,
    /// It runs, or is being started.
    Running,
}

/// Gates that a trial has shown to work on one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proven {
    /// The version in the form of [`super::Version`].
    pub version: String,
    pub gates: Vec<GateRequest>,
}

/// Gates that a trial has shown not to work on one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The version in the form of [`super::Version`].
    pub version: String,
    /// The gates, each with its error in one line.
    pub gates: Vec<(GateRequest, String)>,
}

#[derive(Debug, Clone, Copy)]
pub struct SettleInputs<'a> {
    pub requests: &'a [GateRequest],
    /// The version that will start.
    pub target: &'a TargetVersion,
    /// RKE2's configuration without Windrow's drop-in.
    pub files: &'a [Rke2ConfigFile],
    pub own: &'a str,
    pub current: Option<&'a str>,
    pub rke2: Rke2State,
    /// Why `requests` may be incomplete, if so. Windrow then does not remove a gate only because they lack it.
    pub unread: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Its text from now on; `None` if there should be no file.
    pub content: Option<String>,
    pub kept: Vec<GateRequest>,
    /// The former gates that had to be removed, and why.
    pub dropped: Vec<LeftOut>,
    pub removed: Vec<GateRequest>,
    /// The drop-in that the configuration results in, with the gates that stay because a request cannot be written.
    pub asked: DropIn,
    /// Does a request that can be written wait for a boot?
    pub pending: bool,
    /// Why the drop-in does not follow the configuration, if so.
    pub withheld: Option<Withheld>,
    /// The decision to remember from now on. It holds for its own request; another request does not end it.
    pub taken_back: Option<TakenBack>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    Unread(String),
    TakenBack {
        by: String,
    },
    Failed {
        version: String,
        why: String,
    },
    /// According to the check, a component that starts with the present drop-in would not start.
    Fatal(String),
    /// A request cannot be written, and these gates stay because of it.
    Incomplete {
        request: String,
        staying: Vec<GateRequest>,
    },
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Withheld::Unread(why) => f.write_str(why),
            Withheld::TakenBack { by } => write!(f, "taken back by {by}"),
            Withheld::Failed { version, why } => {
                write!(f, "a trial on {version} failed ({why})")
            }
            Withheld::Fatal(message) => f.write_str(message),
            Withheld::Incomplete { request, .. } => write!(
                f,
                "`{request}` cannot be written, and may be meant to replace a gate that is still set"
            ),
        }
    }
}

impl Settled {
    /// How the drop-in differs from the configuration, in one line.
    pub fn difference(&self) -> String {
        let only = |these: &[GateRequest], those: &[GateRequest]| {
            let mut these = these.to_vec();
            these.retain(|gate| !those.iter().any(|known| known.sets_as(gate)));
            these
        };
        let missing = only(&self.asked.written, &self.kept);
        let mut still = only(&self.kept, &self.asked.written);
        if let Some(Withheld::Incomplete { staying, .. }) = &self.withheld {
            still.extend(staying.iter().cloned());
        }
        let parts = [("not set", missing), ("still set", still)];
        let parts = parts.iter().filter(|(_, gates)| !gates.is_empty());
        let parts: Vec<String> = parts
            .map(|(word, gates)| format!("{word}: {}", list(gates)))
            .collect();
        parts.join("; ")
    }
}

pub fn settle(inputs: &SettleInputs<'_>, history: &TrialHistory) -> Settled {
    let SettleInputs {
        requests, target, ..
    } = *inputs;
    let foreign = merge(inputs.files);
    let proven = &history.trusted_on(target);
    let there = inputs.current.map_or_else(Vec::new, |text| {
        read_gates(inputs.own, text, inputs.requests)
    });
    // Gates that the configuration no longer requests are not refused: only a refusal is reported.
    let mut judged = drop_in_trusting(&there, target, &foreign, proven);
    history.leave_rejected_out(target, &mut judged);
    let mut asked = drop_in_trusting(requests, target, &foreign, proven);
    history.leave_rejected_out(target, &mut asked);
    let incomplete = asked.leave_what_may_be_meant(&judged.written);
    let (present, present_gates) = if judged.left_out.is_empty() {
        (inputs.current.map(str::to_owned), there.clone())
    } else {
        (judged.content, judged.written)
    };
    let withheld = (!same(&present_gates, &asked.written))
        .then(|| history.withheld(inputs, &asked, present.as_deref(), proven))
        .flatten();
    let follows = inputs.rke2 == Rke2State::Stopped && withheld.is_none();
    let (content, kept) = if follows {
        (asked.content.clone(), asked.written.clone())
    } else {
        (present, present_gates)
    };
    let dropped = judged.left_out;
    let mut removed = there;
    removed.retain(|gate| {
        let is_same = |other: &GateRequest| other.sets_as(gate);
        !kept.iter().any(is_same) && !dropped.iter().any(|left| is_same(&left.request))
    });
    let pending =
        inputs.rke2 == Rke2State::Running && withheld.is_none() && !same(&kept, &asked.written);
    Settled {
        content,
        kept,
        dropped,
        removed,
        asked,
        pending,
        withheld: withheld.or(incomplete),
        taken_back: history.still_taken_back(inputs),
    }
}

/// The errors of a drop-in that the present one does not have, and because of which a component would not start. The
/// gates of the drop-in were already judged separately.
pub fn made_fatal(
    inputs: &SettleInputs<'_>,
    present: Option<&str>,
    next: Option<&str>,
) -> Option<Finding> {
    let SettleInputs { own, target, .. } = *inputs;
    let errors = |content: Option<&str>| {
        let mut files = inputs.files.to_vec();
        let ours = content.map(|text| Rke2ConfigFile::new(ConfigLayer::DropIn, own, text));
        files.extend(ours);
        let mut findings = assess(&merge(&files), Some(own), target).findings;
        findings.retain(|finding| finding.severity == Severity::Error);
        findings
    };
    let known = errors(present);
    let is_known = |finding: &Finding| {
        let mut known = known.iter();
        known.any(|known| (known.code, &known.message) == (finding.code, &finding.message))
    };
    let is_of_one_gate = |finding: &Finding| {
        let together = [Code::GateDependency, Code::GateApiNotServed];
        let ours = finding.at.iter().all(|at| at.file == own);
        ours && !finding.at.is_empty() && !together.contains(&finding.code)
    };
    let mut found = errors(next).into_iter();
    found.find(|finding| !is_known(finding) && !is_of_one_gate(finding))
}

impl DropIn {
    /// Keeps gates of the present drop-in that a request may mean but that cannot be written: all of them if no version
    /// knows the request's name, which may be a typing error; otherwise the same gate with the other value.
    fn leave_what_may_be_meant(&mut self, there: &[GateRequest]) -> Option<Withheld> {
        let is_of = |one: &GateRequest, other: &GateRequest| {
            (one.component, &one.gate) == (other.component, &other.gate)
        };
        let unwritten = self.left_out.iter().filter(|left| !left.not_meant);
        let unwritten: Vec<&GateRequest> = unwritten.map(|left| &left.request).collect();
        if unwritten.is_empty() {
            // Most nodes do not need the catalogue in memory.
            return None;
        }
        let catalogue = Catalogue::builtin();
        let unknown = |request: &&&GateRequest| catalogue.gate(&request.gate).is_none();
        let unknown = unwritten.iter().find(unknown);
        let mut staying: Vec<GateRequest> = there.to_vec();
        staying.retain(|gate| {
            !self.written.iter().any(|known| is_of(known, gate))
                && (unknown.is_some() || unwritten.iter().any(|request| is_of(request, gate)))
        });
        let first = staying.first()?;
        let request = unknown.or_else(|| unwritten.iter().find(|request| is_of(request, first)))?;
        let request = format!("{}={}", request.gate, request.value);
        self.written.extend(staying.iter().cloned());
        self.content = text(&self.written);
        Some(Withheld::Incomplete { request, staying })
    }
}

/// The gates in force when kube-apiserver was last observed to work with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownGood {
    /// The version in the form of [`super::Version`].
    pub version: String,
    pub at: jiff::Timestamp,
    /// The drop-in's text; `None` without a drop-in.
    pub content: Option<String>,
    /// The former drop-in, if a trial kept this one.
    #[serde(default)]
    pub previous: Option<DropInSnapshot>,
    /// The gates of the content that a component was observed to run with. Absent if these are all gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<DropInSnapshot>,
}

impl KnownGood {
    /// Removes gates from its proof: they were kept, but no component was observed to run with them.
    #[must_use]
    pub fn without_proof_of(self, unverified: &[GateRequest], own: &str) -> Self {
        if unverified.is_empty() {
            return self;
        }
        let mut gates = self.proven(own).gates;
        gates.retain(|gate| !unverified.iter().any(|other| gate.sets_as(other)));
        Self {
            verified: Some(DropInSnapshot {
                content: text(&gates),
            }),
            ..self
        }
    }

    pub fn proven(&self, own: &str) -> Proven {
        let content = match &self.verified {
            Some(verified) => &verified.content,
            None => &self.content,
        };
        Proven {
            version: self.version.clone(),
            gates: read_gates(own, content.as_deref().unwrap_or_default(), &[]),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialHistory {
    /// The last kept gates.
    pub proven: Option<Proven>,
    /// The last gates that were rolled back.
    pub rejected: Option<Rejected>,
    /// The gates of the present trial.
    pub tried: Option<Proven>,
    /// Drop-ins that failed as a whole.
    pub failed: FailedDropIns,
    pub taken_back: Option<TakenBack>,
}

impl TrialHistory {
    fn trusted_on(&self, target: &TargetVersion) -> Vec<GateRequest> {
        let proven = match (&self.proven, target) {
            (Some(proven), TargetVersion::Known(version))
                if proven.version == version.to_string() =>
            {
                proven.gates.as_slice()
            }
            _ => &[],
        };
        let tried = match &self.tried {
            // Tried although the version is unknown, or not known well enough: a user requested it. When the trial
            // began, more than one version might have started.
            Some(tried) if was_asked_for(target, &tried.version) => tried.gates.as_slice(),
            _ => &[],
        };
        proven.iter().chain(tried).cloned().collect()
    }

    /// Why the drop-in does not follow the configuration, although that results in `asked`.
    fn withheld(
        &self,
        inputs: &SettleInputs<'_>,
        asked: &DropIn,
        present: Option<&str>,
        trusted: &[GateRequest],
    ) -> Option<Withheld> {
        if let Some(why) = inputs.unread {
            return Some(Withheld::Unread(why.to_owned()));
        }
        if self.tried.is_some() {
            return None;
        }
        let request = request_text(inputs.requests);
        if let Some(taken_back) = self.taken_back.as_ref().filter(|it| it.is_of(&request)) {
            return Some(Withheld::TakenBack {
                by: taken_back.by.clone(),
            });
        }
        let failed = self.failed.find(&asked.written, inputs.target, inputs.own);
        if let Some(failed) = failed {
            return Some(Withheld::Failed {
                version: failed.version.clone(),
                why: failed.why.clone(),
            });
        }
        // Tried as a whole on this version.
        if !trusted.is_empty() && same(&asked.written, trusted) {
            return None;
        }
        made_fatal(inputs, present, asked.content.as_deref())
            .map(|finding| Withheld::Fatal(finding.message))
    }

    /// The decision of an operator to remember from now on. If its request was unknown, it is the first complete one.
    fn still_taken_back(&self, inputs: &SettleInputs<'_>) -> Option<TakenBack> {
        let mut taken_back = self.taken_back.clone()?;
        if inputs.unread.is_none() {
            let request = || request_text(inputs.requests);
            taken_back.request.get_or_insert_with(request);
        }
        Some(taken_back)
    }

    /// Gates that failed on a version that may start are not written again without a trial.
    fn leave_rejected_out(&self, target: &TargetVersion, asked: &mut DropIn) {
        let Some(rejected) = &self.rejected else {
            return;
        };
        if !may_be_one_of(target, &rejected.version) {
            return;
        }
        // Unless they are being tried again.
        let is_tried = |request: &GateRequest| {
            let mut tried = self.tried.iter().flat_map(|tried| &tried.gates);
            tried.any(|gate| gate.sets_as(request))
        };
        for request in std::mem::take(&mut asked.written) {
            let mut gates = rejected.gates.iter();
            match gates.find(|(gate, _)| gate.sets_as(&request) && !is_tried(&request)) {
                Some((_, why)) => asked.left_out.push(LeftOut {
                    request,
                    why: format!(
                        "it was tried on {} and rolled back ({why}); `windrow gates apply` tries it again",
                        rejected.version
                    ),
                    not_meant: false,
                }),
                None => asked.written.push(request),
            }
        }
        asked.content = text(&asked.written);
    }
}

impl GateRequest {
    /// Do both set one gate of one component to the same value?
    pub fn sets_as(&self, other: &GateRequest) -> bool {
        (self.component, &self.gate, self.value) == (other.component, &other.gate, other.value)
    }
}

pub fn same(one: &[GateRequest], other: &[GateRequest]) -> bool {
    one.len() == other.len() && one.iter().all(|a| other.iter().any(|b| a.sets_as(b)))
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
