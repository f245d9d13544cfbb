//! Would a drain of a node finish? Callers pass objects and receive a verdict with proofs; the module does no I/O.
//!
//! A drain evicts every pod that `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` would (Rancher's own drain of
//! a Harvester upgrade does the same), and the eviction API evicts a pod only if its PodDisruptionBudget allows it. A budget may
//! allow an eviction later, when replacements run elsewhere. So the drain is played through: each allowed eviction happens, the
//! replacement gets a place if [`schedule`](super::schedule) finds one, and is assumed to become ready. Pods that remain when
//! nothing changes any more are blocked. It is *proved* that a pod is blocked if no node accepts any of the pods that the budget
//! lacks, or if the budget allows no disruption even with every pod healthy. Otherwise the answer is Unknown.
//!
//! VMs of KubeVirt and instance managers of Longhorn do not follow the arithmetic of their own budget: their controllers move the
//! VM, or remove the budget. They have separate rules. Any other budget that selects an instance manager counts as for every pod.
//!
//! Harvester's maintenance mode makes further checks before it drains ([`MaintenanceMode`]).

mod budget;
mod engines;
mod evict;
mod host_model;
mod kubevirt;
mod longhorn;
#[cfg(test)]
mod longhorn_tests;
mod maintenance;
#[cfg(test)]
mod maintenance_tests;
mod play;
mod report;
mod strategy;
#[cfg(test)]
mod tests;

pub use engines::{StaleEngine, stale_engines};
pub(crate) use longhorn::{CORDON, cordoned_since, is_cordoned_for_long};
pub(crate) use maintenance::{is_in_maintenance, is_put_in_maintenance};
pub use report::{
    Drain, DrainCheck, DrainCheckList, MaintenanceAnswer, MaintenanceMode, PodDrain, PodFate,
};

use jiff::Timestamp;
use serde_json::Value;

use self::budget::DisruptionBudget;
use super::objects::{ObjectKind, Objects, Unlisted, text};
use super::schedule::SchedulerView;

/// The kinds that a drain check reads.
pub const KINDS: &[ObjectKind] = &[
    ObjectKind::NODE,
    ObjectKind::POD,
    ObjectKind::BUDGET,
    ObjectKind::NAMESPACE,
    ObjectKind::CLAIM,
    ObjectKind::VOLUME,
    ObjectKind::KUBEVIRT,
    ObjectKind::VMI,
    ObjectKind::LONGHORN_ENGINE,
    ObjectKind::LONGHORN_REPLICA,
    ObjectKind::LONGHORN_SETTING,
    ObjectKind::LONGHORN_VOLUME,
    ObjectKind::INSTANCE_MANAGER,
];

/// Would a drain of this node finish? `now` is the time of the objects.
pub fn check(objects: &Objects, node: &str, now: Timestamp) -> DrainCheck {
    let mut cluster = match DrainedCluster::read(objects, now) {
        Ok(cluster) => cluster,
        Err(why) => return DrainCheck::unknown(node, why),
    };
    let mut nodes = cluster.places.nodes.iter_mut();
    match nodes.find(|one| one.name == node) {
        Some(one) => one.cordon(),
        None => return DrainCheck::unknown(node, format!("there is no node {node}")),
    }
    DrainCheck {
        maintenance_mode: maintenance::maintenance_mode(objects, node),
        ..play::play(&cluster, node)
    }
}

/// Would a drain of each node finish, with the others as they are?
pub fn check_all(objects: &Objects, now: Timestamp) -> DrainCheckList {
    match objects.all(ObjectKind::NODE) {
        Ok([]) => DrainCheckList::new(Vec::new(), "there is no node".to_owned()),
        Ok(nodes) => {
            let names = nodes.iter().map(|node| text(node, "/metadata/name"));
            let checked = names.map(|name| check(objects, name, now)).collect();
            DrainCheckList::new(checked, String::new())
        }
        Err(why) => DrainCheckList::new(Vec::new(), why.to_string()),
    }
}

struct DrainedCluster<'o> {
    objects: &'o Objects,
    /// The time of the objects.
    now: Timestamp,
    /// The pods as listed, in the order of `places.pods`.
    pods: Vec<&'o Value>,
    places: SchedulerView,
    budgets: Vec<DisruptionBudget>,
}

impl<'o> DrainedCluster<'o> {
    fn read(objects: &'o Objects, now: Timestamp) -> Result<Self, String> {
        let said = |unlisted: Unlisted| unlisted.to_string();
        let pods: Vec<&Value> = objects.all(ObjectKind::POD).map_err(said)?.iter().collect();
        let places = SchedulerView::read(objects)?;
        let budgets = objects
            .all(ObjectKind::BUDGET)
            .map_err(said)?
            .iter()
            .map(DisruptionBudget::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            objects,
            now,
            pods,
            places,
            budgets,
        })
    }
}
