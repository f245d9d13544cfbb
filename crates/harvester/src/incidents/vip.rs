//! The VIP at a hardware address that belongs to no node, or on a node that is not kube-vip's leader. A server finds this in its
//! own network, without any permissions.
//!
//! kube-vip adds a static VIP to the management link. A VIP from DHCP gets a separate link below it, named `vip-` and the first
//! eight characters of the UID of its Service (kube-vip v1.0.4 `pkg/instance/instance.go`). On every leader this link has the
//! hardware address in the ConfigMap `vip`. The leader holds the Lease `plndr-svcs-lock`.

use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use super::own::{OwnNode, node};
use crate::network::{MacAddress, NetworkLink};
use crate::objects::{ObjectKind, Objects, Unlisted, items, named, text};

const NAMESPACE: &str = "harvester-system";
const LOCK: &str = "plndr-svcs-lock";
/// How long another node must be the leader: removing a link is quick.
const SETTLED: SignedDuration = SignedDuration::from_mins(2);
/// The leader renews its Lease every few seconds. The rest allows for clock differences.
const RENEWED: SignedDuration = SignedDuration::from_mins(1);

/// The VIP in Harvester, and its ConfigMap.
fn vip(objects: &Objects) -> Result<Option<(Ipv4Addr, &Value)>, Unlisted> {
    let found = objects.get(ObjectKind::CONFIG_MAP, NAMESPACE, "vip")?;
    Ok(found.and_then(|vip| Some((text(vip, "/data/ip").parse().ok()?, vip))))
}

/// A host that is not a node answers for the VIP. If the links of the nodes are not listed, this is a conclusion and not a proof:
/// a node may answer with the hardware address of another link.
pub(super) fn conflict(
    own: &OwnNode,
    objects: &Objects,
    _: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let neighbours = &own.network.neighbours;
    if neighbours.is_empty() {
        return Ok(Vec::new());
    }
    let Some((address, config)) = vip(objects)? else {
        return Ok(Vec::new());
    };
    let of_kube_vip = text(config, "/data/hwAddress");
    let mut heard = neighbours.iter().filter(|one| one.address == address);
    let Some(heard) = heard.find(|one| of_kube_vip.parse() != Ok(one.mac)) else {
        return Ok(Vec::new());
    };
    let Some(nodes) = other_nodes(own, objects, heard.mac)? else {
        return Ok(Vec::new());
    };
    if is_a_nodes(heard.mac, objects.all(ObjectKind::LINK_MONITOR)?) {
        return Ok(Vec::new());
    }
    let why = format!("{} answers on {}", heard.mac, heard.link);
    let seen = format!("{address} at {}", heard.mac);
    let finding = IncidentFinding::new(Code::VipConflict, format!("VIP {address}"), &why)
        .seen([
            Evidence::new(node(own), "neighbour table", seen),
            Evidence::new(
                format!("ConfigMap {}", named(config)),
                "data.hwAddress",
                of_kube_vip,
            ),
        ])
        .seen(nodes);
    Ok(vec![finding])
}

/// The hardware addresses of the other nodes; `None` if one of them has the VIP.
fn other_nodes(
    own: &OwnNode,
    objects: &Objects,
    has_vip: MacAddress,
) -> Result<Option<Vec<Evidence>>, Unlisted> {
    let (mut heard, mut unheard) = (Vec::new(), Vec::new());
    for node in objects.all(ObjectKind::NODE)? {
        let addresses: Vec<Ipv4Addr> = internal_addresses(node).collect();
        let is_ours = |link: &NetworkLink| addresses.iter().any(|address| link.has(*address));
        if own.network.links.iter().any(is_ours) {
            continue;
        }
        let name = text(node, "/metadata/name");
        let neighbours = own.network.neighbours.iter();
        let mut of_node = neighbours.filter(|one| addresses.contains(&one.address));
        match of_node.next() {
            Some(one) if one.mac == has_vip => return Ok(None),
            Some(one) => heard.push(Evidence::new(
                format!("Node {name}"),
                format!("hardware address of {}", one.address),
                one.mac.to_string(),
            )),
            None => unheard.push(name),
        }
        if of_node.any(|one| one.mac == has_vip) {
            return Ok(None);
        }
    }
    match unheard.is_empty() {
        true => Ok(Some(heard)),
        false => Err(Unlisted {
            kind: ObjectKind::NODE.group_kind(),
            why: format!(
                "{has_vip} has the VIP, and this node has not heard from {}",
                unheard.join(", ")
            ),
            wanted: false,
        }),
    }
}

/// Whether any link of a node has this hardware address. With Linux's default (`arp_ignore=0`), a node with two links in one
/// network answers for all of its addresses on both links. Harvester's network controller lists the links of all nodes
/// (network-controller-harvester `pkg/controller/agent/linkmonitor`, v0.5.0 to v1.9.0-rc6, its LinkMonitor `nic`).
fn is_a_nodes(mac: MacAddress, monitors: &[Value]) -> bool {
    let of_monitor = |monitor: &Value| {
        let nodes = monitor
            .pointer("/status/linkStatus")
            .and_then(Value::as_object);
        let links = nodes.into_iter().flat_map(|nodes| nodes.values());
        let mut links = links.filter_map(Value::as_array).flatten();
        links.any(|link| text(link, "/mac").parse() == Ok(mac))
    };
    monitors.iter().any(of_monitor)
}

/// The IPv4 addresses of this node for other nodes.
fn internal_addresses(node: &Value) -> impl Iterator<Item = Ipv4Addr> + '_ {
    let addresses = items(node, "/status/addresses").iter();
    addresses
        .filter(|one| text(one, "/type") == "InternalIP")
        .filter_map(|one| text(one, "/address").parse().ok())
}

/// This node has the VIP although another node leads: kube-vip did not remove it (harvester#11122, harvester#7293). Two hosts
/// then answer for it.
pub(super) fn stale(
    own: &OwnNode,
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let links = &own.network.links;
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let address = vip(objects)?.map(|(address, _)| address);
    let left: Vec<&NetworkLink> = links
        .iter()
        .filter(|link| link.running)
        .filter(|link| is_of_kube_vip(&link.name) || address.is_some_and(|vip| link.has(vip)))
        .collect();
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let Some(lease) = objects.get(ObjectKind::LEASE, NAMESPACE, LOCK)? else {
        return Ok(Vec::new());
    };
    let since = |field: &str| -> Option<SignedDuration> {
        let at: Timestamp = text(lease, field).parse().ok()?;
        Some(now.duration_since(at))
    };
    let leader = text(lease, "/spec/holderIdentity");
    let leads = since("/spec/renewTime").is_some_and(|renewed| renewed < RENEWED);
    let settled = since("/spec/acquireTime").is_some_and(|led| led >= SETTLED);
    let another = !leader.is_empty() && !leader.eq_ignore_ascii_case(&own.name);
    if !(another && leads && settled) {
        return Ok(Vec::new());
    }
    let lease_name = format!("Lease {}", named(lease));
    let of_lease = |field: &str| {
        let value = text(lease, &format!("/spec/{field}"));
        Evidence::new(&lease_name, format!("spec.{field}"), value)
    };
    let findings = left.into_iter().map(|link| {
        let why = format!("{} is up here, and {leader} leads kube-vip", link.name);
        let mut finding = IncidentFinding::new(Code::VipStaleLink, node(own), &why).seen([
            Evidence::new(node(own), format!("link {}", link.name), addresses(link)),
            of_lease("holderIdentity"),
            of_lease("acquireTime"),
        ]);
        finding.proof.push(
            "kube-vip removes only addresses that it has added since its own start".to_owned(),
        );
        finding
    });
    Ok(findings.collect())
}

fn is_of_kube_vip(link: &str) -> bool {
    link.strip_prefix("vip-")
        .is_some_and(|uid| uid.len() == 8 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn addresses(link: &NetworkLink) -> String {
    let addresses = link.addresses.iter();
    let shown = addresses.map(|(address, prefix)| format!(" {address}/{prefix}"));
    format!("{}{}", link.mac, shown.collect::<String>())
}
