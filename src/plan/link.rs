//! All files together: who satisfies what, what cannot work, and in which order the rest does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::examine::{Examined, Want, base_name};
use super::{
    FileId, Finding, Need, NeedId, Plan, PlanDocument, PlanFile, Requirement, SatisfiedBy, builtin,
};
use crate::manifest::{GroupKind, ObjectRef};
use crate::readiness;
use crate::reasons::Code;
use crate::rules::{Condition, Location, Platform, RuleSet, Target, Tier};

/// Puts examined files together to a plan. Their order does not matter.
pub fn link(examined: &[Arc<Examined>], rules: &RuleSet, platform: Option<Platform>) -> Plan {
    let mut examined: Vec<&Examined> = examined.iter().map(Arc::as_ref).collect();
    examined.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    let mut linker = Linker {
        index: Index::of(&examined),
        examined: &examined,
        rules,
        plan: Plan {
            platform,
            ..Plan::default()
        },
        need_ids: HashMap::new(),
    };
    linker.files();
    linker.shared_names();
    linker.duplicates();
    linker.platform();
    let mut graph = linker.required_graph();
    linker.cycles(&mut graph);
    linker.advisory(&mut graph);
    linker.plan.order = graph.order();
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
pub(super) type Place = (FileId, usize);

/// Who declares what.
pub(super) struct Index {
    objects: HashMap<ObjectRef, Vec<Place>>,
    kinds: HashMap<GroupKind, (Place, bool)>,
}

impl Index {
    fn of(examined: &[&Examined]) -> Self {
        let mut index = Self {
            objects: HashMap::new(),
            kinds: HashMap::new(),
        };
        for (file, one) in examined.iter().enumerate() {
            for (document, object) in one.objects.iter().enumerate() {
                if let Some((kind, namespaced)) = &object.serves {
                    index
                        .kinds
                        .entry(kind.clone())
                        .or_insert(((file, document), *namespaced));
                }
            }
        }
        for (file, one) in examined.iter().enumerate() {
            for (document, object) in one.objects.iter().enumerate() {
                let id = index.scoped(&object.object);
                index.objects.entry(id).or_default().push((file, document));
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

    pub(super) fn provider(&self, target: &Target) -> Option<Place> {
        match target {
            Target::Kind(kind) => self.kinds.get(kind).map(|(place, _)| *place),
            Target::Object(object) => {
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
    pub(super) index: Index,
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
        let mut unprovided: BTreeMap<(Code, String), Vec<Location>> = BTreeMap::new();
        let mut unobservable: BTreeMap<String, Vec<Location>> = BTreeMap::new();
        let mut same_file: BTreeMap<(FileId, String), Location> = BTreeMap::new();
        for (file, one) in self.examined.iter().enumerate() {
            self.plan.findings.extend(one.findings.iter().cloned());
            let mut documents = Vec::with_capacity(one.objects.len());
            for (document, object) in one.objects.iter().enumerate() {
                let requires: Vec<Requirement> = object
                    .wants
                    .iter()
                    .filter_map(|want| self.requirement(file, want))
                    .collect();
                for requirement in &requires {
                    let need = &self.plan.needs[requirement.need];
                    let at = &requirement.origin.at;
                    match &requirement.satisfied_by {
                        SatisfiedBy::Nobody => {
                            let (code, key, value) = match &need.target {
                                Target::Kind(kind) => {
                                    (Code::KindWithoutProvider, "kind", kind.to_string())
                                }
                                Target::Object(object) => {
                                    (Code::ObjectWithoutProvider, "what", object.to_string())
                                }
                            };
                            let message = code.say(&[(key, &value)]);
                            unprovided
                                .entry((code, message))
                                .or_default()
                                .push(at.clone());
                        }
                        SatisfiedBy::SameFile { line }
                            if self.fails_first(file, document, requirement) =>
                        {
                            same_file
                                .entry((file, need.target.to_string()))
                                .or_insert_with(|| one.shown.at(Some(*line)));
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
                name: base_name(&one.path).to_owned(),
                shown: one.shown.clone(),
                addon: one.addon.clone(),
                sha256: one.sha256.clone(),
                digest: one.digest.as_str().into(),
                owner: one.owner,
                refused: one.refused.clone(),
                harmful: one.harmful,
                hold: one.hold.clone(),
                apply_once: one.apply_once,
                documents,
            });
        }
        for ((code, message), at) in unprovided {
            self.find(code, message, at);
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

    fn requirement(&mut self, file: FileId, want: &Want) -> Option<Requirement> {
        if want.if_declared && self.index.provider(&want.target).is_none() {
            return None;
        }
        let target = match &want.target {
            Target::Object(object) => Target::Object(self.index.scoped(object)),
            kind => kind.clone(),
        };
        let satisfied_by = self.satisfied_by(file, want.inferred, &target);
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

    /// Will RKE2's first pass over the file fail because of a requirement inside it? Kinds and
    /// custom objects always: discovery is asked before anything is applied. A namespace only when
    /// its kind first appears behind the object's: kinds are applied in order of first appearance.
    fn fails_first(&self, file: FileId, document: usize, requirement: &Requirement) -> bool {
        if requirement.tier != Tier::Required || !requirement.inferred {
            return false;
        }
        let one = self.examined[file];
        match &self.plan.needs[requirement.need].target {
            Target::Kind(_) => true,
            Target::Object(_) => {
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

    fn satisfied_by(&self, file: FileId, inferred: bool, target: &Target) -> SatisfiedBy {
        if let Some((provider, position)) = self.index.provider(target) {
            let line = self.examined[provider].objects[position].line;
            if provider == file {
                return SatisfiedBy::SameFile { line };
            }
            return SatisfiedBy::File {
                file: provider,
                line,
            };
        }
        let platform = self.plan.platform;
        let by = match target {
            Target::Kind(kind) => self.rules.provider_of_kind(kind, platform),
            Target::Object(object) => self.rules.provider_of_object(object, platform),
        };
        match by {
            Some(provision) => SatisfiedBy::Platform {
                by: provision.by.clone(),
            },
            // A rule or an annotation may mean an object that somebody makes at run time; a field
            // that merely names one does not hold anything. Only what RKE2 cannot apply without is
            // worth a finding.
            None if inferred && matches!(target, Target::Kind(_)) => SatisfiedBy::Nobody,
            None if inferred && is_namespace(target) => SatisfiedBy::Nobody,
            None => SatisfiedBy::Cluster,
        }
    }

    fn need(&mut self, target: Target, condition: Condition) -> NeedId {
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
            (Target::Object(object), Condition::Ready)
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
        for one in self.examined {
            let at = one.shown.at(None);
            addons.entry(&one.addon).or_default().push(at.clone());
            names.entry(base_name(&one.path)).or_default().push(at);
        }
        let shared = |map: BTreeMap<&str, Vec<Location>>, code: Code| {
            map.into_iter()
                .filter(|(_, at)| at.len() > 1)
                .map(|(name, at)| (code, code.say(&[("name", name)]), at))
                .collect::<Vec<_>>()
        };
        for (code, message, at) in shared(addons, Code::AddonCollision)
            .into_iter()
            .chain(shared(names, Code::SameBaseName))
        {
            self.find(code, message, at);
        }
    }

    fn duplicates(&mut self) {
        let mut found: Vec<(String, Vec<Location>)> = self
            .index
            .objects
            .iter()
            // `generateName` makes a new object each time.
            .filter(|(object, places)| places.len() > 1 && !object.name.is_empty())
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

fn is_namespace(target: &Target) -> bool {
    matches!(target, Target::Object(object) if object.group.is_empty() && object.kind == "Namespace")
}
