//! The picture's elements, from the boxes, their places and the routes between them.

use std::fmt::Write as _;

use windrow_model::reasons::Severity;
use windrow_plan::Plan;
use windrow_plan::rules::Tier;

use super::super::graph::{BoxClass, BoxGraph, BoxKind, Edge};
use super::super::markup::escaped;
use super::drawn_box::{
    DrawnBox, HEADER, MARGIN, NARROWEST, PAD, ROW, SMALL, TEXT, TOP, badge_width,
};
use super::layout::{BoxLayout, Route, Shape};
use super::metrics::{clip, clip_middle, width};
use super::style::STYLE;

const COLUMN_GAP: f64 = 92.0;
/// More findings than this are summed up in a last line.
const FINDINGS: usize = 6;

struct PictureFrame {
    /// Left edge and width of each column.
    columns: Vec<(f64, f64)>,
    width: f64,
    /// The top of the legend, below the boxes.
    legend: f64,
}

impl PictureFrame {
    fn new(drawn: &[DrawnBox<'_>], layout: &BoxLayout) -> Self {
        let mut widths = vec![NARROWEST; layout.columns];
        for (drawn, (column, _)) in drawn.iter().zip(&layout.boxes) {
            widths[*column] = widths[*column].max(drawn.width);
        }
        let columns: Vec<(f64, f64)> = widths
            .iter()
            .scan(MARGIN, |left, width| {
                let own = *left;
                *left += width + COLUMN_GAP;
                Some((own, *width))
            })
            .collect();
        let right = columns
            .last()
            .map_or(0.0, |(left, width)| left + width + MARGIN);
        Self {
            columns,
            width: right.max(560.0),
            legend: TOP + layout.height + 34.0,
        }
    }
}

pub(super) fn draw(
    plan: &Plan,
    graph: &BoxGraph,
    drawn: &[DrawnBox<'_>],
    shapes: &[Shape],
    layout: &BoxLayout,
) -> String {
    let frame = PictureFrame::new(drawn, layout);
    let findings = finding_lines(plan, frame.width - 2.0 * MARGIN);
    let mut out = String::new();
    let height = frame.legend + 26.0 + findings.len() as f64 * 20.0 + 12.0;
    draw_page(&mut out, plan, drawn, frame.width, height);
    draw_headings(&mut out, drawn, &frame);
    // Edges come before boxes, and the most important ones last, so that they are on top.
    let mut edges: Vec<(&Edge, &Route)> = graph.edges.iter().zip(&layout.routes).collect();
    edges.sort_by_key(|(edge, _)| (edge.cycle, !edge.yields && edge.tier == Tier::Required));
    for (edge, route) in edges {
        draw_edge(&mut out, edge, route, shapes, layout, &frame);
    }
    for (drawn, (shape, (column, top))) in drawn.iter().zip(shapes.iter().zip(&layout.boxes)) {
        let (left, width) = frame.columns[*column];
        draw_box(&mut out, drawn, shape.height, (left, TOP + top, width));
    }
    draw_legend(&mut out, graph, frame.legend);
    for (row, (class, line)) in findings.iter().enumerate() {
        let y = frame.legend + 34.0 + row as f64 * 20.0;
        let _ = writeln!(
            out,
            r#"<text class="{class}" x="{MARGIN}" y="{y:.1}">{}</text>"#,
            escaped(line)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_page(out: &mut String, plan: &Plan, drawn: &[DrawnBox<'_>], width: f64, height: f64) {
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-labelledby="title">"#
    );
    let held = drawn.iter().filter(|drawn| {
        matches!(
            drawn.one.kind,
            BoxKind::Held | BoxKind::Stuck | BoxKind::Refused
        )
    });
    let (held, files) = (held.count(), plan.files.len());
    let headline = match files {
        1 => format!("1 manifest file, {held} held at a fresh boot"),
        _ => format!("{files} manifest files, {held} held at a fresh boot"),
    };
    let _ = writeln!(out, r#"<title id="title">Plan: {headline}</title>"#);
    out.push_str(STYLE);
    let _ = writeln!(
        out,
        r#"<rect class="page" width="{width:.0}" height="{height:.0}" rx="10"/>"#
    );
    let _ = writeln!(
        out,
        r#"<text class="headline" x="{MARGIN}" y="36">{headline}</text>"#
    );
}

fn draw_headings(out: &mut String, drawn: &[DrawnBox<'_>], frame: &PictureFrame) {
    let elsewhere = drawn.iter().any(|drawn| !drawn.one.kind.is_file());
    let free = drawn.iter().any(|drawn| drawn.one.kind == BoxKind::Free);
    for (column, (left, _)) in frame.columns.iter().enumerate() {
        let heading = match (column, elsewhere) {
            (0, true) => "From elsewhere".to_owned(),
            (0, false) | (1, true) if free => "At once".to_owned(),
            (0, false) | (1, true) => String::new(),
            (column, _) => {
                let wave = column - usize::from(elsewhere);
                if wave == 1 {
                    "After dependencies".to_owned()
                } else {
                    format!("Then ({wave})")
                }
            }
        };
        let _ = writeln!(
            out,
            r#"<text class="heading" x="{left:.1}" y="66">{heading}</text>"#
        );
    }
}

fn draw_edge(
    out: &mut String,
    edge: &Edge,
    route: &Route,
    shapes: &[Shape],
    layout: &BoxLayout,
    frame: &PictureFrame,
) {
    let (from, to) = if route.reversed {
        (edge.to, edge.from)
    } else {
        (edge.from, edge.to)
    };
    let y = |(id, row): (usize, usize)| TOP + layout.boxes[id].1 + shapes[id].rows[row];
    let column = |(id, _): (usize, usize)| frame.columns[layout.boxes[id].0];
    let (from_left, from_width) = column(from);
    let start = (from_left + from_width, y(from));
    let end = (column(to).0, y(to));
    // The arrow head takes the last pixels.
    let (start, end) = if route.reversed {
        ((start.0 + 7.0, start.1), end)
    } else {
        (start, (end.0 - 7.0, end.1))
    };
    let mut path = format!("M{:.1} {:.1}", start.0, start.1);
    let mut at = start;
    for (column, height) in &route.lanes {
        let ((left, width), y) = (frame.columns[*column], TOP + height);
        curve(&mut path, at, (left, y));
        let _ = write!(path, "H{:.1}", left + width);
        at = (left + width, y);
    }
    curve(&mut path, at, end);
    let class = match (edge.cycle, edge.yields, edge.tier) {
        (true, _, _) => "edge cycle",
        (_, true, _) => "edge yields",
        (_, _, Tier::Required) => "edge required",
        (_, _, Tier::Advisory) => "edge advisory",
    };
    let _ = writeln!(
        out,
        r#"<path class="{class}" d="{path}"><title>{}</title></path>"#,
        escaped(&edge.label)
    );
    let head = class.replace("edge", "head");
    let (x, y, back) = if route.reversed {
        (start.0 - 7.0, start.1, 8.0)
    } else {
        (end.0 + 7.0, end.1, -8.0)
    };
    let _ = writeln!(
        out,
        r#"<path class="{head}" d="M{x:.1} {y:.1}l{back} -4v8z"/>"#
    );
}

fn curve(path: &mut String, from: (f64, f64), to: (f64, f64)) {
    let middle = (to.0 - from.0) / 2.0;
    let _ = write!(
        path,
        "C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
        from.0 + middle,
        from.1,
        to.0 - middle,
        to.1,
        to.0,
        to.1
    );
}

fn draw_box(out: &mut String, drawn: &DrawnBox<'_>, height: f64, (x, y, w): (f64, f64, f64)) {
    let one = drawn.one;
    let class = match one.kind.class() {
        BoxClass::Free => "free",
        BoxClass::Held => "held",
        BoxClass::Wrong => "wrong",
        BoxClass::Other => "other",
    };
    let _ = writeln!(
        out,
        r#"<g class="{class}" transform="translate({x:.1} {y:.1})">"#
    );
    let _ = writeln!(
        out,
        r#"<rect class="box" width="{w:.1}" height="{height:.1}" rx="8"/><path class="rule" d="M0 {HEADER}H{w:.1}"/>"#
    );
    let mut left = PAD;
    if let Some(order) = one.order {
        let _ = writeln!(
            out,
            r#"<circle class="disc" cx="{:.1}" cy="17" r="10"/><text class="number" x="{:.1}" y="21">{order}</text>"#,
            left + 8.0,
            left + 8.0
        );
        left += 26.0;
    }
    let badge = badge_width(one.kind);
    let room = w - left - PAD - badge - 8.0;
    let _ = writeln!(
        out,
        r#"<text class="title" x="{left:.1}" y="21.5">{}</text>"#,
        escaped(&clip(&one.title, 13.0, true, room))
    );
    let _ = writeln!(
        out,
        r#"<rect class="badge" x="{:.1}" y="8" width="{badge:.1}" height="18" rx="9"/><text class="badge-text" x="{:.1}" y="21">{}</text>"#,
        w - PAD - badge + 4.0,
        w - PAD - badge / 2.0 + 4.0,
        one.kind.badge()
    );
    for (place, row) in drawn.shown.iter().enumerate() {
        let row = &one.rows[*row];
        let baseline = HEADER + 4.0 + (place as f64 + 0.5) * ROW + 4.0;
        let kind = clip(&row.kind, SMALL, false, w * 0.5);
        let name_left = PAD + width(&kind, SMALL, false) + 8.0;
        let _ = writeln!(
            out,
            r#"<g><title>{} {}</title><text class="kind" x="{PAD}" y="{baseline:.1}">{}</text><text class="name" x="{name_left:.1}" y="{baseline:.1}">{}</text></g>"#,
            escaped(&row.kind),
            escaped(&row.name),
            escaped(&kind),
            escaped(&clip_middle(&row.name, TEXT, w - name_left - PAD))
        );
    }
    let rest = match (drawn.shown.len(), drawn.hidden) {
        (0, 0) => Some("no objects".to_owned()),
        (_, 0) => None,
        (_, hidden) => Some(format!("and {hidden} more")),
    };
    if let Some(rest) = rest {
        let baseline = HEADER + 4.0 + (drawn.shown.len() as f64 + 0.5) * ROW + 4.0;
        let _ = writeln!(
            out,
            r#"<text class="kind" x="{PAD}" y="{baseline:.1}">{rest}</text>"#
        );
    }
    out.push_str("</g>\n");
}

/// The kinds of line that are drawn, each with its meaning.
fn legend(graph: &BoxGraph) -> Vec<(&'static str, &'static str)> {
    let any = |test: &dyn Fn(&Edge) -> bool| graph.edges.iter().any(test);
    let rows: [(&'static str, &'static str, bool); 4] = [
        (
            "required",
            "needed: holds the file",
            any(&|edge| edge.tier == Tier::Required && !edge.cycle && !edge.yields),
        ),
        (
            "advisory",
            "ordering only: released at its deadline",
            any(&|edge| edge.tier == Tier::Advisory && !edge.cycle && !edge.yields),
        ),
        (
            "yields",
            "gives way",
            any(&|edge| edge.yields && !edge.cycle),
        ),
        ("cycle", "part of a cycle", any(&|edge| edge.cycle)),
    ];
    rows.into_iter()
        .filter(|(_, _, drawn)| *drawn)
        .map(|(class, words, _)| (class, words))
        .collect()
}

fn draw_legend(out: &mut String, graph: &BoxGraph, y: f64) {
    let mut x = MARGIN;
    for (class, words) in legend(graph) {
        let _ = writeln!(
            out,
            r#"<path class="edge {class}" d="M{x:.1} {y:.1}h34"/><path class="head {class}" d="M{:.1} {y:.1}l-8 -4v8z"/><text class="legend" x="{:.1}" y="{:.1}">{words}</text>"#,
            x + 41.0,
            x + 50.0,
            y + 4.0
        );
        x += 50.0 + width(words, SMALL, false) + 30.0;
    }
}

fn finding_lines(plan: &Plan, room: f64) -> Vec<(&'static str, String)> {
    let class = |severity| match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info | Severity::Notice => "legend",
    };
    let serious = plan
        .findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning);
    let mut lines: Vec<(&'static str, String)> = serious
        .clone()
        .take(FINDINGS)
        .map(|finding| {
            let at = finding
                .at
                .first()
                .map_or(String::new(), |at| format!("{at}: "));
            let text = format!("{}: {at}{}", finding.code, finding.message);
            (class(finding.severity), clip(&text, TEXT, false, room))
        })
        .collect();
    let rest = serious.count().saturating_sub(FINDINGS);
    if rest > 0 {
        lines.push(("legend", format!("and {rest} more findings")));
    }
    lines
}
