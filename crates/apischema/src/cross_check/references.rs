//! References of workloads, Services, Ingresses, autoscalers and budgets: to objects, keys, labels and ports.
//!
//! A reference to a missing object is reported only if nothing in the files may create that object: no chart or
//! operator, no object of a custom kind, no role that may write Secrets. Otherwise it is listed as not checked. A key or
//! a port that an object of the files does not have is always an error.

mod facts;

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, Object, PodTemplate};
use windrow_model::object::pods;
use windrow_model::reasons::Code;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::SourceMap;
use windrow_plan::knowledge::is_platforms_namespace;
use windrow_plan::kubernetes::is_built_in_group;

pub(super) use self::facts::bridge_network;
use self::facts::{
    CLUSTER_NETWORK, asked_ports, creates_nothing, is_of_running, labels_of, shown_name,
    writes_secrets,
};
use super::accounts::is_platforms_account;
use super::finding;

/// Kind, namespace (empty if the kind has none) and name.
type Named = (String, String, String);

#[derive(Debug, Default)]
pub(super) struct References {
    declared: BTreeSet<Named>,
    /// The keys of ConfigMaps and Secrets.
    keys: BTreeMap<Named, BTreeSet<String>>,
    /// References to objects: by which object, to which one, and where.
    names: Vec<(String, Named, Location)>,
    /// References to keys: by which object, to which object, the key, and where.
    reads: Vec<(String, Named, String, Location)>,
    pods: Vec<Pods>,
    selections: Vec<Selection>,
    services: BTreeMap<(String, String), Vec<ServicePort>>,
    backends: Vec<Backend>,
    /// Named ports that probes and hooks of a container ask for and the container does not have.
    asked_ports: Vec<(String, String, Location)>,
    /// Something else may create the referenced objects.
    has_controller: bool,
    writes_secrets: bool,
}

/// Pods of one template.
#[derive(Debug)]
struct Pods {
    namespace: String,
    labels: BTreeMap<String, String>,
    port_names: BTreeSet<String>,
}

/// A Service or budget, and its selector.
#[derive(Debug)]
struct Selection {
    object: String,
    namespace: String,
    labels: BTreeMap<String, String>,
    at: Location,
    /// References to named ports of pods, and where.
    target_ports: Vec<(String, Location)>,
}

#[derive(Debug)]
struct ServicePort {
    name: String,
    number: String,
}

/// A Service to which an Ingress refers.
#[derive(Debug)]
struct Backend {
    object: String,
    service: (String, String),
    port: Option<String>,
    at: Location,
}

impl References {
    pub(super) fn add(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        let id = &object.id;
        let (group, kind) = (id.group.as_str(), id.kind.as_str());
        let place = match kind {
            "PriorityClass" | CLUSTER_NETWORK => "",
            _ => namespace,
        };
        let named = (kind.to_owned(), place.to_owned(), id.name.to_string());
        self.declared.insert(named.clone());
        self.has_controller |= (!is_built_in_group(group) && !creates_nothing(group, kind))
            || kind == "CustomResourceDefinition";
        if let Some(pods) = object.pod_template() {
            self.add_pods(object, namespace, pods, shown);
        }
        let node = &object.node;
        match (group, kind) {
            ("", "ConfigMap" | "Secret") => {
                let fields = ["data", "binaryData", "stringData"].iter();
                let entries = fields
                    .filter_map(|field| node.get(field))
                    .flat_map(Node::entries);
                let keys = entries.map(|entry| entry.key.clone());
                self.keys.entry(named).or_default().extend(keys);
            }
            ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
                let rules = node.list("rules");
                self.writes_secrets |= rules.iter().any(writes_secrets);
            }
            ("", "Service") => self.add_service(object, namespace, shown),
            ("policy", "PodDisruptionBudget") => {
                let selector = node.at(&["spec", "selector"]);
                let expressions = selector.and_then(|node| node.get("matchExpressions"));
                if expressions.is_none_or(|node| node.items().is_empty()) {
                    let labels = selector.and_then(|node| node.get("matchLabels"));
                    self.add_selection(object, namespace, labels, Vec::new(), shown);
                }
            }
            ("networking.k8s.io", "Ingress") => self.add_ingress(object, namespace, shown),
            ("network.harvesterhci.io", "VlanConfig" | "HostNetworkConfig") => {
                let network = node.at(&["spec", "clusterNetwork"]);
                self.name(object, CLUSTER_NETWORK, "", network, shown);
            }
            ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => {
                let labels = node.at(&["metadata", "labels"]);
                let network =
                    labels.and_then(|labels| labels.get("network.harvesterhci.io/clusternetwork"));
                self.name(object, CLUSTER_NETWORK, "", network, shown);
                // Harvester's webhook looks up the network of the bridge.
                if let Some((bridge, line)) = bridge_network(node).filter(|_| network.is_none()) {
                    let named = (CLUSTER_NETWORK.to_owned(), String::new(), bridge);
                    let id = object.id.to_string();
                    self.names.push((id, named, shown.at(Some(line))));
                }
            }
            ("autoscaling", "HorizontalPodAutoscaler") => {
                let target = node.at(&["spec", "scaleTargetRef"]);
                let kind = target
                    .and_then(|node| node.str_at(&["kind"]))
                    .unwrap_or_default();
                let name = target.and_then(|node| node.get("name"));
                if ["Deployment", "StatefulSet"].contains(&kind) {
                    self.name(object, kind, namespace, name, shown);
                }
            }
            _ => {}
        }
    }

    fn name(
        &mut self,
        object: &Object,
        kind: &str,
        namespace: &str,
        name: Option<&Node>,
        shown: &SourceMap,
    ) {
        let text = name.and_then(Node::as_str).filter(|text| !text.is_empty());
        if let (Some(node), Some(text)) = (name, text) {
            let named = (kind.to_owned(), namespace.to_owned(), text.to_owned());
            let at = shown.at(Some(node.line));
            self.names.push((object.id.to_string(), named, at));
        }
    }

    fn add_pods(
        &mut self,
        object: &Object,
        namespace: &str,
        pods: PodTemplate<'_>,
        shown: &SourceMap,
    ) {
        let spec = pods.spec;
        let account = spec
            .get("serviceAccountName")
            .or(spec.get("serviceAccount"));
        self.name(object, "ServiceAccount", namespace, account, shown);
        let class = spec.get("priorityClassName");
        self.name(object, "PriorityClass", "", class, shown);
        for secret in spec.list("imagePullSecrets") {
            self.name(object, "Secret", namespace, secret.get("name"), shown);
        }
        // A StatefulSet's own claim replaces a volume of the same name.
        let templates = object.node.at(&["spec", "volumeClaimTemplates"]);
        let own: Vec<&str> = templates
            .map_or(&[][..], Node::items)
            .iter()
            .filter_map(|template| template.str_at(&["metadata", "name"]))
            .collect();
        let is_own = |volume: &&Node| {
            volume
                .str_at(&["name"])
                .is_some_and(|name| own.contains(&name))
        };
        for volume in spec.list("volumes").iter().filter(|volume| !is_own(volume)) {
            let claim = volume.at(&["persistentVolumeClaim", "claimName"]);
            self.name(object, "PersistentVolumeClaim", namespace, claim, shown);
            let projected = volume.at(&["projected", "sources"]);
            let sources = projected.map_or(&[][..], Node::items).iter();
            for source in sources.chain([volume]) {
                self.source(
                    object,
                    "ConfigMap",
                    namespace,
                    source.get("configMap"),
                    shown,
                );
                self.source(object, "Secret", namespace, source.get("secret"), shown);
            }
        }
        let mut port_names = BTreeSet::new();
        for container in pods::containers(spec).map(|container| container.node) {
            for variable in container.list("env") {
                let from = |field: &str| variable.at(&["valueFrom", field]);
                self.source(
                    object,
                    "ConfigMap",
                    namespace,
                    from("configMapKeyRef"),
                    shown,
                );
                self.source(object, "Secret", namespace, from("secretKeyRef"), shown);
            }
            for from in container.list("envFrom") {
                self.source(
                    object,
                    "ConfigMap",
                    namespace,
                    from.get("configMapRef"),
                    shown,
                );
                self.source(object, "Secret", namespace, from.get("secretRef"), shown);
            }
            let ports = container.list("ports").iter();
            let ports: BTreeSet<&str> = ports.filter_map(|port| port.str_at(&["name"])).collect();
            for port in asked_ports(container) {
                let name = port.as_str().filter(|name| !ports.contains(name));
                // A number in quotes is a number here.
                if let Some(name) = name.filter(|name| name.parse::<u16>().is_err()) {
                    let at = shown.at(Some(port.line));
                    let id = object.id.to_string();
                    self.asked_ports.push((id, name.to_owned(), at));
                }
            }
            port_names.extend(ports.into_iter().map(str::to_owned));
        }
        self.pods.push(Pods {
            namespace: namespace.to_owned(),
            labels: labels_of(pods.labels()),
            port_names,
        });
    }

    /// Adds a ConfigMap or Secret from which pods get data: all of it, or some keys.
    fn source(
        &mut self,
        object: &Object,
        kind: &str,
        namespace: &str,
        source: Option<&Node>,
        shown: &SourceMap,
    ) {
        let optional = |node: &Node| node.get("optional").and_then(Node::as_bool) == Some(true);
        let Some(source) = source.filter(|source| !optional(source)) else {
            return;
        };
        let name = source.get("name").or(source.get("secretName"));
        self.name(object, kind, namespace, name, shown);
        let Some(name) = name.and_then(Node::as_str) else {
            return;
        };
        let of_items = source
            .list("items")
            .iter()
            .filter_map(|item| item.get("key"));
        for key in of_items.chain(source.get("key")) {
            if let Some(text) = key.as_str() {
                let named = (kind.to_owned(), namespace.to_owned(), name.to_owned());
                let at = shown.at(Some(key.line));
                let object = object.id.to_string();
                self.reads.push((object, named, text.to_owned(), at));
            }
        }
    }

    fn add_service(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        let Some(spec) = object.node.get("spec") else {
            return;
        };
        let ports = spec.list("ports");
        let number = |port: &Node| port.get("port").map(|node| node.to_json().to_string());
        let of_service = ports.iter().map(|port| ServicePort {
            name: port.str_at(&["name"]).unwrap_or_default().to_owned(),
            number: number(port).unwrap_or_default(),
        });
        let key = (namespace.to_owned(), object.id.name.to_string());
        self.services.entry(key).or_default().extend(of_service);
        let targets = ports.iter().filter_map(|port| {
            let target = port.get("targetPort")?;
            Some((target.as_str()?.to_owned(), shown.at(Some(target.line))))
        });
        self.add_selection(
            object,
            namespace,
            spec.get("selector"),
            targets.collect(),
            shown,
        );
    }

    fn add_selection(
        &mut self,
        object: &Object,
        namespace: &str,
        labels: Option<&Node>,
        target_ports: Vec<(String, Location)>,
        shown: &SourceMap,
    ) {
        if let Some(node) = labels.filter(|node| !node.entries().is_empty()) {
            self.selections.push(Selection {
                object: object.id.to_string(),
                namespace: namespace.to_owned(),
                labels: labels_of(Some(node)),
                at: shown.at(Some(node.line)),
                target_ports,
            });
        }
    }

    fn add_ingress(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        let Some(spec) = object.node.get("spec") else {
            return;
        };
        let paths = spec.list("rules").iter().flat_map(|rule| {
            let paths = rule.at(&["http", "paths"]);
            paths.map_or(&[][..], Node::items)
        });
        let backends = paths.filter_map(|path| path.get("backend"));
        for backend in backends.chain(spec.get("defaultBackend")) {
            let Some(service) = backend.get("service") else {
                continue;
            };
            self.name(object, "Service", namespace, service.get("name"), shown);
            let name = service.str_at(&["name"]).unwrap_or_default();
            let port = service.get("port");
            let number = port
                .and_then(|port| port.get("number"))
                .filter(|node| !node.is_null());
            let text = match number {
                Some(number) => Some(number.to_json().to_string()),
                None => port
                    .and_then(|port| port.str_at(&["name"]))
                    .map(str::to_owned),
            };
            self.backends.push(Backend {
                object: object.id.to_string(),
                service: (namespace.to_owned(), name.to_owned()),
                port: text,
                at: shown.at(Some(port.map_or(service.line, |port| port.line))),
            });
        }
    }

    pub(super) fn finish(&self, has_installer: bool) -> (Vec<Finding>, Vec<NotChecked>) {
        let is_alone = !has_installer && !self.has_controller;
        let mut unjudged: BTreeMap<String, Vec<Location>> = BTreeMap::new();
        let mut found: BTreeMap<(Code, String), Vec<Location>> = BTreeMap::new();
        let mut say = |code: Code, words: &[(&str, &str)], at: &Location| {
            let places = found.entry((code, code.say(words))).or_default();
            places.push(at.clone());
        };
        for (object, named, at) in self.names.iter().filter(|(_, named, _)| self.lacks(named)) {
            // Only Harvester's own pages and files create a cluster network.
            if is_alone || named.0 == CLUSTER_NETWORK {
                let words = [("object", &**object), ("what", &*shown_name(named))];
                say(Code::ReferenceWithoutObject, &words, at);
            } else {
                let places = unjudged.entry(shown_name(named)).or_default();
                places.push(at.clone());
            }
        }
        for (object, port, at) in &self.asked_ports {
            let words = [
                ("object", &**object),
                ("port", &**port),
                ("what", "the container"),
            ];
            say(Code::PortWithoutTarget, &words, at);
        }
        for (object, named, key, at) in &self.reads {
            let is_written = named.0 == "Secret" && (!is_alone || self.writes_secrets);
            let keys = self
                .keys
                .get(named)
                .filter(|keys| !keys.is_empty() && !is_written);
            if keys.is_some_and(|keys| !keys.contains(key)) {
                let what = shown_name(named);
                let words = [("object", &**object), ("key", &**key), ("what", &*what)];
                say(Code::KeyWithoutValue, &words, at);
            }
        }
        for selection in &self.selections {
            let all = || {
                self.pods
                    .iter()
                    .filter(|pods| pods.namespace == selection.namespace)
            };
            let selected: Vec<&Pods> = all().filter(|pods| selection.selects(pods)).collect();
            if selected.is_empty() {
                if is_alone && all().any(|pods| selection.nearly_selects(pods)) {
                    let labels = selection.labels.iter();
                    let labels: Vec<String> = labels
                        .map(|(key, value)| format!("{key}={value}"))
                        .collect();
                    let words = [
                        ("object", &*selection.object),
                        ("labels", &*labels.join(",")),
                    ];
                    say(Code::SelectorWithoutPods, &words, &selection.at);
                }
                continue;
            }
            for (port, at) in &selection.target_ports {
                if !selected.iter().any(|pods| pods.port_names.contains(port)) {
                    let words = [
                        ("object", &*selection.object),
                        ("port", port),
                        ("what", "the pods that it selects"),
                    ];
                    say(Code::PortWithoutTarget, &words, at);
                }
            }
        }
        for backend in &self.backends {
            let ports = self
                .services
                .get(&backend.service)
                .filter(|ports| !ports.is_empty());
            let (Some(ports), Some(port)) = (ports, &backend.port) else {
                continue;
            };
            if !ports
                .iter()
                .any(|one| one.name == *port || one.number == *port)
            {
                let (namespace, name) = &backend.service;
                let what = format!("Service {namespace}/{name}");
                let words = [
                    ("object", &*backend.object),
                    ("port", port),
                    ("what", &what),
                ];
                say(Code::PortWithoutTarget, &words, &backend.at);
            }
        }
        let found = found.into_iter();
        let found = found.map(|((code, message), at)| finding(code, message, at));
        let unjudged = unjudged.into_iter().map(|(what, at)| NotChecked {
            what,
            why: "a chart, operator or other object of the files may create it".to_owned(),
            can_stop: CanStop::Itself,
            at,
        });
        (found.collect(), unjudged.collect())
    }

    /// Whether it is neither in these files nor in every cluster.
    fn lacks(&self, named: &Named) -> bool {
        let (kind, namespace, name) = (&*named.0, &*named.1, &*named.2);
        let is_everywhere = match kind {
            "ServiceAccount" => name == "default",
            "ConfigMap" => name == "kube-root-ca.crt",
            "PriorityClass" => name.starts_with("system-"),
            CLUSTER_NETWORK => name == "mgmt",
            _ => false,
        };
        // Many objects of the platform's own namespaces are not in these files.
        let of_platform = match (kind, namespace) {
            ("ServiceAccount", "kube-system") => is_platforms_account(name),
            _ => is_platforms_namespace(namespace),
        };
        let is_written = kind == "Secret" && self.writes_secrets;
        !is_everywhere && !of_platform && !is_written && !self.declared.contains(named)
    }
}

impl Selection {
    fn selects(&self, pods: &Pods) -> bool {
        let mut labels = self.labels.iter();
        labels.all(|(key, value)| is_of_running(key) || pods.labels.get(key) == Some(value))
    }

    /// Whether the pods have these labels with other values. A label that they do not have may be added while they run.
    fn nearly_selects(&self, pods: &Pods) -> bool {
        let mut keys = self.labels.keys();
        keys.all(|key| is_of_running(key) || pods.labels.contains_key(key))
    }
}
