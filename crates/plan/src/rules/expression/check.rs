//! Finds errors of an expression without an object: unknown names, and depth.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use windrow_model::suggest::nearest;

use super::OBJECT;
use super::reads::Reads;

/// Deepest nesting of operators and calls: evaluation recurses on them, on the caller's stack.
pub(super) const MAX_DEPTH: usize = 32;

/// Deepest nesting of `all`, `exists`, `map`, `filter`: each level multiplies the work by the
/// length of a list.
const MAX_LOOPS: usize = 3;

/// The functions that an expression may call, in addition to operators.
const FUNCTIONS: &[&str] = &[
    "bool",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "hasValue",
    "int",
    "matches",
    "none",
    "of",
    "ofNonZeroValue",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
    "value",
];

/// Names that stand for types, or for a family of functions.
const NAMES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "optional",
    "string",
    "type",
    "uint",
];

/// Finds errors that do not depend on an object.
pub(super) struct Checker {
    /// Loop variables in scope.
    scope: Vec<String>,
    depth: usize,
    pub(super) errors: Vec<String>,
    pub(super) reads: Reads,
}

impl Checker {
    pub(super) fn new(variable: &'static str) -> Self {
        Self {
            scope: Vec::new(),
            depth: 0,
            errors: Vec::new(),
            reads: Reads::of(variable),
        }
    }

    fn error(&mut self, message: String) {
        if !self.errors.contains(&message) {
            self.errors.push(message);
        }
    }

    pub(super) fn visit(&mut self, expression: &IdedExpr, loops: usize) {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            self.parts(expression, loops);
        } else {
            self.error(format!(
                "the expression is nested more than {MAX_DEPTH} deep"
            ));
        }
        self.depth -= 1;
    }

    fn parts(&mut self, expression: &IdedExpr, loops: usize) {
        if self.reads.note(&expression.expr) {
            return;
        }
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.visit(&select.operand, loops),
            Expr::Call(call) => {
                self.function(&call.func_name);
                if let Some(target) = &call.target {
                    self.visit(target, loops);
                }
                for argument in &call.args {
                    self.visit(argument, loops);
                }
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.visit(element, loops);
                }
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    self.entry(&entry.expr, loops);
                }
            }
            Expr::Struct(object) => {
                self.error(format!(
                    "`{}` is unknown: there are no message types here",
                    object.type_name
                ));
            }
            Expr::Comprehension(comprehension) => {
                let loops = loops + 1;
                if loops > MAX_LOOPS {
                    self.error(format!(
                        "loops (all, exists, map, filter) are nested more than {MAX_LOOPS} deep"
                    ));
                    return;
                }
                self.visit(&comprehension.iter_range, loops - 1);
                self.visit(&comprehension.accu_init, loops - 1);
                let before = self.scope.len();
                self.scope.push(comprehension.iter_var.clone());
                self.scope.extend(comprehension.iter_var2.clone());
                self.scope.push(comprehension.accu_var.clone());
                self.visit(&comprehension.loop_cond, loops);
                self.visit(&comprehension.loop_step, loops);
                self.visit(&comprehension.result, loops);
                self.scope.truncate(before);
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr, loops: usize) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value, loops),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key, loops);
                self.visit(&entry.value, loops);
            }
        }
    }

    fn name(&mut self, name: &str) {
        if name == self.reads.variable {
            self.reads.object();
            return;
        }
        let known = name.starts_with('@')
            || NAMES.contains(&name)
            || self.scope.iter().any(|variable| variable == name);
        if !known {
            self.error(format!(
                "`{name}` is unknown: the only variable is `{}`",
                self.reads.variable
            ));
        }
    }

    fn function(&mut self, name: &str) {
        // Operators are calls too; their names have characters that no identifier has.
        let operator = name
            .chars()
            .any(|character| !character.is_ascii_alphanumeric() && !matches!(character, '_' | '.'))
            || name.starts_with('@');
        if !operator && !FUNCTIONS.contains(&name) {
            let hint = nearest(name, FUNCTIONS.iter().copied())
                .map_or_else(String::new, |close| format!("; did you mean `{close}`?"));
            self.error(format!("there is no function `{name}`{hint}"));
        }
    }

    /// Only a literal can be checked here, if it is not a boolean.
    pub(super) fn result_type(&mut self, root: &IdedExpr) {
        let kind = match &root.expr {
            Expr::Literal(LiteralValue::Boolean(_)) => return,
            Expr::Literal(_) => "a constant",
            Expr::List(_) => "a list",
            Expr::Map(_) => "a map",
            Expr::Ident(name) if name == OBJECT => "the whole object",
            _ => return,
        };
        self.error(format!("the expression yields {kind}, not true or false"));
    }
}
