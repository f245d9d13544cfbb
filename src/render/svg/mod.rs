//! The plan as a picture: self-contained SVG, no script, readable in light and in dark.

mod layout;
mod metrics;
mod style;

use std::fmt::Write as _;

use windrow_model::reasons::Severity;
use windrow_plan::Plan;
use windrow_plan::rules::Tier;

use self::layout::{Layout, Route, Shape};
use self::metrics::{clip, clip_middle, width};
use super::graph::{Box, BoxKind, Edge, Graph, Look};
use crate::printable::{is_hidden, printable};

const MARGIN: f64 = 28.0;
const TOP: f64 = 86.0;
const HEADER: f64 = 34.0;
const ROW: f64 = 22.0;
const PAD: f64 = 12.0;
const COLUMN_GAP: f64 = 92.0;
const NARROWEST: f64 = 170.0;
const WIDEST: f64 = 380.0;
/// More rows than this are summed up in a last one.
const ROWS: usize = 12;
/// Rows that nothing is tied to are listed up to here.
const UNTIED_ROWS: usize = 6;
/// From so many edges out of one row into one box, one is drawn to the box.
const BUNDLE: usize = 4;
/// More findings than this are summed up in a last line.
const FINDINGS: usize = 6;
const TEXT: f64 = 12.0;
const SMALL: f64 = 11.0;

/// One box, ready to draw.
struct Drawn<'a> {
    one: &'a Box,
    /// Positions in `one.rows` that are shown.
    shown: Vec<usize>,
    /// How many are not.
    hidden: usize,
    width: f64,
}

/// The plan as an SVG document.
pub fn svg(plan: &Plan) -> String {
    let mut graph = Graph::of(plan);
    let drawn_rows: Vec<(Vec<usize>, usize)> = (0..graph.boxes.len())
        .map(|id| shown_rows(&graph, id))
        .collect();
    fold_hidden_rows(&mut graph, &drawn_rows);
    let drawn: Vec<Drawn<'_>> = graph
        .boxes
        .iter()
        .zip(drawn_rows)
        .map(|(one, (shown, hidden))| Drawn {
            width: box_width(one, &shown),
            one,
            shown,
            hidden,
        })
        .collect();
    let shapes: Vec<Shape> = drawn.iter().enumerate().map(shape).collect();
    let layout = layout::layout(&graph, &shapes);
    draw(plan, &graph, &drawn, &shapes, &layout)
}

/// The rows with an edge first, then the others; in their own order, and not too many.
fn shown_rows(graph: &Graph, id: usize) -> (Vec<usize>, usize) {
    let rows = graph.boxes[id].rows.len();
    if rows <= ROWS {
        return ((0..rows).collect(), 0);
    }
    let tied = |row: &usize| {
        graph
            .edges
            .iter()
            .any(|edge| edge.from == (id, *row) || edge.to == (id, *row))
    };
    let (with, without): (Vec<usize>, Vec<usize>) = (0..rows).partition(tied);
    let most = with.len().clamp(UNTIED_ROWS, ROWS - 1);
    let mut shown: Vec<usize> = with.into_iter().chain(without).take(most).collect();
    shown.sort_unstable();
    let hidden = rows - shown.len();
    (shown, hidden)
}

/// Re-ties edges to the rows that are drawn; those of rows that are not go to the last one.
fn fold_hidden_rows(graph: &mut Graph, rows: &[(Vec<usize>, usize)]) {
    let place = |(id, row): (usize, usize)| {
        let shown = &rows[id].0;
        (
            id,
            shown
                .iter()
                .position(|one| *one == row)
                .unwrap_or(shown.len()),
        )
    };
    let mut folded: Vec<Edge> = Vec::new();
    for mut edge in graph.edges.drain(..) {
        edge.from = place(edge.from);
        edge.to = place(edge.to);
        match folded
            .iter_mut()
            .find(|known| known.from == edge.from && known.to == edge.to)
        {
            Some(known) => {
                if edge.tier == Tier::Required {
                    known.tier = Tier::Required;
                }
                known.yields &= edge.yields;
                known.label = format!("{}; {}", known.label, edge.label);
            }
            None => folded.push(edge),
        }
    }
    graph.edges = bundled(folded, rows);
}

/// What many rows of one box need from one place is drawn once, to the box as a whole.
fn bundled(edges: Vec<Edge>, rows: &[(Vec<usize>, usize)]) -> Vec<Edge> {
    let key = |edge: &Edge| (edge.from, edge.to.0, edge.tier, edge.cycle, edge.yields);
    let mut bundled: Vec<Edge> = Vec::new();
    for edge in &edges {
        let alike = edges.iter().filter(|other| key(other) == key(edge)).count();
        if alike < BUNDLE {
            bundled.push(edge.clone());
            continue;
        }
        let header = (edge.to.0, lines(&rows[edge.to.0]));
        if !bundled
            .iter()
            .any(|known| known.to == header && key(known) == key(edge))
        {
            bundled.push(Edge {
                to: header,
                ..edge.clone()
            });
        }
    }
    bundled
}

/// How many lines a box has below its header.
fn lines((shown, hidden): &(Vec<usize>, usize)) -> usize {
    (shown.len() + usize::from(*hidden > 0)).max(1)
}

fn title_width(one: &Box) -> f64 {
    let number = if one.order.is_some() { 26.0 } else { 0.0 };
    number + width(&one.title, 13.0, true) + 14.0 + badge_width(one.kind)
}

fn badge_width(kind: BoxKind) -> f64 {
    width(kind.badge(), SMALL, false) + 14.0
}

fn box_width(one: &Box, shown: &[usize]) -> f64 {
    shown
        .iter()
        .map(|row| {
            let row = &one.rows[*row];
            width(&row.kind, SMALL, false) + 8.0 + width(&row.name, TEXT, false)
        })
        .fold(title_width(one), f64::max)
        .clamp(NARROWEST, WIDEST - 2.0 * PAD)
        + 2.0 * PAD
}

fn shape((id, drawn): (usize, &Drawn<'_>)) -> Shape {
    let lines = lines(&(drawn.shown.clone(), drawn.hidden));
    Shape {
        height: HEADER + lines as f64 * ROW + 8.0,
        rows: (0..lines)
            .map(|row| HEADER + 4.0 + (row as f64 + 0.5) * ROW)
            // One more, for what concerns the box as a whole.
            .chain([HEADER / 2.0])
            .collect(),
        first: !drawn.one.kind.is_file(),
        order: drawn.one.order.unwrap_or(id),
    }
}

fn draw(
    plan: &Plan,
    graph: &Graph,
    drawn: &[Drawn<'_>],
    shapes: &[Shape],
    layout: &Layout,
) -> String {
    let mut widths = vec![NARROWEST; layout.columns];
    for (drawn, (column, _)) in drawn.iter().zip(&layout.boxes) {
        widths[*column] = widths[*column].max(drawn.width);
    }
    let lefts: Vec<f64> = widths
        .iter()
        .scan(MARGIN, |left, width| {
            let own = *left;
            *left += width + COLUMN_GAP;
            Some(own)
        })
        .collect();
    let legend = legend(plan, graph);
    let total_width = lefts
        .last()
        .zip(widths.last())
        .map_or(0.0, |(left, width)| left + width + MARGIN)
        .max(560.0);
    let below = TOP + layout.height + 34.0;
    let findings = finding_lines(plan, total_width - 2.0 * MARGIN);
    let total_height = below + 26.0 + findings.len() as f64 * 20.0 + 12.0;

    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0} {h:.0}" width="{w:.0}" height="{h:.0}" role="img" aria-labelledby="title">"#,
        w = total_width,
        h = total_height
    );
    let held = count_of(drawn, BoxKind::Held)
        + count_of(drawn, BoxKind::Stuck)
        + count_of(drawn, BoxKind::Refused);
    let files = plan.files.len();
    let headline = match files {
        1 => format!("1 manifest file, {held} held at a fresh boot"),
        _ => format!("{files} manifest files, {held} held at a fresh boot"),
    };
    let _ = writeln!(out, r#"<title id="title">Plan: {headline}</title>"#);
    out.push_str(style::STYLE);
    let _ = writeln!(
        out,
        r#"<rect class="page" width="{total_width:.0}" height="{total_height:.0}" rx="10"/>"#
    );
    let _ = writeln!(
        out,
        r#"<text class="headline" x="{MARGIN}" y="36">{headline}</text>"#
    );
    headings(&mut out, drawn, &lefts);
    // Edges come before boxes, and the ones that matter most come last, so that they are on top.
    let mut edges: Vec<(&Edge, &Route)> = graph.edges.iter().zip(&layout.routes).collect();
    edges.sort_by_key(|(edge, _)| (edge.cycle, !edge.yields && edge.tier == Tier::Required));
    for (edge, route) in edges {
        draw_edge(&mut out, edge, route, shapes, layout, &lefts, &widths);
    }
    for (drawn, (shape, (column, top))) in drawn.iter().zip(shapes.iter().zip(&layout.boxes)) {
        draw_box(
            &mut out,
            drawn,
            shape.height,
            (lefts[*column], TOP + top, widths[*column]),
        );
    }
    draw_legend(&mut out, &legend, below);
    for (row, (class, line)) in findings.iter().enumerate() {
        let y = below + 34.0 + row as f64 * 20.0;
        let _ = writeln!(
            out,
            r#"<text class="{class}" x="{MARGIN}" y="{y:.1}">{}</text>"#,
            escaped(line)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn count_of(drawn: &[Drawn<'_>], kind: BoxKind) -> usize {
    drawn.iter().filter(|drawn| drawn.one.kind == kind).count()
}

fn headings(out: &mut String, drawn: &[Drawn<'_>], lefts: &[f64]) {
    let elsewhere = drawn.iter().any(|drawn| !drawn.one.kind.is_file());
    let free = drawn.iter().any(|drawn| drawn.one.kind == BoxKind::Free);
    for (column, left) in lefts.iter().enumerate() {
        let heading = match (column, elsewhere) {
            (0, true) => "From elsewhere".to_owned(),
            (0, false) | (1, true) if free => "At once".to_owned(),
            (0, false) | (1, true) => String::new(),
            (column, _) => {
                let wave = column - usize::from(elsewhere);
                if wave == 1 {
                    "When that is there".to_owned()
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
    layout: &Layout,
    lefts: &[f64],
    widths: &[f64],
) {
    let (from, to) = if route.reversed {
        (edge.to, edge.from)
    } else {
        (edge.from, edge.to)
    };
    let y = |(id, row): (usize, usize)| TOP + layout.boxes[id].1 + shapes[id].rows[row];
    let (from_column, to_column) = (layout.boxes[from.0].0, layout.boxes[to.0].0);
    let start = (lefts[from_column] + widths[from_column], y(from));
    let end = (lefts[to_column], y(to));
    // The arrow head takes the last pixels.
    let (start, end) = if route.reversed {
        ((start.0 + 7.0, start.1), end)
    } else {
        (start, (end.0 - 7.0, end.1))
    };
    let mut path = format!("M{:.1} {:.1}", start.0, start.1);
    let mut at = start;
    for (column, height) in &route.lanes {
        let (left, right, y) = (
            lefts[*column],
            lefts[*column] + widths[*column],
            TOP + height,
        );
        curve(&mut path, at, (left, y));
        let _ = write!(path, "H{right:.1}");
        at = (right, y);
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

fn draw_box(out: &mut String, drawn: &Drawn<'_>, height: f64, (x, y, w): (f64, f64, f64)) {
    let one = drawn.one;
    let class = match one.kind.look() {
        Look::Free => "free",
        Look::Held => "held",
        Look::Wrong => "wrong",
        Look::Other => "other",
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
fn legend(_plan: &Plan, graph: &Graph) -> Vec<(&'static str, &'static str)> {
    let any = |test: &dyn Fn(&Edge) -> bool| graph.edges.iter().any(test);
    let rows: [(&'static str, &'static str, bool); 4] = [
        (
            "required",
            "needed: holds the file",
            any(&|edge| edge.tier == Tier::Required && !edge.cycle && !edge.yields),
        ),
        (
            "advisory",
            "only orders: gives way at its deadline",
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

fn draw_legend(out: &mut String, legend: &[(&str, &str)], y: f64) {
    let mut x = MARGIN;
    for (class, words) in legend {
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

/// Text for XML; control characters, which XML cannot carry, are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if is_hidden(c) => out.push_str(&printable(c.encode_utf8(&mut [0; 4]))),
            c => out.push(c),
        }
    }
    out
}
