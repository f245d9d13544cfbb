//! Converts the end of a rehearsal into findings, with a code, a location and advice like all others.

use std::collections::BTreeMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::super::delay::Delay;
use super::super::rehearsal::{EndCount, Ending, NodeRehearsal, Span};

/// A rehearsal that ended before it had played all of its seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutShort {
    pub played: u64,
    /// The requested number of seeds.
    pub seeds: u64,
    /// The time limit, in words.
    pub time: String,
}

/// The maximum number of files, or reasons, in a message.
const NAMED: usize = 3;

/// The findings about the end of one node. `files` gives the position of each manifest for the user, and `machines` that of each
/// VM.
pub(super) fn findings(
    node: &NodeRehearsal,
    files: &BTreeMap<ManifestPath, Location>,
    machines: &BTreeMap<String, Location>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = node.beyond.iter().map(|why| beyond(why)).collect();
    let unread = node.findings.iter();
    found.extend(
        unread
            .filter(|one| one.code == Code::VersionUnread)
            .cloned(),
    );
    for end in &node.with.ends {
        let code = match end.verdict {
            Ending::Complete => continue,
            Ending::Unknown => Code::BootUnknown,
            _ => Code::BootUnfinished,
        };
        let at = unapplied(node).filter_map(|path| files.get(path).cloned());
        let starting = end
            .because
            .iter()
            .filter_map(|line| machine_in(line, machines));
        let at = at.chain(starting);
        found.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: code.say(&[("how", &describe(end, node.seeds))]),
            at: at.collect(),
        });
    }
    found.extend(noise(node, files));
    found.extend(node.delay.as_ref().map(|delay| slower(delay, files)));
    found
}

/// The finding about a bootstrap that takes longer with Windrow.
fn slower(delay: &Delay, files: &BTreeMap<ManifestPath, Location>) -> Finding {
    let code = Code::BootSlower;
    let Span { from, to } = delay.in_boots.nine_of_ten;
    let seconds = match (from.round(), to.round()) {
        (from, to) if from == to => format!("{to:.0}"),
        (from, to) => format!("{from:.0} to {to:.0}"),
    };
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[("file", &delay.file), ("seconds", &seconds)]),
        at: files.get(&delay.file).cloned().into_iter().collect(),
    }
}

pub(super) fn cut_short(cut: &CutShort) -> Finding {
    let code = Code::RehearsalCutShort;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[
            ("time", &cut.time),
            ("played", &cut.played.to_string()),
            ("seeds", &cut.seeds.to_string()),
        ]),
        at: Vec::new(),
    }
}

/// The finding about a version without a model.
fn beyond(why: &str) -> Finding {
    Finding {
        incident: None,
        code: Code::BootUnknown,
        severity: Code::BootUnknown.severity(),
        message: Code::BootUnknown.say(&[("how", why)]),
        at: Vec::new(),
    }
}

fn describe(end: &EndCount, seeds: u64) -> String {
    let how_often = match end.seeds == seeds {
        true => "in every simulated boot".to_owned(),
        false => format!("in {} of {seeds} simulated boots (a race)", end.seeds),
    };
    let because = match end.because.is_empty() {
        true => String::new(),
        false => {
            let named: Vec<&str> = end.because.iter().take(NAMED).map(String::as_str).collect();
            format!(": {}{}", named.join("; "), and_more(end.because.len()))
        }
    };
    format!("{}, {how_often}{because}", end.verdict.describe())
}

/// The position of the VM with which a reason begins.
fn machine_in(because: &str, machines: &BTreeMap<String, Location>) -> Option<Location> {
    let mut known = machines.iter();
    let named = known.find(|(name, _)| {
        let rest = because.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.starts_with(' '))
    });
    named.map(|(_, at)| at.clone())
}

/// The note about the remaining items in a message.
fn and_more(all: usize) -> String {
    match all.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// Files that RKE2 does not apply in every seed, without those that are hidden on purpose.
fn unapplied(node: &NodeRehearsal) -> impl Iterator<Item = &ManifestPath> {
    let fates = node.with.files.iter();
    fates
        .filter(|(_, fate)| fate.applied_in < node.seeds && fate.skipped.is_none())
        .map(|(path, _)| path)
}

/// The finding about files that fail until their requirements exist, if the bootstrap completes.
fn noise(node: &NodeRehearsal, files: &BTreeMap<ManifestPath, Location>) -> Option<Finding> {
    let complete = |end: &EndCount| matches!(end.verdict, Ending::Complete | Ending::Unknown);
    if !node.with.ends.iter().all(complete) {
        return None;
    }
    // Retries by other components do not concern RKE2.
    let own = || {
        let fates = node.with.files.iter();
        fates.filter(|(path, _)| path.applied_by().is_none())
    };
    let failing: Vec<&ManifestPath> = own()
        .filter(|(_, fate)| fate.failures > 0)
        .map(|(path, _)| path)
        .collect();
    let count = own().map(|(_, fate)| fate.failures).max()?;
    if failing.is_empty() {
        return None;
    }
    let named: Vec<&str> = failing
        .iter()
        .take(NAMED)
        .map(|path| path.as_str())
        .collect();
    Some(Finding {
        incident: None,
        code: Code::BootNoisy,
        severity: Code::BootNoisy.severity(),
        message: Code::BootNoisy.say(&[
            ("files", &(named.join(", ") + &and_more(failing.len()))),
            ("count", &count.to_string()),
        ]),
        at: failing
            .into_iter()
            .filter_map(|path| files.get(path).cloned())
            .collect(),
    })
}
