//! What is brought: kinds, groups of kinds, objects, and after how long.

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use windrow_model::findings::Location;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::{ClassTimes, GuardingWebhook, KnowledgeEntry, LearnedBrings, LearnedTimes, Reliance};
use crate::rules::NeedTarget;

/// What is brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brings {
    /// Kinds, with their scope.
    pub kinds: Vec<KnownKind>,
    /// Groups all of whose kinds are brought, as far as they are not known one by one.
    pub groups: Vec<SmolStr>,
    /// Namespaces, classes, webhooks and other objects.
    pub objects: Vec<ObjectRef>,
    /// What is known of the storage classes among them.
    pub classes: Vec<KnownStorageClass>,
}

/// A storage class that is brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownStorageClass {
    /// Its name.
    pub name: SmolStr,
    /// What makes its volumes.
    pub provisioner: SmolStr,
    /// Is it the one of claims that name none?
    pub is_default: bool,
}

/// What a chart brings if one of these values is true; none of them is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnsetValues {
    /// The paths of the values, with dots.
    pub(crate) values: Vec<String>,
    /// What comes then.
    pub(crate) brings: Brings,
    /// The value that says that it does not come; absent where nothing says so.
    pub(crate) off: Option<SwitchedOff>,
}

/// A value of a chart that is false.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SwitchedOff {
    /// Its path, with dots.
    pub(crate) value: String,
    /// Where it is written.
    pub(crate) at: Location,
}

/// What is known to come of an object of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBrings {
    /// What comes.
    pub brings: Brings,
    /// The Deployment whose pods bring it, where it is not the object's own controller.
    pub deployment: Option<String>,
    /// After how long at least and at most, where that is known.
    pub after: Option<(Duration, Duration)>,
    /// How long it took in earlier boots, where that was learned: this counts before `after`.
    pub times: Option<LearnedTimes>,
    /// The same on some classes of hardware.
    pub times_on: Vec<ClassTimes>,
    /// Webhooks that come with it, and refuse objects until their pods answer.
    pub webhooks: Vec<GuardingWebhook>,
    /// What was learned to come of it: what `brings` has too, and what it has not.
    pub learned: Vec<LearnedBrings>,
}

impl KnownBrings {
    /// Everything that comes, be it written or learned. What both say comes twice.
    pub fn all(&self) -> impl Iterator<Item = &Brings> {
        let learned = self.learned.iter().map(|one| &one.brings);
        std::iter::once(&self.brings).chain(learned)
    }

    /// What was learned of who brings this.
    pub fn learned_of(&self, target: &NeedTarget) -> Option<&Arc<Reliance>> {
        let mut learned = self.learned.iter();
        let found = learned.find(|one| one.brings.brings(target))?;
        Some(&found.reliance)
    }

    /// Takes in after how long an entry brings things. `times` of what is written come before those that were learned.
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

/// A kind and its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKind {
    /// The kind.
    pub kind: GroupKind,
    /// Do its objects live in namespaces?
    pub namespaced: bool,
}

impl Brings {
    /// Adds what something else brings.
    pub(crate) fn add(&mut self, more: &Self) {
        self.kinds.extend(more.kinds.iter().cloned());
        self.groups.extend(more.groups.iter().cloned());
        self.objects.extend(more.objects.iter().cloned());
        self.classes.extend(more.classes.iter().cloned());
    }

    /// Is this brought, or a kind of a group of which others are?
    pub(crate) fn may_bring(&self, target: &NeedTarget) -> bool {
        let is_in_group = |kind: &GroupKind| {
            let mut kinds = self.kinds.iter();
            kinds.any(|known| known.kind.group == kind.group)
        };
        self.brings(target) || matches!(target, NeedTarget::Kind(kind) if is_in_group(kind))
    }

    /// The kinds alone, one by one and by group.
    pub(super) fn only_kinds(&self) -> Self {
        Self {
            kinds: self.kinds.clone(),
            groups: self.groups.clone(),
            ..Self::default()
        }
    }

    /// What is brought beside kinds.
    pub(super) fn without_kinds(&self) -> Self {
        Self {
            kinds: Vec::new(),
            groups: Vec::new(),
            ..self.clone()
        }
    }

    /// Is this kind, or all of its group, brought?
    pub fn brings_kind(&self, kind: &GroupKind) -> bool {
        self.kinds.iter().any(|known| known.kind == *kind) || self.groups.contains(&kind.group)
    }
}
