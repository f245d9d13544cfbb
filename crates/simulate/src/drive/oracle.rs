//! The oracle: was every file that RKE2 may have let through in time?
//!
//! It judges in every build, by what lies on the disk and by what is in the simulated cluster. What Windrow has heard, decided or
//! written down does not count, but for the reason that it gives for a release.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Cause, Detail, FileStage, MarkerTrouble, Observation, StagingState, Status};
use windrow_model::manifest::{BaseName, GroupKind, ManifestPath, ObjectRef};
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
    /// Files whose release was right when it was decided, and whose marker is still there: a disk may take its time. By content.
    granted: BTreeMap<ManifestPath, SmolStr>,
    /// Every release, in order.
    pub(super) releases: Vec<FileRelease>,
    /// What Windrow said and was not so, each once.
    pub(super) untrue: BTreeSet<String>,
}

/// A server whose directory is judged.
pub(super) struct JudgedServer<'a> {
    pub(super) number: usize,
    /// Has Windrow heard all that there is to hear?
    pub(super) is_current: bool,
    pub(super) disk: &'a SimulatedDirectory,
    pub(super) state: &'a StagingState,
    /// Markers that the disk did not take.
    pub(super) troubles: &'a BTreeMap<BaseName, MarkerTrouble>,
}

impl Oracle {
    /// Looks at what was decided, before it is carried out.
    pub(super) fn judge_decision(
        &mut self,
        truth: &Truth<'_>,
        disk: &SimulatedDirectory,
        state: &StagingState,
    ) {
        let (plan, ledger) = (state.plan(), state.ledger());
        for file in plan.files.iter().filter(|file| file.owner.is_none()) {
            let entry = ledger.files.get(&file.path);
            if let Some(FileStage::Released { cause }) = entry.map(|entry| &entry.state)
                && self.granted.get(&file.path) != Some(&file.digest)
                && disk.is_hidden(&file.path)
                && truth
                    .unmet(&plan.needs, file, Some(*cause), disk)
                    .is_empty()
            {
                self.granted.insert(file.path.clone(), file.digest.clone());
            }
        }
    }

    /// Looks at the directory after a decision was carried out: which files may RKE2 have that it could not have before?
    pub(super) fn judge_releases(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        now: Timestamp,
    ) {
        let (disk, state) = (server.disk, server.state);
        let (plan, ledger) = (state.plan(), state.ledger());
        let hidden: Vec<&str> = disk.hidden().collect();
        for file in plan.files.iter().filter(|file| file.owner.is_none()) {
            if disk.get(&file.path).is_none() {
                continue;
            }
            let entry = ledger.files.get(&file.path);
            if hidden.contains(&file.name.as_str()) {
                self.let_through.remove(&file.path);
                continue;
            }
            // Windrow wanted to hold it, and could not.
            if server.troubles.contains_key(&file.name) {
                continue;
            }
            let known = self
                .let_through
                .insert(file.path.clone(), file.digest.clone());
            let was_let_through = known.as_ref() == Some(&file.digest);
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
            // RKE2 has it: from before the ledger was lost, while Windrow did not run, or from another server.
            if truth.has_applied(file) {
                continue;
            }
            let is_granted = !relies && self.granted.get(&file.path) == Some(&file.digest);
            let unmet = match is_granted {
                true => Vec::new(),
                false => truth.unmet(&plan.needs, file, cause, disk),
            };
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

impl Oracle {
    /// Does the status say what is so? It is judged when Windrow has nothing more to do: then the disk is as it decided.
    pub(super) fn judge_status(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        status: &Status,
    ) {
        let (disk, staging) = (server.disk, &status.staging);
        let plan = server.state.plan();
        let hidden: BTreeSet<&str> = disk.hidden().collect();
        let is_hidden = |file: &ManifestPath| hidden.contains(file.name().as_str());
        for held in &staging.held {
            if !is_hidden(&held.file) {
                let file = &held.file;
                self.untrue
                    .insert(format!("{file} is held: nothing hides it"));
            }
        }
        let let_through = staging.released.iter().chain(&staging.applied);
        for file in let_through.map(|file| &file.file) {
            let stays = server.troubles.contains_key(&file.name());
            if is_hidden(file) && !stays {
                self.untrue
                    .insert(format!("{file} is let through: a marker hides it"));
            }
        }
        for applied in &staging.applied {
            let file = &applied.file;
            if !truth.has_addon(file) {
                self.untrue
                    .insert(format!("{file} is applied: RKE2 never took it"));
            }
        }
        if staging.settled && server.is_current && !truth.cluster.is_up_on(server.number) {
            let what = "all is settled: kube-apiserver does not answer";
            self.untrue.insert(what.to_owned());
        }
        let ours = plan.files.iter().filter(|file| file.owner.is_none());
        let mut lacks = ours.filter(|file| !is_hidden(&file.path) && !truth.has_addon(&file.path));
        if staging.settled
            && let Some(file) = lacks.next()
        {
            let file = &file.path;
            self.untrue
                .insert(format!("all is settled: RKE2 never took {file}"));
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

    /// Has RKE2 applied exactly these bytes?
    fn has_applied(&self, file: &PlanFile) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| addon.seen.checksum == file.sha256)
    }

    /// Has RKE2 applied this file, whatever was in it?
    fn has_addon(&self, file: &ManifestPath) -> bool {
        self.cluster.addons.contains_key(&file.addon())
    }

    /// What the file requires and lacks, so that this cause does not excuse its release.
    fn unmet(
        &self,
        needs: &[Need],
        file: &PlanFile,
        cause: Option<Cause>,
        disk: &SimulatedDirectory,
    ) -> Vec<String> {
        // Each object of a file may need the same: a namespace.
        let mut brought: BTreeMap<usize, bool> = BTreeMap::new();
        let mut comes_before = |requirement: &Requirement| {
            let need = requirement.need;
            requirement.inferred
                && *brought
                    .entry(need)
                    .or_insert_with(|| is_brought_before(disk, &file.path, &needs[need].target))
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
