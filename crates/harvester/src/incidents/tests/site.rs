use serde_json::json;
use windrow_plan::rules::{FindingRule, Platform, RuleSet};

use super::*;

/// The rules of a pack, which must have no errors.
fn rules(findings: &str) -> Vec<FindingRule> {
    let text = format!(
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {{name: site}}\nfindings:\n{findings}"
    );
    let (set, errors) = RuleSet::load(&[("90-site.yaml".to_owned(), text)]);
    assert!(errors.is_empty(), "{errors:?}");
    set.findings
}

fn node(name: &str, kernel: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"nodeInfo": {"kernelVersion": kernel}, "conditions": [{"type": "Ready"}, {"type": "Disk"}]}})
}

const OLD: &str = "  - name: old-kernel
    kind: {kind: Node}
    when: object.status.nodeInfo.kernelVersion.startsWith('5.')
    severity: error
    message: the kernel of ${object.metadata.name} is too old
    evidence: {status.nodeInfo.kernelVersion: \"${object.status.nodeInfo.kernelVersion}\"}
    advice: Install the image of this year.
    documentation: https://wiki.example/kernels
";

#[test]
fn a_rule_finds_what_it_describes_with_its_own_words_and_leaves_its_neighbour_alone() {
    let objects = cluster([node("n1", "5.14"), node("n2", "6.4")]);
    let looked = look_by_rules(&objects, &rules(OLD));
    let [DetectorResult { id, found }] = &looked[..] else {
        panic!("{looked:?}")
    };
    assert_eq!(id.rule(), Some("site/old-kernel"));
    let found = found.as_ref().unwrap();
    let [finding] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(finding.code.as_str(), "rule-finding");
    assert_eq!(finding.severity.as_str(), "error");
    assert_eq!(finding.subject, "Node n1");
    assert_eq!(finding.message, "Node n1: the kernel of n1 is too old");
    assert_eq!(
        finding.evidence[0].to_string(),
        "Node n1: status.nodeInfo.kernelVersion: 5.14"
    );
    assert_eq!(finding.advice, "Install the image of this year.");
    assert_eq!(finding.documentation, "https://wiki.example/kernels");
    let shown = finding.in_status().incident.unwrap();
    assert_eq!(shown.rule.as_deref(), Some("site/old-kernel"));
    assert_eq!(shown.page(), "https://wiki.example/kernels");
}

#[test]
fn a_rule_that_cannot_be_judged_says_so_with_its_place_and_keeps_no_other_from_it() {
    let broken = "  - name: broken
    kind: {kind: Node}
    when: object.metadata.name > 7
    message: x
    advice: mend it
  - name: refused
    kind: {group: example.io, kind: Thing}
    when: 'true'
    message: x
    advice: mend it
";
    let objects = cluster([node("n1", "5.14")]);
    let looked = look_by_rules(&objects, &rules(&format!("{broken}{OLD}")));
    let unlisted = looked[0].found.as_ref().unwrap_err();
    assert!(unlisted.why.contains("90-site.yaml:5"), "{unlisted}");
    assert!(unlisted.why.contains("`when` on n1"), "{unlisted}");
    let refused = looked[1].found.as_ref().unwrap_err();
    assert!(refused.is_not_in_input(), "{refused}");
    assert_eq!(looked[2].found.as_ref().unwrap().len(), 1);
    let summary = summed_up(looked, now());
    assert_eq!((summary.findings.len(), summary.unknown.len()), (1, 2));
}

#[test]
fn what_an_object_lacks_is_not_recognised_and_its_evidence_says_that_it_is_not_there() {
    let missing = "  - name: a
    kind: {kind: Node}
    when: object.spec.absent == 'x'
    message: x
    advice: mend it
  - name: b
    kind: {kind: Node}
    when: '!has(object.spec)'
    message: no ${object.spec.absent}
    evidence: {spec: \"${object.spec.absent}\"}
    advice: mend it
";
    let looked = look_by_rules(&cluster([node("n1", "6")]), &rules(missing));
    assert_eq!(looked[0].found, Ok(Vec::new()));
    let found = looked[1].found.as_ref().unwrap();
    assert_eq!(found[0].message, "Node n1: no (none)");
    assert_eq!(found[0].evidence[0].value, "(none)");
}

#[test]
fn a_rule_that_takes_too_many_steps_is_not_judged_and_many_objects_are_summed_up() {
    let loops = "  - name: loops
    kind: {kind: Node}
    when: object.spec.list.exists(a, object.spec.list.exists(b, object.spec.list.exists(c, a + b + c < 0)))
    message: x
    advice: mend it
";
    let list: Vec<u32> = (0..500).collect();
    let mut wide = node("n1", "5");
    wide["spec"] = json!({"list": list});
    let looked = look_by_rules(&cluster([wide]), &rules(loops));
    let why = looked[0].found.as_ref().unwrap_err().why.clone();
    assert!(why.contains("takes more than 2000000 steps"), "{why}");

    let many = (0..50).map(|number| node(&format!("n{number}"), "5.1"));
    let looked = look_by_rules(&cluster(many), &rules(OLD));
    let found = looked[0].found.as_ref().unwrap();
    assert_eq!(found.len(), 20);
    assert_eq!(found[19].proof, ["the same is true of 30 more"]);
}

#[test]
fn only_the_objects_that_are_meant_and_the_rules_of_the_platform_count() {
    let meant = "  - name: a
    kind: {kind: Node}
    object: n2
    when: 'true'
    message: x
    advice: mend it
";
    let all = rules(meant);
    let objects = cluster([node("n1", "6"), node("n2", "6")]);
    let looked = look_by_rules(&objects, &all);
    assert_eq!(looked[0].found.as_ref().unwrap()[0].subject, "Node n2");
    let mut harvesters = all.clone();
    harvesters[0].platform = Some(Platform::Harvester);
    assert_eq!(rules_for(&harvesters, None).len(), 0);
    assert_eq!(rules_for(&harvesters, Some(Platform::Rke2)).len(), 0);
    assert_eq!(rules_for(&harvesters, Some(Platform::Harvester)).len(), 1);
    assert_eq!(rules_for(&all, None).len(), 1);
}
