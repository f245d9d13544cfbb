//! Learned times affect inferred holds, and no others.

use proptest::prelude::*;

use super::*;

const CHART: &str = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: widgets, namespace: kube-system}\nspec: {chart: widgets}\n";
/// RKE2 could apply the first object.
const HALF: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
/// The shipped rules, and a knowledge file with this entry.
fn rules_with(entry: &str) -> RuleSet {
    let text = format!(
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {{name: learned}}\nentries:\n{entry}"
    );
    let mut sources = RuleSet::shipped_sources();
    sources.push(("learned.yaml".to_owned(), text));
    let (rules, errors) = RuleSet::load(&sources);
    assert_eq!(errors, []);
    rules
}

/// An entry in which the chart provided the kind on this number of boots, nineteen of twenty times before `p95`.
fn entry(boots: u32, of: u32, p95: &str) -> String {
    format!(
        "  - name: chart-widgets\n    by: {{chart: widgets}}\n    kinds: [{{group: example.com, namespaced: [Widget]}}]\n    \
         times: {{p5: 1s, p25: 1s, half: 1s, p75: 1s, p95: {p95}}}\n    \
         seen: {{boots: {boots}, of: {of}, last: 2026-11-23}}\n    source: a test\n"
    )
}

/// The latest time at which the file with half of its objects is released, in minutes, and the message about it.
fn deadline(rules: RuleSet) -> (i64, Option<String>) {
    let files = [("half.yaml", HALF), ("widgets.yaml", CHART)];
    let mut node = Node::with(rules, Some(Platform::Rke2), &files);
    node.api();
    let widget = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(widget, KindSeen::NotServed));
    let status = node.tick().status;
    let held = &status.staging.held[0];
    assert_eq!(held.file, "half.yaml");
    let left = held.deadline.unwrap().duration_since(node.now);
    (left.as_mins(), held.blockers[0].usual.clone())
}

#[test]
fn how_long_something_took_in_earlier_boots_is_told_and_changes_no_deadline() {
    for (boots, p95) in [(2, "30s"), (4, "14m"), (13, "14m"), (13, "2h")] {
        let (minutes, usual) = deadline(rules_with(&entry(boots, 14, p95)));
        assert_eq!(minutes, 10, "{boots} {p95}");
        let on = format!(", on {boots} of 14 boots");
        assert!(usual.unwrap().ends_with(&on), "{boots} {p95}");
    }
}

/// The subject of an entry: some are needed by the files of the test, and others are not.
fn thing() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "kinds: [{group: example.com, namespaced: [Widget]}]",
        "kinds: [{group: kubevirt.io, namespaced: [VirtualMachine]}]",
        "groups: [example.com, kubevirt.io, harvesterhci.io, apps]",
        "namespaces: [default, kube-system, harvester-system, longhorn-system]",
        "objects: [{kind: ConfigMap, namespace: default, name: late}]",
        "objects: [{group: harvesterhci.io, kind: Setting, name: storage-network}]",
    ])
}

fn bringer() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "{chart: widgets}",
        "{rke2: itself}",
        "{harvester: harvester}",
        "{kubernetes: always}",
        "{operator: liar, kind: {group: helm.cattle.io, kind: HelmChart}}",
    ])
}

/// An entry that may be absurd or wrong.
fn lie() -> impl Strategy<Value = String> {
    let times = proptest::collection::vec(0u64..40_000_000, 5);
    (bringer(), thing(), times, 0u32..1_000_000, 1u32..1_000_000).prop_map(
        |(by, thing, mut times, boots, of)| {
            times.sort_unstable();
            let [p5, p25, half, p75, p95] = times[..] else {
                unreachable!("five were made")
            };
            format!(
                "    by: {by}\n    {thing}\n    \
                 times: {{p5: {p5}s, p25: {p25}s, half: {half}s, p75: {p75}s, p95: {p95}s}}\n    \
                 seen: {{boots: {}, of: {of}, last: 2026-11-23}}\n    source: a liar\n",
                boots.min(of)
            )
        },
    )
}

/// How each file is held from minute to minute because of a rule or an annotation, and the deadlines of the others.
struct Course {
    required: Vec<(bool, bool)>,
    inferred: Vec<i64>,
}

fn course(rules: RuleSet, files: &[(&str, &str)]) -> Course {
    let mut node = Node::with(rules, Some(Platform::Harvester), files);
    node.api();
    let began = node.now;
    for (group, kind) in [
        ("kubevirt.io", "VirtualMachine"),
        ("helm.cattle.io", "HelmChart"),
    ] {
        node.observe(ClusterEvent::Kind(
            GroupKind::new(group, kind),
            KindSeen::SERVED,
        ));
    }
    let widget = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(widget, KindSeen::NotServed));
    let mut course = Course {
        required: Vec::new(),
        inferred: Vec::new(),
    };
    for _ in 0..50 {
        let status = node.tick().status;
        for file in ["vm.yaml", "waits.yaml", "both.yaml"] {
            let mark = node.markers.get(&marker_of(file));
            let keeps = mark.is_some_and(|mark| {
                let mark = mark.as_ref();
                mark.is_some_and(|mark| mark.on_failure == OnFailure::Keep)
            });
            course.required.push((mark.is_some(), keeps));
        }
        let held = status
            .staging
            .held
            .iter()
            .find(|one| one.file == "half.yaml");
        let deadline = held.and_then(|held| held.deadline);
        course
            .inferred
            .extend(deadline.map(|at| at.duration_since(began).as_mins()));
        node.later(1);
    }
    course
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_knowledge_changes_what_a_rule_or_an_annotation_holds_and_inferred_holds_stay_within_bounds(
        lies in proptest::collection::vec(lie(), 1..5)
    ) {
        let waits = waits_for("w", "/namespaces/default/ConfigMap/late (exists)");
        // The chart next to a requirement of a rule: a wrong entry could claim that one provides the other.
        let both = format!("{CHART}---\n{}", VM.replace("web", "mail"));
        let both = both.replace("name: widgets,", "name: beside,");
        let waits = format!("{}---\n{waits}", CHART.replace("name: widgets,", "name: other,"));
        let files = [
            ("both.yaml", both.as_str()),
            ("half.yaml", HALF),
            ("vm.yaml", VM),
            ("waits.yaml", &waits),
            ("widgets.yaml", CHART),
        ];
        let entries: Vec<String> = lies
            .iter()
            .enumerate()
            .map(|(number, entry)| format!("  - name: lie-{number}\n{entry}"))
            .collect();
        let honest = course(rules(), &files);
        let lied = course(rules_with(&entries.concat()), &files);
        prop_assert!(honest.required.iter().any(|(held, _)| *held));
        prop_assert_eq!(honest.required, lied.required);
        for minutes in lied.inferred {
            prop_assert!((2..=10).contains(&minutes), "{} minutes", minutes);
        }
    }
}
