//! The rack that runs on this machine already.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use windrow_rack::RackView;

use crate::report::server::shared::SharedToken;

/// It is on this machine, and answers at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest answer.
const LARGEST: usize = 64 << 20;

/// What the rack that listens there knows; `None` where none does.
pub(super) async fn running(listen: SocketAddr, token: Option<&Path>) -> Option<RackView> {
    // An unspecified address is served on loopback as well.
    let mut address = listen;
    if address.ip().is_unspecified() {
        address.set_ip(match address.is_ipv4() {
            true => std::net::Ipv4Addr::LOCALHOST.into(),
            false => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    // The client brings TLS, whether it is used or not.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().ok()?;
    let mut request = client
        .get(format!("http://{address}/rack.json"))
        .timeout(PATIENCE);
    if let Some(token) = token {
        request = request.bearer_auth(SharedToken::new(token.to_owned()).get().ok()?);
    }
    let mut answer = request.send().await.ok()?.error_for_status().ok()?;
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.ok()? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LARGEST {
            return None;
        }
    }
    serde_json::from_slice(&bytes).ok()
}
