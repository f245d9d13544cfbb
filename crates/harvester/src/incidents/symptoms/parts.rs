//! APIs that other servers serve, and the Machines of Rancher's local cluster.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{
    API_NOT_AVAILABLE, Clock, MACHINE_NOT_READY, condition_seen, known, state_of, subject,
};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::is_platforms;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, text};

/// APIs without which everything but `kubectl top` and autoscaling works (metrics-server, prometheus-adapter).
const OF_METRICS: &str = "metrics.k8s.io";
/// The namespace of the local cluster's objects (rancher v2.15.0 `pkg/fleet/const.go:13`).
const LOCAL: &str = "fleet-local";
const NOT_AVAILABLE: &str = "Check the pods behind this Service, and the network between kube-apiserver and them. While the API is not \
    available, no namespace can be deleted, and Helm may fail.";

/// An API whose server does not answer (kubernetes `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/remote`,
/// `FailedDiscoveryCheck`, `MissingEndpoints`, `ServiceNotFound`).
pub(super) fn find_api_services(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let services = objects.all(ObjectKind::API_SERVICE)?;
    let fails = |one: &Condition<'_>| !one.is_true();
    let failing: Vec<_> = services
        .iter()
        .filter(|service| service.pointer("/spec/service/name").is_some())
        .filter_map(|service| Some((service, Condition::of(service, "Available").filter(fails)?)))
        .collect();
    if failing.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let deployments = known(objects.all(ObjectKind::DEPLOYMENT))?.unwrap_or_default();
    let late = failing
        .into_iter()
        .filter(|(_, available)| clock.is_late(available.since(), &API_NOT_AVAILABLE));
    let found = late.map(|(service, available)| of_api_service(service, available, deployments));
    Ok(found.collect())
}

fn of_api_service(
    service: &Value,
    available: Condition<'_>,
    deployments: &[Value],
) -> IncidentFinding {
    let about = subject(service, "APIService");
    let (namespace, name) = (
        text(service, "/spec/service/namespace"),
        text(service, "/spec/service/name"),
    );
    let since = available.since();
    let why = format!(
        "its Service {namespace}/{name} does not serve it: {}",
        state_of(&available, since)
    );
    // The charts of the platform give a Service the name of its Deployment.
    let is_behind = |one: &&Value| {
        text(one, "/metadata/namespace") == namespace && text(one, "/metadata/name") == name
    };
    let behind = deployments.iter().filter(is_behind).map(|deployment| {
        let pods = deployment.pointer("/status/availableReplicas");
        let pods = pods.and_then(Value::as_u64).unwrap_or_default();
        let about = subject(deployment, "Deployment");
        Evidence::new(about, "status.availableReplicas", pods.to_string())
    });
    let is_of_platform = is_platforms(&serde_json::json!({"metadata": {"namespace": namespace}}));
    let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why)
        .seen([condition_seen(&about, &available, since)])
        .seen(behind);
    if is_of_platform && !text(service, "/spec/group").ends_with(OF_METRICS) {
        finding.severity = Severity::Error;
    }
    NOT_AVAILABLE.clone_into(&mut finding.advice);
    finding
}

/// The RKEControlPlane and the Machines of Harvester's own cluster. Rancher writes why it waits into their condition Ready (rancher v2.15.0
/// `pkg/capr/planner`).
pub(super) fn find_machines(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let kinds = [ObjectKind::RKE_CONTROL_PLANE, ObjectKind::CAPI_MACHINE];
    let mut waiting = Vec::new();
    for kind in kinds {
        let local = |one: &&Value| text(one, "/metadata/namespace") == LOCAL;
        let waits = |one: &Condition<'_>| !one.is_true() && !one.message.trim().is_empty();
        for object in objects.all(kind)?.iter().filter(local) {
            let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some();
            let ready = Condition::of(object, "Ready").filter(waits);
            waiting.extend(
                ready
                    .filter(|_| !is_deleted)
                    .map(|ready| (kind, object, ready)),
            );
        }
    }
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = waiting
        .into_iter()
        .filter(|(_, _, ready)| clock.is_late(ready.since(), &MACHINE_NOT_READY));
    Ok(late
        .map(|(kind, object, ready)| {
            let about = subject(object, kind.kind);
            let since = ready.since();
            let why = format!("Ready is {}", state_of(&ready, since));
            let node = text(object, "/status/nodeRef/name");
            let node = (!node.is_empty())
                .then(|| Evidence::new(format!("Node {node}"), "nodeRef", format!("of {about}")));
            IncidentFinding::new(Code::ProblemStays, &about, &why)
                .seen([condition_seen(&about, &ready, since)])
                .seen(node)
        })
        .collect())
}
