//! Keeps a watch for everything of interest, and no other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value;
use tokio::sync::watch;
use windrow_decide::{Addon, ApplyFailure, ClusterEvent, Detail, Interests};
use windrow_model::manifest::AddonName;
use windrow_model::redact;

use super::discovery::{Kinds, discover};
use super::objects::{MOST_WATCHES, WatchScope, WatchedObjects, share_watches, watch_objects};
use super::session::{ApiSession, SessionTask};
use crate::apiserver::{Followed, WatchChange, name_of};

/// How long to wait for further objects before a shared watch begins again.
const GATHERING: Duration = Duration::from_secs(1);
/// The namespace of RKE2's Addons (k3s `pkg/deploy/controller.go`).
const ADDONS_NAMESPACE: &str = "kube-system";
/// The reasons of events in which RKE2 reports that it could not apply a file.
const FAILURES: &[&str] = &[
    "ReadManifestFailed",
    "ParseManifestFailed",
    "ValidateManifestFailed",
    "ApplyManifestFailed",
];

pub(super) async fn watch_interests(
    session: &Arc<ApiSession>,
    mut interests: watch::Receiver<Interests>,
) {
    let kinds: Arc<Kinds> = Arc::new(watch::Sender::new(HashMap::new()));
    let _standing = [
        SessionTask::start(
            session,
            discover(session.clone(), kinds.clone(), interests.clone()),
        ),
        SessionTask::start(session, watch_addons(session.clone())),
        SessionTask::start(session, watch_failures(session.clone())),
    ];
    let mut watches: BTreeMap<WatchScope, (WatchedObjects, SessionTask)> = BTreeMap::new();
    let mut gathered = false;
    loop {
        let wanted = share_watches(&interests.borrow_and_update().objects, MOST_WATCHES);
        // A watch goes on while its objects become fewer. If there are more, it begins again, with a list.
        let grows = wanted.iter().any(|(scope, objects)| {
            let known = watches.get(scope);
            known.is_some_and(|(watched, _)| !watched.covers(objects))
        });
        if grows && !gathered {
            gathered = true;
            tokio::time::sleep(GATHERING).await;
            continue;
        }
        gathered = false;
        watches.retain(|scope, (watched, _)| {
            let objects = wanted.get(scope);
            objects.is_some_and(|objects| watched.covers(objects))
        });
        for (scope, objects) in wanted {
            watches.entry(scope).or_insert_with_key(|scope| {
                let watched = WatchedObjects::new(scope, objects);
                let work = watch_objects(session.clone(), kinds.clone(), watched.clone());
                (watched, SessionTask::start(session, work))
            });
        }
        if interests.changed().await.is_err() {
            return;
        }
    }
}

/// Watches RKE2's Addons: they show which content of which file was applied.
async fn watch_addons(session: Arc<ApiSession>) {
    let resource = ApiResource {
        group: "k3s.cattle.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "k3s.cattle.io/v1".to_owned(),
        kind: "Addon".to_owned(),
        plural: "addons".to_owned(),
    };
    let followed = Followed {
        api: Api::<DynamicObject>::namespaced_with(session.client(), ADDONS_NAMESPACE, &resource),
        detail: Detail::Full,
        fields: None,
        wants: None,
    };
    session
        .follow(&followed, |change| {
            let event = match change {
                WatchChange::Listed(addons) => ClusterEvent::Addons(
                    addons
                        .iter()
                        .map(|addon| (name_of(addon).into(), addon_of(addon)))
                        .collect(),
                ),
                WatchChange::Applied(addon) => {
                    ClusterEvent::Addon(name_of(&addon).into(), Some(addon_of(&addon)))
                }
                WatchChange::Gone(addon) => ClusterEvent::Addon(name_of(&addon).into(), None),
                // RKE2 registers the kind while it starts. Addons listed before stay known.
                WatchChange::Failed(failure) => {
                    tracing::trace!("RKE2's Addons cannot be listed: {failure}");
                    return Vec::new();
                }
            };
            vec![event]
        })
        .await;
}

fn addon_of(addon: &Value) -> Addon {
    let text = |key: &str| addon["spec"][key].as_str().unwrap_or_default().to_owned();
    Addon {
        checksum: text("checksum"),
        source: text("source"),
    }
}

/// Watches the events in which RKE2 reports that it could not apply a file.
async fn watch_failures(session: Arc<ApiSession>) {
    let resource = ApiResource::erase::<KubernetesEvent>(&());
    let followed = Followed {
        api: Api::<DynamicObject>::namespaced_with(session.client(), ADDONS_NAMESPACE, &resource),
        detail: Detail::Full,
        fields: Some("involvedObject.kind=Addon,type=Warning".to_owned()),
        wants: None,
    };
    session
        .follow(&followed, |change| {
            let events = match change {
                WatchChange::Listed(mut events) => {
                    events.sort_by_key(order_written);
                    events
                }
                WatchChange::Applied(event) => vec![event],
                WatchChange::Gone(_) => return Vec::new(),
                WatchChange::Failed(failure) => {
                    tracing::trace!("RKE2's events cannot be listed: {failure}");
                    return Vec::new();
                }
            };
            events
                .iter()
                .filter_map(failure_of)
                .map(|(addon, failure)| ClusterEvent::ApplyFailed { addon, failure })
                .collect()
        })
        .await;
}

/// The longest message of a failure: RKE2 joins the errors of all objects of a file.
const MESSAGE: usize = 2048;

/// The order in which objects of a list were written last: by the version that the datastore gave them. The times in events are of
/// several clocks, which may have been set meanwhile.
fn order_written(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

fn failure_of(event: &Value) -> Option<(AddonName, ApplyFailure)> {
    let reason = event["reason"].as_str()?;
    if !FAILURES.contains(&reason) {
        return None;
    }
    let at = ["lastTimestamp", "eventTime"]
        .iter()
        .find_map(|key| event[key].as_str())
        .or_else(|| event["metadata"]["creationTimestamp"].as_str())?;
    // RKE2 passes on what kube-apiserver quotes of an object. The quote is cut before the text is shortened.
    let message = redact::message(event["message"].as_str().unwrap_or_default());
    Some((
        event["involvedObject"]["name"].as_str()?.into(),
        ApplyFailure {
            reason: reason.to_owned(),
            message: message.chars().take(MESSAGE).collect(),
            at: at.parse::<Timestamp>().ok()?,
        },
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_listed_events_the_one_that_was_written_last_comes_last_whatever_their_times() {
        let event = |version: &str, at: &str| json!({"metadata": {"resourceVersion": version}, "lastTimestamp": at});
        let mut events = [
            event("1000", "2026-01-01T00:00:00Z"),
            event("999", "2026-01-01T02:00:00Z"),
            event("99", "2026-01-01T01:00:00Z"),
        ];
        events.sort_by_key(order_written);
        let order = events.each_ref().map(order_written);
        assert_eq!(order, [99, 999, 1000]);
    }
}
