//! The kinds that Windrow requests from kube-apiserver: where each is, and which of its objects are wanted. All paths come from
//! here.

use std::borrow::Cow;

use serde_json::Value;
use windrow_model::manifest::GroupKind;
use windrow_model::object::{api_root, api_version};

use super::scope::{any, only};
use super::{KindScope, text};

const CLUSTER: KindScope = KindScope::Cluster;
const LONGHORN: KindScope = only(
    &["longhorn-system"],
    "longhorn-manager v1.12.1 app/daemon.go:143 (the namespace of its pod); harvester v1.9.0-rc6 pkg/webhook/resources/upgrade/validator.go:301",
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectKind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    /// Selects a part of its objects, in a word; empty for all of them.
    pub part: &'static str,
    pub scope: KindScope,
}

macro_rules! kinds {
    ($(#[doc = $list_doc:literal])+ $list:ident:
        $($(#[doc = $doc:literal])+ $name:ident $group:literal $version:literal $plural:literal $kind:literal $(with $part:literal)? in $scope:expr;)+) => {
        impl ObjectKind {
            $($(#[doc = $doc])+
            pub const $name: ObjectKind = ObjectKind {
                group: $group, version: $version, plural: $plural, kind: $kind,
                part: concat!("" $(, $part)?), scope: $scope,
            };)+

            $(#[doc = $list_doc])+
            pub const $list: &'static [ObjectKind] = &[$(ObjectKind::$name,)+];
        }
    };
}

kinds! {
    /// Everything that diagnosis ever lists. For Secrets, this is some metadata ([`ObjectKind::kept_metadata`]).
    ALL:
    /// Nodes.
    NODE "" "v1" "nodes" "Node" in CLUSTER;
    /// Pods.
    POD "" "v1" "pods" "Pod" in any("a drain evicts pods of every namespace");
    /// Pods that do not run yet: a few of many, which can be requested if all pods would be too much.
    PENDING_POD "" "v1" "pods" "Pod" with "status.phase=Pending" in any("a drain evicts pods of every namespace");
    /// Namespaces: affinity can select them by label.
    NAMESPACE "" "v1" "namespaces" "Namespace" in CLUSTER;
    /// Volume claims of pods.
    CLAIM "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" in any("pods of every namespace have claims");
    /// Volumes: some can be reached from some nodes only.
    VOLUME "" "v1" "persistentvolumes" "PersistentVolume" in CLUSTER;
    /// Disruption budgets: a drain waits for them.
    BUDGET "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" in any("a drain obeys the budgets of every namespace");
    /// Jobs, helm-controller's and Harvester's among them.
    JOB "batch" "v1" "jobs" "Job" in any("helm-controller makes Jobs in the namespace of each chart; an upgrade of Harvester, in two");
    /// helm-controller's charts.
    HELM_CHART "helm.cattle.io" "v1" "helmcharts" "HelmChart" in any("RKE2's helm-controller watches every namespace");
    /// Harvester's add-ons.
    ADDON "harvesterhci.io" "v1beta1" "addons" "Addon" in any("Harvester has add-ons in several namespaces, and its controller watches every one");
    /// Harvester's settings.
    SETTING "harvesterhci.io" "v1beta1" "settings" "Setting" in CLUSTER;
    /// Harvester's upgrades.
    UPGRADE "harvesterhci.io" "v1beta1" "upgrades" "Upgrade" in only(&["harvester-system"], "harvester v1.9.0-rc6 pkg/controller/master/upgrade/upgrade_controller.go:51");
    /// The upgrades of Harvester's upgrade-toolkit, from v1.9 on.
    UPGRADE_PLAN "management.harvesterhci.io" "v1beta1" "upgradeplans" "UpgradePlan" in CLUSTER;
    /// The versions of Harvester to which an upgrade could go.
    VERSION "harvesterhci.io" "v1beta1" "versions" "Version" in only(&["harvester-system"], "harvester v1.9.0-rc6 pkg/controller/master/upgrade/version_syncer.go:135; Upgrades of that namespace use them: pkg/webhook/resources/upgrade/validator.go:136");
    /// Images of VMs.
    VM_IMAGE "harvesterhci.io" "v1beta1" "virtualmachineimages" "VirtualMachineImage" in any("users have images in their own namespaces");
    /// Backups of VMs.
    VM_BACKUP "harvesterhci.io" "v1beta1" "virtualmachinebackups" "VirtualMachineBackup" in any("users have backups in the namespaces of their VMs");
    /// Scheduled backups of VMs.
    SCHEDULE_VM_BACKUP "harvesterhci.io" "v1beta1" "schedulevmbackups" "ScheduleVMBackup" in any("users have them in the namespaces of their VMs");
    /// KubeVirt's own configuration.
    KUBEVIRT "kubevirt.io" "v1" "kubevirts" "KubeVirt" in any("virt-operator accepts one in any namespace, and its webhook rejects a second one");
    /// Virtual machines.
    VM "kubevirt.io" "v1" "virtualmachines" "VirtualMachine" in any("users have VMs in their own namespaces");
    /// Running virtual machines.
    VMI "kubevirt.io" "v1" "virtualmachineinstances" "VirtualMachineInstance" in any("users have VMs in their own namespaces");
    /// VMs that move to another node.
    MIGRATION "kubevirt.io" "v1" "virtualmachineinstancemigrations" "VirtualMachineInstanceMigration" in any("each is in the namespace of its VM");
    /// Longhorn's volumes.
    LONGHORN_VOLUME "longhorn.io" "v1beta2" "volumes" "Volume" in LONGHORN;
    /// Longhorn's engines: where a volume is attached.
    LONGHORN_ENGINE "longhorn.io" "v1beta2" "engines" "Engine" in LONGHORN;
    /// Longhorn's replicas: where a volume's data is.
    LONGHORN_REPLICA "longhorn.io" "v1beta2" "replicas" "Replica" in LONGHORN;
    /// Longhorn's settings: they limit a drain.
    LONGHORN_SETTING "longhorn.io" "v1beta2" "settings" "Setting" in LONGHORN;
    /// Longhorn's nodes: their disks and the space on them.
    LONGHORN_NODE "longhorn.io" "v1beta2" "nodes" "Node" in LONGHORN;
    /// Longhorn's processes on a node, each kept by a disruption budget.
    INSTANCE_MANAGER "longhorn.io" "v1beta2" "instancemanagers" "InstanceManager" in LONGHORN;
    /// Longhorn's engine images: where each can run.
    ENGINE_IMAGE "longhorn.io" "v1beta2" "engineimages" "EngineImage" in LONGHORN;
    /// Who asks Longhorn to attach a volume, and where.
    LONGHORN_ATTACHMENT "longhorn.io" "v1beta2" "volumeattachments" "VolumeAttachment" in LONGHORN;
    /// Where Longhorn keeps backups.
    BACKUP_TARGET "longhorn.io" "v1beta2" "backuptargets" "BackupTarget" in LONGHORN;
    /// Data on Longhorn's disks that nothing uses any more.
    ORPHAN "longhorn.io" "v1beta2" "orphans" "Orphan" in LONGHORN;
    /// The server of a volume that several pods share.
    SHARE_MANAGER "longhorn.io" "v1beta2" "sharemanagers" "ShareManager" in LONGHORN;
    /// Rancher's feature flags.
    FEATURE "management.cattle.io" "v3" "features" "Feature" in CLUSTER;
    /// Rancher's node drivers.
    NODE_DRIVER "management.cattle.io" "v3" "nodedrivers" "NodeDriver" in CLUSTER;
    /// Rancher's charts of Harvester.
    MANAGED_CHART "management.cattle.io" "v3" "managedcharts" "ManagedChart" in only(&["fleet-local"], "rancher v2.15.0 pkg/controllers/provisioningv2/managedchart/managedchart.go:97 (the Bundle is in the namespace of the chart), pkg/fleet/const.go:13 (that of the local cluster)");
    /// Where Rancher takes charts from.
    CLUSTER_REPO "catalog.cattle.io" "v1" "clusterrepos" "ClusterRepo" in CLUSTER;
    /// Bundles of Fleet.
    BUNDLE "fleet.cattle.io" "v1alpha1" "bundles" "Bundle" in only(&["fleet-local"], "rancher v2.15.0 pkg/fleet/const.go:13");
    /// The state of Fleet's Bundles in one cluster.
    BUNDLE_DEPLOYMENT "fleet.cattle.io" "v1alpha1" "bundledeployments" "BundleDeployment" in only(&["cluster-fleet-local-local-1a3d67d0a899"], "fleet v0.16.1 internal/cmd/controller/agentmanagement/controllers/cluster/controller.go:106 (a hash of `fleet-local::local`)");
    /// system-upgrade-controller's plans.
    PLAN "upgrade.cattle.io" "v1" "plans" "Plan" in only(&["cattle-system", "system-upgrade"], "system-upgrade-controller v0.20.1 handle_core.go:20 (its own namespace) and manifests/system-upgrade-controller.yaml:12; rancher v2.15.0 systemcharts/controller.go:362 (cattle-system)");
    /// Clusters as Rancher makes them.
    PROVISIONING_CLUSTER "provisioning.cattle.io" "v1" "clusters" "Cluster" in any("the clusters that Rancher makes are in workspaces of any name; that of Harvester is requested by namespace");
    /// The control plane of such a cluster.
    RKE_CONTROL_PLANE "rke.cattle.io" "v1" "rkecontrolplanes" "RKEControlPlane" in only(&["fleet-local"], "rancher v2.15.0 pkg/fleet/const.go:13");
    /// Clusters of Cluster API. Rancher up to v2.14 serves this version, and Harvester up to v1.8 uses it.
    CAPI_CLUSTER "cluster.x-k8s.io" "v1beta1" "clusters" "Cluster" in only(&["fleet-local"], "harvester v1.9.0-rc6 pkg/webhook/resources/upgrade/validator.go:233");
    /// Machines of Cluster API.
    CAPI_MACHINE "cluster.x-k8s.io" "v1beta1" "machines" "Machine" in any("the Machines of the clusters that Rancher makes are in workspaces of any name; those of Harvester are requested by namespace");
    /// Deployments.
    DEPLOYMENT "apps" "v1" "deployments" "Deployment" in any("each is requested by namespace");
    /// DaemonSets.
    DAEMON_SET "apps" "v1" "daemonsets" "DaemonSet" in any("the platform has them in several namespaces");
    /// StatefulSets.
    STATEFUL_SET "apps" "v1" "statefulsets" "StatefulSet" in any("the platform has them in several namespaces");
    /// Services: one of them has Harvester's VIP.
    SERVICE "" "v1" "services" "Service" in only(&["kube-system"], "harvester v1.9.0-rc6 pkg/controller/master/rancher/register.go:163");
    /// Harvester's VIP.
    CONFIG_MAP "" "v1" "configmaps" "ConfigMap" in only(&["harvester-system"], "harvester v1.9.0-rc6 pkg/controller/master/rancher/register.go:50");
    /// Groups that other servers serve.
    API_SERVICE "apiregistration.k8s.io" "v1" "apiservices" "APIService" in CLUSTER;
    /// The links of Harvester's nodes, with their hardware addresses.
    LINK_MONITOR "network.harvesterhci.io" "v1beta1" "linkmonitors" "LinkMonitor" in CLUSTER;
    /// The networks of Harvester's VMs on each node.
    VLAN_STATUS "network.harvesterhci.io" "v1beta1" "vlanstatuses" "VlanStatus" in CLUSTER;
    /// Addresses that whereabouts has given to pods.
    IP_POOL "whereabouts.cni.cncf.io" "v1alpha1" "ippools" "IPPool" in only(&["kube-system"], "harvester v1.8.2 pkg/controller/master/storagenetwork/storage_network.go:491; deploy/charts/harvester/dependency_charts/whereabouts");
    /// Leases: they name the leader.
    LEASE "coordination.k8s.io" "v1" "leases" "Lease" in any("each is requested by namespace");
    /// The deploy controller's add-ons: one a manifest file.
    MANIFEST_ADDON "k3s.cattle.io" "v1" "addons" "Addon" in only(&["kube-system"], "k3s 0301210f pkg/deploy/controller.go, getOrCreateAddon");
    /// Events.
    EVENT "" "v1" "events" "Event" in only(&["kube-system"], "k3s 0301210f pkg/deploy/controller.go, start and getOrCreateAddon (Kubernetes keeps the Events of an object in its namespace)");
    /// Warnings about pods.
    POD_WARNING "" "v1" "events" "Event" with "warnings of pods" in any("Kubernetes keeps the Events of a pod in its namespace");
    /// Warnings about volume claims.
    CLAIM_WARNING "" "v1" "events" "Event" with "warnings of volume claims" in any("Kubernetes keeps the Events of a claim in its namespace");
    /// Warnings about nodes.
    NODE_WARNING "" "v1" "events" "Event" with "warnings of nodes" in only(&["default"], "k3s 037a0b6a pkg/certmonitor/certmonitor.go, Setup");
    /// The releases of a chart in Helm, one per revision: names and labels of the Secrets, without their content.
    HELM_RELEASE "" "v1" "secrets" "Secret" with "helm-releases" in any("a release is in the namespace of its chart");
    /// The Secrets with which Rancher and Harvester coordinate a node's drain: some annotations of them, and nothing else.
    MACHINE_PLAN "" "v1" "secrets" "Secret" with "machine-plans" in only(&["fleet-local"], "rancher v2.15.0 pkg/fleet/const.go:13");
}

kinds! {
    /// Kinds in a report that people read and diagnosis does not use.
    FOR_PEOPLE:
    /// Storage classes.
    STORAGE_CLASS "storage.k8s.io" "v1" "storageclasses" "StorageClass" in CLUSTER;
    /// Validating webhooks.
    VALIDATING_WEBHOOKS "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations" "ValidatingWebhookConfiguration" in CLUSTER;
    /// Mutating webhooks.
    MUTATING_WEBHOOKS "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations" "MutatingWebhookConfiguration" in CLUSTER;
    /// Values for helm-controller's charts.
    HELM_CHART_CONFIG "helm.cattle.io" "v1" "helmchartconfigs" "HelmChartConfig" in any("people read them");
    /// Networks of VMs.
    NETWORK_ATTACHMENT "k8s.cni.cncf.io" "v1" "network-attachment-definitions" "NetworkAttachmentDefinition" in any("people read them");
}

kinds! {
    /// Kinds for probes, and kinds of which Windrow watches only the metadata.
    OTHERS:
    /// The addresses behind a Service.
    ENDPOINT_SLICE "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice" in any("each is requested by namespace");
    /// The same, in its former form.
    ENDPOINTS "" "v1" "endpoints" "Endpoints" in any("each is requested by namespace");
    /// Definitions of kinds.
    DEFINITION "apiextensions.k8s.io" "v1" "customresourcedefinitions" "CustomResourceDefinition" in CLUSTER;
    /// Ingress classes.
    INGRESS_CLASS "networking.k8s.io" "v1" "ingressclasses" "IngressClass" in CLUSTER;
    /// Priority classes.
    PRIORITY_CLASS "scheduling.k8s.io" "v1" "priorityclasses" "PriorityClass" in CLUSTER;
    /// Container runtimes.
    RUNTIME_CLASS "node.k8s.io" "v1" "runtimeclasses" "RuntimeClass" in CLUSTER;
    /// Bounds and defaults for the pods of a namespace.
    LIMIT_RANGE "" "v1" "limitranges" "LimitRange" in any("each counts for its namespace");
    /// Bounds for all objects of a namespace.
    RESOURCE_QUOTA "" "v1" "resourcequotas" "ResourceQuota" in any("each counts for its namespace");
    /// Secrets: never requested as objects.
    SECRET "" "v1" "secrets" "Secret" in any("a release is in the namespace of its chart");
}

impl ObjectKind {
    pub(super) fn of(kind: &GroupKind) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|known| known.group == kind.group && *kind.kind == *known.name())
    }

    /// Is the kind in one of the tables?
    pub(super) fn is_named(kind: &GroupKind) -> bool {
        let mut all = [Self::ALL, Self::FOR_PEOPLE, Self::OTHERS]
            .into_iter()
            .flatten();
        all.any(|known| {
            known.group == kind.group && (kind.kind == known.kind || *kind.kind == *known.name())
        })
    }

    pub fn group_kind(self) -> GroupKind {
        GroupKind::new(self.group, self.name())
    }

    /// The kind, with the part of its objects.
    pub fn name(self) -> Cow<'static, str> {
        match self.part {
            "" => self.kind.into(),
            part => format!("{} ({part})", self.kind).into(),
        }
    }

    /// Group and version as in an object.
    pub fn api_version(self) -> String {
        api_version(self.group, self.version)
    }

    /// The path of its list over all namespaces.
    pub fn path(self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    /// The path of its list in a namespace.
    pub fn path_in(self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
    }

    /// The path of its group and version.
    fn root(self) -> String {
        api_root(&self.api_version())
    }

    pub fn object_path(self, namespace: &str, name: &str) -> String {
        match namespace {
            "" => format!("{}/{name}", self.path()),
            namespace => format!("{}/{name}", self.path_in(namespace)),
        }
    }

    pub fn path_of(self, object: &Value) -> String {
        let (namespace, name) = ("/metadata/namespace", "/metadata/name");
        self.object_path(text(object, namespace), text(object, name))
    }

    /// Queries, one after the other, for the objects to request: Windrow only ever reads some objects of these kinds. Some of
    /// Harvester's Settings contain passwords and keys, so the Settings are requested by name.
    pub fn queries(self) -> &'static [&'static str] {
        match self {
            ObjectKind::SETTING => &[
                "&fieldSelector=metadata.name%3Dstorage-network",
                "&fieldSelector=metadata.name%3Dserver-version",
                "&fieldSelector=metadata.name%3Dupgrade-config",
            ],
            ObjectKind::PENDING_POD => &["&fieldSelector=status.phase%3DPending"],
            // Only those of this cluster: a Rancher has one per Bundle for each cluster that it manages.
            ObjectKind::BUNDLE_DEPLOYMENT => {
                &["&labelSelector=fleet.cattle.io%2Fbundle-namespace%3Dfleet-local"]
            }
            ObjectKind::EVENT => &["&fieldSelector=involvedObject.kind%3DAddon"],
            ObjectKind::POD_WARNING => &["&fieldSelector=type%3DWarning,involvedObject.kind%3DPod"],
            ObjectKind::CLAIM_WARNING => {
                &["&fieldSelector=type%3DWarning,involvedObject.kind%3DPersistentVolumeClaim"]
            }
            ObjectKind::NODE_WARNING => {
                &["&fieldSelector=type%3DWarning,involvedObject.kind%3DNode"]
            }
            ObjectKind::CONFIG_MAP => {
                &["&fieldSelector=metadata.namespace%3Dharvester-system,metadata.name%3Dvip"]
            }
            // From kube-apiserver's cache: otherwise it would read every Secret from etcd for these few, and Helm's Secrets are
            // large.
            ObjectKind::HELM_RELEASE => &[
                "&labelSelector=owner%3Dhelm&fieldSelector=type%3Dhelm.sh%2Frelease.v1&resourceVersion=0",
            ],
            ObjectKind::MACHINE_PLAN => &[
                "&fieldSelector=metadata.namespace%3Dfleet-local,type%3Drke.cattle.io%2Fmachine-plan&resourceVersion=0",
            ],
            // Every kubelet has a Lease there and renews it every ten seconds.
            ObjectKind::LEASE => &["&fieldSelector=metadata.namespace%21%3Dkube-node-lease"],
            _ => &[""],
        }
    }
}
