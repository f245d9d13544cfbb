//! The requests of a cure: each is sent only while the object still is as it was diagnosed, or only tried.

use std::io;
use std::time::Duration;

use http::Request as Http;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;
use windrow_harvester::incidents::{CureRequest, RequestState};
use windrow_harvester::objects::text;
use windrow_model::redact;

/// How long a request may take.
pub(in crate::act) const PATIENCE: Duration = Duration::from_secs(20);

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestOutcome {
    /// kube-apiserver took it; what it answered.
    Taken(Value),
    /// The object was already as the request would make it.
    Applied,
    /// Somebody else has changed the object since it was diagnosed; what, in a line.
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

/// Makes the request, unless it was made before or the object has changed. `note` gets the object right before it.
///
/// # Errors
///
/// Those of `note`; nothing was sent then.
pub(super) async fn make(
    client: &Client,
    request: &CureRequest,
    note: impl FnOnce(&Value) -> io::Result<()>,
) -> io::Result<RequestOutcome> {
    Ok(match judge(client, request).await {
        Ok((RequestState::Due, seen)) => {
            note(&seen.unwrap_or_default())?;
            let answer = send_change(client, request, &request.url(), &request.body).await;
            outcome(client, request, answer).await
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

/// What the object of the request says about it now, and the object.
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
    answer: Result<(u16, Value), String>,
) -> RequestOutcome {
    let (status, answer) = match answer {
        Ok(answer) => answer,
        Err(why) => return RequestOutcome::Unanswered(why),
    };
    let why = refusal(status, &answer);
    match status {
        200..=299 => RequestOutcome::Taken(answer),
        // A test that fails, another UID and a webhook that refuses can have the same status: the object tells.
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

/// Does this answer say nothing about the request itself? A webhook that refuses gives whichever status it likes:
/// Harvester's 400, 405, 409, 422 and 500, Rancher's none, and then it is 400. kube-apiserver says of all of them that they
/// denied the request (`ToStatusErr` in `pkg/admission/plugin/webhook/errors/statuserror.go` of k8s.io/apiserver).
fn is_undecided(status: u16, said: &str) -> bool {
    if said.contains("denied the request") {
        return false;
    }
    // A webhook that was registered before Kubernetes asked for sideEffects is not called in a trial.
    let untried = status == 400 && said.contains("does not support dry run");
    untried || matches!(status, 409 | 429 | 500..)
}

/// The object at a path; `None` when there is none.
pub(super) async fn get(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let request = Http::get(path).body(Vec::new());
    match send(client, request.map_err(|error| error.to_string())?).await? {
        (200, value) => Ok(Some(value)),
        (404, _) => Ok(None),
        (status, value) => Err(refusal(status, &value)),
    }
}

async fn send_change(
    client: &Client,
    request: &CureRequest,
    url: &str,
    body: &Value,
) -> Result<(u16, Value), String> {
    let http = Http::builder()
        .method(request.method.verb())
        .uri(url)
        .header("content-type", request.method.content_type())
        .body(body.to_string().into_bytes())
        .map_err(|error| error.to_string())?;
    send(client, http).await
}

async fn send(client: &Client, request: Http<Vec<u8>>) -> Result<(u16, Value), String> {
    let answer = timeout(PATIENCE, async {
        let response = client.send(request.map(Body::from)).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        Ok::<_, kube::Error>((status, serde_json::from_slice(&body).unwrap_or_default()))
    });
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

fn refusal(status: u16, said: &Value) -> String {
    match text(said, "/message") {
        "" => format!("HTTP {status}"),
        message => format!("{status}: {}", redact::message(message)),
    }
}
