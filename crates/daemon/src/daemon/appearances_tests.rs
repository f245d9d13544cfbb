//! The watch of the cluster really ends: a server on loopback counts the open watches.

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use windrow_decide::settings::Settings;
use windrow_decide::{ClusterEvent, Ledger, Phase, StagingState};
use windrow_plan::rules::RuleSet;

use super::*;
use crate::apiserver::ApiServer;
use crate::observe::appearances;
use crate::testing::server;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// The number of watched kinds.
const ALL: usize = 11;

/// An open watch, as long as its body lives: a client that goes away ends it.
struct OpenWatch(watch::Sender<usize>);

impl OpenWatch {
    fn new(open: watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open)
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

struct EmptyCluster {
    url: String,
    open: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for EmptyCluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EmptyCluster {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (count, open) = watch::channel(0);
        let (url, task) = server::start(listener, None, move |connection| {
            let count = count.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let target = request.uri().to_string();
                let body = match &*target {
                    "/version" => Full::from(VERSION).boxed_unsync(),
                    watched if watched.contains("watch=true") => {
                        let open = OpenWatch::new(count.clone());
                        let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                        let silent = silent.inspect(move |_| {
                            let _held = &open;
                        });
                        StreamBody::new(silent).boxed_unsync()
                    }
                    _ => Full::from(EMPTY).boxed_unsync(),
                };
                async move { Ok::<_, Infallible>(Response::new(body)) }
            });
            async move {
                let serve = hyper::server::conn::http1::Builder::new();
                // The test waits for a client that goes away in the middle.
                let _ = serve
                    .serve_connection(TokioIo::new(connection), answer)
                    .await;
            }
        });
        Self { url, open, task }
    }

    async fn has_open(&mut self, count: usize) {
        let reached = self.open.wait_for(|open| *open == count);
        let reached = timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "{count} watches are to be open");
    }
}

const EMPTY: &str = r#"{"metadata": {"resourceVersion": "1"}, "items": []}"#;
const VERSION: &str = r#"{"major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "",
    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#;

#[tokio::test]
async fn after_an_hour_without_anything_new_every_watch_is_closed_until_something_moves() {
    let mut cluster = EmptyCluster::start().await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let text = format!(
        "current-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n",
        cluster.url
    );
    fs::write(&kubeconfig, text).unwrap();
    let (mut watch, (wanted, seen)) = AppearanceWatch::new();
    let look = tokio::spawn(appearances::watch(
        ApiServer::new(),
        Arc::new(move || kubeconfig.clone()),
        wanted,
        seen,
    ));

    let (settings, ledger) = (Settings::default(), Ledger::default());
    let mut state = StagingState::new(settings, RuleSet::default(), None, ledger, START);
    let after = |minutes| START + SignedDuration::from_mins(minutes);
    state.take_event(ClusterEvent::ApiReachable, after(1));
    let mut status = state.decide(after(1)).status;
    status.staging.settled = false;
    let api = state.observation().api.clone();

    watch.want(true, &status, &api, after(1));
    cluster.has_open(ALL).await;
    watch.want(true, &status, &api, after(60));
    assert_eq!(*cluster.open.borrow(), ALL);
    watch.want(true, &status, &api, after(61));
    cluster.has_open(0).await;
    status.phase = Phase::Manifests;
    watch.want(true, &status, &api, after(80));
    cluster.has_open(ALL).await;
    status.staging.settled = true;
    watch.want(true, &status, &api, after(81));
    cluster.has_open(0).await;
    look.abort();
}
