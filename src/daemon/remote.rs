//! The outlets over the network: webhooks, and the status over HTTPS, as the configuration has them.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windrow_decide::settings::Webhook;
use windrow_decide::{Status, WebhookStatus};

use super::background::Background;
use crate::configuration::{Configuration, Published};
use crate::observe::management::management;
use crate::observe::platform;
use crate::report::server;
use crate::report::webhooks::{self, NodeIdentity, WebhookContext};

/// The status, as it is published.
type PublishedStatus = watch::Receiver<Option<Arc<Status>>>;

/// Opens them, and again whenever the configuration changes. Returns the state of the webhooks.
pub(super) fn open(
    background: &mut Background,
    configured: Published,
    status: PublishedStatus,
) -> watch::Receiver<Vec<WebhookStatus>> {
    let (view, shown) = watch::channel(Vec::new());
    let (hooks, wanted) = watch::channel(configured.borrow().settings().webhooks.clone());
    let context = context(configured.clone());
    background.start(
        "webhooks",
        webhooks::deliver(context, wanted, status.clone(), view),
    );
    background.start("status over HTTPS", follow(configured, status, hooks));
    shown
}

fn context(configured: Published) -> WebhookContext {
    let root = configured.borrow().root().clone();
    WebhookContext {
        memory: root.webhooks(),
        identity: Arc::new(move || {
            let node = management(&root);
            let text = |ip: Option<&dyn ToString>| ip.map(ToString::to_string).unwrap_or_default();
            NodeIdentity {
                ipv4: text(node.ipv4.as_ref().map(|ip| ip as &dyn ToString)),
                ipv6: text(node.ipv6.as_ref().map(|ip| ip as &dyn ToString)),
                hostname: node.hostname,
                mac: node.mac,
            }
        }),
        cluster: Arc::new(move || platform::cluster(configured.borrow().layout())),
        now: Timestamp::now,
    }
}

/// Keeps webhooks and server as the configuration has them.
async fn follow(
    mut configured: Published,
    status: PublishedStatus,
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
                task: tokio::spawn(server::serve(settings.clone(), status.clone())),
                settings,
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

/// A server, with the settings that it was started with.
struct Running {
    settings: server::ServerSettings,
    task: JoinHandle<()>,
}

/// Waits until the server ends; forever when there is none.
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
    let certificates = match (&asked.certificate_file, &asked.key_file) {
        (Some(certificate), Some(key)) => vec![(layout.path(certificate), layout.path(key))],
        _ => layout.serving_certificates().to_vec(),
    };
    asked.enabled.then(|| server::ServerSettings {
        listen: asked.listen,
        token: layout.path(&asked.token_file),
        certificates,
    })
}
