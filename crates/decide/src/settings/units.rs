//! Sizes as users write them, and bounds on numbers and times.

use std::time::Duration;

use windrow_model::duration_text;
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::redact::quoted;
use windrow_plan::rules::parse_duration;

/// No wait of Windrow lasts a year; a longer time is a mistake.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(super) fn duration(node: &Node, least: Duration) -> Result<Duration, String> {
    let text = node
        .as_str()
        .ok_or_else(|| expected("a duration like 90s, 15m or 2h", node))?;
    let duration = parse_duration(text)?;
    if duration < least {
        return Err(format!(
            "{text} is too short: write {} or more",
            duration_text(least)
        ));
    }
    if duration > LONGEST {
        return Err(format!("{text} is too long: write 365d or less"));
    }
    Ok(duration)
}

/// A size in bytes: a whole number, optionally with a binary unit.
pub(super) fn size(node: &Node) -> Result<u64, String> {
    let wrong = || expected("a size like 512KiB or 16MiB", node);
    let text = match &node.value {
        NodeValue::String(text) => text.clone(),
        NodeValue::Number(number) => number.to_string(),
        _ => return Err(wrong()),
    };
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim() {
        "" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        _ => return Err(wrong()),
    };
    match number.checked_mul(unit) {
        None => Err(format!("{text} is too large a size")),
        Some(0) => Err(format!("{text} is too small: write 1 or more")),
        Some(size) => Ok(size),
    }
}

/// `true` or `false`.
pub(super) fn flag(node: &Node) -> Result<bool, String> {
    node.as_bool()
        .ok_or_else(|| expected("true or false", node))
}

/// A whole number from 1 on.
pub(super) fn count(node: &Node) -> Result<usize, String> {
    match &node.value {
        NodeValue::Number(number) => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{number} is out of range: write a whole number from 1 on")),
        _ => Err(expected("a whole number", node)),
    }
}

/// A message with the expected and the actual value.
pub(super) fn expected(what: &str, node: &Node) -> String {
    match node.as_str() {
        Some(text) => format!("expected {what}, not {}", quoted(text)),
        None => format!("expected {what}, not {}", node.type_name()),
    }
}

/// The shortest notation of a size in whole units.
pub(super) fn show_size(size: u64) -> String {
    [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| size > 0 && size.is_multiple_of(*unit))
        .map_or_else(
            || size.to_string(),
            |(unit, name)| format!("{}{name}", size / unit),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Node {
        Node {
            line: 1,
            value: NodeValue::String(text.to_owned()),
        }
    }

    #[test]
    fn sizes_have_binary_units_and_nothing_else() {
        for (written, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("512KiB", 512 << 10),
            ("16MiB", 16 << 20),
            ("16 MiB", 16 << 20),
            ("1Gi", 1 << 30),
        ] {
            assert_eq!(size(&text(written)), Ok(bytes), "{written}");
        }
        let number = windrow_model::manifest::yaml::parse_configuration("4096")
            .unwrap()
            .unwrap();
        assert_eq!(size(&number), Ok(4096), "without quotes it is a number");
        for written in ["", "MiB", "1.5MiB", "-1", "16MB", "0", "99999999999GiB"] {
            assert!(size(&text(written)).is_err(), "{written}");
        }
    }

    #[test]
    fn a_duration_has_a_least_and_a_longest() {
        let least = Duration::from_secs(1);
        assert_eq!(duration(&text("90s"), least), Ok(Duration::from_secs(90)));
        assert!(
            duration(&text("10ms"), least)
                .unwrap_err()
                .contains("1s or more")
        );
        assert!(
            duration(&text("9999d"), least)
                .unwrap_err()
                .contains("365d")
        );
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        for seconds in [1, 59, 60, 90, 3600, 5400, 86_400] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
        }
        for bytes in [1, 1023, 1024, 16 << 20, (1 << 30) + 1] {
            assert_eq!(size(&text(&show_size(bytes))), Ok(bytes));
        }
    }
}
