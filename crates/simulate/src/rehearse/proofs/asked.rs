//! Objects that a fail-closed webhook reviews before its backend runs. The webhook is in the same files, or comes from one of
//! their charts according to the knowledge.
//!
//! Kubernetes does not order them: RKE2 applies the webhook, its Deployment and the objects in one pass, and kube-apiserver
//! rejects the objects until a pod answers. This race ends automatically, but each of its passes applies all files again. It
//! never ends if the backend itself needs one of these objects. Such an object must not wait for the backend, so only custom
//! objects and objects of another namespace are reported.

use std::collections::BTreeMap;

use windrow_model::findings::Location;
use windrow_model::manifest::{ManifestFile, Node, Object, ObjectRef};
use windrow_model::object::plural_of;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::knowledge::{GuardingWebhook, NodeFacts, kubernetes_scope};
use windrow_plan::rules::NeedTarget;
use windrow_plan::{Plan, SourceMap};

use super::given::{ProofInputs, add_finding};
use super::pods::{self, DeclaredPods};
use crate::WebhookGate;

/// An object that a webhook reviews.
struct WebhookQuestion {
    object: ObjectRef,
    /// Position of the object's `metadata`.
    metadata: Location,
    name: String,
    asked: WebhookGate,
    /// Whether it can wait for the backend. An object that the backend itself may need cannot.
    can_wait: bool,
}

fn questions(files: &[(&ManifestFile, &SourceMap)], plan: &Plan) -> Vec<WebhookQuestion> {
    let mut found = questions_of_charts(files, plan);
    let all = || {
        let files = files.iter();
        files.flat_map(|(file, shown)| file.objects().map(move |object| (*file, object, *shown)))
    };
    // Only few files contain a webhook.
    if !all().any(|(_, object, _)| is_webhook(object)) {
        return found;
    }
    let pods = DeclaredPods::from_objects(all().map(|(_, object, shown)| (object, shown)));
    let plurals = plurals(all().map(|(_, object, _)| object));
    for (_, webhook, _) in all().filter(|(_, object, _)| is_webhook(object)) {
        for hook in webhook.node.list("webhooks") {
            let Some((service, asked)) = answers(webhook, hook, &pods) else {
                continue;
            };
            let brings = |file: &ManifestFile| file.objects().any(|one| one.id == asked.backend);
            for (file, object, shown) in all() {
                // In the same file it cannot wait, because RKE2 applies a file as a whole.
                let Some(metadata) = object.node.entry("metadata").filter(|_| !brings(file)) else {
                    continue;
                };
                let known = found
                    .iter()
                    .any(|one: &WebhookQuestion| one.object == object.id);
                if known || !is_asked(hook, object, &plurals, &pods) {
                    continue;
                }
                found.push(WebhookQuestion {
                    object: object.id.clone(),
                    metadata: shown.at(Some(metadata.line)),
                    name: service.clone(),
                    can_wait: can_wait(object, &asked.backend),
                    asked: asked.clone(),
                });
            }
        }
    }
    found
}

/// The objects that webhooks of charts in these files review, according to the knowledge.
fn questions_of_charts(files: &[(&ManifestFile, &SourceMap)], plan: &Plan) -> Vec<WebhookQuestion> {
    let mut found: Vec<WebhookQuestion> = Vec::new();
    for document in plan.files.iter().flat_map(|file| &file.documents) {
        let webhooks = document.brings.iter().flat_map(|known| &known.webhooks);
        for webhook in webhooks {
            for (file, shown) in files {
                // In the same file it cannot wait, because RKE2 applies a file as a whole.
                if has_chart(file, &document.object) {
                    continue;
                }
                for object in file.objects() {
                    let is_known = found.iter().any(|one| one.object == object.id);
                    let guarded = webhook.guards.contains(&object.id.group_kind());
                    let metadata = object.node.entry("metadata");
                    if let Some(metadata) = metadata.filter(|_| guarded && !is_known) {
                        found.push(WebhookQuestion {
                            object: object.id.clone(),
                            metadata: shown.at(Some(metadata.line)),
                            name: webhook.name.clone(),
                            asked: gate(webhook),
                            can_wait: true,
                        });
                    }
                }
            }
        }
    }
    found
}

fn has_chart(file: &ManifestFile, chart: &ObjectRef) -> bool {
    file.objects().any(|one| is_same(&one.id, chart))
}

/// Whether both are the same object. A plan contains the default namespace of an object.
fn is_same(one: &ObjectRef, other: &ObjectRef) -> bool {
    one.group_kind() == other.group_kind()
        && one.name == other.name
        && one.namespace_or_default() == other.namespace_or_default()
}

fn gate(webhook: &GuardingWebhook) -> WebhookGate {
    let namespace = webhook.backend.namespace_or_default();
    WebhookGate {
        webhook: webhook.configuration.clone(),
        backend: webhook.backend.clone(),
        refusal: refusal(&webhook.name, &webhook.service, namespace, ""),
    }
}

/// The message of kube-apiserver while no pod answers.
fn refusal(name: &str, service: &str, namespace: &str, path: &str) -> String {
    format!(
        "Internal error occurred: failed calling webhook \"{name}\": failed to call webhook: Post \
         \"https://{service}.{namespace}.svc:443{path}?timeout=10s\": no endpoints available for \
         service \"{service}\""
    )
}

pub(super) fn is_webhook(object: &Object) -> bool {
    matches!(
        object.id.kind.as_str(),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
    )
}

/// Whether all requests to this webhook fail. The effect of a CEL condition is unknown here.
pub(super) fn fails_closed(hook: &Node) -> bool {
    hook.str_at(&["failurePolicy"]) != Some("Ignore") && hook.get("matchConditions").is_none()
}

/// A webhook that fails closed and whose backend is in these files.
fn answers(
    webhook: &Object,
    hook: &Node,
    pods: &DeclaredPods<'_>,
) -> Option<(String, WebhookGate)> {
    let of = |key: &str| hook.str_at(&["clientConfig", "service", key]);
    let (namespace, service) = (of("namespace")?, of("name")?);
    if !fails_closed(hook) {
        return None;
    }
    let pod = pods.behind(namespace, service)?;
    let runs = matches!(
        pod.owner.kind.as_str(),
        "DaemonSet" | "Deployment" | "StatefulSet"
    );
    let name = hook.str_at(&["name"]).unwrap_or(&webhook.id.name);
    let path = of("path").unwrap_or_default();
    runs.then(|| {
        let refusal = refusal(name, service, namespace, path);
        let asked = WebhookGate {
            webhook: webhook.id.clone(),
            backend: pod.owner.clone(),
            refusal,
        };
        (name.to_owned(), asked)
    })
}

/// The plural names of kinds according to definitions in these files.
fn plurals<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeMap<(&'a str, &'a str), &'a str> {
    objects
        .filter(|object| object.id.kind == "CustomResourceDefinition")
        .filter_map(|object| {
            let spec = object.node.get("spec")?;
            let names = (spec.str_at(&["group"])?, spec.str_at(&["names", "kind"])?);
            Some((names, spec.str_at(&["names", "plural"])?))
        })
        .collect()
}

/// Whether it is a custom object, or an object of another namespace that grants no permissions.
fn can_wait(object: &Object, backend: &ObjectRef) -> bool {
    match built_in_scope(&object.id) {
        None => true,
        Some(namespaced) => {
            namespaced
                && object.id.group != "rbac.authorization.k8s.io"
                && object.id.namespace_or_default() != backend.namespace_or_default()
        }
    }
}

/// Whether a kind that every kube-apiserver serves is namespaced.
fn built_in_scope(id: &ObjectRef) -> Option<bool> {
    kubernetes_scope(&id.group, &id.kind, &NodeFacts::default())
}

fn is_asked(
    hook: &Node,
    object: &Object,
    plurals: &BTreeMap<(&str, &str), &str>,
    pods: &DeclaredPods<'_>,
) -> bool {
    let id = &object.id;
    let built_in = built_in_scope(id);
    let defined = plurals.get(&(id.group.as_str(), id.kind.as_str()));
    let plural = match (defined, built_in) {
        (Some(plural), _) => (*plural).to_owned(),
        (None, Some(_)) if !is_webhook(object) => plural_of(&id.kind),
        (None, _) => return false,
    };
    let lists = |rule: &Node, key: &str, word: &str| {
        let items = rule.list(key).iter();
        items
            .filter_map(Node::as_str)
            .any(|one| one == word || one == "*" || (key == "resources" && one == "*/*"))
    };
    let is_of_scope = |rule: &Node| match rule.str_at(&["scope"]) {
        Some("Cluster") => built_in != Some(true),
        Some("Namespaced") => built_in != Some(false),
        _ => true,
    };
    let mut rules = hook.list("rules").iter();
    let ruled = rules.any(|rule| {
        lists(rule, "apiGroups", &id.group)
            && lists(rule, "resources", &plural)
            && lists(rule, "operations", "CREATE")
            && is_of_scope(rule)
    });
    // The namespace selector does not apply to objects without a namespace; for a Namespace its own labels count.
    let namespace = match built_in {
        Some(false) if id.kind == "Namespace" => Some(&*id.name),
        Some(false) => None,
        _ => Some(id.namespace_or_default()),
    };
    let labels = object.node.at(&["metadata", "labels"]);
    let labels = labels.map(pods::labels).unwrap_or_default();
    ruled
        && pods::fits(hook.get("objectSelector"), &labels)
        && namespace.is_none_or(|namespace| {
            pods::fits(hook.get("namespaceSelector"), &pods.labels_of(namespace))
        })
}

/// The objects that kube-apiserver rejects until the webhook answers.
pub fn asked(
    files: &[(&ManifestFile, &SourceMap)],
    plan: &Plan,
) -> BTreeMap<ObjectRef, WebhookGate> {
    let questions = questions(files, plan).into_iter();
    questions.map(|one| (one.object, one.asked)).collect()
}

/// The reviewed objects that do not wait for the backend. Objects that RKE2 does not apply cannot be made to wait.
fn not_awaited<'q>(
    questions: &'q [WebhookQuestion],
    plan: &'q Plan,
) -> impl Iterator<Item = &'q WebhookQuestion> {
    let questions = questions.iter().filter(|question| question.can_wait);
    questions.filter(move |question| {
        let files = plan.files.iter();
        let mut documents =
            files.flat_map(|file| file.documents.iter().map(move |document| (file, document)));
        !documents.any(|(file, document)| {
            let waits = || {
                document.requires.iter().any(|requirement| {
                let target = &plan.needs[requirement.need].target;
                matches!(target, NeedTarget::Object(object) if *object == question.asked.backend)
            })
            };
            is_same(&document.object, &question.object)
                && (file.path.applied_by().is_some() || waits())
        })
    })
}

pub(super) fn findings(given: &ProofInputs<'_>, found: &mut Vec<windrow_model::findings::Finding>) {
    for question in not_awaited(&questions(given.files, given.plan), given.plan) {
        let message = Code::WebhookNotAwaited.say(&[
            ("what", &question.object.to_string()),
            ("name", &question.name),
            ("annotation", &annotation(&question.asked.backend)),
        ]);
        add_finding(
            found,
            Code::WebhookNotAwaited,
            Severity::Warning,
            message,
            question.metadata.clone(),
        );
    }
}

/// The annotation for waiting for an object.
fn annotation(object: &ObjectRef) -> String {
    let ObjectRef {
        group, kind, name, ..
    } = object;
    let namespace = object.namespace_or_default();
    format!("windrow.dev/depends-on: {group}/namespaces/{namespace}/{kind}/{name}")
}
