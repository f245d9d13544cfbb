//! One file by itself: what it declares, what each of its objects wants, what is wrong with it.
//!
//! This is the costly half of planning and depends on nothing but the file, the rules and the
//! platform, so the daemon keeps the result for as long as the file does not change.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{
    self, AddonName, BaseName, FileContent, GroupKind, MOST_PROBLEMS, ManifestFile, ManifestPath,
    MarkerPath, Object, ObjectRef, ReadLimits,
};
use windrow_model::reasons::Code;

use super::annotation::{self, DEPENDS_ON, WINDROW_DEPENDS_ON};
use super::installer::{Installing, created_namespace, installing};
use super::{FileObstacle, Origin, builtin};
use crate::rke2;
use crate::rules::{NeedCondition, NeedTarget, OnDeadline, Platform, RuleSet, Tier};

/// Where the lines of a file are to be found by a person: in the file itself, or in the
/// configuration that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMap {
    /// The file to open.
    pub file: String,
    /// The line there of the manifest's first line; 1 when the manifest is that file.
    pub first_line: u32,
    /// Do the manifest's lines stand there one below the other? Not for quoted or encoded content:
    /// every line is then shown as the first.
    pub line_by_line: bool,
}

impl SourceMap {
    /// A manifest that is a file of its own.
    pub fn itself(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            first_line: 1,
            line_by_line: true,
        }
    }

    /// Where a line of the manifest stands.
    pub fn at(&self, line: Option<u32>) -> Location {
        match line {
            Some(line) if self.line_by_line => {
                Location::line(&self.file, self.first_line + line.saturating_sub(1))
            }
            None if self.first_line == 1 && self.line_by_line => Location::file(&self.file),
            _ => Location::line(&self.file, self.first_line),
        }
    }
}

/// One file, examined.
#[derive(Debug, Clone)]
pub struct Examined {
    pub(super) path: ManifestPath,
    pub(super) shown: SourceMap,
    pub(super) addon: AddonName,
    pub(super) sha256: String,
    pub(super) digest: String,
    pub(super) owner: Option<&'static str>,
    pub(super) refused: Option<String>,
    pub(super) harmful: bool,
    pub(super) skipped: Option<MarkerPath>,
    pub(super) trouble: Option<FileObstacle>,
    pub(super) hold: Option<(String, Location)>,
    pub(super) apply_once: bool,
    pub(super) objects: Vec<ExaminedObject>,
    pub(super) findings: Vec<Finding>,
    /// Rules that would apply if the platform were known.
    pub(super) platform_matters: bool,
    /// It goes beyond a limit: what RKE2 does with it is not known, and it is never held for it.
    beyond_limits: bool,
    /// What its objects want, each thing once, by a digest; empty once it is examined.
    wanted: HashSet<u64>,
    /// How often.
    requests: usize,
    wants_too_much: bool,
}

/// Larger values in memory are no object: kube-apiserver takes requests of 3 MiB at most. They are not
/// given to the rules.
const LARGEST_OBJECT: usize = 8 << 20;
/// More different things no file asks for.
const MOST_WANTS: usize = 5000;
/// Nor more often.
const MOST_REQUESTS: usize = 10 * MOST_WANTS;
/// A name that is longer is none.
const LONGEST_NAME: usize = 1000;
/// More of a text that stands in a file is not told.
const LONGEST_MESSAGE: usize = 2000;

#[derive(Debug, Clone)]
pub(super) struct ExaminedObject {
    pub(super) line: u32,
    pub(super) object: ObjectRef,
    /// Does the API server choose its name? Then nothing can refer to it, and it is a new object each time.
    pub(super) is_name_generated: bool,
    /// The kind that this object makes the API serve, when it is a CustomResourceDefinition, and
    /// whether that kind is namespaced.
    pub(super) serves: Option<(GroupKind, bool)>,
    /// The namespace that this object creates, when it is a chart that says so.
    pub(super) creates: Option<ObjectRef>,
    pub(super) installing: Installing,
    pub(super) wants: Vec<UnresolvedRequirement>,
}

/// A requirement before it is known who satisfies it.
#[derive(Debug, Clone)]
pub(super) struct UnresolvedRequirement {
    pub(super) target: NeedTarget,
    pub(super) condition: NeedCondition,
    pub(super) tier: Tier,
    pub(super) origin: Origin,
    pub(super) reason: String,
    pub(super) deadline: Option<Duration>,
    pub(super) on_deadline: OnDeadline,
    pub(super) inferred: bool,
    /// Counts only when a manifest declares the target.
    pub(super) if_declared: bool,
}

/// Examines one file. `shown` says where a person finds its lines.
pub fn examine(
    file: &ManifestFile,
    shown: SourceMap,
    rules: &RuleSet,
    platform: Option<Platform>,
) -> Examined {
    let mut examined = Examined::new(&file.path, shown);
    for object in file.objects() {
        examined.object(object, rules, platform);
    }
    examined.finish(file)
}

/// Reads a file and examines it, one document after the other, so that no more than one is in memory.
pub fn examine_content(
    path: &ManifestPath,
    content: &FileContent,
    limits: &ReadLimits,
    shown: SourceMap,
    rules: &RuleSet,
    platform: Option<Platform>,
) -> Examined {
    let mut examined = Examined::new(path, shown);
    let file = manifest::read_each(path, content, limits, &mut |object| {
        examined.object(object, rules, platform);
    });
    examined.finish(&file)
}

impl Examined {
    fn new(path: &ManifestPath, shown: SourceMap) -> Self {
        Self {
            path: path.clone(),
            addon: path.addon(),
            sha256: String::new(),
            digest: String::new(),
            owner: rke2::owner(path),
            refused: None,
            harmful: false,
            skipped: None,
            trouble: None,
            hold: None,
            apply_once: false,
            objects: Vec::new(),
            findings: Vec::new(),
            platform_matters: false,
            beyond_limits: false,
            wanted: HashSet::new(),
            requests: 0,
            wants_too_much: false,
            shown,
        }
    }

    /// Adds what is known of the file as a whole, once its objects are known.
    fn finish(mut self, file: &ManifestFile) -> Self {
        self.sha256.clone_from(&file.sha256);
        self.digest.clone_from(&file.digest);
        let of_objects = std::mem::take(&mut self.findings);
        let trouble_of_objects = self.trouble.take();
        self.problems(file, &self.path.name());
        // A refused file declares nothing: RKE2 applies none of it.
        if self.refused.is_some() {
            self.objects.clear();
            self.hold = None;
            self.apply_once = false;
            self.platform_matters = false;
        } else {
            self.findings.extend(of_objects);
            self.trouble = self.trouble.or(trouble_of_objects);
        }
        // What was read may still bring something, but a guess about the whole file is no reason to hold it.
        if self.beyond_limits {
            for object in &mut self.objects {
                object.wants = Vec::new();
            }
        }
        self.cut();
        self.wanted = HashSet::new();
        self
    }

    /// Cuts the findings down to what is told. That the file goes beyond a limit is always told.
    fn cut(&mut self) {
        const MOST: usize = 2 * MOST_PROBLEMS;
        if self.findings.len() <= MOST {
            return;
        }
        let limit = |finding: &Finding| finding.code == Code::LimitExceeded;
        let mut room = MOST
            - self
                .findings
                .iter()
                .filter(|one| limit(one))
                .count()
                .min(MOST);
        self.findings.retain(|finding| {
            let fits = limit(finding) || room > 0;
            room -= usize::from(fits && !limit(finding));
            fits
        });
        self.findings.truncate(MOST);
    }

    /// Its path.
    pub fn path(&self) -> &ManifestPath {
        &self.path
    }

    /// Is it the same file, byte for byte? What has no bytes is known by what is said of it.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (&self.sha256, &self.digest) == (&other.sha256, &other.digest)
    }

    /// Hex SHA-256 of the bytes that were examined.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The file with a marker beside it that hides it from RKE2 and that Windrow did not make, if there is one:
    /// it needs nothing and brings nothing.
    #[must_use]
    pub fn skipped_by(mut self, marker: Option<&MarkerPath>) -> Self {
        let Some(marker) = marker else {
            return self;
        };
        // A link that leads nowhere stops RKE2 before it looks for markers.
        self.findings
            .retain(|finding| finding.code == Code::DanglingSymlink);
        self.trouble = self
            .trouble
            .filter(|trouble| *trouble == FileObstacle::Dangling);
        self.refused = None;
        self.harmful = false;
        self.hold = None;
        self.apply_once = false;
        self.platform_matters = false;
        for object in &mut self.objects {
            object.wants.clear();
            object.installing = Installing::No;
        }
        let path = &self.path;
        let message = format!(
            "RKE2 does not apply {path}: it is skipped by {marker}, which Windrow did not make"
        );
        self.find(Code::HeldByOther, None, message);
        self.skipped = Some(marker.clone());
        self
    }

    fn find(&mut self, code: Code, line: Option<u32>, mut message: String) {
        self.trouble = self.trouble.or(FileObstacle::from_code(code));
        self.beyond_limits |= matches!(
            code,
            Code::LimitExceeded | Code::FileTooLarge | Code::FileUnreadable
        );
        if self.findings.len() > 2 * MOST_PROBLEMS && code != Code::LimitExceeded {
            return;
        }
        if let Some((at, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
            message.truncate(at);
            message.push('…');
        }
        self.findings.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message,
            at: vec![self.shown.at(line)],
        });
    }

    fn problems(&mut self, file: &ManifestFile, name: &BaseName) {
        // No marker hides these, so that nothing may say that they are held.
        let has = |code| file.problems.iter().any(|problem| problem.code == code);
        let no_marker_hides = has(Code::FileNameNotText) || has(Code::DanglingSymlink);
        if let Some(error) = name.addon_error().filter(|_| !no_marker_hides) {
            let message = Code::AddonNameInvalid.say(&[("name", &error)]);
            self.refused = Some(message.clone());
            self.find(Code::AddonNameInvalid, None, message);
        }
        for problem in &file.problems {
            match problem.code {
                // Only what RKE2 refuses for certain may be kept from it. What goes beyond our own
                // limits or could not be read is RKE2's to judge.
                Code::FileRefused => {
                    self.refused.get_or_insert_with(|| problem.message.clone());
                }
                Code::SpecialFile => self.harmful = true,
                _ => {}
            }
            self.find(problem.code, problem.line, problem.message.clone());
        }
    }

    fn object(&mut self, object: &Object, rules: &RuleSet, platform: Option<Platform>) {
        let mut id = object.id.clone();
        let kind = id.group_kind();
        match builtin::namespaced(&kind) {
            Some(true) => {
                id.namespace.get_or_insert_with(|| "default".into());
            }
            Some(false) => id.namespace = None,
            // A custom kind: whether it has a namespace is known once all files are.
            None => {}
        }
        self.names(object, &id);
        let mut wants = Vec::new();
        let too_large = manifest::memory_of_node(&object.node) > LARGEST_OBJECT;
        if too_large {
            let message = format!(
                "the values of {id} take more than {} MiB of memory, and kube-apiserver takes no object of more than 3 MiB: nothing more is known of it; make it smaller",
                LARGEST_OBJECT >> 20
            );
            self.find(Code::LimitExceeded, Some(object.line), message);
        } else {
            self.annotations(object, &id, &mut wants);
            self.rules(object, rules, platform, &mut wants);
            self.references(object, &id, rules, &mut wants);
            self.kind(object, &kind, &mut wants);
            self.namespace(object, &id, &mut wants);
        }
        if !self.counts(&wants) {
            let message = format!(
                "the objects of the file need more than {MOST_WANTS} different things, so it is not held for any; split it"
            );
            if !self.wants_too_much {
                self.find(Code::LimitExceeded, Some(object.line), message);
            }
            self.wants_too_much = true;
            wants = Vec::new();
        }
        wants.shrink_to_fit();
        self.objects.push(ExaminedObject {
            line: object.line,
            is_name_generated: object.is_name_generated(),
            serves: serves(object),
            creates: created_namespace(object).filter(|one| one.name.len() <= LONGEST_NAME),
            installing: match too_large {
                true => Installing::No,
                false => installing(object, &id),
            },
            object: id,
            wants,
        });
    }

    /// Counts what an object wants: false when the file wants too much.
    fn counts(&mut self, wants: &[UnresolvedRequirement]) -> bool {
        self.requests += wants.len();
        for want in wants {
            let mut hasher = DefaultHasher::new();
            want.target.to_string().hash(&mut hasher);
            self.wanted.insert(hasher.finish());
            if self.wanted.len() > MOST_WANTS {
                return false;
            }
        }
        self.requests <= MOST_REQUESTS
    }

    /// Names that no API server takes.
    fn names(&mut self, object: &Object, id: &ObjectRef) {
        let name = match object.is_name_generated() {
            true => None,
            false => manifest::object_name_error(&id.group_kind(), &id.name),
        };
        let namespace = id.namespace.as_deref();
        let namespace = namespace.and_then(manifest::namespace_name_error);
        for (key, why) in [("name", name), ("namespace", namespace)] {
            let Some(why) = why else {
                continue;
            };
            let metadata = object.node.get("metadata");
            let entry = metadata.and_then(|metadata| metadata.entry(key));
            let line = entry.map_or(object.line, |entry| entry.line);
            let message =
                Code::ObjectNameInvalid.say(&[("object", &id.to_string()), ("why", &why)]);
            self.find(Code::ObjectNameInvalid, Some(line), message);
        }
    }

    fn annotations(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        for (key, with_suffixes) in [(DEPENDS_ON, false), (WINDROW_DEPENDS_ON, true)] {
            let Some((value, line)) = object.annotation(key) else {
                continue;
            };
            let (dependencies, errors) = annotation::depends_on(value, with_suffixes);
            for error in errors {
                let message = Code::DependsOnInvalid.say(&[("annotation", key), ("why", &error)]);
                self.find(Code::DependsOnInvalid, Some(line), message);
            }
            for dependency in dependencies {
                if &dependency.object == id {
                    let message = Code::DependsOnInvalid
                        .say(&[("annotation", key), ("why", "the object names itself")]);
                    self.find(Code::DependsOnInvalid, Some(line), message);
                    continue;
                }
                wants.push(UnresolvedRequirement {
                    reason: format!("{id} names {} in its annotation", dependency.object),
                    target: NeedTarget::Object(dependency.object),
                    condition: dependency.condition,
                    tier: dependency.tier,
                    origin: Origin {
                        rule: format!("annotation/{key}"),
                        at: self.shown.at(Some(line)),
                    },
                    deadline: None,
                    on_deadline: OnDeadline::Keep,
                    inferred: false,
                    if_declared: false,
                });
            }
        }
        if let Some(entry) = object
            .node
            .at(&["metadata", "annotations"])
            .and_then(|annotations| annotations.entry(annotation::HOLD))
        {
            // `windrow.dev/hold: yes` is a boolean, which Kubernetes would drop; it is still meant.
            let reason = match entry.value.as_str().map(str::trim) {
                None | Some("") => "no reason given",
                Some(reason) => reason,
            };
            let reason: String = reason.chars().take(LONGEST_MESSAGE).collect();
            let at = self.shown.at(Some(entry.line));
            self.hold.get_or_insert((reason, at));
        }
        match object.annotation(annotation::APPLY) {
            Some(("once", _)) => self.apply_once = true,
            Some((other, line)) => {
                let why = format!("it is {other:?}; only `once` is known");
                let message = Code::AnnotationInvalid
                    .say(&[("annotation", annotation::APPLY), ("why", &why)]);
                self.find(Code::AnnotationInvalid, Some(line), message);
            }
            None => {}
        }
    }

    fn rules(
        &mut self,
        object: &Object,
        rules: &RuleSet,
        platform: Option<Platform>,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        let matched = rules.requirements_for(object, platform);
        for problem in matched.problems {
            let why = format!("{}: {}", problem.rule.name, problem.message);
            let message = Code::RuleFailed.say(&[("why", &why)]);
            self.find(Code::RuleFailed, Some(object.line), message);
        }
        self.platform_matters |= platform.is_none() && rules.depends_on_platform(object);
        for matched in matched.requirements {
            let requirement = matched.requirement;
            wants.push(UnresolvedRequirement {
                target: requirement.target.clone(),
                condition: requirement.condition.clone(),
                tier: requirement.tier,
                origin: Origin {
                    rule: matched.rule.name.clone(),
                    at: requirement.at.clone(),
                },
                reason: requirement.reason.clone(),
                deadline: requirement.deadline,
                on_deadline: requirement.on_deadline,
                inferred: false,
                if_declared: false,
            });
        }
    }

    fn references(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        rules: &RuleSet,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        for reference in rules.references_of(object) {
            let target = &reference.target;
            let longest = target
                .name
                .len()
                .max(target.namespace.as_ref().map_or(0, |one| one.len()));
            if target == id || longest > LONGEST_NAME {
                continue;
            }
            wants.push(UnresolvedRequirement {
                reason: format!("{id} names {}", reference.target),
                target: NeedTarget::Object(reference.target),
                condition: reference.condition.clone(),
                tier: Tier::Advisory,
                origin: Origin {
                    rule: reference.rule.to_owned(),
                    at: self.shown.at(Some(reference.line)),
                },
                deadline: None,
                on_deadline: OnDeadline::Release,
                inferred: true,
                if_declared: reference.if_declared,
            });
        }
    }

    fn kind(&mut self, object: &Object, kind: &GroupKind, wants: &mut Vec<UnresolvedRequirement>) {
        if !builtin::serves_before_manifests(&kind.group) {
            wants.push(self.inferred(
                object,
                NeedTarget::Kind(kind.clone()),
                NeedCondition::Served,
                "inferred/kind-served",
                format!(
                    "RKE2 cannot apply {} before the API serves its kind",
                    object.id
                ),
            ));
        }
    }

    fn namespace(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        let Some(namespace) = &id.namespace else {
            return;
        };
        if !builtin::has_namespace(namespace) {
            wants.push(self.inferred(
                object,
                NeedTarget::Object(ObjectRef::cluster("", "Namespace", namespace.clone())),
                NeedCondition::Exists,
                "inferred/namespace",
                format!("RKE2 cannot apply {id} before its namespace exists"),
            ));
        }
    }

    fn inferred(
        &self,
        object: &Object,
        target: NeedTarget,
        condition: NeedCondition,
        rule: &str,
        reason: String,
    ) -> UnresolvedRequirement {
        UnresolvedRequirement {
            target,
            condition,
            tier: Tier::Required,
            origin: Origin {
                rule: rule.to_owned(),
                at: self.shown.at(Some(object.line)),
            },
            reason,
            deadline: None,
            on_deadline: OnDeadline::Release,
            inferred: true,
            if_declared: false,
        }
    }
}

/// The kind that a CustomResourceDefinition brings.
fn serves(object: &Object) -> Option<(GroupKind, bool)> {
    if object.id.group != "apiextensions.k8s.io" || object.id.kind != "CustomResourceDefinition" {
        return None;
    }
    let group = object.node.str_at(&["spec", "group"])?;
    let kind = object.node.str_at(&["spec", "names", "kind"])?;
    if group.len().max(kind.len()) > LONGEST_NAME {
        return None;
    }
    let namespaced = object.node.str_at(&["spec", "scope"]) != Some("Cluster");
    Some((GroupKind::new(group, kind), namespaced))
}
