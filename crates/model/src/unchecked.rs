//! What no rule judged. A verdict covers only the rest, so it is listed beside the verdict.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::Location;

/// Something in an input that no rule judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotChecked {
    /// What it is.
    pub what: String,
    /// Why no rule judged it.
    pub why: String,
    /// The most that a wrong value can stop.
    pub can_stop: CanStop,
    /// Its places.
    pub at: Vec<Location>,
}

/// What a wrong value can stop. A greater value is worse.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum CanStop {
    /// Only what it is itself: an object, the contents of a chart, a file of another program.
    Itself,
    /// A component of Kubernetes, or RKE2. The verdict is unknown at best.
    Component,
}

/// Why a text is not checked that no program refuses.
pub const ANY_TEXT: &str = "any text is accepted, right or wrong";

impl NotChecked {
    /// Whether it can keep the node from coming up.
    pub fn can_stop_the_node(&self) -> bool {
        self.can_stop >= CanStop::Component
    }
}

impl fmt::Display for NotChecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at.first() {
            write!(f, "{at}")?;
            if self.at.len() > 1 {
                write!(f, " and {} more", self.at.len() - 1)?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}: {}", self.what, self.why)
    }
}
