//! Documents inside strings: the JSON of a setting and the values of an addon. The installer passes both on unread
//! (harvester-installer pkg/config/templates rancherd-20-harvester-settings.yaml and genBootstrapResources).
//!
//! The values of settings are judged like those of Setting objects (`windrow_apischema::setting_fault`), and against the addresses of
//! the configuration.

use std::net::Ipv4Addr;

use serde_json::{Map, Value};
use windrow_apischema::{StorageNetwork, proxy_exceptions, storage_network};
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{Node, NodeValue, ReadLimits, yaml};

use super::addresses::{Addresses, Ipv4Network};

/// A setting with a JSON object that Harvester's webhook does not judge (harvester v1.8.2 `pkg/settings/settings_helper.go`
/// GetCSIDriverInfo).
const UNJUDGED_JSON: &str = "csi-driver-config";

/// Why Harvester can never use this value of a setting.
pub(super) fn setting_fault(
    key: &str,
    value: &str,
    release: HarvesterVersion,
    addresses: &Addresses<'_>,
) -> Option<String> {
    if value.is_empty() {
        return None;
    }
    if key == "storage-network" {
        let fault = match storage_network(value) {
            Ok(network) => network.and_then(|network| taken(&network, addresses)),
            Err(fault) => Some(fault),
        };
        return fault
            .map(|why| format!("Harvester never configures this `storage-network`: {why}"));
    }
    let read = serde_json::from_str(value);
    if key == UNJUDGED_JSON && !matches!(read, Ok(Value::Object(_) | Value::Null)) {
        return Some(format!(
            "the setting `{key}` must be a JSON object in a text, and this is not one"
        ));
    }
    if key == "http-proxy"
        && let Ok(Value::Object(fields)) = &read
        && let Some(why) = proxy_fault(fields, addresses.node())
    {
        return Some(why);
    }
    windrow_apischema::setting_fault(key, value, Some((release.major, release.minor)))
        .map(|why| format!("Harvester refuses this value of the setting `{key}`: {why}"))
}

/// Why a storage network takes addresses that others already have.
fn taken(network: &StorageNetwork, addresses: &Addresses<'_>) -> Option<String> {
    let range = Ipv4Network::parse(&network.range)?;
    let excluded: Vec<Ipv4Network> = (network.excluded.iter())
        .filter_map(|excluded| Ipv4Network::parse(excluded))
        .collect();
    if excluded.iter().any(|excluded| excluded.covers(range)) {
        return Some("its `exclude` leaves no address of its `range`".to_owned());
    }
    if let Some((whose, other)) = addresses.cluster_network(range) {
        return Some(format!(
            "its `range` {range} overlaps with the cluster's network of {whose}, {other}"
        ));
    }
    let shares_the_management_network = network.cluster_network == "mgmt" && network.vlan <= 1;
    let is_free = |address| excluded.iter().any(|excluded| excluded.contains(address));
    let (called, address) = addresses
        .written()
        .filter(|_| shares_the_management_network)
        .find(|(_, address)| range.contains(*address) && !is_free(*address))?;
    Some(format!(
        "its `range` {range} contains `{called}` {address}, which a Longhorn pod may get too; write {address}/32 into its `exclude`, or \
         use another network"
    ))
}

/// A proxy for traffic to the node itself.
fn proxy_fault(fields: &Map<String, Value>, node: Option<Ipv4Addr>) -> Option<String> {
    let networks = proxy_exceptions(fields)?;
    let covers = |node: Ipv4Addr| {
        let is_in = |part: &&str| match Ipv4Network::parse(part) {
            Some(network) => network.contains(node),
            None => part.parse() == Ok(node),
        };
        networks.iter().any(is_in)
    };
    let is_covered = match node {
        Some(node) => covers(node),
        None => !networks.is_empty(),
    };
    let node = node.map_or("the node's address".to_owned(), |node| node.to_string());
    (!is_covered).then(|| {
        format!(
            "the `noProxy` of the setting `http-proxy` lacks {node}: Harvester's webhook then refuses the Setting, and the node's own \
             traffic goes through the proxy; add the network of all nodes to `noProxy`"
        )
    })
}

/// Why Helm can never read the values of an addon.
pub(super) fn values_fault(values: &str) -> Option<String> {
    let first = yaml::input(values, &ReadLimits::default());
    match first.map(|file| file.root) {
        Ok(None) => None,
        Ok(Some(Node {
            value: NodeValue::Mapping(_) | NodeValue::Null,
            ..
        })) => None,
        Ok(Some(_)) => Some("they are not a map".to_owned()),
        Err(problems) => {
            let line = problems.first().and_then(|problem| problem.line);
            Some(match line {
                Some(line) => format!("their line {line} is not valid YAML"),
                None => "they are not valid YAML".to_owned(),
            })
        }
    }
}
