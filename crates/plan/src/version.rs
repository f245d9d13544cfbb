//! Kubernetes versions as far as feature gates depend on them, and conditions on them.

use std::fmt;
use std::str::FromStr;

/// A Kubernetes minor release, such as 1.35.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor {
    pub major: u16,
    pub minor: u16,
}

impl Minor {
    /// 1.`minor`
    pub const fn v1(minor: u16) -> Self {
        Self { major: 1, minor }
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self {
            minor: self.minor.saturating_add(1),
            ..self
        }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A Kubernetes release: a minor and, if it is known, the patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub minor: Minor,
    /// The patch; `None` when it is unknown.
    pub patch: Option<u16>,
}

impl Version {
    /// Whether this RKE2 rewrites HelmChart files when it starts. By default up to 1.35 (rke2#9979).
    pub fn rewrites_charts(self) -> bool {
        self.minor.minor <= 35
    }
}

impl From<Minor> for Version {
    fn from(minor: Minor) -> Self {
        Self { minor, patch: None }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.minor.fmt(f)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch}"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a Kubernetes version; write it like v1.35, 1.35.6 or v1.35.6+rke2r1")]
pub struct NotAVersion {
    text: String,
}

impl FromStr for Version {
    type Err = NotAVersion;

    /// Reads `v1.35`, `1.35.6`, `v1.35.6+rke2r1`, `v1.35.6-rke2r1` (as in the tags of images) and release candidates.
    /// The text after the patch is RKE2's own and is left out.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let refuse = || NotAVersion {
            text: text.to_owned(),
        };
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true if part == "0" || !part.starts_with('0') => {
                part.parse::<u16>().map_err(|_| refuse())
            }
            _ => Err(refuse()),
        };
        let release = text.trim();
        let release = release.strip_prefix('v').unwrap_or(release);
        let release = release
            .split_once(['+', '-'])
            .map_or(release, |(release, _)| release);
        let mut parts = release.split('.');
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
            return Err(refuse());
        };
        let minor = Minor {
            major: number(major)?,
            minor: number(minor)?,
        };
        let patch = parts.next().map(number).transpose()?;
        match parts.next() {
            None => Ok(Self { minor, patch }),
            Some(_) => Err(refuse()),
        }
    }
}

impl FromStr for Minor {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        match text.parse()? {
            Version { minor, patch: None } => Ok(minor),
            _ => Err(NotAVersion {
                text: text.to_owned(),
            }),
        }
    }
}

/// `when:` of a request: the minors for which it is meant. Every term must be true.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct When {
    terms: Vec<(Comparison, Minor)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("==", Comparison::Equal),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
    ("=", Comparison::Equal),
];

impl When {
    /// Whether it is meant for this minor.
    pub fn admits(&self, minor: Minor) -> bool {
        self.terms
            .iter()
            .all(|(comparison, bound)| match comparison {
                Comparison::Less => minor < *bound,
                Comparison::AtMost => minor <= *bound,
                Comparison::Equal => minor == *bound,
                Comparison::AtLeast => minor >= *bound,
                Comparison::Greater => minor > *bound,
            })
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (comparison, minor)) in self.terms.iter().enumerate() {
            let sign = COMPARISONS
                .iter()
                .find(|(_, known)| known == comparison)
                .map_or("", |(sign, _)| sign);
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{sign}{minor}")?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`when: {when}` cannot be read at {term:?}; write comparisons with Kubernetes minors, separated by commas, like \">=1.32, <1.34\""
)]
pub struct NotAWhen {
    when: String,
    term: String,
}

impl FromStr for When {
    type Err = NotAWhen;

    fn from_str(text: &str) -> Result<Self, NotAWhen> {
        let term = |term: &str| {
            let term = term.trim();
            let (sign, minor) = COMPARISONS
                .iter()
                .find_map(|(sign, comparison)| Some((*comparison, term.strip_prefix(sign)?)))
                .unwrap_or((Comparison::Equal, term));
            let minor = minor.trim().parse().map_err(|_| NotAWhen {
                when: text.to_owned(),
                term: term.to_owned(),
            })?;
            Ok((sign, minor))
        };
        Ok(Self {
            terms: text.split(',').map(term).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_follow_each_other_and_charts_are_rewritten_up_to_1_35() {
        assert_eq!(Minor::v1(34).next(), Minor::v1(35));
        for (version, rewrites) in [("1.28.15", true), ("1.35.6", true), ("1.36.0", false)] {
            let version: Version = version.parse().unwrap();
            assert_eq!(version.rewrites_charts(), rewrites, "{version}");
        }
    }

    #[test]
    fn versions_are_read_as_rke2_binaries_images_and_people_write_them() {
        for (text, minor, patch) in [
            ("v1.35", 35, None),
            ("1.35.6", 35, Some(6)),
            ("v1.35.6+rke2r1", 35, Some(6)),
            ("v1.35.6-rke2r1", 35, Some(6)),
            ("v1.34.0-rc1+rke2r1", 34, Some(0)),
            (" v1.28.15+rke2r1\n", 28, Some(15)),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!((version.minor, version.patch), (Minor::v1(minor), patch));
        }
        for text in [
            "", "v", "1", "1.", "1.x", "1.35.6.7", "latest", "1.+3", "v1.99999", "1.35.x", "1.035",
        ] {
            let error = text.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains("write it like v1.35"), "{error}");
        }
    }

    #[test]
    fn when_admits_the_minors_that_meet_every_term() {
        let when: When = ">=1.32, <1.34".parse().unwrap();
        let admitted: Vec<u16> = (30..36).filter(|m| when.admits(Minor::v1(*m))).collect();
        assert_eq!(admitted, [32, 33]);
        assert_eq!(when.to_string(), ">=1.32, <1.34");
        assert!("1.33".parse::<When>().unwrap().admits(Minor::v1(33)));
        assert!("=1.33".parse::<When>().unwrap().admits(Minor::v1(33)));
        assert!(!">1.33".parse::<When>().unwrap().admits(Minor::v1(33)));
        assert!("<= v1.33".parse::<When>().unwrap().admits(Minor::v1(33)));
    }

    #[test]
    fn a_when_that_cannot_be_read_names_the_term() {
        for text in ["", ">=1.32,", "~1.32", ">=1.32.1", ">=1.32 <1.34", "1.x"] {
            let error = text.parse::<When>().unwrap_err().to_string();
            assert!(error.contains("separated by commas"), "{error}");
        }
    }
}
