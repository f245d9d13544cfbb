//! A pod, as far as the scheduler looks at it.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_model::object::{Labels, ObjectView, pods};

use super::affinity::{Affinity, Spread};
use super::node::Taint;
use super::selector::NodeSelector;
use crate::objects::{items, text, texts};
use windrow_model::quantity::milli;

/// In thousandths.
pub(super) type ResourceRequests = BTreeMap<String, i128>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerPod {
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    /// The node that it is bound to; `None` while it waits for one.
    pub node: Option<String>,
    pub ready: bool,
    /// Has it ended, or is it ending (`Succeeded`, `Failed`)?
    pub ended: bool,
    pub terminating: bool,
    /// `Pending`: nothing of it ran yet.
    pub pending: bool,
    /// Preemption can make room for a higher priority.
    pub priority: i64,
    pub preempts: bool,
    pub requests: ResourceRequests,
    /// Host ports as `protocol/port`, with the address.
    pub host_ports: Vec<HostPort>,
    pub node_selector: Labels,
    /// Only the required terms.
    pub node_affinity: Option<NodeSelector>,
    pub tolerations: Vec<Toleration>,
    /// Only the required terms.
    pub affinity: Vec<Affinity>,
    /// Only the required terms.
    pub anti_affinity: Vec<Affinity>,
    pub spread: Vec<Spread>,
    pub claims: Vec<String>,
    /// Why Windrow cannot tell where the pod could run, if so.
    pub beyond: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    protocol: String,
    address: String,
    port: i64,
}

impl HostPort {
    pub fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |address: &str| matches!(address, "" | "0.0.0.0");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || everywhere(&self.address)
                || everywhere(&other.address))
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.protocol, self.port)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toleration {
    key: String,
    exists: bool,
    value: String,
    effect: String,
    /// The operator is one of later versions.
    unknown: bool,
}

impl Toleration {
    fn parse(value: &Value) -> Self {
        let operator = text(value, "/operator");
        Self {
            key: text(value, "/key").to_owned(),
            exists: operator == "Exists",
            value: text(value, "/value").to_owned(),
            effect: text(value, "/effect").to_owned(),
            unknown: !matches!(operator, "" | "Equal" | "Exists"),
        }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || (self.key.is_empty() && self.exists))
            && (self.exists || self.value == taint.value)
    }
}

impl SchedulerPod {
    /// Does a term of affinity select it? `labels` are those of its namespace, if they could be read.
    pub fn is_meant_by(&self, term: &Affinity, labels: Option<&Labels>) -> bool {
        term.selects(&self.labels, &self.namespace, labels)
    }

    /// Does a topology spread constraint of a pod of this namespace count it?
    pub fn is_counted_by(&self, spread: &Spread, namespace: &str) -> bool {
        self.namespace == namespace && !self.terminating && spread.selects(&self.labels)
    }

    /// Reads a Pod.
    ///
    /// # Errors
    ///
    /// The part that cannot be read.
    pub fn parse(object: &Value) -> Result<Self, String> {
        let (namespace, name) = (
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name"),
        );
        Self::read(object, namespace, name).map_err(|why| format!("Pod {namespace}/{name}: {why}"))
    }

    fn read(object: &Value, namespace: &str, name: &str) -> Result<Self, String> {
        let phase = text(object, "/status/phase");
        let affinity = |pointer: &str| -> Result<Vec<Affinity>, String> {
            items(object, pointer)
                .iter()
                .map(|term| Affinity::parse(term, namespace))
                .collect()
        };
        let labels = texts(object, "/metadata/labels");
        let tolerations: Vec<Toleration> = items(object, "/spec/tolerations")
            .iter()
            .map(Toleration::parse)
            .collect();
        let beyond = beyond(object, &tolerations);
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: Some(text(object, "/spec/nodeName").to_owned()).filter(|node| !node.is_empty()),
            ready: crate::objects::is_true(object, "Ready"),
            ended: matches!(phase, "Succeeded" | "Failed"),
            terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
            pending: phase == "Pending",
            priority: object
                .pointer("/spec/priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            preempts: text(object, "/spec/preemptionPolicy") != "Never",
            requests: requests(object)?,
            host_ports: host_ports(object),
            node_selector: texts(object, "/spec/nodeSelector"),
            node_affinity: NodeSelector::parse(object.pointer(
                "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            ))?,
            affinity: affinity(
                "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            )?,
            anti_affinity: affinity(
                "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            )?,
            spread: Spread::parse_all(items(object, "/spec/topologySpreadConstraints"), &labels)?,
            tolerations,
            claims: items(object, "/spec/volumes")
                .iter()
                .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
                .filter(|claim| !claim.is_empty())
                .map(str::to_owned)
                .collect(),
            beyond,
            labels,
        })
    }

    /// `namespace/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|one| one.tolerates(taint))
    }

    /// Does it occupy resources on its node?
    pub fn is_there(&self) -> bool {
        self.node.is_some() && !self.ended
    }
}

/// A requirement on the scheduler that Windrow does not model.
fn beyond(object: &Value, tolerations: &[Toleration]) -> Option<String> {
    let scheduler = text(object, "/spec/schedulerName");
    if !matches!(scheduler, "" | "default-scheduler") {
        return Some(format!("the scheduler {scheduler} decides where it runs"));
    }
    if !items(object, "/spec/resourceClaims").is_empty() {
        return Some("it claims devices (resourceClaims)".to_owned());
    }
    tolerations
        .iter()
        .any(|one| one.unknown)
        .then(|| "it has a toleration with an unknown operator".to_owned())
}

fn host_ports(object: &Value) -> Vec<HostPort> {
    pods::containers_before_init(&object["spec"])
        .flat_map(|container| container.node.list("ports"))
        .filter_map(|port| {
            let number = port
                .pointer("/hostPort")?
                .as_i64()
                .filter(|port| *port > 0)?;
            Some(HostPort {
                protocol: match text(port, "/protocol") {
                    "" => "TCP".to_owned(),
                    protocol => protocol.to_owned(),
                },
                address: text(port, "/hostIP").to_owned(),
                port: number,
            })
        })
        .collect()
}

/// The requests of a pod: containers and sidecars together, or an init container with its sidecars if that is more, and the overhead.
/// Requests of the pod as a whole replace them.
fn requests(object: &Value) -> Result<ResourceRequests, String> {
    let mut sum = ResourceRequests::new();
    let mut sidecars = ResourceRequests::new();
    let mut peak = ResourceRequests::new();
    for container in pods::containers_before_init(&object["spec"]) {
        let mut asked = resource_list(container.node, "/resources/requests")?;
        if !container.is_init() {
            add(&mut sum, &asked);
        } else if container.node.text("restartPolicy") == "Always" {
            add(&mut sum, &asked);
            add(&mut sidecars, &asked);
            largest(&mut peak, &sidecars);
        } else {
            add(&mut asked, &sidecars);
            largest(&mut peak, &asked);
        }
    }
    largest(&mut sum, &peak);
    for (resource, value) in resource_list(object, "/spec/resources/requests")? {
        sum.insert(resource, value);
    }
    add(&mut sum, &resource_list(object, "/spec/overhead")?);
    Ok(sum)
}

fn resource_list(object: &Value, pointer: &str) -> Result<ResourceRequests, String> {
    texts(object, pointer)
        .into_iter()
        .map(|(resource, quantity)| match milli(&quantity) {
            Some(value) => Ok((resource, value)),
            None => Err(format!("the amount of {resource} is not a quantity")),
        })
        .collect()
}

fn add(sum: &mut ResourceRequests, more: &ResourceRequests) {
    for (resource, value) in more {
        *sum.entry(resource.clone()).or_default() += value;
    }
}

fn largest(most: &mut ResourceRequests, other: &ResourceRequests) {
    for (resource, value) in other {
        let known = most.entry(resource.clone()).or_default();
        *known = (*known).max(*value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> SchedulerPod {
        SchedulerPod::parse(&json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
            .unwrap()
    }

    fn asks(cpu: &str) -> Value {
        json!({"requests": {"cpu": cpu}})
    }

    #[test]
    fn init_containers_count_at_their_hour_and_sidecars_always() {
        let spec = json!({
            "containers": [{"resources": asks("1")}, {"resources": asks("500m")}],
            "initContainers": [
                {"resources": asks("2")},
                {"restartPolicy": "Always", "resources": asks("250m")},
                {"resources": asks("1800m")}
            ],
            "overhead": {"cpu": "10m"}
        });
        // Containers and the sidecar: 1750m; the last init container with the sidecar: 2050m.
        assert_eq!(pod(spec).requests["cpu"], 2060);
    }

    #[test]
    fn requests_of_the_pod_take_the_place_of_those_of_its_containers() {
        let spec = json!({"containers": [{"resources": asks("1")}], "resources": asks("3")});
        assert_eq!(pod(spec).requests["cpu"], 3000);
    }

    #[test]
    fn a_toleration_without_a_key_tolerates_everything() {
        let all = pod(json!({"tolerations": [{"operator": "Exists"}]}));
        let one = pod(json!({"tolerations": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}));
        let taint = |key: &str, value: &str, effect: &str| Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        };
        assert!(all.tolerates(&taint("x", "y", "NoExecute")));
        assert!(one.tolerates(&taint("a", "b", "NoSchedule")));
        assert!(!one.tolerates(&taint("a", "c", "NoSchedule")));
        assert!(!one.tolerates(&taint("a", "b", "NoExecute")));
    }

    #[test]
    fn what_is_not_modelled_is_said() {
        let custom = pod(json!({"schedulerName": "mine"}));
        assert!(custom.beyond.unwrap().contains("scheduler mine"));
        let devices = pod(json!({"resourceClaims": [{"name": "gpu"}]}));
        assert!(devices.beyond.is_some());
        let wrong = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"resources": asks("lots")}]}});
        assert_eq!(
            SchedulerPod::parse(&wrong).unwrap_err(),
            "Pod n/p: the amount of cpu is not a quantity"
        );
    }
}
