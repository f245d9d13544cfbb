//! Ranges of observed versions: from the lowest one, and up to the successor of the highest one.

use std::fmt;

use windrow_plan::knowledge::upstream_version;

/// Release numbers.
pub(super) type Numbers = [u32; 3];

/// Versions from one on, and before another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionSpan {
    /// Inclusive.
    pub from: Option<Numbers>,
    /// Exclusive.
    pub before: Option<Numbers>,
}

impl VersionSpan {
    /// Only this version; all versions if it is unknown.
    pub(crate) fn only(version: Option<Numbers>) -> Self {
        Self {
            from: version,
            before: version.map(next),
        }
    }

    /// From the lowest version to the highest one.
    pub(crate) fn over(from: Numbers, to: Numbers) -> Self {
        Self {
            from: Some(from),
            before: Some(next(to)),
        }
    }

    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// The first version after this one.
fn next([major, minor, patch]: Numbers) -> Numbers {
    match (minor.checked_add(1), patch.checked_add(1)) {
        (_, Some(patch)) => [major, minor, patch],
        (Some(minor), None) => [major, minor, 0],
        (None, None) => [major.saturating_add(1), 0, 0],
    }
}

/// The numbers of a version, as knowledge compares them.
pub(crate) fn numbers(text: Option<&str>) -> Option<Numbers> {
    upstream_version(text?)
}

impl fmt::Display for VersionSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (sign, bound) in [(">=", self.from), ("<", self.before)] {
            if let Some([major, minor, patch]) = bound {
                write!(f, "{space}{sign}{major}.{minor}.{patch}")?;
                space = " ";
            }
        }
        Ok(())
    }
}
