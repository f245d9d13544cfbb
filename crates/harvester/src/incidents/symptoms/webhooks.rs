//! Webhooks whose Service does not exist, so that kube-apiserver rejects the requests that they should see: what a removed program has
//! left.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{CONDITION_FALSE, Clock, subject};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::time;

const KINDS: [ObjectKind; 2] = [
    ObjectKind::VALIDATING_WEBHOOKS,
    ObjectKind::MUTATING_WEBHOOKS,
];

/// Only saved lists have these kinds.
pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let listed = |kind: ObjectKind| objects.list(&kind.group_kind()).unwrap_or_default();
    let services = listed(ObjectKind::SERVICE);
    let events = listed(ObjectKind::EVENT);
    let mut lost = Vec::new();
    for kind in KINDS {
        for object in listed(kind) {
            let rejects = |webhook: &&Value| text(webhook, "/failurePolicy") != "Ignore";
            let webhooks = items(object, "/webhooks").iter().filter(rejects);
            let is_lost = |webhook: &&Value| is_gone(webhook, services, events);
            lost.extend(
                webhooks
                    .filter(is_lost)
                    .take(1)
                    .map(|webhook| (kind, object, webhook)),
            );
        }
    }
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = lost.into_iter().filter(|(_, object, _)| {
        clock.is_late(
            time(object, "/metadata/creationTimestamp"),
            &CONDITION_FALSE,
        )
    });
    Ok(late
        .map(|(kind, object, webhook)| {
            let about = subject(object, kind.kind);
            let service = service(webhook);
            let name = text(webhook, "/name");
            let why = format!("its Service {service} does not exist, and without it kube-apiserver rejects what webhook {name} should check");
            let seen = [
                Evidence::new(&about, format!("failurePolicy of {name}"), "Fail"),
                Evidence::new(format!("Service {service}"), "metadata.name", "absent"),
            ];
            let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen(seen);
            "If its program was removed, delete this webhook configuration too. Otherwise install the program again."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

fn service(webhook: &Value) -> String {
    let of = |field: &str| text(webhook, &format!("/clientConfig/service/{field}"));
    format!("{}/{}", of("namespace"), of("name"))
}

/// Is its Service missing, and would the input have it?
fn is_gone(webhook: &Value, services: &[Value], events: &[Value]) -> bool {
    let Some(reference) = webhook.pointer("/clientConfig/service") else {
        return false;
    };
    let wanted = service(webhook);
    if services.iter().any(|service| named(service) == wanted) {
        return false;
    }
    let has = |namespace: &str| {
        let mut all = services.iter();
        all.any(|service| text(service, "/metadata/namespace") == namespace)
    };
    // kube-apiserver's words (kubernetes `staging/src/k8s.io/apiserver/pkg/util/webhook/serviceresolver.go`), in the Events of others.
    let words = format!("service \"{}\" not found", text(reference, "/name"));
    let is_told = |event: &Value| text(event, "/message").contains(&words);
    has(text(reference, "/namespace"))
        || has("default") && has("kube-system")
        || events.iter().any(is_told)
}
