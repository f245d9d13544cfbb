//! An entry: a provider, its versions, its kinds and objects, and whether it is present on a node.

use std::borrow::Cow;
use std::time::Duration;

use windrow_model::findings::Location;
use windrow_model::manifest::GroupKind;

use super::{
    Brings, ClassTimes, GuardingWebhook, InstalledChart, KUBE_APISERVER, KnownWebhook,
    LearnedTimes, NodeFacts, Presence, Seen, VersionRange,
};

/// A provider and the things that it provides.
#[derive(Debug, Clone)]
pub struct KnowledgeEntry {
    /// `file/name`. A later entry with the same name replaces it.
    pub name: String,
    pub at: Location,
    pub bringer: Bringer,
    pub versions: VersionRange,
    pub brings: Brings,
    /// The webhooks that are installed with it.
    pub webhooks: Vec<KnownWebhook>,
    /// The shortest and the longest time, starting when its Job is complete or its controller has seen its object.
    pub after: Option<(Duration, Duration)>,
    /// Times from the boots that it was learned from; absent if the entry was written.
    pub times: Option<LearnedTimes>,
    /// The same for some hardware classes.
    pub times_on: Vec<ClassTimes>,
    /// Number of boots that it was learned from.
    pub seen: Option<Seen>,
    /// The project, version and file that prove it, or a note that it was learned.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bringer {
    /// kube-apiserver, in these versions of Kubernetes.
    Kubernetes {
        /// Only if its configuration enables the API.
        optional: bool,
    },
    /// RKE2 itself or one of its packaged charts, in these versions of Kubernetes.
    Rke2 {
        /// Name in `disable`; absent for RKE2 itself.
        component: Option<String>,
        /// The setting and its value that select the chart; absent if it is always installed.
        selected_by: Option<(Selection, String)>,
    },
    /// Harvester, in these versions of Harvester.
    Harvester {
        /// Part of Harvester.
        part: String,
        /// Phase of its start.
        phase: Option<Phase>,
        /// Only if this addon is enabled.
        addon: Option<String>,
    },
    /// A Helm chart, in these versions of the chart.
    Chart {
        /// Name in its repository.
        name: String,
        /// Part of the repository's URL, if the name alone is ambiguous.
        repository: Option<String>,
        /// Values of which one must be true, otherwise it provides nothing.
        values: Vec<String>,
        /// If this value is false, the kinds are left out.
        kinds_unless_false: Option<String>,
        /// Whether its objects install further things.
        installs: bool,
    },
    Operator {
        /// It provides something once there is an object of this kind; absent if it does so as soon as its pods run.
        acts_on: Option<GroupKind>,
        /// Name of its Deployment.
        deployment: String,
    },
}

/// A setting of RKE2 that selects charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    Cni,
    IngressController,
}

impl Selection {
    /// The name in RKE2's configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cni => "cni",
            Self::IngressController => "ingress-controller",
        }
    }
}

/// A phase of Harvester's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// With Rancher.
    Rancher,
    /// With the chart harvester-crd and the charts that rancherd applies together with it.
    Definitions,
    /// After virt-operator and CDI's operator have created their kinds.
    Operators,
}

impl KnowledgeEntry {
    /// Whether the provider is present on this node, if it is a part of the platform.
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
                _ if !node.is_harvester() => match node.may_be_another() {
                    true => Presence::Where("the node runs Harvester".into()),
                    false => Presence::Absent,
                },
                None => Presence::There,
                Some(addon) => node.enables(addon),
            },
            Bringer::Chart { .. } | Bringer::Operator { .. } => Presence::Absent,
        }
    }

    /// The kinds and objects of this release of a chart, without the kinds if its values leave them out.
    pub(crate) fn brings_with(&self, chart: &InstalledChart) -> Cow<'_, Brings> {
        match &self.bringer {
            Bringer::Chart {
                kinds_unless_false: Some(path),
                ..
            } if chart.switches_off(path) => Cow::Owned(self.brings.without_kinds()),
            _ => Cow::Borrowed(&self.brings),
        }
    }

    /// The webhooks that reject objects until the pods of this release answer.
    pub(crate) fn guarding(&self, chart: &InstalledChart) -> impl Iterator<Item = GuardingWebhook> {
        let webhooks = self.webhooks.iter();
        webhooks.filter_map(|webhook| webhook.of_release(chart))
    }

    /// The webhooks that reject objects until the pods that this operator creates for an object in this namespace answer.
    pub(crate) fn guarding_beside(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = GuardingWebhook> {
        let webhooks = self.webhooks.iter();
        webhooks.filter_map(move |webhook| webhook.of_operator(namespace))
    }

    /// The name of the chart, if RKE2 packages it.
    pub fn component(&self) -> Option<&str> {
        match &self.bringer {
            Bringer::Rke2 { component, .. } => component.as_deref(),
            _ => None,
        }
    }

    /// The provider in words.
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

/// The name of a packaged chart of RKE2 as a provider.
pub fn name_of_chart(component: &str) -> String {
    format!("RKE2's chart {component}")
}
