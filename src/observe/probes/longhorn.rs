//! Longhorn on this node, by its own object of the node: one request answers both probes.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use windrow_harvester::health::{condition, usable_disks};
use windrow_plan::readiness::node::ProbeOutcome;

use super::context::ProbeContext;
use super::kubernetes::{Ask, items};

/// Shorter than the period of the probes.
const FRESH: Duration = Duration::from_secs(20);

/// What Longhorn's object of the node says.
#[derive(Debug, Clone)]
struct LonghornAnswers {
    node: ProbeOutcome,
    disks: ProbeOutcome,
}

/// The answers of the last request. Who asks second waits for the first one's answer.
#[derive(Default)]
pub(super) struct LonghornMemory(Mutex<Option<(Instant, LonghornAnswers)>>);

impl LonghornMemory {
    /// Is Longhorn ready on this node? That nothing new is scheduled on a node that is drained is no fault.
    pub(super) async fn node(&self, context: &ProbeContext, node: &str) -> ProbeOutcome {
        self.answers(context, node).await.node
    }

    /// Can it use the node's disks?
    pub(super) async fn disks(&self, context: &ProbeContext, node: &str) -> ProbeOutcome {
        self.answers(context, node).await.disks
    }

    async fn answers(&self, context: &ProbeContext, node: &str) -> LonghornAnswers {
        let mut known = self.0.lock().await;
        if let Some((at, answers)) = &*known
            && at.elapsed() < FRESH
        {
            return answers.clone();
        }
        let found = items(&context.kubernetes, Ask::LonghornNode, node).await;
        let answers = match found.as_deref() {
            Ok([found, ..]) => LonghornAnswers {
                node: condition(found, "Ready").unwrap_or_else(|| {
                    ProbeOutcome::failed("longhorn-manager has not reported yet")
                }),
                disks: usable_disks(&found["status"]),
            },
            Ok([]) => LonghornAnswers::both(&ProbeOutcome::failed(
                "Longhorn does not know this node yet",
            )),
            Err(unknown) => LonghornAnswers::both(unknown),
        };
        *known = Some((Instant::now(), answers.clone()));
        answers
    }
}

impl LonghornAnswers {
    fn both(outcome: &ProbeOutcome) -> Self {
        Self {
            node: outcome.clone(),
            disks: outcome.clone(),
        }
    }
}
