//! The steps of a platform's bootstrap, and their times. The objects of each step come from the knowledge of the platform.

use std::time::Duration;

use windrow_plan::knowledge::{Bringer, Knowledge, KnowledgeEntry, NodeFacts, Phase, Presence};

/// One step of a platform's bootstrap, on a good day at `after` from kube-apiserver's first answer.
pub(super) struct BootstrapStep {
    pub(super) after: Duration,
    pub(super) says: &'static str,
    pub(super) brings: StepBrings,
    pub(super) then: StepEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepBrings {
    Nothing,
    /// The objects of RKE2's packaged charts.
    Charts,
    /// The objects of a phase of Harvester's start.
    Phase(Phase),
}

impl StepBrings {
    pub(super) fn entries(self, node: &NodeFacts) -> impl Iterator<Item = &'static KnowledgeEntry> {
        Knowledge::shipped().entries().iter().filter(move |entry| {
            self == Self::bringing(entry)
                && !entry.component().is_some_and(|name| node.is_disabled(name))
                && entry.presence(node) == Presence::There
        })
    }

    /// The step with which an object comes.
    fn bringing(entry: &KnowledgeEntry) -> Self {
        match &entry.bringer {
            Bringer::Rke2 {
                component: Some(_), ..
            } => Self::Charts,
            Bringer::Harvester {
                phase: Some(phase), ..
            } => Self::Phase(*phase),
            _ => Self::Nothing,
        }
    }
}

/// Other effects of a step.
#[derive(Clone, Copy)]
pub(super) enum StepEffect {
    Nothing,
    Rancher,
    Objects,
    KubeVirtBegins,
    KubeVirt,
    Webhook,
    Pod,
}

/// RKE2 without Harvester.
pub(super) const RKE2: &[BootstrapStep] = &[BootstrapStep {
    after: Duration::from_secs(60),
    says: "RKE2's packaged charts are installed",
    brings: StepBrings::Charts,
    then: StepEffect::Nothing,
}];

pub(super) const HARVESTER: &[BootstrapStep] = &[
    BootstrapStep {
        after: Duration::from_secs(60),
        says: "RKE2's packaged charts are installed, Multus among them",
        brings: StepBrings::Charts,
        then: StepEffect::Nothing,
    },
    BootstrapStep {
        after: Duration::from_secs(240),
        says: "Rancher runs",
        brings: StepBrings::Phase(Phase::Rancher),
        then: StepEffect::Rancher,
    },
    BootstrapStep {
        after: Duration::from_secs(360),
        says: "Harvester's CustomResourceDefinitions are installed",
        brings: StepBrings::Phase(Phase::Definitions),
        then: StepEffect::Objects,
    },
    // Harvester's charts contain only the kind KubeVirt; virt-operator creates the others.
    BootstrapStep {
        after: Duration::from_secs(390),
        says: "virt-operator has made KubeVirt's kinds",
        brings: StepBrings::Phase(Phase::Operators),
        then: StepEffect::KubeVirtBegins,
    },
    BootstrapStep {
        after: Duration::from_secs(420),
        says: "KubeVirt is deployed",
        brings: StepBrings::Nothing,
        then: StepEffect::KubeVirt,
    },
    BootstrapStep {
        after: Duration::from_secs(470),
        says: "Harvester's webhook answers",
        brings: StepBrings::Nothing,
        then: StepEffect::Webhook,
    },
    BootstrapStep {
        after: Duration::from_secs(480),
        says: "Harvester's pod starts",
        brings: StepBrings::Nothing,
        then: StepEffect::Pod,
    },
];
