//! The controllers that make objects work. Each writes an object's status twice: when it has seen the object, and when it has
//! finished. In between it waits for the objects that the object refers to.

use serde_json::json;
use smol_str::{SmolStr, format_smolstr};
use windrow_model::manifest::ObjectRef;
use windrow_plan::knowledge::is_kubernetes_group;

use super::addresses;
use super::claims::{claims_are_bound, is_bound, is_used, make_claim, make_claim_of_data_volume};
use super::cluster::{SimulatedCluster, Stored};
use super::lacking;
use super::literals::{self, named, static_json};
use super::log::HappeningKind;
use super::machines::{MachineState, become_state, has_its_parts, make_claims, starts};
use super::operators::{self, helm_job_of, is_complete};
use super::timer::ControllerStage;
use super::times::{self, Range};

/// Objects that wait for other objects that they refer to.
#[derive(Debug, Clone, Default)]
pub(super) struct Controllers {
    waiting: Vec<(ObjectRef, ControllerStage)>,
    /// The number of changes of objects, and of discovery, at the last check of the waiting objects.
    looked_at: (usize, u64),
}

impl Controllers {
    /// Starts work on new and changed objects, and on waiting ones that can continue.
    pub(super) fn take_up_changes(&mut self, cluster: &mut SimulatedCluster) {
        for id in std::mem::take(&mut cluster.changed) {
            let installs = cluster.may_bring.contains_key(&id) || cluster.brings.contains_key(&id);
            let range = first_look(&id).or(installs.then_some(times::VM_STATUS));
            if let Some(range) = range {
                self.waiting.retain(|(waits, _)| *waits != id);
                cluster.act_on(id, ControllerStage::Seen, range);
            }
        }
        if self.looked_at == (cluster.changes(), cluster.served_at()) || self.waiting.is_empty() {
            return;
        }
        self.looked_at = (cluster.changes(), cluster.served_at());
        let is_machine = |(id, stage): &&(ObjectRef, ControllerStage)| {
            id.kind == "VirtualMachine" && *stage == ControllerStage::Done
        };
        let machines: Vec<ObjectRef> = self
            .waiting
            .iter()
            .filter(is_machine)
            .map(|(id, _)| id.clone())
            .collect();
        for machine in machines {
            make_claims(cluster, &machine);
        }
        let able = |waits: &mut (ObjectRef, ControllerStage)| can(cluster, &waits.0, waits.1);
        let mut able: Vec<_> = self.waiting.extract_if(.., able).collect();
        able.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (id, stage) in able {
            schedule(id, stage, cluster);
        }
    }

    pub(super) fn act(
        &mut self,
        id: ObjectRef,
        stage: ControllerStage,
        cluster: &mut SimulatedCluster,
    ) {
        let Some(object) = cluster.stored(&id) else {
            return;
        };
        if !is_able(cluster, &id, object, stage) {
            return self.wait(id, stage);
        }
        match stage {
            ControllerStage::Seen => {
                let all_said = is_all_said(&id, object);
                cluster.set_done(&id, false);
                seen(cluster, &id);
                cluster.begins(&id);
                if all_said {
                    return;
                }
                match can(cluster, &id, ControllerStage::Done) {
                    true => schedule(id, ControllerStage::Done, cluster),
                    false => self.wait(id, ControllerStage::Done),
                }
            }
            ControllerStage::Done => {
                cluster.set_done(&id, true);
                done(cluster, &id);
                installed(cluster, &id);
            }
        }
    }

    fn wait(&mut self, id: ObjectRef, stage: ControllerStage) {
        match self.waiting.iter_mut().find(|(waits, _)| *waits == id) {
            Some(known) => known.1 = stage,
            None => self.waiting.push((id, stage)),
        }
    }
}

fn schedule(id: ObjectRef, stage: ControllerStage, cluster: &mut SimulatedCluster) {
    let range = match stage {
        ControllerStage::Seen => first_look(&id),
        ControllerStage::Done => Some(last_word(&id)),
    };
    if let Some(range) = range {
        cluster.act_on(id, stage, range);
    }
}

/// Is there no work until the object itself changes? True for a Service that requests no address.
fn is_all_said(id: &ObjectRef, object: &Stored) -> bool {
    (id.group.as_str(), id.kind.as_str()) == ("", "Service")
        && object.spec()["type"] != "LoadBalancer"
}

/// How soon a controller sees an object of this kind; `None` if no controller handles it.
fn first_look(id: &ObjectRef) -> Option<Range> {
    match (id.group.as_str(), id.kind.as_str()) {
        ("apps", "DaemonSet" | "Deployment" | "StatefulSet")
        | ("batch", "Job")
        | ("", "PersistentVolumeClaim" | "Pod" | "Service")
        | ("kubevirt.io", "VirtualMachine")
        | ("harvesterhci.io", "VirtualMachineImage" | "Addon")
        | ("helm.cattle.io", "HelmChart") => Some(times::VM_STATUS),
        ("apiregistration.k8s.io", "APIService") => Some(times::VM_STATUS),
        ("management.cattle.io", "Feature") => {
            operators::is_feature(id).then_some(times::VM_STATUS)
        }
        // Settings belong to Harvester's own controller; the other built-in kinds have no status.
        ("harvesterhci.io", "Setting")
        | ("longhorn.io", "Volume")
        | ("kubevirt.io", "KubeVirt")
        | ("management.cattle.io", "NodeDriver" | "Setting") => None,
        (group, _) => (!is_kubernetes_group(group)).then_some(times::VM_STATUS),
    }
}

/// How long it takes from there, after all objects that the object refers to exist.
fn last_word(id: &ObjectRef) -> Range {
    match (id.group.as_str(), id.kind.as_str()) {
        ("apps", _) | ("", "Pod") => times::WORKLOAD,
        ("batch", _) => times::JOB,
        ("", "PersistentVolumeClaim") => times::CLAIM,
        ("", "Service") => times::ADDRESS,
        ("kubevirt.io", "VirtualMachine") => times::VM_START,
        ("harvesterhci.io", "VirtualMachineImage") => times::IMAGE,
        ("helm.cattle.io", _) => times::HELM_JOB,
        _ => times::CUSTOM,
    }
}

/// Is an object ready, according to its controller? `None` if no controller of the simulation makes it ready, or not on its own.
pub(super) fn is_ready(cluster: &SimulatedCluster, id: &ObjectRef) -> Option<bool> {
    let object = cluster.stored(id)?;
    if !object.is_of_a_manifest() {
        return None;
    }
    match (id.group.as_str(), id.kind.as_str()) {
        ("apps", "DaemonSet" | "Deployment" | "StatefulSet")
        | ("batch", "Job")
        | ("", "Pod")
        | ("kubevirt.io", "KubeVirt") => Some(object.is_done()),
        ("helm.cattle.io", "HelmChart") => {
            let job = helm_job_of(cluster, id);
            Some(object.is_done() && job.is_some_and(Stored::is_done))
        }
        ("kubevirt.io", "VirtualMachine") if starts(object.spec()) => Some(object.is_done()),
        _ => None,
    }
}

/// Does everything that the controller needs for this stage exist?
fn can(cluster: &SimulatedCluster, id: &ObjectRef, stage: ControllerStage) -> bool {
    let object = cluster.stored(id);
    object.is_some_and(|object| is_able(cluster, id, object, stage))
}

fn is_able(
    cluster: &SimulatedCluster,
    id: &ObjectRef,
    object: &Stored,
    stage: ControllerStage,
) -> bool {
    match (id.group.as_str(), id.kind.as_str(), stage) {
        ("kubevirt.io", "VirtualMachine", ControllerStage::Seen) => kubevirt_deployed(cluster),
        ("kubevirt.io", "VirtualMachine", ControllerStage::Done) => {
            starts(object.spec()) && has_its_parts(cluster, id, object)
        }
        ("harvesterhci.io", "Addon", ControllerStage::Done) => {
            object.spec()["enabled"] != true || helm_job_of(cluster, id).is_some_and(is_complete)
        }
        ("harvesterhci.io", _, _) => harvester_runs(cluster),
        ("management.cattle.io", "Feature", ControllerStage::Done) => {
            operators::switches_off(cluster, object)
        }
        ("", "PersistentVolumeClaim", ControllerStage::Done) => {
            // A clone waits until its source is bound (kubernetes/website `concepts/storage/volume-pvc-datasource.md`).
            let source = &object.spec()["dataSource"];
            let source =
                (source["kind"] == "PersistentVolumeClaim").then(|| source["name"].as_str());
            let has_source = source
                .flatten()
                .is_none_or(|name| is_bound(cluster, id.namespace_or_default(), name));
            match object.spec()["storageClassName"].as_str() {
                _ if !has_source => false,
                None | Some("") => true,
                Some(class) => cluster
                    .stored(&named("storage.k8s.io", "StorageClass", None, class))
                    .is_some_and(|class| {
                        class.body()["volumeBindingMode"] != "WaitForFirstConsumer"
                            || is_used(cluster, id)
                    }),
            }
        }
        ("", "Service", ControllerStage::Done) => {
            object.spec()["type"] == "LoadBalancer" && gives_addresses(cluster)
        }
        ("apps" | "batch", _, ControllerStage::Done) | ("", "Pod", ControllerStage::Done) => {
            let chart = chart_of_job(cluster, id);
            !cluster.cannot_run.contains_key(id)
                && claims_are_bound(cluster, id, object)
                && chart.is_none_or(|chart| lacking::target_namespace(cluster, &chart).is_none())
        }
        _ => true,
    }
}

/// Writes the status of an object that a controller has seen.
fn seen(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let Some(object) = cluster.stored(id) else {
        return;
    };
    let generation = object.generation;
    let status = match (id.group.as_str(), id.kind.as_str()) {
        ("kubevirt.io", "VirtualMachine") => {
            let state = match starts(object.spec()) {
                true => MachineState::Starting,
                false => MachineState::Stopped,
            };
            become_state(cluster, id, state);
            return make_claims(cluster, id);
        }
        ("cdi.kubevirt.io", "DataVolume") => return make_claim_of_data_volume(cluster, id),
        ("harvesterhci.io", "Addon") => return operators::addon_seen(cluster, id),
        ("", "PersistentVolumeClaim" | "Pod") => static_json!({"phase": "Pending"}),
        ("apps", "DaemonSet") => {
            json!({"observedGeneration": generation, "desiredNumberScheduled": 1,
                    "currentNumberScheduled": 1, "updatedNumberScheduled": 1})
            .into()
        }
        ("apps", _) => {
            let replicas = replicas(object);
            json!({"observedGeneration": generation, "replicas": replicas,
                    "updatedReplicas": replicas, "unavailableReplicas": replicas,
                    "conditions": [{"type": "Progressing", "status": "True",
                        "reason": "ReplicaSetUpdated"}]})
            .into()
        }
        ("batch", "Job") => static_json!({"active": 1}),
        _ => return,
    };
    cluster.set_status(id, status);
}

/// Writes the status of an object that a controller has finished.
fn done(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let Some(object) = cluster.stored(id) else {
        return;
    };
    let generation = object.generation;
    let status = match (id.group.as_str(), id.kind.as_str()) {
        ("kubevirt.io", "VirtualMachine") => {
            return become_state(cluster, id, MachineState::Running);
        }
        ("management.cattle.io", "Feature") => return operators::switch_driver_off(cluster),
        ("helm.cattle.io", "HelmChart") => return helm_job(cluster, id),
        ("harvesterhci.io", "VirtualMachineImage") => return image_imported(cluster, id),
        ("harvesterhci.io", "Addon") => return operators::addon_done(cluster, id),
        ("kubevirt.io", "KubeVirt") => static_json!({"phase": "Deployed"}),
        ("", "PersistentVolumeClaim") => static_json!({"phase": "Bound"}),
        ("", "Service") => static_json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        ("", "Pod") => {
            static_json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        }
        ("apps", "DaemonSet") => {
            json!({"observedGeneration": generation, "desiredNumberScheduled": 1,
                    "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1,
                    "numberAvailable": 1})
            .into()
        }
        ("apps", _) => {
            let replicas = replicas(object);
            json!({"observedGeneration": generation, "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas, "currentReplicas": replicas,
            "conditions": [
                {"type": "Available", "status": "True",
                    "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True",
                    "reason": "NewReplicaSetAvailable"},
            ]})
            .into()
        }
        ("batch", "Job") => json!({"succeeded": 1, "completionTime": cluster.now().to_string(),
            "conditions": [{"type": "Complete", "status": "True"}]})
        .into(),
        _ => json!({"observedGeneration": generation,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"},
                        {"type": "Available", "status": "True", "reason": "Simulated"}]})
        .into(),
    };
    cluster.set_status(id, status);
}

fn replicas(workload: &Stored) -> u64 {
    workload.spec()["replicas"].as_u64().unwrap_or(1)
}

/// helm-controller (k3s): one Job in the chart's namespace, named after it.
fn helm_job(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let job = format_smolstr!("helm-install-{}", id.name);
    let namespace = id.namespace.clone().unwrap_or_default();
    let status = json!({"jobName": job, "conditions": [{"type": "JobCreated", "status": "True"}]});
    cluster.set_status(id, status);
    let job = ObjectRef::namespaced("batch", "Job", namespace, job);
    let now = cluster.now().to_string();
    let json = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"creationTimestamp": now,
            "labels": {"helmcharts.helm.cattle.io/chart": id.name}}, "spec": {}});
    cluster.put(job, json);
}

/// An installer has finished: for a chart, when its Job is complete.
fn installed(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    if id.kind == "HelmChart" {
        return;
    }
    let Some(chart) = chart_of_job(cluster, id) else {
        return cluster.installed(id);
    };
    if let Some(namespace) = created_namespace(cluster, &chart) {
        cluster.create_namespace(namespace);
    }
    cluster.installed(&chart);
}

/// The chart that a Job installs.
fn chart_of_job(cluster: &SimulatedCluster, id: &ObjectRef) -> Option<ObjectRef> {
    let job = Some(id).filter(|id| (id.group.as_str(), id.kind.as_str()) == ("batch", "Job"))?;
    let name = job.name.strip_prefix("helm-install-")?;
    let chart = named("helm.cattle.io", "HelmChart", id.namespace.as_deref(), name);
    cluster.has(&chart).then_some(chart)
}

/// `helm install --create-namespace --namespace TARGET`.
fn created_namespace(cluster: &SimulatedCluster, chart: &ObjectRef) -> Option<SmolStr> {
    let spec = cluster.stored(chart)?.spec();
    let target = spec["targetNamespace"].as_str()?;
    let creates = spec["createNamespace"] == true && !target.is_empty();
    creates.then(|| target.into())
}

/// The import has ended. Of a backing image of Longhorn, the StorageClass appears; CDI's backend has imported into a claim with the
/// name of the image (harvester v1.8.0 `pkg/image/cdi/cdi.go`, initializeDownload).
fn image_imported(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let spec = cluster.stored(id).map(|image| image.spec());
    let by_cdi = spec.filter(|spec| spec["backend"] == "cdi");
    let target = by_cdi
        .map(|spec| SmolStr::from(spec["targetStorageClassName"].as_str().unwrap_or_default()));
    let class = target
        .clone()
        .unwrap_or_else(|| match cluster.image_class_by_uid {
            true => format_smolstr!("lh-uid-of-{}-{}", id.namespace_or_default(), id.name),
            false => format_smolstr!("longhorn-{}", id.name),
        });
    let status = json!({"progress": 100, "storageClassName": class,
        "conditions": [{"type": "Initialized", "status": "True"},
            {"type": "Imported", "status": "True"}]});
    cluster.set_status(id, status);
    cluster.record(HappeningKind::Became {
        object: id.clone(),
        state: "Imported".into(),
    });
    if target.is_some() {
        return make_claim(cluster, id.namespace_or_default(), &id.name, Some(&class));
    }
    let class = named("storage.k8s.io", "StorageClass", None, class);
    cluster.put(
        class,
        static_json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "provisioner": "driver.longhorn.io"}),
    );
}

fn kubevirt_deployed(cluster: &SimulatedCluster) -> bool {
    cluster
        .of_kind(&literals::kind("kubevirt.io", "KubeVirt"))
        .any(|(_, kubevirt)| kubevirt.status()["phase"] == "Deployed")
}

/// Harvester's own controllers run after its pod has written its Settings.
pub(super) fn harvester_runs(cluster: &SimulatedCluster) -> bool {
    cluster.has(&literals::object(
        "harvesterhci.io",
        "Setting",
        None,
        "server-version",
    ))
}

/// Does a program assign addresses to Services of type LoadBalancer? Harvester's nodes have kube-vip.
fn gives_addresses(cluster: &SimulatedCluster) -> bool {
    const GIVERS: [(&str, &str); 3] = [
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("helm.cattle.io", "HelmChart"),
    ];
    cluster.addresses
        || GIVERS.iter().any(|(group, kind)| {
            cluster
                .of_kind(&literals::kind(group, kind))
                .any(|(id, object)| {
                    let chart = object.spec()["chart"].as_str().unwrap_or_default();
                    addresses::gives_addresses(&id.name) || addresses::gives_addresses(chart)
                })
        })
}
