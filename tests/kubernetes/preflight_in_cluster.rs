//! Level 4: an upgrade check beside the preflight of Harvester v1.8.2 itself. For each thing that Harvester refuses, both refuse it, the
//! check with a part of Harvester's words; and both let its neighbour pass.
//!
//! No kubelet and no second address of kube-apiserver are here. So the Upgrade asks to leave out the space on nodes, and the last thing
//! that Harvester looks at, the certificates, is refused when nothing else is.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, HarvesterWebhook, Spec, Who, eventually};
use support::objects::{
    ADDON, CAPI_CLUSTER, Gvk, MACHINE, MANAGED_CHART, NODE, SETTING, UPGRADE, VERSION, VM,
    VM_BACKUP, VMI, VOLUME,
};
use support::objects::{api, make, namespace, patch, status};
use windrow::observe::objects::list;
use windrow_harvester::HarvesterVersion;
use windrow_model::checks::{CheckOutcome, CheckRow};
use windrow_model::findings::Evidence;
use windrow_preflight::upgrade_check::{NodeReadings, check, kinds};

use crate::harvester_webhook_in_cluster::refusal;
use crate::support;
use crate::upgrade_check_in_cluster::{a_server, with_status};

const RELEASE: &str = "v1.8.2";
const HARVESTER: &str = "harvester-system";
const FLEET: &str = "fleet-local";
const LONGHORN: &str = "longhorn-system";
const SCHEDULE: Gvk = ("harvesterhci.io", "v1beta1", "ScheduleVMBackup");
/// What Harvester says when it has nothing to refuse but the certificates.
const NOTHING_ELSE: &str = "kubernetes ip";

/// A cluster with three servers that Harvester would upgrade.
struct Site {
    client: Client,
    _webhook: HarvesterWebhook,
    _cluster: Cluster,
}

impl Site {
    async fn start() -> Option<Self> {
        let cluster = Cluster::start(Spec::default()).await?;
        let client = cluster.client(Who::Admin).await;
        cluster.serve_kinds_of_harvesters_webhook().await;
        for name in [FLEET, HARVESTER, LONGHORN] {
            namespace(&client, name).await;
        }
        for (name, value) in [
            ("server-version", RELEASE),
            ("upgrade-config", ""),
            ("overcommit-config", ""),
        ] {
            let setting = json!({"metadata": {"name": name}, "value": value});
            make(&client, SETTING, "", setting).await;
        }
        let version =
            json!({"metadata": {"name": RELEASE}, "spec": {"isoURL": "http://192.0.2.1/x.iso"}});
        make(&client, VERSION, HARVESTER, version).await;
        let local = json!({"metadata": {"name": "local"}, "status": {"phase": "Provisioned"}});
        with_status(&client, CAPI_CLUSTER, FLEET, local).await;
        for name in ["n1", "n2", "n3"] {
            a_server(&client, name).await;
        }
        let webhook = cluster.harvester_webhook().await?;
        Some(Self {
            client,
            _webhook: webhook,
            _cluster: cluster,
        })
    }

    /// The first thing for which Harvester refuses an Upgrade.
    async fn harvester(&self) -> String {
        let upgrade = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": {"name": "asked",
            "annotations": {"harvesterhci.io/skipGarbageCollectionThresholdCheck": "true"}},
            "spec": {"version": RELEASE, "logEnabled": false}});
        let upgrade = serde_json::from_value(upgrade).unwrap();
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let upgrades = api(&self.client, UPGRADE, HARVESTER);
        let refused = refusal(upgrades.create(&dry, &upgrade)).await;
        refused.map(|(_, words)| words).unwrap_or_default()
    }

    /// What the check says that Harvester refuses.
    async fn windrow(&self) -> Vec<CheckRow<Evidence>> {
        let objects = list(&self.client, &kinds()).await;
        let to = Some(HarvesterVersion::LATEST);
        let checked = check(&objects, &NodeReadings::default(), to, Timestamp::now());
        let rows = checked.list.checks.into_iter();
        rows.filter(|row| {
            row.outcome == CheckOutcome::Fail && row.section.as_deref() == Some("preflight")
        })
        .collect()
    }

    /// Waits until both refuse for the same reason, or neither. Both read memories, which hear of a change a moment later.
    async fn agree_on(&self, reason: Option<&str>, words: &str) {
        let mut last = String::new();
        eventually(&format!("both say {reason:?}"), DEADLINE, async || {
            let (refused, answer) = (self.windrow().await, self.harvester().await);
            let names: Vec<&str> = refused.iter().map(|row| row.check.as_str()).collect();
            let now = format!("{names:?}; Harvester: {answer}");
            if now != last {
                eprintln!("{reason:?} is waited for; the check refuses {now}");
                last = now;
            }
            let (same, says) = match reason {
                Some(reason) => (names == [reason], refused.first()?.says.as_deref()?),
                None => (refused.is_empty(), NOTHING_ELSE),
            };
            let says = if words.is_empty() { says } else { words };
            (same && answer.contains(says)).then_some(())
        })
        .await;
    }

    async fn both_refuse(&self, reason: &str) {
        self.agree_on(Some(reason), "").await;
    }

    /// The same where Harvester has several words for one reason.
    async fn both_refuse_with(&self, reason: &str, words: &str) {
        self.agree_on(Some(reason), words).await;
    }

    async fn both_pass(&self) {
        self.agree_on(None, "").await;
    }

    async fn add(&self, gvk: Gvk, namespace: &str, object: Value) {
        with_status(&self.client, gvk, namespace, object).await;
    }

    async fn change(&self, gvk: Gvk, namespace: &str, name: &str, change: Value) {
        patch(&self.client, gvk, namespace, name, change).await;
    }

    async fn becomes(&self, gvk: Gvk, namespace: &str, name: &str, becomes: Value) {
        status(&api(&self.client, gvk, namespace), name, becomes).await;
    }

    async fn remove(&self, gvk: Gvk, namespace: &str, name: &str) {
        let objects = api(&self.client, gvk, namespace);
        objects
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_check_refuses_what_the_preflight_refuses_and_its_neighbour_passes_both() {
    let Some(site) = Site::start().await else {
        return;
    };
    site.both_pass().await;
    releases(&site).await;
    settings(&site).await;
    backups(&site).await;
    charts_and_addons(&site).await;
    volumes(&site).await;
    nodes(&site).await;
    instances(&site).await;
    plugged_volumes(&site).await;
}

async fn releases(site: &Site) {
    site.remove(VERSION, HARVESTER, RELEASE).await;
    site.both_refuse("version-exists").await;
    let version =
        json!({"metadata": {"name": RELEASE}, "spec": {"isoURL": "http://192.0.2.1/x.iso"}});
    make(&site.client, VERSION, HARVESTER, version).await;
    site.both_pass().await;

    // Its annotation takes this one itself past the check.
    let other = json!({"metadata": {"name": "other", "annotations": {"harvesterhci.io/skipWebhook": "true"}},
        "spec": {"version": RELEASE, "logEnabled": false}});
    make(&site.client, UPGRADE, HARVESTER, other).await;
    site.both_refuse("no-upgrade-under-way").await;
    let labels = |state: &str, cleanup: Option<&str>| json!({"metadata": {"labels": {"harvesterhci.io/upgradeState": state, "harvesterhci.io/upgradeCleanup": cleanup}}});
    let relabel = async |state: &str, cleanup| {
        let change = labels(state, cleanup);
        site.change(UPGRADE, HARVESTER, "other", change).await;
    };
    relabel("Succeeded", Some("Pending")).await;
    site.both_refuse("cleaned-up").await;
    relabel("Succeeded", Some("Succeeded")).await;
    site.both_pass().await;
    relabel("UpgradingNodes", None).await;
    site.both_refuse("no-upgrade-under-way").await;
    relabel("Failed", None).await;
    site.both_pass().await;

    site.becomes(
        CAPI_CLUSTER,
        FLEET,
        "local",
        json!({"phase": "Provisioning"}),
    )
    .await;
    site.both_refuse("cluster-provisioned").await;
    site.becomes(
        CAPI_CLUSTER,
        FLEET,
        "local",
        json!({"phase": "Provisioned"}),
    )
    .await;
    site.both_pass().await;
}

/// The Setting by which Harvester decides whether it stops what cannot migrate.
async fn settings(site: &Site) {
    site.remove(SETTING, "", "upgrade-config").await;
    site.both_refuse("upgrade-config-read").await;
    let setting = json!({"metadata": {"name": "upgrade-config"}, "value": ""});
    make(&site.client, SETTING, "", setting).await;
    site.both_pass().await;
    restore_machines(site, false).await;
    site.both_pass().await;
}

/// Harvester rejects the Setting without the first field.
async fn restore_machines(site: &Site, restore: bool) {
    let config =
        json!({"imagePreloadOption": {"strategy": {"type": "sequential"}}, "restoreVM": restore});
    let change = json!({"value": config.to_string()});
    site.change(SETTING, "", "upgrade-config", change).await;
}

async fn backups(site: &Site) {
    let source = json!({"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"});
    let backup = json!({"metadata": {"name": "b"}, "spec": {"type": "snapshot", "source": source}});
    make(&site.client, VM_BACKUP, "default", backup).await;
    site.both_refuse("no-backup-under-way").await;
    let failed =
        json!({"readyToUse": false, "error": {"message": "x", "time": "2026-11-21T20:00:00Z"}});
    site.becomes(VM_BACKUP, "default", "b", failed).await;
    site.both_pass().await;
    site.becomes(VM_BACKUP, "default", "b", json!({"error": null}))
        .await;
    site.both_refuse("no-backup-under-way").await;
    site.becomes(VM_BACKUP, "default", "b", json!({"readyToUse": true}))
        .await;
    site.both_pass().await;

    let schedule = json!({"metadata": {"name": "s"}, "spec": {"cron": "0 1 * * *", "retain": 8, "maxFailure": 4,
        "vmbackup": {"type": "snapshot", "source": source}}});
    make(&site.client, SCHEDULE, "default", schedule).await;
    site.both_refuse("schedules-suspended").await;
    site.becomes(SCHEDULE, "default", "s", json!({"suspended": true}))
        .await;
    site.both_pass().await;
}

async fn charts_and_addons(site: &Site) {
    let ready = |is: &str| json!({"conditions": [{"type": "Ready", "status": is, "message": "Modified(1)"}]});
    for namespace in ["default", FLEET] {
        let chart = json!({"metadata": {"name": "theirs"}, "status": ready("False")});
        site.add(MANAGED_CHART, namespace, chart).await;
        match namespace {
            FLEET => site.both_refuse("charts-ready").await,
            _ => site.both_pass().await,
        }
    }
    site.becomes(MANAGED_CHART, FLEET, "theirs", ready("Unknown"))
        .await;
    site.both_refuse("charts-ready").await;
    site.becomes(MANAGED_CHART, FLEET, "theirs", json!({"conditions": []}))
        .await;
    site.both_pass().await;

    let addon = json!({"metadata": {"name": "a"}, "spec": {"enabled": false, "chart": "a", "repo": "", "version": "1.0.0",
        "valuesContent": ""}});
    make(&site.client, ADDON, "default", addon).await;
    for (enabled, state, settled) in [
        (false, "AddonDisabling", false),
        (false, "AddonDisabled", true),
        (false, "AddonDeploySuccessful", false),
        (true, "AddonDeploySuccessful", true),
        (true, "AddonUpdating", false),
        (true, "AddonDeploySuccessful", true),
        (true, "", false),
        (false, "", true),
    ] {
        let enable = json!({"spec": {"enabled": enabled}});
        site.change(ADDON, "default", "a", enable).await;
        site.becomes(ADDON, "default", "a", json!({"status": state}))
            .await;
        match settled {
            true => site.both_pass().await,
            false => site.both_refuse("addons-settled").await,
        }
    }
}

async fn volumes(site: &Site) {
    let volume = json!({"metadata": {"name": "pvc-1"}, "spec": {"numberOfReplicas": 3},
        "status": {"robustness": "degraded", "state": "attached"}});
    site.add(VOLUME, LONGHORN, volume).await;
    site.both_refuse("volumes-whole").await;
    site.becomes(VOLUME, LONGHORN, "pvc-1", json!({"robustness": "faulted"}))
        .await;
    site.both_pass().await;
    let replicas = |count: u32| json!({"spec": {"numberOfReplicas": count}});
    site.change(VOLUME, LONGHORN, "pvc-1", replicas(1)).await;
    site.both_refuse("no-single-replica").await;
    site.change(VOLUME, LONGHORN, "pvc-1", replicas(2)).await;
    site.both_pass().await;
    let detached = json!({"state": "detached", "robustness": "unknown"});
    site.becomes(VOLUME, LONGHORN, "pvc-1", detached).await;
    site.change(VOLUME, LONGHORN, "pvc-1", replicas(1)).await;
    site.both_refuse("no-single-replica").await;
    site.change(VOLUME, LONGHORN, "pvc-1", replicas(3)).await;
    site.both_pass().await;
}

async fn nodes(site: &Site) {
    let ready = |is: &str| json!({"conditions": [{"type": "Ready", "status": is}, {"type": "EtcdIsVoter", "status": "True"}]});
    site.becomes(NODE, "", "n3", ready("Unknown")).await;
    site.both_refuse("nodes-ready").await;
    site.becomes(NODE, "", "n3", ready("True")).await;
    site.both_pass().await;
    let cordon = |is: bool| json!({"spec": {"unschedulable": is}});
    site.change(NODE, "", "n3", cordon(true)).await;
    site.both_refuse("nodes-ready").await;
    site.change(NODE, "", "n3", cordon(false)).await;
    site.both_pass().await;

    let phase = |phase: &str| json!({"phase": phase});
    site.becomes(MACHINE, FLEET, "m-n3", phase("Provisioned"))
        .await;
    site.both_refuse("machines-running").await;
    site.becomes(MACHINE, FLEET, "m-n3", phase("Running")).await;
    site.both_pass().await;
    let node = |node: &str| json!({"nodeRef": {"name": node}});
    site.becomes(MACHINE, FLEET, "m-n3", node("n2")).await;
    site.both_refuse_with("machines-match", "refers to another node n2")
        .await;
    site.becomes(MACHINE, FLEET, "m-n3", node("n3")).await;
    site.both_pass().await;
    let machine = json!({"metadata": {"name": "m-n4"},
        "spec": {"clusterName": "local", "bootstrap": {}, "infrastructureRef": {"kind": "CustomMachine"}},
        "status": {"phase": "Running", "nodeRef": {"name": "n4"}}});
    site.add(MACHINE, FLEET, machine).await;
    site.both_refuse("machines-match").await;
    site.remove(MACHINE, FLEET, "m-n4").await;
    site.both_pass().await;
    for (field, key, value, words) in [
        (
            "labels",
            "harvesterhci.io/managed",
            "true",
            "no expected label",
        ),
        (
            "annotations",
            "cluster.x-k8s.io/machine",
            "m-n3",
            "no expected annotation",
        ),
    ] {
        let set = |value: Option<&str>| json!({"metadata": {field: {key: value}}});
        site.change(NODE, "", "n3", set(None)).await;
        site.both_refuse_with("machines-match", words).await;
        site.change(NODE, "", "n3", set(Some(value))).await;
        site.both_pass().await;
    }
}

async fn instances(site: &Site) {
    let on_n1 = async |name: &str, spec: Value| {
        let mut machine = json!({"metadata": {"name": name, "labels": {"kubevirt.io/nodeName": "n1"}},
            "spec": {"domain": {"devices": {}}}, "status": {"phase": "Running", "nodeName": "n1"}});
        let (fields, more) = (machine["spec"].as_object_mut(), spec.as_object());
        fields.unwrap().extend(more.unwrap().clone());
        make(&site.client, VMI, "default", machine).await;
    };
    let affinity = |nodes: &[&str]| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]}]}}}})
    };
    let devices = json!({"domain": {"devices": {"hostDevices": [{"name": "gpu", "deviceName": "nvidia.com/x"}]}}});
    let media = json!({"domain": {"devices": {"disks": [{"name": "cd", "cdrom": {"bus": "sata"}}]}},
        "volumes": [{"name": "cd", "containerDisk": {"image": "none"}}]});
    for (name, spec, migrates) in [
        ("selected", json!({"nodeSelector": {"zone": "x"}}), false),
        ("plain", json!({}), true),
        ("device", devices, false),
        ("media", media, true),
        ("here", affinity(&["n1"]), false),
        ("anywhere", affinity(&["n1", "n2"]), true),
    ] {
        on_n1(name, spec).await;
        match migrates {
            true => site.both_pass().await,
            false => {
                site.both_refuse("machines-migrate").await;
                site.remove(VMI, "default", name).await;
                site.both_pass().await;
            }
        }
    }
    // Harvester stops them if it is told to.
    on_n1("here", affinity(&["n1"])).await;
    site.both_refuse("machines-migrate").await;
    restore_machines(site, true).await;
    site.both_pass().await;
    restore_machines(site, false).await;
    site.both_refuse("machines-migrate").await;
    site.remove(VMI, "default", "here").await;
    site.both_pass().await;
}

async fn plugged_volumes(site: &Site) {
    let claim = json!({"name": "extra", "persistentVolumeClaim": {"claimName": "extra", "hotpluggable": true}});
    let vm = json!({"metadata": {"name": "db"}, "spec": {"runStrategy": "Halted", "template": {"spec": {
        "domain": {"devices": {}, "memory": {"guest": "64Mi"}, "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}}}}});
    make(&site.client, VM, "default", vm).await;
    let instance = json!({"metadata": {"name": "db"}, "spec": {"domain": {"devices": {}}, "volumes": [claim]},
        "status": {"phase": "Running", "nodeName": "n1"}});
    make(&site.client, VMI, "default", instance).await;
    site.both_refuse("no-stale-hotplug").await;
    // Not one that is about to run.
    let begins = json!({"status": {"phase": "Scheduled"}});
    site.change(VMI, "default", "db", begins).await;
    site.both_pass().await;
    let requests = json!({"volumeRequests": [{"removeVolumeOptions": {"name": "extra"}}]});
    site.becomes(VM, "default", "db", requests).await;
    site.both_refuse("no-stale-hotplug").await;
    site.becomes(VM, "default", "db", json!({"volumeRequests": []}))
        .await;
    site.both_pass().await;
}
