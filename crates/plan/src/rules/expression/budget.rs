//! The cost limit of an evaluation, counted in steps and never in time: the same expression on the same object always
//! costs the same.
//!
//! The interpreter has no limit. So the evaluated expression calls back (see `metered`), with the budget as the first
//! argument, before every expensive operation: each round of a loop, each copy of a value, each comparison, each
//! regular expression. An operation beyond the budget fails, and so do all later ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cel::common::types::{
    CelBool, CelBytes, CelInt, CelList, CelMap, CelOptional, CelString, DYN_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Env, ExecutionError};
use regex::{Regex, RegexBuilder};

/// Most steps of one evaluation: about ten milliseconds.
pub(super) const MOST_STEPS: u64 = 250_000;
/// Bytes of text that are one step.
const BYTES: usize = 64;
/// Steps for compiling a regular expression, and its largest size in memory, which determines the time to compile it.
const COMPILE: u64 = 5_000;
const LARGEST_PATTERN: usize = 10 << 20;

/// The remaining steps. Copies share them.
#[derive(Debug, Clone)]
pub struct EvaluationBudget(Arc<StepAccount>);

#[derive(Debug)]
struct StepAccount {
    whole: u64,
    left: AtomicU64,
    exceeded: AtomicBool,
    /// Compiled regular expressions, by their source; `None` for an invalid one.
    patterns: Mutex<HashMap<String, Option<Regex>>>,
}

impl EvaluationBudget {
    pub fn new(steps: u64) -> Self {
        Self(Arc::new(StepAccount {
            whole: steps,
            left: AtomicU64::new(steps),
            exceeded: AtomicBool::new(false),
            patterns: Mutex::default(),
        }))
    }

    /// The number of steps at the beginning.
    pub(super) fn whole(&self) -> u64 {
        self.0.whole
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        self.0.whole - self.0.left.load(Ordering::Relaxed)
    }

    /// Whether more steps were requested than it had.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.exceeded.load(Ordering::Relaxed)
    }

    pub(super) fn charge(&self, steps: u64) -> Result<(), ExecutionError> {
        let left = self.0.left.load(Ordering::Relaxed);
        match left.checked_sub(steps) {
            Some(left) => {
                self.0.left.store(left, Ordering::Relaxed);
                Ok(())
            }
            None => {
                self.0.left.store(0, Ordering::Relaxed);
                self.0.exceeded.store(true, Ordering::Relaxed);
                Err(ExecutionError::function_error("budget", "exceeded"))
            }
        }
    }

    /// Charges for a value with all values inside it.
    fn charge_whole(&self, value: &dyn Val) -> Result<(), ExecutionError> {
        self.charge(flat(value))?;
        if let Some(list) = value.downcast_ref::<CelList<'_>>() {
            for item in list.inner() {
                self.charge_whole(item.as_ref())?;
            }
        } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
            for (key, value) in map.inner() {
                self.charge(flat(key.inner()))?;
                self.charge_whole(value.as_ref())?;
            }
        } else if let Some(optional) = value.downcast_ref::<CelOptional<'_>>()
            && let Some(value) = optional.inner()
        {
            self.charge_whole(value)?;
        }
        Ok(())
    }

    fn matches(&self, text: &str, pattern: &str) -> Result<bool, ExecutionError> {
        // A regular expression reads the text once, at worst with all its states at each character.
        let states = bytes(pattern.len()).saturating_mul(8);
        self.charge(bytes(text.len()).saturating_mul(states))?;
        let wrong = || ExecutionError::function_error("matches", "not a regular expression");
        let mut patterns = self.0.patterns.lock().map_err(|_| wrong())?;
        if let Some(known) = patterns.get(pattern) {
            return known
                .as_ref()
                .map(|known| known.is_match(text))
                .ok_or_else(wrong);
        }
        self.charge(COMPILE)?;
        let compiled = RegexBuilder::new(pattern)
            .size_limit(LARGEST_PATTERN)
            .dfa_size_limit(LARGEST_PATTERN)
            .build()
            .ok();
        let answer = compiled.as_ref().map(|compiled| compiled.is_match(text));
        patterns.insert(pattern.to_owned(), compiled);
        answer.ok_or_else(wrong)
    }
}

fn bytes(length: usize) -> u64 {
    1 + u64::try_from(length / BYTES).unwrap_or(u64::MAX - 1)
}

/// The steps for a value without the values inside it.
fn flat(value: &dyn Val) -> u64 {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        bytes(text.inner().len())
    } else if let Some(data) = value.downcast_ref::<CelBytes<'_>>() {
        bytes(data.inner().len())
    } else {
        1
    }
}

impl Val for EvaluationBudget {
    fn get_type(&self) -> &Type {
        Self::cel_type()
    }

    fn cel_type() -> &'static Type {
        &DYN_TYPE
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl StaticVal for EvaluationBudget {}

/// The variable with the budget. No source can use this name: `@` is not a letter there.
pub(super) const BUDGET: &str = "@budget";
/// `@spend(@budget, n)`: charges n steps; always true.
pub(super) const SPEND: &str = "@spend";
/// `@whole(@budget, x)`: charges for x with all values inside it; returns x.
pub(super) const WHOLE: &str = "@whole";
/// `@flat(@budget, x)`: charges for x, and for a text by its length; returns x.
pub(super) const FLAT: &str = "@flat";
/// `@matches(@budget, text, pattern)`.
pub(super) const MATCHES: &str = "@matches";

/// The standard environment, and the functions above.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib();
    let functions: [(&str, usize, cel::common::functions::Function); 4] = [
        (SPEND, 2, spend),
        (WHOLE, 2, whole),
        (FLAT, 2, shallow),
        (MATCHES, 3, matches),
    ];
    for (name, arguments, function) in functions {
        let added = env.add_overload(
            name,
            name,
            (0..arguments).map(|_| DYN_TYPE).collect(),
            function,
        );
        // Each name is new. If one were not added, every evaluation would fail, and the tests with it.
        debug_assert!(added.is_ok());
    }
    env
}

fn budget<'a>(arguments: &'a [CowVal<'_, '_>]) -> Result<&'a EvaluationBudget, ExecutionError> {
    let first = arguments
        .first()
        .and_then(|first| first.downcast_ref::<EvaluationBudget>());
    first.ok_or_else(|| ExecutionError::function_error("budget", "there is none"))
}

fn last<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let last = arguments.pop();
    last.ok_or_else(|| ExecutionError::function_error("budget", "nothing to charge for"))
}

fn spend<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let steps = arguments
        .get(1)
        .and_then(|steps| steps.downcast_ref::<CelInt>());
    let steps = steps.and_then(|steps| u64::try_from(*steps.inner()).ok());
    budget(&arguments)?.charge(steps.unwrap_or(1))?;
    Ok(CowVal::owned(CelBool::from(true)))
}

fn whole<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    if let Some(value) = arguments.get(1) {
        budget(&arguments)?.charge_whole(value.as_ref())?;
    }
    last(arguments)
}

fn shallow<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    if let Some(value) = arguments.get(1) {
        budget(&arguments)?.charge(flat(value.as_ref()))?;
    }
    last(arguments)
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = |at: usize| {
        let value = arguments
            .get(at)
            .and_then(|value| value.downcast_ref::<CelString<'_>>());
        value.map(|text| text.inner())
    };
    let (Some(text), Some(pattern)) = (text(1), text(2)) else {
        let wrong = "it is for texts";
        return Err(ExecutionError::function_error("matches", wrong));
    };
    let answer = budget(&arguments)?.matches(text, pattern)?;
    Ok(CowVal::owned(CelBool::from(answer)))
}
