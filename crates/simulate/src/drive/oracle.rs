//! The oracle: was every file that RKE2 may have let through in time?
//!
//! It judges in every build, by what lies on the disk and by what is in the simulated cluster. What Windrow has heard, decided or
//! written down does not count, but for the reason that it gives for a release.

use std::collections::BTreeMap;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Cause, Detail, Observation, State};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::{self, KindSeen, NeedState, ObjectSeen};
use windrow_plan::rules::{RuleSet, Target, Tier};
use windrow_plan::{Need, PlanFile};

use super::Drive;
use crate::cluster::Cluster;
use crate::run::{Release, Setup};

/// What the oracle remembers of one server's directory.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The content of every file that RKE2 may have, by path. A file that is gone stays: what was released stays released.
    let_through: BTreeMap<String, SmolStr>,
    /// Every release, in order.
    pub(super) releases: Vec<Release>,
}

impl Drive<'_> {
    /// Looks at the directory after a decision was carried out: which files may RKE2 have that it could not have before?
    pub(super) fn judge_releases(&mut self, who: usize, now: Timestamp) {
        let (cluster, disk) = (self.node.cluster(), &self.disks[who]);
        let agent = &mut self.agents[who];
        let (plan, ledger) = (agent.state.plan(), agent.state.ledger());
        let hidden: Vec<&str> = disk.hidden().collect();
        for file in plan.files.iter().filter(|file| file.owner.is_none()) {
            if disk.get(&file.path).is_none() {
                continue;
            }
            let let_through = &mut agent.oracle.let_through;
            if hidden.contains(&file.name.as_str()) {
                let_through.remove(&file.path);
                continue;
            }
            let known = let_through.insert(file.path.clone(), file.digest.clone());
            if known.as_ref() == Some(&file.digest) {
                continue;
            }
            let cause = match ledger
                .files
                .get(file.path.as_str())
                .map(|entry| &entry.state)
            {
                Some(State::Released { cause } | State::Applied { cause }) => Some(*cause),
                Some(State::Held { .. }) | None => None,
            };
            let truth = Truth {
                cluster,
                rules: rules(self.setup, who),
            };
            let unmet = truth.unmet(&plan.needs, file, cause);
            agent.oracle.releases.push(Release {
                at: now,
                file: file.path.clone(),
                cause,
                unmet,
            });
        }
    }
}

/// The cluster as it is, whatever anybody has heard of it, and whether kube-apiserver answers or not.
struct Truth<'a> {
    cluster: &'a Cluster,
    rules: &'a RuleSet,
}

impl Truth<'_> {
    /// What the file requires and lacks, so that this cause does not excuse its release.
    fn unmet(&self, needs: &[Need], file: &PlanFile, cause: Option<Cause>) -> Vec<String> {
        let unmet = file
            .requirements()
            .filter(|requirement| requirement.tier == Tier::Required && requirement.takes_part())
            .filter(|requirement| match cause {
                // A person, the settings, or RKE2 itself: Windrow had no say.
                Some(Cause::ByHand | Cause::Off | Cause::Escaped) => false,
                // A deadline ends a wait that does no harm when it ends too early, and no other.
                Some(Cause::Yielded) => requirement.harms(),
                Some(Cause::Free | Cause::Met) | None => true,
            })
            .map(|requirement| &needs[requirement.need])
            .filter(|need| !self.is_met(need));
        unmet
            .map(|need| format!("{} {}", need.target, need.condition))
            .collect()
    }

    fn is_met(&self, need: &Need) -> bool {
        let observation = self.observation_for(&need.target);
        let state = readiness::holds(&need.target, &need.condition, self.rules, &observation);
        state == NeedState::Met
    }

    /// All that a verdict on the target may depend on, as it is now.
    fn observation_for(&self, target: &Target) -> Observation {
        let mut observation = Observation::default();
        match target {
            Target::Kind(kind) => self.add_kind(&mut observation, kind),
            Target::Object(object) => {
                self.add_kind(&mut observation, &object.group_kind());
                self.add_object(&mut observation, object);
                if let Some(ObjectSeen::Present(value)) = observation.objects.get(object) {
                    let related = readiness::related(object, value);
                    for object in &related.objects {
                        self.add_object(&mut observation, object);
                    }
                    for kind in &related.kinds {
                        self.add_kind(&mut observation, kind);
                    }
                }
            }
        }
        observation
    }

    fn add_object(&self, observation: &mut Observation, object: &ObjectRef) {
        let seen = match self.cluster.shown(object, Detail::Full) {
            Some(value) => ObjectSeen::Present(value),
            None => ObjectSeen::Absent,
        };
        observation.objects.insert(object.clone(), seen);
    }

    fn add_kind(&self, observation: &mut Observation, kind: &GroupKind) {
        let seen = match self.cluster.serves(kind) {
            Some(_) => KindSeen::Served,
            None => KindSeen::NotServed,
        };
        observation.kinds.insert(kind.clone(), seen);
    }
}

fn rules(setup: &Setup, server: usize) -> &RuleSet {
    match server.checked_sub(1) {
        None => &setup.rules,
        Some(join) => &setup.joins[join].rules,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windrow_decide::{Action, Decision, Entry, Ledger};

    use super::super::Spoil;
    use super::*;
    use crate::{Faults, Files, Known, Run};

    /// A file of the example, which waits for Harvester's storage network.
    const MACHINE: &str = "00-registry.yaml";

    fn play(setup: &Setup, planted: Option<Spoil>, seed: u64) -> Run {
        let known = Known::of(setup);
        let mut drive = Drive::new(setup, &known, Faults::NONE, seed);
        drive.planted = planted;
        drive.run()
    }

    fn first_vm() -> Setup {
        Setup::first_vm(Timestamp::constant(1_767_225_600, 0))
    }

    /// The files that were let through too early.
    fn early(run: &Run) -> Vec<&str> {
        let early = run.releases.iter().filter(|one| !one.unmet.is_empty());
        early.map(|release| release.file.as_str()).collect()
    }

    #[test]
    fn windrow_lets_every_file_through_once_and_in_time() {
        for seed in 0..10 {
            let run = play(&first_vm(), None, seed);
            assert_eq!(early(&run), [""; 0], "{:?}", run.releases);
            let mut files: Vec<&str> = run.releases.iter().map(|one| one.file.as_str()).collect();
            files.sort_unstable();
            let setup = first_vm();
            let all: Vec<&str> = setup.files.manifests().map(|(path, _)| path).collect();
            assert_eq!(files, all);
        }
    }

    #[test]
    fn a_marker_that_is_lifted_too_early_is_seen_though_the_ledger_says_held() {
        let lift_all: Spoil = |decision, observation| {
            let ours = observation.markers.values();
            let ours = ours.filter(|marker| marker.mark.is_some());
            decision.actions.extend(ours.map(|marker| Action::Lift {
                path: marker.path.clone(),
            }));
        };
        let run = play(&first_vm(), Some(lift_all), 1);
        assert!(early(&run).contains(&MACHINE), "{:?}", run.releases);
        let release = run.releases.iter().find(|one| one.file == MACHINE).unwrap();
        assert_eq!(release.cause, None);
    }

    #[test]
    fn a_marker_that_is_never_made_is_seen() {
        let hold_nothing: Spoil = |decision, _| {
            let holds = |action: &Action| matches!(action, Action::Hold { .. });
            decision.actions.retain(|action| !holds(action));
        };
        let run = play(&first_vm(), Some(hold_nothing), 1);
        assert!(early(&run).contains(&MACHINE), "{:?}", run.releases);
    }

    #[test]
    fn a_cause_that_windrow_makes_up_excuses_nothing_that_does_harm() {
        // Everything is released at once, and for each of these reasons.
        fn release_all(decision: &mut Decision, cause: Cause) {
            let files = decision.ledger.files.iter().map(|(path, entry)| {
                let state = State::Released { cause };
                let entry = Entry {
                    state,
                    ..Entry::clone(entry)
                };
                (path.clone(), Arc::new(entry))
            });
            decision.ledger = Arc::new(Ledger {
                files: files.collect(),
                ..Ledger::clone(&decision.ledger)
            });
            decision.actions = vec![Action::SaveLedger(Arc::clone(&decision.ledger))];
        }
        let met: Spoil = |decision, _| release_all(decision, Cause::Met);
        let yielded: Spoil = |decision, _| release_all(decision, Cause::Yielded);
        for spoil in [met, yielded] {
            let run = play(&first_vm(), Some(spoil), 1);
            assert!(early(&run).contains(&MACHINE), "{:?}", run.releases);
        }
    }

    #[test]
    fn readiness_is_judged_by_all_that_it_depends_on() {
        // The chart is Ready when its Job has completed; the Job is an object of its own.
        let file = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: after\n  namespace: default\n  annotations: \
             {windrow.dev/depends-on: helm.cattle.io/namespaces/kube-system/HelmChart/store}\n";
        let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: store, namespace: \
             kube-system}\nspec: {chart: store}\n";
        let mut setup = first_vm();
        setup.scenario = crate::Scenario::rke2(setup.scenario.start);
        setup.files = Files::new();
        setup.files.write("a.yaml", file, setup.scenario.start);
        setup.files.write("b.yaml", chart, setup.scenario.start);
        assert_eq!(early(&play(&setup, None, 1)), [""; 0]);
        let lift_all: Spoil = |decision, observation| {
            let ours = observation.markers.values();
            decision.actions.extend(ours.map(|marker| Action::Lift {
                path: marker.path.clone(),
            }));
        };
        let run = play(&setup, Some(lift_all), 1);
        assert!(early(&run).contains(&"a.yaml"), "{:?}", run.releases);
    }
}
