//! kube-apiserver and the health endpoints.

use super::*;
use crate::observe::probes::answer::ProbeAnswer;
use crate::observe::probes::kubernetes::{Ask, Credential};
use crate::observe::probes::own_node::HeartbeatMemory;
use crate::observe::probes::upgrade::SignMemory;
use crate::observe::probes::{cluster, components};
use crate::testing::replies::{ServerReply, TestServer};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::Transition;
use windrow_plan::rke2::KubeletHealth;

const NODE: &str = "/api/v1/nodes/n1";

fn ready_node(status: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "n1"}}, "spec": {{"taints": [{{"key": "kubevirt.io/drain"}}]}},
            "status": {{"conditions": [{{"type": "Ready", "status": "{status}", "reason": "KubeletNotReady"}}]}}}}"#
    )
}

async fn own_node(place: &TestNode, role: NodeRole) -> ProbeAnswer {
    cluster::own_node(
        &place.context(),
        &SignMemory::default(),
        &HeartbeatMemory::default(),
        role,
        "n1",
        None,
    )
    .await
}

/// The kubelet at RKE2's default address.
async fn kubelet(context: &ProbeContext) -> ProbeOutcome {
    let memory = components::KubeletMemory::default();
    components::kubelet(context, &memory, &KubeletHealth::default()).await
}

fn in_words(outcome: ProbeOutcome) -> String {
    match outcome {
        ProbeOutcome::Passed => "passed".to_owned(),
        ProbeOutcome::Failed { why, .. } => format!("failed: {why}"),
        ProbeOutcome::Unknown { why, .. } => format!("unknown: {why}"),
    }
}

#[tokio::test]
async fn the_health_endpoints_pass_fail_or_are_not_known() {
    let mut place = TestNode::new();
    let context = place.context();
    assert!(failed(&kubelet(&context).await).ends_with(":1 refuses connections"));
    assert!(failed(&components::supervisor(&context).await).ends_with(":1 refuses connections"));
    for (says, expected) in [
        (ServerReply::ok("ok"), "passed"),
        (ServerReply::Http(500, "no".to_owned()), "failed: HTTP 500"),
        (ServerReply::Http(401, String::new()), "unknown: HTTP 401"),
        (
            ServerReply::ok("<html>login</html>"),
            "unknown: the answer is not the one expected",
        ),
        (ServerReply::Garbage, "unknown: "),
        (ServerReply::TooMuch, "unknown: the answer is too long"),
        (ServerReply::Nothing, "failed: no answer within 4 s"),
    ] {
        let server = TestServer::http(move |_| says.clone()).await;
        place.endpoints.kubelet.clone_from(&server.url);
        let said = in_words(kubelet(&place.context()).await);
        assert!(said.starts_with(expected), "{said}, not {expected}");
    }
}

#[tokio::test]
async fn a_health_endpoint_that_listens_on_the_ipv6_loopback_alone_passes() {
    let mut place = TestNode::new();
    let server = TestServer::http_on("[::1]:0", |_| ServerReply::ok("ok")).await;
    let (_, port) = server.url.rsplit_once(':').unwrap();
    place.endpoints.kubelet = format!("http://127.0.0.1:{port}");
    assert_eq!(kubelet(&place.context()).await, ProbeOutcome::Passed);
}

#[tokio::test]
async fn the_kubelet_is_asked_where_its_configuration_has_it_and_where_it_passed_before() {
    let files = |text: &str| {
        let layer = windrow_plan::rke2::config::ConfigLayer::Main;
        let file = windrow_plan::rke2::config::Rke2ConfigFile::new(layer, "config.yaml", text);
        KubeletHealth::new(&[file])
    };
    let place = TestNode::new();
    let server = TestServer::http(|_| ServerReply::ok("ok")).await;
    let (_, port) = server.url.rsplit_once(':').unwrap();
    let context = place.context();
    let memory = components::KubeletMemory::default();
    let configured = files(&format!("kubelet-arg: [healthz-port={port}]"));
    let outcome = components::kubelet(&context, &memory, &configured).await;
    assert_eq!(outcome, ProbeOutcome::Passed);
    // The line was removed, and RKE2 was not restarted.
    let outcome = components::kubelet(&context, &memory, &files("{}")).await;
    assert_eq!(outcome, ProbeOutcome::Passed);
    let elsewhere = files("kubelet-arg: [healthz-port=2, healthz-bind-address=127.0.0.2]");
    let memory = components::KubeletMemory::default();
    let outcome = components::kubelet(&context, &memory, &elsewhere).await;
    assert_eq!(failed(&outcome), "127.0.0.2:2 refuses connections");
}

#[tokio::test]
async fn the_supervisor_is_asked_behind_its_own_certificate() {
    let mut place = TestNode::new();
    let server = TestServer::https(|target| match target {
        "/ping" => ServerReply::ok("pong"),
        _ => ServerReply::Http(404, String::new()),
    })
    .await;
    place.endpoints.supervisor.clone_from(&server.url);
    assert_eq!(
        components::supervisor(&place.context()).await,
        ProbeOutcome::Passed
    );
}

#[tokio::test]
async fn etcd_is_asked_only_where_the_node_has_it() {
    let mut place = TestNode::new();
    let server = TestServer::http(|_| ServerReply::ok(r#"{"health": "false"}"#)).await;
    place.endpoints.etcd.clone_from(&server.url);
    assert!(unknown(&components::etcd(&place.context()).await).contains("no static pod"));
    assert!(server.asked().is_empty());
    place.write("/var/lib/rancher/rke2/agent/pod-manifests/etcd.yaml", "");
    assert!(unknown(&components::etcd(&place.context()).await).contains("not the one expected"));
    assert!(server.asked()[0].starts_with("GET /health?serializable=true "));
    let healthy = r#"{"health":"true","reason":""}"#;
    let server = TestServer::http(|_| ServerReply::ok(healthy)).await;
    place.endpoints.etcd.clone_from(&server.url);
    assert_eq!(
        components::etcd(&place.context()).await,
        ProbeOutcome::Passed
    );
}

/// As in k3s#4787.
#[tokio::test]
async fn an_alarm_of_etcd_is_named_and_what_else_it_says_is_quoted() {
    let mut place = TestNode::new();
    place.write("/var/lib/rancher/rke2/agent/pod-manifests/etcd.yaml", "");
    let alarm = Some(Code::EtcdAlarm);
    for (reason, why, code) in [
        (
            "ALARM NOSPACE",
            "alarm NOSPACE (its database has reached its quota)",
            alarm,
        ),
        (
            "ALARM CORRUPT",
            "alarm CORRUPT (its members' data differ)",
            alarm,
        ),
        ("ALARM UNKNOWN", "HTTP 503: ALARM UNKNOWN", None),
        ("", "HTTP 503", None),
    ] {
        let server = TestServer::http(move |_| {
            let body = format!("{{\"health\":\"false\",\"reason\":\"{reason}\"}}\n");
            ServerReply::Http(503, body)
        })
        .await;
        place.endpoints.etcd.clone_from(&server.url);
        let expected = ProbeOutcome::Failed {
            why: why.to_owned(),
            code,
            stuck: code.is_some(),
        };
        assert_eq!(components::etcd(&place.context()).await, expected);
    }
}

#[tokio::test]
async fn a_node_that_is_cordoned_says_so_and_is_as_ready_as_before() {
    for (spec, cordoned) in [("{\"unschedulable\": true}", true), ("{}", false)] {
        let place = TestNode::new();
        let node = format!(
            r#"{{"spec": {spec}, "status": {{"conditions": [{{"type": "Ready", "status": "True"}}]}}}}"#
        );
        let server = TestServer::http(move |_| ServerReply::ok(&node)).await;
        place.identity(&server);
        let asked = own_node(&place, NodeRole::Agent).await;
        assert_eq!(asked.outcome, ProbeOutcome::Passed);
        assert!(asked.events.contains(&NodeEvent::Cordoned(cordoned)));
    }
}

#[tokio::test]
async fn the_own_node_is_ready_by_its_condition_and_tells_of_a_drain() {
    for (status, passed) in [("True", true), ("False", false), ("Unknown", false)] {
        let place = TestNode::new();
        let server = TestServer::http(move |_| ServerReply::ok(&ready_node(status))).await;
        place.admin(&server);
        let asked = own_node(&place, NodeRole::FirstServer).await;
        match passed {
            true => assert_eq!(asked.outcome, ProbeOutcome::Passed),
            false => assert_eq!(failed(&asked.outcome), "KubeletNotReady"),
        }
        assert!(
            asked
                .events
                .iter()
                .any(|event| matches!(event, NodeEvent::Transition(Transition::Drain, Some(_))))
        );
        let own = format!("GET {NODE} ");
        assert!(server.asked().iter().any(|head| head.starts_with(&own)));
    }
}

#[tokio::test]
async fn a_node_is_promoted_only_while_harvesters_job_runs() {
    for (annotations, is_promoted) in [
        ("{}", false),
        (r#"{"harvesterhci.io/promote-status": "running"}"#, true),
        (r#"{"harvesterhci.io/promote-status": "complete"}"#, false),
    ] {
        let place = TestNode::new();
        let node = format!(r#"{{"metadata": {{"name": "n1", "annotations": {annotations}}}}}"#);
        let server = TestServer::http(move |_| ServerReply::ok(&node)).await;
        place.identity(&server);
        let asked = own_node(&place, NodeRole::Agent).await;
        let found = asked.events.iter().find_map(|event| match event {
            NodeEvent::Transition(Transition::Promotion, found) => Some(found.is_some()),
            _ => None,
        });
        assert_eq!(found, Some(is_promoted), "{annotations}");
    }
}

#[tokio::test]
async fn a_refusal_says_who_asked_what_and_why_it_was_refused() {
    let place = TestNode::new();
    let server = TestServer::http(|_| {
        ServerReply::Http(
            403,
            r#"{"kind": "Status", "message": "node 'n1' cannot read 'n2', only its own Node object"}"#
                .to_owned(),
        )
    })
    .await;
    place.identity(&server);
    let asked = own_node(&place, NodeRole::Agent).await;
    let refused = Some(Code::ProbeRefused);
    assert!(matches!(asked.outcome, ProbeOutcome::Unknown { code, .. } if code == refused));
    let said = unknown(&asked.outcome);
    assert_eq!(
        said,
        "GET /api/v1/nodes/n1 as system:node:n1: 403: node 'n1' cannot read 'n2', only its own Node object"
    );
}

#[tokio::test]
async fn a_refused_credential_is_named_by_its_file_whatever_was_asked() {
    let place = TestNode::new();
    let server = TestServer::http(|_| {
        let status = r#"{"kind": "Status", "message": "Unauthorized"}"#;
        ServerReply::Http(401, status.to_owned())
    })
    .await;
    place.admin(&server);
    let asked = own_node(&place, NodeRole::FirstServer).await;
    let said = unknown(&asked.outcome);
    let file = place.context().layout().default_kubeconfig();
    let expected = "kube-apiserver refuses this credential (401)";
    assert_eq!(said, format!("{}: {expected}", file.display()));
}

#[tokio::test]
async fn what_a_node_identity_may_not_ask_is_not_asked() {
    let place = TestNode::new();
    let server = TestServer::http(|_| ServerReply::ok("{}")).await;
    place.identity(&server);
    let context = place.context();
    for ask in [
        Ask::Vip,
        Ask::Rancher,
        Ask::Upgrades,
        Ask::Unchanged("/api/v1/nodes/n1"),
    ] {
        let answer = context.kubernetes.ask(ask, Credential::Node, "n1").await;
        assert!(answer.is_err());
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn an_object_that_cannot_be_had_is_not_known_and_one_that_does_not_exist_fails() {
    for (says, expected) in [
        (
            ServerReply::Http(404, "{}".to_owned()),
            "failed: there is no Node n1 yet",
        ),
        (ServerReply::Http(500, "{}".to_owned()), "unknown: HTTP 500"),
        (ServerReply::Http(429, "{}".to_owned()), "unknown: HTTP 429"),
        (
            ServerReply::ok("not JSON"),
            "unknown: the answer is not JSON",
        ),
        (
            ServerReply::ok("[]"),
            "unknown: the answer is not an object",
        ),
        (
            ServerReply::ok(&format!("[{}0]", "{},".repeat(100_000))),
            "unknown: too large: the values of the answer take more than 64 MiB of memory",
        ),
        (ServerReply::Garbage, "unknown: "),
        (ServerReply::Nothing, "unknown: no answer within 4 s"),
        (
            ServerReply::ok("{}"),
            "failed: its kubelet has not reported yet",
        ),
    ] {
        let place = TestNode::new();
        let server = TestServer::http(move |_| says.clone()).await;
        place.admin(&server);
        let asked = own_node(&place, NodeRole::FirstServer).await;
        let said = in_words(asked.outcome);
        assert!(said.starts_with(expected), "{said}, not {expected}");
    }
}

#[tokio::test]
async fn readyz_names_what_failed_and_needs_a_credential_that_is_there() {
    let place = TestNode::new();
    let context = place.context();
    let missing = cluster::apiserver(&context, NodeRole::FirstServer, "n1").await;
    assert!(unknown(&missing).contains("not there yet"));
    let server = TestServer::http(|_| {
        let text = "[+]ping ok\n[-]etcd failed: reason withheld\n".to_owned();
        ServerReply::Http(500, text)
    })
    .await;
    place.admin(&server);
    let outcome = cluster::apiserver(&context, NodeRole::FirstServer, "n1").await;
    assert_eq!(failed(&outcome), "etcd failed");
    let head = server.asked().pop().unwrap().to_lowercase();
    assert!(
        head.contains("connection: close"),
        "the next look verifies the certificate again: {head}"
    );
    // A proxy may repeat an earlier answer.
    let server =
        TestServer::http(|_| ServerReply::Http(503, "[-]etcd failed: x\n".to_owned())).await;
    place.admin(&server);
    let outcome = cluster::apiserver(&place.context(), NodeRole::FirstServer, "n1").await;
    assert!(unknown(&outcome).ends_with("HTTP 503"));
    // An error without the name of a check is not an answer.
    for status in [500, 503, 504] {
        let server = TestServer::http(move |_| ServerReply::Http(status, "no".to_owned())).await;
        place.admin(&server);
        let outcome = cluster::apiserver(&place.context(), NodeRole::FirstServer, "n1").await;
        assert!(unknown(&outcome).ends_with(&format!("HTTP {status}")));
    }
    // The server goes away.
    drop(server);
    place.kubeconfig("/etc/rancher/rke2/rke2.yaml", "http://127.0.0.1:1");
    let gone = cluster::apiserver(&place.context(), NodeRole::FirstServer, "n1").await;
    assert_eq!(failed(&gone), "127.0.0.1:1 refuses connections");
}

#[tokio::test]
async fn harvesters_parts_are_judged_by_what_they_say_of_themselves() {
    let place = TestNode::new();
    let server = TestServer::http(|target| {
        ServerReply::ok(match target.split('?').next().unwrap() {
            "/apis/apps/v1/namespaces/cattle-system/deployments/rancher" => {
                r#"{"status": {"conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}]}}"#
            }
            "/apis/management.cattle.io/v3/namespaces/fleet-local/managedcharts/harvester" => {
                r#"{"status": {"conditions": [{"type": "Ready", "status": "False", "message": "Modified(1) [Cluster fleet-local/local]"}]}}"#
            }
            "/apis/discovery.k8s.io/v1/namespaces/harvester-system/endpointslices" => {
                r#"{"items": [{"endpoints": [{"conditions": {"ready": false}}]}]}"#
            }
            "/apis/harvesterhci.io/v1beta1/settings/storage-network" => {
                r#"{"value": "{}", "status": {"conditions": [{"type": "configured", "status": "False", "reason": "In Progress", "message": "Stopping Pods"}]}}"#
            }
            "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades" => {
                r#"{"items": [{"metadata": {"labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": "UpgradingNodes"}}}]}"#
            }
            _ => r#"{"value": "1"}"#,
        })
    })
    .await;
    place.admin(&server);
    let context = place.context();
    let rancher = cluster::rancher(&context, "n1").await;
    assert_eq!(failed(&rancher), "MinimumReplicasUnavailable");
    assert_eq!(
        cluster::managed_chart(&context, "n1").await,
        ProbeOutcome::Passed
    );
    let webhook = cluster::ready_endpoint(&context, "n1").await;
    assert!(failed(&webhook).contains("no pod"));
    let storage = cluster::storage_network(&context, "n1").await;
    assert_eq!(failed(&storage), "In Progress: Stopping Pods");
    let settings = cluster::settings(&context, "n1").await;
    assert_eq!(settings.outcome, ProbeOutcome::Passed);
    assert!(matches!(
        settings.events.as_slice(),
        [NodeEvent::Transition(_, Some(state))] if state.message.starts_with("Harvester: UpgradingNodes")
    ));
}

#[tokio::test]
async fn harvesters_chart_is_installed_once_it_is_ready_or_was_only_changed_afterwards() {
    for (message, passed) in [
        ("Modified(1) [Cluster fleet-local/local]", true),
        ("NotReady(1) [Cluster fleet-local/local]", false),
    ] {
        let place = TestNode::new();
        let server = TestServer::http(move |_| {
            ServerReply::ok(&format!(
                r#"{{"status": {{"conditions": [{{"type": "Ready", "status": "False", "message": "{message}"}}]}}}}"#
            ))
        })
        .await;
        place.admin(&server);
        let outcome = cluster::managed_chart(&place.context(), "n1").await;
        match passed {
            true => assert_eq!(outcome, ProbeOutcome::Passed),
            false => assert_eq!(failed(&outcome), message),
        }
    }
}

#[tokio::test]
async fn etcd_answers_when_it_says_with_200_that_it_is_healthy() {
    for (status, health, expected) in [
        (200, "true", true),
        (200, "false", false),
        (503, "true", false),
    ] {
        let body = format!("{{\"health\": \"{health}\"}}");
        let server = TestServer::http(move |_| ServerReply::Http(status, body.clone())).await;
        assert_eq!(
            components::says_healthy(&server.url).await,
            expected,
            "{status} {health}"
        );
    }
    assert!(!components::says_healthy("http://127.0.0.1:1").await);
}
