//! Decides when Windrow watches the cluster for new objects, and writes lines about them into the flight, for learning.
//! No decision depends on them.
//!
//! The watch lasts while a boot is under way: until the node was Ready in this boot and every file is applied or kept
//! on purpose. It ends after an hour in which nothing appears and nothing changes, because eleven watches cost memory
//! and requests, and the metadata of later objects still shows their creators. The watch begins again when a file waits
//! later, or something changes again.

use std::hash::{BuildHasher as _, RandomState};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};
use windrow_decide::flight::{FlightLine, RecordedAppearance, RecordedMachine, RecordedRelease};
use windrow_decide::{NodeRole, Observation, Status};

use super::hardware::HardwareClass;
use crate::observe::appearances::Sighting;

/// The watch ends after this time without anything new.
const QUIET: SignedDuration = SignedDuration::from_hours(1);

pub(super) struct AppearanceWatch {
    wanted: watch::Sender<bool>,
    pub(super) seen: mpsc::Receiver<Vec<Sighting>>,
    /// Since when the cluster is watched again, after the boot was over once.
    again: Option<Timestamp>,
    /// When an object appeared or a state changed last; `None` until then.
    moved: Option<Timestamp>,
    /// A number for the progress of the boot.
    stand: Option<u64>,
    numbers: RandomState,
    kubernetes: Option<String>,
    pub(super) hardware: HardwareClass,
}

/// The daemon's request to watch, and the channel for the observed objects.
pub type AppearanceEnds = (watch::Receiver<bool>, mpsc::Sender<Vec<Sighting>>);

impl AppearanceWatch {
    pub(super) fn new() -> (Self, AppearanceEnds) {
        // Bounded: a cluster with much in it has to wait for the disk.
        let (sender, seen) = mpsc::channel(16);
        let (wanted, is_wanted) = watch::channel(false);
        let watch = Self {
            wanted,
            seen,
            again: None,
            moved: None,
            stand: None,
            numbers: RandomState::new(),
            kubernetes: None,
            hardware: HardwareClass::default(),
        };
        (watch, (is_wanted, sender))
    }

    /// Begins or ends the watch, depending on the state. `recorded`: whether there is a flight.
    pub(super) fn want(
        &mut self,
        recorded: bool,
        status: &Status,
        api: &windrow_decide::Api,
        now: Timestamp,
    ) {
        let stand = Some(self.numbers.hash_one((api.first_reachable, stand(status))));
        if stand != self.stand {
            (self.stand, self.moved) = (stand, Some(now));
        }
        let is_quiet = self.quiet_at().is_some_and(|quiet| now >= quiet);
        let is_under_way = is_under_way(status) && !is_quiet;
        let wanted = recorded && api.first_reachable.is_some() && is_under_way;
        let was_wanted = *self.wanted.borrow();
        if wanted == was_wanted {
            return;
        }
        // Objects that appeared before the watch began again count as already present.
        if was_wanted || self.again.is_some() {
            self.again = Some(now);
        }
        self.wanted.send_replace(wanted);
    }

    /// When the watch ends if nothing appears or changes until then.
    fn quiet_at(&self) -> Option<Timestamp> {
        self.moved?.saturating_add(QUIET).ok()
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.quiet_at().filter(|_| *self.wanted.borrow())
    }

    pub(super) fn clock_jumped(&mut self, by: SignedDuration) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        self.moved = self.moved.map(moved);
        self.again = self.again.map(moved);
    }

    pub(super) fn lines(
        &mut self,
        seen: Vec<Sighting>,
        observed: &Observation,
        now: Timestamp,
    ) -> Vec<FlightLine> {
        let since = self.again.unwrap_or(observed.started);
        let was_there = |listed: bool, created: Option<Timestamp>| {
            listed && created.is_none_or(|created| created < since)
        };
        let mut lines = Vec::new();
        for one in seen {
            match one {
                Sighting::Kubernetes(version) => self.kubernetes = Some(version),
                Sighting::Appearance {
                    what,
                    by,
                    created,
                    listed,
                } => lines.push(FlightLine::Appeared(RecordedAppearance {
                    at: now,
                    created,
                    was_there: was_there(listed, created),
                    what,
                    by,
                })),
                Sighting::Release {
                    release,
                    namespace,
                    status,
                    began,
                    modified,
                    listed,
                } => lines.push(FlightLine::Release(RecordedRelease {
                    at: now,
                    release,
                    namespace,
                    status,
                    began,
                    modified,
                    was_there: was_there(listed, modified.max(began)),
                })),
            }
        }
        let is_new = |line: &FlightLine| match line {
            FlightLine::Appeared(one) => !one.was_there,
            FlightLine::Release(one) => !one.was_there,
            _ => false,
        };
        if lines.iter().any(is_new) {
            self.moved = Some(now);
        }
        lines
    }

    /// The facts about the machine, if there are any.
    pub(super) fn machine(
        &self,
        role: NodeRole,
        harvester: Option<String>,
        now: Timestamp,
    ) -> Option<RecordedMachine> {
        let machine = RecordedMachine {
            at: now,
            hardware: self.hardware.get().cloned().flatten(),
            kubernetes: self.kubernetes.clone(),
            harvester,
            role,
        };
        let is_known = machine.hardware.is_some()
            || machine.kubernetes.is_some()
            || machine.harvester.is_some()
            || role != NodeRole::Unknown;
        is_known.then_some(machine)
    }
}

/// Whether a boot is under way, or a file waits.
fn is_under_way(status: &Status) -> bool {
    let has_files = !matches!(status.role, NodeRole::Agent | NodeRole::Witness);
    let is_probed = !status.phases.is_empty();
    has_files && (!status.staging.settled || (is_probed && status.first_ready.is_none()))
}

/// The progress of the boot. It changes when the node reaches a phase, or a file is held, waits for another object or
/// is free.
fn stand(status: &Status) -> impl std::hash::Hash {
    let held = status.staging.held.iter();
    let held: Vec<_> = held
        .map(|one| (one.file.clone(), one.code.as_str()))
        .collect();
    (status.phase.as_str(), status.first_ready, held)
}

#[cfg(test)]
#[path = "appearances_tests.rs"]
mod closing;

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windrow_decide::flight::{Appeared, Provenance};
    use windrow_decide::settings::Settings;
    use windrow_decide::{ClusterEvent, Ledger, Phase, PhaseStatus, StagingState};
    use windrow_model::manifest::ObjectRef;
    use windrow_plan::rules::RuleSet;

    use super::*;

    const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn after(minutes: i64) -> Timestamp {
        START + SignedDuration::from_mins(minutes)
    }

    fn state() -> StagingState {
        let (settings, ledger) = (Settings::default(), Ledger::default());
        StagingState::new(settings, RuleSet::default(), None, ledger, START)
    }

    fn namespace(created: Option<Timestamp>, listed: bool) -> Sighting {
        Sighting::Appearance {
            what: Appeared::Object(ObjectRef::cluster("", "Namespace", "a")),
            by: Provenance::NotKnown,
            created,
            listed,
        }
    }

    fn were_there(
        watch: &mut AppearanceWatch,
        observed: &Observation,
        seen: Vec<Sighting>,
    ) -> Vec<bool> {
        let lines = watch.lines(seen, observed, after(60));
        let line = |line: &FlightLine| match line {
            FlightLine::Appeared(one) => one.was_there,
            FlightLine::Release(one) => one.was_there,
            _ => panic!("{line:?}"),
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn what_was_listed_was_there_unless_it_was_made_since_windrow_looks() {
        let observed = state().observation().clone();
        let (mut watch, _ends) = AppearanceWatch::new();
        let seen = vec![
            namespace(Some(after(-5)), true),
            namespace(Some(after(5)), true),
            namespace(None, true),
            namespace(Some(after(-5)), false),
        ];
        let were = were_there(&mut watch, &observed, seen);
        assert_eq!(were, [true, false, true, false]);
    }

    #[test]
    fn it_is_looked_at_while_a_file_waits_and_later_again_for_what_comes_from_then_on() {
        let mut state = state();
        let mut status = state.decide(START).status;
        let (mut watch, (wanted, _seen)) = AppearanceWatch::new();
        let api = state.observation().api.clone();
        watch.want(true, &status, &api, START);
        assert!(!*wanted.borrow(), "kube-apiserver has not answered yet");
        state.take_event(ClusterEvent::ApiReachable, after(1));
        let observed = state.observation().clone();
        status.staging.settled = false;
        watch.want(false, &status, &observed.api, after(1));
        assert!(!*wanted.borrow(), "nothing is recorded");
        watch.want(true, &status, &observed.api, after(1));
        assert!(*wanted.borrow());
        status.staging.settled = true;
        watch.want(true, &status, &observed.api, after(10));
        assert!(!*wanted.borrow(), "the boot is over");
        status.staging.settled = false;
        watch.want(true, &status, &observed.api, after(30));
        assert!(*wanted.borrow());
        let seen = vec![
            namespace(Some(after(20)), true),
            namespace(Some(after(31)), true),
        ];
        assert_eq!(were_there(&mut watch, &observed, seen), [true, false]);
        status.role = NodeRole::Agent;
        watch.want(true, &status, &observed.api, after(40));
        assert!(!*wanted.borrow(), "an agent has no files");
    }

    #[test]
    fn after_an_hour_in_which_nothing_comes_or_moves_nobody_looks_until_something_moves() {
        let mut state = state();
        state.take_event(ClusterEvent::ApiReachable, after(1));
        let mut status = state.decide(after(1)).status;
        status.staging.settled = false;
        let observed = state.observation().clone();
        let (mut watch, (wanted, _seen)) = AppearanceWatch::new();
        let look = |watch: &mut AppearanceWatch, status: &Status, minutes| {
            watch.want(true, status, &observed.api, after(minutes));
            *wanted.borrow()
        };
        assert!(look(&mut watch, &status, 1) && look(&mut watch, &status, 60));
        assert_eq!(watch.next_wake(), Some(after(61)));
        assert!(!look(&mut watch, &status, 61));
        assert_eq!(watch.next_wake(), None);
        assert!(!look(&mut watch, &status, 70));
        // The node reaches another phase.
        status.phase = Phase::Manifests;
        assert!(look(&mut watch, &status, 80));
        // Objects that were already present are not new; later ones are.
        let seen = |listed| vec![namespace(Some(after(2)), listed)];
        watch.lines(seen(true), &observed, after(90));
        assert_eq!(watch.next_wake(), Some(after(140)));
        watch.lines(seen(false), &observed, after(100));
        assert_eq!(watch.next_wake(), Some(after(160)));
        watch.clock_jumped(SignedDuration::from_mins(1000));
        assert_eq!(watch.next_wake(), Some(after(1160)));
    }

    #[test]
    fn when_the_node_is_ready_and_every_file_applied_nobody_looks() {
        let mut state = state();
        state.take_event(ClusterEvent::ApiReachable, after(1));
        let mut status = state.decide(after(1)).status;
        let api = state.observation().api.clone();
        let (mut watch, (wanted, _seen)) = AppearanceWatch::new();
        let mut look = |status: &Status, minutes| {
            watch.want(true, status, &api, after(minutes));
            *wanted.borrow()
        };
        status.staging.settled = true;
        status.phases = vec![PhaseStatus::current(Phase::Node)];
        assert!(
            look(&status, 2),
            "every file is applied, and the node is not Ready yet"
        );
        status.staging.settled = false;
        status.first_ready = Some(after(3));
        assert!(look(&status, 3), "it is Ready, and a file waits");
        status.staging.settled = true;
        assert!(!look(&status, 4));
    }
}
