//! Determines the last writer of a path. Files are written in the order of their times, independent of their place in
//! the configuration; a later one replaces the earlier content, or is appended to it.

use std::collections::HashMap;

use super::extracted::{Extracted, Extraction};
use super::{InnerLines, not_looked_at};

/// Keeps the last writer of each path, with the contents that are appended to it.
pub(super) fn settle(extractions: &mut [Extraction]) {
    settle_list(
        extractions,
        |extraction| &mut extraction.files,
        |extraction| &mut extraction.problems,
    );
    settle_list(
        extractions,
        |extraction| &mut extraction.configuration,
        |extraction| &mut extraction.configuration_problems,
    );
}

fn settle_list(
    extractions: &mut [Extraction],
    files: fn(&mut Extraction) -> &mut Vec<Extracted>,
    problems: fn(&mut Extraction) -> &mut Vec<super::Problem>,
) {
    let mut all: Vec<(usize, Extracted)> = Vec::new();
    for (part, extraction) in extractions.iter_mut().enumerate() {
        all.extend(files(extraction).drain(..).map(|file| (part, file)));
    }
    all.sort_by_key(|(_, file)| file.moment);
    let mut last: HashMap<(String, String), usize> = HashMap::new();
    let mut written: Vec<Option<(usize, Extracted)>> = Vec::with_capacity(all.len());
    for (part, file) in all {
        let path = (file.data_dir.clone(), file.path.clone());
        let earlier = last.get(&path).copied();
        let Some(line) = file.appends else {
            if let Some(earlier) = earlier {
                written[earlier] = None;
            }
            last.insert(path, written.len());
            written.push(Some((part, file)));
            continue;
        };
        if let Some((_, known)) = earlier.and_then(|earlier| written[earlier].as_mut()) {
            append(known, file);
        } else {
            let what = "`append` adds this to the file's content at that time; write the whole file as one `content`";
            problems(&mut extractions[part]).push(not_looked_at(line, what));
        }
    }
    for (part, file) in written.into_iter().flatten() {
        files(&mut extractions[part]).push(file);
    }
}

fn append(known: &mut Extracted, file: Extracted) {
    known.content.extend(file.content);
    known.late = file.late;
    // Its lines no longer follow one another.
    known.lines = InnerLines::Begin {
        line: known.lines.outer(1),
    };
}
