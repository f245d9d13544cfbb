//! Gives the text to the parser, maps its marks to lines, and explains its errors.

use std::io::{BufRead, Read, Result};

use libyaml_safer::{Error, Mark};

use crate::manifest::Problem;
use crate::reasons::Code;

/// Gives a text to the parser in pieces: the parser copies its input, and a piece stays in the processor's nearest
/// cache.
///
/// Adds a missing line break to the last line, as Kubernetes' line reader does.
pub(super) struct YamlBytes<'t> {
    rest: &'t str,
    breaks: bool,
}

const PIECE: usize = 2048;

impl<'t> YamlBytes<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            rest: text,
            breaks: !text.ends_with('\n'),
        }
    }
}

impl Read for YamlBytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let taken = self.fill_buf()?.read(into)?;
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for YamlBytes<'_> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.rest.is_empty() && self.breaks {
            return Ok(b"\n");
        }
        let mut end = PIECE.min(self.rest.len());
        while !self.rest.is_char_boundary(end) {
            end -= 1;
        }
        Ok(&self.rest.as_bytes()[..end])
    }

    fn consume(&mut self, taken: usize) {
        if self.rest.is_empty() && taken > 0 {
            self.breaks = false;
        }
        self.rest = self.rest.get(taken..).unwrap_or_default();
    }
}

/// Converts the parser's marks into lines of the file. The parser also breaks lines at lone carriage returns and at
/// three characters outside ASCII, which no editor counts.
pub(super) struct Lines<'t> {
    first: u32,
    last: u32,
    /// The text, if its lines must be counted again.
    odd: Option<LineBreaks<'t>>,
}

/// The line breaks of a text that the parser also breaks elsewhere. Each value requests its line, so no request may
/// count the whole text.
struct LineBreaks<'t> {
    text: &'t [u8],
    /// The number of line breaks before each step.
    before: Vec<u32>,
}

impl<'t> LineBreaks<'t> {
    /// Most bytes that are counted per request.
    const STEP: usize = 4096;

    fn new(text: &'t str) -> Self {
        let text = text.as_bytes();
        let steps = text.chunks(Self::STEP).scan(0, |breaks, step| {
            let before = *breaks;
            *breaks += count_breaks(step);
            Some(before)
        });
        let before = steps.collect();
        Self { text, before }
    }

    /// The number of line breaks before an offset.
    fn before(&self, offset: usize) -> u32 {
        let (before, rest) = self.rest(offset);
        before + count_breaks(rest)
    }

    /// The number of line breaks before the last step, and the rest that must be counted.
    fn rest(&self, offset: usize) -> (u32, &'t [u8]) {
        let end = offset.min(self.text.len());
        let step = (end / Self::STEP).min(self.before.len().saturating_sub(1));
        let before = self.before.get(step).copied().unwrap_or_default();
        (before, &self.text[step * Self::STEP..end])
    }
}

fn count_breaks(bytes: &[u8]) -> u32 {
    narrow(bytes.iter().filter(|byte| **byte == b'\n').count())
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str, first: u32) -> Self {
        let breaks = text.bytes().filter(|byte| *byte == b'\n').count();
        // A line that ends in a break is not followed by one more line.
        let lines = breaks + usize::from(!text.ends_with('\n') && !text.is_empty());
        Self {
            first,
            last: first.saturating_add(narrow(lines.saturating_sub(1))),
            odd: has_odd_breaks(text).then(|| LineBreaks::new(text)),
        }
    }

    pub(super) fn at(&self, mark: Mark) -> u32 {
        let above = match &self.odd {
            None => u32::try_from(mark.line).unwrap_or(u32::MAX),
            Some(breaks) => breaks.before(usize::try_from(mark.index).unwrap_or(usize::MAX)),
        };
        self.first.saturating_add(above).min(self.last)
    }

    pub(super) fn at_offset(&self, text: &str, offset: usize) -> u32 {
        let above = count_breaks(&text.as_bytes()[..offset.min(text.len())]);
        self.first.saturating_add(above).min(self.last)
    }
}

fn narrow(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(u32::MAX)
}

fn has_odd_breaks(text: &str) -> bool {
    if !text.bytes().any(|b| matches!(b, b'\r' | 0xc2 | 0xe2)) {
        return false;
    }
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        0xc2 => bytes.get(at + 1) == Some(&0x85),
        0xe2 => matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])),
        _ => false,
    })
}

/// Whether YAML allows this character.
fn is_allowed(ch: char) -> bool {
    matches!(ch,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
        | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Converts the parser's error into a problem with a line and an advice.
pub(super) fn syntax(error: &Error, text: &str, lines: &Lines<'_>) -> Problem {
    let problem = error.problem();
    let Some(mark) = error.problem_mark() else {
        let (line, message) = match text.char_indices().find(|(_, ch)| !is_allowed(*ch)) {
            Some((at, '\0')) => (
                lines.at_offset(text, at),
                "the file has a NUL byte here, which is never text; write it again".to_owned(),
            ),
            Some((at, ch)) => (
                lines.at_offset(text, at),
                format!(
                    "not valid YAML: the control character U+{:04X} is not allowed in a file; remove it",
                    u32::from(ch)
                ),
            ),
            None => (lines.first, format!("not valid YAML: {problem}")),
        };
        return refused(line, message);
    };
    let line = lines.at(mark);
    let began = match (error.context(), error.context_mark()) {
        (Some(context), Some(start)) if lines.at(start) != line => {
            format!(" {context} that starts in line {}", lines.at(start))
        }
        (Some(context), _) => format!(" {context}"),
        _ => String::new(),
    };
    let hint = hint(problem, text, mark);
    // The advice comes first; the parser's own words are for readers who search for them.
    refused(line, format!("not valid YAML; {hint} ({problem}{began})"))
}

/// Whether the parser refuses something that RKE2's parser may accept.
pub(super) fn is_read_there(problem: &Problem) -> bool {
    ["found unexpected ':'", "found unknown escape character"]
        .iter()
        .any(|what| problem.message.contains(what))
}

fn refused(line: u32, message: String) -> Problem {
    Problem {
        code: Code::FileRefused,
        line: Some(line),
        message,
    }
}

fn hint(problem: &str, text: &str, mark: Mark) -> &'static str {
    let at = usize::try_from(mark.index).map_or(text.len(), |at| at.min(text.len()));
    let next = text.get(at..).and_then(|rest| rest.chars().next());
    if problem.contains("tab character") {
        return "a tab cannot indent, use spaces";
    }
    if problem.contains("cannot start any token") {
        return match next {
            Some('\t') => "a tab cannot indent, use spaces",
            Some('%') if mark.column == 0 => "directives cannot be used here, remove the line",
            _ => "quote the value",
        };
    }
    if problem.contains("mapping values are not allowed") {
        return "a value with `: ` in it must be quoted; otherwise correct the indentation";
    }
    if problem.contains("document start") {
        return "remove the directive (`%...`) or the text before `---`";
    }
    if problem.contains("unexpected end of stream") {
        return "close the quotation mark";
    }
    if problem.contains("unknown escape character") {
        return "write the backslash twice, or the text between apostrophes";
    }
    if problem.contains("undefined tag handle") {
        return "remove the tag";
    }
    match next {
        Some('}' | ']') => "remove the bracket, or open it before",
        _ => "correct the indentation or the brackets at this line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_value_is_found_without_counting_the_whole_text() {
        let text = "a\r\n\n".repeat(10_000) + "\r";
        let breaks = LineBreaks::new(&text);
        for offset in (0..text.len() + 2).step_by(997).chain([text.len()]) {
            let end = offset.min(text.len());
            assert_eq!(breaks.before(offset), count_breaks(&text.as_bytes()[..end]));
            let counted = breaks.rest(offset).1.len();
            assert!(counted <= LineBreaks::STEP, "{counted} bytes at {offset}");
        }
        assert_eq!(LineBreaks::new("").before(0), 0);
    }
}
