//! Reads a list in CSV. The first line names the columns.

use windrow_model::suggest::nearest;

use super::{Complaints, ExpectedNode, KEYS, MOST, entry};

pub(super) fn read(text: &str, complaints: &mut Complaints) -> Vec<ExpectedNode> {
    let text = &text.replace("\r\n", "\n").replace('\r', "\n");
    // The reader counts lines from the end of the previous record, so a comment between two records would get the number. Each
    // line that remains is one record.
    let read = (1_u32..).zip(text.lines());
    let mut read = read.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut next_line = || read.next().map_or(1, |(number, _)| number);
    // The reader would put the rest of the file into one field, and the nodes in it would go unnoticed.
    if let Some(line) = open_quote(text) {
        complaints.add(line, "a quotation mark is not closed");
        return Vec::new();
    }
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let columns: Vec<String> = match reader.headers() {
        Ok(names) => names.iter().map(str::to_ascii_lowercase).collect(),
        Err(_) => {
            complaints.add(1, "the first line cannot be read: it names the columns");
            return Vec::new();
        }
    };
    let head = next_line();
    if !check_columns(&columns, head, complaints) {
        return Vec::new();
    }
    let mut nodes = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                complaints.add(u32::try_from(line).unwrap_or(1), "this line is not CSV");
                break;
            }
        };
        let line = next_line();
        if record.len() > columns.len() {
            let (has, are) = (record.len(), columns.len());
            complaints.add(
                line,
                format!("it has {has} fields, and there are {are} columns"),
            );
            continue;
        }
        let field = |key: &str| {
            let at = columns.iter().position(|column| column == key);
            let text = at.and_then(|at| record.get(at)).unwrap_or_default();
            (line, text.to_owned())
        };
        nodes.push(entry(line, field, complaints));
        if nodes.len() > MOST {
            break;
        }
    }
    nodes
}

/// The first line with an unclosed quotation mark. Names do not contain line breaks.
fn open_quote(text: &str) -> Option<u32> {
    let mut lines = (1..).zip(text.lines());
    let found =
        lines.find(|(_, line)| !line.starts_with('#') && line.matches('"').count() % 2 == 1);
    found.map(|(number, _)| number)
}

/// Reports errors in the columns. Returns whether the lines can still be read.
fn check_columns(columns: &[String], line: u32, complaints: &mut Complaints) -> bool {
    if let [only] = columns
        && let Some(other) = only.chars().find(|one| [';', '\t', '|'].contains(one))
    {
        let message = format!(
            "separate the columns by `,`, not by `{}`",
            other.escape_default()
        );
        complaints.add(line, message);
        return false;
    }
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            complaints.add(line, format!("the column `{column}` is there twice"));
        }
        if KEYS.contains(&column.as_str()) {
            continue;
        }
        let meant = nearest(column, KEYS.into_iter());
        complaints.add(line, super::unknown("column", column, meant));
    }
    let tells = ["name", "mac", "serial", "host"];
    let can_tell = columns
        .iter()
        .any(|column| tells.contains(&column.as_str()));
    if !can_tell {
        complaints.add(
            line,
            "no column tells nodes apart: mac, serial, host or name",
        );
    }
    can_tell
}
