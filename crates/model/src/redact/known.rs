//! The second net: known secrets, in any place.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use super::{REDACTED, encoded, text, value};

/// A shorter one would match inside ordinary words.
const SHORTEST: usize = 6;

/// Words that some people use as a password: if they were redacted everywhere, the text would be unreadable.
const WORDS: &[&str] = &[
    "admin",
    "administrator",
    "cattle",
    "changeme",
    "cluster",
    "default",
    "disabled",
    "enabled",
    "etcd",
    "example",
    "external",
    "fleet",
    "generic",
    "harvester",
    "internal",
    "kubernetes",
    "localhost",
    "longhorn",
    "manifest",
    "manifests",
    "optional",
    "password",
    "rancher",
    "ranchers",
    "rancherd",
    "redacted",
    "required",
    "secret",
    "secrets",
    "server",
    "service",
    "system",
    "ubuntu",
    "unknown",
    "windrow",
];

/// Whether it can be searched without redacting half of the text.
pub(super) fn can_be_known(secret: &str) -> bool {
    let plain = secret.to_ascii_lowercase();
    secret.len() >= SHORTEST
        && secret != REDACTED
        && !WORDS.contains(&plain.as_str())
        // A path or a number identifies a thing to which the rest of the archive refers.
        && !(secret.starts_with('/') && !secret.contains(char::is_whitespace) && secret.len() < 128)
        && !(secret.len() < 10 && secret.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Both nets.
#[derive(Debug)]
pub struct Redactor {
    /// The secrets as they are written, also in JSON and in URLs.
    plain: Option<AhoCorasick>,
    /// The same secrets, and their traces in base64.
    known: Option<AhoCorasick>,
}

impl Redactor {
    pub(super) fn new(secrets: &BTreeSet<String>) -> Self {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            forms.insert(secret.clone());
            // The forms inside a JSON text, and inside a JSON text within another.
            let mut quoted = secret.clone();
            for _ in 0..2 {
                quoted = inside_json(&quoted);
                forms.insert(quoted.clone());
            }
            forms.insert(in_url(secret));
        }
        let plain = search(&forms);
        forms.extend(secrets.iter().flat_map(|secret| encoded::traces(secret)));
        Self {
            plain,
            known: search(&forms),
        }
    }

    /// A tree without its secrets.
    #[must_use]
    pub fn value(&self, found: &Value) -> Value {
        // Known secrets go first: a shape inside a value would cut it, and leave the rest. Base64 is left to the second
        // search, because text around a secret in it can only be decoded as a whole.
        let first = strings(found.clone(), self.plain.as_ref());
        let shaped = value::redact(&first, &mut |_, _| {});
        strings(shaped, self.known.as_ref())
    }

    #[must_use]
    pub fn text(&self, found: &str) -> String {
        let first = without(found, self.plain.as_ref());
        let shaped = text::redact(&first, &mut |_, _| {});
        without(&shaped, self.known.as_ref())
    }
}

/// The search for these secrets; `None` if there are none.
pub(super) fn search(forms: &BTreeSet<String>) -> Option<AhoCorasick> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        // For a few long secrets the default kind would build a table with hundreds of bytes for each of their bytes.
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(forms)
        .ok()
        .filter(|_| !forms.is_empty())
}

/// A text without the known secrets.
pub(super) fn without(found: &str, known: Option<&AhoCorasick>) -> String {
    let Some(known) = known else {
        return found.to_owned();
    };
    let mut out = String::with_capacity(found.len());
    known.replace_all_with(found, &mut out, |_, _, out| {
        out.push_str(REDACTED);
        true
    });
    out
}

fn strings(value: Value, known: Option<&AhoCorasick>) -> Value {
    match value {
        Value::String(found) => Value::String(without(&found, known)),
        Value::Number(number) => {
            let shown = number.to_string();
            match without(&shown, known) == shown {
                true => Value::Number(number),
                false => Value::String(REDACTED.to_owned()),
            }
        }
        Value::Array(items) => items.into_iter().map(|item| strings(item, known)).collect(),
        Value::Object(entries) => entries
            .into_iter()
            .map(|(key, value)| (without(&key, known), strings(value, known)))
            .collect(),
        Value::Null | Value::Bool(_) => value,
    }
}

fn inside_json(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn in_url(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
