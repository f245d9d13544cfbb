//! The outlets that run beside the daemon's loop, each fed from the published status. None of them
//! can keep the loop waiting, and none is needed for it.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;
use windrow_decide::settings::{self, Settings, StatusServer, Webhook};
use windrow_decide::{Status, WebhookStatus};
use windrow_model::manifest::Limits;

use super::background::Background;
use super::byhand::{self, Order, Outcome, Refused, Which};
use super::remote;
use crate::configuration;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::observe::probes;
use crate::report::cluster::{self, Subject, Switches};
use crate::report::dbus::{self, Desk, Verb};
use crate::report::{login, target, why};

/// Opens the outlets of a node, each as a task in `background`; how the webhooks get on, for the status
/// document. `reloads` tells that the configuration was read anew; `settings` are those in force now.
pub fn open(
    background: &mut Background,
    root: Layout,
    settings: &Settings,
    world: probes::Shared,
    reloads: watch::Receiver<()>,
    status: watch::Receiver<Option<Arc<Status>>>,
) -> watch::Receiver<Vec<WebhookStatus>> {
    // Units are for the daemon that systemd runs, not for one that a person tries by hand.
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        background.start("windrow-ready.target", target::follow(None, status.clone()));
    }
    let (configuration, configured) = watch::channel(Configuration::of(settings));
    let hands = Hands {
        root: root.clone(),
        configured: configured.clone(),
    };
    background.start("D-Bus", dbus::serve(None, Arc::new(hands), status.clone()));
    let told = remote::open(background, root.clone(), configured.clone(), status.clone());
    let (tell, changed) = watch::channel(());
    background.start(
        "configuration of the outlets",
        follow(root.clone(), reloads, configuration, tell),
    );
    let desk = Arc::new(Cluster {
        root: root.clone(),
        configured: configured.clone(),
        world,
    });
    background.start_with_last_words(
        "condition of the Node",
        cluster::serve(desk, changed.clone(), status.clone()),
    );
    let wanted = move || configured.borrow().outlets.login_notices;
    background.start_with_last_words(
        "login notices",
        login::serve(root, wanted, Timestamp::now, changed, status),
    );
    told
}

/// What of the configuration the outlets go by.
#[derive(Debug, Clone)]
pub(super) struct Configuration {
    outlets: settings::Outlets,
    pub(super) data_dir: String,
    limits: Limits,
    pub(super) webhooks: Vec<Webhook>,
    pub(super) status_server: StatusServer,
}

impl Configuration {
    fn of(settings: &Settings) -> Self {
        Self {
            outlets: settings.outlets,
            data_dir: settings.data_dir.clone(),
            limits: settings.staging.limits.clone(),
            webhooks: settings.webhooks.clone(),
            status_server: settings.status_server.clone(),
        }
    }
}

/// Reads the configuration anew when the daemon has, and then tells the outlets.
async fn follow(
    root: Layout,
    mut reloads: watch::Receiver<()>,
    configuration: watch::Sender<Configuration>,
    tell: watch::Sender<()>,
) {
    while reloads.changed().await.is_ok() {
        let root = root.clone();
        // Rules are read too, which takes longer than the daemon's loop should wait.
        let read = tokio::task::spawn_blocking(move || configuration::load(&root).settings);
        if let Ok(settings) = read.await {
            configuration.send_replace(Configuration::of(&settings));
            tell.send_replace(());
        }
    }
}

/// What the cluster's outlet asks.
struct Cluster {
    root: Layout,
    configured: watch::Receiver<Configuration>,
    world: probes::Shared,
}

impl cluster::Desk for Cluster {
    fn switches(&self) -> Switches {
        let outlets = self.configured.borrow().outlets;
        Switches {
            condition: outlets.node_condition,
            events: outlets.node_events,
        }
    }

    fn subject(&self) -> BoxFuture<'_, Subject> {
        async {
            let (role, name) = probes::whoami(&self.world).await;
            let data_dir = self.configured.borrow().data_dir.clone();
            let layout = self.root.clone().with_data_dir(&data_dir);
            let own = layout.kubelet_kubeconfig();
            Subject {
                // The kubelet's own credential names the Node that it keeps.
                node: kubeconfig::node_name(&own).unwrap_or(name),
                kubeconfig: match role.serves_api() {
                    true => layout.admin_kubeconfig(),
                    false => own,
                },
            }
        }
        .boxed()
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// What callers may ask of the daemon.
struct Hands {
    root: Layout,
    configured: watch::Receiver<Configuration>,
}

impl Hands {
    /// As it is configured now. Anybody may ask why: no file is read for it.
    fn layout(&self) -> Layout {
        let configured = self.configured.borrow();
        self.root.clone().with_data_dir(&configured.data_dir)
    }
}

impl Desk for Hands {
    fn why(&self, status: &Status, what: &str) -> Option<String> {
        let answer = why::answer(status, what, &self.layout().manifests())?;
        crate::printable::json(&answer).ok()
    }

    fn order(
        &self,
        verb: Verb,
        files: &[String],
        by: &str,
        reason: &str,
    ) -> Result<Vec<String>, String> {
        let layout = self.layout();
        let limits = self.configured.borrow().limits.clone();
        let order = Order {
            layout: &layout,
            by,
            reason,
            at: Timestamp::now(),
        };
        let outcomes = match verb {
            Verb::Hold => byhand::hold(&order, files),
            Verb::Release => byhand::release(&order, Which::Named(files), &limits),
        };
        let outcomes = outcomes.map_err(|refused: Refused| refused.to_string())?;
        let mut done = Vec::new();
        let mut wrong = Vec::new();
        for Outcome { file, result } in outcomes {
            match result {
                Ok(_) => done.push(file),
                Err(why) => wrong.push(format!("{file}: {why}")),
            }
        }
        match wrong[..] {
            [] => Ok(done),
            _ => Err(wrong.join("; ")),
        }
    }
}
