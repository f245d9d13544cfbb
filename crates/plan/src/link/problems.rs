//! Problems of the requirements and the names of a directory.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::GroupKind;
use windrow_model::reasons::{Code, Severity};

use super::declarations::DocumentId;
use super::is_namespace;
use super::linker::Linker;
use crate::builtin;
use crate::examine::UnresolvedRequirement;
use crate::knowledge::{SwitchedOff, UnsetValues};
use crate::rules::{NeedCondition, NeedTarget, Tier};
use crate::{FileId, FileObstacle, Need, NeedId, PlanFile, Requirement, SatisfiedBy, readiness};

/// One item, or several in a sentence.
fn and_list(things: &BTreeSet<String>) -> String {
    let named: Vec<&str> = things.iter().take(NAMED).map(String::as_str).collect();
    match (&named[..], things.len().saturating_sub(NAMED)) {
        ([], _) => String::new(),
        ([one], _) => (*one).to_owned(),
        ([most @ .., last], 0) => format!("{} and {last}", most.join(", ")),
        (all, more) => format!("{} and {more} more", all.join(", ")),
    }
}

pub(crate) fn without_provider(target: &NeedTarget) -> (Code, String) {
    let (code, key, value) = match target {
        NeedTarget::Kind(kind) => (Code::KindWithoutProvider, "kind", kind.to_string()),
        NeedTarget::Object(object) => (Code::ObjectWithoutProvider, "what", object.to_string()),
    };
    (code, code.say(&[(key, &value)]))
}

/// The code and message for a target without a known provider that an installer in a file may provide.
pub(crate) fn may_be_brought(target: &NeedTarget, installer: &str) -> (Code, String) {
    let what = target.to_string();
    let words = [("what", &*what), ("file", installer)];
    (Code::MayBeBrought, Code::MayBeBrought.say(&words))
}

/// Findings on requirements: each message once, with all its places.
#[derive(Default)]
pub(super) struct RequirementFindings {
    missing: BTreeMap<(Code, String), Vec<Location>>,
    /// Targets that are provided on a condition, by provider and condition.
    conditional: BTreeMap<(String, String), NeededThings>,
    /// Targets that a value of a chart omits, by the chart and that value.
    left_out: BTreeMap<(String, SwitchedOff), NeededThings>,
    /// Targets learned from too few boots, by provider and number of boots.
    weak: BTreeMap<(String, String), NeededThings>,
    /// Files that contain both an installer and documents that wait for it.
    shared: BTreeMap<FileId, SharedFile>,
    skipped: BTreeMap<(Severity, String), Vec<Location>>,
    unobservable: BTreeMap<String, Vec<Location>>,
    /// The needs with this finding.
    never_met: BTreeSet<NeedId>,
    same_file: BTreeMap<(FileId, String), Location>,
}

#[derive(Default)]
struct NeededThings {
    what: BTreeSet<String>,
    at: Vec<Location>,
}

/// The dependencies of a file on an installer inside it: by the installer's line, and whether they are certain.
#[derive(Default)]
struct SharedFile {
    things: BTreeMap<(u32, &'static str), BTreeSet<String>>,
    at: Vec<Location>,
}

/// Most items of one sort in a message.
const NAMED: usize = 4;

impl Linker<'_> {
    /// Adds the problem of one requirement of a document.
    pub(super) fn check_requirement(
        &self,
        place: DocumentId,
        requirement: &Requirement,
        found: &mut RequirementFindings,
    ) {
        let at = &requirement.origin.at;
        if let Some(message) = self.skipped_provider(place, requirement) {
            let severity = match requirement.tier {
                Tier::Required => Severity::Error,
                Tier::Advisory => Severity::Warning,
            };
            let places = found.skipped.entry((severity, message)).or_default();
            places.push(at.clone());
            return;
        }
        if let Some(learned) = requirement.learned.as_ref().filter(|one| !one.is_firm())
            && requirement.tier == Tier::Required
        {
            let target = &self.plan.needs[requirement.need].target;
            let key = (learned.by.clone(), learned.seen.to_string());
            let needed = found.weak.entry(key).or_default();
            needed.what.insert(target.to_string());
            for place in [at, &learned.at] {
                if !needed.at.contains(place) {
                    needed.at.push(place.clone());
                }
            }
        }
        match requirement.satisfied_by {
            SatisfiedBy::SameFile { line } if self.fails_first(place, requirement) => {
                let one = self.examined[place.0];
                let what = self.plan.needs[requirement.need].target.to_string();
                let provider = one.objects.iter().position(|object| object.line == line);
                if provider.is_some_and(|document| self.index.is_bringer((place.0, document))) {
                    let shared = found.shared.entry(place.0).or_default();
                    shared
                        .things
                        .entry((line, "brings"))
                        .or_default()
                        .insert(what);
                    shared.at.push(at.clone());
                    return;
                }
                let provider = found.same_file.entry((place.0, what));
                provider.or_insert_with(|| one.shown.at(Some(line)));
            }
            SatisfiedBy::Installer { file, line } if file == place.0 => {
                let target = &self.plan.needs[requirement.need].target;
                let what = match self.chart_with_value(target) {
                    Some((_, condition)) => format!("{target} (if {condition})"),
                    None => target.to_string(),
                };
                let shared = found.shared.entry(file).or_default();
                shared
                    .things
                    .entry((line, "may bring"))
                    .or_default()
                    .insert(what);
                shared.at.push(at.clone());
            }
            _ => {
                let left_out = self.left_out(requirement);
                let is_told = left_out.is_some();
                if let Some(by) = left_out {
                    let target = &self.plan.needs[requirement.need].target;
                    let needed = found.left_out.entry(by).or_default();
                    needed.what.insert(target.to_string());
                    needed.at.push(at.clone());
                }
                if let Some(on) = self.condition(requirement) {
                    let target = &self.plan.needs[requirement.need].target;
                    let needed = found.conditional.entry(on).or_default();
                    needed.what.insert(target.to_string());
                    needed.at.push(at.clone());
                } else if !is_told && let Some(finding) = self.missing_provider(requirement) {
                    found.missing.entry(finding).or_default().push(at.clone());
                }
            }
        }
        if let Some(what) = self.unobservable_object(requirement.need) {
            found.never_met.insert(requirement.need);
            let message = Code::Unobservable.say(&[("what", &what)]);
            let places = found.unobservable.entry(message).or_default();
            places.push(at.clone());
        }
    }

    /// Adds the finding for a namespace that the files do not declare, although the object is useless without it. Nothing
    /// waits for such a namespace: somebody may create it later.
    pub(super) fn check_undeclared_namespace(
        &self,
        place: DocumentId,
        want: &UnresolvedRequirement,
        found: &mut RequirementFindings,
    ) {
        let NeedTarget::Object(namespace) = &want.target else {
            return;
        };
        if !want.if_declared
            || !is_namespace(&want.target)
            || builtin::has_namespace(&namespace.name)
            || self.index.provider_for(place, &want.target).is_some()
            || self.satisfied_by(place, true, &want.target).0 != SatisfiedBy::Nobody
        {
            return;
        }
        let finding = match self.may_bring(place, &want.target) {
            Some((installer, _)) => may_be_brought(&want.target, &self.examined[installer].path),
            None => without_provider(&want.target),
        };
        let places = found.missing.entry(finding).or_default();
        places.push(want.origin.at.clone());
    }

    pub(super) fn report_requirements(&mut self, found: RequirementFindings) {
        self.plan.unobservable = found.never_met;
        for ((code, message), at) in found.missing {
            self.find(code, message, at);
        }
        for ((by, condition), needed) in found.conditional {
            let what = and_list(&needed.what);
            let words = [("what", &*what), ("by", &by), ("condition", &condition)];
            let code = Code::BroughtOnCondition;
            self.find(code, code.say(&words), needed.at);
        }
        for ((by, off), mut needed) in found.left_out {
            let what = and_list(&needed.what);
            let words = [("what", &*what), ("by", &by), ("value", &off.value)];
            needed.at.push(off.at);
            let code = Code::KindLeftOut;
            self.find(code, code.say(&words), needed.at);
        }
        for ((by, seen), needed) in found.weak {
            let what = and_list(&needed.what);
            let words = [("what", &*what), ("by", &by), ("seen", &seen)];
            let code = Code::SeenOnFewBoots;
            self.find(code, code.say(&words), needed.at);
        }
        for (file, shared) in found.shared {
            let message = self.shares_a_file(file, &shared.things);
            self.find(Code::InstallerInFile, message, shared.at);
        }
        for ((severity, message), at) in found.skipped {
            self.plan.findings.push(Finding {
                incident: None,
                code: Code::ProviderSkipped,
                severity,
                message,
                at,
            });
        }
        for (message, at) in found.unobservable {
            self.find(Code::Unobservable, message, at);
        }
        for ((_, what), at) in found.same_file {
            let message = Code::SameFile.say(&[("what", &what)]);
            self.find(Code::SameFile, message, vec![at]);
        }
    }

    /// The finding for a target without a known provider.
    fn missing_provider(&self, requirement: &Requirement) -> Option<(Code, String)> {
        let target = &self.plan.needs[requirement.need].target;
        match requirement.satisfied_by {
            // The problem there is the file, and has its own finding.
            SatisfiedBy::Nobody if self.is_lost(target) => None,
            SatisfiedBy::Nobody => Some(without_provider(target)),
            SatisfiedBy::Installer {
                file: installer, ..
            } => Some(may_be_brought(target, &self.examined[installer].path)),
            _ => None,
        }
    }

    /// Whether a file that RKE2 refuses would define this kind.
    fn is_lost(&self, target: &NeedTarget) -> bool {
        let NeedTarget::Kind(kind) = target else {
            return false;
        };
        let mut lost = self.examined.iter().flat_map(|one| &one.lost_kinds);
        lost.any(|one| one == kind)
    }

    /// The provider of a target that a document cannot do without, and its condition, if Windrow cannot tell whether
    /// the condition is met.
    fn condition(&self, requirement: &Requirement) -> Option<(String, String)> {
        if requirement.tier != Tier::Required {
            return None;
        }
        match &requirement.satisfied_by {
            SatisfiedBy::Platform {
                by,
                condition: Some(condition),
            } => Some((by.clone(), condition.clone())),
            SatisfiedBy::Installer { .. } => {
                self.chart_with_value(&self.plan.needs[requirement.need].target)
            }
            _ => None,
        }
    }

    /// The chart of the directory that would provide this with another value, and that value.
    fn chart_with_value(&self, target: &NeedTarget) -> Option<(String, String)> {
        let (by, unset) = self.brought_by_value(target, |unset| unset.off.is_none())?;
        let values: Vec<String> = unset.values.iter().map(|one| format!("`{one}`")).collect();
        Some((by, format!("{} is true in its values", values.join(" or "))))
    }

    /// The chart of the directory whose own value keeps it from providing this, if there is no other known provider,
    /// and that value.
    fn left_out(&self, requirement: &Requirement) -> Option<(String, SwitchedOff)> {
        match &requirement.satisfied_by {
            SatisfiedBy::Nobody => {}
            SatisfiedBy::Platform { condition, .. } if condition.is_some() => {}
            _ => return None,
        }
        let target = &self.plan.needs[requirement.need].target;
        let (by, unset) = self.brought_by_value(target, |unset| unset.off.is_some())?;
        Some((by, unset.off.clone()?))
    }

    /// A chart that would provide this with other values, and its results with them.
    fn brought_by_value(
        &self,
        target: &NeedTarget,
        counts: impl Fn(&UnsetValues) -> bool,
    ) -> Option<(String, &UnsetValues)> {
        self.charts_with_values
            .iter()
            .find_map(|&(file, document)| {
                let object = &self.examined[file].objects[document];
                let mut unset = object.unset.iter().filter(|unset| counts(unset));
                let found = unset.find(|unset| unset.brings.brings(target))?;
                Some((object.object.to_string(), found))
            })
    }

    /// The message for a target that only a file provides which RKE2 does not apply.
    fn skipped_provider(&self, place: DocumentId, requirement: &Requirement) -> Option<String> {
        if !matches!(
            requirement.satisfied_by,
            SatisfiedBy::Nobody | SatisfiedBy::Cluster
        ) {
            return None;
        }
        let target = &self.plan.needs[requirement.need].target;
        let (file, document) = self.skipped.provider_for(place, target)?;
        let one = self.examined[file];
        let place = one.shown.at(Some(one.objects[document].line));
        Some(Code::ProviderSkipped.say(&[
            ("what", &target.to_string()),
            ("place", &place.to_string()),
            ("marker", one.skipped.as_deref().unwrap_or_default()),
        ]))
    }

    /// The message about a file that contains both an installer and documents that wait for it.
    fn shares_a_file(
        &self,
        file: FileId,
        things: &BTreeMap<(u32, &'static str), BTreeSet<String>>,
    ) -> String {
        let one = self.examined[file];
        let clauses = things.iter().map(|((line, brings), what)| {
            let installer = one.objects.iter().find(|object| object.line == *line);
            let installer = installer.map_or(String::new(), |object| object.object.to_string());
            format!("{installer} {brings} {}", and_list(what))
        });
        let clauses: Vec<String> = clauses.collect();
        let taken = |addon: &str| self.examined.iter().any(|one| one.addon == addon);
        Code::InstallerInFile.say(&[
            ("file", &one.path),
            ("what", &clauses.join("; ")),
            ("other", &one.path.objects_path(taken)),
        ])
    }

    /// Whether RKE2's first pass over the file will fail because of a requirement inside it. For kinds and custom
    /// objects it always does: RKE2 uses discovery before it applies anything. For a namespace only if its kind first
    /// appears after the object's: kinds are applied in order of first appearance.
    fn fails_first(&self, (file, document): DocumentId, requirement: &Requirement) -> bool {
        if requirement.tier != Tier::Required || !requirement.inferred {
            return false;
        }
        let one = self.examined[file];
        match &self.plan.needs[requirement.need].target {
            NeedTarget::Kind(_) => true,
            NeedTarget::Object(target) => {
                if !self.index.objects.contains_key(target) {
                    // A chart creates it as soon as its Job runs.
                    return true;
                }
                let first = |kind: &GroupKind| {
                    one.objects
                        .iter()
                        .position(|object| &object.object.group_kind() == kind)
                };
                let namespace = first(&GroupKind::new("", "Namespace"));
                namespace > first(&one.objects[document].object.group_kind())
            }
        }
    }

    /// The object of a need that requires readiness although it can never be observed.
    fn unobservable_object(&self, need: NeedId) -> Option<String> {
        let Need { target, condition } = &self.plan.needs[need];
        match (target, condition) {
            (NeedTarget::Object(object), NeedCondition::Ready)
                if !readiness::observable(&object.group_kind(), self.rules) =>
            {
                Some(object.to_string())
            }
            _ => None,
        }
    }

    /// Reports files with the same base name, which one marker hides together, and files that share an Addon.
    pub(super) fn report_shared_names(&mut self) {
        let mut namesakes: BTreeMap<&str, Vec<FileId>> = BTreeMap::new();
        let in_directory = |file: &PlanFile| file.path.applied_by().is_none();
        for (id, file) in self.plan.files.iter().enumerate() {
            if in_directory(file) {
                namesakes.entry(&file.name).or_default().push(id);
            }
        }
        let namesakes = namesakes.into_values().filter(|ids| ids.len() > 1);
        self.plan.namesakes = namesakes.collect();
        let mut addons: BTreeMap<&str, Vec<Location>> = BTreeMap::new();
        let mut names: BTreeMap<&str, Vec<Location>> = BTreeMap::new();
        let plan_files = &self.plan.files;
        let shown = plan_files.iter().filter(|file| file.skipped.is_none());
        for file in shown.filter(|file| in_directory(file)) {
            let at = file.shown.at(None);
            addons.entry(&file.addon).or_default().push(at.clone());
            names.entry(&file.name).or_default().push(at);
        }
        let shared = |map: BTreeMap<&str, Vec<Location>>, code: Code| {
            map.into_iter()
                .filter(|(_, at)| at.len() > 1)
                .map(|(name, at)| (code, code.say(&[("name", name)]), at))
                .collect::<Vec<_>>()
        };
        let mut found = shared(addons, Code::AddonCollision);
        found.extend(shared(names, Code::SameBaseName));
        let mut files: BTreeMap<&str, Vec<FileId>> = BTreeMap::new();
        for (id, one) in self.examined.iter().enumerate() {
            if one.skipped.is_none() {
                files.entry(&one.addon).or_default().push(id);
            }
        }
        for id in files.values().filter(|ids| ids.len() > 1).flatten() {
            let trouble = &mut self.plan.files[*id].trouble;
            trouble.get_or_insert(FileObstacle::Collides);
        }
        for (code, message, at) in found {
            self.find(code, message, at);
        }
    }

    /// Reports objects that several documents declare: one finding for all that the same files share.
    pub(super) fn report_duplicates(&mut self) {
        let mut shared: BTreeMap<Vec<FileId>, Vec<(String, Vec<Location>)>> = BTreeMap::new();
        let twice = self.index.objects.iter();
        for (object, places) in twice.filter(|(_, places)| places.len() > 1) {
            let at = places.iter().map(|&(file, document)| {
                let one = self.examined[file];
                one.shown.at(Some(one.objects[document].line))
            });
            let mut files: Vec<FileId> = places.iter().map(|(file, _)| *file).collect();
            files.dedup();
            let objects = shared.entry(files).or_default();
            objects.push((object.to_string(), at.collect()));
        }
        for mut objects in shared.into_values() {
            objects.sort();
            let (first, at) = objects.swap_remove(0);
            let what = match objects.len() {
                0 => first,
                more => format!("{first}, like {more} other objects of these files,"),
            };
            let message = Code::DuplicateObject.say(&[("what", &what)]);
            self.find(Code::DuplicateObject, message, at);
        }
    }

    /// Reports files to which rules would apply if the platform were known.
    pub(super) fn report_unknown_platform(&mut self) {
        if self.plan.platform.is_some() {
            return;
        }
        let at: Vec<Location> = self
            .examined
            .iter()
            .filter(|one| one.platform_matters)
            .map(|one| one.shown.at(None))
            .collect();
        if !at.is_empty() {
            self.find(Code::PlatformUnknown, Code::PlatformUnknown.say(&[]), at);
        }
    }
}
