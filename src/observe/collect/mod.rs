//! Collects what `windrow report` sends: files, what commands say, what the cluster holds. Everything
//! is bounded in size and in time, and what cannot be had is noted with the reason: a report is wanted
//! most where little works.
//!
//! Nothing is changed, and nothing is needed: no daemon, no cluster, no disk that can be written.

mod cluster;
mod commands;
mod files;
mod reduce;

use std::time::Duration;

use tokio::time::Instant;
use windrow_harvester::incidents::OwnNode;

use crate::apiserver::ApiServer;
use crate::archive::{Collected, CollectedContent, CollectedItem, OWN_NODE};
use crate::layout::Layout;

/// Most bytes of one file, command or answer.
const LARGEST: usize = 4 << 20;
/// Most bytes of everything together.
const LARGEST_OF_ALL: usize = 96 << 20;

/// What to collect.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where things live, with the data directory that the settings name.
    pub layout: Layout,
    /// Does the layout describe the running machine? Otherwise no command is asked about it.
    pub live: bool,
    /// With the manifests themselves?
    pub manifests: bool,
    /// What the node's own files say of known incidents.
    pub own: OwnNode,
    /// How long all of it may take.
    pub patience: Duration,
}

/// Who is told what is being collected.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// A collection under way.
struct Collecting<'a> {
    wanted: &'a Wanted,
    until: Instant,
    bytes: usize,
    into: &'a mut Collected,
    progress: Progress<'a>,
}

/// Collects.
pub async fn collect(
    api: &ApiServer,
    wanted: &Wanted,
    into: &mut Collected,
    progress: Progress<'_>,
) {
    let mut collecting = Collecting {
        wanted,
        until: Instant::now() + wanted.patience,
        bytes: 0,
        into,
        progress,
    };
    files::collect(&mut collecting);
    let own = serde_json::to_value(&wanted.own).unwrap_or_default();
    let bytes = own.to_string().len();
    let found = Found::tree(own, bytes);
    let source = "the node's own files".to_owned();
    collecting.add(
        OWN_NODE.to_owned(),
        "known incidents of the node",
        source,
        found,
    );
    commands::collect(&mut collecting).await;
    cluster::collect(api, &mut collecting).await;
}

impl Collecting<'_> {
    fn tell(&mut self, what: &str) {
        (self.progress)(what);
    }

    /// How much time is left for something that may take so long at most.
    fn time(&self, most: Duration) -> Duration {
        most.min(self.until.saturating_duration_since(Instant::now()))
    }

    /// Takes something in, as long as there is room.
    fn add(&mut self, path: String, what: &str, source: String, found: Found) {
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

    fn missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.into.missing(what, why);
    }
}

/// Something that was found.
struct Found {
    content: CollectedContent,
    bytes: usize,
    truncated: bool,
}

impl Found {
    fn text(text: String, truncated: bool) -> Self {
        Self {
            bytes: text.len(),
            content: CollectedContent::Text(text),
            truncated,
        }
    }

    fn tree(tree: serde_json::Value, bytes: usize) -> Self {
        Self {
            content: CollectedContent::Tree(tree),
            bytes,
            truncated: false,
        }
    }
}
