//! The filters: on which nodes could a pod run in the present state?

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::object::Labels;

use super::affinity::Spread;
use super::node::SchedulerNode;
use super::pod::SchedulerPod;
use super::selector::NodeSelector;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRefusal {
    pub node: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On these nodes.
    Fits(Vec<String>),
    /// On no node at present, but on these if pods of a lower priority are preempted.
    Preempting(Vec<String>),
    /// On no node, with the reason of each.
    Nowhere(Vec<NodeRefusal>),
    Unknown(String),
}

impl Placement {
    pub fn somewhere(&self) -> Option<&str> {
        match self {
            Placement::Fits(nodes) | Placement::Preempting(nodes) => {
                nodes.first().map(String::as_str)
            }
            Placement::Nowhere(_) | Placement::Unknown(_) => None,
        }
    }
}

/// A cluster as the scheduler sees it. Add and remove pods to test a different state.
#[derive(Debug, Clone, Default)]
pub struct SchedulerView {
    pub nodes: Vec<SchedulerNode>,
    /// Pods without a node occupy no resources.
    pub pods: Vec<SchedulerPod>,
    /// The labels of each namespace; `None` if namespaces could not be listed.
    pub namespaces: Option<BTreeMap<String, Labels>>,
    /// Which nodes reach a claim (`namespace/name`). A missing entry is an unknown claim; `None` is one that every node reaches.
    pub claims: BTreeMap<String, Option<NodeSelector>>,
}

impl SchedulerView {
    /// Where could this pod run, apart from `except`? If the pod itself is among the pods and bound, it counts like any other:
    /// remove it first if it would be gone.
    pub fn find(&self, pod: &SchedulerPod, except: Option<&str>) -> Placement {
        if let Some(why) = self.beyond(pod) {
            return Placement::Unknown(why);
        }
        let spread = SpreadCounts::new(self, pod);
        let neighbours = Neighbours::new(self, pod);
        let (mut fits, mut preempting, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
        for node in &self.nodes {
            if except == Some(node.name.as_str()) {
                continue;
            }
            let refused = standing(self, pod, node)
                .or_else(|| spread.refuses(pod, node))
                .or_else(|| neighbours.refuses(pod, node));
            let why = match (refused, self.room(pod, node, |_| true)) {
                (None, None) => {
                    fits.push(node.name.clone());
                    continue;
                }
                (Some(why), _) => why,
                (None, Some(why)) => {
                    // Preemption is assumed to free resources only.
                    let stays = |other: &SchedulerPod| other.priority >= pod.priority;
                    if pod.preempts && self.room(pod, node, stays).is_none() {
                        preempting.push(node.name.clone());
                        continue;
                    }
                    why
                }
            };
            refusals.push(NodeRefusal {
                node: node.name.clone(),
                why,
            });
        }
        if !fits.is_empty() {
            Placement::Fits(fits)
        } else if !preempting.is_empty() {
            Placement::Preempting(preempting)
        } else {
            Placement::Nowhere(refusals)
        }
    }

    fn beyond(&self, pod: &SchedulerPod) -> Option<String> {
        if let Some(why) = &pod.beyond {
            return Some(why.clone());
        }
        if let Some(claim) = pod.claims.iter().find(|claim| {
            !self
                .claims
                .contains_key(&format!("{}/{claim}", pod.namespace))
        }) {
            return Some(format!(
                "Windrow does not know the volume of its claim {claim}"
            ));
        }
        let all = self.pods.iter().flat_map(|other| &other.anti_affinity);
        let needs = pod
            .affinity
            .iter()
            .chain(&pod.anti_affinity)
            .chain(all)
            .any(super::affinity::Affinity::needs_namespaces);
        (needs && self.namespaces.is_none()).then(|| {
            "affinity selects namespaces by label, and Windrow does not know them".to_owned()
        })
    }

    fn on<'p>(&'p self, node: &'p str) -> impl Iterator<Item = &'p SchedulerPod> {
        self.pods
            .iter()
            .filter(move |pod| pod.is_there() && pod.node.as_deref() == Some(node))
    }

    fn node(&self, name: &str) -> Option<&SchedulerNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.as_ref()?.get(name)
    }

    /// Why the node has not enough room with the remaining pods: resources, the number of pods, host ports.
    fn room(
        &self,
        pod: &SchedulerPod,
        node: &SchedulerNode,
        stays: impl Fn(&SchedulerPod) -> bool,
    ) -> Option<String> {
        let others: Vec<&SchedulerPod> = self.on(&node.name).filter(|other| stays(other)).collect();
        for port in &pod.host_ports {
            let taken =
                |other: &&&SchedulerPod| other.host_ports.iter().any(|used| used.conflicts(port));
            if let Some(other) = others.iter().find(taken) {
                return Some(format!("its host port {port} is taken by {}", other.id()));
            }
        }
        if let Some(most) = node.allocatable.get("pods")
            && (others.len() as i128 + 1) * 1000 > *most
        {
            return Some(format!("it has its {} pods already", most / 1000));
        }
        for (resource, asked) in &pod.requests {
            let used: i128 = others
                .iter()
                .filter_map(|other| other.requests.get(resource))
                .sum();
            let has = node.allocatable.get(resource).copied().unwrap_or_default();
            if *asked > 0 && asked.saturating_add(used) > has {
                return Some(format!(
                    "too little {resource}: {} asked for, {} of {} free",
                    amount(resource, *asked),
                    amount(resource, (has - used).max(0)),
                    amount(resource, has)
                ));
            }
        }
        None
    }
}

/// An amount for people.
fn amount(resource: &str, milli: i128) -> String {
    const MI: i128 = 1000 << 20;
    match resource {
        "memory" | "ephemeral-storage" if milli >= MI => format!("{}Mi", milli / MI),
        _ if milli % 1000 == 0 => (milli / 1000).to_string(),
        _ => format!("{milli}m"),
    }
}

/// The rejection by permanent properties of the node: cordon and taints, labels, volumes.
fn standing(places: &SchedulerView, pod: &SchedulerPod, node: &SchedulerNode) -> Option<String> {
    let taint = node
        .effective_taints()
        .find(|taint| taint.repels() && !pod.tolerates(taint));
    if let Some(taint) = taint {
        return Some(match taint.key == super::node::UNSCHEDULABLE {
            true => "it is cordoned".to_owned(),
            false => format!("its taint {taint} is not tolerated"),
        });
    }
    let lacking = pod
        .node_selector
        .iter()
        .find(|(key, value)| node.labels.get(*key) != Some(value));
    if let Some((key, value)) = lacking {
        return Some(format!("it lacks the label {key}={value}"));
    }
    if let Some(affinity) = &pod.node_affinity
        && !affinity.matches(&node.labels, &node.name)
    {
        return Some(format!("node affinity asks for {affinity}"));
    }
    pod.claims.iter().find_map(|claim| {
        let reach = places.claims.get(&format!("{}/{claim}", pod.namespace))?;
        let reach = reach.as_ref()?;
        (!reach.matches(&node.labels, &node.name))
            .then(|| format!("the volume of claim {claim} can be reached only with {reach}"))
    })
}

/// Do the pod's node selector and affinity allow the node?
fn allowed(pod: &SchedulerPod, node: &SchedulerNode) -> bool {
    pod.node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value))
        && pod
            .node_affinity
            .as_ref()
            .is_none_or(|affinity| affinity.matches(&node.labels, &node.name))
}

/// How many pods each constraint counts in each place.
struct SpreadCounts<'p> {
    constraints: Vec<(&'p Spread, BTreeMap<&'p str, i64>)>,
}

impl<'p> SpreadCounts<'p> {
    fn new(places: &'p SchedulerView, pod: &'p SchedulerPod) -> Self {
        let whole = |node: &SchedulerNode| {
            let has = |one: &Spread| node.labels.contains_key(&one.topology_key);
            pod.spread.iter().all(has)
        };
        let constraints = pod
            .spread
            .iter()
            .map(|one| {
                let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
                for node in places.nodes.iter().filter(|node| whole(node)) {
                    // The actual taints: a cordon counts only when its taint is there.
                    let mut taints = node.taints.iter();
                    let tolerated = taints.all(|taint| !taint.repels() || pod.tolerates(taint));
                    if (one.honors_affinity && !allowed(pod, node))
                        || (one.honors_taints && !tolerated)
                    {
                        continue;
                    }
                    let counted = places
                        .on(&node.name)
                        .filter(|other| other.is_counted_by(one, &pod.namespace));
                    if let Some(place) = node.labels.get(&one.topology_key) {
                        *counts.entry(place).or_default() += counted.count() as i64;
                    }
                }
                (one, counts)
            })
            .collect();
        Self { constraints }
    }

    fn refuses(&self, pod: &SchedulerPod, node: &SchedulerNode) -> Option<String> {
        self.constraints.iter().find_map(|(one, counts)| {
            let key = &one.topology_key;
            let Some(place) = node.labels.get(key) else {
                return Some(format!(
                    "it lacks the label {key}, by which pods are spread"
                ));
            };
            let fewest = match (counts.len() as i64) < one.min_domains {
                true => 0,
                false => counts.values().min().copied().unwrap_or_default(),
            };
            let here = counts.get(place.as_str()).copied().unwrap_or_default();
            let itself = i64::from(pod.is_counted_by(one, &pod.namespace));
            (here + itself - fewest > one.max_skew).then(|| {
                format!(
                    "spread by {key}: {} there and {fewest} at the fewest, beyond maxSkew {}",
                    here + itself,
                    one.max_skew
                )
            })
        })
    }
}

/// The combined affinity and anti-affinity, by topology label.
struct Neighbours<'p> {
    /// Label and value that a running pod rejects, and which pod.
    kept_off: Vec<(&'p str, &'p str, &'p SchedulerPod)>,
    /// Label and value of the place of a pod that the pod itself avoids.
    avoided: Vec<(&'p str, &'p str, &'p SchedulerPod)>,
    /// Label and value of the places with pods that all terms of affinity select.
    sought: BTreeSet<(&'p str, &'p str)>,
    /// The terms select no pod except this one: it may be the first.
    is_first: bool,
}

impl<'p> Neighbours<'p> {
    fn new(places: &'p SchedulerView, pod: &'p SchedulerPod) -> Self {
        let mut found = Self {
            kept_off: Vec::new(),
            avoided: Vec::new(),
            sought: BTreeSet::new(),
            is_first: false,
        };
        let own = places.namespace(&pod.namespace);
        let mut anybody = false;
        for other in places.pods.iter().filter(|other| other.is_there()) {
            let Some(node) = other.node.as_deref().and_then(|name| places.node(name)) else {
                continue;
            };
            let at = |key: &'p str| node.labels.get(key).map(|value| (key, value.as_str()));
            let theirs = places.namespace(&other.namespace);
            for term in other
                .anti_affinity
                .iter()
                .filter(|term| pod.is_meant_by(term, own))
            {
                let place = at(&term.topology_key);
                found.kept_off.extend(place.map(|(k, v)| (k, v, other)));
            }
            for term in pod
                .anti_affinity
                .iter()
                .filter(|term| other.is_meant_by(term, theirs))
            {
                let place = at(&term.topology_key);
                found.avoided.extend(place.map(|(k, v)| (k, v, other)));
            }
            if !pod.affinity.is_empty()
                && pod
                    .affinity
                    .iter()
                    .all(|term| other.is_meant_by(term, theirs))
            {
                for term in &pod.affinity {
                    let place = at(&term.topology_key);
                    anybody |= place.is_some();
                    found.sought.extend(place);
                }
            }
        }
        found.is_first = !anybody && pod.affinity.iter().all(|term| pod.is_meant_by(term, own));
        found
    }

    fn refuses(&self, pod: &SchedulerPod, node: &SchedulerNode) -> Option<String> {
        let here = |key: &str, value: &str| node.labels.get(key).is_some_and(|own| own == value);
        for term in &pod.affinity {
            let Some(value) = node.labels.get(&term.topology_key) else {
                return Some(format!("it lacks the label {}", term.topology_key));
            };
            let sought = (term.topology_key.as_str(), value.as_str());
            if !self.sought.contains(&sought) && !self.is_first {
                return Some("the pod that it must run with is missing".to_owned());
            }
        }
        let of = |list: &[(&str, &str, &SchedulerPod)]| {
            let found = list.iter().find(|(key, value, _)| here(key, value));
            found.map(|(_, _, other)| other.id())
        };
        if let Some(other) = of(&self.avoided) {
            return Some(format!("anti-affinity: it must not run with {other}"));
        }
        of(&self.kept_off).map(|other| format!("anti-affinity: {other} keeps it off"))
    }
}
