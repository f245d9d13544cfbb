//! IPv4: ARP (RFC 826), used as in RFC 5227.

use std::net::Ipv4Addr;

use windrow_harvester::network::MacAddress;

use super::Claim;

const BROADCAST: MacAddress = MacAddress([0xff; 6]);
/// Ethernet's type of ARP, then hardware (Ethernet), protocol (IPv4) and the lengths of their addresses.
const HEADER: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// Its sender's address is 0.0.0.0.
pub(super) fn probe(from: MacAddress, address: Ipv4Addr) -> Vec<u8> {
    let unknown = [0; 6];
    [
        &BROADCAST.0[..],
        &from.0,
        &HEADER,
        &REQUEST,
        &from.0,
        &Ipv4Addr::UNSPECIFIED.octets(),
        &unknown,
        &address.octets(),
    ]
    .concat()
}

pub(super) fn claim(frame: &[u8], address: Ipv4Addr, own: &[MacAddress]) -> Option<Claim> {
    let (ethernet, arp) = frame.split_at_checked(12)?;
    let source = MacAddress(ethernet.get(6..)?.try_into().ok()?);
    let (header, arp) = arp.split_at_checked(HEADER.len())?;
    let (operation, arp) = arp.split_at_checked(2)?;
    let (sender, arp) = arp.split_at_checked(6)?;
    let (sender_address, arp) = arp.split_at_checked(4)?;
    let target_address = arp.get(6..10)?;
    let sender = MacAddress(sender.try_into().ok()?);
    if header != HEADER || own.contains(&sender) || own.contains(&source) {
        return None;
    }
    let is_ours = |octets: &[u8]| octets == address.octets();
    match sender_address {
        of if is_ours(of) && (operation == REQUEST || operation == REPLY) => {
            Some(Claim::Has(sender))
        }
        [0, 0, 0, 0] if operation == REQUEST && is_ours(target_address) => {
            Some(Claim::Probes(sender))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddress = MacAddress([0x52, 0x54, 0, 0, 0, 7]);
    const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);

    /// Offsets of RFC 826 behind Ethernet's header of 14 bytes.
    fn frame(operation: u8, sender: MacAddress, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
        let mut frame = probe(sender, to);
        frame[21] = operation;
        frame[28..32].copy_from_slice(&from.octets());
        frame
    }

    #[test]
    fn a_probe_is_what_the_rfc_says_byte_for_byte() {
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x06, // Ethernet
            0, 1, 0x08, 0, 6, 4, 0, 1, // a request, IPv4 over Ethernet
            2, 0, 0, 0, 0, 1, 0, 0, 0, 0, // from us, without an address
            0, 0, 0, 0, 0, 0, 10, 0, 0, 10, // who has it?
        ];
        assert_eq!(probe(OURS, VIP), expected);
    }

    #[test]
    fn answers_announcements_and_probes_of_others_are_claims_and_nothing_else_is() {
        let other = Ipv4Addr::new(10, 0, 0, 99);
        let none = Ipv4Addr::UNSPECIFIED;
        for (operation, from, to, says) in [
            (2, VIP, none, Some(Claim::Has(OTHER))),
            // Announced, and asking for another address as its owner.
            (1, VIP, VIP, Some(Claim::Has(OTHER))),
            (1, VIP, other, Some(Claim::Has(OTHER))),
            (1, none, VIP, Some(Claim::Probes(OTHER))),
            // Another machine wants to talk to it, or probes for another address.
            (1, other, VIP, None),
            (1, none, other, None),
            (2, other, VIP, None),
            (3, VIP, VIP, None),
        ] {
            let heard = frame(operation, OTHER, from, to);
            assert_eq!(claim(&heard, VIP, &[OURS]), says, "{operation} {from} {to}");
            assert_eq!(claim(&frame(operation, OURS, from, to), VIP, &[OURS]), None);
        }
    }

    #[test]
    fn a_frame_that_another_of_our_links_sent_is_ours_whatever_stands_in_it() {
        let mut heard = frame(2, OTHER, VIP, VIP);
        heard[6..12].copy_from_slice(&OURS.0);
        assert_eq!(claim(&heard, VIP, &[OURS]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = claim(&bytes, VIP, &[OURS]);
            let mut framed = probe(OTHER, VIP);
            framed.truncate(bytes.len());
            prop_assert_eq!(claim(&framed, VIP, &[OURS]).is_some(), bytes.len() >= 42);
        }
    }
}
