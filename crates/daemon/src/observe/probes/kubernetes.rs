//! Sends kube-apiserver the requests in [`Ask`], with the node's credential.

use std::path::PathBuf;

use serde_json::Value;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;

use super::current_layout::CurrentLayout;
pub(super) use super::requests::{Ask, Credential, NamespacedName, object_path};
use crate::apiserver::{self, ApiServer, LONGEST, Reply, RequestFailure};
use crate::observe::rke2::admin_kubeconfig;

pub(super) struct Kubernetes {
    layout: CurrentLayout,
    api: ApiServer,
}

impl Kubernetes {
    pub(super) fn new(layout: CurrentLayout, api: ApiServer) -> Self {
        Self { layout, api }
    }

    pub(super) async fn ask(
        &self,
        ask: Ask<'_>,
        credential: Credential,
        node: &str,
    ) -> Result<Reply, RequestFailure> {
        if !ask.allowed(credential) {
            return Err(RequestFailure::Other(
                "not asked: a node's identity may not".to_owned(),
            ));
        }
        let connection = self.api.connection(&self.kubeconfig(credential)).await;
        let connection = connection.map_err(RequestFailure::Other)?;
        // The next try comes soon, and this one has little time. The message omits the time that is left: the reason
        // should stay the same between questions.
        if !connection.left().is_zero() {
            let why = "kube-apiserver asks for a pause";
            return Err(RequestFailure::Other(why.to_owned()));
        }
        let client = connection.client();
        apiserver::send(client, ask.request(node), ask.patience(), LONGEST).await
    }

    fn kubeconfig(&self, credential: Credential) -> PathBuf {
        let layout = self.layout.get();
        match credential {
            Credential::Admin => admin_kubeconfig(&layout),
            Credential::Node => layout.kubelet_kubeconfig(),
        }
    }

    /// An answer without information about the node: a refusal concerns the credential.
    pub(super) fn no_usable_answer(
        &self,
        ask: Ask<'_>,
        credential: Credential,
        node: &str,
        reply: &Reply,
    ) -> ProbeOutcome {
        let asked = asked(ask, credential, node);
        match reply.status {
            // The request does not matter: the file is the problem.
            401 => ProbeOutcome::refused(
                self.kubeconfig(credential).display().to_string(),
                "kube-apiserver refuses this credential (401)",
            ),
            403 => ProbeOutcome::refused(asked, reply.refusal()),
            _ => ProbeOutcome::unknown(asked, reply.refusal()),
        }
    }
}

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

/// The object, or the meaning of its absence: an object that does not exist is a failure with `absent`, any other error
/// is unknown.
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
        Ok(reply) if reply.status == 200 => match reply.value() {
            Ok(mut object) if object.is_object() => {
                redact::messages(&mut object);
                Ok(object)
            }
            Ok(_) => Err(unknown("the answer is not an object".to_owned())),
            Err(failure) if failure.is_too_large() => Err(unknown(failure.to_string())),
            Err(_) => Err(unknown("the answer is not JSON".to_owned())),
        },
        Ok(reply) if reply.status == 404 => Err(ProbeOutcome::failed(absent)),
        Ok(reply) => Err(kubernetes.no_usable_answer(ask, credential, node, &reply)),
        Err(none) => Err(unknown(none.to_string())),
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
        Ok(mut list) => Ok(match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }),
        Err(ProbeOutcome::Failed { .. }) => Err(not_served(ask, node)),
        Err(unknown) => Err(unknown),
    }
}

/// The outcome for a list that kube-apiserver does not know.
pub(super) fn not_served(ask: Ask<'_>, node: &str) -> ProbeOutcome {
    ProbeOutcome::unknown(
        asked(ask, Credential::Admin, node),
        "the kind is not served",
    )
}
