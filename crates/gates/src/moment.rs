//! A moment of one boot, by a clock that nobody sets.
//!
//! The wall clock of a machine may be wrong until it has asked a time server. And what took long because the machine was off says
//! nothing about RKE2.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootMoment {
    /// Identifies the boot.
    pub boot: String,
    /// Seconds since it began.
    pub seconds: u64,
}

impl BootMoment {
    /// How much later another moment is; `None` if it belongs to another boot.
    pub fn until(&self, later: &BootMoment) -> Option<Duration> {
        let seconds = later.seconds.saturating_sub(self.seconds);
        (self.boot == later.boot).then(|| Duration::from_secs(seconds))
    }
}
