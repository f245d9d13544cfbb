//! Level 4, figures: what a thousand nodes cost a kube-apiserver while they boot, and when all their daemons start at
//! once. It prints a table for docs/dev/benchmarks.md and judges only that everything was written and nothing refused.
//!
//! `WINDROW_NODES=n` sets how many (1000). The outlet, kube-apiserver and etcd are the real ones, each node has an identity and a
//! connection of its own, and a Node is as large as those of a real cluster; the nodes' boots are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use windrow::apiserver::ApiServer;
use windrow::report::cluster::{NodeOutletContext, NodeOutletSwitches, NodeWriter, serve};
use windrow::report::publish::PublishedStatus;
use windrow_decide::Readiness;
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

struct Daemon(NodeWriter, ApiServer);

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

    fn client(&self, kubeconfig: &Path) -> BoxFuture<'_, Result<Client, String>> {
        let kubeconfig = kubeconfig.to_owned();
        async move { self.1.client(&kubeconfig).await }.boxed()
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

fn status((readiness, code, message, _): (Readiness, Code, &str, u64)) -> PublishedStatus {
    let status = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1,
        "readiness": readiness, "phase": "staging", "since": "2026-11-21T20:15:00Z",
        "reason": {"code": code, "message": message}, "summary": message, "headline": message,
        "staging": {"total": 0, "held": [], "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0"},
    });
    PublishedStatus::new(serde_json::from_value(status).unwrap())
}

/// One node's outlet with its own connection, and what drives it.
struct Outlet {
    publish: watch::Sender<Option<PublishedStatus>>,
    _reload: watch::Sender<()>,
    serving: JoinHandle<()>,
}

impl Outlet {
    fn open(kubeconfig: PathBuf, node: String) -> Self {
        let (publish, published) = watch::channel(None);
        let (reload, reloads) = watch::channel(());
        let writer = NodeWriter { kubeconfig, node };
        let daemon = Arc::new(Daemon(writer, ApiServer::new()));
        Self {
            serving: tokio::spawn(serve(daemon, reloads, published)),
            publish,
            _reload: reload,
        }
    }
}

/// What one watch of all Nodes has seen: bytes, changes by second, and each Node's reason with its heartbeat.
#[derive(Default)]
struct Watched {
    bytes: usize,
    changes: BTreeMap<u64, u64>,
    says: BTreeMap<String, (String, Timestamp)>,
}

impl Watched {
    fn take(&mut self, node: Node) {
        self.bytes += serde_json::to_vec(&node).unwrap().len();
        *self.changes.entry(second()).or_default() += 1;
        let conditions = node.status.and_then(|status| status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        if let Some(own) =
            conditions.find(|one| one.type_ == windrow_harvester::node_condition::CONDITION)
        {
            let says = (own.reason.unwrap(), own.last_heartbeat_time.unwrap().0);
            self.says.insert(node.metadata.name.unwrap(), says);
        }
    }
}

/// What kube-apiserver says of itself.
#[derive(Clone, Copy)]
struct Cost {
    at: Instant,
    second: u64,
    cpu: f64,
    memory: f64,
    requests: f64,
    put_off: f64,
    queued: f64,
    revision: u64,
    stored: f64,
    watched: usize,
}

fn second() -> u64 {
    Timestamp::now().as_second().unsigned_abs()
}

async fn cost(client: &Client, watched: &Mutex<Watched>) -> Cost {
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
        second: second(),
        cpu: sum("process_cpu_seconds_total", ""),
        memory: sum("process_resident_memory_bytes", ""),
        // Its own controllers ask too, but not for these.
        requests: sum("apiserver_request_total{", "resource=\"nodes\"")
            + sum("apiserver_request_total{", "resource=\"events\""),
        put_off: sum("apiserver_request_total{", "code=\"429\"")
            + sum("apiserver_flowcontrol_rejected_requests_total{", ""),
        queued: sum(
            "apiserver_flowcontrol_request_wait_duration_seconds_sum{",
            "flow_schema=\"system-node",
        ),
        revision: list.metadata.resource_version.unwrap().parse().unwrap(),
        stored: sum("apiserver_storage_size_bytes", ""),
        watched: watched.lock().unwrap().bytes,
    }
}

fn row(what: &str, before: Cost, after: Cost, watched: &Mutex<Watched>) {
    let seconds = (after.at - before.at).as_secs_f64();
    let (requests, revisions) = (
        after.requests - before.requests,
        after.revision - before.revision,
    );
    let watched = watched.lock().unwrap();
    // What came in the second in which it began belongs to what was before.
    let peak = watched.changes.range(before.second + 1..=after.second);
    println!(
        "| {what} | {seconds:.0} s | {requests:.0} ({:.0}/s) | {revisions} ({:.0}/s) | {} | {:.0} | {:.1} s | {:.0} MB | {:.1} s | {:.0} MB | {:.1} MB |",
        requests / seconds,
        revisions as f64 / seconds,
        peak.map(|(_, number)| *number).max().unwrap_or_default(),
        after.put_off - before.put_off,
        after.queued - before.queued,
        (after.stored - before.stored) / 1e6,
        after.cpu - before.cpu,
        after.memory / 1e6,
        (after.watched - before.watched) as f64 / 1e6,
    );
}

/// Waits until this number of nodes says this. Nobody is asked: the watch has it.
async fn all_say(watched: &Mutex<Watched>, count: usize, reason: &str, since: i64) {
    eventually(&format!("all say {reason}"), DEADLINE, async || {
        let watched = watched.lock().unwrap();
        let is = |(says, beat): &&(String, Timestamp)| says == reason && beat.as_second() >= since;
        (watched.says.values().filter(is).count() == count).then_some(())
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
    let names: Vec<String> = (0..count).map(|number| format!("node{number}")).collect();
    let place = tempfile::tempdir().unwrap();
    let tokens = place.path().join("tokens.csv");
    let lines = names
        .iter()
        .map(|name| format!("token-{name},system:node:{name},{name},system:nodes\n"));
    std::fs::write(&tokens, lines.collect::<String>()).unwrap();
    let spec = Spec {
        arguments: vec![format!("--token-auth-file={}", tokens.display())],
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let kubeconfig = |name: &String| {
        let path = place.path().join(name);
        let authority = cluster.dir().join("pki/ca.crt");
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": cluster.url(), "certificate-authority": authority}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "users": [{"name": "a", "user": {"token": format!("token-{name}")}}]});
        std::fs::write(&path, text.to_string()).unwrap();
        path
    };
    let client = cluster.client(Who::Admin).await;
    let nodes: Api<Node> = Api::all(client.clone());
    // The kubelet lists 50 images: most of a Node.
    let image = |number: usize| {
        let name = format!("registry.example/rancher/hardened-something-{number}");
        json!({"names": [format!("{name}@sha256:{}", "0".repeat(64)), format!("{name}:v1.35.6-rke2r1-build20261101")],
            "sizeBytes": 123_456_789})
    };
    let images = json!({"status": {"images": (0..50).map(image).collect::<Vec<_>>()}});
    let made = stream::iter(&names).for_each_concurrent(32, async |name| {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let (patch, parameters) = (Patch::Strategic(&images), PatchParams::default());
        nodes.patch_status(name, &parameters, &patch).await.unwrap();
    });
    made.await;

    // One that watches them all, as a rack does.
    let watched = Arc::new(Mutex::new(Watched::default()));
    let watcher = tokio::spawn({
        let (nodes, watched) = (nodes.clone(), watched.clone());
        async move {
            let list = nodes.list(&ListParams::default().limit(1)).await.unwrap();
            let mut from = list.metadata.resource_version.unwrap();
            // kube-apiserver ends a watch whose reader is too slow; it goes on where it was.
            loop {
                let parameters = WatchParams::default();
                let mut events = nodes.watch(&parameters, &from).await.unwrap().boxed();
                while let Some(event) = events.next().await {
                    match event {
                        Ok(WatchEvent::Modified(node)) => {
                            from = node.metadata.resource_version.clone().unwrap();
                            watched.lock().unwrap().take(node);
                        }
                        Ok(WatchEvent::Error(error)) => panic!("{error:?}"),
                        Ok(_) => {}
                        Err(_) => break,
                    }
                }
            }
        }
    });

    println!(
        "| {count} nodes | took | requests | etcd writes | writes in the busiest second | put off | waited in queues, all together | etcd grew | kube-apiserver, processor | its memory | one watch of all Nodes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let open = || -> Vec<Outlet> {
        let outlets = names.iter().cloned();
        outlets
            .map(|name| Outlet::open(kubeconfig(&name), name))
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
    all_say(&watched, count, "NodeReady", 0).await;
    let booted = cost(&client, &watched).await;
    row("they boot within half a minute", before, booted, &watched);

    // Nothing is written as they end: they are killed.
    for outlet in &outlets {
        outlet.serving.abort();
    }
    drop(outlets);
    sleep(Duration::from_secs(2)).await;
    let before = cost(&client, &watched).await;
    // A heartbeat has no fractions.
    let since = Timestamp::now().as_second();
    let outlets = open();
    for outlet in &outlets {
        outlet.publish.send_replace(Some(status(COURSE[5])));
    }
    all_say(&watched, count, "NodeReady", since).await;
    row(
        "all daemons start at once",
        before,
        cost(&client, &watched).await,
        &watched,
    );

    let before = cost(&client, &watched).await;
    // Every node writes once in 7.5 to 10 minutes.
    sleep(Duration::from_secs(600)).await;
    let after = cost(&client, &watched).await;
    row("at rest, ten minutes", before, after, &watched);
    watcher.abort();
}
