//! Level 4, figures: what a thousand nodes cost a kube-apiserver while they boot, and when all their daemons start at
//! once. It prints a table for docs/benchmarks.md and judges only that everything was written and nothing refused.
//!
//! `WINDROW_NODES=n` sets how many (1000). The outlet, kube-apiserver and etcd are the real ones; the nodes' boots are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use windrow::apiserver::ApiServer;
use windrow::report::cluster::{NodeOutletContext, NodeOutletSwitches, NodeWriter, serve};
use windrow_decide::{Readiness, Status};
use windrow_model::reasons::Code;

use crate::support;

/// What a node says on its way: each for as long as a boot of a server takes there, less a half.
const COURSE: [(Readiness, Code, &str, u64); 6] = [
    (Readiness::SettingUp, Code::ApiNotReady, "api", 15),
    (Readiness::SettingUp, Code::NodeNotReady, "node", 10),
    (Readiness::SettingUp, Code::Staging, "1 of 14 files", 10),
    (Readiness::SettingUp, Code::Staging, "7 of 14 files", 10),
    (Readiness::SettingUp, Code::Staging, "13 of 14 files", 10),
    (Readiness::Ready, Code::NodeReady, "all well", 0),
];

struct Daemon(NodeWriter);

impl NodeOutletContext for Daemon {
    fn switches(&self) -> NodeOutletSwitches {
        NodeOutletSwitches {
            condition: true,
            events: true,
        }
    }

    fn writer(&self) -> BoxFuture<'_, NodeWriter> {
        let writer = self.0.clone();
        async { writer }.boxed()
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

fn status((readiness, code, message, _): (Readiness, Code, &str, u64)) -> Arc<Status> {
    let status = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1,
        "readiness": readiness, "phase": "staging", "since": "2026-11-21T20:15:00Z",
        "reason": {"code": code, "message": message}, "summary": message, "headline": message,
        "staging": {"total": 0, "held": [], "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0"},
    });
    Arc::new(serde_json::from_value(status).unwrap())
}

/// One node's outlet with its own connection, and what drives it.
struct Outlet {
    publish: watch::Sender<Option<Arc<Status>>>,
    _reload: watch::Sender<()>,
    serving: JoinHandle<()>,
}

impl Outlet {
    fn open(kubeconfig: PathBuf, node: String) -> Self {
        let (publish, published) = watch::channel(None);
        let (reload, reloads) = watch::channel(());
        let daemon = Arc::new(Daemon(NodeWriter { kubeconfig, node }));
        Self {
            serving: tokio::spawn(serve(ApiServer::new(), daemon, reloads, published)),
            publish,
            _reload: reload,
        }
    }
}

/// What kube-apiserver says of itself.
#[derive(Clone, Copy)]
struct Cost {
    at: Instant,
    cpu: f64,
    requests: f64,
    put_off: f64,
    revision: u64,
    watched: usize,
}

async fn cost(client: &Client, watched: &AtomicUsize) -> Cost {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let sum = |name: &str, with: &str| -> f64 {
        let lines = text
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(with));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    };
    let nodes: Api<Node> = Api::all(client.clone());
    let list = nodes.list(&ListParams::default().limit(1)).await.unwrap();
    Cost {
        at: Instant::now(),
        cpu: sum("process_cpu_seconds_total", ""),
        // Its own controllers ask too, but not for these.
        requests: sum("apiserver_request_total{", "resource=\"nodes\"")
            + sum("apiserver_request_total{", "resource=\"events\""),
        put_off: sum("apiserver_request_total{", "code=\"429\""),
        revision: list.metadata.resource_version.unwrap().parse().unwrap(),
        watched: watched.load(Ordering::Relaxed),
    }
}

fn row(what: &str, before: Cost, after: Cost) {
    let seconds = (after.at - before.at).as_secs_f64();
    let (requests, revisions) = (
        after.requests - before.requests,
        after.revision - before.revision,
    );
    println!(
        "| {what} | {seconds:.0} s | {requests:.0} ({:.0}/s) | {revisions} ({:.0}/s) | {:.0} | {:.1} s | {} kB |",
        requests / seconds,
        revisions as f64 / seconds,
        after.put_off - before.put_off,
        after.cpu - before.cpu,
        (after.watched - before.watched) / 1000,
    );
}

async fn all_say(nodes: &Api<Node>, reason: &str, since: Option<Timestamp>) {
    eventually(&format!("all say {reason}"), DEADLINE, async || {
        let list = nodes.list(&ListParams::default()).await.unwrap();
        let mut conditions = list.items.iter().map(|node| {
            let conditions = node.status.as_ref()?.conditions.as_ref()?;
            conditions
                .iter()
                .find(|one| one.type_ == "WindrowBootstrap")
        });
        let is = conditions.all(|one| {
            one.is_some_and(|one| {
                let beat = one.last_heartbeat_time.as_ref().map(|time| time.0);
                one.reason.as_deref() == Some(reason)
                    && since.is_none_or(|since| beat.is_some_and(|beat| beat >= since))
            })
        });
        // A list of all is itself a cost.
        sleep(Duration::from_secs(1)).await;
        is.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "figures: it takes some minutes and the whole machine"]
async fn a_thousand_nodes_boot_and_all_their_daemons_start_again_at_once() {
    let count = std::env::var("WINDROW_NODES").map_or(1000, |text| text.parse().unwrap());
    let files = 2 * count as u64 + 1000;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, files, files)
        .unwrap();
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let names: Vec<String> = (0..count).map(|number| format!("node{number}")).collect();
    let made = stream::iter(&names).for_each_concurrent(32, async |name| {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    });
    made.await;

    // One that watches them all, as a rack does.
    let watched = Arc::new(AtomicUsize::new(0));
    let watcher = tokio::spawn({
        let (nodes, watched) = (nodes.clone(), watched.clone());
        async move {
            let list = nodes.list(&ListParams::default().limit(1)).await.unwrap();
            let from = list.metadata.resource_version.unwrap();
            let parameters = WatchParams::default();
            let mut events = nodes.watch(&parameters, &from).await.unwrap().boxed();
            while let Some(Ok(event)) = events.next().await {
                if let WatchEvent::Modified(node) = event {
                    let bytes = serde_json::to_vec(&node).unwrap().len();
                    watched.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
    });

    println!(
        "| {count} nodes | took | requests | etcd writes | put off | kube-apiserver | one watch |"
    );
    println!("|---|---|---|---|---|---|---|");
    let kubeconfig = cluster.kubeconfig(Who::Admin);
    let open = || -> Vec<Outlet> {
        let outlets = names.iter().cloned();
        outlets
            .map(|name| Outlet::open(kubeconfig.clone(), name))
            .collect()
    };
    let before = cost(&client, &watched).await;
    let outlets = open();
    let boots = stream::iter(outlets.iter().enumerate()).for_each_concurrent(
        None,
        async |(number, outlet)| {
            // The machines of a rack are switched on within half a minute.
            sleep(Duration::from_millis(number as u64 * 30_000 / count as u64)).await;
            for step in COURSE {
                outlet.publish.send_replace(Some(status(step)));
                sleep(Duration::from_secs(step.3)).await;
            }
        },
    );
    boots.await;
    all_say(&nodes, "NodeReady", None).await;
    let booted = cost(&client, &watched).await;
    row("they boot within half a minute", before, booted);

    // Nothing is written as they end: they are killed.
    for outlet in &outlets {
        outlet.serving.abort();
    }
    drop(outlets);
    sleep(Duration::from_secs(2)).await;
    let (before, since) = (cost(&client, &watched).await, Timestamp::now());
    let outlets = open();
    for outlet in &outlets {
        outlet.publish.send_replace(Some(status(COURSE[5])));
    }
    all_say(&nodes, "NodeReady", Some(since)).await;
    row(
        "all daemons start at once",
        before,
        cost(&client, &watched).await,
    );

    let before = cost(&client, &watched).await;
    sleep(Duration::from_secs(60)).await;
    row("at rest", before, cost(&client, &watched).await);
    watcher.abort();
}
