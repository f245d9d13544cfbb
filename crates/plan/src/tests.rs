//! Tests of the plans for small directories.

mod cycles;
mod installers;
mod learned;
mod limits;
mod names;
mod pass;
mod unusable_names;

use std::sync::{Arc, LazyLock};

use windrow_model::manifest::{FileContent, ReadLimits};
use windrow_model::reasons::Severity;

use super::*;
use crate::knowledge::NodeFacts;
use crate::rules::RuleSet;

/// Plans files given as `(path, text)` on a platform, with the shipped rules.
fn plan_on(platform: Option<Platform>, files: &[(&str, &str)]) -> Plan {
    static RULES: LazyLock<RuleSet> = LazyLock::new(RuleSet::shipped);
    plan_by(&RULES, platform, files)
}

fn plan_by(rules: &RuleSet, platform: Option<Platform>, files: &[(&str, &str)]) -> Plan {
    plan_for(rules, platform, platform.into(), files)
}

fn plan_for(
    rules: &RuleSet,
    platform: Option<Platform>,
    node: NodeFacts,
    files: &[(&str, &str)],
) -> Plan {
    let examined: Vec<Arc<Examined>> = files
        .iter()
        .map(|(path, text)| {
            let content = FileContent::Bytes(text.as_bytes().to_vec());
            let file = windrow_model::manifest::read(path, &content, &ReadLimits::default());
            Arc::new(examine(&file, SourceMap::itself(*path), rules, platform))
        })
        .collect();
    link(&examined, rules, node)
}

fn plan(files: &[(&str, &str)]) -> Plan {
    plan_on(Some(Platform::Rke2), files)
}

fn codes(plan: &Plan) -> Vec<Code> {
    plan.findings.iter().map(|finding| finding.code).collect()
}

fn order(plan: &Plan) -> Vec<&str> {
    plan.order
        .iter()
        .map(|&file| plan.files[file].path.as_str())
        .collect()
}

fn config_map(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\n"
    )
}

fn depends_on(name: &str, on: &str) -> String {
    config_map(name, &format!("windrow.dev/depends-on: '{on}'"))
}

const CRD: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
";
const WIDGET: &str = "\
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
";

#[test]
fn a_custom_object_waits_for_the_file_that_brings_its_kind() {
    let plan = plan(&[("a-widget.yaml", WIDGET), ("b-crds.yaml", CRD)]);
    assert_eq!(order(&plan), ["b-crds.yaml", "a-widget.yaml"]);
    let requirement = plan.files[0].requirements().next().unwrap();
    assert_eq!(requirement.tier, Tier::Required);
    assert_eq!(requirement.origin.rule, "inferred/kind-served");
    assert_eq!(
        requirement.satisfied_by,
        SatisfiedBy::File { file: 1, line: 1 }
    );
    // Its CRD declares it as namespaced, so it goes to `default`.
    assert_eq!(
        plan.files[0].documents[0].object.namespace.as_deref(),
        Some("default")
    );
    assert_eq!(codes(&plan), []);
}

#[test]
fn a_kind_that_nobody_brings_is_a_finding_with_every_place() {
    let plan = plan(&[
        ("a.yaml", WIDGET),
        ("b.yaml", &WIDGET.replace("name: w", "name: v")),
    ]);
    assert_eq!(codes(&plan), [Code::KindWithoutProvider]);
    assert_eq!(
        plan.findings[0].at,
        [Location::line("a.yaml", 1), Location::line("b.yaml", 1)]
    );
    // On a node it may come from elsewhere; ahead of a boot it has no known provider.
    assert_eq!(plan.findings[0].severity, Severity::Warning);
    let ahead = plan.findings_ahead();
    assert_eq!(ahead[0].severity, Severity::Error);
    assert_eq!(ahead[0].at, plan.findings[0].at);
}

#[test]
fn an_annotation_of_windrows_that_there_is_not_is_an_error_with_its_line() {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    windrow.dev/dependson: /namespaces/x/ConfigMap/b\n    windrow.dev/hold: later\n    example.com/x: z\n";
    let plan = plan(&[("a.yaml", object)]);
    assert_eq!(codes(&plan), [Code::AnnotationInvalid]);
    let finding = &plan.findings[0];
    assert_eq!(finding.at, [Location::line("a.yaml", 6)]);
    assert!(
        finding
            .message
            .contains("did you mean `windrow.dev/depends-on`?"),
        "{finding:?}"
    );
}

#[test]
fn of_a_kind_that_a_refused_file_defines_only_the_refusal_is_said() {
    let refused = format!("{CRD}---\nnot an object\n");
    let plan = plan(&[("a.yaml", &refused), ("b.yaml", WIDGET)]);
    assert_eq!(codes(&plan), [Code::FileRefused]);
    let widget = plan.files[1].requirements().next().unwrap();
    assert_eq!(widget.satisfied_by, SatisfiedBy::Nobody);
}

#[test]
fn only_a_definition_of_kubernetes_own_brings_a_kind_and_only_a_kind_of_its_own_names_objects() {
    let other = CRD.replace("apiextensions.k8s.io", "example.org");
    let brought = plan(&[("a.yaml", WIDGET), ("b.yaml", &other)]);
    let widget = brought.files[0].requirements().next().unwrap();
    assert_eq!(widget.satisfied_by, SatisfiedBy::Nobody);
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: c}}]}\n";
    let claim = pod.replace("apiVersion: v1", "apiVersion: example.org/v1");
    for (text, expected) in [(pod, 1), (&claim, 0)] {
        let named = plan(&[("a.yaml", text), ("c.yaml", &config_map("c", ""))]);
        let from =
            |one: &&Requirement| matches!(one.satisfied_by, SatisfiedBy::File { file: 1, .. });
        let named = named.files[0].requirements().filter(from).count();
        assert_eq!(named, expected, "{text}");
    }
}

#[test]
fn a_missing_namespace_is_required_and_a_built_in_one_is_not() {
    let object = |namespace: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: {namespace}}}\n")
    };
    let plan = plan(&[
        ("a.yaml", &object("tenant")),
        (
            "b.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: tenant}\n",
        ),
        ("c.yaml", &object("kube-system")),
        ("d.yaml", &object("nowhere")),
    ]);
    assert_eq!(order(&plan), ["b.yaml", "a.yaml", "c.yaml", "d.yaml"]);
    assert_eq!(plan.files[2].requirements().count(), 0);
    assert_eq!(codes(&plan), [Code::ObjectWithoutProvider]);
    assert_eq!(plan.findings[0].at, [Location::line("d.yaml", 1)]);
}

#[test]
fn a_namespace_behind_its_objects_fails_the_first_pass_and_before_them_does_not() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: t}\n";
    let before = plan(&[("a.yaml", &format!("{namespace}---\n{secret}"))]);
    assert_eq!(codes(&before), []);
    let behind = plan(&[("a.yaml", &format!("{secret}---\n{namespace}"))]);
    assert_eq!(codes(&behind), [Code::SameFile]);
}

#[test]
fn what_a_field_names_outside_the_directory_holds_nothing() {
    let pod = "\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  volumes: [{name: c, configMap: {name: made-by-an-operator}}]
";
    let plan = plan(&[("a.yaml", pod)]);
    let requirement = plan.files[0].requirements().next().unwrap();
    assert_eq!(requirement.satisfied_by, SatisfiedBy::Cluster);
    assert!(!requirement.takes_part());
    assert_eq!(codes(&plan), []);
}

#[test]
fn an_object_needs_no_namespace_where_its_kind_is_known_to_have_none() {
    let defined = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  names: {kind: Widget, plural: widgets}\n  scope: Cluster\n  versions: [{name: v1, served: true, storage: true}]\n";
    let widget = WIDGET.replace("name: w", "name: w, namespace: nowhere");
    let issuer = "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: i, namespace: nowhere}\n";
    let asks = |files: &[(&str, &str)]| {
        let plan = plan(files);
        let all = plan.files.iter().flat_map(PlanFile::requirements);
        let needs = all.map(|one| plan.needs[one.need].target.to_string());
        let needs: Vec<String> = needs.filter(|what| what == "Namespace nowhere").collect();
        needs.len()
    };
    assert_eq!(asks(&[("a.yaml", defined), ("b.yaml", &widget)]), 0);
    assert_eq!(asks(&[("b.yaml", issuer)]), 0);
    // An object of an unknown kind may.
    assert_eq!(asks(&[("b.yaml", &widget)]), 1);
}

#[test]
fn a_namespace_that_is_written_with_a_cluster_scoped_object_is_left_out() {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, namespace: apps}\n";
    let on = "rbac.authorization.k8s.io/namespaces/apps/ClusterRole/r";
    let plan = plan(&[("a.yaml", &depends_on("a", on)), ("b.yaml", role)]);
    assert_eq!(order(&plan), ["b.yaml", "a.yaml"]);
    let requirement = plan.files[0].requirements().next().unwrap();
    assert!(
        matches!(requirement.satisfied_by, SatisfiedBy::File { file: 1, .. }),
        "{requirement:?}"
    );
    // Requests to the API server must refer to a valid object.
    let NeedTarget::Object(asked) = &plan.needs[requirement.need].target else {
        panic!("{:?}", plan.needs[requirement.need]);
    };
    assert_eq!(asked.namespace, None);
}

#[test]
fn a_file_with_one_bad_document_declares_nothing() {
    let plan = plan(&[
        (
            "a.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n---\n}\n",
        ),
        (
            "b.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: t}\n",
        ),
    ]);
    assert_eq!(
        codes(&plan),
        [Code::FileRefused, Code::ObjectWithoutProvider]
    );
    assert!(plan.files[0].refused.is_some());
}

#[test]
fn a_vm_that_would_start_waits_for_harvester_only_on_harvester() {
    let vm = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: default}
spec: {runStrategy: Always, template: {}}
";
    let waits_for_setting = |plan: &Plan| {
        plan.files[0].requirements().any(|one| {
            plan.needs[one.need].target
                == NeedTarget::Object(ObjectRef::cluster(
                    "harvesterhci.io",
                    "Setting",
                    "storage-network",
                ))
        })
    };
    let harvester = plan_on(Some(Platform::Harvester), &[("vm.yaml", vm)]);
    assert!(waits_for_setting(&harvester));
    assert!(harvester.files[0].requirements().any(Requirement::harms));
    assert!(!waits_for_setting(&plan_on(
        Some(Platform::Rke2),
        &[("vm.yaml", vm)]
    )));
    let unknown = plan_on(None, &[("vm.yaml", vm)]);
    assert!(!waits_for_setting(&unknown));
    assert!(
        codes(&unknown).contains(&Code::PlatformUnknown),
        "{:?}",
        codes(&unknown)
    );
    let halted = vm.replace("Always", "Halted");
    assert!(!waits_for_setting(&plan_on(
        Some(Platform::Harvester),
        &[("vm.yaml", &halted)]
    )));
    let yes = vm.replace("runStrategy: Always", "running: yes");
    assert!(waits_for_setting(&plan_on(
        Some(Platform::Harvester),
        &[("vm.yaml", &yes)]
    )));
}

#[test]
fn lines_of_a_manifest_inside_another_file_are_those_of_that_file() {
    let shown = SourceMap {
        file: "config.yaml".to_owned(),
        first_line: 40,
        line_by_line: true,
    };
    assert_eq!(shown.at(Some(3)), Location::line("config.yaml", 42));
    let quoted = SourceMap {
        line_by_line: false,
        ..shown
    };
    assert_eq!(quoted.at(Some(3)), Location::line("config.yaml", 40));
    // A problem of a whole file has no line, unless the file is a part of another.
    let itself = SourceMap::itself("a.yaml");
    assert_eq!(itself.at(None), Location::file("a.yaml"));
    let inside = SourceMap {
        line_by_line: true,
        ..quoted.clone()
    };
    assert_eq!(inside.at(None), Location::line("config.yaml", 40));
    let first = SourceMap {
        first_line: 1,
        ..quoted
    };
    assert_eq!(first.at(None), Location::line("config.yaml", 1));
}

#[test]
fn the_plan_does_not_depend_on_the_order_in_which_files_come() {
    let files = [("a.yaml", WIDGET), ("b.yaml", CRD)];
    let reversed = [files[1], files[0]];
    assert_eq!(
        format!("{:?}", plan(&files)),
        format!("{:?}", plan(&reversed))
    );
}

const HARVESTER_OFF: &str = "apiVersion: management.cattle.io/v3
kind: Feature
metadata: {name: harvester}
spec: {value: false}
";
/// From v2.11.0 on Rancher sets the other flag itself, and before that nothing reads it: a hold would never end.
#[test]
fn switching_rancher_s_feature_harvester_off_waits_for_what_switching_it_on_waits_for() {
    let needs = |text: &str| {
        let plan = plan(&[("a.yaml", text)]);
        let needs = plan.files[0].requirements();
        needs
            .map(|one| (one.origin.rule.clone(), one.tier))
            .collect::<Vec<_>>()
    };
    let on = HARVESTER_OFF.replace("false", "true");
    assert_eq!(needs(HARVESTER_OFF), needs(&on));
}

#[test]
fn that_no_marker_keeps_a_file_from_rke2_is_said_with_its_reason() {
    for (trouble, words) in [
        (FileObstacle::Dangling, Some("leads nowhere")),
        (FileObstacle::Refused, Some("not UTF-8")),
        (FileObstacle::Unreadable, None),
        (FileObstacle::Collides, None),
        (FileObstacle::PartlyRefused, None),
        (FileObstacle::Unseen, None),
    ] {
        match (trouble.why_not_held(), words) {
            (Some(why), Some(words)) => assert!(why.contains(words), "{why}"),
            (why, words) => assert_eq!(why, words),
        }
    }
}

#[test]
fn that_readiness_is_asked_of_what_is_never_stored_is_told() {
    for (on, expected) in [
        ("policy/namespaces/default/Eviction/e (ready)", true),
        ("policy/namespaces/default/Eviction/e (exists)", false),
        ("apps/namespaces/default/Deployment/d (ready)", false),
    ] {
        let plan = plan(&[("a.yaml", &depends_on("a", on))]);
        let told = codes(&plan).contains(&Code::Unobservable);
        assert_eq!(told, expected, "{on}: {:?}", plan.findings);
        let never = matches!(plan.outlook(), Outlook::CannotWork { .. });
        assert_eq!(never, expected, "{on}");
        assert_eq!(
            plan.made_elsewhere().count(),
            usize::from(!expected),
            "{on}"
        );
    }
}

#[test]
fn what_holds_a_file_at_the_first_boot_is_said_and_rke2s_own_files_are_not_held() {
    let files = [
        ("a.yaml", WIDGET.to_owned()),
        ("b.yaml", config_map("b", "")),
        ("rke2-canal.yaml", WIDGET.replace("name: w", "name: c")),
    ];
    let plan = plan(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
    let held: Vec<Option<Vec<String>>> = plan.files.iter().map(PlanFile::held_at_boot).collect();
    let why = held[0].as_ref().unwrap();
    assert_eq!(why.len(), 1, "{why:?}");
    assert!(why[0].contains("Widget"), "{why:?}");
    assert_eq!(held[1..], [None, None]);
}

#[test]
fn that_only_a_skipped_file_brings_what_is_needed_is_told() {
    let marker = ManifestPath::from("b.yaml").marker();
    let rules = RuleSet::shipped();
    for (skipped, expected) in [(None, None), (Some(&marker), Some(Severity::Error))] {
        let examine = |path: &str, text: &str| {
            let content = FileContent::Bytes(text.into());
            let limits = ReadLimits::default();
            let shown = SourceMap::itself(path);
            examine_content(&path.into(), &content, &limits, shown, &rules, None)
        };
        let files = [
            Arc::new(examine("a.yaml", WIDGET)),
            Arc::new(examine("b.yaml", CRD).skipped_by(skipped)),
        ];
        let plan = link(&files, &rules, None);
        let mut found = plan.findings.iter();
        let found = found.find(|one| one.code == Code::ProviderSkipped);
        assert_eq!(found.map(|one| one.severity), expected, "{skipped:?}");
    }
}
