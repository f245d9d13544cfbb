//! Quantities as numbers, to be compared: `500m`, `1.5Gi`, `1e3` (k8s.io/apimachinery, pkg/api/resource).

/// A quantity in billionths; `None` for what is none, and for what is too large to be compared.
pub(crate) fn billionths(text: &str) -> Option<i128> {
    let (negative, number) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = number
        .find(|ch: char| !ch.is_ascii_digit() && ch != '.')
        .unwrap_or(number.len());
    let (digits, suffix) = number.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let all: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let (base, exponent) = match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => (10, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    let scaled = match base {
        2 => all.checked_mul(1 << exponent)?,
        _ => all,
    };
    let power = if base == 2 { 0 } else { exponent };
    let tens = power
        .checked_add(9)?
        .checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let value = match u32::try_from(tens) {
        Ok(tens) => scaled.checked_mul(10_i128.checked_pow(tens)?)?,
        // Less than a billionth is rounded up there, and is of no use here.
        Err(_) => return None,
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_as_numbers() {
        for (text, value) in [
            ("1", 1_000_000_000),
            ("500m", 500_000_000),
            ("0.5", 500_000_000),
            (".5", 500_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1.5Ki", 1_536_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1k", 1_000_000_000_000),
            ("-1", -1_000_000_000),
            ("5n", 5),
        ] {
            assert_eq!(billionths(text), Some(value), "{text}");
        }
        assert!(billionths("1Gi") > billionths("1G"));
        for text in [
            "",
            "Mi",
            "1.5n",
            "ten",
            "1e999",
            "1e2147483647",
            "1e-2147483648",
        ] {
            assert_eq!(billionths(text), None, "{text}");
        }
    }
}
