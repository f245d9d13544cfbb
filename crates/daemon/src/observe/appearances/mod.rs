//! Observes who creates objects in the cluster while a boot is under way: only for the flight, no decision depends on
//! it.
//!
//! ```text
//!   wanted ──> kube-apiserver's version
//!          ──> a list and a watch for each kind, metadata only ──> Sighting
//!          ──> definitions ──> discovery of the group, once it is served ──> Sighting
//!   not wanted any more ──> every watch ends
//! ```
//!
//! For each object it keeps only a number for its uid, so that it is reported once. A refused or failed request is
//! retried with growing pauses, and reported only in a debug line: the flight does not contain it then.

mod definitions;
mod follow;
pub mod requests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use windrow_decide::flight::{Appeared, Provenance};

use self::definitions::NewDefinitions;
use self::follow::{FollowedKind, WATCHED};
use crate::apiserver::{ApiServer, Connection, answer};
use crate::backoff::Backoff;
use crate::observe::rke2::FindKubeconfig;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    Kubernetes(String),
    Appearance {
        what: Appeared,
        by: Provenance,
        created: Option<Timestamp>,
        /// Whether it was in the first list since Windrow began to look.
        listed: bool,
    },
    Release {
        release: String,
        namespace: String,
        status: String,
        /// When Helm began with it.
        began: Option<Timestamp>,
        /// When Helm changed it last.
        modified: Option<Timestamp>,
        /// Whether it was in the first list since Windrow began to look.
        listed: bool,
    },
}

/// Receives the sightings in batches.
pub type Sightings = mpsc::Sender<Vec<Sighting>>;

struct Source {
    api: ApiServer,
    kubeconfig: FindKubeconfig,
    sightings: Sightings,
}

impl Source {
    async fn connection(&self) -> Result<Connection, String> {
        self.api.connection(&(self.kubeconfig)()).await
    }

    /// False when the receiver is gone.
    async fn send(&self, seen: Vec<Sighting>) -> bool {
        seen.is_empty() || self.sightings.send(seen).await.is_ok()
    }
}

/// Watches while the daemon wants it, until the receivers are gone.
pub async fn watch(
    api: ApiServer,
    kubeconfig: FindKubeconfig,
    mut wanted: watch::Receiver<bool>,
    sightings: Sightings,
) {
    let source = Source {
        api,
        kubeconfig,
        sightings,
    };
    let definitions = NewDefinitions::default();
    let mut kinds: Vec<FollowedKind> = WATCHED.iter().map(FollowedKind::new).collect();
    while wanted.wait_for(|wanted| *wanted).await.is_ok() {
        let look = async {
            if version(&source).await {
                let kinds = kinds.iter_mut();
                let all = join_all(kinds.map(|kind| kind.follow(&source, &definitions)));
                // Each of them goes on until the receiver is gone.
                futures::join!(all, definitions.resolve(&source));
            }
        };
        tokio::select! {
            () = look => return,
            ended = wanted.wait_for(|wanted| !*wanted) => if ended.is_err() { return },
        }
    }
}

/// Asks for the version until kube-apiserver says it. False when the receiver is gone.
async fn version(source: &Source) -> bool {
    let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    loop {
        if let Ok(connection) = source.connection().await
            && let Ok(info) = answer(&connection, connection.client().apiserver_version()).await
        {
            return source
                .send(vec![Sighting::Kubernetes(info.git_version)])
                .await;
        }
        pauses.wait().await;
    }
}
