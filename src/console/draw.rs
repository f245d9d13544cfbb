//! The screen, as a pure function of the state, the time, the size and the terminal's theme.
//!
//! ```text
//! node-17                      first lines: who and where       Windrow 0.1.0
//! ┌────────────────────────────────────────────────────────────────────────┐
//! │ Setting up Harvester  the word, since when                       4m10s │
//! │ the reason                                                             │
//! └────────────────────────────────────────────────────────────────────────┘
//! Steps      ✓ kube-apiserver  ▶ manifests
//! Manifests  ████████░░░░░░ 12/20 applied, …
//! ┌ 1 Machine │ 2 Manifests 20 │ 3 Findings 0 │ 4 Steps 1/2 ─────────────────┐
//! │ the pane                                                               │
//! └────────────────────────────────────────────────────────────────────────┘
//! keys
//! ```
//!
//! If there is no room, lines are dropped from the bottom up; the word and the reason are always there.

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Widget as _};
use windrow_decide::NodeRole;
use windrow_plan::rules::Platform;

use super::age::Ages;
use super::panes::{Pane, Pen};
use super::text::{columns, wrap_to};
use super::theme::Theme;
use super::view::{Extent, OperatorView, Overlay};
use super::words::{transition, whereabouts, word};
use super::{Scene, panes, steps};
use crate::render::point_in_time;

/// Below this there is no room for boxes.
const ROOMY: Size = Size::new(60, 18);
/// From this width on, the steps are next to the panes.
const WIDE: Size = Size::new(110, 30);
/// The steps' column there.
const STEPS_WIDTH: u16 = 38;
const REASON_LINES: usize = 3;

pub(crate) struct Screen {
    pub(crate) buffer: Buffer,
    /// When the same scene would look different.
    pub(crate) next: Option<Timestamp>,
    pub(crate) extent: Extent,
}

pub(crate) fn render(
    scene: &Scene,
    view: &OperatorView,
    now: Timestamp,
    size: Size,
    theme: Theme,
) -> Screen {
    let ages = Ages::at(now);
    let mut canvas = Canvas {
        buffer: Buffer::empty(Rect::new(0, 0, size.width, size.height)),
        theme,
        ages: &ages,
        is_live: scene.last.is_none(),
        row: 0,
    };
    let roomy = size.width >= ROOMY.width && size.height >= ROOMY.height;
    canvas.identity(scene, roomy);
    canvas.state(scene, roomy);
    let mut extent = Extent::default();
    match &view.overlay {
        Some(overlay) => canvas.overlay(overlay, view, roomy, &mut extent),
        None => {
            if roomy {
                canvas.facts(scene);
            }
            canvas.panes(scene, view, roomy, &mut extent);
        }
    }
    canvas.keys(view);
    Screen {
        buffer: canvas.buffer,
        next: ages.next(),
        extent,
    }
}

/// The cells, filled from the top down; the last row is the keys'.
pub(super) struct Canvas<'a> {
    pub(super) buffer: Buffer,
    pub(super) theme: Theme,
    ages: &'a Ages,
    is_live: bool,
    row: u16,
}

impl Canvas<'_> {
    pub(super) fn width(&self) -> u16 {
        self.buffer.area.width
    }

    fn left(&self) -> u16 {
        self.buffer.area.height.saturating_sub(self.row + 1)
    }

    pub(super) fn pen(&self, width: u16) -> Pen<'_> {
        Pen {
            theme: self.theme,
            width: usize::from(width),
            ages: self.ages,
            is_live: self.is_live,
        }
    }

    pub(super) fn line(&mut self, line: &Line<'_>) {
        if self.row < self.buffer.area.height {
            let width = self.width();
            self.buffer.set_line(0, self.row, line, width);
            self.row += 1;
        }
    }

    fn identity(&mut self, scene: &Scene, roomy: bool) {
        let name = match scene.host.name.as_str() {
            "" => "(no host name)",
            name => name,
        };
        let detail = scene.detail();
        let version = format!("Windrow {}", detail.versions.windrow);
        let role = match detail.role {
            NodeRole::Unknown => None,
            role => Some(role.to_string()),
        };
        let platform = match detail.platform {
            Some(Platform::Harvester) => Some("Harvester".to_owned()),
            Some(Platform::Rke2) => Some("RKE2".to_owned()),
            None => None,
        };
        let parts = [role, platform, Some(version)];
        let pen = self.pen(self.width());
        let right: Vec<String> = parts.into_iter().flatten().filter(|_| roomy).collect();
        // The name comes first and takes up to half a line.
        let right = pen.fit(&right.join("   "), pen.width / 2);
        let line = pen.both_ends(0, name, self.theme.strong(), &right);
        self.line(&line);
    }

    /// The word, since when, and why.
    fn state(&mut self, scene: &Scene, roomy: bool) {
        let (word, color) = word(&scene.status);
        let age = scene.since().map(|since| self.ages.since(since));
        let age = age.map_or_else(String::new, |age| format!("for {age}"));
        let inset = u16::from(roomy) * 2;
        let width = self.width().saturating_sub(2 * inset);
        let pen = self.pen(width);
        let badge = Span::styled(format!(" {word} "), self.theme.badge(color));
        let taken = columns(word) + 2;
        let whereabouts = format!("  {}", whereabouts(&scene.status));
        let mut first = pen.both_ends(taken, &whereabouts, Style::new(), &age);
        if let Some(indent) = first.spans.first_mut() {
            *indent = badge;
        }
        let mut lines = vec![first];
        let most = match roomy {
            true => REASON_LINES,
            false => usize::from(self.left().saturating_sub(1)).min(4),
        };
        let reason = pen.clean(&scene.status.reason.message);
        let reason = wrap_to(&reason, pen.width, most, self.theme.unicode);
        lines.extend(reason.into_iter().map(Line::raw));
        if let Some(seen) = &scene.status.transition {
            let what = transition(seen.kind);
            let text = format!(
                "{what} for {}: {}",
                self.ages.since(seen.since),
                seen.message
            );
            lines.extend(pen.paragraph(0, &text, Style::new(), 2));
        }
        if let Some(last) = &scene.last {
            let text = format!(
                "Last known: {} (since {})",
                last.summary,
                point_in_time(last.since, self.ages.now())
            );
            lines.extend(pen.paragraph(0, &text, Style::new(), 2));
        }
        if !roomy {
            for line in &lines {
                self.line(line);
            }
            return;
        }
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX) + 2;
        let area = Rect::new(0, self.row, self.width(), height).intersection(self.buffer.area);
        self.frame(area, Line::default());
        for (line, y) in lines
            .iter()
            .zip(area.y + 1..area.bottom().saturating_sub(1))
        {
            self.buffer.set_line(inset, y, line, width);
        }
        self.row = area.bottom();
    }

    fn frame(&mut self, area: Rect, title: Line<'_>) {
        Block::bordered()
            .border_set(self.theme.border())
            .title_top(title)
            .render(area, &mut self.buffer);
    }

    fn panes(&mut self, scene: &Scene, view: &OperatorView, roomy: bool, extent: &mut Extent) {
        let all = Pane::ALL;
        let first = Pane::first(scene.detail());
        let shown = view.pane.and_then(|pane| all.get(pane).copied());
        let shown = shown.unwrap_or(first);
        extent.panes = all.len();
        extent.pane = all.iter().position(|pane| *pane == shown).unwrap_or(0);
        let mut area = Rect::new(0, self.row, self.width(), self.left());
        if roomy && beside(self.buffer.area) {
            let [steps, rest] = [
                Rect {
                    width: STEPS_WIDTH,
                    ..area
                },
                Rect {
                    x: STEPS_WIDTH,
                    width: area.width - STEPS_WIDTH,
                    ..area
                },
            ];
            self.frame(steps, Line::raw(" Steps "));
            let pen = self.pen(steps.width.saturating_sub(4));
            let lines = steps::steps_lines(&scene.status, &pen, true);
            self.fill(inside(steps, true), &lines, 0);
            area = rest;
        }
        let tabs = self.tabs(scene, shown, roomy);
        let body = inside(area, roomy);
        if body.height == 0 {
            return;
        }
        if roomy {
            self.frame(area, tabs);
        } else {
            self.buffer.set_line(area.x, area.y, &tabs, area.width);
        }
        let source = match shown {
            // The steps of a daemon that does not run may be outdated.
            Pane::Steps => &scene.status,
            _ => scene.detail(),
        };
        let lines = shown.lines(source, &scene.machine, &self.pen(body.width));
        self.scrolled(body, &lines, view, extent);
    }

    fn tabs(&self, scene: &Scene, shown: Pane, roomy: bool) -> Line<'static> {
        let mut spans = Vec::new();
        for (at, pane) in Pane::ALL.into_iter().enumerate() {
            let source = match pane {
                Pane::Steps => &scene.status,
                _ => scene.detail(),
            };
            let text = match (roomy, pane == shown) {
                (true, _) => format!("{} {} {}", at + 1, pane.title(), pane.count(source)),
                (false, true) => format!("{} {}", pane.title(), pane.count(source)),
                (false, false) => pane.title().to_owned(),
            };
            let text = format!(" {} ", text.trim_end());
            // The mark does not depend on style: some terminals have none.
            let text = if pane == shown {
                format!("[{}]", text.trim())
            } else {
                text
            };
            let style = if pane == shown {
                self.theme.strong()
            } else {
                Style::new()
            };
            spans.push(Span::styled(text, style));
        }
        if scene.last.is_some() && roomy {
            spans.push(Span::raw(" as last known "));
        }
        Line::from(spans)
    }

    fn overlay(
        &mut self,
        overlay: &Overlay,
        view: &OperatorView,
        roomy: bool,
        extent: &mut Extent,
    ) {
        let area = Rect::new(0, self.row, self.width(), self.left());
        let body = inside(area, roomy);
        if body.height == 0 {
            return;
        }
        let title = match overlay {
            Overlay::Help => " Help ",
            Overlay::Journal(_) => " Journal of windrow ",
        };
        if roomy {
            self.frame(area, Line::styled(title, self.theme.strong()));
        } else {
            self.buffer.set_line(
                area.x,
                area.y,
                &Line::styled(title, self.theme.strong()),
                area.width,
            );
        }
        let pen = self.pen(body.width);
        let lines = match overlay {
            Overlay::Help => panes::help(view.may_quit, &pen),
            Overlay::Journal(lines) => lines
                .iter()
                .flat_map(|line| pen.paragraph(0, line, Style::new(), usize::MAX))
                .collect(),
        };
        extent.panes = Pane::ALL.len();
        self.scrolled(body, &lines, view, extent);
    }

    /// The lines from the operator's position on, and that position.
    fn scrolled(
        &mut self,
        body: Rect,
        lines: &[Line<'_>],
        view: &OperatorView,
        extent: &mut Extent,
    ) {
        let page = usize::from(body.height);
        let top = view.top.min(lines.len().saturating_sub(page));
        extent.top = top;
        extent.lines = lines.len();
        extent.page = page;
        self.fill(body, lines, top);
        if lines.len() > page {
            let place = format!(" {}-{} of {} ", top + 1, top + page, lines.len());
            let width = u16::try_from(columns(&place)).unwrap_or(0);
            let y = body.bottom();
            let x = body.right().saturating_sub(width);
            // On the frame, or on the row of the keys, which then makes room.
            if y < self.buffer.area.height && x >= body.x {
                self.buffer.set_string(x, y, place, Style::new());
            }
        }
    }

    fn fill(&mut self, body: Rect, lines: &[Line<'_>], top: usize) {
        for (line, y) in lines.iter().skip(top).zip(body.y..body.bottom()) {
            self.buffer.set_line(body.x, y, line, body.width);
        }
    }

    fn keys(&mut self, view: &OperatorView) {
        let area = self.buffer.area;
        if area.height < 4 {
            return;
        }
        let keys: &[(&str, &str)] = match (&view.overlay, view.may_quit) {
            (Some(_), _) => &[("Esc", "back"), ("Up/Dn", "scroll")],
            (None, true) => &[
                ("?", "help"),
                ("Tab", "pane"),
                ("Up/Dn", "scroll"),
                ("j", "journal"),
                ("q", "quit"),
            ],
            (None, false) => &[
                ("?", "help"),
                ("Tab", "pane"),
                ("Up/Dn", "scroll"),
                ("j", "journal"),
            ],
        };
        let mut spans = vec![Span::raw(" ")];
        for (key, what) in keys {
            spans.push(Span::styled(*key, self.theme.strong()));
            spans.push(Span::raw(format!(" {what}  ")));
        }
        let y = area.height - 1;
        // In a small terminal the position of the pane is on this row, too.
        let width = match area.width < ROOMY.width || area.height < ROOMY.height {
            true => area.width.saturating_sub(16),
            false => area.width,
        };
        self.buffer.set_line(0, y, &Line::from(spans), width);
    }
}

pub(super) fn beside(area: Rect) -> bool {
    area.width >= WIDE.width && area.height >= WIDE.height
}

/// The room inside a frame, or below a line of tabs if there is no room for frames.
fn inside(area: Rect, roomy: bool) -> Rect {
    if roomy {
        Rect {
            x: area.x + 2,
            y: area.y + 1,
            width: area.width.saturating_sub(4),
            height: area.height.saturating_sub(2),
        }
    } else {
        Rect {
            y: area.y + 1,
            height: area.height.saturating_sub(1),
            ..area
        }
    }
}
