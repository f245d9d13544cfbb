//! Tests custom objects with the complete validation of their definition.

use windrow_model::manifest::{self, FileContent, Object, ReadLimits};

use super::*;

fn objects(text: &str) -> Vec<Object> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    file.objects().cloned().collect()
}

/// The messages about an object if all rules are satisfied.
fn said(kind: &CustomKind, object: &Object) -> Vec<String> {
    let problems = kind.check(object, Minors::ALL, &mut |_, _| Some(true));
    let problems = problems.iter();
    problems
        .map(|problem| format!("{}: {}: {}", problem.line, problem.field, problem.message))
        .collect()
}

const WIDGET: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [running, size]
            properties:
              running: {type: boolean}
              size: {type: integer, minimum: 1, maximum: 9, default: 3}
              strategy: {type: string, enum: [Always, Halted]}
              name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
              port: {x-kubernetes-int-or-string: true}
              some: {type: string, nullable: true}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              map: {type: object, additionalProperties: {type: string}}
              list: {type: array, minItems: 1, items: {type: object, properties: {a: {type: string}}}}
              either: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}
              when: {type: string, format: date-time}
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
";

fn custom(spec: &str) -> Vec<String> {
    custom_of("example.com/v1", spec)
}

fn custom_of(api_version: &str, spec: &str) -> Vec<String> {
    let kind = CustomKind::read(&objects(WIDGET)[0]).unwrap();
    let text =
        format!("apiVersion: {api_version}\nkind: Widget\nmetadata: {{name: a}}\nspec: {spec}\n");
    said(&kind, &objects(&text)[0])
}

#[test]
fn a_custom_object_is_held_to_its_definition() {
    for spec in [
        "{running: true}",
        "{running: true, size: 9, strategy: Always, name: abc, port: 80, some: null, any: {x: {y: 1}}, name: null}",
        "{running: true, port: http, map: {a: b}, list: [{a: b}], size: null, either: 5}",
    ] {
        assert_eq!(custom(spec), [""; 0], "{spec}");
    }
    for (spec, words) in [
        (
            "{running: \"true\"}",
            "4: spec.running: must be of type boolean, and is a string; remove the quotation marks",
        ),
        ("{}", "spec.running: is missing"),
        ("{running: null}", "spec.running: is missing"),
        (
            "{running: true, list: [null]}",
            "spec.list[0]: is not valid",
        ),
        (
            "{running: true, size: 0}",
            "should be greater than or equal to 1",
        ),
        (
            "{running: true, size: 10}",
            "should be less than or equal to 9",
        ),
        (
            "{running: true, strategy: always}",
            "did you mean `Always`?",
        ),
        ("{running: true, name: ABC}", "should match '^[a-z]+$'"),
        (
            "{running: true, name: abcdef}",
            "may have at most 5 characters",
        ),
        (
            "{running: true, port: true}",
            "must be of type integer or string",
        ),
        (
            "{running: true, map: {a: 5}}",
            "spec.map[a]: must be of type string",
        ),
        ("{running: true, list: []}", "should have at least 1 items"),
        (
            "{running: true, list: [{b: c}]}",
            "spec.list[0].b: is not a field of the definition",
        ),
        ("{running: true, runing: false}", "did you mean `running`?"),
        (
            "{running: true, either: [1]}",
            "must be of type integer or string",
        ),
        ("5", "spec: must be of type object"),
    ] {
        let said = custom(spec);
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{spec}: {said:?}"
        );
    }
}

#[test]
fn a_version_that_the_definition_does_not_serve_is_named() {
    for version in ["v2", "v1alpha1"] {
        let said = custom_of(&format!("example.com/{version}"), "{running: true}");
        assert!(
            said.len() == 1 && said[0].contains("it serves v1"),
            "{said:?}"
        );
    }
}

#[test]
fn what_rke2_and_kubevirt_bring_is_known_as_far_as_all_versions_agree() {
    let check = |api_version: &str, kind: &str, spec: &str| {
        let text = format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"
        );
        let object = &objects(&text)[0];
        let known = CustomKind::known(&object.id.group_kind()).unwrap();
        said(known, object)
    };
    let vm = |spec: &str| check("kubevirt.io/v1", "VirtualMachine", spec);
    assert_eq!(
        vm("{runStrategy: Always, template: {spec: {x: 1}}}"),
        [""; 0]
    );
    assert_eq!(
        check(
            "kubevirt.io/v1alpha3",
            "VirtualMachine",
            "{running: \"true\"}"
        ),
        [""; 0]
    );
    assert!(vm("{running: \"true\"}")[0].contains("must be of type boolean"));
    assert!(vm("{runStrategy: always}")[0].contains("did you mean `Always`?"));
    let chart = |spec: &str| check("helm.cattle.io/v1", "HelmChart", spec);
    assert_eq!(
        chart("{valuesContent: \"a: b\", set: {a: 5, b: c}, driver: x}"),
        [""; 0]
    );
    assert!(chart("{valuesContent: {a: b}}")[0].contains("must be of type string"));
}

/// The messages about the `spec` of an object whose definition has this schema for it.
fn held(schema: &str, spec: &str, judge: &mut JudgeRule<'_>) -> Vec<String> {
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.example.com}}\n\
         spec:\n  group: example.com\n  scope: Namespaced\n  names: {{kind: Widget, plural: widgets}}\n  versions:\n  \
         - name: v1\n    served: true\n    storage: true\n    subresources: {{status: {{}}}}\n    \
         schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {schema}, status: {{type: string}}}}}}}}\n"
    );
    let kind = CustomKind::read(&objects(&definition)[0]).unwrap();
    let text = format!(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: a}}\nspec: {spec}\nstatus: [dropped]\n"
    );
    let problems = kind.check(&objects(&text)[0], Minors::of_version(36), judge);
    let problems = problems.iter();
    problems
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}

#[test]
fn a_schema_says_what_a_value_may_be() {
    for (schema, right, wrong, words) in [
        (
            "{type: object, not: {required: [a]}, properties: {a: {type: string}, b: {type: string}}}",
            "{b: x}",
            "{a: x}",
            "spec: is not valid: the definition excludes it",
        ),
        (
            "{type: object, oneOf: [{required: [a]}, {required: [b]}], properties: {a: {type: string}, b: {type: string}}}",
            "{b: x}",
            "{a: x, b: z}",
            "it fits more than one of the schemas under `oneOf`",
        ),
        (
            "{type: object, anyOf: [{required: [a]}, {required: [b]}], properties: {a: {type: string}, b: {type: string}}}",
            "{a: x, b: z}",
            "{}",
            "it fits none of the schemas under `anyOf`",
        ),
        (
            "{type: integer, multipleOf: 5}",
            "10",
            "7",
            "should be a multiple of 5",
        ),
        (
            "{type: number, exclusiveMaximum: true, maximum: 1}",
            "0.5",
            "1",
            "should be less than 1",
        ),
        (
            "{type: object, maxProperties: 1, additionalProperties: {type: string}}",
            "{a: b}",
            "{a: b, c: d}",
            "may have at most 1 entries",
        ),
        (
            "{type: string, format: date-time}",
            "\"2026-01-31T12:00:00Z\"",
            "soon",
            "must be of type date-time",
        ),
        (
            "{type: string, nullable: true, enum: [a]}",
            "a",
            "null",
            "an enum never takes null",
        ),
        (
            "{type: array, x-kubernetes-list-type: set, items: {type: string}}",
            "[a, b]",
            "[a, b, a]",
            "spec[2]: has a value that appears twice",
        ),
        (
            "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string, default: x}, v: {type: string}}}}",
            "[{k: a}, {v: a}]",
            "[{k: x}, {v: a}]",
            "spec[1]: has a value that appears twice",
        ),
        (
            "{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}",
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {a: b}}",
            "{kind: Pod}",
            "spec.apiVersion: is missing",
        ),
        (
            "{type: object, required: [a], properties: {a: {type: object, default: {}, properties: {b: {type: integer, default: 5, maximum: 9}}}}}",
            "{}",
            "{a: {b: 10}}",
            "spec.a.b: is not valid",
        ),
        (
            "{type: object, required: [a], properties: {a: {type: string}}}",
            "{a: \"\"}",
            "{a: null}",
            "spec.a: is missing",
        ),
        (
            "{type: object, additionalProperties: null, properties: {a: {type: string}}}",
            "{a: b}",
            "{a: b, c: d}",
            "c: is not a field of the definition",
        ),
        (
            "{type: object, additionalProperties: true}",
            "{a: b}",
            "{a: {b: c}}",
            "b: is not a field of the definition",
        ),
    ] {
        let mut met = |_: &str, _: &serde_json::Value| Some(true);
        assert_eq!(held(schema, right, &mut met), [""; 0], "{schema} {right}");
        let said = held(schema, wrong, &mut met);
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{schema} {wrong}: {said:?}"
        );
    }
}

#[test]
fn what_cannot_be_judged_is_no_reason_to_deny_what_is_excluded() {
    for schema in [
        "{type: string, not: {pattern: '(?=a)b'}}",
        "{type: string, oneOf: [{format: isbn}, {maxLength: 100}]}",
        "{type: string, not: {format: isbn}}",
    ] {
        assert_eq!(held(schema, "abc", &mut |_, _| None), [""; 0], "{schema}");
    }
}

#[test]
fn a_rule_sees_the_value_that_it_is_about_with_its_defaults() {
    let rule = |schema: &str, spec: &str| {
        let mut seen = Vec::new();
        let said = held(schema, spec, &mut |rule, value| {
            seen.push(format!("{rule} {value}"));
            Some(false)
        });
        (seen, said)
    };
    let (seen, said) = rule(
        "{type: object, x-kubernetes-validations: [{rule: r, message: m}], properties: {a-b: {type: number, default: 1}, namespace: {type: string}}}",
        "{namespace: x, unknown: y}",
    );
    assert_eq!(seen, ["r {\"__namespace__\":\"x\",\"a__dash__b\":1.0}"]);
    assert!(
        said.iter()
            .any(|one| one == "spec: breaks a rule of the definition: m"),
        "{said:?}"
    );
    // Names that cannot be written in CEL.
    let (seen, _) = rule(
        "{type: object, x-kubernetes-validations: [{rule: r}], properties: {1a: {type: string}, 'a b': {type: string}, c: {type: string}}}",
        "{1a: x, 'a b': x, c: x}",
    );
    assert_eq!(seen, ["r {\"c\":\"x\"}"]);
    let list = "{type: array, items: {type: string, x-kubernetes-validations: [{rule: r}]}}";
    let (seen, said) = rule(list, "[a, b]");
    assert_eq!(seen, ["r \"a\"", "r \"b\""]);
    assert_eq!(
        said[1],
        "spec[1]: breaks a rule of the definition: failed rule: r"
    );
}

#[test]
fn a_rule_that_says_nothing_here_is_not_asked() {
    for (schema, spec) in [
        // The previous value, a value with another type in CEL, null, and an error apart from the rule.
        (
            "{type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}",
            "a",
        ),
        (
            "{type: object, x-kubernetes-validations: [{rule: r}], properties: {a: {type: string, format: duration}}}",
            "{a: 5s}",
        ),
        (
            "{type: object, x-kubernetes-validations: [{rule: r}], properties: {a: {type: string, nullable: true}}}",
            "{a: null}",
        ),
        (
            "{type: object, nullable: true, x-kubernetes-validations: [{rule: r}]}",
            "null",
        ),
        (
            "{type: string, maxLength: 1, x-kubernetes-validations: [{rule: r}]}",
            "aa",
        ),
        (
            "{type: array, x-kubernetes-list-type: set, x-kubernetes-validations: [{rule: 'self == [\"a\", \"b\"]'}], items: {type: string}}",
            "[b, a]",
        ),
    ] {
        let said = held(schema, spec, &mut |rule, _| panic!("{rule}"));
        assert!(said.iter().all(|one| !one.contains("rule")), "{said:?}");
    }
}
