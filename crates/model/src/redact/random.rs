//! Distinguishes a name that a person chose from a text that a machine generated.

/// For uncertain secrets: whether a person would not choose it as a name.
pub(super) fn looks_random(secret: &str) -> bool {
    let has = |test: fn(&u8) -> bool| secret.as_bytes().iter().any(test);
    let kinds = [
        has(u8::is_ascii_digit),
        has(u8::is_ascii_lowercase),
        has(u8::is_ascii_uppercase),
        has(|byte| byte.is_ascii_punctuation() && !matches!(byte, b'-' | b'.' | b'/' | b':')),
    ];
    secret.len() >= 12
        && !secret.contains(char::is_whitespace)
        && kinds.into_iter().filter(|kind| *kind).count() >= 3
}

/// Under a key that may have a secret: whether it is more than a name. It is longer than a word, and random or a row of
/// hexadecimal digits.
pub(super) fn is_no_name(secret: &str) -> bool {
    let hexadecimal = secret.len() >= 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal || looks_random(secret)
}
