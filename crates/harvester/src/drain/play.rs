//! Plays a drain through.
//!
//! ```text
//!   a pod is evicted ──> its replacement waits ──> a node takes it ──> it counts as healthy ─┐
//!        ^───────────────────────────────────────────────────────────────────────────────────┘
//!   nothing moves any more ──> the remaining pods are judged: blocked with a proof, or Unknown
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::DrainedCluster;
use super::budget::{Count, DisruptionBudget, Uncounted};
use super::evict::{Eviction, eviction};
use super::host_model;
use super::kubevirt::{Evacuation, evacuation};
use super::longhorn::{Release, keeper, release};
use super::report::{DrainCheck, PodDrain, PodFate, lines};
use crate::objects::text;
use crate::schedule::{Placement, SchedulerNode, SchedulerPod, SchedulerView};

/// Index of a pod in the cluster's list. A replacement takes the slot of the pod that it replaces.
type PodSlot = usize;

pub(super) fn play(cluster: &DrainedCluster<'_>, node: &str) -> DrainCheck {
    let mut play = Play::new(cluster, node);
    play.run();
    let pods = play.here.keys().map(|slot| play.fate(*slot)).collect();
    DrainCheck::new(node, pods, play.ignored)
}

struct Play<'c> {
    cluster: &'c DrainedCluster<'c>,
    node: &'c str,
    /// The cluster at this point of the play.
    now: SchedulerView,
    /// The pods of this node that the drain evicts.
    here: BTreeMap<PodSlot, Eviction>,
    ignored: usize,
    /// The evicted pods, each with its round.
    gone: BTreeMap<PodSlot, usize>,
    /// Pods without a node that a budget waits for.
    waiting: BTreeSet<PodSlot>,
}

enum May<'b> {
    Go,
    Wait(&'b DisruptionBudget, Count),
    Never(Vec<&'b DisruptionBudget>, String),
    Unknown(&'b DisruptionBudget, String),
}

impl<'c> Play<'c> {
    fn new(cluster: &'c DrainedCluster<'_>, node: &'c str) -> Self {
        let mut ignored = 0;
        let mut here = BTreeMap::new();
        for (slot, pod) in cluster.pods.iter().enumerate() {
            if text(pod, "/spec/nodeName") != node {
                continue;
            }
            match eviction(pod, cluster.now) {
                Eviction::Ignored(_) => ignored += 1,
                other => {
                    here.insert(slot, other);
                }
            }
        }
        let mut play = Self {
            cluster,
            node,
            now: cluster.places.clone(),
            here,
            ignored,
            gone: BTreeMap::new(),
            waiting: BTreeSet::new(),
        };
        play.waiting = (0..play.now.pods.len())
            .filter(|slot| {
                let pod = &play.now.pods[*slot];
                pod.node.is_none() && !pod.ended && !pod.terminating && play.matters(pod)
            })
            .collect();
        play
    }

    fn matters(&self, pod: &SchedulerPod) -> bool {
        self.cluster.budgets.iter().any(|budget| {
            let covers = |slot: &PodSlot| budget.covers(&self.cluster.places.pods[*slot]);
            budget.covers(pod) && self.here.keys().any(covers)
        })
    }

    fn run(&mut self) {
        for round in 1.. {
            let mut moved = false;
            let slots: Vec<PodSlot> = self.here.keys().copied().collect();
            for slot in slots {
                if !self.gone.contains_key(&slot) && self.try_to_go(slot) {
                    self.gone.insert(slot, round);
                    moved = true;
                }
            }
            for slot in self.waiting.clone() {
                let pod = &self.now.pods[slot];
                if let Some(place) = self.now.find(pod, Some(self.node)).somewhere() {
                    self.now.pods[slot].node = Some(place.to_owned());
                    self.now.pods[slot].ready = true;
                    self.waiting.remove(&slot);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn try_to_go(&mut self, slot: PodSlot) -> bool {
        match &self.here[&slot] {
            Eviction::Ignored(_) | Eviction::Overdue(_) => false,
            Eviction::InstanceManager => {
                let others_let = matches!(self.may_by(slot, self.others(slot)), May::Go);
                let goes = others_let && matches!(self.release(slot), Release::Released(_));
                self.now.pods[slot].ended |= goes;
                goes
            }
            Eviction::Machine(name) => self.try_to_migrate(slot, &name.clone()),
            Eviction::Replaced => {
                let goes = self.may_go(slot);
                if goes {
                    let pod = &mut self.now.pods[slot];
                    (pod.node, pod.ready) = (None, false);
                    self.waiting.insert(slot);
                }
                goes
            }
            Eviction::Lost | Eviction::Foreign(_) => {
                let goes = self.may_go(slot);
                self.now.pods[slot].ended |= goes;
                goes
            }
        }
    }

    fn may_go(&self, slot: PodSlot) -> bool {
        matches!(self.may(slot), May::Go)
    }

    fn try_to_migrate(&mut self, slot: PodSlot, machine: &str) -> bool {
        let pod = &self.now.pods[slot];
        match evacuation(self.cluster.objects, &pod.namespace, machine) {
            Evacuation::ShutDown => {
                self.now.pods[slot].ended = true;
                true
            }
            Evacuation::Migrates => {
                let Ok(target) = self.target(slot, machine) else {
                    return false;
                };
                let place = self.now.find(&target, Some(self.node));
                let place = place.somewhere().map(str::to_owned);
                let found = place.is_some();
                if found {
                    self.now.pods[slot].node = place;
                }
                found
            }
            Evacuation::Refused(_) | Evacuation::Unknown(_) => false,
        }
    }

    /// The pod to which a VM would move.
    fn target(&self, slot: PodSlot, machine: &str) -> Result<SchedulerPod, String> {
        let (objects, places) = (self.cluster.objects, &self.cluster.places);
        host_model::target(objects, &places.nodes, &places.pods[slot], machine)
    }

    fn budgets(&self, slot: PodSlot) -> Vec<&'c DisruptionBudget> {
        let pod = &self.cluster.places.pods[slot];
        let budgets = self.cluster.budgets.iter();
        budgets.filter(|budget| budget.covers(pod)).collect()
    }

    /// The members of a budget that exist or are to be created.
    fn members<'s>(
        &'s self,
        budget: &'s DisruptionBudget,
    ) -> impl Iterator<Item = (PodSlot, &'s SchedulerPod)> {
        self.now
            .pods
            .iter()
            .enumerate()
            .filter(|(_, pod)| !pod.ended && !pod.terminating && budget.covers(pod))
    }

    /// The budgets that select an instance manager's pod, except its node's own budget, which Longhorn removes.
    fn others(&self, slot: PodSlot) -> Vec<&'c DisruptionBudget> {
        let (mut budgets, pod) = (self.budgets(slot), self.cluster.places.pods[slot].id());
        let keeper = |budget: &DisruptionBudget| keeper(self.cluster.objects, &budget.id);
        budgets.retain(|budget| budget.id != pod && keeper(budget) != Some(self.node));
        budgets
    }

    fn may(&self, slot: PodSlot) -> May<'c> {
        self.may_by(slot, self.budgets(slot))
    }

    /// The answer of the eviction API if these budgets cover the pod.
    fn may_by(&self, slot: PodSlot, budgets: Vec<&'c DisruptionBudget>) -> May<'c> {
        let pod = &self.now.pods[slot];
        let budget = match budgets.as_slice() {
            [] => return May::Go,
            // The eviction of a pod that never ran disturbs nothing.
            _ if pod.pending => return May::Go,
            [budget] => budget,
            _ => {
                let why = "more than one budget covers it, and such a pod is never evicted";
                return May::Never(budgets, why.to_owned());
            }
        };
        let count = match &budget.count {
            Ok(count) => *count,
            Err(Uncounted::NotYet(why)) => return May::Unknown(budget, why.clone()),
            Err(Uncounted::Never(why)) => {
                let why = format!("its budget cannot be counted: {why}");
                return May::Never(budgets, why);
            }
        };
        let healthy = self.members(budget).filter(|(_, pod)| pod.ready).count() as i64;
        let unhealthy_may = !pod.ready
            && (budget.always_lets_unhealthy_go || (count.desired > 0 && healthy >= count.desired));
        if unhealthy_may || (count.expected > 0 && healthy > count.desired) {
            return May::Go;
        }
        if count.expected <= count.desired {
            let why = format!(
                "its budget allows no disruption even with every pod healthy: {} of {} must be",
                count.desired, count.expected
            );
            return May::Never(budgets, why);
        }
        May::Wait(budget, count)
    }

    /// The fate of a pod, with the proof.
    fn fate(&self, slot: PodSlot) -> PodDrain {
        let pod = &self.cluster.places.pods[slot];
        let budget = self.budgets(slot).first().map(|budget| budget.id.clone());
        let mut fate = PodDrain {
            pod: pod.id(),
            fate: PodFate::Unknown,
            why: String::new(),
            budget,
            place: None,
            because: Vec::new(),
        };
        match (&self.here[&slot], self.gone.get(&slot)) {
            (Eviction::Overdue(deleted), _) => {
                fate.why = format!("it should have ended at {deleted}, and the drain waits for it");
            }
            (Eviction::InstanceManager, _) => self.manager(slot, &mut fate),
            (Eviction::Machine(name), gone) => self.machine(slot, name, gone, &mut fate),
            (eviction, Some(round)) => self.went(slot, eviction, *round, &mut fate),
            (_, None) => self.stays(self.may(slot), &mut fate),
        }
        fate
    }

    fn went(&self, slot: PodSlot, eviction: &Eviction, round: usize, fate: &mut PodDrain) {
        fate.fate = PodFate::Goes;
        fate.why = match (&fate.budget, round) {
            (None, _) => "no budget covers it".to_owned(),
            (Some(budget), 1) => format!("its budget {budget} allows it"),
            (Some(budget), _) => {
                format!("its budget {budget} allows it once replacements run elsewhere")
            }
        };
        match eviction {
            Eviction::Lost => fate
                .because
                .push("nothing recreates it: `kubectl drain` needs --force for it".to_owned()),
            Eviction::Foreign(controller) => fate.because.push(format!(
                "Windrow cannot tell whether {controller} recreates it elsewhere"
            )),
            _ => {
                fate.place = self.now.pods[slot].node.clone();
                if fate.place.is_none() {
                    self.without_a_place(slot, &mut fate.because);
                }
            }
        }
    }

    /// Adds why a replacement that nothing waits for has no node.
    fn without_a_place(&self, slot: PodSlot, because: &mut Vec<String>) {
        match self.now.find(&self.now.pods[slot], Some(self.node)) {
            Placement::Unknown(why) => because.push(format!(
                "Windrow cannot tell where its replacement could run: {why}"
            )),
            Placement::Nowhere(refusals) => {
                because.push(
                    "no other node takes its replacement: it is gone until the node is back"
                        .to_owned(),
                );
                because.extend(lines(&refusals));
            }
            Placement::Fits(_) | Placement::Preempting(_) => {}
        }
    }

    fn release(&self, slot: PodSlot) -> Release {
        let manager = &self.cluster.places.pods[slot].name;
        release(self.cluster.objects, self.node, manager, self.cluster.now)
    }

    fn manager(&self, slot: PodSlot, fate: &mut PodDrain) {
        let others = self.others(slot);
        let may = self.may_by(slot, others.clone());
        if !matches!(may, May::Go) {
            fate.budget = others.first().map(|budget| budget.id.clone());
            self.stays(may, fate);
            let keepers = others.iter().filter_map(|budget| {
                let node = keeper(self.cluster.objects, &budget.id)?;
                Some(format!(
                    "{} is the budget of the instance manager of {node}: Longhorn does not remove it when {} is drained",
                    budget.id, self.node
                ))
            });
            fate.because.extend(keepers);
            return;
        }
        match self.release(slot) {
            Release::Released(why) => (fate.fate, fate.why) = (PodFate::Goes, why),
            Release::Unknown(why) => fate.why = why,
            Release::Kept(kept) => {
                fate.fate = PodFate::Blocked;
                fate.why =
                    "Longhorn keeps its budget: data has no healthy copy elsewhere".to_owned();
                fate.because = kept;
            }
        }
    }

    fn machine(&self, slot: PodSlot, name: &str, gone: Option<&usize>, fate: &mut PodDrain) {
        let pod = &self.cluster.places.pods[slot];
        match evacuation(self.cluster.objects, &pod.namespace, name) {
            Evacuation::ShutDown => {
                (fate.fate, fate.why) = (PodFate::Goes, "the VM is shut down".to_owned());
            }
            Evacuation::Refused(why) => {
                fate.fate = PodFate::Blocked;
                fate.why = format!("KubeVirt does not let the VM go: {why}");
                fate.because
                    .push("its evictionStrategy is LiveMigrate; stop the VM first".to_owned());
            }
            Evacuation::Unknown(why) => fate.why = why,
            Evacuation::Migrates if gone.is_some() => {
                (fate.fate, fate.why) = (PodFate::Goes, "the VM is migrated".to_owned());
                fate.place = self.now.pods[slot].node.clone();
            }
            Evacuation::Migrates => match self.alone_as_target(slot, name) {
                Placement::Nowhere(refusals) => {
                    fate.fate = PodFate::Blocked;
                    fate.why = "no other node takes the VM, so it is not migrated".to_owned();
                    fate.because = lines(&refusals);
                }
                Placement::Unknown(why) => fate.why = why,
                Placement::Fits(nodes) | Placement::Preempting(nodes) => {
                    fate.why = format!(
                        "the VM fits on {}, but not together with the others that move",
                        nodes.join(", ")
                    );
                }
            },
        }
    }

    /// Describes a pod that its budget keeps.
    fn stays(&self, may: May<'_>, fate: &mut PodDrain) {
        match may {
            // Cannot occur: such a pod has been evicted.
            May::Go => {}
            May::Unknown(budget, why) => fate.why = format!("its budget {}: {why}", budget.id),
            May::Never(budgets, why) => {
                fate.fate = PodFate::Blocked;
                fate.why = why;
                fate.because = budgets
                    .iter()
                    .map(|budget| format!("PodDisruptionBudget {}: {}", budget.id, budget.rule))
                    .collect();
            }
            May::Wait(budget, count) => self.waits(budget, count, fate),
        }
    }

    fn waits(&self, budget: &DisruptionBudget, count: Count, fate: &mut PodDrain) {
        let healthy = self.members(budget).filter(|(_, pod)| pod.ready).count();
        fate.because.push(format!(
            "PodDisruptionBudget {} ({}): {} of {} pods must be healthy, and {healthy} are in the end",
            budget.id, budget.rule, count.desired, count.expected
        ));
        let unready: Vec<String> = self
            .members(budget)
            .filter(|(_, pod)| pod.node.is_some() && !pod.ready)
            .map(|(_, pod)| {
                format!(
                    "{} on {}",
                    pod.id(),
                    pod.node.as_deref().unwrap_or_default()
                )
            })
            .collect();
        if !unready.is_empty() {
            fate.why = format!(
                "its budget waits for {} to become ready",
                unready.join(", ")
            );
            return;
        }
        let waiting: Vec<PodSlot> = self
            .members(budget)
            .filter(|(_, pod)| pod.node.is_none())
            .map(|(slot, _)| slot)
            .collect();
        if waiting.is_empty() {
            fate.why = "its budget waits for pods that do not exist".to_owned();
            return;
        }
        let mut proof = Vec::new();
        for slot in waiting {
            let who = match self.here.contains_key(&slot) {
                true => format!("the replacement of {}", self.now.pods[slot].id()),
                false => self.now.pods[slot].id(),
            };
            match self.alone(slot, &self.cluster.places.pods[slot], false) {
                Placement::Nowhere(refusals) => {
                    proof.push(format!("no other node takes {who}:"));
                    proof.extend(lines(&refusals));
                }
                Placement::Unknown(why) => {
                    fate.why = format!("Windrow cannot tell where {who} could run: {why}");
                    return;
                }
                Placement::Fits(nodes) | Placement::Preempting(nodes) => {
                    fate.why = format!(
                        "{who} fits on {}, but not together with the others that move",
                        nodes.join(", ")
                    );
                    return;
                }
            }
        }
        fate.fate = PodFate::Blocked;
        fate.why = "its budget waits for pods that no node can take".to_owned();
        fate.because.extend(proof);
    }

    fn alone_as_target(&self, slot: PodSlot, machine: &str) -> Placement {
        match self.target(slot, machine) {
            Ok(target) => self.alone(slot, &target, true),
            Err(why) => Placement::Unknown(why),
        }
    }

    /// The placement of a pod in the best case: only this pod has left the node, or every pod has. A pod that is rejected in both
    /// cases is rejected forever: pods elsewhere stay, and each filter's answer changes in one direction only as the node
    /// empties.
    fn alone(&self, slot: PodSlot, pod: &SchedulerPod, stays: bool) -> Placement {
        let mut first = self.cluster.places.clone();
        if !stays {
            first.pods[slot].node = None;
        }
        let mut empty = first.clone();
        for other in self.here.keys().filter(|other| **other != slot) {
            empty.pods[*other].node = None;
        }
        let full = first.find(pod, Some(self.node));
        if !matches!(full, Placement::Nowhere(_)) {
            return full;
        }
        let alone = empty.find(pod, Some(self.node));
        if !matches!(alone, Placement::Nowhere(_)) {
            return alone;
        }
        // A node that boots accepts it in a moment.
        empty
            .nodes
            .iter_mut()
            .for_each(SchedulerNode::forget_passing_taints);
        match empty.find(pod, Some(self.node)) {
            Placement::Fits(nodes) | Placement::Preempting(nodes) => Placement::Unknown(format!(
                "{} would take it, and is not ready now",
                nodes.join(", ")
            )),
            _ => alone,
        }
    }
}
