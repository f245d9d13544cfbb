//! What was decided, kept over restarts and power cuts: the ratchet.
//!
//! A file that was released stays released for that content, whatever happens to what it waited for.
//! The ledger is a value here; `act` writes it.

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

/// Everything that was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Format version.
    pub version: u32,
    /// Which cluster this was decided for: SHA-256 of RKE2's server CA, once there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// SHA-256 of the name under which this node is in that cluster's etcd, once it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Was the datastore removed, with no new one yet? Until kube-apiserver stops, it may still answer from the removed one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub datastore_removed: bool,
    /// What restarts of the daemon do not begin again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimes>,
    /// By path. A ledger that differs in a few files shares the rest.
    pub files: BTreeMap<ManifestPath, Arc<LedgerEntry>>,
    /// What has to be known of the node.
    #[serde(default, skip_serializing_if = "NodeMemory::is_empty")]
    pub node: NodeMemory,
}

/// The clock was set if the time of the boot differs by more than this: it is corrected in small steps all the time.
const LEAST_STEP: Duration = Duration::from_secs(5);

impl Ledger {
    /// The format that this program writes. Another one is for what this program would misread: a field more is none.
    pub const VERSION: u32 = 1;

    /// Reads one, whichever version of Windrow wrote it: after a rollback there may be more in it than this version knows. What cannot
    /// be read is left out, and said in a line each.
    ///
    /// # Errors
    ///
    /// When it is no ledger at all.
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

    /// Enters in which boot the daemon starts, and when that began. In the same boot, deadlines go on, and if the clock was set while no
    /// daemon ran, all times move along.
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

    /// Moves all times along with the wall clock, which was set.
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

    /// The names that a person holds, and what was said. A hold is meant for the name, whichever files have it.
    pub(super) fn held_names(&self) -> BTreeMap<BaseName, &Manual> {
        let by_hand = self.files.iter().filter_map(|(path, entry)| {
            let manual = entry.manual.as_deref().filter(|manual| manual.hold)?;
            Some((path.name(), manual))
        });
        by_hand.collect()
    }
}

/// Which cluster a manifests directory belongs to, as the node's files say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterIdentity {
    /// SHA-256 of RKE2's server CA; none before its first start, and after it was removed. `rke2 certificate rotate-ca` changes it.
    pub ca: Option<String>,
    /// SHA-256 of this node's name in etcd, which k3s draws for each new data directory (`setName` in `pkg/etcd/etcd.go`) and keeps in
    /// `server/db/etcd/name`; none with another datastore.
    pub datastore: Option<String>,
}

impl ClusterIdentity {
    /// Was a ledger written for another cluster? The datastore decides where both are known to have one, and one that is gone is
    /// another one.
    fn is_other_than(&self, ledger: &Ledger) -> bool {
        match (&ledger.datastore, &ledger.cluster) {
            (Some(datastore), _) => self.datastore.as_ref() != Some(datastore),
            (None, Some(ca)) => self.ca.as_ref() != Some(ca),
            (None, None) => false,
        }
    }

    /// Enters itself into a ledger, without what counted for another cluster; true if there was one. Holds by hand stay. If only
    /// the datastore is another one, this node may have rejoined its cluster: what is in `applied_once` then waits until
    /// RKE2's Addons show whether the cluster has it. Holds of files that are `gone` for a moment stay as well.
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

/// The times of one boot from which deadlines count, whichever process of the daemon saw them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootTimes {
    /// The kernel's ID of the boot.
    pub id: String,
    /// When it began, by the clock with which the ledger's times were written: if a later process sees another time, the clock was set.
    pub booted: Timestamp,
    /// When the daemon first started in it.
    pub started: Timestamp,
    /// When kube-apiserver first answered in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Timestamp>,
    /// How often the daemon has started in it.
    pub starts: u32,
    /// Was the clock set between the ledger's last write and the daemon's last start? A marker that the ledger lacks may have the time of
    /// either clock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clock_was_set: bool,
}

impl BootTimes {
    /// Visits every time in it.
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

/// A ledger whose entries were not read yet.
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

/// What was decided about one content of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Digest of the objects that this is about.
    pub digest: SmolStr,
    /// When this content was first seen.
    pub first_seen: Timestamp,
    /// Since when the state below holds.
    pub since: Timestamp,
    /// The state.
    pub state: FileStage,
    /// What was already reported of it, so that it is reported once.
    #[serde(
        rename = "told",
        default,
        skip_serializing_if = "AlreadyReported::is_empty"
    )]
    pub reported: AlreadyReported,
    /// What a person ordered for this file, if anything. A hold outlives a change of content; a release does
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<Box<Manual>>,
}

impl LedgerEntry {
    /// Visits every time in it. A new field has to be named here.
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

    /// Is one of its times later than this?
    pub(super) fn is_later_than(&self, now: Timestamp) -> bool {
        let mut is_later = false;
        self.clone().visit_times(&mut |at| is_later |= *at > now);
        is_later
    }
}

/// Where a file stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum FileStage {
    /// Kept from RKE2.
    Held {
        /// The first blocker's code.
        code: Code,
        /// The first blocker, in a line.
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
    /// Everything it waited for came.
    Met,
    /// What it still needs comes with files that RKE2 applies before it in the same pass. Should one of these be hidden before the file is
    /// applied, it is decided again.
    SamePass,
    /// Its deadline passed, or it stands in a cycle: RKE2 tries, as it would have without Windrow.
    Yielded,
    /// A person released it.
    ByHand,
    /// RKE2 was quicker than the marker.
    Escaped,
    /// RKE2 applied it although Windrow held it: another server did, or the marker was missing for a moment.
    Elsewhere,
    /// Staging is switched off.
    Off,
}

/// What a person ordered for a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Manual {
    /// Hold it, or release it.
    pub hold: bool,
    /// Who ordered it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

impl Manual {
    /// Who releases what may be released while Windrow cannot run.
    pub const FAILSAFE: &'static str = "windrow-failsafe";
    /// Who releases when Windrow is removed.
    pub const CLEANUP: &'static str = "windrow-cleanup";

    /// Why a file is held, as it stands in the marker.
    pub(super) fn why(&self) -> String {
        let why = format!("{} ({})", self.reason, self.by);
        Code::HeldByHand.say(&[("why", &why)])
    }

    /// Reads back what [`Self::why`] says: a hold whose ledger was lost.
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

/// What was already reported about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AlreadyReported {
    /// That it waits longer than its deadline.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// That its marker was gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub marker_lost: bool,
    /// That something it had waited for is not ready any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub regressed: bool,
    /// That the file is gone, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vanished: Option<Timestamp>,
    /// RKE2's last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// When that was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_since: Option<Timestamp>,
}

impl AlreadyReported {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
