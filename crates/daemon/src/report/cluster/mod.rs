//! The cluster: condition `windrow.dev/BootstrapIncomplete` on the node's own Node, with an annotation for the details,
//! and Events, for `kubectl describe node`.
//!
//! [`NodeOutletPolicy`] decides on the writes and their times; here they are sent.
//!
//! A change of status or reason is written at once, a change of only the message or the annotation at most every 30
//! seconds, and an unchanged condition every ten minutes (the kubelet writes its own every five). An older heartbeat
//! shows a reader that Windrow no longer keeps the condition true. When Windrow stops, it writes `Unknown`. With any
//! credential, it only sends requests that a node identity may send.

mod annotation;
mod content;
mod policy;
#[cfg(test)]
mod promotion_tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use windrow_decide::Event;
use windrow_harvester::SystemPartition;
use windrow_harvester::objects::ObjectKind;
use windrow_model::reasons::Code;

use self::content::{NodeCondition, Notice};
use self::policy::Work;
pub use self::policy::{NodeOutletPolicy, OutletRequest, WriteError};
use super::journal;
use crate::apiserver::{self, ApiServer, LONGEST};
use crate::report::publish::StatusWatch;

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeOutletSwitches {
    pub condition: bool,
    pub events: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeWriter {
    pub kubeconfig: PathBuf,
    pub node: String,
}

pub trait NodeOutletContext: Send + Sync + 'static {
    fn switches(&self) -> NodeOutletSwitches;

    fn writer(&self) -> BoxFuture<'_, NodeWriter>;

    fn client(&self, kubeconfig: &Path) -> BoxFuture<'_, Result<Client, String>>;

    fn system_partition(&self) -> Option<SystemPartition> {
        None
    }

    fn now(&self) -> Timestamp;
}

/// Writes until the publisher of the status is gone, and then that the state is unknown.
pub async fn serve(
    context: Arc<dyn NodeOutletContext>,
    mut configured: watch::Receiver<impl Send + Sync>,
    mut status: StatusWatch,
) {
    let mut outlet = NodeOutlet::new(context);
    loop {
        let current = status.borrow_and_update().clone();
        if let Some(current) = current {
            let partition = outlet.context.system_partition();
            outlet.policy.observe_partition(partition);
            outlet.policy.observe(&current.status, outlet.context.now());
        }
        outlet.write_if_due().await;
        let due = outlet.policy.due(Instant::now());
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
    let path = format!("{}/status", ObjectKind::NODE.object_path("", &writer.node));
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

struct NodeOutlet {
    context: Arc<dyn NodeOutletContext>,
    policy: NodeOutletPolicy,
    writer: Option<NodeWriter>,
    reported: Option<String>,
}

impl NodeOutlet {
    fn new(context: Arc<dyn NodeOutletContext>) -> Self {
        Self {
            policy: NodeOutletPolicy::new(context.switches(), Instant::now()),
            context,
            writer: None,
            reported: None,
        }
    }

    fn configured(&mut self) {
        self.policy.configured(self.context.switches());
        self.writer = None;
    }

    async fn write_if_due(&mut self) {
        while let Some(request) = self.policy.next(Instant::now(), self.context.now()) {
            let answer = self.send(&request.0).await;
            match &answer {
                Ok(_) => {}
                Err(WriteError::Refused(what)) => self.refused(what),
                // The node may have been promoted.
                Err(_) => self.writer = None,
            }
            self.policy.answered(request, &answer, Instant::now());
        }
    }

    async fn send(&mut self, work: &Work) -> Result<Value, WriteError> {
        let (client, writer) = self.connect().await?;
        let node = &writer.node;
        let path = ObjectKind::NODE.object_path("", node);
        let status = format!("{path}/status");
        // As the kubelet names events.
        let named = |suffix: &str| format!("{node}.{suffix}");
        let (method, path, body) = match work {
            Work::ReadNode => (Method::GET, path, None),
            Work::WriteCondition {
                condition,
                heartbeat,
                transition,
            } => {
                let patch = condition.patch(*heartbeat, *transition);
                (Method::PATCH, status, Some(patch))
            }
            Work::RemoveCondition => (Method::PATCH, status, Some(NodeCondition::removal())),
            Work::CreateEvent { notice, at, suffix } => {
                let event = notice.event(&named(suffix), node, *at);
                (
                    Method::POST,
                    ObjectKind::EVENT.path_in("default"),
                    Some(event),
                )
            }
            Work::CountEvent { suffix, count, at } => {
                let path = ObjectKind::EVENT.object_path("default", &named(suffix));
                (Method::PATCH, path, Some(Notice::again(*count, *at)))
            }
        };
        send(&client, method, &path, body.as_ref()).await
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
        let client = self.context.client(&writer.kubeconfig).await;
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

    async fn write_stopped(&mut self) {
        if let Some(request) = self.policy.stopped(self.context.now()) {
            // Windrow stops whether or not this can be written: an old heartbeat shows the same.
            let _ = self.send(&request.0).await;
        }
    }
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, WriteError> {
    let content_type = match method {
        Method::PATCH => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header(CONTENT_TYPE, content_type)
        .body(body.map_or_else(Body::empty, |body| {
            Body::from(body.to_string().into_bytes())
        }));
    let reply = apiserver::send(client, request, PATIENCE, LONGEST).await;
    let reply = reply.map_err(|_| WriteError::Down)?;
    match reply.status {
        200..300 => Ok(reply.value().unwrap_or_default()),
        403 => {
            let why = reply.refusal();
            Err(WriteError::Refused(format!("{method} {path}: {why}")))
        }
        404 => Err(WriteError::Missing),
        400 | 409 | 413 | 422 => Err(WriteError::Invalid),
        _ => Err(WriteError::Down),
    }
}
