//! Finds the objects of a directory that kube-apiserver would refuse, and the fields that it would drop, before there
//! is a cluster.
//!
//! Only `windrow plan` and `windrow check` use this. On a node kube-apiserver answers itself, so the daemon neither
//! reads the definitions nor holds or releases anything for them.

use std::collections::BTreeMap;

use crate::release::{MinorRelease, minor};
use crate::{harvester_kinds, harvester_network, harvester_setting, virtual_machine};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{GroupKind, ManifestFile, Object, ObjectRef};
use windrow_model::reasons::Code;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::kubernetes::{Minors, is_built_in_group};
use windrow_plan::rke2::ServiceRanges;
use windrow_plan::rules::Platform;
use windrow_plan::version::Version;
use windrow_plan::{Plan, SourceMap};

use crate::cross_check::CrossCheck;
use crate::value_rules::ValueRules;
use crate::{CustomKind, Problem, ProblemKind, check};

/// Most findings of one file.
const MOST_FINDINGS: usize = 100;

/// Collects the problems of objects in files that RKE2 applies, one file after the other.
#[derive(Debug)]
pub struct ApiCheck {
    minors: Minors,
    kinds: Vec<CustomKind>,
    /// The release of Harvester whose kinds count if no file defines them.
    release: Option<String>,
    /// Objects of custom kinds, kept until all definitions have been read.
    custom: Vec<(Object, SourceMap)>,
    findings: Vec<Finding>,
    /// For every object: kube-apiserver's answer to each of its declarations.
    answers: BTreeMap<ObjectRef, Vec<Option<String>>>,
    across: CrossCheck,
    platform: Option<Platform>,
    ranges: ServiceRanges,
}

/// The findings that kube-apiserver's checks give for a directory.
#[derive(Debug, Default)]
pub struct ApiVerdict {
    pub findings: Vec<Finding>,
    /// Objects that were not judged, or only in part.
    pub unjudged: Vec<NotChecked>,
    /// The objects that it refuses in every declaration, under the names in their manifests, with its messages.
    pub refused: BTreeMap<ObjectRef, String>,
    /// Objects that it accepts but whose pods it refuses, with their namespaces, and why.
    pub without_pods: BTreeMap<ObjectRef, String>,
}

impl ApiCheck {
    /// Checks against this version of Kubernetes and this platform. If one of them is unknown, only the problems that
    /// all its known values share are reported.
    pub fn new(version: Option<Version>, platform: Option<Platform>) -> Self {
        Self {
            minors: version.map_or(Minors::ALL, |version| {
                Minors::of_version(version.minor.minor)
            }),
            kinds: Vec::new(),
            release: None,
            custom: Vec::new(),
            findings: Vec::new(),
            answers: BTreeMap::new(),
            across: CrossCheck::default(),
            platform,
            ranges: ServiceRanges::default(),
        }
    }

    /// Also checks against the addresses and ports that RKE2 keeps for Services.
    #[must_use]
    pub fn within(mut self, ranges: ServiceRanges) -> Self {
        self.ranges = ranges;
        self
    }

    /// Also checks objects of the kinds that this release of Harvester defines.
    #[must_use]
    pub fn of_release(mut self, release: Option<String>) -> Self {
        self.across.of_release(release.as_deref().and_then(minor));
        self.release = release;
        self
    }

    /// Also checks against the charts that RKE2 installs on this node.
    #[must_use]
    pub fn on(mut self, facts: NodeFacts) -> Self {
        self.across.of_node(facts);
        self
    }

    /// RKE2's configuration disables these packaged charts.
    #[must_use]
    pub fn without(mut self, charts: impl IntoIterator<Item = String>) -> Self {
        self.across.disable(charts);
        self
    }

    /// Adds a file. One that RKE2 refuses as a whole is not checked further.
    pub fn add(&mut self, file: &ManifestFile, shown: &SourceMap) {
        let refused = file
            .problems
            .iter()
            .any(|problem| problem.refuses() && problem.code != Code::ObjectRefused);
        if refused {
            return;
        }
        let before = self.findings.len();
        self.across.begin_file();
        for object in file.objects() {
            self.kinds.extend(CustomKind::read(object));
            self.across.add(object, shown);
            if is_built_in_group(&object.id.group) {
                let mut problems = check(object, self.minors);
                let release = self.release.as_deref();
                let of_kind = harvester_kinds::judge(object, self.platform, release);
                add_new(&mut problems, of_kind);
                self.take(object, problems, shown, before);
            } else {
                self.custom.push((object.clone(), shown.clone()));
            }
        }
    }

    /// Adds the known results of the objects of a plan.
    pub fn add_brought(&mut self, plan: &Plan) {
        let documents = plan.files.iter().flat_map(|file| &file.documents);
        for known in documents.filter_map(|document| document.brings.as_ref()) {
            known
                .all()
                .for_each(|brings| self.across.add_brought(brings));
        }
    }

    /// Checks the objects of custom kinds too, and returns all findings.
    pub fn finish(mut self) -> ApiVerdict {
        let custom = std::mem::take(&mut self.custom);
        let mut rules = ValueRules::default();
        let mut of_release: BTreeMap<GroupKind, Vec<CustomKind>> = BTreeMap::new();
        let mut unjudged: BTreeMap<(GroupKind, &str), Vec<Location>> = BTreeMap::new();
        let mut unjudged_values = Vec::new();
        for (object, shown) in custom {
            let kind = object.id.group_kind();
            let of_release =
                of_release
                    .entry(kind.clone())
                    .or_insert_with(|| match self.release.as_deref() {
                        Some(release) => Vec::from_iter(CustomKind::of_release(&kind, release)),
                        None => CustomKind::of_all_releases(&kind),
                    });
            let is_declared = self.kinds.iter().any(|one| *one.kind() == kind);
            let definitions = if is_declared {
                [self.definition_of(&kind), None]
            } else {
                let known = of_release.first().filter(|_| self.release.is_some());
                [known, CustomKind::known(&kind)]
            };
            let is_defined = definitions.iter().any(Option::is_some);
            let is_of_some = !of_release.is_empty() && self.release.is_none() && !is_declared;
            let why = match (is_of_some, is_defined) {
                (true, _) => Some("without --harvester, only faults in every release are found"),
                (false, true) => None,
                (false, false) => Some("neither Windrow nor the files define this kind"),
            };
            if let Some(why) = why {
                let places = unjudged.entry((kind.clone(), why)).or_default();
                places.push(shown.at(Some(object.line)));
            }
            rules.begin_object();
            let mut judge = |rule: &str, value: &_| rules.judge(rule, value);
            let mut problems: Vec<Problem> = Vec::new();
            for definition in definitions.into_iter().flatten() {
                let found = definition.check(&object, self.minors, &mut judge);
                let is_new = |one: &Problem| !problems.iter().any(|it| it.field == one.field);
                let new: Vec<Problem> = found.into_iter().filter(is_new).collect();
                problems.extend(new);
            }
            if self.release.is_none() && !is_declared {
                let found = of_release
                    .iter()
                    .map(|kind| kind.check(&object, self.minors, &mut judge));
                let shared = in_all(found.collect());
                let is_new = |one: &Problem| !problems.iter().any(|it| it.field == one.field);
                let shared: Vec<Problem> = shared.into_iter().filter(is_new).collect();
                problems.extend(shared);
            }
            if virtual_machine::is_one(&object) {
                let why = "KubeVirt's and Harvester's webhooks check more of it than Windrow";
                let places = unjudged.entry((kind.clone(), why)).or_default();
                places.push(shown.at(Some(object.line)));
            }
            problems.retain(|problem| !virtual_machine::is_corrected(&object, problem));
            if let Some(why) = harvester_kinds::why_unjudged(&object, self.platform)
                && is_defined
            {
                let places = unjudged.entry((kind.clone(), why)).or_default();
                places.push(shown.at(Some(object.line)));
            }
            let release = self.minor_release();
            let of_machine = virtual_machine::judge(&object, self.platform, release);
            add_new(&mut problems, of_machine);
            let of_kind = harvester_kinds::judge(&object, self.platform, self.release.as_deref());
            add_new(&mut problems, of_kind);
            if self.platform == Some(Platform::Harvester) {
                problems.extend(harvester_network::judge(&object, release));
                problems.extend(harvester_setting::judge(&object, release));
                unjudged_values.extend(harvester_setting::unjudged(&object, release, &shown));
            }
            let before = self.findings.len();
            self.take(&object, problems, &shown, before);
        }
        let answers = &self.answers;
        let is_taken = |id: &ObjectRef| {
            let said = answers.get(id);
            said.is_none_or(|all| all.iter().all(Option::is_none))
        };
        let refusals = self.across.refusals(&self.ranges, &is_taken);
        self.findings.extend(refusals.findings);
        if self.platform == Some(Platform::Harvester) {
            let (findings, looked_up) = self.across.of_harvester(self.minor_release(), &is_taken);
            self.findings.extend(findings);
            unjudged_values.extend(looked_up);
        }
        let (findings, unknown_names) = self.across.finish(self.platform);
        self.findings.extend(findings);
        let refused = self.answers.into_iter().filter_map(|(id, answers)| {
            let first = answers.first().cloned().flatten();
            let all = answers.iter().all(Option::is_some);
            first.filter(|_| all).map(|words| (id, words))
        });
        let unjudged = unjudged.into_iter().map(|((kind, why), at)| NotChecked {
            what: format!("objects of the kind {kind}"),
            why: why.to_owned(),
            can_stop: CanStop::Itself,
            at,
        });
        ApiVerdict {
            unjudged: unjudged
                .chain(unjudged_values)
                .chain(unknown_names)
                .collect(),
            findings: self.findings,
            refused: refused.chain(refusals.refused).collect(),
            without_pods: refusals.without_pods,
        }
    }

    /// Harvester's.
    fn minor_release(&self) -> Option<MinorRelease> {
        self.release.as_deref().and_then(minor)
    }

    /// The definition of a kind, if the files have exactly one.
    fn definition_of(&self, kind: &GroupKind) -> Option<&CustomKind> {
        let mut all = self.kinds.iter().filter(|one| one.kind() == kind);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    fn take(&mut self, object: &Object, problems: Vec<Problem>, shown: &SourceMap, before: usize) {
        let words = problems
            .iter()
            .find(|problem| problem.refuses())
            .and_then(|problem| problem.refusal.clone());
        // An object without a name is a new one each time.
        if !object.is_name_generated() {
            let answers = self.answers.entry(object.id.clone()).or_default();
            answers.push(words);
        }
        for problem in problems {
            if self.findings.len() - before >= MOST_FINDINGS {
                return;
            }
            self.findings.push(finding(object, &problem, shown));
        }
    }
}

/// Adds problems of lines that have none yet.
fn add_new(problems: &mut Vec<Problem>, mut others: Vec<Problem>) {
    others.retain(|one| !problems.iter().any(|it| it.line == one.line));
    problems.extend(others);
}

/// The missing fields and wrong types that every release refuses. Another release may have more fields and values.
fn in_all(found: Vec<Vec<Problem>>) -> Vec<Problem> {
    let is_lasting = |problem: &Problem| {
        problem.kind == ProblemKind::WrongType || problem.message.starts_with("is missing")
    };
    let mut found = found.into_iter();
    let mut shared = found.next().unwrap_or_default();
    shared.retain(is_lasting);
    for other in found {
        shared.retain(|one| {
            other
                .iter()
                .any(|it| it.field == one.field && is_lasting(it))
        });
    }
    shared
}

fn finding(object: &Object, problem: &Problem, shown: &SourceMap) -> Finding {
    let code = match problem.kind {
        ProblemKind::UnknownKind => Code::ApiUnknownKind,
        ProblemKind::RemovedVersion => Code::ApiRemovedVersion,
        ProblemKind::OffByDefault => Code::ApiOffByDefault,
        ProblemKind::WrongType => Code::ApiWrongType,
        ProblemKind::UnknownField => Code::ApiUnknownField,
        ProblemKind::RefusedAgain => Code::ApiRefusedAgain,
        ProblemKind::Invalid => Code::ApiInvalid,
    };
    let field = match &*problem.field {
        "" => "it",
        field => field,
    };
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[
            ("object", &object.id.to_string()),
            ("field", field),
            ("why", &problem.message),
        ]),
        at: vec![shown.at(Some(problem.line))],
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::{self, FileContent, ReadLimits};

    use super::*;
    use crate::tests::MACHINE;

    fn verdict(files: &[&str], version: Option<&str>) -> ApiVerdict {
        let mut check = ApiCheck::new(version.map(|version| version.parse().unwrap()), None);
        for (number, text) in files.iter().enumerate() {
            let path = format!("{number}.yaml");
            let content = FileContent::Bytes(text.as_bytes().to_vec());
            let file = manifest::read(&path, &content, &ReadLimits::default());
            check.add(&file, &SourceMap::itself(path));
        }
        check.finish()
    }

    #[test]
    fn a_finding_names_the_line_and_the_refusal_the_object() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  port: 8080\n";
        let verdict = verdict(&[text], None);
        let [finding] = &verdict.findings[..] else {
            panic!("{verdict:?}");
        };
        assert_eq!(finding.code, Code::ApiWrongType);
        assert_eq!(finding.at[0].to_string(), "0.yaml:5");
        assert!(finding.message.contains("ConfigMap a"), "{finding:?}");
        let words = verdict.refused.values().next().unwrap();
        assert!(words.contains("cannot unmarshal number"), "{words}");
    }

    #[test]
    fn a_machine_that_kubevirt_starts_has_no_finding_and_one_that_it_refuses_has_one() {
        let with = |from: &str, to: &str| {
            let text = MACHINE.replace(from, to);
            assert!(from.is_empty() || text != MACHINE, "{from}");
            let found = verdict(&[&text], None).findings;
            found.into_iter().map(|one| one.message).collect::<Vec<_>>()
        };
        assert_eq!(with("", ""), [""; 0]);
        // KubeVirt adds the disk of a volume.
        assert_eq!(
            with("disks: [{name: root, disk: {bus: virtio}}]", "disks: []"),
            [""; 0]
        );
        let long = format!("cloudInitNoCloud: {{userData: {}}}", "x".repeat(2049));
        for (from, to, part) in [
            ("  runStrategy: Always\n", "", "`runStrategy` is required"),
            (
                "runStrategy",
                "running: true\n  runStrategy",
                "exclude each other",
            ),
            (
                "runStrategy: Always",
                "runStrategy: Allways",
                "spec.runStrategy",
            ),
            (
                "disks: [{name: root",
                "disks: [{name: more}, {name: root",
                "each disk needs a volume",
            ),
            ("bus: virtio", "bus: ide", "disk.bus"),
            ("containerDisk: {image: a}", &long, "userData"),
            (
                "containerDisk: {image: a}",
                "containerDisk: {}",
                "containerDisk.image",
            ),
        ] {
            let found = with(from, to);
            assert!(
                found.iter().any(|one| one.contains(part)),
                "{to}: {found:?}"
            );
        }
    }

    #[test]
    fn an_object_that_is_also_declared_whole_is_not_refused() {
        let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {port: 8080}\n";
        let whole = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let verdict = verdict(&[broken, whole], None);
        assert_eq!(verdict.findings.len(), 1);
        assert!(verdict.refused.is_empty());
    }

    #[test]
    fn two_files_may_not_differ_in_what_cannot_be_changed() {
        let job = |namespace: &str, image: &str| {
            format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a{namespace}}}\nspec:\n  \
                 template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: {image}}}]}}}}\n"
            )
        };
        let both = verdict(&[&job("", "a"), &job(", namespace: default", "b")], None);
        let [finding] = &both.findings[..] else {
            panic!("{both:?}");
        };
        assert_eq!(finding.code, Code::DuplicateRefused);
        assert!(finding.message.contains("Job default/a"), "{finding:?}");
        assert!(finding.message.contains("spec.template"), "{finding:?}");
        let at: Vec<String> = finding.at.iter().map(ToString::to_string).collect();
        assert_eq!(at, ["1.yaml:5", "0.yaml:5"]);
        // RKE2 uses the last of two in one file; others are not duplicates; a refused object is not a second one.
        let one_file = job("", "a") + "---\n" + &job("", "b");
        let other = job(", namespace: b", "b");
        let refused = job("", "b").replace("Never", "Always");
        for files in [
            vec![&*one_file],
            vec![&*job("", "a"), &*job("", "a")],
            vec![&*job("", "a"), &*other],
        ] {
            assert_eq!(verdict(&files, None).findings, []);
        }
        let codes: Vec<Code> = verdict(&[&job("", "a"), &refused], None)
            .findings
            .iter()
            .map(|one| one.code)
            .collect();
        assert_eq!(codes, [Code::ApiInvalid]);
    }

    #[test]
    fn a_custom_object_is_held_to_the_definition_of_any_file() {
        let object = "apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: a}\n";
        let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n\
                          spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: Widget, plural: widgets}\n  \
                          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
        let both = verdict(&[object, definition], None);
        assert_eq!(both.findings[0].code, Code::ApiUnknownKind);
        assert!(both.findings[0].message.contains("it serves v1"));
        assert_eq!(verdict(&[object], None).findings, []);
    }

    #[test]
    fn a_custom_object_is_held_to_the_rules_of_its_definition_that_are_understood() {
        let definition = |rule: &str| {
            format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.example.com}}\n\
                 spec:\n  group: example.com\n  scope: Cluster\n  names: {{kind: Widget, plural: widgets}}\n  versions:\n  \
                 - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          \
                 spec:\n            type: object\n            x-kubernetes-validations: [{{rule: '{rule}', message: too few}}]\n            \
                 properties: {{least: {{type: integer}}, most: {{type: integer}}, names: {{type: array, items: {{type: string}}}}}}\n"
            )
        };
        let object = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {least: 3, most: 2, names: [a, b]}\n";
        for rule in [
            "self.least <= self.most",
            "!has(self.names) || self.names.all(name, name == \"a\")",
            "self.names.exists_one(name, name.matches(\"^[a-z]$\"))",
            "size(self.names) > 2 || self.?other.hasValue()",
        ] {
            let verdict = verdict(&[&definition(rule), object], None);
            let [finding] = &verdict.findings[..] else {
                panic!("{rule}: {verdict:?}");
            };
            assert_eq!(finding.at[0].to_string(), "1.yaml:4");
            assert!(finding.message.contains("too few"), "{finding:?}");
            assert_eq!(verdict.refused.len(), 1);
        }
        for rule in [
            "self.least > self.most",
            // A function of Kubernetes, an absent field, the old value, text that is not CEL.
            "isURL(self.names[0])",
            "self.other == 1",
            "self.least == oldSelf.least",
            "self.least <=",
        ] {
            let verdict = verdict(&[&definition(rule), object], None);
            assert_eq!(verdict.findings, [], "{rule}");
        }
    }

    #[test]
    fn a_rule_on_the_whole_object_is_about_it() {
        let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n\
                          spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: Widget, plural: widgets}\n  \
                          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-validations: [{rule: 'self.metadata.name == \"b\"', message: no b}]}}}]\n";
        let object = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n";
        let found = verdict(&[definition, object], None).findings;
        let [finding] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(finding.message.contains("Widget a: it "), "{finding:?}");
    }

    #[test]
    fn the_version_decides_where_minors_differ() {
        let text =
            "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {}\n";
        assert_eq!(verdict(&[text], None).findings, []);
        assert_eq!(verdict(&[text], Some("v1.35")).findings, []);
        let old = verdict(&[text], Some("v1.33.5+rke2r1"));
        assert_eq!(old.findings[0].code, Code::ApiRemovedVersion);
    }
}
