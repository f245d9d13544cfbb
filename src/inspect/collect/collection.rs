//! A running collection: its options, its results, and its bounds.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use windrow_harvester::incidents::OwnNode;

use crate::archive::{Collected, CollectedContent, CollectedItem};
use crate::layout::Layout;

/// Most bytes of one file, command or answer.
pub(super) const LARGEST: usize = 4 << 20;
/// Most bytes of everything together.
pub(super) const LARGEST_OF_ALL: usize = 96 << 20;
/// Most memory of the cluster's objects together, in bytes: small maps take 60 times their length.
pub(super) const MOST_MEMORY: usize = 1 << 30;

#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The node's paths, with the data directory from the settings.
    pub(crate) layout: Layout,
    /// Whether the layout describes the running machine. Otherwise no command is run.
    pub(crate) live: bool,
    /// The kubeconfig that the user chose, if not the node's own.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) manifests: bool,
    /// Files of tokens and keys that the settings name: they are learned, and never collected.
    pub(crate) secret_files: Vec<PathBuf>,
    /// The facts about known incidents from the node's own files.
    pub(crate) own: OwnNode,
    /// The SHA-256 of its manifests without a Secret. An Addon's checksum of any other file is not sent: the file may
    /// have a Secret.
    pub(crate) plain: BTreeSet<String>,
    pub(crate) patience: Duration,
}

/// The callback gets the name of each part before it is collected.
pub(crate) type OnProgress<'a> = &'a mut dyn FnMut(&str);

pub(super) struct Collection<'a> {
    pub(super) wanted: &'a Wanted,
    pub(super) until: Instant,
    pub(super) bytes: usize,
    /// How much memory the cluster's objects may still take, in bytes.
    pub(super) room: usize,
    pub(super) into: &'a mut Collected,
    pub(super) on_progress: OnProgress<'a>,
}

impl Collection<'_> {
    pub(super) fn report_progress(&mut self, what: &str) {
        (self.on_progress)(what);
    }

    /// The time limit for a step with the limit `most`: never longer than the time left for all.
    pub(super) fn time(&self, most: Duration) -> Duration {
        most.min(self.until.saturating_duration_since(Instant::now()))
    }

    pub(super) fn add(&mut self, path: String, what: &str, source: String, found: CollectedPart) {
        if self.bytes + found.bytes > LARGEST_OF_ALL {
            let why = format!("the report has reached {} MiB", LARGEST_OF_ALL >> 20);
            return self.into.missing(format!("{what} ({source})"), why);
        }
        self.bytes += found.bytes;
        self.into.items.push(CollectedItem {
            path,
            what: what.to_owned(),
            source,
            content: found.content,
            truncated: found.truncated,
        });
    }

    pub(super) fn missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.into.missing(what, why);
    }
}

pub(super) struct CollectedPart {
    pub(super) content: CollectedContent,
    pub(super) bytes: usize,
    pub(super) truncated: bool,
}

impl CollectedPart {
    pub(super) fn text(text: String, truncated: bool) -> Self {
        Self {
            bytes: text.len(),
            content: CollectedContent::Text(text),
            truncated,
        }
    }

    pub(super) fn tree(tree: serde_json::Value, bytes: usize) -> Self {
        Self {
            content: CollectedContent::Tree(tree),
            bytes,
            truncated: false,
        }
    }
}
