//! How long a manifest waits for its marker, for the benchmarks that measure it.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher};

/// A marker that is later than this is a fault, not a figure.
const DEADLINE: Duration = Duration::from_secs(60);
/// Waits for a kind that nothing brings.
pub(crate) const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";

/// The time at which a file of this name was made in a directory.
pub(crate) struct Markers {
    seen: mpsc::Receiver<(PathBuf, Instant)>,
    _watcher: notify::RecommendedWatcher,
}

impl Markers {
    pub(crate) fn watch(directory: &Path) -> Self {
        let (events, seen) = mpsc::channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                let at = Instant::now();
                if let Ok(event) = event
                    && event.kind.is_create()
                    && let Some(path) = event.paths.first()
                {
                    let _ = events.send((path.clone(), at));
                }
            })
            .unwrap();
        watcher
            .watch(directory, RecursiveMode::NonRecursive)
            .unwrap();
        Self {
            seen,
            _watcher: watcher,
        }
    }

    /// Puts a manifest there as a careful writer does, and waits for its marker.
    pub(crate) fn after(&self, directory: &Path, name: &str) -> Duration {
        let path = directory.join(name);
        let marker = directory.join(format!("{name}.skip"));
        let temporary = directory.join(".new.tmp");
        fs::write(&temporary, WIDGET).unwrap();
        let begun = Instant::now();
        fs::rename(&temporary, &path).unwrap();
        loop {
            let (path, marked) = self.seen.recv_timeout(DEADLINE).unwrap();
            if path == marker {
                return marked.duration_since(begun);
            }
        }
    }
}

pub(crate) fn show(what: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let at = |percent: usize| samples[(samples.len() - 1) * percent / 100];
    println!(
        "{what}: p50 {:.2?}, p99 {:.2?}, worst {:.2?} ({} samples)",
        at(50),
        at(99),
        at(100),
        samples.len()
    );
}
