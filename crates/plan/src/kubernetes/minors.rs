//! Sets of Kubernetes minors.

/// The oldest and the newest known minor.
const FIRST: u16 = 31;
const LAST: u16 = 36;

/// A set of the known Kubernetes minors, 1.31 to 1.36.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minors(u8);

impl Minors {
    pub const ALL: Self = Self((1 << (LAST - FIRST + 1)) - 1);

    pub const NONE: Self = Self(0);

    /// The known minor that is nearest to 1.`minor`; the newest one if `minor` is unknown.
    pub fn nearest(minor: Option<u16>) -> Self {
        let minor = minor.unwrap_or(LAST).clamp(FIRST, LAST);
        Self(1 << (minor - FIRST))
    }

    /// The minor 1.`minor`, or all known minors if it is not among them. Facts that they share have not changed for years.
    pub fn of_version(minor: u16) -> Self {
        Self::range(minor, minor).unwrap_or(Self::ALL)
    }

    fn range(first: u16, last: u16) -> Option<Self> {
        if first < FIRST || last > LAST {
            return None;
        }
        Some(Self(
            (first..=last)
                .map(|minor| 1 << (minor - FIRST))
                .fold(0, |all: u8, bit: u8| all | bit),
        ))
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this set contains all minors of the other one.
    pub fn covers(self, other: Self) -> bool {
        self.and(other) == other
    }

    pub fn first(self) -> u16 {
        FIRST + self.0.trailing_zeros() as u16
    }

    pub fn last(self) -> u16 {
        FIRST + 7 - self.0.leading_zeros() as u16
    }

    /// The minors at the end of a line of the data; all of them if the line does not name any.
    pub fn read(text: Option<&str>) -> Option<Self> {
        text.map_or(Some(Self::ALL), Self::parse)
    }

    /// Parses the notation of the data, for example `31-33,35-36`.
    fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self(0), |all, run| {
            let (first, last) = run.split_once('-')?;
            Some(all.or(Self::range(first.parse().ok()?, last.parse().ok()?)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_are_read_as_the_data_writes_them() {
        let minors = Minors::parse("31-33,35-36").unwrap();
        assert_eq!((minors.first(), minors.last()), (31, 36));
        assert!(!minors.covers(Minors::of_version(34)));
        assert!(minors.covers(Minors::of_version(35)));
        assert_eq!(Minors::parse("30-31"), None);
    }

    #[test]
    fn the_nearest_minor_is_a_known_one() {
        let nearest = |minor| Minors::nearest(minor).first();
        assert_eq!(nearest(Some(29)), 31);
        assert_eq!(nearest(Some(34)), 34);
        assert_eq!(nearest(Some(40)), 36);
        assert_eq!(nearest(None), 36);
    }

    #[test]
    fn of_a_minor_that_is_not_known_only_what_all_agree_on_is_said() {
        assert_eq!(Minors::of_version(29), Minors::ALL);
        assert_eq!(Minors::of_version(40), Minors::ALL);
    }
}
