//! The recorded decisions, kept over restarts and power cuts: the ratchet.
//!
//! A file that was released stays released for that content, whatever happens to its requirements. The ledger is a
//! value here; `act` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use windrow_model::manifest::{BaseName, ManifestPath};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::NodeMemory;

/// All recorded decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Format version.
    pub version: u32,
    /// The cluster that the decisions are for: SHA-256 of RKE2's server CA, as soon as it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// SHA-256 of this node's name in that cluster's etcd, as soon as it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Was the datastore removed, without a new one yet? Until kube-apiserver stops, it may still answer from the
    /// removed one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub datastore_removed: bool,
    /// Values that a restart of the daemon does not reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimes>,
    /// By path. Ledgers that differ in a few files share the rest.
    pub files: BTreeMap<ManifestPath, Arc<LedgerEntry>>,
    /// State of the node for the next decision.
    #[serde(default, skip_serializing_if = "NodeMemory::is_empty")]
    pub node: NodeMemory,
}

/// The clock was set if the boot time differs by more than this. It is corrected in small steps all the time.
const LEAST_STEP: Duration = Duration::from_secs(5);

impl Ledger {
    /// The format that this program writes. It changes only when an older program would misread the file. A new field
    /// is not such a change.
    pub const VERSION: u32 = 1;

    /// Reads a ledger of any version of Windrow: after a rollback, it may contain more than this version knows.
    /// Unreadable parts are left out, and reported in one line each.
    ///
    /// # Errors
    ///
    /// If the text is not a ledger at all.
    pub fn read(text: &[u8]) -> Result<(Self, Vec<String>), serde_json::Error> {
        if let Ok(ledger) = serde_json::from_slice(text) {
            return Ok((ledger, Vec::new()));
        }
        let parts: LedgerParts = serde_json::from_slice(text)?;
        let mut lost = Vec::new();
        let mut ledger = Self {
            version: parts.version,
            cluster: parts.cluster,
            datastore: parts.datastore,
            datastore_removed: parts.datastore_removed,
            boot: parts.boot,
            ..Self::default()
        };
        for (name, entry) in parts.files {
            let path = ManifestPath::deserialize(Value::from(name.as_str()));
            match path.and_then(|path| Ok((path, LedgerEntry::deserialize(entry)?))) {
                Ok((path, entry)) => {
                    ledger.files.insert(path, Arc::new(entry));
                }
                Err(error) => lost.push(format!("{name}: {error}")),
            }
        }
        if let Some(node) = parts.node {
            match NodeMemory::deserialize(node) {
                Ok(node) => ledger.node = node,
                Err(error) => lost.push(format!("node: {error}")),
            }
        }
        Ok((ledger, lost))
    }

    /// Notes the boot in which the daemon starts, and when that boot began. In the same boot, deadlines continue. If
    /// the clock was set while no daemon ran, all times move with it.
    pub fn enter_boot(&mut self, id: &str, booted: Timestamp, now: Timestamp) {
        let Some(boot) = self.boot.as_mut().filter(|boot| boot.id == id) else {
            self.boot = Some(BootTimes {
                id: id.to_owned(),
                booted,
                started: now,
                reachable: None,
                starts: 1,
                clock_was_set: false,
            });
            return;
        };
        boot.starts = boot.starts.saturating_add(1);
        let by = booted.duration_since(boot.booted);
        boot.clock_was_set = by.unsigned_abs() > LEAST_STEP;
        if boot.clock_was_set {
            self.shift_clock(by);
        }
    }

    /// Moves all times by the difference by which the wall clock was set.
    pub(super) fn shift_clock(&mut self, by: SignedDuration) {
        let mut shift = |at: &mut Timestamp| *at = at.saturating_add(by).unwrap_or(*at);
        self.node.clock_jumped(by);
        if let Some(boot) = &mut self.boot {
            boot.visit_times(&mut shift);
        }
        for entry in self.files.values_mut() {
            Arc::make_mut(entry).visit_times(&mut shift);
        }
    }

    /// The names that a user holds, with the order. A hold applies to the name, in any directory.
    pub(super) fn held_names(&self) -> BTreeMap<BaseName, &Manual> {
        let by_hand = self.files.iter().filter_map(|(path, entry)| {
            let manual = entry.manual.as_deref().filter(|manual| manual.hold)?;
            Some((path.name(), manual))
        });
        by_hand.collect()
    }
}

/// The cluster that a manifests directory belongs to, according to the node's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterIdentity {
    /// SHA-256 of RKE2's server CA; `None` before its first start, and after its removal. `rke2 certificate rotate-ca`
    /// changes it.
    pub ca: Option<String>,
    /// SHA-256 of this node's name in etcd, which k3s generates for each new data directory (`setName` in
    /// `pkg/etcd/etcd.go`) and keeps in `server/db/etcd/name`; `None` with another datastore.
    pub datastore: Option<String>,
}

impl ClusterIdentity {
    /// Was a ledger written for another cluster? The datastore decides if both have one. A datastore that was removed
    /// is a different one.
    fn is_other_than(&self, ledger: &Ledger) -> bool {
        match (&ledger.datastore, &ledger.cluster) {
            (Some(datastore), _) => self.datastore.as_ref() != Some(datastore),
            (None, Some(ca)) => self.ca.as_ref() != Some(ca),
            (None, None) => false,
        }
    }

    /// Enters this identity into a ledger and drops the decisions for another cluster; true if there was one. Holds by
    /// hand stay. If only the datastore differs, this node may have rejoined its cluster: the files in `applied_once`
    /// then wait until RKE2's Addons show whether the cluster has them. Holds of `gone` files, which are missing for a
    /// moment, stay as well.
    pub(crate) fn enter(
        self,
        ledger: &mut Ledger,
        applied_once: &BTreeSet<ManifestPath>,
        gone: &BTreeSet<ManifestPath>,
    ) -> bool {
        let is_other = self.is_other_than(ledger);
        let may_rejoin = self.ca.is_some() && self.ca == ledger.cluster;
        let had_datastore = ledger.datastore.is_some() || ledger.datastore_removed;
        ledger.datastore_removed = had_datastore && self.datastore.is_none();
        (ledger.cluster, ledger.datastore) = (self.ca, self.datastore);
        if is_other {
            if let Some(boot) = &mut ledger.boot {
                boot.reachable = None;
            }
            ledger.node.joined &= may_rejoin;
            ledger.files.retain(|path, entry| {
                let by_hand = entry.manual.as_ref().is_some_and(|manual| manual.hold);
                if by_hand || gone.contains(path) {
                    return true;
                }
                let is_kept = may_rejoin && applied_once.contains(path);
                if is_kept {
                    Arc::make_mut(entry).state = FileStage::once_unconfirmed();
                }
                is_kept
            });
        }
        is_other
    }
}

/// The times of one boot from which deadlines count, for every process of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootTimes {
    /// The kernel's ID of the boot.
    pub id: String,
    /// When the boot began, by the clock that the ledger's times use. If a later process finds another time, the clock
    /// was set.
    pub booted: Timestamp,
    /// When the daemon first started in this boot.
    pub started: Timestamp,
    /// When kube-apiserver first answered in this boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Timestamp>,
    /// How often the daemon has started in this boot.
    pub starts: u32,
    /// Was the clock set between the ledger's last write and the daemon's last start? The time of a marker that the
    /// ledger does not have may come from either clock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clock_was_set: bool,
}

impl BootTimes {
    pub(super) fn visit_times(&mut self, visit: &mut dyn FnMut(&mut Timestamp)) {
        let Self {
            id: _,
            booted,
            started,
            reachable,
            starts: _,
            clock_was_set: _,
        } = self;
        visit(booted);
        visit(started);
        reachable.iter_mut().for_each(visit);
    }
}

/// A ledger whose entries are not parsed yet.
#[derive(Deserialize)]
struct LedgerParts {
    version: u32,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    datastore: Option<String>,
    #[serde(default)]
    datastore_removed: bool,
    #[serde(default)]
    boot: Option<BootTimes>,
    files: BTreeMap<String, Value>,
    #[serde(default)]
    node: Option<Value>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            cluster: None,
            datastore: None,
            datastore_removed: false,
            boot: None,
            files: BTreeMap::new(),
            node: NodeMemory::default(),
        }
    }
}

/// The decision about one content of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Digest of the objects that this entry is about.
    pub digest: SmolStr,
    /// When this content was first seen.
    pub first_seen: Timestamp,
    /// Since when the file has this state.
    pub since: Timestamp,
    /// The state of the file.
    pub state: FileStage,
    /// Events that were already reported about it, so that each is reported once.
    #[serde(
        rename = "told",
        default,
        skip_serializing_if = "AlreadyReported::is_empty"
    )]
    pub reported: AlreadyReported,
    /// The order for this file, if any. A hold outlives a change of content; a release does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<Box<Manual>>,
}

impl LedgerEntry {
    /// A new field has to be added here.
    pub(super) fn visit_times(&mut self, visit: &mut dyn FnMut(&mut Timestamp)) {
        let Self {
            digest: _,
            first_seen,
            since,
            state: _,
            reported,
            manual,
        } = self;
        let AlreadyReported {
            overdue: _,
            marker_lost: _,
            regressed: _,
            vanished,
            failure: _,
            failed_since,
        } = reported;
        visit(first_seen);
        visit(since);
        vanished.iter_mut().for_each(&mut *visit);
        failed_since.iter_mut().for_each(&mut *visit);
        if let Some(manual) = manual {
            let Manual {
                hold: _,
                by: _,
                at,
                reason: _,
            } = &mut **manual;
            visit(at);
        }
    }

    pub(super) fn is_later_than(&self, now: Timestamp) -> bool {
        let mut is_later = false;
        self.clone().visit_times(&mut |at| is_later |= *at > now);
        is_later
    }
}

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum FileStage {
    /// Kept from RKE2.
    Held {
        /// The first blocker's code.
        code: Code,
        /// The first blocker, in one line.
        why: SmolStr,
    },
    /// RKE2 may apply it.
    Released {
        /// Why it was released.
        cause: Cause,
    },
    /// RKE2 has applied exactly this content.
    Applied {
        /// Why it had been released.
        cause: Cause,
    },
}

impl FileStage {
    /// It was applied once. Windrow cannot tell whether the present cluster has it.
    pub(super) fn once_unconfirmed() -> Self {
        Self::Held {
            code: Code::OnceUnconfirmed,
            why: Code::OnceUnconfirmed.say(&[]).into(),
        }
    }

    pub(super) fn is_once_unconfirmed(&self) -> bool {
        matches!(self, Self::Held { code, .. } if *code == Code::OnceUnconfirmed)
    }
}

/// Why a file was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// It never had to wait.
    Free,
    /// All its requirements are met.
    Met,
    /// Files that RKE2 applies earlier in the same pass provide the rest. If one of them is hidden before the file is
    /// applied, it is decided again.
    SamePass,
    /// Its deadline passed, or it is in a cycle: RKE2 tries to apply it, as it would have without Windrow.
    Yielded,
    /// It was released by hand.
    ByHand,
    /// RKE2 was faster than the marker.
    Escaped,
    /// RKE2 applied it although Windrow held it: another server did, or the marker was missing for a moment.
    Elsewhere,
    /// Staging is switched off.
    Off,
}

/// An order for a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Manual {
    /// true holds it, false releases it.
    pub hold: bool,
    /// The user who gave the order.
    pub by: String,
    /// When the order was given.
    pub at: Timestamp,
    /// The reason of the user.
    pub reason: String,
}

impl Manual {
    /// Releases files that may be released while Windrow cannot run.
    pub const FAILSAFE: &'static str = "windrow-failsafe";
    pub const CLEANUP: &'static str = "windrow-cleanup";

    /// The reason of the hold, in the form of the marker.
    pub(super) fn why(&self) -> String {
        let why = format!("{} ({})", self.reason, self.by);
        Code::HeldByHand.say(&[("why", &why)])
    }

    /// Parses the result of [`Self::why`]: restores a hold whose ledger was lost.
    pub(super) fn from_marker(why: &str, at: Timestamp) -> Self {
        let begin = Code::HeldByHand.say(&[("why", "")]);
        let why = why.strip_prefix(begin.as_str()).unwrap_or(why);
        let both = why.strip_suffix(')').and_then(|why| why.rsplit_once(" ("));
        let (reason, by) = both.unwrap_or((why, "unknown"));
        Self {
            hold: true,
            by: by.to_owned(),
            at,
            reason: reason.to_owned(),
        }
    }
}

/// The events about a file that were already reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AlreadyReported {
    /// It waits longer than its deadline.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Its marker was gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub marker_lost: bool,
    /// One of its former requirements is not ready any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub regressed: bool,
    /// The file is gone, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vanished: Option<Timestamp>,
    /// RKE2's last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// When this failure was first observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_since: Option<Timestamp>,
}

impl AlreadyReported {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
