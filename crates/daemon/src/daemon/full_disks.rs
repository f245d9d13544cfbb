//! The directories in which Windrow's own writes find no space. Each writer reports its failures here; the next write
//! that succeeds clears them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;

use crate::files::has_space;

pub(super) type ByWriter = BTreeMap<&'static str, BTreeSet<PathBuf>>;

/// Stands for all writers of a directory in which they can write again and that is as good as full.
const NOBODY: &str = "";

/// The reports of all writers. A clone reports to the same place.
#[derive(Debug, Clone, Default)]
pub(super) struct FullDisks(Arc<watch::Sender<ByWriter>>);

impl FullDisks {
    /// Sets the directories in which this writer finds no space now. One in which it finds some again stays until there is enough:
    /// on a full disk a few bytes can be written now and then.
    pub(super) fn set(&self, writer: &'static str, directories: BTreeSet<PathBuf>) {
        self.change(|known| {
            let before = known.remove(writer).unwrap_or_default();
            let written: BTreeSet<PathBuf> = before.difference(&directories).cloned().collect();
            if !written.is_empty() {
                known.entry(NOBODY).or_default().extend(written);
            }
            known.insert(writer, directories);
        });
    }

    /// Checks again the directories in which every writer can write. True if one of them is as good as full.
    pub(super) fn review(&self) -> bool {
        self.change(|_| {});
        self.0.borrow().contains_key(NOBODY)
    }

    fn change(&self, change: impl FnOnce(&mut ByWriter)) {
        self.0.send_if_modified(|known| {
            let before = known.clone();
            change(known);
            if let Some(left) = known.get_mut(NOBODY) {
                left.retain(|directory| !has_space(directory));
            }
            known.retain(|_, directories| !directories.is_empty());
            *known != before
        });
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ByWriter> {
        self.0.subscribe()
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let directories: BTreeSet<PathBuf> = self.0.borrow().values().flatten().cloned().collect();
        let find = |directory: PathBuf| {
            let why = format!("no space left in {}", directory.display());
            Finding {
                code: Code::DiskFull,
                severity: Code::DiskFull.severity(),
                message: Code::DiskFull.say(&[("why", &why)]),
                at: Vec::new(),
                incident: None,
            }
        };
        directories.into_iter().map(find).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_full_directory_is_one_finding_until_every_writer_can_write_there() {
        let disks = FullDisks::default();
        let mut changes = disks.subscribe();
        let here = || BTreeSet::from([PathBuf::from("/here")]);
        disks.set("ledger", BTreeSet::new());
        assert!(!changes.has_changed().unwrap(), "nothing failed");
        disks.set("ledger", here());
        disks.set("flight", here());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        disks.set("flight", here());
        assert!(!changes.has_changed().unwrap(), "that was known");
        let found = disks.findings();
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("/here"), "{}", found[0].message);
        disks.set("ledger", BTreeSet::new());
        assert_eq!(disks.findings().len(), 1);
        disks.set("flight", BTreeSet::new());
        assert!(disks.findings().is_empty());
    }
}
