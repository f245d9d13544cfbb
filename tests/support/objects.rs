//! Objects of any kind on a real API server: making kinds, making objects, and playing the controllers that write
//! their status.

// Each test file uses a part of it.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Request};
use serde_json::{Value, json};

use super::cluster::assets::published_kind;
use super::cluster::{Cluster, DEADLINE, Spec, Who, eventually};

/// Group, version and kind.
pub(crate) type Gvk = (&'static str, &'static str, &'static str);

/// How a kind is asked for.
pub(crate) fn resource((group, version, kind): (&str, &str, &str)) -> ApiResource {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    match kind {
        "NetworkAttachmentDefinition" => {
            ApiResource::from_gvk_with_plural(&gvk, "network-attachment-definitions")
        }
        _ => ApiResource::from_gvk(&gvk),
    }
}

/// The objects of a kind; of all namespaces where none is named.
pub(crate) fn api(client: &Client, gvk: Gvk, namespace: &str) -> Api<DynamicObject> {
    let resource = resource(gvk);
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

pub(crate) const DEFINITION: Gvk = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
pub(crate) const ADDON: Gvk = ("harvesterhci.io", "v1beta1", "Addon");
pub(crate) const SETTING: Gvk = ("harvesterhci.io", "v1beta1", "Setting");
pub(crate) const CHART: Gvk = ("helm.cattle.io", "v1", "HelmChart");
pub(crate) const VERSION: Gvk = ("harvesterhci.io", "v1beta1", "Version");
pub(crate) const VM: Gvk = ("kubevirt.io", "v1", "VirtualMachine");
pub(crate) const VMI: Gvk = ("kubevirt.io", "v1", "VirtualMachineInstance");
pub(crate) const VMI_MIGRATION: Gvk = ("kubevirt.io", "v1", "VirtualMachineInstanceMigration");
pub(crate) const VM_IMAGE: Gvk = ("harvesterhci.io", "v1beta1", "VirtualMachineImage");
pub(crate) const VM_BACKUP: Gvk = ("harvesterhci.io", "v1beta1", "VirtualMachineBackup");
pub(crate) const KUBEVIRT: Gvk = ("kubevirt.io", "v1", "KubeVirt");
pub(crate) const UPGRADE: Gvk = ("harvesterhci.io", "v1beta1", "Upgrade");
pub(crate) const FEATURE: Gvk = ("management.cattle.io", "v3", "Feature");
pub(crate) const NODE_DRIVER: Gvk = ("management.cattle.io", "v3", "NodeDriver");
pub(crate) const MANAGED_CHART: Gvk = ("management.cattle.io", "v3", "ManagedChart");
pub(crate) const RANCHER_CLUSTER: Gvk = ("provisioning.cattle.io", "v1", "Cluster");
pub(crate) const HARVESTER_MACHINE: Gvk = ("rke-machine.cattle.io", "v1", "HarvesterMachine");
pub(crate) const CAPI_CLUSTER: Gvk = ("cluster.x-k8s.io", "v1beta1", "Cluster");
pub(crate) const MACHINE: Gvk = ("cluster.x-k8s.io", "v1beta1", "Machine");
pub(crate) const PLAN: Gvk = ("upgrade.cattle.io", "v1", "Plan");
pub(crate) const DEPLOYMENT: Gvk = ("apps", "v1", "Deployment");
pub(crate) const BUDGET: Gvk = ("policy", "v1", "PodDisruptionBudget");
pub(crate) const APP: Gvk = ("catalog.cattle.io", "v1", "App");
pub(crate) const CLUSTER_REPO: Gvk = ("catalog.cattle.io", "v1", "ClusterRepo");
pub(crate) const BUNDLE: Gvk = ("fleet.cattle.io", "v1alpha1", "Bundle");
pub(crate) const BUNDLE_DEPLOYMENT: Gvk = ("fleet.cattle.io", "v1alpha1", "BundleDeployment");
pub(crate) const CLAIM: Gvk = ("", "v1", "PersistentVolumeClaim");
pub(crate) const PERSISTENT_VOLUME: Gvk = ("", "v1", "PersistentVolume");
pub(crate) const NODE: Gvk = ("", "v1", "Node");
pub(crate) const EVENT: Gvk = ("", "v1", "Event");
pub(crate) const VOLUME: Gvk = ("longhorn.io", "v1beta2", "Volume");
pub(crate) const ENGINE: Gvk = ("longhorn.io", "v1beta2", "Engine");
pub(crate) const INSTANCE_MANAGER: Gvk = ("longhorn.io", "v1beta2", "InstanceManager");
pub(crate) const CLUSTER_NETWORK: Gvk = networks("ClusterNetwork");
pub(crate) const VLAN_CONFIG: Gvk = networks("VlanConfig");
pub(crate) const VLAN_STATUS: Gvk = networks("VlanStatus");
pub(crate) const NETWORK: Gvk = ("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
pub(crate) const ORPHAN: Gvk = ("longhorn.io", "v1beta2", "Orphan");
pub(crate) const POLICY: Gvk = (
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
);
pub(crate) const POLICY_BINDING: Gvk = (
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
);
pub(crate) const VALIDATION: Gvk = (
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
);
pub(crate) const MUTATION: Gvk = (
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
);
pub(crate) const LEASE: Gvk = ("coordination.k8s.io", "v1", "Lease");
pub(crate) const JOB: Gvk = ("batch", "v1", "Job");
pub(crate) const POD: Gvk = ("", "v1", "Pod");
pub(crate) const SECRET: Gvk = ("", "v1", "Secret");
pub(crate) const ENDPOINTS: Gvk = ("", "v1", "Endpoints");
pub(crate) const API_SERVICE: Gvk = ("apiregistration.k8s.io", "v1", "APIService");
pub(crate) const SERVICE: Gvk = ("", "v1", "Service");
pub(crate) const SERVICE_ACCOUNT: Gvk = ("", "v1", "ServiceAccount");
pub(crate) const NAMESPACE: Gvk = ("", "v1", "Namespace");

const fn networks(kind: &'static str) -> Gvk {
    ("network.harvesterhci.io", "v1beta1", kind)
}

/// Makes an object. A field that its kind does not have is refused.
pub(crate) async fn create(api: &Api<DynamicObject>, object: Value) -> DynamicObject {
    // As Api::create does, which knows of no field validation.
    let body = serde_json::to_vec(&object).unwrap();
    let mut request = Request::new(api.resource_url())
        .create(&PostParams::default(), body)
        .unwrap();
    let strictly = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = strictly.parse().unwrap();
    api.clone().into_client().request(request).await.unwrap()
}

/// Makes an object of a kind; the object itself need not name it.
pub(crate) async fn make(client: &Client, gvk: Gvk, namespace: &str, mut object: Value) {
    let (group, version, kind) = gvk;
    object["apiVersion"] = match group {
        "" => json!(version),
        group => json!(format!("{group}/{version}")),
    };
    object["kind"] = json!(kind);
    create(&api(client, gvk, namespace), object).await;
}

/// Writes fields of an object's status.
pub(crate) async fn status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let strictly = PatchParams::default().validation_strict();
    match api.patch_status(name, &strictly, &patch).await {
        Ok(_) => {}
        // Harvester's Setting and KubeVirt's VirtualMachineInstance have no status subresource.
        Err(kube::Error::Api(refused)) if refused.code == 404 => {
            api.patch(name, &strictly, &patch).await.unwrap();
        }
        Err(other) => panic!("{other}"),
    }
}

/// Makes a kind that takes anything, and waits until it is served.
pub(crate) async fn serve(client: &Client, gvk: Gvk, scope: &str) {
    let (group, version, kind) = gvk;
    let plural = resource(gvk).plural;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        // Without a word on its approval no group of Kubernetes' own is taken.
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {
            "api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    });
    create(&api(client, DEFINITION, ""), definition).await;
    served(client, gvk).await;
}

/// The same with the definition that is published, which refuses what its schema does not have. Where no kinds were
/// taken out of their modules, and of a kind that is in none, it takes anything.
pub(crate) async fn serve_published(client: &Client, gvk: Gvk, scope: &str) {
    let Some(definition) = published_kind(gvk) else {
        return serve(client, gvk, scope).await;
    };
    let definitions = api(client, DEFINITION, "");
    let request = http::Request::post(definitions.resource_url())
        .header("content-type", "application/yaml")
        .body(definition.into_bytes())
        .unwrap();
    client.request::<Value>(request).await.unwrap();
    served(client, gvk).await;
}

/// Starts a cluster that serves these kinds, each with its scope, as they are published; `None`, after one line that says
/// why, when the parts are not here.
pub(crate) async fn start(spec: Spec, kinds: &[(Gvk, &str)]) -> Option<(Cluster, Client)> {
    let cluster = Cluster::start(spec).await?;
    let client = cluster.client(Who::Admin).await;
    for (gvk, scope) in kinds {
        serve_published(&client, *gvk, scope).await;
    }
    Some((cluster, client))
}

/// Waits until a kind is served.
pub(crate) async fn served(client: &Client, gvk: Gvk) {
    let everywhere = api(client, gvk, "");
    eventually(&format!("{} is served", gvk.2), DEADLINE, async || {
        everywhere.list(&Default::default()).await.ok().map(drop)
    })
    .await;
}

/// Makes a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) {
    let namespaces = api(client, NAMESPACE, "");
    create(&namespaces, json!({"metadata": {"name": name}})).await;
}

/// The content of a field of an object.
pub(crate) async fn field(api: &Api<DynamicObject>, name: &str, pointer: &str) -> Value {
    let object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
    object.pointer(pointer).cloned().unwrap_or_default()
}

/// Says which release of Harvester the cluster runs.
pub(crate) async fn harvester(client: &Client, release: &str) {
    let setting = json!({"metadata": {"name": "server-version"}, "value": release});
    make(client, SETTING, "", setting).await;
}

/// Makes a server's Node, with this version of RKE2.
pub(crate) async fn server(client: &Client, rke2: &str) {
    let labels = json!({"node-role.kubernetes.io/control-plane": "true"});
    let node = json!({"metadata": {"name": "server", "labels": labels}});
    make(client, NODE, "", node).await;
    let information = json!({"nodeInfo": {"kubeletVersion": rke2, "architecture": "", "bootID": "",
        "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
        "operatingSystem": "", "osImage": "", "systemUUID": ""}});
    status(&api(client, NODE, ""), "server", information).await;
}

/// Makes a node that takes pods.
pub(crate) async fn node(client: &Client, name: &str, labels: Value, taints: Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    let node = json!({"metadata": {"name": name, "labels": labels}});
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = json!({"status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": null, "lastTransitionTime": null}]
    }});
    let merge = PatchParams::default();
    nodes
        .patch_status(name, &merge, &Patch::Merge(&status))
        .await
        .unwrap();
    // A new node is tainted not-ready by admission.
    let taints = json!({"spec": {"taints": taints}});
    nodes
        .patch(name, &merge, &Patch::Merge(&taints))
        .await
        .unwrap();
}

/// Bound pods of these namespaces become ready, as under kubelets.
pub(crate) async fn play_kubelets(client: &Client, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for pod in pods.list(&ListParams::default()).await.unwrap().items {
        if pod.metadata.deletion_timestamp.is_some() {
            let at_once = DeleteParams::default().grace_period(0);
            let name = pod.metadata.name.unwrap_or_default();
            // It may be gone already.
            let _ = pods.delete(&name, &at_once).await;
            continue;
        }
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_ref());
        if bound.is_none() || phase.is_some_and(|phase| phase != "Pending") {
            continue;
        }
        let status = json!({"status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}
        ]}});
        let name = pod.metadata.name.unwrap_or_default();
        // It may be gone meanwhile.
        let _ = pods
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await;
    }
}

/// Asks for a server.
pub(crate) fn pinned() -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
        ]}]
    }}})
}

/// A Deployment whose pods have a label of their own, and a budget that wants one of them.
pub(crate) async fn guarded(
    client: &Client,
    namespace: &str,
    name: &str,
    label: &str,
    replicas: u32,
    affinity: Value,
) {
    let labels = json!({label: name});
    let deployment = json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "none"}]}}}});
    make(client, DEPLOYMENT, namespace, deployment).await;
    let budget = json!({"metadata": {"name": format!("{name}-pdb")},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}});
    make(client, BUDGET, namespace, budget).await;
}

/// Waits until the disruption controller has counted this many healthy pods; the kubelets are played meanwhile.
pub(crate) async fn counted(client: &Client, namespace: &str, name: &str, healthy: i64) {
    let budgets = api(client, BUDGET, namespace);
    let budget = format!("{name}-pdb");
    eventually(
        "the disruption controller has counted",
        DEADLINE,
        async || {
            play_kubelets(client, namespace).await;
            (field(&budgets, &budget, "/status/currentHealthy").await == healthy).then_some(())
        },
    )
    .await;
}

/// Changes an object.
pub(crate) async fn patch(client: &Client, gvk: Gvk, namespace: &str, name: &str, patch: Value) {
    let api = api(client, gvk, namespace);
    let strictly = PatchParams::default().validation_strict();
    api.patch(name, &strictly, &Patch::Merge(&patch))
        .await
        .unwrap();
}
