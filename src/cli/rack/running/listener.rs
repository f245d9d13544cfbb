//! Checks which user listens at an address of this machine. While a rack is down, any user can listen at its port, and
//! would receive its token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::fs;

/// Users that systemd makes for a unit while it runs (`DynamicUser=`). No one logs in as one.
const DYNAMIC_USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// The state of a listening socket (`include/net/tcp_states.h`).
const LISTEN: &str = "0A";

/// Accepts root, this user, or a unit's own user as the listener.
///
/// # Errors
///
/// If it is another user, or unknown.
pub(super) fn check(address: SocketAddr, own: u32) -> Result<(), String> {
    let read = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    // A kernel without IPv6 has no second one.
    let [Ok(v4), v6] = read else {
        return Err(format!(
            "Windrow cannot tell who listens at {address} (/proc/net/tcp): set its certificate with --fingerprint"
        ));
    };
    let sockets = v4 + &v6.unwrap_or_default();
    match stranger(&sockets, address, own) {
        None => Ok(()),
        Some(user) => Err(format!(
            "the user {user} listens at {address}, and is neither root nor you nor a service: the token was not sent; \
             set the rack's certificate with --fingerprint"
        )),
    }
}

/// Another user who listens there, according to the kernel's list of sockets.
fn stranger(sockets: &str, address: SocketAddr, own: u32) -> Option<u32> {
    let users = sockets.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (at, state, user) = (fields.get(1)?, fields.get(3)?, fields.get(7)?);
        let (ip, port) = at.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let ip = ip_of(ip)?.to_canonical();
        let is_there = ip == address.ip().to_canonical() || ip.is_unspecified();
        let listens = *state == LISTEN && port == address.port() && is_there;
        listens.then(|| user.parse::<u32>().ok()).flatten()
    });
    let is_trusted = |user: &u32| *user == 0 || *user == own || DYNAMIC_USERS.contains(user);
    users.into_iter().find(|user| !is_trusted(user))
}

/// An address as the kernel writes it: words of 32 bits in the machine's own order.
fn ip_of(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = hex.get(8 * at..8 * at + 8)?;
        let word = u32::from_str_radix(word, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut bytes = [0; 16];
            bytes.copy_from_slice(words.as_flattened());
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKETS: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2483 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 0100007F:2484 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   2: 0100007F:2485 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 1 1
   3: 00000000:2486 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   0: 00000000000000000000000001000000:2487 00000000000000000000000000000000:0000 0A 0:0 0:0 0  1000 0 1 1
   1: 0000000000000000FFFF00000100007F:2488 00000000000000000000000000000000:0000 0A 0:0 0:0 0  1000 0 1 1
   2: 00000000000000000000000000000000:2489 00000000000000000000000000000000:0000 0A 0:0 0:0 0 61200 0 1 1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn another_user_who_listens_there_is_found() {
        let who = |address: &str, own| stranger(SOCKETS, address.parse().unwrap(), own);
        for taken in [
            "127.0.0.1:9347",
            "127.0.0.1:9350",
            "[::1]:9351",
            "127.0.0.1:9352",
        ] {
            assert_eq!(who(taken, 0), Some(1000), "{taken}");
            assert_eq!(who(taken, 1000), None, "{taken}");
        }
        // root, a connection, a unit's user, no one, another address.
        for free in [
            "127.0.0.1:9348",
            "127.0.0.1:9349",
            "127.0.0.1:9353",
            "127.0.0.1:1",
            "127.0.0.2:9347",
        ] {
            assert_eq!(who(free, 1001), None, "{free}");
        }
    }

    #[test]
    fn whoever_listens_really_is_in_the_list() {
        let own = rustix::process::geteuid().as_raw();
        for at in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(at) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let host = if at.starts_with("[::1") {
                "[::1]"
            } else {
                "127.0.0.1"
            };
            let address = format!("{host}:{port}").parse().unwrap();
            check(address, own).unwrap();
            if own >= 1000 && !DYNAMIC_USERS.contains(&own) {
                check(address, own + 1).unwrap_err();
            }
        }
    }
}
