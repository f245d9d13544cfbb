//! The status over HTTPS, for operators without a login: off by default, read-only, behind a token.
//!
//! One request for each connection, and a bound on everything that a peer can do: how many connect and how often
//! (`limits`), how long the handshake, the request's head and the answer take, and how large the head is. `routes` has
//! the paths, who may ask for them and what is answered; certificate and token are read again when their files change
//! (`secrets`).

mod limits;
mod request;
mod routes;
mod secrets;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use windrow_decide::{Event, Status};
use windrow_model::reasons::Code;

use self::limits::{ConnectionLimits, Peer};
use self::request::LONGEST_WAIT;
use self::secrets::{Certificate, Token};
use super::journal;
use crate::backoff::Backoff;
use crate::printable::json;

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
    /// File with the token.
    pub token: PathBuf,
    /// Pairs of certificate and key files; the first that is there counts.
    pub certificates: Vec<(PathBuf, PathBuf)>,
}

/// The document in the form that is sent, while it is the newest.
type StatusBytes = Option<(Arc<Status>, Bytes)>;

/// One server.
struct StatusService {
    settings: ServerSettings,
    certificate: Certificate,
    token: Token,
    status: watch::Receiver<Option<Arc<Status>>>,
    written: Mutex<StatusBytes>,
    limits: Mutex<ConnectionLimits>,
    reported: Mutex<Option<Result<(), String>>>,
    start: Instant,
}

/// Serves until the publisher of the status is gone. To be dropped when the configuration changes.
pub async fn serve(settings: ServerSettings, status: watch::Receiver<Option<Arc<Status>>>) {
    let server = StatusService::new(settings, status);
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let listener = loop {
        match TcpListener::bind(server.settings.listen).await {
            Ok(listener) => break listener,
            Err(error) => {
                server.report(Err(format!("{}: {error}", server.settings.listen)));
                backoff.wait().await;
            }
        }
    };
    server.run(listener).await;
}

impl StatusService {
    fn new(settings: ServerSettings, status: watch::Receiver<Option<Arc<Status>>>) -> Arc<Self> {
        Arc::new(Self {
            certificate: Certificate::new(settings.certificates.clone()),
            token: Token::new(settings.token.clone()),
            settings,
            status,
            written: Mutex::new(None),
            limits: Mutex::new(ConnectionLimits::default()),
            reported: Mutex::new(None),
            start: Instant::now(),
        })
    }

    async fn run(self: &Arc<Self>, listener: TcpListener) {
        let mut status = self.status.clone();
        let routes = routes::routes(self);
        // The connections end with this set.
        let mut connections = JoinSet::new();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        self.report(self.check_files().map(drop));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = async { while status.changed().await.is_ok() {} } => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    backoff.reset();
                    let peer = Peer::from(peer.ip());
                    let now = self.start.elapsed();
                    let admitted = match self.limits.lock() {
                        Ok(mut limits) => limits.admit(peer, now),
                        Err(_) => false,
                    };
                    // A peer over its limit gets no answer, not even a handshake: that is the costly part.
                    if admitted {
                        let (server, routes) = (self.clone(), routes.clone());
                        connections.spawn(async move {
                            let _here = OpenConnection(server.clone(), peer);
                            server.connection(stream, routes).await;
                        });
                    }
                }
                // Out of file descriptors, most likely: trying at once would spin.
                Err(error) => {
                    self.report(Err(error.to_string()));
                    backoff.wait().await;
                }
            }
        }
    }

    /// Are the certificate and the token there?
    fn check_files(&self) -> Result<Arc<rustls::ServerConfig>, String> {
        let token = self.token.get();
        let config = self.certificate.config()?;
        token.map(|_| config)
    }

    async fn connection(&self, stream: TcpStream, routes: Router) {
        let fit = self.check_files();
        self.report(fit.clone().map(drop));
        // Without a token every request is refused, with the reason.
        let Ok(config) = self.certificate.config() else {
            return;
        };
        let accepted = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await;
        let Ok(Ok(stream)) = accepted else { return };
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

    /// Serialised once for all who wait for it.
    fn written(&self, status: Arc<Status>) -> serde_json::Result<Bytes> {
        let Ok(mut written) = self.written.lock() else {
            return json(&*status).map(Bytes::from);
        };
        if let Some((known, bytes)) = &*written
            && Arc::ptr_eq(known, &status)
        {
            return Ok(bytes.clone());
        }
        let bytes = Bytes::from(json(&*status)?);
        *written = Some((status, bytes.clone()));
        Ok(bytes)
    }

    /// Reports each change between serving and not serving once.
    fn report(&self, now: Result<(), String>) {
        let Ok(mut reported) = self.reported.lock() else {
            return;
        };
        if reported.as_ref() == Some(&now) {
            return;
        }
        let listen = self.settings.listen;
        let (code, what, why) = match &now {
            Ok(()) => (Code::OutletServed, format!("https://{listen}/status"), ""),
            Err(why) => (Code::OutletDown, String::new(), why.as_str()),
        };
        journal::write_event(&Event {
            code,
            file: None,
            message: code.say(&[("outlet", "HTTPS status"), ("what", &what), ("why", why)]),
        });
        *reported = Some(now);
    }
}

/// A connection counts while this exists, however it ends.
struct OpenConnection(Arc<StatusService>, Peer);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if let Ok(mut limits) = self.0.limits.lock() {
            limits.leave(self.1);
        }
    }
}
