//! A moment of one boot, by a clock that is never set.
//!
//! The wall clock of a node may be wrong until it has synchronised with a time server. And time during which the node
//! was off does not count as a delay of RKE2.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootMoment {
    /// The kernel's id of the boot.
    pub boot: String,
    /// Seconds since it began.
    pub seconds: u64,
}

impl BootMoment {
    /// The time from this moment to `later`; `None` if that belongs to another boot.
    pub fn until(&self, later: &BootMoment) -> Option<Duration> {
        let seconds = later.seconds.saturating_sub(self.seconds);
        (self.boot == later.boot).then(|| Duration::from_secs(seconds))
    }
}
