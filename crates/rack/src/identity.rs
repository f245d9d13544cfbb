//! Identifies the machine of a report by its hardware address, its serial number or its host name. The first of them that is
//! present counts.

use serde::{Deserialize, Serialize};
use windrow_harvester::network::MacAddress;

use crate::text::{NAME, WORD, clean};

/// Default serial numbers of firmware whose vendor has not set one.
const NO_SERIALS: [&str; 14] = [
    "0",
    "none",
    "n/a",
    "na",
    "null",
    "unknown",
    "default string",
    "not specified",
    "not available",
    "system serial number",
    "to be filled by o.e.m.",
    "to be filled by oem",
    "o.e.m.",
    "empty",
];

/// Default host names.
const NO_HOSTS: [&str; 4] = ["localhost", "localhost.localdomain", "rancher", "(none)"];

/// The identity in a report. Each part may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// Hardware address of the management interface, in lower case with colons.
    pub mac: String,
    pub serial: String,
    /// In lower case.
    pub host: String,
}

impl NodeIdentity {
    /// Normalizes the parts for comparison. Invalid addresses and default serial numbers are left out, because they do not
    /// identify a machine.
    pub fn new(mac: &str, serial: &str, host: &str) -> Self {
        Self {
            mac: mac_of(mac).unwrap_or_default(),
            serial: serial_of(serial).unwrap_or_default(),
            host: host_of(host),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.mac.is_empty() && self.serial.is_empty() && self.host.is_empty()
    }

    /// The host name, unless it is one that many machines share, such as `localhost`.
    pub(crate) fn own_host(&self) -> Option<&str> {
        is_own_host(&self.host).then_some(self.host.as_str())
    }
}

/// A normalized address; `None` if it is invalid or not unique.
pub(crate) fn mac_of(text: &str) -> Option<String> {
    let mac: MacAddress = text.trim().parse().ok()?;
    (mac.0 != [0; 6] && mac.0 != [0xff; 6]).then(|| mac.to_string())
}

/// A normalized serial number; `None` for a placeholder.
pub(crate) fn serial_of(text: &str) -> Option<String> {
    let text = clean(text, WORD);
    let lower = text.to_lowercase();
    let is_filler = NO_SERIALS.contains(&lower.as_str())
        || lower
            .chars()
            .all(|one| one == '0' || one == '.' || one == '-');
    (!is_filler).then(|| text.to_uppercase())
}

pub(crate) fn host_of(text: &str) -> String {
    clean(text, NAME).trim_end_matches('.').to_lowercase()
}

pub(crate) fn is_own_host(host: &str) -> bool {
    !host.is_empty() && !NO_HOSTS.contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_has_one_form_and_fillers_name_none() {
        let one = NodeIdentity::new("52-54-00-AA-bb-01", " abc123 ", "Node1.Example.");
        assert_eq!(
            one,
            NodeIdentity::new("52:54:00:aa:bb:01", "ABC123", "node1.example")
        );
        for filler in ["", "0000000", "To Be Filled By O.E.M.", "None", "..."] {
            assert_eq!(serial_of(filler), None, "{filler}");
        }
        for none in ["", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "52:54:00"] {
            assert_eq!(mac_of(none), None, "{none}");
        }
        assert!(NodeIdentity::new("x", "0", "").is_empty());
        assert_eq!(NodeIdentity::new("", "", "localhost").own_host(), None);
    }
}
