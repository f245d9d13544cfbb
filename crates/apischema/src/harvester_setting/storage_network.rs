//! The networks of the settings `storage-network` and `vm-migration-network`. If a configuration presets one, nothing rejects a value
//! that the webhook would reject. Harvester's controller then tries again forever, and no VM may start in the meantime.
//!
//! harvester v1.8.2: `pkg/webhook/resources/setting/validator.go` validateNetworkHelper, `pkg/controller/master/storagenetwork`
//! (createNad, validateIPAddressesAllocations); whereabouts v0.9.4 `pkg/config`. This module leaves out checks that depend on the
//! nodes, and values that work although the webhook rejects them.

use std::net::IpAddr;

use serde_json::Value;

use super::field;

const LAST_VLAN: u64 = 4094;

/// A storage network that Harvester can configure.
pub struct StorageNetwork {
    pub vlan: u64,
    pub cluster_network: String,
    pub range: String,
    pub excluded: Vec<String>,
}

/// Reads the value of the setting; `None` for an empty one. The error is why Harvester never configures it.
pub fn storage_network(value: &str) -> Result<Option<StorageNetwork>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(value) else {
        return Err("it is not a JSON object".to_owned());
    };
    let field = |name: &str| field(&fields, name);
    let text = |name: &str| match field(name) {
        None => Ok(""),
        Some(value) => value
            .as_str()
            .ok_or("its `clusterNetwork` and `range` are not both strings"),
    };
    let vlan = field("vlan").map_or(Some(0), Value::as_u64);
    let vlan = vlan
        .filter(|vlan| *vlan <= LAST_VLAN)
        .ok_or("its `vlan` is not a number from 0 to 4094")?;
    let cluster_network = text("clusterNetwork")?.to_owned();
    if cluster_network.is_empty() {
        return Err("it has no `clusterNetwork`".to_owned());
    }
    let range = text("range")?.to_owned();
    is_own_network(&range)?;
    let list = match field("exclude") {
        None => &[][..],
        Some(list) => list.as_array().ok_or("its `exclude` is not a list")?,
    };
    let mut excluded = Vec::new();
    for network in list {
        let network = network.as_str().unwrap_or_default();
        parse(network).ok_or("its `exclude` has an item that is not a network")?;
        excluded.push(network.to_owned());
    }
    Ok(Some(StorageNetwork {
        vlan,
        cluster_network,
        range,
        excluded,
    }))
}

/// Harvester looks for whereabouts' pool by the address as written, and whereabouts names the pool after the address of the
/// network.
fn is_own_network(range: &str) -> Result<(), String> {
    let not_a_network = "its `range` is not a network; write it like 198.51.100.0/24";
    let (address, bits) = parse(range).ok_or(not_a_network)?;
    let own = own_address(address, bits);
    if own == address {
        return Ok(());
    }
    let expected = format!("{own}/{bits}");
    Err(format!(
        "its `range` is not the network's own address; write {expected}"
    ))
}

/// Like Go's `net.ParseCIDR`.
pub(super) fn parse(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

fn own_address(address: IpAddr, bits: u8) -> IpAddr {
    let free = |all: u32| all - u32::from(bits);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(free(u32::BITS)).unwrap_or_default();
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(free(u128::BITS)).unwrap_or_default();
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}
