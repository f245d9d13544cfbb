//! What will happen and when: the simulated node jumps from one entry to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use jiff::Timestamp;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::rancherd;

/// Something that will happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Timer {
    /// RKE2 starts on a server and takes its files in hand.
    Start(usize),
    /// A server's kube-apiserver answers.
    ApiReady(usize),
    /// The next file of a server's deploy controller, or its next pass.
    Deploy(usize),
    /// rancherd's next step on the first node.
    Rancherd(rancherd::Step),
    /// A node has joined as an agent.
    Joined(usize),
    /// A server is restarted.
    Reboot(usize),
    /// A CustomResourceDefinition becomes Established.
    Established(ObjectRef),
    /// Discovery lists a kind; true when it is namespaced.
    Discovered(Box<GroupKind>, bool),
    /// A step of the platform's bootstrap.
    Step(usize),
    /// Something that the scenario brings.
    Arrival(usize),
    /// Harvester's pod creates its Settings.
    SetAll,
    /// Harvester's storage-network controller gets to its Setting.
    StorageNetwork,
    /// A controller gets to an object.
    Act(ObjectRef, Stage),
}

/// A controller speaks twice about an object: when it has seen it, and when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has seen the object.
    Seen,
    /// It is done with it.
    Done,
}

/// What will happen, the earliest first; at one instant in the order in which it was entered.
#[derive(Debug, Clone, Default)]
pub(super) struct Agenda {
    /// When, the number of the entry, and its place among the timers.
    heap: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    entered: u64,
    timers: Vec<Option<Timer>>,
    /// Places that are empty.
    free: Vec<usize>,
}

impl Agenda {
    pub(super) fn enter(&mut self, at: Timestamp, timer: Timer) {
        self.entered += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.timers[place] = Some(timer);
                place
            }
            None => {
                self.timers.push(Some(timer));
                self.timers.len() - 1
            }
        };
        self.heap.push(Reverse((at, self.entered, place)));
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the earliest entry, if it is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((at, _, place)) = self.heap.pop()?;
        self.free.push(place);
        self.timers[place].take().map(|timer| (at, timer))
    }

    pub(super) fn any(&self, test: impl Fn(&Timer) -> bool) -> bool {
        self.timers.iter().flatten().any(test)
    }

    /// The node is down for a while: what it does itself is forgotten, everything else comes later.
    pub(super) fn outage(&mut self, length: Duration, forget: impl Fn(&Timer) -> bool) {
        let entries: Vec<_> = std::iter::from_fn(|| self.due(Timestamp::MAX)).collect();
        for (at, timer) in entries.into_iter().filter(|(_, timer)| !forget(timer)) {
            self.enter(at + length, timer);
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
        agenda.enter(at(2), Timer::SetAll);
        agenda.enter(at(1), Timer::Step(0));
        agenda.enter(at(1), Timer::Step(1));
        assert_eq!(agenda.due(at(0)), None);
        let order: Vec<_> = std::iter::from_fn(|| agenda.due(at(9)))
            .map(|(_, timer)| timer)
            .collect();
        assert_eq!(order, [Timer::Step(0), Timer::Step(1), Timer::SetAll]);
    }

    #[test]
    fn an_outage_forgets_what_the_node_did_and_delays_the_rest_in_its_order() {
        let mut agenda = Agenda::default();
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        agenda.enter(at(1), Timer::Deploy(0));
        agenda.enter(at(2), Timer::Step(0));
        agenda.enter(at(2), Timer::Step(1));
        agenda.outage(Duration::from_secs(10), |timer| *timer == Timer::Deploy(0));
        assert_eq!(agenda.due(at(99)), Some((at(12), Timer::Step(0))));
        assert_eq!(agenda.due(at(99)), Some((at(12), Timer::Step(1))));
        assert_eq!(agenda.due(at(99)), None);
    }
}
