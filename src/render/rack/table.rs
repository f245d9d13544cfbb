//! The table for terminals.

use std::fmt::Write as _;

use windrow_rack::{NodeRow, RackView};

use super::words::{self, RowGroup};
use crate::printable::printable;
use crate::render::Style;
use crate::render::{fit, wrap};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RackSegment {
    /// `bad`, `wait`, `way`, `good`, `dim`, `strong`, or nothing.
    pub tone: &'static str,
    pub text: String,
}

impl RackSegment {
    fn new(tone: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { tone, text }
    }
}

pub fn rack_table(view: &RackView, style: Style) -> String {
    let mut out = String::new();
    for line in rack_lines(view, style.width) {
        let painted: Vec<String> = line.iter().map(|segment| paint(style, segment)).collect();
        let _ = writeln!(out, "{}", painted.concat().trim_end());
    }
    out
}

/// The lines of that table: first the one about all nodes.
pub fn rack_lines(view: &RackView, width: usize) -> Vec<Vec<RackSegment>> {
    let mut first = vec![RackSegment::new("strong", words::total(view))];
    let counts = words::counts(view);
    if counts.is_empty() {
        first.push(RackSegment::new("", ": no node has reported yet"));
    }
    for (number, (tone, count, what)) in counts.into_iter().enumerate() {
        let comma = if number == 0 { ": " } else { ", " };
        first.push(RackSegment::new("", comma));
        first.push(RackSegment::new(tone, format!("{count} {what}")));
    }
    let mut lines = vec![first];
    for notice in &view.notices {
        let text = wrap(&printable(&notice.text), width);
        lines.extend(
            text.into_iter()
                .map(|line| vec![RackSegment::new("wait", line)]),
        );
    }
    let columns = Columns::of(view, width);
    for group in RowGroup::ALL {
        let rows = view
            .nodes
            .iter()
            .filter(|row| RowGroup::for_row(row) == group);
        let rows: Vec<&NodeRow> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        lines.push(Vec::new());
        let title = format!("{} ({})", group.title(), rows.len());
        lines.push(vec![RackSegment::new("strong", title)]);
        lines.extend(rows.into_iter().map(|row| columns.row(row, view)));
    }
    lines
}

fn paint(style: Style, segment: &RackSegment) -> String {
    match segment.tone {
        "bad" => style.bad(&segment.text),
        "wait" => style.waiting(&segment.text),
        "good" => style.good(&segment.text),
        "dim" => style.dim(&segment.text),
        "strong" => style.strong(&segment.text),
        _ => segment.text.clone(),
    }
}

/// How wide the columns are.
struct Columns {
    name: usize,
    state: usize,
    remarks: usize,
}

/// The widest name, and the widest state.
const NAME: usize = 24;
const STATE: usize = 36;
/// `23m10s` and `12s ago`.
const SINCE: usize = 7;
const HEARD: usize = 10;

impl Columns {
    fn of(view: &RackView, width: usize) -> Self {
        let widest = |text: &dyn Fn(&NodeRow) -> String, most: usize| {
            let widths = view.nodes.iter().map(|row| text(row).chars().count());
            widths.max().unwrap_or_default().min(most)
        };
        let name = widest(&|row| printable(&row.name), NAME.min(width / 4));
        let state = widest(&state, STATE.min(width / 3));
        let taken = 2 + name + 1 + state + 1 + SINCE + 1 + HEARD + 2;
        Self {
            name,
            state,
            remarks: width.saturating_sub(taken),
        }
    }

    fn row(&self, row: &NodeRow, view: &RackView) -> Vec<RackSegment> {
        let column = |text: &str, width: usize| format!("{:<width$}", fit(&printable(text), width));
        let remarks = printable(&words::remarks(row).join("; "));
        vec![
            RackSegment::new("", format!("  {} ", column(&row.name, self.name))),
            RackSegment::new(words::tone(row), column(&state(row), self.state)),
            RackSegment::new("", format!(" {:>SINCE$}", words::since(row, view.at))),
            RackSegment::new("dim", format!(" {:>HEARD$}", words::heard(row, view.at))),
            RackSegment::new("", format!("  {}", fit(&remarks, self.remarks))),
        ]
    }
}

fn state(row: &NodeRow) -> String {
    let phase = words::phase(row);
    let parts = [phase.as_str(), words::pace(row)];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => row.word.as_str().to_owned(),
        false => format!("{}: {}", row.word.as_str(), parts.join(", ")),
    }
}
