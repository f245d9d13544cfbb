//! The first net on text: lines of a journal, arguments, files that are not valid YAML.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::keys::{KeyClass, class};
use super::pattern::{OnSecret, regex};
use super::random::is_no_name;
use super::{NEAR, REDACTED, encoded, message, shapes};
use crate::text::{beginning, ending};

/// The length limit of a private key: a text without an end within it is not a key.
const LONGEST_KEY: usize = 16 << 10;

static KEY_BEGIN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"-{4,5} ?BEGIN (?:[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?|OpenVPN [A-Za-z0-9 -]*key(?: V1)?) ?-{4,5}",
    )
});
static KEY_END: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"-{4,5} ?END (?:[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?|OpenVPN [A-Za-z0-9 -]*key(?: V1)?) ?-{4,5}",
    )
});
/// The login in a URL.
static USER_INFO: LazyLock<Regex> =
    LazyLock::new(|| regex(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#\x22'<>]+)@"));
/// A login with a `/` in the password, which is invalid in a URL. The code distinguishes the text after the colon from
/// a port.
static USER_INFO_WITH_SLASH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#:@\x22'<>\[\]]+:[^\s\x22'<>@]*)@")
});
/// A flag, and the text before its value as the next argument.
static FLAG: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(--?[A-Za-z0-9][A-Za-z0-9_.-]*)([ \t]+)[^\s-]"));
/// The name of an environment variable or a parameter, at the end of the text before `value`.
static NAME_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)\b(?:name|key)[\\"']*[ \t]*[:=][ \t]*[\\"']*([A-Z0-9_.-]{1,128})(?:[\s,;\\"']|\\n)*(?:- +[\\"']*)?$"#,
    )
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| regex(r"[A-Za-z0-9+/_-]{24,}={0,2}"));

pub(super) fn redact(text: &str, found: OnSecret<'_>) -> String {
    nested(text, 3, found)
}

fn nested(text: &str, depth: usize, found: OnSecret<'_>) -> String {
    let mut text = private_keys(text, found);
    text = message::redact(&text, found);
    text = logins(&text, found);
    // Before the shapes: these would cut a value in the middle, and leave the rest of it.
    text = assignments(&text, found);
    text = flags(&text, found);
    text = shapes::redact(&text, found);
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

fn logins(text: &str, found: OnSecret<'_>) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    let text = USER_INFO
        .replace_all(text, |captures: &Captures<'_>| {
            let login = &captures[2];
            if login == REDACTED {
                return captures[0].to_owned();
            }
            // Only the password leaks elsewhere.
            found(login.split_once(':').map_or(login, |(_, one)| one), true);
            format!("{}{REDACTED}@", &captures[1])
        })
        .into_owned();
    USER_INFO_WITH_SLASH
        .replace_all(&text, |captures: &Captures<'_>| {
            let password = captures[2].split_once(':').map_or("", |(_, one)| one);
            let port = password.split(['/', '?', '#']).next().unwrap_or_default();
            if port.bytes().all(|byte| byte.is_ascii_digit()) {
                return captures[0].to_owned();
            }
            found(password, true);
            format!("{}{REDACTED}@", &captures[1])
        })
        .into_owned()
}

fn private_keys(text: &str, found: OnSecret<'_>) -> String {
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
fn assignments(text: &str, found: OnSecret<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut done, mut from) = (0, 0);
    while let Some(sign) = memchr::memchr2(b'=', b':', &text.as_bytes()[from..]) {
        let sign = from + sign;
        from = sign + 1;
        let Some(key) = key_before(text, sign, done) else {
            continue;
        };
        let class = class_of_key(text, key.clone());
        if class == KeyClass::Plain {
            continue;
        }
        let at = after_sign(text, sign);
        // `/server/token: permission denied` is a message about a file.
        let of_a_file = text[..key.start].ends_with('/') && text[..at].ends_with(": ");
        let place = KeySurroundings::find(text, key.clone(), sign);
        if of_a_file || message::is_field_error(&text[at..]) {
            continue;
        }
        // A line that begins with the key is a file's, and its value may be any words.
        if !place.whole_line && message::is_prose(&text[at..]) {
            continue;
        }
        if class == KeyClass::IfRandom && !begins_random(&text[at..], &place) {
            continue;
        }
        let Some(value) = value(&text[at..], &place) else {
            continue;
        };
        if class == KeyClass::IfRandom && !is_no_name(value.secret) && value.length <= NEAR {
            continue;
        }
        if names_a_place(value.secret) {
            continue;
        }
        let sure = class == KeyClass::Secret && known_by_a_word(value.secret);
        found(value.secret, sure);
        // `(token=abc)`: the value is the same without the bracket.
        found(
            value
                .secret
                .trim_end_matches([')', ']', '}', ',', ';', '.']),
            sure,
        );
        out.push_str(&text[done..at]);
        out.push_str(value.before);
        out.push_str(REDACTED);
        done = at + value.before.len() + value.length;
        from = done;
    }
    out.push_str(&text[done..]);
    out
}

/// The class of a key. For `value` it is the one of the preceding name: `name: DB_PASSWORD, value: x`.
fn class_of_key(text: &str, key: std::ops::Range<usize>) -> KeyClass {
    let own = class(&text[key.clone()]);
    if own != KeyClass::Plain || !text[key.clone()].eq_ignore_ascii_case("value") {
        return own;
    }
    let named = NAME_BEFORE.captures(ending(&text[..key.start], 2 * LONGEST_NAME));
    let name = named.and_then(|captures| captures.get(1));
    name.map_or(own, |name| class(name.as_str()))
}

/// The maximum length of a key.
const LONGEST_NAME: usize = 128;

/// The key that ends before a sign, not before `least`.
fn key_before(text: &str, sign: usize, least: usize) -> Option<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let back = |mut at: usize, is: fn(u8) -> bool| {
        while at > least && is(bytes[at - 1]) {
            at -= 1;
        }
        at
    };
    let end = back(sign, |byte| matches!(byte, b' ' | b'\t'));
    let end = back(end, |byte| matches!(byte, b'\\' | b'"' | b'\''));
    let start = back(end, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
    });
    // `\n` and the like in a quoted text are not part of the key after them.
    let escaped = start > least && bytes[start - 1] == b'\\' && bytes[start].is_ascii_lowercase();
    let start = start + usize::from(escaped && end - start > 1);
    (start < end && end - start <= LONGEST_NAME).then_some(start..end)
}

/// The offset after `=`, `:`, `=>` or `:=` and blanks.
fn after_sign(text: &str, sign: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = sign + 1;
    let two = matches!(
        (bytes[sign], bytes.get(at)),
        (b':', Some(b'=')) | (b'=', Some(b'>' | b'='))
    );
    at += usize::from(two);
    while matches!(bytes.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// `--token abc`.
fn flags(text: &str, found: OnSecret<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    while let Some(captures) = FLAG.captures_at(text, done) {
        let (Some(whole), Some(flag), Some(blank)) =
            (captures.get(0), captures.get(1), captures.get(2))
        else {
            break;
        };
        let class = class(flag.as_str());
        let place = KeySurroundings::find(text, flag.range(), blank.start());
        let rest = &text[blank.end()..];
        let worth = match class {
            KeyClass::Plain | KeyClass::Commands => None,
            KeyClass::IfRandom if !begins_random(rest, &place) => None,
            _ => value(rest, &place),
        };
        match worth {
            Some(value)
                if class != KeyClass::IfRandom
                    || value.length > NEAR
                    || is_no_name(value.secret) =>
            {
                found(value.secret, false);
                out.push_str(&text[done..blank.end()]);
                out.push_str(value.before);
                out.push_str(REDACTED);
                done = blank.end() + value.before.len() + value.length;
            }
            _ => {
                out.push_str(&text[done..whole.end()]);
                done = whole.end();
            }
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The text around a key, which determines the end of its value.
struct KeySurroundings {
    /// The indentation of the key.
    indent: usize,
    /// The quotation mark that is open before it, if there is one.
    quote: Option<char>,
    /// A parameter of a URL's query.
    in_query: bool,
    /// It begins the line and `:` follows: the value is the rest of the line.
    whole_line: bool,
}

impl KeySurroundings {
    fn find(text: &str, key: std::ops::Range<usize>, sign: usize) -> Self {
        let is_quoted = text[key.end..sign].contains(['"', '\'']);
        let key = key.start;
        // A log line may be long, but an open quotation was opened nearby.
        let near = ending(&text[..key], 4096);
        let line = near.rfind('\n').map(|end| end + 1);
        let line = line.or((near.len() == key).then_some(0));
        let before = &near[line.unwrap_or_default()..];
        let alone = before.trim_matches([' ', '\t', '-', '"', '\'']).is_empty();
        Self {
            indent: before.len(),
            // Its own quotation mark is closed after it.
            quote: open_quote(match is_quoted {
                true => before.trim_end_matches(['"', '\'', '\\']),
                false => before,
            }),
            in_query: before.ends_with(['?', '&']),
            whole_line: line.is_some() && alone && text[sign..].starts_with(':'),
        }
    }
}

/// The open quotation mark at the end of a line's beginning.
fn open_quote(before: &str) -> Option<char> {
    let mut open = None;
    let mut last = ' ';
    for one in before.chars() {
        match open {
            Some(mark) if one == mark && last != '\\' => open = None,
            // An apostrophe inside a word opens nothing.
            None if matches!(one, '"' | '`') || (one == '\'' && !last.is_alphanumeric()) => {
                open = Some(one);
            }
            _ => {}
        }
        last = one;
    }
    open
}

/// Whether the text begins with a value that counts only if it is random.
fn begins_random(rest: &str, place: &KeySurroundings) -> bool {
    value(beginning(rest, NEAR), place).is_some_and(|value| is_no_name(value.secret))
}

/// `serviceAccountToken: path: token`: the place of the secret, and not the secret. Such fields are on one line if the
/// line breaks were removed.
fn names_a_place(value: &str) -> bool {
    let Some((field, rest)) = beginning(value, NEAR).split_once(": ") else {
        return false;
    };
    value.len() < NEAR
        && matches!(field, "path" | "name" | "key" | "secretName")
        && !rest.split_whitespace().any(is_no_name)
}

/// In prose (`token: expired`) the next text is a word, which must not be removed elsewhere.
fn known_by_a_word(value: &str) -> bool {
    value.len() >= 8 && !value.bytes().all(|byte| byte.is_ascii_lowercase())
}

struct AssignedValue<'t> {
    /// Quotation marks before it.
    before: &'t str,
    secret: &'t str,
    /// Its length in bytes, including `before`.
    length: usize,
}

fn value<'t>(text: &'t str, place: &KeySurroundings) -> Option<AssignedValue<'t>> {
    let slashes = text.len() - text.trim_start_matches('\\').len();
    let quote = text[slashes..].chars().next()?;
    if matches!(quote, '"' | '\'') && (slashes > 0 || Some(quote) != place.quote) {
        // The same marks end it: `\"abc\"` inside a string of JSON.
        let before = &text[..=slashes];
        let body = &text[before.len()..];
        let length = closing(body, before).unwrap_or_else(|| body.find('\n').unwrap_or(body.len()));
        return worth(before, &body[..length], length);
    }
    // A map; `password={abc}` is not a map.
    if quote == '{' && slashes == 0 {
        let near = beginning(text, NEAR);
        let word = near.split([' ', '\n', '}']).next().unwrap_or_default();
        if word.len() == 1 || word.contains([':', '=', '"', '\'']) {
            return None;
        }
    }
    if quote == '[' && !text.starts_with(REDACTED) {
        let length = text.find([']', '\n']).unwrap_or(text.len());
        let body = &text[1..length.max(1)];
        let secret = body.trim_matches(|one: char| matches!(one, '"' | '\'' | ' '));
        return worth("[", secret, body.len());
    }
    if matches!(quote, '|' | '>')
        && beginning(text, NEAR)
            .lines()
            .next()
            .is_some_and(|line| line.trim().len() <= 3)
    {
        return block(text, place.indent);
    }
    let ends = |one: char| match one {
        '\n' | '\r' => true,
        ' ' | '\t' => !place.whole_line,
        '&' | '#' => place.in_query,
        _ => Some(one) == place.quote,
    };
    let length = text.find(ends).unwrap_or(text.len());
    let bare = text[..length].trim_end();
    // `Authorization: Bearer abc` in the middle of a line: the scheme is not the secret.
    let scheme = ["bearer", "basic", "digest", "negotiate", "token"]
        .iter()
        .any(|scheme| bare.eq_ignore_ascii_case(scheme));
    if scheme && text[length..].starts_with([' ', '\t']) {
        let before = &text[..text.len() - text[length..].trim_start_matches([' ', '\t']).len()];
        let rest = &text[before.len()..];
        let length = rest.find(ends).unwrap_or(rest.len());
        return worth(before, &rest[..length], length);
    }
    worth("", bare, bare.len())
}

/// The end of the quotation.
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

/// A block scalar: all lines with a larger indentation than its key.
fn block(text: &str, indent: usize) -> Option<AssignedValue<'_>> {
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

fn worth<'t>(before: &'t str, secret: &'t str, length: usize) -> Option<AssignedValue<'t>> {
    let plain = secret.trim();
    let says_nothing = plain.is_empty()
        || plain == REDACTED
        || REDACTED.trim_matches(['[', ']']) == plain
        || matches!(
            plain.trim_end_matches([',', ';', ')', ']', '}']),
            "" | "null" | "~" | "true" | "false" | "none" | "<nil>" | "***" | REDACTED
        );
    (!says_nothing).then_some(AssignedValue {
        before,
        secret: plain,
        length,
    })
}

/// Whether it is base64 of something secret.
fn hides(run: &str, depth: usize, found: OnSecret<'_>) -> bool {
    let Some(inner) = encoded::decode(run.as_bytes()) else {
        return false;
    };
    // Compressed: the content cannot be seen.
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
