//! What is wrong with the requirements and the names of a directory.

use std::collections::BTreeMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::GroupKind;
use windrow_model::reasons::{Code, Severity};

use super::declarations::DocumentId;
use super::linker::Linker;
use crate::rules::{NeedCondition, NeedTarget, Tier};
use crate::{FileId, FileObstacle, Need, NeedId, Requirement, SatisfiedBy, readiness};

/// Findings on requirements: each message once, with every place that it is true of.
#[derive(Default)]
pub(super) struct RequirementFindings {
    missing: BTreeMap<(Code, String), Vec<Location>>,
    skipped: BTreeMap<(Severity, String), Vec<Location>>,
    unobservable: BTreeMap<String, Vec<Location>>,
    same_file: BTreeMap<(FileId, String), Location>,
}

impl Linker<'_> {
    /// Adds what is wrong with one requirement of a document.
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
        match requirement.satisfied_by {
            SatisfiedBy::SameFile { line } if self.fails_first(place, requirement) => {
                let one = self.examined[place.0];
                let what = self.plan.needs[requirement.need].target.to_string();
                let provider = one.objects.iter().position(|object| object.line == line);
                if provider.is_some_and(|document| self.index.is_bringer((place.0, document))) {
                    let finding = self.shares_a_file(place.0, line, "brings", &what);
                    found.missing.entry(finding).or_default().push(at.clone());
                    return;
                }
                let provider = found.same_file.entry((place.0, what));
                provider.or_insert_with(|| one.shown.at(Some(line)));
            }
            _ => {
                if let Some(finding) = self.missing_provider(place.0, requirement) {
                    found.missing.entry(finding).or_default().push(at.clone());
                }
            }
        }
        if let Some(what) = self.unobservable_object(requirement.need) {
            let message = Code::Unobservable.say(&[("what", &what)]);
            let places = found.unobservable.entry(message).or_default();
            places.push(at.clone());
        }
    }

    /// Reports what was found wrong with all requirements.
    pub(super) fn report_requirements(&mut self, found: RequirementFindings) {
        for ((code, message), at) in found.missing {
            self.find(code, message, at);
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

    /// The finding where nothing known brings what is needed.
    fn missing_provider(&self, file: FileId, requirement: &Requirement) -> Option<(Code, String)> {
        let target = &self.plan.needs[requirement.need].target;
        match requirement.satisfied_by {
            SatisfiedBy::Nobody => {
                let (code, key, value) = match target {
                    NeedTarget::Kind(kind) => (Code::KindWithoutProvider, "kind", kind.to_string()),
                    NeedTarget::Object(object) => {
                        (Code::ObjectWithoutProvider, "what", object.to_string())
                    }
                };
                Some((code, code.say(&[(key, &value)])))
            }
            SatisfiedBy::Installer {
                file: installer,
                line,
            } => {
                let what = target.to_string();
                if installer == file {
                    return Some(self.shares_a_file(file, line, "may bring", &what));
                }
                let installer = &self.examined[installer].path;
                let words = [("what", &*what), ("file", installer)];
                Some((Code::MayBeBrought, Code::MayBeBrought.say(&words)))
            }
            SatisfiedBy::Platform {
                ref by,
                condition: Some(ref condition),
            } if requirement.tier == Tier::Required => {
                let what = target.to_string();
                let words = [("what", &*what), ("by", by), ("condition", condition)];
                let code = Code::BroughtOnCondition;
                Some((code, code.say(&words)))
            }
            _ => None,
        }
    }

    /// The message where only a file that RKE2 does not apply brings what is needed.
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

    /// The finding on a file that has both an installer and what waits for it.
    fn shares_a_file(&self, file: FileId, line: u32, brings: &str, what: &str) -> (Code, String) {
        let one = self.examined[file];
        let installer = one.objects.iter().find(|object| object.line == line);
        let installer = installer.map_or(String::new(), |object| object.object.to_string());
        let taken = |addon: &str| self.examined.iter().any(|one| one.addon == addon);
        let message = Code::InstallerInFile.say(&[
            ("file", &one.path),
            ("installer", &installer),
            ("brings", brings),
            ("what", what),
            ("other", &one.path.objects_path(taken)),
        ]);
        (Code::InstallerInFile, message)
    }

    /// Will RKE2's first pass over the file fail because of a requirement inside it? Kinds and
    /// custom objects always: discovery is asked before anything is applied. A namespace only when
    /// its kind first appears behind the object's: kinds are applied in order of first appearance.
    fn fails_first(&self, (file, document): DocumentId, requirement: &Requirement) -> bool {
        if requirement.tier != Tier::Required || !requirement.inferred {
            return false;
        }
        let one = self.examined[file];
        match &self.plan.needs[requirement.need].target {
            NeedTarget::Kind(_) => true,
            NeedTarget::Object(target) => {
                if !self.index.objects.contains_key(target) {
                    // A chart creates it, once its Job runs.
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

    /// The object of a need that asks for readiness where none can ever be observed.
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

    /// Files of one base name, which a marker hides together, and files that share an Addon.
    pub(super) fn report_shared_names(&mut self) {
        let mut namesakes: BTreeMap<&str, Vec<FileId>> = BTreeMap::new();
        for (id, file) in self.plan.files.iter().enumerate() {
            namesakes.entry(&file.name).or_default().push(id);
        }
        let namesakes = namesakes.into_values().filter(|ids| ids.len() > 1);
        self.plan.namesakes = namesakes.collect();
        let mut addons: BTreeMap<&str, Vec<Location>> = BTreeMap::new();
        let mut names: BTreeMap<&str, Vec<Location>> = BTreeMap::new();
        let plan_files = &self.plan.files;
        for file in plan_files.iter().filter(|file| file.skipped.is_none()) {
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

    /// Objects that several documents declare: one finding for all that the same files share.
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

    /// Files to which rules would apply if the platform were known.
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
