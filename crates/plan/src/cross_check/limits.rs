//! LimitRanges and ResourceQuotas of the files, and what of the files they do not take.
//!
//! What comes after them in the order of the files is refused; what comes before may be quicker, and is not known.
//!
//! Sources: `plugin/pkg/admission/limitranger` and `pkg/quota/v1/evaluator/core` of k8s.io/kubernetes v1.31 to v1.36.

use std::collections::BTreeMap;

use windrow_apischema::quantity;
use windrow_model::findings::Location;
use windrow_model::manifest::{Node, Object, ObjectRef};

use super::refusals::{Refusals, in_cluster};
use crate::SourceMap;

/// One, as quantities are counted.
const ONE: i128 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Limits {
    ranges: Vec<Bound>,
    quotas: Vec<Bound>,
    users: Vec<User>,
    count: usize,
}

/// A LimitRange or ResourceQuota.
#[derive(Debug)]
struct Bound {
    of: ObjectRef,
    namespace: String,
    spec: Node,
    number: usize,
    at: Location,
}

/// What takes something of a namespace.
#[derive(Debug)]
struct User {
    of: ObjectRef,
    in_cluster: ObjectRef,
    namespace: String,
    /// What it takes of what quotas count.
    takes: BTreeMap<String, i128>,
    /// What each of its containers may take, and asks for.
    containers: Vec<Container>,
    /// What a claim asks for.
    storage: Option<i128>,
    is_pod: bool,
    number: usize,
    at: Location,
}

#[derive(Debug, Clone, Default)]
struct Container {
    limits: BTreeMap<String, i128>,
    requests: BTreeMap<String, i128>,
}

impl Limits {
    pub(super) fn add(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        self.count += 1;
        let kind = object.id.kind.as_str();
        if object.id.group.is_empty() && ["LimitRange", "ResourceQuota"].contains(&kind) {
            let Some(spec) = object.node.get("spec") else {
                return;
            };
            let bound = Bound {
                of: object.id.clone(),
                namespace: namespace.to_owned(),
                spec: spec.clone(),
                number: self.count,
                at: shown.at(Some(object.line)),
            };
            match kind {
                "LimitRange" => self.ranges.push(bound),
                _ => self.quotas.push(bound),
            }
        }
        let pods = object.pod_template().map(|pods| pods.spec);
        let takes = takes(object);
        if pods.is_none() && takes.is_empty() {
            return;
        }
        let storage = object
            .node
            .at(&["spec", "resources", "requests", "storage"]);
        self.users.push(User {
            of: object.id.clone(),
            in_cluster: in_cluster(object),
            namespace: namespace.to_owned(),
            takes,
            containers: pods.map_or(Vec::new(), containers),
            storage: storage
                .filter(|_| kind == "PersistentVolumeClaim")
                .and_then(quantity),
            is_pod: kind == "Pod",
            number: self.count,
            at: shown.at(Some(object.line)),
        });
    }

    /// `are_pods_changed`: something among the files may change pods before they are judged.
    pub(super) fn finish(
        &self,
        are_pods_changed: bool,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> Refusals {
        let mut all = Refusals::default();
        for user in self.users.iter().filter(|user| is_taken(&user.of)) {
            let ranges = self
                .ranges
                .iter()
                .filter(|range| range.namespace == user.namespace);
            let ranges: Vec<&Bound> = ranges.filter(|range| is_taken(&range.of)).collect();
            let Some((range, why)) = user.outside(&ranges) else {
                continue;
            };
            let is_pod = !user.containers.is_empty();
            let is_known = range.number < user.number && !(is_pod && are_pods_changed);
            refuse(&mut all, user, range, &why, is_known);
        }
        for quota in self.quotas.iter().filter(|quota| is_taken(&quota.of)) {
            self.exceed(quota, is_taken, &mut all);
        }
        all
    }

    fn exceed(&self, quota: &Bound, is_taken: &impl Fn(&ObjectRef) -> bool, all: &mut Refusals) {
        let is_set = |field: &str| quota.spec.get(field).is_some_and(|node| !node.is_null());
        if is_set("scopes") || is_set("scopeSelector") {
            return;
        }
        for hard in quota.spec.get("hard").map_or(&[][..], Node::entries) {
            let Some(most) = quantity(&hard.value) else {
                continue;
            };
            let (mut sum, mut after) = (0, 0);
            let mut counted: Vec<&ObjectRef> = Vec::new();
            for user in self
                .users
                .iter()
                .filter(|user| user.namespace == quota.namespace)
            {
                let Some(takes) = user.takes.get(&hard.key) else {
                    continue;
                };
                if counted.contains(&&user.in_cluster) || !is_taken(&user.of) {
                    continue;
                }
                counted.push(&user.in_cluster);
                sum += takes;
                after += if user.number > quota.number {
                    *takes
                } else {
                    0
                };
                if sum > most {
                    let allowed = super::refusals::shown(&hard.value);
                    let why = format!("with it more than {allowed} of {} are taken", hard.key);
                    refuse(all, user, quota, &why, after > most);
                    break;
                }
            }
        }
    }
}

fn refuse(all: &mut Refusals, user: &User, bound: &Bound, why: &str, is_known: bool) {
    let who = bound.of.to_string();
    let at = vec![user.at.clone(), bound.at.clone()];
    if !is_known {
        all.may_refuse(&user.of, &who, why, at);
        return;
    }
    all.refuse(&user.of, &who, why, at);
    if user.containers.is_empty() || user.is_pod {
        let says = format!("{} is forbidden: {who}: {why}", user.of);
        all.refused.insert(user.of.clone(), says);
    } else {
        let says = format!("{who} refuses its pods: {why}");
        all.without_pods.insert(user.in_cluster.clone(), says);
    }
}

impl User {
    /// The LimitRange that does not take it, and why.
    fn outside<'b>(&self, ranges: &[&'b Bound]) -> Option<(&'b Bound, String)> {
        let mut containers = self.containers.clone();
        for range in ranges {
            for item in items(range, "Container") {
                let defaults = Defaults::read(item);
                containers.iter_mut().for_each(|one| defaults.fill(one));
            }
        }
        let last = *ranges.last()?;
        let beyond = containers.iter().find_map(|container| {
            let mut requests = container.requests.iter();
            requests.find(|(name, asked)| {
                container
                    .limits
                    .get(*name)
                    .is_some_and(|most| *asked > most)
            })
        });
        if let Some((name, _)) = beyond {
            let why = format!("by its defaults a container asks for more {name} than it may take");
            return Some((last, why));
        }
        ranges.iter().find_map(|range| {
            let of_containers = items(range, "Container").find_map(|item| {
                containers
                    .iter()
                    .find_map(|container| container.outside(item))
            });
            let of_claims = items(range, "PersistentVolumeClaim").find_map(|item| {
                let storage = self.storage?;
                let bound = |field: &str| item.at(&[field, "storage"]).and_then(quantity);
                if bound("min").is_some_and(|least| storage < least) {
                    return Some("it asks for less storage than a claim has to".to_owned());
                }
                let is_more = bound("max").is_some_and(|most| storage > most);
                is_more.then(|| "it asks for more storage than a claim may".to_owned())
            });
            Some((*range, of_containers.or(of_claims)?))
        })
    }
}

impl Container {
    fn outside(&self, item: &Node) -> Option<String> {
        let bounds = |field: &str| item.get(field).map_or(&[][..], Node::entries).iter();
        let values = |name: &String| {
            [self.requests.get(name), self.limits.get(name)]
                .into_iter()
                .flatten()
        };
        let less = bounds("min").find(|bound| {
            let least = quantity(&bound.value);
            values(&bound.key).any(|value| least.is_some_and(|least| *value < least))
        });
        let more = || {
            bounds("max").find(|bound| {
                let most = quantity(&bound.value);
                values(&bound.key).any(|value| most.is_some_and(|most| *value > most))
            })
        };
        let words = |bound: &windrow_model::manifest::MapEntry, how: &str| {
            format!(
                "a container has {how} {} {}",
                super::refusals::shown(&bound.value),
                bound.key
            )
        };
        less.map(|bound| words(bound, "less than"))
            .or_else(|| more().map(|bound| words(bound, "more than")))
    }
}

/// What a LimitRange gives containers that do not say.
struct Defaults {
    limits: BTreeMap<String, i128>,
    requests: BTreeMap<String, i128>,
}

impl Defaults {
    /// As kube-apiserver completes it (`SetDefaults_LimitRangeItem`).
    fn read(item: &Node) -> Self {
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

    fn fill(&self, container: &mut Container) {
        for (name, amount) in &self.limits {
            container.limits.entry(name.clone()).or_insert(*amount);
        }
        for (name, amount) in &self.requests {
            container.requests.entry(name.clone()).or_insert(*amount);
        }
    }
}

fn items<'b>(range: &'b Bound, kind: &'static str) -> impl Iterator<Item = &'b Node> {
    let items = range.spec.get("limits").map_or(&[][..], Node::items);
    items
        .iter()
        .filter(move |item| item.str_at(&["type"]) == Some(kind))
}

fn amounts(list: Option<&Node>) -> BTreeMap<String, i128> {
    let entries = list.map_or(&[][..], Node::entries).iter();
    entries
        .filter_map(|entry| Some((entry.key.clone(), quantity(&entry.value)?)))
        .collect()
}

/// A limit alone is a request as well. What a pod asks for as a whole is not judged.
fn containers(spec: &Node) -> Vec<Container> {
    if spec.get("resources").is_some_and(|node| !node.is_null()) {
        return Vec::new();
    }
    let lists = ["containers", "initContainers"].iter();
    let all = lists
        .filter_map(|field| spec.get(field))
        .flat_map(Node::items);
    all.map(|container| {
        let limits = amounts(container.at(&["resources", "limits"]));
        let mut requests = limits.clone();
        requests.extend(amounts(container.at(&["resources", "requests"])));
        Container { limits, requests }
    })
    .collect()
}

/// What an object takes of what quotas count.
fn takes(object: &Object) -> BTreeMap<String, i128> {
    let node = &object.node;
    let mut takes = BTreeMap::new();
    if !object.id.group.is_empty() {
        return takes;
    }
    let mut take = |name: &str, amount: i128| {
        takes.insert(name.to_owned(), amount);
    };
    match object.id.kind.as_str() {
        "Service" => {
            let kind = node.str_at(&["spec", "type"]).unwrap_or("ClusterIP");
            let ports = node
                .at(&["spec", "ports"])
                .map_or(0, |ports| ports.items().len());
            let without = node.at(&["spec", "allocateLoadBalancerNodePorts"]);
            let without = without.and_then(Node::as_bool) == Some(false);
            take("services", ONE);
            take("count/services", ONE);
            if kind == "LoadBalancer" {
                take("services.loadbalancers", ONE);
            }
            if kind == "NodePort" || (kind == "LoadBalancer" && !without) {
                take("services.nodeports", ports as i128 * ONE);
            }
        }
        "PersistentVolumeClaim" => {
            take("persistentvolumeclaims", ONE);
            take("count/persistentvolumeclaims", ONE);
            let storage = node.at(&["spec", "resources", "requests", "storage"]);
            if let Some(storage) = storage.and_then(quantity) {
                take("requests.storage", storage);
            }
        }
        "Pod" => {
            take("pods", ONE);
            take("count/pods", ONE);
        }
        "ConfigMap" => {
            take("configmaps", ONE);
            take("count/configmaps", ONE);
        }
        "Secret" => {
            take("secrets", ONE);
            take("count/secrets", ONE);
        }
        _ => {}
    }
    takes
}
