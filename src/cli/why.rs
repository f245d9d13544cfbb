//! `windrow why`: the chain from a held thing to the root blocker.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::document::{self, age, means, now};
use super::{Context, Exit, style};
use crate::decide::{Blocker, HeldFile, Holder, Status};
use crate::render::{Style, wrap};

/// Show what a held file or object waits for, down to the root
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A manifest file, or an object: `Kind/namespace/name`, `Kind namespace/name` or a name
    #[arg(value_name = "FILE|OBJECT", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Explain from this status document, whoever wrote it and whenever
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let asked = args.what.join(" ");
    let (status, at) = match &args.status {
        // A document from elsewhere is explained as of the moment it speaks of.
        Some(path) => match document::read(path) {
            Ok(status) => {
                let at = last_moment(&status);
                (status, at)
            }
            Err(why) => {
                eprintln!("windrow: {why}");
                return Ok(Exit::Unknown);
            }
        },
        None => match document::current(context) {
            document::Found::Current(status) => (*status, now()),
            document::Found::Stale { why, .. } => {
                eprintln!("windrow: {why}");
                eprintln!("To explain an old document: windrow why --status FILE {asked}");
                return Ok(Exit::Unknown);
            }
        },
    };
    let Some(answer) = answer(&status, &asked, &context.manifests(), at) else {
        eprintln!(
            "windrow: nothing is known of {asked}: no manifest file of that name is staged, and no \
             held file has or needs such an object (windrow status lists the files)"
        );
        return Ok(Exit::Unknown);
    };
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&answer)?),
        Output::Text => print!("{}", people(&answer, at, style())),
    }
    Ok(answer.exit())
}

/// The latest moment that a document speaks of.
fn last_moment(status: &Status) -> Timestamp {
    let staging = &status.staging;
    let moments = staging.held.iter().map(|file| file.since);
    let moments = moments.chain(staging.applied.iter().map(|file| file.since));
    let moments = moments.chain(staging.released.iter().map(|file| file.since));
    moments.fold(status.since, Timestamp::max)
}

/// The answer, as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: &'static str,
    kind: &'static str,
    /// The files asked about; several when an object is needed by several.
    files: Vec<Explained>,
}

/// One file and why it is as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    file: String,
    /// `held`, `released`, `applied` or `failed`.
    state: &'static str,
    since: Timestamp,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Holder>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overdue: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<Step>,
    /// How to release it by hand; absent when there is nothing to release.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
}

/// One blocker, and what blocks that.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    #[serde(flatten)]
    blocker: Blocker,
    /// Is it a root: does nothing that is staged stand between it and being met?
    root: bool,
    /// The file that brings it, when that is held, released or failed itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<Box<Explained>>,
    /// It has been explained further up: the chain comes back to itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cycle: bool,
}

impl Answer {
    fn exit(&self) -> Exit {
        let has = |state: &str| self.files.iter().any(|file| file.state == state);
        if has("failed") {
            Exit::Failed
        } else if has("held") || has("released") {
            Exit::NotYet
        } else {
            Exit::Ok
        }
    }
}

fn answer(status: &Status, asked: &str, manifests: &Path, at: Timestamp) -> Option<Answer> {
    let mut files = files_named(status, asked, manifests);
    if files.is_empty() {
        files = files_about(status, asked);
    }
    let files: Vec<Explained> = files
        .iter()
        .filter_map(|file| explain(status, file, &mut Vec::new(), at))
        .collect();
    (!files.is_empty()).then_some(Answer {
        api_version: "windrow.dev/v1",
        kind: "Why",
        files,
    })
}

fn files_named(status: &Status, asked: &str, manifests: &Path) -> Vec<String> {
    let staging = &status.staging;
    let held = staging.held.iter().map(|file| &file.file);
    let rest = staging
        .released
        .iter()
        .chain(&staging.applied)
        .map(|file| &file.file);
    held.chain(rest)
        .chain(staging.failed.iter().map(|file| &file.file))
        .filter(|file| means(asked, file, manifests))
        .cloned()
        .collect()
}

/// Held files that have the object, or wait for it.
fn files_about(status: &Status, asked: &str) -> Vec<String> {
    let held = &status.staging.held;
    let having = held.iter().filter(|file| {
        file.blockers
            .iter()
            .any(|blocker| is_object(asked, &blocker.required_by))
    });
    let mut files: Vec<String> = having.map(|file| file.file.clone()).collect();
    if files.is_empty() {
        let needing = held
            .iter()
            .filter(|file| file.blockers.iter().any(|one| is_object(asked, &one.what)));
        files.extend(needing.map(|file| file.file.clone()));
    }
    files
}

/// Does what a person typed mean this object (`Kind namespace/name`, perhaps with more behind it)?
fn is_object(asked: &str, object: &str) -> bool {
    let object = object.strip_prefix("the kind ").unwrap_or(object);
    let mut words = object.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let name = words
        .next()
        .unwrap_or_default()
        .trim_end_matches([',', ':']);
    let asked: Vec<&str> = asked
        .split([' ', '/'])
        .filter(|part| !part.is_empty())
        .collect();
    let parts: Vec<&str> = std::iter::once(kind)
        .chain(name.split('/'))
        .filter(|part| !part.is_empty())
        .collect();
    if let [one] = asked[..] {
        return parts.last() == Some(&one);
    }
    asked.len() == parts.len()
        && asked
            .iter()
            .zip(&parts)
            .enumerate()
            .all(|(position, (asked, part))| match position {
                0 => asked.eq_ignore_ascii_case(part),
                _ => asked == part,
            })
}

fn explain(
    status: &Status,
    file: &str,
    above: &mut Vec<String>,
    at: Timestamp,
) -> Option<Explained> {
    let staging = &status.staging;
    let plain = |state, since, why: String| Explained {
        file: file.to_owned(),
        state,
        since,
        why,
        by: None,
        overdue: false,
        deadline: None,
        waits_for: Vec::new(),
        release: None,
    };
    if let Some(held) = staging.held.iter().find(|one| one.file == file) {
        return Some(explain_held(status, held, above, at));
    }
    if let Some(failed) = staging.failed.iter().find(|one| one.file == file) {
        let why = format!(
            "RKE2 cannot apply it: {}: {}",
            failed.reason, failed.message
        );
        return Some(plain("failed", failed.since, why));
    }
    if let Some(one) = staging.released.iter().find(|one| one.file == file) {
        let why = "RKE2 applies it at its next pass, within some 15 s".to_owned();
        return Some(plain("released", one.since, why));
    }
    let one = staging.applied.iter().find(|one| one.file == file)?;
    Some(plain(
        "applied",
        one.since,
        "RKE2 has applied it".to_owned(),
    ))
}

fn explain_held(
    status: &Status,
    held: &HeldFile,
    above: &mut Vec<String>,
    at: Timestamp,
) -> Explained {
    above.push(held.file.clone());
    let waits_for = held
        .blockers
        .iter()
        .map(|blocker| {
            let bringer = blocker.brought_by.as_deref();
            let cycle = bringer.is_some_and(|file| above.iter().any(|one| one == file));
            let because = match bringer {
                Some(file) if !cycle => explain(status, file, above, at)
                    .filter(|one| one.state != "applied")
                    .map(Box::new),
                _ => None,
            };
            Step {
                root: because.is_none() && !cycle,
                blocker: blocker.clone(),
                because,
                cycle,
            }
        })
        .collect();
    above.pop();
    let ours = held.by == Holder::Windrow;
    Explained {
        file: held.file.clone(),
        state: "held",
        since: held.since,
        why: held.why.clone(),
        by: Some(held.by),
        overdue: held.overdue,
        deadline: held.deadline,
        waits_for,
        release: ours.then(|| format!("windrow release {}", held.file)),
    }
}

/// The answer for people.
fn people(answer: &Answer, at: Timestamp, style: Style) -> String {
    let mut out = String::new();
    for (position, file) in answer.files.iter().enumerate() {
        if position > 0 {
            out.push('\n');
        }
        one_file(&mut out, file, 0, at, style);
        roots(&mut out, file, style);
        outlook(&mut out, file, at, style);
    }
    out
}

fn one_file(out: &mut String, file: &Explained, depth: usize, at: Timestamp, style: Style) {
    let state = match file.state {
        "held" => style.waiting("held"),
        "failed" => style.bad("failed"),
        "applied" => style.good("applied"),
        other => other.to_owned(),
    };
    let _ = writeln!(
        out,
        "{}{} is {state}, for {}",
        " ".repeat(depth),
        style.strong(&file.file),
        age(file.since, at)
    );
    if file.waits_for.is_empty() {
        lines(out, depth + 2, &file.why, style);
    }
    for step in &file.waits_for {
        one_step(out, step, depth + 2, at, style);
    }
}

fn one_step(out: &mut String, step: &Step, depth: usize, at: Timestamp, style: Style) {
    let blocker = &step.blocker;
    let verb = match blocker.tier {
        crate::rules::Tier::Required => "needs",
        crate::rules::Tier::Advisory => "comes after",
    };
    lines(
        out,
        depth,
        &format!("{verb} {} ({})", blocker.what, blocker.condition),
        style,
    );
    lines(out, depth + 4, &blocker.message, style);
    lines(
        out,
        depth + 4,
        &format!(
            "asked for by {}; {} at {}",
            blocker.required_by, blocker.origin.rule, blocker.origin.at
        ),
        style,
    );
    match (&step.because, &blocker.brought_by) {
        (Some(because), _) => one_file(out, because, depth + 4, at, style),
        (None, Some(file)) if step.cycle => lines(
            out,
            depth + 4,
            &format!("{file} brings it, which waits for this one: a cycle"),
            style,
        ),
        (None, Some(file)) => lines(out, depth + 4, &format!("{file} brings it"), style),
        (None, None) => {}
    }
}

/// The blockers that nothing staged stands behind.
fn roots(out: &mut String, file: &Explained, style: Style) {
    let mut found = Vec::new();
    collect_roots(file, &mut found);
    for message in found {
        lines(out, 0, &format!("Root: {message}"), style);
    }
}

fn collect_roots(file: &Explained, found: &mut Vec<String>) {
    for step in &file.waits_for {
        if step.root && !found.contains(&step.blocker.message) {
            found.push(step.blocker.message.clone());
        }
        if let Some(because) = &step.because {
            if because.waits_for.is_empty() {
                let message = format!("{} is {}: {}", because.file, because.state, because.why);
                if !found.contains(&message) {
                    found.push(message);
                }
            }
            collect_roots(because, found);
        }
    }
}

/// What will become of it, and what a person can do.
fn outlook(out: &mut String, file: &Explained, at: Timestamp, style: Style) {
    if file.state != "held" {
        return;
    }
    let when = match (file.by, file.deadline) {
        (Some(Holder::Other), _) => {
            "Windrow did not make this marker and leaves it alone; whoever made it removes it."
                .to_owned()
        }
        _ if file.overdue => {
            "Its deadline has passed; it stays held because releasing it would do harm.".to_owned()
        }
        (_, Some(deadline)) if deadline > at => format!(
            "Released when that is met, or in {} at the latest ({deadline}).",
            age(at, deadline)
        ),
        _ if file.waits_for.is_empty() => "Held until it is released.".to_owned(),
        _ => "Released the moment that is met.".to_owned(),
    };
    lines(out, 0, &when, style);
    if let Some(command) = &file.release {
        lines(out, 0, &format!("By hand: {command}"), style);
    }
}

fn lines(out: &mut String, depth: usize, text: &str, style: Style) {
    for line in wrap(text, style.width.saturating_sub(depth).max(40)) {
        let _ = writeln!(out, "{}{line}", " ".repeat(depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_meant_in_every_way_that_people_write_it() {
        let object = "VirtualMachine shop/till, line 3";
        for asked in [
            "VirtualMachine/shop/till",
            "virtualmachine shop/till",
            "VirtualMachine shop till",
            "till",
        ] {
            assert!(is_object(asked, object), "{asked}");
        }
        for asked in [
            "shop",
            "VirtualMachine/till",
            "Secret/shop/till",
            "VirtualMachine/x/till",
        ] {
            assert!(!is_object(asked, object), "{asked}");
        }
        assert!(is_object(
            "VirtualMachine.kubevirt.io",
            "the kind VirtualMachine.kubevirt.io"
        ));
    }
}
