//! The exit codes.

use std::process::ExitCode;

use windrow_model::checks::CheckOutcome;

/// How a program ends. The numbers never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    /// An error of the system (a file that cannot be written).
    Failure = 1,
    NotYet = 3,
    Failed = 4,
    Unknown = 5,
    /// kube-apiserver, or one of its webhooks, would refuse the request.
    Refused = 6,
    /// Wrong use of the command line (`EX_USAGE`).
    Usage = 64,
    /// Another daemon runs on this node already (`EX_TEMPFAIL`); windrow.service expects this number.
    AnotherRuns = 75,
    Configuration = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

impl From<CheckOutcome> for Exit {
    fn from(verdict: CheckOutcome) -> Self {
        match verdict {
            CheckOutcome::Fail => Self::Failed,
            CheckOutcome::Unknown => Self::Unknown,
            CheckOutcome::Warn | CheckOutcome::Pass | CheckOutcome::NotChecked => Self::Ok,
        }
    }
}
