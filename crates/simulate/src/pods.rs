//! The checks of kube-apiserver when a Pod is created, in addition to its schema: the objects that it refers to must exist, and a
//! quota of its namespace may require resources.
//!
//! A Deployment or Job is created without its pods. Sources: Kubernetes 1.31 to 1.36, `plugin/pkg/admission` (`serviceaccount`,
//! `priority`, `runtimeclass`, `limitranger`) and `pkg/quota/v1/evaluator/core/pods.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windrow_model::manifest::ObjectRef;
use windrow_model::object::pods;

use super::cluster::SimulatedCluster;
use super::literals::{self, named};
use super::makers::who_may_bring;

/// A missing object without which a Pod is rejected.
struct PodLack {
    /// The object to create.
    object: ObjectRef,
    /// The message of kube-apiserver.
    says: String,
}

/// Rejects a Pod with a missing requirement that certainly nothing creates.
pub(super) fn admit(cluster: &SimulatedCluster, id: &ObjectRef, pod: &Value) -> Result<(), String> {
    if !is_pod(id) || cluster.has(id) {
        return Ok(());
    }
    let certain = lacks(cluster, id, &pod["spec"])
        .into_iter()
        .find(|lack| who_may_bring(cluster, &lack.object, id).is_none());
    match certain {
        Some(lack) => Err(format!("pods \"{}\" is forbidden: {}", id.name, lack.says)),
        None => Ok(()),
    }
}

/// Pods that kube-apiserver rejects unless something creates their missing requirements, a sentence each.
pub(super) fn may_be_refused(cluster: &SimulatedCluster) -> impl Iterator<Item = String> {
    let pods = cluster.of_kind(&literals::kind("", "Pod"));
    let of_manifests = pods.filter(|(_, pod)| pod.is_of_a_manifest());
    of_manifests.filter_map(|(id, pod)| {
        let lack = lacks(cluster, id, pod.spec()).into_iter().next()?;
        let who = who_may_bring(cluster, &lack.object, id)?;
        Some(format!(
            "{id} is refused ({}), unless {who} brings {}",
            lack.says, lack.object.kind
        ))
    })
}

fn is_pod(id: &ObjectRef) -> bool {
    id.group.is_empty() && id.kind == "Pod"
}

/// In kube-apiserver's order.
fn lacks(cluster: &SimulatedCluster, id: &ObjectRef, spec: &Value) -> Vec<PodLack> {
    let namespace = id.namespace_or_default();
    let name = |key: &str| spec[key].as_str().filter(|name| !name.is_empty());
    let account = name("serviceAccountName").or_else(|| name("serviceAccount"));
    // A controller creates `default` as soon as the namespace exists.
    let account = account.filter(|name| *name != "default").map(|name| PodLack {
        object: named("", "ServiceAccount", Some(namespace), name),
        says: format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        ),
    });
    // Every kube-apiserver has these two.
    let of_every = |name: &&str| ["system-cluster-critical", "system-node-critical"].contains(name);
    let class = name("priorityClassName").filter(|name| !of_every(name));
    let priority = class.map(|name| PodLack {
        object: named("scheduling.k8s.io", "PriorityClass", None, name),
        says: format!("no PriorityClass with name {name} was found"),
    });
    let runtime = name("runtimeClassName").map(|name| PodLack {
        object: named("node.k8s.io", "RuntimeClass", None, name),
        says: format!("pod rejected: RuntimeClass \"{name}\" not found"),
    });
    let named = [account, priority, runtime].into_iter().flatten();
    let absent = named.filter(|lack| !cluster.has(&lack.object));
    absent
        .chain(unmet_quota(cluster, namespace, spec))
        .collect()
}

/// A quota that counts CPU or memory rejects pods that do not set them.
fn unmet_quota(cluster: &SimulatedCluster, namespace: &str, spec: &Value) -> Option<PodLack> {
    // Resources of the whole pod can replace those of its containers.
    if spec["resources"].is_object() {
        return None;
    }
    let in_namespace = |kind| {
        let all = cluster.of_kind(&literals::kind("", kind));
        all.filter(|(id, _)| id.namespace.as_deref() == Some(namespace))
    };
    let defaults: Vec<&Value> = in_namespace("LimitRange")
        .map(|(_, range)| range.spec())
        .collect();
    in_namespace("ResourceQuota").find_map(|(quota, stored)| {
        let quota_spec = stored.spec();
        // The pods that a scope selects are not modelled.
        if !quota_spec["scopes"].is_null() || !quota_spec["scopeSelector"].is_null() {
            return None;
        }
        let hard = quota_spec["hard"].as_object()?;
        let missing = unsaid(hard.keys().map(String::as_str), spec, &defaults);
        (!missing.is_empty()).then(|| PodLack {
            object: named("", "LimitRange", Some(namespace), ""),
            says: format!("failed quota: {}: must specify {missing}", quota.name),
        })
    })
}

/// The counted resources, and the containers that do not set them.
fn unsaid<'h>(counted: impl Iterator<Item = &'h str>, spec: &Value, defaults: &[&Value]) -> String {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers = pods::containers(spec).map(|container| container.node);
    let containers: Vec<&Value> = containers.collect();
    for counted in counted {
        let (what, resource) = match counted {
            "cpu" | "memory" => ("requests", counted),
            _ => match counted.split_once('.') {
                Some((what, resource @ ("cpu" | "memory"))) => (what, resource),
                _ => continue,
            },
        };
        // A limit also counts as a request if there is no other.
        let fields: &[&str] = match what {
            "requests" => &["requests", "limits"],
            "limits" => &["limits"],
            _ => continue,
        };
        let ranges: &[&str] = match what {
            "requests" => &["defaultRequest", "default", "max", "min"],
            _ => &["default", "max"],
        };
        let is_given = defaults.iter().any(|range| gives(range, ranges, resource));
        for container in &containers {
            let says = fields
                .iter()
                .any(|field| !container["resources"][*field][resource].is_null());
            if !says && !is_given {
                let name = container["name"].as_str().unwrap_or_default();
                missing.entry(counted).or_default().insert(name);
            }
        }
    }
    let missing = missing.into_iter().map(|(resource, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{resource} for: {}", containers.join(","))
    });
    missing.collect::<Vec<_>>().join("; ")
}

/// Does a LimitRange set this resource for containers?
fn gives(range: &Value, fields: &[&str], resource: &str) -> bool {
    let items = range["limits"].as_array().into_iter().flatten();
    let mut of_containers = items.filter(|item| item["type"] == "Container");
    of_containers.any(|item| fields.iter().any(|field| !item[*field][resource].is_null()))
}
