//! One entry: who brings something, in which versions, and whether that is there on a node.

use std::borrow::Cow;
use std::time::Duration;

use windrow_model::findings::Location;
use windrow_model::manifest::GroupKind;

use super::{
    Brings, ClassTimes, GuardingWebhook, InstalledChart, KUBE_APISERVER, KnownWebhook,
    LearnedTimes, NodeFacts, Presence, Seen, VersionRange,
};

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
        /// The value that leaves the kinds out where it is false.
        kinds_unless_false: Option<String>,
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

    /// What this release of a chart brings: without the kinds, where its values leave them out.
    pub(crate) fn brings_with(&self, chart: &InstalledChart) -> Cow<'_, Brings> {
        match &self.bringer {
            Bringer::Chart {
                kinds_unless_false: Some(path),
                ..
            } if chart.switches_off(path) => Cow::Owned(self.brings.without_kinds()),
            _ => Cow::Borrowed(&self.brings),
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

/// How a chart that RKE2 packages is called where it brings something.
pub fn name_of_chart(component: &str) -> String {
    format!("RKE2's chart {component}")
}
