//! What was seen of a cluster, as lists of objects: from the API, or from a saved report. Pure.
//!
//! A kind that could not be listed is not a kind without objects: whoever reads a list gets the reason
//! instead, and has to say Unknown.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_model::manifest::{GroupKind, group_of};

mod metadata;
#[cfg(test)]
mod tests;

pub use self::metadata::KeptMetadata;

/// A kind that diagnosis looks at, and how it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// The version that is asked for.
    pub version: &'static str,
    /// The name in a path.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Which part of its objects, in a word; empty for all of them.
    pub part: &'static str,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident $group:literal $version:literal $plural:literal $kind:literal $(with $part:literal)?;)+) => {
        impl ObjectKind {
            $($(#[doc = $doc])+
            pub const $name: ObjectKind = ObjectKind {
                group: $group, version: $version, plural: $plural, kind: $kind, part: concat!("" $(, $part)?),
            };)+

            /// Everything that diagnosis ever lists. Of Secrets that is some metadata ([`ObjectKind::kept_metadata`]).
            pub const ALL: &'static [ObjectKind] = &[$(ObjectKind::$name,)+];
        }
    };
}

kinds! {
    /// Nodes.
    NODE "" "v1" "nodes" "Node";
    /// Pods.
    POD "" "v1" "pods" "Pod";
    /// Pods that do not run yet: of many a few, which can be asked for where all would be too much.
    PENDING_POD "" "v1" "pods" "Pod" with "status.phase=Pending";
    /// Namespaces: affinity can select them by label.
    NAMESPACE "" "v1" "namespaces" "Namespace";
    /// Volume claims of pods.
    CLAIM "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim";
    /// Volumes: some can be reached from some nodes only.
    VOLUME "" "v1" "persistentvolumes" "PersistentVolume";
    /// Disruption budgets: what a drain waits for.
    BUDGET "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget";
    /// Jobs, helm-controller's and Harvester's among them.
    JOB "batch" "v1" "jobs" "Job";
    /// helm-controller's charts.
    HELM_CHART "helm.cattle.io" "v1" "helmcharts" "HelmChart";
    /// Harvester's add-ons.
    ADDON "harvesterhci.io" "v1beta1" "addons" "Addon";
    /// Harvester's settings.
    SETTING "harvesterhci.io" "v1beta1" "settings" "Setting";
    /// Harvester's upgrades.
    UPGRADE "harvesterhci.io" "v1beta1" "upgrades" "Upgrade";
    /// The upgrades of Harvester's upgrade-toolkit, from v1.9 on.
    UPGRADE_PLAN "management.harvesterhci.io" "v1beta1" "upgradeplans" "UpgradePlan";
    /// The versions of Harvester to which an upgrade could go.
    VERSION "harvesterhci.io" "v1beta1" "versions" "Version";
    /// Images of machines.
    VM_IMAGE "harvesterhci.io" "v1beta1" "virtualmachineimages" "VirtualMachineImage";
    /// Backups of machines.
    VM_BACKUP "harvesterhci.io" "v1beta1" "virtualmachinebackups" "VirtualMachineBackup";
    /// Backups of machines that are made again and again.
    SCHEDULE_VM_BACKUP "harvesterhci.io" "v1beta1" "schedulevmbackups" "ScheduleVMBackup";
    /// KubeVirt's own configuration.
    KUBEVIRT "kubevirt.io" "v1" "kubevirts" "KubeVirt";
    /// Virtual machines.
    VM "kubevirt.io" "v1" "virtualmachines" "VirtualMachine";
    /// Virtual machines that run.
    VMI "kubevirt.io" "v1" "virtualmachineinstances" "VirtualMachineInstance";
    /// Machines that move to another node.
    MIGRATION "kubevirt.io" "v1" "virtualmachineinstancemigrations" "VirtualMachineInstanceMigration";
    /// Longhorn's volumes.
    LONGHORN_VOLUME "longhorn.io" "v1beta2" "volumes" "Volume";
    /// Longhorn's engines: where a volume is attached.
    LONGHORN_ENGINE "longhorn.io" "v1beta2" "engines" "Engine";
    /// Longhorn's replicas: where a volume's data is.
    LONGHORN_REPLICA "longhorn.io" "v1beta2" "replicas" "Replica";
    /// Longhorn's settings: what it allows a drain.
    LONGHORN_SETTING "longhorn.io" "v1beta2" "settings" "Setting";
    /// Longhorn's nodes: their disks and the space on them.
    LONGHORN_NODE "longhorn.io" "v1beta2" "nodes" "Node";
    /// Longhorn's processes on a node, each kept by a disruption budget.
    INSTANCE_MANAGER "longhorn.io" "v1beta2" "instancemanagers" "InstanceManager";
    /// What Longhorn found that nothing uses any more.
    ORPHAN "longhorn.io" "v1beta2" "orphans" "Orphan";
    /// Who serves a volume that several pods share.
    SHARE_MANAGER "longhorn.io" "v1beta2" "sharemanagers" "ShareManager";
    /// Rancher's feature flags.
    FEATURE "management.cattle.io" "v3" "features" "Feature";
    /// Rancher's node drivers.
    NODE_DRIVER "management.cattle.io" "v3" "nodedrivers" "NodeDriver";
    /// Rancher's charts of Harvester.
    MANAGED_CHART "management.cattle.io" "v3" "managedcharts" "ManagedChart";
    /// Where Rancher takes charts from.
    CLUSTER_REPO "catalog.cattle.io" "v1" "clusterrepos" "ClusterRepo";
    /// What Fleet installs.
    BUNDLE "fleet.cattle.io" "v1alpha1" "bundles" "Bundle";
    /// What Fleet installs in one cluster.
    BUNDLE_DEPLOYMENT "fleet.cattle.io" "v1alpha1" "bundledeployments" "BundleDeployment";
    /// system-upgrade-controller's plans.
    PLAN "upgrade.cattle.io" "v1" "plans" "Plan";
    /// Clusters as Rancher makes them.
    PROVISIONING_CLUSTER "provisioning.cattle.io" "v1" "clusters" "Cluster";
    /// The control plane of such a cluster.
    RKE_CONTROL_PLANE "rke.cattle.io" "v1" "rkecontrolplanes" "RKEControlPlane";
    /// Clusters of Cluster API. Rancher up to v2.14 serves this version, and Harvester up to v1.8 uses it.
    CAPI_CLUSTER "cluster.x-k8s.io" "v1beta1" "clusters" "Cluster";
    /// Nodes of Cluster API.
    CAPI_MACHINE "cluster.x-k8s.io" "v1beta1" "machines" "Machine";
    /// Deployments.
    DEPLOYMENT "apps" "v1" "deployments" "Deployment";
    /// Harvester's VIP.
    CONFIG_MAP "" "v1" "configmaps" "ConfigMap";
    /// The links of Harvester's nodes, with their hardware addresses.
    LINK_MONITOR "network.harvesterhci.io" "v1beta1" "linkmonitors" "LinkMonitor";
    /// Who leads.
    LEASE "coordination.k8s.io" "v1" "leases" "Lease";
    /// The deploy controller's add-ons: one a manifest file.
    MANIFEST_ADDON "k3s.cattle.io" "v1" "addons" "Addon";
    /// What happened.
    EVENT "" "v1" "events" "Event";
    /// What Helm remembers of a chart, one a revision: names and labels of the Secrets, and nothing of what is in them.
    HELM_RELEASE "" "v1" "secrets" "Secret" with "helm-releases";
    /// Where Rancher and Harvester tell each other about a node's drain: named annotations of the Secrets, and nothing else.
    MACHINE_PLAN "" "v1" "secrets" "Secret" with "machine-plans";
}

impl ObjectKind {
    /// Group and kind.
    pub fn group_kind(self) -> GroupKind {
        match self.part {
            "" => GroupKind::new(self.group, self.kind),
            part => GroupKind::new(self.group, format!("{} ({part})", self.kind)),
        }
    }

    /// Group and version as they stand in an object.
    pub fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path below which its objects of all namespaces are.
    pub fn path(self) -> String {
        match self.group {
            "" => format!("/api/{}/{}", self.version, self.plural),
            group => format!("/apis/{group}/{}/{}", self.version, self.plural),
        }
    }

    /// The path of one object.
    pub fn object_path(self, namespace: &str, name: &str) -> String {
        let root = match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            "" => format!("{root}/{}/{name}", self.plural),
            namespace => format!("{root}/namespaces/{namespace}/{}/{name}", self.plural),
        }
    }

    /// The path of this object of the kind.
    pub fn path_of(self, object: &Value) -> String {
        let (namespace, name) = ("/metadata/namespace", "/metadata/name");
        self.object_path(text(object, namespace), text(object, name))
    }

    /// Which of its objects are asked for, as queries that are asked one after the other: of these kinds only some are
    /// ever read. Some of Harvester's Settings hold passwords and keys: they are named one by one.
    pub fn queries(self) -> &'static [&'static str] {
        match self {
            ObjectKind::SETTING => &[
                "&fieldSelector=metadata.name%3Dstorage-network",
                "&fieldSelector=metadata.name%3Dserver-version",
                "&fieldSelector=metadata.name%3Dupgrade-config",
            ],
            ObjectKind::PENDING_POD => &["&fieldSelector=status.phase%3DPending"],
            // Those of this cluster: a Rancher has one a bundle for each cluster that it manages.
            ObjectKind::BUNDLE_DEPLOYMENT => {
                &["&labelSelector=fleet.cattle.io%2Fbundle-namespace%3Dfleet-local"]
            }
            ObjectKind::EVENT => &["&fieldSelector=involvedObject.kind%3DAddon"],
            ObjectKind::CONFIG_MAP => {
                &["&fieldSelector=metadata.namespace%3Dharvester-system,metadata.name%3Dvip"]
            }
            // From kube-apiserver's memory: it would read every Secret from etcd for these few, and Helm's are large.
            ObjectKind::HELM_RELEASE => &[
                "&labelSelector=owner%3Dhelm&fieldSelector=type%3Dhelm.sh%2Frelease.v1&resourceVersion=0",
            ],
            ObjectKind::MACHINE_PLAN => &[
                "&fieldSelector=metadata.namespace%3Dfleet-local,type%3Drke.cattle.io%2Fmachine-plan&resourceVersion=0",
            ],
            // Every kubelet has one there and renews it every ten seconds.
            ObjectKind::LEASE => &["&fieldSelector=metadata.namespace%21%3Dkube-node-lease"],
            _ => &[""],
        }
    }
}

/// What came of listing a kind.
#[derive(Debug, Clone, PartialEq)]
pub enum KindListing {
    /// Its objects, all of them.
    Objects(Vec<Value>),
    /// It could not be listed, or was not asked for.
    Unknown(String),
}

/// Why a list cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// Of what.
    pub kind: GroupKind,
    /// Why.
    pub why: String,
    /// It was not asked for yet, and can be.
    pub wanted: bool,
}

impl std::fmt::Display for Unlisted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} could not be listed: {}", self.kind, self.why)
    }
}

/// A cluster's objects by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects {
    kinds: BTreeMap<GroupKind, KindListing>,
    /// Can more be asked for?
    open: bool,
}

impl Objects {
    /// Nothing yet. What is read and was not asked for says so
    /// ([`Unlisted::wanted`]).
    pub fn to_be_asked() -> Self {
        Self {
            kinds: BTreeMap::new(),
            open: true,
        }
    }

    /// What cannot be asked, whatever is read of it.
    pub fn closed(why: &str) -> Self {
        let unknown = |kind: &ObjectKind| (kind.group_kind(), KindListing::Unknown(why.to_owned()));
        Self {
            kinds: ObjectKind::ALL.iter().map(unknown).collect(),
            open: false,
        }
    }

    /// What is needed together, before any of it is read.
    ///
    /// # Errors
    ///
    /// The first that is still to be asked for. What cannot be had is none.
    pub fn want(&self, kinds: &[ObjectKind]) -> Result<(), Unlisted> {
        let missing = kinds.iter().filter_map(|kind| self.all(*kind).err());
        match missing.into_iter().find(|unlisted| unlisted.wanted) {
            Some(unlisted) => Err(unlisted),
            None => Ok(()),
        }
    }

    /// Takes a kind's list in, in place of an earlier one.
    pub fn insert(&mut self, kind: GroupKind, listed: KindListing) {
        self.kinds.insert(kind, listed);
    }

    /// Takes one object in; of a Secret what is kept of it, if anything.
    pub fn add(&mut self, mut object: Value) {
        let group = group_of(text(&object, "/apiVersion"));
        let mut kind = GroupKind::new(group, text(&object, "/kind"));
        if let "Secret" | "PartialObjectMetadata" = kind.kind.as_str() {
            let Some((read, kept)) =
                ObjectKind::of_secret(&object).and_then(|read| Some((read, read.kept_metadata()?)))
            else {
                return;
            };
            kept.reduce(&mut object);
            kind = read.group_kind();
        }
        match self.kinds.get_mut(&kind) {
            Some(KindListing::Objects(objects)) => objects.push(object),
            _ => {
                self.kinds.insert(kind, KindListing::Objects(vec![object]));
            }
        }
    }

    /// The objects of a kind. A kind that is not served has none.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub fn list(&self, kind: &GroupKind) -> Result<&[Value], Unlisted> {
        match self.kinds.get(kind) {
            Some(KindListing::Objects(objects)) => Ok(objects),
            Some(KindListing::Unknown(why)) => Err(Unlisted {
                kind: kind.clone(),
                why: why.clone(),
                wanted: false,
            }),
            None => Err(Unlisted {
                kind: kind.clone(),
                why: "it was not asked for".to_owned(),
                wanted: self.open,
            }),
        }
    }

    /// The objects of a kind of the table.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub fn all(&self, kind: ObjectKind) -> Result<&[Value], Unlisted> {
        self.list(&kind.group_kind())
    }

    /// One object; `None` when it does not exist.
    ///
    /// # Errors
    ///
    /// Why its kind could not be listed.
    pub fn get(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<&Value>, Unlisted> {
        Ok(self.all(kind)?.iter().find(|object| {
            text(object, "/metadata/name") == name
                && text(object, "/metadata/namespace") == namespace
        }))
    }

    /// The pods that do not run yet: of the list of all pods where there is one, else from a list of their own.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub fn pending_pods(&self) -> Result<Vec<&Value>, Unlisted> {
        let listed = match self.all(ObjectKind::POD) {
            Err(unlisted) if unlisted.wanted => self.all(ObjectKind::PENDING_POD),
            all => all,
        };
        let pending = |pod: &&Value| text(pod, "/status/phase") == "Pending";
        Ok(listed?.iter().filter(pending).collect())
    }

    /// What could not be listed.
    pub fn unlisted(&self) -> impl Iterator<Item = Unlisted> + '_ {
        self.kinds.iter().filter_map(|(kind, listed)| match listed {
            KindListing::Unknown(why) => Some(Unlisted {
                kind: kind.clone(),
                why: why.clone(),
                wanted: false,
            }),
            KindListing::Objects(_) => None,
        })
    }

    /// The kinds that were listed, with how many objects there are.
    pub fn counts(&self) -> impl Iterator<Item = (&GroupKind, usize)> {
        self.kinds.iter().filter_map(|(kind, listed)| match listed {
            KindListing::Objects(objects) => Some((kind, objects.len())),
            KindListing::Unknown(_) => None,
        })
    }
}

/// A text in an object; empty when it is absent or of another type.
pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A list in an object; empty when it is absent or of another type.
pub fn items<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A map of texts in an object; what is no text is left out.
pub fn texts(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// `namespace/name`, or the name of an object without a namespace.
pub fn named(object: &Value) -> String {
    let name = text(object, "/metadata/name");
    match text(object, "/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// A condition of an object, by its type.
pub fn condition<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    items(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == name)
}

/// Is the condition `True`?
pub fn is_true(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|condition| text(condition, "/status") == "True")
}

/// Why containers of a pod wait, with the image that they wait for.
pub fn waiting(pod: &Value) -> impl Iterator<Item = String> + '_ {
    items(pod, "/status/initContainerStatuses")
        .iter()
        .chain(items(pod, "/status/containerStatuses"))
        .filter(|container| !text(container, "/state/waiting/reason").is_empty())
        .map(|container| {
            let reason = text(container, "/state/waiting/reason");
            format!("{reason} ({})", text(container, "/image"))
        })
}

/// How often the containers of a pod were restarted. Under `restartPolicy: OnFailure`, which helm-controller
/// gives its Jobs, a failed try is counted here and nowhere else.
pub fn restarts(pod: &Value) -> u64 {
    let containers = items(pod, "/status/initContainerStatuses").iter();
    containers
        .chain(items(pod, "/status/containerStatuses"))
        .filter_map(|container| container.pointer("/restartCount")?.as_u64())
        .sum()
}

/// How the containers of a pod last ended: exit code and reason. What they wrote may hold secrets and is left out.
pub fn last_ends(pod: &Value) -> impl Iterator<Item = String> + '_ {
    items(pod, "/status/containerStatuses")
        .iter()
        .filter_map(|container| container.pointer("/lastState/terminated"))
        .filter_map(|ended| {
            let code = ended.pointer("/exitCode").and_then(Value::as_i64)?;
            Some(match text(ended, "/reason") {
                "" => format!("exit code {code}"),
                reason => format!("exit code {code} ({reason})"),
            })
        })
}
