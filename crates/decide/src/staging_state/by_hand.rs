//! Holds and releases by hand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::manifest::{BaseName, ManifestPath};
use windrow_model::reasons::Code;
use windrow_plan::{FileObstacle, PlanFile, rke2};

use super::StagingState;
use super::unread::is_below;
use crate::ledger::{AlreadyReported, FileStage, LedgerEntry, Manual};

/// Why an order was not entered, in a sentence for its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderError {
    /// The file or its marker cannot be read now. The order may be accepted later.
    NotNow(String),
    Refused(String),
}

impl fmt::Display for OrderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotNow(why) | Self::Refused(why)) = self;
        formatter.write_str(why)
    }
}

impl std::error::Error for OrderError {}

impl StagingState {
    /// Enters a hold or a release by hand. The next decision carries it out. `released` has the digests of the released
    /// files by path: a release counts only for that content. A file that is not in it is released with any content.
    ///
    /// # Errors
    ///
    /// There is no such file, or Windrow may not hold or release it, or a failed read hides this.
    pub fn hold_or_release(
        &mut self,
        path: &ManifestPath,
        released: &BTreeMap<ManifestPath, String>,
        manual: Manual,
        now: Timestamp,
    ) -> Result<(), OrderError> {
        if let Some(why) = self.why_not_now(path, &manual) {
            return Err(OrderError::NotNow(why));
        }
        self.enter_order(path, released, manual, now)
            .map_err(OrderError::Refused)
    }

    /// Why Windrow cannot tell yet whether an order counts: the required information was never read, and cannot be read
    /// now.
    fn why_not_now(&self, path: &ManifestPath, manual: &Manual) -> Option<String> {
        let cannot_be_read = |path: &str, why: &str| {
            let message = Code::FileUnreadable.say(&[("error", why)]);
            [path, ": ", &message].concat()
        };
        let name = path.name();
        let marker = self.observation.markers.get(&name);
        let foreign = marker.filter(|marker| marker.mark.is_none());
        // A release by the fail-safe counts, whoever made the marker.
        let foreign = foreign.filter(|_| manual.by != Manual::FAILSAFE);
        let mut unread = self.unread.iter();
        if let Some(foreign) = foreign
            && let Some((marker, unread)) = unread.find(|(path, _)| **path == *foreign.path)
        {
            return Some(cannot_be_read(marker, &unread.why));
        }
        if manual.hold {
            return None;
        }
        let files = &self.plan.files;
        let mut above = self.unread.iter();
        if !files.iter().any(|file| file.path == *path) {
            let above = above.find(|(above, _)| is_below(path, above));
            if let Some((above, unread)) = above {
                return Some(cannot_be_read(above, &unread.why));
            }
        }
        // A release applies to the content, and the content is unknown.
        let mut never_read = files
            .iter()
            .filter(|file| file.name == name && file.trouble == Some(FileObstacle::Unreadable));
        let file = never_read.next()?;
        let unread = self.unread.get(&file.path)?;
        Some(cannot_be_read(&file.path, &unread.why))
    }

    fn enter_order(
        &mut self,
        path: &ManifestPath,
        released: &BTreeMap<ManifestPath, String>,
        manual: Manual,
        now: Timestamp,
    ) -> Result<(), String> {
        if let Some(owner) = rke2::owner(path) {
            return Err(format!("{path} is {owner}'s own; Windrow leaves it alone"));
        }
        let name = path.name();
        let foreign = self
            .observation
            .markers
            .get(&name)
            .is_some_and(|marker| marker.mark.is_none());
        // A release by the fail-safe stays in force after the other marker is removed: RKE2 had the file.
        let is_let_go = !manual.hold && manual.by == Manual::FAILSAFE;
        if foreign && !is_let_go {
            return Err(format!(
                "{path} is held by a marker that Windrow did not make; only its owner removes {name}.skip"
            ));
        }
        let plan = Arc::clone(&self.plan);
        let file = plan.files.iter().find(|file| file.path == *path);
        if let Some(trouble) = file.and_then(|file| file.trouble).filter(|_| manual.hold)
            && let Some(why) = trouble.why_not_held()
        {
            return Err(format!("{path} cannot be held: {why}"));
        }
        let digest = file.map(|file| file.digest.clone()).unwrap_or_default();
        // One marker hides every file with this name: they are held and released together.
        let same_name: Vec<_> = plan
            .files
            .iter()
            .filter(|file| file.name == name && file.path != *path && file.owner.is_none())
            .collect();
        // A moved file is held by the marker that it left behind, and users see that path.
        if file.is_none() && !manual.hold && same_name.is_empty() {
            return Err(format!("there is no manifest file {path}"));
        }
        let is_other = |file: &&PlanFile| {
            let content = released.get(&file.path);
            content.is_some_and(|content| **content != *file.digest)
        };
        if !manual.hold
            && let Some(changed) = file.iter().chain(&same_name).copied().find(is_other)
        {
            return Err(format!(
                "the content of {} is not the one that was released; release it again if this content is meant too",
                changed.path
            ));
        }
        for other in same_name {
            self.enter_manual(&other.path, other.digest.clone(), manual.clone(), now);
        }
        if !manual.hold {
            self.forget_holds_of_absent(&name);
        }
        if file.is_some() || manual.hold {
            self.enter_manual(path, digest, manual, now);
        }
        Ok(())
    }

    /// Is there a later order for this file than `order`, or a later opposite order for another file with its name?
    pub fn has_later_order(&self, path: &ManifestPath, order: &Manual) -> bool {
        let name = path.name();
        let mut entries = self.ledger.files.iter();
        entries.any(|(other, entry)| {
            let manual = entry.manual.as_ref();
            manual.is_some_and(|manual| {
                let counts = other == path || other.name() == name && manual.hold != order.hold;
                counts && manual.at > order.at
            })
        })
    }

    /// The digests of the last decided content of this file, and of the others with its name. A file without a decision
    /// has none.
    pub fn known_digests(&self, path: &ManifestPath) -> BTreeMap<ManifestPath, String> {
        let name = path.name();
        let files = self.ledger.files.iter();
        let known = files.filter(|(other, entry)| other.name() == name && !entry.digest.is_empty());
        known
            .map(|(other, entry)| (other.clone(), entry.digest.to_string()))
            .collect()
    }

    /// A file with this name that is missing for a moment was held together with the others, and is released with them.
    fn forget_holds_of_absent(&mut self, name: &BaseName) {
        let plan = Arc::clone(&self.plan);
        let is_there = |path: &ManifestPath| plan.files.iter().any(|file| file.path == *path);
        let entries = self.ledger.files.iter();
        let held = entries.filter(|(path, entry)| {
            let by_hand = entry.manual.as_ref().is_some_and(|manual| manual.hold);
            by_hand && path.name() == *name && !is_there(path)
        });
        let held: Vec<ManifestPath> = held.map(|(path, _)| path.clone()).collect();
        for path in held {
            if let Some(entry) = Arc::make_mut(&mut self.ledger).files.get_mut(&path) {
                Arc::make_mut(entry).manual = None;
            }
        }
    }

    fn enter_manual(
        &mut self,
        path: &ManifestPath,
        digest: SmolStr,
        manual: Manual,
        now: Timestamp,
    ) {
        let files = &mut Arc::make_mut(&mut self.ledger).files;
        let of_now = || {
            Arc::new(LedgerEntry {
                digest: digest.clone(),
                first_seen: now,
                since: now,
                state: FileStage::Held {
                    code: Code::HeldByHand,
                    why: manual.reason.as_str().into(),
                },
                reported: AlreadyReported::default(),
                manual: None,
            })
        };
        let entry = files.entry(path.clone()).or_insert_with(of_now);
        // The decision about other content does not apply to this one.
        if !manual.hold && entry.digest != digest {
            *entry = of_now();
        }
        let manual = Some(Box::new(manual));
        if entry.manual != manual {
            Arc::make_mut(entry).manual = manual;
            // The next decision may not find anything else to change.
            self.ledger_is_unsaved = true;
        }
    }
}
