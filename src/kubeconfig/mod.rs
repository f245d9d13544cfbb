//! A client of kube-apiserver from a kubeconfig file, for those who ask it on their own account.
//!
//! File and connection are ours: the readers that `kube` has run whatever program a kubeconfig names, and
//! bring a second reader of YAML for it.

mod authorization;
mod connection;
mod file;
#[cfg(test)]
mod file_tests;
mod reader;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode, Uri};
use kube::Client;
use rustls::crypto::{CryptoProvider, ring};
use tokio::time::Instant;
use x509_parser::pem::Pem;
use x509_parser::prelude::parse_x509_pem;

use self::authorization::Authorization;
use self::file::{Kubeconfig, Trust};

/// A client of what the file's current context names. Nothing is tried twice by itself: when to try
/// again is the caller's to choose.
///
/// # Errors
///
/// What is wrong with the file, with its name, in a line.
pub async fn client(path: &Path, connect: Duration) -> Result<Client, String> {
    courteous(path, connect).await.map(|(client, _)| client)
}

/// The same, and what kube-apiserver asks of those who ask it again and again.
///
/// # Errors
///
/// As for [`client`].
pub async fn courteous(path: &Path, connect: Duration) -> Result<(Client, Courtesy), String> {
    // A client has a task of its own, on the runtime that runs this: hence the `async`.
    connected(path, connect, |_| {})
}

/// A client of another component, on a port of this machine, with the client certificate of a kubeconfig.
/// These components' certificates name the node and come from elsewhere than kube-apiserver's, so they are
/// not verified. A client certificate gives nothing away to whoever listens there; a token would, and is
/// not sent.
///
/// # Errors
///
/// As for [`client`].
pub async fn on_loopback(path: &Path, port: u16, connect: Duration) -> Result<Client, String> {
    let uri: Uri = format!("https://127.0.0.1:{port}")
        .parse()
        .map_err(|error| format!("port {port}: {error}"))?;
    let connected = connected(path, connect, |kubeconfig| {
        kubeconfig.server = uri;
        kubeconfig.server_name = None;
        kubeconfig.trust = Trust::Anything;
        kubeconfig.authorization = Authorization::None;
    });
    connected.map(|(client, _)| client)
}

fn connected(
    path: &Path,
    connect: Duration,
    change: impl FnOnce(&mut Kubeconfig),
) -> Result<(Client, Courtesy), String> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let mut kubeconfig = Kubeconfig::read(path, &provider)?;
    change(&mut kubeconfig);
    let courtesy = Courtesy::default();
    let client = connection::client(kubeconfig, provider, connect, courtesy.clone());
    let client = client.map_err(|why| format!("{}: {why}", path.display()))?;
    Ok((client, courtesy))
}

/// Until when kube-apiserver asks to be left alone: the `Retry-After` of its answers 429 and 503, in
/// seconds. Whoever asks with this client waits so long, a minute at most: what is wrong with one answer
/// must not blind the node.
#[derive(Debug, Clone, Default)]
pub struct Courtesy(Arc<Mutex<Option<Instant>>>);

impl Courtesy {
    const LONGEST: Duration = Duration::from_secs(60);

    fn heard(&self, status: StatusCode, headers: &HeaderMap) {
        if !matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            return;
        }
        let seconds = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.trim().parse().ok());
        if let Some(seconds) = seconds {
            let pause = Duration::from_secs(seconds).min(Self::LONGEST);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + pause);
        }
    }

    /// So long is still to wait; zero where nothing is asked.
    pub fn left(&self) -> Duration {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    /// Waits so long.
    pub async fn wait(&self) {
        tokio::time::sleep(self.left()).await;
    }
}

/// The name of the node whose identity the file is (`system:node:NAME`), by its client certificate.
pub fn node_name(path: &Path) -> Option<String> {
    file::certificates(path).into_iter().find_map(|pem| {
        let (_, pem): (_, Pem) = parse_x509_pem(&pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let name = certificate.subject().iter_common_name().next()?;
        let name = name.as_str().ok()?.strip_prefix("system:node:")?;
        Some(name.to_owned())
    })
}
