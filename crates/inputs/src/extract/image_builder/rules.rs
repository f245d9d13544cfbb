//! The validation of Edge Image Builder: rules about single values are data (`data/image-builder.yaml`), those about several
//! values are here. Source: `pkg/image/validation` of suse-edge/edge-image-builder v1.3.3.
//!
//! Not checked: whether the base image exists, the form of a registry's address, and the RPMs of Elemental.

mod helm;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windrow_model::manifest::yaml;

use super::super::types::IMAGE_BUILDER;
use super::super::{Node, NodeValue, Problem};
use super::{SERVER, text};
use crate::extract::FilesBeside;
use crate::input_types::ValueRule;

const ELEMENTAL: &str = "elemental";
const ELEMENTAL_FILE: &str = "elemental_config.yaml";

/// A broken rule: its line, and a clause.
type Broken = (u32, String);

/// The rules that a definition breaks.
pub(super) fn problems(root: &Node, version: &str, beside: &dyn FilesBeside) -> Vec<Problem> {
    let mut broken: Vec<Broken> = Vec::new();
    let kubernetes = root.get("kubernetes");
    let has_cluster = !word(kubernetes, "version").is_empty();
    for rule in &IMAGE_BUILDER.rules {
        if !rule.cluster || has_cluster {
            values(rule, root, version, &mut broken);
        }
    }
    operating_system(root, &mut broken);
    if let Some(kubernetes) = kubernetes.filter(|_| has_cluster) {
        nodes(kubernetes, &mut broken);
        network(kubernetes, &mut broken);
        server(kubernetes, beside, &mut broken);
        helm::check(kubernetes, beside, &mut broken);
    }
    elemental(root, beside, &mut broken);
    let refused = broken
        .into_iter()
        .map(|(line, why)| super::refused(line, &why));
    refused.collect()
}

/// The values at a path, each with the line to report.
fn at<'n>(root: &'n Node, path: &str) -> Vec<&'n Node> {
    let mut found = vec![root];
    for part in path.split('.') {
        let (key, is_list) = match part.strip_suffix("[]") {
            Some(key) => (key, true),
            None => (part, false),
        };
        let below = found.into_iter().filter_map(|node| node.get(key));
        found = match is_list {
            true => below.flat_map(Node::items).collect(),
            false => below.collect(),
        };
    }
    found
}

fn values(rule: &ValueRule, root: &Node, version: &str, broken: &mut Vec<Broken>) {
    let name = &rule.at;
    let mut seen = HashSet::new();
    for node in at(root, name) {
        let (value, line) = (text(node), node.line);
        if !rule.required.is_empty() && !node.entries().is_empty() {
            for key in &rule.required {
                let path: Vec<&str> = key.split('.').collect();
                if node.at(&path).is_none_or(is_empty) {
                    broken.push((line, format!("`{name}.{key}` is missing")));
                }
            }
        }
        let fits = |known: &String| match rule.any_case {
            true => known.eq_ignore_ascii_case(value),
            false => known == value,
        };
        if !rule.one_of.is_empty() && !value.is_empty() && !rule.one_of.iter().any(fits) {
            let known = rule.one_of.join(" or ");
            broken.push((line, format!("`{name}` must be {known}, not {value}")));
        }
        if rule.unique && !value.is_empty() && !seen.insert(value) {
            // An address may have a password.
            broken.push((
                line,
                match value.contains("://") {
                    true => format!("two items have the same `{name}`"),
                    false => format!("`{name}` has {value} twice"),
                },
            ));
        }
        if !rule.begins.is_empty() && !rule.begins.iter().any(|begin| value.starts_with(begin)) {
            let known = rule.begins.join(" or ");
            broken.push((line, format!("an item of `{name}` must begin with {known}")));
        }
        if let Some(since) = &rule.since
            && version < since.as_str()
            && !is_empty(node)
        {
            broken.push((
                line,
                format!("`{name}` is part of definitions from {since} on; raise `apiVersion`"),
            ));
        }
    }
}

/// Whether a value is the one that Go has without it.
fn is_empty(node: &Node) -> bool {
    match &node.value {
        NodeValue::Null | NodeValue::Bool(false) => true,
        NodeValue::Bool(true) => false,
        NodeValue::Number(number) => number.as_f64() == Some(0.0),
        NodeValue::String(text) => text.is_empty(),
        NodeValue::Sequence(items) => items.is_empty(),
        NodeValue::Mapping(entries) => entries.is_empty(),
    }
}

fn word<'n>(node: Option<&'n Node>, key: &str) -> &'n str {
    node.and_then(|node| node.get(key)).map_or("", text)
}

fn is_set(node: &Node, key: &str) -> bool {
    node.get(key).is_some_and(|value| !is_empty(value))
}

fn operating_system(root: &Node, broken: &mut Vec<Broken>) {
    let Some(system) = root.get("operatingSystem") else {
        return;
    };
    let mut keys = HashSet::new();
    for argument in system.list("kernelArgs") {
        let written = text(argument);
        let (key, value) = written.split_once('=').unwrap_or((written, "-"));
        if key.is_empty() || value.is_empty() {
            let why = "an item of `operatingSystem.kernelArgs` is not key=value";
            broken.push((argument.line, why.to_owned()));
        } else if (key, value) == ("fips", "1") && !is_set(system, "enableFIPS") {
            let why = "it takes fips=1 only as `operatingSystem.enableFIPS: true`";
            broken.push((argument.line, why.to_owned()));
        }
        if !keys.insert(key) {
            broken.push((
                argument.line,
                format!("`operatingSystem.kernelArgs` has {key} twice"),
            ));
        }
    }
    let disabled = at(system, "systemd.disable[]");
    for unit in at(system, "systemd.enable[]") {
        if disabled.iter().any(|other| text(other) == text(unit)) {
            let why = format!("the unit {} is both enabled and disabled", text(unit));
            broken.push((unit.line, why));
        }
    }
    for user in system.list("users") {
        let name = word(Some(user), "username");
        let has_keys = is_set(user, "sshKeys");
        if !has_keys && !is_set(user, "encryptedPassword") {
            broken.push((
                user.line,
                format!("the user {name} has neither `encryptedPassword` nor `sshKeys`"),
            ));
        }
        if has_keys && !is_set(user, "createHomeDir") {
            broken.push((
                user.line,
                format!("the user {name} has `sshKeys` and needs `createHomeDir: true`"),
            ));
        }
    }
    if let Some(host) = system.at(&["suma", "host"])
        && text(host).starts_with("http")
    {
        let why = "`operatingSystem.suma.host` must have no http:// or https://";
        broken.push((host.line, why.to_owned()));
    }
    let packages = system.get("packages");
    for repository in packages.map_or(&[][..], |packages| packages.list("additionalRepos")) {
        if let Some(priority) = repository.get("priority")
            && let NodeValue::Number(number) = &priority.value
            && !number
                .as_f64()
                .is_some_and(|number| (0.0..=99.0).contains(&number))
        {
            let why = "`priority` of a repository must be from 0 to 99";
            broken.push((priority.line, why.to_owned()));
        }
    }
    for package in packages.map_or(&[][..], |packages| packages.list("packageList")) {
        if is_empty(package) {
            let why = "`operatingSystem.packages.packageList` has an empty item";
            broken.push((package.line, why.to_owned()));
        }
    }
    disks(root, system, broken);
    if let Some(ntp) = system.at(&["time", "ntp"])
        && is_set(ntp, "forceWait")
        && !is_set(ntp, "pools")
        && !is_set(ntp, "servers")
    {
        let why = "`operatingSystem.time.ntp.forceWait` needs `pools` or `servers`";
        broken.push((ntp.line, why.to_owned()));
    }
    if let Some(fips) = system.get("enableFIPS")
        && fips.as_bool() == Some(true)
    {
        let from = packages.is_some_and(|packages| {
            is_set(packages, "sccRegistrationCode") || is_set(packages, "additionalRepos")
        });
        if !from {
            let why = "`operatingSystem.enableFIPS` needs `packages.sccRegistrationCode` or `packages.additionalRepos`";
            broken.push((fips.line, why.to_owned()));
        }
    }
}

fn disks(root: &Node, system: &Node, broken: &mut Vec<Broken>) {
    let kind = root.at(&["image", "imageType"]).map_or("", text);
    let is_iso = kind.eq_ignore_ascii_case("iso");
    if let Some(device) = system.at(&["isoConfiguration", "installDevice"])
        && !is_iso
        && !is_empty(device)
    {
        let why = "`isoConfiguration.installDevice` is only for `imageType: iso`";
        broken.push((device.line, why.to_owned()));
    }
    let Some(raw) = system.get("rawConfiguration") else {
        return;
    };
    for key in ["luksKey", "expandEncryptedPartition", "diskSize"] {
        if let Some(value) = raw.get(key).filter(|value| is_iso && !is_empty(value)) {
            let why = format!("`rawConfiguration.{key}` is only for `imageType: raw`");
            broken.push((value.line, why));
        }
    }
    if is_iso {
        return;
    }
    if is_set(raw, "expandEncryptedPartition") && !is_set(raw, "luksKey") {
        let why = "`rawConfiguration.expandEncryptedPartition` needs `luksKey`";
        broken.push((raw.line, why.to_owned()));
    }
    if let Some(size) = raw.get("diskSize").filter(|size| !is_empty(size))
        && !is_disk_size(text(size))
    {
        let why = "`rawConfiguration.diskSize` must be a whole number with M, G or T behind it";
        broken.push((size.line, why.to_owned()));
    }
}

/// Like `^([1-9]\d+|[1-9])+([MGT])`, which accepts anything after the unit.
fn is_disk_size(size: &str) -> bool {
    let unit = size.find(|ch: char| !ch.is_ascii_digit());
    unit.is_some_and(|at| at > 0 && size[at..].starts_with(['M', 'G', 'T']))
        && !size.starts_with('0')
}

/// A cluster of one node needs none in the list.
fn nodes(kubernetes: &Node, broken: &mut Vec<Broken>) {
    let nodes = kubernetes.list("nodes");
    if nodes.len() < 2 {
        return;
    }
    let mut names = HashSet::new();
    let mut beginners = 0;
    for node in nodes {
        let (name, kind) = (word(Some(node), "hostname"), word(Some(node), "type"));
        if name.is_empty() {
            broken.push((node.line, "a node without `hostname`".to_owned()));
        } else if !names.insert(name) {
            broken.push((node.line, format!("two nodes have the hostname {name}")));
        }
        if !["server", "agent"].contains(&kind) {
            let why = format!("`type` of the node {name} must be server or agent");
            broken.push((node.line, why));
        }
        if is_set(node, "initializer") {
            beginners += 1;
            if kind == "agent" {
                let why = format!("the node {name} has `initializer`, so its type must be server");
                broken.push((node.line, why));
            }
            if beginners == 2 {
                broken.push((node.line, "two nodes have `initializer: true`".to_owned()));
            }
        }
    }
}

fn network(kubernetes: &Node, broken: &mut Vec<Broken>) {
    let Some(network) = kubernetes.get("network") else {
        return;
    };
    for key in ["apiVIP", "apiVIP6"] {
        let Some(node) = network.get(key).filter(|node| !is_empty(node)) else {
            continue;
        };
        let written = text(node);
        let why = match (key, address(written)) {
            _ if written.contains("${") => {
                format!("`{key}` still has the placeholder {written}; replace it")
            }
            (_, None) => format!("`{key}` is not a valid address: {written}"),
            ("apiVIP", Some(IpAddr::V6(_))) => format!("`{key}` must be an IPv4 address"),
            ("apiVIP6", Some(IpAddr::V4(_))) => format!("`{key}` must be an IPv6 address"),
            (_, Some(address)) if !is_global_unicast(address) => {
                format!("`{key}` cannot be the address of a node: {written}")
            }
            _ => continue,
        };
        broken.push((node.line, why));
    }
}

/// Like Go's `netip.ParseAddr`, which accepts the zone of an IPv6 address.
fn address(written: &str) -> Option<IpAddr> {
    match written.split_once('%') {
        Some((address, zone)) if !zone.is_empty() => {
            address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
        }
        _ => written.parse().ok(),
    }
}

/// Like Go's `netip.Addr.IsGlobalUnicast`.
fn is_global_unicast(address: IpAddr) -> bool {
    let not_one = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !not_one
        && match address {
            IpAddr::V4(address) => address != Ipv4Addr::BROADCAST && !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        }
}

/// RKE2's configuration for the servers.
fn server(kubernetes: &Node, beside: &dyn FilesBeside, broken: &mut Vec<Broken>) {
    let of = |key: &str| {
        kubernetes
            .at(&["network", key])
            .filter(|node| !is_empty(node))
    };
    let dual = of("apiVIP").zip(of("apiVIP6")).map(|(node, _)| node.line);
    let line = dual.unwrap_or(kubernetes.line);
    let file = match beside.read(SERVER) {
        Ok(Some(file)) => file,
        Ok(None) => {
            if dual.is_some() {
                let why = format!(
                    "`apiVIP` and `apiVIP6` together need {SERVER} with `cluster-cidr` and `service-cidr`"
                );
                broken.push((line, why));
            }
            return;
        }
        Err(_) => return,
    };
    let text_of = String::from_utf8_lossy(&file.bytes);
    // The reader of the configuration reports its problems.
    let Ok(Some(server)) = yaml::parse_configuration(&text_of) else {
        return;
    };
    let servers = kubernetes.list("nodes").iter();
    let servers = servers.filter(|node| word(Some(node), "type") == "server");
    if !word(Some(&server), "node-ip").is_empty() && servers.count() > 1 {
        let why = format!("{SERVER} sets `node-ip`, which several servers cannot share");
        broken.push((line, why));
    }
    for key in ["cluster-cidr", "service-cidr"] {
        let written = word(Some(&server), key);
        let networks: Vec<&str> = written.split(',').filter(|one| !one.is_empty()).collect();
        if dual.is_some() && networks.len() != 2 {
            let why =
                format!("`apiVIP` and `apiVIP6` together need two networks in `{key}` of {SERVER}");
            broken.push((line, why));
        } else if networks.len() > 2 {
            broken.push((
                line,
                format!("`{key}` of {SERVER} has more than two networks"),
            ));
        }
        for network in networks {
            let parsed = network.split_once('/').and_then(|(ip, bits)| {
                bits.parse::<u8>().ok()?;
                address(ip)
            });
            if !parsed.is_some_and(is_global_unicast) {
                let why = format!("`{key}` of {SERVER} is not a network: {network}");
                broken.push((line, why));
            }
        }
    }
}

/// Elemental's registration, which is one file.
fn elemental(root: &Node, beside: &dyn FilesBeside, broken: &mut Vec<Broken>) {
    let Ok(Some(files)) = beside.below(ELEMENTAL) else {
        return;
    };
    if files != [ELEMENTAL_FILE] {
        let why = format!("the directory {ELEMENTAL} may contain only {ELEMENTAL_FILE}");
        broken.push((root.line, why));
    }
    let code = root.at(&["operatingSystem", "packages", "sccRegistrationCode"]);
    let has_packages = matches!(beside.below("rpms"), Ok(Some(names)) if !names.is_empty());
    if code.is_none_or(is_empty) && !has_packages && root.get("image").is_some() {
        let why = "Elemental needs `operatingSystem.packages.sccRegistrationCode`, or its RPMs in the directory rpms";
        broken.push((root.line, why.to_owned()));
    }
}
