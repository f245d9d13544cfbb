//! HTTP for probes: clients, requests bounded in time and size, and the reasons for no answer.

use std::time::Duration;

use crate::causes;
use crate::pinned::use_ring;

/// Longer answers are refused.
const LONGEST: usize = 256 * 1024;
/// How long a health endpoint may take. Shorter than the probe's own limit, so that the answer is about the endpoint
/// and not about the probe.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

const LOOPBACK: &str = "//127.0.0.1:";

/// A client that follows no redirect, uses no proxy and accepts the node's own certificates.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    builder().tls_danger_accept_invalid_certs(true).build()
}

/// As [`client`], but it checks certificates.
pub(super) fn builder() -> reqwest::ClientBuilder {
    use_ring();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
}

pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

pub(super) enum NoAnswer {
    /// The connection was refused or broke: the server is not up.
    Down(String),
    /// It took too long.
    Late,
    /// The answer was not HTTP, or too long.
    Garbage(String),
}

impl NoAnswer {
    /// In a line; `patience` is how long we waited.
    pub(super) fn say(&self, patience: Duration) -> String {
        match self {
            NoAnswer::Down(why) | NoAnswer::Garbage(why) => why.clone(),
            NoAnswer::Late => format!("no answer within {}", seconds(patience)),
        }
    }
}

fn seconds(patience: Duration) -> String {
    format!("{} s", patience.as_secs_f32().ceil())
}

pub(super) fn not_connected(host: &str, port: u16, error: &std::io::Error) -> String {
    let server = authority(host, port);
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("{server} refuses connections"),
        _ => format!("{server} cannot be reached ({error})"),
    }
}

/// A connection that did not come about in time, in a line.
pub(super) fn no_connection_within(host: &str, port: u16, patience: Duration) -> String {
    let server = authority(host, port);
    format!("{server} gives no answer within {}", seconds(patience))
}

/// A host and a port as in a URL.
pub(super) fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Sends a request. `token` goes into the Authorization header and nowhere else.
pub(super) async fn get(
    client: &reqwest::Client,
    url: &str,
    token: Option<&str>,
) -> Result<HttpAnswer, NoAnswer> {
    let mut request = client.get(url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    send(request, PATIENCE).await
}

/// As [`get`], for a health endpoint on this node. On a node whose first address is IPv6, RKE2's components listen only
/// on `[::1]` (k3s `Loopback`).
pub(super) async fn get_on_loopback(
    client: &reqwest::Client,
    url: &str,
) -> Result<HttpAnswer, NoAnswer> {
    let answer = get(client, url, None).await;
    match answer {
        Err(NoAnswer::Down(why)) if url.contains(LOOPBACK) => {
            let url = url.replacen(LOOPBACK, "//[::1]:", 1);
            match get(client, &url, None).await {
                Err(NoAnswer::Down(_)) => Err(NoAnswer::Down(why)),
                answer => answer,
            }
        }
        answer => answer,
    }
}

pub(super) async fn send(
    request: reqwest::RequestBuilder,
    patience: Duration,
) -> Result<HttpAnswer, NoAnswer> {
    let asked = async {
        let mut response = request.send().await.map_err(|error| no_answer(&error))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| no_answer(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                return Err(NoAnswer::Garbage("the answer is too long".to_owned()));
            }
        }
        Ok(HttpAnswer { status, body })
    };
    tokio::time::timeout(patience, asked)
        .await
        .unwrap_or(Err(NoAnswer::Late))
}

fn no_answer(error: &reqwest::Error) -> NoAnswer {
    let why = causes::in_words(error);
    if error.is_connect() {
        NoAnswer::Down(no_connection(error).unwrap_or(why))
    } else if error.is_timeout() {
        NoAnswer::Down(why)
    } else {
        NoAnswer::Garbage(why)
    }
}

/// The host that cannot be reached, and why. Only host and port of the URL are shown: the rest may be secret.
fn no_connection(error: &reqwest::Error) -> Option<String> {
    let url = error.url()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let host = host.trim_matches(['[', ']']);
    let cause = causes::innermost(error);
    Some(match cause.downcast_ref::<std::io::Error>() {
        Some(cause) => causes::plain(&not_connected(host, port, cause)),
        None => format!("{}: {}", authority(host, port), causes::in_words(error)),
    })
}
