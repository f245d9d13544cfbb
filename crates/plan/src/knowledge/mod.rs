//! Knowledge about other systems: which of them provide which kinds, namespaces and objects, from which version on. The data are
//! files of the kind `Knowledge`, either built in (`data/knowledge`) or from a site (`knowledge.d`).
//!
//! It is the only source of such facts for `plan`, `rehearse` and the daemon. Pure: texts are the input, entries are the output.

mod brings;
mod chart;
mod domain;
mod entry;
mod kubernetes;
mod learned;
mod load;
mod namespace;
mod node;
mod operator;
mod range;
mod reliance;
#[cfg(test)]
mod tests;
mod webhook;

use std::sync::{Arc, LazyLock};

use crate::kubernetes::is_default_cluster_role;
use windrow_model::manifest::{GroupKind, ObjectRef};

pub use self::brings::{Brings, KnownBrings, KnownKind, KnownStorageClass};
pub(crate) use self::brings::{SwitchedOff, UnsetValues};
pub(crate) use self::chart::{ChartConfig, chart_config};
pub use self::chart::{InstalledChart, installed_chart, upstream_version};
pub use self::entry::{Bringer, KnowledgeEntry, Phase, Selection, name_of_chart};
use self::kubernetes::kubernetes_presence;
pub(crate) use self::kubernetes::serves_every_version;
pub use self::kubernetes::{is_kubernetes_group, kubernetes_scope};
pub use self::learned::{
    ClassTimes, LearnedPhase, LearnedRefusal, LearnedTimes, Seen, phase_of, times_on, without_boots,
};
pub(crate) use self::load::add_file;
pub use self::namespace::is_platforms_namespace;
pub use self::node::NodeFacts;
pub(crate) use self::operator::operator_name;
pub use self::range::VersionRange;
pub(crate) use self::reliance::learned_brings;
pub use self::reliance::{
    FEWEST_BOOTS, LearnedBrings, LearnedReport, LearnedShare, LearnedThing, Reliance, in_words,
};
pub use self::webhook::{GuardingWebhook, KnownWebhook};
use crate::SourceMap;
use crate::rules::RuleError;

/// The provider of Kubernetes' own kinds, in words.
const KUBE_APISERVER: &str = "kube-apiserver";

/// The built-in files.
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

#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    entries: Vec<KnowledgeEntry>,
    phases: Vec<LearnedPhase>,
    refusals: Vec<LearnedRefusal>,
}

/// Whether something is present, as far as Windrow can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    There,
    /// Unknown: it is present on this condition.
    Where(String),
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// In words.
    pub by: String,
    /// The condition, unless it is known to be met.
    pub condition: Option<String>,
    /// Whether it is a disabled chart of RKE2 and the only provider.
    pub is_switched_off: bool,
    /// The learned knowledge about it from earlier boots.
    pub learned: Option<Arc<Reliance>>,
}

impl Provider {
    /// A provider that is known to be present.
    pub(crate) fn certain(by: &str) -> Self {
        Self {
            by: by.to_owned(),
            condition: None,
            is_switched_off: false,
            learned: None,
        }
    }

    /// Whether only earlier boots show it.
    pub fn is_only_learned(&self) -> bool {
        let learned = self.learned.as_ref();
        learned.is_some_and(|learned| learned.written.is_none())
    }
}

impl Knowledge {
    /// The built-in knowledge. A test proves that it loads without errors.
    pub fn shipped() -> &'static Arc<Self> {
        static SHIPPED: LazyLock<Arc<Knowledge>> = LazyLock::new(|| Arc::new(load_shipped().0));
        &SHIPPED
    }

    pub fn entries(&self) -> &[KnowledgeEntry] {
        &self.entries
    }

    /// The learned durations of phases, in the order of their files.
    pub fn phases(&self) -> &[LearnedPhase] {
        &self.phases
    }

    /// The durations of phases on such a node that are based on enough boots: one row for each role and phase, of an installation
    /// and of a later start. A row for its hardware class takes precedence over a general one, and a row of a later file over
    /// earlier ones.
    pub fn phases_on(&self, node: &NodeFacts) -> Vec<LearnedPhase> {
        let mut found: Vec<&LearnedPhase> = Vec::new();
        for row in self.phases.iter().filter(|row| row.is_of(node)) {
            let same = |one: &&mut &LearnedPhase| {
                (one.phase, one.installed, one.role) == (row.phase, row.installed, row.role)
            };
            match found.iter_mut().find(same) {
                Some(known) if known.hardware.is_some() && row.hardware.is_none() => {}
                Some(known) => *known = row,
                None => found.push(row),
            }
        }
        found.into_iter().cloned().collect()
    }

    pub fn refusals(&self) -> &[LearnedRefusal] {
        &self.refusals
    }

    /// The provider of a kind in the platform. One that is known to be present comes first.
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
        known
            .or_else(|| self.provider_of_another_version(kind, node))
            .or_else(|| self.provider_of_an_unread_release(kind, node))
    }

    /// The provider of other kinds in the group, because another version may have more of them.
    fn provider_of_another_version(&self, kind: &GroupKind, node: &NodeFacts) -> Option<Provider> {
        if is_kubernetes_group(&kind.group) {
            return None;
        }
        let in_group = |known: &KnownKind| known.kind.group == kind.group;
        let mut provider = self.provider(node, |brings| brings.kinds.iter().any(in_group))?;
        let more = "its version has that kind, which no known one has";
        provider.condition.get_or_insert_with(|| more.to_owned());
        Some(provider)
    }

    /// An unexamined release may provide any kind in the groups of the platform.
    fn provider_of_an_unread_release(
        &self,
        kind: &GroupKind,
        node: &NodeFacts,
    ) -> Option<Provider> {
        let release = node.unread_release()?;
        self.platform_owns(&kind.group, node).then(|| Provider {
            condition: Some(format!(
                "{release}, which Windrow does not know, has this kind"
            )),
            ..Provider::certain(release)
        })
    }

    /// Whether objects of a kind have a namespace, regardless of the provider.
    pub(crate) fn scope_of(&self, kind: &GroupKind) -> Option<bool> {
        let mut known = self.entries.iter().flat_map(|entry| &entry.brings.kinds);
        let known = known.find(|known| known.kind == *kind)?;
        Some(known.namespaced)
    }

    pub fn provider_of_object(&self, object: &ObjectRef, node: &NodeFacts) -> Option<Provider> {
        let is_role = object.group == "rbac.authorization.k8s.io" && object.kind == "ClusterRole";
        if is_role && is_default_cluster_role(&object.name) {
            return Some(Provider::certain(KUBE_APISERVER));
        }
        self.provider(node, |brings| brings.objects.contains(object))
    }

    /// The provider of something. A written entry decides if there is one, and learned knowledge is reported in addition.
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

    /// The additional things that a chart would provide if one of its values were true. `shown` is the position of its HelmChart.
    pub(crate) fn brought_if_set(
        &self,
        chart: &InstalledChart,
        shown: &SourceMap,
    ) -> Vec<UnsetValues> {
        let entries = self.entries.iter().filter_map(|entry| {
            let Bringer::Chart {
                name,
                repository,
                values,
                kinds_unless_false,
                ..
            } = &entry.bringer
            else {
                return None;
            };
            if !chart.is_called(name, repository.as_deref())
                || !entry.versions.includes(chart.version())
            {
                return None;
            }
            let (values, brings) = match kinds_unless_false {
                _ if !chart.sets_one_of(values) => (values.clone(), entry.brings.clone()),
                Some(path) if chart.switches_off(path) => {
                    (vec![path.clone()], entry.brings.only_kinds())
                }
                _ => return None,
            };
            let off = chart.switched_off(&values, shown);
            Some(UnsetValues {
                values,
                brings,
                off,
            })
        });
        entries.collect()
    }

    /// Whether a chart installs things that other objects describe, so that it may provide anything.
    pub(crate) fn installs_others(&self, chart: &InstalledChart) -> bool {
        let mut entries = self.brought_by_chart(chart);
        entries.any(|entry| matches!(entry.bringer, Bringer::Chart { installs: true, .. }))
    }

    /// The things that the controllers of a kind are known to provide, and their Deployments.
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
    /// Whether it applies to such nodes, and was observed in enough boots.
    fn is_of(&self, node: &NodeFacts) -> bool {
        self.seen.boots >= FEWEST_BOOTS
            && self.versions.includes(node.release())
            && (self.platform.is_none() || self.platform == node.platform)
            && (self.hardware.is_none() || self.hardware.as_deref() == node.hardware())
    }
}

/// The best of several entries that provide the same: one whose provider is known to be present comes first.
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

/// Whether it is the text of a built-in file.
pub fn is_shipped(text: &str) -> bool {
    SHIPPED.iter().any(|(_, shipped)| *shipped == text)
}

/// The built-in entries, and their errors.
fn load_shipped() -> (Knowledge, Vec<RuleError>) {
    let mut knowledge = Knowledge::default();
    let mut wrong = Vec::new();
    for (file, text) in SHIPPED {
        wrong.extend(load::add_text(&mut knowledge, file, text));
    }
    knowledge.entries.shrink_to_fit();
    (knowledge, wrong)
}
