//! The networks of pods and Services that a new cluster has: the installer writes them into RKE2's configuration unchanged, and
//! checks them only if you type them at the console (harvester-installer pkg/config/templates/rke2-90-harvester-server.yaml, and
//! addClusterNetworkPanel in pkg/console/install_panels.go; v1.5.0 to v1.8.1 and harvester v1.9.0-rc6).
//!
//! RKE2 exits at once if it cannot read one (k3s pkg/cli/server/server.go). If the address of the cluster's DNS is outside the
//! networks of Services, kube-apiserver refuses the Service of rke2-coredns, and the cluster has no DNS.

use std::net::IpAddr;

use windrow_model::manifest::Node;
use windrow_plan::rke2::Network;

use super::rules::text;

/// The installer's defaults if the configuration sets none.
pub(super) const PODS: &str = "10.52.0.0/16";
pub(super) const SERVICES: &str = "10.53.0.0/16";
const DNS: &str = "10.53.0.10";

pub(super) fn misfits(install: Option<&Node>) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut read = |key: &str, called: &str| {
        let (written, line) = text(install, key)?;
        let networks: Option<Vec<Network>> = written.split(',').map(Network::parse).collect();
        if networks.is_none() {
            let why = format!(
                "`install.{called}` is not a valid network, and RKE2 ends at once; write it like {SERVICES}"
            );
            found.push((line, why));
        }
        Some((networks, line))
    };
    read("clusterPodCidr", "cluster_pod_cidr");
    let services = read("clusterServiceCidr", "cluster_service_cidr");
    let dns = text(install, "clusterDns");
    let by_default = || Network::parse(SERVICES).map(|network| vec![network]);
    let (networks, line) = match (services, dns) {
        (None, None) => return found,
        (Some((networks, line)), None) => (networks, line),
        (services, Some((_, line))) => (
            services.map_or_else(by_default, |(networks, _)| networks),
            line,
        ),
    };
    let written = dns.map_or(DNS, |(address, _)| address);
    for address in written.split(',').map(str::trim) {
        let read: Option<IpAddr> = address.parse().ok();
        let is_in = |address| {
            networks
                .as_ref()
                .is_none_or(|networks| networks.iter().any(|one| one.contains(address)))
        };
        let why = match (read, dns) {
            (None, _) => {
                "`install.cluster_dns` is not a valid address, and RKE2 ends at once".to_owned()
            }
            (Some(address), _) if is_in(address) => continue,
            (Some(_), Some(_)) => {
                "`install.cluster_dns` is not in the network of Services; write an address of it"
                    .to_owned()
            }
            (Some(_), None) => format!(
                "with this `install.cluster_service_cidr` the cluster's DNS stays at {DNS}, which is not in it; write \
                 `install.cluster_dns`, an address of it"
            ),
        };
        found.push((line, why));
    }
    found
}
