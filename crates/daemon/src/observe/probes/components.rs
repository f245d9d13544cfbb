//! Health of the components on the node itself: the kubelet, etcd, the supervisor, kube-controller-manager,
//! kube-scheduler.
//!
//! The requests use the loopback interface. RKE2's certificates name the node, not 127.0.0.1, so the certificate is not
//! checked, and no secret is sent.

use std::sync::Mutex;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_gates::{Component, pod_flag};
use windrow_harvester::objects::text;
use windrow_model::reasons::Code;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;
use windrow_plan::rke2::KubeletHealth;

use super::cluster::admin;
use super::context::{Endpoints, ProbeContext};
use super::http::{HttpAnswer, NoAnswer, PATIENCE, client, get_on_loopback};
use super::kubernetes::Ask;
use crate::fs;
use crate::locked::lock;

/// A leader renews its Lease every few seconds. Another server's clock may differ by a little.
const LEADS: SignedDuration = SignedDuration::from_mins(2);

#[derive(Default)]
pub(super) struct KubeletMemory(Mutex<Option<String>>);

/// The kubelet's own health, at the configured address, the address of the last pass and RKE2's default. A changed
/// configuration counts when RKE2 starts again.
pub(super) async fn kubelet(
    context: &ProbeContext,
    memory: &KubeletMemory,
    configured: &KubeletHealth,
) -> ProbeOutcome {
    let passed_at = lock(&memory.0).clone();
    let mut urls = Vec::new();
    let known = configured.url().into_iter().chain(passed_at);
    for url in known.chain([context.endpoints.kubelet.clone()]) {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    let asked = urls.iter().map(|url| async move {
        let url = format!("{url}/healthz");
        healthy(context, &url, |body| body.starts_with(b"ok"), by_status).await
    });
    let mut outcomes = join_all(asked).await;
    if let Some(passed) = outcomes
        .iter()
        .position(|outcome| *outcome == ProbeOutcome::Passed)
    {
        *lock(&memory.0) = urls.into_iter().nth(passed);
        return ProbeOutcome::Passed;
    }
    // The message names the configured address.
    outcomes.swap_remove(0)
}

/// RKE2's supervisor. It listens before etcd and kube-apiserver are up: the first sign that RKE2 is working.
pub(super) async fn supervisor(context: &ProbeContext) -> ProbeOutcome {
    let url = format!("{}/ping", context.endpoints.supervisor);
    healthy(context, &url, |body| body.starts_with(b"pong"), by_status).await
}

/// etcd, if this node has it.
pub(super) async fn etcd(context: &ProbeContext) -> ProbeOutcome {
    let pod = context
        .layout()
        .data_dir()
        .join("agent/pod-manifests/etcd.yaml");
    if !fs::exists(pod) {
        return ProbeOutcome::unknown("etcd", "no static pod on this node yet");
    }
    let url = format!("{}/health?serializable=true", context.endpoints.etcd);
    healthy(context, &url, is_etcds_health, etcds_failure).await
}

/// kube-controller-manager or kube-scheduler, if this node has its static pod. kube-apiserver's `/readyz` checks neither. On a
/// cluster with several servers, another server's may lead; without any leader, the state of all objects in the cluster stays as it is.
pub(super) async fn control_loop(
    context: &ProbeContext,
    component: Component,
    node: &str,
) -> ProbeOutcome {
    let pods = context.layout().data_dir().join("agent/pod-manifests");
    let Ok(pod) = fs::read_to_string(pods.join(format!("{component}.yaml"))) else {
        return ProbeOutcome::unknown(component.as_str(), "no static pod on this node yet");
    };
    let endpoint = match component {
        Component::KubeScheduler => &context.endpoints.scheduler,
        _ => &context.endpoints.controller_manager,
    };
    let mut endpoint = endpoint.clone();
    if let Some(port) = pod_flag(component, &pod, "secure-port") {
        if port == "0" {
            return ProbeOutcome::unknown(
                component.as_str(),
                "secure-port=0 switches its health endpoint off",
            );
        }
        endpoint = format!("https://127.0.0.1:{port}");
    }
    let url = format!("{endpoint}/healthz");
    let outcome = healthy(context, &url, |body| body.starts_with(b"ok"), by_status).await;
    match outcome {
        ProbeOutcome::Failed { why, .. } if !another_leads(context, component, node).await => {
            ProbeOutcome::failed_as(Code::NoActiveLeader, format!("{component}: {why}"))
        }
        outcome => outcome,
    }
}

/// Whether the component leads on another server. If kube-apiserver does not answer, it might.
async fn another_leads(context: &ProbeContext, component: Component, node: &str) -> bool {
    let lease = Ask::Leader(component.as_str());
    match admin(context, lease, node, "there is no Lease").await {
        Ok(lease) => is_led_elsewhere(&lease, &context.host_name(), (context.now)()),
        // Without leader election there is no Lease, and no other server.
        Err(outcome) => !matches!(outcome, ProbeOutcome::Failed { .. }),
    }
}

/// The holder's identity is its host name, `_` and a random part (Kubernetes `cmd/kube-controller-manager/app`).
fn is_led_elsewhere(lease: &Value, host_name: &str, now: Timestamp) -> bool {
    let holder = text(lease, "/spec/holderIdentity");
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
    let renewed: Option<Timestamp> = text(lease, "/spec/renewTime").parse().ok();
    !host.is_empty()
        && host != host_name
        && renewed.is_some_and(|renewed| now.duration_since(renewed) <= LEADS)
}

pub async fn etcd_answers() -> bool {
    says_healthy(&Endpoints::default().etcd).await
}

pub(super) async fn says_healthy(etcd: &str) -> bool {
    let url = format!("{etcd}/health?serializable=true");
    let Ok(client) = client() else { return false };
    let answer = get_on_loopback(&client, &url).await;
    answer.is_ok_and(|answer| answer.status == 200 && is_etcds_health(&answer.body))
}

fn is_etcds_health(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|answer| answer["health"] == "true")
}

/// Why etcd is not healthy. From v3.5 on its answer has the reason, and an alarm comes before everything else (etcd
/// `server/etcdserver/api/etcdhttp`). Every member reports an alarm, no matter which one raised it, until it is
/// disarmed. Under NOSPACE etcd refuses every request that puts a key or makes a lease, under CORRUPT every request
/// (`server/etcdserver/apply`).
fn etcds_failure(answer: &HttpAnswer) -> ProbeOutcome {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let alarm = |why: &str| ProbeOutcome::Failed {
        why: why.to_owned(),
        code: Some(Code::EtcdAlarm),
        stuck: true,
    };
    match said["reason"].as_str().unwrap_or_default().trim() {
        "ALARM NOSPACE" => alarm("alarm NOSPACE (its database has reached its quota)"),
        "ALARM CORRUPT" => alarm("alarm CORRUPT (its members' data differ)"),
        "" => by_status(answer),
        reason => {
            let (status, reason) = (answer.status, redact::message(reason));
            ProbeOutcome::failed(format!("HTTP {status}: {reason}"))
        }
    }
}

fn by_status(answer: &HttpAnswer) -> ProbeOutcome {
    ProbeOutcome::failed(format!("HTTP {}", answer.status))
}

/// 200 with the expected body. Another answer comes from another program, so the state is unknown.
async fn healthy(
    context: &ProbeContext,
    url: &str,
    expected: fn(&[u8]) -> bool,
    failure: fn(&HttpAnswer) -> ProbeOutcome,
) -> ProbeOutcome {
    match get_on_loopback(&context.http, url).await {
        Ok(answer) if answer.status == 200 && expected(&answer.body) => ProbeOutcome::Passed,
        Ok(answer) if answer.status == 200 => {
            ProbeOutcome::unknown(format!("GET {url}"), "the answer is not the one expected")
        }
        Ok(answer) if matches!(answer.status, 401 | 403) => {
            ProbeOutcome::refused(format!("GET {url}"), format!("HTTP {}", answer.status))
        }
        Ok(answer) => failure(&answer),
        Err(NoAnswer::Garbage(why)) => ProbeOutcome::unknown(format!("GET {url}"), why),
        Err(none) => ProbeOutcome::failed(none.say(PATIENCE)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_another_host_that_renews_its_lease_leads_elsewhere() {
        let now: Timestamp = "2026-11-28T11:00:00Z".parse().unwrap();
        let leads = |holder: &str, renewed: &str| {
            let lease = json!({"spec": {"holderIdentity": holder, "renewTime": renewed}});
            is_led_elsewhere(&lease, "node1", now)
        };
        assert!(leads("node2_5f", "2026-11-28T10:59:50.123456Z"));
        assert!(
            leads("node2_5f", "2026-11-28T11:00:30Z"),
            "its clock is ahead"
        );
        assert!(!leads("node2_5f", "2026-11-28T10:50:00Z"));
        assert!(
            !leads("node1_5f", "2026-11-28T10:59:50Z"),
            "its own, which has just ended"
        );
        assert!(!leads("", "2026-11-28T10:59:50Z"));
        assert!(!leads("node2_5f", ""));
    }
}
