//! What the parts of a session share: its connection, the channel for events, its tasks, and the reasons why requests
//! fail.

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use windrow_decide::ClusterEvent;
use windrow_model::redact;

use crate::apiserver::Connection;
use crate::causes;

/// How long a request may take. Watches last longer, and are bounded in `follow`.
const ANSWER: Duration = Duration::from_secs(15);

/// Receives every observation.
pub(super) type Events = mpsc::Sender<ClusterEvent>;

/// A session with kube-apiserver under one credential.
pub(super) struct ApiSession {
    pub(super) connection: Connection,
    pub(super) events: Events,
    /// A failure that raises doubt whether kube-apiserver is there.
    pub(super) doubt: Notify,
    /// One of the session's tasks panicked.
    pub(super) panicked: Notify,
}

impl ApiSession {
    pub(super) fn new(connection: Connection, events: Events) -> Self {
        Self {
            connection,
            events,
            doubt: Notify::new(),
            panicked: Notify::new(),
        }
    }

    pub(super) fn client(&self) -> Client {
        self.connection.client().clone()
    }

    /// See [`answer`].
    pub(super) async fn answer<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, RequestFailure> {
        answer(&self.connection, request).await
    }
}

/// The answer to a request. The time that kube-apiserver asks to be left alone does not count.
///
/// # Errors
///
/// Why no answer came within [`ANSWER`].
pub(super) async fn answer<T>(
    connection: &Connection,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestFailure> {
    connection.wait().await;
    match timeout(ANSWER, request).await {
        Ok(answer) => answer.map_err(|error| RequestFailure::from_error(&error)),
        Err(_) => Err(RequestFailure {
            why: format!("no answer within {} s", ANSWER.as_secs()),
            status: None,
        }),
    }
}

/// A task of a session. It ends with this handle.
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

/// Why a request failed.
pub(super) struct RequestFailure {
    /// In a line.
    pub(super) why: String,
    /// The HTTP status, where there was an answer.
    status: Option<u16>,
}

impl RequestFailure {
    pub(super) fn from_error(error: &kube::Error) -> Self {
        Self {
            why: explain(error),
            status: match error {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
        }
    }

    /// The credential itself is refused.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.status == Some(401)
    }

    pub(super) fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.status == Some(404)
    }

    /// The requested version is too old.
    pub(super) fn is_gone(&self) -> bool {
        self.status == Some(410)
    }

    /// Is it about the credential (401), or about the server (5xx, no answer)? Other answers are about this one request.
    pub(super) fn is_doubtful(&self) -> bool {
        self.status
            .is_none_or(|status| status == 401 || status >= 500)
    }
}

/// An error in a line: the status in kube-apiserver's words, or the chain of causes. Values that it quotes, which may
/// be secrets, are cut here, before the text reaches any outlet.
pub(in crate::observe) fn explain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let reason = if status.reason.is_empty() {
            "error"
        } else {
            &status.reason
        };
        let message = redact::message(&status.message);
        return format!("{} {reason}: {message}", status.code);
    }
    if let kube::Error::Service(error) = error {
        return causes::in_words(&**error);
    }
    let mut chain = vec![error.to_string()];
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many errors repeat the words of their cause.
        if !chain.iter().any(|known| known.contains(&text)) {
            chain.push(text);
        }
        cause = error.source();
    }
    chain.join(": ")
}
