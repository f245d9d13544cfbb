//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`), in thousandths: enough for processors, and no less
//! for bytes. The grammar is that of apimachinery's `resource.Quantity`.

/// A quantity in thousandths of its unit, rounded up; `None` when it cannot be read.
pub fn milli(text: &str) -> Option<i128> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, suffix) = text.split_at(unit.unwrap_or(text.len()));
    // A thousandth of the unit, as a fraction: what the digits are to be multiplied with.
    let (times, over): (i128, i128) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1_000),
        "m" => (1, 1),
        "" => (1_000, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000_000, 1),
        "Ki" => (1_000 << 10, 1),
        "Mi" => (1_000 << 20, 1),
        "Gi" => (1_000 << 30, 1),
        "Ti" => (1_000 << 40, 1),
        "Pi" => (1_000 << 50, 1),
        "Ei" => (1_000 << 60, 1),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            match exponent {
                0.. => (power.checked_mul(1_000)?, 1),
                _ => (1_000, power),
            }
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let whole = whole.strip_prefix(['+', '-']).unwrap_or(whole);
    let mut digits = whole.bytes().chain(fraction.bytes()).peekable();
    if digits.peek().is_none() || !digits.all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = 10_i128.checked_pow(fraction.len().try_into().ok()?)?;
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let value = digits.checked_mul(times)?;
    let divisor = scale.checked_mul(over)?;
    let rounded = value.checked_add(divisor - 1)?.div_euclid(divisor);
    Some(if negative { -rounded } else { rounded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1_000)),
            ("100m", Some(100)),
            ("1.5", Some(1_500)),
            (".5", Some(500)),
            (".0", Some(0)),
            ("1Ki", Some(1_024_000)),
            ("1.5Gi", Some(3 * (1 << 29) * 1_000)),
            ("2G", Some(2_000_000_000_000)),
            ("1e3", Some(1_000_000)),
            ("12E-1", Some(1_200)),
            ("1e20", Some(100_000_000_000_000_000_000_000)),
            ("10000000000000000000e-19", Some(1_000)),
            ("1e-99", None),
            ("5E", Some(5_000_000_000_000_000_000_000)),
            ("1n", Some(1)),
            (".112345678912Mi", Some(117_802_983)),
            ("0.5000000000000000000000000000000000000000", Some(500)),
            ("1500u", Some(2)),
            ("-1", Some(-1_000)),
            ("", None),
            ("Gi", None),
            ("-", None),
            (" 1", None),
            ("+-1", None),
            ("1 Gi", None),
            ("1x", None),
            ("1.2.3", None),
            ("99999999999999999999999999999999999999", None),
        ] {
            assert_eq!(milli(text), expected, "{text}");
        }
    }
}
