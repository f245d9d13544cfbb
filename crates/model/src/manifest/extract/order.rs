//! Who writes a path last. Files are written in the order of their moments, whichever part of a file they
//! stand in; what comes later replaces what was there, or is put behind it.

use std::collections::HashMap;

use super::{Extracted, Extraction, InnerLines, not_looked_at};

/// When a file is written, among the files of one node. Of one moment the first in the file comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteTime(u8);

/// yip's stages, in the order in which an Elemental system (Harvester's is one) runs them: the units
/// `cos-setup-<stage>` of rancher/elemental-toolkit. yip itself runs the one stage that it is told.
const STAGES: [&str; 6] = ["rootfs", "initramfs", "fs", "boot", "network", "reconcile"];

impl WriteTime {
    /// Before the system's units start.
    pub(super) const EARLY: Self = Self(0);
    /// cloud-init's final stage, in which it writes what is deferred (`cloudinit/config/cc_write_files_deferred.py`,
    /// 26.2).
    pub(super) const DEFERRED: Self = Self(1);

    /// A stage of yip's, with those before and behind it (`boot.before`, `boot.after`). What an
    /// installation writes was written first; a stage that only its caller knows comes last.
    pub(super) fn for_stage(stage: &str) -> Self {
        let (bare, beside) = match stage.rsplit_once('.') {
            Some((bare, "before")) => (bare, 0),
            Some((bare, "after")) => (bare, 2),
            _ => (stage, 1),
        };
        if bare.contains("install") {
            return Self::EARLY;
        }
        let known = STAGES.iter().position(|known| *known == bare);
        let rank = known.unwrap_or(STAGES.len());
        Self(u8::try_from(3 + 3 * rank + beside).unwrap_or(u8::MAX))
    }
}

/// Is this stage of yip over before the system's units start? What is written at the installation is
/// there as well.
pub(super) fn is_early(stage: &str) -> bool {
    let bare = stage.trim_end_matches(".before").trim_end_matches(".after");
    matches!(bare, "rootfs" | "initramfs") || bare.contains("install")
}

/// Leaves the last writer of each path, with what is appended to it.
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
            let what = "`append` puts this behind what the file has by then; write the whole file as one `content`";
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
