//! The nodes of a rehearsed cluster together: who they are, which fare alike, and their files side by side.

use std::fmt::Write as _;

use windrow_model::manifest::ManifestPath;
use windrow_simulate::rehearse::{FileFate, MemberRole, NodeRehearsal, Side};

use super::rehearsal::{seeds_clause, span};
use super::table::Style;
use super::text::wrap;
use crate::printable::printable;

/// The most names, or ranges of names, in a list.
const NAMED: usize = 8;
/// Between the columns of a table.
const GAP: usize = 2;

/// Names in a list; three or more that are counted up are a range (`n2 to n5`).
pub(super) fn name_list(names: &[&str]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = names;
    while let [first, ..] = rest {
        let mut length = 1;
        while length < rest.len() && follows(rest[length - 1], rest[length]) {
            length += 1;
        }
        match length {
            3.. => parts.push(format!("{first} to {}", rest[length - 1])),
            _ => parts.extend(rest[..length].iter().map(|name| (*name).to_owned())),
        }
        rest = &rest[length..];
    }
    let more = match parts.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    parts.truncate(NAMED);
    printable(&parts.join(", ")) + &more
}

/// Whether `next` follows `name`: the same except for its last number, which is one more.
fn follows(name: &str, next: &str) -> bool {
    let (before, number) = split_number(name);
    let (next_before, next_number) = split_number(next);
    before == next_before && number.is_some_and(|number| number.checked_add(1) == next_number)
}

fn split_number(name: &str) -> (&str, Option<u64>) {
    let before = name.trim_end_matches(|one: char| one.is_ascii_digit());
    (before, name[before.len()..].parse().ok())
}

pub(super) fn members(out: &mut String, nodes: &[(&str, MemberRole)], style: Style) {
    for role in MemberRole::ALL {
        let own = nodes.iter().filter(|(_, one)| *one == role);
        let names: Vec<&str> = own.map(|(name, _)| *name).collect();
        let several = names.len() > 1;
        let text = match role {
            _ if names.is_empty() => continue,
            MemberRole::First => "initialises the cluster",
            MemberRole::Server if several => "join as servers, one after another",
            MemberRole::Server => "joins as a server",
            MemberRole::Promoted if several => {
                "join as agents, and Harvester makes them servers, one after another"
            }
            MemberRole::Promoted => "joins as an agent, and Harvester makes it a server",
            MemberRole::Witness => {
                "joins as an agent, and Harvester makes it a member of etcd (a witness)"
            }
            MemberRole::Agent if several => "join as agents, in parallel",
            MemberRole::Agent => "joins as an agent",
        };
        let text = format!("{} {text}", name_list(&names));
        for line in wrap(&text, style.width.saturating_sub(2)) {
            let _ = writeln!(out, "  {line}");
        }
    }
}

/// Nodes that fare alike, by the place of the first one; in the order of the nodes.
pub(super) fn alike(nodes: &[NodeRehearsal]) -> Vec<Vec<&NodeRehearsal>> {
    let mut groups: Vec<Vec<&NodeRehearsal>> = Vec::new();
    for node in nodes {
        match groups.iter_mut().find(|group| fare_alike(group[0], node)) {
            Some(group) => group.push(node),
            None => groups.push(vec![node]),
        }
    }
    groups
}

/// Whether both have the same files with the same results, and the same findings. Times differ by when each joins.
fn fare_alike(one: &NodeRehearsal, other: &NodeRehearsal) -> bool {
    let without_times = |fate: &FileFate| FileFate {
        applied: None,
        released: None,
        error: None,
        ..fate.clone()
    };
    let sides_alike = |one: &Side, other: &Side| {
        one.stays_held == other.stays_held
            && one.files.len() == other.files.len()
            && one.files.iter().zip(&other.files).all(|(one, other)| {
                one.0 == other.0 && without_times(one.1) == without_times(other.1)
            })
    };
    let found = |node: &NodeRehearsal| -> Vec<_> {
        let findings = node.findings.iter();
        findings
            .map(|one| (one.code, one.message.clone()))
            .collect()
    };
    one.role == other.role
        && one.beyond == other.beyond
        && sides_alike(&one.with, &other.with)
        && sides_alike(&one.without, &other.without)
        && found(one) == found(other)
}

pub(super) fn heading(group: &[&NodeRehearsal]) -> String {
    let names: Vec<&str> = group.iter().map(|node| node.name.as_str()).collect();
    match names.len() {
        1 => printable(names[0]),
        _ => format!("{}: the same", name_list(&names)),
    }
}

/// The result of each file with Windrow, the nodes side by side; `None` if the terminal is too narrow.
pub(super) fn files_side_by_side(groups: &[Vec<&NodeRehearsal>], style: Style) -> Option<String> {
    let mut paths: Vec<&ManifestPath> = Vec::new();
    for group in groups {
        for path in group[0].with.files.keys() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let mut columns: Vec<Vec<String>> = Vec::new();
    let mut first = vec![String::new()];
    first.extend(paths.iter().map(|path| printable(path)));
    columns.push(first);
    for group in groups {
        let names: Vec<&str> = group.iter().map(|node| node.name.as_str()).collect();
        let mut column = vec![name_list(&names)];
        column.extend(paths.iter().map(|path| cell(group[0], path)));
        columns.push(column);
    }
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            column
                .iter()
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let whole = GAP + widths.iter().map(|width| width + GAP).sum::<usize>();
    if paths.is_empty() || whole > style.width + GAP {
        return None;
    }
    let mut out = format!(
        "{}\n",
        style.strong("Files with Windrow: when they are applied")
    );
    for row in 0..=paths.len() {
        let mut line = String::new();
        for (column, width) in columns.iter().zip(&widths) {
            let _ = write!(line, "  {:<width$}", column[row]);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
    Some(out)
}

/// A file's fate on a node, in few words. For nodes with the same result, it shows the times of the first one.
fn cell(node: &NodeRehearsal, path: &ManifestPath) -> String {
    let Some(fate) = node.with.files.get(path) else {
        return "-".to_owned();
    };
    if matches!(node.role, MemberRole::Agent | MemberRole::Witness) {
        return "not read".to_owned();
    }
    if fate.skipped.is_some() {
        return "skipped".to_owned();
    }
    let held = if fate.held_in > 0 { "held, " } else { "" };
    let applied = match (fate.applied, fate.applied_in) {
        (_, 0) => "never".to_owned(),
        (Some(applied), count) if count == node.seeds => span(applied),
        (_, count) => format!("applied{}", seeds_clause(count, node.seeds)),
    };
    format!("{held}{applied}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_counted_up_are_a_range() {
        for (names, list) in [
            (&["n1"][..], "n1"),
            (&["n1", "n2"], "n1, n2"),
            (&["n1", "n2", "n3"], "n1 to n3"),
            (&["a", "n9", "n10", "n11", "n13"], "a, n9 to n11, n13"),
            (&["n1", "m2", "n3"], "n1, m2, n3"),
            (&["1", "2", "3", "x\u{1b}"], "1 to 3, x\\u{1b}"),
        ] {
            assert_eq!(name_list(names), list);
        }
        let many: Vec<String> = (0..20).map(|number| format!("n{}", 2 * number)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(name_list(&many).ends_with("n14 and 12 more"));
    }
}
