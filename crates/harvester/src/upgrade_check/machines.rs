//! What Harvester's webhook looks at of Machines (of Cluster API) and of virtual machines.

use std::collections::BTreeMap;

use serde_json::Value;

use super::preflight::{is, or_absent, seen_in};
use super::{Cluster, Looked, NoAnswer, Seen, is_witness};
use crate::objects::{ObjectKind, items, named, text, texts};
use crate::schedule::NodeSelector;
use crate::versions::{Fact, Holds};

pub(super) fn running(cluster: &Cluster<'_>) -> Looked {
    Ok(of_fleet(cluster)?
        .filter(|machine| text(machine, "/status/phase") != "Running")
        .map(|machine| {
            let phase = or_absent(text(machine, "/status/phase"));
            seen_in("Machine", machine, "status.phase", phase)
        })
        .collect())
}

fn of_fleet<'o>(cluster: &Cluster<'o>) -> Result<impl Iterator<Item = &'o Value>, NoAnswer> {
    let machines = cluster.all(ObjectKind::CAPI_MACHINE)?.iter();
    Ok(machines.filter(|machine| text(machine, "/metadata/namespace") == "fleet-local"))
}

pub(super) fn matching(cluster: &Cluster<'_>) -> Looked {
    const MANAGED: &str = "harvesterhci.io/managed";
    const MACHINE: &str = "cluster.x-k8s.io/machine";
    let nodes = cluster.nodes()?;
    let machines: BTreeMap<&str, &Value> = of_fleet(cluster)?
        .map(|machine| (text(machine, "/metadata/name"), machine))
        .collect();
    let mut seen = Seen::default();
    if nodes.len() != machines.len() {
        let counts = format!("{} nodes and {} Machines", nodes.len(), machines.len());
        seen.wrong("Machines in fleet-local", "number", counts);
    }
    for machine in machines.values() {
        if text(machine, "/status/nodeRef/name").is_empty() {
            seen.wrong(
                format!("Machine {}", named(machine)),
                "status.nodeRef",
                "absent",
            );
        }
    }
    for node in nodes {
        let subject = format!("Node {}", named(node));
        let labels = texts(node, "/metadata/labels");
        if labels.get(MANAGED).map(String::as_str) != Some("true") {
            seen.wrong(&subject, &format!("metadata.labels[{MANAGED}]"), "not true");
        }
        let annotations = texts(node, "/metadata/annotations");
        let field = format!("metadata.annotations[{MACHINE}]");
        let Some(name) = annotations.get(MACHINE).filter(|name| !name.is_empty()) else {
            seen.wrong(&subject, &field, "absent");
            continue;
        };
        match machines.get(name.as_str()) {
            None => seen.wrong(&subject, &field, format!("{name}, which does not exist")),
            Some(machine) => {
                let there = text(machine, "/status/nodeRef/name");
                if there != named(node) && !there.is_empty() {
                    seen.wrong(&subject, &field, format!("{name}, whose node is {there}"));
                }
            }
        }
    }
    Ok(seen)
}

/// Does the upgrade shut every machine down, so that none has to migrate? Then the webhook asks nothing of them.
fn all_are_shut_down(cluster: &Cluster<'_>) -> Result<bool, NoAnswer> {
    if nodes_for_machines(cluster)?.len() == 1 {
        return Ok(true);
    }
    if !cluster.holds(Fact::PreflightRestoredMachines).assumed() {
        return Ok(false);
    }
    let setting = cluster
        .objects
        .get(ObjectKind::SETTING, "", "upgrade-config")?;
    let configured = setting.map(|setting| match text(setting, "/value") {
        "" => text(setting, "/default"),
        value => value,
    });
    let configured = configured.and_then(|value| serde_json::from_str::<Value>(value).ok());
    Ok(configured.is_some_and(|value| is(&value, "/restoreVM")))
}

/// The nodes that the webhook takes machines to run on.
fn nodes_for_machines<'o>(cluster: &Cluster<'o>) -> Result<Vec<&'o Value>, NoAnswer> {
    let without_witness = cluster.holds(Fact::PreflightLeavesOutWitnesses).assumed();
    let nodes = cluster.nodes()?.iter();
    Ok(nodes
        .filter(|node| !(without_witness && is_witness(node)))
        .collect())
}

/// As the webhook sees it; KubeVirt's own condition is not read there (`pkg/util/virtualmachineinstance`
/// GetAllNonLiveMigratableVMINames).
pub(super) fn migratable(cluster: &Cluster<'_>) -> Looked {
    let mut seen = Seen::default();
    if all_are_shut_down(cluster)? {
        return Ok(seen);
    }
    let nodes = nodes_for_machines(cluster)?;
    let media = cluster.holds(Fact::PreflightCountsMedia);
    for machine in cluster.all(ObjectKind::VMI)? {
        let subject = format!("VirtualMachineInstance {}", named(machine));
        let has = |pointer: &str| {
            machine
                .pointer(pointer)
                .is_some_and(|value| !value.is_null())
        };
        if has("/spec/nodeSelector") {
            seen.wrong(subject, "spec.nodeSelector", "is set");
        } else if has("/spec/domain/devices/hostDevices") {
            seen.wrong(subject, "spec.domain.devices.hostDevices", "is set");
        } else if !fits_elsewhere(machine, &nodes).map_err(NoAnswer::Unknown)? {
            seen.wrong(
                subject,
                "spec.affinity.nodeAffinity",
                "no other node that takes pods matches",
            );
        } else if let Some(field) = medium(machine) {
            match media {
                Holds::Yes => seen.wrong(subject, field, "is set"),
                Holds::No => {}
                Holds::Unknown { like, .. } => seen.unknown.push(format!(
                    "{subject}: whether {field} counts is known of v{like} only"
                )),
            }
        }
    }
    Ok(seen)
}

fn fits_elsewhere(machine: &Value, nodes: &[&Value]) -> Result<bool, String> {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let selector = NodeSelector::parse(machine.pointer(required))?;
    let here = text(machine, "/status/nodeName");
    let mut others = nodes
        .iter()
        .filter(|node| text(node, "/metadata/name") != here && !is(node, "/spec/unschedulable"));
    Ok(others.any(|node| {
        let labels = texts(node, "/metadata/labels");
        let name = text(node, "/metadata/name");
        selector
            .as_ref()
            .is_none_or(|selector| selector.matches(&labels, name))
    }))
}

/// A medium that is not in a volume of the cluster's.
fn medium(machine: &Value) -> Option<&'static str> {
    let has = |list: &str, field: &str| {
        let mut all = items(machine, list).iter();
        all.any(|one| one.pointer(field).is_some_and(|value| !value.is_null()))
    };
    match () {
        () if has("/spec/domain/devices/disks", "/cdrom") => {
            Some("spec.domain.devices.disks[].cdrom")
        }
        () if has("/spec/volumes", "/containerDisk") => Some("spec.volumes[].containerDisk"),
        () => None,
    }
}

pub(super) fn hotplug(cluster: &Cluster<'_>) -> Looked {
    let mut seen = Seen::default();
    if all_are_shut_down(cluster)? {
        return Ok(seen);
    }
    let machines = cluster.all(ObjectKind::VM)?;
    for machine in machines {
        if !items(machine, "/status/volumeRequests").is_empty() {
            seen.wrong.push(seen_in(
                "VirtualMachine",
                machine,
                "status.volumeRequests",
                "is not empty",
            ));
        }
    }
    let instances = cluster.all(ObjectKind::VMI)?.iter();
    for instance in instances.filter(|one| text(one, "/status/phase") == "Running") {
        // Nothing takes volumes from an instance that no machine owns.
        let Some(machine) = machines.iter().find(|one| named(one) == named(instance)) else {
            continue;
        };
        let kept: Vec<&str> = items(machine, "/spec/template/spec/volumes")
            .iter()
            .map(|volume| text(volume, "/name"))
            .collect();
        for volume in items(instance, "/spec/volumes") {
            let plugged = is(volume, "/persistentVolumeClaim/hotpluggable")
                || is(volume, "/dataVolume/hotpluggable");
            let name = text(volume, "/name");
            if plugged && !kept.contains(&name) {
                let said = format!("{name}, which its VirtualMachine does not have");
                let evidence = seen_in("VirtualMachineInstance", instance, "spec.volumes", &said);
                seen.wrong.push(evidence);
            }
        }
    }
    Ok(seen)
}
