//! The time on the sandbox's node, for the verbs that show how long something has lasted there: the node's clock runs
//! faster than the machine's, and it can be stopped.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::daemon::Clock;
use crate::files::{Durability, replace};
use crate::fs;
use crate::layout::Layout;

/// Both clocks at one moment, and how they go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTime {
    node: Timestamp,
    machine: Timestamp,
    /// How much faster the node's clock runs; 0 while it is stopped.
    speed: u32,
}

impl NodeTime {
    fn of(clock: &Clock) -> Self {
        let speed = match clock.is_stopped() {
            true => 0,
            false => clock.speed(),
        };
        Self {
            node: clock.now(),
            machine: Timestamp::now(),
            speed,
        }
    }

    /// Writes it below the sandbox's root. Only shown ages depend on it, so an error does not matter.
    pub fn write(clock: &Clock, layout: &Layout) {
        if let Ok(text) = serde_json::to_vec(&Self::of(clock)) {
            let _ = replace(&layout.sandbox_time(), &text, 0o644, Durability::Volatile);
        }
    }

    /// The time that a sandbox has written below this root.
    pub fn read(layout: &Layout) -> Option<Self> {
        let text = fs::read(layout.sandbox_time()).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The node's time when the machine's clock shows this.
    pub fn at(&self, machine: Timestamp) -> Timestamp {
        let ran = machine
            .duration_since(self.machine)
            .max(SignedDuration::ZERO);
        let ran = ran.checked_mul(i32::try_from(self.speed).unwrap_or(i32::MAX));
        let at = ran.and_then(|ran| self.node.checked_add(ran).ok());
        at.unwrap_or(self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_node_runs_as_its_clock_does_and_stands_where_that_stands() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert_eq!(NodeTime::read(&layout), None);
        fs::create_dir_all(layout.run_dir()).unwrap();
        let clock = Clock::sped_up(60);
        NodeTime::write(&clock, &layout);
        let time = NodeTime::read(&layout).unwrap();
        let minute = SignedDuration::from_mins(1);
        assert_eq!(time.at(time.machine), time.node);
        assert_eq!(time.at(time.machine + minute), time.node + minute * 60);
        clock.stop();
        NodeTime::write(&clock, &layout);
        let time = NodeTime::read(&layout).unwrap();
        assert_eq!(time.at(time.machine + minute), clock.now());
    }
}
