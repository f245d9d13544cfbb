//! Finds out whether this machine is on the network of its configuration. Harvester's installer creates the management network
//! itself, after a preflight and before it looks for the default route (`applyNetworks` in harvester-installer's
//! `pkg/console/install_panels.go`). Until then, a missing answer proves nothing about the configured servers.

use std::net::IpAddr;

use windrow_host::HostLink;
use windrow_model::addresses::is_in_network;
use windrow_model::checks::CheckFacts;

use super::Judged;
use crate::WantedLink;

impl Judged<'_> {
    /// The reason why this machine is not yet on the network of the configuration. `None` if it is, or if Windrow cannot tell.
    pub(super) fn is_elsewhere(&self) -> Option<String> {
        let links = self.host.links.known().filter(|_| self.is_harvester())?;
        let management = &self.wanted.management;
        if let Some(vlan) = self.missing_vlan() {
            return Some(on_vlan(vlan));
        }
        let has_vlan = |link: &&HostLink| management.vlan.is_none() || link.vlan == management.vlan;
        let reaching = || links.iter().filter(has_vlan);
        if self.is_unconfigured() {
            return Some("no configuration describes the management network".to_owned());
        }
        match &management.address {
            Some(address) => {
                let wanted = address.text.parse::<IpAddr>().ok()?;
                let mut own = reaching().flat_map(|link| &link.addresses);
                let is_there = own.any(|(own, prefix)| is_in_network(wanted, *own, *prefix));
                (!is_there).then(|| {
                    format!(
                        "this machine has no address in the network of {wanted} yet: the installer creates the management network later"
                    )
                })
            }
            None => {
                let mut links = reaching().filter(|link| self.may_be_management(link));
                let has_address =
                    |link: &HostLink| link.addresses.iter().any(|one| is_routed(one.0));
                (!links.any(has_address)).then(|| {
                    "no link of the management network has an address yet: the installer creates that network later".to_owned()
                })
            }
        }
    }

    /// The VLAN of the management network, if no link is known to be on it.
    pub(super) fn missing_vlan(&self) -> Option<u16> {
        let vlan = self.wanted.management.vlan;
        vlan.filter(|vlan| self.host.vlan_link(*vlan).is_none())
    }

    /// Turns errors into unknowns if the machine is not on the network of the configuration.
    pub(super) fn of_its_network(&self, mut facts: CheckFacts) -> CheckFacts {
        if !facts.problems.is_empty()
            && let Some(why) = self.is_elsewhere()
        {
            facts.unknown.append(&mut facts.problems);
            facts.unknown.push(why);
        }
        facts
    }

    /// True if no configuration describes the management network.
    pub(super) fn is_unconfigured(&self) -> bool {
        let management = &self.wanted.management;
        !management.dhcp && management.address.is_none() && management.links.is_empty()
    }

    /// True for a link of the configuration, and for a link built from other links.
    fn may_be_management(&self, link: &HostLink) -> bool {
        let wanted = &self.wanted.management.links;
        let is = |wanted: &WantedLink| match (&wanted.mac, &wanted.name) {
            (Some(Ok(mac)), _) => link.mac == *mac,
            (_, name) => name.as_ref() == Some(&link.name),
        };
        wanted.is_empty() || !link.physical || wanted.iter().any(is)
    }
}

pub(super) fn on_vlan(vlan: u16) -> String {
    format!("the management network will be on VLAN {vlan}, where this machine is not yet")
}

fn is_routed(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(one) => !one.is_link_local() && !one.is_loopback(),
        IpAddr::V6(one) => !one.is_unicast_link_local() && !one.is_loopback(),
    }
}
