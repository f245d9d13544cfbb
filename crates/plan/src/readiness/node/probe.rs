//! What a probe is and what it answers.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;
use windrow_model::reasons::Code;

use super::{NodeRole, Phase};
use crate::rules::Platform;

/// A probe's name: one of the table, or `user/NAME` for one of the configuration.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ProbeId(Cow<'static, str>);

impl ProbeId {
    /// A probe of the table.
    pub const fn builtin(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A probe that the configuration defines.
    pub fn user(name: &str) -> Self {
        Self(Cow::Owned(format!("user/{name}")))
    }

    /// Does the configuration define it?
    pub fn is_user(&self) -> bool {
        self.0.starts_with("user/")
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What follows when a probe fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeSeverity {
    /// The node is not Ready.
    Required,
    /// The node works, and something is wrong.
    Wanted,
}

/// One probe, as it is run and counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeSpec {
    /// Its name.
    pub id: ProbeId,
    /// How often it is asked.
    pub period: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How many passes in a row make it passing.
    pub rise: u32,
    /// How many failures in a row make it failing, or unknown answers in a row unknown.
    pub fall: u32,
    /// What follows when it fails.
    pub severity: ProbeSeverity,
    /// The phase of the bootstrap that waits for it.
    pub phase: Phase,
    /// The reason code of its failure.
    pub code: Code,
    /// Does it count until the node was installed once, and not afterwards?
    pub day_zero: bool,
    /// The line of the configuration that switches it off: it is Unknown then, and not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Location>,
    /// What it measures against, in words; absent where it measures nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// A probe's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// It is as it should be.
    Passed,
    /// It is not.
    Failed {
        /// What is wrong, in a line; a figure in it is rounded so that it does not change with every
        /// answer.
        why: String,
        /// A more exact reason than the probe's own.
        code: Option<Code>,
        /// Is it proved that it will not come right by itself?
        stuck: bool,
    },
    /// It could not be found out: refused, timed out, no usable answer.
    Unknown {
        /// What was asked, of whom.
        asked: String,
        /// Why there is no answer.
        why: String,
        /// A more exact reason than that there is none.
        code: Option<Code>,
    },
}

impl ProbeOutcome {
    /// A failure with the probe's own reason.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            code: None,
            stuck: false,
        }
    }

    /// A failure with a more exact reason.
    pub fn failed_as(code: Code, why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            code: Some(code),
            stuck: false,
        }
    }

    /// A failure that is proved to stay.
    pub fn stuck(why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            code: None,
            stuck: true,
        }
    }

    /// No answer.
    pub fn unknown(asked: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unknown {
            asked: asked.into(),
            why: why.into(),
            code: None,
        }
    }

    /// The credential may not ask.
    pub fn refused(asked: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unknown {
            asked: asked.into(),
            why: why.into(),
            code: Some(Code::ProbeRefused),
        }
    }
}

/// An answer and when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// The answer.
    pub outcome: ProbeOutcome,
    /// When.
    pub at: Timestamp,
}

/// At rest a probe is asked at least this often, where its own period is not longer.
const AT_REST: Duration = Duration::from_secs(60);
/// The same for the disks: a full one has to be reported within a minute.
const DISKS_AT_REST: Duration = Duration::from_secs(45);
/// And at least once in this many of its periods.
const PERIODS_AT_REST: u32 = 4;

/// The pause between two questions of a wanted probe until its first answers count: the node is not Ready before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// What is rolled out takes minutes, and is believed to fail only after more failures than this.
const SOON_BELIEVED: u32 = 3;

impl ProbeSpec {
    /// The pause between two questions until its first answers count. A required probe keeps its period, and so does one of what is
    /// rolled out: after a restart of Windrow, a short outage must not count sooner.
    pub fn first_pause(&self) -> Duration {
        let is_hurried = self.severity == ProbeSeverity::Wanted
            && self.fall <= SOON_BELIEVED
            && !self.id.is_user();
        if is_hurried {
            self.period.min(FIRST_PAUSE)
        } else {
            self.period
        }
    }

    /// The longest pause between two questions while it goes on passing. Shorter than the silence that
    /// makes its last answer history ([`super::Track`]), and as configured for a probe of the
    /// configuration.
    pub fn rest(&self) -> Duration {
        if self.id.is_user() {
            return self.period;
        }
        let rest = self.period * PERIODS_AT_REST.min(self.fall + 1);
        let most = match self.code {
            Code::DiskLow | Code::InodesLow => DISKS_AT_REST,
            _ => AT_REST,
        };
        rest.min(most).max(self.period)
    }

    /// How long its last answer stands while none comes.
    pub(super) fn longest_silence(&self) -> Duration {
        (self.period + self.timeout) * (self.fall + 1)
    }

    /// Is it of use on such a node? See [`super::specs`].
    pub(super) fn applies(
        roles: &[NodeRole],
        only: Option<Platform>,
        role: NodeRole,
        platform: Option<Platform>,
    ) -> bool {
        roles.contains(&role) && (only.is_none() || only == platform)
    }
}
