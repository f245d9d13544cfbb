//! The phases of a boot as a bar, and the scale that all bars share: late nodes are easy to see.
//!
//! A bar begins with its boot, so that you can compare nodes that were started one after the other. All positions are in
//! percent of the bar's width: the picture is as wide as its column, also on a telephone.

use std::fmt::Write as _;

use jiff::Timestamp;
use windrow_plan::readiness::node::Phase;
use windrow_rack::{NodeRow, RackView, RackWord};

use super::words::phase_title;
use crate::render::lasted;
use crate::render::markup::escaped;

/// Shortest scale, in seconds.
const SHORTEST: i64 = 5 * 60;
/// The scale is at most this many times as long as the time of most nodes: one that hangs for a day does not squash the
/// others.
const TIMES_USUAL: i64 = 4;
/// Possible distances of the marks on the scale, in seconds.
const STEPS: [i64; 12] = [
    60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800,
];
/// Up to where a mark has its text, in percent: there is room for it behind that, on a telephone too.
const LAST_TEXT: f64 = 86.0;
const HEIGHT: u32 = 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    seconds: i64,
    now: Timestamp,
}

/// When a boot began, according to its phases and its own count.
fn start(row: &NodeRow) -> Option<Timestamp> {
    row.began
        .or_else(|| row.phases.first().map(|phase| phase.from))
}

/// When its bar ends: with Ready, with the last report, or now.
fn end(row: &NodeRow, now: Timestamp) -> Option<Timestamp> {
    let ready = row
        .phases
        .iter()
        .find(|phase| phase.name == Phase::Ready.as_str());
    match row.word {
        RackWord::Ready | RackWord::Degraded => ready.map(|ready| ready.from),
        RackWord::Silent => row.heard,
        RackWord::NeverCame => None,
        RackWord::SettingUp | RackWord::Failed | RackWord::Unknown => Some(now),
    }
}

impl Scale {
    pub(super) fn of(view: &RackView) -> Self {
        let mut lengths: Vec<i64> = view
            .nodes
            .iter()
            .filter_map(|row| Some(end(row, view.at)?.duration_since(start(row)?).as_secs()))
            .map(|length| length.max(0))
            .collect();
        lengths.sort_unstable();
        let longest = lengths.last().copied().unwrap_or_default();
        let usual = lengths.get(lengths.len() / 2).copied().unwrap_or_default();
        Self {
            seconds: longest.min(usual.saturating_mul(TIMES_USUAL)).max(SHORTEST),
            now: view.at,
        }
    }

    fn percent(self, seconds: i64) -> f64 {
        let seconds = seconds.clamp(0, self.seconds);
        #[allow(clippy::cast_precision_loss, reason = "a position on a screen")]
        let share = seconds as f64 * 100.0 / self.seconds as f64;
        share
    }

    fn marks(self) -> impl Iterator<Item = i64> {
        let step = STEPS.into_iter().find(|step| self.seconds / step <= 6);
        let step = step.unwrap_or(self.seconds.max(1));
        (1..)
            .map(move |number| number * step)
            .take_while(move |at| *at < self.seconds)
    }

    /// The marks, for the head of the column.
    pub(super) fn axis(self) -> String {
        let mut out = String::from(
            "<svg class=\"axis\" width=\"100%\" height=\"16\" role=\"img\" aria-label=\"time since each node's boot\">",
        );
        let _ = write!(out, "<text x=\"0\" y=\"12\">boot</text>");
        for at in self.marks() {
            let x = self.percent(at);
            let _ = write!(
                out,
                "<line x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"16\"/>"
            );
            // A text that would be cut off at the end is worse than none.
            if x < LAST_TEXT {
                let _ = write!(
                    out,
                    "<text x=\"{x:.2}%\" dx=\"3\" y=\"12\">{}</text>",
                    short(at)
                );
            }
        }
        out.push_str("</svg>");
        out
    }

    pub(super) fn bar(self, row: &NodeRow) -> String {
        let Some((began, end)) = start(row).zip(end(row, self.now)) else {
            return "<svg class=\"bar\" width=\"100%\" height=\"16\" aria-hidden=\"true\"><line class=\"none\" x1=\"0\" x2=\"100%\" y1=\"8\" y2=\"8\"/></svg>".to_owned();
        };
        let seconds = |at: Timestamp| at.duration_since(began).as_secs();
        let mut out = format!(
            "<svg class=\"bar {}\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            super::words::tone(row),
            escaped(&describe(row, began))
        );
        for at in self.marks() {
            let x = self.percent(at);
            let _ = write!(
                out,
                "<line x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"{HEIGHT}\"/>"
            );
        }
        for phase in &row.phases {
            let to = phase.to.unwrap_or(end).min(end);
            if to < phase.from || phase.name == Phase::Ready.as_str() {
                continue;
            }
            let (from, to) = (self.percent(seconds(phase.from)), self.percent(seconds(to)));
            // A short phase is still visible.
            let width = (to - from).max(0.4);
            let is_last = phase.to.is_none();
            let _ = write!(
                out,
                "<rect class=\"{}{}\" x=\"{from:.2}%\" width=\"{width:.2}%\" y=\"2\" height=\"12\"><title>{}</title></rect>",
                class(&phase.name),
                if is_last { " last" } else { "" },
                escaped(&phase_title(&phase.name)),
            );
        }
        let x = self.percent(seconds(end));
        if matches!(row.word, RackWord::Ready | RackWord::Degraded) {
            let _ = write!(
                out,
                "<line class=\"ready\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"{HEIGHT}\"/>"
            );
        }
        if seconds(end) > self.seconds {
            out.push_str("<text class=\"more\" x=\"100%\" dx=\"-2\" y=\"12\">»</text>");
        }
        out.push_str("</svg>");
        out
    }
}

/// The phases in words, for readers who cannot see the bar.
fn describe(row: &NodeRow, began: Timestamp) -> String {
    let phases: Vec<String> = row
        .phases
        .iter()
        .map(|phase| {
            let at = lasted(phase.from.duration_since(began).as_secs());
            format!("{} from {at}", phase_title(&phase.name))
        })
        .collect();
    phases.join(", ")
}

/// A time on the scale.
fn short(seconds: i64) -> String {
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) if minutes % 60 == 0 => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {}", minutes % 60),
        (days, _, _) => format!("{days} d"),
    }
}

pub(super) fn class(name: &str) -> &'static str {
    let Some(phase) = Phase::ALL.iter().find(|phase| phase.as_str() == name) else {
        return "p0";
    };
    match phase {
        Phase::Network => "p1",
        Phase::Rke2Installed => "p2",
        Phase::Api | Phase::WaitingForApi => "p3",
        Phase::Node => "p4",
        Phase::Rancher => "p5",
        Phase::HarvesterChart => "p6",
        Phase::Settings => "p7",
        Phase::StorageNetwork => "p8",
        Phase::Manifests | Phase::Staging | Phase::Staged => "p9",
        Phase::Ready => "p10",
    }
}

/// The phases that any node is in or went through, in their order.
pub(super) fn legend(view: &RackView) -> Vec<(&'static str, String)> {
    let seen = |phase: &Phase| {
        let mut rows = view.nodes.iter();
        rows.any(|row| row.phases.iter().any(|one| one.name == phase.as_str()))
    };
    let phases = Phase::ALL
        .iter()
        .filter(|phase| **phase != Phase::Ready && seen(phase));
    phases
        .map(|phase| (class(phase.as_str()), phase.title().to_owned()))
        .collect()
}
