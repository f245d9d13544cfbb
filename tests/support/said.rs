//! What the program says outside the table of reasons: the texts in its sources, each with an example. A text that is new is in the list
//! by itself; where its fields have no example yet, a test says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::machine::repository;

/// What stands in the fields.
const EXAMPLES: [&str; 2] = [
    include_str!("said_examples.txt"),
    include_str!("said_examples_elsewhere.txt"),
];
/// Who says what is said outside the verbs and the probes, by the beginnings of the sources' paths.
const SPEAKERS: &[(&str, &[&str])] = &[
    (
        "Messages of the daemon",
        &[
            "crates/daemon/src/daemon",
            "crates/daemon/src/run",
            "crates/daemon/src/orders",
            "crates/daemon/src/background",
            "crates/daemon/src/act",
            "crates/daemon/src/configuration",
            "crates/daemon/src/causes",
        ],
    ),
    (
        "Messages about observations",
        &[
            "crates/daemon/src/observe",
            "crates/daemon/src/files",
            "crates/daemon/src/json_values",
            "crates/daemon/src/fs",
            "src/archive",
            "src/inspect",
        ],
    ),
    (
        "Messages about the connection to kube-apiserver",
        &[
            "crates/daemon/src/apiserver",
            "crates/daemon/src/kubeconfig",
            "crates/daemon/src/pinned",
        ],
    ),
    (
        "Messages of outlets and the console",
        &[
            "crates/daemon/src/report",
            "crates/daemon/src/https",
            "src/console",
        ],
    ),
    ("Texts of answers, tables and pages", &["src/render"]),
    ("Messages of the rack", &["src/rack", "crates/rack"]),
    (
        "Messages about manifests, rules and knowledge",
        &[
            "crates/model",
            "crates/inputs",
            "crates/plan",
            "crates/apischema",
        ],
    ),
    ("Messages about decisions and settings", &["crates/decide"]),
    ("Messages about feature gates", &["crates/gates"]),
    (
        "Messages about add-ons, incidents, drains and upgrades",
        &["crates/harvester"],
    ),
    (
        "Messages about a host",
        &["crates/host", "crates/preflight"],
    ),
    (
        "Messages about earlier boots",
        &["crates/learn", "crates/replay"],
    ),
    (
        "Messages about a simulation",
        &["crates/simulate/src/rehearse", "src/sandbox"],
    ),
];
/// What is in other parts of the list, what other programs say (kube-apiserver about a field, what a simulation plays), and what only
/// tests say.
const ELSEWHERE: &[&str] = &[
    "src/cli",
    "crates/daemon/src/observe/probes",
    "crates/harvester/src/health",
    "crates/model/src/reasons/table",
    "crates/apischema",
    "crates/simulate",
    "src/hostile",
    "crates/daemon/src/testing",
    "crates/daemon/src/act/testing",
    "src/render/samples",
    "crates/gates/src/testing",
];
/// What Windrow says itself in those parts.
const OUR_OWN: &[&str] = &[
    "crates/apischema/src/api",
    "crates/apischema/src/cross_check",
    "crates/simulate/src/rehearse",
];
/// A field of a text.
static FIELD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{(\w*(?::[^{} ]*)?)\}").expect("a pattern"));
/// Braces that stand together: two are one in the text.
static BRACES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{+|\}+").expect("a pattern"));
/// Where a line of a literal goes on in the next line of the source.
static GOES_ON: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").expect("a pattern"));
/// A module of tests in another file.
static TEST_MODULE: LazyLock<Regex> = LazyLock::new(|| {
    let module = r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z:]+\))? )?mod \w+;";
    Regex::new(module).expect("a pattern")
});
/// What stands in the fields, as it is written in the files.
static FIELDS_AND_TEXTS: LazyLock<Examples> = LazyLock::new(Examples::read);
/// Braces of the text itself, until its fields are filled.
const OPEN: &str = "\u{1}";
const CLOSE: &str = "\u{2}";
/// A text of fewer words is a part of another one, or a heading.
const FEWEST_WORDS: usize = 3;

/// A text as a person reads it.
pub(crate) struct Said {
    /// The source's file, without its end.
    pub(crate) file: String,
    pub(crate) text: String,
}

/// Every literal.
const LITERAL: &str = r##"(?s)r#"(?:.*?)"#|"((?:[^"\\]|\\.)*)""##;

/// The texts of the verbs: every literal that has some words.
pub(crate) fn of_verbs() -> Vec<Said> {
    said(of_directory("src/cli"), LITERAL, is_text)
}

/// The texts of the probes: what they found, and why they do not know.
pub(crate) fn of_probes() -> Vec<Said> {
    let outcome = r#"(?s)(?:ProbeOutcome::(?:failed|stuck)\(|failed_as\([^"]*?,|absent =|why =)\s*(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#;
    let refused = r#"(?s)ProbeOutcome::(?:unknown|refused)\((?:"[^"]*"|[^",]*),\s*(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#;
    let probes = || {
        let mut all = of_directory("crates/daemon/src/observe/probes");
        all.extend(of_directory("crates/harvester/src/health"));
        all
    };
    let mut texts = said(probes(), outcome, |_| true);
    texts.extend(said(probes(), refused, |_| true));
    texts.sort_by(|one, other| one.file.cmp(&other.file));
    texts
}

/// The texts of everything else, by who says them.
pub(crate) fn of_speakers() -> Vec<(&'static str, Vec<Said>)> {
    let mut sources = Vec::new();
    for directory in ["src", "crates"] {
        for (file, path) in of_directory(directory) {
            let file = format!("{directory}/{file}");
            let is_source = directory == "src" || file.contains("/src/");
            if is_source && !is_elsewhere(&file) {
                sources.push((file, path));
            }
        }
    }
    let parts = SPEAKERS.iter().map(|(part, beginnings)| {
        let is_of_part = |file: &str| beginnings.iter().any(|begin| file.starts_with(begin));
        let (of_part, rest) = std::mem::take(&mut sources)
            .into_iter()
            .partition(|(file, _): &(String, PathBuf)| is_of_part(file));
        sources = rest;
        (*part, said(of_part, LITERAL, is_text))
    });
    let parts = parts.collect();
    let rest = said(sources, LITERAL, is_text).into_iter();
    let nobody: Vec<String> = rest.map(|said| said.file).collect();
    assert!(nobody.is_empty(), "who says what these say? {nobody:?}");
    parts
}

/// Whole examples that fit no text any more.
pub(crate) fn examples_of_nothing() -> Vec<String> {
    let elsewhere = of_speakers().into_iter().flat_map(|(_, said)| said);
    let all: Vec<Said> = of_verbs()
        .into_iter()
        .chain(of_probes())
        .chain(elsewhere)
        .collect();
    let is_said = |(file, text): &(String, String)| {
        all.iter()
            .any(|said| said.file == *file && said.text == *text)
    };
    let left = FIELDS_AND_TEXTS.whole.iter().filter(|one| !is_said(one));
    left.map(|(file, text)| format!("{file}: {text}")).collect()
}

fn said(
    sources: Vec<(String, PathBuf)>,
    pattern: &str,
    is_said: impl Fn(&str) -> bool,
) -> Vec<Said> {
    let pattern = Regex::new(pattern).expect("a pattern");
    let examples = &*FIELDS_AND_TEXTS;
    let mut said: Vec<Said> = Vec::new();
    for (file, path) in sources {
        let code = code(&std::fs::read_to_string(&path).expect("a source"));
        let literals = pattern
            .captures_iter(&code)
            .filter_map(|found| found.get(1));
        let templates = literals.flat_map(|literal| lines(literal.as_str()));
        for template in templates.filter(|template| is_said(template)) {
            if examples.is_of_nobody(&file, &template) {
                continue;
            }
            let text = examples.fill(&file, &template);
            let is_known = |known: &Said| known.file == file && known.text == text;
            if !said.iter().any(is_known) {
                said.push(Said {
                    file: file.clone(),
                    text,
                });
            }
        }
    }
    said
}

/// Every source below a directory, by its name there without its end.
fn of_directory(directory: &str) -> Vec<(String, PathBuf)> {
    let directory = repository(directory);
    let named = |path: PathBuf| {
        let name = path.strip_prefix(&directory).expect("below it");
        (name.with_extension("").display().to_string(), path)
    };
    sources(&directory).into_iter().map(named).collect()
}

fn is_elsewhere(file: &str) -> bool {
    let mut elsewhere = ELSEWHERE.iter().filter(|begin| file.starts_with(**begin));
    elsewhere.any(|_| !OUR_OWN.iter().any(|begin| file.starts_with(begin)))
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

/// Without comments, tests, attributes that give their reason, and what a panic says.
fn code(source: &str) -> String {
    let source = TEST_MODULE.replace_all(source, "");
    let (code, _) = source.split_once("#[cfg(test)]").unwrap_or((&source, ""));
    let silent = [
        "//",
        "#![",
        "#[allow",
        "#[expect",
        "#[cfg",
        "#[doc",
        "reason = \"",
    ];
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !silent.iter().any(|begin| line.starts_with(begin)) && !line.contains(".expect(")
    };
    let code: Vec<&str> = code.lines().filter(is_code).collect();
    // A quotation mark that is a character begins no text.
    code.join("\n").replace("b'\"'", "").replace("'\"'", "")
}

/// The lines of a literal. One that goes on in the next line of the source is one line.
fn lines(literal: &str) -> Vec<String> {
    let text = GOES_ON.replace_all(literal, "").replace("\\\"", "\"");
    let text = BRACES.replace_all(&text, |run: &Captures<'_>| {
        let (braces, field) = run[0].split_at(run[0].len() / 2 * 2);
        match run[0].starts_with('{') {
            true => OPEN.repeat(braces.len() / 2) + field,
            false => field.to_owned() + &CLOSE.repeat(braces.len() / 2),
        }
    });
    let lines = text.split("\\n").map(|line| {
        let line = line.trim().trim_start_matches("\\r");
        let line = line.strip_prefix("windrow: ").unwrap_or(line);
        line.strip_prefix("windrowd: ").unwrap_or(line)
    });
    let lines = lines.filter(|line| !line.is_empty() && !line.contains('\n'));
    lines.map(str::to_owned).collect()
}

/// Some words, and not for a machine: no markup, no pattern, no path.
fn is_text(template: &str) -> bool {
    let of_machines = ["<", "^", "/"];
    if of_machines.iter().any(|begin| template.starts_with(begin)) || template.contains("=\"") {
        return false;
    }
    let bare = FIELD.replace_all(template, " ");
    let words = bare.split(|one: char| !one.is_ascii_alphabetic());
    bare.trim().contains(' ') && words.filter(|word| word.len() > 1).count() >= FEWEST_WORDS
}

struct Examples {
    /// Values by the field's name, and where they hold: below a path of sources, or everywhere.
    fields: BTreeMap<&'static str, Vec<(&'static str, &'static str)>>,
    /// Texts with their file.
    whole: Vec<(String, String)>,
    /// Files, and beginnings of texts of a file, that are read or recognised, and that nobody says.
    of_nobody: Vec<(&'static str, Option<&'static str>)>,
}

impl Examples {
    fn read() -> Self {
        let (mut whole, mut of_nobody) = (Vec::new(), Vec::new());
        let mut fields: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let lines = EXAMPLES.iter().flat_map(|examples| examples.lines());
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(nobody) = line.strip_prefix("! ") {
                let text = nobody.split_once(": ");
                of_nobody.push(text.map_or((nobody, None), |(file, text)| (file, Some(text))));
                continue;
            }
            let (below, field) = match line.split_once(' ') {
                Some((below, field)) if below.contains('/') && field.starts_with('{') => {
                    (below, field)
                }
                _ => ("", line),
            };
            let field = field
                .strip_prefix('{')
                .and_then(|rest| rest.split_once("} "))
                .filter(|_| !below.ends_with(':'));
            match (field, line.split_once(": ")) {
                (Some((name, value)), _) => fields.entry(name).or_default().push((below, value)),
                (None, Some((file, text))) => whole.push((file.to_owned(), text.to_owned())),
                (None, None) => panic!("neither a field nor a text: {line}"),
            }
        }
        Self {
            fields,
            whole,
            of_nobody,
        }
    }

    fn is_of_nobody(&self, file: &str, template: &str) -> bool {
        let mut nobody = self.of_nobody.iter();
        nobody.any(|(of, text)| *of == file && text.is_none_or(|text| template.starts_with(text)))
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
            let values = self.fields.get(name).into_iter().flatten();
            let here = values.filter(|(below, _)| file.starts_with(below));
            // Which is which of several without a name?
            let known = here.max_by_key(|(below, _)| below.len());
            let known = known.filter(|_| !name.is_empty() || nameless == 1);
            known.map_or_else(|| found[0].to_owned(), |(_, value)| (*value).to_owned())
        });
        filled.replace(OPEN, "{").replace(CLOSE, "}")
    }
}

/// Could the text be the template with something in its fields?
fn fits(template: &str, text: &str) -> bool {
    let (open, close) = (text.replace('{', OPEN), CLOSE);
    let text = &open.replace('}', close);
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
