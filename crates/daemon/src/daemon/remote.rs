//! The integrations over the network: webhooks, and the status over HTTPS, as the configuration has them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windrow_decide::settings::{STATUS_TOKEN, STATUS_TOKEN_CREDENTIAL, Webhook};
use windrow_decide::{CertificateSource, WebhookStatus};

use crate::addresses::{certificate_names, usable_addresses};
use crate::background::Background;
use crate::configuration::{Configuration, Published};
use crate::https::CertificateFiles;
use crate::layout::Layout;
use crate::observe::management::{management, own_host_name, serial_number, uptime};
use crate::observe::platform;
use crate::report::metrics::MetricsSource;
use crate::report::publish::StatusWatch;
use crate::report::server::{self, ServedMetrics, ServerContext, ServerState};
use crate::report::webhooks::{self, NodeIdentity, WebhookContext};

/// The state of the integrations over the network, for the status document.
pub struct RemoteState {
    pub webhooks: watch::Receiver<Vec<WebhookStatus>>,
    pub server: watch::Receiver<ServerState>,
}

/// Opens them, and again whenever the configuration changes. Returns their state.
pub(super) fn open(
    background: &mut Background,
    configured: Published,
    status: StatusWatch,
    metrics: MetricsSource,
) -> RemoteState {
    let (view, shown) = watch::channel(Vec::new());
    let (state, server) = watch::channel(ServerState::default());
    let (hooks, wanted) = watch::channel(configured.borrow().settings().webhooks.clone());
    let context = context(configured.clone(), server.clone());
    background.start(
        "webhooks",
        webhooks::deliver(context, wanted, status.clone(), view),
    );
    let served = ServerContext {
        status,
        metrics,
        names: Arc::new(|| certificate_names(own_host_name())),
        state,
    };
    background.start("status over HTTPS", follow(configured, served, hooks));
    RemoteState {
        webhooks: shown,
        server,
    }
}

fn context(configured: Published, server: watch::Receiver<ServerState>) -> WebhookContext {
    let root = configured.borrow().root().clone();
    WebhookContext {
        memory: root.webhooks(),
        identity: Arc::new(move || {
            let node = management(&root);
            let text = |ip: Option<&dyn ToString>| ip.map(ToString::to_string).unwrap_or_default();
            let usable = usable_addresses().into_iter().map(|(ip, _)| ip);
            let usable: Vec<IpAddr> = usable.collect();
            let is_this_machine = root.is_this_machine();
            NodeIdentity {
                ipv4: text(node.ipv4.as_ref().map(|ip| ip as &dyn ToString)),
                ipv6: text(node.ipv6.as_ref().map(|ip| ip as &dyn ToString)),
                hostname: node.hostname,
                mac: node.mac,
                serial: serial_number(&root),
                reached_at: usable.first().copied(),
                // With another root, these addresses belong to another machine.
                addresses: if is_this_machine { usable } else { Vec::new() },
                uptime: is_this_machine.then(uptime).flatten(),
            }
        }),
        server,
        cluster: Arc::new(move || platform::cluster(configured.borrow().layout())),
        now: Timestamp::now,
    }
}

/// Keeps webhooks and server as the configuration has them.
async fn follow(
    mut configured: Published,
    context: ServerContext,
    hooks: watch::Sender<Vec<Webhook>>,
) {
    let mut running: Option<Running> = None;
    loop {
        let now = Arc::clone(&configured.borrow_and_update());
        let wanted = server_of(&now);
        if running.as_ref().map(|running| &running.settings) != wanted.as_ref() {
            // The address is freed before it is taken again.
            if let Some(before) = running.take() {
                before.task.abort();
                let _ = before.task.await;
            }
            running = wanted.map(|settings| Running {
                task: tokio::spawn(server::serve(settings.clone(), context.clone())),
                settings,
            });
        }
        if running.is_none() {
            context.state.send_if_modified(|state| {
                let was = std::mem::replace(state, ServerState::NotServed);
                was != ServerState::NotServed
            });
        }
        hooks.send_if_modified(|known| {
            let wanted = &now.settings().webhooks;
            let changed = known != wanted;
            known.clone_from(wanted);
            changed
        });
        tokio::select! {
            changed = configured.changed() => if changed.is_err() { return },
            // Only a panic ends it. Then this task ends too, which the daemon notices.
            () = ended(&mut running) => return,
        }
    }
}

struct Running {
    settings: server::ServerSettings,
    task: JoinHandle<()>,
}

/// Waits until the server ends. Without a server, it waits forever.
async fn ended(running: &mut Option<Running>) {
    match running {
        // Why it ended makes no difference.
        Some(server) => drop((&mut server.task).await),
        None => std::future::pending().await,
    }
}

fn server_of(configuration: &Configuration) -> Option<server::ServerSettings> {
    let layout = configuration.layout();
    let asked = &configuration.settings().status_server;
    let (source, pairs) = match (&asked.certificate_file, &asked.key_file) {
        (Some(certificate), Some(key)) => (
            CertificateSource::Configured,
            vec![(layout.path(certificate), layout.path(key))],
        ),
        _ => (
            CertificateSource::Rke2,
            layout.serving_certificates().to_vec(),
        ),
    };
    let metrics = &asked.metrics;
    let token = metrics.token_file.as_ref().map(|file| layout.path(file));
    asked.enabled.then(|| server::ServerSettings {
        metrics: metrics.enabled.then_some(ServedMetrics { token }),
        listen: asked.listen,
        tokens: match &asked.token_file {
            Some(file) => vec![layout.path(file)],
            None => default_tokens(layout),
        },
        certificates: CertificateFiles {
            source,
            pairs,
            own: Some(configuration.root().status_certificate()),
        },
    })
}

/// The node's own token comes before the token of the whole rack.
fn default_tokens(layout: &Layout) -> Vec<PathBuf> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let credential = credentials.map(|directory| directory.join(STATUS_TOKEN_CREDENTIAL));
    let own = layout.path(STATUS_TOKEN);
    std::iter::once(own).chain(credential).collect()
}
