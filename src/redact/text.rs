//! The first net on text: lines of a journal, arguments, files that are no YAML.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::keys::{Class, class};
use super::value::Found;
use super::{REDACTED, base64};

/// A private key's own limit: what begins like one and never ends is none beyond it.
const LONGEST_KEY: usize = 16 << 10;

/// Secrets that are known by their shape alone. Group 1 stays.
const SHAPES: &[&str] = &[
    // A JSON web token (a service account's, an OIDC one).
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    // RKE2's tokens: K10<hash of the CA>::<user>:<password>, or without the user.
    r"\bK10[0-9a-f]{64}(?:::[^\s\x22',;\\]+)?",
    // Rancher's: <name>:<54 letters and digits>.
    r"\b[a-z0-9][a-z0-9-]{2,62}:[a-z0-9]{54}\b",
    // Bootstrap tokens.
    r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
    // Hashed passwords, as crypt(3) and htpasswd have them.
    r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|scrypt|argon2(?:id?|d)|pbkdf2[a-z0-9-]*)\$[^\s\x22':,;\\]+",
    // The best-known keys of others.
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}",
    // Authorization headers. The scheme stays.
    r"(?i)(\b(?:bearer|basic)[ \t]+)[A-Za-z0-9._~+/=-]{6,}",
    // What a URL's query is signed with, under names that are no secret's elsewhere.
    r"(?i)([?&](?:key|sig|signature|code|auth|access)=)[^\s&#\x22'<>]+",
];

/// What ends a value without quotation marks.
const ENDS: &[char] = &[
    ' ', '\t', '\n', '\r', '"', '\'', ',', ';', '&', ')', '}', ']', '\\', '`',
];

static SHAPE: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().map(|one| regex(one)).collect());
static KEY_BEGIN: LazyLock<Regex> =
    LazyLock::new(|| regex(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"));
static KEY_END: LazyLock<Regex> =
    LazyLock::new(|| regex(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"));
/// Who logs in, and with what, in a URL.
static USER_INFO: LazyLock<Regex> =
    LazyLock::new(|| regex(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#\x22'<>]+)@"));
/// A key with a word in it that secrets have, and the sign before its value.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)([A-Z0-9_.-]*(?:pass|pwd|token|secret|key|authorization|cookie|psk|credential|docker|auth|kubeconfig|data|cloudconfig)[A-Z0-9_.-]*)([\\\x22']*[ \t]*(?:=>|:=|[:=])[ \t]*)",
    )
});
/// A flag with such a word, and its value as the next argument.
static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(--[A-Z0-9-]*(?:pass|token|secret|key|auth|credential)[A-Z0-9-]*)([ \t]+)([^\s-]\S*)",
    )
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| regex(r"[A-Za-z0-9+/_-]{24,}={0,2}"));

#[allow(
    clippy::expect_used,
    reason = "the patterns are constants, and a test uses each"
)]
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is right")
}

/// A text without its secrets.
pub(super) fn redact(text: &str, found: Found<'_>) -> String {
    nested(text, 3, found)
}

fn nested(text: &str, depth: usize, found: Found<'_>) -> String {
    let mut text = private_keys(text, found);
    text = USER_INFO
        .replace_all(&text, |captures: &Captures<'_>| {
            let login = &captures[2];
            if login == REDACTED {
                return captures[0].to_owned();
            }
            // The password alone is what leaks elsewhere.
            found(login.split_once(':').map_or(login, |(_, one)| one), true);
            format!("{}{REDACTED}@", &captures[1])
        })
        .into_owned();
    for shape in SHAPE.iter() {
        text = shape
            .replace_all(&text, |captures: &Captures<'_>| {
                let kept = captures.get(1).map_or("", |kept| kept.as_str());
                found(&captures[0][kept.len()..], true);
                format!("{kept}{REDACTED}")
            })
            .into_owned();
    }
    text = assignments(&text, found);
    text = FLAG
        .replace_all(&text, |captures: &Captures<'_>| {
            if class(&captures[1]) == Class::Plain || captures[3].starts_with(REDACTED) {
                return captures[0].to_owned();
            }
            found(captures[3].trim_matches(['"', '\'']), false);
            format!("{}{}{REDACTED}", &captures[1], &captures[2])
        })
        .into_owned();
    if depth > 0 {
        text = BASE64
            .replace_all(&text, |captures: &Captures<'_>| {
                match hides(&captures[0], depth - 1, found) {
                    true => REDACTED.to_owned(),
                    false => captures[0].to_owned(),
                }
            })
            .into_owned();
    }
    text
}

fn private_keys(text: &str, found: Found<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = KEY_BEGIN.find(rest) {
        out.push_str(&rest[..begin.start()]);
        out.push_str(REDACTED);
        let key = &rest[begin.end()..];
        let mut limit = LONGEST_KEY.min(key.len());
        while !key.is_char_boundary(limit) {
            limit -= 1;
        }
        let (body, after) = match KEY_END.find(&key[..limit]) {
            Some(end) => (&key[..end.start()], end.end()),
            None => (&key[..limit], limit),
        };
        for line in body.split(['\n', '\r', '\\', ' ']) {
            if line.len() >= 32 {
                found(line, true);
            }
        }
        rest = &key[after..];
    }
    out.push_str(rest);
    out
}

/// `key: value`, `key=value`, `"key":"value"`, also inside other quotation marks.
fn assignments(text: &str, found: Found<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(captures) = ASSIGNMENT.captures_at(text, at) {
        let (Some(whole), Some(key)) = (captures.get(0), captures.get(1)) else {
            break;
        };
        out.push_str(&text[at..whole.end()]);
        at = whole.end();
        let class = class(key.as_str());
        // `/server/token: permission denied` says something about a file.
        let of_a_file = text[..key.start()].ends_with('/') && text[..at].ends_with(": ");
        if class == Class::Plain || of_a_file {
            continue;
        }
        let indent = indent_before(text, key.start());
        let Some(value) = value(&text[at..], indent) else {
            continue;
        };
        found(
            value.secret,
            class == Class::Secret && known_by_a_word(value.secret),
        );
        out.push_str(value.before);
        out.push_str(REDACTED);
        at += value.before.len() + value.length;
    }
    out.push_str(&text[at..]);
    out
}

/// In prose (`token: expired`) what follows is a word, which must not be taken out elsewhere.
fn known_by_a_word(value: &str) -> bool {
    value.len() >= 8 && !value.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// A value in a text.
struct Assigned<'t> {
    /// Quotation marks before it.
    before: &'t str,
    /// What it is.
    secret: &'t str,
    /// How long it is, in bytes, from `before` on.
    length: usize,
}

fn value(text: &str, indent: usize) -> Option<Assigned<'_>> {
    if text.starts_with(REDACTED) {
        return None;
    }
    let slashes = text.len() - text.trim_start_matches('\\').len();
    let quote = text[slashes..].chars().next()?;
    if matches!(quote, '"' | '\'') {
        // The same marks end it: `\"abc\"` inside a string of JSON.
        let before = &text[..=slashes];
        let body = &text[before.len()..];
        let length = closing(body, before).unwrap_or_else(|| body.find('\n').unwrap_or(body.len()));
        return worth(before, &body[..length], length);
    }
    if slashes > 0 || quote == '{' {
        return None;
    }
    if quote == '[' {
        let length = text.find([']', '\n']).unwrap_or(text.len());
        let body = &text[1..length];
        let secret = body.trim_matches(|one: char| matches!(one, '"' | '\'' | ' '));
        return worth("[", secret, body.len());
    }
    if matches!(quote, '|' | '>')
        && text
            .lines()
            .next()
            .is_some_and(|line| line.trim().len() <= 3)
    {
        return block(text, indent);
    }
    let length = text.find(ENDS).unwrap_or(text.len());
    worth("", &text[..length], length)
}

/// Where the quotation ends.
fn closing(body: &str, mark: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + body[from..].find(mark)?;
        // More backslashes than its own: a quotation mark inside.
        if !body[..at].ends_with('\\') {
            return Some(at);
        }
        from = at + mark.len();
    }
}

/// A block scalar: all lines that are further in than its key.
fn block(text: &str, indent: usize) -> Option<Assigned<'_>> {
    let first = text.find('\n')? + 1;
    let mut length = first;
    for line in text[first..].split_inclusive('\n') {
        let inner = line.len() - line.trim_start().len();
        if !line.trim().is_empty() && inner <= indent {
            break;
        }
        length += line.len();
    }
    let body = text[first..length].trim_end();
    let end = first + body.len();
    worth(&text[..first], &text[first..end], end - first)
}

fn worth<'t>(before: &'t str, secret: &'t str, length: usize) -> Option<Assigned<'t>> {
    let plain = secret.trim();
    let says_nothing = plain.is_empty()
        || plain.starts_with(REDACTED)
        || REDACTED.starts_with(plain)
        || matches!(
            plain,
            "null" | "~" | "true" | "false" | "none" | "<nil>" | "***"
        );
    (!says_nothing).then_some(Assigned {
        before,
        secret: plain,
        length,
    })
}

fn indent_before(text: &str, at: usize) -> usize {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    at - line
}

/// Is it base64 of something that is secret?
fn hides(run: &str, depth: usize, found: Found<'_>) -> bool {
    let Some(inner) = base64::decode(run.as_bytes()) else {
        return false;
    };
    // Packed: nobody can see what it is.
    if inner.starts_with(&[0x1f, 0x8b, 8]) {
        return true;
    }
    // A private key without its armour: a sequence that begins with version 0 or 1. A certificate
    // begins with another sequence.
    if inner.len() > 32 && inner[0] == 0x30 {
        let header = match inner[1] {
            0x81 => 3,
            0x82 => 4,
            _ => 2,
        };
        if matches!(inner.get(header..header + 3), Some([2, 1, 0 | 1])) {
            return true;
        }
    }
    match String::from_utf8(inner) {
        Ok(text) => nested(&text, depth, found) != text,
        Err(_) => false,
    }
}
