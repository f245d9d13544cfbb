//! Observes the cluster: only the dependencies of files.
//!
//! ```text
//!   kubeconfig ──> session ─┬─ health: does kube-apiserver answer?
//!                           ├─ kinds: discovery of the groups that are waited for
//!   Interests ─────────────>├─ one watch per object, or for many of a kind
//!                           └─ Addons, and RKE2's failure events
//!                                └──> ClusterEvent
//! ```
//!
//! No API yet is normal and quiet. A failed request becomes an observation, `Unknown` with the reason, and is repeated
//! with growing pauses. A session ends when its credential is refused, the kubeconfig changes, or the node belongs to
//! another cluster. The next one reads the kubeconfig and asks everything again.

mod connect;
mod discovery;
mod follow;
mod interests;
mod objects;
mod session;

use std::path::Path;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub(in crate::observe) use self::discovery::group_resources;
use windrow_decide::{ClusterEvent, Interests};

use self::connect::SessionEnd;
use crate::apiserver::{ApiServer, Connection};
use crate::backoff::Backoff;
use crate::fs;
use crate::observe::rke2::FindKubeconfig;

/// Observes until the receiver of the events is gone, or until a watch panics: its objects would keep their last state
/// without any event to say so.
pub async fn observe(
    api: ApiServer,
    kubeconfig: FindKubeconfig,
    interests: watch::Receiver<Interests>,
    events: mpsc::Sender<ClusterEvent>,
) {
    let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
    // The trouble that the last event reported, while it lasts.
    let mut reported = None;
    while !events.is_closed() {
        let file = kubeconfig();
        let trouble = match connection(&api, &file).await {
            Ok(connection) => {
                let ended = connect::run_session(connection, &interests, &events).await;
                if ended.answered {
                    // It worked meanwhile, so the same trouble is reported again.
                    reported = None;
                    pauses.reset();
                }
                match ended.end {
                    SessionEnd::Closed | SessionEnd::Panicked => return,
                    // Try again at once, with the credential that the file holds now.
                    SessionEnd::CredentialChanged | SessionEnd::Renewed => {
                        pauses.reset();
                        continue;
                    }
                    SessionEnd::Refused => ClusterEvent::CredentialRefused {
                        why: format!("it refuses the credential of {} (401)", file.display()),
                    },
                }
            }
            Err(trouble) => trouble,
        };
        if reported.as_ref() != Some(&trouble) {
            tracing::trace!("the cluster cannot be asked: {trouble:?}");
            reported = Some(trouble.clone());
            if events.send(trouble).await.is_err() {
                return;
            }
        }
        pauses.wait().await;
    }
}

async fn connection(api: &ApiServer, kubeconfig: &Path) -> Result<Connection, ClusterEvent> {
    // No error in the file: RKE2 has not written it yet.
    if matches!(fs::try_exists(kubeconfig), Ok(false)) {
        let why = format!("there is no {} yet", kubeconfig.display());
        return Err(ClusterEvent::ApiUnreachable { why });
    }
    let connected = api.connection(kubeconfig).await;
    connected.map_err(|why| ClusterEvent::CredentialRefused { why })
}
