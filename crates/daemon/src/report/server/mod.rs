//! The status over HTTPS, for operators without a login: off by default, read-only, behind a token.
//!
//! One request for each connection; `https` has the connections and their bounds. `routes` has the paths, their access
//! rules and their answers. It serves from its first second on: until RKE2 has made the node's certificate, with its
//! own.

pub mod request;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use windrow_decide::{Event, ServerStatus};
use windrow_model::reasons::Code;

use self::request::LONGEST_WAIT;
use super::journal;
use super::metrics::MetricsSource;
use super::publish::StatusWatch;
use crate::backoff::Backoff;
use crate::https::{
    self, Certificate, CertificateFiles, ConnectionBounds, ConnectionSecurity, ServerBounds,
    ServerOwner, ServingCertificate, Token,
};
use crate::locked::lock;
use crate::token_bucket::Rate;

/// For the TLS handshake, and for the request's head after it.
const HEAD: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);
/// Pauses between two tries to listen, or to accept.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
const BOUNDS: ServerBounds = ServerBounds {
    connections: ConnectionBounds {
        connections: 64,
        of_one: 8,
        unproved_of_one: 4,
        few: 2,
        reserved: 8,
        rate: Rate {
            at_once: 30.0,
            a_second: 5.0,
        },
    },
    head: HEAD,
    headers: 32,
    write: ANSWER,
    answer: Some(ANSWER),
    longest: HEAD.saturating_add(LONGEST_WAIT).saturating_add(ANSWER),
    keep_alive: false,
    pauses: PAUSES,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    pub listen: SocketAddr,
    /// Files with the token; the first existing one counts.
    pub tokens: Vec<PathBuf>,
    pub certificates: CertificateFiles,
    /// `/metrics`; `None`: it is off.
    pub metrics: Option<ServedMetrics>,
}

/// Access to `/metrics`, in addition to the clients that may read the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedMetrics {
    /// File with a token that only opens it.
    pub token: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerState {
    #[default]
    Starting,
    /// It is off, or down.
    NotServed,
    Served(ServerStatus),
}

impl ServerState {
    pub fn status(&self) -> Option<&ServerStatus> {
        match self {
            Self::Served(status) => Some(status),
            Self::Starting | Self::NotServed => None,
        }
    }
}

#[derive(Clone)]
pub struct ServerContext {
    pub status: StatusWatch,
    pub metrics: MetricsSource,
    /// Names and addresses of the node, for the server's own certificate.
    pub names: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    pub state: watch::Sender<ServerState>,
}

struct StatusService {
    settings: ServerSettings,
    certificate: Certificate,
    token: Token,
    /// Only for `/metrics`.
    scrape_token: Option<Token>,
    metrics: MetricsSource,
    status: StatusWatch,
    /// Locked while the files are read.
    checking: Arc<tokio::sync::Mutex<()>>,
    reported: Mutex<Option<Result<String, String>>>,
    /// The state of `/metrics` at the last report.
    metrics_reported: Mutex<Option<Result<String, String>>>,
    state: watch::Sender<ServerState>,
}

/// Serves until the publisher of the status is gone. Drop it when the configuration changes.
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
            checking: Arc::default(),
            reported: Mutex::new(None),
            metrics_reported: Mutex::new(None),
        })
    }

    async fn run(self: &Arc<Self>, listener: TcpListener) {
        let mut status = self.status.clone();
        self.check_files().await;
        let routes = routes::routes(self);
        let serving = https::serve(listener, self.clone(), routes, BOUNDS, HashSet::new());
        // RKE2 may have made its certificate: clients that know the old one are notified.
        let following = async {
            while status.changed().await.is_ok() {
                self.check_files().await;
            }
        };
        tokio::select! {
            () = serving => {}
            () = following => {}
        }
    }

    /// Reads the certificate and the tokens, and reports their state. Returns the certificate, if there is one. They
    /// are read on another thread: a certificate may have to be made, and the disk may be slow, but the daemon's loop
    /// must not wait.
    async fn check_files(self: &Arc<Self>) -> Option<Arc<ServingCertificate>> {
        // One after the other: the last reading is reported last. If this is cancelled, the turn lasts as long as the
        // reading, so that a disk that does not answer has one thread and not one for each connection.
        let turn = self.checking.clone().lock_owned().await;
        let server = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let scrape_token = server.scrape_token.as_ref().map(Token::get);
            let certificate = server.certificate.current();
            (server.token.get(), scrape_token, certificate, turn)
        });
        let (token, scrape_token, certificate, _turn) = read.await.ok()?;
        self.report(&certificate.clone().and_then(|with| token.map(|_| with)));
        if let Some(token) = scrape_token {
            self.report_metrics(token);
        }
        certificate.ok()
    }

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
        log_outlet("HTTPS status", &told);
        *reported = Some(told);
    }

    /// Reports once that its own token opens `/metrics`, or why it does not.
    fn report_metrics(&self, token: Result<Arc<String>, String>) {
        let listen = self.settings.listen;
        let told = token.map(|_| format!("https://{listen}/metrics"));
        let mut reported = lock(&self.metrics_reported);
        if reported.as_ref() != Some(&told) {
            log_outlet("metrics", &told);
            *reported = Some(told);
        }
    }
}

/// Writes to the journal that an outlet is served, or why it is not.
fn log_outlet(outlet: &str, told: &Result<String, String>) {
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

impl ServerOwner for StatusService {
    /// Without a token every request is refused, with the reason.
    async fn security(self: &Arc<Self>) -> Option<ConnectionSecurity> {
        let certificate = self.check_files().await?;
        Some(ConnectionSecurity::Tls(certificate, None))
    }

    fn accepts_none(&self, why: &io::Error) {
        self.report(&Err(why.to_string()));
    }
}
