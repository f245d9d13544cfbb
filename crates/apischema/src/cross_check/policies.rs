//! ValidatingAdmissionPolicies of the files, and the later objects that may violate them.
//!
//! A policy has an effect some time after its binding exists, so an object of the same pass may be faster:
//! kube-apiserver may refuse a violation, or not. Objects that certainly satisfy the policy are not reported.

use windrow_model::findings::Location;
use windrow_model::manifest::{Node, Object, ObjectRef};
use windrow_model::object::{LabelSelector, plural_of};
use windrow_plan::SourceMap;
use windrow_plan::rules::{EvaluationBudget, Expression};

use super::refusals::{Refusals, in_cluster};

/// Steps that one rule may take for one object.
const STEPS: u64 = 200_000;

/// Most findings of one policy.
const MOST: usize = 20;

const GROUP: &str = "admissionregistration.k8s.io";

#[derive(Debug, Default)]
pub(super) struct Policies {
    policies: Vec<(Object, SourceMap)>,
    bindings: Vec<Object>,
    objects: Vec<Judged>,
}

/// An object to which a policy may apply: one of the files, or the pods that are made from it.
#[derive(Debug)]
struct Judged {
    of: ObjectRef,
    group: String,
    resource: String,
    namespace: Option<String>,
    json: serde_json::Value,
    at: Location,
}

impl Policies {
    pub(super) fn add(&mut self, object: &Object, shown: &SourceMap) {
        match (object.id.group.as_str(), object.id.kind.as_str()) {
            (GROUP, "ValidatingAdmissionPolicy") => {
                self.policies.push((object.clone(), shown.clone()));
            }
            (GROUP, "ValidatingAdmissionPolicyBinding") => self.bindings.push(object.clone()),
            // Policies apply neither to policies nor to objects that existed before them.
            (GROUP, _) => {}
            _ if self.policies.is_empty() => {}
            _ => self.add_judged(object, shown),
        }
    }

    fn add_judged(&mut self, object: &Object, shown: &SourceMap) {
        let namespace = in_cluster(object).namespace;
        let judged = |group: &str, kind: &str, json| Judged {
            of: object.id.clone(),
            group: group.to_owned(),
            resource: plural_of(kind),
            namespace: namespace.as_ref().map(ToString::to_string),
            json,
            at: shown.at(Some(object.line)),
        };
        let own = judged(&object.id.group, &object.id.kind, object.node.to_json());
        self.objects.push(own);
        if object.id.kind != "Pod"
            && let Some(pods) = object.pod_template()
        {
            let metadata = pods
                .metadata
                .map_or_else(|| serde_json::json!({}), Node::to_json);
            let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pods.spec.to_json()});
            self.objects.push(judged("", "Pod", pod));
        }
    }

    pub(super) fn finish(&self) -> Refusals {
        let mut all = Refusals::default();
        for (policy, shown) in &self.policies {
            let name = policy.id.name.as_str();
            let is_bound =
                |binding: &&Object| binding.node.str_at(&["spec", "policyName"]) == Some(name);
            let denies = |binding: &&Object| {
                let actions = binding.node.at(&["spec", "validationActions"]);
                let actions = actions.map_or(&[][..], Node::items);
                actions.iter().any(|action| action.as_str() == Some("Deny"))
            };
            let mut bindings = self.bindings.iter().filter(is_bound).filter(denies);
            let Some(spec) = policy
                .node
                .get("spec")
                .filter(|_| bindings.next().is_some())
            else {
                continue;
            };
            let mut found = 0;
            for object in &self.objects {
                let why = match () {
                    () if !is_matched(spec, object) => None,
                    () => may_break(spec, object),
                };
                let Some(why) = why.filter(|_| found < MOST) else {
                    continue;
                };
                found += 1;
                let at = vec![object.at.clone(), shown.at(Some(policy.line))];
                all.may_refuse(&object.of, &policy.id.to_string(), &why, at);
            }
        }
        all
    }
}

/// Whether a policy applies to an object that is created. Yes if it is uncertain.
fn is_matched(policy: &Node, object: &Judged) -> bool {
    let Some(constraints) = policy.get("matchConstraints") else {
        return false;
    };
    let rules = |field: &str| constraints.list(field);
    let one_of = |rule: &Node, field: &str, wanted: &[&str]| {
        let items = rule.list(field).iter();
        items
            .filter_map(Node::as_str)
            .any(|item| item == "*" || wanted.contains(&item))
    };
    let applies = |rule: &Node| {
        one_of(rule, "apiGroups", &[&object.group])
            && one_of(rule, "resources", &[&object.resource, "*/*"])
            && one_of(rule, "operations", &["CREATE"])
    };
    let labels = object.json.pointer("/metadata/labels");
    let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
    let in_namespace = |key: &str| match key {
        "kubernetes.io/metadata.name" => object.namespace.as_deref(),
        _ => None,
    };
    let is_known = |key: &str| key == "kubernetes.io/metadata.name" && object.namespace.is_some();
    rules("resourceRules").iter().any(applies)
        && !rules("excludeResourceRules").iter().any(applies)
        && may_select(constraints.get("objectSelector"), label, |_| true)
        && may_select(constraints.get("namespaceSelector"), in_namespace, is_known)
}

/// Whether a selector may select an object with these labels. Unknown labels may have any value.
fn may_select<'l>(
    selector: Option<&Node>,
    label: impl Fn(&str) -> Option<&'l str>,
    is_known: impl Fn(&str) -> bool,
) -> bool {
    selector.is_none_or(|selector| LabelSelector::parse_known(selector).may_match(label, is_known))
}

/// The first rule that an object does not certainly satisfy, with the policy's own message if it has one.
fn may_break(policy: &Node, object: &Judged) -> Option<String> {
    let rules = policy.list("validations");
    let holds = |rule: &Node| {
        let expression = rule.str_at(&["expression"])?;
        let expression = Expression::compile(expression).ok()?;
        let budget = EvaluationBudget::new(STEPS);
        expression.holds_within(&object.json, &budget).ok()
    };
    rules.iter().find_map(|rule| {
        let words = rule.str_at(&["message"]).filter(|words| words.len() <= 100);
        let words = words.or(rule
            .str_at(&["expression"])
            .filter(|words| words.len() <= 100));
        match holds(rule) {
            Some(true) => None,
            Some(false) => Some(format!("its rule does not hold: {}", words.unwrap_or("…"))),
            None => Some(format!("its rule is not judged: {}", words.unwrap_or("…"))),
        }
    })
}
