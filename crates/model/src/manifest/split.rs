//! Splits a file into documents as Kubernetes' line reader does: at every line that begins with `---`, even inside a
//! text, before any YAML is read.

use std::ops::Range;

use super::MOST_PROBLEMS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Line of its first character, counted from 1.
    pub line: u32,
    pub range: Range<usize>,
}

/// A `---` with text after it that is not a comment: the reader refuses the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSeparator {
    /// Its line, counted from 1.
    pub line: u32,
    pub behind: AfterSeparator,
}

/// The text after a `---`. It may itself be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterSeparator {
    /// `-----BEGIN …`, a certificate's or key's first line.
    CertificateBegin,
    /// `-----END …`, its last one.
    CertificateEnd,
    /// Any other text.
    Text,
}

/// Splits a text into documents, without the empty ones. After `most` of them, or more bad separators than are
/// reported, the rest is not split.
pub fn split(text: &str, most: usize) -> (Vec<Chunk>, Vec<BadSeparator>) {
    let mut chunks = Vec::new();
    let mut bad = Vec::new();
    let mut start = 0;
    let mut start_line = 1;
    for at in separators(text) {
        if chunks.len() >= most || bad.len() > MOST_PROBLEMS {
            return (chunks, bad);
        }
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        let rest = text[at + 3..end].trim();
        let is_bad = !rest.is_empty() && !rest.starts_with('#');
        // A separator with nothing before it stays in the document that it begins.
        if at == start && !is_bad {
            continue;
        }
        let line = start_line + count_lines(&text[start..at]);
        if is_bad {
            let behind = match rest {
                _ if rest.starts_with("--BEGIN ") => AfterSeparator::CertificateBegin,
                _ if rest.starts_with("--END ") => AfterSeparator::CertificateEnd,
                _ => AfterSeparator::Text,
            };
            bad.push(BadSeparator { line, behind });
        }
        push(&mut chunks, text, start..at, start_line);
        start = end;
        start_line = line + 1;
    }
    push(&mut chunks, text, start..text.len(), start_line);
    (chunks, bad)
}

fn push(chunks: &mut Vec<Chunk>, text: &str, range: Range<usize>, line: u32) {
    if !is_empty(&text[range.clone()]) {
        chunks.push(Chunk { line, range });
    }
}

/// The offsets of lines that begin with `---`.
fn separators(text: &str) -> impl Iterator<Item = usize> {
    let first = text.starts_with("---").then_some(0);
    first
        .into_iter()
        .chain(text.match_indices("\n---").map(|(at, _)| at + 1))
}

/// k3s ignores a document in which every line is blank, a comment or only `---`.
fn is_empty(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line == "---" || line.starts_with('#')
    })
}

/// Line breaks in a text.
pub fn count_lines(text: &str) -> u32 {
    let breaks = text.bytes().filter(|byte| *byte == b'\n').count();
    u32::try_from(breaks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> Vec<(u32, &str)> {
        split(text, 100)
            .0
            .into_iter()
            .map(|chunk| (chunk.line, &text[chunk.range]))
            .collect()
    }

    #[test]
    fn documents_are_cut_at_lines_that_begin_with_three_dashes() {
        for (text, expected) in [
            ("", vec![]),
            ("# only this\n\n---\n# and this\n", vec![]),
            ("a: 1", vec![(1, "a: 1")]),
            ("a: 1\n---\nb: 2\n", vec![(1, "a: 1\n"), (3, "b: 2\n")]),
            ("---\na: 1\n---", vec![(1, "---\na: 1\n")]),
            ("---\n---\na: 1\n", vec![(3, "a: 1\n")]),
            ("\n--- # first\na: 1\n", vec![(3, "a: 1\n")]),
            ("--- # first\na: 1\n", vec![(1, "--- # first\na: 1\n")]),
            (
                "a: 1\r\n---\r\nb: 2\r\n",
                vec![(1, "a: 1\r\n"), (3, "b: 2\r\n")],
            ),
            (
                "a: |\n  x\n  ---\n  y\n",
                vec![(1, "a: |\n  x\n  ---\n  y\n")],
            ),
            (
                "a: |\n  x\n---\n  y\n",
                vec![(1, "a: |\n  x\n"), (4, "  y\n")],
            ),
            (
                "a: 1\n...\n---\nb: 2\n",
                vec![(1, "a: 1\n...\n"), (4, "b: 2\n")],
            ),
        ] {
            assert_eq!(documents(text), expected, "{text:?}");
            assert_eq!(split(text, 100).1, vec![], "{text:?}");
        }
    }

    #[test]
    fn a_separator_with_text_behind_it_is_told_with_its_line() {
        let (chunks, bad) = split("a: 1\n--- foo\nb: 2\n----\nc: 3\n---\t\n", 100);
        assert_eq!(chunks.len(), 3);
        let lines: Vec<u32> = bad.iter().map(|bad| bad.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn a_comment_behind_a_lone_separator_is_content_to_k3s() {
        assert_eq!(documents("--- # nothing\n---\n").len(), 1);
    }
}
