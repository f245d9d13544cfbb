//! The grammars of texts in settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windrow_model::grammars::is_dns_label;

use super::storage_network::parse as network;

/// validateNTPServer: an address, or `^([-a-zA-Z0-9_]+[.]?)+$`. An empty one is skipped.
pub(super) fn is_time_server(text: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !part.is_empty() && part.bytes().all(fits)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    text.is_empty() || text.parse::<IpAddr>().is_ok() || name.split('.').all(is_part)
}

/// `ValidateCIDRs` (pkg/controller/master/setting/vip_pools_config.go): networks, or ranges of IPv4 addresses.
pub(super) fn is_address_pool(text: &str) -> bool {
    let has_both = text.contains('-') && text.contains('/');
    let is_item = |item: &str| match item.split_once('-') {
        None => network(item).is_some(),
        Some((from, to)) => is_ipv4(from) && is_ipv4(to),
    };
    !has_both && text.split(',').all(is_item)
}

/// Go's `net.ParseIP` and `To4`.
fn is_ipv4(text: &str) -> bool {
    let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok_and(mapped)
}

/// `NewAdditionalGuestMemoryOverheadRatioConfig`.
pub(super) fn is_ratio(text: &str) -> bool {
    is_number_that(text, |ratio| ratio == 0.0 || (1.0..=10.0).contains(&ratio))
}

/// A number of Go's ParseFloat. A hexadecimal one is not judged, and Go's comparisons never refuse NaN.
pub(super) fn is_number_that(text: &str, fits: impl Fn(f64) -> bool) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let fits = |number: f64| number.is_nan() || fits(number);
    digits.starts_with("0x") || digits.starts_with("0X") || text.parse().is_ok_and(fits)
}

/// Go's ParseUint, which takes leading zeros but no sign.
pub(super) fn is_small(text: &str) -> bool {
    !text.starts_with('+')
        && text
            .parse()
            .is_ok_and(|number: u32| (1..=20).contains(&number))
}

/// Go's Atoi. Without it, the default counts.
pub(super) fn is_minutes(text: &str) -> bool {
    text.is_empty()
        || text
            .parse()
            .is_ok_and(|number: i64| (1..=20).contains(&number))
}

pub(super) fn is_name(text: &str) -> bool {
    is_dns_label(text)
}
