//! Manifests: the objects of a file, or that RKE2 refuses it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use windrow_fuzz::Draw;
use windrow_model::manifest::{self, FileContent, ReadLimits};
use windrow_model::reasons::Code;

use super::{Listed, Opinions, SecondOpinion, compare};

/// What YAML is made of.
pub(super) const PIECES: [&str; 50] = [
    "\n",
    " ",
    "  ",
    "\t",
    ":",
    ": ",
    "-",
    "- ",
    "---\n",
    "...\n",
    "#",
    " #",
    "'",
    "\"",
    "|\n",
    ">-\n",
    "|2\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "!!str ",
    "!!int ",
    "!!binary ",
    "! ",
    "<<: ",
    "? ",
    "null",
    "~",
    "true",
    "yes",
    "0x1F",
    "0o7",
    "017",
    "1e3",
    ".inf",
    "1_000",
    "\\",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\r\n",
    "\r",
    "é",
    "\0",
    "%",
    "@",
];

/// What scalars are made of.
pub(super) const SCALARS: [&str; 46] = [
    "0",
    "1",
    "7",
    "8",
    "9",
    "12",
    "00",
    "_",
    ".",
    "-",
    "+",
    "e",
    "E",
    "e3",
    "e-7",
    "x",
    "0x",
    "0o",
    "0b",
    "1F",
    "f",
    "101",
    ":",
    "a",
    "yes",
    "No",
    "true",
    "on",
    "y",
    "n",
    "~",
    "null",
    "Null",
    ".inf",
    ".nan",
    "-.INF",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1.5",
    "2001-01-01",
    "T00:00:00Z",
    "<<",
    "=",
    "'",
    "\"",
];

/// The files whose reading was recorded, and those of the corpus.
fn known() -> Vec<Vec<u8>> {
    let rows: Vec<Value> = serde_json::from_str(include_str!(
        "../../../tests/fixtures/yaml-as-rke2-reads-it.json"
    ))
    .unwrap();
    let texts = rows.iter().filter_map(|row| row["content"].as_str());
    // Long ones are slow, and their places seldom met.
    let short = texts.filter(|text| text.len() < 2_000);
    let mut known: Vec<Vec<u8>> = short.map(|text| text.as_bytes().to_vec()).collect();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/manifest");
    for entry in fs::read_dir(corpus).unwrap() {
        known.push(fs::read(entry.unwrap().path()).unwrap());
    }
    known.sort();
    known
}

/// One number may be written in two ways, and a reader of JSON may be off by the last bit.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(one), Value::Number(other)) => {
            let exact = one
                .as_i64()
                .zip(other.as_i64())
                .map(|(one, other)| one == other);
            exact.unwrap_or_else(|| {
                let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
                one == other || (one - other).abs() <= one.abs() * 4e-16
            })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        _ => ours == theirs,
    }
}

/// Can anything come of it? RKE2 goes on with the other objects of the file.
fn is_usable(object: &Value) -> bool {
    let text = |value: &Value| {
        value
            .as_str()
            .map(str::to_owned)
            .filter(|text| !text.is_empty())
    };
    let (Some(version), Some(kind)) = (text(&object["apiVersion"]), text(&object["kind"])) else {
        return false;
    };
    let metadata = &object["metadata"];
    let named = ["name", "generateName", "namespace"].map(|key| &metadata[key]);
    version.matches('/').count() < 2
        && !(kind == "List" || (kind.ends_with("List") && !object["items"].is_null()))
        && metadata.is_object()
        && named.iter().all(|name| name.is_null() || name.is_string())
        && named[..2].iter().any(|name| text(name).is_some())
}

/// What of the syntax is read differently, here and in RKE2's configuration.
pub(super) const TAG: Listed = Listed {
    name: "a tag that is none",
    example: "v: !a[b x\n",
    _why: "`!a[b` is a tag to Go's reader; the one used here refuses it, and with it the file",
};
pub(super) const COLON: Listed = Listed {
    name: "a quotation mark in a text that ends in a colon",
    example: "v: [a':]\n",
    _why: "it is a text to Go's reader; the one used here refuses it, and with it the file",
};
const OVERWRITTEN: Listed = Listed {
    name: "a value without JSON that is overwritten",
    example: "v: .nan\nv: 1\n",
    _why: "a `.nan` whose key comes again never becomes JSON there; Windrow has refused the file before it reads on",
};
const UNREAD: Listed = Listed {
    name: "bytes that are no text where Go does not look",
    example: "---\n#\0\u{fffd}\n",
    _why: "behind the end of a document, or in one of comments alone, its reader never comes to them",
};
const TIME: Listed = Listed {
    name: "a timestamp with an odd time of day",
    example: "v: !!timestamp 2001-01-01T00:00:00Z1\n",
    _why: "behind the tag, the time of day is not held to all of Go's formats",
};
const LISTED: [Listed; 5] = [TAG, COLON, OVERWRITTEN, UNREAD, TIME];

/// Why a file that Go reads is refused here.
pub(super) fn refusal(message: &str) -> Option<&'static str> {
    let says = |what: &str| message.contains(what);
    if says("scanning a tag") || says("parsing a tag") || says("a tag (`!name`)") {
        return Some(TAG.name);
    }
    says("found unexpected ':'").then_some(COLON.name)
}

fn is_of_json(message: &str) -> bool {
    ["infinity", "a map key is null", "a map key is too large"]
        .iter()
        .any(|what| message.starts_with(what))
}

fn opinions(bytes: &[u8], go: &mut SecondOpinion) -> Opinions {
    let content = FileContent::Bytes(bytes.to_vec());
    let file = manifest::read("x.yaml", &content, &ReadLimits::default());
    let problem = |code: Code| file.problems.iter().find(|problem| problem.code == code);
    if problem(Code::LimitExceeded).is_some() {
        return Opinions::Same;
    }
    let refused = problem(Code::FileRefused);
    let differ =
        |how: String| Opinions::Differ(format!("{:?}\n{how}", String::from_utf8_lossy(bytes)));
    match (go.of('m', bytes), refused) {
        (Err(_), Some(_)) => Opinions::Same,
        (Err(why), None) if why.ends_with("as a !!timestamp") => Opinions::Listed(TIME.name),
        (Err(why), None) => differ(format!("Go refuses it: {why}\nours: {:?}", file.problems)),
        (Ok(_), Some(why)) if is_of_json(&why.message) => Opinions::Listed(OVERWRITTEN.name),
        (Ok(_), Some(why)) if why.message.contains("UTF-8") => Opinions::Listed(UNREAD.name),
        (Ok(_), Some(why)) => match refusal(&why.message) {
            Some(name) => Opinions::Listed(name),
            None => differ(format!("we refuse it: {why:?}")),
        },
        (Ok(value), None) => {
            let ours = file.objects().map(|object| object.node.to_json()).collect();
            let theirs = match value {
                Value::Array(objects) => objects.into_iter().filter(is_usable).collect(),
                _ => Vec::new(),
            };
            let (ours, theirs) = (Value::Array(ours), Value::Array(theirs));
            match same(&ours, &theirs) {
                true => Opinions::Same,
                false => differ(format!("ours {ours}\nGo's {theirs}\n{:?}", file.problems)),
            }
        }
    }
}

/// A whole object, with a byte that is no text for U+FFFD.
fn framed(rest: &str) -> Vec<u8> {
    let text = format!("apiVersion: v1\nkind: A\nmetadata: {{name: a}}\n{rest}");
    let mut parts = text.split('\u{fffd}').map(str::as_bytes);
    let first = parts.next().unwrap_or_default().to_vec();
    parts.fold(first, |bytes, part| [&bytes, &b"\xff"[..], part].concat())
}

#[test]
fn manifests_near_those_that_are_known_are_read_as_gos_libraries_read_them() {
    let known = known();
    compare(
        &LISTED,
        framed,
        |draw| draw.near(&known, &PIECES),
        |bytes, go| opinions(bytes, go),
    );
}

#[test]
fn scalars_in_manifests_are_read_as_gos_libraries_read_them() {
    let tags = [
        "int",
        "float",
        "bool",
        "null",
        "str",
        "timestamp",
        "binary",
        "x",
    ];
    let draw = |draw: &mut Draw| {
        let scalar = draw.text(&SCALARS, 4);
        framed(&match draw.below(4) {
            0 => format!("{scalar}: 1\n"),
            1 => format!("v: !!{} {scalar}\n", draw.one(&tags)),
            2 => format!("v: [{scalar}]\n"),
            _ => format!("v: {scalar}\n"),
        })
    };
    compare(&LISTED, framed, draw, |bytes, go| opinions(bytes, go));
}

/// A value as YAML, in whatever style.
fn value(draw: &mut Draw, indent: usize, depth: usize) -> String {
    let pad = " ".repeat(indent);
    let anchor = *draw.one(&["", "", "", "&a ", "&b "]);
    let styles = if depth > 3 { 4 } else { 9 };
    match draw.below(styles) {
        0 => format!(" {anchor}{}\n", draw.text(&SCALARS, 2)),
        1 => format!(
            " {anchor}{:?}\n",
            draw.text(&["a", " ", "\\", "'", "\t", "é"], 4)
        ),
        2 => format!(" *{}\n", draw.one(&["a", "b", "c"])),
        3 => format!(
            " {anchor}{}\n{pad}  text {}\n{pad} # c\n",
            draw.one(&["|", ">", "|-", ">+", "|2", ">1-", "|+"]),
            draw.text(&["a", "#", ": ", "\n", "\n  ", "-"], 3)
        ),
        4 => format!(" {anchor}{{x: {}, y}}\n", draw.text(&SCALARS, 1)),
        5 => format!(" {anchor}[{}, [], {{}}]\n", draw.text(&SCALARS, 1)),
        6 => {
            let items = (0..=draw.below(3))
                .map(|_| format!("{pad}-{}", value(draw, indent + 2, depth + 1)));
            format!(" {anchor}\n{}", items.collect::<String>())
        }
        _ => {
            let keys = ["k", "<<", "y", "? z", "\"q\"", "1", "k"];
            let entries = (0..=draw.below(3)).map(|_| {
                let key = *draw.one(&keys);
                let behind = value(draw, indent + 2, depth + 1);
                match key.starts_with('?') {
                    true => format!("{pad}{key}\n{pad}:{behind}"),
                    false => format!("{pad}{key}:{behind}"),
                }
            });
            format!(" {anchor}\n{}", entries.collect::<String>())
        }
    }
}

#[test]
fn manifests_of_every_style_are_read_as_gos_libraries_read_them() {
    let heads = ["", "---\n", "# c\n", "%YAML 1.1\n---\n", "\u{feff}"];
    let kinds = ["A", "A", "List", "AList", "\"\"", "yes"];
    let versions = ["v1", "v1", "a/v1", "a/b/c", "\"\"", "1"];
    let metadata = [
        "{name: a}",
        "{name: a}",
        "{generateName: a}",
        "{name: 1}",
        "{}",
        "~",
    ];
    let draw = |draw: &mut Draw| {
        let mut text = (*draw.one(&heads)).to_owned();
        for _ in 0..=draw.below(3) {
            if draw.below(8) > 0 {
                text += &format!("apiVersion: {}\n", draw.one(&versions));
            }
            if draw.below(8) > 0 {
                text += &format!("kind: {}\n", draw.one(&kinds));
            }
            text += &format!("metadata: {}\n", draw.one(&metadata));
            match draw.below(5) {
                0 => {
                    let item = format!(
                        "{{apiVersion: {}, kind: {}, metadata: {}}}",
                        draw.one(&versions),
                        draw.one(&kinds),
                        draw.one(&metadata)
                    );
                    let items = [
                        item,
                        "{metadata: {name: b}}".to_owned(),
                        "~".to_owned(),
                        "1".to_owned(),
                    ];
                    text += &format!("items: [{}, {}]\n", draw.one(&items), draw.one(&items));
                }
                1 => text += &format!("items: {}\n", draw.one(&["~", "", "[]", "{}", "a"])),
                _ => text += &format!("spec:{}", value(draw, 2, 0)),
            }
            text += *draw.one(&[
                "---\n",
                "---\n",
                "...\n---\n",
                "--- # c\n",
                "...\nx: y\n---\n",
                "---\n---\n",
            ]);
        }
        text.into_bytes()
    };
    compare(&LISTED, framed, draw, |bytes, go| opinions(bytes, go));
}
