//! A session with kube-apiserver under one credential: begins when it answers, ends when the
//! credential is refused or changes on disk.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use windrow_decide::{ClusterEvent, Interests};
use windrow_model::redact;

use super::{ANSWER, Events, interests};
use crate::apiserver::Connection;
use crate::backoff::{Backoff, spread};

/// How often it is looked whether the credential has changed: RKE2 renews its certificates when it
/// starts.
const LOOK: Duration = Duration::from_secs(30);

/// Why a session ended.
pub(super) enum End {
    /// Nobody listens any more.
    Closed,
    /// The kubeconfig is another one.
    CredentialChanged,
    /// kube-apiserver refuses the credential.
    Refused(String),
    /// One of its tasks panicked.
    Panicked,
}

/// How a session went.
pub(super) struct Ended {
    /// Was it ever answered?
    pub(super) answered: bool,
    pub(super) end: End,
}

/// What the parts of a session share.
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) events: Events,
    /// Something failed in a way that lets one doubt whether kube-apiserver is there.
    pub(super) doubt: Notify,
    /// One of the session's tasks panicked.
    pub(super) panicked: Notify,
}

impl Shared {
    pub(super) fn client(&self) -> Client {
        self.connection.client().clone()
    }

    /// The answer to a request, or that there is none within [`ANSWER`]; as long as kube-apiserver asks to
    /// be left alone does not count.
    pub(super) async fn answer<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<kube::Result<T>, String> {
        self.connection.wait().await;
        timeout(ANSWER, request)
            .await
            .map_err(|_| format!("no answer within {} s", ANSWER.as_secs()))
    }
}

/// Runs a session. What it started ends with it.
pub(super) async fn session(
    connection: Connection,
    interests: &watch::Receiver<Interests>,
    events: &Events,
) -> Ended {
    let shared = Arc::new(Shared {
        connection,
        events: events.clone(),
        doubt: Notify::new(),
        panicked: Notify::new(),
    });
    // Nothing is asked before kube-apiserver answers at all.
    if let Some(end) = until_answered(&shared).await {
        return Ended {
            answered: false,
            end,
        };
    }
    let watches = interests::watches(&shared, interests.clone());
    let health = health(&shared);
    let end = tokio::select! {
        end = health => end,
        () = watches => End::Closed,
        () = shared.panicked.notified() => End::Panicked,
        () = events.closed() => End::Closed,
    };
    Ended {
        answered: true,
        end,
    }
}

/// Watches over the credential, and asks whether kube-apiserver is there whenever it is doubted.
async fn health(shared: &Shared) -> End {
    loop {
        let doubted = timeout(spread(LOOK), shared.doubt.notified()).await.is_ok();
        if !shared.connection.is_current() {
            return End::CredentialChanged;
        }
        if doubted && let Some(end) = until_answered(shared).await {
            return end;
        }
    }
}

/// Asks until kube-apiserver answers, and tells both.
async fn until_answered(shared: &Shared) -> Option<End> {
    let mut pauses = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
    let mut said = None;
    loop {
        let event = match version(shared).await {
            Ok(()) => ClusterEvent::ApiReachable,
            Err(Answer::Refused(why)) => return Some(End::Refused(why)),
            Err(Answer::None(why)) => ClusterEvent::ApiUnreachable { why },
        };
        let answered = event == ClusterEvent::ApiReachable;
        if said.as_ref() != Some(&event) {
            said = Some(event.clone());
            if shared.events.send(event).await.is_err() {
                return Some(End::Closed);
            }
        }
        if answered {
            return None;
        }
        pauses.wait().await;
        if !shared.connection.is_current() {
            return Some(End::CredentialChanged);
        }
    }
}

enum Answer {
    Refused(String),
    None(String),
}

/// Every identity may ask for the version.
async fn version(shared: &Shared) -> Result<(), Answer> {
    match shared.answer(shared.client().apiserver_version()).await {
        Ok(Ok(_)) => Ok(()),
        // What kind of credential it is decides what may be asked; that it answers is enough.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Ok(()),
        Ok(Err(error)) if is_unauthorized(&error) => Err(Answer::Refused(explain(&error))),
        Ok(Err(error)) => Err(Answer::None(explain(&error))),
        Err(late) => Err(Answer::None(late)),
    }
}

/// Is the credential itself refused?
pub(super) fn is_unauthorized(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

/// An error in a line: the status as kube-apiserver words it, or the chain of causes. What it quotes of an
/// object, which may be a secret, is cut here: everything that Windrow says goes on from here.
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
    let mut said = vec![error.to_string()];
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many errors repeat their cause's words.
        if !said.iter().any(|known| known.contains(&text)) {
            said.push(text);
        }
        cause = error.source();
    }
    said.join(": ")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// Refuses everything, which is an answer, and breaks when RKE2's Addons are asked for.
    async fn breaks(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        assert!(!path.ends_with("/addons"), "as a bug would");
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}"#;
        let mut response = Response::new(Body::from(status.as_bytes().to_vec()));
        *response.status_mut() = http::StatusCode::FORBIDDEN;
        Ok(response)
    }

    #[tokio::test]
    async fn a_watch_that_panics_ends_the_session() {
        let connection = Connection::of(Client::new(tower::service_fn(breaks), "default"));
        let (_interests, interests) = watch::channel(Interests::default());
        let (events, mut seen) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move { while seen.recv().await.is_some() {} });
        let session = session(connection, &interests, &events);
        let ended = timeout(Duration::from_secs(300), session).await;
        let ended = ended.expect("the session goes on");
        assert!(ended.answered && matches!(ended.end, End::Panicked));
    }
}
