//! The kinds, groups of kinds and objects that something provides, and the time until then.

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use windrow_model::findings::Location;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::{ClassTimes, GuardingWebhook, KnowledgeEntry, LearnedBrings, LearnedTimes, Reliance};
use crate::rules::NeedTarget;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brings {
    /// Kinds with their scope.
    pub kinds: Vec<KnownKind>,
    /// Groups whose kinds are all provided, as far as they are not known individually.
    pub groups: Vec<SmolStr>,
    /// Namespaces, classes, webhooks and other objects.
    pub objects: Vec<ObjectRef>,
    /// Details of the storage classes among them.
    pub classes: Vec<KnownStorageClass>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownStorageClass {
    pub name: SmolStr,
    /// Creates the volumes.
    pub provisioner: SmolStr,
    pub is_default: bool,
}

/// The things that a chart provides if one of these values is true, although none of them is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnsetValues {
    /// Paths of the values, with dots.
    pub(crate) values: Vec<String>,
    /// Provided if a value is true.
    pub(crate) brings: Brings,
    /// The value that switches it off, if there is one.
    pub(crate) off: Option<SwitchedOff>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SwitchedOff {
    /// Path with dots.
    pub(crate) value: String,
    pub(crate) at: Location,
}

/// Known consequences of an object in a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBrings {
    pub brings: Brings,
    /// The Deployment whose pods provide it, unless it is the object's own controller.
    pub deployment: Option<String>,
    /// The shortest and the longest time until then, if known.
    pub after: Option<(Duration, Duration)>,
    /// Times from earlier boots, if learned; they take precedence over `after`.
    pub times: Option<LearnedTimes>,
    /// The same for some hardware classes.
    pub times_on: Vec<ClassTimes>,
    /// Webhooks that are installed with it, and reject objects until their pods answer.
    pub webhooks: Vec<GuardingWebhook>,
    /// Learned consequences, both those in `brings` and others.
    pub learned: Vec<LearnedBrings>,
}

impl KnownBrings {
    /// All consequences, written or learned. Those from both sources occur twice.
    pub fn all(&self) -> impl Iterator<Item = &Brings> {
        let learned = self.learned.iter().map(|one| &one.brings);
        std::iter::once(&self.brings).chain(learned)
    }

    /// The learned knowledge about the provider of this target.
    pub fn learned_of(&self, target: &NeedTarget) -> Option<&Arc<Reliance>> {
        let mut learned = self.learned.iter();
        let found = learned.find(|one| one.brings.brings(target))?;
        Some(&found.reliance)
    }

    /// Adds the times of an entry. Written `times` come before learned ones.
    pub(crate) fn add_delays(&mut self, entry: &KnowledgeEntry) {
        self.after = self.after.or(entry.after);
        let takes = match entry.seen {
            None => entry.times.is_some(),
            Some(_) => self.times.is_none(),
        };
        if takes {
            self.times = entry.times;
            self.times_on.clone_from(&entry.times_on);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKind {
    pub kind: GroupKind,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

impl Brings {
    pub(crate) fn add(&mut self, more: &Self) {
        self.kinds.extend(more.kinds.iter().cloned());
        self.groups.extend(more.groups.iter().cloned());
        self.objects.extend(more.objects.iter().cloned());
        self.classes.extend(more.classes.iter().cloned());
    }

    /// Whether it provides this target, or other kinds of the same group.
    pub(crate) fn may_bring(&self, target: &NeedTarget) -> bool {
        let is_in_group = |kind: &GroupKind| {
            let mut kinds = self.kinds.iter();
            kinds.any(|known| known.kind.group == kind.group)
        };
        self.brings(target) || matches!(target, NeedTarget::Kind(kind) if is_in_group(kind))
    }

    /// Only the kinds, individually and by group.
    pub(super) fn only_kinds(&self) -> Self {
        Self {
            kinds: self.kinds.clone(),
            groups: self.groups.clone(),
            ..Self::default()
        }
    }

    /// Everything except the kinds.
    pub(super) fn without_kinds(&self) -> Self {
        Self {
            kinds: Vec::new(),
            groups: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether it provides this kind, or all kinds of its group.
    pub fn brings_kind(&self, kind: &GroupKind) -> bool {
        self.kinds.iter().any(|known| known.kind == *kind) || self.groups.contains(&kind.group)
    }
}
