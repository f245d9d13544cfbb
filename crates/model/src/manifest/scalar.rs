//! The meaning of a YAML scalar to RKE2: the rules of YAML 1.1 as Kubernetes' reader applies them, and the following
//! step through JSON.
//!
//! Only plain scalars are resolved; a quoted one is a string unless it has a tag. The table of
//! `docs/reading-manifests.md` is this file's specification.

use serde_json::Number;

use super::NodeValue;

const CORE: &str = "tag:yaml.org,2002:";

/// A scalar, resolved but not yet put through JSON: as a key an integer and a float differ.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`; JSON makes a float of it.
    Uint(u64),
    Float(f64),
    Text(String),
}

/// Resolves a scalar. `plain` is false for quoted and block scalars without a tag.
pub(super) fn resolve(text: String, tag: Option<&str>, plain: bool) -> Result<Scalar, String> {
    match tag {
        None if !plain => Ok(Scalar::Text(text)),
        None => Ok(guess(text)),
        Some(tag) => tagged(text, tag),
    }
}

/// Whether a tag is none of YAML's own: PyYAML's `SafeConstructor` (6.0) has no constructor for it and rejects the whole
/// document.
pub(super) fn is_foreign(tag: &str) -> bool {
    const OWN: [&str; 13] = [
        "null",
        "bool",
        "int",
        "float",
        "binary",
        "timestamp",
        "omap",
        "pairs",
        "set",
        "str",
        "seq",
        "map",
        "merge",
    ];
    let own = tag
        .strip_prefix(CORE)
        .is_some_and(|name| OWN.contains(&name));
    !own && !tag.is_empty() && tag != "!"
}

/// Whether this is the key under which other maps are merged into this one.
pub(super) fn is_merge(text: &str, tag: Option<&str>, plain: bool) -> bool {
    text == "<<" && (plain || tag.is_some_and(|tag| tag.strip_prefix(CORE) == Some("merge")))
}

impl Scalar {
    /// Converts it to a value. Infinity and not-a-number do not exist in JSON, so RKE2 refuses them.
    pub(super) fn into_value(self) -> Result<NodeValue, String> {
        Ok(match self {
            Scalar::Null => NodeValue::Null,
            Scalar::Bool(value) => NodeValue::Bool(value),
            Scalar::Int(value) => NodeValue::Number(value.into()),
            // JSON has it as digits; a number that does not fit an i64 is read back as a float.
            Scalar::Uint(value) => float(value as f64)?,
            Scalar::Float(value) => float(value)?,
            Scalar::Text(text) => NodeValue::String(text),
        })
    }

    /// Converts it to a key, which is always a string. Null and an integer above `i64::MAX` cannot be keys.
    pub(super) fn into_key(self) -> Result<String, String> {
        match self {
            Scalar::Null => Err(
                "a map key is null, which RKE2 refuses; write the key, or quote it as \"null\""
                    .to_owned(),
            ),
            Scalar::Bool(value) => Ok(value.to_string()),
            Scalar::Int(value) => Ok(value.to_string()),
            Scalar::Uint(_) => {
                Err("a map key is too large a number, which RKE2 refuses; quote it".to_owned())
            }
            Scalar::Float(value) => Ok(float_key(value)),
            Scalar::Text(text) => Ok(text),
        }
    }
}

impl Scalar {
    /// As RKE2 prints it into an argument.
    pub(super) fn printed(&self) -> String {
        match self {
            Scalar::Int(value) => value.to_string(),
            Scalar::Uint(value) => value.to_string(),
            Scalar::Float(value) if value.is_nan() => "NaN".to_owned(),
            Scalar::Float(value) if value.is_infinite() => {
                if *value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
            }
            Scalar::Float(value) => shortest(&value.to_string(), &format!("{value:e}")),
            Scalar::Null => String::new(),
            Scalar::Bool(value) => value.to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}

/// A float as JSON writes it and Kubernetes reads it back: whole numbers become integers. Large ones are written with
/// the fewest digits that identify them, and are therefore read back as other integers.
fn float(value: f64) -> Result<NodeValue, String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok(NodeValue::Number((value as i64).into()));
    }
    if value.fract() == 0.0
        && value.abs() < 1e21
        && let Ok(whole) = value.to_string().parse::<i64>()
    {
        return Ok(NodeValue::Number(whole.into()));
    }
    Number::from_f64(value).map(NodeValue::Number).ok_or_else(|| {
        "infinity and not-a-number have no JSON, so RKE2 refuses them; quote the value if it is text"
            .to_owned()
    })
}

/// A float as a key, with the fewest digits that single precision requires.
fn float_key(value: f64) -> String {
    let narrow = value as f32;
    if narrow.is_nan() {
        return ".nan".to_owned();
    }
    if narrow.is_infinite() {
        return if narrow > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    shortest(&narrow.to_string(), &format!("{narrow:e}"))
}

/// The form of a number that Go's `%g` chooses: with an exponent below 1e-4 and from 1e6 on.
fn shortest(decimal: &str, scientific: &str) -> String {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return decimal.to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Whether the tag declares the text as base64.
pub(super) fn is_binary(tag: Option<&str>) -> bool {
    tag.and_then(|tag| tag.strip_prefix(CORE)) == Some("binary")
}

fn tagged(text: String, tag: &str) -> Result<Scalar, String> {
    let Some(name) = tag.strip_prefix(CORE) else {
        // An unknown tag has no effect: the text stays a string, even if it is plain.
        return Ok(Scalar::Text(text));
    };
    match name {
        "str" => Ok(Scalar::Text(text)),
        "binary" => match super::encoding::decode_base64(text.as_bytes()) {
            Ok(bytes) => Ok(Scalar::Text(super::encoding::lossy(&bytes))),
            Err(why) => Err(format!("!!binary is not valid base64: {why}")),
        },
        "timestamp" if is_timestamp(&text) => Ok(Scalar::Text(text)),
        "null" | "bool" | "int" | "float" | "timestamp" => match (name, guess(text.clone())) {
            ("null", Scalar::Null) => Ok(Scalar::Null),
            ("bool", value @ Scalar::Bool(_))
            | ("int", value @ (Scalar::Int(_) | Scalar::Uint(_)))
            | ("float", value @ Scalar::Float(_)) => Ok(value),
            ("float", Scalar::Int(value)) => Ok(Scalar::Float(value as f64)),
            _ => Err(format!(
                "the value cannot be read as !!{name}; correct the value or remove the tag"
            )),
        },
        _ => Ok(Scalar::Text(text)),
    }
}

/// Resolves a plain scalar without a tag. The first byte distinguishes most texts from everything else.
fn guess(text: String) -> Scalar {
    let Some(&first) = text.as_bytes().first() else {
        return Scalar::Null;
    };
    let number = match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            return word(&text).unwrap_or(Scalar::Text(text));
        }
        b'.' => dotted(&text),
        b'0'..=b'9' => number(&text),
        b'+' | b'-' => signed_infinity(&text).or_else(|| number(&text)),
        _ => None,
    };
    number.unwrap_or(Scalar::Text(text))
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => return None,
    })
}

/// Whether it is a word for yes or no only in YAML 1.1.
pub(super) fn is_word_of_yaml_1_1(text: &str) -> bool {
    matches!(word(text), Some(Scalar::Bool(_)))
        && !["true", "false"].contains(&&*text.to_lowercase())
}

fn signed_infinity(text: &str) -> Option<Scalar> {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => Some(Scalar::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Some(Scalar::Float(f64::NEG_INFINITY)),
        _ => None,
    }
}

fn dotted(text: &str) -> Option<Scalar> {
    match text {
        ".nan" | ".NaN" | ".NAN" => return Some(Scalar::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" => return Some(Scalar::Float(f64::INFINITY)),
        _ => {}
    }
    // Here, unlike after a digit, underscores count only between digits.
    let bytes = text.as_bytes();
    let between = |at: usize| {
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        digit(at.wrapping_sub(1)) && digit(at + 1)
    };
    let underscores = text.match_indices('_').map(|(at, _)| at);
    if !underscores.clone().all(between) {
        return None;
    }
    match underscores.count() {
        0 => decimal(text),
        _ => decimal(&text.replace('_', "")),
    }
}

fn number(text: &str) -> Option<Scalar> {
    let without;
    let text = if text.contains('_') {
        without = text.replace('_', "");
        &without
    } else {
        text
    };
    integer(text)
        .or_else(|| decimal(text))
        .or_else(|| odd_binary(text))
}

/// An integer with a sign and a prefix: `0x`, `0o`, `0b`, or `0` for octal.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, signed, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    match i64::try_from(magnitude) {
        Ok(value) => Some(Scalar::Int(value)),
        Err(_) if signed => None,
        Err(_) => Some(Scalar::Uint(magnitude)),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, if it is finite.
fn decimal(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent)
        });
    if !shaped {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

/// RKE2's reader reads `0b-101` as minus five.
fn odd_binary(text: &str) -> Option<Scalar> {
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok().map(Scalar::Int)
}

/// Whether the text has the shape of a YAML timestamp. Used only for an explicit tag.
fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = text
        .split_once(['T', 't', ' '])
        .map(|(date, time)| (date, Some(time)))
        .or(Some((text, None)))
    else {
        return false;
    };
    let parts: Vec<&str> = date.split('-').collect();
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() <= 4);
    let short = |text: &str| number(text).filter(|_| text.len() <= 2);
    let [year, month, day] = parts[..] else {
        return false;
    };
    let date_fits = year.len() == 4
        && number(year).is_some()
        && short(month).is_some_and(|month| (1..=12).contains(&month))
        && short(day).is_some_and(|day| (1..=31).contains(&day));
    let time_fits = time.is_none_or(|time| {
        time.split(':').count() >= 3
            && time
                .bytes()
                .all(|b| b.is_ascii_digit() || b":.+-Zz".contains(&b))
    });
    date_fits && time_fits
}
