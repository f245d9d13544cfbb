//! Quantities, label selectors, versions, schedules.

use std::cmp::Ordering;

use serde_json::{Value, json};
use windrow_fuzz::Draw;
use windrow_harvester::HarvesterVersion;
use windrow_model::object::{LabelSelector, Labels};
use windrow_model::quantity::milli;
use windrow_plan::version::Version;

use super::{Listed, Opinions, SecondOpinion, compare};

const BEYOND: &str = "beyond 64 bits";
const LARGE: &str = "many digits, or a large exponent";
const NEGATIVE: &str = "negative, and no whole thousandth or large";

fn quantity(text: &str, go: &mut SecondOpinion) -> Opinions {
    let ours = milli(text);
    let theirs = go.of('q', text.as_bytes());
    let read = theirs.as_ref().ok();
    let value = read.and_then(|value| value["milli"].as_i64().map(i128::from));
    let is_beyond = read.is_some_and(|value| value["beyond"] == json!(true));
    if ours == value && !is_beyond {
        return Opinions::Same;
    }
    match ours {
        Some(ours) if is_beyond && ours < 0 => Opinions::Listed(NEGATIVE),
        None if value.is_some() && (text.len() > 20 || text.contains(['e', 'E'])) => {
            Opinions::Listed(LARGE)
        }
        _ if is_beyond && ours.is_none_or(|ours| ours.abs() > i128::from(i64::MAX)) => {
            Opinions::Listed(BEYOND)
        }
        _ => Opinions::Differ(format!("{text:?}: ours {ours:?}, Go's {theirs:?}")),
    }
}

#[test]
fn quantities_are_read_as_apimachinery_reads_them() {
    let listed = [
        Listed {
            name: BEYOND,
            example: "9223372036854775807",
            _why: "apimachinery cuts a quantity at 2^63 and overflows in thousandths of it; Windrow says the exact value, or that it is unknown",
        },
        Listed {
            name: LARGE,
            example: "0.12345678901234567890123456789012345678901",
            _why: "with forty digits, or such an exponent, a quantity is unknown to Windrow",
        },
        Listed {
            name: NEGATIVE,
            example: "-1u",
            _why: "apimachinery rounds it to the wrong side, or overflows; there is no such request or capacity",
        },
    ];
    // Exponents have two digits: at nine of them Go takes minutes for one quantity.
    let parts = [
        "0",
        "1",
        "9",
        "00",
        "12",
        "123456789",
        ".",
        ".",
        "-",
        "+",
        " ",
        "n",
        "u",
        "m",
        "k",
        "K",
        "M",
        "G",
        "T",
        "P",
        "E",
        "Ki",
        "Mi",
        "Gi",
        "Ti",
        "Pi",
        "Ei",
        "e",
        "e3",
        "E-2",
        "e20",
        "e+1",
        "e-19",
        "i",
        "_",
        "é",
    ];
    let draw = |draw: &mut Draw| loop {
        let text = draw.text(&parts, 5);
        let digits = text.rsplit(['e', 'E']).next().unwrap_or_default();
        if digits.len() < 4 || digits.len() == text.len() {
            break text;
        }
    };
    compare(&listed, str::to_owned, draw, |text, go| quantity(text, go));
}

#[test]
fn label_selectors_match_as_apimachinery_matches_them() {
    let (keys, values) = (
        ["app", "tier", "a.b/c"],
        ["web", "db", "1", "2", "-1", "1e3", ""],
    );
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in"];
    let draw = |draw: &mut Draw| {
        let mut labels = Labels::new();
        for _ in 0..draw.below(3) {
            labels.insert(
                (*draw.one(&keys)).to_owned(),
                (*draw.one(&values)).to_owned(),
            );
        }
        let mut selector = json!({});
        for _ in 0..draw.below(2) {
            selector["matchLabels"][*draw.one(&keys)] = json!(draw.one(&values));
        }
        let mut expressions = Vec::new();
        for _ in 0..draw.below(3) {
            let count = draw.below(3);
            let some: Vec<&str> = (0..count).map(|_| *draw.one(&values)).collect();
            let mut expression = json!({"key": draw.one(&keys), "operator": draw.one(&operators)});
            if !some.is_empty() {
                expression["values"] = json!(some);
            }
            expressions.push(expression);
        }
        if !expressions.is_empty() {
            selector["matchExpressions"] = json!(expressions);
        }
        (selector, labels)
    };
    let ask = |(selector, labels): &(Value, Labels), go: &mut SecondOpinion| {
        let asked = json!({"selector": selector, "labels": labels});
        // What Go refuses, no API server has.
        let Ok(theirs) = go.of('l', asked.to_string().as_bytes()) else {
            return Opinions::Same;
        };
        let ours = LabelSelector::parse(Some(selector))
            .map(|read| read.is_some_and(|read| read.matches(labels)));
        match ours == Ok(theirs == json!(true)) {
            true => Opinions::Same,
            false => Opinions::Differ(format!("{asked}: ours {ours:?}, Go's {theirs}")),
        }
    };
    let example = |_: &str| (json!({}), Labels::new());
    compare(&[], example, draw, ask);
}

fn number(ordering: Ordering) -> i64 {
    ordering as i64
}

/// Two texts with a space between them.
fn pair(text: &str) -> (String, String) {
    let (one, other) = text.split_once(' ').unwrap();
    (one.to_owned(), other.to_owned())
}

#[test]
fn versions_are_ordered_as_apimachinery_orders_them() {
    let parts = [
        "1", "33", "0", "65536", ".", ".", ".", "v", "-rc1", "+rke2r1", "-alpha.1", "x", "-", "+",
    ];
    let draw = |draw: &mut Draw| {
        let mut text = || -> String {
            let version = format!("v1.{}.{}", draw.below(40), draw.below(12));
            match draw.below(3) {
                0 => draw.text(&parts, 6),
                1 => version + draw.one::<&str>(&["", "+rke2r1", "-rc1+rke2r2"]),
                _ => version,
            }
        };
        (text(), text())
    };
    let ask = |(one, other): &(String, String), go: &mut SecondOpinion| {
        let read = |text: &str| {
            let read = text.parse::<Version>().ok();
            read.filter(|read| read.patch.is_some())
        };
        let (Some(first), Some(second)) = (read(one), read(other)) else {
            return Opinions::Same;
        };
        let ours = number(first.cmp(&second));
        match go.of('v', format!("{one} {other}").as_bytes()) {
            Ok(theirs) if theirs == json!(ours) => Opinions::Same,
            theirs => Opinions::Differ(format!("{one} {other}: ours {ours}, Go's {theirs:?}")),
        }
    };
    compare(&[], pair, draw, ask);
}

#[test]
fn harvesters_versions_are_ordered_as_semver_orders_them() {
    let listed = [
        Listed {
            name: "candidates are counted",
            example: "v1.5.0-rc10 v1.5.0-rc2",
            _why: "semver compares rc10 and rc2 as texts; Harvester means numbers",
        },
        Listed {
            name: "builds are one",
            example: "v1.5.0-head v1.5.0-dev",
            _why: "of the builds before a release (head, dev, a date) Windrow knows no order, and they come before its candidates",
        },
    ];
    let stages = [
        "",
        "",
        "-rc1",
        "-rc2",
        "-rc10",
        "-dev",
        "-head",
        "-dev-20250120",
        "+build",
        "-rc1+x",
    ];
    let draw = |draw: &mut Draw| {
        let mut text = || {
            let (minor, patch) = (draw.below(3), draw.below(2));
            format!("v1.{minor}.{patch}{}", draw.one(&stages))
        };
        (text(), text())
    };
    let ask = |(one, other): &(String, String), go: &mut SecondOpinion| {
        let read = |text: &str| text.parse::<HarvesterVersion>().unwrap();
        let (first, second) = (read(one), read(other));
        let ours = number(first.cmp(&second));
        let theirs = go.of('p', format!("{one} {other}").as_bytes());
        if theirs == Ok(json!(ours)) {
            return Opinions::Same;
        }
        let stage = |text: &str| {
            let text = text.split('+').next().unwrap_or_default();
            text.split_once('-').map(|(_, stage)| stage.to_owned())
        };
        let candidate = |stage: &str| stage.strip_prefix("rc")?.parse::<u32>().ok();
        match (stage(one), stage(other)) {
            (Some(one), Some(other)) if first.release() == second.release() => {
                match (candidate(&one), candidate(&other)) {
                    (Some(_), Some(_)) => Opinions::Listed("candidates are counted"),
                    _ => Opinions::Listed("builds are one"),
                }
            }
            _ => Opinions::Differ(format!("{one} {other}: ours {ours}, Go's {theirs:?}")),
        }
    };
    compare(&listed, pair, draw, ask);
}

#[test]
fn schedules_are_read_as_kubernetes_reads_them() {
    let listed = [Listed {
        name: "@every",
        example: "@every x",
        _why: "the duration behind it is not judged: where in doubt, nothing is said",
    }];
    let parts = [
        "*", "*", "?", "0", "1", "5", "7", "12", "23", "31", "59", "60", "-", ",", "/", "/2", "/0",
        "jan", "MON", "sun", "+", "x", "",
    ];
    let words = [
        "@daily",
        "@weekly",
        "@yearly",
        "@annually",
        "@monthly",
        "@midnight",
        "@hourly",
        "@reboot",
        "@every 1h",
        "@every",
        "@every x",
        "@Daily",
    ];
    let draw = |draw: &mut Draw| match draw.below(8) {
        0 => (*draw.one(&words)).to_owned(),
        _ => {
            let fields = 4 + draw.below(3).min(1) + usize::from(draw.below(8) == 0);
            let field = |_| match draw.below(2) {
                0 => "*".to_owned(),
                _ => draw.text(&parts, 4),
            };
            let fields: Vec<String> = (0..fields).map(field).collect();
            fields.join(" ")
        }
    };
    let ask = |text: &String, go: &mut SecondOpinion| {
        let ours = windrow_model::schedule::error(text);
        let theirs = go.of('s', text.as_bytes());
        match (&ours, &theirs) {
            (None, Ok(_)) | (Some(_), Err(_)) => Opinions::Same,
            (None, Err(_)) if text.starts_with("@every ") => Opinions::Listed("@every"),
            _ => Opinions::Differ(format!("{text:?}: ours {ours:?}, Go's {theirs:?}")),
        }
    };
    compare(&listed, str::to_owned, draw, ask);
}
