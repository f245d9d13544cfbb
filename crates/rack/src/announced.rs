//! Decides whether a rack may contact the status server that a node announces. A node can announce anything, so a rack contacts
//! only the host that sent the event, and only if it presents the announced certificate.

use std::net::IpAddr;

use crate::report::StatusServer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedServer {
    /// The address. The node can choose only its port.
    pub url: String,
    /// SHA-256 of the certificate, in lower-case hexadecimal.
    pub fingerprint: String,
}

/// The server that an event from `peer` announces, if its address is `peer` itself.
///
/// # Errors
///
/// The reason for not contacting it, in one line.
pub fn announced_server(
    announced: &StatusServer,
    peer: IpAddr,
) -> Result<AnnouncedServer, &'static str> {
    let digits = announced.fingerprint.bytes();
    if announced.fingerprint.len() != 64 || !digits.clone().all(|one| one.is_ascii_hexdigit()) {
        return Err("it announces no certificate");
    }
    let url: url::Url = announced.url.parse().map_err(|_| "it announces no URL")?;
    if url.scheme() != "https" {
        return Err("it announces no HTTPS");
    }
    let host: IpAddr = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.into(),
        Some(url::Host::Ipv6(ip)) => ip.into(),
        // The owner of a name can point it to any host, and change that later.
        _ => return Err("it announces a name, not an address"),
    };
    let peer = peer.to_canonical();
    if host.to_canonical() != peer {
        return Err("it announces an address that differs from its own");
    }
    if !is_a_machines(peer) {
        return Err("it announces an address of this machine or of one network segment");
    }
    let port = url.port().unwrap_or(443);
    Ok(AnnouncedServer {
        url: format!("https://{}/status", std::net::SocketAddr::new(peer, port)),
        fingerprint: announced.fingerprint.to_ascii_lowercase(),
    })
}

/// The address of another host. A proxy on this host would give its own address to every node.
fn is_a_machines(ip: IpAddr) -> bool {
    let is_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(is_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str, peer: &str) -> Result<String, &'static str> {
        let server = StatusServer {
            url: url.to_owned(),
            fingerprint: "AB".repeat(32),
        };
        announced_server(&server, peer.parse().unwrap()).map(|asked| {
            assert_eq!(asked.fingerprint, "ab".repeat(32));
            asked.url
        })
    }

    #[test]
    fn nobody_but_the_sender_is_asked_whatever_a_node_announces() {
        let (ours, url) = ("10.0.0.7", "https://10.0.0.7:9346/status");
        assert_eq!(asked(url, ours).as_deref(), Ok(url));
        assert_eq!(asked(url, "::ffff:10.0.0.7").as_deref(), Ok(url));
        let v6 = "https://[2001:db8::7]:9346/status";
        assert_eq!(asked(v6, "2001:db8::7").as_deref(), Ok(v6));
        // The node must not choose path, query, user or password.
        let chosen = "https://root:pw@10.0.0.7:9346/metrics?x=1#y";
        assert_eq!(asked(chosen, ours).as_deref(), Ok(url));
        // The same address in notations that only programs read as an address.
        for form in [
            "https://167772167:9346/",
            "https://0x0a.0.0.7:9346/",
            "https://10.7:9346",
        ] {
            assert_eq!(asked(form, ours).as_deref(), Ok(url), "{form}");
        }
        for (url, peer) in [
            ("https://10.0.0.8:9346/status", ours),
            ("https://169.254.169.254/latest/meta-data", ours),
            ("https://169.254.169.254/", "169.254.169.254"),
            ("https://127.0.0.1:6443/", "127.0.0.1"),
            ("https://127.0.0.1:6443/", ours),
            ("https://[::ffff:127.0.0.1]:6443/", "127.0.0.1"),
            ("https://[::1]:6443/", "::1"),
            ("https://0.0.0.0:9346/", "0.0.0.0"),
            ("https://[fe80::1]:9346/", "fe80::1"),
            ("https://n1.example:9346/status", ours),
            ("https://10.0.0.7.evil.example/status", ours),
            ("http://10.0.0.7:9346/status", ours),
            ("file:///etc/shadow", ours),
            ("javascript:alert(1)", ours),
            ("", ours),
        ] {
            assert!(asked(url, peer).is_err(), "{url} from {peer}");
        }
        for fingerprint in ["", "ab", &"xy".repeat(32), &"é".repeat(32)] {
            let server = StatusServer {
                url: url.to_owned(),
                fingerprint: fingerprint.to_owned(),
            };
            let peer = ours.parse().unwrap();
            assert!(announced_server(&server, peer).is_err(), "{fingerprint}");
        }
    }
}
