//! `windrow replay`: replays a flight. The same observations go into the same core, and its decisions are compared with
//! the recorded ones.

mod with_version;

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windrow_decide::Status;
use windrow_decide::flight::RecordedDecision;
use windrow_harvester::HarvesterVersion;
use windrow_plan::rules::{RuleSet, parse_duration};
use windrow_plan::version::Version;
use windrow_replay::{
    ChangedTimes, Difference, Flights, Replay, ReplayedDecision, Segment, changes, recorded_times,
};

use self::with_version::OtherVersion;
use super::inputs::{is_standard_input, rule_files};
use super::out::{print_whole, write_out};
use super::output::Output;
use super::recordings::{Unreadable, read};
use super::{Context, Exit, complain, why};

/// Replay recorded decisions, and compare the results
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A boot log (`/var/lib/rancher/windrow/flight.jsonl` or a copy), an archive of `windrow report`, or `-`
    #[arg(value_name = "FLIGHT")]
    flight: PathBuf,
    /// Only this one of several recordings in the file, counted from 1; each start of the daemon begins
    /// a new one
    #[arg(long, value_name = "N")]
    number: Option<usize>,
    /// Stop after each decision until you press Enter (q quits)
    #[arg(long)]
    step: bool,
    /// Stop before the first decision after this time or this duration since the recording began
    /// (`2026-01-01T00:05:00Z`, `4m30s`), and show the state
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Until>,
    /// Explain this file or object in its state at the end, or at the time of --until
    #[arg(long, value_name = "FILE|OBJECT")]
    why: Option<String>,
    /// A directory or file with additional rule packs; can be repeated. Shows the holds and releases with them; a pack
    /// replaces the recorded pack of the same name
    #[arg(long, value_name = "PATH", conflicts_with = "step")]
    rules: Vec<PathBuf>,
    /// Harvester's version: simulate the recorded files with this version instead of replaying the decisions
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["step", "rules", "rke2", "until", "why"])]
    harvester: Option<HarvesterVersion>,
    /// RKE2's version: the same for the files of a node without Harvester
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["step", "rules", "until", "why"])]
    rke2: Option<Version>,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

#[derive(Debug, Clone, Copy)]
enum Until {
    At(Timestamp),
    After(SignedDuration),
}

fn until(text: &str) -> Result<Until, String> {
    if let Ok(at) = text.parse() {
        return Ok(Until::At(at));
    }
    let after = parse_duration(text).map_err(|_| {
        format!("`{text}` is neither a time (2026-01-01T00:05:00Z) nor a duration (4m30s)")
    })?;
    SignedDuration::try_from(after)
        .map(Until::After)
        .map_err(|error| error.to_string())
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    api_version: &'static str,
    kind: &'static str,
    flights: Vec<Flown>,
    damage: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Flown {
    at: Timestamp,
    windrow: String,
    decisions: usize,
    differences: Vec<Different>,
    /// Files with too little recorded data for a certain replay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// With other rules: files that would have been held or released at other times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<ChangedTimes>,
}

#[derive(Debug, Serialize)]
struct Different {
    line: usize,
    at: Timestamp,
    #[serde(flatten)]
    difference: Difference,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.step && is_standard_input(&args.flight) {
        complain(&["--step waits for Enter on standard input: write the boot log to a file"]);
        return Ok(Exit::Usage);
    }
    let flights = match read(&args.flight) {
        Ok(flights) => flights,
        Err(Unreadable { why, exit }) => {
            complain(&[why]);
            return Ok(exit);
        }
    };
    complain(&flights.damage);
    let Some(segments) = chosen(&flights, args.number) else {
        complain(&[format!(
            "{} has {} recordings; --number counts from 1",
            args.flight.display(),
            flights.segments.len()
        )]);
        return Ok(Exit::Usage);
    };
    if let Some(version) = OtherVersion::of(&args) {
        return with_version::rehearse_recorded(segments, version, args.output);
    }
    let further = match packs(&args.rules) {
        Ok(further) => further,
        Err(errors) => {
            complain(&errors);
            return Ok(Exit::Configuration);
        }
    };
    let mut show = Show {
        args: &args,
        context,
        begun: segments[0].head.at,
        stopped: false,
    };
    let mut flown = Vec::new();
    for segment in segments {
        flown.push(show.fly(segment, &further)?);
        if show.stopped {
            break;
        }
    }
    if args.output != Output::Table {
        let report = Report {
            api_version: "windrow.dev/v1",
            kind: "Replay",
            flights: flown,
            damage: flights.damage.clone(),
        };
        print_whole(&args.output.render(&report, String::new)?)?;
        return Ok(verdict(&report.flights));
    }
    Ok(verdict(&flown))
}

/// All compared decisions are equal. Without a comparison, the result is unknown.
fn verdict(flown: &[Flown]) -> Exit {
    let same = flown.iter().all(|flown| flown.differences.is_empty());
    let decisions: usize = flown.iter().map(|flown| flown.decisions).sum();
    match (same, decisions) {
        (true, 0) => {
            eprintln!("windrow: nothing was compared: the boot log has no decision");
            Exit::Unknown
        }
        (true, _) => Exit::Ok,
        (false, _) => Exit::Failed,
    }
}

fn chosen(flights: &Flights, number: Option<usize>) -> Option<&[Segment]> {
    match number {
        None => Some(&flights.segments),
        Some(number) => flights
            .segments
            .get(number.checked_sub(1)?..number)
            .filter(|chosen| !chosen.is_empty()),
    }
}

/// Rule packs by their base names; all their errors are printed before anything is replayed.
fn packs(paths: &[PathBuf]) -> Result<Vec<(String, String)>, Vec<String>> {
    let mut packs = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        match rule_files(path) {
            Ok(files) => packs.extend(files),
            Err(error) => errors.push(format!("{}: cannot be read: {error}", path.display())),
        }
    }
    // A pack may change rules that come with Windrow.
    let shipped = RuleSet::shipped_sources().into_iter();
    let all: Vec<_> = shipped.chain(packs.iter().cloned()).collect();
    errors.extend(RuleSet::load(&all).1.iter().map(ToString::to_string));
    if errors.is_empty() {
        Ok(packs)
    } else {
        Err(errors)
    }
}

struct Show<'a> {
    args: &'a Args,
    context: &'a Context,
    begun: Timestamp,
    stopped: bool,
}

impl Show<'_> {
    fn fly(&mut self, segment: &Segment, further: &[(String, String)]) -> anyhow::Result<Flown> {
        let other = !self.args.rules.is_empty();
        let mut replay = match other {
            true => Replay::with_rules(segment, further.to_vec()),
            false => Replay::new(segment),
        };
        let mut flown = Flown {
            at: segment.head.at,
            windrow: segment.head.windrow.clone(),
            decisions: 0,
            differences: Vec::new(),
            left_out: Vec::new(),
            changes: Vec::new(),
        };
        self.say(&format!(
            "Recording of windrow {} from {}",
            flown.windrow, flown.at
        ))?;
        let mut last: Option<(Timestamp, Status)> = None;
        while let Some(moment) = replay.step().map_err(anyhow::Error::msg)? {
            if self.is_late(moment.recorded.at) {
                self.stopped = true;
                break;
            }
            flown.decisions += 1;
            if !other {
                self.moment(&moment)?;
            }
            let at = moment.recorded.at;
            flown
                .differences
                .extend(moment.differences.into_iter().map(|difference| Different {
                    line: moment.line,
                    at,
                    difference,
                }));
            last = Some((at, moment.decision.status));
            if self.args.step && !self.go_on()? {
                self.stopped = true;
                break;
            }
        }
        flown.left_out.clone_from(&replay.left_out);
        if other {
            flown.changes = changes(&recorded_times(segment), &replay.times());
            self.instead(&flown)?;
        } else {
            self.end(&flown)?;
        }
        if let Some((at, status)) = last {
            self.stand(at, &status)?;
        }
        Ok(flown)
    }

    fn is_late(&self, at: Timestamp) -> bool {
        match self.args.until {
            None => false,
            Some(Until::At(until)) => at > until,
            Some(Until::After(after)) => at.duration_since(self.begun) > after,
        }
    }

    fn say(&self, line: &str) -> std::io::Result<()> {
        if self.args.output != Output::Table {
            return Ok(());
        }
        write_out(&format!("{line}\n"));
        Ok(())
    }

    fn moment(&self, moment: &ReplayedDecision<'_>) -> std::io::Result<()> {
        let RecordedDecision {
            at,
            events,
            actions,
            summary,
            ..
        } = moment.recorded;
        let time = self.time(*at);
        self.say(&format!("{time}  {summary}"))?;
        for told in events {
            self.say(&format!("{:8}  {}: {}", "", told.code, told.message))?;
        }
        for action in actions.iter().filter(|action| action.path.is_some()) {
            let not = if action.done { "" } else { " (not done)" };
            let path = action.path.as_deref().unwrap_or_default();
            self.say(&format!("{:8}  {} {path}{not}", "", action.what))?;
        }
        for difference in &moment.differences {
            self.say(&format!(
                "{:8}  DIFFERENT: {}: recorded {}, now {}",
                "", difference.what, difference.recorded, difference.replayed
            ))?;
        }
        Ok(())
    }

    fn time(&self, at: Timestamp) -> String {
        let seconds = at.duration_since(self.begun).as_secs();
        format!("{:5}:{:02}", seconds / 60, seconds.rem_euclid(60))
    }

    fn end(&self, flown: &Flown) -> std::io::Result<()> {
        let Flown {
            decisions,
            differences,
            left_out,
            ..
        } = flown;
        self.say(&match differences.len() {
            0 => format!("\n{decisions} decisions, all of them as recorded."),
            count => format!(
                "\n{decisions} decisions. NOT THE SAME: {count} differences. This program decides differently from the program that wrote \
                 the boot log (windrow {}), or a file's objects were omitted.",
                flown.windrow
            ),
        })?;
        for file in left_out {
            self.say(&format!("Not recorded in full: {file}"))?;
        }
        Ok(())
    }

    fn instead(&self, flown: &Flown) -> std::io::Result<()> {
        if flown.changes.is_empty() {
            return self.say("\nWith these rules, every file is held and released as recorded.");
        }
        self.say("\nWith these rules, and the recorded cluster:")?;
        let times = |times: &windrow_replay::FileTimes| {
            let at = |at: Option<Timestamp>| at.map(|at| self.time(at).trim().to_owned());
            let code = times
                .code
                .map_or_else(String::new, |code| format!(" ({code})"));
            match (at(times.held), at(times.released)) {
                (None, None) => "not staged".to_owned(),
                (None, Some(released)) => format!("free at {released}"),
                (Some(held), None) => format!("held from {held}{code}, never released"),
                (Some(held), Some(released)) => {
                    format!("held {held} to {released}{code}")
                }
            }
        };
        for change in &flown.changes {
            self.say(&format!(
                "  {}\n      was      {}\n      instead  {}",
                change.file,
                times(&change.recorded),
                times(&change.instead)
            ))?;
        }
        Ok(())
    }

    fn stand(&self, at: Timestamp, status: &Status) -> std::io::Result<()> {
        if let Some(asked) = &self.args.why {
            let manifests = self.context.layout.manifests();
            return match why::from(status, asked, &manifests, at) {
                Some(text) => self.say(&format!("\n{text}")),
                None => self.say(&format!(
                    "\nThe boot log has nothing about {asked} at this time."
                )),
            };
        }
        if self.args.until.is_none() {
            return Ok(());
        }
        self.say(&format!(
            "\nAt {at}: {}\n  {}",
            status.summary, status.reason.message
        ))?;
        for file in &status.staging.not_held {
            self.say(&format!("  not held: {}: {}", file.file, file.error))?;
        }
        for held in &status.staging.held {
            self.say(&format!("  held: {}: {}", held.file, held.why))?;
        }
        Ok(())
    }

    fn go_on(&self) -> std::io::Result<bool> {
        if std::io::stdin().is_terminal() {
            eprint!("-- Enter: next decision, q: quit --");
        }
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line)?;
        Ok(read > 0 && line.trim() != "q")
    }
}
