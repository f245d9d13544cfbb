//! State shared by the parts of a session: its connection, the channel for events, and its tasks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kube::Client;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use windrow_decide::ClusterEvent;

use crate::apiserver::{Connection, RequestFailure, answer};

pub(super) type Events = mpsc::Sender<ClusterEvent>;

/// A session with kube-apiserver under one credential.
pub(super) struct ApiSession {
    pub(super) connection: Connection,
    pub(super) events: Events,
    /// A failure that raises doubt whether kube-apiserver answers.
    pub(super) doubt: Notify,
    pub(super) kind_gone: Notify,
    pub(super) panicked: Notify,
}

impl ApiSession {
    pub(super) fn new(connection: Connection, events: Events) -> Self {
        Self {
            connection,
            events,
            doubt: Notify::new(),
            kind_gone: Notify::new(),
            panicked: Notify::new(),
        }
    }

    pub(super) fn client(&self) -> Client {
        self.connection.watching_client()
    }

    /// Sends observations; false when the receiver is gone.
    pub(super) async fn send(&self, events: Vec<ClusterEvent>) -> bool {
        for event in events {
            if self.events.send(event).await.is_err() {
                return false;
            }
        }
        true
    }

    pub(super) async fn answer<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, RequestFailure> {
        answer(&self.connection, request).await
    }
}

pub(super) struct SessionTask(AbortHandle);

impl SessionTask {
    /// A panic of `work` ends the session: its objects would keep their last state.
    pub(super) fn start(
        session: &Arc<ApiSession>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let session = session.clone();
        let task = async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                session.panicked.notify_one();
            }
        };
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for SessionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
