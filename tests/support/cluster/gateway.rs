//! A way to kube-apiserver for one process, which ends that process at a request.
//!
//! Plain HTTP on loopback. What a client asks goes on with the rights of [`Who::Admin`].

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Cluster, Who};

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// The path, with the query.
    pub(crate) path: String,
}

impl Asked {
    /// Does it change something of a repair, or the lease on repairs?
    pub(crate) fn is_of_repair(&self) -> bool {
        let is_other_lease =
            self.path.contains("/leases") && !self.path.contains("/windrow-repairs");
        !self.is_read() && !is_other_lease && !self.path.contains("/events")
    }

    /// Does it change nothing?
    pub(crate) fn is_read(&self) -> bool {
        self.method == "GET" || self.path.contains("dryRun=All")
    }
}

/// Where a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The request, counted from 0. A request that repeats the one before it is not counted.
    pub(crate) request: usize,
    /// Only the changes of a repair are counted: a daemon asks for much at the same time.
    pub(crate) is_of_repair: bool,
    /// Whether kube-apiserver gets this request. The process never gets the answer.
    pub(crate) is_sent: bool,
    pub(crate) signal: Signal,
}

struct Shared {
    client: Client,
    process: watch::Sender<Option<Pid>>,
    end: Option<End>,
    asked: Mutex<Vec<Asked>>,
    has_ended: watch::Sender<bool>,
}

/// It ends with the value.
pub(crate) struct Gateway {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    task: JoinHandle<()>,
}

impl Cluster {
    /// A way to this cluster, which ends its process there.
    pub(crate) async fn gateway(&self, end: Option<End>) -> Gateway {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("loopback has free ports");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            client: self.client_that_asks_once(Who::Admin).await,
            process: watch::Sender::new(None),
            end,
            asked: Mutex::default(),
            has_ended: watch::Sender::new(false),
        });
        let kubeconfig = self.dir().join(format!("gateway-{port}.yaml"));
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{server: \"http://127.0.0.1:{port}\"}}\n\
             contexts:\n- name: c\n  context: {{cluster: c, user: u}}\ncurrent-context: c\nusers:\n- name: u\n  user: {{}}\n"
        );
        fs::write(&kubeconfig, text).expect("the cluster's directory is writable");
        let task = tokio::spawn(accept(listener, shared.clone()));
        Gateway {
            shared,
            kubeconfig,
            task,
        }
    }
}

impl Gateway {
    pub(crate) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// The process that it is for. Until this is known, requests wait.
    pub(crate) fn is_for(&self, process: u32) {
        let process = Pid::from_raw(i32::try_from(process).expect("it is the id of a process"));
        self.shared.process.send_replace(Some(process));
    }

    /// Has it sent the signal?
    pub(crate) fn has_ended_it(&self) -> bool {
        *self.shared.has_ended.borrow()
    }

    /// What was asked, without repetitions.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked().clone()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn asked(&self) -> std::sync::MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request; does the process end at it?
    fn note(&self, asked: Asked) -> Option<End> {
        let mut all = self.asked();
        if all.last() == Some(&asked) {
            return None;
        }
        let is_of_repair = asked.is_of_repair();
        all.push(asked);
        let end = self.end.filter(|end| is_of_repair || !end.is_of_repair)?;
        let counted = all
            .iter()
            .filter(|asked| asked.is_of_repair() || !end.is_of_repair);
        (end.request + 1 == counted.count()).then_some(end)
    }

    fn signal(&self, end: End) {
        let process = self.process.borrow().expect("it is known");
        // It may have ended meanwhile.
        let _ = kill(process, end.signal);
        self.has_ended.send_replace(true);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| pass(shared.clone(), request));
            // A client that goes away in the middle is no error here.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

async fn pass(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, tower::BoxError> {
    let _ = shared.process.subscribe().wait_for(Option::is_some).await;
    let path = request.uri().path_and_query().map(ToString::to_string);
    let asked = Asked {
        method: request.method().to_string(),
        path: path.unwrap_or_default(),
    };
    let end = shared.note(asked);
    let is_killed = end.is_some_and(|end| end.signal == Signal::SIGKILL);
    if let Some(end) = end.filter(|end| !end.is_sent) {
        shared.signal(end);
        if is_killed {
            return std::future::pending().await;
        }
    }
    let (mut parts, body) = request.into_parts();
    for name in [header::HOST, header::CONNECTION] {
        parts.headers.remove(name);
    }
    let body = Body::from(body.collect().await?.to_bytes());
    let answer = shared.client.send(Request::from_parts(parts, body)).await?;
    if let Some(end) = end.filter(|end| end.is_sent) {
        shared.signal(end);
        if is_killed {
            return std::future::pending().await;
        }
    }
    Ok(answer)
}
