//! The status over HTTPS, for operators without a login: off by default, read-only, behind a token.
//!
//! One request for each connection, and a bound on everything that a peer can do: how many connect and how often
//! (`limits`), how long the handshake, the request's head and the answer take, and how large the head is. `routes` has
//! the paths, who may ask for them and what is answered; certificate and token are read again when their files change
//! (`secrets`). It serves from its first second on: until RKE2 has made the node's certificate, with one of its own
//! (`self_signed`).

mod limits;
pub(crate) mod request;
mod routes;
mod secrets;
mod self_signed;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use windrow_decide::{Event, ServerStatus};
use windrow_model::reasons::Code;

use self::limits::{Admitted, ConnectionId, ConnectionLimits, Peer};
use self::request::LONGEST_WAIT;
pub use self::secrets::CertificateFiles;
use self::secrets::{Certificate, ServingCertificate, Token};
use super::journal;
use super::metrics::MetricsSource;
use super::publish::StatusWatch;
use crate::backoff::Backoff;
use crate::locked::lock;

/// For the TLS handshake, and for the request's head after it.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// For writing the answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Largest head of a request, in bytes and in lines.
const HEAD: usize = 16 << 10;
const HEADERS: usize = 32;
/// Pauses between two tries to listen.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The address, certificate and token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Address and port.
    pub listen: SocketAddr,
    /// Files with the token; the first that is there counts.
    pub tokens: Vec<PathBuf>,
    /// Files with the certificate.
    pub certificates: CertificateFiles,
    /// `/metrics`; `None`: there is none.
    pub metrics: Option<ServedMetrics>,
}

/// Who may read `/metrics`, beside whoever may read the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedMetrics {
    /// File with a token for it and nothing else.
    pub token: Option<PathBuf>,
}

/// What is known of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerState {
    /// Nothing yet.
    #[default]
    Starting,
    /// It is off, or down.
    NotServed,
    /// It serves.
    Served(ServerStatus),
}

impl ServerState {
    /// For the status document.
    pub fn status(&self) -> Option<&ServerStatus> {
        match self {
            Self::Served(status) => Some(status),
            Self::Starting | Self::NotServed => None,
        }
    }
}

/// What the server gets from the node.
#[derive(Clone)]
pub struct ServerContext {
    /// The published status.
    pub status: StatusWatch,
    /// What `/metrics` has.
    pub metrics: MetricsSource,
    /// Names and addresses of the node, for the server's own certificate.
    pub names: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Where the server says how it stands.
    pub state: watch::Sender<ServerState>,
}

/// One server.
struct StatusService {
    settings: ServerSettings,
    certificate: Certificate,
    token: Token,
    /// For `/metrics` and nothing else.
    scrape_token: Option<Token>,
    metrics: MetricsSource,
    status: StatusWatch,
    limits: Mutex<ConnectionLimits>,
    /// Held while the files are read.
    checking: tokio::sync::Mutex<()>,
    /// How it stood at the last report: served how, or why not.
    reported: Mutex<Option<Result<String, String>>>,
    /// The same of `/metrics`.
    metrics_reported: Mutex<Option<Result<String, String>>>,
    state: watch::Sender<ServerState>,
    start: Instant,
}

/// Serves until the publisher of the status is gone. To be dropped when the configuration changes.
pub async fn serve(settings: ServerSettings, context: ServerContext) {
    let server = StatusService::new(settings, context);
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let listener = loop {
        match TcpListener::bind(server.settings.listen).await {
            Ok(listener) => break listener,
            Err(error) => {
                server.report(&Err(format!("{}: {error}", server.settings.listen)));
                backoff.wait().await;
            }
        }
    };
    server.run(listener).await;
}

impl StatusService {
    fn new(settings: ServerSettings, context: ServerContext) -> Arc<Self> {
        let scrape_token = settings.metrics.as_ref();
        let scrape_token = scrape_token.and_then(|metrics| metrics.token.clone());
        Arc::new(Self {
            certificate: Certificate::new(settings.certificates.clone(), context.names),
            token: Token::new(settings.tokens.clone()),
            scrape_token: scrape_token.map(|file| Token::new(vec![file])),
            metrics: context.metrics,
            settings,
            status: context.status,
            state: context.state,
            limits: Mutex::new(ConnectionLimits::default()),
            checking: tokio::sync::Mutex::default(),
            reported: Mutex::new(None),
            metrics_reported: Mutex::new(None),
            start: Instant::now(),
        })
    }

    async fn run(self: &Arc<Self>, listener: TcpListener) {
        let mut status = self.status.clone();
        let routes = routes::routes(self);
        // The connections end with this set.
        let mut connections = JoinSet::new();
        let mut tasks = ConnectionTasks::default();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        self.check_files().await;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                changed = status.changed() => match changed {
                    // RKE2 may have made its certificate: those who know the old one are told.
                    Ok(()) => {
                        self.check_files().await;
                        continue;
                    }
                    Err(_) => return,
                },
            };
            match accepted {
                Ok((stream, peer)) => {
                    backoff.reset();
                    let peer = Peer::from(peer.ip());
                    let now = self.start.elapsed();
                    let admitted = lock(&self.limits).admit(peer, now);
                    // A peer over its limit gets no answer, not even a handshake: that is the costly part.
                    if let Some(admitted) = admitted {
                        let (server, routes) = (self.clone(), routes.clone());
                        let task = connections.spawn(async move {
                            let _here = OpenConnection(server.clone(), admitted.id);
                            server.connection(stream, admitted.id, routes).await;
                        });
                        tasks.replace(admitted, task);
                    }
                }
                // Out of file descriptors, most likely: trying at once would spin.
                Err(error) => {
                    self.report(&Err(error.to_string()));
                    backoff.wait().await;
                }
            }
        }
    }

    /// Reads the certificate and the tokens, and reports how they stand. Returns the certificate, if there is one. They
    /// are read on another thread: a certificate may have to be made, and the disk may be slow, but the daemon's loop
    /// must not wait.
    async fn check_files(self: &Arc<Self>) -> Option<Arc<ServingCertificate>> {
        // One after the other: what was read last is reported last.
        let _turn = self.checking.lock().await;
        let server = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let scrape_token = server.scrape_token.as_ref().map(Token::get);
            let certificate = server.certificate.current();
            (server.token.get(), scrape_token, certificate)
        });
        let (token, scrape_token, certificate) = read.await.ok()?;
        self.report(&certificate.clone().and_then(|with| token.map(|_| with)));
        if let Some(token) = scrape_token {
            self.report_metrics(token);
        }
        certificate.ok()
    }

    async fn connection(self: &Arc<Self>, stream: TcpStream, id: ConnectionId, routes: Router) {
        // Without a token every request is refused, with the reason.
        let Some(certificate) = self.check_files().await else {
            return;
        };
        let tls = TlsAcceptor::from(certificate.config.clone());
        let accepted = timeout(HANDSHAKE, tls.accept(stream)).await;
        let Ok(Ok(stream)) = accepted else { return };
        let routes = routes.map_request(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(id);
            request
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE)
            .keep_alive(false)
            .max_headers(HEADERS)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        // These errors are the peer's: it went away, or sent something other than HTTP.
        let _ = timeout(HANDSHAKE + LONGEST_WAIT + ANSWER, connection).await;
    }

    /// Reports once that it serves, with which certificate, or why it does not.
    fn report(&self, now: &Result<Arc<ServingCertificate>, String>) {
        let listen = self.settings.listen;
        let served = |with: &Arc<ServingCertificate>| {
            format!(
                "https://{listen}/status with {}, SHA-256 {}{}",
                with.source.in_words(),
                with.fingerprint,
                with.note
            )
        };
        let told = now.as_ref().map(served).map_err(Clone::clone);
        let mut reported = lock(&self.reported);
        if reported.as_ref() == Some(&told) {
            return;
        }
        let state = match now {
            Ok(with) => ServerState::Served(ServerStatus {
                listen: listen.to_string(),
                certificate: with.source,
                fingerprint: with.fingerprint.clone(),
            }),
            Err(_) => ServerState::NotServed,
        };
        self.state.send_replace(state);
        tell("HTTPS status", &told);
        *reported = Some(told);
    }

    /// Reports once that its own token opens `/metrics`, or why it does not.
    fn report_metrics(&self, token: Result<Arc<String>, String>) {
        let listen = self.settings.listen;
        let told = token.map(|_| format!("https://{listen}/metrics"));
        let mut reported = lock(&self.metrics_reported);
        if reported.as_ref() != Some(&told) {
            tell("metrics", &told);
            *reported = Some(told);
        }
    }
}

/// Writes to the journal that an outlet is served, or why it is not.
fn tell(outlet: &str, told: &Result<String, String>) {
    let (code, what, why) = match told {
        Ok(what) => (Code::OutletServed, what.as_str(), ""),
        Err(why) => (Code::OutletDown, "", why.as_str()),
    };
    journal::write_event(&Event {
        code,
        file: None,
        message: code.say(&[("outlet", outlet), ("what", what), ("why", why)]),
    });
}

/// A connection counts while this exists, however it ends.
struct OpenConnection(Arc<StatusService>, ConnectionId);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.0.limits).leave(self.1);
    }
}

/// The tasks of connections, to close one for another.
#[derive(Default)]
pub(crate) struct ConnectionTasks(HashMap<ConnectionId, AbortHandle>);

impl ConnectionTasks {
    /// Those that are over are forgotten when there are 256 more than before.
    const MOST: usize = 256;

    /// The task of a new connection; the one that it has to take the place of is closed.
    pub(crate) fn replace(&mut self, admitted: Admitted, task: AbortHandle) {
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

/// What the server of `windrow rack` has of this one.
pub(crate) mod shared {
    use std::path::PathBuf;
    use std::sync::Arc;

    pub(crate) use super::ConnectionTasks;
    pub(crate) use super::limits::{ConnectionBounds, ConnectionId, ConnectionLimits, Peer};
    pub(crate) use super::secrets::{Certificate, ServingCertificate, check_pair};

    /// A token in a file, read again when that changes.
    pub(crate) struct SharedToken(super::secrets::Token);

    impl SharedToken {
        pub(crate) fn new(path: PathBuf) -> Self {
            Self(super::secrets::Token::new(vec![path]))
        }

        /// The token; or why there is none, in a line.
        pub(crate) fn get(&self) -> Result<Arc<String>, String> {
            self.0.get()
        }
    }

    /// Is the token shown?
    pub(crate) fn shows_token(headers: &http::HeaderMap, token: &str) -> bool {
        super::request::shows_token(headers, token)
    }
}
