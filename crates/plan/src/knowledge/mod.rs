//! What is known of other systems: who brings which kinds, namespaces and objects, from which version on. Data: files of the
//! kind `Knowledge`, those that come with Windrow (`data/knowledge`) and those of a site (`knowledge.d`).
//!
//! `plan`, `rehearse` and the daemon ask here, and nowhere else. Pure: texts come in, entries go out.

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

use windrow_apischema::is_default_cluster_role;
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

    /// How long phases take on such a node, as enough boots have shown: one row for each role and phase of an installation and of a later start.
    /// One of its class of hardware comes before one of any, and that of a later file before others.
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
        known
            .or_else(|| self.provider_of_another_version(kind, node))
            .or_else(|| self.provider_of_an_unread_release(kind, node))
    }

    /// Who brings other kinds of the group: another version may have more of them.
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

    /// A release that was not read may bring any kind of the platform's groups.
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

    /// Do objects of a kind live in namespaces, whoever brings it?
    pub(crate) fn scope_of(&self, kind: &GroupKind) -> Option<bool> {
        let mut known = self.entries.iter().flat_map(|entry| &entry.brings.kinds);
        let known = known.find(|known| known.kind == *kind)?;
        Some(known.namespaced)
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

    /// What a chart would bring beside that, if one of its values were true. `shown` says where its HelmChart stands.
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
