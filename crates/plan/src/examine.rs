//! Examines one file without the others: its declarations, the requirements of its objects, its problems.
//!
//! This is the costly half of planning and depends only on the file, the rules and the platform, so the daemon keeps
//! the result until the file changes.

mod slow_effects;
mod wants;

pub(crate) use self::wants::OWN_NAMESPACE;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use smol_str::SmolStr;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{
    self, AddonName, BaseName, FileContent, GroupKind, MOST_PROBLEMS, ManifestFile, ManifestPath,
    MarkerPath, Object, ObjectRef, ReadLimits,
};
use windrow_model::reasons::Code;
use windrow_model::text::cut;

use self::slow_effects::{count_written, file_effects, object_effects};
use super::installer::{
    HelmObject, Installing, KnownInstaller, what_chart_installs, what_it_installs,
};
use super::{
    FileObstacle, FirstPass, Origin, PlanDocument, PlanFile, SlowEffect, SourceMap, builtin,
};
use crate::knowledge::{ChartConfig, Knowledge, KnownBrings, UnsetValues};
use crate::rke2;
use crate::rules::{NeedCondition, NeedTarget, OnDeadline, Platform, RuleSet, Tier};

#[derive(Debug, Clone)]
pub struct Examined {
    pub(super) path: ManifestPath,
    pub(super) shown: SourceMap,
    pub(super) addon: AddonName,
    pub(super) sha256: SmolStr,
    pub(super) digest: SmolStr,
    pub(super) owner: Option<&'static str>,
    pub(super) refused: Option<String>,
    pub(super) harmful: bool,
    pub(super) skipped: Option<MarkerPath>,
    pub(super) trouble: Option<FileObstacle>,
    pub(super) hold: Option<(String, Location)>,
    pub(super) apply_once: bool,
    pub(super) objects: Vec<ExaminedObject>,
    /// Kinds that it would define if RKE2 did not refuse it.
    pub(super) lost_kinds: Vec<GroupKind>,
    pub(super) findings: Vec<Finding>,
    /// Rules that would apply if the platform were known.
    pub(super) platform_matters: bool,
    /// It exceeds a limit: Windrow cannot tell what RKE2 does with it, and never holds it for that.
    beyond_limits: bool,
    /// A digest of each different requirement of its objects; empty after the examination.
    wanted: HashSet<u64>,
    /// The number of requirements of its objects.
    requests: usize,
    wants_too_much: bool,
}

/// Larger values in memory are not valid objects: kube-apiserver accepts requests of at most 3 MiB. They are not given
/// to the rules.
const LARGEST_OBJECT: usize = 8 << 20;
/// Most different requirements of the objects of a file.
const MOST_WANTS: usize = 5000;
/// Most requirements of the objects of a file, with repetitions.
const MOST_REQUESTS: usize = 10 * MOST_WANTS;
/// Longest name: no API server accepts a longer one.
const LONGEST_NAME: usize = 1000;
/// Most characters of a file's text that a message shows.
const LONGEST_MESSAGE: usize = 2000;

#[derive(Debug, Clone)]
pub(super) struct ExaminedObject {
    pub(super) line: u32,
    pub(super) object: ObjectRef,
    /// Whether the API server chooses its name. Then nothing can refer to it, and it is a new object each time.
    pub(super) is_name_generated: bool,
    /// The kind that this object makes the API serve, if it is a CustomResourceDefinition, and whether that kind is
    /// namespaced.
    pub(super) serves: Option<(GroupKind, bool)>,
    /// The known results of its controller.
    pub(super) brings: Option<Box<KnownBrings>>,
    /// Further results of a chart with other values.
    pub(super) unset: Box<[UnsetValues]>,
    /// The chart that it installs, or its settings of one.
    pub(super) helm: Option<HelmObject>,
    /// Its effects that take place some time after RKE2 applied it.
    pub(super) slow_effects: Vec<SlowEffect>,
    pub(super) installing: Installing,
    pub(super) wants: Vec<UnresolvedRequirement>,
}

/// HelmChartConfigs and their places, by namespace and name.
pub(super) type ChartConfigs<'a> = HashMap<(&'a str, &'a str), (&'a ChartConfig, &'a SourceMap)>;

impl ExaminedObject {
    /// Namespace and name, by which HelmChart and HelmChartConfig belong together.
    pub(super) fn release(&self) -> (&str, &str) {
        (
            self.object.namespace_or_default(),
            self.object.name.as_str(),
        )
    }
}

/// A requirement whose provider has not been determined yet.
#[derive(Debug, Clone)]
pub(super) struct UnresolvedRequirement {
    pub(super) target: NeedTarget,
    pub(super) condition: NeedCondition,
    pub(super) tier: Tier,
    pub(super) origin: Origin,
    pub(super) reason: SmolStr,
    pub(super) deadline: Option<Duration>,
    pub(super) on_deadline: OnDeadline,
    pub(super) inferred: bool,
    /// Counts only when a manifest declares the target.
    pub(super) if_declared: bool,
}

/// Examines one file. `shown` maps its lines to those of the file that the user has.
pub fn examine(
    file: &ManifestFile,
    shown: SourceMap,
    rules: &RuleSet,
    platform: Option<Platform>,
) -> Examined {
    let mut examined = Examined::new(&file.path, shown);
    for object in file.objects() {
        examined.add_object(object, rules, platform);
    }
    examined.finish(file)
}

/// Reads and examines a file, one document after the other, so that only one is in memory.
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
        examined.add_object(object, rules, platform);
    });
    examined.finish(&file)
}

impl Examined {
    fn new(path: &ManifestPath, shown: SourceMap) -> Self {
        Self {
            path: path.clone(),
            addon: path.addon(),
            sha256: SmolStr::default(),
            digest: SmolStr::default(),
            owner: rke2::owner(path),
            refused: None,
            harmful: false,
            skipped: None,
            trouble: None,
            hold: None,
            apply_once: false,
            objects: Vec::new(),
            lost_kinds: Vec::new(),
            findings: Vec::new(),
            platform_matters: false,
            beyond_limits: false,
            wanted: HashSet::new(),
            requests: 0,
            wants_too_much: false,
            shown,
        }
    }

    /// Adds the facts about the file as a whole, after its objects.
    fn finish(mut self, file: &ManifestFile) -> Self {
        self.sha256 = file.sha256.as_str().into();
        self.digest = file.digest.as_str().into();
        let of_objects = std::mem::take(&mut self.findings);
        let trouble_of_objects = self.trouble.take();
        self.take_problems(file, &self.path.name());
        // A refused file declares nothing: RKE2 applies none of it.
        if self.refused.is_some() {
            let defined = self.objects.drain(..).filter_map(|one| one.serves);
            self.lost_kinds = defined.map(|(kind, _)| kind).collect();
            self.hold = None;
            self.apply_once = false;
            self.platform_matters = false;
        } else {
            self.findings.extend(of_objects);
            self.trouble = self.trouble.or(trouble_of_objects);
        }
        // The documents that were read may still provide something, but a guess about the whole file is not a reason to
        // hold it.
        if self.beyond_limits {
            for object in &mut self.objects {
                object.wants = Vec::new();
            }
        }
        self.cut();
        self.wanted = HashSet::new();
        // The daemon keeps it as long as the file exists, and most files have one object.
        self.objects.shrink_to_fit();
        self
    }

    /// Keeps only the findings that are reported. The one about an exceeded limit is always among them.
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

    /// The file in a plan, with the requirements of its documents.
    pub(super) fn to_plan_file(&self, documents: Vec<PlanDocument>) -> PlanFile {
        let objects = self.objects.iter();
        let objects = objects.map(|one| (&one.object, one.slow_effects.as_slice()));
        PlanFile {
            path: self.path.clone(),
            name: self.path.name(),
            shown: self.shown.clone(),
            addon: self.addon.clone(),
            sha256: self.sha256.clone(),
            digest: self.digest.clone(),
            owner: self.owner,
            refused: self.refused.clone(),
            harmful: self.harmful,
            skipped: self.skipped.clone(),
            trouble: self.trouble,
            hold: self.hold.clone(),
            apply_once: self.apply_once,
            documents,
            written: count_written(self.objects.iter().map(|one| &one.object)),
            slow_effects: file_effects(objects),
            first_pass: FirstPass::default(),
        }
    }

    pub fn path(&self) -> &ManifestPath {
        &self.path
    }

    /// Whether it is the same file, byte for byte. A file without bytes is compared by its problems.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (&self.sha256, &self.digest) == (&other.sha256, &other.digest)
    }

    /// Whether its content could not be read.
    pub fn is_unreadable(&self) -> bool {
        self.trouble == Some(FileObstacle::Unreadable)
    }

    /// Hex SHA-256 of the examined bytes.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The file with a marker that hides it from RKE2 and that Windrow did not make, if there is one: it then has no
    /// requirements and provides nothing.
    #[must_use]
    pub fn skipped_by(mut self, marker: Option<&MarkerPath>) -> Self {
        let Some(marker) = marker else {
            return self;
        };
        // A dangling link stops RKE2 before it looks for markers.
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

    /// The file with the results of its charts under these HelmChartConfigs, each with its place, by namespace and name
    /// of the HelmChart. `None` if they change nothing.
    pub(super) fn configured_by(
        &self,
        configs: &ChartConfigs<'_>,
        knowledge: &Knowledge,
    ) -> Option<Self> {
        let mut configured: Option<Self> = None;
        for (at, object) in self.objects.iter().enumerate() {
            let Some(HelmObject::Chart(chart)) = &object.helm else {
                continue;
            };
            let Some((config, shown)) = configs.get(&object.release()) else {
                continue;
            };
            let chart = chart.configured_by(config, shown);
            let (installing, KnownInstaller { brings, unset }) =
                what_chart_installs(&chart, &object.object, knowledge, &self.shown);
            let changed = &mut configured.get_or_insert_with(|| self.clone()).objects[at];
            changed.brings = (brings != KnownBrings::default()).then(|| Box::new(brings));
            changed.unset = unset;
            changed.installing = installing;
        }
        configured
    }

    fn find(&mut self, code: Code, line: Option<u32>, message: String) {
        self.trouble = self.trouble.or(FileObstacle::from_code(code));
        self.beyond_limits |= matches!(
            code,
            Code::LimitExceeded | Code::FileTooLarge | Code::FileUnreadable
        );
        if self.findings.len() > 2 * MOST_PROBLEMS && code != Code::LimitExceeded {
            return;
        }
        self.findings.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: cut(message, LONGEST_MESSAGE),
            at: vec![self.shown.at(line)],
        });
    }

    fn take_problems(&mut self, file: &ManifestFile, name: &BaseName) {
        // No marker hides these, so they must not be reported as held.
        let has = |code| file.problems.iter().any(|problem| problem.code == code);
        let no_marker_hides = has(Code::FileNameNotText) || has(Code::DanglingSymlink);
        let has_addon = !no_marker_hides && self.path.applied_by().is_none();
        if let Some(error) = name.addon_error().filter(|_| has_addon) {
            let message = Code::AddonNameInvalid.say(&[("name", &error)]);
            self.refused = Some(message.clone());
            self.find(Code::AddonNameInvalid, None, message);
        }
        for problem in &file.problems {
            match problem.code {
                // Only a file that RKE2 certainly refuses may be hidden from it. RKE2 decides about files that exceed
                // our own limits or could not be read.
                Code::FileRefused => {
                    self.refused.get_or_insert_with(|| problem.message.clone());
                }
                Code::SpecialFile => self.harmful = true,
                _ => {}
            }
            self.find(problem.code, problem.line, problem.message.clone());
        }
    }

    fn add_object(&mut self, object: &Object, rules: &RuleSet, platform: Option<Platform>) {
        let mut id = object.id.clone();
        let kind = id.group_kind();
        match builtin::namespaced(&kind) {
            Some(true) => {
                id.namespace.get_or_insert_with(|| "default".into());
            }
            Some(false) => id.namespace = None,
            // A custom kind: its scope can only be determined after all files have been read.
            None => {}
        }
        self.check_names(object, &id);
        let mut wants = Vec::new();
        let too_large = manifest::memory_of_node(&object.node) > LARGEST_OBJECT;
        if too_large {
            let message = format!(
                "the values of {id} take more than {} MiB of memory, and kube-apiserver accepts no object of more than 3 MiB: Windrow checks it no further; make it smaller",
                LARGEST_OBJECT >> 20
            );
            self.find(Code::LimitExceeded, Some(object.line), message);
        } else {
            self.read_annotations(object, &id, &mut wants);
            self.add_by_rules(object, rules, platform, &mut wants);
            self.add_references(object, &id, rules, &mut wants);
            self.add_kind(object, &kind, &mut wants);
            self.add_namespace(object, &id, &mut wants);
        }
        if !self.count_wants(&wants) {
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
        let helm = HelmObject::of_object(object).filter(|_| !too_large);
        let chart = helm.as_ref().and_then(HelmObject::chart);
        let (installing, KnownInstaller { brings, unset }) = match chart {
            _ if too_large => (Installing::No, KnownInstaller::default()),
            Some(chart) => what_chart_installs(chart, &id, &rules.knowledge, &self.shown),
            None => what_it_installs(object, &id, &rules.knowledge),
        };
        let serves = serves(object);
        self.objects.push(ExaminedObject {
            line: object.line,
            is_name_generated: object.is_name_generated(),
            slow_effects: object_effects(object, &id, serves.as_ref().map(|(kind, _)| kind)),
            serves,
            brings: (brings != KnownBrings::default()).then(|| Box::new(brings)),
            unset,
            helm,
            installing,
            object: id,
            wants,
        });
    }

    /// Reports names that no API server accepts.
    fn check_names(&mut self, object: &Object, id: &ObjectRef) {
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
}

/// The kind that a CustomResourceDefinition defines.
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
