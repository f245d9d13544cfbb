//! LimitRanges and ResourceQuotas of the files, and the objects of the files that violate them.
//!
//! Objects after them in the order of the files are refused. For objects before them the result is unknown, because
//! these may be created first.
//!
//! Sources: `plugin/pkg/admission/limitranger` and `pkg/quota/v1/evaluator/core` of k8s.io/kubernetes v1.31 to v1.36.

mod amounts;

use std::collections::BTreeSet;

use amounts::{Amounts, Asked, Defaults, takes};
use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node, Object, ObjectRef};
use windrow_plan::SourceMap;

use super::refusals::{Refusals, in_cluster, shown};
use crate::quantity;

#[derive(Debug, Default)]
pub(super) struct Limits {
    ranges: Vec<Bound>,
    quotas: Vec<Bound>,
    users: Vec<User>,
    /// An object of the files may give pods other requests and limits.
    has_autoscaler: bool,
    /// Namespaces that Rancher gives a LimitRange.
    completed: BTreeSet<String>,
    count: usize,
}

#[derive(Debug)]
struct Bound {
    of: ObjectRef,
    namespace: String,
    spec: Node,
    number: usize,
    at: Location,
}

/// An object that uses resources of a namespace.
#[derive(Debug)]
struct User {
    of: ObjectRef,
    in_cluster: ObjectRef,
    namespace: String,
    /// The amounts that it uses, by the names that quotas have for them.
    takes: Amounts,
    /// The limits and requests of each container of its pods.
    containers: Vec<Asked>,
    /// The amounts that quotas count for one of its pods.
    takes_by_pod: Amounts,
    /// The size that a claim requests.
    storage: Option<i128>,
    is_pod: bool,
    /// A pod that runs once: its amounts are free again after it has ended.
    ends: bool,
    number: usize,
    at: Location,
}

/// A violation of a limit.
struct Objection {
    why: String,
    /// Because a container has no value: another LimitRange could set it.
    by_absence: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Refused {
    Itself,
    ItsPods,
}

/// Rancher makes a LimitRange from it.
const RANCHERS_LIMITS: &str = "field.cattle.io/containerDefaultResourceLimit";

impl Limits {
    pub(super) fn add(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        self.count += 1;
        let kind = object.id.kind.as_str();
        self.has_autoscaler |= kind == "VerticalPodAutoscaler";
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
        if object.id.group.is_empty() && kind == "Namespace" {
            let limits = object
                .node
                .at(&["metadata", "annotations", RANCHERS_LIMITS]);
            if limits
                .and_then(Node::as_str)
                .is_some_and(|text| !["", "{}"].contains(&text.trim()))
            {
                self.completed.insert(object.id.name.to_string());
            }
        }
        let pods = object.running_pod_template().map(|pods| pods.spec);
        let mut takes = takes(object);
        if pods.is_none() && takes.is_empty() {
            return;
        }
        let containers = pods.map_or(Vec::new(), Asked::of_containers);
        let mut takes_by_pod = match pods {
            Some(_) => Asked::of_pod(&containers).counted(),
            None => Amounts::new(),
        };
        let is_pod = object.id.group.is_empty() && kind == "Pod";
        if is_pod {
            takes.append(&mut takes_by_pod);
        }
        let storage = object
            .node
            .at(&["spec", "resources", "requests", "storage"]);
        self.users.push(User {
            of: object.id.clone(),
            in_cluster: in_cluster(object),
            namespace: namespace.to_owned(),
            takes,
            containers,
            takes_by_pod,
            storage: storage
                .filter(|_| kind == "PersistentVolumeClaim")
                .and_then(quantity),
            is_pod,
            ends: is_pod
                && pods
                    .and_then(|spec| spec.str_at(&["restartPolicy"]))
                    .is_some_and(|policy| policy != "Always"),
            number: self.count,
            at: shown.at(Some(object.line)),
        });
    }

    /// `are_pods_changed`: whether an object of the files may change pods before they are checked. `has_installer`:
    /// whether an object may create another LimitRange, which sets missing values of containers.
    pub(super) fn finish(
        &self,
        are_pods_changed: bool,
        has_installer: bool,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> Refusals {
        let mut all = Refusals::default();
        let are_pods_changed = are_pods_changed || self.has_autoscaler;
        for user in self.users.iter().filter(|user| is_taken(&user.of)) {
            let ranges = self.ranges_of(&user.namespace, is_taken);
            let Some((range, Objection { why, by_absence })) = user.outside(&ranges) else {
                continue;
            };
            let has_pods = !user.containers.is_empty();
            let is_known = range.number < user.number
                && !(has_pods && are_pods_changed)
                && !(by_absence && self.is_completed(&user.namespace, has_installer));
            let what = match has_pods && !user.is_pod {
                true => Refused::ItsPods,
                false => Refused::Itself,
            };
            refuse(&mut all, (user, what), range, &why, is_known);
        }
        for quota in self.quotas.iter().filter(|quota| is_taken(&quota.of)) {
            let is_set = |field: &str| quota.spec.get(field).is_some_and(|node| !node.is_null());
            // The pods of a scope are not determined.
            if is_set("scopes") || is_set("scopeSelector") {
                continue;
            }
            self.exceed(quota, are_pods_changed, is_taken, &mut all);
            self.exceed_by_pods(quota, (are_pods_changed, has_installer), is_taken, &mut all);
        }
        all
    }

    /// Whether something may set missing values of containers in a namespace.
    fn is_completed(&self, namespace: &str, has_installer: bool) -> bool {
        has_installer || self.completed.contains(namespace)
    }

    fn ranges_of(&self, namespace: &str, is_taken: &impl Fn(&ObjectRef) -> bool) -> Vec<&Bound> {
        let ranges = self.ranges.iter();
        ranges
            .filter(|range| range.namespace == namespace && is_taken(&range.of))
            .collect()
    }

    /// Objects that exceed a quota together.
    fn exceed(
        &self,
        quota: &Bound,
        are_pods_changed: bool,
        is_taken: &impl Fn(&ObjectRef) -> bool,
        all: &mut Refusals,
    ) {
        for (hard, most) in quota.hard() {
            // The sum, and the part of it that stays and comes after the quota.
            let (mut sum, mut stays) = (0, 0);
            let mut counted: Vec<&ObjectRef> = Vec::new();
            let mut is_said = false;
            for user in self
                .users
                .iter()
                .filter(|user| user.namespace == quota.namespace)
            {
                let Some(takes) = user.takes.get(&hard.key) else {
                    continue;
                };
                let is_itself = user.number == quota.number;
                if is_itself || counted.contains(&&user.in_cluster) || !is_taken(&user.of) {
                    continue;
                }
                counted.push(&user.in_cluster);
                let comes_after = user.number > quota.number;
                let is_known =
                    comes_after && stays + takes > most && !(user.is_pod && are_pods_changed);
                sum += takes;
                // An ended pod counts only in `count/pods`.
                if comes_after && (!user.ends || hard.key == "count/pods") {
                    stays += takes;
                }
                if sum > most && (is_known || !is_said) {
                    let allowed = shown(&hard.value);
                    let why = format!("with it more than {allowed} of {} are taken", hard.key);
                    refuse(all, (user, Refused::Itself), quota, &why, is_known);
                    is_said = true;
                }
                if is_known {
                    break;
                }
            }
        }
    }

    /// Pods of which a single one exceeds a quota, or that do not have the required values.
    fn exceed_by_pods(
        &self,
        quota: &Bound,
        (are_pods_changed, has_installer): (bool, bool),
        is_taken: &impl Fn(&ObjectRef) -> bool,
        all: &mut Refusals,
    ) {
        let is_completed = self.is_completed(&quota.namespace, has_installer);
        let users = self.users.iter();
        let ranges = self.ranges_of(&quota.namespace, is_taken);
        for user in users.filter(|user| user.namespace == quota.namespace && is_taken(&user.of)) {
            let containers = with_defaults(&user.containers, &ranges);
            let unsaid: BTreeSet<&str> = quota
                .hard()
                .map(|(hard, _)| hard.key.as_str())
                .filter(|counted| containers.iter().any(|one| one.does_not_say(counted)))
                .collect();
            let is_more =
                |name: &str, most| user.takes_by_pod.get(name).is_some_and(|of| *of > most);
            let more = quota.hard().find(|(hard, most)| is_more(&hard.key, *most));
            let (why, by_absence) = match more {
                Some((hard, _)) => {
                    let allowed = shown(&hard.value);
                    (
                        format!("one pod takes more than {allowed} of {}", hard.key),
                        false,
                    )
                }
                None if unsaid.is_empty() => continue,
                None => {
                    let unsaid: Vec<&str> = unsaid.into_iter().collect();
                    (
                        format!("each container must set its {}", unsaid.join(", ")),
                        true,
                    )
                }
            };
            let is_known =
                quota.number < user.number && !are_pods_changed && !(by_absence && is_completed);
            let what = match user.is_pod {
                true => Refused::Itself,
                false => Refused::ItsPods,
            };
            refuse(all, (user, what), quota, &why, is_known);
        }
    }
}

fn refuse(
    all: &mut Refusals,
    (user, what): (&User, Refused),
    bound: &Bound,
    why: &str,
    is_known: bool,
) {
    let who = bound.of.to_string();
    let at = vec![user.at.clone(), bound.at.clone()];
    if !is_known {
        all.may_refuse(&user.of, &who, why, at);
        return;
    }
    all.refuse(&user.of, &who, why, at);
    match what {
        Refused::Itself => {
            let says = format!("{} is forbidden: {who}: {why}", user.of);
            all.refused.insert(user.of.clone(), says);
        }
        Refused::ItsPods => {
            let says = format!("{who} refuses its pods: {why}");
            all.without_pods.insert(user.in_cluster.clone(), says);
        }
    }
}

impl Bound {
    /// The hard limits of a quota.
    fn hard(&self) -> impl Iterator<Item = (&MapEntry, i128)> {
        let hard = self.spec.get("hard").map_or(&[][..], Node::entries);
        hard.iter()
            .filter_map(|entry| Some((entry, quantity(&entry.value)?)))
    }

    /// The items of a LimitRange for this kind.
    fn items(&self, kind: &'static str) -> impl Iterator<Item = &Node> {
        let items = self.spec.list("limits");
        items
            .iter()
            .filter(move |item| item.str_at(&["type"]) == Some(kind))
    }
}

/// Containers with the defaults of LimitRanges.
fn with_defaults(containers: &[Asked], ranges: &[&Bound]) -> Vec<Asked> {
    let mut containers = containers.to_vec();
    for item in ranges.iter().flat_map(|range| range.items("Container")) {
        let defaults = Defaults::read(item);
        containers.iter_mut().for_each(|one| defaults.fill(one));
    }
    containers
}

impl User {
    /// The LimitRange that rejects it, and why: for its own values, else for those with the defaults of LimitRanges.
    fn outside<'b>(&self, ranges: &[&'b Bound]) -> Option<(&'b Bound, Objection)> {
        let as_written = self.beyond(&self.containers, ranges, false);
        as_written.or_else(|| {
            let containers = with_defaults(&self.containers, ranges);
            if let Some(name) = containers.iter().find_map(Asked::beyond_limit) {
                let why =
                    format!("by its defaults a container asks for more {name} than it may take");
                let by_absence = true;
                return Some((*ranges.last()?, Objection { why, by_absence }));
            }
            self.beyond(&containers, ranges, true)
        })
    }

    fn beyond<'b>(
        &self,
        containers: &[Asked],
        ranges: &[&'b Bound],
        by_absence: bool,
    ) -> Option<(&'b Bound, Objection)> {
        let whole = (!containers.is_empty()).then(|| Asked::of_pod(containers));
        let outside = |asked: &Asked, item: &Node, who: &str| {
            let said = asked.outside(item, who);
            said.or_else(|| asked.unsaid(item, who).filter(|_| by_absence))
        };
        ranges.iter().find_map(|range| {
            let of_containers = range.items("Container").find_map(|item| {
                let mut containers = containers.iter();
                containers.find_map(|container| outside(container, item, "a container"))
            });
            let of_pods = || {
                let mut items = range.items("Pod");
                items.find_map(|item| outside(whole.as_ref()?, item, "a pod"))
            };
            let of_claims = || {
                range.items("PersistentVolumeClaim").find_map(|item| {
                    let storage = self.storage?;
                    let bound = |field: &str| item.at(&[field, "storage"]).and_then(quantity);
                    if bound("min").is_some_and(|least| storage < least) {
                        return Some(
                            "it requests less storage than the minimum of a claim".to_owned(),
                        );
                    }
                    let is_more = bound("max").is_some_and(|most| storage > most);
                    is_more
                        .then(|| "it requests more storage than the maximum of a claim".to_owned())
                })
            };
            let why = of_containers.or_else(of_pods).or_else(of_claims)?;
            Some((*range, Objection { why, by_absence }))
        })
    }
}
