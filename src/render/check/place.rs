//! The place of a finding for programs that show it next to the source: a file below the working directory, and a line.

use windrow_model::findings::Location;

/// A file and a line of it that can be opened.
pub(super) struct SourcePlace<'a> {
    pub(super) file: &'a str,
    pub(super) line: Option<u32>,
}

impl<'a> SourcePlace<'a> {
    /// The place of a finding. A part of a wrapped file (`FILE:LINE: part`, `FILE (unpacked)`) counts its own lines, but an editor
    /// can only open the file, at the line in which the part begins.
    pub(super) fn new(at: &'a Location) -> Self {
        let whole = at.file.strip_suffix(" (unpacked)");
        let outer = at.file.split_once(": ").map(|(outer, _)| outer);
        let part = outer.and_then(|outer| {
            let (file, line) = outer.rsplit_once(':')?;
            Some((file, line.parse().ok()?))
        });
        match (part, whole) {
            (Some((file, line)), _) => Self {
                file,
                line: Some(line),
            },
            (None, Some(file)) => Self { file, line: None },
            (None, None) => Self {
                file: &at.file,
                line: at.line,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_wrapped_file_is_shown_where_it_begins_in_the_file() {
        for (at, file, line) in [
            (Location::line("a/b.yaml", 3), "a/b.yaml", Some(3)),
            (Location::file("a.yaml"), "a.yaml", None),
            (Location::line("u:7: part", 2), "u", Some(7)),
            (Location::line("u (unpacked)", 2), "u", None),
        ] {
            let place = SourcePlace::new(&at);
            assert_eq!((place.file, place.line), (file, line), "{at}");
        }
    }
}
