//! Webhooks, tried by a change that changes nothing.

use serde_json::json;

use super::*;
use crate::observe::probes::webhooks::{self, WebhookMemory};
use crate::testing::replies::{ServerReply, TestServer};

const SETTING: &str = "/apis/harvesterhci.io/v1beta1/settings/server-version";

/// A server whose kube-apiserver answers the change like this.
async fn tried(status: u16, message: &'static str) -> ProbeOutcome {
    let place = TestNode::new();
    let server = TestServer::http(move |target| match target.split_once('?') {
        Some((SETTING, _)) => {
            let refusal = json!({"kind": "Status", "message": message, "code": status});
            ServerReply::Http(status, refusal.to_string())
        }
        _ if target.ends_with("validatingwebhookconfigurations") => {
            let rule = json!({"apiGroups": ["harvesterhci.io"], "apiVersions": ["v1beta1"],
                "resources": ["settings"], "operations": ["UPDATE"]});
            let service = json!({"namespace": "harvester-system", "name": "harvester-webhook"});
            let webhook = json!({"sideEffects": "None", "clientConfig": {"service": service}, "rules": [rule]});
            let metadata = json!({"name": "harvester-validator"});
            let list = json!({"items": [{"metadata": metadata, "webhooks": [webhook]}]});
            ServerReply::ok(&list.to_string())
        }
        _ => ServerReply::ok(r#"{"items": []}"#),
    })
    .await;
    place.admin(&server);
    let memory = WebhookMemory::default();
    let outcome = webhooks::answer(&place.context(), &memory, "n1").await;
    let change = format!("PATCH {SETTING}?dryRun=All");
    assert!(
        server.asked().iter().any(|head| head.starts_with(&change)),
        "{:?}",
        server.asked()
    );
    outcome
}

#[tokio::test]
async fn a_webhook_answers_when_the_change_is_taken_or_denied_and_silence_is_a_failure() {
    let denied = r#"admission webhook "validator.harvesterhci.io" denied the request: no"#;
    for (status, message) in [(200, ""), (400, denied)] {
        assert_eq!(
            tried(status, message).await,
            ProbeOutcome::Passed,
            "{status}"
        );
    }
    let silent = r#"failed calling webhook "validator.harvesterhci.io": failed to call webhook: no endpoints available"#;
    let said = tried(500, silent).await;
    assert!(failed(&said).contains("no endpoints available"), "{said:?}");
    let refused = tried(403, "settings is forbidden").await;
    assert!(unknown(&refused).contains("settings is forbidden"));
}

/// The list of the cluster, whose only object is made again under another name.
const CLUSTERS: &str = "/apis/management.cattle.io/v3/clusters";

#[tokio::test]
async fn an_object_that_is_gone_hides_no_webhook_that_does_not_answer() {
    let place = TestNode::new();
    let name = std::sync::Arc::new(std::sync::Mutex::new("first"));
    let named = name.clone();
    let server = TestServer::http(move |target| {
        let name = *named.lock().unwrap();
        let (path, _) = target.split_once('?').unwrap_or((target, ""));
        let refusal = |status: u16, message: &str| {
            ServerReply::Http(status, json!({"message": message, "code": status}).to_string())
        };
        if path == SETTING || (path == format!("{CLUSTERS}/{name}") && name == "first") {
            return ServerReply::ok("{}");
        }
        if path == CLUSTERS {
            return ServerReply::ok(&json!({"items": [{"metadata": {"name": name}}]}).to_string());
        }
        if path == format!("{CLUSTERS}/{name}") {
            return refusal(500, r#"failed calling webhook "rancher.cattle.io": failed to call webhook: refused"#);
        }
        if path.starts_with(CLUSTERS) {
            return refusal(404, "not found");
        }
        if path.ends_with("validatingwebhookconfigurations") {
            let webhook = |service: &str, group: &str, version: &str, plural: &str| {
                json!({"sideEffects": "None",
                    "clientConfig": {"service": {"namespace": "a", "name": service}},
                    "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": ["UPDATE"]}]})
            };
            let list = json!({"items": [
                {"metadata": {"name": "harvester-validator"},
                    "webhooks": [webhook("harvester-webhook", "harvesterhci.io", "v1beta1", "settings")]},
                {"metadata": {"name": "rancher.cattle.io"},
                    "webhooks": [webhook("rancher-webhook", "management.cattle.io", "v3", "clusters")]}]});
            return ServerReply::ok(&list.to_string());
        }
        ServerReply::ok(r#"{"items": []}"#)
    })
    .await;
    place.admin(&server);
    let (context, memory) = (place.context(), WebhookMemory::default());
    let outcome = webhooks::answer(&context, &memory, "n1").await;
    assert_eq!(outcome, ProbeOutcome::Passed);
    *name.lock().unwrap() = "second";
    let outcome = webhooks::answer(&context, &memory, "n1").await;
    assert!(
        failed(&outcome).contains("rancher.cattle.io: refused"),
        "{outcome:?}"
    );
}
