//! rancherd, which makes a Harvester node part of its cluster: whether it has ended, and otherwise its current step.
//!
//! Its files contain the cluster token: they are examined from outside, and never opened. Its progress shows in the
//! directories that it creates for each instruction of its plan, and in known lines of its journal.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::process::Command;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;

use super::context::ProbeContext;

use crate::fs;

const UNIT: &str = "rancherd.service";
const PATIENCE: Duration = Duration::from_secs(3);
/// Its longest steps wait for others, and take minutes.
const PAUSES: SignedDuration = SignedDuration::from_mins(15);
const LONGEST_LINE: usize = 200;
/// How its lines about a step begin (rancherd's pkg/rancherd, pkg/plan, pkg/probe). No other line is shown.
const TOLD: &[&str] = &[
    "Loading config file [",
    "No role defined",
    "Bootstrapping Rancher (",
    "Writing plan file to",
    "Applying plan with checksum",
    "No image provided, creating empty working directory",
    "[stdout]: ",
    "Running probes defined in",
    "Probe [",
    "All probes are healthy",
    "will retry failed command [",
    "failed to bootstrap system, will retry: ",
    "Successfully Bootstrapped Rancher",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instruction {
    number: u32,
    begun: Timestamp,
}

pub(super) async fn bootstrapped(context: &ProbeContext) -> ProbeOutcome {
    let directory = context.layout().path("/var/lib/rancher/rancherd");
    match fs::try_exists(directory.join("bootstrapped")) {
        Ok(true) => return ProbeOutcome::Passed,
        Ok(false) => {}
        Err(error) => {
            return ProbeOutcome::unknown(directory.display().to_string(), error.to_string());
        }
    }
    let unit = match context.bus.unit(UNIT).await {
        Ok(unit) => unit,
        Err(why) => return ProbeOutcome::unknown(format!("systemd about {UNIT}"), why),
    };
    let state = match (unit.load.as_str(), unit.active.as_str()) {
        // On an image without rancherd, another program makes the node part of a cluster.
        ("not-found", _) => return ProbeOutcome::Passed,
        (_, "failed") => format!("{UNIT} failed ({})", unit.result),
        (_, "inactive") => {
            let queued = unit.queued();
            let why = queued.map_or_else(String::new, |why| format!(": {why}"));
            format!("{UNIT} does not run{why}")
        }
        (_, "active") => "it ended without a bootstrap".to_owned(),
        _ => running(instruction(&directory), (context.now)()),
    };
    ProbeOutcome::failed(match last_line(&context.endpoints.journalctl).await {
        Some(line) => format!("{state}; its journal: {line}"),
        None => state,
    })
}

fn running(instruction: Option<Instruction>, now: Timestamp) -> String {
    match instruction {
        None => "it has begun no instruction yet".to_owned(),
        Some(Instruction { number, begun }) => {
            let still = match now.duration_since(begun) >= PAUSES {
                true => ", for more than 15 minutes",
                false => "",
            };
            format!("instruction {number} of its plan has run since {begun}{still}")
        }
    }
}

/// The instruction that runs: the highest of the newest try. Each gets a directory when it begins.
fn instruction(directory: &Path) -> Option<Instruction> {
    let tries = names(&directory.join("plan/work"));
    // Their names begin with the date.
    let newest = tries
        .into_iter()
        .filter(|name| name.ends_with("-applied.plan"))
        .max()?;
    let newest = directory.join("plan/work").join(newest);
    let number = names(&newest)
        .iter()
        .filter_map(|name| name.strip_prefix('_')?.parse().ok())
        .max()?;
    let found = fs::metadata(newest.join(format!("_{number}"))).ok()?;
    let begun = Timestamp::try_from(found.modified().ok()?).ok()?;
    let begun = Timestamp::from_second(begun.as_second()).ok()?;
    Some(Instruction { number, begun })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The last line of its journal about a step.
async fn last_line(journalctl: &str) -> Option<String> {
    let mut command = Command::new(journalctl);
    command
        .args(["-u", UNIT, "-o", "cat", "-n", "40", "--no-pager", "--quiet"])
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    step_in(&String::from_utf8_lossy(&output.ok()?.ok()?.stdout))
}

fn step_in(journal: &str) -> Option<String> {
    let mut said = journal.lines().rev().map(message);
    let line = said.find(|line| TOLD.iter().any(|start| line.starts_with(start)))?;
    let line: String = redact::message(&line)
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one })
        .take(LONGEST_LINE)
        .collect();
    Some(line)
}

/// The message of `time="…" level=info msg="…"`; any other line is a message as a whole.
fn message(line: &str) -> String {
    match line.split_once("msg=\"") {
        Some((_, rest)) => rest.trim_end().trim_end_matches('"').replace("\\\"", "\""),
        None => line.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_tells_a_step_is_shown_and_no_other() {
        let journal = "\
time=\"2026-11-22T10:00:00Z\" level=info msg=\"Applying plan with checksum 12ab\"
time=\"2026-11-22T10:00:01Z\" level=error msg=\"will retry failed command [kubectl get \\\"x\\\"]: exit status 1\"
time=\"2026-11-22T10:00:02Z\" level=info msg=\"token: K10abcdef::server:s3cret\"
";
        assert_eq!(
            step_in(journal).as_deref(),
            Some("will retry failed command [kubectl get \"x\"]: exit status 1")
        );
        assert_eq!(step_in("token K10abcdef::server:s3cret\n"), None);
        let long = step_in(&format!("[stdout]: {}\n", "word ".repeat(100))).unwrap();
        assert_eq!(long.chars().count(), LONGEST_LINE);
    }

    #[test]
    fn the_instruction_that_runs_is_the_highest_of_the_newest_try() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(instruction(place.path()), None);
        let work = place.path().join("plan/work");
        for directory in [
            "20261121-100000-applied.plan/_12",
            "20261122-100000-applied.plan/_9",
            "20261122-100000-applied.plan/_10",
            "20261123-100000-other/_30",
        ] {
            std::fs::create_dir_all(work.join(directory)).unwrap();
        }
        let found = instruction(place.path()).unwrap();
        assert_eq!(found.number, 10);
        let since = format!("instruction 10 of its plan has run since {}", found.begun);
        let at = |minutes| {
            running(
                Some(found),
                found.begun + SignedDuration::from_mins(minutes),
            )
        };
        assert_eq!(at(14), since);
        assert_eq!(at(15), format!("{since}, for more than 15 minutes"));
    }
}
