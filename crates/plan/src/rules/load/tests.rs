use super::*;
use crate::rules::{NeedCondition, NeedTarget, OnDeadline, Tier};

fn load(files: &[(&str, &str)]) -> (RuleSet, Vec<String>) {
    let sources: Vec<(String, String)> = files
        .iter()
        .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
        .collect();
    let (set, errors) = RuleSet::load(&sources);
    (set, errors.iter().map(ToString::to_string).collect())
}

const HEAD: &str = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: p}\n";

/// The errors of one pack whose body begins on line 4.
fn errors_of(body: &str) -> Vec<String> {
    load(&[("p.yaml", &format!("{HEAD}{body}"))]).1
}

#[test]
fn the_shipped_packs_load_without_an_error_and_every_part_of_them_counts() {
    let sources = RuleSet::shipped_sources();
    let (set, errors) = RuleSet::load(&sources);
    assert!(errors.is_empty(), "{errors:#?}");
    let written = |start: &str| -> usize {
        sources
            .iter()
            .map(|(_, text)| text.lines().filter(|line| line.starts_with(start)).count())
            .sum()
    };
    assert_eq!(
        set.rules.len() + set.references.len(),
        written("  - name: ")
    );
    assert_eq!(set.provides.len(), written("  - by: "));
    assert_eq!(set.readiness.len(), written("  - kind: "));
}

#[test]
fn every_expression_of_the_shipped_packs_compiles() {
    for (file, text) in SHIPPED {
        // The expressions of any other text are compiled when it is loaded.
        let (_, errors) = load(&[(file, &format!("{text}\n"))]);
        assert_eq!(errors, [""; 0]);
        let (_, errors) = load(&[(file, &text.replace("'Deployed'", "'Deployed"))]);
        assert_eq!(errors.is_empty(), !text.contains("'Deployed'"), "{file}");
    }
}

#[test]
fn every_file_of_the_shipped_directory_is_shipped() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/rules.d");
    let mut files: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let shipped: Vec<String> = RuleSet::shipped_sources()
        .into_iter()
        .map(|(file, _)| file)
        .collect();
    assert_eq!(files, shipped);
}

#[test]
fn a_rule_is_read_in_full() {
    let (set, errors) = load(&[(
        "p.yaml",
        "apiVersion: windrow.dev/v1
kind: RulePack
metadata: {name: p}
platform: harvester
rules:
  - name: r
    match: {group: g, kind: K, namespace: ns, name: o, labels: {l: v}, when: object.a == 1}
    reason: because
    tier: required
    deadline: 30m
    onDeadline: keep
    requires:
      - object: {group: x, kind: Z, name: z}
        condition: exists
        reason: z is not there
      - kind: {group: x, kind: Z}
      - object: {kind: ConfigMap, namespace: m, name: c}
        expression: object.data.ready == 'yes'
",
    )]);
    assert_eq!(errors, [""; 0]);
    let rule = &set.rules[0];
    assert_eq!(rule.name, "p/r");
    assert_eq!(rule.at, Location::line("p.yaml", 6));
    assert_eq!(rule.platform, Some(Platform::Harvester));
    assert_eq!(rule.matches.labels["l"], "v");
    assert_eq!(
        rule.matches.when.as_ref().map(|when| when.source()),
        Some("object.a == 1")
    );
    let [exists, served, expression] = &rule.requires[..] else {
        panic!("{rule:#?}");
    };
    assert_eq!(exists.reason, "z is not there");
    assert_eq!(exists.condition, NeedCondition::Exists);
    assert_eq!(exists.tier, Tier::Required);
    assert_eq!(exists.deadline, Some(std::time::Duration::from_secs(1800)));
    assert_eq!(exists.on_deadline, OnDeadline::Keep);
    assert_eq!(exists.at, Location::line("p.yaml", 13));
    assert!(matches!(&served.target, NeedTarget::Kind(kind) if kind.kind == "Z"));
    assert_eq!(served.condition, NeedCondition::Served);
    assert_eq!(served.reason, "because");
    assert_eq!(expression.target.to_string(), "ConfigMap m/c");
    assert!(
        matches!(&expression.condition, NeedCondition::Expression(e) if e.source() == "object.data.ready == 'yes'")
    );
}

#[test]
fn every_error_of_a_rule_names_its_line_and_what_to_do() {
    let cases: &[(&str, &[(u32, &str)])] = &[
        ("rule: []\n", &[(4, "did you mean `rules`?")]),
        ("rules: {}\n", &[(4, "expected a list")]),
        (
            "rules: [3]\n",
            &[(4, "the rule is a number, expected a map")],
        ),
        ("platform: harvestor\n", &[(4, "did you mean `harvester`?")]),
        ("platform: 3\n", &[(4, "put it in quotes")]),
        (
            "platform: rke2\nreadiness: []\nreferences: []\n",
            &[(5, "every platform"), (6, "every platform")],
        ),
        (
            "rules:\n  - name: r\n",
            &[
                (5, "lacks `reason`"),
                (5, "lacks `match`"),
                (5, "lacks `requires`"),
            ],
        ),
        (
            "rules:\n  - name: Big_One\n    enabled: maybe\n    reason: ''\n    match: {}\n    requires: []\n",
            &[
                (5, "lower-case"),
                (6, "expected true or false"),
                (7, "is empty"),
                (8, "would fit every document"),
                (5, "lacks `requires`"),
            ],
        ),
        (
            "rules:\n  - name: r\n    reason: x\n    match:\n      kind: [K]\n      labels: {a: yes}\n      when: objct.a\n    requires:\n      - object: {kind: K, name: o}\n        condition: redy\n",
            &[
                (8, "`kind` of `match` is a list"),
                (9, "`a` in `labels` is a boolean"),
                (10, "`objct` is unknown"),
                (13, "did you mean `ready`?"),
            ],
        ),
        (
            "rules:\n  - name: r\n    reason: x\n    match: {kind: K}\n    tier: advisory\n    deadline: 5\n    onDeadline: keep\n    requires:\n      - object: {kind: K, name: o}\n",
            &[
                (9, "put it in quotes"),
                (10, "an advisory rule"),
                (12, "does not name a state"),
            ],
        ),
        (
            "rules:\n  - name: r\n    reason: x\n    match: {kind: K}\n    deadline: soon\n    requires:\n      - kind: {kind: K}\n        object: {kind: K, name: o}\n      - kind: {group: g}\n        condition: ready\n      - object: {kind: K}\n        condition: served\n      - object: {kind: K, name: o, nmespace: x}\n        condition: exists\n        expression: object.a ==\n",
            &[
                (8, "not a duration"),
                (10, "one of `object`"),
                (12, "the kind lacks `kind`"),
                (13, "only be `served`"),
                (14, "the object lacks `name`"),
                (15, "cannot be `served`"),
                (16, "did you mean `namespace`?"),
                (18, "cannot be read"),
                (17, "both `condition` and `expression`"),
            ],
        ),
        (
            "rules:\n  - name: r\n    reason: x\n    match: {kind: K}\n    deadline: 0s\n    requires: [{kind: {kind: K}}]\n",
            &[(8, "would release at once")],
        ),
        (
            "rules:\n  - name: r\n    reason: x\n    match: {kind: K}\n    requires:\n      - {object: {kind: Ingress, name: i}, condition: exists}\n      - kind: {kind: HorizontalPodAutoscaler}\n",
            &[
                (9, "the group networking.k8s.io, which is not written"),
                (10, "the group autoscaling, which is not written"),
            ],
        ),
        (
            "rules:\n  - {name: r, reason: x, match: {kind: K}, requires: [{kind: {kind: K}}]}\n  - {name: r, reason: x, match: {kind: K}, requires: [{kind: {kind: K}}]}\n  - {name: other, enabled: false}\n",
            &[
                (6, "appears twice in this file, first on line 5"),
                (7, "no rule `p/other` to disable"),
            ],
        ),
        (
            "provides:\n  - {by: me}\n  - {kinds: [{kind: K}]}\n  - {by: me, groups: [3]}\n",
            &[
                (5, "brings nothing"),
                (6, "lacks `by`"),
                (7, "holds a number"),
            ],
        ),
        (
            "readiness:\n  - {ready: 'true'}\n  - {kind: {kind: K}, failed: 'false'}\n  - kind: {kind: K}\n    ready: yes\n  - kind: {kind: K}\n    ready: hass(object.a)\n",
            &[
                (5, "lacks `kind"),
                (6, "lacks `ready`"),
                (8, "put it in quotes"),
                (10, "no function `hass`"),
            ],
        ),
        (
            "references:\n  - {name: r, from: [], to: {kind: K}}\n  - name: s\n    from: [{kind: K}]\n    paths: [a., b]\n    under: ['c[0]']\n    namespace: diagonal\n    condition: served\n    only: Role\n    to: {kind: K}\n  - {name: t, from: [{kind: K}], paths: [a]}\n  - {name: u, from: [{kind: K}], paths: [a], to: {kind: K}, namespace: {besides: x}}\n",
            &[
                (5, "lacks `from`"),
                (5, "lacks `paths`"),
                (11, "expected exists or ready"),
                (9, "expected a key"),
                (8, "ends with a dot"),
                (12, "keys next to the name"),
                (10, "expected same or cluster or slash"),
                (14, "lacks `to"),
                (15, "did you mean `beside`?"),
                (15, "lacks `beside`"),
            ],
        ),
    ];
    for (body, expected) in cases {
        let errors = errors_of(body);
        assert_eq!(errors.len(), expected.len(), "{body}\n{errors:#?}");
        let mut expected = expected.to_vec();
        expected.sort_by_key(|(line, _)| *line);
        for (error, (line, part)) in errors.iter().zip(expected) {
            let place = format!("p.yaml:{line}: ");
            assert!(
                error.starts_with(&place) && error.contains(part),
                "{body}\nexpected {place}...{part}...\n{errors:#?}"
            );
        }
    }
}

#[test]
fn a_file_that_is_no_pack_is_refused() {
    for (text, expected) in [
        ("a: [", "p.yaml:"),
        ("- a\n", "p.yaml:1: the rule pack is a list"),
        (
            "kind: RulePack\n",
            "p.yaml:1: the rule pack lacks `apiVersion`",
        ),
        (
            "apiVersion: v1\nkind: RulePack\nmetadata: {name: p}\n",
            "p.yaml:1: `apiVersion` is `v1`, expected `windrow.dev/v1`",
        ),
        (
            "apiVersion: windrow.dev/v1\nkind: Rules\nmetadata: {name: p}\n",
            "p.yaml:2: `kind` is `Rules`",
        ),
        (
            "apiVersion: windrow.dev/v1\nkind: RulePack\n",
            "p.yaml:1: the rule pack lacks `metadata",
        ),
        (
            "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {}\n",
            "p.yaml:3: `metadata` lacks `name`",
        ),
    ] {
        let (_, errors) = load(&[("p.yaml", text)]);
        assert!(
            errors
                .first()
                .is_some_and(|error| error.starts_with(expected)),
            "{text}: {errors:#?}"
        );
    }
}

#[test]
fn an_empty_file_brings_nothing_and_is_no_error() {
    assert_eq!(load(&[("p.yaml", "# nothing\n")]).1, [""; 0]);
    assert_eq!(load(&[("p.yaml", "")]).1, [""; 0]);
}

#[test]
fn a_bad_rule_is_left_out_and_its_neighbours_are_in_force() {
    let (set, errors) = load(&[
        (
            "a.yaml",
            &format!(
                "{HEAD}rules:\n  - {{name: bad, match: {{kind: K}}}}\n  - {{name: good, reason: x, match: {{kind: K}}, requires: [{{kind: {{kind: K}}}}]}}\n"
            ),
        ),
        ("b.yaml", "kind: 3\n"),
    ]);
    assert_eq!(set.rules.len(), 1);
    assert_eq!(set.rules[0].name, "p/good");
    assert!(errors.iter().any(|error| error.starts_with("a.yaml:5:")));
    assert!(errors.iter().any(|error| error.starts_with("b.yaml:1:")));
}

#[test]
fn a_later_rule_of_the_same_name_takes_the_place_of_an_earlier_one() {
    let rule = |reason: &str| {
        format!(
            "{HEAD}rules:\n  - {{name: r, reason: {reason}, match: {{kind: K}}, requires: [{{kind: {{kind: K}}}}]}}\n"
        )
    };
    let (set, errors) = load(&[("a.yaml", &rule("first")), ("b.yaml", &rule("second"))]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(set.rules.len(), 1);
    assert_eq!(set.rules[0].reason, "second");
    assert_eq!(set.rules[0].at.file, "b.yaml");
}

#[test]
fn a_rule_and_a_reference_can_be_disabled_by_a_later_file() {
    let mut sources = RuleSet::shipped_sources();
    let (before, _) = RuleSet::load(&sources);
    sources.push((
        "90-local.yaml".to_owned(),
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: harvester-vm}\nrules: [{name: vm-waits-for-harvester, enabled: false}]\n".to_owned(),
    ));
    sources.push((
        "91-local.yaml".to_owned(),
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: references}\nreferences: [{name: vm-claim, enabled: false}]\n".to_owned(),
    ));
    let (after, errors) = RuleSet::load(&sources);
    assert_eq!(errors, []);
    assert_eq!(after.rules.len() + 1, before.rules.len());
    assert_eq!(after.references.len() + 1, before.references.len());
    assert!(
        after
            .rules
            .iter()
            .all(|rule| rule.name != "harvester-vm/vm-waits-for-harvester")
    );
}

#[test]
fn a_later_readiness_rule_replaces_the_one_for_the_same_kind() {
    let pack = |expression: &str| {
        format!("{HEAD}readiness:\n  - {{kind: {{group: g, kind: K}}, ready: {expression}}}\n")
    };
    let (set, errors) = load(&[("a.yaml", &pack("object.a")), ("b.yaml", &pack("object.b"))]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(set.readiness.len(), 1);
    assert_eq!(set.readiness[0].at.file, "b.yaml");
}

#[test]
fn every_example_of_the_documentation_loads() {
    let document = include_str!("../../../../../docs/rules.md");
    let examples: Vec<&str> = document
        .split("```yaml\n")
        .skip(1)
        .filter_map(|part| part.split("```").next())
        .collect();
    assert!(examples.len() >= 7, "{}", examples.len());
    for example in examples {
        let text = if example.contains("apiVersion") {
            example.to_owned()
        } else {
            format!("{HEAD}{example}")
        };
        let mut sources = RuleSet::shipped_sources();
        sources.push(("example.yaml".to_owned(), text));
        let (_, errors) = RuleSet::load(&sources);
        assert!(errors.is_empty(), "{example}\n{errors:#?}");
    }
}

#[test]
fn everything_that_is_wrong_with_a_finding_is_named_with_its_line_and_its_neighbours_stay() {
    let (set, errors) = load(&[(
        "a.yaml",
        &format!(
            "{HEAD}findings:
  - name: good
    kind: {{kind: Node}}
    when: object.x
    message: m
    advice: a
  - name: bad
    kind: {{kind: Secret}}
    when: node.x
    severity: fatal
    message: a ${{object.x
    evidence: {{x: \"${{object.}}\", z: 7}}
    documentation: our wiki
  - name: nothing
  - name: text
    kind: {{group: g, kind: K}}
    when: 7
    messages: m
    advice: a
"
        ),
    )]);
    let names: Vec<&str> = set.findings.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].ends_with("/good"));
    for expected in [
        "Secrets are not checked",
        "`when`: `node` is unknown",
        "`severity` is `fatal`, expected info or notice or warning or error",
        "`message`: `${` has to be closed",
        "`evidence` of `x`",
        "`z` in `evidence` is a number",
        "`documentation` is `our wiki`",
        "lacks `advice`",
        "the finding lacks `kind",
        "the finding lacks `when`",
        "the finding lacks `message`",
        "the finding has no key `messages`; did you mean `message`?",
    ] {
        assert!(
            errors.iter().any(|error| error.contains(expected)),
            "{expected}: {errors:#?}"
        );
    }
}

#[test]
fn a_finding_is_replaced_and_taken_away_by_its_name() {
    let pack = |rest: &str| format!("{HEAD}findings:\n  - {{name: a, {rest}}}\n");
    let one = |message: &str| {
        pack(&format!(
            "kind: {{kind: Node}}, when: object.x, message: {message}, advice: mend it"
        ))
    };
    let (set, errors) = load(&[("a.yaml", &one("first")), ("b.yaml", &one("second"))]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(set.findings.len(), 1);
    assert_eq!(set.findings[0].at.file, "b.yaml");
    let (set, errors) = load(&[
        ("a.yaml", &one("first")),
        ("b.yaml", &pack("enabled: false")),
    ]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(set.findings.len(), 0);
}

#[test]
fn the_example_of_findings_loads() {
    let example = include_str!("../../../../../examples/findings/90-site-findings.yaml");
    let (set, errors) = load(&[("90-site-findings.yaml", example)]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(set.findings.len(), 2);
}

#[test]
fn a_finding_has_at_most_sixteen_lines_of_evidence() {
    let wrong = |count: usize| {
        let lines: String = (0..count).map(|one| format!("e{one}: x, ")).collect();
        let pack = format!(
            "{HEAD}findings:\n  - {{name: a, kind: {{kind: Node}}, when: object.x, message: m, advice: a, evidence: {{{lines}}}}}\n"
        );
        load(&[("a.yaml", &pack)]).1
    };
    assert_eq!(wrong(16), [""; 0]);
    for count in [17, 18] {
        let errors = wrong(count);
        assert!(
            errors.iter().any(|error| error.contains("more than 16")),
            "{errors:?}"
        );
    }
}

#[test]
fn a_shipped_pack_that_is_sent_in_a_report_keeps_every_expression() {
    let redactor = windrow_model::redact::Learner::default().redactor();
    for (file, text) in RuleSet::shipped_sources() {
        let sent = redactor.value(&serde_json::json!({ "text": text }));
        assert!(!sent.to_string().contains("redacted"), "{file}: {sent}");
    }
}
