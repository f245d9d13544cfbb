//! The oracle: was every file that RKE2 may have let through in time?
//!
//! It judges in every build, by what lies on the disk and by what is in the simulated cluster. What Windrow has heard, decided or
//! written down does not count, but for the reason that it gives for a release.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{
    Action, Cause, Detail, FileStage, Ledger, MarkerTrouble, Observation, StagingState,
};
use windrow_model::manifest::{BaseName, GroupKind, ManifestPath, MarkerPath, ObjectRef};
use windrow_model::reasons::Code;
use windrow_plan::readiness::{self, KindSeen, NeedState, ObjectSeen};
use windrow_plan::rules::{NeedTarget, RuleSet, Tier};
use windrow_plan::{Need, PlanFile, Requirement, rke2};

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
    /// Files that were let through and do not rely on what is applied with them, by content: they stay so.
    for_good: BTreeMap<ManifestPath, SmolStr>,
    /// Files that a person holds.
    pub(super) by_hand: BTreeSet<ManifestPath>,
    /// When each content of a file was first seen.
    pub(super) first_seen: BTreeMap<(ManifestPath, SmolStr), Timestamp>,
    /// When kube-apiserver first answered here.
    up_since: Option<Timestamp>,
    /// The content of each file that RKE2 took, in whatever bytes.
    pub(super) taken: BTreeSet<(ManifestPath, SmolStr)>,
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
    /// Is the ledger on the disk the one in force?
    pub(super) is_saved: bool,
    /// Are its times those of the cluster?
    pub(super) is_on_time: bool,
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
        server: &JudgedServer<'_>,
        actions: &[Action],
        now: Timestamp,
    ) {
        let (disk, state) = (server.disk, server.state);
        if truth.cluster.is_up_on(server.number) {
            self.up_since.get_or_insert(now);
        }
        let (plan, ledger) = (state.plan(), state.ledger());
        for file in &plan.files {
            // Other content starts over, whatever was before.
            if self
                .for_good
                .get(&file.path)
                .is_some_and(|known| *known != file.digest)
            {
                self.for_good.remove(&file.path);
            }
            let seen = (file.path.clone(), file.digest.clone());
            if truth.has_applied(file) && !self.taken.contains(&seen) {
                self.taken.insert(seen.clone());
            }
            self.first_seen.entry(seen).or_insert(now);
            // Held with another file of its name, it is decided again when that one is.
            let entry = ledger.files.get(&file.path);
            let state = entry.map(|entry| &entry.state);
            if matches!(state, Some(FileStage::Held { code, .. }) if *code == Code::SameBaseName) {
                self.for_good.remove(&file.path);
            }
        }
        for action in actions {
            self.judge_action(server, action);
        }
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

    /// Is it Windrow's to do that?
    fn judge_action(&mut self, server: &JudgedServer<'_>, action: &Action) {
        let (Action::Hold { path, .. } | Action::Lift { path }) = action else {
            return;
        };
        if server.disk.is_foreign(path) {
            self.untrue
                .insert(format!("{path} is Windrow's: somebody else made it"));
        }
        let Action::Hold { mark, .. } = action else {
            return;
        };
        if rke2::owner(&mark.file).is_some() {
            self.untrue
                .insert(format!("{} is Windrow's to hold: it is not", mark.file));
        }
        let again = self.for_good.get(&mark.file) == Some(&mark.digest);
        let may = [Code::HeldByHand, Code::HeldAppliedOnce, Code::SameBaseName];
        if again && !may.contains(&mark.code) {
            self.untrue
                .insert(format!("{} is held again: {}", mark.file, mark.why));
        }
        // What a person holds starts over: whoever lets the name go may do so while a file of it is gone.
        if mark.code == Code::HeldByHand {
            let name = mark.file.name();
            self.for_good.retain(|file, _| file.name() != name);
        }
    }

    /// A marker goes: is it written down that its file was let through?
    pub(super) fn judge_lift(&mut self, marker: &MarkerPath, state: &StagingState, saved: &Ledger) {
        let name = marker.hides();
        for file in state.plan().files.iter().filter(|file| file.name == name) {
            let in_force = state.ledger().files.get(&file.path);
            // What a person asks for lies on the disk until it was carried out.
            if in_force.is_some_and(|entry| entry.manual.is_some()) {
                continue;
            }
            let entry = saved.files.get(&file.path);
            let is_held = entry.is_none_or(|entry| {
                entry.digest != file.digest || matches!(entry.state, FileStage::Held { .. })
            });
            if file.owner.is_none() && is_held {
                let file = &file.path;
                self.untrue.insert(format!(
                    "{file} is let through: the ledger on the disk does not say so"
                ));
            }
        }
    }

    /// The files that a person holds.
    pub(super) fn held_by_hand(&self) -> impl Iterator<Item = &ManifestPath> {
        self.by_hand.iter()
    }

    /// The ledger was destroyed.
    pub(super) fn forget(&mut self) {
        self.for_good.clear();
    }

    /// A process or a marker is gone: what a person holds is what stands in the ledger on the disk, and in the markers.
    pub(super) fn forget_unwritten(&mut self, disk: &SimulatedDirectory, saved: &Ledger) {
        let written = |file: ManifestPath| {
            let entry = saved.files.get(&file);
            let manual = entry.and_then(|entry| entry.manual.as_ref());
            if manual.is_some_and(|manual| manual.hold) {
                return Some(file);
            }
            // One marker hides every file of its name, and names one of them.
            let mut marks = disk.iter().filter_map(|(_, marker)| marker.mark());
            let by_hand =
                marks.find(|mark| mark.code == Code::HeldByHand && mark.file.name() == file.name());
            by_hand.map(|mark| mark.file.clone())
        };
        let by_hand = std::mem::take(&mut self.by_hand);
        self.by_hand = by_hand.into_iter().filter_map(written).collect();
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
            let is_released = cause.is_some();
            if is_released && !relies && server.is_saved {
                self.for_good.insert(file.path.clone(), file.digest.clone());
            }
            if was_let_through && !relies {
                continue;
            }
            // RKE2 has it: from before the ledger was lost, while Windrow did not run, or from another server.
            if truth.has_applied(file) {
                continue;
            }
            if cause == Some(Cause::Yielded) && !was_let_through {
                self.judge_wait(server, file, now);
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

    /// Was the shortest of all deadlines over when a file was let through because of one?
    fn judge_wait(&mut self, server: &JudgedServer<'_>, file: &PlanFile, now: Timestamp) {
        let staging = &server.state.settings().staging;
        let seen = (file.path.clone(), file.digest.clone());
        let Some(seen) = self.first_seen.get(&seen).copied() else {
            return;
        };
        // Before kube-apiserver answers nothing is lost by holding.
        let waited = now.duration_since(seen.max(self.up_since.unwrap_or(now)));
        let refused = file.refused.as_ref().map(|_| staging.refused_deadline);
        let least = refused.unwrap_or(staging.advisory_deadline);
        let is_over = waited.is_positive() && waited.unsigned_abs() >= least;
        let is_blind = now.duration_since(seen).unsigned_abs() >= staging.blind_deadline;
        if !is_over && !is_blind {
            let file = &file.path;
            self.untrue
                .insert(format!("{file} has waited long enough: for {waited:#}"));
        }
    }
}

/// The cluster as it is, whatever anybody has heard of it, and whether kube-apiserver answers or not.
pub(super) struct Truth<'a> {
    pub(super) cluster: &'a SimulatedCluster,
    rules: &'a RuleSet,
}

impl<'a> Truth<'a> {
    pub(super) fn new(cluster: &'a SimulatedCluster, rules: &'a RuleSet) -> Self {
        Self { cluster, rules }
    }

    /// Has RKE2 applied exactly these bytes?
    pub(super) fn has_applied(&self, file: &PlanFile) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| addon.seen.checksum == file.sha256)
    }

    /// When RKE2 last failed to apply a file of this name.
    pub(super) fn failed_at(&self, file: &ManifestPath) -> Option<Timestamp> {
        self.cluster.failures.get(&file.addon()).map(|one| one.at)
    }

    /// Has RKE2 the objects of another file of the same Addon?
    pub(super) fn is_overtaken(&self, file: &PlanFile) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| !addon.seen.is_of(&file.path))
    }

    /// Has RKE2 applied this file, whatever was in it?
    pub(super) fn has_addon(&self, file: &ManifestPath) -> bool {
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

    pub(super) fn is_met(&self, need: &Need) -> bool {
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
            Some(namespaced) => KindSeen::Served { namespaced },
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
