//! Durations in the usual notation of configurations: `90s`, `15m`, `1h30m`.

use std::time::Duration;

use windrow_model::redact::quoted;

/// Reads a duration: whole numbers, each with a unit (`ms`, `s`, `m` or `min`, `h`, `d`), added up.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{} is not a duration: write a number and a unit (s, m, h, d), like 90s, 15m or 1h30m",
            quoted(text)
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|character: char| !character.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let milliseconds: u64 = match &rest[..letters] {
            "ms" => 1,
            "s" | "sec" => 1000,
            "m" | "min" => 60 * 1000,
            "h" | "hr" => 60 * 60 * 1000,
            "d" => 24 * 60 * 60 * 1000,
            _ => return Err(wrong()),
        };
        rest = rest[letters..].trim_start();
        total = number
            .checked_mul(milliseconds)
            .and_then(|more| total.checked_add(Duration::from_millis(more)))
            .ok_or_else(|| format!("{} is too long a time", quoted(text)))?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units_added_up() {
        for (text, seconds) in [
            ("90s", 90),
            ("15m", 900),
            ("15min", 900),
            ("2h", 7200),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("1d", 86_400),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in [
            "",
            "15",
            "m",
            "-5m",
            "1.5h",
            "5 m",
            "1y",
            "5m3",
            "99999999999999999999s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(
            parse_duration("18446744073709551615d")
                .unwrap_err()
                .contains("too long")
        );
    }
}
