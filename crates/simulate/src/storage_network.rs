//! Harvester's storage network: when its controller configures a Setting that has a value, and the obstacles. Modelled after
//! `pkg/controller/master/storagenetwork` of Harvester v1.4.3 to v1.8.2.
//!
//! ```text
//!   the pod runs, the Setting has a value ── every Longhorn volume detached? ── Longhorn's setting ── configured
//!                                              │ one is attached
//!                                              └── configured=False, and once more; everything else goes on
//! ```
//! There is a race between that controller and the VM whose disk it would have to wait for.

use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};
use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::Fact;
use windrow_model::manifest::ObjectRef;

use super::cluster::SimulatedCluster;
use super::literals::{self, static_json};
use super::log::HappeningKind;
use super::longhorn::{AttachedVolume, attached_volumes};
use super::timer::Timer;
use super::times;

pub(super) static SETTING: ObjectRef =
    literals::object("harvesterhci.io", "Setting", None, "storage-network");

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SettingPhase {
    /// Harvester's controllers do not run yet, or the Setting has no value.
    #[default]
    Idle,
    /// Its controller will check the volumes, again and again as long as one is attached.
    Looks,
    /// Longhorn's setting names the network, and Longhorn starts its pods on it.
    Restarts,
    Configured,
}

#[derive(Debug, Clone, Default)]
pub(super) struct StorageNetwork {
    /// The preset of the installer's configuration; empty if there is none.
    preset: SmolStr,
    /// Writes its message with a capital letter, like Harvester in some releases.
    capital: bool,
    node: SmolStr,
    running: bool,
    phase: SettingPhase,
    /// The obstacle that it waits for, as in its condition.
    waits: Option<String>,
    /// The cluster's revision when it last checked and could not continue. Until that changes, the next check ends the same.
    looked_at: Option<u64>,
}

impl StorageNetwork {
    pub(super) fn new(preset: &str, node: &str, version: Option<HarvesterVersion>) -> Self {
        Self {
            preset: preset.into(),
            node: node.into(),
            capital: version
                .is_some_and(|version| Fact::StorageNetworkCapital.holds(version).assumed()),
            ..Self::default()
        }
    }

    /// Harvester's pod has written its Settings: its controllers run from now on.
    pub(super) fn controllers_run(&mut self, cluster: &mut SimulatedCluster) {
        self.running = true;
        self.setting_changed(cluster);
    }

    /// The Setting may have its value now.
    pub(super) fn setting_changed(&mut self, cluster: &mut SimulatedCluster) {
        let has_value = || cluster.stored(&SETTING).is_some_and(has_value);
        if self.phase == SettingPhase::Idle && self.running && has_value() {
            self.phase = SettingPhase::Looks;
            cluster.within(times::STORAGE_NETWORK_LOOK, Timer::StorageNetwork);
        }
    }

    pub(super) fn step(&mut self, cluster: &mut SimulatedCluster) {
        match self.phase {
            SettingPhase::Idle | SettingPhase::Configured => {}
            SettingPhase::Looks => self.look_at_volumes(cluster),
            SettingPhase::Restarts => {
                self.phase = SettingPhase::Configured;
                cluster.set_status(
                    &SETTING,
                    static_json!({"conditions": [{"type": "configured", "status": "True",
                        "reason": "Completed"}]}),
                );
                cluster.record(HappeningKind::Platform {
                    step: SmolStr::new_static("the storage network is configured"),
                });
            }
        }
    }

    fn look_at_volumes(&mut self, cluster: &mut SimulatedCluster) {
        let attached = attached_volumes(cluster);
        if attached.is_empty() {
            self.phase = SettingPhase::Restarts;
            (self.waits, self.looked_at) = (None, None);
            cluster.set_status(&SETTING, in_progress(cluster, "Update Longhorn setting"));
            return cluster.within(times::STORAGE_NETWORK, Timer::StorageNetwork);
        }
        for volume in &attached {
            let id = literals::named(
                "longhorn.io",
                "Volume",
                Some("longhorn-system"),
                &*volume.name,
            );
            if !cluster.has(&id) {
                cluster.put(id, shown(volume, &self.node));
            }
        }
        let names: Vec<&str> = attached.iter().map(|one| &*one.name).collect();
        let first = if self.capital { 'W' } else { 'w' };
        let message = format!(
            "{first}aiting for all volumes detached: {}",
            names.join(",")
        );
        if self.waits.as_ref() != Some(&message) {
            cluster.set_status(&SETTING, in_progress(cluster, &message));
            cluster.record(HappeningKind::NotConfigured {
                message: message.clone(),
            });
            self.waits = Some(message);
        }
        self.looked_at = Some(cluster.revision());
        cluster.after(times::STORAGE_NETWORK_AGAIN, Timer::StorageNetwork);
    }

    /// Will its next check end like the last one, as long as the cluster stays the same?
    pub(super) fn is_idle(&self, cluster: &SimulatedCluster) -> bool {
        self.looked_at == Some(cluster.revision())
    }

    /// Why the preset is not configured; `None` if it is, or if nothing is preset.
    pub(super) fn unconfigured(&self, cluster: &SimulatedCluster) -> Option<Vec<String>> {
        if self.preset.is_empty() || self.phase == SettingPhase::Configured {
            return None;
        }
        let Some(message) = &self.waits else {
            return Some(vec![
                "the storage network that the configuration presets has not reached its setting"
                    .to_owned(),
            ]);
        };
        let mut because = vec![format!(
            "Harvester configures a storage network only while every Longhorn volume is detached. \
             Its condition configured is False: {message}"
        )];
        because.extend(
            attached_volumes(cluster)
                .iter()
                .map(|volume| format!("{} keeps {} attached", volume.user, volume.name)),
        );
        Some(because)
    }
}

fn has_value(setting: &super::cluster::Stored) -> bool {
    setting.body()["value"]
        .as_str()
        .is_some_and(|value| !value.is_empty())
}

fn in_progress(cluster: &SimulatedCluster, message: &str) -> Value {
    json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress",
        "message": message, "lastUpdateTime": cluster.now().to_string()}]})
}

fn shown(volume: &AttachedVolume, node: &str) -> Arc<Value> {
    let pod = match &*volume.user.kind {
        "VirtualMachine" => format_smolstr!("virt-launcher-{}", volume.user.name),
        _ => volume.user.name.clone(),
    };
    json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
        "status": {"state": "attached", "currentNodeID": node, "kubernetesStatus": {
            "namespace": volume.user.namespace, "pvcName": volume.claim,
            "workloadsStatus": [{"podName": pod}]}}})
    .into()
}
