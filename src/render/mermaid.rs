//! The plan as a Mermaid flowchart, for Markdown viewers that render it.

use std::fmt::Write as _;

use windrow_plan::Plan;
use windrow_plan::rules::Tier;

use super::graph::{BoxClass, BoxGraph};
use crate::printable::{is_hidden, printable};

pub fn mermaid(plan: &Plan) -> String {
    let graph = BoxGraph::from_plan(plan);
    let mut out = String::from("flowchart LR\n");
    for (id, one) in graph.boxes.iter().enumerate() {
        let order = one
            .order
            .map_or(String::new(), |order| format!("{order}. "));
        let _ = writeln!(
            out,
            "  subgraph b{id}[\"{order}{} ({})\"]\n    direction TB",
            escaped(&one.title),
            one.kind.badge()
        );
        for (row, object) in one.rows.iter().enumerate() {
            let _ = writeln!(
                out,
                "    b{id}r{row}[\"{} {}\"]",
                escaped(&object.kind),
                escaped(&object.name)
            );
        }
        if one.rows.is_empty() {
            let _ = writeln!(out, "    b{id}none[\"no objects\"]");
        }
        out.push_str("  end\n");
    }
    for edge in &graph.edges {
        let arrow = match (edge.tier, edge.yields) {
            (Tier::Required, false) => "-->",
            _ => "-.->",
        };
        let _ = writeln!(
            out,
            "  b{}r{} {arrow} b{}r{}",
            edge.from.0, edge.from.1, edge.to.0, edge.to.1
        );
    }
    classes(&mut out, &graph);
    out
}

fn classes(out: &mut String, graph: &BoxGraph) {
    out.push_str("  classDef held stroke:#d97706,stroke-width:2px\n");
    out.push_str("  classDef free stroke:#16a34a\n");
    out.push_str("  classDef wrong stroke:#dc2626,stroke-width:3px\n");
    out.push_str("  classDef other stroke:#6b7280,stroke-dasharray:4\n");
    for (id, one) in graph.boxes.iter().enumerate() {
        let class = match one.kind.class() {
            BoxClass::Free => "free",
            BoxClass::Held => "held",
            BoxClass::Wrong => "wrong",
            BoxClass::Other => "other",
        };
        let _ = writeln!(out, "  class b{id} {class}");
    }
    let cycles: Vec<String> = graph
        .edges
        .iter()
        .enumerate()
        .filter(|(_, edge)| edge.cycle)
        .map(|(position, _)| position.to_string())
        .collect();
    if !cycles.is_empty() {
        let _ = writeln!(out, "  linkStyle {} stroke:#dc2626", cycles.join(","));
    }
}

/// Mermaid takes `#…;` entities inside quotes.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            c if is_hidden(c) => out.push_str(&printable(c.encode_utf8(&mut [0; 4]))),
            c => out.push(c),
        }
    }
    out
}
