//! Level 3: every message has the form in which one tells it to a tired colleague.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::sync::LazyLock;

use jiff::SignedDuration;
use nix::sys::signal::Signal;
use regex::Regex;
use serde_json::Value;

use crate::support::daemon::Node;
use crate::support::messages_page::{Message, lines, messages};
use crate::support::said::examples_of_nothing;

/// Longest message, in characters. What else there is to say is said by `windrow why`.
const LONGEST: usize = 220;

/// What libraries write, and no person says.
const LIBRARY_WORDS: &[&str] = &[
    "os error",
    "OtherError",
    "Other(",
    "Some(",
    "Err(",
    "tcp connect error",
    "client error (",
    "ServiceError",
    "I/O error",
    "error sending request",
    "panicked at",
    "Utf8Error",
];
/// What a rule's condition is written in.
const CEL: &[&str] = &["object.", "orValue", ".?", " == ", " && ", " || "];

static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").unwrap());
/// `{name}`, `{}`, `{:.1}`: a field that nothing has filled.
static FIELD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{\w*(?::[^{} ]*)?\}").unwrap());

/// What is wrong with the form of a message.
fn wrong(text: &str) -> Option<&'static str> {
    // What stands in backticks is to be read or written as it is.
    let plain = QUOTED.replace_all(text, "`");
    let parts: Vec<&str> = plain.split(": ").collect();
    let doubled = |pair: &[&str]| pair[0].len() > 3 && pair[1].starts_with(pair[0]);
    if parts.windows(2).any(doubled) {
        return Some("its subject appears twice");
    }
    // A place in a file is no context.
    let places = parts.iter().filter(|part| is_place(part)).count();
    if parts.len() - places > 3 {
        return Some("it has more than one clause of context");
    }
    if LIBRARY_WORDS.iter().any(|words| text.contains(words)) {
        return Some("it has the words of a library");
    }
    if CEL.iter().any(|words| text.contains(words)) {
        return Some("it has an expression");
    }
    if has_fraction_of_a_second(text) {
        return Some("it has a time that is too exact");
    }
    (text.chars().count() > LONGEST).then_some("it is too long")
}

fn is_place(part: &str) -> bool {
    let word = part.rsplit(' ').next().unwrap_or_default();
    word.rsplit_once(':')
        .is_some_and(|(_, line)| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()))
}

/// `12:00:01.5`
fn has_fraction_of_a_second(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let point = |at: usize| bytes.get(at) == Some(&b'.');
    (3..bytes.len()).any(|at| {
        point(at) && digit(at - 1) && digit(at - 2) && bytes[at - 3] == b':' && digit(at + 1)
    })
}

#[test]
fn each_form_that_a_message_must_not_have_is_recognised() {
    for (bad, why) in [
        ("Widget a/b: Widget a/b: not there", "twice"),
        ("a: b: c: d", "context"),
        ("a.yaml cannot be read (os error 2)", "library"),
        ("needs x (object.?value.orValue('') == '')", "expression"),
        ("by 16:49:09.135475624Z", "exact"),
    ] {
        assert!(wrong(bad).is_some_and(|said| said.contains(why)), "{bad}");
    }
    assert!(wrong(&"a ".repeat(200)).is_some());
    for good in [
        "kube-apiserver does not answer: 127.0.0.1:6443 refuses connections",
        "windrow.yaml:3: unknown key `stagin`: did you mean `staging`?",
        "metrics: the status server is off: write `statusServer.enabled: true` as well",
    ] {
        assert_eq!(wrong(good), None, "{good}");
    }
}

#[test]
fn every_message_of_the_list_has_the_form_of_a_message() {
    let mut found = Vec::new();
    for (part, messages) in messages() {
        assert!(!messages.is_empty(), "{part} is empty");
        // These begin with a headline, and are what the other parts have.
        if part == "In one line" {
            continue;
        }
        for Message { from, text, advice } in messages {
            let is_answer = from.starts_with("windrow ");
            let unfilled = FIELD.is_match(&text) && !is_answer;
            let unfilled = unfilled.then_some("a field has no example in tests/support");
            let bad = unfilled.or_else(|| wrong(&text)).or_else(|| {
                let library = LIBRARY_WORDS.iter().any(|words| advice.contains(words));
                library.then_some("its advice has the words of a library")
            });
            found.extend(bad.map(|why| format!("{from}: {why}: {text}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_example_is_one_of_a_text_that_the_program_says() {
    assert_eq!(examples_of_nothing(), Vec::<String>::new());
}

#[test]
fn no_reason_of_the_list_is_cut_in_the_line_of_65_characters() {
    // The second one also says for how long, and that nothing moves.
    for hangs_since in [None, Some(SignedDuration::from_mins(23))] {
        let lines = lines(hangs_since);
        let says_so = |line: &&Message| line.text.contains("23 min, stalled): ");
        assert_eq!(
            lines.iter().any(|line| says_so(&line)),
            hangs_since.is_some()
        );
        let is_cut = |line: &Message| line.text.ends_with('…') || line.text.chars().count() > 65;
        let cut = lines.iter().filter(|line| is_cut(line));
        let cut: Vec<String> = cut
            .map(|line| format!("{}: {}", line.from, line.text))
            .collect();
        assert!(cut.is_empty(), "{}", cut.join("\n"));
    }
}

/// Every text that a person reads in a status document.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value.as_str()) {
                    ("message" | "summary" | "why" | "error", Some(text)) => {
                        found.push(text.to_owned());
                    }
                    _ => texts(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        _ => {}
    }
}

#[test]
fn a_node_on_which_nothing_can_be_asked_says_so_without_the_words_of_libraries() {
    let node = Node::with(&[
        (
            "web.yaml",
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\n",
        ),
        ("bad.yaml", "a: [\n"),
    ]);
    let daemon = node.ready();
    daemon.until("the first answers of probes count", || {
        let status = node.status();
        let probes = status["probes"].as_array().cloned().unwrap_or_default();
        probes.iter().any(|probe| probe["code"] == "probe-unknown")
    });
    let mut said = Vec::new();
    texts(&node.status(), &mut said);
    let log = daemon.said();
    assert!(daemon.end(Signal::SIGTERM).success());
    assert!(said.len() > 5, "{said:?}");
    let severities = ["error", "warning", "notice", "info"];
    let lines = log.lines().map(|line| {
        let (word, rest) = line.split_once(' ').unwrap_or(("", line));
        match severities.contains(&word) {
            true => rest.trim_start(),
            false => line,
        }
    });
    said.extend(lines.map(str::to_owned));
    let bad: Vec<String> = said
        .iter()
        .filter_map(|text| Some(format!("{}: {text}", wrong(text)?)))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
