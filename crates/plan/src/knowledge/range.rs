//! Version ranges such as `>=1.34` and `>=1.5 <1.8`.

use std::fmt;

/// Release numbers, the most significant first. Suffixes (`-rc1`, `+rke2r1`) are ignored.
pub(super) type Numbers = [u32; 3];

/// Versions from a lower bound on, and below an upper bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VersionRange {
    from: Option<Numbers>,
    before: Option<Numbers>,
}

impl VersionRange {
    /// Parses a range. Absent bounds are open.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut range = Self::default();
        for part in text.split_whitespace() {
            let (bound, version) = match (part.strip_prefix(">="), part.strip_prefix('<')) {
                (Some(version), _) => (&mut range.from, version),
                (None, Some(version)) => (&mut range.before, version),
                (None, None) => {
                    return Err(format!("`{part}` is neither `>=VERSION` nor `<VERSION`"));
                }
            };
            let numbers = numbers(version);
            if bound.is_some() || numbers.is_none() {
                return Err(format!(
                    "`{part}` is not a bound, or the second one of its sort"
                ));
            }
            *bound = numbers;
        }
        Ok(range)
    }

    /// Whether it contains a version. An unknown version counts as the newest.
    pub(super) fn includes(&self, version: Option<Numbers>) -> bool {
        let Some(version) = version else {
            return self.before.is_none();
        };
        self.from.is_none_or(|from| version >= from)
            && self.before.is_none_or(|before| version < before)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, before] = [(">=", self.from), ("<", self.before)];
        for (sign, bound) in [from, before] {
            if let Some([major, minor, patch]) = bound {
                write!(f, "{sign}{major}.{minor}.{patch} ")?;
            }
        }
        Ok(())
    }
}

/// The release numbers of a version. `None` for a version range such as `1.x` or `^1.2`.
pub(super) fn numbers(text: &str) -> Option<Numbers> {
    let text = text.trim().trim_start_matches('v');
    let release = text.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = Numbers::default();
    let mut parts = release.split('.');
    for number in &mut numbers {
        match parts.next() {
            Some(part) => *number = part.parse().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_includes_what_is_between_its_bounds_and_an_unknown_version_is_the_newest() {
        let range = VersionRange::parse(">=1.5 <1.8").unwrap();
        let includes = |text: &str| range.includes(numbers(text));
        assert!(includes("v1.5.0") && includes("1.7.3-rc1") && includes("1.7"));
        assert!(!includes("1.4.9") && !includes("v1.8.0+rke2r1"));
        assert!(!range.includes(None));
        assert!(VersionRange::parse(">=1.34").unwrap().includes(None));
        assert!(
            !VersionRange::parse(">=1.34")
                .unwrap()
                .includes(numbers("1.9"))
        );
        assert_eq!(numbers("^1.2"), None);
        assert_eq!(numbers("v3.32.1-build2026081900"), Some([3, 32, 1]));
        for wrong in ["1.2", ">=x", ">=1 >=2"] {
            assert!(VersionRange::parse(wrong).is_err(), "{wrong}");
        }
    }
}
