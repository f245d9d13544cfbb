//! The node's own view of itself, which works even without the daemon.

use std::net::IpAddr;

use crate::addresses::usable_addresses;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Empty if it has none.
    pub(crate) name: String,
    /// Addresses at which it may be reached, with their interfaces; `None` if this machine's addresses are not the
    /// node's.
    pub(crate) addresses: Option<Vec<(IpAddr, String)>>,
}

impl Host {
    /// Asks the kernel. Unknown values are left empty: the console has more to show.
    pub(crate) fn now(has_our_links: bool) -> Self {
        let name = nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Self {
            name,
            addresses: has_our_links.then(usable_addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_can_be_asked() {
        assert!(!Host::now(true).name.is_empty());
        assert_eq!(Host::now(false).addresses, None);
    }
}
