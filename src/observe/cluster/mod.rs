//! Observes the cluster: what something waits for, and nothing else.
//!
//! ```text
//!   kubeconfig ──> session ─┬─ health: does kube-apiserver answer?
//!                           ├─ kinds: discovery of the groups that are waited for
//!   Interests ─────────────>├─ one watch per object
//!                           └─ Addons, and RKE2's failure events
//!                                └──> ClusterEvent
//! ```
//!
//! No API yet is normal and quiet. Whatever goes wrong with a request becomes an observation,
//! `Unknown` with the reason; it is asked again with growing pauses. A session ends when its
//! credential is refused or the kubeconfig changes, and the next one reads it anew.

mod connect;
mod discovery;
mod follow;
mod interests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub(in crate::observe) use self::connect::explain;
use windrow_decide::{ClusterEvent, Interests};

use self::connect::End;
use crate::apiserver::{ApiServer, Connection};
use crate::backoff::Backoff;

/// How long a request may take. Watches are longer, and are bounded in [`follow`].
const ANSWER: Duration = Duration::from_secs(15);

/// Where everything that was observed goes.
type Events = mpsc::Sender<ClusterEvent>;

/// Observes until the receiver of the events is gone, or until a watch panics: then nobody would notice
/// that it no longer sees anything.
pub async fn observe(
    api: ApiServer,
    kubeconfig: PathBuf,
    interests: watch::Receiver<Interests>,
    events: mpsc::Sender<ClusterEvent>,
) {
    let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
    // What was said of it last, while it goes on being so.
    let mut said = String::new();
    while !events.is_closed() {
        let why = match connection(&api, &kubeconfig).await {
            Ok(connection) => {
                let ended = connect::session(connection, &interests, &events).await;
                if ended.answered {
                    // It worked meanwhile: the same trouble is news again, and no old trouble.
                    said.clear();
                    pauses.reset();
                }
                match ended.end {
                    End::Closed | End::Panicked => return,
                    // Ask again at once with what the file says now.
                    End::CredentialChanged => {
                        pauses.reset();
                        continue;
                    }
                    End::Refused(why) => why,
                }
            }
            Err(why) => why,
        };
        if why != said {
            tracing::trace!("the cluster cannot be asked: {why}");
            said.clone_from(&why);
            if events
                .send(ClusterEvent::ApiUnreachable { why })
                .await
                .is_err()
            {
                return;
            }
        }
        pauses.wait().await;
    }
}

async fn connection(api: &ApiServer, kubeconfig: &Path) -> Result<Connection, String> {
    // No trouble of the file's: RKE2 has not written it yet.
    if matches!(kubeconfig.try_exists(), Ok(false)) {
        return Err(format!("there is no {} yet", kubeconfig.display()));
    }
    api.connection(kubeconfig).await
}
