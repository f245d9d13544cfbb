//! Asks kube-apiserver what [`Ask`] lists, with the credential that the node has.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;

use super::current_layout::CurrentLayout;
pub(super) use super::requests::{Ask, Credential, NamespacedName, object_path};
use crate::apiserver::ApiServer;
use crate::causes;

/// An answer of kube-apiserver.
pub(super) struct ApiReply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoApiReply {
    /// The connection was refused.
    Down(String),
    /// Not within this time.
    Late(Duration),
    /// kube-apiserver asks to be left alone for a while.
    NotNow,
    /// Anything else: no credential, no trust, or no valid request.
    Other(String),
}

impl NoApiReply {
    pub(super) fn say(&self) -> String {
        match self {
            NoApiReply::Down(why) | NoApiReply::Other(why) => why.clone(),
            // Without the time that is left: the reason should stay the same between questions.
            NoApiReply::NotNow => "kube-apiserver asks to be left alone for a while".to_owned(),
            NoApiReply::Late(patience) => format!("no answer within {} s", patience.as_secs()),
        }
    }
}

/// Asks kube-apiserver with the credentials of the node.
pub(super) struct Kubernetes {
    layout: CurrentLayout,
    api: ApiServer,
}

impl Kubernetes {
    pub(super) fn new(layout: CurrentLayout, api: ApiServer) -> Self {
        Self { layout, api }
    }

    /// Sends the request, if it is allowed.
    pub(super) async fn ask(
        &self,
        ask: Ask<'_>,
        credential: Credential,
        node: &str,
    ) -> Result<ApiReply, NoApiReply> {
        if !ask.allowed(credential) {
            return Err(NoApiReply::Other(
                "not asked: a node's identity may not".to_owned(),
            ));
        }
        let path = self.kubeconfig(credential);
        let patience = ask.patience();
        let answer = tokio::time::timeout(patience, async {
            let connection = self.api.connection(&path).await;
            let connection = connection.map_err(NoApiReply::Other)?;
            // The next try comes soon, and this one has little time.
            if !connection.left().is_zero() {
                return Err(NoApiReply::NotNow);
            }
            let request = ask
                .request(node)
                .map_err(|error| NoApiReply::Other(error.to_string()))?;
            let response = connection
                .client()
                .send(request)
                .await
                .map_err(|error| no_reply(&error))?;
            let status = response.status().as_u16();
            let body = response.into_body().collect_bytes().await;
            let body = body.map_err(|error| no_reply(&error))?.to_vec();
            Ok(ApiReply { status, body })
        })
        .await;
        answer.unwrap_or(Err(NoApiReply::Late(patience)))
    }

    fn kubeconfig(&self, credential: Credential) -> PathBuf {
        let layout = self.layout.get();
        match credential {
            Credential::Admin => layout.admin_kubeconfig(),
            Credential::Node => layout.kubelet_kubeconfig(),
        }
    }

    /// An answer that tells nothing about the node: a refusal is the credential's.
    pub(super) fn no_usable_answer(
        &self,
        ask: Ask<'_>,
        credential: Credential,
        node: &str,
        reply: &ApiReply,
    ) -> ProbeOutcome {
        let asked = asked(ask, credential, node);
        match reply.status {
            // Whatever was asked: the file is the matter.
            401 => ProbeOutcome::refused(
                self.kubeconfig(credential).display().to_string(),
                "kube-apiserver refuses this credential (401)",
            ),
            403 => ProbeOutcome::refused(asked, words(reply)),
            _ => ProbeOutcome::unknown(asked, words(reply)),
        }
    }
}

fn no_reply(error: &kube::Error) -> NoApiReply {
    let refused = causes::innermost(error)
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
    let why = causes::in_words(error);
    match refused {
        true => NoApiReply::Down(why),
        false => NoApiReply::Other(why),
    }
}

/// The name of a request in an answer.
pub(super) fn asked(ask: Ask<'_>, credential: Credential, node: &str) -> String {
    let path = ask.path(node);
    let path = path.split('?').next().unwrap_or_default();
    let method = ask.method();
    let dry = match ask {
        Ask::Unchanged(_) => " (a dry run that changes nothing)",
        _ => "",
    };
    match credential {
        Credential::Admin => format!("{method} {path}{dry} as admin"),
        Credential::Node => format!("{method} {path}{dry} as system:node:{node}"),
    }
}

/// The object, or what its absence means: an object that does not exist is a failure with `absent`, any other error is
/// unknown.
pub(super) async fn object(
    kubernetes: &Kubernetes,
    ask: Ask<'_>,
    credential: Credential,
    node: &str,
    absent: &str,
) -> Result<Value, ProbeOutcome> {
    let unknown = |why: String| ProbeOutcome::unknown(asked(ask, credential, node), why);
    let reply = kubernetes.ask(ask, credential, node).await;
    match reply {
        Ok(reply) if reply.status == 200 => match serde_json::from_slice(&reply.body) {
            Ok(mut object) => {
                redact::messages(&mut object);
                Ok(object)
            }
            Err(_) => Err(unknown("the answer is not JSON".to_owned())),
        },
        Ok(reply) if reply.status == 404 => Err(ProbeOutcome::failed(absent)),
        Ok(reply) => Err(kubernetes.no_usable_answer(ask, credential, node, &reply)),
        Err(none) => Err(unknown(none.say())),
    }
}

/// A refusal in kube-apiserver's own words, without the values that it quotes.
pub(super) fn words(reply: &ApiReply) -> String {
    let message = serde_json::from_slice::<Value>(&reply.body)
        .ok()
        .and_then(|status| status["message"].as_str().map(str::to_owned));
    match message {
        Some(message) => format!("{}: {}", reply.status, redact::message(&message)),
        None => format!("HTTP {}", reply.status),
    }
}

/// The objects of a list. A kind that is not served is Unknown: it may be on its way, or never come.
pub(super) async fn items(
    kubernetes: &Kubernetes,
    ask: Ask<'_>,
    node: &str,
) -> Result<Vec<Value>, ProbeOutcome> {
    let list = object(kubernetes, ask, Credential::Admin, node, "").await;
    match list {
        Ok(mut list) => Ok(match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }),
        Err(ProbeOutcome::Failed { .. }) => Err(not_served(ask, node)),
        Err(unknown) => Err(unknown),
    }
}

/// A list that kube-apiserver does not know.
pub(super) fn not_served(ask: Ask<'_>, node: &str) -> ProbeOutcome {
    ProbeOutcome::unknown(
        asked(ask, Credential::Admin, node),
        "the kind is not served",
    )
}
