//! Checks whether several nodes fit into one cluster of Harvester: one of them creates it, the others have its token and join at
//! its VIP, and each has a unique name and address.
//!
//! It compares only values in the configurations themselves, and never shows a token.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use windrow_inputs::extract::{FileKind, field, kind_of};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_model::reasons::{Code, Severity};

/// A node and its cluster according to its configuration, with positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The position of `install.mode: create`.
    founds: Option<Location>,
    /// True for `install.mode: join`.
    joins: bool,
    token: Option<(ClusterToken, Location)>,
    hostname: Option<(String, Location)>,
    /// Static address of the node.
    address: Option<(String, Location)>,
    /// Mask of its network.
    mask: Option<(String, Location)>,
    /// Static address of the cluster.
    vip: Option<(String, Location)>,
    server_url: Option<(String, Location)>,
}

/// The token is a secret that the nodes of one cluster share.
#[derive(Clone, PartialEq, Eq)]
struct ClusterToken(String);

impl fmt::Debug for ClusterToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClusterToken")
    }
}

impl NodeIdentity {
    /// Reads a configuration. `shown` is its name in messages.
    pub fn read(shown: &str, text: &str) -> Self {
        let is_harvester = kind_of(text) == FileKind::HarvesterConfig;
        let root = yaml::parse_configuration(text).ok().flatten();
        let Some(root) = root.filter(|_| is_harvester) else {
            return Self::default();
        };
        let value = |section: Option<&Node>, key: &str| {
            let node = field(section?, key)?;
            let text = match &node.value {
                NodeValue::String(text) => text.clone(),
                NodeValue::Number(number) => number.to_string(),
                _ => return None,
            };
            (!text.is_empty()).then(|| (text, Location::line(shown, node.line)))
        };
        let (os, install) = (field(&root, "os"), field(&root, "install"));
        let management = install.and_then(|install| field(install, "managementInterface"));
        let is = |section, key, word: &str| value(section, key).filter(|(text, _)| text == word);
        let founds = is(install, "mode", "create").map(|(_, at)| at);
        let is_static = is(management, "method", "static").is_some();
        let has_fixed_vip = founds.is_some() && is(install, "vipMode", "static").is_some();
        Self {
            joins: is(install, "mode", "join").is_some(),
            token: value(Some(&root), "token").map(|(token, at)| (ClusterToken(token), at)),
            hostname: value(os, "hostname"),
            address: value(management, "ip").filter(|_| is_static),
            mask: value(management, "subnetMask").filter(|_| is_static),
            vip: value(install, "vip").filter(|_| has_fixed_vip),
            server_url: value(Some(&root), "serverUrl"),
            founds,
        }
    }

    /// Adds the values of another file of the node.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            founds: self.founds.or(other.founds),
            joins: self.joins || other.joins,
            token: self.token.or(other.token),
            hostname: self.hostname.or(other.hostname),
            address: self.address.or(other.address),
            mask: self.mask.or(other.mask),
            vip: self.vip.or(other.vip),
            server_url: self.server_url.or(other.server_url),
        }
    }
}

/// The conflicts that prevent the nodes from forming one cluster.
pub fn conflicts(nodes: &[(&str, &NodeIdentity)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let founders = nodes
        .iter()
        .filter_map(|(name, one)| Some((*name, one.founds.clone()?)));
    let founders: Vec<(&str, Location)> = founders.collect();
    if founders.len() > 1 {
        let why = "each creates its own cluster (`install.mode: create`)";
        found.push(finding(Code::NodesDisagree.severity(), founders, why));
    }
    differing_tokens(nodes, &mut found);
    let of = |value: fn(&NodeIdentity) -> Option<&(String, Location)>| {
        let mut same: BTreeMap<String, Vec<(&str, Location)>> = BTreeMap::new();
        for (name, one) in nodes {
            if let Some((text, at)) = value(one) {
                let text = text.to_ascii_lowercase();
                same.entry(text).or_default().push((name, at.clone()));
            }
        }
        same.into_iter().filter(|(_, nodes)| nodes.len() > 1)
    };
    for (hostname, nodes) in of(|one| one.hostname.as_ref()) {
        let why = format!("each is called {hostname}, and RKE2 takes a name once");
        found.push(finding(Code::NodesDisagree.severity(), nodes, &why));
    }
    for (address, nodes) in of(|one| one.address.as_ref()) {
        let why = format!("each has the address {address}");
        found.push(finding(Code::NodesDisagree.severity(), nodes, &why));
    }
    other_servers(nodes, &mut found);
    taken_vip(nodes, &mut found);
    other_networks(nodes, &mut found);
    found
}

/// kube-vip binds the VIP on the management network, so no node can have it as its own (harvester/docs#175). The installer compares
/// only the values of one file.
fn taken_vip(nodes: &[(&str, &NodeIdentity)], found: &mut Vec<Finding>) {
    for (founder, own) in nodes {
        let Some((vip, vip_at)) = &own.vip else {
            continue;
        };
        for (name, one) in nodes.iter().filter(|(name, _)| name != founder) {
            let Some((_, at)) = one.address.as_ref().filter(|(address, _)| address == vip) else {
                continue;
            };
            let both = vec![(*founder, vip_at.clone()), (*name, at.clone())];
            let why = format!("the VIP {vip} is also the address of {name}");
            found.push(finding(Code::NodesDisagree.severity(), both, &why));
        }
    }
}

/// A node in another network than the first one reaches it through routers, and never takes the VIP over: it is announced with ARP.
fn other_networks(nodes: &[(&str, &NodeIdentity)], found: &mut Vec<Finding>) {
    let Some((founder, own)) = nodes.iter().find(|(_, one)| one.founds.is_some()) else {
        return;
    };
    let network = |one: &NodeIdentity| {
        let (address, at) = one.address.as_ref()?;
        let mask: Ipv4Addr = one.mask.as_ref()?.0.parse().ok()?;
        let address: Ipv4Addr = address.parse().ok()?;
        let bits = mask.to_bits();
        let is_mask = bits.leading_ones() == bits.count_ones();
        is_mask.then(|| (address.to_bits() & bits, bits, at.clone()))
    };
    let Some((first, mask, first_at)) = network(own) else {
        return;
    };
    for (name, one) in nodes.iter().filter(|(_, one)| one.joins) {
        let Some((other, other_mask, at)) = network(one) else {
            continue;
        };
        if (other & mask) == first || (first & other_mask) == other {
            continue;
        }
        let both = vec![(*founder, first_at.clone()), (*name, at)];
        let why = "their addresses are in different networks: nodes need routes to each other, and the VIP cannot move to the other network";
        found.push(finding(Severity::Warning, both, why));
    }
}

/// A joining node needs the token of the node that creates the cluster. If that one is not in the input, all nodes need the same
/// token.
fn differing_tokens(nodes: &[(&str, &NodeIdentity)], found: &mut Vec<Finding>) {
    let known = |one: &&(&str, &NodeIdentity)| one.1.token.is_some();
    let founder = nodes
        .iter()
        .filter(known)
        .find(|(_, one)| one.founds.is_some());
    let first = founder.or_else(|| nodes.iter().filter(known).find(|(_, one)| one.joins));
    let Some((first, own)) = first else { return };
    let Some((token, at)) = &own.token else {
        return;
    };
    let others = nodes.iter().filter_map(|(name, one)| {
        let (theirs, at) = one.token.as_ref().filter(|_| one.joins)?;
        (theirs != token).then(|| (*name, at.clone()))
    });
    let mut differing = vec![(*first, at.clone())];
    differing.extend(others);
    if differing.len() > 1 {
        let why = "their `token` differs, and joining nodes need that of the first node";
        found.push(finding(Code::NodesDisagree.severity(), differing, why));
    }
}

/// A node may join at an address that belongs neither to the cluster nor to a node, for example at a load balancer.
fn other_servers(nodes: &[(&str, &NodeIdentity)], found: &mut Vec<Finding>) {
    let mut founders = nodes.iter().filter(|(_, one)| one.founds.is_some());
    let (Some((founder, own)), None) = (founders.next(), founders.next()) else {
        return;
    };
    let Some((vip, vip_at)) = &own.vip else {
        return;
    };
    for (name, one) in nodes.iter().filter(|(_, one)| one.joins) {
        let Some((url, at)) = &one.server_url else {
            continue;
        };
        let Some(address) = address_of(url) else {
            continue;
        };
        let is = |known: &str| known.parse() == Ok(address);
        let mut addresses = nodes.iter().filter_map(|(_, one)| one.address.as_ref());
        if is(vip) || addresses.any(|(known, _)| is(known)) {
            continue;
        }
        let both = vec![(*founder, vip_at.clone()), (*name, at.clone())];
        let why = format!("`server_url` names {address}, and the VIP is {vip}");
        found.push(finding(Severity::Warning, both, &why));
    }
}

/// The address in a URL; `None` if it is a name.
fn address_of(url: &str) -> Option<IpAddr> {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    host.parse().ok()
}

fn finding(severity: Severity, nodes: Vec<(&str, Location)>, why: &str) -> Finding {
    let (names, at): (Vec<&str>, Vec<Location>) = nodes.into_iter().unzip();
    let names = names.join(" and ");
    Finding {
        incident: None,
        code: Code::NodesDisagree,
        severity,
        message: Code::NodesDisagree.say(&[("nodes", &names), ("why", why)]),
        at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(mode: &str, token: &str, name: &str, ip: &str, more: &str) -> NodeIdentity {
        let text = format!(
            "scheme_version: 1\ntoken: {token}\n{more}os: {{hostname: {name}}}\ninstall:\n  mode: {mode}\n  vip: 10.0.0.9\n  vip_mode: static\n  management_interface: {{method: static, ip: {ip}}}\n"
        );
        NodeIdentity::read("c.yaml", &text)
    }

    fn said(nodes: &[NodeIdentity]) -> Vec<String> {
        let names = ["n1", "n2", "n3"];
        let nodes: Vec<_> = names.into_iter().zip(nodes).collect();
        let found = conflicts(&nodes).into_iter();
        found
            .map(|one| format!("{:?} {} {}", one.severity, one.at.len(), one.message))
            .collect()
    }

    const URL: &str = "server_url: https://10.0.0.9:443\n";

    #[test]
    fn nodes_that_make_one_cluster_are_not_found() {
        let first = node("create", "t", "a", "10.0.0.1", "");
        let second = node("join", "t", "b", "10.0.0.2", URL);
        let named = node(
            "join",
            "t",
            "c",
            "10.0.0.3",
            "server_url: https://harvester.example\n",
        );
        assert_eq!(said(&[first, second, named]), [""; 0]);
        assert_eq!(
            said(&[NodeIdentity::default(), NodeIdentity::default()]),
            [""; 0]
        );
    }

    #[test]
    fn the_vip_is_no_nodes_address_and_a_node_of_another_network_is_a_warning() {
        let first = || {
            node(
                "create",
                "t",
                "a",
                "10.0.0.1, subnet_mask: 255.255.255.0",
                "",
            )
        };
        let found = said(&[first(), node("join", "t", "b", "10.0.0.9", URL)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("Error 2") && found[0].contains("VIP 10.0.0.9"),
            "{found:?}"
        );
        let other = node(
            "join",
            "t",
            "b",
            "10.9.9.2, subnet_mask: 255.255.255.0",
            URL,
        );
        let found = said(&[first(), other]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("Warning 2"), "{found:?}");
        for beside in [
            "10.0.0.2, subnet_mask: 255.255.255.0",
            "10.0.0.2, subnet_mask: 255.255.0.0",
            "10.9.9.2",
        ] {
            let node = node("join", "t", "b", beside, URL);
            assert_eq!(said(&[first(), node]), [""; 0], "{beside}");
        }
    }

    #[test]
    fn two_founders_another_token_and_names_and_addresses_that_are_taken_are_found() {
        let first = || node("create", "secret-1", "a", "10.0.0.1", "");
        let founders = said(&[first(), node("create", "secret-2", "b", "10.0.0.2", "")]);
        assert_eq!(founders.len(), 1, "{founders:?}");
        assert!(founders[0].contains("Error 2 n1 and n2"), "{founders:?}");
        assert!(
            founders[0].contains("`install.mode: create`"),
            "{founders:?}"
        );

        let url = "server_url: https://10.99.0.1:443\n";
        let all = said(&[first(), node("join", "secret-2", "A", "10.0.0.1", url)]);
        let parts = [
            "`token` differs",
            "called a",
            "address 10.0.0.1",
            "the VIP is 10.0.0.9",
        ];
        assert_eq!(all.len(), parts.len(), "{all:?}");
        for (text, part) in all.iter().zip(parts) {
            assert!(text.contains(part) && !text.contains("secret"), "{text}");
        }
        assert!(all[3].starts_with("Warning"), "{all:?}");
        let identity = first();
        assert!(!format!("{identity:?}").contains("secret"), "{identity:?}");
    }
}
