//! Future events and their times: the simulated node jumps from one entry to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use jiff::Timestamp;

/// Entries in order of time; entries for the same instant are in order of insertion.
#[derive(Debug, Clone)]
pub(super) struct Agenda<T> {
    /// Time, number of the entry, and its index among the entries.
    heap: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    /// How many entries were ever added.
    entered: u64,
    entries: Vec<Option<T>>,
    /// Indexes of empty entries.
    free: Vec<usize>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            entered: 0,
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Agenda<T> {
    pub(super) fn enter(&mut self, at: Timestamp, entry: T) {
        self.entered += 1;
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        };
        self.heap.push(Reverse((at, self.entered, index)));
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn due(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((at, _, index)) = self.heap.pop()?;
        self.free.push(index);
        self.entries[index].take().map(|entry| (at, entry))
    }

    pub(super) fn any(&self, test: impl Fn(&T) -> bool) -> bool {
        self.entries.iter().flatten().any(test)
    }

    pub(super) fn postpone(&mut self, length: Duration, test: impl Fn(&T) -> bool) {
        let entries: Vec<_> = std::iter::from_fn(|| self.due(Timestamp::MAX)).collect();
        for (at, entry) in entries {
            let late = if test(&entry) { length } else { Duration::ZERO };
            self.enter(at + late, entry);
        }
    }

    /// The node is down for a while: its own entries are removed, and all others are postponed.
    pub(super) fn outage(&mut self, length: Duration, forget: impl Fn(&T) -> bool) {
        let entries: Vec<_> = std::iter::from_fn(|| self.due(Timestamp::MAX)).collect();
        for (at, entry) in entries.into_iter().filter(|(_, entry)| !forget(entry)) {
            self.enter(at + length, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_of_time_and_then_of_entry() {
        let mut agenda = Agenda::default();
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        agenda.enter(at(2), "c");
        agenda.enter(at(1), "a");
        agenda.enter(at(1), "b");
        assert_eq!(agenda.due(at(0)), None);
        let order: Vec<_> = std::iter::from_fn(|| agenda.due(at(9)))
            .map(|(_, entry)| entry)
            .collect();
        assert_eq!(order, ["a", "b", "c"]);
    }

    #[test]
    fn an_outage_forgets_what_the_node_did_and_delays_the_rest_in_its_order() {
        let mut agenda = Agenda::default();
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        agenda.enter(at(1), "d");
        agenda.enter(at(2), "a");
        agenda.enter(at(2), "b");
        agenda.outage(Duration::from_secs(10), |entry| *entry == "d");
        assert_eq!(agenda.due(at(99)), Some((at(12), "a")));
        assert_eq!(agenda.due(at(99)), Some((at(12), "b")));
        assert_eq!(agenda.due(at(99)), None);
    }
}
