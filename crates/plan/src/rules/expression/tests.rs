use proptest::prelude::*;
use serde_json::json;

use super::check::MAX_DEPTH;
use super::*;

mod budget;

fn holds(source: &str, object: serde_json::Value) -> Result<bool, EvaluationError> {
    Expression::compile(source)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
        .holds(&object)
}

#[test]
fn an_expression_is_true_or_false_of_an_object() {
    let object = json!({"status": {"phase": "Deployed", "replicas": 3, "ratio": 0.5,
        "conditions": [{"type": "Ready", "status": "True"}]}});
    for source in [
        "object.status.phase == 'Deployed'",
        "object.status.replicas == 3 && object.status.replicas > 2",
        "object.status.ratio < 1.0",
        "has(object.status.phase) && !has(object.status.message)",
        "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
        "object.status.phase in ['Deployed', 'Available']",
        "object.?status.?nothing.orValue('') == ''",
        "object.status.phase.startsWith('Dep') && object.status.phase.matches('^D')",
        "size(object.status.conditions) == 1",
        "object['status']['phase'] == string('Deployed')",
        "type(object.status.replicas) == int",
    ] {
        assert_eq!(holds(source, object.clone()), Ok(true), "{source}");
    }
    assert_eq!(
        holds("object.status.phase == 'Deploying'", object),
        Ok(false)
    );
}

#[test]
fn a_missing_field_is_missing_and_a_wrong_type_is_a_type_error() {
    for (source, object) in [
        ("object.status.phase == 'a'", json!({})),
        ("object.status.phase == 'a'", json!({"status": {}})),
        ("object.items[2] == 1", json!({"items": [1]})),
    ] {
        let error = holds(source, object).unwrap_err();
        assert!(matches!(error, EvaluationError::Missing(_)), "{error:?}");
    }
    for (source, object) in [
        ("object.spec.running", json!({"spec": {"running": "yes"}})),
        ("object.spec.a > 3", json!({"spec": {"a": "x"}})),
        ("object.spec.a.startsWith('x')", json!({"spec": {"a": 1}})),
        ("object.spec.a.b == 1", json!({"spec": {"a": "text"}})),
    ] {
        let error = holds(source, object).unwrap_err();
        assert!(matches!(error, EvaluationError::Type(_)), "{error:?}");
    }
    for (source, expected) in [
        (
            "object.a ? true : false",
            "a string where a bool is expected",
        ),
        (
            "object.a.all(x, x)",
            "a string where a iterable is expected",
        ),
    ] {
        let error = holds(source, json!({"a": "x"})).unwrap_err();
        assert_eq!(error.to_string(), expected, "{source}");
    }
}

#[test]
fn an_error_never_shows_a_value_of_the_object() {
    let object = json!({"data": {"password": "hunter2", "list": ["hunter2"]}});
    for source in [
        "object.data.password > 3",
        "int(object.data.password) == 3",
        "object.data.password.user == ''",
        "object.data.password",
        "object.data.list[object.data.password] == ''",
        "object.data.list + 1 == 2",
        "{object.data.list: 1} == {}",
        "object.data.password.matches(object.data.password + '(')",
    ] {
        let error = holds(source, object.clone()).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{source}: {error}");
    }
}

#[test]
fn what_can_be_known_to_be_wrong_is_refused_when_it_is_compiled() {
    for (source, expected) in [
        ("", "empty"),
        ("object.a ==", "cannot be read"),
        ("object.a == 'x", "cannot be read"),
        ("objekt.a == 1", "`objekt` is unknown"),
        ("object.a.exists(c, d.type == 'x')", "`d` is unknown"),
        (
            "object.a.startWith('x')",
            "no function `startWith`; did you mean `startsWith`?",
        ),
        ("hass(object.a)", "no function `hass`"),
        ("'text'", "yields a constant"),
        ("object", "yields the whole object"),
        ("[object.a]", "yields a list"),
        ("Thing{a: 1} == 2", "is unknown"),
        (
            "object.a.all(a, a.all(b, b.all(c, c.all(d, d))))",
            "nested more than 3",
        ),
    ] {
        let error = Expression::compile(source).expect_err(source);
        assert!(error.contains(expected), "{source}: {error}");
        assert!(!error.contains('\n'), "{source}: {error}");
    }
    let sized = |bytes: usize| format!("object.a == '{}'", "x".repeat(bytes - 14));
    assert_eq!(sized(MAX_SOURCE).len(), MAX_SOURCE);
    assert!(Expression::compile(&sized(MAX_SOURCE)).is_ok());
    let why = Expression::compile(&sized(MAX_SOURCE + 1)).unwrap_err();
    assert!(why.contains("limit"), "{why}");
}

#[test]
fn the_longest_and_deepest_sources_neither_overflow_the_stack_nor_take_for_ever() {
    let fill = |unit: &str| unit.repeat((MAX_SOURCE - 20) / unit.len());
    for source in [
        format!("{}true{}", "(".repeat(900), ")".repeat(900)),
        format!(
            "{}true{}",
            "(".repeat(MAX_BRACKETS),
            ")".repeat(MAX_BRACKETS)
        ),
        format!("{}true", fill("!")),
        format!("{}1 == 1", fill("-")),
        format!("object{} == 1", fill(".a")),
        format!("1{} == 1", fill("+1")),
        format!("true{}", fill(" && true")),
        format!("{}true", fill("a?a:")),
        format!("object{}", fill("[0]")),
        format!("object{}", fill(".a()")),
        format!("object{} == 1", ".a".repeat(MAX_DEPTH - 3)),
        format!("1{} == 1", "+1".repeat(MAX_DEPTH - 3)),
        format!(
            "object.a.exists(a, a.exists(b, b.exists(c, c{} == 1)))",
            ".a".repeat(10)
        ),
        "[".repeat(900),
        "{".repeat(900),
    ] {
        if let Ok(expression) = Expression::compile(&source) {
            let _ = expression.holds(&json!({"a": [[[1]]]}));
        }
    }
}

#[test]
fn every_function_that_is_allowed_exists() {
    for source in [
        "bool('true') && double('1') > 0.5 && int('1') == 1 && uint('1') == 1u",
        "'abc'.contains('b') && 'abc'.endsWith('c') && dyn(1) == 1",
        "optional.of(1).hasValue() && optional.of(1).value() == 1",
        "optional.none().or(optional.of(1)).orValue(2) == 1",
        "!optional.ofNonZeroValue('').hasValue()",
        "string(1) == '1' && type('a') == string",
    ] {
        assert_eq!(holds(source, json!({})), Ok(true), "{source}");
    }
}

proptest! {
    #[test]
    fn no_source_makes_the_compiler_panic(source in "[a-z.()\\[\\]{}'\"&|!?:=<>+*/% 0-9-]{0,60}") {
        if let Ok(expression) = Expression::compile(&source) {
            let _ = expression.holds(&json!({"a": 1}));
        }
    }
}

#[test]
fn only_the_fields_that_are_read_are_handed_over_and_the_answer_is_the_same() {
    let object = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"phase": "Up"}});
    for (source, read) in [
        ("object.status.phase == 'Up'", &["status"][..]),
        ("object.?spec.?x.orValue(0) == 1", &["spec"]),
        ("object['spec']['x'] == 2", &["spec"]),
        (
            "has(object.status) && object.metadata.name == 'a'",
            &["metadata", "status"],
        ),
        ("[1, 2].exists(n, n == object.spec.x)", &["spec"]),
        ("object[?'status'].hasValue()", &["status"]),
        ("size(object) == 3", &["metadata", "spec", "status"]),
        (
            "object.all(key, key != 'other')",
            &["metadata", "spec", "status"],
        ),
        (
            "object[object.metadata.name] == 1",
            &["metadata", "spec", "status"],
        ),
        ("object.nothing.phase == 'Up'", &[]),
        ("true", &[]),
    ] {
        let expression = Expression::compile(source).unwrap();
        let program = expression.program().unwrap();
        let handed = program.read_json(&object);
        let handed = handed
            .downcast_ref::<CelMap<'_>>()
            .expect("an object is a map");
        let keys = handed.inner().keys().map(|key| key.inner());
        let mut fields: Vec<&str> = keys
            .map(|key| key.downcast_ref::<CelString<'_>>().unwrap().inner())
            .collect();
        fields.sort_unstable();
        assert_eq!(fields, read, "{source}");
        let whole = program.evaluate(from_json(&object), &EvaluationBudget::new(MOST_STEPS));
        assert_eq!(expression.holds(&object), whole, "{source}");
    }
}

#[test]
fn a_deferred_expression_is_compiled_when_it_is_first_asked_and_answers_like_any_other() {
    let source = "object.status.phase == 'Up'";
    let deferred = Expression::deferred(source);
    let copy = deferred.clone();
    assert!(deferred.program.get().is_none());
    assert_eq!(deferred, Expression::compile(source).unwrap());
    let object = json!({"status": {"phase": "Up"}});
    assert_eq!(deferred.holds(&object), Ok(true));
    assert!(copy.program.get().is_some(), "copies share the program");
    let missing = EvaluationError::Missing("`status` is not there yet".to_owned());
    assert_eq!(copy.holds(&json!({})), Err(missing));
    let broken = Expression::deferred("object.status.phase ==");
    assert!(matches!(
        broken.holds(&object),
        Err(EvaluationError::Type(_))
    ));
}

#[test]
fn brackets_may_be_nested_as_deep_as_the_limit_and_no_deeper() {
    let nested = |depth: usize| {
        let source = format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
        Expression::compile(&source).map(|_| ())
    };
    assert_eq!(nested(MAX_BRACKETS), Ok(()));
    for depth in [MAX_BRACKETS + 1, MAX_BRACKETS + 2] {
        let error = nested(depth).unwrap_err();
        assert!(error.contains("nested more than 32 deep"), "{error}");
    }
    // Side by side they are not nested.
    let beside = format!("true{}", " && (true)".repeat(MAX_BRACKETS + 1));
    assert!(Expression::compile(&beside).is_ok());
    for mixed in ["[", "{"] {
        let source = format!("{}{}", "(".repeat(MAX_BRACKETS), mixed);
        let error = Expression::compile(&source).unwrap_err();
        assert!(error.contains("nested more"), "{error}");
    }
}

#[test]
fn an_unknown_function_is_named_whatever_characters_its_name_has() {
    for name in ["no_such", "nosuch", "no_2"] {
        let error = Expression::compile(&format!("{name}(object.a)")).unwrap_err();
        assert!(error.contains(&format!("no function `{name}`")), "{error}");
    }
}

#[test]
fn what_the_parser_says_of_a_source_is_handed_on() {
    let error = Expression::compile("object.a ==\n)").unwrap_err();
    assert!(error.contains("cannot be read"), "{error}");
    assert!(error.contains("')'"), "{error}");
}

#[test]
fn an_expression_is_the_same_as_another_that_is_written_the_same() {
    let read = |source: &str| Expression::compile(source).unwrap();
    let (one, same, other) = (
        read("object.a == 1"),
        read("object.a == 1"),
        read("object.a == 2"),
    );
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert!(one < other && one.partial_cmp(&same) == Some(std::cmp::Ordering::Equal));
    assert_eq!(std::collections::HashSet::from([one, same, other]).len(), 2);
}
