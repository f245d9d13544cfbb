//! Readers of what another machine sends.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use windrow_harvester::network::neighbours;
use windrow_host::smbios;
use windrow_preflight::who_has;
use windrow_preflight::{dns, ntp, sockets};
use windrow_rack::{Heartbeat, read_document, read_event, read_node};

use crate::{check_messages, text};

/// An event of a node, its status document, and its Node.
pub(super) fn event(bytes: &[u8]) {
    let received = Timestamp::UNIX_EPOCH;
    if let Err(errors) = read_event(bytes, received) {
        check_messages(&errors);
    }
    let Ok(document) = serde_json::from_slice(bytes) else {
        return;
    };
    if let Err(errors) = read_document(&document, received, None, None) {
        check_messages(&errors);
    }
    for heartbeat in [Heartbeat::ByItsClock, Heartbeat::Seen] {
        read_node(&document, received, heartbeat);
    }
}

/// Packets and tables: of name servers, time servers, neighbours, the firmware.
pub(super) fn packet(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    if let Err(why) = dns::addresses(bytes, id) {
        check_messages([why]);
    }
    let now = Timestamp::UNIX_EPOCH;
    if let Err(why) = ntp::offset(bytes, now, now) {
        check_messages([why]);
    }
    for address in ["192.0.2.1", "fe80::1"] {
        let address = address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        who_has::claim(bytes, address, &[]);
    }
    smbios::installed_memory(bytes);
    sockets::listening(sockets::Protocol::Tcp, text(bytes));
    neighbours(text(bytes));
}
