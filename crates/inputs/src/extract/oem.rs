//! Checks whether the files of a Harvester configuration fit onto `/oem`.
//!
//! The partition has 50 MiB (`DefaultCosOemSizeMiB` in harvester-installer `pkg/config/constants.go`). Each text of
//! `os.writeFiles` is written there twice, unchanged: in yip's file (`pkg/config/cos.go`) and in the copy of the
//! configuration (`harv-install`, `save_configs`). v1.4.0 to v1.8.1.

use windrow_model::reasons::Code;

use super::{Node, Problem, field};

const MIB: usize = 1 << 20;
/// Leaves room for the rest of an installation and for later upgrades.
const TOO_MUCH: usize = 24 * MIB;
/// Far more than a usual configuration has.
const MUCH: usize = 8 * MIB;

/// Reports a configuration whose files take too much room.
pub(super) fn overfull(root: &Node) -> Option<Problem> {
    let files = field(field(root, "os")?, "writeFiles")?;
    let content = |file: &Node| Some(field(file, "content")?.as_str()?.len());
    let sum = files.items().iter().filter_map(content).sum();
    let code = judge(sum)?;
    let size = format!("{} MiB", sum / MIB);
    Some(Problem {
        code,
        line: Some(files.line),
        message: code.say(&[("size", &size)]),
    })
}

fn judge(bytes: usize) -> Option<Code> {
    match bytes {
        TOO_MUCH.. => Some(Code::OemOverfull),
        MUCH.. => Some(Code::OemCrowded),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::ReadLimits;

    use super::*;
    use crate::extract::extract;

    #[test]
    fn what_fits_onto_the_partition_twice_is_fine_and_what_does_not_is_told() {
        for (bytes, code) in [
            (0, None),
            (8 * MIB - 1, None),
            (8 * MIB, Some(Code::OemCrowded)),
            (24 * MIB - 1, Some(Code::OemCrowded)),
            (24 * MIB, Some(Code::OemOverfull)),
        ] {
            assert_eq!(judge(bytes), code, "{bytes}");
        }
    }

    #[test]
    fn the_files_of_a_configuration_are_counted_together_in_either_spelling() {
        let told = |key: &str, files: usize| {
            let content = "x".repeat(MIB / 4);
            let same = "  - {path: /b, content: *it}\n".repeat(files - 1);
            let text = format!("os:\n  {key}:\n  - {{path: /a, content: &it {content}}}\n{same}");
            let found = extract("c.yaml", &text, &ReadLimits::default()).problems;
            let problem = found.into_iter().find(|one| one.code == Code::OemCrowded);
            problem.map(|one| (one.line, one.message))
        };
        assert_eq!(told("writeFiles", 31), None);
        let (line, message) = told("write_files", 33).unwrap();
        assert_eq!(line, Some(3));
        assert!(message.contains("os.writeFiles has 8 MiB"), "{message}");
    }
}
