//! The archive that `windrow report` writes and that can be read on another machine: a `tar.gz` with an index.
//! `docs/report.md` describes its layout, which is a promise.
//!
//! Collected content is written without its secrets: there is no way into the archive past the redactor.

mod flights;
mod read;
mod sources;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use flights::read_flights;
pub use read::{Archive, LARGEST_FLIGHT, Packed, ReadError, items_of, read_each};
pub(crate) use sources::matches;

use windrow_model::redact::{Learner, REDACTED, Redactor};

use crate::printable::{json, json_pretty, printable_lines};

pub const INDEX: &str = "report.json";

/// Largest file of an archive, in bytes. A file of the node has at most 4 MiB; a list of objects may have all that is collected.
pub const LARGEST_FILE: u64 = 128 << 20;

/// Most bytes of all its files: 96 MiB are collected, and JSON is indented.
pub const LARGEST_OF_ALL: u64 = 256 << 20;

/// Facts about known incidents from the node's own files.
pub const OWN_NODE: &str = "node/own.json";

/// The index, `apiVersion: windrow.dev/v1`, `kind: Report`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportIndex {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Report`
    pub kind: String,
    /// When it was made.
    pub created: Timestamp,
    /// The node's host name.
    pub host: String,
    /// The Windrow that made it.
    pub windrow: String,
    /// Everything that is in it, in order.
    pub files: Vec<IndexEntry>,
    /// What was looked for and could not be had, and why.
    pub missing: Vec<Missing>,
    /// How often `[redacted]` stands in it.
    pub redacted: usize,
}

/// One file of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IndexEntry {
    /// Path in the archive, below its one directory.
    pub path: String,
    /// What it is.
    pub what: String,
    /// Where it was had: a path on the node, a command, a request.
    pub source: String,
    /// Size in bytes.
    pub bytes: usize,
    /// Was it cut off at a limit?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Something that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

#[derive(Debug)]
pub struct CollectedItem {
    pub path: String,
    pub what: String,
    pub source: String,
    pub content: CollectedContent,
    pub truncated: bool,
}

#[derive(Debug)]
pub enum CollectedContent {
    /// Text of any kind.
    Text(String),
    /// JSON, or parsed YAML; written as JSON.
    Tree(Value),
    /// Several values, as documents of one file.
    Trees(Vec<Value>),
    /// Several values, one a line.
    Lines(Vec<Value>),
}

#[derive(Debug, Default)]
pub struct Collected {
    pub items: Vec<CollectedItem>,
    pub missing: Vec<Missing>,
    pub learner: Learner,
}

impl Collected {
    pub fn missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.missing.push(Missing {
            what: what.into(),
            why: why.into(),
        });
    }
}

#[derive(Debug, Clone)]
pub struct ArchiveOwner {
    pub host: String,
    pub created: Timestamp,
}

impl ArchiveOwner {
    /// The name of the archive and of its one directory: host and time.
    pub fn name(&self) -> String {
        let host: String = self
            .host
            .chars()
            .map(|one| match one {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => one,
                _ => '-',
            })
            .collect();
        let host = host.trim_matches(['.', '-']);
        let host = if host.is_empty() { "node" } else { host };
        let time = self.created.strftime("%Y%m%dT%H%M%SZ");
        format!("windrow-report-{host}-{time}")
    }
}

pub const UNKNOWN_SOURCE: &str = "left out: no report has such a file";

const MANY_SECRETS: (&str, &str) = (
    "some secrets",
    "there are more than 2 MiB: of the last ones, only the places are left out that look like a secret's",
);

/// The size of the index and of a file's headers in an archive, at most, in bytes.
const ROOM_OF_INDEX: u64 = 8 << 20;
const ROOM_OF_HEADERS: u64 = 8 << 10;

/// Writes the archive. The secrets of all items are learned before anything is written.
///
/// # Errors
///
/// Those of `out`.
pub fn pack(
    collected: Collected,
    owner: &ArchiveOwner,
    out: impl Write,
) -> io::Result<ReportIndex> {
    pack_within(LARGEST_FILE, collected, owner, out)
}

/// As [`pack`]. A file of more than `largest` bytes is left out.
fn pack_within(
    largest: u64,
    mut collected: Collected,
    owner: &ArchiveOwner,
    out: impl Write,
) -> io::Result<ReportIndex> {
    for item in &collected.items {
        match &item.content {
            CollectedContent::Text(text) => collected.learner.text(text),
            CollectedContent::Tree(tree) => collected.learner.value(tree),
            CollectedContent::Trees(trees) | CollectedContent::Lines(trees) => {
                trees.iter().for_each(|tree| collected.learner.value(tree));
            }
        }
    }
    if collected.learner.is_full() {
        collected.missing(MANY_SECRETS.0, MANY_SECRETS.1);
    }
    let redactor = collected.learner.redactor();
    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::default()));
    let mut index = ReportIndex {
        api_version: "windrow.dev/v1".to_owned(),
        kind: "Report".to_owned(),
        created: owner.created,
        host: owner.host.clone(),
        windrow: env!("CARGO_PKG_VERSION").to_owned(),
        files: Vec::new(),
        missing: collected
            .missing
            .into_iter()
            .map(|missing| Missing {
                what: redactor.text(&missing.what),
                why: redactor.text(&missing.why),
            })
            .collect(),
        redacted: 0,
    };
    let mut packed = Vec::with_capacity(collected.items.len());
    let mut room = LARGEST_OF_ALL - ROOM_OF_INDEX;
    for item in collected.items {
        if !sources::is_known(&item.path) {
            index.missing.push(Missing {
                what: redactor.text(&item.path),
                why: UNKNOWN_SOURCE.to_owned(),
            });
            continue;
        }
        let text = shown(&item.content, &redactor);
        // A reader on another machine refuses a larger file.
        let bytes = text.len() as u64 + ROOM_OF_HEADERS;
        if bytes > largest.min(room) {
            index.missing.push(Missing {
                what: redactor.text(&item.path),
                why: "left out: the report has no room for it".to_owned(),
            });
            continue;
        }
        room -= bytes;
        index.redacted += text.matches(REDACTED).count();
        let path = redactor.text(&item.path);
        index.files.push(IndexEntry {
            path: path.clone(),
            what: redactor.text(&item.what),
            source: redactor.text(&item.source),
            bytes: text.len(),
            truncated: item.truncated,
        });
        packed.push((path, text));
    }
    // The index comes first: a reader need not unpack everything to see what there is.
    let mut own = json_pretty(&index)?;
    own.push('\n');
    append(&mut archive, owner, INDEX, &own)?;
    for (path, text) in packed {
        append(&mut archive, owner, &path, &text)?;
    }
    archive.into_inner()?.finish()?.flush()?;
    Ok(index)
}

fn shown(content: &CollectedContent, redactor: &Redactor) -> String {
    let tree = |tree: &Value| -> String {
        // A tree of strings can always be written.
        json_pretty(&redactor.value(tree)).unwrap_or_default() + "\n"
    };
    match content {
        // The colour codes of a log are not text.
        CollectedContent::Text(text) => printable_lines(&redactor.text(text)),
        CollectedContent::Tree(one) => tree(one),
        CollectedContent::Trees(several) => {
            several.iter().map(tree).collect::<Vec<_>>().join("---\n")
        }
        CollectedContent::Lines(several) => several
            .iter()
            .map(|line| json(&redactor.value(line)).unwrap_or_default() + "\n")
            .collect(),
    }
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    owner: &ArchiveOwner,
    path: &str,
    text: &str,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(u64::try_from(owner.created.as_second()).unwrap_or_default());
    header.set_entry_type(tar::EntryType::Regular);
    let path = format!("{}/{path}", owner.name());
    archive.append_data(&mut header, path, text.as_bytes())
}

/// The path for the objects of a kind. The core group, which has no name, is called `core`.
pub fn objects_path(group: &str, kind: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    format!("cluster/{group}_{kind}.json")
}
