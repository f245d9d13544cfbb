//! The checks of Harvester's webhook for Machines (of Cluster API) and for VMs.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_harvester::objects::{ObjectKind, items, named, text, texts};
use windrow_harvester::schedule::NodeSelector;
use windrow_harvester::versions::{Fact, Holds};

use super::config::are_to_be_restored;
use super::preflight::{is, or_absent, seen_in};
use super::{CheckFacts, CheckResult, Cluster, NoFacts, is_witness};

pub(super) fn running(cluster: &Cluster<'_>) -> CheckResult {
    Ok(of_fleet(cluster)?
        .filter(|machine| text(machine, "/status/phase") != "Running")
        .map(|machine| {
            let phase = or_absent(text(machine, "/status/phase"));
            seen_in("Machine", machine, "status.phase", phase)
        })
        .collect())
}

fn of_fleet<'o>(cluster: &Cluster<'o>) -> Result<impl Iterator<Item = &'o Value>, NoFacts> {
    let machines = cluster.all(ObjectKind::CAPI_MACHINE)?.iter();
    Ok(machines.filter(|machine| text(machine, "/metadata/namespace") == "fleet-local"))
}

pub(super) fn matching(cluster: &Cluster<'_>) -> CheckResult {
    const MANAGED: &str = "harvesterhci.io/managed";
    const MACHINE: &str = "cluster.x-k8s.io/machine";
    let nodes = cluster.nodes()?;
    let machines: BTreeMap<&str, &Value> = of_fleet(cluster)?
        .map(|machine| (text(machine, "/metadata/name"), machine))
        .collect();
    let mut facts = CheckFacts::default();
    if nodes.len() != machines.len() {
        let counts = format!("{} nodes and {} Machines", nodes.len(), machines.len());
        facts.add("Machines in fleet-local", "number", counts);
    }
    for machine in machines.values() {
        if !has(machine, "/status/nodeRef") {
            facts.add(
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
            facts.add(&subject, &format!("metadata.labels[{MANAGED}]"), "not true");
        }
        let annotations = texts(node, "/metadata/annotations");
        let field = format!("metadata.annotations[{MACHINE}]");
        let Some(name) = annotations.get(MACHINE).filter(|name| !name.is_empty()) else {
            facts.add(&subject, &field, "absent");
            continue;
        };
        match machines.get(name.as_str()) {
            None => facts.add(&subject, &field, format!("{name}, which does not exist")),
            Some(machine) => {
                let there = text(machine, "/status/nodeRef/name");
                if there != named(node) && has(machine, "/status/nodeRef") {
                    let there = or_absent(there);
                    facts.add(&subject, &field, format!("{name}, whose node is {there}"));
                }
            }
        }
    }
    Ok(facts)
}

/// Does the upgrade shut down every VM that cannot migrate? Then the webhook does not check them.
fn all_are_shut_down(cluster: &Cluster<'_>) -> Result<bool, NoFacts> {
    let is_read = || cluster.holds(Fact::PreflightRestoredMachines).assumed();
    Ok(nodes_for_machines(cluster)?.len() == 1 || (is_read() && are_to_be_restored(cluster)?))
}

/// The nodes that the webhook considers for VMs.
fn nodes_for_machines<'o>(cluster: &Cluster<'o>) -> Result<Vec<&'o Value>, NoFacts> {
    let without_witness = cluster.holds(Fact::PreflightLeavesOutWitnesses).assumed();
    let nodes = cluster.nodes()?.iter();
    Ok(nodes
        .filter(|node| !(without_witness && is_witness(node)))
        .collect())
}

/// Can a VM migrate, in Harvester's view?
enum Migratability {
    Yes,
    /// The field that prevents it, and its problem.
    No(&'static str, &'static str),
    /// Windrow knows only for this other version whether this field counts.
    Unknown(&'static str, String),
}

/// The rules of the webhook and the upgrade's own Jobs; they do not read KubeVirt's own condition
/// (`pkg/util/virtualmachineinstance` GetAllNonLiveMigratableVMINames).
fn migratability(
    machine: &Value,
    nodes: &[&Value],
    media: &Holds,
) -> Result<Migratability, NoFacts> {
    if has(machine, "/spec/nodeSelector") {
        return Ok(Migratability::No("spec.nodeSelector", "is set"));
    }
    if has(machine, "/spec/domain/devices/hostDevices") {
        let field = "spec.domain.devices.hostDevices";
        return Ok(Migratability::No(field, "is set"));
    }
    if !fits_elsewhere(machine, nodes).map_err(NoFacts::Unknown)? {
        let field = "spec.affinity.nodeAffinity";
        let why = "no other node that takes pods matches";
        return Ok(Migratability::No(field, why));
    }
    Ok(match (medium(machine), media) {
        (Some(field), Holds::Yes) => Migratability::No(field, "is set"),
        (Some(field), Holds::Unknown { like, .. }) => {
            Migratability::Unknown(field, like.to_string())
        }
        _ => Migratability::Yes,
    })
}

pub(super) fn migratable(cluster: &Cluster<'_>) -> CheckResult {
    let mut facts = CheckFacts::default();
    if all_are_shut_down(cluster)? {
        return Ok(facts);
    }
    let nodes = nodes_for_machines(cluster)?;
    let media = cluster.holds(Fact::PreflightCountsMedia);
    for machine in cluster.all(ObjectKind::VMI)? {
        let subject = format!("VirtualMachineInstance {}", named(machine));
        match migratability(machine, &nodes, &media)? {
            Migratability::Yes => {}
            Migratability::No(field, why) => facts.add(subject, field, why),
            Migratability::Unknown(field, like) => facts.unknown.push(format!(
                "{subject}: whether {field} counts is known of v{like} only"
            )),
        }
    }
    Ok(facts)
}

/// Does the upgrade itself stop the VM of this pod before it drains its node? `None` if Windrow cannot tell.
pub(super) fn is_stopped(cluster: &Cluster<'_>, pod: &str) -> Result<Option<bool>, NoFacts> {
    let pods = cluster.all(ObjectKind::POD)?;
    let pod = pods.iter().find(|one| named(one) == pod);
    let owners = pod.map_or(&[][..], |pod| items(pod, "/metadata/ownerReferences"));
    let owner = owners
        .iter()
        .find(|owner| text(owner, "/kind") == "VirtualMachineInstance");
    let (Some(pod), Some(owner)) = (pod, owner) else {
        return Ok(Some(false));
    };
    let nodes = nodes_for_machines(cluster)?;
    if nodes.len() == 1 {
        return Ok(Some(true));
    }
    if !are_to_be_restored(cluster)? {
        return Ok(Some(false));
    }
    match cluster.holds(Fact::PreflightRestoredMachines) {
        Holds::Yes => {}
        Holds::No => return Ok(Some(false)),
        Holds::Unknown { .. } => return Ok(None),
    }
    let (namespace, name) = (text(pod, "/metadata/namespace"), text(owner, "/name"));
    let Some(machine) = cluster.objects.get(ObjectKind::VMI, namespace, name)? else {
        return Ok(Some(false));
    };
    let media = cluster.holds(Fact::PreflightCountsMedia);
    Ok(match migratability(machine, &nodes, &media)? {
        Migratability::Yes => Some(false),
        Migratability::No(..) => Some(true),
        Migratability::Unknown(..) => None,
    })
}

fn has(object: &Value, pointer: &str) -> bool {
    let value = object.pointer(pointer);
    value.is_some_and(|value| !value.is_null())
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

/// A medium that is outside the cluster's volumes.
fn medium(machine: &Value) -> Option<&'static str> {
    let any = |list: &str, field: &str| {
        let mut all = items(machine, list).iter();
        all.any(|one| has(one, field))
    };
    match () {
        () if any("/spec/domain/devices/disks", "/cdrom") => {
            Some("spec.domain.devices.disks[].cdrom")
        }
        () if any("/spec/volumes", "/containerDisk") => Some("spec.volumes[].containerDisk"),
        () => None,
    }
}

pub(super) fn hotplug(cluster: &Cluster<'_>) -> CheckResult {
    let mut facts = CheckFacts::default();
    if all_are_shut_down(cluster)? {
        return Ok(facts);
    }
    let machines = cluster.all(ObjectKind::VM)?;
    for machine in machines {
        if !items(machine, "/status/volumeRequests").is_empty() {
            facts.problems.push(seen_in(
                "VirtualMachine",
                machine,
                "status.volumeRequests",
                "is not empty",
            ));
        }
    }
    let instances = cluster.all(ObjectKind::VMI)?.iter();
    for instance in instances.filter(|one| text(one, "/status/phase") == "Running") {
        // Nothing takes volumes from an instance that no VM owns.
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
                facts.problems.push(evidence);
            }
        }
    }
    Ok(facts)
}
