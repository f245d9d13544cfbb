//! The plan in Graphviz' language.

use std::fmt::Write as _;

use windrow_plan::Plan;
use windrow_plan::rules::Tier;

use super::graph::{BoxClass, BoxGraph, GraphBox};
use crate::printable::{is_hidden, printable};

pub fn dot(plan: &Plan) -> String {
    let graph = BoxGraph::from_plan(plan);
    let mut out = String::from(
        "digraph plan {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n",
    );
    for (id, one) in graph.boxes.iter().enumerate() {
        cluster(&mut out, id, one);
    }
    for edge in &graph.edges {
        let style = match (edge.tier, edge.yields) {
            (_, true) => "dotted",
            (Tier::Required, _) => "solid",
            (Tier::Advisory, _) => "dashed",
        };
        let color = if edge.cycle { ", color=red" } else { "" };
        let _ = writeln!(
            out,
            "  {} -> {} [style={style}{color}, tooltip={}];",
            node(edge.from),
            node(edge.to),
            quoted(&edge.label)
        );
    }
    out.push_str("}\n");
    out
}

fn cluster(out: &mut String, id: usize, one: &GraphBox) {
    let order = one
        .order
        .map_or(String::new(), |order| format!("{order}. "));
    let title = format!("{order}{}\n{}", one.title, one.kind.badge());
    let style = match one.kind.class() {
        BoxClass::Free => "style=rounded, color=green4",
        BoxClass::Held => "style=rounded, color=orange3",
        BoxClass::Wrong => "style=\"rounded,bold\", color=red3",
        BoxClass::Other => "style=\"rounded,dashed\", color=gray50",
    };
    let _ = writeln!(
        out,
        "  subgraph cluster_{id} {{\n    label={}; {style};",
        quoted(&title)
    );
    for (row, object) in one.rows.iter().enumerate() {
        let label = format!("{}\n{}", object.kind, object.name);
        let _ = writeln!(out, "    {} [label={}];", node((id, row)), quoted(&label));
    }
    if one.rows.is_empty() {
        let _ = writeln!(out, "    b{id} [label=\"(no objects)\", style=dotted];");
    }
    out.push_str("  }\n");
}

fn node((id, row): (usize, usize)) -> String {
    format!("b{id}r{row}")
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if is_hidden(c) => {
                out.push('\\');
                out.push_str(&printable(c.encode_utf8(&mut [0; 4])));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
