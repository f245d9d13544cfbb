//! What a manifests directory needs: rules, verdicts on objects, and the dependency graph with its proofs.
//!
//! - this root: [`examine`](fn@examine) (one file by itself) and [`link`](fn@link) (all of them) make a [`Plan`]: requirements, who satisfies them, cycles, an
//!   order of release, findings.
//! - [`NextPass`]: what RKE2 has applied by the time that it reaches a file; [`Plan::names`]: names that spare holds;
//!   [`Plan::advise_split`]: documents that should stand in another file.
//! - [`ApiCheck`]: what kube-apiserver would refuse of the objects, for who looks ahead.
//! - [`rules`]: rule packs, and CEL.
//! - [`readiness`]: is an object ready, is a need met; `readiness::node`: is the node, by its probes.
//! - [`rke2`], [`version`]: what is known of RKE2's files and of Kubernetes' versions.
//!
//! May know: the crates `model` and `apischema`. Knows nothing of what was observed but the objects that a verdict is asked of.
//!
//! Invariants: the same files and rules give the same plan; every finding has evidence with file and line; an expression of a rule ends
//! within its budget of steps. The same plan is printed by `windrow plan`, run by the daemon and rehearsed offline.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

pub mod knowledge;
pub mod readiness;
pub mod rke2;
pub mod rules;
pub mod version;

mod annotation;
mod api;
mod builtin;
mod cross_check;
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
mod value_rules;

pub use api::{ApiCheck, ApiVerdict};
pub use examine::{Examined, examine, examine_content};
pub use link::link;
pub use names::{HoldAdvice, NameAdvice, Rename};
pub use outlook::Outlook;
pub use pass::{FirstPass, NextPass, SlowEffect, TakenFiles, TakenUp, WAITS_FOR_ADDONS};
pub use source_map::SourceMap;
pub use split::MovedPart;
pub use value_rules::ValueRules;
pub use windrow_apischema::{FixedDifference, FixedFields};

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

/// Index of a [`Need`] in [`Plan::needs`].
pub type NeedId = usize;
/// Index of a [`PlanFile`] in [`Plan::files`].
pub type FileId = usize;

/// A plan for one manifests directory.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What the target is, where it is known.
    pub platform: Option<Platform>,
    /// The files, in RKE2's order (byte order of the path).
    pub files: Vec<PlanFile>,
    /// Files of one base name, which a marker hides together: all of those that share theirs.
    pub namesakes: Vec<Vec<FileId>>,
    /// Everything that is needed, each once.
    pub needs: Vec<Need>,
    /// Those of them that are never seen met: readiness of what kube-apiserver answers and never stores.
    pub unobservable: BTreeSet<NeedId>,
    /// An order of release that works, as far as the required edges allow one.
    pub order: Vec<FileId>,
    /// What is wrong, all of it.
    pub findings: Vec<Finding>,
    /// Names with which RKE2 would need fewer passes on a fresh node.
    pub names: NameAdvice,
    /// How long the phases of such a node take, as it was learned from others.
    pub phases: Vec<LearnedPhase>,
}

impl Plan {
    /// Adds what was found elsewhere, in its place.
    pub fn add_findings(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.sort_findings();
    }

    /// The gravest first, and those of one file together.
    fn sort_findings(&mut self) {
        self.findings.sort_by(|a, b| {
            let key = |one: &Finding| std::cmp::Reverse(one.severity);
            (key(a), &a.at, a.code).cmp(&(key(b), &b.at, b.code))
        });
    }
}

/// Something needed, in some state. Many requirements can share one need.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Need {
    /// What.
    pub target: NeedTarget,
    /// In which state.
    pub condition: NeedCondition,
}

/// One file of the plan.
#[derive(Debug, Clone)]
pub struct PlanFile {
    /// Its path.
    pub path: ManifestPath,
    /// Its base name.
    pub name: BaseName,
    /// Its Addon's name.
    pub addon: AddonName,
    /// Hex SHA-256 of the bytes.
    pub sha256: SmolStr,
    /// Digest of the objects.
    pub digest: SmolStr,
    /// Where a person finds its lines.
    pub shown: SourceMap,
    /// Who else owns the file (RKE2's packaged charts, Rancher): never touched.
    pub owner: Option<&'static str>,
    /// Why RKE2 will refuse the file, if it will.
    pub refused: Option<String>,
    /// Must it stay held for as long as it is there (a FIFO)?
    pub harmful: bool,
    /// The marker that keeps it from RKE2 and that Windrow did not make. Nothing of the file is needed or brought.
    pub skipped: Option<MarkerPath>,
    /// What else keeps RKE2 from simply applying it, or Windrow from knowing what is in it.
    pub trouble: Option<FileObstacle>,
    /// `windrow.dev/hold`: held until released by hand, for this reason.
    pub hold: Option<(String, Location)>,
    /// `windrow.dev/apply: once`: kept from RKE2 for good after it was applied.
    pub apply_once: bool,
    /// Its documents.
    pub documents: Vec<PlanDocument>,
    /// The number of objects that RKE2 writes when it first applies the file.
    pub written: usize,
    /// What comes true only a while after RKE2 applied it.
    pub slow_effects: Vec<SlowEffect>,
    /// What RKE2's first pass on a fresh node does with it.
    pub first_pass: FirstPass,
}

/// What keeps RKE2 from simply applying a file that it does not refuse as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileObstacle {
    /// A link that leads nowhere: RKE2 applies nothing at all.
    Dangling,
    /// RKE2 stops its whole pass at it.
    Unreadable,
    /// Its Addon is another file's too.
    Collides,
    /// RKE2 refuses all of it, and it cannot be held.
    Refused,
    /// RKE2 refuses an object of it.
    PartlyRefused,
    /// RKE2 applies it, and Windrow does not know what is in it.
    Unseen,
}

impl FileObstacle {
    /// What this code says of a file.
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

    /// Why no marker keeps such a file from RKE2, where none does.
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

    /// In few words.
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
    /// Why a file would be held when a fresh node boots, before anything is in the cluster; `None` when
    /// RKE2 may apply it at once.
    pub fn held_at_boot(&self) -> Option<Vec<String>> {
        self.first_pass.held.clone()
    }

    /// What the file needs and RKE2's first pass on a fresh node has met by the time that it reaches the file.
    pub fn met_in_first_pass(&self) -> &[String] {
        &self.first_pass.met
    }

    /// Has RKE2's first pass on a fresh node met a requirement of the file by the time that it reaches the file?
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

/// One object of a file and what it requires.
#[derive(Debug, Clone)]
pub struct PlanDocument {
    /// Line of the object.
    pub line: u32,
    /// The object, with its namespace filled in.
    pub object: ObjectRef,
    /// What it requires.
    pub requires: Vec<Requirement>,
    /// What is known to come of it.
    pub brings: Option<Box<KnownBrings>>,
}

/// One requirement of one document.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// What is needed.
    pub need: NeedId,
    /// Holds or orders.
    pub tier: Tier,
    /// Who says so.
    pub origin: Origin,
    /// One line for people: what is waited for, and why.
    pub reason: SmolStr,
    /// After this long `on_deadline` happens; absent: the configured default for its origin.
    pub deadline: Option<Duration>,
    /// Keep or release at the deadline.
    pub on_deadline: OnDeadline,
    /// Did Windrow infer it from the object, rather than read it in an annotation or a rule?
    pub inferred: bool,
    /// Who is expected to satisfy it.
    pub satisfied_by: SatisfiedBy,
    /// What was learned of that in earlier boots. Only for what was inferred.
    pub learned: Option<Arc<Reliance>>,
    /// It neither holds nor orders: it stands in a cycle, or what the file itself brings, or what
    /// waits for the file, may be what is needed.
    pub yields: bool,
    /// Is it met as soon as RKE2 has applied the file that brings it, or shortly after ([`NextPass`])?
    pub at_once: bool,
    /// May RKE2 apply the file before the one that brings it, if both come in the same pass? Only where the order is merely advised and
    /// spares no failure.
    pub may_come_first: bool,
    /// It is the namespace of an object of this kind, of which it is not known whether its objects have namespaces. Where they have
    /// none, RKE2 applies the object without (wrangler v3.7.0, `pkg/apply/desiredset_process.go`), and nothing is needed.
    pub own_namespace_of: Option<GroupKind>,
}

impl Requirement {
    /// Would it do harm to release a file before this is met, so that not even the fail-safe may? So
    /// says a rule with `onDeadline: keep`. A depends-on annotation asks for an order, no more.
    pub fn harms(&self) -> bool {
        !self.inferred
            && self.on_deadline == OnDeadline::Keep
            && !self.origin.rule.starts_with(Origin::ANNOTATION)
    }

    /// Is it from earlier boots alone that anyone is known to satisfy it?
    pub fn is_only_learned(&self) -> bool {
        let learned = self.learned.as_ref();
        learned.is_some_and(|learned| learned.written.is_none())
    }

    /// Does it hold or order anything at run time? Not when the same file brings it (RKE2 applies
    /// a file as a whole), not when it stands in a cycle, and a field that merely names an object
    /// orders only what lies in the directory.
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
    /// How the rule's name begins when a manifest's own annotation says so.
    pub const ANNOTATION: &'static str = "annotation/";
}

/// Who is expected to satisfy a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SatisfiedBy {
    /// A document of the same file: it cannot be waited for, RKE2 applies them together.
    SameFile {
        /// Its line.
        line: u32,
    },
    /// A document of another file.
    File {
        /// Which file.
        file: FileId,
        /// The line there.
        line: u32,
    },
    /// The platform.
    Platform {
        /// In words.
        by: String,
        /// On which condition, where it is not known to be met.
        condition: Option<String>,
    },
    /// Something outside the directory: it is observed in the cluster.
    Cluster,
    /// Nothing that is known; but an installer of the directory (a chart, an operator) may bring it.
    Installer {
        /// The first file with such an installer; the file itself, where it has one.
        file: FileId,
        /// The line there.
        line: u32,
    },
    /// Nothing that is known.
    Nobody,
}

impl SatisfiedBy {
    /// Is it a guess? No known thing brings it.
    pub fn is_guess(&self) -> bool {
        matches!(self, Self::Installer { .. } | Self::Nobody)
    }
}
