//! Probes and their answers.

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

/// Name of a probe: a built-in name, or `user/NAME` for one from the configuration.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ProbeId(Cow<'static, str>);

impl ProbeId {
    pub const fn builtin(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    pub fn user(name: &str) -> Self {
        Self(Cow::Owned(format!("user/{name}")))
    }

    pub fn is_user(&self) -> bool {
        self.0.starts_with("user/")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Consequence of a failed probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeSeverity {
    /// The node is not Ready.
    Required,
    /// The node works, but with a problem.
    Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeSpec {
    pub id: ProbeId,
    pub period: Duration,
    pub timeout: Duration,
    /// Consecutive passes after which it is passing.
    pub rise: u32,
    /// Consecutive failures after which it is failing, or consecutive unknown answers after which it is unknown.
    pub fall: u32,
    pub severity: ProbeSeverity,
    /// The bootstrap phase that waits for it.
    pub phase: Phase,
    /// The reason code of a failure.
    pub code: Code,
    /// Whether it counts only until the node was installed once.
    pub day_zero: bool,
    /// The line of the configuration that switches it off. It is then Unknown and does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Location>,
    /// Its limit in words; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    Passed,
    Failed {
        /// The problem in one line. Figures in it are rounded, so that it does not change with every answer.
        why: String,
        /// A more exact reason than the probe's own.
        code: Option<Code>,
        /// Whether it is proved to require a repair.
        stuck: bool,
    },
    /// There is no usable answer: refused, timed out, invalid.
    Unknown {
        /// The request and its target.
        asked: String,
        /// The reason why there is no answer.
        why: String,
        /// A more exact reason than the missing answer.
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

    /// A failure that is proved to be permanent.
    pub fn stuck(why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            code: None,
            stuck: true,
        }
    }

    pub fn unknown(asked: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unknown {
            asked: asked.into(),
            why: why.into(),
            code: None,
        }
    }

    /// The credential lacks the permission.
    pub fn refused(asked: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unknown {
            asked: asked.into(),
            why: why.into(),
            code: Some(Code::ProbeRefused),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    pub outcome: ProbeOutcome,
    pub at: Timestamp,
}

/// At rest a probe runs at least this often, unless its own period is longer.
const AT_REST: Duration = Duration::from_secs(60);
/// The limit for the disk probes: a full disk must be reported within a minute.
const DISKS_AT_REST: Duration = Duration::from_secs(45);
/// At rest a probe runs at least once in this many of its periods.
const PERIODS_AT_REST: u32 = 4;

/// The pause between two checks of a wanted probe until its first answers count, because the node is not Ready before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// A rollout takes minutes, so probes of rolled-out targets require more failures than this.
const SOON_BELIEVED: u32 = 3;

impl ProbeSpec {
    /// The pause between two checks until the first answers count. Required probes and probes of rolled-out targets keep their
    /// period, so that a short outage does not count sooner after a restart of Windrow.
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

    /// The longest pause between two checks while it passes. It is shorter than the silence that invalidates its last answer
    /// ([`super::Track`]). A configured probe keeps its configured period.
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

    /// How long its last answer remains valid without a new one.
    pub(super) fn longest_silence(&self) -> Duration {
        (self.period + self.timeout) * (self.fall + 1)
    }

    /// Whether it applies to such a node. See [`super::specs`].
    pub(super) fn applies(
        roles: &[NodeRole],
        only: Option<Platform>,
        role: NodeRole,
        platform: Option<Platform>,
    ) -> bool {
        roles.contains(&role) && (only.is_none() || only == platform)
    }
}
