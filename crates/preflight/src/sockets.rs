//! Reads the listening sockets from `/proc/net/tcp`, `tcp6`, `udp` and `udp6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A transport protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListeningSocket {
    pub protocol: Protocol,
    pub address: IpAddr,
    pub port: u16,
    /// Leads to the process that owns the socket.
    pub inode: u64,
}

/// Reads the listening sockets of a table. A UDP socket listens if it is not connected.
pub fn listening(protocol: Protocol, table: &str) -> Vec<ListeningSocket> {
    const LISTEN: &str = "0A";
    const UNCONNECTED: &str = "07";
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let listens = match protocol {
            Protocol::Tcp => *state == LISTEN,
            Protocol::Udp => *state == UNCONNECTED,
        };
        let (address, port) = local.split_once(':')?;
        Some(ListeningSocket {
            protocol,
            address: self::address(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
            inode: inode.parse().ok()?,
        })
        .filter(|_| listens)
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// An address in hexadecimal: 32-bit words in the byte order of the processor, which is little-endian on all platforms of
/// Windrow.
fn address(hexadecimal: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = hexadecimal.get(at * 8..at * 8 + 8)?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        Some(number.to_le_bytes())
    };
    match hexadecimal.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut octets = [0; 16];
            for at in 0..4 {
                octets[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_are_read_with_address_port_and_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 623 1 0 100 0\n\
            \x20  1: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 624 1 0 100 0\n\
            cut off\n";
        let found = listening(Protocol::Tcp, table);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (
                found[0].address.to_string().as_str(),
                found[0].port,
                found[0].inode
            ),
            ("127.0.0.1", 8080, 623)
        );
        let table = "head\n 5: 00000000000000000000000001000000:0202 00000000000000000000000000000000:0000 07 0:0 00:0 0 0 0 99 2 0 0\n";
        let found = listening(Protocol::Udp, table);
        assert_eq!(
            (found[0].address.to_string().as_str(), found[0].port),
            ("::1", 514)
        );
    }
}
