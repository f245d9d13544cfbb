//! The sandbox's output at its end.

use std::io::{self, Write};

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Cause, Readiness, Status, sentence};
use windrow_simulate::{BootstrapVerdict, without_windrow};

use super::Sandbox;

impl Sandbox {
    pub(super) fn summary(
        &mut self,
        status: Option<&Status>,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let outcome = self.node.outcome(&self.files);
        self.write_holds(out)?;
        let held = self.still_held();
        let is_complete = outcome.verdict == BootstrapVerdict::Complete && held.is_empty();
        let verdict_with = match outcome.verdict {
            BootstrapVerdict::Complete if !is_complete => {
                format!(
                    "the node comes up, and this stays held: {}",
                    held.join(", ")
                )
            }
            ref other => verdict(other),
        };
        writeln!(out, "\nWith Windrow\n  {verdict_with}")?;
        for (machine, state) in &outcome.machines {
            writeln!(out, "  {machine}: {state}")?;
        }
        if let Some(status) = status {
            writeln!(out, "  Windrow's last word: {}", last_word(status))?;
        }
        let alone = without_windrow(&self.setup, self.seed);
        writeln!(
            out,
            "\nWithout Windrow\n  {}",
            verdict(&alone.outcome.verdict)
        )?;
        for (machine, state) in &alone.outcome.machines {
            let state = if state.is_empty() { "no status" } else { state };
            writeln!(out, "  {machine}: {state}")?;
        }
        let (with, without) = (self.node.counts(), alone.counts);
        writeln!(
            out,
            "\nRKE2 applied files {} times with Windrow ({} failed), {} times without ({} failed).",
            with.applies, with.failed, without.applies, without.failed
        )?;
        for point in &self.pauses {
            writeln!(
                out,
                "The node never came to --pause-at {}.",
                point.describe()
            )?;
        }
        Ok(is_complete)
    }

    fn still_held(&self) -> Vec<&str> {
        let held = self.held.iter().filter(|(_, hold)| hold.until.is_none());
        held.map(|(file, _)| file.as_str()).collect()
    }

    fn write_holds(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\nWhat Windrow held")?;
        if self.order.is_empty() {
            writeln!(out, "  nothing: every file could be applied at once")?;
        }
        for file in &self.order {
            if let Some(hold) = self.held.get(file) {
                let cause = match hold.cause {
                    Some(Cause::Met) => ": all its dependencies were there",
                    Some(Cause::Yielded) => ": its other dependencies only decide the order",
                    _ => "",
                };
                let until = hold.until.map_or_else(
                    || "still held".to_owned(),
                    |until| format!("released {}{cause}", since(self.start, until)),
                );
                writeln!(out, "  {file}")?;
                writeln!(out, "      held {}, {until}", since(self.start, hold.since))?;
                for why in &hold.whys {
                    writeln!(out, "      - {why}")?;
                }
            }
        }
        Ok(())
    }
}

fn last_word(status: &Status) -> String {
    let word = sentence::word(status);
    match status.readiness {
        Readiness::Ready => word.to_owned(),
        _ => format!("{word}: {}", status.reason.message),
    }
}

fn verdict(verdict: &BootstrapVerdict) -> String {
    match verdict {
        BootstrapVerdict::Complete => "the node comes up, and everything is applied".to_owned(),
        BootstrapVerdict::Underway => "things were still happening".to_owned(),
        BootstrapVerdict::Unconfigured { because } => format!(
            "it comes up, but the storage network you preset is never configured:\n    {}",
            because.join("\n    ")
        ),
        BootstrapVerdict::Stuck { missing } => {
            format!("it is stuck:\n    {}", missing.join("\n    "))
        }
        BootstrapVerdict::Deadlocked { proof } => {
            format!("it never comes up:\n    {}", proof.join("\n    "))
        }
    }
}

/// Minutes and seconds since the node was switched on.
pub(super) fn since(start: Timestamp, at: Timestamp) -> String {
    let passed: SignedDuration = at.duration_since(start);
    let seconds = passed.as_secs().max(0);
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}
