//! Level 4: what is watched, on the real kube-apiserver.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use support::cluster::{Cluster, Spec, Who};
use tokio::sync::{mpsc, watch};
use windrow::apiserver::ApiServer;
use windrow::observe::cluster::observe;
use windrow_decide::{ClusterEvent, Detail, Interests};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::{KindSeen, ObjectSeen};

use crate::support;

const DEADLINE: Duration = Duration::from_secs(600);

/// Waits until the kind and the object were both told.
async fn told(events: &mut mpsc::Receiver<ClusterEvent>) {
    let mut missing = BTreeSet::from(["kind", "object"]);
    let all = tokio::time::timeout(DEADLINE, async {
        while !missing.is_empty() {
            match events.recv().await.expect("it goes on") {
                ClusterEvent::Kind(_, KindSeen::Served { .. }) => missing.remove("kind"),
                ClusterEvent::Object(_, ObjectSeen::Present(_)) => missing.remove("object"),
                _ => false,
            };
        }
    });
    assert!(all.await.is_ok(), "not told: {missing:?}");
}

#[tokio::test]
async fn what_is_wanted_again_is_told_again_though_nobody_saw_that_it_was_not_wanted() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let wanted = Interests {
        kinds: [GroupKind::new("apps", "Deployment")].into(),
        objects: [(
            ObjectRef::cluster("", "Namespace", "default"),
            Detail::Metadata,
        )]
        .into(),
        ..Interests::default()
    };
    let (interests, wants) = watch::channel(wanted.clone());
    let (events, mut heard) = mpsc::channel(64);
    let kubeconfig = cluster.kubeconfig(Who::Admin);
    let find = Arc::new(move || kubeconfig.clone());
    let observing = tokio::spawn(observe(ApiServer::new(), find, wants, events));
    told(&mut heard).await;
    // Whoever watches sees the last of these alone.
    interests.send_replace(Interests::default());
    interests.send_replace(Interests {
        renewed: 1,
        ..wanted
    });
    told(&mut heard).await;
    observing.abort();
}
