//! The oracle: if a process dies, its unwritten decisions count as not made.

use std::collections::BTreeMap;

use smol_str::SmolStr;
use windrow_model::manifest::ManifestPath;

use super::oracle::Oracle;

/// The holds that ended by decisions that are not on the disk yet, by content.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    pub(super) let_go: BTreeMap<ManifestPath, SmolStr>,
    pub(super) granted: BTreeMap<ManifestPath, SmolStr>,
}

impl Oracle {
    /// The ledger is on the disk. It contains nothing about files that Windrow could not read.
    pub(super) fn note_saved(&mut self, is_unknown: impl Fn(&ManifestPath, &SmolStr) -> bool) {
        self.unwritten = Unwritten::default();
        self.waits.note_saved(is_unknown);
    }

    /// A new process begins: it knows only the content of the disk.
    pub(super) fn recall_written(&mut self) {
        let Unwritten { let_go, granted } = std::mem::take(&mut self.unwritten);
        for (file, digest) in let_go {
            self.let_go.entry(file).or_insert(digest);
        }
        for (file, digest) in granted {
            self.granted.entry(file).or_insert(digest);
        }
    }
}
