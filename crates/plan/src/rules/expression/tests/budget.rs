//! Tests that the steps are limited for every expression and object, and that no answer comes from an incomplete
//! evaluation.

use cel::common::ast::{Expr, IdedExpr};

use super::*;

/// A list with this number of entries, as in an API.
fn entries(count: usize) -> serde_json::Value {
    let entry = |number: usize| json!({"name": format!("entry-{number}"), "ready": true});
    json!({"entries": (0..count).map(entry).collect::<Vec<_>>(), "text": "x".repeat(1024)})
}

fn is_too_much(source: &str, object: &serde_json::Value) {
    let refused = match Expression::compile(source) {
        // For every object.
        Err(why) => why,
        Ok(expression) => match expression.holds(object) {
            Err(EvaluationError::Limit(why)) => why,
            other => panic!("{source}: {other:?}"),
        },
    };
    assert!(refused.contains("more than 250000 steps"), "{refused}");
}

#[test]
fn loops_over_long_lists_within_loops_are_an_error() {
    let object = entries(5_000);
    for source in [
        "object.entries.all(a, object.entries.exists(b, b.name == a.name && b.ready))",
        "object.entries.exists(a, object.entries.all(b, b.name != a.name))",
        "size(object.entries.map(a, object.entries.filter(b, b.name == a.name))) == 3",
        "object.entries.exists_one(a, object.entries.exists_one(b, a == b))",
        "object.entries.all(a, object.entries == object.entries)",
        "object.entries.all(a, object['entries'] == object['entries'])",
        "object.entries.all(a, (a.ready ? object.entries : []) == (a.ready ? object.entries : []))",
        "object.entries.all(a, a in object.entries)",
        "object.entries.all(a, size(object.entries + object.entries) > 1)",
        "object.entries.all(a, [object.entries, object.entries] != [])",
        "object.entries.all(a, {'a': object.entries} != {})",
        // A name costs as much as its value.
        "[object.entries].all(all, object.entries.all(a, a != all))",
        "object.entries.all(a, object.?entries.hasValue())",
        "object.entries.all(a, object[?'entries'].hasValue())",
        "object.entries.all(a, optional.of(object.entries).hasValue())",
        "object.entries.all(a, dyn(object.entries) != [])",
        "object.all(k, object.entries.all(a, object.entries.all(b, a != b || k != b.name)))",
    ] {
        is_too_much(source, &object);
    }
}

#[test]
fn an_error_that_an_operator_passes_over_does_not_hide_the_excess() {
    let object = entries(5_000);
    let long = "object.entries.all(a, object.entries.exists(b, a == b))";
    for source in [
        format!("{long} || true"),
        format!("!({long} && false)"),
        format!("[1, 2].exists(x, x == 2 || {long})"),
        format!("{long} ? true : true"),
    ] {
        is_too_much(&source, &object);
    }
}

#[test]
fn what_is_too_much_for_every_object_is_refused_when_it_is_compiled() {
    let numbers: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    let list = format!("[{}]", numbers.join(","));
    let doubled = |unit: &str| unit.repeat(25);
    for source in [
        format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c >= 0)))"),
        // Only the rounds are counted here, and in them only the patterns.
        format!("{list}.all(a, {list}.all(b, {list}.all(c, true)))"),
        format!("{list}.all(a, !'x'.matches('(a|b){{1,9}}' + string(a)))"),
        format!("{list}.map(a, {list}.map(b, {list}.map(c, [a, b, c]))) != []"),
        format!("['xxxxxxxx']{} == []", doubled(".map(a, a + a)")),
        format!("[[1]]{} == []", doubled(".map(a, a + a)")),
        format!("[1]{} == []", doubled(".map(a, [a, a])")),
        format!("[1]{} == []", doubled(".map(a, {'a': a, 'b': a})")),
        format!(
            "{list}.all(a, {list}.all(b, !'x'.matches('(a|b){{1,9}}' + string(a * 1000 + b))))"
        ),
    ] {
        let why = Expression::compile(&source).expect_err(&source);
        assert!(why.contains("more than 250000 steps"), "{source}: {why}");
    }
}

#[test]
fn the_steps_of_an_evaluation_are_at_most_its_budget_and_always_the_same() {
    let object = entries(400);
    for source in [
        "object.entries.all(a, a.ready)",
        "object.entries.exists(a, object.entries.exists(b, a.name + b.name == ''))",
        "object.entries.filter(a, a.ready).map(a, a.name) == []",
        "object.entries.all(a, a.name.matches('^entry-[0-9]+$'))",
    ] {
        let expression = Expression::compile(source).unwrap();
        let taken = |steps: u64| {
            let budget = EvaluationBudget::new(steps);
            let answer = expression.holds_within(&object, &budget);
            assert!(budget.taken() <= steps, "{source}");
            (answer, budget.taken())
        };
        let (answer, all) = taken(u64::MAX);
        assert_eq!(taken(u64::MAX), (answer.clone(), all), "{source}");
        // With exactly its number of steps it has the same answer, with one less it has none.
        assert_eq!(taken(all), (answer, all), "{source}");
        let (none, _) = taken(all - 1);
        assert!(matches!(none, Err(EvaluationError::Limit(_))), "{source}");
    }
}

#[test]
fn what_is_looked_up_step_by_step_in_optional_values_is_counted_once() {
    let object = json!({"a": {"b": {"c": vec!["x"; 1_000]}}});
    let steps = |source: &str| {
        let budget = EvaluationBudget::new(MOST_STEPS);
        let expression = Expression::compile(source).unwrap();
        assert_eq!(expression.holds_within(&object, &budget), Ok(true));
        budget.taken()
    };
    let (first, last) = (
        steps("object.?a.hasValue()"),
        steps("object.?a.?b.?c.hasValue()"),
    );
    assert!(last < first + 100, "{first}, {last}");
}

/// The step of a loop: its function, and the position of the collected values in it.
fn shape(expression: &IdedExpr) -> String {
    let Expr::Comprehension(looped) = &expression.expr else {
        panic!("no loop: {expression:?}");
    };
    let Expr::Call(step) = &looped.loop_step.expr else {
        panic!("no call: {expression:?}");
    };
    let gathered =
        |value: &IdedExpr| matches!(&value.expr, Expr::Ident(name) if *name == looped.accu_var);
    let part = |value: &IdedExpr| match &value.expr {
        _ if gathered(value) => "gathered",
        Expr::Call(call) if call.args.first().is_some_and(gathered) => "more",
        _ => "other",
    };
    let parts: Vec<&str> = step.args.iter().map(part).collect();
    format!("{}({})", step.func_name, parts.join(", "))
}

#[test]
fn a_loop_that_counts_gathers_in_the_shape_that_the_interpreter_knows() {
    // In another shape it copies the collected values in each round.
    for (source, expected) in [
        ("[1].all(x, x > 0)", "_&&_(gathered, other)"),
        ("[1].exists(x, x > 0)", "_||_(gathered, other)"),
        ("[1].exists_one(x, x > 0)", "_?_:_(other, more, gathered)"),
        ("[1].filter(x, x > 0)", "_?_:_(other, more, gathered)"),
        ("[1].map(x, x + 1)", "_+_(gathered, other)"),
        ("[1].map(x, x > 0, x + 1)", "_?_:_(other, more, gathered)"),
    ] {
        let program = ENVIRONMENT.compile(source).unwrap();
        assert_eq!(shape(program.expression()), expected, "{source}");
        let counting = metered(program.expression());
        assert_eq!(shape(&counting), expected, "{source}, as it is evaluated");
    }
}

#[test]
fn rules_as_people_write_them_take_a_small_part_of_the_budget() {
    let object = entries(1_000);
    for (source, most) in [
        ("object.entries.all(a, a.ready)", 10_000),
        (
            "object.entries.exists(a, a.name == 'entry-999' && a.ready)",
            20_000,
        ),
        (
            "size(object.entries.filter(a, has(a.gone) && a.gone)) == 0",
            20_000,
        ),
        (
            "object.entries.all(a, a.name.matches('^entry-[0-9]+$'))",
            40_000,
        ),
        (
            "object.?status.?phase.orValue('') == '' && object.text.startsWith('x')",
            50,
        ),
    ] {
        let budget = EvaluationBudget::new(MOST_STEPS);
        let expression = Expression::compile(source).unwrap();
        assert_eq!(
            expression.holds_within(&object, &budget),
            Ok(true),
            "{source}"
        );
        assert!(budget.taken() <= most, "{source}: {}", budget.taken());
    }
}

#[test]
fn a_pattern_that_takes_much_memory_is_an_error_and_one_of_the_object_is_too() {
    for (source, pattern) in [
        ("'x'.matches(object.pattern)", "(\\w{50}){50}"),
        ("matches('x', object.pattern)", "("),
    ] {
        let expression = Expression::compile(source).unwrap();
        let error = expression.holds(&json!({"pattern": pattern})).unwrap_err();
        let expected = "`matches` cannot be applied to this value";
        assert_eq!(error.to_string(), expected, "{source}");
    }
}

proptest! {
    /// Random loops over random lists: an evaluation ends within its budget, or reports that it did not.
    #[test]
    fn no_loops_take_more_than_the_budget(
        picks in proptest::collection::vec((0_usize..6, 0_usize..5), 1..4),
        count in 0_usize..60,
        steps in 1_u64..20_000,
    ) {
        let lists = ["object.entries", "[1, 2, 3]", "object.entries.map(z, [z, z])",
            "(object.entries + object.entries)", "object.entries.filter(z, z.ready)", "[object, object]"];
        let loops = ["all", "exists", "exists_one", "filter", "map"];
        let body = "object.entries == [v] || size(string(object.text + 'x')) > 1".to_owned();
        let source = picks.iter().enumerate().fold(body, |body, (at, (list, kind))| {
            // The result of `map` and `filter` is a list, so a condition is made from it.
            match loops[*kind] {
                kind @ ("map" | "filter") => format!("size({}.{kind}(v, {body})) > {at}", lists[*list]),
                kind => format!("{}.{kind}(v, {body})", lists[*list]),
            }
        }).replace("[v]", "[]");
        if let Ok(expression) = Expression::compile(&source) {
            let budget = EvaluationBudget::new(steps);
            let answer = expression.holds_within(&entries(count), &budget);
            prop_assert!(budget.taken() <= steps);
            let more = EvaluationBudget::new(4 * steps);
            let _ = expression.holds_within(&entries(count), &more);
            let is_cut = matches!(answer, Err(EvaluationError::Limit(_)));
            prop_assert_eq!(is_cut, more.taken() > steps, "{}", source);
        }
    }
}
