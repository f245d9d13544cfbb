//! Proofs from the files alone that something cannot work: deadlocks that are not a cycle of requirements. Each proof gives the
//! line and the smallest change.
//!
//! Only certain results are reported. If the files alone do not decide, there is no finding.

mod asked;
mod given;
mod pods;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use self::asked::asked;
pub use self::given::ProofInputs;
use windrow_model::container_image::full_name;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ManifestFile, Node, Object, ObjectRef};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::knowledge::name_of_chart;
use windrow_plan::rules::{NeedCondition, NeedTarget, Platform, Tier};
use windrow_plan::{Plan, Requirement, SatisfiedBy, SourceMap};

use self::given::{add_finding, objects};
use self::pods::{DeclaredPods, images};

pub fn proofs(given: &ProofInputs<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    webhooks(given, &mut found);
    asked::findings(given, &mut found);
    for (document, requirement) in waits(given.plan) {
        node_ready(given, document, requirement, &mut found);
        claims(given, document, requirement, &mut found);
        load_balancers(given, requirement, &mut found);
    }
    found.extend(switched_off(given.plan, given.disabled));
    bundled(given, &mut found);
    found
}

/// Objects whose pods never run because one of their images is not in any bundle.
pub fn not_bundled(
    files: &[(&ManifestFile, &SourceMap)],
    bundle: &BTreeSet<String>,
) -> BTreeMap<ObjectRef, String> {
    let mut missing = BTreeMap::new();
    for object in files.iter().flat_map(|(file, _)| file.objects()) {
        let lacks = images(object)
            .into_iter()
            .find(|(image, _)| !bundle.contains(&full_name(image)));
        if let Some((image, _)) = lacks {
            let mut id = object.id.clone();
            // All workloads are namespaced.
            id.namespace.get_or_insert_with(|| "default".into());
            missing.insert(id, format!("the image {image} is in no bundle"));
        }
    }
    missing
}

/// Image names in the format for comparisons, from a list with one name per line like those of RKE2 and Harvester.
pub fn image_list(text: &str) -> BTreeSet<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(full_name)
        .collect()
}

/// The object and its file. Without a namespace it is in `default`, or has none.
fn declared<'a>(given: &ProofInputs<'a>, id: &ObjectRef) -> Option<(&'a Object, &'a ManifestFile)> {
    let namespace = |id: &ObjectRef| id.namespace.clone().unwrap_or("default".into());
    let files = given.files.iter();
    let mut objects = files.flat_map(|(file, _)| file.objects().map(move |object| (object, *file)));
    objects.find(|(object, _)| {
        object.id.group_kind() == id.group_kind()
            && object.id.name == id.name
            && namespace(&object.id) == namespace(id)
    })
}

fn object<'a>(given: &ProofInputs<'a>, id: &ObjectRef) -> Option<&'a Object> {
    declared(given, id).map(|(object, _)| object)
}

fn file_of<'a>(given: &ProofInputs<'a>, id: &ObjectRef) -> Option<&'a str> {
    declared(given, id).map(|(_, file)| file.path.as_str())
}

/// The requirements of users and rules, with the waiting object. Inferred requirements never ask for more than existence.
fn waits(plan: &Plan) -> impl Iterator<Item = (&ObjectRef, &Requirement)> {
    plan.files.iter().flat_map(|file| {
        file.documents.iter().flat_map(|document| {
            document
                .requires
                .iter()
                .filter(|one| !one.inferred && !one.yields)
                .map(|one| (&document.object, one))
        })
    })
}

/// An advisory requirement expires, while a required one never does.
fn severity(requirement: &Requirement) -> Severity {
    match requirement.tier {
        Tier::Required => Severity::Error,
        Tier::Advisory => Severity::Warning,
    }
}

fn waits_for_state<'p>(plan: &'p Plan, requirement: &Requirement) -> Option<&'p ObjectRef> {
    let need = &plan.needs[requirement.need];
    match (&need.target, &need.condition) {
        (NeedTarget::Object(object), NeedCondition::Ready | NeedCondition::Expression(_)) => {
            Some(object)
        }
        _ => None,
    }
}

/// A fail-closed webhook that reviews the pods that answer it: once they are gone, they never come back.
fn webhooks(given: &ProofInputs<'_>, found: &mut Vec<Finding>) {
    let pods = DeclaredPods::from_objects(objects(given));
    for (object, shown) in objects(given) {
        if !asked::is_webhook(object) {
            continue;
        }
        let hooks = object.node.list("webhooks");
        for hook in hooks {
            let Some(service) = hook.at(&["clientConfig", "service"]) else {
                continue;
            };
            let (Some(namespace), Some(name)) =
                (service.str_at(&["namespace"]), service.str_at(&["name"]))
            else {
                continue;
            };
            if !asked::fails_closed(hook) || !asks_about_pods(hook) {
                continue;
            }
            let Some(pod) = pods.behind(namespace, name) else {
                continue;
            };
            let labels = pods.labels_of(namespace);
            let asked = pods::fits(hook.get("namespaceSelector"), &labels)
                && pods::fits(hook.get("objectSelector"), &pod.labels);
            if asked {
                let message = Code::WebhookOwnPods.say(&[
                    ("name", hook.str_at(&["name"]).unwrap_or(&object.id.name)),
                    ("what", &pod.owner.to_string()),
                    ("namespace", namespace),
                ]);
                add_finding(
                    found,
                    Code::WebhookOwnPods,
                    Severity::Error,
                    message,
                    shown.at(Some(hook.line)),
                );
            }
        }
    }
}

fn asks_about_pods(hook: &Node) -> bool {
    let has = |rule: &Node, key: &str, words: &[&str]| {
        rule.get(key).is_some_and(|list| {
            list.items()
                .iter()
                .any(|item| item.as_str().is_some_and(|text| words.contains(&text)))
        })
    };
    let group = |rule: &Node| {
        rule.get("apiGroups").is_some_and(|list| {
            list.items()
                .iter()
                .any(|item| matches!(item.as_str(), Some("" | "*")))
        })
    };
    hook.get("rules").is_some_and(|rules| {
        rules.items().iter().any(|rule| {
            group(rule)
                && has(rule, "resources", &["pods", "*", "*/*"])
                && has(rule, "operations", &["CREATE", "*"])
                && rule.str_at(&["scope"]) != Some("Cluster")
        })
    })
}

/// A workload that makes a node Ready must not wait for a Ready node.
fn node_ready(
    given: &ProofInputs<'_>,
    waiting: &ObjectRef,
    requirement: &Requirement,
    found: &mut Vec<Finding>,
) {
    let Some(target) = waits_for_state(given.plan, requirement) else {
        return;
    };
    if target.kind != "Node" || !target.group.is_empty() {
        return;
    }
    let Some(object) = object(given, waiting) else {
        return;
    };
    let Some(what) = pods::makes_nodes_ready(object) else {
        return;
    };
    let message = Code::NodeReadyCycle.say(&[
        ("what", &waiting.to_string()),
        ("is", what),
        ("rule", &requirement.origin.rule),
    ]);
    add_finding(
        found,
        Code::NodeReadyCycle,
        severity(requirement),
        message,
        requirement.origin.at.clone(),
    );
}

/// A claim of a class with binding at first use is not bound before a pod mounts it.
fn claims(
    given: &ProofInputs<'_>,
    waiting: &ObjectRef,
    requirement: &Requirement,
    found: &mut Vec<Finding>,
) {
    let Some(target) = waits_for_state(given.plan, requirement) else {
        return;
    };
    if target.kind != "PersistentVolumeClaim" || !target.group.is_empty() {
        return;
    }
    let Some(claim) = object(given, target) else {
        return;
    };
    let class = claim.node.str_at(&["spec", "storageClassName"]);
    let late = class.is_some_and(|class| {
        let id = ObjectRef::cluster("storage.k8s.io", "StorageClass", class);
        object(given, &id).is_some_and(|class| {
            class.node.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer")
        })
    });
    if !late {
        return;
    }
    // A user of the claim in another file than the waiting one binds it.
    let waits_in = file_of(given, waiting);
    let used = DeclaredPods::from_objects(objects(given))
        .users_of(target)
        .iter()
        .any(|user| file_of(given, user) != waits_in);
    if used {
        return;
    }
    let message = Code::ClaimBoundBeforeUse.say(&[
        ("what", &waiting.to_string()),
        ("claim", &target.to_string()),
        ("class", class.unwrap_or_default()),
    ]);
    add_finding(
        found,
        Code::ClaimBoundBeforeUse,
        severity(requirement),
        message,
        requirement.origin.at.clone(),
    );
}

/// An address that nothing assigns. A Service of this type is Ready without one, so only a rule about `status.loadBalancer`
/// requires it.
fn load_balancers(given: &ProofInputs<'_>, requirement: &Requirement, found: &mut Vec<Finding>) {
    let need = &given.plan.needs[requirement.need];
    let (NeedTarget::Object(target), NeedCondition::Expression(expression)) =
        (&need.target, &need.condition)
    else {
        return;
    };
    if !expression.source().contains("loadBalancer") {
        return;
    }
    if target.kind != "Service" || !target.group.is_empty() {
        return;
    }
    let Some(service) = object(given, target) else {
        return;
    };
    // Harvester's nodes have kube-vip, which assigns addresses to Services.
    let provided = given.plan.platform != Some(Platform::Rke2)
        || objects(given).any(|(object, _)| pods::gives_addresses(object));
    if service.node.str_at(&["spec", "type"]) != Some("LoadBalancer") || provided {
        return;
    }
    let message = Code::LoadBalancerWithoutProvider.say(&[("what", &target.to_string())]);
    add_finding(
        found,
        Code::LoadBalancerWithoutProvider,
        severity(requirement),
        message,
        requirement.origin.at.clone(),
    );
}

/// A disabled component does not provide its kinds and objects.
pub fn switched_off(plan: &Plan, disabled: &[(String, Location)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for file in &plan.files {
        for document in &file.documents {
            for requirement in document.requires.iter().filter(|one| one.takes_part()) {
                let SatisfiedBy::Platform { by, .. } = &requirement.satisfied_by else {
                    continue;
                };
                // Things that a site declares as provided exist, regardless of their name.
                let Some((component, at)) = disabled
                    .iter()
                    .find(|(component, _)| *by == name_of_chart(component))
                else {
                    continue;
                };
                let what = plan.needs[requirement.need].target.to_string();
                if !named.insert((file.path.clone(), what.clone())) {
                    continue;
                }
                let message = Code::ComponentDisabled.say(&[
                    ("what", &document.object.to_string()),
                    ("need", &what),
                    ("component", component),
                ]);
                found.push(Finding {
                    incident: None,
                    code: Code::ComponentDisabled,
                    severity: severity(requirement),
                    message,
                    at: vec![file.shown.at(Some(document.line)), at.clone()],
                });
            }
        }
    }
    found
}

/// Without access to a registry, an image that is not in a bundle is never pulled.
fn bundled(given: &ProofInputs<'_>, found: &mut Vec<Finding>) {
    let Some(bundle) = given.images else { return };
    let mut missing: BTreeMap<String, Vec<Location>> = BTreeMap::new();
    for (object, shown) in objects(given) {
        for (image, line) in images(object) {
            if !bundle.contains(&full_name(image)) {
                missing
                    .entry(image.to_owned())
                    .or_default()
                    .push(shown.at(Some(line)));
            }
        }
    }
    for (image, at) in missing {
        found.push(Finding {
            incident: None,
            code: Code::ImageNotBundled,
            severity: Severity::Error,
            message: Code::ImageNotBundled.say(&[("image", &image)]),
            at,
        });
    }
}
