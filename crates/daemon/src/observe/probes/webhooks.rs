//! Whether the admission webhooks answer. Without them nothing can be changed.
//!
//! A ready pod proves little. So each webhook is tested in its normal use: by an update of an object that it guards.
//! The update changes nothing (an empty patch) and would not be kept if it did (`dryRun=All`). kube-apiserver calls
//! every webhook that is registered for such an update, and reports which one does not answer. A webhook with side
//! effects is not called for a dry run, and one that selects objects may not be called for ours: neither is tried.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;
use windrow_harvester::objects::ObjectKind;
use windrow_model::object::{api_root, api_version};
use windrow_plan::readiness::node::ProbeOutcome;

use super::cluster::{admin, ready_endpoint};
use super::context::ProbeContext;
use super::kubernetes::{Ask, Credential, asked};
use crate::locked::lock;

/// How the names of their configurations begin: Harvester's `harvester-validator` and `harvester-mutator`, Rancher's
/// `rancher.cattle.io`, KubeVirt's `virt-api-…` and `virt-operator-…`.
const OURS: &[&str] = &[HARVESTER, "rancher.cattle.io", "virt-api", "virt-operator"];
const HARVESTER: &str = "harvester";
const SETTINGS: &str = "/apis/harvesterhci.io/v1beta1/settings";
/// How many kinds are searched for an object to try with.
const TRIED: usize = 8;
/// How long the configurations found are used while there is no failure.
const BELIEVED: Duration = Duration::from_secs(600);

/// Webhooks that the same pods serve.
#[derive(Debug, Clone, Default, PartialEq)]
struct Answerer {
    /// Harvester's own: without them the node is not Ready.
    harvesters: bool,
    /// Paths of the lists of kinds whose updates they are called for.
    kinds: Vec<String>,
    object: Option<String>,
}

/// The webhooks last found, with the objects to try them with.
#[derive(Default)]
pub(super) struct WebhookMemory(Mutex<Option<KnownWebhooks>>);

#[derive(Debug)]
struct KnownWebhooks {
    answerers: Vec<Answerer>,
    at: Instant,
}

#[derive(Debug, PartialEq)]
enum Tried {
    Answers,
    Silent(String),
    /// Unknown: the request, and its answer.
    NotKnown(String, String),
    Nothing,
    Gone,
}

pub(super) async fn answer(
    context: &ProbeContext,
    memory: &WebhookMemory,
    node: &str,
) -> ProbeOutcome {
    let known = lock(&memory.0).take();
    let known = known.filter(|known| known.at.elapsed() < BELIEVED);
    let known = match known {
        Some(known) => known,
        None => match registered(context, node).await {
            Ok(answerers) => KnownWebhooks {
                answerers,
                at: Instant::now(),
            },
            Err(outcome) => return outcome,
        },
    };
    if !known.answerers.iter().any(|answerer| answerer.harvesters) {
        return ProbeOutcome::failed("Harvester has not registered its webhooks yet");
    }
    let tries = known.answerers.iter().map(|answerer| async move {
        let mut tried = attempt(context, node, answerer.object.as_deref()).await;
        if tried == Tried::Gone {
            let another = find_object(context, node, &answerer.kinds).await;
            tried = attempt(context, node, another.as_deref()).await;
        }
        match (answerer.harvesters, tried) {
            (_, Tried::Silent(why)) => ProbeOutcome::failed(why),
            (true, Tried::NotKnown(asked, why)) => ProbeOutcome::unknown(asked, why),
            (true, Tried::Nothing | Tried::Gone) => ready_endpoint(context, node).await,
            // They do not decide the node's readiness: an unknown webhook is not a blocker.
            (_, Tried::Answers | Tried::NotKnown(..) | Tried::Nothing | Tried::Gone) => {
                ProbeOutcome::Passed
            }
        }
    });
    let said = join_all(tries).await;
    let outcome = |kind: fn(&ProbeOutcome) -> bool| said.iter().find(|said| kind(said)).cloned();
    let wrong = outcome(|said| matches!(said, ProbeOutcome::Failed { .. }))
        .or_else(|| outcome(|said| matches!(said, ProbeOutcome::Unknown { .. })));
    match wrong {
        // Objects or configurations may have changed: they are looked up again next time.
        Some(wrong) => wrong,
        None => {
            *lock(&memory.0) = Some(known);
            ProbeOutcome::Passed
        }
    }
}

/// The webhooks that are registered, each with an object to try it with.
async fn registered(context: &ProbeContext, node: &str) -> Result<Vec<Answerer>, ProbeOutcome> {
    let mut configurations = Vec::new();
    for kind in [
        ObjectKind::VALIDATING_WEBHOOKS,
        ObjectKind::MUTATING_WEBHOOKS,
    ] {
        let ask = Ask::WebhookConfigurations(kind);
        let list = admin(context, ask, node, "webhooks are not served").await?;
        if let Some(items) = list["items"].as_array() {
            configurations.extend(items.iter().cloned());
        }
    }
    let mut answerers = answerers(&configurations);
    for answerer in &mut answerers {
        answerer.object = find_object(context, node, &answerer.kinds).await;
    }
    Ok(answerers)
}

async fn find_object(context: &ProbeContext, node: &str, kinds: &[String]) -> Option<String> {
    for kind in kinds {
        let found = match kind.as_str() {
            // A setting that never changes. The check of some others contacts other servers.
            SETTINGS => admin(context, Ask::ServerVersion, node, "")
                .await
                .ok()
                .map(|_| Ask::ServerVersion.path(node)),
            kind => {
                let list = admin(context, Ask::First(kind), node, "").await;
                list.ok().and_then(|list| object_in(kind, &list))
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

async fn attempt(context: &ProbeContext, node: &str, object: Option<&str>) -> Tried {
    let Some(object) = object else {
        return Tried::Nothing;
    };
    let ask = Ask::Unchanged(object);
    let reply = context.kubernetes.ask(ask, Credential::Admin, node).await;
    let asked = asked(ask, Credential::Admin, node);
    match reply {
        Ok(reply) if (200..300).contains(&reply.status) => Tried::Answers,
        Ok(reply) if reply.status == 404 => Tried::Gone,
        Ok(reply) => judge(asked, &reply.refusal()),
        Err(none) => Tried::NotKnown(asked, none.to_string()),
    }
}

/// Reads the state of the webhooks from a refusal, in the words of `k8s.io/apiserver`
/// (`pkg/admission/plugin/webhook/errors`): `admission webhook "N" denied the request`, `failed calling webhook "N":
/// failed to call webhook: …`.
fn judge(asked: String, refusal: &str) -> Tried {
    let silent = ["failed calling webhook ", "failed to call webhook "]
        .iter()
        .find_map(|words| refusal.split_once(words));
    if let Some((_, rest)) = silent {
        let why = rest.replacen("\": failed to call webhook: ", "\": ", 1);
        return Tried::Silent(why.replacen('"', "", 2));
    }
    if refusal.contains("admission webhook \"") && refusal.contains("denied the request") {
        return Tried::Answers;
    }
    Tried::NotKnown(asked, refusal.to_owned())
}

fn answerers(configurations: &[Value]) -> Vec<Answerer> {
    let mut found: BTreeMap<String, Answerer> = BTreeMap::new();
    for configuration in configurations {
        let name = text(&configuration["metadata"]["name"]);
        if !OURS.iter().any(|ours| name.starts_with(ours)) {
            continue;
        }
        for webhook in list(&configuration["webhooks"]) {
            // When it does not answer, nothing is refused.
            if webhook["failurePolicy"] == "Ignore" {
                continue;
            }
            let answerer = found.entry(address(&webhook["clientConfig"])).or_default();
            answerer.harvesters |= name.starts_with(HARVESTER);
            if can_be_tried(webhook) {
                let kinds = list(&webhook["rules"]).iter().flat_map(kinds);
                answerer.kinds.extend(kinds);
            }
        }
    }
    let mut answerers: Vec<Answerer> = found.into_values().collect();
    for answerer in &mut answerers {
        // Kubernetes' own essential kinds come last.
        let rank = |path: &String| (path != SETTINGS, path.starts_with("/api/"));
        answerer.kinds.sort_by_key(rank);
        answerer.kinds.dedup();
        answerer.kinds.truncate(TRIED);
    }
    answerers
}

/// The address of a webhook: the same for all that the same pods serve.
fn address(config: &Value) -> String {
    match text(&config["url"]) {
        "" => {
            let service = &config["service"];
            format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
        }
        // Without the path, which differs from webhook to webhook.
        url => url.split('/').take(3).collect::<Vec<_>>().join("/"),
    }
}

fn can_be_tried(webhook: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    matches!(text(&webhook["sideEffects"]), "None" | "NoneOnDryRun")
        && ["namespaceSelector", "objectSelector", "matchConditions"]
            .iter()
            .all(|key| empty(&webhook[*key]))
}

/// Paths of the lists of the kinds whose updates a rule names.
fn kinds(rule: &Value) -> Vec<String> {
    let named = |key: &str| -> Vec<String> {
        let all = list(&rule[key]).iter().map(text);
        all.filter(|name| !name.contains(['*', '/']))
            .map(str::to_owned)
            .collect()
    };
    let updates = list(&rule["operations"])
        .iter()
        .any(|operation| matches!(text(operation), "UPDATE" | "*"));
    let mut paths = Vec::new();
    if updates {
        for group in named("apiGroups") {
            for version in named("apiVersions") {
                let api = api_root(&api_version(&group, &version));
                paths.extend(
                    named("resources")
                        .iter()
                        .map(|plural| format!("{api}/{plural}")),
                );
            }
        }
    }
    paths
}

fn object_in(kind: &str, objects: &Value) -> Option<String> {
    let metadata = &list(&objects["items"]).first()?["metadata"];
    let name = text(&metadata["name"]);
    let (api, plural) = kind.rsplit_once('/')?;
    match (text(&metadata["namespace"]), name) {
        (_, "") => None,
        ("", name) => Some(format!("{api}/{plural}/{name}")),
        (namespace, name) => Some(format!("{api}/namespaces/{namespace}/{plural}/{name}")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(group: &str, version: &str, resource: &str, operation: &str) -> Value {
        json!({"apiGroups": [group], "apiVersions": [version], "resources": [resource],
            "operations": [operation]})
    }

    fn configuration(name: &str, webhooks: Value) -> Value {
        json!({"metadata": {"name": name}, "webhooks": webhooks})
    }

    fn service(name: &str) -> Value {
        json!({"service": {"namespace": "harvester-system", "name": name}})
    }

    #[test]
    fn a_webhook_is_tried_with_what_it_is_called_for_whatever_the_object_is() {
        let nodes = rule("", "v1", "nodes", "UPDATE");
        let deletes = rule("harvesterhci.io", "v1beta1", "addons", "DELETE");
        let settings = rule("harvesterhci.io", "v1beta1", "settings", "*");
        let parts = rule("harvesterhci.io", "v1beta1", "upgrades/status", "*");
        let all = rule("*", "v1", "things", "*");
        let hook = json!({"clientConfig": service("harvester-webhook"), "sideEffects": "None",
            "rules": [nodes, deletes, settings, parts, all]});
        let found = answerers(&[
            configuration("harvester-validator", json!([hook])),
            configuration("harvester-mutator", json!([hook])),
            configuration("kyverno", json!([hook])),
        ]);
        assert_eq!(
            found,
            [Answerer {
                harvesters: true,
                kinds: vec![
                    "/apis/harvesterhci.io/v1beta1/settings".to_owned(),
                    "/api/v1/nodes".to_owned(),
                ],
                object: None,
            }]
        );
    }

    #[test]
    fn one_with_side_effects_or_that_looks_at_some_objects_only_is_not_tried() {
        let settings = rule("harvesterhci.io", "v1beta1", "settings", "UPDATE");
        let some = [
            json!({"sideEffects": "Some"}),
            json!({"sideEffects": "Unknown"}),
            json!({"objectSelector": {"matchLabels": {"a": "b"}}}),
            json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
            json!({"matchConditions": [{"name": "a", "expression": "false"}]}),
        ];
        for some in some {
            let mut hook = json!({"clientConfig": service("w"), "sideEffects": "None",
                "namespaceSelector": {}, "objectSelector": {}, "rules": [settings]});
            assert_eq!(
                answerers(&[configuration("harvester", json!([hook]))])[0]
                    .kinds
                    .len(),
                1
            );
            for (key, value) in some.as_object().unwrap() {
                hook[key] = value.clone();
            }
            let found = answerers(&[configuration("harvester", json!([hook]))]);
            assert_eq!(found[0].kinds, [""; 0], "{some}");
        }
        let may_be_missing = json!({"clientConfig": service("w"), "failurePolicy": "Ignore"});
        assert_eq!(
            answerers(&[configuration("harvester", json!([may_be_missing]))]),
            []
        );
    }

    #[test]
    fn webhooks_of_one_service_or_one_server_are_asked_once() {
        let at = |url: &str| json!({"clientConfig": {"url": url}, "sideEffects": "None"});
        let hooks = json!([at("https://10.0.0.1:8443/a"), at("https://10.0.0.1:8443/b"),
            {"clientConfig": service("virt-api")}]);
        assert_eq!(
            answerers(&[configuration("virt-api-validator", hooks)]).len(),
            2
        );
    }

    #[test]
    fn a_denial_is_an_answer_and_silence_is_told_with_its_cause() {
        let said = |refusal: &str| judge("asked".to_owned(), refusal);
        assert_eq!(
            said(r#"400: admission webhook "validator.harvesterhci.io" denied the request: no"#),
            Tried::Answers
        );
        assert_eq!(
            said(
                r#"500: Internal error occurred: failed calling webhook "validator.harvesterhci.io": failed to call webhook: Post "https://x.svc:443/v1?timeout=10s": no endpoints available for service "harvester-webhook""#
            ),
            Tried::Silent(
                r#"validator.harvesterhci.io: Post "https://x.svc:443/v1?timeout=10s": no endpoints available for service "harvester-webhook""#
                    .to_owned()
            )
        );
        for refusal in [
            r#"400: admission webhook "x" does not support dry run"#,
            "429: later",
            "403: settings is forbidden",
        ] {
            assert_eq!(
                said(refusal),
                Tried::NotKnown("asked".to_owned(), refusal.to_owned())
            );
        }
    }

    #[test]
    fn the_path_of_an_object_has_its_namespace() {
        let items = |metadata: Value| json!({"items": [{"metadata": metadata}]});
        assert_eq!(
            object_in(
                "/apis/a/v1/things",
                &items(json!({"name": "n", "namespace": "m"}))
            ),
            Some("/apis/a/v1/namespaces/m/things/n".to_owned())
        );
        assert_eq!(
            object_in("/api/v1/nodes", &items(json!({"name": "n"}))),
            Some("/api/v1/nodes/n".to_owned())
        );
        assert_eq!(object_in("/api/v1/nodes", &json!({"items": []})), None);
    }
}
