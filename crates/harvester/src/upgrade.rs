//! Harvester's Upgrade, read once: its progress, the state of each node, since when, and the next event that the node waits for.
//! This module does no I/O.
//!
//! ```text
//!   Images preloading ─> Images preloaded ─> Pre-draining ─> Pre-drained ─> Post-draining ─> Waiting Reboot ─> Succeeded
//!     a Plan's Job         the node's turn     hook's Job      Rancher's      hook's Job       the new image
//!                                                              drain, RKE2
//! ```
//!
//! The Upgrade has no times for the states of nodes; the Jobs of its hooks have. They are found by their labels, since long names
//! are cut. A single node stays `Images preloaded` while its one Job runs. Source: Harvester
//! `pkg/controller/master/upgrade/{common,job_controller,upgrade_controller}.go`.

use jiff::Timestamp;
use serde_json::Value;

use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, named, text};
use crate::versions::HarvesterVersions;

mod words;

/// The namespace of Harvester's Upgrades, and of the Jobs of their hooks. Source: Harvester v1.9.0-rc6
/// `pkg/controller/master/upgrade/{upgrade_controller.go:51,job_controller.go:76}`.
const NAMESPACE: &str = "harvester-system";
/// The namespace of Harvester's Plans, so that system-upgrade-controller creates their Jobs there.
const NAMESPACE_OF_PLANS: &str = "cattle-system";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeStage {
    ImagesPreloading,
    /// The images are loaded, and the node waits for its turn.
    ImagesPreloaded,
    /// An administrator has paused the node.
    Paused,
    /// The node is prepared for its drain.
    PreDraining,
    /// Rancher drains the node and starts its new RKE2.
    PreDrained,
    /// Its new system image is being installed.
    PostDraining,
    /// The node boots the new image.
    WaitingReboot,
    Succeeded,
    Failed,
    /// An unknown state.
    Other,
}

struct StageFacts {
    stage: NodeStage,
    name: &'static str,
    jobs: &'static [&'static str],
    /// The state begins when the Job has ended, not when it was created.
    ended: bool,
    waits_for: &'static str,
    /// How long this state is not worth a report, in minutes. The numbers are our estimates: a rebuild can take hours.
    usual: i64,
}

/// A Job of the Plan that loads images.
const PREPARE: &str = "prepare";
const PRE_DRAIN: &str = "pre-drain";
const POST_DRAIN: &str = "post-drain";
/// The only Job of a cluster with one node.
pub const SINGLE_NODE: &str = "single-node-upgrade";

const STAGES: &[StageFacts] = &[
    StageFacts {
        stage: NodeStage::ImagesPreloading,
        name: "Images preloading",
        jobs: &[PREPARE],
        ended: false,
        waits_for: "its new images to be loaded",
        usual: 60,
    },
    StageFacts {
        stage: NodeStage::ImagesPreloaded,
        name: "Images preloaded",
        jobs: &[PREPARE],
        ended: true,
        waits_for: "its turn",
        usual: i64::MAX,
    },
    StageFacts {
        stage: NodeStage::Paused,
        name: "Node-upgrade paused",
        jobs: &[],
        ended: false,
        waits_for: "an operator, who paused it",
        usual: i64::MAX,
    },
    StageFacts {
        stage: NodeStage::PreDraining,
        name: "Pre-draining",
        jobs: &[PRE_DRAIN],
        ended: false,
        waits_for: "healthy volumes, and its VMs to leave",
        usual: 60,
    },
    StageFacts {
        stage: NodeStage::PreDrained,
        name: "Pre-drained",
        jobs: &[PRE_DRAIN],
        ended: true,
        waits_for: "Rancher, which drains it and upgrades its RKE2",
        usual: 20,
    },
    StageFacts {
        stage: NodeStage::PostDraining,
        name: "Post-draining",
        jobs: &[POST_DRAIN],
        ended: false,
        waits_for: "the upgrade's repository, its new RKE2, and its new system image",
        usual: 45,
    },
    StageFacts {
        stage: NodeStage::WaitingReboot,
        name: "Waiting Reboot",
        jobs: &[POST_DRAIN, SINGLE_NODE],
        ended: true,
        waits_for: "its reboot into the new system image",
        usual: 30,
    },
    StageFacts {
        stage: NodeStage::Succeeded,
        name: "Succeeded",
        jobs: &[],
        ended: true,
        waits_for: "",
        usual: i64::MAX,
    },
    StageFacts {
        stage: NodeStage::Failed,
        name: "Failed",
        jobs: &[],
        ended: true,
        waits_for: "",
        usual: i64::MAX,
    },
];

impl NodeStage {
    fn parse(name: &str) -> Self {
        let known = STAGES.iter().find(|facts| facts.name == name);
        known.map_or(NodeStage::Other, |facts| facts.stage)
    }

    fn facts(self) -> Option<&'static StageFacts> {
        STAGES.iter().find(|facts| facts.stage == self)
    }

    /// Does nothing happen on a node in this state, by design?
    pub fn rests(self) -> bool {
        use NodeStage::{Failed, ImagesPreloaded, Paused, Succeeded};
        matches!(self, ImagesPreloaded | Paused | Succeeded | Failed)
    }
}

#[derive(Debug, Clone)]
pub struct UpgradingNode<'o> {
    pub name: &'o str,
    /// The state in the words of the Upgrade.
    pub state: &'o str,
    /// The same, parsed.
    pub stage: NodeStage,
    pub since: Option<Timestamp>,
    pub job: Option<&'o Value>,
    /// The only Job of a single node runs.
    pub runs_alone: bool,
    /// Its completed post-drain Job, and since when.
    pub post_drained: Option<(&'o Value, Timestamp)>,
}

impl UpgradingNode<'_> {
    /// Has the node been in its state for this many minutes?
    pub fn is_there_for(&self, minutes: i64, now: Timestamp) -> bool {
        self.since
            .is_some_and(|since| minutes_since(since, now) >= minutes)
    }
}

#[derive(Debug, Clone)]
pub struct HarvesterUpgrade<'o> {
    pub object: &'o Value,
    /// Sorted by name.
    pub nodes: Vec<UpgradingNode<'o>>,
}

impl<'o> HarvesterUpgrade<'o> {
    /// The upgrade that is under way, if any.
    ///
    /// # Errors
    ///
    /// Upgrades, or, during an upgrade, Jobs, could not be listed.
    pub fn under_way(objects: &'o Objects) -> Result<Option<Self>, Unlisted> {
        let Some(upgrade) = under_way(objects.all(ObjectKind::UPGRADE)?) else {
            return Ok(None);
        };
        Ok(Some(Self::read(upgrade, objects.all(ObjectKind::JOB)?)))
    }

    /// The newest upgrade, if it has failed and was not dismissed in Harvester's UI.
    ///
    /// # Errors
    ///
    /// Upgrades, or, with a failed one, Jobs, could not be listed.
    pub fn failed(objects: &'o Objects) -> Result<Option<Self>, Unlisted> {
        let upgrade = latest(objects.all(ObjectKind::UPGRADE)?).filter(|upgrade| {
            label(upgrade, "harvesterhci.io~1upgradeState") == "Failed"
                && label(upgrade, "harvesterhci.io~1read-message") != "true"
        });
        let Some(upgrade) = upgrade else {
            return Ok(None);
        };
        Ok(Some(Self::read(upgrade, objects.all(ObjectKind::JOB)?)))
    }

    pub fn read(object: &'o Value, jobs: &'o [Value]) -> Self {
        let states = object.pointer("/status/nodeStatuses");
        let states = states.and_then(Value::as_object).into_iter().flatten();
        let upgrade = text(object, "/metadata/name");
        let node = |(name, status): (&'o String, &'o Value)| {
            let state = text(status, "/state");
            let stage = NodeStage::parse(state);
            let (job, since) = begun_by(stage, upgrade, name, jobs).unzip();
            UpgradingNode {
                name,
                state,
                stage,
                since,
                job,
                runs_alone: jobs
                    .iter()
                    .any(|job| is_hook(job, upgrade, name, SINGLE_NODE) && !has_ended(job)),
                post_drained: jobs
                    .iter()
                    .filter(|job| {
                        is_hook(job, upgrade, name, POST_DRAIN) && is_true(job, "Complete")
                    })
                    .find_map(|job| Some((job, time(job, "/status/completionTime")?))),
            }
        };
        Self {
            object,
            nodes: states.map(node).collect(),
        }
    }

    pub fn name(&self) -> &'o str {
        text(self.object, "/metadata/name")
    }

    /// Is this one of its Jobs? Harvester ignores those of other namespaces.
    pub fn owns(&self, job: &Value) -> bool {
        let namespace = text(job, "/metadata/namespace");
        label(job, "harvesterhci.io~1upgrade") == self.name()
            && [NAMESPACE, NAMESPACE_OF_PLANS].contains(&namespace)
    }

    /// Is this a Job of its Plan that loads images?
    pub fn owns_as_prepare(&self, job: &Value) -> bool {
        is_prepare(job, self.name(), label(job, "upgrade.cattle.io~1node"))
    }

    /// `Upgrade namespace/name`.
    pub fn subject(&self) -> String {
        format!("Upgrade {}", named(self.object))
    }

    /// The state in the label of Harvester; empty right after the Upgrade was created.
    pub fn state(&self) -> &'o str {
        label(self.object, "harvesterhci.io~1upgradeState")
    }

    /// Since when it is in this state: when the previous step was completed.
    pub fn since(&self) -> Option<Timestamp> {
        let before = words::OVERALL
            .iter()
            .find(|overall| overall.state == self.state())
            .map_or("", |overall| overall.follows);
        match before {
            "" => time(self.object, "/metadata/creationTimestamp"),
            done => Condition::of(self.object, done)?.since(),
        }
    }

    /// Is Rancher responsible for the present step?
    pub fn waits_for_rancher(&self) -> bool {
        self.state() == "UpgradingSystemServices"
            || self.in_stage(NodeStage::PreDrained).next().is_some()
    }

    /// The RKE2 version of the new release, if it differs from the previous one. Sources: the repository's information about the
    /// release, a node that is done, or Windrow's data about the release.
    pub fn new_rke2<'n>(&self, nodes: &'n [Value]) -> Option<&'n str>
    where
        'o: 'n,
    {
        let kubelet = |node: &'n Value| text(node, "/status/nodeInfo/kubeletVersion");
        let done = |node: &&Value| {
            let mut done = self.in_stage(NodeStage::Succeeded);
            done.any(|one| one.name == text(node, "/metadata/name"))
        };
        let known = |pointer: &str| -> Option<&'static str> {
            let version = text(self.object, pointer).parse().ok()?;
            HarvesterVersions::shipped()
                .release(version)?
                .rke2
                .as_deref()
        };
        let mut lines = text(self.object, "/status/repoInfo").lines();
        let said = lines.find_map(|line| line.trim().strip_prefix("kubernetes:"));
        let new = said.map(str::trim);
        let new = new.or_else(|| nodes.iter().find(done).map(kubelet));
        let new = new.or_else(|| known("/spec/version"))?;
        let before = known("/status/previousVersion")?;
        (!new.is_empty() && !new.starts_with(before)).then_some(new)
    }

    pub fn in_stage(&self, stage: NodeStage) -> impl Iterator<Item = &UpgradingNode<'o>> {
        self.nodes.iter().filter(move |node| node.stage == stage)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradeEffect {
    /// Is this node being changed? Otherwise other nodes or shared parts are.
    pub is_on_node: bool,
    pub since: Option<Timestamp>,
}

impl HarvesterUpgrade<'_> {
    pub fn effect_on(&self, node: &str) -> UpgradeEffect {
        let own = self.busy().find(|busy| busy.name == node);
        if let Some(own) = own {
            return UpgradeEffect {
                is_on_node: true,
                since: own.since.or_else(|| self.since()),
            };
        }
        let newest = self.busy().filter_map(|busy| busy.since).max();
        UpgradeEffect {
            is_on_node: false,
            since: newest.or_else(|| self.since()),
        }
    }
}

/// How many minutes the stages of one node take at most, if nothing is wrong.
pub fn usual_minutes_of_a_node() -> i64 {
    let stages = STAGES.iter().filter(|facts| !facts.stage.rests());
    stages.map(|facts| facts.usual).sum()
}

/// The effect of an UpgradePlan on the node with this name now (upgrade-toolkit `api/v1beta1/upgradeplan_types.go`). Only the
/// plan's phases have times.
pub fn plan_effect_on(plan: &Value, node: &str) -> UpgradeEffect {
    let states = &plan["status"]["nodeUpgradeStatuses"];
    let is_on_node = matches!(
        text(&states[node], "/state"),
        "ImagePreloading"
            | "PreDraining"
            | "PreDrained"
            | "PostDraining"
            | "WaitingReboot"
            | "SingleNodeUpgrading"
    );
    let phases = plan["status"]["phaseTransitionTimestamps"].as_array();
    let phases = phases.into_iter().flatten();
    let newest = phases
        .filter_map(|phase| time(phase, "/phaseTransitionTimestamp"))
        .max();
    UpgradeEffect {
        is_on_node,
        since: newest.filter(|_| !is_on_node),
    }
}

/// The newest Upgrade, unless it has succeeded or failed. One that Harvester has not labelled yet counts.
pub fn under_way(upgrades: &[Value]) -> Option<&Value> {
    let upgrade = latest(upgrades)?;
    let state = label(upgrade, "harvesterhci.io~1upgradeState");
    (!matches!(state, "Succeeded" | "Failed")).then_some(upgrade)
}

fn latest(upgrades: &[Value]) -> Option<&Value> {
    let latest = |upgrade: &&Value| label(upgrade, "harvesterhci.io~1latestUpgrade") == "true";
    upgrades.iter().find(latest)
}

/// The UpgradePlans that have not ended. An empty phase means that the plan is new. Harvester v1.9.0-rc6
/// `pkg/controller/master/node/node_down_controller.go` uses the same rule; upgrade-toolkit `api/v1beta1/upgradeplan_types.go`.
pub fn plans_under_way(plans: &[Value]) -> impl Iterator<Item = &Value> {
    let ended = |plan: &&Value| matches!(plan_phase(plan), "Succeeded" | "Failed");
    plans.iter().filter(move |plan| !ended(plan))
}

/// An UpgradePlan in a line, with all of its available information.
pub fn plan_in_a_line(plan: &Value) -> String {
    let version = text(plan, "/spec/version");
    let phase = match plan_phase(plan) {
        "" => "just made",
        phase => phase,
    };
    format!(
        "UpgradePlan {} to {version}: {phase}; Windrow does not know the reason for the wait",
        text(plan, "/metadata/name")
    )
}

fn plan_phase(plan: &Value) -> &str {
    text(plan, "/status/currentPhase")
}

/// The newest Job that begins a state, and when it did.
fn begun_by<'o>(
    stage: NodeStage,
    upgrade: &str,
    node: &str,
    jobs: &'o [Value],
) -> Option<(&'o Value, Timestamp)> {
    let facts = stage.facts()?;
    let begins = |job: &&Value| {
        facts.jobs.iter().any(|kind| match *kind {
            PREPARE => is_prepare(job, upgrade, node),
            kind => is_hook(job, upgrade, node, kind),
        })
    };
    let pointer = match facts.ended {
        true => "/status/completionTime",
        false => "/metadata/creationTimestamp",
    };
    jobs.iter()
        .filter(begins)
        .filter_map(|job| Some((job, time(job, pointer)?)))
        .max_by_key(|(_, since)| *since)
}

/// Is it a hook's Job of this upgrade on this node? Harvester labels them itself (`applyNodeJob`).
fn is_hook(job: &Value, upgrade: &str, node: &str, kind: &str) -> bool {
    text(job, "/metadata/namespace") == NAMESPACE
        && label(job, "harvesterhci.io~1upgradeJobType") == kind
        && label(job, "harvesterhci.io~1node") == node
        && label(job, "harvesterhci.io~1upgrade") == upgrade
}

/// Is it a Job of the upgrade's Plan that loads images on this node?
fn is_prepare(job: &Value, upgrade: &str, node: &str) -> bool {
    text(job, "/metadata/namespace") == NAMESPACE_OF_PLANS
        && is_of_plan(job, &format!("{upgrade}-prepare"), node)
}

/// Is it a Job of this Plan on this node? The Plan has to be in the namespace of the Job. system-upgrade-controller labels them.
pub fn is_of_plan(job: &Value, plan: &str, node: &str) -> bool {
    label(job, "upgrade.cattle.io~1plan") == plan && label(job, "upgrade.cattle.io~1node") == node
}

/// Has a Job ended, successfully or not?
pub fn has_ended(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// The value of a label; `key` is escaped as a part of a JSON pointer.
pub fn label<'o>(object: &'o Value, key: &str) -> &'o str {
    text(object, &format!("/metadata/labels/{key}"))
}

pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Whole minutes from one time to another.
pub fn minutes_since(since: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(since).as_mins()
}

pub fn is_managed(node: &Value) -> bool {
    label(node, "harvesterhci.io~1managed") == "true"
}

#[cfg(test)]
mod tests;
