//! The cluster: condition `WindrowBootstrap` on the node's own Node, and Events about it, for `kubectl describe node`.
//!
//! ```text
//!   Status ──> condition (the newest only) ──┐
//!          └─> events (a short queue) ───────┴─> due? ──> kube-apiserver ──> written
//!                                                 ^             │
//!                                                 └── pause <───┘ down 1 to 30 s, refused 30 min
//! ```
//!
//! A change of status or reason is written at once, a change of the message alone at most every 30 seconds, and an
//! unchanged condition every ten minutes (the kubelet writes its own every five). An older heartbeat shows a reader
//! that Windrow no longer keeps the condition true. When Windrow stops it writes `Unknown` itself. Whichever credential
//! is used, all requests are ones that a node identity may make.

mod content;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use windrow_decide::{Event, Status};
use windrow_model::reasons::Code;
use windrow_model::redact;

use self::content::{NodeCondition, Notice, condition_on_node, notices};
use super::journal;
use crate::apiserver::ApiServer;
use crate::backoff::spread;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an unchanged condition is written.
const HEARTBEAT: Duration = Duration::from_secs(10 * 60);
/// How long another message of the same reason waits.
const MESSAGE: Duration = Duration::from_secs(30);
/// First and longest pause while kube-apiserver, the credential or the Node is not there.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Pause after a refusal.
const REFUSED: Duration = Duration::from_secs(30 * 60);
/// Events that may be written at once, and then the time for each further one.
const BURST: u32 = 10;
const ONE_EVENT: Duration = Duration::from_secs(60);
/// Most events that wait; the oldest is dropped first.
const WAITING: usize = 20;
/// Events that are remembered, so that a repeated one is counted.
const REMEMBERED: usize = 50;

/// What the outlet writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeOutletSwitches {
    /// The condition.
    pub condition: bool,
    /// The events.
    pub events: bool,
}

/// The credential and the Node to write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeWriter {
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// The Node's name.
    pub node: String,
}

/// What the outlet gets from the daemon.
pub trait NodeOutletContext: Send + Sync + 'static {
    /// The published configuration.
    fn switches(&self) -> NodeOutletSwitches;

    /// The node's role and name now: it can be promoted.
    fn writer(&self) -> BoxFuture<'_, NodeWriter>;

    /// The time.
    fn now(&self) -> Timestamp;
}

/// Writes until the publisher of the status is gone, and then that the state is unknown.
pub async fn serve(
    api: ApiServer,
    context: Arc<dyn NodeOutletContext>,
    mut configured: watch::Receiver<impl Send + Sync>,
    mut status: watch::Receiver<Option<Arc<Status>>>,
) {
    let mut outlet = NodeOutlet::new(api, context);
    loop {
        let current = status.borrow_and_update().clone();
        if let Some(current) = current {
            outlet.observe(&current);
        }
        outlet.write_if_due().await;
        let due = outlet.due();
        tokio::select! {
            changed = status.changed() => if changed.is_err() { break },
            Ok(()) = configured.changed() => outlet.configured(),
            () = async { match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
    outlet.write_stopped().await;
}

/// Removes the condition from the Node, when Windrow is removed.
///
/// # Errors
///
/// Why it is still there, in a line.
pub async fn remove_condition(api: &ApiServer, writer: &NodeWriter) -> Result<(), String> {
    let client = api.client(&writer.kubeconfig).await?;
    let path = format!("/api/v1/nodes/{}/status", writer.node);
    match send(
        &client,
        Method::PATCH,
        &path,
        Some(&NodeCondition::removal()),
    )
    .await
    {
        Ok(_) | Err(WriteError::Missing) => Ok(()),
        Err(WriteError::Refused(why)) => Err(why),
        Err(WriteError::Invalid | WriteError::Down) => {
            Err("kube-apiserver does not answer".to_owned())
        }
    }
}

/// An event that was written, so that it can be counted.
struct SentEvent {
    notice: Notice,
    name: String,
    count: u32,
}

/// The state of the Node, as far as this process wrote it.
struct WrittenCondition {
    condition: NodeCondition,
    transition: Timestamp,
    at: Instant,
}

struct NodeOutlet {
    api: ApiServer,
    context: Arc<dyn NodeOutletContext>,
    switches: NodeOutletSwitches,
    /// The connection, while it works.
    writer: Option<NodeWriter>,
    last: Option<Arc<Status>>,
    wanted: Option<NodeCondition>,
    written: Option<WrittenCondition>,
    waiting: VecDeque<(Notice, Timestamp)>,
    sent: VecDeque<SentEvent>,
    /// How many events may be written now, and when one more may.
    tokens: u32,
    refill: Instant,
    heartbeat: Duration,
    /// Nothing is written before this time, after a failure.
    pause: Option<Instant>,
    next_pause: Duration,
    reported: Option<String>,
}

/// Why something was not written.
enum WriteError {
    /// The credential is not allowed to.
    Refused(String),
    /// The object does not exist.
    Missing,
    /// It will be refused however often it is sent.
    Invalid,
    /// Anything else: no answer, no credential yet, an error of the server.
    Down,
}

impl NodeOutlet {
    fn new(api: ApiServer, context: Arc<dyn NodeOutletContext>) -> Self {
        Self {
            api,
            switches: context.switches(),
            context,
            writer: None,
            last: None,
            wanted: None,
            written: None,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            tokens: BURST,
            refill: Instant::now(),
            heartbeat: spread(HEARTBEAT),
            pause: None,
            next_pause: PAUSES.0,
            reported: None,
        }
    }

    /// Takes a new status.
    fn observe(&mut self, status: &Arc<Status>) {
        if self
            .last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, status))
        {
            return;
        }
        self.wanted = Some(NodeCondition::from_status(status));
        if self.switches.events {
            let now = self.context.now();
            for notice in notices(self.last.as_deref(), status) {
                if !self.waiting.iter().any(|(waiting, _)| *waiting == notice) {
                    self.waiting.push_back((notice, now));
                }
            }
            while self.waiting.len() > WAITING {
                self.waiting.pop_front();
            }
        }
        self.last = Some(status.clone());
    }

    /// The configuration was read again: a refusal may have ended.
    fn configured(&mut self) {
        self.switches = self.context.switches();
        if !self.switches.events {
            self.waiting.clear();
        }
        self.pause = None;
        self.writer = None;
    }

    /// When something has to be written, if nothing changes until then.
    fn due(&self) -> Option<Instant> {
        let condition = match (&self.wanted, &self.written) {
            (_, Some(_)) if !self.switches.condition => Some(Instant::now()),
            (Some(_), None) if self.switches.condition => Some(Instant::now()),
            (Some(wanted), Some(written)) if self.switches.condition => Some(
                if (wanted.status, &wanted.reason)
                    != (written.condition.status, &written.condition.reason)
                {
                    Instant::now()
                } else if *wanted == written.condition {
                    written.at + self.heartbeat
                } else {
                    written.at + MESSAGE
                },
            ),
            _ => None,
        };
        let events = (!self.waiting.is_empty()).then(|| match self.tokens {
            0 => self.refill + ONE_EVENT,
            _ => Instant::now(),
        });
        let due = [condition, events].into_iter().flatten().min()?;
        Some(self.pause.map_or(due, |pause| due.max(pause)))
    }

    async fn write_if_due(&mut self) {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        match self.write().await {
            Ok(()) => {
                self.pause = None;
                self.next_pause = PAUSES.0;
            }
            Err(WriteError::Refused(what)) => {
                self.refused(&what);
                self.pause = Some(Instant::now() + spread(REFUSED));
            }
            Err(WriteError::Missing | WriteError::Invalid | WriteError::Down) => {
                // The node may have been promoted.
                self.writer = None;
                self.pause = Some(Instant::now() + spread(self.next_pause));
                self.next_pause = (self.next_pause * 2).min(PAUSES.1);
            }
        }
    }

    async fn write(&mut self) -> Result<(), WriteError> {
        if !self.switches.condition && self.written.is_some() {
            self.patch_node(&NodeCondition::removal()).await?;
            self.written = None;
        }
        if self.switches.condition
            && let Some(wanted) = self.wanted.clone()
            && self.condition_is_due(&wanted)
        {
            self.write_condition(wanted).await?;
        }
        self.refill();
        while self.tokens > 0
            && let Some((notice, at)) = self.waiting.front().cloned()
        {
            match self.write_event(notice, at).await {
                Ok(()) | Err(WriteError::Invalid) => {}
                Err(trouble) => return Err(trouble),
            }
            self.waiting.pop_front();
            self.tokens -= 1;
        }
        Ok(())
    }

    fn condition_is_due(&self, wanted: &NodeCondition) -> bool {
        self.written.as_ref().is_none_or(|written| {
            let age = written.at.elapsed();
            (wanted.status, &wanted.reason) != (written.condition.status, &written.condition.reason)
                || (*wanted != written.condition && age >= MESSAGE)
                || age >= self.heartbeat
        })
    }

    async fn write_condition(&mut self, wanted: NodeCondition) -> Result<(), WriteError> {
        let now = self.context.now();
        let standing = match &self.written {
            Some(written) => Some((written.condition.status.to_owned(), written.transition)),
            // The condition that an earlier run of the daemon left there.
            None => {
                let (client, writer) = self.connect().await?;
                let path = format!("/api/v1/nodes/{}", writer.node);
                condition_on_node(&send(&client, Method::GET, &path, None).await?)
            }
        };
        let transition = match standing {
            Some((status, since)) if status == wanted.status => since,
            _ => now,
        };
        self.patch_node(&wanted.patch(now, transition)).await?;
        self.written = Some(WrittenCondition {
            condition: wanted,
            transition,
            at: Instant::now(),
        });
        self.heartbeat = spread(HEARTBEAT);
        Ok(())
    }

    async fn patch_node(&mut self, patch: &Value) -> Result<(), WriteError> {
        let (client, writer) = self.connect().await?;
        let path = format!("/api/v1/nodes/{}/status", writer.node);
        send(&client, Method::PATCH, &path, Some(patch)).await?;
        Ok(())
    }

    async fn write_event(&mut self, notice: Notice, at: Timestamp) -> Result<(), WriteError> {
        const EVENTS: &str = "/api/v1/namespaces/default/events";
        let (client, writer) = self.connect().await?;
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.notice == notice) {
            let patch = Notice::again(sent.count + 1, at);
            let path = format!("{EVENTS}/{}", sent.name);
            match send(&client, Method::PATCH, &path, Some(&patch)).await {
                Ok(_) => {
                    sent.count += 1;
                    return Ok(());
                }
                // kube-apiserver keeps events for an hour.
                Err(WriteError::Missing) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        self.sent.retain(|sent| sent.notice != notice);
        // As the kubelet names them: unique, because no two are made in one nanosecond.
        let name = format!("{}.{:x}", writer.node, self.context.now().as_nanosecond());
        let event = notice.event(&name, &writer.node, at);
        send(&client, Method::POST, EVENTS, Some(&event)).await?;
        self.sent.push_back(SentEvent {
            notice,
            name,
            count: 1,
        });
        while self.sent.len() > REMEMBERED {
            self.sent.pop_front();
        }
        Ok(())
    }

    fn refill(&mut self) {
        while self.tokens < BURST && self.refill.elapsed() >= ONE_EVENT {
            self.refill += ONE_EVENT;
            self.tokens += 1;
        }
        if self.tokens == BURST {
            self.refill = Instant::now();
        }
    }

    async fn connect(&mut self) -> Result<(Client, NodeWriter), WriteError> {
        let writer = match &self.writer {
            Some(writer) => writer.clone(),
            None => {
                let asked = timeout(PATIENCE, self.context.writer()).await;
                asked.map_err(|_| WriteError::Down)?
            }
        };
        if writer.node.is_empty() {
            return Err(WriteError::Down);
        }
        let client = self.api.client(&writer.kubeconfig).await;
        let client = client.map_err(|_| WriteError::Down)?;
        self.writer = Some(writer.clone());
        Ok((client, writer))
    }

    /// Writes each refusal to the journal once, because it repeats.
    fn refused(&mut self, what: &str) {
        if self.reported.as_deref() == Some(what) {
            return;
        }
        self.reported = Some(what.to_owned());
        let (what, why) = what.split_once(": ").unwrap_or((what, ""));
        journal::write_event(&Event {
            code: Code::Forbidden,
            file: None,
            message: Code::Forbidden.say(&[("what", what), ("why", why)]),
        });
    }

    /// Once it is not kept true, the condition must not keep its last value.
    async fn write_stopped(&mut self) {
        if self.written.is_none() || !self.switches.condition {
            return;
        }
        // Windrow stops whether or not this can be written: an old heartbeat shows the same.
        let _ = self.write_condition(NodeCondition::stopped()).await;
    }
}

/// One request, and its answer.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, WriteError> {
    let mut request = Request::builder().method(method.clone()).uri(path);
    request = match method {
        Method::PATCH => request.header(
            http::header::CONTENT_TYPE,
            "application/strategic-merge-patch+json",
        ),
        _ => request.header(http::header::CONTENT_TYPE, "application/json"),
    };
    let body = body.map_or_else(Body::empty, |body| {
        Body::from(body.to_string().into_bytes())
    });
    let request = request.body(body).map_err(|_| WriteError::Down)?;
    let answer = timeout(PATIENCE, async {
        let response = client.send(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        Ok::<_, kube::Error>((status, body))
    });
    let (status, body) = answer
        .await
        .map_err(|_| WriteError::Down)?
        .map_err(|_| WriteError::Down)?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    match status {
        200..300 => Ok(value),
        403 => {
            let why = redact::message(value["message"].as_str().unwrap_or("403"));
            Err(WriteError::Refused(format!("{method} {path}: {why}")))
        }
        404 => Err(WriteError::Missing),
        400 | 409 | 413 | 422 => Err(WriteError::Invalid),
        _ => Err(WriteError::Down),
    }
}
