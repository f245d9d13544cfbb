//! What is known of other systems: who brings which kinds, namespaces and objects, from which version on. Data: files of the
//! kind `Knowledge`, those that come with Windrow (`data/knowledge`) and those of a site (`knowledge.d`).
//!
//! `plan`, `rehearse` and the daemon ask here, and nowhere else. Pure: texts come in, entries go out.

mod chart;
mod kubernetes;
mod learned;
mod load;
mod node;
mod operator;
mod range;
mod reliance;
#[cfg(test)]
mod tests;
mod webhook;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use smol_str::SmolStr;
use windrow_apischema::is_default_cluster_role;
use windrow_model::findings::Location;
use windrow_model::manifest::{GroupKind, ObjectRef};

pub use self::chart::{InstalledChart, installed_chart, upstream_version};
use self::kubernetes::kubernetes_presence;
pub(crate) use self::kubernetes::serves_every_version;
pub use self::kubernetes::{is_kubernetes_group, kubernetes_scope};
pub use self::learned::{
    ClassTimes, LearnedPhase, LearnedRefusal, LearnedTimes, Seen, times_on, without_boots,
};
pub(crate) use self::load::add_file;
pub use self::node::NodeFacts;
pub use self::operator::operator_name;
pub use self::range::VersionRange;
pub(crate) use self::reliance::learned_brings;
pub use self::reliance::{
    FEWEST_BOOTS, FEWEST_OF_TEN, LearnedBrings, LearnedReport, LearnedShare, LearnedThing,
    Reliance, in_words,
};
pub use self::webhook::{GuardingWebhook, KnownWebhook};
use crate::rules::{NeedTarget, RuleError};

/// Who brings Kubernetes' own kinds, in words.
const KUBE_APISERVER: &str = "kube-apiserver";

/// The files that come with Windrow.
const SHIPPED: &[(&str, &str)] = &[
    (
        "kubernetes.yaml",
        include_str!("../../data/knowledge/kubernetes.yaml"),
    ),
    ("rke2.yaml", include_str!("../../data/knowledge/rke2.yaml")),
    (
        "harvester.yaml",
        include_str!("../../data/knowledge/harvester.yaml"),
    ),
    (
        "operators.yaml",
        include_str!("../../data/knowledge/operators.yaml"),
    ),
    (
        "charts.yaml",
        include_str!("../../data/knowledge/charts.yaml"),
    ),
];

/// Everything that is known.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    entries: Vec<KnowledgeEntry>,
    phases: Vec<LearnedPhase>,
    refusals: Vec<LearnedRefusal>,
}

/// One thing that brings others.
#[derive(Debug, Clone)]
pub struct KnowledgeEntry {
    /// `file/name`, by which a later entry takes its place.
    pub name: String,
    /// Where it is written.
    pub at: Location,
    /// Who brings.
    pub bringer: Bringer,
    /// In which versions.
    pub versions: VersionRange,
    /// What is brought.
    pub brings: Brings,
    /// The webhooks that come with it.
    pub webhooks: Vec<KnownWebhook>,
    /// After how long at least and at most: from when its Job is complete or its controller has seen its object.
    pub after: Option<(Duration, Duration)>,
    /// How long it took in the boots that it was learned from; absent where a person wrote it.
    pub times: Option<LearnedTimes>,
    /// The same on some classes of hardware.
    pub times_on: Vec<ClassTimes>,
    /// From how many boots it was learned.
    pub seen: Option<Seen>,
    /// Which project says so, in which version and file; or that it was learned.
    pub source: String,
}

/// Who brings something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bringer {
    /// kube-apiserver, in these versions of Kubernetes.
    Kubernetes {
        /// Only where its configuration switches the API on.
        optional: bool,
    },
    /// RKE2 itself or a chart that it packages, in these versions of Kubernetes.
    Rke2 {
        /// Its name in `disable`; absent for RKE2 itself.
        component: Option<String>,
        /// The setting and the word of it that select the chart; absent where it is always there.
        selected_by: Option<(Selection, String)>,
    },
    /// Harvester, in these versions of it.
    Harvester {
        /// Which part of it.
        part: String,
        /// When in its start it comes.
        phase: Option<Phase>,
        /// Only once this addon is enabled.
        addon: Option<String>,
    },
    /// A Helm chart, in these versions of it.
    Chart {
        /// What it is called in its repository.
        name: String,
        /// A part of its repository's address, where the name alone says too little.
        repository: Option<String>,
        /// Values, one of which has to be true for it to bring anything.
        values: Vec<String>,
        /// What it brings installs further things.
        installs: bool,
    },
    /// A controller.
    Operator {
        /// It brings something once there is an object of this kind; absent where it does so as soon as its pods run.
        acts_on: Option<GroupKind>,
        /// How its Deployment is called.
        deployment: String,
    },
}

/// A setting of RKE2 that selects charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// `cni`
    Cni,
    /// `ingress-controller`
    IngressController,
}

impl Selection {
    /// As RKE2's configuration has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cni => "cni",
            Self::IngressController => "ingress-controller",
        }
    }
}

/// When in a Harvester's start something comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// With Rancher.
    Rancher,
    /// With the chart harvester-crd and those that rancherd applies beside it.
    Definitions,
    /// virt-operator and CDI's operator have made their kinds.
    Operators,
}

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
        self.times = match entry.seen {
            None => entry.times.or(self.times),
            Some(_) => self.times.or(entry.times),
        };
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

    /// Is this kind, or all of its group, brought?
    pub fn brings_kind(&self, kind: &GroupKind) -> bool {
        self.kinds.iter().any(|known| known.kind == *kind) || self.groups.contains(&kind.group)
    }
}

/// Is something there, as far as it is known?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    There,
    /// It is not known; it is, on this condition.
    Where(String),
    /// It is not.
    Absent,
}

/// Who of the platform brings something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// In words.
    pub by: String,
    /// On which condition, where it is not known to be met.
    pub condition: Option<String>,
    /// Is it a chart of RKE2's that is switched off, and nothing else brings it?
    pub is_switched_off: bool,
    /// What was learned of it in earlier boots.
    pub learned: Option<Arc<Reliance>>,
}

impl Provider {
    /// One that is known to be there.
    pub(crate) fn certain(by: &str) -> Self {
        Self {
            by: by.to_owned(),
            condition: None,
            is_switched_off: false,
            learned: None,
        }
    }

    /// Is it known from earlier boots alone?
    pub fn is_only_learned(&self) -> bool {
        let learned = self.learned.as_ref();
        learned.is_some_and(|learned| learned.written.is_none())
    }
}

impl Knowledge {
    /// What comes with Windrow. That it loads without an error is held by a test.
    pub fn shipped() -> &'static Arc<Self> {
        static SHIPPED: LazyLock<Arc<Knowledge>> = LazyLock::new(|| Arc::new(load_shipped().0));
        &SHIPPED
    }

    /// Every entry.
    pub fn entries(&self) -> &[KnowledgeEntry] {
        &self.entries
    }

    /// How long phases take, as it was learned: those of later files follow.
    pub fn phases(&self) -> &[LearnedPhase] {
        &self.phases
    }

    /// How long phases take on such a node, as enough boots have shown: one row for each phase of an installation and of a later start.
    /// One of its class of hardware comes before one of any, and that of a later file before others.
    pub fn phases_on(&self, node: &NodeFacts) -> Vec<LearnedPhase> {
        let mut found: Vec<&LearnedPhase> = Vec::new();
        for row in self.phases.iter().filter(|row| row.is_of(node)) {
            let same =
                |one: &&mut &LearnedPhase| (one.phase, one.installed) == (row.phase, row.installed);
            match found.iter_mut().find(same) {
                Some(known) if known.hardware.is_some() && row.hardware.is_none() => {}
                Some(known) => *known = row,
                None => found.push(row),
            }
        }
        found.into_iter().cloned().collect()
    }

    /// What was refused in earlier boots.
    pub fn refusals(&self) -> &[LearnedRefusal] {
        &self.refusals
    }

    /// Who of the platform brings a kind; one that is known to be there before others.
    pub fn provider_of_kind(&self, kind: &GroupKind, node: &NodeFacts) -> Option<Provider> {
        match kubernetes_presence(&kind.group, &kind.kind, node) {
            Some(Presence::There) => return Some(Provider::certain(KUBE_APISERVER)),
            Some(Presence::Where(condition)) => {
                return Some(Provider {
                    condition: Some(condition),
                    ..Provider::certain(KUBE_APISERVER)
                });
            }
            Some(Presence::Absent) | None => {}
        }
        let known = self.provider(node, |brings| brings.brings_kind(kind));
        known.or_else(|| {
            // Another version of it may have more.
            let in_group = |known: &KnownKind| known.kind.group == kind.group;
            if is_kubernetes_group(&kind.group) {
                return None;
            }
            let mut provider = self.provider(node, |brings| brings.kinds.iter().any(in_group))?;
            let more = "its version has that kind, which no known one has";
            provider.condition.get_or_insert_with(|| more.to_owned());
            Some(provider)
        })
    }

    /// Who of the platform brings an object.
    pub fn provider_of_object(&self, object: &ObjectRef, node: &NodeFacts) -> Option<Provider> {
        let is_role = object.group == "rbac.authorization.k8s.io" && object.kind == "ClusterRole";
        if is_role && is_default_cluster_role(&object.name) {
            return Some(Provider::certain(KUBE_APISERVER));
        }
        self.provider(node, |brings| brings.objects.contains(object))
    }

    /// Who brings something: an entry that was not learned decides where there is one, and what was learned is told beside it.
    fn provider(&self, node: &NodeFacts, brings: impl Fn(&Brings) -> bool) -> Option<Provider> {
        let entries = self.entries.iter().filter(|entry| brings(&entry.brings));
        let (written, mut learned): (Vec<_>, Vec<_>) =
            entries.partition(|entry| entry.seen.is_none());
        learned.sort_by_key(|entry| std::cmp::Reverse(entry.strength()));
        let (written, learned) = (best_of(&written, node), best_of(&learned, node));
        match (written, learned) {
            (Some((provider, entry)), learned) => Some(Provider {
                learned: learned.and_then(|(_, same)| same.reliance(Some(entry))),
                ..provider
            }),
            (None, Some((provider, entry))) => Some(Provider {
                learned: entry.reliance(None),
                ..provider
            }),
            (None, None) => None,
        }
    }

    /// What a chart is known to bring.
    pub(crate) fn brought_by_chart<'k>(
        &'k self,
        chart: &'k InstalledChart,
    ) -> impl Iterator<Item = &'k KnowledgeEntry> {
        self.entries.iter().filter(move |entry| {
            matches!(&entry.bringer, Bringer::Chart { name, repository, values, .. }
                if chart.is_called(name, repository.as_deref()) && chart.sets_one_of(values))
                && entry.versions.includes(chart.version())
        })
    }

    /// What a chart would bring beside that, if one of its values were true.
    pub(crate) fn brought_if_set(&self, chart: &InstalledChart) -> Vec<UnsetValues> {
        let entries = self.entries.iter().filter_map(|entry| {
            let Bringer::Chart {
                name,
                repository,
                values,
                ..
            } = &entry.bringer
            else {
                return None;
            };
            let is_this = chart.is_called(name, repository.as_deref())
                && !chart.sets_one_of(values)
                && entry.versions.includes(chart.version());
            is_this.then(|| UnsetValues {
                values: values.clone(),
                brings: entry.brings.clone(),
            })
        });
        entries.collect()
    }

    /// Does a chart install what others describe, so that anything may come of it?
    pub(crate) fn installs_others(&self, chart: &InstalledChart) -> bool {
        let mut entries = self.brought_by_chart(chart);
        entries.any(|entry| matches!(entry.bringer, Bringer::Chart { installs: true, .. }))
    }

    /// What the controllers of a kind are known to bring, and the Deployments that they run in.
    pub(crate) fn brought_by_operator<'k>(
        &'k self,
        kind: &'k GroupKind,
    ) -> impl Iterator<Item = (&'k str, &'k KnowledgeEntry)> {
        self.entries
            .iter()
            .filter_map(move |entry| match &entry.bringer {
                Bringer::Operator {
                    acts_on: Some(acts_on),
                    deployment,
                } if acts_on == kind => Some((deployment.as_str(), entry)),
                _ => None,
            })
    }
}

impl LearnedPhase {
    /// Is it of nodes like this, and was it seen in enough boots?
    fn is_of(&self, node: &NodeFacts) -> bool {
        self.seen.boots >= FEWEST_BOOTS
            && self.versions.includes(node.release())
            && (self.platform.is_none() || self.platform == node.platform)
            && (self.hardware.is_none() || self.hardware.as_deref() == node.hardware())
    }
}

impl KnowledgeEntry {
    /// Is what brings it on this node, if the platform brings it at all?
    pub fn presence(&self, node: &NodeFacts) -> Presence {
        match &self.bringer {
            Bringer::Kubernetes { optional } => match self.versions.includes(node.kubernetes()) {
                false => Presence::Absent,
                true if *optional => Presence::Where("its `runtime-config` switches it on".into()),
                true => Presence::There,
            },
            Bringer::Rke2 { selected_by, .. } => match selected_by {
                _ if !self.versions.includes(node.kubernetes()) => Presence::Absent,
                None => Presence::There,
                Some((setting, word)) => node.selects(*setting, word),
            },
            Bringer::Harvester { addon, .. } => match addon {
                _ if !self.versions.includes(node.harvester()) => Presence::Absent,
                _ if node.platform.is_none() => Presence::Where("the node runs Harvester".into()),
                _ if !node.is_harvester() => Presence::Absent,
                None => Presence::There,
                Some(addon) => node.enables(addon),
            },
            Bringer::Chart { .. } | Bringer::Operator { .. } => Presence::Absent,
        }
    }

    /// The webhooks that refuse objects until the pods of this release answer.
    pub(crate) fn guarding(&self, chart: &InstalledChart) -> impl Iterator<Item = GuardingWebhook> {
        let webhooks = self.webhooks.iter();
        webhooks.filter_map(|webhook| webhook.of_release(chart))
    }

    /// The webhooks that refuse objects until the pods answer that this operator makes for an object in this namespace.
    pub(crate) fn guarding_beside(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = GuardingWebhook> {
        let webhooks = self.webhooks.iter();
        webhooks.filter_map(move |webhook| webhook.of_operator(namespace))
    }

    /// The name of the chart that RKE2 packages, where it is one.
    pub fn component(&self) -> Option<&str> {
        match &self.bringer {
            Bringer::Rke2 { component, .. } => component.as_deref(),
            _ => None,
        }
    }

    /// Who brings it, in words.
    pub fn by(&self) -> String {
        match &self.bringer {
            Bringer::Kubernetes { .. } => KUBE_APISERVER.to_owned(),
            Bringer::Rke2 {
                component: Some(component),
                ..
            } => name_of_chart(component),
            Bringer::Rke2 { .. } => "RKE2 itself".to_owned(),
            Bringer::Harvester { part, .. } if part == "harvester" => "Harvester".to_owned(),
            Bringer::Harvester { part, .. } => format!("Harvester's {part}"),
            Bringer::Chart { name, .. } => format!("the chart {name}"),
            Bringer::Operator { deployment, .. } => deployment.clone(),
        }
    }
}

/// Of entries that bring the same, one whose bringer is known to be there before others.
fn best_of<'k>(
    entries: &[&'k KnowledgeEntry],
    node: &NodeFacts,
) -> Option<(Provider, &'k KnowledgeEntry)> {
    let (mut maybe, mut switched_off) = (None, None);
    for entry in entries {
        let provider = Provider::certain(&entry.by());
        match entry.presence(node) {
            Presence::There if entry.component().is_some_and(|name| node.is_disabled(name)) => {
                let provider = Provider {
                    is_switched_off: true,
                    ..provider
                };
                switched_off.get_or_insert((provider, *entry));
            }
            Presence::There => return Some((provider, entry)),
            Presence::Where(condition) => {
                let provider = Provider {
                    condition: Some(condition),
                    ..provider
                };
                maybe.get_or_insert((provider, *entry));
            }
            Presence::Absent => {}
        }
    }
    maybe.or(switched_off)
}

/// Is it the text of a file that comes with Windrow?
pub fn is_shipped(text: &str) -> bool {
    SHIPPED.iter().any(|(_, shipped)| *shipped == text)
}

/// How a chart that RKE2 packages is called where it brings something.
pub fn name_of_chart(component: &str) -> String {
    format!("RKE2's chart {component}")
}

/// The shipped entries, and what is wrong with them.
fn load_shipped() -> (Knowledge, Vec<RuleError>) {
    let mut knowledge = Knowledge::default();
    let mut wrong = Vec::new();
    for (file, text) in SHIPPED {
        wrong.extend(load::add_text(&mut knowledge, file, text));
    }
    knowledge.entries.shrink_to_fit();
    (knowledge, wrong)
}
