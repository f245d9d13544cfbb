//! IPv6: neighbour discovery (RFC 4861), as duplicate address detection uses it (RFC 4862, 5.4).
//!
//! A machine sends a solicitation without a sender's address before it takes the address, and the owner answers to all nodes. If
//! two machines probe at the same moment, both give it up (RFC 4862, 5.4.3).

use std::net::Ipv6Addr;

use windrow_harvester::network::MacAddress;

use super::Claim;

/// Every node of the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const ETHERNET: usize = 14;
const IPV6: usize = 40;
/// Type, code, checksum, flags or nothing, and the target.
const MESSAGE: usize = 24;
/// Ethernet's type of IPv6.
const IS_IPV6: [u8; 2] = [0x86, 0xdd];
const ICMPV6: u8 = 58;
/// No router lowers it: a frame that has it comes from this link (RFC 4861, 7.1).
const FROM_THIS_LINK: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// The option with the hardware address of the target.
const TARGET_LINK: u8 = 2;

/// The multicast group of an address: the nodes with an address that ends like it.
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let end = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), end)
}

pub(super) fn solicitation(from: MacAddress, address: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(address.octets());
    frame(
        from,
        Ipv6Addr::UNSPECIFIED,
        solicited_node(address),
        message,
    )
}

/// A message to a multicast group, in its frame.
fn frame(from: MacAddress, source: Ipv6Addr, group: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(source, group, &message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let [.., a, b, c, d] = group.octets();
    let length = u16::try_from(message.len()).unwrap_or_default();
    [
        &[0x33, 0x33, a, b, c, d][..],
        &from.0,
        &IS_IPV6,
        &[0x60, 0, 0, 0],
        &length.to_be_bytes(),
        &[ICMPV6, FROM_THIS_LINK],
        &source.octets(),
        &group.octets(),
        &message,
    ]
    .concat()
}

/// The checksum of a message with zeros in its two bytes; 0 for a message with the right checksum (RFC 4443, 2.3).
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).unwrap_or_default();
    let pseudo_header = [
        &source.octets()[..],
        &destination.octets(),
        &length.to_be_bytes(),
        &[0, 0, 0, ICMPV6],
    ]
    .concat();
    let words = [&pseudo_header, message].map(|bytes| {
        let words = bytes.chunks(2);
        let word =
            |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| (*low).into());
        words.map(word).sum::<u32>()
    });
    let mut sum = words[0] + words[1];
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

pub(super) fn claim(frame: &[u8], address: Ipv6Addr, own: &[MacAddress]) -> Option<Claim> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET)?;
    let (header, rest) = packet.split_at_checked(IPV6)?;
    let sender = MacAddress(ethernet[6..12].try_into().ok()?);
    let length = u16::from_be_bytes(header[4..6].try_into().ok()?);
    // The rest is padding of the link.
    let message = rest.get(..length.into())?;
    let (fixed, options) = message.split_at_checked(MESSAGE)?;
    let address_at = |at: usize| -> Option<Ipv6Addr> {
        let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
        Some(octets.into())
    };
    let (source, destination) = (address_at(8)?, address_at(24)?);
    let target: [u8; 16] = fixed[8..].try_into().ok()?;
    let is_valid = ethernet[12..] == IS_IPV6
        && header[0] >> 4 == 6
        && header[6..8] == [ICMPV6, FROM_THIS_LINK]
        && fixed[1] == 0
        && checksum(source, destination, message) == 0;
    if !is_valid || own.contains(&sender) {
        return None;
    }
    let is_about_it = Ipv6Addr::from(target) == address;
    match fixed[0] {
        ADVERTISEMENT if is_about_it => {
            let has = target_link(options).unwrap_or(sender);
            (!own.contains(&has)).then_some(Claim::Has(has))
        }
        SOLICITATION if source == address => Some(Claim::Has(sender)),
        SOLICITATION if is_about_it && source.is_unspecified() => Some(Claim::Probes(sender)),
        _ => None,
    }
}

/// The target's hardware address, where an advertisement has it. An option's length counts eight bytes each.
fn target_link(mut options: &[u8]) -> Option<MacAddress> {
    while let [kind, eights, ..] = *options {
        let (option, rest) = options.split_at_checked(usize::from(eights) * 8)?;
        if kind == TARGET_LINK {
            return Some(MacAddress(option.get(2..8)?.try_into().ok()?));
        }
        if option.is_empty() {
            return None;
        }
        options = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddress = MacAddress([0x52, 0x54, 0, 0, 0, 7]);
    const VIP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);
    const ELSE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

    fn spoken(kind: u8, source: Ipv6Addr, target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target.octets());
        message.extend(options);
        frame(OTHER, source, ALL_NODES, message)
    }

    #[test]
    fn a_solicitation_is_what_the_rfc_says_byte_for_byte() {
        let expected = [
            0x33, 0x33, 0xff, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, // Ethernet
            0x60, 0, 0, 0, 0, 24, 58, 255, // IPv6
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // from no address
            0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x12, 0x34,
            0x56, // to ff02::1:ff12:3456
            135, 0, 0xe4, 0x1e, 0, 0, 0, 0, // a solicitation
            0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, // who has it?
        ];
        assert_eq!(solicitation(OURS, VIP), expected);
    }

    #[test]
    fn answers_and_solicitations_of_others_are_claims_and_nothing_else_is() {
        let none = Ipv6Addr::UNSPECIFIED;
        let link = [2, 1, 0x52, 0x54, 0, 0, 0, 8];
        let behind_another = [[1, 1, 9, 9, 9, 9, 9, 9], link].concat();
        let at_link = Some(Claim::Has(MacAddress([0x52, 0x54, 0, 0, 0, 8])));
        for (kind, source, target, options, says) in [
            (136, VIP, VIP, &[][..], Some(Claim::Has(OTHER))),
            (136, ELSE, VIP, &[], Some(Claim::Has(OTHER))),
            (136, VIP, VIP, &link, at_link),
            (136, VIP, VIP, &behind_another, at_link),
            // An option of no length ends them.
            (
                136,
                VIP,
                VIP,
                &[1, 0, 0, 0, 0, 0, 0, 0],
                Some(Claim::Has(OTHER)),
            ),
            // It looks for another machine.
            (135, VIP, ELSE, &[], Some(Claim::Has(OTHER))),
            (135, none, VIP, &[], Some(Claim::Probes(OTHER))),
            // Another machine wants to talk to it, or the message is about another address.
            (135, ELSE, VIP, &[], None),
            (135, none, ELSE, &[], None),
            (136, VIP, ELSE, &[], None),
            (134, VIP, VIP, &[], None),
        ] {
            let heard = spoken(kind, source, target, options);
            assert_eq!(
                claim(&heard, VIP, &[OURS]),
                says,
                "{kind} {source} {target}"
            );
            assert_eq!(claim(&heard, VIP, &[OTHER]), None, "of our own");
        }
        let of_ours = spoken(136, VIP, VIP, &[[2, 1].as_slice(), &OURS.0].concat());
        assert_eq!(
            claim(&of_ours, VIP, &[OURS]),
            None,
            "our own, by another's frame"
        );
    }

    #[test]
    fn a_frame_that_came_over_a_router_or_is_damaged_says_nothing() {
        let heard = spoken(136, VIP, VIP, &[]);
        assert!(
            claim(&[&heard[..], &[0; 9]].concat(), VIP, &[]).is_some(),
            "padding"
        );
        // Ethernet's type, version, next header, hop limit, code, checksum, target.
        for at in [12, 14, 20, 21, 55, 56, 77] {
            let mut other = heard.clone();
            other[at] ^= 0x10;
            assert_eq!(claim(&other, VIP, &[]), None, "byte {at}");
        }
        // A change of a byte that keeps the checksum.
        for (at, value) in [(21, 64), (55, 1)] {
            let mut other = heard.clone();
            other[at] = value;
            other[56..58].fill(0);
            let sum = checksum(VIP, ALL_NODES, &other[54..]);
            other[56..58].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(claim(&other, VIP, &[]), None, "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = claim(&bytes, VIP, &[OURS]);
            let _ = target_link(&bytes);
            let mut framed = spoken(136, VIP, VIP, &[]);
            framed.truncate(bytes.len());
            prop_assert_eq!(claim(&framed, VIP, &[OURS]).is_some(), bytes.len() >= 78);
        }
    }
}
