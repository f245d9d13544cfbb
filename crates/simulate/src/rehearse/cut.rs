//! Splits a manifest, to simulate another layout.

use std::collections::BTreeSet;
use std::ops::Range;

use windrow_model::manifest::{self, FileContent, ManifestPath, ObjectRef, ReadLimits};

/// Splits a manifest into the remaining part and the objects in these lines. Each document keeps its bytes and comments. `None`
/// if a document contains both selected and other objects, or if nothing would remain.
pub(super) fn cut(
    path: &ManifestPath,
    content: &[u8],
    lines: &BTreeSet<u32>,
    limits: &ReadLimits,
) -> Option<(String, String)> {
    let text = std::str::from_utf8(content).ok()?;
    let read = |text: &str| {
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        manifest::read(path, &content, limits)
    };
    let file = read(text);
    let moving = file.objects().filter(|object| lines.contains(&object.line));
    let moving: BTreeSet<ObjectRef> = moving.map(|object| object.id.clone()).collect();
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let begins = |number: usize| match (number, file.documents.get(number)) {
        // The text above the first document moves with it.
        (0, _) => 0,
        (_, Some(document)) => first_line(&all, document.line),
        (_, None) => all.len(),
    };
    let documents = file.documents.iter().enumerate();
    let (moves, stays): (Vec<_>, Vec<_>) = documents
        .map(|(number, document)| (document, begins(number)..begins(number + 1)))
        .partition(|(document, _)| {
            let mut objects = document.objects.iter();
            !document.objects.is_empty() && objects.all(|object| moving.contains(&object.id))
        });
    if stays.is_empty() || moves.is_empty() {
        return None;
    }
    let [stays, moves] = [stays, moves].map(|documents| {
        let lines = documents.into_iter().map(|(_, lines)| lines);
        join(&all, lines)
    });
    let ids = |text: &str| {
        let file = read(text);
        let ids = file
            .objects()
            .map(|one| (one.id.clone(), one.node.to_json()));
        ids.collect::<Vec<_>>()
    };
    let is_second = |one: &(ObjectRef, _)| moving.contains(&one.0);
    let (second, others): (Vec<_>, Vec<_>) = ids(text).into_iter().partition(is_second);
    (ids(&stays) == others && ids(&moves) == second).then_some((stays, moves))
}

/// The first line of a document including the comments above it, after the separator.
fn first_line(lines: &[&str], document: u32) -> usize {
    let mut line = usize::try_from(document).unwrap_or(1).saturating_sub(1);
    let belongs = |line: &&str| {
        let bare = line.trim();
        bare.is_empty() || bare.starts_with('#')
    };
    while line > 0 && lines.get(line - 1).is_some_and(belongs) {
        line -= 1;
    }
    line
}

fn join(lines: &[&str], documents: impl Iterator<Item = Range<usize>>) -> String {
    let texts: Vec<String> = documents
        .map(|document| {
            let lines = lines.get(document).unwrap_or_default().iter();
            let text: String = lines
                .filter(|line| line.trim_end() != "---")
                .copied()
                .collect();
            match text.ends_with('\n') {
                true => text,
                false => text + "\n",
            }
        })
        .collect();
    texts.join("---\n")
}
