//! Harvester's controller of Addons and Rancher's of its flags: their actions on the objects of known incidents (rancher#48920,
//! harvester#7376). Modelled.

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::format_smolstr;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::ObjectRef;

use super::cluster::{SimulatedCluster, Stored};
use super::literals::{self, named, static_json};
use super::log::HappeningKind;

/// Rancher's flag, and the one that a Rancher that handles its node driver writes with it.
const FEATURE: &str = "harvester";
const BAREMETAL: &str = "harvester-baremetal-container-workload";
const NODE_DRIVER: &str = "harvester";

const fn feature(name: &'static str) -> ObjectRef {
    literals::object("management.cattle.io", "Feature", None, name)
}

fn is_off(feature: &Stored) -> bool {
    feature.spec()["value"] == false
}

/// Is it the flag that the node driver follows?
pub(super) fn is_feature(id: &ObjectRef) -> bool {
    id.name == FEATURE
}

/// Is the flag off, and does this Rancher disable the node driver with it? Up to v2.10 nothing does (rancher#48920); from v2.11.0
/// on `pkg/controllers/management/feature/feature_handler.go` does. By Harvester's version it is the fact
/// `driver-follows-feature`.
pub(super) fn switches_off(cluster: &SimulatedCluster, feature: &Stored) -> bool {
    let version = cluster.stored(&rancher_version());
    let follows = version.is_some_and(|setting| {
        let text = setting.body()["value"].as_str().unwrap_or_default();
        let version = text.parse::<windrow_plan::version::Version>();
        version.is_ok_and(|version| (version.minor.major, version.minor.minor) >= (2, 11))
    });
    is_off(feature) && follows
}

/// Writes the other flag, and disables the node driver.
pub(super) fn switch_driver_off(cluster: &mut SimulatedCluster) {
    let baremetal = feature(BAREMETAL);
    if let Some(known) = cluster.stored(&baremetal) {
        let mut json = known.body().clone();
        json["spec"]["value"] = false.into();
        cluster.put(baremetal, json);
    }
    let driver = node_driver();
    let Some(known) = cluster.stored(&driver) else {
        return;
    };
    let mut json = known.body().clone();
    json["spec"]["active"] = false.into();
    cluster.put(driver.clone(), json);
    cluster.record(HappeningKind::Became {
        object: driver,
        state: "inactive".into(),
    });
}

/// Harvester's controller begins with an Addon: it creates the HelmChart of the same name, if there is none. A HelmChart from a
/// manifest is simulated as if the Addon owned it. Harvester does not begin with such an Addon (`processEnableAddon`), and the
/// Addon is stuck either way; but objects have no age here, so a foreign chart looks like one that is about to disappear.
pub(super) fn addon_seen(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let now = cluster.now().to_string();
    let Some(addon) = cluster.stored(id) else {
        return;
    };
    let spec = addon.spec();
    if spec["enabled"] != true {
        return;
    }
    let chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart", "spec": {
        "chart": spec["chart"], "repo": spec["repo"], "version": spec["version"]}});
    cluster.set_status(
        id,
        json!({"status": "AddonEnabling",
            "conditions": [{"type": "InProgress", "status": "True", "lastUpdateTime": now}]}),
    );
    let name = helm_chart_of(id);
    if !cluster.has(&name) {
        cluster.put(name, chart);
    }
}

fn helm_chart_of(addon: &ObjectRef) -> ObjectRef {
    let namespace = addon.namespace.as_deref().unwrap_or_default();
    let name = addon.name.clone();
    named("helm.cattle.io", "HelmChart", Some(namespace), name)
}

pub(super) fn helm_job_of<'c>(
    cluster: &'c SimulatedCluster,
    addon: &ObjectRef,
) -> Option<&'c Stored> {
    let namespace = addon.namespace.as_deref().unwrap_or_default();
    let job = format_smolstr!("helm-install-{}", addon.name);
    cluster.stored(&named("batch", "Job", Some(namespace), job))
}

pub(super) fn is_complete(job: &Stored) -> bool {
    job.status()["completionTime"].is_string()
}

/// Harvester accepts a Job only if it is not older than the operation (harvester#7376): for a chart that existed before, it waits
/// forever.
pub(super) fn addon_done(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let Some(addon) = cluster.stored(id) else {
        return;
    };
    if addon.spec()["enabled"] != true {
        cluster.set_status(id, static_json!({"status": "AddonDisabled"}));
        return;
    }
    let time = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let began = time(&addon.status()["conditions"][0]["lastUpdateTime"]);
    let made = helm_job_of(cluster, id);
    let made = made.and_then(|job| time(&job.body()["metadata"]["creationTimestamp"]));
    let state = match made >= began {
        true => {
            cluster.set_status(
                id,
                static_json!({"status": "AddonDeploySuccessful",
                    "conditions": [{"type": "Completed", "status": "True"}]}),
            );
            "AddonDeploySuccessful"
        }
        false => "AddonEnabling forever: its Job is older than the operation",
    };
    cluster.record(HappeningKind::Became {
        object: id.clone(),
        state: state.into(),
    });
}

/// Requested work that controllers have not done, in words; valid only when nothing happens any more.
pub(super) fn unsettled(cluster: &SimulatedCluster) -> Vec<String> {
    let addons = cluster
        .of_kind(&literals::kind("harvesterhci.io", "Addon"))
        .filter(|(_, addon)| addon.status()["status"] == "AddonEnabling")
        .map(|(id, _)| format!("{id} stays AddonEnabling"));
    let off = cluster.stored(&feature(FEATURE)).is_some_and(is_off);
    let driver = cluster.stored(&node_driver());
    let active = off && driver.is_some_and(|driver| driver.spec()["active"] == true);
    let driver = active
        .then(|| format!("Feature {FEATURE} is off, and NodeDriver {NODE_DRIVER} stays active"));
    addons.chain(driver).collect()
}

const fn node_driver() -> ObjectRef {
    literals::object("management.cattle.io", "NodeDriver", None, NODE_DRIVER)
}

const fn rancher_version() -> ObjectRef {
    literals::object("management.cattle.io", "Setting", None, "server-version")
}

/// Rancher's flags and driver, in the state after the start of this Harvester's Rancher.
pub(super) fn rancher(cluster: &mut SimulatedCluster, version: HarvesterVersion) {
    cluster.put(
        rancher_version(),
        json!({"apiVersion": "management.cattle.io/v3", "kind": "Setting", "value": version.rancher()}),
    );
    let flag = static_json!({"apiVersion": "management.cattle.io/v3", "kind": "Feature", "spec": {},
        "status": {"default": true, "dynamic": true}});
    cluster.put(feature(FEATURE), flag);
    let flag = static_json!({"apiVersion": "management.cattle.io/v3", "kind": "Feature", "spec": {},
        "status": {"default": false, "dynamic": true}});
    cluster.put(feature(BAREMETAL), flag);
    let driver = static_json!({"apiVersion": "management.cattle.io/v3", "kind": "NodeDriver",
        "spec": {"active": true, "url": "https://releases.rancher.com/harvester-node-driver/"}});
    cluster.put(node_driver(), driver);
}
