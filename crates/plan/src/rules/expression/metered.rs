//! The evaluated form of an expression: the written one, with calls that count its cost (see `budget`).
//!
//! | written | evaluated |
//! |---|---|
//! | `list.all(x, body)` | `@whole(list).all(x, @spend(n) ? body : false)`, with the length of the body as n |
//! | `list.map(x, body)` | the same, and the result of the body is counted before it is copied |
//! | `a + b`, `a == b`, `a in b`, `[a, b]`, `{k: a}`, `f(a)` | `@whole(a) + @whole(b)`, … |
//! | `size(a)`, `a.startsWith(b)` and similar ones | `size(@flat(a))`, … |
//! | `a.?b`, `a[?b]` | `@whole(a.?b)`: the interpreter copies the result |
//! | `a.matches(b)` | `@matches(a, b)` |
//!
//! Only existing values are counted: a name, a field, an item. Values that are made from them were counted with them.
//! The shapes that the interpreter recognises (`@result && …`, `@result + […]`) stay as they are.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use cel::common::types::{CelBool, CelInt};

use super::budget::{BUDGET, FLAT, MATCHES, SPEND, WHOLE};

/// Functions that read a text as a whole, but not the items of a list or a map.
const OF_TEXTS: &[&str] = &[
    "bool",
    "contains",
    "double",
    "endsWith",
    "int",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
];
/// Operators that only pass on their operands.
const FREE: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::NEGATE,
    operators::NOT_STRICTLY_FALSE,
    operators::INDEX,
];
/// Comparisons: with a literal they cost next to nothing.
const COMPARISONS: &[&str] = &[
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
];

/// The expression with its calls. The counting call comes before the counted operation.
pub(super) fn metered(expression: &IdedExpr) -> IdedExpr {
    let expr = match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {
            return expression.clone();
        }
        Expr::Select(select) => {
            let mut select = select.clone();
            select.operand = Box::new(metered(&select.operand));
            Expr::Select(select)
        }
        Expr::List(list) => {
            let mut list = list.clone();
            list.elements = list.elements.iter().map(whole).collect();
            Expr::List(list)
        }
        Expr::Map(map) => {
            let mut map = map.clone();
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = whole(&entry.key);
                    entry.value = whole(&entry.value);
                }
            }
            Expr::Map(map)
        }
        Expr::Call(call) => return called(expression.id, call),
        Expr::Comprehension(comprehension) => Expr::Comprehension(Box::new(looped(comprehension))),
    };
    IdedExpr {
        id: expression.id,
        expr,
    }
}

fn called(id: u64, call: &CallExpr) -> IdedExpr {
    let name = call.func_name.as_str();
    let target = call.target.as_deref();
    if name == "matches" {
        let values = target.into_iter().chain(&call.args).map(metered);
        return counting(id, MATCHES, values);
    }
    let is_one = |names: &[&str]| names.contains(&name);
    let beside_a_constant = call
        .args
        .iter()
        .any(|argument| matches!(argument.expr, Expr::Literal(_)));
    let copies = is_optional(name);
    let value = |value: &IdedExpr| {
        if is_one(FREE) || copies || (is_one(COMPARISONS) && beside_a_constant) {
            metered(value)
        } else if is_one(OF_TEXTS) {
            charged(FLAT, value)
        } else {
            whole(value)
        }
    };
    // The value inside an optional value is moved out of it, not copied.
    let within = match &call.args[..] {
        [value, ..] => call_of(value).is_some_and(|value| is_optional(&value.func_name)),
        _ => false,
    };
    let call = IdedExpr {
        id,
        expr: Expr::Call(CallExpr {
            func_name: call.func_name.clone(),
            target: target.map(|target| Box::new(value(target))),
            args: call.args.iter().map(value).collect(),
        }),
    };
    match copies && !within {
        true => counting(id, WHOLE, [call]),
        false => call,
    }
}

fn is_optional(function: &str) -> bool {
    [operators::OPT_INDEX, operators::OPT_SELECT].contains(&function)
}

fn call_of(value: &IdedExpr) -> Option<&CallExpr> {
    match &value.expr {
        Expr::Call(call) => Some(call),
        _ => None,
    }
}

fn looped(comprehension: &ComprehensionExpr) -> ComprehensionExpr {
    let accumulated = |value: &IdedExpr| matches!(&value.expr, Expr::Ident(name) if *name == comprehension.accu_var);
    // `@result + [item]`: the list is not copied.
    let appended = |step: &IdedExpr| match &step.expr {
        Expr::Call(call) if call.func_name == operators::ADD => match &call.args[..] {
            [list, item] if accumulated(list) => {
                let args = vec![list.clone(), metered(item)];
                Some(IdedExpr {
                    id: step.id,
                    expr: Expr::Call(CallExpr {
                        args,
                        ..call.clone()
                    }),
                })
            }
            _ => None,
        },
        _ => None,
    };
    let step = &comprehension.loop_step;
    let loop_step = match &step.expr {
        Expr::Call(call) => {
            let args = match (&call.args[..], call.func_name.as_str()) {
                ([result, body], operators::LOGICAL_AND | operators::LOGICAL_OR)
                    if accumulated(result) =>
                {
                    Some(vec![result.clone(), round(body, metered(body))])
                }
                ([guard, then, otherwise], operators::CONDITIONAL) if accumulated(otherwise) => {
                    appended(then)
                        .map(|then| vec![round(step, metered(guard)), then, otherwise.clone()])
                }
                ([list, items], operators::ADD) if accumulated(list) => {
                    items_of_a_round(items).map(|items| vec![list.clone(), items])
                }
                _ => None,
            };
            match args {
                Some(args) => IdedExpr {
                    id: step.id,
                    expr: Expr::Call(CallExpr {
                        args,
                        ..call.clone()
                    }),
                },
                None => round(step, metered(step)),
            }
        }
        _ => round(step, metered(step)),
    };
    ComprehensionExpr {
        // Each item is copied once.
        iter_range: whole(&comprehension.iter_range),
        accu_init: whole(&comprehension.accu_init),
        loop_step,
        ..comprehension.clone()
    }
}

/// `[item]`, as `map` appends it.
fn items_of_a_round(items: &IdedExpr) -> Option<IdedExpr> {
    let Expr::List(list) = &items.expr else {
        return None;
    };
    let mut list = list.clone();
    for item in &mut list.elements {
        *item = counting(item.id, WHOLE, [round(item, metered(item))]);
    }
    Some(IdedExpr {
        id: items.id,
        expr: Expr::List(list),
    })
}

/// The body of a round, after its steps were charged.
fn round(written: &IdedExpr, evaluated: IdedExpr) -> IdedExpr {
    let steps = i64::try_from(length(written)).unwrap_or(i64::MAX);
    let id = written.id;
    let literal = |value: LiteralValue| IdedExpr {
        id,
        expr: Expr::Literal(value),
    };
    let steps = literal(LiteralValue::Int(CelInt::from(steps)));
    let never = literal(LiteralValue::Boolean(CelBool::from(false)));
    IdedExpr {
        id,
        expr: Expr::Call(CallExpr {
            func_name: operators::CONDITIONAL.to_owned(),
            target: None,
            args: vec![counting(id, SPEND, [steps]), evaluated, never],
        }),
    }
}

/// The value, counted with all values inside it.
fn whole(value: &IdedExpr) -> IdedExpr {
    charged(WHOLE, value)
}

/// Counts an existing value. Values that are made from others were counted with them, and their calls would only make
/// evaluation recurse deeper.
fn charged(function: &str, value: &IdedExpr) -> IdedExpr {
    let is_found = match &value.expr {
        // `@result` is the interpreter's; `optional` is a family of functions, not a value.
        Expr::Ident(name) => !name.starts_with('@') && name != "optional",
        Expr::Select(select) => !select.test,
        Expr::Call(call) => {
            [operators::INDEX, operators::CONDITIONAL].contains(&call.func_name.as_str())
        }
        _ => false,
    };
    match is_found {
        true => counting(value.id, function, [metered(value)]),
        false => metered(value),
    }
}

fn counting(id: u64, function: &str, values: impl IntoIterator<Item = IdedExpr>) -> IdedExpr {
    let budget = IdedExpr {
        id,
        expr: Expr::Ident(BUDGET.to_owned()),
    };
    IdedExpr {
        id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: std::iter::once(budget).chain(values).collect(),
        }),
    }
}

/// The number of parts of an expression. The parts of an inner loop count once here.
pub(super) fn length(expression: &IdedExpr) -> u64 {
    let sum = |parts: &mut dyn Iterator<Item = &IdedExpr>| parts.map(length).sum::<u64>();
    1 + match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => 0,
        Expr::Select(select) => length(&select.operand),
        Expr::Call(call) => sum(&mut call.target.as_deref().into_iter().chain(&call.args)),
        Expr::List(list) => sum(&mut list.elements.iter()),
        Expr::Map(map) => map
            .entries
            .iter()
            .map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => length(&field.value),
                EntryExpr::MapEntry(entry) => length(&entry.key) + length(&entry.value),
            })
            .sum(),
        Expr::Comprehension(inner) => length(&inner.iter_range) + length(&inner.loop_step),
    }
}
