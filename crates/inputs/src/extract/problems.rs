//! Problems of the outer file.

use windrow_model::manifest::Problem;
use windrow_model::reasons::Code;

/// A problem of the outer file, which is not a manifest.
pub(crate) fn as_input_problem(mut problem: Problem) -> Problem {
    if problem.code == Code::FileRefused {
        problem.code = Code::InputRefused;
    }
    problem
}

pub(super) fn not_looked_at(line: u32, what: &str) -> Problem {
    Problem {
        code: Code::NotLookedAt,
        line: Some(line),
        message: Code::NotLookedAt.say(&[("what", what)]),
    }
}

pub(super) fn key_not_read(key: &str, line: u32, why: &str) -> Problem {
    Problem {
        code: Code::KeyNotRead,
        line: Some(line),
        message: Code::KeyNotRead.say(&[("key", key), ("why", why)]),
    }
}
