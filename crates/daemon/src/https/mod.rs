//! An HTTPS server: its owner provides a router and a certificate.
//!
//! ```text
//!   connection ──> how many, how often (limits) ──> TLS (certificate) ──> router ──> the token (token)
//! ```
//!
//! There is a bound on everything that a peer can do: how many connect and how often, how long the handshake, the
//! request's head and the whole connection take, how long it reads nothing of an answer, and how large the head is.
//! Each answer gets the headers that protect its reader (`headers`). Certificate and token are read again when their
//! files change. Until there is a certificate, a server makes its own (`self_signed`).

mod certificate;
mod headers;
mod limits;
mod self_signed;
mod slow_reader;
mod token;

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

pub use self::certificate::CertificateFiles;
pub use self::certificate::{Certificate, ServingCertificate, check_pair};
use self::headers::{Scheme, protect};
use self::limits::{Admitted, ConnectionId, ConnectionLimits};
pub use self::limits::{ConnectionBounds, Peer};
use self::slow_reader::WriteTimeout;
pub use self::token::{Token, shows_token};
use crate::backoff::Backoff;
use crate::locked::lock;

/// Largest head of a request, in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// The part of an answer that the kernel buffers when the peer does not read, in bytes; it takes twice as much memory
/// for it.
const SEND_BUFFER: usize = 64 << 10;
/// How a TLS connection begins (RFC 8446, 5.1: a handshake record). No method of HTTP does.
const TLS: u8 = 0x16;

#[derive(Debug, Clone, Copy)]
pub struct ServerBounds {
    pub connections: ConnectionBounds,
    /// For the TLS handshake, and for a request's head after it.
    pub head: Duration,
    /// Most lines of a head.
    pub headers: usize,
    /// For a peer that reads nothing while an answer is written to it.
    pub write: Duration,
    /// For writing an answer, if a connection has only one.
    pub answer: Option<Duration>,
    /// For a whole connection.
    pub longest: Duration,
    pub keep_alive: bool,
    /// Pauses while no connection can be accepted.
    pub pauses: (Duration, Duration),
}

pub enum ConnectionSecurity {
    Plain,
    /// TLS. A peer that speaks HTTP there is cut off, or gets this.
    Tls(Arc<ServingCertificate>, Option<Router>),
}

pub trait ServerOwner: Send + Sync + 'static {
    /// The transport of a new connection; `None`: it is closed.
    fn security(self: &Arc<Self>) -> impl Future<Output = Option<ConnectionSecurity>> + Send;

    /// No connection can be accepted now.
    fn accepts_none(&self, _why: &io::Error) {}
}

/// The connection on which a request came; every request has it among its extensions.
#[derive(Clone)]
pub struct PeerConnection {
    pub address: IpAddr,
    id: ConnectionId,
    limits: Arc<Mutex<ConnectionLimits>>,
}

impl PeerConnection {
    pub fn prove(&self) {
        lock(&self.limits).prove(self.id);
    }
}

/// A connection counts while this exists, no matter how it ends.
struct OpenConnection(PeerConnection);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.0.limits).leave(self.0.id);
    }
}

/// Serves until it is dropped, and its connections with it. `expected`: peers for which places are kept.
pub async fn serve(
    listener: TcpListener,
    owner: Arc<impl ServerOwner>,
    router: Router,
    bounds: ServerBounds,
    expected: HashSet<Peer>,
) {
    let limits = ConnectionLimits::new(bounds.connections, expected);
    let (limits, start) = (Arc::new(Mutex::new(limits)), Instant::now());
    let mut connections = JoinSet::new();
    let mut tasks = ConnectionTasks::default();
    let mut backoff = Backoff::new(bounds.pauses.0, bounds.pauses.1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            // Out of file descriptors, most likely: trying at once would spin.
            Err(error) => {
                owner.accepts_none(&error);
                backoff.wait().await;
                continue;
            }
        };
        backoff.reset();
        // A peer over its limit gets no answer, not even a handshake: that is the costly part.
        let admitted = lock(&limits).admit(from.ip().into(), start.elapsed());
        let Some(admitted) = admitted else { continue };
        // With the kernel's own bound it is only larger.
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER);
        let stream = WriteTimeout::new(stream, bounds.write);
        let open = OpenConnection(PeerConnection {
            address: from.ip().to_canonical(),
            id: admitted.id,
            limits: limits.clone(),
        });
        let (owner, router) = (owner.clone(), router.clone());
        let task = connections.spawn(async move {
            // A disk that does not answer keeps no place.
            let security = timeout(bounds.head, owner.security()).await;
            if let Some(security) = security.ok().flatten() {
                secure(stream, &open.0, security, router, bounds).await;
            }
        });
        tasks.replace(admitted, task);
    }
}

async fn secure(
    stream: WriteTimeout<TcpStream>,
    from: &PeerConnection,
    security: ConnectionSecurity,
    router: Router,
    bounds: ServerBounds,
) {
    let ConnectionSecurity::Tls(certificate, for_http) = security else {
        return answer(stream, from, router, Scheme::Http, bounds).await;
    };
    if let Some(for_http) = for_http {
        let mut first = [0];
        match timeout(bounds.head, stream.get_ref().peek(&mut first)).await {
            Ok(Ok(1)) if first[0] == TLS => {}
            Ok(Ok(1)) => return answer(stream, from, for_http, Scheme::Http, bounds).await,
            _ => return,
        }
    }
    let tls = TlsAcceptor::from(certificate.config.clone());
    if let Ok(Ok(stream)) = timeout(bounds.head, tls.accept(stream)).await {
        answer(stream, from, router, Scheme::Https, bounds).await;
    }
}

async fn answer<S>(
    stream: S,
    from: &PeerConnection,
    router: Router,
    scheme: Scheme,
    bounds: ServerBounds,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let from = from.clone();
    let has_answer = Arc::new(Notify::new());
    let answered = has_answer.clone();
    let router = router
        .map_request(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(from.clone());
            request
        })
        .map_response(move |mut response: Response| {
            answered.notify_one();
            protect(response.headers_mut(), scheme);
            response
        });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .keep_alive(bounds.keep_alive)
        .max_headers(bounds.headers)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let is_too_slow = async {
        match bounds.answer {
            Some(answer) => {
                has_answer.notified().await;
                sleep(answer).await;
            }
            None => pending().await,
        }
    };
    tokio::select! {
        // Its errors are the peer's: it went away, or sent something other than HTTP.
        _ = timeout(bounds.longest, connection) => {}
        () = is_too_slow => {}
    }
}

#[derive(Default)]
struct ConnectionTasks(HashMap<ConnectionId, AbortHandle>);

impl ConnectionTasks {
    /// Ended tasks are forgotten when there are 256 more than before.
    const MOST: usize = 256;

    /// Adds the task of a new connection, and closes the connection that it replaces.
    fn replace(&mut self, admitted: Admitted, task: AbortHandle) {
        let closed = admitted.instead_of.and_then(|id| self.0.remove(&id));
        if let Some(closed) = closed {
            closed.abort();
        }
        if self.0.len() % Self::MOST == Self::MOST - 1 {
            self.0.retain(|_, task| !task.is_finished());
        }
        self.0.insert(admitted.id, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_bucket::Rate;

    const FAR: Duration = Duration::from_secs(600);

    fn bounds() -> ServerBounds {
        ServerBounds {
            connections: ConnectionBounds {
                connections: 1,
                of_one: 1,
                unproved_of_one: 1,
                few: 1,
                reserved: 0,
                rate: Rate {
                    at_once: 9.0,
                    a_second: 1.0,
                },
            },
            head: FAR,
            headers: 32,
            write: FAR,
            answer: None,
            longest: FAR * 6,
            keep_alive: true,
            pauses: (FAR, FAR),
        }
    }

    /// Whether a peer that reads nothing of its long answer has lost its connection.
    async fn cuts_off_who_reads_nothing(bounds: ServerBounds) -> bool {
        let address = IpAddr::from([10, 0, 0, 1]);
        let mut limits = ConnectionLimits::new(bounds.connections, HashSet::new());
        let admitted = limits.admit(address.into(), Duration::ZERO).unwrap();
        let from = PeerConnection {
            address,
            id: admitted.id,
            limits: Arc::new(Mutex::new(limits)),
        };
        let long = axum::routing::get(async || "x".repeat(1 << 20));
        let router = Router::new().route("/", long);
        let (mut peer, server) = tokio::io::duplex(1024);
        // It asks twice at once.
        let request = b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut peer, request)
            .await
            .unwrap();
        let server = WriteTimeout::new(server, bounds.write);
        let answered = answer(server, &from, router, Scheme::Http, bounds);
        let is_over = timeout(FAR, answered).await.is_ok();
        drop(peer);
        is_over
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_its_answer_is_cut_off_before_the_connection_ends() {
        let answer = Some(Duration::from_millis(1));
        assert!(
            cuts_off_who_reads_nothing(ServerBounds {
                answer,
                keep_alive: false,
                ..bounds()
            })
            .await
        );
    }

    #[tokio::test]
    async fn a_peer_that_keeps_its_connection_and_reads_nothing_loses_it() {
        let write = Duration::from_millis(1);
        assert!(cuts_off_who_reads_nothing(ServerBounds { write, ..bounds() }).await);
    }

    #[test]
    fn after_a_panic_connections_go_on_to_count() {
        let one = bounds().connections;
        let address = IpAddr::from([10, 0, 0, 1]);
        let limits = ConnectionLimits::new(one, HashSet::new());
        let limits = Arc::new(Mutex::new(limits));
        let open = || {
            let admitted = lock(&limits).admit(address.into(), Duration::ZERO)?;
            let (id, limits) = (admitted.id, limits.clone());
            Some(OpenConnection(PeerConnection {
                address,
                id,
                limits,
            }))
        };
        let first = open().unwrap();
        let held = limits.clone();
        let panics = std::thread::spawn(move || {
            let _limits = held.lock().unwrap();
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        first.0.prove();
        assert!(open().is_none());
        drop(first);
        assert!(open().is_some());
    }
}
