//! The requests of a cure: each is sent only while the object still is as it was diagnosed, or only tried.

use std::io;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use windrow_harvester::incidents::{CureRequest, RequestState};
use windrow_harvester::objects::{ObjectKind, text};

use crate::apiserver::{self, LONGEST, Reply, RequestFailure, if_found};

pub(in crate::act) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq)]
pub enum RequestOutcome {
    /// kube-apiserver took it, and answered with this object.
    Taken(Value),
    Applied,
    /// Another client has changed the object since it was diagnosed; the change, in a line.
    Outdated(String),
    /// kube-apiserver or a webhook refuses it, in its words.
    Refused(String),
    /// No answer that says anything about the request.
    Unanswered(String),
}

/// Asks kube-apiserver, and through it the webhooks, whether it would take the request (`dryRun=All`). Nothing is changed.
pub async fn try_out(client: &Client, request: &CureRequest) -> RequestOutcome {
    match judge(client, request).await {
        Ok((RequestState::Due, _)) => {
            let (url, body) = request.as_trial();
            let answer = send_change(client, request, &url, &body).await;
            outcome(client, request, answer).await
        }
        Ok((state, _)) => settled(state),
        Err(why) => RequestOutcome::Unanswered(why),
    }
}

#[derive(Debug)]
pub(super) enum NotSent {
    Record(io::Error),
    /// The cluster's note of the changes to restore could not be written; why, in a line.
    Note(String),
}

/// Makes the request, unless it was made before or the object has changed. `note` gets the object right before it; if it
/// fails, nothing is sent.
///
/// # Errors
///
/// The record could not be written.
pub(super) async fn make(
    client: &Client,
    request: &CureRequest,
    note: impl AsyncFnOnce(&Value) -> Result<(), NotSent>,
) -> io::Result<RequestOutcome> {
    Ok(match judge(client, request).await {
        Ok((RequestState::Due, seen)) => {
            match note(&seen.unwrap_or_default()).await {
                Ok(()) => {}
                Err(NotSent::Record(error)) => return Err(error),
                Err(NotSent::Note(why)) => return Ok(RequestOutcome::Unanswered(why)),
            }
            let answer = send_change(client, request, &request.url(), &request.body).await;
            // Then kube-apiserver has changed nothing, for whatever reason.
            let is_unchanged = matches!(&answer, Ok(reply) if matches!(reply.status, 409 | 429));
            match outcome(client, request, answer).await {
                RequestOutcome::Unanswered(why) if is_unchanged => RequestOutcome::Refused(why),
                outcome => outcome,
            }
        }
        Ok((state, _)) => settled(state),
        Err(why) => RequestOutcome::Unanswered(why),
    })
}

fn settled(state: RequestState) -> RequestOutcome {
    match state {
        RequestState::Outdated(why) => RequestOutcome::Outdated(why),
        RequestState::Applied | RequestState::Due => RequestOutcome::Applied,
    }
}

/// Whether the object still says that the request is to be made.
///
/// # Errors
///
/// In a line, if kube-apiserver does not answer or refuses.
pub(super) async fn is_due(client: &Client, request: &CureRequest) -> Result<bool, String> {
    Ok(state_of(client, request).await? == RequestState::Due)
}

/// # Errors
///
/// In a line, if kube-apiserver does not answer or refuses.
pub(super) async fn state_of(
    client: &Client,
    request: &CureRequest,
) -> Result<RequestState, String> {
    Ok(judge(client, request).await?.0)
}

async fn judge(
    client: &Client,
    request: &CureRequest,
) -> Result<(RequestState, Option<Value>), String> {
    let seen = get(client, &request.path).await?;
    Ok((request.judge(seen.as_ref()), seen))
}

async fn outcome(
    client: &Client,
    request: &CureRequest,
    answer: Result<Reply, RequestFailure>,
) -> RequestOutcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(failure) => return RequestOutcome::Unanswered(failure.to_string()),
    };
    let (status, why) = (reply.status, reply.refusal());
    match status {
        200..=299 => RequestOutcome::Taken(reply.value().unwrap_or_default()),
        // A failed test, another UID and a refusal by a webhook can have the same status: the object decides.
        400 | 404 | 409 | 422 => match judge(client, request).await {
            Ok((RequestState::Due, _)) if is_undecided(status, &why) => {
                RequestOutcome::Unanswered(why)
            }
            Ok((RequestState::Due, _)) => RequestOutcome::Refused(why),
            Ok((state, _)) => settled(state),
            Err(why) => RequestOutcome::Unanswered(why),
        },
        _ if is_undecided(status, &why) => RequestOutcome::Unanswered(why),
        _ => RequestOutcome::Refused(why),
    }
}

/// Whether this answer says nothing about the request itself. A webhook that refuses gives whichever status it likes:
/// Harvester's 400, 405, 409, 422 and 500, Rancher's none, and then it is 400. kube-apiserver says of all of them that
/// they denied the request (`ToStatusErr` in `pkg/admission/plugin/webhook/errors/statuserror.go` of k8s.io/apiserver).
fn is_undecided(status: u16, said: &str) -> bool {
    if said.contains("denied the request") {
        return false;
    }
    // A webhook that was registered before Kubernetes asked for sideEffects is not called in a trial.
    let untried = status == 400 && said.contains("does not support dry run");
    untried || matches!(status, 409 | 429 | 500..)
}

/// `None` when there is no object at this path.
pub(super) async fn get(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let reply = apiserver::get(client, path, PATIENCE, LONGEST).await;
    let found = if_found(reply.and_then(Reply::value));
    found.map_err(|failure| failure.to_string())
}

/// The cluster, by the UID of its Namespace kube-system; `None` if there is no such Namespace.
///
/// # Errors
///
/// In a line, when kube-apiserver does not answer or refuses.
pub async fn ask_for_cluster(client: &Client) -> Result<Option<String>, String> {
    let found = get(
        client,
        &ObjectKind::NAMESPACE.object_path("", "kube-system"),
    )
    .await?;
    let uid = found.map(|found| text(&found, "/metadata/uid").to_owned());
    Ok(uid.filter(|uid| !uid.is_empty()))
}

async fn send_change(
    client: &Client,
    request: &CureRequest,
    url: &str,
    body: &Value,
) -> Result<Reply, RequestFailure> {
    let http = Request::builder()
        .method(request.method.verb())
        .uri(url)
        .header(CONTENT_TYPE, request.method.content_type())
        .body(Body::from(body.to_string().into_bytes()));
    apiserver::send(client, http, PATIENCE, LONGEST).await
}
