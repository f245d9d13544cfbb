//! What the program says outside the table of reasons: the texts in the sources of its verbs and probes, each with an example. A text
//! that is new is in the list by itself; where its fields have no example yet, a test says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::machine::repository;

/// What stands in the fields.
const EXAMPLES: &str = include_str!("said_examples.txt");
/// A field of a text.
static FIELD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{([^{}]*)\}").expect("a pattern"));
/// A text of fewer words is a part of another one, or a heading.
const FEWEST_WORDS: usize = 3;

/// A text as a person reads it.
pub(crate) struct Said {
    /// The source's file, without its end.
    pub(crate) file: String,
    pub(crate) text: String,
}

/// The texts of the verbs: every literal that has some words.
pub(crate) fn of_verbs() -> Vec<Said> {
    said("src/cli", r#"(?s)"((?:[^"\\]|\\.)*)""#)
}

/// The texts of the probes: what they found, and why they do not know.
pub(crate) fn of_probes() -> Vec<Said> {
    let outcome = r#"(?s)(?:ProbeOutcome::(?:failed|stuck)\(|failed_as\([^"]*?,|absent =|why =)\s*(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#;
    let refused = r#"(?s)ProbeOutcome::(?:unknown|refused)\((?:"[^"]*"|[^",]*),\s*(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#;
    let mut texts = said("src/observe/probes", outcome);
    texts.extend(said("src/observe/probes", refused));
    texts.sort_by(|one, other| one.file.cmp(&other.file));
    texts
}

/// Whole examples that fit no text any more.
pub(crate) fn examples_of_nothing() -> Vec<String> {
    let all: Vec<Said> = of_verbs().into_iter().chain(of_probes()).collect();
    let is_said = |(file, text): &(String, String)| {
        all.iter()
            .any(|said| said.file == *file && said.text == *text)
    };
    let whole = Examples::read().whole.into_iter();
    let left = whole.filter(|example| !is_said(example));
    left.map(|(file, text)| format!("{file}: {text}")).collect()
}

fn said(directory: &str, pattern: &str) -> Vec<Said> {
    let directory = repository(directory);
    let pattern = Regex::new(pattern).expect("a pattern");
    let examples = Examples::read();
    let mut said: Vec<Said> = Vec::new();
    for path in sources(&directory) {
        let file = path.strip_prefix(&directory).expect("below it");
        let file = file.with_extension("").display().to_string();
        let of_probes = !directory.ends_with("cli");
        let code = code(&std::fs::read_to_string(&path).expect("a source"));
        let templates = pattern
            .captures_iter(&code)
            .flat_map(|found| lines(&found[1]));
        for template in templates.filter(|template| of_probes || is_text(template)) {
            let text = examples.fill(&file, &template);
            if !said
                .iter()
                .any(|known| known.file == file && known.text == text)
            {
                said.push(Said {
                    file: file.clone(),
                    text,
                });
            }
        }
    }
    said
}

/// Every source below a directory but tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("sources").flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match path.is_dir() {
            true if name != "tests" => found.extend(sources(&path)),
            false if name.ends_with(".rs") && !name.ends_with("tests.rs") => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}

/// Without comments, tests, and what a panic says.
fn code(source: &str) -> String {
    let (code, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.contains(".expect(");
    let code: Vec<&str> = code.lines().filter(is_code).collect();
    // A quotation mark that is a character begins no text.
    code.join("\n").replace("'\"'", "").replace("b'\"'", "")
}

/// The lines of a literal. One that goes on in the next line of the source is one line.
fn lines(literal: &str) -> Vec<String> {
    let goes_on = Regex::new(r"\\\n\s*").expect("a pattern");
    let text = goes_on.replace_all(literal, "").replace("\\\"", "\"");
    let lines = text.split("\\n").map(|line| {
        let line = line.trim().trim_start_matches("\\r");
        line.strip_prefix("windrow: ").unwrap_or(line)
    });
    let lines = lines.filter(|line| !line.is_empty() && !line.contains('\n'));
    lines.map(str::to_owned).collect()
}

fn is_text(template: &str) -> bool {
    let bare = FIELD.replace_all(template, " ");
    let words = bare.split(|one: char| !one.is_ascii_alphabetic());
    bare.trim().contains(' ') && words.filter(|word| word.len() > 1).count() >= FEWEST_WORDS
}

struct Examples {
    /// Values by the field's name.
    fields: BTreeMap<&'static str, &'static str>,
    /// Texts with their file.
    whole: Vec<(String, String)>,
}

impl Examples {
    fn read() -> Self {
        let (mut fields, mut whole) = (BTreeMap::new(), Vec::new());
        for line in EXAMPLES.lines().filter(|line| !line.starts_with('#')) {
            let field = line
                .strip_prefix('{')
                .and_then(|rest| rest.split_once("} "));
            match (field, line.split_once(": ")) {
                (Some((name, value)), _) => {
                    fields.insert(name, value);
                }
                (None, Some((file, text))) => whole.push((file.to_owned(), text.to_owned())),
                (None, None) => panic!("neither a field nor a text: {line}"),
            }
        }
        Self { fields, whole }
    }

    /// The template with something in its fields. What has no example keeps its braces.
    fn fill(&self, file: &str, template: &str) -> String {
        let mut whole = self.whole.iter();
        let of_file = whole.find(|(of, text)| of == file && fits(template, text));
        if let Some((_, text)) = of_file.filter(|_| template.contains('{')) {
            return text.clone();
        }
        let nameless = template.matches("{}").count();
        let filled = FIELD.replace_all(template, |found: &Captures<'_>| {
            let name = found[1].split(':').next().unwrap_or_default();
            let known = self.fields.get(name);
            // Which is which of several without a name?
            let known = known.filter(|_| !name.is_empty() || nameless == 1);
            known.map_or_else(|| found[0].to_owned(), |value| (*value).to_owned())
        });
        filled.into_owned()
    }
}

/// Could the text be the template with something in its fields?
fn fits(template: &str, text: &str) -> bool {
    let mut parts = FIELD.split(template);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = "";
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            return false;
        };
        (rest, last) = (behind, part);
    }
    // What stands behind the last field ends the text, or it is the last field itself.
    rest.is_empty() || text.ends_with(last)
}
