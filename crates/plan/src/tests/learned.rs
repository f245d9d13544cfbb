//! Tests of the knowledge from earlier boots, and of its effects.

use super::*;
use crate::Outlook;

const CHART: &str = "\
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: widgets, namespace: kube-system}
spec: {chart: widgets, version: 1.4.2, repo: https://charts.example.com}
";

/// The rules with a knowledge file that has these entries.
fn rules_with(entries: &str) -> RuleSet {
    let text = format!(
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {{name: site}}\nentries:\n{entries}"
    );
    let (rules, errors) = RuleSet::load(&[("site.yaml".to_owned(), text)]);
    assert_eq!(errors, []);
    rules
}

/// An entry of the chart, seen in this number of boots, or written if there is no number.
fn entry(name: &str, seen: Option<(u32, u32)>) -> String {
    let seen = seen.map_or(String::new(), |(boots, of)| {
        format!(
            "    seen: {{boots: {boots}, of: {of}, last: 2026-11-23}}\n    \
             times: {{p5: 12s, p25: 15s, half: 20s, p75: 28s, p95: 1m}}\n"
        )
    });
    format!(
        "  - name: {name}\n    by: {{chart: widgets}}\n    \
         kinds: [{{group: example.com, namespaced: [Widget]}}]\n    source: a test\n{seen}"
    )
}

fn planned(files: &[(&str, &str)], rules: &RuleSet) -> Plan {
    plan_by(rules, Some(Platform::Rke2), files)
}

const APART: [(&str, &str); 2] = [("chart.yaml", CHART), ("widget.yaml", WIDGET)];

fn needs_kind(plan: &Plan) -> &Requirement {
    let file = plan.files.iter().find(|file| file.path == "widget.yaml");
    let mut requirements = file.unwrap().requirements();
    let is_kind = |one: &&Requirement| {
        let target = &plan.needs[one.need].target;
        matches!(target, NeedTarget::Kind(_))
    };
    requirements.find(is_kind).unwrap()
}

#[test]
fn a_chart_that_brought_a_kind_on_enough_boots_brings_it_and_the_plan_says_on_how_many() {
    let plan = planned(&APART, &rules_with(&entry("a", Some((13, 14)))));
    assert_eq!(codes(&plan), []);
    assert_eq!(plan.outlook(), Outlook::Works);
    let need = needs_kind(&plan);
    assert_eq!(need.satisfied_by, SatisfiedBy::File { file: 0, line: 1 });
    let learned = need.learned.as_ref().unwrap();
    assert_eq!(learned.to_string(), "seen on 13 of 14 boots");
    assert_eq!(learned.at, Location::line("site.yaml", 5));
    let share = plan.learned_share();
    assert_eq!((share.learned, share.weak), (1, 0));
    assert_eq!(share.things[0].learned.by, "the chart widgets");
    assert_eq!(share.needs, 1);
    assert_eq!(
        share.sentence().unwrap(),
        "The files have one dependency: 1 is known only from earlier boots; the least certain was seen on 13 of 14 boots."
    );
}

#[test]
fn what_was_seen_too_seldom_is_expected_and_the_verdict_stays_unknown_with_the_count() {
    for (boots, of) in [(1, 1), (2, 2), (2, 3), (8, 9), (13, 15)] {
        let plan = planned(&APART, &rules_with(&entry("a", Some((boots, of)))));
        assert_eq!(codes(&plan), [Code::SeenOnFewBoots], "{boots} of {of}");
        let said = format!("on {boots} of {of} boots");
        assert!(plan.findings[0].message.contains(&said));
        let need = needs_kind(&plan);
        assert_eq!(need.satisfied_by, SatisfiedBy::File { file: 0, line: 1 });
        let Outlook::Unknown { unless } = plan.outlook() else {
            panic!("{boots} of {of}: {:?}", plan.outlook());
        };
        assert!(unless[0].contains(&said), "{unless:?}");
        assert_eq!(plan.learned_share().weak, 1);
    }
    for (boots, of) in [(3, 3), (9, 10), (18, 20)] {
        let plan = planned(&APART, &rules_with(&entry("a", Some((boots, of)))));
        assert_eq!(plan.outlook(), Outlook::Works, "{boots} of {of}");
    }
}

/// A written entry keeps its meaning, independent of observations.
#[test]
fn of_a_learned_and_a_written_entry_the_written_one_decides_and_both_are_told() {
    for (boots, of) in [(1, 9), (14, 14)] {
        let both = entry("learned", Some((boots, of))) + &entry("ours", None);
        let plan = planned(&APART, &rules_with(&both));
        assert_eq!(plan.outlook(), Outlook::Works);
        assert_eq!(codes(&plan), []);
        let learned = needs_kind(&plan).learned.as_ref().unwrap();
        assert_eq!(
            learned.to_string(),
            format!("seen on {boots} of {of} boots, written in site/ours")
        );
        assert_eq!(plan.learned_share().learned, 0);
        assert_eq!(plan.learned_share().sentence(), None);
    }
    let plan = planned(&APART, &rules_with(&entry("ours", None)));
    assert_eq!(needs_kind(&plan).learned, None);
    assert_eq!(plan.learned_share().things, []);
}

/// The absence of an observation proves nothing: only a written entry makes a chart's list complete.
#[test]
fn a_kind_that_a_learned_entry_does_not_list_may_still_come_of_the_chart() {
    let other = entry("a", Some((14, 14))).replace("[Widget]", "[Gadget]");
    let plan = planned(
        &APART,
        &rules_with(&other.replace("example.com", "other.example.com")),
    );
    assert_eq!(codes(&plan), [Code::MayBeBrought]);
    assert!(matches!(
        needs_kind(&plan).satisfied_by,
        SatisfiedBy::Installer { .. }
    ));
}

/// A false file claims that everything results from everything.
#[test]
fn what_was_learned_lifts_no_requirement_of_a_rule_nor_of_an_annotation() {
    let waits = WIDGET.replace(
        "metadata: {",
        "metadata: {annotations: {config.kubernetes.io/depends-on: /namespaces/x/ConfigMap/late}, ",
    );
    assert_ne!(waits, WIDGET);
    let chart = CHART.replace(
        "metadata: {",
        "metadata: {annotations: {config.kubernetes.io/depends-on: example.com/namespaces/default/Widget/w}, ",
    );
    let needs = |plan: &Plan| {
        let all = plan.files.iter().flat_map(|file| {
            let path = file.path.clone();
            file.requirements()
                .filter(|one| !one.inferred)
                .map(move |one| (path.clone(), one.clone()))
        });
        let mut all: Vec<_> = all
            .map(|(path, one)| {
                let target = plan.needs[one.need].target.to_string();
                let waits = (one.takes_part(), one.yields, one.at_once);
                (path, target, waits, one.satisfied_by)
            })
            .collect();
        all.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        all
    };
    let lies = entry("lie", Some((500, 500)))
        + "    objects: [{kind: ConfigMap, namespace: x, name: late}, \
           {group: example.com, kind: Widget, namespace: default, name: w}]\n    namespaces: [x]\n";
    let ours = entry("ours", None).replace("Widget", "Other");
    let apart = [
        ("chart.yaml", chart.as_str()),
        ("widget.yaml", waits.as_str()),
    ];
    let same = chart.clone() + "---\n" + &waits;
    for files in [&apart[..], &[("all.yaml", same.as_str())]] {
        let honest = planned(files, &rules_with(&ours));
        let poisoned = planned(files, &rules_with(&(ours.clone() + &lies)));
        assert!(!needs(&honest).is_empty());
        assert_eq!(needs(&honest), needs(&poisoned));
    }
}

const OPERATOR: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: widget-operator, namespace: default}
spec:
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: \"example.com/a:1\"}]}}
";

/// An operator that shipped knowledge does not contain has results as soon as its pods run, without a custom resource.
#[test]
fn an_operator_of_the_directory_brings_what_earlier_boots_saw_it_bring() {
    let by = "by: {operator: widget-operator}";
    let learned = |seen| entry("a", seen).replace("by: {chart: widgets}", by);
    let files = [("operator.yaml", OPERATOR), ("widget.yaml", WIDGET)];
    let plan = planned(&files, &rules_with(&learned(Some((5, 5)))));
    assert_eq!((codes(&plan), plan.outlook()), (vec![], Outlook::Works));
    let need = needs_kind(&plan);
    assert_eq!(need.satisfied_by, SatisfiedBy::File { file: 0, line: 1 });
    let known = need.learned.as_ref().unwrap();
    assert_eq!(
        (known.by.as_str(), known.seen.boots),
        ("widget-operator", 5)
    );
    // Two boots are too few, but a written entry needs no boots.
    let plan = planned(&files, &rules_with(&learned(Some((2, 2)))));
    assert_eq!(codes(&plan), [Code::SeenOnFewBoots]);
    assert_eq!(
        planned(&files, &rules_with(&learned(None))).outlook(),
        Outlook::Works
    );
    // Another operator is not this one.
    let other = OPERATOR.replace("widget-operator", "gadget-operator");
    let plan = planned(
        &[("operator.yaml", &other), files[1]],
        &rules_with(&learned(Some((5, 5)))),
    );
    assert_eq!(codes(&plan), [Code::KindWithoutProvider]);
}

#[test]
fn a_chart_runs_the_operator_that_is_called_as_its_deployment_usually_is() {
    let rules = |operator: &str| {
        let by = format!("by: {{operator: {operator}}}");
        rules_with(&entry("a", Some((5, 5))).replace("by: {chart: widgets}", &by))
    };
    let seen = |rules: &RuleSet, chart: &str| {
        let plan = planned(&[("chart.yaml", chart), APART[1]], rules);
        needs_kind(&plan).learned.is_some()
    };
    assert!(seen(&rules("widgets"), CHART));
    assert!(!seen(&rules("site-widgets"), CHART));
    // The release does not have the chart's name.
    let site = CHART.replace("name: widgets", "name: site");
    assert!(seen(&rules("site-widgets"), &site) && !seen(&rules("site"), &site));
    // The written entry of its operator does not include the chart's other results.
    let written = entry("a", None).replace("{chart: widgets}", "{operator: widgets}");
    let written = written.replace("group: example.com", "group: other.example.com");
    let plan = planned(&[("chart.yaml", CHART), APART[1]], &rules_with(&written));
    let by_installer = matches!(
        needs_kind(&plan).satisfied_by,
        SatisfiedBy::Installer { .. }
    );
    assert!(by_installer, "{:?}", needs_kind(&plan));
}

#[test]
fn a_node_takes_the_times_of_its_own_class_of_hardware() {
    let on = "    timesOn:\n      - {hardware: 4cpu-8g-hdd, times: {p5: 1m, p25: 2m, half: 3m, p75: 4m, p95: 5m}}\n";
    let rules = rules_with(&(entry("a", Some((13, 14))) + on));
    let p95 = |hardware: Option<&str>| {
        let platform = Some(Platform::Rke2);
        let node = NodeFacts::from(platform).with_machine(None, hardware.map(str::to_owned));
        let plan = plan_for(&rules, platform, node, &APART);
        needs_kind(&plan)
            .learned
            .as_ref()
            .unwrap()
            .times
            .unwrap()
            .p95
            .as_secs()
    };
    assert_eq!(
        [
            p95(Some("4cpu-8g-hdd")),
            p95(Some("16cpu-64g-nvme")),
            p95(None)
        ],
        [300, 60, 60]
    );
}
