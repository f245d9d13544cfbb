//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`), as apimachinery reads them (pkg/api/resource, `ParseQuantity`).

/// Whether kube-apiserver accepts this as a quantity. Digits may be absent: `Ki` is 0.
pub fn is_quantity(text: &str) -> bool {
    Quantity::parse(text).is_some()
}

/// A quantity in billionths, Kubernetes' smallest unit, rounded away from zero; `None` for an invalid quantity, or one
/// that is too large to compare.
pub fn billionths(text: &str) -> Option<i128> {
    let quantity = Quantity::parse(text)?;
    let amount = i128::try_from(quantity.billionths()?).ok()?;
    Some(if quantity.negative { -amount } else { amount })
}

/// A quantity in thousandths, rounded away from zero: precise enough for processors, and at least the value for bytes.
pub fn milli(text: &str) -> Option<i128> {
    let billionths = billionths(text)?;
    let amount = i128::try_from(billionths.unsigned_abs().div_ceil(1_000_000)).ok()?;
    Some(amount * billionths.signum())
}

struct Quantity<'t> {
    negative: bool,
    whole: &'t str,
    fraction: &'t str,
    unit: Unit,
}

enum Unit {
    /// A power of ten.
    Ten(i32),
    /// A power of two.
    Two(u32),
}

impl<'t> Quantity<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let number = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = number.split_at(digits(number));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let unit = match suffix {
            "n" => Unit::Ten(-9),
            "u" => Unit::Ten(-6),
            "m" => Unit::Ten(-3),
            "" => Unit::Ten(0),
            "k" => Unit::Ten(3),
            "M" => Unit::Ten(6),
            "G" => Unit::Ten(9),
            "T" => Unit::Ten(12),
            "P" => Unit::Ten(15),
            "E" => Unit::Ten(18),
            "Ki" => Unit::Two(10),
            "Mi" => Unit::Two(20),
            "Gi" => Unit::Two(30),
            "Ti" => Unit::Two(40),
            "Pi" => Unit::Two(50),
            "Ei" => Unit::Two(60),
            // Go reads 64 bits and keeps the lower half.
            _ => Unit::Ten(suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32),
        };
        // In its long computation apimachinery requires a digit: `Ki` is 0, and `Pi` is an error.
        let has_digit = !whole.is_empty() || !fraction.is_empty();
        let is_read = match unit {
            _ if has_digit => true,
            Unit::Ten(power) => power >= -9 && !text.is_empty(),
            Unit::Two(power) => power < 50,
        };
        is_read.then_some(Self {
            negative: text.starts_with('-'),
            whole,
            fraction,
            unit,
        })
    }

    fn billionths(&self) -> Option<u128> {
        /// Amounts in powers of two end here (`maxAllowed`).
        const MOST: u128 = i64::MAX as u128 * 1_000_000_000;
        let fraction = self.fraction.trim_end_matches('0');
        let number: u128 = format!("0{}{fraction}", self.whole).parse().ok()?;
        if number == 0 {
            return Some(0);
        }
        let (number, power, most) = match self.unit {
            Unit::Ten(power) => (number, power, u128::MAX),
            Unit::Two(power) => (number.checked_mul(1 << power)?, 0, MOST),
        };
        let places = i32::try_from(fraction.len()).ok()?;
        let power = power.checked_add(9)?.checked_sub(places)?;
        let scale = 10_u128.checked_pow(power.unsigned_abs());
        let amount = match scale {
            Some(scale) if power < 0 => number.div_ceil(scale),
            Some(scale) => number.checked_mul(scale)?,
            // Smaller values become the smallest one.
            None if power < 0 => 1,
            None => return None,
        };
        Some(amount.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of apimachinery 0.36's `ParseQuantity`.
    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, billionth, thousandth) in [
            ("0", 0, 0),
            ("1", 1_000_000_000, 1_000),
            ("100m", 100_000_000, 100),
            ("1.5", 1_500_000_000, 1_500),
            (".5", 500_000_000, 500),
            ("5.", 5_000_000_000, 5_000),
            ("+2", 2_000_000_000, 2_000),
            ("-1", -1_000_000_000, -1_000),
            ("1Ki", 1_024_000_000_000, 1_024_000),
            ("1.5Ki", 1_536_000_000_000, 1_536_000),
            ("1k", 1_000_000_000_000, 1_000_000),
            ("1e3", 1_000_000_000_000, 1_000_000),
            ("1e+0003", 1_000_000_000_000, 1_000_000),
            ("1e4294967299", 1_000_000_000_000, 1_000_000),
            ("12E-1", 1_200_000_000, 1_200),
            ("10000000000000000000e-19", 1_000_000_000, 1_000),
            ("1E", 10_i128.pow(27), 10_i128.pow(21)),
            (
                "9Ei",
                9_223_372_036_854_775_807_000_000_000,
                9_223_372_036_854_775_807_000,
            ),
            (
                "0.5000000000000000000000000000000000000000",
                500_000_000,
                500,
            ),
            // A value below the smallest unit is rounded away from zero.
            ("5n", 5, 1),
            ("1.5n", 2, 1),
            ("-1.5n", -2, -1),
            ("1500u", 1_500_000, 2),
            ("-1500u", -1_500_000, -2),
            ("1e-99", 1, 1),
            (".112345678912Mi", 117_802_982_610_830, 117_802_983),
            // Digits may be absent, and mean nothing then.
            ("Ki", 0, 0),
            (".", 0, 0),
            ("-", 0, 0),
            ("e3", 0, 0),
            ("0e99999", 0, 0),
        ] {
            assert!(is_quantity(text), "{text}");
            assert_eq!(billionths(text), Some(billionth), "{text}");
            assert_eq!(milli(text), Some(thousandth), "{text}");
        }
        assert!(billionths("1Gi") > billionths("1G"));
        for text in [
            "1e1000",
            "1e2147483647",
            "99999999999999999999999999999999999999",
        ] {
            assert!(is_quantity(text), "{text}");
            assert_eq!(billionths(text), None, "{text}");
        }
        for text in [
            "", "Pi", "-.Ei", "e-10", "--1", "+-1", "1 Gi", "1x", "1GB", "64MiB", "1e", "1e-",
            "1ee", "1u2", "1.2.3", "1,5", "ten",
        ] {
            assert!(!is_quantity(text), "{text}");
            assert_eq!((billionths(text), milli(text)), (None, None), "{text}");
        }
    }
}
