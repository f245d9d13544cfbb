//! Health over HTTP: the kubelet, etcd, the supervisor.
//!
//! These are asked on the loopback interface, where RKE2's certificates name the node and not
//! 127.0.0.1's trust: the certificate is not checked, and nothing secret is sent.

use std::error::Error;
use std::time::Duration;

use windrow_plan::readiness::node::ProbeOutcome;

use super::world::World;

/// No answer that is looked at is longer.
const LONGEST: usize = 256 * 1024;
/// A health endpoint that takes longer is not healthy. Shorter than the probe's own limit, so that
/// the answer is about the endpoint and not about the probe.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// A client that follows no redirect, uses no proxy and accepts the node's own certificates.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    builder().tls_danger_accept_invalid_certs(true).build()
}

/// The same, but for certificates: they are checked.
pub(super) fn builder() -> reqwest::ClientBuilder {
    // Ours may be the first use of TLS in the process; a provider that is set already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    /// Nobody listens there, or the connection broke: the other side is not up.
    Down(String),
    /// It took too long.
    Late,
    /// What came was no HTTP, or too much of it.
    Garbage(String),
}

impl NoAnswer {
    /// In a line; `patience` is how long it was waited for.
    pub(super) fn say(&self, patience: Duration) -> String {
        match self {
            NoAnswer::Down(why) | NoAnswer::Garbage(why) => why.clone(),
            NoAnswer::Late => format!("no answer within {} s", patience.as_secs_f32().ceil()),
        }
    }
}

/// Asks. `token` goes into the Authorization header and nowhere else.
pub(super) async fn get(
    client: &reqwest::Client,
    url: &str,
    token: Option<&str>,
) -> Result<Answer, NoAnswer> {
    let mut request = client.get(url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    send(request, PATIENCE).await
}

/// Sends a request and reads the answer, as far as it is of a sane size.
pub(super) async fn send(
    request: reqwest::RequestBuilder,
    patience: Duration,
) -> Result<Answer, NoAnswer> {
    let asked = async {
        let mut response = request.send().await.map_err(|error| of(&error))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| of(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                return Err(NoAnswer::Garbage("the answer is too long".to_owned()));
            }
        }
        Ok(Answer { status, body })
    };
    tokio::time::timeout(patience, asked)
        .await
        .unwrap_or(Err(NoAnswer::Late))
}

fn of(error: &reqwest::Error) -> NoAnswer {
    // The innermost cause says it best; the outer ones repeat the URL.
    let mut inner: &dyn Error = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    let why = inner.to_string();
    if error.is_connect() || error.is_timeout() {
        NoAnswer::Down(why)
    } else {
        NoAnswer::Garbage(why)
    }
}

/// The kubelet's own health.
pub(super) async fn kubelet(world: &World) -> ProbeOutcome {
    let url = format!("{}/healthz", world.endpoints.kubelet);
    healthy(world, &url, |body| body.starts_with(b"ok")).await
}

/// RKE2's supervisor. It listens before etcd and kube-apiserver are up: a first sign of life.
pub(super) async fn supervisor(world: &World) -> ProbeOutcome {
    let url = format!("{}/ping", world.endpoints.supervisor);
    healthy(world, &url, |body| body.starts_with(b"pong")).await
}

/// etcd, where this node has it.
pub(super) async fn etcd(world: &World) -> ProbeOutcome {
    let pod = world
        .layout()
        .data_dir()
        .join("agent/pod-manifests/etcd.yaml");
    if !pod.exists() {
        return ProbeOutcome::unknown("etcd", "this node has no static pod of it");
    }
    let url = format!("{}/health?serializable=true", world.endpoints.etcd);
    healthy(world, &url, |body| {
        serde_json::from_slice::<serde_json::Value>(body)
            .is_ok_and(|answer| answer["health"] == "true")
    })
    .await
}

/// 200 with the body that is expected. What answers something else altogether is not what was asked
/// for, and nothing is known.
async fn healthy(world: &World, url: &str, expected: fn(&[u8]) -> bool) -> ProbeOutcome {
    match get(&world.http, url, None).await {
        Ok(answer) if answer.status == 200 && expected(&answer.body) => ProbeOutcome::Passed,
        Ok(answer) if answer.status == 200 => {
            ProbeOutcome::unknown(format!("GET {url}"), "the answer is not the one expected")
        }
        Ok(answer) if matches!(answer.status, 401 | 403) => {
            ProbeOutcome::unknown(format!("GET {url}"), format!("HTTP {}", answer.status))
        }
        Ok(answer) => ProbeOutcome::failed(format!("HTTP {}", answer.status)),
        Err(NoAnswer::Garbage(why)) => ProbeOutcome::unknown(format!("GET {url}"), why),
        Err(none) => ProbeOutcome::failed(none.say(PATIENCE)),
    }
}
