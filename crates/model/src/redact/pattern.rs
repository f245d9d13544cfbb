//! What all parts of the first net share.

use regex::Regex;

/// Called with every secret that was taken out, and whether it is surely one.
pub(super) type OnSecret<'a> = &'a mut dyn FnMut(&str, bool);

#[allow(
    clippy::expect_used,
    reason = "the patterns are constants, and a test uses each"
)]
pub(super) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is right")
}
