//! The plan, and the time of a boot, as pictures: self-contained SVG, no script, readable in light and in dark.

mod boot;
mod draw;
mod drawn_box;
mod layout;
mod metrics;
mod style;

use windrow_plan::Plan;

pub(in crate::render) use self::boot::boot_figure;
pub use self::boot::boot_picture;
use self::drawn_box::{DrawnBox, HEADER, NARROWEST, PAD, ROW, SMALL, TEXT, badge_width};
use self::layout::Shape;
use self::metrics::width;
use super::graph::{BoxGraph, Edge, GraphBox};

const WIDEST: f64 = 380.0;
/// More rows than this are summed up in a last one.
const ROWS: usize = 12;
/// Rows without edges are listed up to this number.
const UNTIED_ROWS: usize = 6;
/// This many edges from one row into one box are drawn as one edge to the box.
const BUNDLE: usize = 4;
pub fn svg(plan: &Plan) -> String {
    let mut graph = BoxGraph::from_plan(plan);
    let drawn_rows: Vec<(Vec<usize>, usize)> = (0..graph.boxes.len())
        .map(|id| shown_rows(&graph, id))
        .collect();
    fold_hidden_rows(&mut graph, &drawn_rows);
    let drawn: Vec<DrawnBox<'_>> = graph
        .boxes
        .iter()
        .zip(drawn_rows)
        .map(|(one, (shown, hidden))| DrawnBox {
            width: box_width(one, &shown),
            one,
            shown,
            hidden,
        })
        .collect();
    let shapes: Vec<Shape> = drawn.iter().enumerate().map(shape).collect();
    let layout = layout::layout(&graph, &shapes);
    draw::draw(plan, &graph, &drawn, &shapes, &layout)
}

/// The rows with an edge first, then the others; in their own order, and only a few.
fn shown_rows(graph: &BoxGraph, id: usize) -> (Vec<usize>, usize) {
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

/// Connects edges to the rows that are drawn; edges of other rows go to the last one.
fn fold_hidden_rows(graph: &mut BoxGraph, rows: &[(Vec<usize>, usize)]) {
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
    for mut edge in std::mem::take(&mut graph.edges) {
        edge.from = place(edge.from);
        edge.to = place(edge.to);
        graph.add(edge);
    }
    graph.edges = bundled(&graph.edges, rows);
}

/// If many rows of one box need the same box, one edge to the whole box is drawn.
fn bundled(edges: &[Edge], rows: &[(Vec<usize>, usize)]) -> Vec<Edge> {
    let key = |edge: &Edge| (edge.from, edge.to.0, edge.tier, edge.cycle, edge.yields);
    let mut bundled: Vec<Edge> = Vec::new();
    for edge in edges {
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

fn title_width(one: &GraphBox) -> f64 {
    let number = if one.order.is_some() { 26.0 } else { 0.0 };
    number + width(&one.title, 13.0, true) + 14.0 + badge_width(one.kind)
}

fn box_width(one: &GraphBox, shown: &[usize]) -> f64 {
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

fn shape((id, drawn): (usize, &DrawnBox<'_>)) -> Shape {
    let lines = lines(&(drawn.shown.clone(), drawn.hidden));
    Shape {
        height: HEADER + lines as f64 * ROW + 8.0,
        rows: (0..lines)
            .map(|row| HEADER + 4.0 + (row as f64 + 0.5) * ROW)
            // One more, for edges to the whole box.
            .chain([HEADER / 2.0])
            .collect(),
        first: !drawn.one.kind.is_file(),
        order: drawn.one.order.unwrap_or(id),
    }
}
