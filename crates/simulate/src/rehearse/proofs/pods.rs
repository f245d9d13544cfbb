//! The pods that the manifests create: their labels, images, claims and functions.

use windrow_model::manifest::{Node, Object, ObjectRef, PodTemplate};
use windrow_model::object::pods::containers;
use windrow_model::object::{LabelSelector, Labels};
use windrow_plan::SourceMap;

use crate::addresses;

/// Directories of the node that only a network plugin mounts.
const CNI_PATHS: [&str; 2] = ["/etc/cni/net.d", "/opt/cni/bin"];
/// Charts of network plugins, by parts of their names.
const CNI_CHARTS: [&str; 4] = ["cilium", "canal", "calico", "flannel"];
/// The taint of a node that waits for its cloud-controller-manager.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// A pod according to its template.
pub(super) struct DeclaredPod<'a> {
    /// The object that creates it.
    pub(super) owner: ObjectRef,
    pub(super) labels: Labels,
    spec: &'a Node,
}

/// All pods that the manifests create, with the Services and namespaces.
pub(super) struct DeclaredPods<'a> {
    pods: Vec<DeclaredPod<'a>>,
    services: Vec<&'a Object>,
    namespaces: Vec<&'a Object>,
}

impl<'a> DeclaredPods<'a> {
    pub(super) fn from_objects(objects: impl Iterator<Item = (&'a Object, &'a SourceMap)>) -> Self {
        let mut all = Self {
            pods: Vec::new(),
            services: Vec::new(),
            namespaces: Vec::new(),
        };
        for (object, _) in objects {
            match (object.id.group.as_str(), object.id.kind.as_str()) {
                ("", "Service") => all.services.push(object),
                ("", "Namespace") => all.namespaces.push(object),
                _ => {}
            }
            if let Some(template) = template(object) {
                all.pods.push(DeclaredPod {
                    owner: object.id.clone(),
                    labels: template.labels().map(labels).unwrap_or_default(),
                    spec: template.spec,
                });
            }
        }
        all
    }

    /// A pod that serves a Service.
    pub(super) fn behind(&self, namespace: &str, service: &str) -> Option<&DeclaredPod<'a>> {
        let service = self
            .services
            .iter()
            .find(|one| one.id.name == service && one.id.namespace_or_default() == namespace)?;
        let selector = labels(service.node.at(&["spec", "selector"])?);
        if selector.is_empty() {
            return None;
        }
        self.pods.iter().find(|pod| {
            pod.owner.namespace_or_default() == namespace
                && selector
                    .iter()
                    .all(|(key, value)| pod.labels.get(key) == Some(value))
        })
    }

    /// The labels of a namespace, including the label of every namespace.
    pub(super) fn labels_of(&self, namespace: &str) -> Labels {
        let mut known = self
            .namespaces
            .iter()
            .find(|one| one.id.name == namespace)
            .and_then(|one| one.node.at(&["metadata", "labels"]))
            .map(labels)
            .unwrap_or_default();
        known.insert(
            "kubernetes.io/metadata.name".to_owned(),
            namespace.to_owned(),
        );
        known
    }

    /// The objects whose pods mount a claim.
    pub(super) fn users_of(&self, claim: &ObjectRef) -> Vec<ObjectRef> {
        self.pods
            .iter()
            .filter(|pod| pod.owner.namespace_or_default() == claim.namespace_or_default())
            .filter(|pod| {
                volumes(pod.spec).iter().any(|volume| {
                    volume.str_at(&["persistentVolumeClaim", "claimName"]) == Some(&claim.name)
                })
            })
            .map(|pod| pod.owner.clone())
            .collect()
    }
}

pub(super) fn labels(node: &Node) -> Labels {
    node.entries()
        .iter()
        .filter_map(|entry| Some((entry.key.clone(), entry.value.as_str()?.to_owned())))
        .collect()
}

/// Whether the selector of a webhook matches these labels. An absent or empty selector matches everything. An invalid selector
/// matches nothing, so that it causes no finding.
pub(super) fn fits(selector: Option<&Node>, labels: &Labels) -> bool {
    LabelSelector::parse(selector)
        .is_ok_and(|selector| selector.is_none_or(|selector| selector.matches(labels)))
}

fn volumes(spec: &Node) -> &[Node] {
    spec.list("volumes")
}

/// The template of an object's pods. A VM has one pod.
fn template(object: &Object) -> Option<PodTemplate<'_>> {
    match (object.id.group.as_str(), object.id.kind.as_str()) {
        ("kubevirt.io", "VirtualMachine") => {
            PodTemplate::from_node(object.node.at(&["spec", "template"])?)
        }
        _ => object.pod_template(),
    }
}

/// The images of an object's pods, with their lines.
pub(super) fn images(object: &Object) -> Vec<(&str, u32)> {
    let Some(pods) = template(object) else {
        return Vec::new();
    };
    containers(pods.spec)
        .filter_map(|container| {
            let entry = container.node.entry("image")?;
            Some((entry.value.as_str()?, entry.line))
        })
        .collect()
}

/// The function without which no node becomes Ready, in words.
pub(super) fn makes_nodes_ready(object: &Object) -> Option<&'static str> {
    let cni = "a network plugin";
    let cloud = "a cloud-controller-manager";
    if object.id.group == "helm.cattle.io" && object.id.kind == "HelmChart" {
        let chart = object.node.str_at(&["spec", "chart"]).unwrap_or_default();
        let named = |parts: &[&str]| {
            parts
                .iter()
                .any(|part| object.id.name.contains(part) || chart.contains(part))
        };
        if named(&CNI_CHARTS) {
            return Some(cni);
        }
        return named(&["cloud-provider", "cloud-controller"]).then_some(cloud);
    }
    let spec = template(object)?.spec;
    let mounts = volumes(spec).iter().any(|volume| {
        volume
            .str_at(&["hostPath", "path"])
            .is_some_and(|path| CNI_PATHS.contains(&path.trim_end_matches('/')))
    });
    if object.id.kind == "DaemonSet" && mounts {
        return Some(cni);
    }
    let tolerates = spec
        .list("tolerations")
        .iter()
        .any(|one| one.str_at(&["key"]) == Some(UNINITIALIZED));
    (tolerates && object.id.name.contains("cloud")).then_some(cloud)
}

/// Whether it assigns addresses to Services of type LoadBalancer.
pub(super) fn gives_addresses(object: &Object) -> bool {
    if object.id.group == "metallb.io" {
        return true;
    }
    let chart = object.node.str_at(&["spec", "chart"]).unwrap_or_default();
    let runs = template(object).is_some() || object.id.kind == "HelmChart";
    runs && (addresses::gives_addresses(&object.id.name) || addresses::gives_addresses(chart))
}
