//! The rack that already runs, most likely on this machine.

mod listener;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use windrow_rack::RackView;

use crate::addresses::own_addresses;
use crate::causes;
use crate::https::Token;
use crate::pinned::{pinned, use_ring};

/// It is on this machine, and answers at once.
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST: usize = 64 << 20;

#[derive(Debug, Clone)]
pub(super) struct RunningRack {
    pub(super) listen: SocketAddr,
    /// Over HTTP, not HTTPS.
    pub(super) plain: bool,
    /// SHA-256 of its certificate, if known.
    pub(super) fingerprint: Option<String>,
}

impl RunningRack {
    /// The address of the requests: an unspecified address is also served on loopback.
    fn address(&self) -> SocketAddr {
        let mut address = self.listen;
        if address.ip().is_unspecified() {
            address.set_ip(match address.is_ipv4() {
                true => Ipv4Addr::LOCALHOST.into(),
                false => Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }

    fn client(&self) -> Result<Client, String> {
        use_ring();
        let builder = Client::builder().no_proxy().redirect(Policy::none());
        let builder = match &self.fingerprint {
            Some(fingerprint) => builder.tls_backend_preconfigured(pinned(fingerprint)?),
            // A request to an address of this machine never leaves it, and its listener was checked.
            None => builder.tls_danger_accept_invalid_certs(has_address(self.address().ip())),
        };
        builder.build().map_err(|error| causes::in_words(&error))
    }
}

/// Whether an interface of this host has the address. Only then does the traffic stay on this host.
fn has_address(ip: IpAddr) -> bool {
    ip.is_loopback() || own_addresses().contains(&ip)
}

/// The view of the rack that listens at this address; `None` if there is no listener.
///
/// # Errors
///
/// Why the listener does not answer, and the fix.
pub(super) async fn running(
    rack: &RunningRack,
    token: Option<&Path>,
) -> Result<Option<RackView>, String> {
    if rack.fingerprint.is_none() && has_address(rack.address().ip()) {
        let own = rustix::process::geteuid().as_raw();
        listener::check(rack.address(), own)?;
    }
    let mut answer = asked(rack, rack.plain, token).await?;
    if rack.plain && matches!(answer, Answer::SpeaksHttps) {
        // It has a certificate.
        answer = asked(rack, false, token).await?;
    }
    Ok(match answer {
        Answer::View(view) => Some(*view),
        Answer::Nobody | Answer::SpeaksHttps => None,
    })
}

enum Answer {
    Nobody,
    SpeaksHttps,
    View(Box<RackView>),
}

async fn asked(rack: &RunningRack, plain: bool, token: Option<&Path>) -> Result<Answer, String> {
    let scheme = if plain { "http" } else { "https" };
    let at = format!("{scheme}://{}", rack.address());
    let failed = |error: reqwest::Error| format!("{at}: {}", causes::in_words(&error));
    let mut request = rack
        .client()?
        .get(format!("{at}/rack.json"))
        .timeout(PATIENCE);
    if let Some(token) = token {
        request = request.bearer_auth(Token::new(vec![token.to_owned()]).get()?);
    }
    let mut answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) if error.is_connect() && causes::is_refused(&error) => {
            return Ok(Answer::Nobody);
        }
        Err(error) => return Err(failed(error)),
    };
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => {
            return Err(format!("{at} requires its token: --token-file FILE"));
        }
        StatusCode::PERMANENT_REDIRECT => return Ok(Answer::SpeaksHttps),
        status => return Err(format!("{at} answers HTTP {}", status.as_u16())),
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LARGEST {
            return Err(format!("{at} answers with more than 64 MiB"));
        }
    }
    let view = serde_json::from_slice(&bytes);
    view.map(|view| Answer::View(Box::new(view)))
        .map_err(|_| format!("{at} is not a rack of this version"))
}
