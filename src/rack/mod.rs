//! Many nodes on one page: receives their events, polls their servers, keeps the reports, and shows them.
//!
//! ```text
//!   POST /events ──────┐                        ┌──> page, JSON, live events (server)
//!   GET node/status ───┼──> Hub: Rack + Store ──┼──> terminal
//!   Nodes (Kubernetes)─┘                        └──> --once, --wait
//! ```
//!
//! The state and its judgement are in the crate `rack`; this module has the inputs and outputs. May know: `apiserver`,
//! `kubeconfig`, `files`, `render`, and of `report` the server's token and limits.

pub(crate) mod announced;
pub(crate) mod ask;
mod bounded_client;
pub(crate) mod cluster;
pub(crate) mod server;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod terminal;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::watch;
use windrow_model::manifest::sha256;
use windrow_rack::{
    Inventory, NodeIdentity, NodeReport, NodeRow, Rack, RackNotice, RackView, ReportSource,
};

use self::store::{Restored, Store, StoreOwner};
use crate::locked::lock;

/// How old a view may be when nothing has changed: ages go on.
const VIEW_SECONDS: i64 = 5;
/// Most status documents in memory, in bytes.
const MOST_DOCUMENTS: usize = 64 << 20;
/// Most notices on the page: a broken network is one problem, not one for each node.
const MOST_NOTICES: usize = 20;
const MOST_RECENT: usize = 8_192;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// There is no room for its node.
    Full(String),
    /// It could not be kept; it is to be sent again.
    NotKept(String),
}

/// Identifies a report: the SHA-256 of its node, id or content, sequence number and generation. An id is not enough,
/// because any node may use it.
type ReportKey = [u8; 32];

/// A repeated answer is another report if its content differs.
fn key_of(report: &NodeReport) -> ReportKey {
    let name = match report.source {
        ReportSource::Event { .. } => report.id.clone(),
        ReportSource::Document | ReportSource::Condition => {
            serde_json::to_string(&(&report.boot, &report.state)).unwrap_or_default()
        }
    };
    let key = (&report.identity, name, report.sequence, report.generation);
    sha256(&serde_json::to_vec(&key).unwrap_or_default())
}

struct KnownView {
    /// The generation that it shows.
    of: u64,
    number: u64,
    view: Arc<RackView>,
}

pub(crate) struct Hub {
    rack: Mutex<Rack>,
    store: Option<Store>,
    changed: watch::Sender<u64>,
    view: Mutex<Option<KnownView>>,
    /// Whole status documents as they came, the oldest first: as values they would be ten times as large.
    documents: Mutex<Vec<(NodeIdentity, Arc<[u8]>)>>,
    reading: ask::ReadingRoom,
    /// The notices for the operator, by subject.
    notices: Mutex<BTreeMap<String, String>>,
    recent: Mutex<HashSet<ReportKey>>,
    now: fn() -> Timestamp,
}

impl Hub {
    /// Starts with the restored state, and keeps reports in the store. Returns notes for the operator.
    ///
    /// # Errors
    ///
    /// When there is a store and its thread cannot be started.
    pub(crate) fn new(
        inventory: Inventory,
        opened: Option<(store::Opened, Restored)>,
        now: fn() -> Timestamp,
    ) -> std::io::Result<Arc<Self>> {
        let mut rack = Rack::new(inventory);
        let mut notices = BTreeMap::new();
        let mut store = None;
        // The store asks for the records into which it folds reports.
        let shared: Arc<Mutex<std::sync::Weak<Self>>> = Arc::default();
        if let Some((opened, restored)) = opened {
            let (records, reports) = (restored.records, &restored.reports);
            // Another inventory may not have room for all restored nodes.
            for (identity, record) in records {
                let _ = rack.restore(identity, record);
            }
            for report in reports {
                let _ = rack.take(report);
            }
            for (number, note) in restored.notes.into_iter().enumerate() {
                notices.insert(format!("store {number}"), note);
            }
            let hub = shared.clone();
            let records = move || {
                let hub = lock(&hub).upgrade();
                hub.map(|hub: Arc<Self>| {
                    let rack = lock(&hub.rack);
                    let records = rack.records();
                    records
                        .map(|(one, record)| (one.clone(), record.clone()))
                        .collect()
                })
                .unwrap_or_default()
            };
            let hub = shared.clone();
            let folded = move |folded: Result<(), String>| {
                let text = folded.err().map(|why| {
                    format!("saved reports cannot be summed up, and take more and more room: {why}")
                });
                if let Some(hub) = lock(&hub).upgrade() {
                    hub.note("folding", text);
                }
            };
            store = Some(opened.start(StoreOwner {
                records: Box::new(records),
                folded: Box::new(folded),
            })?);
        }
        let hub = Arc::new(Self {
            rack: Mutex::new(rack),
            store,
            changed: watch::channel(0).0,
            view: Mutex::default(),
            documents: Mutex::default(),
            reading: ask::ReadingRoom::default(),
            notices: Mutex::new(notices),
            recent: Mutex::default(),
            now,
        });
        *lock(&shared) = Arc::downgrade(&hub);
        Ok(hub)
    }

    pub(crate) fn listen(&self) {
        lock(&self.rack).listen(self.now());
        self.touch();
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Takes a report, and returns once it is kept.
    pub(crate) async fn take(&self, report: NodeReport) -> Result<(), NotTaken> {
        lock(&self.rack).take(&report).map_err(|refused| {
            self.touch();
            NotTaken::Full(refused.0)
        })?;
        self.touch();
        let Some(store) = &self.store else {
            return Ok(());
        };
        let key = key_of(&report);
        if lock(&self.recent).contains(&key) {
            return Ok(());
        }
        let kept = store.keep(report).await;
        self.note(
            "keeping",
            kept.as_ref()
                .err()
                .map(|why| format!("new reports cannot be kept over a restart: {why}")),
        );
        kept.map_err(NotTaken::NotKept)?;
        let mut recent = lock(&self.recent);
        if recent.len() >= MOST_RECENT {
            recent.clear();
        }
        recent.insert(key);
        Ok(())
    }

    pub(crate) fn note(&self, about: &str, text: Option<String>) {
        let mut notices = lock(&self.notices);
        let changed = match text {
            Some(text) => notices.insert(about.to_owned(), text.clone()) != Some(text),
            None => notices.remove(about).is_some(),
        };
        drop(notices);
        if changed {
            self.touch();
        }
    }

    fn touch(&self) {
        self.changed.send_modify(|generation| *generation += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn view(&self) -> Arc<RackView> {
        self.numbered_view().1
    }

    /// The current view, with a number that no other view has.
    pub(crate) fn numbered_view(&self) -> (u64, Arc<RackView>) {
        let now = self.now();
        let generation = *self.changed.borrow();
        let mut known = lock(&self.view);
        let mut number = 0;
        if let Some(known) = &*known {
            let age = now.duration_since(known.view.at).as_secs().abs();
            if known.of == generation && age < VIEW_SECONDS {
                return (known.number, known.view.clone());
            }
            number = known.number + 1;
        }
        let mut view = lock(&self.rack).view(now);
        let notices = lock(&self.notices);
        let shown = notices.values().take(MOST_NOTICES);
        view.notices
            .extend(shown.map(|text| RackNotice { text: text.clone() }));
        if let Some(more) = notices.len().checked_sub(MOST_NOTICES + 1) {
            let text = format!("… and {} more of the kind", more + 1);
            view.notices.push(RackNotice { text });
        }
        drop(notices);
        let view = Arc::new(view);
        *known = Some(KnownView {
            of: generation,
            number,
            view: view.clone(),
        });
        (number, view)
    }

    /// Keeps a node's whole status document, in memory; the oldest are dropped if there is no room.
    pub(crate) fn put_document(&self, node: &NodeIdentity, document: Vec<u8>) {
        let mut documents = lock(&self.documents);
        documents.retain(|(other, _)| other != node);
        documents.push((node.clone(), document.into()));
        let mut bytes: usize = documents.iter().map(|(_, document)| document.len()).sum();
        while bytes > MOST_DOCUMENTS {
            bytes -= documents.remove(0).1.len();
        }
    }

    pub(crate) fn document(&self, row: &NodeRow) -> Option<Arc<[u8]>> {
        let documents = lock(&self.documents);
        let same = |one: &str, own: &str| !one.is_empty() && one == own;
        let is_it = |node: &NodeIdentity| match (node.mac.is_empty(), node.serial.is_empty()) {
            (false, _) => node.mac == row.mac,
            (true, false) => node.serial == row.serial,
            (true, true) => same(&node.host, &row.host),
        };
        let newest = documents.iter().rev().find(|(node, _)| is_it(node));
        newest.map(|(_, document)| document.clone())
    }

    pub(crate) fn with_inventory<T>(&self, look: impl FnOnce(&Inventory) -> T) -> T {
        look(lock(&self.rack).inventory())
    }
}

#[cfg(test)]
mod tests;
