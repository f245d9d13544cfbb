//! The integrations that run outside the daemon's loop, each fed from the published status. None of them can keep the
//! loop waiting, and the loop needs none of them.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use windrow_decide::{Status, why};
use windrow_harvester::SystemPartition;

use super::remote::{self, RemoteState};
use crate::apiserver::ApiServer;
use crate::background::Background;
use crate::configuration::Published;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::observe::probes::{ProbeContext, role_and_name};
use crate::observe::process::own_usage;
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::system_image::system_images;
use crate::orders::holds::{self, FileOutcome, Order, OrderRefused, Which};
use crate::report::cluster::{self, NodeOutletSwitches, NodeWriter};
use crate::report::dbus::{self, AgentHandler, ManualVerb};
use crate::report::metrics::{self, DaemonCounters, MetricsSource, ProcessFacts};
use crate::report::publish::StatusWatch;
use crate::report::{login, target};

/// Opens the integrations of a node, each as a task in `background`. Returns the state of those over the network, for
/// the status document.
pub fn open(
    background: &mut Background,
    configured: Published,
    api: ApiServer,
    probe_context: Arc<ProbeContext>,
    status: StatusWatch,
    counters: DaemonCounters,
) -> RemoteState {
    // Only the daemon that systemd runs owns the units, not one that an operator starts manually.
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        background.start("windrow-ready.target", target::follow(None, status.clone()));
    }
    let bus = BusDesk {
        configured: configured.clone(),
    };
    background.start("D-Bus", dbus::serve(None, Arc::new(bus), status.clone()));
    let source = metrics_source(api.clone(), counters, status.clone());
    let textfile = configured.clone();
    let wanted = move || {
        let configuration = textfile.borrow();
        let path = configuration.settings().metrics.textfile.as_ref()?;
        Some(configuration.layout().path(path))
    };
    background.start_with_last_words(
        "metrics for node_exporter",
        metrics::textfile::serve(source.clone(), wanted, configured.clone()),
    );
    let told = remote::open(background, configured.clone(), status.clone(), source);
    let desk = Arc::new(NodeDesk {
        api,
        configured: configured.clone(),
        probe_context,
    });
    let root = configured.borrow().root().clone();
    background.start_with_last_words(
        "condition of the Node",
        cluster::serve(desk, configured.clone(), status.clone()),
    );
    let changed = configured.clone();
    let wanted = move || configured.borrow().settings().outlets.login_notices;
    background.start_with_last_words(
        "login notices",
        login::serve(root, wanted, Timestamp::now, changed, status),
    );
    told
}

fn metrics_source(api: ApiServer, counters: DaemonCounters, status: StatusWatch) -> MetricsSource {
    let process = move || {
        let (usage, asked) = (own_usage(), api.counts());
        ProcessFacts {
            resident_bytes: usage.map(|usage| usage.resident_bytes),
            cpu: usage.map(|usage| usage.cpu),
            open_files: usage.and_then(|usage| usage.open_files),
            started: usage.and_then(|usage| usage.started),
            requests: asked.requests,
            watches: asked.watches,
        }
    };
    MetricsSource {
        status,
        counters,
        process: Arc::new(process),
        now: Timestamp::now,
    }
}

struct NodeDesk {
    api: ApiServer,
    configured: Published,
    probe_context: Arc<ProbeContext>,
}

impl cluster::NodeOutletContext for NodeDesk {
    fn switches(&self) -> NodeOutletSwitches {
        let outlets = self.configured.borrow().settings().outlets;
        NodeOutletSwitches {
            condition: outlets.node_condition,
            events: outlets.node_events,
        }
    }

    fn writer(&self) -> BoxFuture<'_, NodeWriter> {
        async {
            let (role, name) = role_and_name(&self.probe_context).await;
            let layout = self.configured.borrow().layout().clone();
            let own = layout.kubelet_kubeconfig();
            NodeWriter {
                // The kubelet's own credential shows the Node's name.
                node: kubeconfig::node_name(&own).unwrap_or(name),
                kubeconfig: match role.serves_api() {
                    true => admin_kubeconfig(&layout),
                    false => own,
                },
            }
        }
        .boxed()
    }

    fn client(&self, kubeconfig: &Path) -> BoxFuture<'_, Result<Client, String>> {
        let kubeconfig = kubeconfig.to_owned();
        async move { self.api.client(&kubeconfig).await }.boxed()
    }

    fn system_partition(&self) -> Option<SystemPartition> {
        let layout = self.configured.borrow().layout().clone();
        system_images(&layout).as_ref().map(SystemPartition::from)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

struct BusDesk {
    configured: Published,
}

impl BusDesk {
    /// From the published configuration. Any user may ask why a file is held: no file is read for it.
    fn layout(&self) -> Layout {
        self.configured.borrow().layout().clone()
    }
}

impl AgentHandler for BusDesk {
    fn why(&self, status: &Status, what: &str) -> Option<String> {
        let answer = why::explain(status, what, &self.layout().manifests())?;
        crate::printable::json(&answer).ok()
    }

    fn order(
        &self,
        verb: ManualVerb,
        files: &[String],
        by: &str,
        reason: &str,
    ) -> Result<Vec<String>, String> {
        let layout = self.layout();
        let limits = self.configured.borrow().settings().staging.limits.clone();
        let order = Order {
            layout: &layout,
            by,
            reason,
            at: Timestamp::now(),
        };
        let outcomes = match verb {
            ManualVerb::Hold => holds::hold(&order, files),
            ManualVerb::Release => holds::release(&order, Which::Named(files), &limits),
        };
        let outcomes = outcomes.map_err(|refused: OrderRefused| refused.to_string())?;
        let mut done = Vec::new();
        let mut wrong = Vec::new();
        for FileOutcome { file, result } in outcomes {
            match result {
                Ok(_) => done.push(file.to_string()),
                Err(why) => wrong.push(format!("{file}: {why}")),
            }
        }
        match wrong[..] {
            [] => Ok(done),
            _ => Err(wrong.join("; ")),
        }
    }
}
