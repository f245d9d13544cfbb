//! What is so in the simulated cluster and directory, whatever anybody has heard of it: what the oracle judges by.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::{Cause, Detail, FileStage, Observation, StagingState};
use windrow_model::manifest::{AddonName, GroupKind, ManifestPath, ObjectRef};
use windrow_plan::readiness::{self, KindSeen, NeedState, ObjectSeen};
use windrow_plan::rules::{NeedCondition, NeedTarget, OnDeadline, RuleSet, Tier};
use windrow_plan::{Need, Plan, PlanFile, Requirement, SatisfiedBy};

use crate::cluster::SimulatedCluster;
use crate::controllers;
use crate::files::SimulatedDirectory;
use crate::reading::FileReading;

/// A manifests directory, as RKE2's next pass finds it.
#[derive(Clone, Copy)]
pub(super) struct DirectoryView<'a> {
    pub(super) disk: &'a SimulatedDirectory,
    pub(super) state: &'a StagingState,
    /// The plan of what lies there, whatever Windrow could read of it.
    pub(super) plan: &'a Plan,
    /// The time by Windrow's clock.
    pub(super) wall: Timestamp,
    /// What RKE2 has found in the directory itself, where its look at those below is under way.
    pub(super) looking: Option<&'a SimulatedDirectory>,
    /// Is the question of now, and not of a pass that may be under way or of what Windrow has not heard? Then what RKE2 has applied is not
    /// applied by it.
    pub(super) is_fresh: bool,
}

/// RKE2's look at the directories is over by then (`times::SLOW_WALK`).
pub(super) const LONGEST_LOOK: Duration = Duration::from_secs(10);

impl DirectoryView<'_> {
    /// Does the ledger say that the file which brings this was let through a moment ago? A disk may have kept its marker for longer.
    fn was_just_let_through(&self, requirement: &Requirement) -> bool {
        let SatisfiedBy::File { file, .. } = requirement.satisfied_by else {
            return false;
        };
        let path = &self.plan.files[file].path;
        let entry = self.state.ledger().files.get(path);
        entry.is_some_and(|entry| {
            self.wall.duration_since(entry.since).unsigned_abs() < LONGEST_LOOK
        })
    }

    /// What the pass finds whose look at the directory is under way, where it finds the file below it.
    fn under_way(
        &self,
        file: &ManifestPath,
        requirement: &Requirement,
    ) -> Option<SimulatedDirectory> {
        if !file.contains('/') || !self.was_just_let_through(requirement) {
            return None;
        }
        let looking = self.looking?;
        let mut found = looking.with_lower(self.disk);
        // What was written since then a marker of the daemon's hides at first (`provisional_hold`), which is not played here.
        let news = self.disk.manifests();
        for (path, entry) in news.filter(|(path, _)| looking.get(path).is_none()) {
            found.put_again(path, entry, entry.mtime);
        }
        let is_found = found.get(file).is_some() && !found.is_hidden(file);
        is_found.then_some(found)
    }

    /// Has Windrow decided to let the file through that brings this? The disk may not have taken it.
    pub(super) fn lets_bringer_through(&self, requirement: &Requirement) -> bool {
        let SatisfiedBy::File { file, .. } = requirement.satisfied_by else {
            return false;
        };
        let entry = self.state.ledger().files.get(&self.plan.files[file].path);
        entry.is_some_and(|entry| !matches!(entry.state, FileStage::Held { .. }))
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
        self.has_applied_bytes(&file.path, &file.sha256)
    }

    fn has_applied_bytes(&self, path: &ManifestPath, sha256: &str) -> bool {
        let addon = self.cluster.addons.get(&path.addon());
        addon.is_some_and(|addon| addon.seen.checksum == sha256)
    }

    /// Has this server applied what RKE2 last applied of this file?
    pub(super) fn has_applied_here(&self, file: &PlanFile, server: usize) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| addon.appliers.contains(&server))
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

    /// Is it the file of its Addon that RKE2 applied last?
    pub(super) fn is_last_applied(&self, file: &PlanFile) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| addon.seen.is_of(&file.path))
    }

    /// Has RKE2 applied some content of this path to its end, and no other file of its Addon since?
    pub(super) fn has_taken(&self, file: &ManifestPath) -> bool {
        let addon = self.cluster.addons.get(&file.addon());
        addon.is_some_and(|addon| !addon.seen.checksum.is_empty() && addon.seen.is_of(file))
    }

    /// Did RKE2 last fail with another file of this file's Addon?
    pub(super) fn failed_with_other(&self, file: &ManifestPath) -> bool {
        let failure = self.cluster.failures.get(&file.addon());
        let named = format!("/server/manifests/{file}\" failed: ");
        // What RKE2 says of a file that it cannot parse names no file.
        let names_a_file = |message: &str| message.contains(" manifest at \"");
        failure.is_some_and(|failure| {
            names_a_file(&failure.message) && !failure.message.contains(&named)
        })
    }

    /// Has RKE2 applied this file, whatever was in it?
    pub(super) fn has_addon(&self, file: &ManifestPath) -> bool {
        self.cluster.addons.contains_key(&file.addon())
    }

    /// What the file requires and lacks, so that this cause does not excuse its release.
    pub(super) fn unmet(
        &self,
        file: &PlanFile,
        cause: Option<Cause>,
        view: DirectoryView<'_>,
    ) -> Vec<String> {
        let needs = &view.plan.needs;
        let mut brought = self.brought_before(needs, file, view);
        let is_hopeless = cause == Some(Cause::Yielded) && self.is_hopeless(file, view);
        let unmet = file
            .requirements()
            .filter(|requirement| requirement.tier == Tier::Required && requirement.takes_part())
            .filter(|requirement| match cause {
                // A person or the settings: Windrow had no say.
                Some(Cause::ByHand) => false,
                Some(Cause::Off) => view.state.settings().staging.enabled,
                // A deadline ends a wait that does no harm when it ends too early, and of which RKE2 can apply some; no other.
                Some(Cause::Yielded) if requirement.inferred => is_hopeless,
                Some(Cause::Yielded) => requirement.on_deadline == OnDeadline::Keep,
                Some(Cause::SamePass) => !brought(requirement),
                Some(Cause::Free | Cause::Met | Cause::Escaped | Cause::Elsewhere) | None => true,
            })
            .filter(|requirement| self.lacks(requirement, view))
            .map(|requirement| &needs[requirement.need]);
        unmet
            .map(|need| format!("{} {}", need.target, need.condition))
            .collect()
    }

    /// Does RKE2's next pass bring what a requirement lacks before it reaches the file? Each object of a file may need the same: a namespace.
    fn brought_before<'v>(
        &'v self,
        needs: &'v [Need],
        file: &'v PlanFile,
        view: DirectoryView<'v>,
    ) -> impl FnMut(&Requirement) -> bool + 'v {
        let mut brought: BTreeMap<usize, bool> = BTreeMap::new();
        move |requirement: &Requirement| {
            let need = requirement.need;
            let target = &needs[need].target;
            // A kind is served a while after its definition was applied.
            let is_object = matches!(target, NeedTarget::Object(_));
            let applied = view.is_fresh && is_object;
            requirement.inferred
                && *brought.entry(need).or_insert_with(|| {
                    let is_done = |path: &ManifestPath, reading: &FileReading| {
                        applied && self.has_applied_bytes(path, &reading.sha256)
                    };
                    let finds = |disk: &SimulatedDirectory| {
                        is_brought_before(disk, &file.path, target, is_done)
                    };
                    let under_way = view.under_way(&file.path, requirement);
                    finds(view.disk) && under_way.is_none_or(|found| finds(&found))
                })
        }
    }

    /// Does each object of the file lack its kind or its namespace, so that RKE2 could apply none of it?
    fn is_hopeless(&self, file: &PlanFile, view: DirectoryView<'_>) -> bool {
        view.is_fresh && Self::is_each_lacking(file, |one| self.is_lacking(one, view))
    }

    /// Has each object of the file a requirement of RKE2's own that is missing?
    pub(super) fn is_each_lacking(file: &PlanFile, lacks: impl Fn(&Requirement) -> bool) -> bool {
        let mut documents = file.documents.iter();
        !file.documents.is_empty()
            && documents.all(|document| {
                document.requires.iter().any(|requirement| {
                    requirement.inferred && requirement.tier == Tier::Required && lacks(requirement)
                })
            })
    }

    /// Is it missing?
    pub(super) fn lacks(&self, requirement: &Requirement, view: DirectoryView<'_>) -> bool {
        // Objects of a kind without namespaces need none, whatever their manifest says.
        let own_kind = requirement.own_namespace_of.as_ref();
        let is_needless = own_kind.is_some_and(|kind| self.cluster.serves(kind) == Some(false));
        requirement.takes_part() && !is_needless && !self.is_met(&view.plan.needs[requirement.need])
    }

    /// Is it missing, and does nothing bring it that Windrow lets through as well?
    pub(super) fn is_lacking(&self, requirement: &Requirement, view: DirectoryView<'_>) -> bool {
        self.lacks(requirement, view) && !view.lets_bringer_through(requirement)
    }

    fn is_met(&self, need: &Need) -> bool {
        // Whether an object works is what its controller has done, not what Windrow makes of its status.
        if let (NeedTarget::Object(object), NeedCondition::Ready) = (&need.target, &need.condition)
            && let Some(is_ready) = controllers::is_ready(self.cluster, object)
        {
            return is_ready;
        }
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

/// Will RKE2's next pass over this directory have created what is needed by the time that it reaches the file? Of files that share an Addon the
/// last takes away what those before brought. `is_done` says of which files RKE2 has nothing left to apply.
pub(super) fn is_brought_before(
    disk: &SimulatedDirectory,
    file: &ManifestPath,
    target: &NeedTarget,
    is_done: impl Fn(&ManifestPath, &FileReading) -> bool,
) -> bool {
    let walk = disk.walk();
    let mut last: BTreeMap<AddonName, bool> = BTreeMap::new();
    for (path, _) in walk.shown.iter().filter(|(path, _)| path < file) {
        let Some(reading) = disk.get(path).map(|entry| entry.reading(path)) else {
            continue;
        };
        if reading.refused.is_none() {
            let brings = !is_done(path, reading) && brings(reading, target);
            last.insert(path.addon(), brings);
        }
    }
    last.into_values().any(|brings| brings)
}

/// Does a file define the kind of one of its own objects?
pub(super) fn brings_own_kind(disk: &SimulatedDirectory, file: &ManifestPath) -> bool {
    let Some(reading) = disk.get(file).map(|entry| entry.reading(file)) else {
        return false;
    };
    let mut kinds = reading.objects.iter().map(|object| object.id.group_kind());
    kinds.any(|kind| brings(reading, &NeedTarget::Kind(kind)))
}

fn brings(reading: &FileReading, target: &NeedTarget) -> bool {
    reading.objects.iter().any(|object| match target {
        NeedTarget::Object(wanted) => object.named(true) == wanted || object.named(false) == wanted,
        NeedTarget::Kind(kind) => {
            let spec = &object.json["spec"];
            object.id.kind == "CustomResourceDefinition"
                && spec["group"] == kind.group.as_str()
                && spec["names"]["kind"] == kind.kind.as_str()
        }
    })
}
