//! All files together: who satisfies what, what cannot work, and in which order the rest does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_model::reasons::{Code, Severity};

use super::examine::{Examined, ExaminedObject, UnresolvedRequirement};
use super::installer;
use super::{
    FileId, FileObstacle, Need, NeedId, Plan, PlanDocument, PlanFile, Requirement, SatisfiedBy,
    builtin,
};
use crate::readiness;
use crate::rules::{NeedCondition, NeedTarget, Platform, RuleSet, Tier};

/// Puts examined files together to a plan. Their order does not matter.
pub fn link(examined: &[Arc<Examined>], rules: &RuleSet, platform: Option<Platform>) -> Plan {
    let mut examined: Vec<&Examined> = examined.iter().map(Arc::as_ref).collect();
    examined.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    let mut linker = Linker {
        index: DeclarationIndex::new(&examined, |one| one.skipped.is_none()),
        skipped: DeclarationIndex::new(&examined, |one| one.skipped.is_some()),
        installers: Vec::new(),
        examined: &examined,
        rules,
        plan: Plan {
            platform,
            ..Plan::default()
        },
        need_ids: HashMap::new(),
    };
    linker.installers = linker.able_installers();
    linker.files();
    linker.shared_names();
    linker.duplicates();
    linker.platform();
    let mut graph = linker.required_graph();
    linker.cycles(&mut graph);
    linker.advisory(&mut graph);
    linker.guesses(&mut graph);
    linker.plan.order = graph.order();
    let files = &linker.plan.files;
    let order = &mut linker.plan.order;
    order.retain(|file| files[*file].skipped.is_none());
    linker.plan.findings.sort_by(|a, b| {
        (std::cmp::Reverse(a.severity), &a.at, a.code).cmp(&(
            std::cmp::Reverse(b.severity),
            &b.at,
            b.code,
        ))
    });
    linker.plan
}

/// A document: file and position in it.
pub(super) type DocumentId = (FileId, usize);

/// Who declares what.
pub(super) struct DeclarationIndex {
    objects: HashMap<ObjectRef, Vec<DocumentId>>,
    kinds: HashMap<GroupKind, (DocumentId, bool)>,
    /// Namespaces that charts create.
    created: HashMap<ObjectRef, Vec<DocumentId>>,
}

impl DeclarationIndex {
    /// What the files of these bring.
    fn new(examined: &[&Examined], these: fn(&Examined) -> bool) -> Self {
        let mut index = Self {
            objects: HashMap::new(),
            kinds: HashMap::new(),
            created: HashMap::new(),
        };
        let those = || examined.iter().enumerate().filter(|(_, one)| these(one));
        for (file, one) in those() {
            for (document, object) in one.objects.iter().enumerate() {
                if let Some((kind, namespaced)) = &object.serves {
                    index
                        .kinds
                        .entry(kind.clone())
                        .or_insert(((file, document), *namespaced));
                }
            }
        }
        for (file, one) in those() {
            for (document, object) in one.objects.iter().enumerate() {
                if !object.is_name_generated {
                    let id = index.scoped(&object.object);
                    index.objects.entry(id).or_default().push((file, document));
                }
                if let Some(namespace) = &object.creates {
                    let creators = index.created.entry(namespace.clone()).or_default();
                    creators.push((file, document));
                }
            }
        }
        index
    }

    /// The reference with its namespace filled in or taken away, where the set's own
    /// CustomResourceDefinitions say which.
    fn scoped(&self, object: &ObjectRef) -> ObjectRef {
        let mut object = object.clone();
        let namespaced = builtin::namespaced(&object.group_kind()).or_else(|| {
            self.kinds
                .get(&object.group_kind())
                .map(|(_, scope)| *scope)
        });
        match namespaced {
            Some(true) => {
                object.namespace.get_or_insert_with(|| "default".into());
            }
            Some(false) => object.namespace = None,
            None => {}
        }
        object
    }

    /// Who brings something for this document: what declares it, or else a chart that creates it, of
    /// the same file if it can be. No object creates the namespace that it needs itself.
    fn provider_for(&self, place: DocumentId, target: &NeedTarget) -> Option<DocumentId> {
        self.provider(target).or_else(|| {
            let NeedTarget::Object(object) = target else {
                return None;
            };
            let creators = self.created.get(object)?.iter();
            creators
                .filter(|creator| **creator != place)
                .min_by_key(|creator| creator.0 != place.0)
                .copied()
        })
    }

    pub(super) fn provider(&self, target: &NeedTarget) -> Option<DocumentId> {
        match target {
            NeedTarget::Kind(kind) => self.kinds.get(kind).map(|(place, _)| *place),
            NeedTarget::Object(object) => {
                let object = self.scoped(object);
                let places = self.objects.get(&object).or_else(|| {
                    // A kind of which the scope is not known: its manifest may leave out the
                    // namespace that a reference spells, or the other way round.
                    let mut other = object.clone();
                    other.namespace = match other.namespace.as_deref() {
                        Some("default") => None,
                        None => Some("default".into()),
                        Some(_) => return None,
                    };
                    self.objects.get(&other)
                });
                places.and_then(|places| places.first().copied())
            }
        }
    }
}

pub(super) struct Linker<'a> {
    examined: &'a [&'a Examined],
    rules: &'a RuleSet,
    /// Installers that what nothing known brings may come from.
    pub(super) installers: Vec<DocumentId>,
    pub(super) index: DeclarationIndex,
    /// What is in files that RKE2 does not apply.
    skipped: DeclarationIndex,
    pub(super) plan: Plan,
    need_ids: HashMap<Need, NeedId>,
}

impl Linker<'_> {
    pub(super) fn find(&mut self, code: Code, message: String, at: Vec<Location>) {
        self.plan.findings.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message,
            at,
        });
    }

    fn files(&mut self) {
        // What nobody brings is told once per thing, with every place that needs it.
        let mut found: BTreeMap<(Code, String), Vec<Location>> = BTreeMap::new();
        let mut skips: BTreeMap<(Severity, String), Vec<Location>> = BTreeMap::new();
        let mut unobservable: BTreeMap<String, Vec<Location>> = BTreeMap::new();
        let mut same_file: BTreeMap<(FileId, String), Location> = BTreeMap::new();
        for (file, one) in self.examined.iter().enumerate() {
            self.plan.findings.extend(one.findings.iter().cloned());
            let mut documents = Vec::with_capacity(one.objects.len());
            for (document, object) in one.objects.iter().enumerate() {
                let requires: Vec<Requirement> = object
                    .wants
                    .iter()
                    .filter_map(|want| self.requirement((file, document), want))
                    .collect();
                for requirement in &requires {
                    let need = &self.plan.needs[requirement.need];
                    let at = &requirement.origin.at;
                    if let Some(message) = self.skips((file, document), requirement) {
                        let severity = match requirement.tier {
                            Tier::Required => Severity::Error,
                            Tier::Advisory => Severity::Warning,
                        };
                        skips
                            .entry((severity, message))
                            .or_default()
                            .push(at.clone());
                        continue;
                    }
                    match requirement.satisfied_by {
                        SatisfiedBy::Nobody => {
                            let (code, key, value) = match &need.target {
                                NeedTarget::Kind(kind) => {
                                    (Code::KindWithoutProvider, "kind", kind.to_string())
                                }
                                NeedTarget::Object(object) => {
                                    (Code::ObjectWithoutProvider, "what", object.to_string())
                                }
                            };
                            let message = code.say(&[(key, &value)]);
                            found.entry((code, message)).or_default().push(at.clone());
                        }
                        SatisfiedBy::Installer {
                            file: installer,
                            line,
                        } => {
                            let what = need.target.to_string();
                            let (code, message) = match installer == file {
                                true => self.shares_a_file(file, line, "may bring", &what),
                                false => {
                                    let installer = &self.examined[installer].path;
                                    let words = [("what", &*what), ("file", installer)];
                                    (Code::MayBeBrought, Code::MayBeBrought.say(&words))
                                }
                            };
                            found.entry((code, message)).or_default().push(at.clone());
                        }
                        SatisfiedBy::SameFile { line }
                            if self.fails_first(file, document, requirement) =>
                        {
                            let what = need.target.to_string();
                            let declares =
                                |one: &ExaminedObject| one.line == line && one.creates.is_some();
                            if one.objects.iter().any(declares) {
                                let found_so = self.shares_a_file(file, line, "brings", &what);
                                found.entry(found_so).or_default().push(at.clone());
                                continue;
                            }
                            same_file
                                .entry((file, what))
                                .or_insert_with(|| one.shown.at(Some(line)));
                        }
                        _ => {}
                    }
                    if let Some(what) = self.unobservable(requirement.need) {
                        let message = Code::Unobservable.say(&[("what", &what)]);
                        unobservable.entry(message).or_default().push(at.clone());
                    }
                }
                documents.push(PlanDocument {
                    line: object.line,
                    object: self.index.scoped(&object.object),
                    requires,
                });
            }
            self.plan.files.push(PlanFile {
                path: one.path.clone(),
                name: one.path.name(),
                shown: one.shown.clone(),
                addon: one.addon.clone(),
                sha256: one.sha256.clone(),
                digest: one.digest.as_str().into(),
                owner: one.owner,
                refused: one.refused.clone(),
                harmful: one.harmful,
                skipped: one.skipped.clone(),
                trouble: one.trouble,
                hold: one.hold.clone(),
                apply_once: one.apply_once,
                documents,
            });
        }
        for ((code, message), at) in found {
            self.find(code, message, at);
        }
        for ((severity, message), at) in skips {
            self.plan.findings.push(Finding {
                incident: None,
                code: Code::ProviderSkipped,
                severity,
                message,
                at,
            });
        }
        for (message, at) in unobservable {
            self.find(Code::Unobservable, message, at);
        }
        for ((_, what), at) in same_file {
            self.find(
                Code::SameFile,
                Code::SameFile.say(&[("what", &what)]),
                vec![at],
            );
        }
    }

    /// What is said where only a file that RKE2 does not apply brings what is needed.
    fn skips(&self, place: DocumentId, requirement: &Requirement) -> Option<String> {
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

    fn requirement(
        &mut self,
        place: DocumentId,
        want: &UnresolvedRequirement,
    ) -> Option<Requirement> {
        let target = self.target(want);
        if want.if_declared && self.index.provider_for(place, &target).is_none() {
            return None;
        }
        let mut satisfied_by = self.satisfied_by(place, want.inferred, &target);
        if satisfied_by == SatisfiedBy::Nobody
            && let Some((file, line)) = self.may_bring(place.0, &target)
        {
            satisfied_by = SatisfiedBy::Installer { file, line };
        }
        Some(Requirement {
            need: self.need(target, want.condition.clone()),
            tier: want.tier,
            origin: want.origin.clone(),
            reason: want.reason.clone(),
            deadline: want.deadline,
            on_deadline: want.on_deadline,
            inferred: want.inferred,
            satisfied_by,
            yields: false,
        })
    }

    /// What is wanted, with its namespace as the set's own definitions say.
    fn target(&self, want: &UnresolvedRequirement) -> NeedTarget {
        match &want.target {
            NeedTarget::Object(object) => NeedTarget::Object(self.index.scoped(object)),
            kind => kind.clone(),
        }
    }

    /// The installers of the directory, if any of them can begin: one that needs nothing which only
    /// an installer could bring. Where none can, nothing comes from any.
    fn able_installers(&self) -> Vec<DocumentId> {
        let installers = installer::installers(self.examined);
        let begins = |place: &DocumentId| {
            let wants = &self.examined[place.0].objects[place.1].wants;
            let known = |want: &UnresolvedRequirement| {
                self.satisfied_by(*place, want.inferred, &self.target(want)) != SatisfiedBy::Nobody
            };
            wants.iter().all(known)
        };
        match installers.iter().any(begins) {
            true => installers,
            false => Vec::new(),
        }
    }

    /// The file and line of an installer that may bring something which nothing known brings: of this
    /// file, if it has one. No installer brings what it needs itself.
    fn may_bring(&self, file: FileId, target: &NeedTarget) -> Option<(FileId, u32)> {
        let needs_it = |place: &DocumentId| {
            let wants = &self.examined[place.0].objects[place.1].wants;
            wants
                .iter()
                .any(|want| want.inferred && self.target(want) == *target)
        };
        let here = self.installers.partition_point(|place| place.0 < file);
        let of_this_file = self.installers[here..]
            .iter()
            .take_while(|place| place.0 == file);
        let (file, document) = *of_this_file
            .chain(&self.installers)
            .find(|place| !needs_it(place))?;
        Some((file, self.examined[file].objects[document].line))
    }

    /// What is said of a file that has an installer and what waits for it.
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
    fn fails_first(&self, file: FileId, document: usize, requirement: &Requirement) -> bool {
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

    fn satisfied_by(&self, place: DocumentId, inferred: bool, target: &NeedTarget) -> SatisfiedBy {
        if let Some((provider, position)) = self.index.provider_for(place, target) {
            let line = self.examined[provider].objects[position].line;
            if provider == place.0 {
                return SatisfiedBy::SameFile { line };
            }
            return SatisfiedBy::File {
                file: provider,
                line,
            };
        }
        let platform = self.plan.platform;
        let by = match target {
            NeedTarget::Kind(kind) => self.rules.provider_of_kind(kind, platform),
            NeedTarget::Object(object) => self.rules.provider_of_object(object, platform),
        };
        match by {
            Some(provision) => SatisfiedBy::Platform {
                by: provision.by.clone(),
            },
            // A rule or an annotation may mean an object that somebody makes at run time; a field
            // that merely names one does not hold anything. Only what RKE2 cannot apply without is
            // worth a finding.
            None if inferred && matches!(target, NeedTarget::Kind(_)) => SatisfiedBy::Nobody,
            None if inferred && is_namespace(target) => SatisfiedBy::Nobody,
            None => SatisfiedBy::Cluster,
        }
    }

    fn need(&mut self, target: NeedTarget, condition: NeedCondition) -> NeedId {
        let need = Need { target, condition };
        if let Some(&id) = self.need_ids.get(&need) {
            return id;
        }
        let id = self.plan.needs.len();
        self.plan.needs.push(need.clone());
        self.need_ids.insert(need, id);
        id
    }

    /// The object of a need that asks for readiness where none can ever be observed.
    fn unobservable(&self, need: NeedId) -> Option<String> {
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

    fn shared_names(&mut self) {
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

    fn duplicates(&mut self) {
        let mut found: Vec<(String, Vec<Location>)> = self
            .index
            .objects
            .iter()
            .filter(|(_, places)| places.len() > 1)
            .map(|(object, places)| {
                let at = places
                    .iter()
                    .map(|&(file, document)| {
                        let one = self.examined[file];
                        one.shown.at(Some(one.objects[document].line))
                    })
                    .collect();
                (object.to_string(), at)
            })
            .collect();
        found.sort();
        for (object, at) in found {
            let message = Code::DuplicateObject.say(&[("what", &object)]);
            self.find(Code::DuplicateObject, message, at);
        }
    }

    fn platform(&mut self) {
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

fn is_namespace(target: &NeedTarget) -> bool {
    matches!(target, NeedTarget::Object(object) if object.group.is_empty() && object.kind == "Namespace")
}
