//! Reads a list in YAML: `nodes:` with its entries, only the entries, or objects of Harvester's Seeder.

use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_model::suggest::nearest;

use super::{Complaints, ExpectedNode, KEYS, MOST, entry, seeder};

pub(super) fn read(text: &str, complaints: &mut Complaints) -> Vec<ExpectedNode> {
    if let Some(nodes) = seeder::read(text, complaints) {
        return nodes;
    }
    let root = match yaml::parse_configuration(text) {
        Ok(Some(root)) => root,
        Ok(None) => return Vec::new(),
        Err(problems) => {
            for problem in problems {
                complaints.add(problem.line.unwrap_or(1), problem.message);
            }
            return Vec::new();
        }
    };
    let list = match &root.value {
        NodeValue::Sequence(_) => &root,
        NodeValue::Mapping(entries) => {
            for other in entries.iter().filter(|entry| entry.key != "nodes") {
                let meant = nearest(&other.key, ["nodes"].into_iter());
                let message = match meant {
                    Some(_) => format!("unknown key `{}`: did you mean `nodes`?", other.key),
                    None => format!("unknown key `{}`; there is `nodes`", other.key),
                };
                complaints.add(other.line, message);
            }
            match root.get("nodes") {
                Some(list) => list,
                None => return Vec::new(),
            }
        }
        _ => {
            complaints.add(
                root.line,
                "write a list of nodes: `- mac: 52:54:00:12:34:56`",
            );
            return Vec::new();
        }
    };
    if !matches!(list.value, NodeValue::Sequence(_)) {
        let message = format!("nodes: write a list, not {}", list.type_name());
        complaints.add(list.line, message);
    }
    let items = list.items().iter().take(MOST + 1);
    let lines: Vec<&str> = text.lines().collect();
    items
        .filter_map(|item| expected_node(&lines, item, complaints))
        .collect()
}

fn expected_node(lines: &[&str], item: &Node, complaints: &mut Complaints) -> Option<ExpectedNode> {
    if let Some(name) = item.as_str() {
        let field = |key: &str| match key {
            "name" => (item.line, name.to_owned()),
            _ => (item.line, String::new()),
        };
        return Some(entry(item.line, field, complaints));
    }
    if !matches!(item.value, NodeValue::Mapping(_)) {
        let message = format!("write a node's name or its keys, not {}", item.type_name());
        complaints.add(item.line, message);
        return None;
    }
    for field in item.entries() {
        if !KEYS.contains(&field.key.as_str()) {
            let meant = nearest(&field.key, KEYS.into_iter());
            complaints.add(field.line, super::unknown("key", &field.key, meant));
        } else if text_of(&field.value).is_none() {
            let kind = field.value.type_name();
            complaints.add(
                field.line,
                format!("{}: write a text, not {kind}", field.key),
            );
        } else if let NodeValue::Number(number) = &field.value.value
            && !is_written_so(lines, field.value.line, &number.to_string())
        {
            complaints.add(
                field.value.line,
                format!(
                    "{}: YAML reads this as the number {number}: put it into quotation marks",
                    field.key
                ),
            );
        }
    }
    let field = |key: &str| match item.entry(key) {
        Some(found) => (found.line, text_of(&found.value).unwrap_or_default()),
        None => (item.line, String::new()),
    };
    Some(entry(item.line, field, complaints))
}

/// True if a number is written as it is read. YAML reads `007` as 7, and no machine has that serial number.
fn is_written_so(lines: &[&str], line: u32, number: &str) -> bool {
    let line = lines.get(line.saturating_sub(1) as usize);
    let line = line.copied().unwrap_or_default();
    let mut words = line.split([' ', ',', '{', '}', '[', ']', ':', '\t']);
    words.any(|word| word == number)
}

/// A text. A serial number may look like a number.
fn text_of(value: &Node) -> Option<String> {
    match &value.value {
        NodeValue::String(text) => Some(text.trim().to_owned()),
        NodeValue::Number(number) => Some(number.to_string()),
        NodeValue::Null => Some(String::new()),
        NodeValue::Bool(_) | NodeValue::Sequence(_) | NodeValue::Mapping(_) => None,
    }
}
