//! A span of time in words.

use std::time::Duration;

/// In at most two units, rounded down: `40 s`, `3 h`, `2 d 4 h`.
pub fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, 0, _) => format!("{days} d"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A duration in the form of Windrow's files: `1m20s`, `4s500ms`.
pub fn duration_text(duration: Duration) -> String {
    let (seconds, ms) = (duration.as_secs(), duration.subsec_millis());
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (u64::from(ms), "ms"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let text: String = parts
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    match text.is_empty() {
        true => "0s".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min"),
            (3_540, "59 min"),
            (3_600, "1 h"),
            (10_800, "3 h"),
            (11_000, "3 h 3 min"),
            (86_400, "1 d"),
            (90_000, "1 d 1 h"),
            (190_000, "2 d 4 h"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }
}
