//! The outcome of a bootstrap, and whether it can still change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::{AddonName, ManifestPath};

use super::super::files::{DirectoryEntry, SimulatedDirectory};
use super::super::machines::MACHINES;
use super::super::timer::{RancherdStep, Timer};
use super::super::{lacking, operators};
use super::{Disks, JoinRole, ServerNode, SimulatedNode};

/// Servers that took an Addon from one another this often will continue to do so.
const QUARREL: u32 = 6;

/// Where a bootstrap ended, or stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum BootstrapVerdict {
    /// Things are still happening.
    Underway,
    /// Platform up, every file that is not hidden applied, every machine that should run does.
    Complete,
    /// Everything came up, but the storage network that the installer's configuration presets is not
    /// configured, and nothing will change that by itself.
    Unconfigured {
        /// Why.
        because: Vec<String>,
    },
    /// Nothing can happen any more, and not everything is done.
    Stuck {
        /// What is not done.
        missing: Vec<String>,
    },
    /// Nothing can happen any more, because one thing waits for another in a circle.
    Deadlocked {
        /// The circle, one link a line.
        proof: Vec<String>,
    },
}

/// What came of a bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapOutcome {
    /// Where it ended.
    pub verdict: BootstrapVerdict,
    /// Files that RKE2 has applied as they are now.
    pub applied: Vec<ManifestPath>,
    /// Files that it has not.
    pub unapplied: Vec<ManifestPath>,
    /// `printableStatus` of every virtual machine.
    pub machines: BTreeMap<String, String>,
}

impl SimulatedNode {
    /// Can nothing change any more unless the files change? The remaining files are retried forever, and each was tried since the
    /// last change.
    pub fn is_settled<D: Disks + ?Sized>(&self, disks: &D) -> bool {
        let idle = self.servers.iter().enumerate().all(|(number, server)| {
            !server.started || server.deploy.is_idle(&self.cluster, disks.disk_of(number))
        });
        if !idle && self.quarrels().is_empty() {
            return false;
        }
        let agenda = &self.cluster.agenda;
        let tried_again = |timer: &Timer| {
            matches!(
                timer,
                Timer::Deploy(_)
                    | Timer::SetAll
                    | Timer::StorageNetwork
                    | Timer::Rancherd(RancherdStep::Apply)
            )
        };
        if agenda.any(|timer| !tried_again(timer)) {
            return false;
        }
        let starting = agenda.any(|timer| *timer == Timer::SetAll);
        let applying = agenda.any(|timer| matches!(timer, Timer::Rancherd(_)));
        let configuring = agenda.any(|timer| *timer == Timer::StorageNetwork);
        let all_idle = (!starting || self.platform.is_idle(&self.cluster))
            && (!configuring || self.platform.storage_network_is_idle(&self.cluster))
            && (!applying || self.platform.rancherd_is_idle(&self.cluster));
        all_idle || !self.quarrels().is_empty()
    }

    /// Addons that servers take from one another forever.
    fn quarrels(&self) -> Vec<&AddonName> {
        let taken = self.cluster.taken.iter();
        taken
            .filter(|(_, times)| **times >= QUARREL)
            .map(|(addon, _)| addon)
            .collect()
    }

    /// Has RKE2 applied the present content of this file?
    pub fn has_applied(&mut self, path: &str, files: &SimulatedDirectory) -> bool {
        files
            .get(path)
            .is_some_and(|file| self.is_applied(path, file))
    }

    fn is_applied(&mut self, path: &str, file: &DirectoryEntry) -> bool {
        let reading = file.reading(path);
        self.cluster
            .addons
            .get(&ManifestPath::from(path).addon())
            .is_some_and(|addon| addon.seen.checksum == reading.sha256)
    }

    pub fn outcome<D: Disks + ?Sized>(&mut self, disks: &D) -> BootstrapOutcome {
        let (applied, unapplied) = self.applied(disks.disk_of(0));
        let mut missing = self.missing_on(0, disks.disk_of(0), &unapplied);
        for number in 1..self.servers.len() {
            let (_, unapplied) = self.applied(disks.disk_of(number));
            missing.extend(self.missing_on(number, disks.disk_of(number), &unapplied));
        }
        for addon in self.quarrels() {
            missing.push(format!(
                "servers take the Addon {addon} from one another, over and over: their files differ"
            ));
        }
        let machines: BTreeMap<String, String> = self
            .cluster
            .of_kind(&MACHINES)
            .map(|(id, vm)| {
                let state = vm.status()["printableStatus"].as_str().unwrap_or("");
                (id.to_string(), state.to_owned())
            })
            .collect();
        missing.extend(lacking::never_run(&self.cluster));
        missing.extend(lacking::never_installed(&self.cluster));
        missing.extend(
            self.cluster
                .cannot_run
                .iter()
                .filter(|(id, _)| self.cluster.has(id))
                .map(|(id, why)| match id.group.as_str() {
                    "helm.cattle.io" => format!("{id} is not installed: {why}"),
                    _ => format!("{id} does not run: {why}"),
                }),
        );
        if !self.platform.is_up() {
            missing.push("Harvester has not come up".to_owned());
        }
        missing.extend(operators::unsettled(&self.cluster));
        let unconfigured = self.platform.unconfigured(&self.cluster);
        let verdict = match (missing.is_empty(), self.is_settled(disks)) {
            (_, false) => BootstrapVerdict::Underway,
            (true, true) => match unconfigured {
                Some(because) => BootstrapVerdict::Unconfigured { because },
                None => BootstrapVerdict::Complete,
            },
            (false, true) => match self.platform.is_idle(&self.cluster) {
                true => BootstrapVerdict::Deadlocked {
                    proof: self.proof(),
                },
                false => {
                    missing.extend(unconfigured.unwrap_or_default());
                    BootstrapVerdict::Stuck { missing }
                }
            },
        };
        BootstrapOutcome {
            verdict,
            applied,
            unapplied,
            machines,
        }
    }

    pub(crate) fn applies_manifests(&self, server: usize) -> bool {
        let role = self.servers.get(server).and_then(|server| server.role);
        role.is_none_or(JoinRole::applies_manifests)
    }

    /// The files of this directory whose present content RKE2 has applied, and those that it has not.
    pub(crate) fn applied(
        &mut self,
        files: &SimulatedDirectory,
    ) -> (Vec<ManifestPath>, Vec<ManifestPath>) {
        let (mut applied, mut unapplied) = (Vec::new(), Vec::new());
        for (path, file) in files.manifests() {
            match self.is_applied(path, file) {
                true => applied.push(path.into()),
                false => unapplied.push(path.into()),
            }
        }
        (applied, unapplied)
    }

    /// The unfinished work of a node.
    fn missing_on(
        &self,
        number: usize,
        files: &SimulatedDirectory,
        unapplied: &[ManifestPath],
    ) -> Vec<String> {
        let ServerNode {
            name,
            role,
            started,
            ..
        } = &self.servers[number];
        if let Some(role) = role.filter(|role| !role.applies_manifests()) {
            let what = match role {
                JoinRole::Witness => "a witness",
                _ => "an agent",
            };
            // A file that a server also has is applied from there.
            return unapplied
                .iter()
                .map(|path| {
                    format!(
                        "{path} of {name} is not applied: {name} is {what}, and nothing reads its \
                         manifests directory"
                    )
                })
                .collect();
        }
        if !*started {
            return vec![format!("{name} has not become a server")];
        }
        unapplied
            .iter()
            .filter(|path| !files.is_hidden(path))
            .map(|path| {
                let addon = self.cluster.addons.get(&path.addon());
                let other = addon.map(|addon| addon.by).filter(|by| *by != number);
                match other.and_then(|by| self.servers.get(by)) {
                    Some(other) => format!(
                        "{path} of {name} is not applied: that of {} took its place",
                        other.name
                    ),
                    None if number == 0 => self.why_unapplied(path),
                    None => format!("{name}: {}", self.why_unapplied(path)),
                }
            })
            .collect()
    }

    fn why_unapplied(&self, path: &ManifestPath) -> String {
        match self.cluster.failures.get(&path.addon()) {
            Some(failure) => format!("{path} is not applied: {}", failure.message),
            None => format!("{path} is not applied"),
        }
    }

    /// The circle in which Harvester and a VM wait for each other.
    fn proof(&self) -> Vec<String> {
        let machines: Vec<String> = self
            .cluster
            .of_kind(&MACHINES)
            .filter(|(_, vm)| vm.status()["printableStatus"] != "Stopped")
            .map(|(id, vm)| {
                let state = vm.status()["printableStatus"].as_str().unwrap_or("");
                let state = if state.is_empty() { "none yet" } else { state };
                format!("{id} is not Stopped (its printableStatus: {state})")
            })
            .collect();
        let mut proof = machines;
        proof.push(format!(
            "so Harvester's webhook refuses the empty setting storage-network that the pod creates (refused {} times)",
            self.platform.refusals()
        ));
        proof.push("so Harvester's pod crashes at its start, over and over".to_owned());
        proof
            .push("so nothing imports images, binds their volumes or stops the machine".to_owned());
        proof.push("nothing else is under way: this can never end by itself".to_owned());
        proof
    }
}
