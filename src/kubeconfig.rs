//! A client of kube-apiserver from a kubeconfig file, for those who ask it on their own account.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::Instant;
use tower::util::MapResponseLayer;
use x509_parser::pem::Pem;
use x509_parser::prelude::parse_x509_pem;

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
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if !path.exists() {
        return Err(told(&"it is not there yet"));
    }
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| told(&error))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    let mut config = config.await.map_err(|error| told(&error))?;
    config.default_retry = false;
    config.connect_timeout = Some(connect);
    let builder = ClientBuilder::try_from(config).map_err(|error| told(&error))?;
    let courtesy = Courtesy::default();
    let listening = courtesy.clone();
    let layer = MapResponseLayer::new(move |response: Response<_>| {
        listening.heard(response.status(), response.headers());
        response
    });
    Ok((builder.with_layer(&layer).build(), courtesy))
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
    let kubeconfig = Kubeconfig::read_from(path).ok()?;
    kubeconfig.auth_infos.iter().find_map(|named| {
        let user = named.auth_info.as_ref()?;
        let pem = match (&user.client_certificate_data, &user.client_certificate) {
            (Some(data), _) => crate::manifest::base64(data.as_bytes()).ok()?,
            (None, Some(file)) => std::fs::read(file).ok()?,
            (None, None) => return None,
        };
        let (_, pem): (_, Pem) = parse_x509_pem(&pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let name = certificate.subject().iter_common_name().next()?;
        let name = name.as_str().ok()?.strip_prefix("system:node:")?;
        Some(name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_after(status: u16, said: &str) -> u64 {
        let courtesy = Courtesy::default();
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, said.parse().unwrap());
        courtesy.heard(StatusCode::from_u16(status).unwrap(), &headers);
        // Of a second that has begun the whole counts.
        let left = courtesy.left();
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    }

    #[test]
    fn retry_after_is_honoured_and_bounded() {
        assert_eq!(Courtesy::default().left(), Duration::ZERO);
        assert!((30..=50).contains(&left_after(429, "50")));
        assert!((30..=60).contains(&left_after(503, "86400")));
        for (status, said) in [
            (500, "50"),
            (200, "50"),
            (429, "Wed, 21 Oct 2026 07:28:00 GMT"),
            (429, "-1"),
        ] {
            assert_eq!(left_after(status, said), 0, "{status} {said}");
        }
    }
}
