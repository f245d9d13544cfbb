//! The only way to kube-apiserver, and to the other components on its node, for the whole process.
//!
//! ```text
//!   kubeconfig, and the files that it names ──> connection: kept while they are the same
//!   request ──> its turn ──> Retry-After ──> counted ──> TLS, HTTP ──> answer
//!                   └── shared by all who ask the same server ──┘
//! ```
//!
//! For a user ([`ApiServer::for_person`]), a kubeconfig counts as it does for kubectl: the command that prints a
//! credential is run, and again when the credential has ended. The daemon's handle refuses such a kubeconfig.

mod answer;
mod connection;
mod follow;
mod lines;
mod list;
#[cfg(test)]
mod person_tests;
mod plugin;
mod presented;
mod renewed;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "a test ends where it panics")]
pub mod served_list;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;
mod throttle;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Uri;
use kube::Client;
use rustls::crypto::{CryptoProvider, ring};

pub use self::answer::{LONGEST, Reply, RequestFailure, answer, get, if_found, open, send, within};
pub use self::follow::{DEAD, Followed, WATCH_SECONDS, WatchChange, WatchSink, name_of, read_line};
pub use self::list::{ListBounds, ListForm, Page, Pages, WhenExpired, escaped};
pub use self::presented::earliest_end;
pub use self::throttle::RequestCounts;

use self::renewed::RenewedHttp;
use self::throttle::{Counters, Throttle};
use crate::kubeconfig::{
    Authorization, Credential, CredentialSource, Endpoint, Kubeconfig, KubeconfigFiles, ReadFor,
    Sources, Trust,
};
use crate::layout::Layout;
use crate::locked::lock;

/// How long connecting may take, with TLS. A server that answers at all does so within milliseconds. The kernel
/// sends a lost packet again after one second and after three: it may be lost twice.
const CONNECT: Duration = Duration::from_secs(5);
const OF_ANOTHER_MACHINE: &str = "not used, because the tree belongs to another machine (--root)";
/// How long a command that prints a credential may take: kubelogin waits three minutes for a browser.
const PLUGIN: Duration = Duration::from_secs(4 * 60);

/// The process's handle to kube-apiserver, made once and cloned for each user. It belongs to the runtime on which it is
/// used first.
#[derive(Clone)]
pub struct ApiServer(Arc<Shared>);

struct Shared {
    reads_for: ReadFor,
    /// The root of another machine's disk that is being examined: its kubeconfigs lead nowhere else.
    disk: Option<PathBuf>,
    /// Whether it may use the kubeconfigs of that disk that the user has not chosen.
    uses_disk: bool,
    connect: Duration,
    /// How long a command that prints a credential may take.
    plugin: Duration,
    /// Whether such a command may use the terminal.
    terminal: Arc<AtomicBool>,
    connections: Mutex<HashMap<ConnectionKey, Connection>>,
    /// By the server's address: two credentials may lead to one.
    throttles: Mutex<HashMap<String, Arc<Throttle>>>,
    counters: Arc<Counters>,
}

type ConnectionKey = (KubeconfigFiles, Option<u16>);

#[derive(Clone)]
pub struct Connection {
    client: Client,
    sources: Arc<Sources>,
    throttle: Arc<Throttle>,
    renewed: Option<Arc<RenewedHttp>>,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiServer {
    pub fn new() -> Self {
        Self::connecting_within(CONNECT)
    }

    /// For the daemon. If it is started below another root directory, it contacts the cluster of the kubeconfigs there.
    pub fn for_daemon(layout: &Layout) -> Self {
        Self::made(ReadFor::Daemon, CONNECT, PLUGIN, Some(layout), true)
    }

    /// For a verb that uses the node's own credentials. It does not contact the cluster of another machine's disk: a
    /// look at that disk stays silent.
    pub fn for_verb(layout: &Layout) -> Self {
        Self::made(ReadFor::Daemon, CONNECT, PLUGIN, Some(layout), false)
    }

    /// For a verb that a user calls. As kubectl would, it runs the command that a kubeconfig names for a credential,
    /// except if the kubeconfig is on another machine's disk. Such a kubeconfig is used only if the user has chosen it.
    /// Nothing that runs automatically may have this handle.
    pub fn for_person(layout: &Layout) -> Self {
        Self::made(ReadFor::Person, CONNECT, PLUGIN, Some(layout), false)
    }

    /// For tests, whose machine may be busy: connecting takes this long at most.
    pub fn connecting_within(connect: Duration) -> Self {
        Self::made(ReadFor::Daemon, connect, PLUGIN, None, true)
    }

    fn made(
        reads_for: ReadFor,
        connect: Duration,
        plugin: Duration,
        layout: Option<&Layout>,
        uses_disk: bool,
    ) -> Self {
        let disk = layout.filter(|layout| !layout.is_this_machine());
        Self(Arc::new(Shared {
            reads_for,
            disk: disk.map(|layout| layout.root().to_owned()),
            uses_disk,
            connect,
            plugin,
            terminal: Arc::new(AtomicBool::new(true)),
            connections: Mutex::default(),
            throttles: Mutex::default(),
            counters: Arc::default(),
        }))
    }

    /// From now on commands that print a credential neither ask nor write on the terminal: a console uses it.
    pub fn leave_terminal(&self) {
        self.0.terminal.store(false, Ordering::Relaxed);
    }

    /// A client for a kubeconfig's current context. The file, and those that it names, are read each time, and a new
    /// connection is made when they have changed: RKE2 renews its certificates in place. Nothing is retried
    /// automatically: the caller chooses when to try again.
    ///
    /// # Errors
    ///
    /// The error in the file, with its name, in a line.
    pub async fn client(&self, files: impl Into<KubeconfigFiles>) -> Result<Client, String> {
        Ok(self.connection(files).await?.client)
    }

    /// As [`Self::client`], for a caller that keeps it for long: the connection can tell whether the credential has
    /// changed.
    ///
    /// # Errors
    ///
    /// As for [`Self::client`].
    pub async fn connection(
        &self,
        files: impl Into<KubeconfigFiles>,
    ) -> Result<Connection, String> {
        let connection = self.connected((files.into(), None), |_| {})?;
        // The user may be asked for a password meanwhile, which no bound on a request should count.
        if let Some(renewed) = &connection.renewed {
            renewed.prepare().await?;
        }
        Ok(connection)
    }

    /// A client of another component, on a port of this machine, with the client certificate of a kubeconfig. These
    /// components' certificates name the node, and another authority than kube-apiserver's has signed them, so they are
    /// not verified. A client certificate gives nothing away to a process that listens there; a token would, and is not
    /// sent.
    ///
    /// # Errors
    ///
    /// As for [`Self::client`].
    pub async fn on_loopback(
        &self,
        files: impl Into<KubeconfigFiles>,
        port: u16,
    ) -> Result<Client, String> {
        let uri: Uri = format!("https://127.0.0.1:{port}")
            .parse()
            .map_err(|error| format!("port {port}: {error}"))?;
        let connected = self.connected((files.into(), Some(port)), |kubeconfig| {
            kubeconfig.endpoint = Endpoint {
                server: uri,
                server_name: None,
                trust: Trust::Anything,
                proxy: None,
            };
            let identity = match &kubeconfig.credential {
                CredentialSource::Known(credential) => credential.identity.clone(),
                CredentialSource::Plugin(_) => None,
            };
            kubeconfig.credential = CredentialSource::Known(Credential {
                identity,
                authorization: Authorization::None,
            });
        });
        Ok(connected?.client)
    }

    /// The number of requests so far, of the whole process.
    pub fn counts(&self) -> RequestCounts {
        self.0.counters.read()
    }

    // A client has a separate task on the current runtime: hence its callers are `async`.
    fn connected(
        &self,
        (files, port): ConnectionKey,
        change: impl FnOnce(&mut Kubeconfig),
    ) -> Result<Connection, String> {
        let target = (files.on_disk(self.0.disk.as_deref()), port);
        if target.0.disk().is_some() && !target.0.is_chosen() && !self.0.uses_disk {
            return Err(format!("{}: {OF_ANOTHER_MACHINE}", target.0));
        }
        let mut connections = lock(&self.0.connections);
        if let Some(kept) = connections.get(&target)
            && kept.is_current()
        {
            return Ok(kept.clone());
        }
        let files = &target.0;
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let (mut kubeconfig, sources) = Kubeconfig::read(files, self.0.reads_for, &provider)?;
        change(&mut kubeconfig);
        let Kubeconfig {
            endpoint,
            credential,
            namespace,
        } = kubeconfig;
        let throttle = self.throttle(&endpoint.server);
        let (http, renewed) = match credential {
            CredentialSource::Known(credential) => {
                let http = connection::http(&endpoint, credential, provider, self.0.connect);
                (http.map_err(|why| format!("{files}: {why}"))?, None)
            }
            CredentialSource::Plugin(plugin) => {
                let renewed = Arc::new(RenewedHttp::new(*plugin, endpoint, provider, &self.0));
                (renewed.clone().http(), Some(renewed))
            }
        };
        let http = throttle::before(http, throttle.clone(), self.0.counters.clone());
        let connection = Connection {
            client: Client::new(http, namespace),
            sources: Arc::new(sources),
            throttle,
            renewed,
        };
        connections.insert(target, connection.clone());
        Ok(connection)
    }

    fn throttle(&self, server: &Uri) -> Arc<Throttle> {
        let address = server.authority().map_or("", |address| address.as_str());
        let mut throttles = lock(&self.0.throttles);
        throttles.entry(address.to_owned()).or_default().clone()
    }
}

impl Connection {
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As [`Self::client`], for watches: an object has a bound on its memory.
    pub fn watching_client(&self) -> Client {
        lines::with_bounded_lines(&self.client)
    }

    pub fn is_current(&self) -> bool {
        self.sources.are_unchanged()
    }

    /// How much longer the server asks for a pause; zero when it does not. Every request waits that long automatically:
    /// this is for a caller that has other work to do.
    pub fn left(&self) -> Duration {
        self.throttle.left()
    }

    /// Waits that long: for a caller whose bound on the answer should not count the wait.
    pub async fn wait(&self) {
        self.throttle.wait().await;
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn with_client(client: Client) -> Self {
        Self {
            client,
            sources: Arc::default(),
            throttle: Arc::default(),
            renewed: None,
        }
    }
}
