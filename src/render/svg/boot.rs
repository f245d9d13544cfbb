//! The time of a boot as a picture: phases, the critical path, files. Self-contained SVG, no script, readable in light and in dark
//! mode; a pointer over a bar shows the reason for the wait.

use std::fmt::Write as _;

use windrow_replay::{BootTimeline, ChainStep, FileTime, FileWait, PhaseStay, WaitedOn};

use super::super::markup::escaped;
use super::super::rehearsal::clock;
use super::super::timeline::{end_words, span, step_subject, usual, usual_of_phase};
use super::metrics::{clip, clip_middle, width};
use crate::printable::printable;

const WIDTH: f64 = 1120.0;
const MARGIN: f64 = 20.0;
/// Start and end of the time axis.
const LEFT: f64 = 230.0;
const RIGHT: f64 = WIDTH - 30.0;
const TEXT: f64 = 12.0;
/// Most marks on the time axis.
const MARKS: f64 = 12.0;
/// Maximum number of files with their own row; the text has all files.
const FILES: usize = 80;

/// Every rule is below `.boot`, so that the picture can be part of a page.
const STYLE: &str = r#"<style>
.boot text { font-family: "DejaVu Sans", Verdana, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; font-size: 12px; fill: #1f2937; }
.boot .page { fill: #ffffff; }
.boot .headline { font-size: 17px; font-weight: 600; }
.boot .heading { font-size: 13px; font-weight: 700; }
.boot .soft { font-size: 11px; fill: #4b5563; }
.boot .mark { stroke: #e5e7eb; fill: none; }
.boot .phase { fill: #c7d2fe; }
.boot .node { fill: #94a3b8; }
.boot .requirement, .boot .held { fill: #fbbf24; }
.boot .other { fill: #c084fc; }
.boot .rke2 { fill: #60a5fa; }
.boot .file { fill: #d1d5db; }
.boot .applied { fill: #16a34a; }
.boot .pale { opacity: .6; }
.boot .open { stroke: #b91c1c; stroke-width: 1.5; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
.boot text { fill: #e5e7eb; }
.boot .page { fill: #111827; }
.boot .soft { fill: #9ca3af; }
.boot .mark { stroke: #374151; }
.boot .phase { fill: #3730a3; }
.boot .node { fill: #64748b; }
.boot .requirement, .boot .held { fill: #b45309; }
.boot .other { fill: #7e22ce; }
.boot .rke2 { fill: #1d4ed8; }
.boot .file { fill: #4b5563; }
.boot .applied { fill: #4ade80; }
.boot .open { stroke: #f87171; }
}
</style>
"#;

/// The timeline as an SVG document.
pub fn boot_picture(timeline: &BootTimeline) -> String {
    picture(timeline, " xmlns=\"http://www.w3.org/2000/svg\"")
}

/// As [`boot_picture`], as a part of a page.
pub(in crate::render) fn boot_figure(timeline: &BootTimeline) -> String {
    picture(timeline, "")
}

fn picture(timeline: &BootTimeline, namespace: &str) -> String {
    let mut chart = Chart {
        end: timeline.end.at.max(1.0),
        y: 96.0,
        out: String::new(),
    };
    chart.phases(&timeline.phases);
    chart.chain(&timeline.chain);
    chart.files(&timeline.files);
    chart.legend(timeline);
    let height = chart.y;
    let mut out = String::new();
    let headline = escaped(&end_words(timeline));
    let _ = writeln!(
        out,
        "<svg{namespace} class=\"boot\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\" \
         aria-label=\"{headline}\">"
    );
    out.push_str(STYLE);
    let _ = writeln!(
        out,
        "<rect class=\"page\" width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"10\"/>\
         <text class=\"headline\" x=\"{MARGIN}\" y=\"34\">{headline}</text>\
         <text class=\"soft\" x=\"{MARGIN}\" y=\"54\">{}</text>",
        escaped(&about(timeline))
    );
    chart.axis(&mut out, height);
    out.push_str(&chart.out);
    out.push_str("</svg>\n");
    out
}

fn about(timeline: &BootTimeline) -> String {
    let began = timeline.began.strftime("%Y-%m-%d %H:%M:%S UTC");
    let usual = usual(timeline.usual);
    let boot = match &timeline.boot {
        Some(boot) => format!(", boot {}", printable(boot)),
        None => String::new(),
    };
    format!("Windrow started at {began}{boot}{usual}")
}

struct Chart {
    end: f64,
    y: f64,
    out: String,
}

struct Bar<'a> {
    from: f64,
    to: f64,
    class: &'a str,
    /// Shown when a pointer is over it.
    hint: &'a str,
}

impl Chart {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / self.end).clamp(0.0, 1.0)
    }

    fn axis(&self, out: &mut String, height: f64) {
        let step = [
            10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0,
        ]
        .into_iter()
        .find(|step| self.end / step <= MARKS)
        .unwrap_or((self.end / MARKS / 3600.0).ceil() * 3600.0);
        let mut at = 0.0;
        while at <= self.end {
            let x = self.x(at);
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" y1=\"80\" x2=\"{x:.1}\" y2=\"{:.0}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"74\" text-anchor=\"middle\">{}</text>",
                height - 44.0,
                clock(at)
            );
            at += step;
        }
        out.push('\n');
    }

    fn heading(&mut self, text: &str) {
        let y = self.y + 16.0;
        let _ = writeln!(
            self.out,
            "<text class=\"heading\" x=\"{MARGIN}\" y=\"{y:.0}\">{text}</text>"
        );
        self.y += 26.0;
    }

    fn label(&mut self, text: &str, y: f64) {
        let text = clip_middle(&printable(text), TEXT, LEFT - MARGIN - 14.0);
        let _ = write!(
            self.out,
            "<text x=\"{MARGIN}\" y=\"{y:.1}\">{}</text>",
            escaped(&text)
        );
    }

    fn bar(&mut self, bar: &Bar<'_>, y: f64, height: f64) {
        let (from, to) = (self.x(bar.from), self.x(bar.to));
        let _ = write!(
            self.out,
            "<rect class=\"{}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height}\" rx=\"2\"><title>{}</title></rect>",
            bar.class,
            (to - from).max(2.0),
            escaped(bar.hint)
        );
    }

    /// The text of a bar: after it if there is room, otherwise before it, otherwise on it.
    fn beside(&mut self, text: &str, from: f64, to: f64, y: f64) {
        let (from, to) = (self.x(from), self.x(to));
        let wide = width(text, TEXT, false);
        let (x, anchor, room) = if to + 8.0 + wide <= RIGHT + 20.0 {
            (to + 8.0, "start", wide)
        } else if from - 8.0 - wide >= LEFT {
            (from - 8.0, "end", wide)
        } else {
            (from + 6.0, "start", RIGHT + 20.0 - from)
        };
        let text = clip(text, TEXT, false, room);
        let _ = write!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(&text)
        );
    }

    fn phases(&mut self, phases: &[PhaseStay]) {
        if phases.is_empty() {
            return;
        }
        self.heading("Phases");
        for phase in phases {
            let y = self.y;
            self.label(phase.name.title(), y + 14.0);
            let class = if phase.ended { "phase" } else { "phase open" };
            let bar = Bar {
                from: phase.from,
                to: phase.to,
                class,
                hint: phase.name.title(),
            };
            self.bar(&bar, y + 3.0, 15.0);
            let usual = usual_of_phase(phase.usual);
            let text = format!("{}{usual}", span(phase.to - phase.from));
            self.beside(&text, phase.from, phase.to, y + 15.0);
            self.out.push('\n');
            self.y += 22.0;
        }
        self.y += 10.0;
    }

    fn chain(&mut self, steps: &[ChainStep]) {
        if steps.is_empty() {
            return;
        }
        self.heading("Critical path");
        for step in steps {
            let y = self.y;
            let times = format!("{}, for {}", clock(step.from), span(step.to - step.from));
            self.label(&times, y + 14.0);
            let more = if step.open { " (still)" } else { "" };
            let text = format!("{}{}{more}", step_subject(step), printable(&step.text));
            let (from, to) = (self.x(step.from), self.x(step.to));
            let wide = width(&text, TEXT, false);
            let (x, anchor, room) = if from + wide <= RIGHT + 20.0 {
                (from, "start", wide)
            } else if to - wide >= LEFT {
                (to, "end", wide)
            } else {
                (LEFT, "start", RIGHT + 20.0 - LEFT)
            };
            let _ = write!(
                self.out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                y + 14.0,
                escaped(&clip(&text, TEXT, false, room))
            );
            let class = match (step.on, step.open) {
                (on, true) => format!("{} open", class_of(on)),
                (on, false) => class_of(on).to_owned(),
            };
            let bar = Bar {
                from: step.from,
                to: step.to,
                class: &class,
                hint: &text,
            };
            self.bar(&bar, y + 20.0, 9.0);
            self.out.push('\n');
            self.y += 36.0;
        }
        self.y += 10.0;
    }

    fn files(&mut self, files: &[FileTime]) {
        if files.is_empty() {
            return;
        }
        self.heading("Files");
        for file in files.iter().take(FILES) {
            self.file(file);
        }
        if let Some(more) = files.len().checked_sub(FILES).filter(|more| *more > 0) {
            let text = format!("and {more} more");
            let y = self.y + 14.0;
            self.label(&text, y);
            self.y += 22.0;
        }
        self.y += 10.0;
    }

    fn file(&mut self, file: &FileTime) {
        let y = self.y;
        self.label(&file.file, y + 14.0);
        for (number, FileWait { from, to, why, .. }) in file.waits.iter().enumerate() {
            let class = if number % 2 == 0 { "held pale" } else { "held" };
            let bar = Bar {
                from: *from,
                to: *to,
                class,
                hint: why,
            };
            self.bar(&bar, y + 3.0, 15.0);
        }
        if let (Some(applied), Some(poll)) = (file.applied, file.poll_seconds) {
            let bar = Bar {
                from: applied - poll,
                to: applied,
                class: "rke2",
                hint: "RKE2 reads and applies it",
            };
            self.bar(&bar, y + 3.0, 15.0);
        }
        if let Some(applied) = file.applied {
            let x = self.x(applied);
            let _ = write!(
                self.out,
                "<circle class=\"applied\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\"><title>applied</title></circle>",
                y + 10.5
            );
        }
        let waited = file.waits.last().map(|wait| wait.to);
        let until = file.applied.or(file.released).or(waited);
        let held = match (file.held, file.released.or(waited)) {
            (Some(from), Some(to)) => Some(span(to - from)),
            _ => None,
        };
        let mut words: Vec<String> = Vec::new();
        words.extend(held.map(|held| match file.released {
            Some(_) => format!("held {held}"),
            None => format!("still held after {held}"),
        }));
        words.extend(file.poll_seconds.map(|poll| format!("RKE2 {}", span(poll))));
        if file.applied.is_none() && file.released.is_some() {
            words.push("not applied".to_owned());
        }
        let from = file.held.or(file.released).unwrap_or_default();
        self.beside(&words.join(", "), from, until.unwrap_or(from), y + 15.0);
        self.out.push('\n');
        self.y += 22.0;
    }

    fn legend(&mut self, timeline: &BootTimeline) {
        let y = self.y + 6.0;
        let mut x = MARGIN;
        for (class, words) in [
            ("node", "the node"),
            ("requirement", "dependency of a held file"),
            ("other", "object of another file"),
            ("rke2", "RKE2's poll and apply"),
            ("applied", "applied"),
        ] {
            let _ = write!(
                self.out,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\" rx=\"2\"/>\
                 <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
                y - 9.0,
                x + 17.0,
                y
            );
            x += 17.0 + width(words, 11.0, false) + 22.0;
        }
        self.out.push('\n');
        self.y += 22.0;
        for caution in &timeline.cautions {
            let text = format!("Note: {}", printable(caution));
            let text = clip(&text, 11.0, false, WIDTH - 2.0 * MARGIN);
            let _ = writeln!(
                self.out,
                "<text class=\"soft\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
                self.y + 6.0,
                escaped(&text)
            );
            self.y += 18.0;
        }
        self.y += 8.0;
    }
}

fn class_of(on: WaitedOn) -> &'static str {
    match on {
        WaitedOn::Node => "node",
        WaitedOn::Requirement => "requirement",
        WaitedOn::OtherFile => "other",
        WaitedOn::Rke2 => "rke2",
        WaitedOn::File => "file",
    }
}
