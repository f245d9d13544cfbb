//! The missing requirements of virtual machines and charts, and whether anything may still create them.
//!
//! A VM with a missing requirement never runs if it is certain that nothing creates it. It is uncertain if the manifests contain
//! an object whose effects are not simulated: a chart, an object of an unknown operator, pods with rights of their own.

use serde_json::Value;
use windrow_model::manifest::ObjectRef;

use super::claims::claims;
use super::cluster::{SimulatedCluster, Stored};
use super::literals::{self, named};
use super::machines::{self, MACHINES};
use super::makers::who_may_bring;

/// A missing requirement of a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LackingPart {
    /// The object to create.
    pub(super) object: ObjectRef,
    /// In words.
    pub(super) says: String,
}

impl LackingPart {
    fn absent(object: ObjectRef) -> Self {
        let says = format!("{object} does not exist");
        Self { object, says }
    }
}

/// The missing requirements of the VM: bound claims, networks and Secrets.
pub(super) fn lacking_parts<'a>(
    cluster: &'a SimulatedCluster,
    id: &'a ObjectRef,
    machine: &'a Stored,
) -> impl Iterator<Item = LackingPart> + 'a {
    let namespace = id.namespace_or_default();
    let spec = &machine.spec()["template"]["spec"];
    let object = move |group: &'static str, kind: &'static str, name: &str| {
        let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
        named(group, kind, Some(namespace), name)
    };
    let claims = claims(spec).filter_map(move |name| lacking_claim(cluster, id, machine, name));
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let secrets = volumes.flat_map(|volume| {
        let init = &volume["cloudInitNoCloud"];
        [
            &init["secretRef"]["name"],
            &init["networkDataSecretRef"]["name"],
        ]
    });
    let secrets = secrets
        .filter_map(Value::as_str)
        .map(move |name| object("", "Secret", name));
    let networks = spec["networks"].as_array().into_iter().flatten();
    let networks = networks
        .filter_map(|network| network["multus"]["networkName"].as_str())
        .map(move |name| object("k8s.cni.cncf.io", "NetworkAttachmentDefinition", name));
    let objects = secrets.chain(networks);
    let absent = objects.filter(|object| !cluster.has(object));
    claims.chain(absent.map(LackingPart::absent))
}

/// The reason why a claim of a VM is not bound; `None` if it is.
fn lacking_claim(
    cluster: &SimulatedCluster,
    id: &ObjectRef,
    machine: &Stored,
    name: &str,
) -> Option<LackingPart> {
    let claim = named(
        "",
        "PersistentVolumeClaim",
        id.namespace.as_deref().or(Some("default")),
        name,
    );
    let Some(stored) = cluster.stored(&claim) else {
        let image = machines::image_of_claim(machine, name);
        return Some(match image.filter(|image| !cluster.has(image)) {
            Some(image) => LackingPart {
                says: format!("{image} does not exist, and {claim} is made of it"),
                object: image,
            },
            None => LackingPart::absent(claim),
        });
    };
    if stored.status()["phase"] == "Bound" {
        return None;
    }
    let class = stored.spec()["storageClassName"].as_str();
    let class = class.filter(|class| !class.is_empty());
    let class = class.map(|class| named("storage.k8s.io", "StorageClass", None, class));
    Some(match class.filter(|class| !cluster.has(class)) {
        Some(class) => LackingPart {
            says: format!("{claim} is not bound: {class} does not exist"),
            object: class,
        },
        None => LackingPart {
            says: format!("{claim} is not bound"),
            object: claim,
        },
    })
}

fn idle_machines(cluster: &SimulatedCluster) -> impl Iterator<Item = (&ObjectRef, &Stored)> {
    // Nothing simulates the start of VMs whose kind is only assumed to come from an installer.
    let mut guesses = cluster.may_bring.values();
    let is_guessed = guesses.any(|guess| guess.kinds.contains_key(&MACHINES));
    cluster.of_kind(&MACHINES).filter(move |(_, machine)| {
        !is_guessed
            && machines::starts(machine.spec())
            && machine.status()["printableStatus"] != "Running"
    })
}

/// The target namespace of a HelmChart, if it does not exist and the chart does not create it: `helm install` then fails, over
/// and over (helm-controller passes `--create-namespace` only for `createNamespace`).
pub(super) fn target_namespace(cluster: &SimulatedCluster, chart: &ObjectRef) -> Option<ObjectRef> {
    let spec = cluster.stored(chart)?.spec();
    let name = spec["targetNamespace"].as_str()?;
    let namespace = named("", "Namespace", None, name);
    let creates = spec["createNamespace"] == true || name.is_empty();
    (!creates && !cluster.has(&namespace)).then_some(namespace)
}

/// Charts without their target namespace: why they are not installed, and what may still create the namespace.
fn homeless_charts(cluster: &SimulatedCluster) -> impl Iterator<Item = (String, Option<String>)> {
    let kind = literals::kind("helm.cattle.io", "HelmChart");
    let charts: Vec<&ObjectRef> = cluster.of_kind(&kind).map(|(id, _)| id).collect();
    charts.into_iter().filter_map(|id| {
        let namespace = target_namespace(cluster, id)?;
        let says = format!("{id} is not installed: {namespace} does not exist");
        let other = || cluster.makes_namespaces.as_deref().map(str::to_owned);
        Some((says, who_may_bring(cluster, &namespace, id).or_else(other)))
    })
}

/// Charts that are never installed, and why, a sentence each.
pub(super) fn never_installed(cluster: &SimulatedCluster) -> impl Iterator<Item = String> {
    let charts = homeless_charts(cluster);
    charts.filter_map(|(says, who)| who.is_none().then_some(says))
}

/// Charts that may or may not be installed, and why, a sentence each.
pub(super) fn may_be_installed(cluster: &SimulatedCluster) -> impl Iterator<Item = String> {
    let charts = homeless_charts(cluster);
    charts.filter_map(|(says, who)| Some(format!("{says}, unless {} brings it", who?)))
}

/// VMs that never run, and why, a sentence each.
pub(super) fn never_run(cluster: &SimulatedCluster) -> impl Iterator<Item = String> {
    idle_machines(cluster).filter_map(|(id, machine)| {
        let mut parts = lacking_parts(cluster, id, machine).peekable();
        if parts.peek().is_none() {
            return Some(format!("{id} does not run"));
        }
        let certain = parts.find(|part| who_may_bring(cluster, &part.object, id).is_none())?;
        Some(format!("{id} does not run: {}", certain.says))
    })
}

/// VMs that may or may not run, and why, a sentence each.
pub(super) fn may_run(cluster: &SimulatedCluster) -> impl Iterator<Item = String> {
    idle_machines(cluster).filter_map(|(id, machine)| {
        let mut doubtful = None;
        for part in lacking_parts(cluster, id, machine) {
            let who = who_may_bring(cluster, &part.object, id)?;
            doubtful.get_or_insert((part, who));
        }
        let (part, who) = doubtful?;
        Some(format!(
            "{id} does not run: {}, unless {who} brings it",
            part.says
        ))
    })
}
