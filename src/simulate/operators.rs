//! Harvester's controller of Addons and Rancher's of its flags: what they do with the objects of which
//! known incidents are made (rancher#48920, harvester#7376). Modelled.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::log::What;
use crate::manifest::ObjectRef;

/// Rancher's flag, and the one that has to have a value of its own before it.
const FEATURE: &str = "harvester";
const BAREMETAL: &str = "harvester-baremetal-container-workload";
const NODE_DRIVER: &str = "harvester";

fn feature(name: &str) -> ObjectRef {
    ObjectRef::cluster("management.cattle.io", "Feature", name)
}

fn has_a_value(cluster: &Cluster, name: &str) -> bool {
    cluster
        .get(&feature(name))
        .is_some_and(|feature| feature["spec"]["value"].is_boolean())
}

/// Rancher derives the node driver's `spec.active` from the flags' own values, and crashes where one
/// has none (rancher#48920).
pub(super) fn feature_seen(cluster: &mut Cluster, id: &ObjectRef) {
    let off = cluster
        .get(id)
        .is_some_and(|feature| feature["spec"]["value"] == false);
    if off && !has_a_value(cluster, BAREMETAL) {
        cluster.tell(What::Denied {
            message: format!(
                "Rancher crashes, and the node driver stays active: Feature {BAREMETAL} has no value of its own"
            ),
        });
    }
}

/// Is it the flag that the node driver follows?
pub(super) fn is_feature(id: &ObjectRef) -> bool {
    id.name == FEATURE
}

/// Is the flag off, and can Rancher bear it?
pub(super) fn can_switch_off(cluster: &Cluster, feature: &Value) -> bool {
    feature["spec"]["value"] == false && has_a_value(cluster, BAREMETAL)
}

/// The node driver follows its flag.
pub(super) fn switch_driver_off(cluster: &mut Cluster) {
    let driver = node_driver();
    let Some(known) = cluster.get(&driver) else {
        return;
    };
    let mut json = (**known).clone();
    json["spec"]["active"] = false.into();
    cluster.put(driver.clone(), json);
    cluster.tell(What::Became {
        object: driver,
        state: "inactive".to_owned(),
    });
}

/// Harvester's controller begins with an Addon: it makes the HelmChart of the same name, if there is
/// none.
pub(super) fn addon_seen(cluster: &mut Cluster, id: &ObjectRef) {
    let now = cluster.now().to_string();
    let Some(addon) = cluster.get(id).cloned() else {
        return;
    };
    if addon["spec"]["enabled"] != true {
        return;
    }
    cluster.set_status(
        id,
        json!({"status": "AddonEnabling",
            "conditions": [{"type": "InProgress", "status": "True", "lastUpdateTime": now}]}),
    );
    let chart = helm_chart_of(id);
    if cluster.get(&chart).is_none() {
        let spec = &addon["spec"];
        let json = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart", "spec": {
            "chart": spec["chart"], "repo": spec["repo"], "version": spec["version"]}});
        cluster.put(chart, json);
    }
}

fn helm_chart_of(addon: &ObjectRef) -> ObjectRef {
    let namespace = addon.namespace.clone().unwrap_or_default();
    ObjectRef::namespaced(
        "helm.cattle.io",
        "HelmChart",
        namespace,
        addon.name.as_str(),
    )
}

/// The Job that installs an Addon's chart.
pub(super) fn helm_job_of<'c>(cluster: &'c Cluster, addon: &ObjectRef) -> Option<&'c Value> {
    let namespace = addon.namespace.clone().unwrap_or_default();
    let job = format!("helm-install-{}", addon.name);
    let job = ObjectRef::namespaced("batch", "Job", namespace, job);
    cluster.get(&job).map(|job| &**job)
}

pub(super) fn is_complete(job: &Value) -> bool {
    job["status"]["completionTime"].is_string()
}

/// Harvester takes a Job only when it is no older than the operation (harvester#7376): a chart that was
/// there before is never waited for to its end.
pub(super) fn addon_done(cluster: &mut Cluster, id: &ObjectRef) {
    let Some(addon) = cluster.get(id).cloned() else {
        return;
    };
    if addon["spec"]["enabled"] != true {
        cluster.set_status(id, json!({"status": "AddonDisabled"}));
        return;
    }
    let time = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let began = time(&addon["status"]["conditions"][0]["lastUpdateTime"]);
    let made = helm_job_of(cluster, id).and_then(|job| time(&job["metadata"]["creationTimestamp"]));
    let state = match made >= began {
        true => {
            cluster.set_status(
                id,
                json!({"status": "AddonDeploySuccessful",
                    "conditions": [{"type": "Completed", "status": "True"}]}),
            );
            "AddonDeploySuccessful"
        }
        false => "AddonEnabling for ever: its Job is older than the operation",
    };
    cluster.tell(What::Became {
        object: id.clone(),
        state: state.to_owned(),
    });
}

/// What controllers were asked for and have not done, in words; asked when nothing happens any more.
pub(super) fn unsettled(cluster: &Cluster) -> Vec<String> {
    let addons = cluster
        .list("harvesterhci.io", "Addon")
        .filter(|(_, addon)| addon["status"]["status"] == "AddonEnabling")
        .map(|(id, _)| format!("{id} stays AddonEnabling"));
    let off = cluster
        .get(&feature(FEATURE))
        .is_some_and(|feature| feature["spec"]["value"] == false);
    let driver = cluster.get(&node_driver());
    let active = off && driver.is_some_and(|driver| driver["spec"]["active"] == true);
    let driver = active
        .then(|| format!("Feature {FEATURE} is off, and NodeDriver {NODE_DRIVER} stays active"));
    addons.chain(driver).collect()
}

fn node_driver() -> ObjectRef {
    ObjectRef::cluster("management.cattle.io", "NodeDriver", NODE_DRIVER)
}

/// Rancher's flags and driver, as they are when it has started.
pub(super) fn rancher(cluster: &mut Cluster) {
    for (name, default) in [(FEATURE, true), (BAREMETAL, false)] {
        cluster.put(
            feature(name),
            json!({"apiVersion": "management.cattle.io/v3", "kind": "Feature", "spec": {},
                "status": {"default": default, "dynamic": true}}),
        );
    }
    cluster.put(
        node_driver(),
        json!({"apiVersion": "management.cattle.io/v3", "kind": "NodeDriver",
            "spec": {"active": true, "url": "https://releases.rancher.com/harvester-node-driver/"}}),
    );
}
