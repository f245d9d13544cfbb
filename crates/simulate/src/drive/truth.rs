//! The true state of the simulated cluster and directory, which the oracle uses: it does not depend on Windrow's events.

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
    /// The plan for the real content of the directory, including files that Windrow could not read.
    pub(super) plan: &'a Plan,
    /// The time by Windrow's clock.
    pub(super) wall: Timestamp,
    /// RKE2's view of the directory itself, while its scan of the subdirectories is in progress.
    pub(super) looking: Option<&'a SimulatedDirectory>,
    /// Does the question concern the present only, and neither a pass in progress nor events that Windrow has not received? Then
    /// RKE2 does not apply again the files that it has applied.
    pub(super) is_fresh: bool,
}

/// Within this time RKE2's scan of the directories has ended (`times::SLOW_WALK`).
pub(super) const LONGEST_LOOK: Duration = Duration::from_secs(10);

impl DirectoryView<'_> {
    /// Does the ledger say that the file with this object was just released? A disk may have kept its marker for longer.
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

    /// The objects of the pass whose scan of the directory is in progress, if it finds the file in a subdirectory.
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
        // At first, a marker of the daemon hides files that were written since (`provisional_hold`). That is not simulated here.
        let news = self.disk.manifests();
        for (path, entry) in news.filter(|(path, _)| looking.get(path).is_none()) {
            found.put_again(path, entry, entry.mtime);
        }
        let is_found = found.get(file).is_some() && !found.is_hidden(file);
        is_found.then_some(found)
    }

    /// Has Windrow decided to release the file with this object? The disk may not have executed it.
    pub(super) fn lets_bringer_through(&self, requirement: &Requirement) -> bool {
        let SatisfiedBy::File { file, .. } = requirement.satisfied_by else {
            return false;
        };
        let entry = self.state.ledger().files.get(&self.plan.files[file].path);
        entry.is_some_and(|entry| !matches!(entry.state, FileStage::Held { .. }))
    }
}

/// The true state of the cluster, independent of Windrow's events and of whether kube-apiserver answers.
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

    /// Has this server applied RKE2's last applied content of this file?
    pub(super) fn has_applied_here(&self, file: &PlanFile, server: usize) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| addon.appliers.contains(&server))
    }

    /// When RKE2 last failed to apply a file of this name.
    pub(super) fn failed_at(&self, file: &ManifestPath) -> Option<Timestamp> {
        self.cluster.failures.get(&file.addon()).map(|one| one.at)
    }

    /// Does RKE2 have the objects of another file of the same Addon?
    pub(super) fn is_overtaken(&self, file: &PlanFile) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| !addon.seen.is_of(&file.path))
    }

    /// Is it the file of its Addon that RKE2 applied last?
    pub(super) fn is_last_applied(&self, file: &PlanFile) -> bool {
        let addon = self.cluster.addons.get(&file.addon);
        addon.is_some_and(|addon| addon.seen.is_of(&file.path))
    }

    /// Has RKE2 applied some content of this path completely, and no other file of its Addon since?
    pub(super) fn has_taken(&self, file: &ManifestPath) -> bool {
        let addon = self.cluster.addons.get(&file.addon());
        addon.is_some_and(|addon| !addon.seen.checksum.is_empty() && addon.seen.is_of(file))
    }

    /// Did RKE2 last fail with another file of this file's Addon?
    pub(super) fn failed_with_other(&self, file: &ManifestPath) -> bool {
        let failure = self.cluster.failures.get(&file.addon());
        let named = format!("/server/manifests/{file}\" failed: ");
        // RKE2's message about a file that it cannot parse does not name the file.
        let names_a_file = |message: &str| message.contains(" manifest at \"");
        failure.is_some_and(|failure| {
            names_a_file(&failure.message) && !failure.message.contains(&named)
        })
    }

    /// Has RKE2 applied this file with any content?
    pub(super) fn has_addon(&self, file: &ManifestPath) -> bool {
        self.cluster.addons.contains_key(&file.addon())
    }

    /// The missing requirements of the file, if this cause does not excuse its release.
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
                // A user or the settings decided, not Windrow.
                Some(Cause::ByHand) => false,
                Some(Cause::Off) => view.state.settings().staging.enabled,
                // A deadline may only end a wait whose early end does no harm, for a file that RKE2 can apply in part.
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

    /// Does RKE2's next pass create the target of a requirement before it reaches the file? Each object of a file may need the
    /// same namespace.
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

    /// Does each object of the file have a missing requirement of RKE2 itself?
    pub(super) fn is_each_lacking(file: &PlanFile, lacks: impl Fn(&Requirement) -> bool) -> bool {
        let mut documents = file.documents.iter();
        !file.documents.is_empty()
            && documents.all(|document| {
                document.requires.iter().any(|requirement| {
                    requirement.inferred && requirement.tier == Tier::Required && lacks(requirement)
                })
            })
    }

    pub(super) fn lacks(&self, requirement: &Requirement, view: DirectoryView<'_>) -> bool {
        // Objects of a kind without namespaces need none, regardless of their manifest.
        let own_kind = requirement.own_namespace_of.as_ref();
        let is_needless = own_kind.is_some_and(|kind| self.cluster.serves(kind) == Some(false));
        requirement.takes_part() && !is_needless && !self.is_met(&view.plan.needs[requirement.need])
    }

    /// Is it missing, and does no other released file create it?
    pub(super) fn is_lacking(&self, requirement: &Requirement, view: DirectoryView<'_>) -> bool {
        self.lacks(requirement, view) && !view.lets_bringer_through(requirement)
    }

    fn is_met(&self, need: &Need) -> bool {
        // Whether an object works depends on the actions of its controller, not on Windrow's view of its status.
        if let (NeedTarget::Object(object), NeedCondition::Ready) = (&need.target, &need.condition)
            && let Some(is_ready) = controllers::is_ready(self.cluster, object)
        {
            return is_ready;
        }
        let observation = self.observation_for(&need.target);
        let state = readiness::holds(&need.target, &need.condition, self.rules, &observation);
        state == NeedState::Met
    }

    /// The complete present state on which a verdict on the target may depend.
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

/// Will RKE2's next pass over this directory have created the required object when it reaches the file? If files share an Addon,
/// the last one removes the objects of the earlier ones. `is_done` selects the files that RKE2 does not have to apply any more.
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
