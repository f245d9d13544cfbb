//! rancherd's plan on a Harvester node, modelled after its source (rancher/rancherd `pkg/plan`, `pkg/rancherd`, `pkg/retry`): its
//! own part of the bootstrap, the requirements of each step, and the step that can be rejected.
//!
//! ```text
//!   network, time ── RKE2 ── probes ── Rancher, its webhook ── Fleet ── kubectl apply ── Provisioned
//!                                                               kind missing │ refused
//!                                                                   └── once more, all of it
//! ```
//! Its `kubectl apply` makes a preset `storage-network`, with its value, at its first try after the kind Setting is served: at
//! most 15 s later, and long before Harvester's webhook, which it does not wait for. If Harvester's pod is first nevertheless,
//! the Setting exists and is empty, and only this update can be rejected: rancherd tries again, and the pod runs.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};

use super::cluster::SimulatedCluster;
use super::log::HappeningKind;
use super::timer::{RancherdStep, Timer};
use super::{literals, storage_network, times};

const STARTS: &str = "network and time are there: it begins its plan and has RKE2 installed";
const PROBES: &str = "kube-apiserver, scheduler, controller-manager and kubelet answer its probes: it installs Rancher by Helm";
const RANCHER: &str =
    "Rancher and its webhook answer, and the cluster's client Secret is there: it restarts Fleet";
const MISSING: &str = "its bootstrap manifests are not all applied: no Setting and no Addon of Harvester is served; once more every 15 s";
const APPLIED: &str =
    "its bootstrap manifests are all applied: it waits for system-upgrade-controller";
const DONE: &str =
    "the Cluster fleet-local/local is Provisioned: it is done and will not run again";
const REBOOTED: &str = "it ends at once: it was done before the restart";
const AGAIN: &str = "it was not done before the restart: it goes through its plan once more";
/// The step of a node that joins.
pub(super) const JOINS: &str =
    "the cluster answers on the VIP's port 443: it has RKE2 installed, which joins by port 9345";

/// rancherd on the node that founds the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Rancherd {
    /// When it first tried to apply, if kinds were missing then.
    tried: Option<Timestamp>,
    /// The preset storage network; empty when there is none.
    storage_network: SmolStr,
    refusals: u32,
    /// The cluster's revision at the last rejection: as long as it stays, the next attempt is rejected too.
    refused_at: Option<u64>,
    done: bool,
}

impl Rancherd {
    pub(super) fn new(storage_network: &str) -> Self {
        Self {
            storage_network: storage_network.into(),
            ..Self::default()
        }
    }

    pub(super) fn step(&mut self, step: RancherdStep, cluster: &mut SimulatedCluster) {
        match step {
            RancherdStep::Start => record_step(cluster, SmolStr::new_static(STARTS), false),
            RancherdStep::Probes => record_step(cluster, SmolStr::new_static(PROBES), false),
            RancherdStep::Rancher => {
                record_step(cluster, SmolStr::new_static(RANCHER), false);
                cluster.after(times::FLEET, Timer::Rancherd(RancherdStep::Apply));
            }
            RancherdStep::Apply => self.apply(cluster),
            RancherdStep::Restart => {
                let says = if self.done { REBOOTED } else { AGAIN };
                record_step(cluster, SmolStr::new_static(says), false);
            }
            RancherdStep::Done => {
                self.done = true;
                record_step(cluster, SmolStr::new_static(DONE), false);
            }
        }
    }

    fn apply(&mut self, cluster: &mut SimulatedCluster) {
        if !can_apply(cluster) {
            record_step(cluster, SmolStr::new_static(MISSING), true);
            self.tried = Some(cluster.now);
            return;
        }
        if let Err(message) = self.preset(cluster) {
            if self.refusals == 0 {
                let step = format_smolstr!(
                    "its kubectl apply is refused, once more every 15 s: {message}"
                );
                record_step(cluster, step, true);
            }
            self.refusals += 1;
            self.refused_at = Some(cluster.revision());
            cluster.after(times::APPLY_AGAIN, Timer::Rancherd(RancherdStep::Apply));
            return;
        }
        self.refused_at = None;
        record_step(cluster, SmolStr::new_static(APPLIED), false);
        cluster.after(times::PROVISIONED, Timer::Rancherd(RancherdStep::Done));
    }

    /// Creates the Setting with its value, or updates the existing one.
    fn preset(&self, cluster: &mut SimulatedCluster) -> Result<(), String> {
        let value = &self.storage_network;
        let known = cluster.stored(&storage_network::SETTING);
        let same = known.is_some_and(|known| known.body()["value"] == value.as_str());
        if value.is_empty() || same {
            return Ok(());
        }
        let setting =
            json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "value": value});
        cluster.admit(&storage_network::SETTING, &setting)?;
        cluster.put(storage_network::SETTING.clone(), setting);
        Ok(())
    }

    /// The requirements of its manifests may be met now: its next attempt is soon.
    pub(super) fn platform_came(&mut self, cluster: &mut SimulatedCluster) {
        let Some(tried) = self.tried.filter(|_| can_apply(cluster)) else {
            return;
        };
        self.tried = None;
        let every = times::APPLY_AGAIN.as_secs().max(1);
        let passed = u64::try_from(cluster.now.duration_since(tried).as_secs()).unwrap_or_default();
        let next = tried + Duration::from_secs((passed / every + 1) * every);
        cluster
            .agenda
            .enter(next, Timer::Rancherd(RancherdStep::Apply));
    }

    /// Will its next attempt end like the last one, as long as the cluster stays the same?
    pub(super) fn is_idle(&self, cluster: &SimulatedCluster) -> bool {
        self.refused_at == Some(cluster.revision())
    }

    /// The repeated rejection, and its meaning.
    pub(super) fn refused(&self) -> Option<String> {
        let refused = self.refused_at.is_some();
        refused.then(|| {
            format!(
                "rancherd's update of the setting storage-network is refused (refused {} times): it goes \
                 round, and its unit is never done",
                self.refusals
            )
        })
    }
}

/// Is the kind of its own manifests served, as far as they have to wait?
fn can_apply(cluster: &SimulatedCluster) -> bool {
    let kind = literals::kind("harvesterhci.io", "Setting");
    cluster.serves(&kind).is_some()
}

fn record_step(cluster: &mut SimulatedCluster, step: SmolStr, failed: bool) {
    cluster.record(HappeningKind::Rancherd { step, failed });
}

#[cfg(test)]
mod tests {
    use windrow_harvester::HarvesterVersion;

    use super::super::{BootstrapVerdict, JoinRole, Scenario, SimulatedDirectory, SimulatedNode};
    use super::*;

    const MACHINE: &str = r#"{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "vm"}, "spec": {"runStrategy": "Always"}}"#;

    fn scenario(preset: Option<&str>) -> Scenario {
        Scenario::harvester(HarvesterVersion::LATEST, preset, Timestamp::UNIX_EPOCH)
    }

    fn played(
        scenario: Scenario,
        machine: bool,
        joins: &[(&str, JoinRole)],
    ) -> (SimulatedNode, BootstrapVerdict) {
        let mut files = SimulatedDirectory::new();
        if machine {
            files.write("vm.yaml", MACHINE, scenario.start);
        }
        let mut disks = vec![files];
        disks.resize(joins.len() + 1, SimulatedDirectory::new());
        let mut node = SimulatedNode::fleet(scenario, joins, 1);
        while let Some(next) = node.next_event_at() {
            node.advance(next, &disks[..]);
            if node.is_settled(&disks[..]) {
                break;
            }
        }
        let verdict = node.outcome(&disks[..]).verdict;
        (node, verdict)
    }

    /// The log's entries about the platform and rancherd, on one node.
    fn logged_steps(node: &SimulatedNode, server: usize) -> Vec<&str> {
        let log = node.log().iter().filter(|one| one.server == server);
        log.filter_map(|one| match &one.what {
            HappeningKind::Rancherd { step, .. } | HappeningKind::Platform { step } => {
                Some(step.as_str())
            }
            HappeningKind::ApiReady => Some("kube-apiserver"),
            HappeningKind::JoinedAsAgent => Some("joined"),
            HappeningKind::Reboot => Some("reboot"),
            _ => None,
        })
        .collect()
    }

    fn in_order(logged: &[&str], steps: &[&str]) {
        let mut rest = logged.iter();
        for step in steps {
            assert!(
                rest.any(|one| one.contains(step)),
                "{step} does not follow what comes before it: {logged:#?}"
            );
        }
    }

    #[test]
    fn each_step_comes_after_what_it_waits_for() {
        let (node, verdict) = played(scenario(Some("{}")), false, &[]);
        assert_eq!(verdict, BootstrapVerdict::Complete);
        in_order(
            &logged_steps(&node, 0),
            &[
                STARTS,
                "kube-apiserver",
                PROBES,
                "Rancher runs",
                RANCHER,
                MISSING,
                "CustomResourceDefinitions are installed",
                APPLIED,
                DONE,
                "Harvester's webhook answers",
                "Harvester created its Settings",
                "the storage network is configured",
            ],
        );
    }

    /// rancherd's `pkg/retry` tries every 15 s, and none of its steps waits for Harvester's webhook.
    #[test]
    fn a_preset_reaches_its_setting_within_15_s_of_its_kind_and_is_never_refused() {
        for machine in [false, true] {
            let (node, _) = played(scenario(Some("{}")), machine, &[]);
            let at = |says: &str| {
                let said = |what: &HappeningKind| match what {
                    HappeningKind::Rancherd { step, .. } | HappeningKind::Platform { step } => {
                        step.contains(says)
                    }
                    _ => false,
                };
                let found = node.log().iter().find(|one| said(&one.what));
                found.map(|one| one.at)
            };
            let kind = at("CustomResourceDefinitions are installed").unwrap();
            let applied = at(APPLIED).unwrap();
            assert!(kind < applied && applied <= kind + times::APPLY_AGAIN);
            assert!(applied < at("webhook answers").unwrap());
            assert_eq!(at("is refused"), None);
        }
    }

    #[test]
    fn after_a_restart_it_ends_at_once_only_where_it_was_done() {
        for (minutes, says) in [(3, AGAIN), (60, REBOOTED)] {
            let mut scenario = scenario(None);
            scenario
                .reboots
                .push((Duration::from_secs(60 * minutes), 0));
            let (node, verdict) = played(scenario, false, &[]);
            assert_eq!(verdict, BootstrapVerdict::Complete);
            in_order(&logged_steps(&node, 0), &["reboot", says]);
        }
    }

    #[test]
    fn who_joins_does_so_when_rancher_answers_and_a_server_comes_of_it_later() {
        let joins = [("n2", JoinRole::Promoted), ("n3", JoinRole::Agent)];
        let (node, verdict) = played(scenario(None), false, &joins);
        assert_eq!(verdict, BootstrapVerdict::Complete);
        in_order(
            &logged_steps(&node, 1),
            &[JOINS, "joined", "kube-apiserver"],
        );
        assert_eq!(logged_steps(&node, 2), [JOINS, "joined"]);
        let at = |server: usize, test: &dyn Fn(&HappeningKind) -> bool| {
            let mut log = node.log().iter();
            let found = log.find(|one| one.server == server && test(&one.what));
            found.unwrap().at
        };
        let rancher = at(
            0,
            &|what| matches!(what, HappeningKind::Rancherd { step, .. } if step == RANCHER),
        );
        assert!(at(1, &|what| *what == HappeningKind::JoinedAsAgent) > rancher);
    }
}
