//! An archive: a list of parts, each with its type.

use windrow_model::manifest::{Node, NodeValue, ReadLimits, yaml};
use windrow_model::reasons::Code;

use super::{
    LAUNCH_INDEX, MERGE_HEADERS, ONE_MACHINE, Payload, Wrapped, below, part_name, take, type_of,
};
use crate::extract::{InnerLines, OuterLines, as_input_problem, inner_lines};

/// A list of parts (`cloudinit/user_data.py`, `_explode_archive`).
pub(super) fn take_parts(wrapped: &mut Wrapped, part: &Payload<'_>, limits: &ReadLimits) {
    let at = |line: u32| if part.mapped { line } else { part.first };
    let root = match yaml::parse(&part.text, 1, limits) {
        Ok(Some(root)) if matches!(root.value, NodeValue::Sequence(_)) => root,
        Ok(_) => {
            wrapped.ignored(
                part.first,
                "the archive is not a list; begin each part with `-`",
            );
            return;
        }
        Err(problems) => {
            let problems = problems.into_iter().map(|mut problem| {
                problem.line = problem.line.map(at);
                as_input_problem(problem)
            });
            wrapped.problems.extend(problems);
            return;
        }
    };
    let lines = OuterLines::new(&part.text);
    for entry in root.items() {
        let content = entry.get("content").unwrap_or(entry);
        let Some(text) = content.as_str() else {
            wrapped.ignored(
                at(entry.line),
                "a part of the archive without text; write it as `content`",
            );
            continue;
        };
        let kind = entry
            .get("type")
            .and_then(Node::as_str)
            .filter(|kind| !kind.is_empty());
        let kind = kind
            .or_else(|| type_of(text))
            .unwrap_or("text/cloud-config");
        if kind == "text/cloud-config-archive" {
            wrapped.ignored(at(entry.line), "an archive inside an archive");
            continue;
        }
        if let Some(index) = entry.entry(LAUNCH_INDEX) {
            wrapped.not_looked_at(at(index.line), ONE_MACHINE);
        }
        let line = at(content.line);
        let (first, mapped) = match inner_lines(&lines, content, text) {
            InnerLines::Follow { first } if part.mapped => (first, true),
            _ => (line, false),
        };
        if !wrapped.has_room(line, text.len()) {
            return;
        }
        let called = match mapped {
            true => part.shown.to_owned(),
            false => part_name(&wrapped.shown, line),
        };
        let payload = Payload {
            shown: &called,
            text: match mapped {
                true => below(first, text),
                false => text.to_owned(),
            },
            first,
            mapped,
            merge: merge_header(wrapped, entry, at),
            alone: false,
        };
        take(wrapped, payload, kind, limits);
    }
}

/// A key of an archive's entry is a header of its part, and cloud-init reads only these two
/// (`cloudinit/handlers/cloud_config.py`, `_extract_mergers`).
fn merge_header(wrapped: &mut Wrapped, entry: &Node, at: impl Fn(u32) -> u32) -> Option<String> {
    for key in ["merge_how", "merge_type"] {
        if let Some(asked) = entry.entry(key) {
            let why = "in an archive it is in the part's `content`, or in `Merge-Type` next to it";
            wrapped.problem(
                Code::KeyNotRead,
                at(asked.line),
                &[("key", key), ("why", why)],
            );
        }
    }
    let mut headers = MERGE_HEADERS.into_iter();
    let found = headers.find_map(|name| entry.str_at(&[name]));
    found.map(str::to_owned)
}
