//! How a rehearsal ended, as findings: they have a code, a place and advice like everything else that is found.

use std::collections::BTreeMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::super::delay::Delay;
use super::super::rehearsal::{EndCount, Ending, NodeRehearsal, Span};

/// A rehearsal that was ended before all of its seeds were played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutShort {
    /// How many seeds were played.
    pub played: u64,
    /// How many were asked for.
    pub seeds: u64,
    /// How long it was allowed to take, in words.
    pub time: String,
}

/// The most files, or reasons, that a message names.
const NAMED: usize = 3;

/// The findings on how one node ended. `files` says where a person finds each manifest, `machines` where each virtual machine.
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

/// A bootstrap that takes longer with Windrow.
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

/// The finding on a rehearsal that was ended early.
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

/// A version that there is no model of.
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

/// Where the machine stands of which a reason begins to speak.
fn machine_in(because: &str, machines: &BTreeMap<String, Location>) -> Option<Location> {
    let mut known = machines.iter();
    let named = known.find(|(name, _)| {
        let rest = because.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.starts_with(' '))
    });
    named.map(|(_, at)| at.clone())
}

/// What a message says of the rest.
fn and_more(all: usize) -> String {
    match all.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// Files that RKE2 does not apply in every seed, but for those that nobody wants applied.
fn unapplied(node: &NodeRehearsal) -> impl Iterator<Item = &ManifestPath> {
    let fates = node.with.files.iter();
    fates
        .filter(|(_, fate)| fate.applied_in < node.seeds && fate.skipped.is_none())
        .map(|(path, _)| path)
}

/// Files that fail before everything is there, where everything comes to be there.
fn noise(node: &NodeRehearsal, files: &BTreeMap<ManifestPath, Location>) -> Option<Finding> {
    let complete = |end: &EndCount| matches!(end.verdict, Ending::Complete | Ending::Unknown);
    if !node.with.ends.iter().all(complete) {
        return None;
    }
    // What something else tries again and again is no matter of RKE2's.
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
