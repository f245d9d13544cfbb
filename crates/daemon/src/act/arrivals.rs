//! Files that changed and that the daemon's loop has not processed yet. A decision about such a file is out of date, so
//! its marker is not lifted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use windrow_model::manifest::{BaseName, ManifestPath};

use crate::locked::lock;

#[derive(Debug, Default)]
pub struct Arrivals(Mutex<Arriving>);

#[derive(Debug, Default)]
struct Arriving {
    events: BTreeMap<ManifestPath, usize>,
    /// Events were dropped. Until the directory is read again, any file can have changed.
    has_lost: bool,
}

impl Arrivals {
    pub fn add(&self, file: &ManifestPath) {
        *self.arriving().events.entry(file.clone()).or_default() += 1;
    }

    pub fn remove(&self, file: &ManifestPath) {
        let mut arriving = self.arriving();
        if let Some(events) = arriving.events.get_mut(file) {
            *events -= 1;
            if *events == 0 {
                arriving.events.remove(file);
            }
        }
    }

    /// An event is dropped. The loop has to read the directory.
    pub fn lose(&self, file: Option<&ManifestPath>) {
        // In this order: the file is protected all the time.
        self.arriving().has_lost = true;
        if let Some(file) = file {
            self.remove(file);
        }
    }

    /// The directory is about to be read.
    pub fn find_lost(&self) {
        self.arriving().has_lost = false;
    }

    pub fn has_lost(&self) -> bool {
        self.arriving().has_lost
    }

    pub fn clear(&self) {
        self.arriving().events.clear();
    }

    pub fn names(&self) -> BTreeSet<BaseName> {
        self.arriving()
            .events
            .keys()
            .map(ManifestPath::name)
            .collect()
    }

    /// Lifts a marker, unless a file that it hides has changed. A change that comes meanwhile waits, so its file gets a
    /// new marker.
    pub(super) fn unless_arriving<T>(
        &self,
        name: &BaseName,
        lift: impl FnOnce() -> T,
    ) -> Option<T> {
        let arriving = self.arriving();
        let is_arriving =
            arriving.has_lost || arriving.events.keys().any(|file| file.name() == *name);
        (!is_arriving).then(lift)
    }

    fn arriving(&self) -> MutexGuard<'_, Arriving> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_lifted_only_while_no_event_about_its_name_arrives() {
        let arrivals = Arrivals::default();
        let file = ManifestPath::from("sub/a.yaml");
        let lifts = |name: &str| {
            let name = ManifestPath::from(name).name();
            arrivals.unless_arriving(&name, || ()).is_some()
        };
        arrivals.add(&file);
        arrivals.add(&file);
        arrivals.remove(&file);
        assert!(!lifts("a.yaml") && lifts("b.yaml"));
        arrivals.remove(&file);
        assert!(lifts("a.yaml"));
    }

    #[test]
    fn after_a_lost_event_nothing_is_lifted_until_the_directory_is_read() {
        let arrivals = Arrivals::default();
        let file = ManifestPath::from("a.yaml");
        arrivals.add(&file);
        arrivals.lose(Some(&file));
        assert_eq!(arrivals.names(), BTreeSet::new());
        let name = ManifestPath::from("b.yaml").name();
        assert_eq!(arrivals.unless_arriving(&name, || ()), None);
        arrivals.find_lost();
        assert_eq!(arrivals.unless_arriving(&name, || ()), Some(()));
    }
}
