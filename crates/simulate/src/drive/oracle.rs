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
use windrow_plan::{Need, PlanFile, Requirement};

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
            let was_let_through = known.as_ref() == Some(&file.digest);
            let entry = ledger.files.get(&file.path);
            let cause = entry.and_then(|entry| match entry.state {
                FileStage::Released { cause } | FileStage::Applied { cause } => Some(cause),
                FileStage::Held { .. } => None,
            });
            // What it relies on may be hidden or gone again: then it has to be held, too.
            let relies = entry.is_some_and(|entry| {
                let cause = Cause::SamePass;
                entry.state == FileStage::Released { cause }
            });
            if was_let_through && !relies {
                continue;
            }
            let unmet = truth.unmet(&plan.needs, file, cause, disk);
            if was_let_through && unmet.is_empty() {
                continue;
            }
            self.releases.push(FileRelease {
                at: now,
                file: file.path.clone(),
                cause,
                unmet,
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
    fn unmet(
        &self,
        needs: &[Need],
        file: &PlanFile,
        cause: Option<Cause>,
        disk: &SimulatedDirectory,
    ) -> Vec<String> {
        let comes_before = |requirement: &Requirement| {
            requirement.inferred
                && is_brought_before(disk, &file.path, &needs[requirement.need].target)
        };
        let unmet = file
            .requirements()
            .filter(|requirement| requirement.tier == Tier::Required && requirement.takes_part())
            .filter(|requirement| match cause {
                // A person, the settings, or RKE2 itself: Windrow had no say.
                Some(Cause::ByHand | Cause::Off | Cause::Escaped) => false,
                // A deadline ends a wait that does no harm when it ends too early, and no other.
                Some(Cause::Yielded) => requirement.harms(),
                Some(Cause::SamePass) => !comes_before(requirement),
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

/// Will RKE2's next pass over this directory have created what is needed by the time that it reaches the file?
pub(super) fn is_brought_before(
    disk: &SimulatedDirectory,
    file: &ManifestPath,
    target: &NeedTarget,
) -> bool {
    let walk = disk.walk();
    let before = walk.shown.iter().filter(|(path, _)| path < file);
    let readings = before.filter_map(|(path, _)| Some(disk.get(path)?.reading(path)));
    let readings = readings.filter(|reading| reading.refused.is_none());
    readings
        .flat_map(|reading| &reading.objects)
        .any(|object| match target {
            NeedTarget::Object(wanted) => {
                object.named(true) == wanted || object.named(false) == wanted
            }
            NeedTarget::Kind(kind) => {
                let spec = &object.json["spec"];
                object.id.kind == "CustomResourceDefinition"
                    && spec["group"] == kind.group.as_str()
                    && spec["names"]["kind"] == kind.kind.as_str()
            }
        })
}
