//! The storage network waits for volumes that stay attached, or for addresses of Longhorn's pods: Harvester is up, and the network that
//! the installer's configuration presets, or that was set later, is never configured.

mod addresses;

pub(super) use addresses::NO_FREE;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};

/// Harvester first stops its own users of volumes, which takes a while.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// Harvester before 1.6 starts this message with a capital letter.
const WAITS: &str = "aiting for all volumes detached";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(setting) = objects.get(ObjectKind::SETTING, "", "storage-network")? else {
        return Ok(Vec::new());
    };
    let Some(configured) = Condition::of(setting, "configured") else {
        return Ok(Vec::new());
    };
    let message = configured.message;
    let since = configured
        .time("lastUpdateTime")
        .or_else(|| configured.time("lastTransitionTime"));
    let late = since.is_some_and(|since| now.duration_since(since) > PATIENCE);
    let waits = ["w", "W"].iter().any(|first| {
        message
            .strip_prefix(first)
            .is_some_and(|rest| rest.starts_with(WAITS))
    });
    if configured.is_true() || !late {
        return Ok(Vec::new());
    }
    if message.starts_with(addresses::NO_ADDRESS) {
        let found = addresses::find(objects, setting, message)?;
        return Ok(found.into_iter().collect());
    }
    if !waits {
        return Ok(Vec::new());
    }
    let waited_for: Vec<&Value> = objects
        .all(ObjectKind::LONGHORN_VOLUME)?
        .iter()
        // Harvester counts every state except this one, also while a volume is being attached or detached.
        .filter(|volume| text(volume, "/status/state") != "detached")
        .collect();
    if waited_for.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = waited_for
        .iter()
        .map(|volume| text(volume, "/metadata/name"))
        .collect();
    let why = format!("these volumes are not detached: {}", names.join(", "));
    let mut finding =
        IncidentFinding::new(Code::StorageNetworkWaits, "Setting storage-network", &why).seen([
            Evidence::new("Setting storage-network", "condition configured", message),
        ]);
    for volume in waited_for {
        let users: Vec<&str> = items(volume, "/status/kubernetesStatus/workloadsStatus")
            .iter()
            .map(|workload| text(workload, "/podName"))
            .filter(|pod| !pod.is_empty())
            .collect();
        let namespace = text(volume, "/status/kubernetesStatus/namespace");
        let used = match users.is_empty() {
            true => "by an unknown user".to_owned(),
            false => format!("by {namespace}/{}", users.join(", ")),
        };
        let state = match text(volume, "/status/state") {
            "" => "no state",
            state => state,
        };
        let place = match text(volume, "/status/currentNodeID") {
            "" => String::new(),
            node => format!(" on {node}"),
        };
        finding.evidence.push(Evidence::new(
            format!("Volume {}", named(volume)),
            "status.state",
            format!("{state}{place}, used {used}"),
        ));
    }
    finding.proof = vec![
        "Harvester configures a storage network only while every Longhorn volume is detached, and it \
         detaches only those of its monitoring and VM import"
            .to_owned(),
        "Harvester itself is up, and everything else goes on: it is not the incident \
         machines-block-settings, in which a Harvester before v1.5.1 never comes up"
            .to_owned(),
    ];
    Ok(vec![finding])
}
