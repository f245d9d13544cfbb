//! CEL expressions: compiled when a rule is loaded, evaluated on one object.
//!
//! Those of the shipped packs are compiled when they are first evaluated: the parser's tables take half a megabyte
//! until the process ends, and most nodes never evaluate them.
//!
//! Everything that can be rejected at load time is: syntax, unknown variables, unknown functions, expressions that
//! cannot yield true or false, and expressions that are too large. Three errors remain for the evaluation: an absent
//! field, a value of another type, or too many steps. These are answers, never a panic. Messages contain fields and
//! types, never values: an object may be a Secret.

mod budget;
mod check;
mod metered;
mod reads;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, OnceLock};

use cel::common::ast::IdedExpr;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use cel::{Context, Env, ExecutionError, Program, Value};

pub use self::budget::EvaluationBudget;
use self::budget::{BUDGET, MOST_STEPS, environment};
use self::check::Checker;
use self::metered::{length, metered};
use self::reads::Reads;
use windrow_model::manifest;
use windrow_model::text::one_line;

use super::Expression;

/// Longest source, in bytes: a condition is a line or two, and the parser's work grows with it.
const MAX_SOURCE: usize = 2048;

/// Deepest nesting of brackets: the parser recurses on them.
const MAX_BRACKETS: usize = 32;

/// Stack for compiling, in bytes. The parser takes up to 100 KiB for one level of brackets, which
/// is more than the usual 2 MiB of a thread can bear.
const COMPILE_STACK: usize = 32 << 20;

/// The standard environment, built once: it is the same for every expression.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(environment()));

/// The object's name in rules.
const OBJECT: &str = "object";

/// The value's name in a rule of a CustomResourceDefinition.
const SELF: &str = "self";

/// The purpose of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpressionUse {
    Truth,
    /// A value for display.
    Value,
    /// A validation rule of a CustomResourceDefinition.
    ValueRule,
}

impl ExpressionUse {
    fn variable(self) -> &'static str {
        match self {
            Self::Truth | Self::Value => OBJECT,
            Self::ValueRule => SELF,
        }
    }
}

/// The evaluated form of an expression.
pub(in crate::rules) struct CompiledProgram {
    /// The program, with calls that count its steps.
    evaluated: IdedExpr,
    /// The number of its steps without its loops.
    steps: u64,
    /// The fields of the object that it reads.
    reads: Reads,
}

/// Why an expression has no answer on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationError {
    /// A field, key or item that it reads is absent.
    Missing(String),
    /// A value has another type than the expression assumes.
    Type(String),
    /// It takes more steps than the limit.
    Limit(String),
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvaluationError::Missing(message)
            | EvaluationError::Type(message)
            | EvaluationError::Limit(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for EvaluationError {}

impl Expression {
    /// Compiles a condition; the error describes the problem in one line.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::compile_as(source, ExpressionUse::Truth)
    }

    /// Compiles an expression that may yield any value.
    pub(super) fn compile_value(source: &str) -> Result<Self, String> {
        Self::compile_as(source, ExpressionUse::Value)
    }

    /// A condition that is known to compile, because a test has compiled it. It is compiled when it is first evaluated.
    pub(super) fn deferred(source: &str) -> Self {
        Self {
            source: source.into(),
            program: Arc::default(),
        }
    }

    /// Compiles a rule of a CustomResourceDefinition, about `self`.
    pub fn compile_value_rule(source: &str) -> Result<Self, String> {
        Self::compile_as(source, ExpressionUse::ValueRule)
    }

    fn compile_as(source: &str, yields: ExpressionUse) -> Result<Self, String> {
        let program = CompiledProgram::compile(source, yields)?;
        Ok(Self {
            source: source.into(),
            program: Arc::new(OnceLock::from(program)),
        })
    }

    fn program(&self) -> Result<&CompiledProgram, EvaluationError> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let program = CompiledProgram::compile(&self.source, ExpressionUse::Truth)
            .map_err(EvaluationError::Type)?;
        Ok(self.program.get_or_init(|| program))
    }

    /// Whether it is true of this observed object.
    pub fn holds(&self, object: &serde_json::Value) -> Result<bool, EvaluationError> {
        self.holds_within(object, &EvaluationBudget::new(MOST_STEPS))
    }

    /// Whether it is true of this observed object. It takes the steps from a shared budget.
    pub fn holds_within(
        &self,
        object: &serde_json::Value,
        budget: &EvaluationBudget,
    ) -> Result<bool, EvaluationError> {
        let program = self.program()?;
        program.evaluate(program.read_json(object), budget)
    }

    /// Whether it is true of this object of a manifest.
    pub fn holds_for(&self, object: &manifest::Node) -> Result<bool, EvaluationError> {
        let program = self.program()?;
        program.evaluate(
            program.read_node(object),
            &EvaluationBudget::new(MOST_STEPS),
        )
    }

    /// Its value for this observed object, as text: a text, a number or a boolean.
    pub(super) fn text(&self, object: &serde_json::Value) -> Result<String, EvaluationError> {
        let program = self.program()?;
        match program.yielded(
            program.read_json(object),
            &EvaluationBudget::new(MOST_STEPS),
        )? {
            Value::String(text) => Ok(text.as_ref().clone()),
            Value::Int(number) => Ok(number.to_string()),
            Value::UInt(number) => Ok(number.to_string()),
            Value::Float(number) => Ok(number.to_string()),
            Value::Bool(truth) => Ok(truth.to_string()),
            other => Err(EvaluationError::Type(format!(
                "the expression yields a {}, not a text, a number or a boolean",
                other.type_of()
            ))),
        }
    }
}

impl CompiledProgram {
    fn compile(source: &str, yields: ExpressionUse) -> Result<Self, String> {
        if source.trim().is_empty() {
            return Err("the expression is empty".to_owned());
        }
        if source.len() > MAX_SOURCE {
            return Err(format!(
                "the expression has {} bytes, the limit is {MAX_SOURCE}",
                source.len()
            ));
        }
        if bracket_depth(source) > MAX_BRACKETS {
            return Err(format!("brackets are nested more than {MAX_BRACKETS} deep"));
        }
        let text = source.to_owned();
        #[expect(
            clippy::disallowed_methods,
            reason = "the CEL parser recurses deeper than a test's or a worker's stack: it is called on a stack of its own, and waited for"
        )]
        let program = std::thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(COMPILE_STACK)
            .spawn(move || compile(&text, yields))
            .map_err(|error| format!("the expression cannot be read: {error}"))?
            .join()
            .map_err(|_| "the expression cannot be read".to_owned())??;
        // An expression that is too expensive for an empty object is too expensive for every object.
        let nothing = from_entries(std::iter::empty());
        match program.yielded(nothing, &EvaluationBudget::new(MOST_STEPS)) {
            Err(EvaluationError::Limit(why)) => Err(why),
            _ => Ok(program),
        }
    }

    /// The fields of the object that the expression reads.
    fn read_json<'o>(&self, object: &'o serde_json::Value) -> CelValue<'o> {
        match object {
            serde_json::Value::Object(entries) => from_entries(
                entries
                    .iter()
                    .filter(|(key, _)| self.reads.field(key))
                    .map(|(key, value)| (key.as_str(), from_json(value))),
            ),
            other => from_json(other),
        }
    }

    /// Like [`Self::read_json`] for an object of a manifest.
    fn read_node<'o>(&self, object: &'o manifest::Node) -> CelValue<'o> {
        match &object.value {
            manifest::NodeValue::Mapping(entries) => from_entries(
                entries
                    .iter()
                    .filter(|entry| self.reads.field(&entry.key))
                    .map(|entry| (entry.key.as_str(), from_node(&entry.value))),
            ),
            _ => from_node(object),
        }
    }

    fn evaluate(
        &self,
        object: CelValue<'_>,
        budget: &EvaluationBudget,
    ) -> Result<bool, EvaluationError> {
        match self.yielded(object, budget)? {
            Value::Bool(answer) => Ok(answer),
            other => Err(EvaluationError::Type(format!(
                "the expression yields a {}, not true or false",
                other.type_of()
            ))),
        }
    }

    fn yielded(
        &self,
        object: CelValue<'_>,
        budget: &EvaluationBudget,
    ) -> Result<Value, EvaluationError> {
        // The interpreter is not ours: if it panics on an object, that object has no answer and the daemon continues.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
            context.add_variable_as_val(self.reads.variable, object);
            context.add_variable_as_val(BUDGET, Box::new(budget.clone()));
            budget.charge(self.steps)?;
            Value::resolve(&self.evaluated, &context)
        }));
        // The budget decides, not the result: `||` and `exists` ignore errors.
        if budget.is_exceeded() {
            return Err(EvaluationError::Limit(format!(
                "the expression takes more than {} steps: nest fewer loops (all, exists, map, filter), or \
                 have them go over shorter lists",
                budget.whole()
            )));
        }
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(explain(&error)),
            Err(_) => Err(EvaluationError::Type(
                "the expression cannot be evaluated on this object".to_owned(),
            )),
        }
    }
}

/// Most errors of an expression that are reported.
const MOST_ERRORS: usize = 5;

/// Parses and checks. Rejected expressions are also dropped here, where the stack is deep enough.
fn compile(source: &str, yields: ExpressionUse) -> Result<CompiledProgram, String> {
    let program: Program = ENVIRONMENT.compile(source).map_err(|errors| {
        // The first ones describe the problem; the others only follow from it.
        let errors: Vec<String> = errors
            .errors
            .iter()
            .take(MOST_ERRORS)
            .map(|error| format!("{} (column {})", one_line(&error.msg), error.pos.1))
            .collect();
        format!("the expression cannot be read: {}", errors.join("; "))
    })?;
    let mut checker = Checker::new(yields.variable());
    checker.visit(program.expression(), 0);
    if yields == ExpressionUse::Truth {
        checker.result_type(program.expression());
    }
    if checker.errors.is_empty() {
        let expression = program.expression();
        Ok(CompiledProgram {
            evaluated: metered(expression),
            steps: length(expression),
            reads: checker.reads,
        })
    } else {
        Err(checker.errors.join("; "))
    }
}

/// An execution error without the values that the interpreter would print.
fn explain(error: &ExecutionError) -> EvaluationError {
    match error {
        ExecutionError::NoSuchKey(key) => {
            EvaluationError::Missing(format!("`{key}` is not there yet"))
        }
        ExecutionError::IndexOutOfBounds(_) => {
            EvaluationError::Missing("a list has fewer items than the expression reads".to_owned())
        }
        ExecutionError::NoSuchOverload(error) => EvaluationError::Type(error.to_string()),
        ExecutionError::UndeclaredReference(name) => {
            EvaluationError::Type(format!("`{name}` is not known"))
        }
        ExecutionError::FunctionError { function, .. } => {
            EvaluationError::Type(format!("`{function}` cannot be applied to this value"))
        }
        ExecutionError::UnexpectedType { got, want } => {
            EvaluationError::Type(format!("a {got} where a {want} is expected"))
        }
        _ => EvaluationError::Type("a value is of another type than the expression assumes".into()),
    }
}

/// The depth of nested brackets. Those inside strings count too, which errs on the safe side.
fn bracket_depth(source: &str) -> usize {
    let mut depth = 0_usize;
    source
        .bytes()
        .map(|byte| {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth
        })
        .max()
        .unwrap_or(0)
}

/// A value in the interpreter's form, without copies of its texts.
type CelValue<'o> = Box<dyn Val + 'o>;

fn from_json(value: &serde_json::Value) -> CelValue<'_> {
    match value {
        serde_json::Value::Null => Box::new(CelNull),
        serde_json::Value::Bool(value) => Box::new(CelBool::from(*value)),
        serde_json::Value::Number(number) => from_number(number),
        serde_json::Value::String(text) => Box::new(CelString::from(text.as_str())),
        serde_json::Value::Array(items) => from_items(items.iter().map(from_json)),
        serde_json::Value::Object(entries) => from_entries(
            entries
                .iter()
                .map(|(key, value)| (key.as_str(), from_json(value))),
        ),
    }
}

fn from_node(node: &manifest::Node) -> CelValue<'_> {
    match &node.value {
        manifest::NodeValue::Null => Box::new(CelNull),
        manifest::NodeValue::Bool(value) => Box::new(CelBool::from(*value)),
        manifest::NodeValue::Number(number) => from_number(number),
        manifest::NodeValue::String(text) => Box::new(CelString::from(text.as_str())),
        manifest::NodeValue::Sequence(items) => from_items(items.iter().map(from_node)),
        manifest::NodeValue::Mapping(entries) => from_entries(
            entries
                .iter()
                .map(|entry| (entry.key.as_str(), from_node(&entry.value))),
        ),
    }
}

/// Integers become `int` if they fit, so that `object.spec.replicas == 1` compares equal types.
fn from_number(number: &serde_json::Number) -> CelValue<'static> {
    if let Some(integer) = number.as_i64() {
        Box::new(CelInt::from(integer))
    } else if let Some(integer) = number.as_u64() {
        Box::new(CelUInt::from(integer))
    } else {
        Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN)))
    }
}

fn from_items<'o>(items: impl Iterator<Item = CelValue<'o>>) -> CelValue<'o> {
    let items: Vec<CelValue<'o>> = items.collect();
    Box::new(CelList::from(items))
}

fn from_entries<'o>(entries: impl Iterator<Item = (&'o str, CelValue<'o>)>) -> CelValue<'o> {
    let map: HashMap<CelMapKey<'o>, CelValue<'o>> = entries
        .map(|(key, value)| (CelMapKey::from(key), value))
        .collect();
    Box::new(CelMap::from(map))
}
