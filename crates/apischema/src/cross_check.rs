//! Checks references between objects across files: reports errors that no other object of the cluster can correct. Used
//! ahead of a boot, like `api`.
//!
//! An operator or a chart of the files may still create a missing object: that is only a notice, and the verdict is
//! unknown.

mod accounts;
mod charts;
mod claims;
mod duplicates;
mod harvester;
mod limits;
mod node_labels;
mod pod_security;
mod policies;
mod references;
mod refusals;
mod taken;
#[cfg(test)]
mod tests;
mod user_data;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use claims::Claims;
use duplicates::Duplicates;
use harvester::Harvester;
use limits::Limits;
use pod_security::PodSecurity;
use policies::Policies;
use references::References;
use refusals::{Refusals, in_cluster};
use taken::Taken;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Object, ObjectRef};
use windrow_model::reasons::{Code, Severity};
use windrow_model::suggest;
use windrow_model::unchecked::NotChecked;
use windrow_plan::SourceMap;
use windrow_plan::knowledge::{Brings, NodeFacts};
use windrow_plan::kubernetes::is_default_cluster_role;
use windrow_plan::rke2::{PACKAGED, ServiceRanges};
use windrow_plan::rules::Platform;
use windrow_plan::{Installing, installing};

use crate::MinorRelease;

/// The references and declarations of all files, collected one object after the other.
#[derive(Debug, Default)]
pub(super) struct CrossCheck {
    cluster_roles: BTreeSet<String>,
    roles: BTreeSet<(String, String)>,
    /// ServiceAccounts by name: their namespaces, `None` if the manifest has none.
    accounts: BTreeMap<String, Vec<(Option<String>, Location)>>,
    charts: BTreeSet<String>,
    /// The first object of these files that may create objects which are not here.
    installer: Option<Location>,
    bindings: Vec<Binding>,
    configs: Vec<(String, String, Location)>,
    /// Findings on single objects.
    values: Vec<Finding>,
    /// Single objects' texts that no rule judges.
    unjudged: Vec<NotChecked>,
    /// Charts that Helm cannot install, and their Jobs.
    not_installed: BTreeMap<ObjectRef, String>,
    /// Charts of these files with the names of RKE2's.
    replaced: Vec<(String, Finding)>,
    /// RKE2's charts that its configuration disables.
    disabled: BTreeSet<String>,
    claims: Claims,
    /// The facts of the node, by which RKE2 installs its charts.
    facts: Option<NodeFacts>,
    /// The release of Harvester.
    release: Option<MinorRelease>,
    references: References,
    pod_security: PodSecurity,
    duplicates: Duplicates,
    taken: Taken,
    harvester: Harvester,
    limits: Limits,
    policies: Policies,
    /// Objects without a name, which are new ones each time.
    unnamed: Vec<(ObjectRef, Location)>,
}

#[derive(Debug)]
struct Binding {
    object: String,
    namespace: String,
    role: String,
    is_cluster_role: bool,
    at: Location,
    /// Service accounts: namespace, name and line.
    subjects: Vec<(String, String, Location)>,
}

const RBAC: &str = "rbac.authorization.k8s.io";

impl CrossCheck {
    /// The next objects are from another file.
    pub(super) fn begin_file(&mut self) {
        self.duplicates.begin_file();
    }

    pub(super) fn add(&mut self, object: &Object, shown: &SourceMap) {
        let id = &object.id;
        let name = id.name.to_string();
        let namespace = id.namespace_or_default().to_owned();
        let installs = match installing(object, id) {
            Installing::Yes => true,
            Installing::Role { may_install, .. } => may_install,
            Installing::Binding { role, .. } => role == "cluster-admin",
            Installing::No | Installing::ActsAs(_) => false,
        };
        if installs {
            let place = || shown.at(Some(object.line));
            self.installer.get_or_insert_with(place);
        }
        self.references.add(object, &namespace, shown);
        self.values.extend(node_labels::judge(object, shown));
        let (unreadable, unjudged) = user_data::judge(object, shown);
        self.values.extend(unreadable);
        self.unjudged.extend(unjudged);
        self.pod_security.add(object, &namespace, shown);
        self.duplicates.add(object, shown);
        self.taken.add(object, shown);
        self.harvester.add(object, &namespace, shown);
        self.limits.add(object, &namespace, shown);
        self.policies.add(object, shown);
        self.claims.add(object, shown);
        if object.is_name_generated() {
            let line = object.node.at(&["metadata", "generateName"]);
            let line = line.map_or(object.line, |node| node.line);
            self.unnamed.push((id.clone(), shown.at(Some(line))));
        }
        match (id.group.as_str(), id.kind.as_str()) {
            (RBAC, "ClusterRole") => drop(self.cluster_roles.insert(name)),
            (RBAC, "Role") => drop(self.roles.insert((namespace, name))),
            (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
                self.bindings.extend(binding(object, namespace, shown));
            }
            ("", "ServiceAccount") => {
                let written = id.namespace.as_ref().map(ToString::to_string);
                let place = (written, shown.at(Some(object.line)));
                self.accounts.entry(name).or_default().push(place);
            }
            ("helm.cattle.io", "HelmChart") => {
                self.judge_chart(object, shown, charts::uninstallable(object, shown));
                self.replaced
                    .extend(values::replaces_packaged(object, shown));
                self.charts.insert(name);
            }
            ("harvesterhci.io", "Addon") => self.values.extend(values::addon(object, shown)),
            ("helm.cattle.io", "HelmChartConfig") => {
                self.judge_chart(object, shown, None);
                let line = object.node.at(&["metadata", "name"]).map(|node| node.line);
                self.configs.push((id.to_string(), name, shown.at(line)));
            }
            _ => {}
        }
    }

    /// The objects that kube-apiserver refuses because of another object of the files. `is_taken`: whether it accepts
    /// an object, under the name in its manifests, without the others.
    pub(super) fn refusals(
        &self,
        ranges: &ServiceRanges,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> Refusals {
        let mut all = self.pod_security.finish();
        all.findings.extend(self.duplicates.finish(is_taken));
        all.extend(self.taken.finish(ranges, is_taken));
        let has_installer = self.installer.is_some();
        let are_changed = self.pod_security.are_changed();
        all.extend(self.limits.finish(are_changed, has_installer, is_taken));
        all.extend(self.policies.finish());
        all.without_pods.extend(self.not_installed.clone());
        all
    }

    /// What Harvester's webhooks refuse because of other objects, and what they look up elsewhere.
    pub(super) fn of_harvester(
        &self,
        release: Option<MinorRelease>,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> (Vec<Finding>, Vec<NotChecked>) {
        self.harvester.finish(release, is_taken)
    }

    /// Adds the findings on the values of a HelmChart or HelmChartConfig, and why the chart itself is `uninstallable`. With either,
    /// its Job has no effect.
    fn judge_chart(&mut self, object: &Object, shown: &SourceMap, uninstallable: Option<Finding>) {
        let mut found = values::judge(object, shown);
        let invalid = |finding: &Finding| finding.code == Code::ChartValuesInvalid;
        let why = match (&uninstallable, found.iter().any(invalid)) {
            (Some(_), _) => Some("Helm cannot install it"),
            (None, true) => Some("Helm cannot read its values"),
            (None, false) => None,
        };
        found.extend(uninstallable);
        if let Some(why) = why {
            let job = ObjectRef {
                group: "batch".into(),
                kind: "Job".into(),
                namespace: object.id.namespace.clone(),
                name: format!("helm-install-{}", object.id.name).into(),
            };
            for object in [in_cluster(object), job] {
                self.not_installed.insert(object, why.to_owned());
            }
        }
        self.values.extend(found);
    }

    pub(super) fn finish(self, platform: Option<Platform>) -> (Vec<Finding>, Vec<NotChecked>) {
        let mut findings = self.forgotten_namespaces();
        if platform != Some(Platform::Harvester) {
            findings.extend(self.missing_roles());
        }
        findings.extend(self.configs_without_chart());
        findings.extend(self.configs_of_charts_left_out());
        findings.extend(self.values.iter().cloned());
        let replaced = self.replaced.iter();
        let replaced = replaced.filter(|(name, _)| !self.disabled.contains(name));
        findings.extend(replaced.map(|(_, finding)| finding.clone()));
        findings.extend(self.unnamed.iter().map(|(id, at)| {
            let what = id.to_string();
            let code = Code::NameGenerated;
            finding(code, code.say(&[("what", &what)]), vec![at.clone()])
        }));
        let (of_references, mut unjudged) = self.references.finish(self.installer.is_some());
        findings.extend(of_references);
        unjudged.extend(self.unjudged.iter().cloned());
        findings.extend(self.claims.unusable(platform, self.release));
        let without_class = self.claims.without_class(platform).into_iter();
        findings.extend(without_class.map(|claim| {
            let code = Code::ClaimWithoutClass;
            let message = code.say(&[("object", claim.object), ("why", &claim.why)]);
            self.missing(code, claim.object, &claim.what, message, claim.at)
        }));
        (findings, unjudged)
    }

    /// RKE2 does not install these packaged charts.
    pub(super) fn disable(&mut self, names: impl IntoIterator<Item = String>) {
        self.disabled.extend(names);
    }

    /// The files are for this node.
    pub(super) fn of_node(&mut self, facts: NodeFacts) {
        self.facts = Some(facts);
    }

    /// The files are for this release of Harvester.
    pub(super) fn of_release(&mut self, release: Option<MinorRelease>) {
        self.release = release;
    }

    /// Adds the known objects of charts in these files.
    pub(super) fn add_brought(&mut self, brings: &Brings) {
        self.claims.add_brought(brings);
    }

    /// A missing object: a warning, or unknown if an object of these files may create it.
    fn missing(&self, code: Code, object: &str, what: &str, why: String, at: &Location) -> Finding {
        let Some(installer) = &self.installer else {
            return finding(code, why, vec![at.clone()]);
        };
        let words = [("what", what), ("file", &*installer.file)];
        Finding {
            severity: Severity::Notice,
            message: format!("{object}: {}", Code::MayBeBrought.say(&words)),
            ..finding(code, String::new(), vec![at.clone(), installer.clone()])
        }
    }

    /// A published manifest that is meant for `kubectl apply -n NAMESPACE`: its bindings refer to `default`.
    fn forgotten_namespaces(&self) -> Vec<Finding> {
        let mut found: BTreeMap<String, Vec<Location>> = BTreeMap::new();
        for binding in &self.bindings {
            for (namespace, name, at) in &binding.subjects {
                let Some(places) = self.accounts.get(name).filter(|_| namespace != "default")
                else {
                    continue;
                };
                let is_there = places
                    .iter()
                    .any(|(written, _)| written.as_ref() == Some(namespace));
                let forgotten = places.iter().filter(|(written, _)| written.is_none());
                if !is_there && forgotten.clone().next().is_some() {
                    let subject = format!("ServiceAccount {namespace}/{name}");
                    let message = Code::NamespaceForgotten
                        .say(&[("object", &binding.object), ("subject", &subject)]);
                    let at_all = found.entry(message).or_default();
                    at_all.push(at.clone());
                    at_all.extend(forgotten.map(|(_, at)| at.clone()));
                }
            }
        }
        let found = found.into_iter();
        found
            .map(|(message, at)| finding(Code::NamespaceForgotten, message, at))
            .collect()
    }

    fn missing_roles(&self) -> Vec<Finding> {
        // RKE2's own components create roles with their names.
        const OF_COMPONENTS: [&str; 10] = [
            "rke2", "k3s", "calico", "canal", "cilium", "flannel", "tigera", "coredns", "traefik",
            "rancher",
        ];
        let brought = |role: &str| OF_COMPONENTS.iter().any(|part| role.contains(part));
        let missing = |binding: &&Binding| match binding.is_cluster_role {
            true => {
                !self.cluster_roles.contains(&binding.role)
                    && !is_default_cluster_role(&binding.role)
                    && !brought(&binding.role)
            }
            false => {
                let role = (binding.namespace.clone(), binding.role.clone());
                // Kubernetes has its own Roles there.
                !self.roles.contains(&role) && !binding.namespace.starts_with("kube-")
            }
        };
        let bindings = self.bindings.iter().filter(missing);
        bindings
            .map(|binding| {
                let kind = if binding.is_cluster_role {
                    "ClusterRole"
                } else {
                    "Role"
                };
                let role = format!("{kind} {}", binding.role);
                let words = [("object", &*binding.object), ("role", &role)];
                let code = Code::RoleWithoutProvider;
                self.missing(code, &binding.object, &role, code.say(&words), &binding.at)
            })
            .collect()
    }

    /// Configurations of packaged charts that this RKE2 does not install, and that no file does.
    fn configs_of_charts_left_out(&self) -> Vec<Finding> {
        let configs = self.configs.iter();
        let left_out = configs.filter_map(|(object, name, at)| {
            let is_packaged = PACKAGED.contains(&name.as_str()) && !self.charts.contains(name);
            let facts = self.facts.as_ref().filter(|_| is_packaged)?;
            let why = facts.leaves_out(name)?;
            let words = [("object", &**object), ("name", &**name), ("why", why)];
            let code = Code::ChartConfigUnused;
            Some(finding(code, code.say(&words), vec![at.clone()]))
        });
        left_out.collect()
    }

    /// Only if the name is similar to that of a chart: a chart with any other name may come later.
    fn configs_without_chart(&self) -> Vec<Finding> {
        let charts = || {
            self.charts
                .iter()
                .map(String::as_str)
                .chain(PACKAGED.iter().copied())
        };
        let unknown = self
            .configs
            .iter()
            .filter(|(_, name, _)| !charts().any(|one| one == name));
        unknown
            .filter_map(|(object, name, at)| {
                let words_of = |name: &str| -> BTreeSet<String> {
                    name.split('-').map(str::to_owned).collect()
                };
                let has_its_words = |one: &&str| words_of(one) == words_of(name);
                let near =
                    suggest::nearest(name, charts()).or_else(|| charts().find(has_its_words))?;
                let words = [("object", &**object), ("name", &**name), ("near", near)];
                let message = Code::ChartConfigWithoutChart.say(&words);
                Some(finding(
                    Code::ChartConfigWithoutChart,
                    message,
                    vec![at.clone()],
                ))
            })
            .collect()
    }
}

fn finding(code: Code, message: String, at: Vec<Location>) -> Finding {
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message,
        at,
    }
}

fn binding(object: &Object, namespace: String, shown: &SourceMap) -> Option<Binding> {
    let role = object.node.get("roleRef")?;
    let name = role.get("name")?;
    let subjects = object.node.list("subjects");
    let accounts = subjects.iter().filter_map(|subject| {
        if subject.str_at(&["kind"]) != Some("ServiceAccount") {
            return None;
        }
        let account = subject.str_at(&["name"])?.to_owned();
        let of = subject.str_at(&["namespace"])?.to_owned();
        Some((of, account, shown.at(Some(subject.line))))
    });
    Some(Binding {
        object: object.id.to_string(),
        namespace,
        role: name.as_str()?.to_owned(),
        is_cluster_role: role.str_at(&["kind"]) == Some("ClusterRole"),
        at: shown.at(Some(name.line)),
        subjects: accounts.collect(),
    })
}
