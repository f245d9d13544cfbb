//! Reads the text of one YAML document into a [`Node`].
//!
//! The syntax is the C library's: RKE2's reader and the one used here are both ports of it. The meaning of scalars is
//! in `scalar`. Anchors are expanded here, within two budgets: the reader's own rule against alias bombs, and ours.

mod aliases;
mod builder;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{Encoding, EventData, Mark, Parser};

pub use self::write::{DoubleQuoted, to_text};

use self::builder::{DocumentRefusal, NodeBuilder};
use self::source::{Lines, YamlBytes};
use super::{Node, NodeValue, Problem, ReadLimits, budget};
use crate::reasons::Code;

/// Reads the first document of `text` and ignores the rest, as RKE2 does. Lines are counted from `first_line`. `None`
/// when there is no document.
pub fn parse(
    text: &str,
    first_line: u32,
    limits: &ReadLimits,
) -> Result<Option<Node>, Vec<Problem>> {
    YamlReader::default().read(text, first_line, limits)
}

/// Reads a configuration file: one document, and a key that appears twice is an error.
pub fn parse_configuration(text: &str) -> Result<Option<Node>, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = YamlReader {
        whole: true,
        ..YamlReader::default()
    };
    reader
        .read(text, 1, &ReadLimits::default())
        .map_err(|mut problems| {
            for problem in &mut problems {
                problem.code = Code::ConfigurationInvalid;
            }
            problems
        })
}

/// Reads RKE2's own configuration: the first document. A repeated key at its top stays repeated, because RKE2 evaluates
/// each pair in turn (`k3s pkg/configfilearg/parser.go`).
pub fn pairs(text: &str) -> Result<Option<Node>, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = YamlReader {
        pairs: true,
        ..YamlReader::default()
    };
    reader.read(text, 1, &ReadLimits::default())
}

/// A file that writes files.
#[derive(Debug, Default)]
pub struct InputFile {
    /// The first document, with the written form of each `!!binary`.
    pub root: Option<Node>,
    pub repeated: Vec<RepeatedKey>,
    /// The first of the tags that are not YAML's own.
    pub tags: Vec<ForeignTag>,
}

/// A tag that is not one of YAML's own, for example `!vault`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignTag {
    pub tag: String,
    pub line: u32,
}

/// Reads user-data or another file that writes files. Other documents may follow the first, but no text without a
/// separator.
pub fn input(text: &str, limits: &ReadLimits) -> Result<InputFile, Vec<Problem>> {
    let mut reader = YamlReader {
        written_binary: true,
        ..YamlReader::default()
    };
    let root = reader.read(text, 1, limits)?;
    Ok(InputFile {
        root,
        repeated: reader.aside.repeated,
        tags: reader.aside.tags,
    })
}

/// Reads the first document as Harvester's installer does (`gopkg.in/yaml.v3` into a map): of the words for yes and no
/// only `true` and `false` are not text.
///
/// # Errors
///
/// The reasons why it cannot be read.
pub fn installers(text: &str) -> Result<Option<Node>, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = YamlReader {
        written_binary: true,
        plain_words: true,
        ..YamlReader::default()
    };
    reader.read(text, 1, &ReadLimits::default())
}

/// A key that RKE2 reads as another text than the written one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadKey {
    pub(super) line: u32,
    /// Its written form: `n`.
    pub(super) written: String,
    /// RKE2's form: `false`.
    pub(super) read: String,
}

/// A key that appears twice in one map; the last one counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedKey {
    pub key: String,
    /// Its last line.
    pub line: u32,
    /// The previous line with the same key.
    pub earlier: u32,
}

/// Details of a document's text that its value does not have.
#[derive(Debug, Default)]
pub(super) struct DocumentNotes {
    /// The first line of the text after `...`, which RKE2 never reads.
    pub(super) unread: Option<u32>,
    /// The first of the keys that RKE2 reads as another text than the written one.
    pub(super) keys: Vec<ReadKey>,
    /// The first of the repeated keys.
    pub(super) repeated: Vec<RepeatedKey>,
    /// The first of the tags that are not YAML's own.
    pub(super) tags: Vec<ForeignTag>,
}

/// Reads documents one after the other and reuses its buffers.
pub(super) struct YamlReader<'t> {
    /// The notes of the last document.
    pub(super) aside: DocumentNotes,
    /// The memory of the values of the documents before it.
    pub(super) taken: usize,
    parser: Parser<YamlBytes<'t>>,
    /// Read as configuration: exactly one document, no repeated key.
    whole: bool,
    /// Keep every pair of the outermost map.
    pairs: bool,
    /// Keep the written form of a `!!binary`.
    written_binary: bool,
    /// Read `yes`, `on` and similar words as text.
    plain_words: bool,
}

impl Default for YamlReader<'_> {
    fn default() -> Self {
        Self {
            aside: DocumentNotes::default(),
            taken: 0,
            parser: Parser::new(),
            whole: false,
            pairs: false,
            written_binary: false,
            plain_words: false,
        }
    }
}

impl<'t> YamlReader<'t> {
    /// See [`parse`].
    pub(super) fn read(
        &mut self,
        text: &'t str,
        first_line: u32,
        limits: &ReadLimits,
    ) -> Result<Option<Node>, Vec<Problem>> {
        if let Some(line) = excess_tag(text) {
            return Err(vec![Problem {
                code: Code::LimitExceeded,
                line: Some(first_line.saturating_add(line)),
                message: format!("more than {MOST_TAGS} lines begin with `%TAG`; remove them"),
            }]);
        }
        if text.contains(MARK) {
            return self.read_replaced(text, first_line, limits);
        }
        match self.read_plainly(text, first_line, limits) {
            Err(problems) if self.is_rke2s() && problems.iter().any(source::is_read_there) => {
                self.read_replaced(text, first_line, limits)
            }
            read => read,
        }
    }

    /// Whether it is read as RKE2 reads it. Other programs have other readers.
    fn is_rke2s(&self) -> bool {
        !self.whole && !self.written_binary
    }

    fn read_plainly(
        &mut self,
        text: &'t str,
        first_line: u32,
        limits: &ReadLimits,
    ) -> Result<Option<Node>, Vec<Problem>> {
        self.aside = DocumentNotes::default();
        let lines = Lines::new(text, first_line);
        self.parser.reset();
        self.parser.set_encoding(Encoding::Utf8);
        self.parser.set_input(YamlBytes::new(text));
        // The parser panics on a few malformed tags (`[!a,b]`) which RKE2's reader refuses.
        let builder = NodeBuilder::new(text, (limits, self.taken), self.whole, self.pairs)
            .with_written_binary(self.written_binary)
            .with_plain_words(self.plain_words);
        let behind = match (self.whole, self.written_binary) {
            (true, _) => AfterFirstDocument::Nothing,
            (false, true) => AfterFirstDocument::Documents,
            (false, false) => AfterFirstDocument::Unread,
        };
        let (parser, aside) = (&mut self.parser, &mut self.aside);
        let read = catch_unwind(AssertUnwindSafe(|| {
            document(parser, text, &lines, builder, behind, aside)
        }));
        read.unwrap_or_else(|_| {
            self.parser = Parser::new();
            Err(vec![Problem {
                code: Code::FileRefused,
                line: Some(first_line),
                message: "not valid YAML: a tag (`!name`) is followed by `,`; remove the tag or put a space after it"
                    .to_owned(),
            }])
        })
    }
}

/// A byte-order mark. At the beginning of the text it has already been removed.
const MARK: char = '\u{feff}';

/// Characters that the parser reads differently from RKE2's parser, with the placeholders that replace them during
/// parsing. No text contains these placeholders.
const STAND_INS: [(char, char); 2] = [(MARK, '\u{fdd0}'), (':', '\u{fdd1}')];

impl YamlReader<'_> {
    /// The parser skips a mark at the beginning of every line, RKE2's only at the beginning of the text. The parser
    /// also refuses two things that RKE2's accepts: a colon at the end of a text between brackets, and `\'` in a text
    /// in quotation marks.
    fn read_replaced(
        &mut self,
        text: &str,
        first_line: u32,
        limits: &ReadLimits,
    ) -> Result<Option<Node>, Vec<Problem>> {
        // It is copied, as a whole and text by text.
        if text.len() > limits.expanded_bytes.saturating_sub(self.taken) / 4 {
            return Err(vec![Problem {
                code: Code::LimitExceeded,
                line: Some(first_line),
                message: budget::exceeded(limits, self.taken),
            }]);
        }
        let mut reader = YamlReader {
            whole: self.whole,
            pairs: self.pairs,
            taken: self.taken,
            written_binary: self.written_binary,
            plain_words: self.plain_words,
            ..YamlReader::default()
        };
        let mut text = replaced(text, self.is_rke2s());
        if self.is_rke2s() {
            unescape(&mut text);
        }
        let read = reader.read_plainly(&text, first_line, limits);
        self.aside = std::mem::take(&mut reader.aside);
        let mut node = read?;
        if let Some(node) = &mut node {
            put_back(node);
        }
        Ok(node)
    }
}

/// Most `%TAG` directives of a text: the parser compares each with all before it.
const MOST_TAGS: usize = 100;

/// The line, from 0, of the first directive above the limit.
fn excess_tag(text: &str) -> Option<u32> {
    const TAG: &str = "%TAG";
    let first = text.starts_with(TAG).then_some(0);
    let others = text.match_indices("\n%TAG").map(|(at, _)| at + 1);
    let excess = first.into_iter().chain(others).nth(MOST_TAGS)?;
    Some(super::split::count_lines(&text[..excess]))
}

/// Most `\'` that are removed from a text: it is parsed again for each, and no more bytes than this.
const MOST_ESCAPES: usize = 100;
const MOST_PARSED_AGAIN: usize = 64 << 20;

/// How many are removed from a text of this length.
fn most_escapes(length: usize) -> usize {
    MOST_ESCAPES.min(MOST_PARSED_AGAIN / length.max(1))
}

/// Removes the backslash wherever the parser fails at `\'`.
fn unescape(text: &mut String) {
    for _ in 0..most_escapes(text.len()) {
        match first_escape(text) {
            Some(at) => text.remove(at),
            None => return,
        };
    }
}

/// The offset of the first `\'` at which the parser fails, if that is its error.
fn first_escape(text: &str) -> Option<usize> {
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(YamlBytes::new(text));
    let parse = || loop {
        match parser.parse() {
            Ok(event) if event.data == EventData::StreamEnd => return None,
            Ok(_) => {}
            Err(error) => return error.problem_mark(),
        }
    };
    let mark = catch_unwind(AssertUnwindSafe(parse)).ok()??;
    let at = usize::try_from(mark.index).ok()?;
    text.get(at..)?.starts_with("\\'").then_some(at)
}

/// The text with placeholders; those of colons only if `colons` is set.
fn replaced(text: &str, colons: bool) -> String {
    let stand_in = |ch: char| STAND_INS.iter().find(|(real, _)| *real == ch);
    let mut before = ' ';
    let mut all = text.chars().peekable();
    let mut replaced = String::with_capacity(text.len());
    while let Some(ch) = all.next() {
        let ends = |next: &char| ",?[]{}".contains(*next);
        let is_text = ch != ':'
            || (colons
                && !before.is_whitespace()
                && !"\"'[]{},".contains(before)
                && all.peek().is_some_and(ends));
        let put = stand_in(ch).filter(|_| is_text);
        replaced.push(put.map_or(ch, |(_, stand_in)| *stand_in));
        before = ch;
    }
    replaced
}

fn put_back(node: &mut Node) {
    let restore = |text: &mut String| {
        for (real, stand_in) in STAND_INS {
            if text.contains(stand_in) {
                *text = text.replace(stand_in, real.encode_utf8(&mut [0; 4]));
            }
        }
    };
    match &mut node.value {
        NodeValue::String(text) => restore(text),
        NodeValue::Sequence(items) => items.iter_mut().for_each(put_back),
        NodeValue::Mapping(entries) => {
            for entry in entries {
                restore(&mut entry.key);
                put_back(&mut entry.value);
            }
        }
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {}
    }
}

/// The text that may follow the first document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterFirstDocument {
    /// Any text, which RKE2 never reads.
    Unread,
    /// Other documents, each beginning with `---`.
    Documents,
    Nothing,
}

fn document(
    parser: &mut Parser<YamlBytes<'_>>,
    text: &str,
    lines: &Lines<'_>,
    mut builder: NodeBuilder<'_>,
    behind: AfterFirstDocument,
    aside: &mut DocumentNotes,
) -> Result<Option<Node>, Vec<Problem>> {
    loop {
        let event = match parser.parse() {
            Ok(event) => event,
            Err(error) => return Err(builder.stop(source::syntax(&error, text, lines))),
        };
        let line = lines.at(event.start_mark);
        match event.data {
            EventData::StreamStart { .. } | EventData::DocumentStart { .. } => {}
            EventData::StreamEnd => return Ok(None),
            EventData::DocumentEnd { implicit } => {
                if !implicit {
                    aside.unread = unread(text, event.end_mark, lines);
                }
                break;
            }
            data => {
                let (start, end) = (event.start_mark.index, event.end_mark.index);
                builder.look_at_escapes(&data, (start, end), line);
                if let Err(refusal) = builder.take(data, line) {
                    let DocumentRefusal { code, message } = refusal;
                    let problem = Problem {
                        code,
                        line: Some(line),
                        message,
                    };
                    return Err(builder.stop(problem));
                }
            }
        }
    }
    if behind != AfterFirstDocument::Unread {
        match parser.parse() {
            Ok(event) if event.data == EventData::StreamEnd => {}
            Ok(_) if behind == AfterFirstDocument::Documents => {}
            Ok(event) => {
                let problem = Problem {
                    code: Code::FileRefused,
                    line: Some(lines.at(event.start_mark)),
                    message: "a second document begins here, and this file may have only one: put the text after the `---` into a separate file"
                        .to_owned(),
                };
                return Err(builder.stop(problem));
            }
            Err(error) => return Err(builder.stop(source::syntax(&error, text, lines))),
        }
    }
    (aside.keys, aside.repeated) = builder.odd_keys();
    aside.tags = builder.foreign_tags();
    builder.finish()
}

/// The first line with content after a `...`.
fn unread(text: &str, end: Mark, lines: &Lines<'_>) -> Option<u32> {
    let end = usize::try_from(end.index).ok()?;
    let mut at = end;
    for line in text.get(end..)?.split_inclusive('\n') {
        let says = line.trim();
        if !says.is_empty() && !says.starts_with('#') && says != "..." {
            return Some(lines.at_offset(text, at));
        }
        at += line.len();
    }
    None
}
