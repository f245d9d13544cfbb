//! Pods without a network because whereabouts has no free address for them. Those of the storage network have an incident.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{Clock, POD_NOT_READY, subject};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::{MOST, quoted};
use crate::incidents::storage::NO_FREE;
use crate::objects::{ObjectKind, Objects, Unlisted, named, newest_warning, text};
use crate::upgrade::time;

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let pods = objects.all(ObjectKind::POD)?;
    let waits = |pod: &&Value| {
        text(pod, "/status/phase") == "Pending"
            && !text(pod, "/spec/nodeName").is_empty()
            && text(pod, "/status/podIP").is_empty()
    };
    let waiting: Vec<&Value> = pods.iter().filter(waits).collect();
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    objects.want(&[ObjectKind::POD_WARNING, ObjectKind::IP_POOL])?;
    let clock = Clock::read(objects, now)?;
    let warnings = objects.pod_warnings()?;
    let late = waiting
        .into_iter()
        .filter(|pod| clock.is_late(time(pod, "/status/startTime"), &POD_NOT_READY));
    let refused: Vec<(&Value, &str)> = late
        .filter_map(|pod| {
            let words = text(newest_warning(pod, &warnings)?, "/message");
            // The ranges are at the end of a long message.
            Some((pod, &words[words.find(NO_FREE)?..]))
        })
        .collect();
    let Some((first, words)) = refused.first() else {
        return Ok(Vec::new());
    };
    let more = match refused.len() {
        1 => String::new(),
        many => format!("; {} more pods wait so", many - 1),
    };
    let about = subject(first, "Pod");
    let why = format!("it has no network: {}{more}", quoted(words));
    let seen = refused
        .iter()
        .take(MOST)
        .map(|(pod, words)| Evidence::new(subject(pod, "Pod"), "newest warning", quoted(words)));
    // Without the pools, the Events are enough.
    let pools = objects.all(ObjectKind::IP_POOL).unwrap_or_default();
    let known: BTreeSet<String> = pods.iter().map(named).collect();
    let lost = pools.iter().flat_map(|pool| lost(pool, &known)).take(MOST);
    let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why)
        .seen(seen)
        .seen(lost);
    "Whereabouts has given all addresses of the range, or excludes them. An address whose pod does not exist is free again after you remove its \
     entry from the IPPool; else widen the range of the NetworkAttachmentDefinition."
        .clone_into(&mut finding.advice);
    Ok(vec![finding])
}

/// The addresses of a pool that pods have which do not exist.
fn lost<'o>(pool: &'o Value, pods: &'o BTreeSet<String>) -> impl Iterator<Item = Evidence> + 'o {
    let allocations = pool.pointer("/spec/allocations").and_then(Value::as_object);
    let allocations = allocations.into_iter().flat_map(Map::iter);
    allocations.filter_map(|(index, allocation)| {
        let pod = text(allocation, "/podref");
        let is_lost = !pod.is_empty() && !pods.contains(pod);
        let field = format!("spec.allocations[{index}]");
        is_lost.then(|| {
            let value = format!("{pod}, which does not exist");
            Evidence::new(subject(pool, "IPPool"), field, value)
        })
    })
}
