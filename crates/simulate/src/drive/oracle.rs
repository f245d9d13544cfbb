//! The oracle: was every file that RKE2 may have let through in time?
//!
//! It judges in every build, by what lies on the disk and by what is in the simulated cluster. What Windrow has heard, decided or
//! written down does not count, but for the reason that it gives for a release.

use std::collections::BTreeMap;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Cause, Detail, FileStage, Observation, StagingState};
use windrow_model::manifest::{GroupKind, ManifestPath, ObjectRef};
use windrow_plan::readiness::{self, KindSeen, NeedState, ObjectSeen};
use windrow_plan::rules::{NeedTarget, RuleSet, Tier};
use windrow_plan::{Need, PlanFile};

use crate::cluster::SimulatedCluster;
use crate::files::SimulatedDirectory;
use crate::run::FileRelease;

/// What the oracle remembers of one server's directory.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The content of every file that RKE2 may have, by path. A file that is gone stays: what was released stays released.
    let_through: BTreeMap<ManifestPath, SmolStr>,
    /// Every release, in order.
    pub(super) releases: Vec<FileRelease>,
}

impl Oracle {
    /// Looks at the directory after a decision was carried out: which files may RKE2 have that it could not have before?
    pub(super) fn judge_releases(
        &mut self,
        truth: &Truth<'_>,
        disk: &SimulatedDirectory,
        state: &StagingState,
        now: Timestamp,
    ) {
        let (plan, ledger) = (state.plan(), state.ledger());
        let hidden: Vec<&str> = disk.hidden().collect();
        for file in plan.files.iter().filter(|file| file.owner.is_none()) {
            if disk.get(&file.path).is_none() {
                continue;
            }
            if hidden.contains(&file.name.as_str()) {
                self.let_through.remove(&file.path);
                continue;
            }
            let known = self
                .let_through
                .insert(file.path.clone(), file.digest.clone());
            if known.as_ref() == Some(&file.digest) {
                continue;
            }
            let entry = ledger.files.get(&file.path);
            let cause = entry.and_then(|entry| match entry.state {
                FileStage::Released { cause } | FileStage::Applied { cause } => Some(cause),
                FileStage::Held { .. } => None,
            });
            self.releases.push(FileRelease {
                at: now,
                file: file.path.clone(),
                cause,
                unmet: truth.unmet(&plan.needs, file, cause),
            });
        }
    }
}

/// The cluster as it is, whatever anybody has heard of it, and whether kube-apiserver answers or not.
pub(super) struct Truth<'a> {
    cluster: &'a SimulatedCluster,
    rules: &'a RuleSet,
}

impl<'a> Truth<'a> {
    pub(super) fn new(cluster: &'a SimulatedCluster, rules: &'a RuleSet) -> Self {
        Self { cluster, rules }
    }

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
    fn observation_for(&self, target: &NeedTarget) -> Observation {
        let mut observation = Observation::default();
        match target {
            NeedTarget::Kind(kind) => self.add_kind(&mut observation, kind),
            NeedTarget::Object(object) => {
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
