//! The cluster: condition `WindrowBootstrap` on the own Node, and Events about it, for
//! `kubectl describe node`.
//!
//! ```text
//!   Status ──> condition (the newest only) ──┐
//!          └─> events (a short queue) ───────┴─> due? ──> kube-apiserver ──> written
//!                                                 ^             │
//!                                                 └── pause <───┘ down 1 to 30 s, refused 30 min
//! ```
//!
//! A change of status or reason is written at once, a change of the message alone at most every 30
//! seconds, and what stays as it is every ten minutes (the kubelet writes its own every five): from an
//! older heartbeat a reader knows that nobody keeps the condition true. When Windrow stops it says
//! `Unknown` itself. The requests are those that a node identity may make, whoever makes them.

mod say;

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

use self::say::{Condition, Notice, notices, standing};
use super::journal;
use crate::apiserver::ApiServer;
use crate::backoff::spread;

/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a condition that stays as it is is written anew.
const HEARTBEAT: Duration = Duration::from_secs(10 * 60);
/// How long another message of the same reason waits.
const MESSAGE: Duration = Duration::from_secs(30);
/// First and longest pause while kube-apiserver, the credential or the Node is not there.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long a refusal counts.
const REFUSED: Duration = Duration::from_secs(30 * 60);
/// So many events may come at once, and then one in so long.
const BURST: u32 = 10;
const ONE_EVENT: Duration = Duration::from_secs(60);
/// Most events that wait; the oldest goes first.
const WAITING: usize = 20;
/// How many of the last events are remembered, to be counted when they come again.
const REMEMBERED: usize = 50;

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// The condition.
    pub condition: bool,
    /// The events.
    pub events: bool,
}

/// Who writes, and on which Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// The Node's name.
    pub node: String,
}

/// What the outlet asks of the daemon.
pub trait Desk: Send + Sync + 'static {
    /// What the configuration says now.
    fn switches(&self) -> Switches;

    /// Who the node is now: it can be promoted.
    fn subject(&self) -> BoxFuture<'_, Subject>;

    /// The time.
    fn now(&self) -> Timestamp;
}

/// Writes until nobody publishes the status any more, and then that nothing is known.
pub async fn serve(
    api: ApiServer,
    desk: Arc<dyn Desk>,
    mut configured: watch::Receiver<impl Send + Sync>,
    mut status: watch::Receiver<Option<Arc<Status>>>,
) {
    let mut outlet = Outlet::new(api, desk);
    loop {
        let current = status.borrow_and_update().clone();
        if let Some(current) = current {
            outlet.take(&current);
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
    outlet.last_words().await;
}

/// Takes the condition away from the Node, for the removal of Windrow.
///
/// # Errors
///
/// Why it is still there, in a line.
pub async fn take_back(api: &ApiServer, subject: &Subject) -> Result<(), String> {
    let client = api.client(&subject.kubeconfig).await?;
    let path = format!("/api/v1/nodes/{}/status", subject.node);
    match send(&client, Method::PATCH, &path, Some(&Condition::removal())).await {
        Ok(_) | Err(Trouble::Missing) => Ok(()),
        Err(Trouble::Refused(why)) => Err(why),
        Err(Trouble::Invalid | Trouble::Down) => Err("kube-apiserver does not answer".to_owned()),
    }
}

/// An event that was written, so that it can be counted.
struct Sent {
    notice: Notice,
    name: String,
    count: u32,
}

/// What stands on the Node, as far as this process wrote it.
struct Written {
    condition: Condition,
    transition: Timestamp,
    at: Instant,
}

struct Outlet {
    api: ApiServer,
    desk: Arc<dyn Desk>,
    switches: Switches,
    /// Who writes, while it goes well.
    subject: Option<Subject>,
    last: Option<Arc<Status>>,
    wanted: Option<Condition>,
    written: Option<Written>,
    waiting: VecDeque<(Notice, Timestamp)>,
    sent: VecDeque<Sent>,
    /// Events that may be written now, and when one more may.
    tokens: u32,
    refill: Instant,
    heartbeat: Duration,
    /// Not before; after something went wrong.
    pause: Option<Instant>,
    next_pause: Duration,
    told: Option<String>,
}

/// Why something was not written.
enum Trouble {
    /// The credential may not.
    Refused(String),
    /// The object is not there.
    Missing,
    /// It will not be taken, however often it is sent.
    Invalid,
    /// Anything else: nobody there, no credential yet, an error of the server.
    Down,
}

impl Outlet {
    fn new(api: ApiServer, desk: Arc<dyn Desk>) -> Self {
        Self {
            api,
            switches: desk.switches(),
            desk,
            subject: None,
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
            told: None,
        }
    }

    /// Takes a status in.
    fn take(&mut self, status: &Arc<Status>) {
        if self
            .last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, status))
        {
            return;
        }
        self.wanted = Some(Condition::of(status));
        if self.switches.events {
            let now = self.desk.now();
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

    /// The configuration was read anew: a refusal may be a thing of the past too.
    fn configured(&mut self) {
        self.switches = self.desk.switches();
        if !self.switches.events {
            self.waiting.clear();
        }
        self.pause = None;
        self.subject = None;
    }

    /// When something has to be written, if nothing happens until then.
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
            Err(Trouble::Refused(what)) => {
                self.refused(&what);
                self.pause = Some(Instant::now() + spread(REFUSED));
            }
            Err(Trouble::Missing | Trouble::Invalid | Trouble::Down) => {
                // The node may have been promoted.
                self.subject = None;
                self.pause = Some(Instant::now() + spread(self.next_pause));
                self.next_pause = (self.next_pause * 2).min(PAUSES.1);
            }
        }
    }

    async fn write(&mut self) -> Result<(), Trouble> {
        if !self.switches.condition && self.written.is_some() {
            self.patch_node(&Condition::removal()).await?;
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
                Ok(()) | Err(Trouble::Invalid) => {}
                Err(trouble) => return Err(trouble),
            }
            self.waiting.pop_front();
            self.tokens -= 1;
        }
        Ok(())
    }

    fn condition_is_due(&self, wanted: &Condition) -> bool {
        self.written.as_ref().is_none_or(|written| {
            let age = written.at.elapsed();
            (wanted.status, &wanted.reason) != (written.condition.status, &written.condition.reason)
                || (*wanted != written.condition && age >= MESSAGE)
                || age >= self.heartbeat
        })
    }

    async fn write_condition(&mut self, wanted: Condition) -> Result<(), Trouble> {
        let now = self.desk.now();
        let standing = match &self.written {
            Some(written) => Some((written.condition.status.to_owned(), written.transition)),
            // What an earlier run of the daemon left there.
            None => {
                let (client, subject) = self.connect().await?;
                let path = format!("/api/v1/nodes/{}", subject.node);
                standing(&send(&client, Method::GET, &path, None).await?)
            }
        };
        let transition = match standing {
            Some((status, since)) if status == wanted.status => since,
            _ => now,
        };
        self.patch_node(&wanted.patch(now, transition)).await?;
        self.written = Some(Written {
            condition: wanted,
            transition,
            at: Instant::now(),
        });
        self.heartbeat = spread(HEARTBEAT);
        Ok(())
    }

    async fn patch_node(&mut self, patch: &Value) -> Result<(), Trouble> {
        let (client, subject) = self.connect().await?;
        let path = format!("/api/v1/nodes/{}/status", subject.node);
        send(&client, Method::PATCH, &path, Some(patch)).await?;
        Ok(())
    }

    async fn write_event(&mut self, notice: Notice, at: Timestamp) -> Result<(), Trouble> {
        const EVENTS: &str = "/api/v1/namespaces/default/events";
        let (client, subject) = self.connect().await?;
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.notice == notice) {
            let patch = Notice::again(sent.count + 1, at);
            let path = format!("{EVENTS}/{}", sent.name);
            match send(&client, Method::PATCH, &path, Some(&patch)).await {
                Ok(_) => {
                    sent.count += 1;
                    return Ok(());
                }
                // kube-apiserver keeps events for an hour.
                Err(Trouble::Missing) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        self.sent.retain(|sent| sent.notice != notice);
        // As the kubelet names them: unique, because no two are made in one nanosecond.
        let name = format!("{}.{:x}", subject.node, self.desk.now().as_nanosecond());
        let event = notice.event(&name, &subject.node, at);
        send(&client, Method::POST, EVENTS, Some(&event)).await?;
        self.sent.push_back(Sent {
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

    async fn connect(&mut self) -> Result<(Client, Subject), Trouble> {
        let subject = match &self.subject {
            Some(subject) => subject.clone(),
            None => {
                let asked = timeout(PATIENCE, self.desk.subject()).await;
                asked.map_err(|_| Trouble::Down)?
            }
        };
        if subject.node.is_empty() {
            return Err(Trouble::Down);
        }
        let client = self.api.client(&subject.kubeconfig).await;
        let client = client.map_err(|_| Trouble::Down)?;
        self.subject = Some(subject.clone());
        Ok((client, subject))
    }

    /// Once for each refusal: it goes on being refused.
    fn refused(&mut self, what: &str) {
        if self.told.as_deref() == Some(what) {
            return;
        }
        self.told = Some(what.to_owned());
        let (what, why) = what.split_once(": ").unwrap_or((what, ""));
        journal::tell(&Event {
            code: Code::Forbidden,
            file: None,
            message: Code::Forbidden.say(&[("what", what), ("why", why)]),
        });
    }

    /// A condition that nobody keeps true must not go on saying what was true.
    async fn last_words(&mut self) {
        if self.written.is_none() || !self.switches.condition {
            return;
        }
        // Whether it can be written or not, Windrow stops: the heartbeat tells too.
        let _ = self.write_condition(Condition::stopped()).await;
    }
}

/// One request, and its answer.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Trouble> {
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
    let request = request.body(body).map_err(|_| Trouble::Down)?;
    let answer = timeout(PATIENCE, async {
        let response = client.send(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        Ok::<_, kube::Error>((status, body))
    });
    let (status, body) = answer
        .await
        .map_err(|_| Trouble::Down)?
        .map_err(|_| Trouble::Down)?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    match status {
        200..300 => Ok(value),
        403 => {
            let why = redact::message(value["message"].as_str().unwrap_or("403"));
            Err(Trouble::Refused(format!("{method} {path}: {why}")))
        }
        404 => Err(Trouble::Missing),
        400 | 409 | 413 | 422 => Err(Trouble::Invalid),
        _ => Err(Trouble::Down),
    }
}
