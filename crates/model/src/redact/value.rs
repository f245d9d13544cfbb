//! The first net on trees: JSON, and YAML that was read into one.

use serde_json::{Map, Value};

use super::keys::{self, KeyClass};
use super::pattern::OnSecret;
use super::programs::is_no_word;
use super::random::is_no_name;
use super::{REDACTED, encoded, text};
use crate::manifest::{ReadLimits, yaml};
use crate::suggest::nearest;

/// Annotations that contain the whole object again, compressed or not, and nothing else.
const COPIES: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    "objectset.rio.cattle.io/applied",
];

/// The fields of a Secret (`core/v1`). Any other field is a mistake, and may contain a value that was meant for its
/// data.
const FIELDS_OF_SECRETS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "type",
    "immutable",
    "data",
    "stringData",
];

/// Flags before `USER:PASSWORD`: curl, etcdctl, skopeo, crictl.
const LOGIN_FLAGS: &[&str] = &[
    "-u",
    "--user",
    "--proxy-user",
    "--creds",
    "--src-creds",
    "--dest-creds",
    "--login",
];

/// Texts that are YAML for Helm. An unreadable one cannot be searched.
const VALUES: &[&str] = &["valuesContent", "values.yaml"];

/// Maximum depth of texts inside texts.
const DEPTH: usize = 4;

pub(super) fn redact(value: &Value, found: OnSecret<'_>) -> Value {
    walk(value, KeyClass::Plain, DEPTH, found)
}

fn walk(value: &Value, class: KeyClass, depth: usize, found: OnSecret<'_>) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(number) => match class {
            KeyClass::Secret | KeyClass::Whole => taken(&number.to_string(), class, found),
            KeyClass::Plain | KeyClass::Perhaps | KeyClass::IfRandom => value.clone(),
            KeyClass::Commands => left_out(""),
        },
        Value::String(text) => match class {
            KeyClass::Plain => Value::String(inside(text, depth, found)),
            KeyClass::IfRandom if !is_no_name(text) => Value::String(inside(text, depth, found)),
            KeyClass::Commands => command(text, found),
            _ => taken(text, class, found),
        },
        Value::Array(items) => list(items, class, depth, found),
        Value::Object(entries) => Value::Object(map(entries, class, depth, found)),
    }
}

/// The replacement of a text.
fn taken(text: &str, class: KeyClass, found: OnSecret<'_>) -> Value {
    if text.trim().is_empty() {
        return Value::String(text.to_owned());
    }
    found(text, matches!(class, KeyClass::Secret | KeyClass::Whole));
    if class == KeyClass::Whole {
        // Its content is learned, but no part of it is shown.
        inside(text, DEPTH, found);
    }
    Value::String(REDACTED.to_owned())
}

/// A command is removed, and its possible secrets are learned: the journal quotes commands.
fn command(text: &str, found: OnSecret<'_>) -> Value {
    inside(text, DEPTH, found);
    for word in text.split(|one: char| one.is_whitespace() || "'\"`|;&()<>".contains(one)) {
        found(word, false);
        for part in word.split([':', '=', ',']) {
            found(part, false);
        }
    }
    left_out(text)
}

fn left_out(text: &str) -> Value {
    match text.trim().is_empty() {
        true => Value::String(text.to_owned()),
        false => Value::String(format!("[left out: {} bytes]", text.len())),
    }
}

fn map(
    entries: &Map<String, Value>,
    class: KeyClass,
    depth: usize,
    found: OnSecret<'_>,
) -> Map<String, Value> {
    let text = |key: &str| entries.get(key).and_then(Value::as_str).unwrap_or_default();
    let has_data = || entries.contains_key("data") || entries.contains_key("stringData");
    let secret = text("kind") == "Secret" && (entries.contains_key("apiVersion") || has_data());
    let of_secrets = text("kind") == "SecretList";
    // `passwords: {postgres: x}`, `auth: {root: x}`: the key's class applies to the level below, too.
    let is_below = matches!(
        class,
        KeyClass::Secret | KeyClass::Perhaps | KeyClass::IfRandom
    );
    // An environment variable, a Helm parameter: the name is next to the value.
    let named = ["name", "key", "Name"]
        .into_iter()
        .map(|key| keys::class(text(key)))
        .find(|class| *class != KeyClass::Plain);
    // A file that a configuration writes: its content can be anything.
    let file = entries.contains_key("path") && entries.contains_key("content");
    // A JSON web key, whose private fields have names of one or two letters.
    let web_key = entries.contains_key("kty");
    // A webhook as in Harvester's installer: the whole URL is enough to post to it.
    let webhook = entries.contains_key("event") && entries.contains_key("url");
    entries
        .iter()
        .filter(|(key, value)| !(key.as_str() == "managedFields" && value.is_array()))
        .map(|(key, value)| {
            let own = match (class, keys::class(key)) {
                (KeyClass::Whole | KeyClass::Commands, _) => class,
                // `secret: {secretName: x}`, `auth: {username: x}`: these describe it.
                (_, KeyClass::Plain) if is_below && !keys::describes(key) => class,
                (_, own) => own,
            };
            let value = match key.as_str() {
                "data" if secret => walk(value, KeyClass::Whole, depth, found),
                // Of a Secret, a SealedSecret, a SopsSecret.
                "stringData" => walk(value, KeyClass::Whole, depth, found),
                "items" if of_secrets => secrets(value, depth, found),
                "d" | "p" | "q" | "dp" | "dq" | "qi" | "k" if web_key => {
                    walk(value, KeyClass::Secret, depth, found)
                }
                "value" | "Value" if named.is_some() => {
                    walk(value, named.unwrap_or(own), depth, found)
                }
                "content" if file => match value {
                    Value::String(content) => {
                        inside(content, DEPTH, found);
                        Value::String(format!("[left out: {} bytes]", content.len()))
                    }
                    other => walk(other, KeyClass::Whole, depth, found),
                },
                "metadata" if secret => metadata_of_secret(value, depth, found),
                key if secret && !FIELDS_OF_SECRETS.contains(&key) => {
                    walk(value, KeyClass::Whole, depth, found)
                }
                // `valeu: x`, next to the name of a secret.
                key if named.is_some() && is_misspelt_value(key) => {
                    walk(value, named.unwrap_or(own), depth, found)
                }
                "binaryData" => binary_data(value, depth, found),
                key if VALUES.contains(&key) && is_unreadable(value) => {
                    inside(value.as_str().unwrap_or_default(), DEPTH, found);
                    left_out(value.as_str().unwrap_or_default())
                }
                // A request of Windrow's own probes over HTTP.
                "http" if value["url"].is_string() => {
                    let mut shown = walk(value, own, depth, found);
                    shown["url"] = origin(value["url"].as_str().unwrap_or_default(), found).into();
                    shown
                }
                key if (key == "url" && webhook) || keys::is_hook(key) => match value {
                    Value::String(url) => Value::String(origin(url, found)),
                    other => walk(other, KeyClass::Whole, depth, found),
                },
                key if keys::names_hook(key) => {
                    with_origin(walk(value, own, depth, found), value, found)
                }
                key if keys::is_proxy(key) => {
                    match value.as_str().and_then(|url| url.rsplit_once('@')) {
                        Some((user, rest)) if !user.contains("://") => {
                            found(user, false);
                            if let Some((_, password)) = user.split_once(':') {
                                found(password, true);
                            }
                            Value::String(format!("{REDACTED}@{rest}"))
                        }
                        _ => walk(value, own, depth, found),
                    }
                }
                "headers" if webhook => walk(value, KeyClass::Whole, depth, found),
                "payload" if webhook => Value::String("[left out]".to_owned()),
                key if COPIES.contains(&key) => Value::String("[left out]".to_owned()),
                _ => walk(value, own, depth, found),
            };
            // In a map that lists things by name, a name may also be a secret, but not a short one.
            match key.len() < 16 {
                true => (key.clone(), value),
                false => (text::redact(key, found), value),
            }
        })
        .collect()
}

/// Whether the key is a misspelt `value`.
fn is_misspelt_value(key: &str) -> bool {
    key != "valueFrom" && nearest(key, std::iter::once("value")).is_some()
}

/// A text with content that is not YAML.
fn is_unreadable(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    !text.trim().is_empty() && parse(text).is_none()
}

/// The binary data of a ConfigMap: base64 of any length, of texts too.
fn binary_data(value: &Value, depth: usize, found: OnSecret<'_>) -> Value {
    let mut shown = walk(value, KeyClass::Plain, depth, found);
    for (key, value) in shown.as_object_mut().into_iter().flatten() {
        let inner = value
            .as_str()
            .and_then(|text| encoded::decode_text(text.as_bytes()));
        if let Some(inner) = inner
            && (keys::class(key) != KeyClass::Plain || inside(&inner, depth, found) != inner)
        {
            *value = REDACTED.into();
        }
    }
    shown
}

/// The items of a list of Secrets, which may have no kind of their own.
fn secrets(items: &Value, depth: usize, found: OnSecret<'_>) -> Value {
    let Value::Array(items) = items else {
        return walk(items, KeyClass::Whole, depth, found);
    };
    let shown = items.iter().map(|item| match item {
        Value::Object(entries) => {
            let mut whole = entries.clone();
            whole.insert("kind".to_owned(), "Secret".into());
            whole.insert("apiVersion".to_owned(), "v1".into());
            let mut shown = map(&whole, KeyClass::Plain, depth, found);
            shown.retain(|key, _| entries.contains_key(key));
            Value::Object(shown)
        }
        other => walk(other, KeyClass::Whole, depth, found),
    });
    Value::Array(shown.collect())
}

/// The shown form of a webhook or of a list of them, without the paths of their URLs: such a path is enough to post to
/// it.
fn with_origin(mut shown: Value, value: &Value, found: OnSecret<'_>) -> Value {
    let mut cut = |shown: &mut Value, value: &Value| {
        if let (Some(shown), Some(url)) = (shown.get_mut("url"), value["url"].as_str()) {
            *shown = origin(url, found).into();
        }
    };
    match (&mut shown, value) {
        (Value::Array(shown), Value::Array(values)) => {
            for (shown, value) in shown.iter_mut().zip(values) {
                cut(shown, value);
            }
        }
        (shown, value) => cut(shown, value),
    }
    shown
}

/// Whether an annotation is about the owner of the object, or sets an action of Windrow.
pub fn is_owners_annotation(key: &str) -> bool {
    [
        "windrow.dev/",
        "config.kubernetes.io/",
        "meta.helm.sh/",
        "helm.sh/",
        "kubernetes.io/service-account.name",
        "kubernetes.io/service-account.uid",
        "objectset.rio.cattle.io/owner",
        "objectset.rio.cattle.io/id",
    ]
    .iter()
    .any(|known| key.starts_with(known))
}

/// Users may have copied a Secret's data into its annotations. Those of RKE2, Helm and Windrow are about its owner.
fn metadata_of_secret(metadata: &Value, depth: usize, found: OnSecret<'_>) -> Value {
    let Value::Object(entries) = metadata else {
        return walk(metadata, KeyClass::Whole, depth, found);
    };
    let mut shown = map(entries, KeyClass::Plain, depth, found);
    let annotations = entries.get("annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        if is_owners_annotation(key) || COPIES.contains(&key.as_str()) {
            continue;
        }
        let hidden = walk(value, KeyClass::Whole, depth, found);
        if let Some(all) = shown.get_mut("annotations").and_then(Value::as_object_mut) {
            all.insert(key.clone(), hidden);
        }
    }
    Value::Object(shown)
}

/// A URL without the text after its host and port. This text is learned: it may be in the journal.
fn origin(url: &str, found: OnSecret<'_>) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let Some(path) = url[host..].find(['/', '?', '#']).map(|at| host + at) else {
        return text::redact(url, found);
    };
    let (origin, rest) = url.split_at(path);
    let secret = rest.trim_start_matches('/');
    if secret.is_empty() {
        return text::redact(url, found);
    }
    found(secret, false);
    let query = secret.split_once('?').map_or("", |(_, query)| query);
    for value in query.split('&').filter_map(|part| part.split_once('=')) {
        found(value.1, true);
    }
    format!("{}/{REDACTED}", text::redact(origin, found))
}

fn list(items: &[Value], class: KeyClass, depth: usize, found: OnSecret<'_>) -> Value {
    let mut flag = KeyClass::Plain;
    let mut is_login = false;
    items
        .iter()
        .map(|item| {
            let expects_login = std::mem::replace(&mut is_login, false);
            if let Value::String(text) = item
                && let Some(shown) = login(text, expects_login, found)
            {
                flag = KeyClass::Plain;
                return shown.into();
            }
            is_login = item
                .as_str()
                .is_some_and(|text| LOGIN_FLAGS.contains(&text));
            // `--token`, and the token as the next argument.
            let expected = std::mem::replace(&mut flag, KeyClass::Plain);
            if let Value::String(text) = item
                && !text.contains(['=', ' '])
                && (text.starts_with("--")
                    || (text.starts_with('-') && expected == KeyClass::Plain))
            {
                flag = keys::class(text);
                return walk(item, class, depth, found);
            }
            if expected != KeyClass::Plain {
                return walk(item, expected, depth, found);
            }
            walk(item, class, depth, found)
        })
        .collect()
}

/// An argument with a login in it: `ann:password` after `--user`, `--user=ann:password`, `-ppassword`.
fn login(text: &str, is_expected: bool, found: OnSecret<'_>) -> Option<String> {
    let (before, login) = match text.split_once('=') {
        _ if is_expected => ("", text),
        Some((flag, login)) if LOGIN_FLAGS.contains(&flag) => (&text[..=flag.len()], login),
        _ => {
            // MySQL's: the flag and the password are one word.
            let password = text.strip_prefix("-p")?;
            let is_password = is_no_word(password) && !password.contains('=');
            return is_password.then(|| {
                found(password, true);
                format!("-p{REDACTED}")
            });
        }
    };
    let (user, password) = login.split_once(':')?;
    // A URL, or the numbers of a user and a group.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if password.is_empty() || password.starts_with("//") || is_number(user) && is_number(password) {
        return None;
    }
    found(password, true);
    Some(format!("{before}{user}:{REDACTED}"))
}

/// A string that may hold a JSON or YAML text.
fn inside(text: &str, depth: usize, found: OnSecret<'_>) -> String {
    if depth > 0
        && let Some(tree) = tree(text)
    {
        let redacted = walk(&tree, KeyClass::Plain, depth - 1, found);
        if redacted != tree {
            return redacted.to_string();
        }
    }
    text::redact(text, found)
}

/// The tree in a text, when it is more than a line of prose.
fn tree(text: &str) -> Option<Value> {
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '[']) {
        if let Ok(tree) = serde_json::from_str(trimmed) {
            return Some(tree);
        }
    } else if !trimmed.contains(": ") && !trimmed.contains(":\n") {
        return None;
    }
    let tree = parse(trimmed)?;
    (tree.is_object() || tree.is_array()).then_some(tree)
}

fn parse(text: &str) -> Option<Value> {
    let limits = ReadLimits {
        depth: 50,
        alias_nodes: 10_000,
        ..ReadLimits::default()
    };
    Some(yaml::parse(text, 1, &limits).ok()??.to_json())
}
