//! The lines of the panes with manifests and findings. Those of the machine are in `machine.rs`, those of the steps in
//! `steps.rs`.

use std::collections::{HashMap, HashSet};

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use windrow_decide::{HeldFile, Holder, ProbeStatus, Readiness, StagingStatus, Status};
use windrow_host::HostFacts;
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::readiness::node::ProbeState;

use super::age::Ages;
use super::machine::machine_lines;
use super::steps::{steps, steps_lines};
use super::text::{clean, columns, fit, wrap_to};
use super::theme::{StepMark, Theme};

pub(super) const MESSAGE_LINES: usize = 8;

/// The panes, in the order of their tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Machine,
    Manifests,
    Findings,
    /// How far the bootstrap is.
    Steps,
}

impl Pane {
    pub(super) const ALL: [Pane; 4] = [Pane::Machine, Pane::Manifests, Pane::Findings, Pane::Steps];

    pub(super) fn title(self) -> &'static str {
        match self {
            Pane::Machine => "Machine",
            Pane::Manifests => "Manifests",
            Pane::Findings => "Findings",
            Pane::Steps => "Steps",
        }
    }

    pub(super) fn first(status: &Status) -> Pane {
        let staging = &status.staging;
        let grave = |finding: &Finding| finding.severity == Severity::Error;
        let settled = !matches!(status.readiness, Readiness::SettingUp | Readiness::Ready);
        let wrong = |probe: &ProbeStatus| probe.state != ProbeState::Passing;
        let never_ran = status.writer.is_none() && status.phases.is_empty() && staging.total == 0;
        if never_ran {
            Pane::Machine
        } else if settled && status.probes.iter().any(wrong) {
            Pane::Steps
        } else if !staging.failed.is_empty()
            || !staging.not_held.is_empty()
            || staging.held.iter().any(waits)
        {
            Pane::Manifests
        } else if status.findings.iter().any(grave) {
            Pane::Findings
        } else if staging.released.is_empty() {
            Pane::Steps
        } else {
            Pane::Manifests
        }
    }

    pub(super) fn count(self, status: &Status) -> String {
        match self {
            Pane::Machine => String::new(),
            Pane::Manifests => status.staging.total.to_string(),
            Pane::Findings => status.findings.len().to_string(),
            Pane::Steps => {
                let steps = steps(status);
                let done = steps
                    .iter()
                    .filter(|step| step.mark == StepMark::Done)
                    .count();
                format!("{done}/{}", steps.len())
            }
        }
    }

    pub(super) fn lines(
        self,
        status: &Status,
        machine: &HostFacts,
        pen: &Pen<'_>,
    ) -> Vec<Line<'static>> {
        match self {
            Pane::Machine => machine_lines(machine, pen),
            Pane::Manifests => manifests(&status.staging, pen),
            Pane::Findings => findings(&status.findings, pen),
            Pane::Steps => steps_lines(status, pen, false),
        }
    }
}

/// Writes lines of one width for one terminal at one time.
pub(super) struct Pen<'a> {
    pub(super) theme: Theme,
    pub(super) width: usize,
    pub(super) ages: &'a Ages,
    /// Whether the daemon runs. Without it no hold ends.
    pub(super) is_live: bool,
}

impl Pen<'_> {
    pub(super) fn clean(&self, text: &str) -> String {
        clean(text, self.theme.unicode)
    }

    pub(super) fn fit(&self, text: &str, width: usize) -> String {
        fit(&self.clean(text), width, self.theme.unicode)
    }

    /// A text at an indent, over several lines up to a bound.
    pub(super) fn paragraph(
        &self,
        indent: usize,
        text: &str,
        style: Style,
        most: usize,
    ) -> Vec<Line<'static>> {
        let width = self.width.saturating_sub(indent);
        wrap_to(&self.clean(text), width, most, self.theme.unicode)
            .into_iter()
            .map(|line| {
                Line::from(vec![
                    Span::raw(" ".repeat(indent)),
                    Span::styled(line, style),
                ])
            })
            .collect()
    }

    /// A text at the left, another at the right; the left one is shortened.
    pub(super) fn both_ends(
        &self,
        indent: usize,
        left: &str,
        style: Style,
        right: &str,
    ) -> Line<'static> {
        let room = self.width.saturating_sub(indent + columns(right) + 1);
        let left = self.fit(left, room);
        let gap = (room + 1).saturating_sub(columns(&left));
        Line::from(vec![
            Span::raw(" ".repeat(indent)),
            Span::styled(left, style),
            Span::raw(" ".repeat(gap)),
            Span::raw(right.to_owned()),
        ])
    }

    fn label(&self, label: &str, style: Style, text: &str) -> Vec<Line<'static>> {
        let mut lines =
            self.paragraph(columns(label) + 1, text, self.theme.strong(), MESSAGE_LINES);
        if let Some(first) = lines.first_mut() {
            first.spans[0] = Span::styled(label.to_owned(), style);
            first.spans.insert(1, Span::raw(" "));
        }
        lines
    }
}

/// Whether it waits for an object, rather than for an operator.
fn waits(held: &HeldFile) -> bool {
    held.by == Holder::Windrow
        && !matches!(
            held.code,
            Code::HeldByAnnotation | Code::HeldByHand | Code::HeldAppliedOnce
        )
}

fn manifests(staging: &StagingStatus, pen: &Pen<'_>) -> Vec<Line<'static>> {
    let theme = pen.theme;
    let mut lines = Vec::new();
    for failed in &staging.failed {
        let age = pen.ages.since(failed.since);
        lines.push(pen.both_ends(0, &format!("FAILED {}", failed.file), theme.bad(), &age));
        let message = format!("{}: {}", failed.reason, failed.message);
        lines.extend(pen.paragraph(2, &message, Style::new(), MESSAGE_LINES));
    }
    if !staging.failed.is_empty() {
        lines.extend(advice(Code::ApplyFailed, pen));
    }
    for file in &staging.not_held {
        let age = pen.ages.since(file.since);
        lines.push(pen.both_ends(0, &format!("NOT HELD {}", file.file), theme.bad(), &age));
        lines.extend(pen.paragraph(2, &file.error, Style::new(), MESSAGE_LINES));
    }
    if !staging.not_held.is_empty() {
        lines.extend(advice(Code::NotHeld, pen));
    }
    let mut advised = HashSet::new();
    for group in blockers(&staging.held) {
        let Some(first) = group.first() else { continue };
        let style = if waits(first) {
            theme.waiting()
        } else {
            Style::new()
        };
        lines.extend(pen.label("HELD", style, &first.why));
        if first.by == Holder::Windrow && advised.insert(first.code) {
            lines.extend(advice(first.code, pen));
        }
        for held in group {
            let right = format!("{}{}", pen.ages.since(held.since), outlook(held, pen));
            let left = match held.blockers.len().saturating_sub(1) {
                0 => held.file.to_string(),
                1 => format!("{} (and 1 more requirement)", held.file),
                more => format!("{} (and {more} more requirements)", held.file),
            };
            lines.push(pen.both_ends(4, &left, Style::new(), &right));
        }
    }
    for released in &staging.released {
        let age = pen.ages.since(released.since);
        let text = format!("released {}", released.file);
        lines.push(pen.both_ends(0, &text, theme.quiet(), &age));
    }
    for applied in &staging.applied {
        let age = pen.ages.since(applied.since);
        let text = format!("applied  {}", applied.file);
        lines.push(pen.both_ends(0, &text, theme.good(), &age));
    }
    if lines.is_empty() {
        lines.push(Line::raw("No manifests are staged on this node."));
    }
    lines
}

pub(super) fn advice(code: Code, pen: &Pen<'_>) -> Vec<Line<'static>> {
    let text = code.reason().advice;
    pen.paragraph(2, text, pen.theme.quiet(), MESSAGE_LINES)
}

fn outlook(held: &HeldFile, pen: &Pen<'_>) -> String {
    let left = held.deadline;
    let left = left.and_then(|deadline| pen.ages.until(deadline));
    match left {
        _ if !pen.is_live => String::new(),
        _ if held.overdue => ", overdue, kept".to_owned(),
        Some(left) => format!(", at most {left} more"),
        None => String::new(),
    }
}

/// Held files grouped by their blocker. The root cause comes first: no other held file provides it.
fn blockers(held: &[HeldFile]) -> Vec<Vec<&HeldFile>> {
    let mut groups: Vec<Vec<&HeldFile>> = Vec::new();
    let mut known = HashMap::new();
    for one in held {
        let at = *known
            .entry((one.code, one.by == Holder::Other, &one.why))
            .or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let brought = |held: &&HeldFile| held.blockers.iter().any(|one| one.brought_by.is_some());
    // Stable: among roots the document's own reason comes first.
    groups.sort_by_key(|group| {
        (
            !group.first().is_some_and(|held| waits(held)),
            group.iter().all(brought),
        )
    });
    groups
}

fn findings(findings: &[Finding], pen: &Pen<'_>) -> Vec<Line<'static>> {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut lines = Vec::new();
    for finding in sorted {
        let (label, style) = match finding.severity {
            Severity::Error => ("ERROR", pen.theme.bad()),
            Severity::Warning => ("WARNING", pen.theme.waiting()),
            Severity::Notice => ("notice", Style::new()),
            Severity::Info => ("info", Style::new()),
        };
        lines.extend(pen.label(label, style, &finding.message));
        for at in &finding.at {
            lines.extend(pen.paragraph(2, &format!("at {at}"), Style::new(), 2));
        }
        if let Some(incident) = &finding.incident {
            for seen in &incident.evidence {
                lines.extend(pen.paragraph(2, &format!("evidence: {seen}"), Style::new(), 2));
            }
            if let Some(cure) = &incident.cure {
                lines.extend(pen.paragraph(2, &format!("fix: {cure}"), Style::new(), 2));
            }
            lines.extend(pen.paragraph(2, &incident.page(), Style::new(), 2));
        }
        match &finding.incident {
            Some(incident) => lines.extend(pen.paragraph(2, &incident.advice, Style::new(), 2)),
            None => lines.extend(advice(finding.code, pen)),
        }
    }
    if lines.is_empty() {
        lines.push(Line::raw("No problems found."));
    }
    lines
}

pub(super) fn help(may_quit: bool, pen: &Pen<'_>) -> Vec<Line<'static>> {
    const KEYS: &[(&str, &str)] = &[
        ("Tab, 1 2 3 4", "another pane"),
        (
            "Up Down PgUp PgDn",
            "scroll (also k, b, Space); Home and End",
        ),
        ("j", "the last lines of Windrow's journal"),
        ("Esc", "back, and to the most important pane"),
        ("Ctrl-L", "repaint the screen"),
    ];
    const WORDS: &[(&str, &str)] = &[
        ("Ready", "everything on this node works"),
        ("Degraded", "the node works, but something is wrong"),
        ("Setting up node", "RKE2 or its manifests are not ready yet"),
        (
            "Setting up Harvester",
            "the node is up, Harvester is not ready yet",
        ),
        (
            "Failed",
            "it stopped working; stuck: it cannot become Ready",
        ),
        ("Unknown", "Windrow cannot tell; the reason is below"),
    ];
    const PANES: &[(&str, &str)] = &[
        ("HELD", "hidden from RKE2 until its dependencies are ready"),
        ("released", "visible to RKE2, but not applied yet"),
        ("FAILED", "RKE2 cannot apply it; with RKE2's own message"),
        ("applied", "RKE2 has applied it"),
    ];
    let mut lines = Vec::new();
    let mut table = |title: &'static str, rows: &[(&str, &str)]| {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(title, pen.theme.strong()));
        for (left, right) in rows {
            let text = format!("{left:<21} {right}");
            lines.push(Line::raw(format!(
                "  {}",
                pen.fit(&text, pen.width.saturating_sub(2))
            )));
        }
    };
    match may_quit {
        true => table("Keys", &[KEYS, &[("q", "quit")]].concat()),
        false => table("Keys", KEYS),
    }
    table("State", WORDS);
    table("Manifests", PANES);
    table(
        "More, in a shell",
        &[
            ("windrow status", "all of this as text"),
            (
                "windrow why FILE",
                "dependencies of a held file, down to the root cause",
            ),
            ("windrow release FILE", "release a held file"),
            ("windrow timeline", "where the boot spent its time, as root"),
            ("journalctl -xu windrow", "all events, with advice"),
        ],
    );
    lines
}
