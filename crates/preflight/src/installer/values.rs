//! Single values that the installer accepts.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use windrow_model::grammars::is_subdomain;

/// The range that the installer accepts (harvester-installer pkg/console/validator.go checkMTU).
pub const MTU: RangeInclusive<u32> = 576..=9000;

/// The VLANs that the installer accepts; 0 means no VLAN (checkNetworks there).
pub(super) const VLANS: RangeInclusive<i64> = 0..=4094;

/// Is it an IPv4 address, according to Go's `net.ParseIP` and `To4`?
pub(super) fn is_ipv4(text: &str) -> bool {
    let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok_and(mapped)
}

/// Is it a hardware address, according to Go's `net.ParseMAC`: 6, 8 or 20 bytes with `:` or `-`, or in fours with `.`?
pub(super) fn is_hardware_address(text: &str) -> bool {
    let Some(separator) = text.chars().find(|ch| !ch.is_ascii_hexdigit()) else {
        return false;
    };
    let (digits, lengths) = match separator {
        ':' | '-' => (2, [6, 8, 20]),
        '.' => (4, [3, 4, 10]),
        _ => return false,
    };
    let is_part =
        |part: &str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    lengths.contains(&text.split(separator).count()) && text.split(separator).all(is_part)
}

/// Does a token have only characters that the installer accepts: printable ASCII (checkToken)?
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Why the installer rejects this server URL (pkg/console/util.go getFormattedServerURL). The handling of a user or an escape in
/// the URL is not modelled.
pub(super) fn server_url_error(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let rest = text.strip_prefix("https://").unwrap_or(text);
    if rest.contains(['@', '%', '?', '#']) {
        return None;
    }
    if rest.contains('/') {
        return Some("it must have no path, and only `https://`; write https://ADDRESS:443");
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => (rest, ""),
    };
    if !is_ipv4(host) && !is_subdomain(host) {
        return Some(
            "it takes an IPv4 address or a DNS name in lower case; write https://ADDRESS:443",
        );
    }
    (!port.is_empty() && port != "443").then_some("the only valid port is 443")
}

/// Why the installer rejects this path (checkPersistentStatePath).
pub(super) fn state_path_error(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("it must be an absolute path");
    }
    (path == "/tmp" || path.starts_with("/tmp/"))
        .then_some("nothing in /tmp persists; name another directory")
}

/// Is it the JSON of a registry's configuration, as far as that is certain: an object, with any text after it?
pub(super) fn may_be_registry(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    matches!(values.next(), Some(Ok(value)) if value.is_object() || value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_takes_what_the_installer_takes_and_refuses_its_neighbour() {
        let long = "a".repeat(64);
        for (takes, refused, rule) in [
            ("node-1.site", "Node_1", is_subdomain as fn(&str) -> bool),
            (&long, "a..b", is_subdomain),
            ("localhost", "", is_subdomain),
            ("10.0.0.1", "10.0.0.01", is_ipv4),
            ("::ffff:10.0.0.1", "fd00::1", is_ipv4),
            ("10.0.0.1", "10.0.0.1/24", is_ipv4),
            ("52:54:00:ec:0e:0b", "52:54:00:ec:0e", is_hardware_address),
            ("5254.00ec.0e0b", "525400ec0e0b", is_hardware_address),
            (
                "52-54-00-EC-0E-0B",
                "52:54:00-ec:0e:0b",
                is_hardware_address,
            ),
            (
                "52:54:00:ec:0e:0b:00:01",
                "52:54:00:ec:0e:0g",
                is_hardware_address,
            ),
            ("a b!\\", "t\u{f6}k", is_token),
            ("~", "two\nlines", is_token),
            ("{\"Mirrors\": {}} x", "{bad", may_be_registry),
            ("null", "[]", may_be_registry),
        ] {
            assert!(rule(takes), "{takes}");
            assert!(!rule(refused), "{refused}");
        }
        for (takes, refused, rule) in [
            (
                "https://10.0.0.1:443",
                "https://10.0.0.1:6443",
                server_url_error as fn(&str) -> Option<&'static str>,
            ),
            ("vip.example", "https://vip.example/", server_url_error),
            ("https://u@Vip", "https://Vip", server_url_error),
            ("https://10.0.0.1", "http://10.0.0.1", server_url_error),
            ("/var/x", "x", state_path_error),
            ("/tmpfiles", "/tmp/x", state_path_error),
        ] {
            assert_eq!(rule(takes), None, "{takes}");
            assert!(rule(refused).is_some(), "{refused}");
        }
    }
}
