//! The rack's server over HTTP and HTTPS: takes events, serves the pages and the JSON. `https` has the connections and
//! their bounds, `access` decides which clients may ask, `routes` has the answers, `pages` the shared pages, `live` the
//! subscribers to changes. A client that speaks HTTP to an HTTPS port only gets a pointer to HTTPS.

mod access;
mod live;
mod pages;
mod routes;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use windrow_rack::ExpectedNode;

pub(crate) use self::access::Access;
use self::live::LiveStreams;
use self::pages::{MOST_BYTES, Pages};
use self::routes::{routes, speak_https};
use super::Hub;
use super::announced::Announced;
use crate::https::{
    self, Certificate, ConnectionBounds, ConnectionSecurity, Peer, ServerBounds, ServerOwner,
    ServingCertificate,
};
use crate::locked::lock;
use crate::token_bucket::Rate;

/// For a TLS handshake, for a request's head after it, and for its body.
const HEAD: Duration = Duration::from_secs(10);
pub(super) const BOUNDS: ServerBounds = ServerBounds {
    // A thousand nodes behind one router are one peer.
    connections: ConnectionBounds {
        connections: 1024,
        of_one: 512,
        unproved_of_one: 32,
        few: 4,
        reserved: 256,
        rate: Rate {
            at_once: 2000.0,
            a_second: 1000.0,
        },
    },
    head: HEAD,
    headers: 48,
    write: Duration::from_secs(30),
    answer: None,
    // Browsers reconnect automatically.
    longest: Duration::from_secs(60 * 60),
    keep_alive: true,
    pauses: (Duration::from_millis(100), Duration::from_secs(10)),
};

pub(crate) struct RackServer {
    hub: Arc<Hub>,
    access: Access,
    certificate: Option<Certificate>,
    announced: Option<Announced>,
    pages: Pages,
    live: Arc<LiveStreams>,
    told: Mutex<Option<String>>,
}

impl RackServer {
    pub(crate) fn new(
        hub: Arc<Hub>,
        access: Access,
        certificate: Option<Certificate>,
        announced: Option<Announced>,
    ) -> Arc<Self> {
        Arc::new(Self {
            hub,
            access,
            certificate,
            announced,
            pages: Pages::new(MOST_BYTES),
            live: Arc::default(),
            told: Mutex::default(),
        })
    }

    /// The certificate in use. The operator gets a notice when it was replaced.
    ///
    /// # Errors
    ///
    /// Why the certificate cannot be used, in a line.
    pub(crate) fn certificate(&self) -> Result<Option<Arc<ServingCertificate>>, String> {
        let Some(certificate) = &self.certificate else {
            return Ok(None);
        };
        let now = certificate.current()?;
        let mut told = lock(&self.told);
        let told = told.get_or_insert_with(|| now.fingerprint.clone());
        if *told != now.fingerprint {
            told.clone_from(&now.fingerprint);
            let text = format!(
                "the rack's certificate has changed: nodes that know it by its fingerprint need {told}"
            );
            self.hub.note("certificate", Some(text));
        }
        Ok(Some(now))
    }

    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        self.run_within(listener, BOUNDS).await;
    }

    /// As [`Self::run`], within these bounds.
    pub(super) async fn run_within(self: Arc<Self>, listener: TcpListener, bounds: ServerBounds) {
        let expected = self.hub.with_inventory(|list| {
            let nodes = list.nodes().iter();
            nodes.filter_map(expected_peer).collect()
        });
        https::serve(listener, self.clone(), routes(&self), bounds, expected).await;
    }
}

impl ServerOwner for RackServer {
    async fn security(self: &Arc<Self>) -> Option<ConnectionSecurity> {
        match self.certificate() {
            Ok(None) => Some(ConnectionSecurity::Plain),
            Ok(Some(certificate)) => {
                let for_http = Router::new().fallback(speak_https);
                Some(ConnectionSecurity::Tls(certificate, Some(for_http)))
            }
            Err(why) => {
                self.hub.note("certificate", Some(why));
                None
            }
        }
    }
}

/// The peer of a listed node's own server, if the list has its address.
fn expected_peer(node: &ExpectedNode) -> Option<Peer> {
    let url: reqwest::Url = node.url.parse().ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    host.parse().ok().map(|ip: IpAddr| ip.into())
}
