//! Health of what runs on the node itself: the kubelet, etcd, the supervisor.
//!
//! They are asked on the loopback interface. RKE2's certificates name the node, not 127.0.0.1, so the certificate is
//! not checked, and no secret is sent.

use serde_json::Value;
use windrow_model::reasons::Code;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;

use super::context::{Endpoints, ProbeContext};
use super::http::{HttpAnswer, NoAnswer, PATIENCE, client, get};

/// The kubelet's own health.
pub(super) async fn kubelet(context: &ProbeContext) -> ProbeOutcome {
    let url = format!("{}/healthz", context.endpoints.kubelet);
    healthy(context, &url, |body| body.starts_with(b"ok"), by_status).await
}

/// RKE2's supervisor. It listens before etcd and kube-apiserver are up: the first sign that RKE2 is working.
pub(super) async fn supervisor(context: &ProbeContext) -> ProbeOutcome {
    let url = format!("{}/ping", context.endpoints.supervisor);
    healthy(context, &url, |body| body.starts_with(b"pong"), by_status).await
}

/// etcd, where this node has it.
pub(super) async fn etcd(context: &ProbeContext) -> ProbeOutcome {
    let pod = context
        .layout()
        .data_dir()
        .join("agent/pod-manifests/etcd.yaml");
    if !pod.exists() {
        return ProbeOutcome::unknown("etcd", "no static pod on this node yet");
    }
    let url = format!("{}/health?serializable=true", context.endpoints.etcd);
    healthy(context, &url, is_etcds_health, etcds_failure).await
}

/// Does etcd say on this node that it is healthy?
pub async fn etcd_answers() -> bool {
    says_healthy(&Endpoints::default().etcd).await
}

pub(super) async fn says_healthy(etcd: &str) -> bool {
    let url = format!("{etcd}/health?serializable=true");
    let Ok(client) = client() else { return false };
    let answer = get(&client, &url, None).await;
    answer.is_ok_and(|answer| answer.status == 200 && is_etcds_health(&answer.body))
}

fn is_etcds_health(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|answer| answer["health"] == "true")
}

/// Why etcd is not healthy. From v3.5 on it says so in its answer, and an alarm comes before everything else (etcd
/// `server/etcdserver/api/etcdhttp`). Every member tells an alarm, whichever raised it, until it is disarmed. Under NOSPACE etcd
/// refuses whatever puts a key or makes a lease, under CORRUPT every request (`server/etcdserver/apply`).
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

/// 200 with the expected body. Another answer comes from another program, so nothing is known.
async fn healthy(
    context: &ProbeContext,
    url: &str,
    expected: fn(&[u8]) -> bool,
    failure: fn(&HttpAnswer) -> ProbeOutcome,
) -> ProbeOutcome {
    match get(&context.http, url, None).await {
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
