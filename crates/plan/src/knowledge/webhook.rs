//! Webhooks that guard kinds: while their pods do not answer, kube-apiserver rejects the objects.

use windrow_model::manifest::{GroupKind, Node, ObjectRef};

use super::VersionRange;
use super::chart::InstalledChart;
use super::load::ranges;
use crate::rules::fields::{Errors, Fields, kind_error};

pub(super) const WEBHOOK_KEYS: &[&str] = &[
    "name",
    "guards",
    "failurePolicy",
    "failurePolicyValue",
    "enabledValue",
    "registeredBy",
    "configuration",
    "service",
    "answeredBy",
    "namespace",
    "type",
    "versions",
];

/// A webhook of an entry. The names of a chart may contain `{fullname}`, Helm's usual name for a release of the chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWebhook {
    /// Its name in rejections of kube-apiserver.
    name: String,
    /// The kinds that it reviews.
    guards: Vec<GroupKind>,
    /// Whether their objects are rejected while nothing answers.
    fails_closed: bool,
    /// The chart value that also sets the failure policy.
    policy_value: Option<String>,
    /// The chart value that leaves it out if it is false.
    enabled_value: Option<String>,
    /// Whether its pods register it, so that it exists only once they answer.
    registered_by_pods: bool,
    configuration: String,
    /// Whether it changes objects, so that it runs before validating webhooks.
    mutates: bool,
    service: String,
    /// The Deployment whose pods answer.
    answered_by: String,
    /// Namespace of the pods, if the object of an operator has none.
    namespace: Option<String>,
    versions: VersionRange,
}

/// A webhook of a chart or an operator in a directory that exists before its pods answer, and fails closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardingWebhook {
    /// Its name in rejections of kube-apiserver.
    pub name: String,
    /// The kinds that it reviews.
    pub guards: Vec<GroupKind>,
    pub configuration: ObjectRef,
    /// The Deployment whose pods answer.
    pub backend: ObjectRef,
    /// The Service of these pods.
    pub service: String,
}

impl KnownWebhook {
    /// The webhook of this release, if it can reject objects.
    pub(super) fn of_release(&self, chart: &InstalledChart) -> Option<GuardingWebhook> {
        let enabled = self.enabled_value.as_ref();
        let enabled = enabled.and_then(|path| chart.value(path));
        if enabled
            .is_some_and(|value| value.as_bool() == Some(false) || value.as_str() == Some("false"))
        {
            return None;
        }
        let set = self
            .policy_value
            .as_ref()
            .and_then(|path| chart.value(path));
        let fails_closed = match set.and_then(Node::as_str) {
            Some(policy) => policy == "Fail",
            None => self.fails_closed,
        };
        if !fails_closed || self.registered_by_pods || !self.versions.includes(chart.version()) {
            return None;
        }
        Some(self.guarding(&chart.fullname(), chart.namespace()))
    }

    /// The webhook of an operator that acts on an object in this namespace, if it can reject objects.
    pub(super) fn of_operator(&self, namespace: Option<&str>) -> Option<GuardingWebhook> {
        let namespace = namespace.or(self.namespace.as_deref())?;
        (self.fails_closed && !self.registered_by_pods).then(|| self.guarding("", namespace))
    }

    fn guarding(&self, fullname: &str, namespace: &str) -> GuardingWebhook {
        let named = |text: &str| text.replace("{fullname}", fullname);
        let kind = match self.mutates {
            true => "MutatingWebhookConfiguration",
            false => "ValidatingWebhookConfiguration",
        };
        let configuration = named(&self.configuration);
        GuardingWebhook {
            name: self.name.clone(),
            guards: self.guards.clone(),
            configuration: ObjectRef::cluster("admissionregistration.k8s.io", kind, configuration),
            backend: ObjectRef {
                group: "apps".into(),
                kind: "Deployment".into(),
                namespace: Some(namespace.into()),
                name: named(&self.answered_by).into(),
            },
            service: named(&self.service),
        }
    }
}

pub(super) fn webhooks(entry: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<KnownWebhook> {
    let nodes = entry.list("webhooks", errors).iter();
    nodes.flat_map(|node| webhook(node, errors)).collect()
}

/// One webhook, once for each version range.
fn webhook(node: &Node, errors: &mut Errors<'_>) -> Vec<KnownWebhook> {
    let Some(fields) = Fields::new(node, "the webhook", WEBHOOK_KEYS, errors) else {
        return Vec::new();
    };
    let mut guards = Vec::new();
    for node in fields.list("guards", errors) {
        let keys = ["group", "kinds"];
        let Some(guarded) = Fields::new(node, "the guarded group", &keys, errors) else {
            continue;
        };
        let group = guarded.group("group", errors).unwrap_or_default();
        for (kind, line) in guarded.texts("kinds", errors) {
            errors.check(line, "kinds", kind_error(kind));
            guards.push(GroupKind::new(group, kind));
        }
    }
    if guards.is_empty() {
        fields.lacks("`guards`: the kinds that are sent to it", errors);
    }
    let policies = [("Fail", true), ("Ignore", false)];
    let registrars = [("chart", false), ("pods", true)];
    let types = [("validating", false), ("mutating", true)];
    let fails_closed = fields.word("failurePolicy", &policies, errors);
    let by_pods = fields.word("registeredBy", &registrars, errors);
    let mutates = fields.word("type", &types, errors);
    let mut text = |key| fields.required(key, errors).unwrap_or_default().to_owned();
    let (name, configuration) = (text("name"), text("configuration"));
    let (service, answered_by) = (text("service"), text("answeredBy"));
    let policy_value = fields.text("failurePolicyValue", errors).map(str::to_owned);
    let enabled_value = fields.text("enabledValue", errors).map(str::to_owned);
    let namespace = fields.text("namespace", errors).map(str::to_owned);
    let known = KnownWebhook {
        name,
        guards,
        fails_closed: fails_closed.unwrap_or(true),
        policy_value,
        enabled_value,
        registered_by_pods: by_pods.unwrap_or(false),
        configuration,
        mutates: mutates.unwrap_or(false),
        service,
        answered_by,
        namespace,
        versions: VersionRange::default(),
    };
    let ranges = ranges(&fields, errors).into_iter();
    ranges
        .map(|versions| KnownWebhook {
            versions,
            ..known.clone()
        })
        .collect()
}
