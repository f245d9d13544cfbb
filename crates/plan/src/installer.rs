//! Objects that install something: a chart, an operator's custom resource, pods with the rights of an installer. Their
//! manifests do not contain the resulting kinds and namespaces. Windrow knows the results of some of them. Any other
//! may provide a target without a known provider.

use windrow_model::manifest::{Node, Object, ObjectRef};

use crate::SourceMap;
use crate::knowledge::{
    Brings, ChartConfig, GuardingWebhook, InstalledChart, Knowledge, KnownBrings, UnsetValues,
    chart_config, installed_chart, learned_brings, operator_name,
};

/// Kinds whose controllers install what their objects describe: `(group, kind)`; an empty kind stands for every kind of
/// the group.
///
/// Sources: the API references of helm-controller, Fleet, Harvester, Flux, Argo CD, OLM, KubeVirt and CDI and their
/// operators, Tigera's operator, Cluster API's operator, Rancher Turtles and Crossplane.
const KINDS: &[(&str, &str)] = &[
    ("helm.cattle.io", "HelmChart"),
    ("fleet.cattle.io", "Bundle"),
    ("fleet.cattle.io", "GitRepo"),
    ("fleet.cattle.io", "HelmOp"),
    ("harvesterhci.io", "Addon"),
    ("helm.toolkit.fluxcd.io", "HelmRelease"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"),
    ("fluxcd.controlplane.io", ""),
    ("argoproj.io", "Application"),
    ("argoproj.io", "ApplicationSet"),
    ("operators.coreos.com", "ClusterServiceVersion"),
    ("operators.coreos.com", "Subscription"),
    ("olm.operatorframework.io", "ClusterExtension"),
    ("kubevirt.io", "KubeVirt"),
    ("cdi.kubevirt.io", "CDI"),
    ("hco.kubevirt.io", "HyperConverged"),
    (
        "networkaddonsoperator.network.kubevirt.io",
        "NetworkAddonsConfig",
    ),
    ("operator.tigera.io", "Installation"),
    ("operator.cluster.x-k8s.io", ""),
    ("turtles-capi.cattle.io", "CAPIProvider"),
    ("pkg.crossplane.io", ""),
    ("apiextensions.crossplane.io", "CompositeResourceDefinition"),
];

/// The objects whose creation leads to new kinds or namespaces: API group and resource.
const RIGHTS: &[(&str, &str)] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("", "namespaces"),
];

/// Roles of every cluster that may create none of them, in addition to those of `system:`.
pub(super) const HARMLESS_ROLES: &[&str] = &["admin", "edit", "view"];

/// The part of an object in an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installing {
    /// It installs nothing.
    No,
    /// Its controller installs the described objects.
    Yes,
    /// Its pods have the rights of this service account.
    ActsAs(ServiceAccount),
    /// A ClusterRole.
    Role { name: String, may_install: bool },
    /// A ClusterRoleBinding.
    Binding {
        role: String,
        subjects: Vec<RoleSubject>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    pub namespace: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RoleSubject {
    ServiceAccount(ServiceAccount),
    /// All service accounts of a namespace, or all service accounts.
    AllAccounts(Option<String>),
}

/// The part of an object in an installation; `id` has its namespace filled in.
pub fn installing(object: &Object, id: &ObjectRef) -> Installing {
    let (group, kind) = (id.group.as_str(), id.kind.as_str());
    let listed =
        |(known, name): &(&str, &str)| *known == group && (name.is_empty() || *name == kind);
    if KINDS.iter().any(listed) {
        return Installing::Yes;
    }
    if let Some(pods) = object.pod_template() {
        let mut names = ["serviceAccountName", "serviceAccount"].into_iter();
        let name = names.find_map(|key| pods.spec.str_at(&[key]));
        return Installing::ActsAs(ServiceAccount {
            namespace: id.namespace_or_default().to_owned(),
            name: name.unwrap_or("default").to_owned(),
        });
    }
    match (group, kind) {
        ("rbac.authorization.k8s.io", "ClusterRole") => Installing::Role {
            name: id.name.to_string(),
            may_install: may_install(&object.node),
        },
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => Installing::Binding {
            role: object
                .node
                .str_at(&["roleRef", "name"])
                .unwrap_or_default()
                .to_owned(),
            subjects: items(&object.node, "subjects")
                .filter_map(subject)
                .collect(),
        },
        _ => Installing::No,
    }
}

/// Knowledge about an object that installs something.
#[derive(Debug, Default)]
pub(super) struct KnownInstaller {
    pub(super) brings: KnownBrings,
    /// Its results with other values.
    pub(super) unset: Box<[UnsetValues]>,
}

/// An object of helm-controller.
#[derive(Debug, Clone)]
pub(super) enum HelmObject {
    Chart(Box<InstalledChart>),
    Config(Box<ChartConfig>),
}

impl HelmObject {
    pub(super) fn of_object(object: &Object) -> Option<Self> {
        let chart = || Some(Self::Chart(Box::new(installed_chart(object)?)));
        chart().or_else(|| Some(Self::Config(Box::new(chart_config(object)?))))
    }

    pub(super) fn chart(&self) -> Option<&InstalledChart> {
        match self {
            Self::Chart(chart) => Some(chart),
            Self::Config(_) => None,
        }
    }
}

/// Determines the part of an object other than a chart in an installation, and its known results; `id` has its
/// namespace filled in.
pub(super) fn what_it_installs(
    object: &Object,
    id: &ObjectRef,
    knowledge: &Knowledge,
) -> (Installing, KnownInstaller) {
    let mut known = KnownBrings::default();
    let mut installing = installing(object, id);
    let operator = operator_name(id, None);
    if operator.is_some_and(|name| add_pods(&mut known, &name, knowledge)) {
        installing = Installing::No;
    }
    if installing == Installing::Yes {
        add_operators(&mut known, &mut installing, id, knowledge);
    }
    let installer = KnownInstaller {
        brings: known,
        ..KnownInstaller::default()
    };
    (installing, installer)
}

/// Determines the same for a chart. `shown` maps the lines of its HelmChart.
pub(super) fn what_chart_installs(
    chart: &InstalledChart,
    id: &ObjectRef,
    knowledge: &Knowledge,
    shown: &SourceMap,
) -> (Installing, KnownInstaller) {
    let mut known = KnownBrings::default();
    let unset = knowledge.brought_if_set(chart, shown);
    let mut installing = match add_chart(&mut known, chart, &unset, knowledge) {
        true => Installing::No,
        false => Installing::Yes,
    };
    // The manifest's own content needs no boot to be known.
    let created = Brings {
        objects: chart.created_namespace().cloned().into_iter().collect(),
        ..Brings::default()
    };
    known.learned = learned_brings(knowledge.brought_by_chart(chart), &created);
    known.brings.add(&created);
    if let Some(name) = operator_name(id, Some(chart)) {
        add_pods(&mut known, &name, knowledge);
    }
    add_operators(&mut known, &mut installing, id, knowledge);
    let installer = KnownInstaller {
        brings: known,
        unset: unset.into(),
    };
    (installing, installer)
}

/// Adds the results of the controllers of this kind.
fn add_operators(
    known: &mut KnownBrings,
    installing: &mut Installing,
    id: &ObjectRef,
    knowledge: &Knowledge,
) {
    let kind = id.group_kind();
    for (deployment, entry) in knowledge.brought_by_operator(&kind) {
        known.add_delays(entry);
        // If there are several Deployments, the one of a written entry counts.
        if entry.seen.is_some() {
            known
                .deployment
                .get_or_insert_with(|| deployment.to_owned());
            continue;
        }
        known.brings.add(&entry.brings);
        known.deployment = Some(deployment.to_owned());
        add_webhooks(known, entry.guarding_beside(id.namespace.as_deref()));
        *installing = Installing::No;
    }
    let entries = knowledge.brought_by_operator(&kind);
    let entries = entries.map(|(_, entry)| entry);
    known
        .learned
        .extend(learned_brings(entries, &Brings::default()));
}

/// Adds the known results of a chart. Returns true if nothing else can result from it. Then it neither installs other
/// charts nor carries objects in its values. And its results, perhaps with other values, are written in the knowledge,
/// not only learned.
fn add_chart(
    known: &mut KnownBrings,
    chart: &InstalledChart,
    unset: &[UnsetValues],
    knowledge: &Knowledge,
) -> bool {
    let mut is_closed = !unset.is_empty();
    for entry in knowledge.brought_by_chart(chart) {
        known.add_delays(entry);
        if entry.seen.is_some() {
            continue;
        }
        known.brings.add(&entry.brings_with(chart));
        add_webhooks(known, entry.guarding(chart));
        is_closed = true;
    }
    is_closed && !chart.carries_objects() && !knowledge.installs_others(chart)
}

/// Adds the results of an operator with this name, which come as soon as its pods run. Returns true if nothing else can
/// result from it: its entry is written, not only learned.
fn add_pods(known: &mut KnownBrings, name: &str, knowledge: &Knowledge) -> bool {
    let mut is_closed = false;
    for entry in knowledge.brought_by_pods(name) {
        known.add_delays(entry);
        if entry.seen.is_none() {
            known.brings.add(&entry.brings);
            is_closed = true;
        }
    }
    let learned = learned_brings(knowledge.brought_by_pods(name), &Brings::default());
    known.learned.extend(learned);
    is_closed
}

/// Adds webhooks, with the objects that register them and those that answer them.
fn add_webhooks(known: &mut KnownBrings, webhooks: impl Iterator<Item = GuardingWebhook>) {
    for webhook in webhooks {
        for object in [&webhook.configuration, &webhook.backend] {
            if !known.brings.objects.contains(object) {
                known.brings.objects.push(object.clone());
            }
        }
        known.webhooks.push(webhook);
    }
}

fn items<'n>(node: &'n Node, key: &str) -> impl Iterator<Item = &'n Node> {
    node.list(key).iter()
}

fn subject(node: &Node) -> Option<RoleSubject> {
    let name = node.str_at(&["name"])?;
    match node.str_at(&["kind"])? {
        "ServiceAccount" => Some(RoleSubject::ServiceAccount(ServiceAccount {
            namespace: node.str_at(&["namespace"])?.to_owned(),
            name: name.to_owned(),
        })),
        "User" => {
            let (namespace, name) = name
                .strip_prefix("system:serviceaccount:")?
                .split_once(':')?;
            Some(RoleSubject::ServiceAccount(ServiceAccount {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }))
        }
        "Group" => match name {
            "system:serviceaccounts" | "system:authenticated" => {
                Some(RoleSubject::AllAccounts(None))
            }
            name => {
                let namespace = name.strip_prefix("system:serviceaccounts:")?;
                Some(RoleSubject::AllAccounts(Some(namespace.to_owned())))
            }
        },
        _ => None,
    }
}

/// Whether this role may create kinds or namespaces. The rules of an aggregated role come from other roles. A rule with
/// resource names allows no creation, because a request to create an object has no name.
fn may_install(role: &Node) -> bool {
    let has = |rule: &Node, key: &str, words: &[&str]| {
        items(rule, key).any(|item| item.as_str().is_some_and(|text| words.contains(&text)))
    };
    role.get("aggregationRule").is_some()
        || items(role, "rules").any(|rule| {
            items(rule, "resourceNames").next().is_none()
                && has(rule, "verbs", &["create", "*"])
                && RIGHTS.iter().any(|(group, resource)| {
                    has(rule, "apiGroups", &[*group, "*"])
                        && has(rule, "resources", &[*resource, "*"])
                })
        })
}
