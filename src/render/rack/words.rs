//! The words that table and pages share.

use jiff::Timestamp;
use windrow_plan::readiness::node::{Pace, Phase};
use windrow_rack::{Attention, NodeRow, RackView, RackWord};

use crate::render::lasted;

/// The groups of rows, in their order on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowGroup {
    NeedsPerson,
    OnItsWay,
    Fine,
}

impl RowGroup {
    pub(super) const ALL: [Self; 3] = [Self::NeedsPerson, Self::OnItsWay, Self::Fine];

    pub(super) fn for_row(row: &NodeRow) -> Self {
        match row.attention {
            Attention::Failed
            | Attention::Stalled
            | Attention::Conflict
            | Attention::Silent
            | Attention::NeverCame
            | Attention::Degraded
            | Attention::Unknown => Self::NeedsPerson,
            Attention::Slow | Attention::SettingUp => Self::OnItsWay,
            Attention::Notice | Attention::Fine => Self::Fine,
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::NeedsPerson => "Need attention",
            Self::OnItsWay => "Setting up",
            Self::Fine => "Ready",
        }
    }
}

/// How a row looks: `good`, `wait`, `bad` or `dim`.
pub(super) fn tone(row: &NodeRow) -> &'static str {
    match row.attention {
        Attention::Failed | Attention::Stalled | Attention::Conflict => "bad",
        Attention::Silent | Attention::NeverCame | Attention::Unknown => "dim",
        Attention::Degraded | Attention::Slow => "wait",
        Attention::SettingUp => "way",
        Attention::Notice | Attention::Fine => "good",
    }
}

/// Its progress, if that is worth a word.
pub(super) fn pace(row: &NodeRow) -> &'static str {
    match row.pace {
        Some(pace) if pace != Pace::Moving && is_on_its_way(row) => pace.as_str(),
        _ => "",
    }
}

/// The phase in a few words, if it adds something to the row's word.
pub(super) fn phase(row: &NodeRow) -> String {
    match is_on_its_way(row) || row.word == RackWord::Silent {
        true => phase_title(&row.phase),
        false => String::new(),
    }
}

fn is_on_its_way(row: &NodeRow) -> bool {
    matches!(
        row.word,
        RackWord::SettingUp | RackWord::Unknown | RackWord::Failed
    )
}

pub(super) fn phase_title(name: &str) -> String {
    let known = Phase::ALL.iter().find(|phase| phase.as_str() == name);
    known.map_or_else(|| name.to_owned(), |phase| phase.title().to_owned())
}

pub(super) fn since(row: &NodeRow, now: Timestamp) -> String {
    let at = match row.word {
        RackWord::Silent => row.heard,
        _ => row.since,
    };
    at.map(|at| lasted(now.duration_since(at).as_secs()))
        .unwrap_or_default()
}

pub(super) fn heard(row: &NodeRow, now: Timestamp) -> String {
    match row.heard {
        Some(at) => format!("{} ago", lasted(now.duration_since(at).as_secs())),
        None => "never".to_owned(),
    }
}

pub(super) fn source(row: &NodeRow) -> &'static str {
    match row.source.as_str() {
        "event" => "by its webhook",
        "document" => "from its status server",
        "condition" => "through Kubernetes",
        _ => "",
    }
}

pub(super) fn remarks(row: &NodeRow) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    if !row.blocker.is_empty() {
        remarks.push(row.blocker.clone());
    }
    remarks.extend(row.notes.iter().cloned());
    if !row.findings.is_empty() {
        let first = &row.findings[0];
        let more = match row.findings.len() {
            1 => String::new(),
            number => format!(" and {} more", number - 1),
        };
        remarks.push(format!("finding {}{more}", first.code));
    }
    remarks
}

/// The number of nodes for each state, with its tone; without states that no node has.
pub(super) fn counts(view: &RackView) -> Vec<(&'static str, usize, String)> {
    let counts = &view.counts;
    let hang = match counts.hanging {
        0 => String::new(),
        1 => " (1 hangs)".to_owned(),
        number => format!(" ({number} hang)"),
    };
    [
        ("bad", counts.failed, "failed".to_owned()),
        (
            if counts.hanging > 0 { "bad" } else { "way" },
            counts.setting_up,
            format!("setting up{hang}"),
        ),
        ("dim", counts.silent, "silent".to_owned()),
        ("dim", counts.never_came, "never came".to_owned()),
        ("dim", counts.unknown, "unknown".to_owned()),
        ("wait", counts.degraded, "degraded".to_owned()),
        ("good", counts.ready, "ready".to_owned()),
    ]
    .into_iter()
    .filter(|(_, number, _)| *number > 0)
    .collect()
}

/// How many nodes there are, and how many of them are expected.
pub(super) fn total(view: &RackView) -> String {
    let counts = &view.counts;
    let strangers = counts.total - counts.expected;
    let nodes = match counts.total {
        1 => "1 node".to_owned(),
        number => format!("{number} nodes"),
    };
    match (counts.expected, strangers) {
        (0, _) | (_, 0) => nodes,
        (_, 1) => format!("{nodes}, 1 of them not in the inventory"),
        (_, number) => format!("{nodes}, {number} of them not in the inventory"),
    }
}
