//! The rack's server over HTTP and HTTPS: takes events, serves the pages and the JSON.
//!
//! ```text
//!   connection ──> bounds (connections, how often) ──> with a certificate: TLS ──> who may (access) ──> path (routes)
//!                                                       └── plain HTTP there: "speak HTTPS", nothing else
//! ```
//!
//! Everything that a peer can do is bounded: connections, how often it connects, handshakes, heads, bodies, times.

mod access;
mod routes;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use windrow_rack::ExpectedNode;

pub(crate) use self::access::Access;
use self::routes::{PeerAddress, routes, speak_https};
use super::Hub;
use super::announced::Announced;
use crate::backoff::Backoff;
use crate::locked::lock;
use crate::report::server::shared::{
    Certificate, ConnectionBounds, ConnectionId, ConnectionLimits, ConnectionTasks, Peer,
    ServingCertificate,
};

/// For a TLS handshake, for a request's head after it, and for its body.
const HEAD: Duration = Duration::from_secs(10);
/// Longest connection: browsers begin a new one by themselves.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Largest head, in bytes and in lines.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 48;
/// Pauses where no connection can be accepted.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// A thousand nodes behind one router are one peer.
const BOUNDS: ConnectionBounds = ConnectionBounds {
    connections: 1024,
    of_one: 512,
    unproved_of_one: 32,
    reserved: 256,
    at_once: 2000.0,
    a_second: 1000.0,
};
/// Live events come no closer than this, and a view is drawn again after that long: ages go on.
const BETWEEN: Duration = Duration::from_secs(1);
const AGES: Duration = Duration::from_secs(20);
/// How a TLS connection begins (RFC 8446, 5.1: a handshake record). No method of HTTP does.
const TLS: u8 = 0x16;

pub(crate) struct RackServer {
    hub: Arc<Hub>,
    access: Access,
    /// It speaks HTTPS with this one; without one, HTTP.
    certificate: Option<Certificate>,
    /// Status servers that nodes announce, where they are to be asked.
    announced: Option<Announced>,
    /// The fingerprint that was said at the start.
    told: Mutex<Option<String>>,
    limits: Mutex<ConnectionLimits>,
    start: Instant,
}

impl RackServer {
    pub(crate) fn new(
        hub: Arc<Hub>,
        access: Access,
        certificate: Option<Certificate>,
        announced: Option<Announced>,
    ) -> Arc<Self> {
        let expected = hub.with_inventory(|list| {
            let nodes = list.nodes().iter();
            nodes.filter_map(expected_peer).collect()
        });
        Arc::new(Self {
            hub,
            access,
            certificate,
            announced,
            told: Mutex::default(),
            limits: Mutex::new(ConnectionLimits::new(BOUNDS, expected)),
            start: Instant::now(),
        })
    }

    /// The certificate that it serves with now. A person hears of one that has come in the place of another.
    ///
    /// # Errors
    ///
    /// Why there is none, in a line.
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

    /// Serves until it is dropped.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let routes = routes(&self);
        let mut connections = JoinSet::new();
        let mut tasks = ConnectionTasks::default();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let Ok((stream, address)) = accepted else {
                // Out of file descriptors, most likely: trying at once would spin.
                backoff.wait().await;
                continue;
            };
            backoff.reset();
            let peer = Peer::from(address.ip());
            // A peer over its limit gets no answer, not even a handshake: that is the costly part.
            let admitted = lock(&self.limits).admit(peer, self.start.elapsed());
            if let Some(admitted) = admitted {
                let (server, routes) = (self.clone(), routes.clone());
                let task = connections.spawn(async move {
                    let open = Open(server, admitted.id);
                    let from = (PeerAddress(address.ip().to_canonical()), admitted.id);
                    open.0.connection(stream, from, routes).await;
                });
                tasks.replace(admitted, task);
            }
        }
    }

    async fn connection(&self, stream: TcpStream, from: From, routes: Router) {
        let certificate = match self.certificate() {
            Ok(None) => return serve(stream, from, routes).await,
            Ok(Some(certificate)) => certificate,
            Err(why) => return self.hub.note("certificate", Some(why)),
        };
        let mut first = [0];
        match timeout(HEAD, stream.peek(&mut first)).await {
            Ok(Ok(1)) if first[0] == TLS => {}
            Ok(Ok(1)) => {
                let routes = Router::new().fallback(speak_https);
                return serve(stream, from, routes).await;
            }
            _ => return,
        }
        let tls = TlsAcceptor::from(certificate.config.clone());
        if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(stream)).await {
            serve(stream, from, routes).await;
        }
    }
}

/// A connection counts while this exists.
struct Open(Arc<RackServer>, ConnectionId);

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.0.limits).leave(self.1);
    }
}

/// The peer of a listed node's own server, where the list has its address.
fn expected_peer(node: &ExpectedNode) -> Option<Peer> {
    let url: reqwest::Url = node.url.parse().ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    host.parse().ok().map(|ip: IpAddr| ip.into())
}

/// Whose connection it is, and which.
type From = (PeerAddress, ConnectionId);

async fn serve<S>(stream: S, (peer, id): From, routes: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let routes = routes.map_request(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(id);
        request
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    // These errors are the peer's.
    let _ = timeout(LONGEST, connection).await;
}
