//! The amounts that objects and their pods use of the resources that LimitRanges and ResourceQuotas limit.

use std::collections::BTreeMap;

use windrow_model::manifest::{MapEntry, Node, Object};
use windrow_model::object::{plural_of, pods};
use windrow_plan::knowledge::{NodeFacts, kubernetes_scope};

use crate::cross_check::refusals::shown;
use crate::quantity;

/// The value 1 in billionths, the unit of quantities.
const ONE: i128 = 1_000_000_000;

pub(super) type Amounts = BTreeMap<String, i128>;

/// The limits and requests of a container, or of a pod as a whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    limits: Amounts,
    requests: Amounts,
    is_init: bool,
}

impl Asked {
    /// Those of a pod. A limit without a request is a request as well. None if the pod as a whole has requests.
    pub(super) fn of_containers(spec: &Node) -> Vec<Self> {
        if spec.get("resources").is_some_and(|node| !node.is_null()) {
            return Vec::new();
        }
        let asked = pods::containers_before_init(spec).map(|container| {
            let limits = amounts(container.node.at(&["resources", "limits"]));
            let mut requests = limits.clone();
            requests.extend(amounts(container.node.at(&["resources", "requests"])));
            Self {
                limits,
                requests,
                is_init: container.is_init(),
            }
        });
        asked.collect()
    }

    /// The minimum that a pod uses: sidecars and a RuntimeClass may use more.
    pub(super) fn of_pod(containers: &[Self]) -> Self {
        let mut whole = Self::default();
        for container in containers {
            let add = |all: &mut Amounts, of: &Amounts| {
                for (name, amount) in of {
                    let taken = all.entry(name.clone()).or_default();
                    *taken = match container.is_init {
                        true => (*taken).max(*amount),
                        false => *taken + amount,
                    };
                }
            };
            add(&mut whole.limits, &container.limits);
            add(&mut whole.requests, &container.requests);
        }
        whole
    }

    /// The resource whose request is greater than its limit.
    pub(super) fn beyond_limit(&self) -> Option<&str> {
        let mut requests = self.requests.iter();
        let beyond = requests.find(|(name, asked)| {
            let most = self.limits.get(*name);
            most.is_some_and(|most| *asked > most)
        });
        beyond.map(|(name, _)| name.as_str())
    }

    /// Why an item of a LimitRange rejects it; `who` is its name in messages. For a pod Windrow knows only the minimum.
    pub(super) fn outside(&self, item: &Node, who: &str) -> Option<String> {
        let bounds = |field: &str| item.get(field).map_or(&[][..], Node::entries).iter();
        let values = |name: &String| {
            [self.requests.get(name), self.limits.get(name)]
                .into_iter()
                .flatten()
        };
        let is_whole = who == "a pod";
        let less = bounds("min").find(|bound| {
            let least = quantity(&bound.value).filter(|_| !is_whole);
            values(&bound.key).any(|value| least.is_some_and(|least| *value < least))
        });
        let more = bounds("max").find(|bound| {
            let most = quantity(&bound.value);
            values(&bound.key).any(|value| most.is_some_and(|most| *value > most))
        });
        let words = |bound: &MapEntry, how: &str| {
            format!("{who} has {how} {} {}", shown(&bound.value), bound.key)
        };
        less.map(|bound| words(bound, "less than"))
            .or_else(|| more.map(|bound| words(bound, "more than")))
    }

    /// A value that such an item requires but that is absent.
    pub(super) fn unsaid(&self, item: &Node, who: &str) -> Option<String> {
        let bounds = |field: &str| item.get(field).map_or(&[][..], Node::entries).iter();
        let request = bounds("min").find(|bound| !self.requests.contains_key(&bound.key));
        let limit = || bounds("max").find(|bound| !self.limits.contains_key(&bound.key));
        let (what, bound) = match request {
            Some(bound) => ("request", bound),
            None => ("limit", limit()?),
        };
        Some(format!("{who} has no {what} of {}", bound.key))
    }

    /// The amounts that quotas count for a pod, by the names that quotas have for them.
    pub(super) fn counted(&self) -> Amounts {
        let mut counted = Amounts::from([("pods".to_owned(), ONE), ("count/pods".to_owned(), ONE)]);
        for (name, amount) in &self.requests {
            counted.insert(format!("requests.{name}"), *amount);
            if !name.contains('/') {
                counted.insert(name.clone(), *amount);
            }
        }
        let limits = self.limits.iter().filter(|(name, _)| !name.contains('/'));
        counted.extend(limits.map(|(name, amount)| (format!("limits.{name}"), *amount)));
        counted
    }

    /// Whether a quota that counts this resource requires each container to set it, and the container does not.
    pub(super) fn does_not_say(&self, counted: &str) -> bool {
        let (said, resource) = match counted.split_once('.') {
            Some(("limits", resource)) => (&self.limits, resource),
            Some(("requests", resource)) => (&self.requests, resource),
            _ => (&self.requests, counted),
        };
        ["cpu", "memory"].contains(&resource) && !said.contains_key(resource)
    }
}

/// The values that a LimitRange gives to containers without them.
pub(super) struct Defaults {
    limits: Amounts,
    requests: Amounts,
}

impl Defaults {
    /// With the completions of kube-apiserver (`SetDefaults_LimitRangeItem`).
    pub(super) fn read(item: &Node) -> Self {
        let mut limits = amounts(item.get("default"));
        for (name, most) in amounts(item.get("max")) {
            limits.entry(name).or_insert(most);
        }
        let mut requests = amounts(item.get("defaultRequest"));
        let others = limits.clone().into_iter().chain(amounts(item.get("min")));
        for (name, amount) in others {
            requests.entry(name).or_insert(amount);
        }
        Self { limits, requests }
    }

    pub(super) fn fill(&self, container: &mut Asked) {
        for (name, amount) in &self.limits {
            container.limits.entry(name.clone()).or_insert(*amount);
        }
        for (name, amount) in &self.requests {
            container.requests.entry(name.clone()).or_insert(*amount);
        }
    }
}

fn amounts(list: Option<&Node>) -> Amounts {
    let entries = list.map_or(&[][..], Node::entries).iter();
    entries
        .filter_map(|entry| Some((entry.key.clone(), quantity(&entry.value)?)))
        .collect()
}

/// The amounts of an object that quotas count.
pub(super) fn takes(object: &Object) -> Amounts {
    let (node, id) = (&object.node, &object.id);
    let mut takes = Amounts::new();
    if kubernetes_scope(&id.group, &id.kind, &NodeFacts::default()) == Some(false) {
        return takes;
    }
    let mut take = |name: &str, amount: i128| {
        takes.insert(name.to_owned(), amount);
    };
    let resource = plural_of(&id.kind);
    if !id.group.is_empty() {
        take(&format!("count/{resource}.{}", id.group), ONE);
        return takes;
    }
    take(&format!("count/{resource}"), ONE);
    match id.kind.as_str() {
        "Service" => {
            let kind = node.str_at(&["spec", "type"]).unwrap_or("ClusterIP");
            let ports = node
                .at(&["spec", "ports"])
                .map_or(0, |ports| ports.items().len());
            let without = node.at(&["spec", "allocateLoadBalancerNodePorts"]);
            let without = without.and_then(Node::as_bool) == Some(false);
            take("services", ONE);
            if kind == "LoadBalancer" {
                take("services.loadbalancers", ONE);
            }
            if kind == "NodePort" || (kind == "LoadBalancer" && !without) {
                take("services.nodeports", ports as i128 * ONE);
            }
        }
        "PersistentVolumeClaim" => {
            let storage = node.at(&["spec", "resources", "requests", "storage"]);
            let storage = storage.and_then(quantity);
            take("persistentvolumeclaims", ONE);
            if let Some(storage) = storage {
                take("requests.storage", storage);
            }
            let class = node.str_at(&["spec", "storageClassName"]);
            if let Some(class) = class.filter(|class| !class.is_empty()) {
                let of_class = format!("{class}.storageclass.storage.k8s.io");
                take(&format!("{of_class}/persistentvolumeclaims"), ONE);
                if let Some(storage) = storage {
                    take(&format!("{of_class}/requests.storage"), storage);
                }
            }
        }
        "ConfigMap" | "Secret" | "ReplicationController" | "ResourceQuota" => take(&resource, ONE),
        _ => {}
    }
    takes
}
