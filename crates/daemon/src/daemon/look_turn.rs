//! Decides which server examines the cluster for known incidents: one of several does, and leaves the results for the
//! others in its Lease.
//!
//! ```text
//!   who has kube-system/windrow-diagnosis? ─ we ──────> look; leave the results
//!        │  └─ another, with the same basis ───────────> show its results
//!        └─ unknown, or no usable results ─────────────> look, as if there were no other
//! ```
//!
//! The Lease only spares kube-apiserver the same lists from each server. A look changes nothing, so any doubt is a
//! reason to look. No probe, and no readiness of the node itself, waits for it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use windrow_harvester::incidents::DetectorId;
use windrow_model::findings::{Evidence, Finding};
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::Code;
use windrow_plan::rules::FindingRule;

use crate::act::{ClusterLease, LeaseHolder};
use crate::layout::Layout;
use crate::observe::management::lease_holder;

/// Looks that may fail to renew the lease before it runs out.
const LOOKS: u32 = 3;
/// It counts for this long at least.
const SHORTEST: Duration = Duration::from_secs(60);
/// The longest note: kube-apiserver takes annotations of 256 KiB, and every renewal writes it again.
const LONGEST: usize = 64 << 10;

/// The inputs that decide which findings there are, and which of them are cured. A server relies on another's results
/// only if this is the same on both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LookBasis(String);

impl LookBasis {
    pub(super) fn new(rules: &[FindingRule], auto: &[Code]) -> Self {
        let rules = rules.iter().map(|rule| {
            let place = windrow_model::findings::Location::file("");
            format!(
                "{:?}",
                FindingRule {
                    at: place,
                    ..rule.clone()
                }
            )
        });
        let rules: Vec<String> = rules.collect();
        let all = format!("{}\n{auto:?}\n{rules:?}", env!("CARGO_PKG_VERSION"));
        Self(sha256_hex(all.as_bytes()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct LookNote {
    /// `None` if not all results fit.
    basis: Option<LookBasis>,
    counted: BTreeMap<DetectorId, Vec<Finding>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LookTurn {
    Ours,
    Theirs(BTreeMap<DetectorId, Vec<Finding>>),
}

pub(super) struct LookTurns {
    now: fn() -> Timestamp,
    lease: Option<ClusterLease>,
    is_ours: bool,
}

impl LookTurns {
    pub(super) fn new(now: fn() -> Timestamp) -> Self {
        Self {
            now,
            lease: None,
            is_ours: false,
        }
    }

    /// Whether the lease is ours, as far as we know.
    pub(super) fn is_ours(&self) -> bool {
        self.is_ours
    }

    pub(super) async fn take(
        &mut self,
        client: &Client,
        layout: &Layout,
        interval: Duration,
        basis: &LookBasis,
    ) -> LookTurn {
        let lasts = (interval * LOOKS).max(SHORTEST);
        let lease = self.lease.get_or_insert_with(|| {
            ClusterLease::new(ClusterLease::DIAGNOSIS, lease_holder(layout), lasts)
        });
        lease.count_for(lasts);
        let holder = lease.take(client, (self.now)()).await;
        self.is_ours = holder == Ok(LeaseHolder::Us);
        let who = match holder {
            Ok(LeaseHolder::Us) => return LookTurn::Ours,
            Ok(LeaseHolder::Other(who)) => who,
            Err(why) => {
                tracing::debug!("Windrow cannot tell which server looks for incidents: {why}");
                return LookTurn::Ours;
            }
        };
        let note = lease.note(client).await.ok().flatten();
        let note: Option<LookNote> = note.and_then(|note| serde_json::from_str(&note).ok());
        match note {
            Some(note) if note.basis.as_ref() == Some(basis) => {
                LookTurn::Theirs(seen_by(&who, note.counted))
            }
            _ => LookTurn::Ours,
        }
    }

    /// Leaves the counted findings for the other servers, if the lease is ours. If that fails, they are left after the
    /// next look.
    pub(super) async fn leave(
        &self,
        client: &Client,
        basis: &LookBasis,
        counted: BTreeMap<DetectorId, Vec<Finding>>,
    ) {
        let Some(lease) = self.lease.as_ref().filter(|_| self.is_ours) else {
            return;
        };
        let whole = LookNote {
            basis: Some(basis.clone()),
            counted,
        };
        let left = async {
            let text = serde_json::to_string(&whole).map_err(|error| error.to_string())?;
            let text = match text.len() {
                0..=LONGEST => text,
                _ => r#"{"counted":{}}"#.to_owned(),
            };
            let before = lease.note(client).await?;
            if before.as_deref() != Some(&text) {
                lease.write_note(client, before.as_deref(), text).await?;
            }
            Ok::<_, String>(())
        };
        if let Err(why) = left.await {
            tracing::debug!("the other servers do not get the findings: {why}");
        }
    }

    pub(super) async fn give_up(&mut self, client: &Client) {
        self.is_ours = false;
        if let Some(lease) = self.lease.take()
            && let Err(why) = lease.release(client).await
        {
            // The lease expires automatically.
            tracing::debug!("the lease on looking could not be given back: {why}");
        }
    }
}

/// Also returns who has seen it.
fn seen_by(
    who: &str,
    mut counted: BTreeMap<DetectorId, Vec<Finding>>,
) -> BTreeMap<DetectorId, Vec<Finding>> {
    let lease = format!("Lease kube-system/{}", ClusterLease::DIAGNOSIS);
    let incidents = counted.values_mut().flatten();
    for incident in incidents.filter_map(|finding| finding.incident.as_mut()) {
        let seen = Evidence::new(&lease, "seen by", who);
        incident.evidence.push(seen);
    }
    counted
}

#[cfg(test)]
#[path = "look_turn_tests.rs"]
mod tests;
