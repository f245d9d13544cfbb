//! The cluster that the files belong to, and the answers that come from it.
//!
//! After `rm -rf server/db`, a restored snapshot or a new installation, all knowledge about the cluster is void: the
//! decisions, and the answers that are still on their way.

use std::collections::BTreeSet;
use std::sync::Arc;

use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::StagingState;
use crate::action::Event;
use crate::ledger::{ClusterIdentity, FileStage, LedgerEntry};
use crate::observation::{ClusterEvent, Forgotten};

impl StagingState {
    /// Sets the cluster that the manifests directory belongs to. If it changed, everything is decided and requested
    /// again. Holds by hand stay, and files applied once are held until RKE2's Addons show whether this cluster has
    /// them.
    pub fn set_cluster(&mut self, identity: ClusterIdentity) -> Option<Event> {
        let known = (&self.ledger.cluster, &self.ledger.datastore);
        if known == (&identity.ca, &identity.datastore) {
            return None;
        }
        let (applied_once, gone) = (self.applied_once(), self.held_and_gone());
        let was_removed = self.ledger.datastore_removed;
        let ledger = Arc::make_mut(&mut self.ledger);
        let is_other = identity.enter(ledger, &applied_once, &gone);
        // The server that answered from the removed datastore has already stopped.
        let api = &self.observation.api;
        if api.unreachable.is_some() && !api.refused {
            ledger.datastore_removed = false;
        }
        self.ledger_is_unsaved = true;
        if is_other {
            self.has_former_markers = true;
            self.observation.forget_cluster();
            self.forgotten = Forgotten::default();
        }
        if is_other || was_removed {
            self.renew();
        }
        is_other.then(|| Event::new(Code::NewCluster, Code::NewCluster.say(&[])))
    }

    /// Requests everything again. Answers count from the session that begins for this.
    fn renew(&mut self) {
        self.renewed += 1;
        self.session_from = Some(match self.ledger.datastore_removed {
            true => u64::MAX,
            false => self.renewed,
        });
    }

    /// Is this an answer of the former cluster?
    pub(super) fn is_of_former_cluster(&mut self, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::SessionBegins { renewed } => {
                self.session_from = self.session_from.filter(|from| renewed < from);
                false
            }
            ClusterEvent::ApiUnreachable { .. } => {
                if self.ledger.datastore_removed {
                    Arc::make_mut(&mut self.ledger).datastore_removed = false;
                    self.ledger_is_unsaved = true;
                    self.renew();
                }
                false
            }
            ClusterEvent::CredentialRefused { .. }
            | ClusterEvent::Refused { .. }
            | ClusterEvent::Node(_) => false,
            ClusterEvent::ApiReachable
            | ClusterEvent::Kind(..)
            | ClusterEvent::Object(..)
            | ClusterEvent::Addons(_)
            | ClusterEvent::Addon(..)
            | ClusterEvent::ApplyFailed { .. } => self.session_from.is_some(),
        }
    }

    fn held_and_gone(&self) -> BTreeSet<ManifestPath> {
        let is_there = |path: &ManifestPath| self.plan.files.iter().any(|file| file.path == *path);
        let held = |entry: &LedgerEntry| matches!(entry.state, FileStage::Held { .. });
        let entries = self.ledger.files.iter();
        entries
            .filter(|(path, entry)| held(entry) && !is_there(path))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// The files that RKE2 has applied and that are to be applied once, according to the plan and the markers. A marker
    /// is written before the ledger, so it may be newer than the ledger's entry.
    fn applied_once(&self) -> BTreeSet<ManifestPath> {
        let is_marked = |path: &ManifestPath, entry: &LedgerEntry| {
            let marks = self.observation.markers.values();
            let mut marks = marks.filter_map(|marker| marker.mark.as_ref());
            marks.any(|mark| {
                mark.says_applied_once() && mark.file == *path && mark.digest == entry.digest
            })
        };
        let is_applied = |path: &ManifestPath, entry: &LedgerEntry| {
            let is_done = matches!(entry.state, FileStage::Applied { .. })
                || entry.state.is_once_unconfirmed();
            entry.manual.is_none() && (is_done || is_marked(path, entry))
        };
        let is_once = |path: &ManifestPath, entry: &LedgerEntry| {
            let mut files = self.plan.files.iter();
            let mut markers = self.observation.markers.values();
            files.any(|file| file.path == *path && file.apply_once && file.digest == entry.digest)
                || markers.any(|marker| {
                    let mark = marker.mark.as_ref().filter(|mark| mark.file == *path);
                    mark.is_some_and(|mark| mark.says_applied_once())
                })
        };
        let entries = self.ledger.files.iter();
        entries
            .filter(|(path, entry)| is_applied(path, entry) && is_once(path, entry))
            .map(|(path, _)| path.clone())
            .collect()
    }
}
