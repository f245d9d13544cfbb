//! Formats of single values, as in k8s.io/apimachinery (`pkg/util/validation`, `pkg/api/resource`).

use std::net::{Ipv4Addr, Ipv6Addr};

use windrow_model::grammars::is_label_of_any_length;
pub(crate) use windrow_model::grammars::{
    is_dns_label, is_subdomain, label_key_error, label_value_error,
};

/// A time of RFC 3339, as Go parses it.
pub(crate) fn is_time(text: &str) -> bool {
    // Go accepts no letters except `T` and `Z` and no space, and requires two digits everywhere.
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[10] == b'T' && text.parse::<jiff::Timestamp>().is_ok()
}

/// A label of RFC 1035, which begins with a letter.
pub(crate) fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|ch: char| ch.is_ascii_lowercase())
}

/// The name of a port: at most 15 characters, at least one letter, no two adjacent hyphens.
pub(crate) fn is_port_name(text: &str) -> bool {
    text.len() <= 15
        && is_label_of_any_length(text)
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains("--")
}

pub(crate) fn is_config_key(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(fits)
        && text != "."
        && !text.starts_with("..")
}

/// For example `25%`.
pub(crate) fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// An address in the syntax of early Go versions, which allows leading zeros.
pub(crate) fn is_address(text: &str) -> bool {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().is_ok();
    }
    let plain: Vec<&str> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            digits => digits,
        })
        .collect();
    plain.join(".").parse::<Ipv4Addr>().is_ok()
}

/// An address with a prefix length.
pub(crate) fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = if address.contains(':') { 128 } else { 32 };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    is_address(address) && is_number && length.parse::<u32>().is_ok_and(|length| length <= most)
}

/// A name of an environment variable that every minor accepts. Since 1.30 nearly all printable characters are valid.
pub(crate) fn is_variable_name(text: &str) -> bool {
    text.bytes()
        .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        for text in ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"] {
            assert!(is_time(text), "{text}");
        }
        for text in [
            "",
            "2026-01-31",
            "2026-01-31 12:00:00Z",
            "tomorrow",
            "2026-13-31T12:00:00Z",
        ] {
            assert!(!is_time(text), "{text}");
        }
    }

    #[test]
    fn names_are_judged_by_apimachinery_s_grammars() {
        assert!(is_port_name("http-2") && !is_port_name("8080") && !is_port_name("a--b"));
        assert!(is_config_key("a.b_c-1") && !is_config_key("a b") && !is_config_key("../a"));
        assert!(is_variable_name("A.b-c") && !is_variable_name("a=b"));
    }
}
