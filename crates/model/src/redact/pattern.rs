//! Shared by all parts of the first net.

use regex::Regex;

/// Is called with every removed secret, and whether it is certainly one.
pub(super) type OnSecret<'a> = &'a mut dyn FnMut(&str, bool);

#[allow(
    clippy::expect_used,
    reason = "the patterns are constants, and a test uses each"
)]
pub(super) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is right")
}
