//! Templates. Expressions have a value only on the node, so a placeholder replaces each of them in the same line: a
//! valid name.
//!
//! cloud-init renders with `trim_blocks` (`cloudinit/templater.py`, 26.2): a comment also removes the line break after
//! it. A text that jinja cannot read is dropped as a whole.

use std::collections::BTreeMap;

use windrow_model::manifest::{Node, ReadLimits, yaml};
use windrow_model::text::one_line;

use crate::manifest_path::could_be_looked_at;

/// A template with a word in place of each expression.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    /// Its text. Every line is where it is in the template.
    pub(super) text: String,
    /// Each expression once: its first line, the expression, and its word.
    pub(super) expressions: Vec<(u32, String, String)>,
    /// Lines whose content cannot be determined, and why.
    pub(super) unknown: Vec<(u32, String)>,
}

/// Most expressions and lines that are reported.
const MOST: usize = 100;
/// Most expressions that are read.
const MOST_EXPRESSIONS: usize = 10_000;

/// Why a template is not read, with the line.
pub(super) type TemplateError = (u32, &'static str);

/// Reads a template whose first line declares it as one.
pub(super) fn render(text: &str) -> Result<Rendered, TemplateError> {
    let start = text.len() - text.trim_start().len();
    let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let mut renderer = Renderer {
        rendered: Rendered {
            text: text[..start].to_owned(),
            ..Rendered::default()
        },
        rest: &text[end..],
        line: 1 + line_breaks(&text[..end]),
        owed: 0,
        line_is_blank: true,
        words: BTreeMap::new(),
        count: 0,
    };
    renderer.run()?;
    let Renderer {
        mut rendered,
        words,
        ..
    } = renderer;
    let paths = unknown_paths(&rendered.text, &words);
    rendered.unknown.extend(paths);
    Ok(rendered)
}

struct Renderer<'t> {
    rendered: Rendered,
    rest: &'t str,
    /// The line in which the rest begins.
    line: u32,
    /// Removed line breaks, which are inserted again after this line.
    owed: u32,
    /// Whether the line has only space so far.
    line_is_blank: bool,
    /// The words in place of expressions, by their lines, and their number.
    words: BTreeMap<u32, Vec<String>>,
    count: usize,
}

impl<'t> Renderer<'t> {
    fn run(&mut self) -> Result<(), TemplateError> {
        while let Some(at) = self.next_opening() {
            let text = self.cut(at);
            self.push(text);
            let line = self.line;
            match &self.rest[..2] {
                "{%" => {
                    return Err((
                        line,
                        "a template with statements (`{%`): its result depends on the node",
                    ));
                }
                "{#" => {
                    let length = self.rest.find("#}").ok_or((line, UNCLOSED))?;
                    let comment = self.cut(length + 2);
                    self.comment(comment).map_err(|why| (line, why))?;
                }
                _ => {
                    let length = closing(self.rest).ok_or((line, UNCLOSED))?;
                    let expression = self.cut(length);
                    self.expression(line, expression)?;
                }
            }
        }
        let text = self.cut(self.rest.len());
        self.push(text);
        Ok(())
    }

    fn next_opening(&self) -> Option<usize> {
        let mut openings = self.rest.match_indices('{').map(|(at, _)| at);
        openings.find(|at| {
            let opening = self.rest.as_bytes().get(at + 1);
            opening.is_some_and(|ch| b"{%#".contains(ch))
        })
    }

    fn cut(&mut self, length: usize) -> &'t str {
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.line = self.line.saturating_add(line_breaks(text));
        text
    }

    fn push(&mut self, text: &str) {
        let at = text.find('\n').filter(|_| self.owed > 0);
        let (line, others) = text.split_at(at.unwrap_or_default());
        self.rendered.text.push_str(line);
        if at.is_some() {
            self.pay();
        }
        self.rendered.text.push_str(others);
        if let Some((_, last)) = text.rsplit_once('\n') {
            self.line_is_blank = last.trim().is_empty();
        } else {
            self.line_is_blank &= text.trim().is_empty();
        }
    }

    /// Inserts the removed line breaks again.
    fn pay(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        let breaks = "\n".repeat(usize::try_from(owed).unwrap_or_default());
        self.rendered.text.push_str(&breaks);
    }

    fn comment(&mut self, comment: &str) -> Result<(), &'static str> {
        if comment.starts_with("{#-") || comment.ends_with("-#}") {
            return Err(TRIMS);
        }
        self.owed = self.owed.saturating_add(line_breaks(comment));
        if self.rest.starts_with('\n') {
            self.cut(1);
            self.owed = self.owed.saturating_add(1);
            if self.rendered.text.ends_with('\n') {
                // A blank line changes nothing, and keeps the next one in its line.
                self.pay();
            }
        }
        Ok(())
    }

    fn expression(&mut self, line: u32, expression: &str) -> Result<(), TemplateError> {
        if expression.starts_with("{{-") || expression.ends_with("-}}") {
            return Err((line, TRIMS));
        }
        let bare = unquoted(&expression[2..expression.len() - 2]);
        if ["#", "{{", "{%", "%}"]
            .iter()
            .any(|other| bare.contains(other))
        {
            return Err((line, NO_EXPRESSION));
        }
        let stand_in = word(expression);
        let shown = unquoted(&one_line(expression));
        let after = self.rest.trim_start_matches([' ', '\t', '\r']);
        let whole_line = self.line_is_blank && (after.is_empty() || after.starts_with('\n'));
        if whole_line && self.rendered.unknown.len() < MOST {
            let what =
                format!("the value that cloud-init fills in for `{shown}`, which is a whole line");
            self.rendered.unknown.push((line, what));
        }
        // As a comment it is nothing to YAML, also inside a written file.
        let text = match whole_line {
            true => format!("# {stand_in}"),
            false => stand_in.clone(),
        };
        self.push(&text);
        self.owed = self.owed.saturating_add(line_breaks(expression));
        self.count += 1;
        if self.count > MOST_EXPRESSIONS {
            return Err((line, "a template of more than 10,000 expressions"));
        }
        let here = self.words.entry(line).or_default();
        here.push(stand_in.clone());
        let expressions = &mut self.rendered.expressions;
        if expressions.len() < MOST && !expressions.iter().any(|(_, known, _)| *known == shown) {
            expressions.push((line, shown, stand_in));
        }
        Ok(())
    }
}

const UNCLOSED: &str = "a template with an unclosed brace: cloud-init drops it as a whole";
const NO_EXPRESSION: &str =
    "a template with braces around an invalid expression: cloud-init drops it as a whole";
const TRIMS: &str = "a template that takes the space around braces out (`{{-`, `-}}`)";

fn line_breaks(text: &str) -> u32 {
    let breaks = text.bytes().filter(|byte| *byte == b'\n').count();
    u32::try_from(breaks).unwrap_or(u32::MAX)
}

/// The length of an expression; braces in a text that it quotes belong to it.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut chars = text.char_indices().skip(2);
    while let Some((at, ch)) = chars.next() {
        match quote {
            Some(_) if ch == '\\' => drop(chars.next()),
            Some(open) if ch == open => quote = None,
            Some(_) => {}
            None if matches!(ch, '"' | '\'') => quote = Some(ch),
            None if text[at..].starts_with("}}") => return Some(at + 2),
            None => {}
        }
    }
    None
}

/// Files whose directory depends on an expression, if it may be a directory that Windrow checks.
fn unknown_paths(text: &str, words: &BTreeMap<u32, Vec<String>>) -> Vec<(u32, String)> {
    if words.is_empty() {
        return Vec::new();
    }
    let root = yaml::input(text, &ReadLimits::default())
        .ok()
        .and_then(|file| file.root);
    let files = root.as_ref().and_then(|root| root.get("write_files"));
    let paths = files.map_or(&[][..], Node::items).iter();
    let unknown = paths.filter_map(|file| {
        let path = file.get("path")?;
        let written = path.as_str()?;
        let here = words.get(&path.line)?.iter();
        let first = here.filter_map(|word| written.find(word.as_str())).min()?;
        could_be_looked_at(&written[..first]).then(|| {
            let what = format!(
                "the file in line {}: its path depends on the node",
                path.line
            );
            (path.line, what)
        })
    });
    unknown.take(MOST).collect()
}

/// The text with a word for each expression (`{{ … }}`) that begins and ends in one line, as for a template
/// of Go's.
pub fn stand_in(text: &str) -> String {
    let mut rendered = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, expression, after)) = next(rest) {
            rendered.push_str(before);
            rendered.push_str(&word(expression));
            rest = after;
        }
        rendered.push_str(rest);
    }
    rendered
}

/// The text before the next expression, the expression, and the text after it.
fn next(line: &str) -> Option<(&str, &str, &str)> {
    let start = line.find("{{")?;
    let length = line[start..].find("}}")? + 2;
    let (before, rest) = line.split_at(start);
    let (expression, after) = rest.split_at(length);
    Some((before, expression, after))
}

/// An expression without the texts in it, which could be secrets.
fn unquoted(expression: &str) -> String {
    let mut bare = String::with_capacity(expression.len());
    let mut quote = None;
    for ch in expression.chars() {
        match quote {
            Some(open) if ch == open => quote = None,
            Some(_) => {}
            None if matches!(ch, '"' | '\'') => {
                quote = Some(ch);
                bare.push('…');
            }
            None => bare.push(ch),
        }
    }
    bare
}

/// `{{ v1.local_hostname }}` → `v1-local-hostname`: a name that is valid in every field.
fn word(expression: &str) -> String {
    let bare = unquoted(expression.trim_matches(['{', '}']));
    let words = bare.split(|ch: char| !ch.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut word = words.join("-");
    word.truncate(40);
    match word.trim_matches('-') {
        "" => "x".to_owned(),
        word => word.to_owned(),
    }
}
