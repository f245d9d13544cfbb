//! Addresses of networks.

use std::net::IpAddr;

/// Whether `address` is in the network of `own`, whose prefix has `prefix` bits.
pub fn is_in_network(address: IpAddr, own: IpAddr, prefix: u8) -> bool {
    let (differ, length) = match (address, own) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits() ^ other.to_bits()), 32_u32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits(), 128),
        _ => return false,
    };
    let host_bits = length.saturating_sub(prefix.into());
    differ.checked_shr(host_bits).unwrap_or_default() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_network_by_its_first_bits() {
        let is_in = |address: &str, own: &str, prefix| {
            is_in_network(address.parse().unwrap(), own.parse().unwrap(), prefix)
        };
        assert!(is_in("10.43.255.1", "10.43.0.0", 16));
        assert!(!is_in("10.44.0.1", "10.43.0.0", 16));
        assert!(is_in("10.43.0.7", "10.43.0.0", 29) && !is_in("10.43.0.8", "10.43.0.0", 29));
        assert!(is_in("fd00::1", "fd00::", 64) && !is_in("fd01::1", "fd00::", 64));
        assert!(is_in("192.0.2.1", "10.43.0.0", 0) && is_in("fd00::1", "::", 0));
        assert!(is_in("10.43.0.1", "10.43.0.1", 32) && !is_in("10.43.0.1", "fd00::", 0));
    }
}
