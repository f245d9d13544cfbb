//! All requests of probes to kube-apiserver, and the credential for each. Probes send only what [`Ask`] lists. A node's
//! identity sends nothing that the node authorizer would refuse (KEP-4601), so that the audit log never shows a probe
//! of ours as forbidden.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE};
use http::{Method, Request};
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use windrow_harvester::objects::ObjectKind;
use windrow_plan::readiness::node::NodeRole;

/// How long an answer may take. Shorter than the shortest probe's own limit.
const PATIENCE: Duration = Duration::from_secs(4);
/// kube-apiserver itself waits up to 10 s for a webhook that sets no other limit, and may call two in a row: the
/// mutating one, then the validating one.
const WEBHOOKS: Duration = Duration::from_secs(24);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential {
    Admin,
    /// The node's own identity (`system:node:NAME`), from the kubelet's kubeconfig.
    Node,
}

impl Credential {
    pub(super) fn for_role(role: NodeRole) -> Self {
        match role.serves_api() {
            true => Self::Admin,
            false => Self::Node,
        }
    }
}

/// All requests: GET, and one update that changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask<'a> {
    /// kube-apiserver's own readiness: open to every identity (`system:public-info-viewer`).
    Readyz,
    /// The node's own Node, by its name: never the list.
    OwnNode,
    /// The Lease of the component that leads, in `kube-system`, by the component's name.
    Leader(&'a str),
    /// Service `kube-system/rke2-traefik`: a node may read Services.
    Traefik,
    /// Service `kube-system/ingress-expose`, before Harvester v1.9.
    Expose,
    /// ConfigMap `harvester-system/vip`: a node may read a ConfigMap only if one of its pods uses it.
    Vip,
    /// Deployment `cattle-system/rancher`.
    Rancher,
    /// ManagedChart `fleet-local/harvester`.
    ManagedChart,
    ManagedCharts,
    /// The Bundles of `fleet-local`, as a table: an object holds its whole chart.
    Bundles,
    /// Longhorn's object of the node, as a list of one.
    LonghornNode,
    /// The KubeVirts of `harvester-system`: one.
    KubeVirts,
    /// Cluster `fleet-local/local` of Rancher's provisioning, as a list of one.
    LocalCluster,
    /// Deployment `cattle-system/system-upgrade-controller`.
    UpgradeController,
    /// Plan `cattle-system/system-agent-upgrader`, as a list of one.
    AgentUpgrader,
    /// EndpointSlices of Service `harvester-system/harvester-webhook`.
    WebhookEndpoints,
    /// The configurations of admission webhooks: `validatingwebhookconfigurations`, or the mutating ones.
    WebhookConfigurations(ObjectKind),
    /// The first object of a list, by the list's path: only its metadata.
    First(&'a str),
    /// An update of an object, by its path, that changes nothing and is not kept (`dryRun=All`): it only makes
    /// kube-apiserver call the webhooks.
    Unchanged(&'a str),
    ServerVersion,
    StorageNetwork,
    /// The newest Upgrade.
    Upgrades,
    /// The UpgradePlans of the experimental upgrade manager, Harvester v1.8 and later.
    UpgradePlans,
    /// The Jobs that system-upgrade-controller created for the node, in any namespace.
    UpgradeJobs,
    /// The Jobs of the hooks of this Upgrade: two per node. Jobs after the first 500 have no time.
    HookJobs(&'a str),
    Addons,
    HelmChart(NamespacedName<'a>),
    Job(NamespacedName<'a>),
    /// The pods of such a Job: only they show why one waits for its image.
    JobPods(NamespacedName<'a>),
    /// A configured Service: a node may read Services.
    Service(NamespacedName<'a>),
    /// The resources of an API version (`v1`, `apps/v1`): discovery.
    Resources(&'a str),
    /// A configured object, by its path ([`object_path`]).
    Object(&'a str),
}

/// The object's metadata is enough: the rest may be large, or secret.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The columns that `kubectl get` shows.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamespacedName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Ask<'_> {
    #[cfg(test)]
    const ALL: &'static [Ask<'static>] = &[
        Ask::Readyz,
        Ask::OwnNode,
        Ask::Leader("kube-scheduler"),
        Ask::Traefik,
        Ask::Expose,
        Ask::Vip,
        Ask::Rancher,
        Ask::ManagedChart,
        Ask::ManagedCharts,
        Ask::Bundles,
        Ask::LonghornNode,
        Ask::KubeVirts,
        Ask::LocalCluster,
        Ask::UpgradeController,
        Ask::AgentUpgrader,
        Ask::WebhookEndpoints,
        Ask::WebhookConfigurations(ObjectKind::VALIDATING_WEBHOOKS),
        Ask::First("/apis/harvesterhci.io/v1beta1/settings"),
        Ask::Unchanged("/apis/harvesterhci.io/v1beta1/settings/server-version"),
        Ask::ServerVersion,
        Ask::StorageNetwork,
        Ask::Upgrades,
        Ask::UpgradePlans,
        Ask::UpgradeJobs,
        Ask::HookJobs("hvst-upgrade-x"),
        Ask::Addons,
        Ask::HelmChart(ANY),
        Ask::Job(ANY),
        Ask::JobPods(ANY),
        Ask::Service(ANY),
        Ask::Resources("apps/v1"),
        Ask::Object("/apis/apps/v1/namespaces/some/deployments/thing"),
    ];

    pub(super) fn allowed(self, credential: Credential) -> bool {
        match credential {
            Credential::Admin => true,
            Credential::Node => matches!(
                self,
                Ask::Readyz | Ask::OwnNode | Ask::Traefik | Ask::Expose | Ask::Service(_)
            ),
        }
    }

    pub(super) fn method(self) -> Method {
        match self {
            Ask::Unchanged(_) => Method::PATCH,
            _ => Method::GET,
        }
    }

    pub(super) fn request(self, node: &str) -> http::Result<Request<Body>> {
        let request = Request::builder()
            .method(self.method())
            .uri(self.path(node));
        match self {
            Ask::First(_) => request.header(ACCEPT, METADATA_LIST).body(Body::empty()),
            Ask::Bundles => request.header(ACCEPT, TABLE).body(Body::empty()),
            // A connection that lasts does not show that kube-apiserver has another certificate, which new clients refuse.
            Ask::Readyz => request.header(CONNECTION, "close").body(Body::empty()),
            Ask::Unchanged(_) => request
                .header(ACCEPT, METADATA)
                .header(CONTENT_TYPE, "application/merge-patch+json")
                .body(Body::from(b"{}".to_vec())),
            _ => request.body(Body::empty()),
        }
    }

    pub(super) fn patience(self) -> Duration {
        match self {
            Ask::Unchanged(_) => WEBHOOKS,
            _ => PATIENCE,
        }
    }

    pub(super) fn path(self, node: &str) -> String {
        let system = |kind: ObjectKind, name| kind.object_path("kube-system", name);
        match self {
            Ask::Readyz => "/readyz".to_owned(),
            Ask::OwnNode => ObjectKind::NODE.object_path("", node),
            Ask::Leader(component) => system(ObjectKind::LEASE, &segment(component)),
            Ask::Traefik => system(ObjectKind::SERVICE, "rke2-traefik"),
            Ask::Expose => system(ObjectKind::SERVICE, "ingress-expose"),
            Ask::Vip => ObjectKind::CONFIG_MAP.object_path("harvester-system", "vip"),
            Ask::Rancher => ObjectKind::DEPLOYMENT.object_path("cattle-system", "rancher"),
            Ask::ManagedChart => ObjectKind::MANAGED_CHART.object_path("fleet-local", "harvester"),
            Ask::ManagedCharts => ObjectKind::MANAGED_CHART.path_in("fleet-local"),
            Ask::Bundles => {
                let bundles = ObjectKind::BUNDLE.path_in("fleet-local");
                format!("{bundles}?includeObject=None")
            }
            Ask::LonghornNode => list_of_one(ObjectKind::LONGHORN_NODE, "longhorn-system", node),
            Ask::KubeVirts => ObjectKind::KUBEVIRT.path_in("harvester-system"),
            Ask::LocalCluster => {
                list_of_one(ObjectKind::PROVISIONING_CLUSTER, "fleet-local", "local")
            }
            Ask::UpgradeController => {
                ObjectKind::DEPLOYMENT.object_path("cattle-system", "system-upgrade-controller")
            }
            Ask::AgentUpgrader => {
                list_of_one(ObjectKind::PLAN, "cattle-system", "system-agent-upgrader")
            }
            Ask::WebhookEndpoints => format!(
                "{}?labelSelector=kubernetes.io%2Fservice-name%3Dharvester-webhook",
                ObjectKind::ENDPOINT_SLICE.path_in("harvester-system")
            ),
            Ask::WebhookConfigurations(kind) => kind.path(),
            Ask::First(list) => format!("{list}?limit=1"),
            Ask::Unchanged(object) => format!("{object}?dryRun=All&fieldManager=windrow"),
            Ask::ServerVersion => ObjectKind::SETTING.object_path("", "server-version"),
            Ask::StorageNetwork => ObjectKind::SETTING.object_path("", "storage-network"),
            Ask::Upgrades => format!(
                "{}?labelSelector=harvesterhci.io%2FlatestUpgrade%3Dtrue",
                ObjectKind::UPGRADE.path_in("harvester-system")
            ),
            Ask::UpgradePlans => ObjectKind::UPGRADE_PLAN.path(),
            Ask::UpgradeJobs => format!(
                "{}?labelSelector=upgrade.cattle.io%2Fplan,upgrade.cattle.io%2Fnode%3D{}",
                ObjectKind::JOB.path(),
                segment(node)
            ),
            Ask::HookJobs(upgrade) => format!(
                "{}?limit=500&labelSelector=harvesterhci.io%2Fupgrade%3D{}",
                ObjectKind::JOB.path_in("harvester-system"),
                segment(upgrade)
            ),
            Ask::Addons => ObjectKind::ADDON.path(),
            Ask::HelmChart(named) => named.path(ObjectKind::HELM_CHART),
            Ask::Job(named) => named.path(ObjectKind::JOB),
            Ask::JobPods(NamespacedName { namespace, name }) => format!(
                "{}?labelSelector=job-name%3D{}&limit=20",
                ObjectKind::POD.path_in(&segment(namespace)),
                segment(name)
            ),
            Ask::Service(named) => named.path(ObjectKind::SERVICE),
            Ask::Resources(api_version) => api(api_version),
            Ask::Object(path) => path.to_owned(),
        }
    }
}

/// The list with the one object of this name. Unlike the object, it exists before the object does.
fn list_of_one(kind: ObjectKind, namespace: &str, name: &str) -> String {
    let (list, name) = (kind.path_in(namespace), segment(name));
    format!("{list}?fieldSelector=metadata.name%3D{name}")
}

/// The path of an object.
pub(super) fn object_path(
    api_version: &str,
    namespace: Option<&str>,
    plural: &str,
    name: &str,
) -> String {
    let (api, plural, name) = (api(api_version), segment(plural), segment(name));
    match namespace {
        Some(namespace) => {
            let namespace = segment(namespace);
            format!("{api}/namespaces/{namespace}/{plural}/{name}")
        }
        None => format!("{api}/{plural}/{name}"),
    }
}

/// The path below which an API version is served.
fn api(version: &str) -> String {
    match version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", segment(group), segment(version)),
        None => format!("/api/{}", segment(version)),
    }
}

impl NamespacedName<'_> {
    fn path(self, kind: ObjectKind) -> String {
        kind.object_path(&segment(self.namespace), &segment(self.name))
    }
}

/// All characters except those of a Kubernetes name.
const NO_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A name as one segment of a path: a name from the cluster must not lead elsewhere.
fn segment(name: &str) -> Cow<'_, str> {
    // A name that consists of dots would be treated as a directory.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match name.bytes().any(plain) {
        true => utf8_percent_encode(name, NO_NAME).into(),
        false => utf8_percent_encode(name, NON_ALPHANUMERIC).into(),
    }
}

#[cfg(test)]
const ANY: NamespacedName<'static> = NamespacedName {
    namespace: "some",
    name: "thing",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_identity_asks_for_its_own_node_and_services_and_never_for_a_list() {
        let allowed: Vec<String> = Ask::ALL
            .iter()
            .filter(|ask| ask.allowed(Credential::Node))
            .map(|ask| ask.path("n1"))
            .collect();
        assert_eq!(
            allowed,
            [
                "/readyz",
                "/api/v1/nodes/n1",
                "/api/v1/namespaces/kube-system/services/rke2-traefik",
                "/api/v1/namespaces/kube-system/services/ingress-expose",
                "/api/v1/namespaces/some/services/thing",
            ]
        );
    }

    #[test]
    fn pods_are_asked_for_by_an_admin_only_and_only_those_of_one_job() {
        let pods: Vec<&Ask<'_>> = Ask::ALL
            .iter()
            .filter(|ask| ask.path("n1").contains("/pods"))
            .collect();
        assert_eq!(pods, [&Ask::JobPods(ANY)]);
        assert!(!Ask::JobPods(ANY).allowed(Credential::Node));
    }

    #[test]
    fn a_name_from_the_cluster_leads_nowhere_else() {
        let named = |name| {
            Ask::Job(NamespacedName {
                namespace: "a",
                name,
            })
            .path("n1")
        };
        assert_eq!(named("b.c-d"), "/apis/batch/v1/namespaces/a/jobs/b.c-d");
        assert_eq!(
            named("../b?c"),
            "/apis/batch/v1/namespaces/a/jobs/..%2Fb%3Fc"
        );
        assert_eq!(named(".."), "/apis/batch/v1/namespaces/a/jobs/%2E%2E");
    }
}
