//! Values that an error message quotes: messages of kube-apiserver, its webhooks and parsers about an invalid field.
//!
//! ```text
//!   spec.password: Invalid value: "hunter2": must be longer    (apimachinery pkg/util/validation/field/errors.go)
//!   parsing time "hunter2" as "2006-01-02T15:04:05Z07:00"       (Go's standard library)
//!   line 3: cannot unmarshal !!str `hunter2` into int          (go-yaml)
//!   error found in #10 byte of ...|"hunter2"}|...              (json-iterator)
//! ```
//!
//! The field and the reason stay. The value stays only if it is certainly not a secret: a type's name, a number or a
//! name, in a field for such values.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::keys::{KeyClass, class};
use super::pattern::{OnSecret, regex};
use super::random::is_no_name;
use super::{NEAR, REDACTED, known};
use crate::text::beginning;

/// The beginnings of a field's error. Those of the first group quote the value.
static FIELD_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(\S*?)(: )?\b((?:Invalid|Duplicate|Unsupported) value|Not found|Too many|Too long): ")
});

/// Possible first words of a field's error: after a key, such a word is not a value.
const KINDS: &[&str] = &[
    "Invalid value",
    "Duplicate value",
    "Unsupported value",
    "Required value",
    "Not found",
    "Forbidden",
    "Too long",
    "Too many",
    "Internal error",
];

/// Words with which prose continues after `token: `. None of them is a password.
const PROSE: &[&str] = &[
    "a",
    "already",
    "an",
    "and",
    "are",
    "bad",
    "cannot",
    "can't",
    "connection",
    "context",
    "could",
    "couldn't",
    "denied",
    "dial",
    "does",
    "empty",
    "error",
    "exit",
    "expected",
    "expired",
    "failed",
    "failure",
    "field",
    "file",
    "for",
    "forbidden",
    "found",
    "has",
    "http",
    "illegal",
    "in",
    "incorrect",
    "internal",
    "invalid",
    "invalidated",
    "is",
    "it",
    "lookup",
    "malformed",
    "mismatch",
    "missing",
    "must",
    "no",
    "not",
    "of",
    "open",
    "parsing",
    "permission",
    "post",
    "read",
    "refused",
    "rejected",
    "required",
    "rpc",
    "server",
    "should",
    "stat",
    "the",
    "there",
    "this",
    "timed",
    "timeout",
    "unable",
    "unauthorized",
    "unexpected",
    "unknown",
    "was",
    "wrong",
    "x509",
    "yaml",
    "json",
    "get",
    "put",
    "list",
    "watch",
    "tls",
    "write",
];

/// Whether a field's error begins here. The text before it is then the field, and not a key.
pub(super) fn is_field_error(rest: &str) -> bool {
    KINDS.iter().any(|kind| rest.starts_with(kind))
}

/// Whether the text continues as prose, and not with a value.
pub(super) fn is_prose(rest: &str) -> bool {
    // All words of prose are shorter.
    let near = beginning(rest, 32);
    let word = near.split([' ', '\n', ':', ',']).next().unwrap_or_default();
    // A single word on its line is a value: `password: server`; and so is `a:b`, because prose has a blank after its
    // punctuation.
    let after = &rest[word.len()..];
    let after_sign = after.strip_prefix([':', ',']);
    let goes_on = after.starts_with(' ')
        || after_sign.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n']));
    goes_on && PROSE.contains(&word.to_ascii_lowercase().as_str())
}

/// Words after which a parser quotes its input. An empty text reveals nothing, and is common in expressions
/// (`orValue('')`). A quotation mark directly at the word ends a quotation: `"value":"x"`.
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)\b((?:parsing|parse|duration|quantity|unmarshal(?:ing)?|decod(?:e|ing)|convert(?:ing)?|literal|payload|input|value)\b[^"`'\n:\[\\]{1,40})("(?:[^"\\\n]|\\.)+"|`[^`\n]+`|'[^'\n]+')"#,
    )
});
/// A YAML scalar, as go-yaml quotes it, and a JSON number.
static SCALAR: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(!![a-z]+ |cannot unmarshal (?:number|string|bool) )(`[^`\n]*`|[^\s`]+)( into )")
});
/// The part of its input that json-iterator shows.
static CONTEXT: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)(\.\.\.\|).*(\|\.\.\.)"));

/// Most bytes of values that are searched again: the search takes 30 times as much memory.
const MOST_SEARCHED: usize = 256 << 10;

pub(super) fn redact(said: &str, found: OnSecret<'_>) -> String {
    // Most texts have none of these.
    let telling = [
        "value",
        "Not found: ",
        "Too ",
        "pars",
        "duration",
        "quantity",
        "nmarshal",
        "ecod",
        "onvert",
        "literal",
        "payload",
        "input",
        "...|",
    ];
    if !telling.iter().any(|one| said.contains(one)) {
        return said.to_owned();
    }
    let mut cut = Vec::new();
    let mut out = fields(said, &mut cut);
    out = CONTEXT
        .replace_all(&out, |captures: &Captures<'_>| {
            format!("{}{REDACTED}{}", &captures[1], &captures[2])
        })
        .into_owned();
    for pattern in [&QUOTED, &SCALAR] {
        out = pattern
            .replace_all(&out, |captures: &Captures<'_>| {
                let quoted = captures[2].trim_matches(['"', '`', '\'']);
                if is_type(quoted) || is_file(quoted) || quoted.contains(REDACTED) {
                    return captures[0].to_owned();
                }
                cut.push(quoted.to_owned());
                let after = captures.get(3).map_or("", |after| after.as_str());
                format!("{}{REDACTED}{after}", &captures[1])
            })
            .into_owned();
    }
    for value in &cut {
        found(value, false);
    }
    // The reason may quote the value again. All values are searched at once: a message can quote thousands.
    let mut room = MOST_SEARCHED;
    let again = |value: &String| {
        let is_searched =
            (4..=out.len()).contains(&value.len()) && !REDACTED.contains(value.as_str());
        room -= usize::from(is_searched) * value.len().min(room);
        is_searched && room > 0
    };
    let again: BTreeSet<String> = cut.into_iter().filter(again).collect();
    known::without(&out, known::search(&again).as_ref())
}

fn fields(said: &str, cut: &mut Vec<String>) -> String {
    let mut out = String::with_capacity(said.len());
    let mut at = 0;
    while let Some(captures) = FIELD_ERROR.captures_at(said, at) {
        let Some(whole) = captures.get(0) else { break };
        let path = &captures[1];
        let rest = &said[whole.end()..];
        let near = beginning(rest, NEAR);
        let in_near = quoted(near);
        // A value without a nearby end is redacted as a whole: it is not searched again for an error inside it.
        let ends_near = near.len() == rest.len() || in_near.len() + LOOKED_BEYOND < near.len();
        let value = if ends_near { in_near } else { quoted(rest) };
        out.push_str(&said[at..whole.end()]);
        at = whole.end();
        // `Not found: "x"` and the limits quote only sometimes.
        let bare =
            ends_near && !value.starts_with(['"', '`', '{', '[', '&']) && !value.contains('{');
        let optional = !captures[3].ends_with("value");
        if value.is_empty() || value == REDACTED || (bare && optional) {
            continue;
        }
        at += value.len();
        if is_harmless(path, value) {
            out.push_str(value);
        } else {
            out.push_str(REDACTED);
            cut.push(value.trim_matches(['"', '`']).replace("\\\"", "\""));
        }
    }
    out.push_str(&said[at..]);
    out
}

/// How far after its end [`quoted`] looks for more of a value, in bytes.
const LOOKED_BEYOND: usize = 16;

/// The value at the beginning of a text, as Go writes it.
fn quoted(text: &str) -> &str {
    let mut depth = 0usize;
    let mut mark = None;
    let mut escaped = false;
    let mut composed = false;
    for (at, one) in text.char_indices() {
        match mark {
            Some(_) if escaped => escaped = false,
            Some('"') if one == '\\' => escaped = true,
            Some(open) if one == open => {
                mark = None;
                if depth == 0 && !composed {
                    return &text[..=at];
                }
            }
            Some(_) => {}
            None => match one {
                '"' | '`' => mark = Some(one),
                '{' | '[' | '(' => {
                    (composed, depth) = (true, depth + 1);
                }
                '}' | ']' | ')' => {
                    if depth == 0 {
                        return &text[..at];
                    }
                    depth -= 1;
                    // `map[string]interface {}{"a":1}`: the value may continue.
                    let rest = &text[at + 1..];
                    let goes_on = rest.starts_with(['{', '[', '(', '*'])
                        || rest.starts_with("interface")
                        || rest.starts_with(" {")
                        || (one == ']' && rest.starts_with(|next: char| next.is_alphanumeric()));
                    if depth == 0 && !goes_on {
                        return &text[..=at];
                    }
                }
                // Without quotation marks a text may contain blanks: it ends at its reason.
                ':' if depth == 0 && text[at..].starts_with(": ") => return &text[..at],
                ',' if depth == 0 && !composed => return &text[..at],
                '\n' if depth == 0 => return &text[..at],
                _ => {}
            },
        }
    }
    text
}

/// Whether the value may be shown. Only these rules allow it.
fn is_harmless(path: &str, value: &str) -> bool {
    let plain = value.trim_matches('"');
    if plain.is_empty() || is_type(plain) {
        return true;
    }
    let path = path.trim_end_matches(':');
    let mut segments = path
        .split(['.', '[', ']', '"'])
        .filter(|part| !part.is_empty());
    let last = segments.next_back().unwrap_or_default();
    if path
        .split(['.', '[', ']', '"'])
        .any(|part| class(part) != KeyClass::Plain)
    {
        return false;
    }
    if matches!(plain, "true" | "false" | "null")
        || (plain.len() <= 7
            && plain
                .trim_start_matches('-')
                .bytes()
                .all(|one| one.is_ascii_digit()))
    {
        return true;
    }
    let is_name = plain.len() <= 253
        && plain.bytes().all(|one| {
            one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_' | b'.' | b'/' | b':' | b'@')
        });
    is_name && NAMING.contains(&last) && !is_no_name(plain)
}

/// Fields that hold the name of something.
const NAMING: &[&str] = &[
    "apiVersion",
    "apiGroup",
    "claimName",
    "clusterIP",
    "controller",
    "driver",
    "effect",
    "generateName",
    "host",
    "image",
    "kind",
    "name",
    "namespace",
    "nodeName",
    "operator",
    "path",
    "policy",
    "port",
    "protocol",
    "provisioner",
    "serviceName",
    "storageClassName",
    "topologyKey",
    "type",
    "verb",
    "version",
];

fn is_type(text: &str) -> bool {
    matches!(
        text,
        "string"
            | "integer"
            | "number"
            | "boolean"
            | "object"
            | "array"
            | "null"
            | "map"
            | "int"
            | "int32"
            | "int64"
            | "bool"
            | "float64"
    )
}

/// The name of a manifest, or the expected layout of a time.
fn is_file(text: &str) -> bool {
    let path = text
        .bytes()
        .all(|one| one.is_ascii_alphanumeric() || b"/._-".contains(&one));
    (path
        && [".yaml", ".yml", ".json"]
            .iter()
            .any(|end| text.ends_with(end)))
        || text.starts_with("2006-01-02")
}

#[cfg(test)]
mod tests {
    use crate::redact::message;

    #[test]
    fn a_value_that_is_quoted_back_is_cut_and_the_field_and_the_reason_stay() {
        for (said, shown) in [
            (
                r#"Widget.example.com "w" is invalid: spec.password: Invalid value: "hunter2": spec.password in body should be at least 12 chars long"#,
                r#"Widget.example.com "w" is invalid: spec.password: Invalid value: [redacted]: spec.password in body should be at least 12 chars long"#,
            ),
            (
                r#"[spec.a: Invalid value: "hun\"ter2": x, spec.b: Duplicate value: "hunter3", spec.c: Unsupported value: "hunter4": supported values: "a", "b"]"#,
                r#"[spec.a: Invalid value: [redacted]: x, spec.b: Duplicate value: [redacted], spec.c: Unsupported value: [redacted]: supported values: "a", "b"]"#,
            ),
            (
                r#"spec: Invalid value: map[string]interface {}{"password":"hunter2", "n":1}: must have a key"#,
                "spec: Invalid value: [redacted]: must have a key",
            ),
            (
                r#"spec: Invalid value: {"password":"hun: ter2"}: must have a key"#,
                "spec: Invalid value: [redacted]: must have a key",
            ),
            (
                r#"spec.code: Invalid value: "hunter2": the value hunter2 is too short"#,
                "spec.code: Invalid value: [redacted]: the value [redacted] is too short",
            ),
            (
                r#"parsing time "hunter2" as "2006-01-02T15:04:05Z07:00": cannot parse "hunter2" as "2006""#,
                r#"parsing time [redacted] as "2006-01-02T15:04:05Z07:00": cannot parse [redacted] as "2006""#,
            ),
            (
                "line 3: cannot unmarshal !!str `hunter2` into int",
                "line 3: cannot unmarshal !!str [redacted] into int",
            ),
            (
                r#"error found in #10 byte of ...|":"hunter2"}|..., bigger context ...|{"password":"hunter2"}|..."#,
                "error found in #10 byte of ...|[redacted]|...",
            ),
            (
                r#"strconv.ParseInt: parsing "hunter2": invalid syntax"#,
                "strconv.ParseInt: parsing [redacted]: invalid syntax",
            ),
            (
                r#"admission webhook "v.harvesterhci.io" denied the request: cannot use {"type":"s3","secretAccessKey":"hunter2"}"#,
                r#"admission webhook "v.harvesterhci.io" denied the request: cannot use {"type":"s3","secretAccessKey":"[redacted]"}"#,
            ),
            (
                "the server said: cut off: spec.password: Invalid value: \"hunter2",
                "the server said: cut off: spec.password: Invalid value: [redacted]",
            ),
        ] {
            assert_eq!(message(said), shown);
            assert_eq!(message(shown), shown, "a second time");
        }
    }

    #[test]
    fn what_operators_need_of_a_message_stays() {
        for said in [
            r#"Deployment.apps "Foo_Bar" is invalid: metadata.name: Invalid value: "Foo_Bar": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"#,
            r#"spec.replicas: Invalid value: -1: must be greater than or equal to 0"#,
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
            r#"spec.password: Required value"#,
            r#"spec.ports[0].protocol: Unsupported value: "FOO": supported values: "SCTP", "TCP", "UDP""#,
            r#"secrets "tls" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the namespace "default""#,
            r#"MountVolume.SetUp failed for volume "certs" : secret "tls" not found"#,
            r#"namespaces "longhorn-system" not found"#,
            r#"no matches for kind "Issuer" in version "cert-manager.io/v1""#,
            r#"failed to get token: connection refused"#,
            r#"strict decoding error: unknown field "spec.foo""#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            r#"Failed to pull image "rancher/harvester@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": not found"#,
            r#"failed calling webhook "v.harvesterhci.io": failed to call webhook: Post "https://harvester-webhook.harvester-system.svc:443/v1/webhook/mutation?timeout=10s": no endpoints available for service "harvester-webhook""#,
        ] {
            assert_eq!(message(said), said);
        }
    }
}
