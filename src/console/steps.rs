//! The steps of the bootstrap and the node's probes as lines: the progress, the duration and the usual duration of each.

use std::borrow::Cow;

use jiff::Timestamp;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use windrow_decide::{
    HeldFile, Phase, PhaseState, PhaseStatus, ProbeStatus, Readiness, StagingStatus, Status,
};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::ProbeSeverity::Wanted;
use windrow_plan::readiness::node::ProbeState;

use super::age::Ages;
use super::panes::{MESSAGE_LINES, Pen, advice};
use super::text::columns;
use super::theme::StepMark;
use crate::render::lasted;

pub(super) struct ShownStep {
    pub(super) title: Cow<'static, str>,
    pub(super) mark: StepMark,
    /// The number of finished parts, and of all.
    pub(super) progress: Option<(usize, usize)>,
    /// The time that it took or has taken so far, if Windrow knows it.
    time: Option<StepTime>,
    usual: Option<u64>,
}

enum StepTime {
    Took(u64),
    Since(Timestamp),
}

impl ShownStep {
    fn times(&self, ages: &Ages, room: usize) -> String {
        let whole = |seconds: u64| lasted(i64::try_from(seconds).unwrap_or(i64::MAX));
        let usual = self.usual.map(|usual| format!(", usual {}", whole(usual)));
        let time = match self.time {
            None => return String::new(),
            Some(StepTime::Took(seconds)) => whole(seconds),
            Some(StepTime::Since(at)) => ages.since(at),
        };
        match usual {
            Some(usual) if columns(&time) + columns(&usual) <= room => time + &usual,
            _ => time,
        }
    }
}

pub(super) fn steps(status: &Status) -> Vec<ShownStep> {
    if status.phases.is_empty() {
        return steps_of_staging(status);
    }
    let lacks = |phase: &PhaseStatus| {
        let probes = status.probes.iter();
        let mut failing = probes
            .filter(|probe| probe.phase == Some(phase.name) && probe.state == ProbeState::Failing);
        failing.next().map(|probe| probe.id.as_str())
    };
    let step = |phase: &PhaseStatus| ShownStep {
        title: match lacks(phase) {
            Some(probe) if phase.state == PhaseState::Done => {
                format!("{} ({probe})", phase.name.title()).into()
            }
            _ => phase.name.title().into(),
        },
        mark: match phase.state {
            // The node continues without it, and it has no tick.
            PhaseState::Done if lacks(phase).is_some() => StepMark::Wrong,
            PhaseState::Done => StepMark::Done,
            PhaseState::Current if status.readiness == Readiness::Failed => StepMark::Wrong,
            PhaseState::Current => StepMark::Current,
            PhaseState::Unknown => StepMark::Unknown,
            PhaseState::Pending => StepMark::Later,
        },
        // "1 of 1" says no more than the mark.
        progress: (phase.total > 1).then_some((phase.done, phase.total)),
        time: match (phase.state, phase.began, phase.seconds) {
            (PhaseState::Current, Some(began), _) => Some(StepTime::Since(began)),
            (PhaseState::Done, _, Some(seconds)) => Some(StepTime::Took(seconds)),
            _ => None,
        },
        usual: phase
            .expected
            .and_then(|expected| expected.usual)
            .map(|usual| usual.median),
    };
    status.phases.iter().map(step).collect()
}

fn steps_of_staging(status: &Status) -> Vec<ShownStep> {
    let staging = &status.staging;
    let current = status.writer.is_some();
    let answers = status.phase != Phase::WaitingForApi;
    vec![
        ShownStep {
            title: "kube-apiserver answers".into(),
            mark: match status.reason.code {
                _ if !current => StepMark::Unknown,
                Code::ApiUnreachable | Code::CredentialRefused if answers => StepMark::Unknown,
                _ if answers => StepMark::Done,
                _ => StepMark::Current,
            },
            progress: None,
            time: None,
            usual: None,
        },
        ShownStep {
            title: "manifests".into(),
            mark: match status.phase {
                _ if !staging.failed.is_empty() => StepMark::Wrong,
                _ if !current => StepMark::Unknown,
                _ if !answers => StepMark::Later,
                Phase::Staged => StepMark::Done,
                _ => StepMark::Current,
            },
            progress: Some(progress(staging)),
            time: None,
            usual: None,
        },
    ]
}

/// Applied files (and those applied once and kept since), of all.
pub(super) fn progress(staging: &StagingStatus) -> (usize, usize) {
    let once = |held: &&HeldFile| held.code == Code::HeldAppliedOnce;
    let once = staging.held.iter().filter(once).count();
    (staging.applied.len() + once, staging.total)
}

/// The steps and the probes: failures first, unless the steps are shown nowhere else.
pub(super) fn steps_lines(status: &Status, pen: &Pen<'_>, steps_first: bool) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = steps(status)
        .into_iter()
        .map(|step| {
            let progress = match step.progress {
                Some((done, total)) => format!("  {done}/{total}"),
                None => String::new(),
            };
            let left = format!("{}{progress}", step.title);
            // The step's name is more important than the usual time.
            let taken = columns(pen.theme.mark(step.mark).0) + columns(&left) + 2;
            let room = pen.width.saturating_sub(taken);
            marked(step.mark, &left, &step.times(pen.ages, room), pen)
        })
        .collect();
    let (passing, others): (Vec<_>, Vec<_>) = status
        .probes
        .iter()
        .partition(|probe| probe.state == ProbeState::Passing);
    let mut wrong = others;
    // The most important first, and known before unknown.
    wrong.sort_by_key(|probe| (probe.severity == Wanted, probe.state == ProbeState::Unknown));
    let wrong = wrong.into_iter().flat_map(|probe| probe_lines(probe, pen));
    let place = if steps_first { lines.len() } else { 0 };
    lines.splice(place..place, wrong);
    lines.extend(
        passing
            .into_iter()
            .flat_map(|probe| probe_lines(probe, pen)),
    );
    lines
}

fn probe_lines(probe: &ProbeStatus, pen: &Pen<'_>) -> Vec<Line<'static>> {
    let mark = match probe.state {
        ProbeState::Passing => StepMark::Done,
        ProbeState::Unknown => StepMark::Unknown,
        ProbeState::Failing => StepMark::Wrong,
    };
    let name = format!("probe {}", probe.id);
    let age = pen.ages.since(probe.since);
    let mut lines = vec![marked(mark, &name, &age, pen)];
    lines.extend(pen.paragraph(2, &probe.message, Style::new(), MESSAGE_LINES));
    if let Some(code) = probe.code.filter(|_| mark == StepMark::Wrong) {
        lines.extend(advice(code, pen));
    }
    lines
}

/// A text after its mark, another one at the right.
fn marked(mark: StepMark, left: &str, right: &str, pen: &Pen<'_>) -> Line<'static> {
    let (sign, style) = pen.theme.mark(mark);
    let mut line = pen.both_ends(columns(sign) + 1, left, Style::new(), right);
    if let Some(blank) = line.spans.first_mut() {
        *blank = Span::styled(sign, style);
        line.spans.insert(1, Span::raw(" "));
    }
    line
}
