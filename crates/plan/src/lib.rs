//! Plans a manifests directory: rules, verdicts on objects, and the dependency graph with its proofs.
//!
//! - this root: [`examine`](fn@examine) (one file without the others) and [`link`](fn@link) (all of them) make a
//!   [`Plan`]: requirements and their providers, cycles, an order of release, findings.
//! - [`NextPass`]: what RKE2 has applied before it reaches a file; [`Plan::names`]: names that avoid holds;
//!   [`Plan::advise_split`]: documents that should be in another file.
//! - [`rules`]: rule packs, and CEL.
//! - [`readiness`]: whether an object is ready, whether a need is met; `readiness::node`: the same for the node, by its
//!   probes.
//! - [`kubernetes`], [`rke2`], [`version`]: facts about the kinds of kube-apiserver, RKE2's files and Kubernetes' versions.
//!
//! May know: the crate `model`. Of all observations, only the objects for a verdict are passed in.
//!
//! Invariants: the same files and rules give the same plan; every finding has evidence with file and line; an
//! expression of a rule ends within its budget of steps. `windrow plan` prints the same plan that the daemon runs and
//! that simulations use.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

pub mod knowledge;
pub mod kubernetes;
pub mod readiness;
pub mod rke2;
pub mod rules;
pub mod version;

mod annotation;
mod builtin;
mod cycles;
mod examine;
mod graph;
mod installer;
mod link;
mod names;
mod outlook;
mod pass;
mod source_map;
mod split;
#[cfg(test)]
mod tests;

pub use examine::{Examined, examine, examine_content};
pub use installer::{Installing, RoleSubject, ServiceAccount, installing};
pub use link::link;
pub use names::{HoldAdvice, NameAdvice, Rename};
pub use outlook::Outlook;
pub use pass::{FirstPass, NextPass, SlowEffect, TakenFiles, TakenUp, WAITS_FOR_ADDONS};
pub use source_map::SourceMap;
pub use split::MovedPart;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{
    AddonName, BaseName, GroupKind, ManifestPath, MarkerPath, ObjectRef,
};
use windrow_model::reasons::Code;

use crate::knowledge::{KnownBrings, LearnedPhase, Reliance};
use crate::rules::{NeedCondition, NeedTarget, OnDeadline, Platform, Tier};

pub type NeedId = usize;
pub type FileId = usize;

#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The target's platform, if it is known.
    pub platform: Option<Platform>,
    /// The files, in RKE2's order (byte order of the path).
    pub files: Vec<PlanFile>,
    /// Files with the same base name, which one marker hides together.
    pub namesakes: Vec<Vec<FileId>>,
    /// Every need of the files, once.
    pub needs: Vec<Need>,
    /// The needs that are never observed as met: readiness of objects that kube-apiserver answers and never stores.
    pub unobservable: BTreeSet<NeedId>,
    /// A valid order of release, as far as the required edges allow one.
    pub order: Vec<FileId>,
    pub findings: Vec<Finding>,
    /// Names with which RKE2 would need fewer passes on a fresh node.
    pub names: NameAdvice,
    /// The durations of the phases of such a node, learned from other nodes.
    pub phases: Vec<LearnedPhase>,
}

impl Plan {
    /// Adds findings of other checks in their places.
    pub fn add_findings(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.sort_findings();
    }

    /// The most severe first, and those of one file together.
    fn sort_findings(&mut self) {
        self.findings.sort_by(|a, b| {
            let key = |one: &Finding| std::cmp::Reverse(one.severity);
            (key(a), &a.at, a.code).cmp(&(key(b), &b.at, b.code))
        });
    }
}

/// A target in a required state. Many requirements can share one need.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Need {
    pub target: NeedTarget,
    pub condition: NeedCondition,
}

#[derive(Debug, Clone)]
pub struct PlanFile {
    pub path: ManifestPath,
    pub name: BaseName,
    pub addon: AddonName,
    /// Hex SHA-256 of the bytes.
    pub sha256: SmolStr,
    pub digest: SmolStr,
    /// Maps its lines to those of the file that the user has.
    pub shown: SourceMap,
    /// Another owner of the file (RKE2's packaged charts, Rancher): Windrow never touches it.
    pub owner: Option<&'static str>,
    /// Why RKE2 will refuse the file, if it will.
    pub refused: Option<String>,
    /// Whether it must stay held as long as it exists (a FIFO).
    pub harmful: bool,
    /// The marker that hides it from RKE2 and that Windrow did not make. Requirements and results of the file do not
    /// count.
    pub skipped: Option<MarkerPath>,
    /// Another obstacle that keeps RKE2 from simply applying it, or Windrow from reading it.
    pub trouble: Option<FileObstacle>,
    /// `windrow.dev/hold`: held until released by hand, for this reason.
    pub hold: Option<(String, Location)>,
    /// `windrow.dev/apply: once`: hidden from RKE2 forever after it was applied.
    pub apply_once: bool,
    pub documents: Vec<PlanDocument>,
    /// The number of objects that RKE2 writes when it first applies the file.
    pub written: usize,
    /// Effects that take place some time after RKE2 applied it.
    pub slow_effects: Vec<SlowEffect>,
    /// The treatment of the file in RKE2's first pass on a fresh node.
    pub first_pass: FirstPass,
}

/// Something that keeps RKE2 from simply applying a file, without making RKE2 refuse the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileObstacle {
    /// A dangling link: RKE2 applies nothing at all.
    Dangling,
    /// RKE2 stops its whole pass at it.
    Unreadable,
    /// Another file has the same Addon.
    Collides,
    /// RKE2 refuses all of it, and it cannot be held.
    Refused,
    /// RKE2 refuses one of its objects.
    PartlyRefused,
    /// RKE2 applies it, but Windrow cannot read its content.
    Unseen,
}

impl FileObstacle {
    pub fn from_code(code: Code) -> Option<Self> {
        match code {
            Code::DanglingSymlink => Some(Self::Dangling),
            Code::FileUnreadable => Some(Self::Unreadable),
            Code::FileNameNotText => Some(Self::Refused),
            Code::ObjectRefused | Code::ObjectNameInvalid => Some(Self::PartlyRefused),
            Code::FileTooLarge | Code::LimitExceeded | Code::SymlinkOutside => Some(Self::Unseen),
            _ => None,
        }
    }

    /// Why no marker hides such a file from RKE2, if none does.
    pub fn why_not_held(self) -> Option<&'static str> {
        match self {
            Self::Dangling => Some(
                "it is a symbolic link that leads nowhere, at which RKE2 stops before it looks for markers; remove it or create its target",
            ),
            Self::Refused => {
                Some("its name is not UTF-8, and no marker hides such a name; rename it")
            }
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dangling => "stops RKE2: leads nowhere",
            Self::Unreadable => "stops RKE2: not readable",
            Self::Collides => "collides",
            Self::Refused => "refused",
            Self::PartlyRefused => "refused in part",
            Self::Unseen => "applied unseen",
        }
    }
}

impl PlanFile {
    /// Why a file would be held when a fresh node boots, before the cluster has any objects; `None` when RKE2 may apply
    /// it at once.
    pub fn held_at_boot(&self) -> Option<Vec<String>> {
        self.first_pass.held.clone()
    }

    /// The requirements of the file that RKE2's first pass on a fresh node has met before it reaches the file.
    pub fn met_in_first_pass(&self) -> &[String] {
        &self.first_pass.met
    }

    /// Whether RKE2's first pass on a fresh node has met a requirement of the file before it reaches the file.
    pub fn is_met_in_first_pass(&self, plan: &Plan, requirement: &Requirement) -> bool {
        requirement.at_once
            && requirement.takes_part()
            && plan
                .describe_met_in_pass(self, requirement)
                .is_some_and(|line| self.first_pass.met.contains(&line))
    }

    /// Every requirement of every document, in order.
    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.documents
            .iter()
            .flat_map(|document| &document.requires)
    }
}

/// One object of a file and its requirements.
#[derive(Debug, Clone)]
pub struct PlanDocument {
    pub line: u32,
    /// The object, with its namespace filled in.
    pub object: ObjectRef,
    pub requires: Vec<Requirement>,
    /// Its known results.
    pub brings: Option<Box<KnownBrings>>,
}

#[derive(Debug, Clone)]
pub struct Requirement {
    pub need: NeedId,
    pub tier: Tier,
    /// Its source.
    pub origin: Origin,
    /// One line for the user: the target of the wait, and the reason.
    pub reason: SmolStr,
    /// The time until `on_deadline` happens; absent: the configured default for its origin.
    pub deadline: Option<Duration>,
    pub on_deadline: OnDeadline,
    /// Whether Windrow inferred it from the object, rather than read it in an annotation or a rule.
    pub inferred: bool,
    pub satisfied_by: SatisfiedBy,
    /// The knowledge from earlier boots about that. Only for inferred requirements.
    pub learned: Option<Arc<Reliance>>,
    /// It neither holds nor orders: it is part of a cycle, or the target may come from the file itself or from a file
    /// that waits for it.
    pub yields: bool,
    /// Whether it is met as soon as RKE2 has applied the provider's file, or shortly after ([`NextPass`]).
    pub at_once: bool,
    /// Whether RKE2 may apply the file before the provider's file, if both come in the same pass. Only if the order is
    /// merely advisory and prevents no failure.
    pub may_come_first: bool,
    /// The target is the namespace of an object of this kind, and the scope of the kind is unknown. If the kind has no
    /// namespaces, RKE2 applies the object without one (wrangler v3.7.0, `pkg/apply/desiredset_process.go`), and
    /// nothing is required.
    pub own_namespace_of: Option<GroupKind>,
}

impl Requirement {
    /// Whether it would do harm to release a file before this is met, so that not even the fail-safe may. Only a rule
    /// with `onDeadline: keep` declares this. A depends-on annotation only requests an order.
    pub fn harms(&self) -> bool {
        !self.inferred
            && self.on_deadline == OnDeadline::Keep
            && !self.origin.rule.starts_with(Origin::ANNOTATION)
    }

    /// Whether its provider is known only from earlier boots.
    pub fn is_only_learned(&self) -> bool {
        let learned = self.learned.as_ref();
        learned.is_some_and(|learned| learned.written.is_none())
    }

    /// Whether it holds or orders anything at run time. It does not if the same file provides the target (RKE2 applies
    /// a file as a whole), or if it is part of a cycle. A field that merely refers to an object only orders files of
    /// the directory.
    pub fn takes_part(&self) -> bool {
        !self.yields
            && match self.satisfied_by {
                SatisfiedBy::SameFile { .. } => false,
                SatisfiedBy::File { .. } => true,
                SatisfiedBy::Platform { .. }
                | SatisfiedBy::Cluster
                | SatisfiedBy::Installer { .. }
                | SatisfiedBy::Nobody => self.tier == Tier::Required || !self.inferred,
            }
    }
}

/// Who says that something is required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// `annotation/<key>`, an inferred rule (`inferred/kind-served`), or `pack/rule`.
    pub rule: String,
    /// Where it is written: the annotation's or field's line, or the rule's.
    #[serde(flatten)]
    pub at: Location,
}

impl Origin {
    /// The prefix of the rule's name for a manifest's own annotation.
    pub const ANNOTATION: &'static str = "annotation/";
}

/// The expected provider of a requirement's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SatisfiedBy {
    /// A document of the same file: it cannot be waited for, because RKE2 applies both together.
    SameFile {
        /// The line of the document.
        line: u32,
    },
    /// A document of another file.
    File {
        file: FileId,
        /// The line in that file.
        line: u32,
    },
    Platform {
        by: String,
        /// The condition on which the platform provides it, if it may not be met.
        condition: Option<String>,
    },
    /// An object outside the directory: it is observed in the cluster.
    Cluster,
    /// No known provider, but an installer of the directory (a chart, an operator) may provide it.
    Installer {
        /// The first file with such an installer; the file itself, if it has one.
        file: FileId,
        line: u32,
    },
    /// No known provider.
    Nobody,
}

impl SatisfiedBy {
    /// Whether it is a guess, without a known provider.
    pub fn is_guess(&self) -> bool {
        matches!(self, Self::Installer { .. } | Self::Nobody)
    }
}
