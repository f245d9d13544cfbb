//! The networks of pods and of Services, as kube-apiserver and kube-controller-manager demand them. RKE2 passes them on without a look
//! (k3s `pkg/cli/server/server.go`, `pkg/daemons/control/server.go`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use windrow_model::findings::{Finding, Location};

use super::config::MergedConfig;
use super::keys::{stops, unintended, words};
use super::service_ranges::Network;
use super::written_keys::WrittenKey;
use crate::version::{Minor, Version};

/// The masks of a node's share of the pods' network (Kubernetes `cmd/kube-controller-manager/app/core.go`, v1.30 to v1.37).
const NODE_MASKS: (u8, u8) = (24, 64);
/// A node's mask has at most this many bits more than an IPv6 network of pods (`pkg/controller/nodeipam/ipam/cidrset`).
const IPV6_BITS: u8 = 16;
/// The bits for Services up to Kubernetes 1.33: later ones keep addresses as objects (`cmd/kube-apiserver/app/options/validation.go`;
/// `DisableAllocatorDualWrite` is on from 1.34 on).
const SERVICE_BITS: u8 = 20;

struct Networks {
    key: &'static str,
    /// The component that gets it.
    reader: &'static str,
    all: Vec<(Network, Location)>,
}

impl Networks {
    /// `None` without the key, and with a value that has its own finding.
    fn written(
        keys: &BTreeMap<String, WrittenKey>,
        (key, reader): (&'static str, &'static str),
    ) -> Option<Self> {
        let values = &keys.get(key)?.values;
        let all: Option<Vec<(Network, Location)>> = words(values)
            .map(|(word, at)| Some((Network::parse(word)?, at.clone())))
            .collect();
        all.filter(|all| !all.is_empty())
            .map(|all| Self { key, reader, all })
    }

    fn has(&self, is_ipv6: bool) -> bool {
        self.all.iter().any(|(one, _)| one.is_ipv6() == is_ipv6)
    }

    /// More than one of a family, which both components refuse.
    fn of_one_family(&self) -> Option<Finding> {
        let (second, at) = self.all.get(1)?;
        let is_fine = self.all.len() == 2 && second.is_ipv6() != self.all[0].0.is_ipv6();
        let (component, key) = (self.reader, self.key);
        let why = format!(
            "{component} does not start: `{key}` takes one network, or one of IPv4 and one of IPv6"
        );
        (!is_fine).then(|| stops(&why, at))
    }
}

pub(super) fn judge(
    keys: &BTreeMap<String, WrittenKey>,
    config: &MergedConfig,
    version: Option<Version>,
    found: &mut Vec<Finding>,
) {
    let pods = Networks::written(keys, ("cluster-cidr", "kube-controller-manager"));
    let services = Networks::written(keys, ("service-cidr", "kube-apiserver"));
    let families = [&pods, &services].into_iter().flatten();
    let wrong: Vec<Finding> = families.filter_map(Networks::of_one_family).collect();
    if !wrong.is_empty() {
        found.extend(wrong);
        return;
    }
    // The arguments count instead of the keys.
    let has = |list: &str, flag: &str| !config.flag(list, flag).is_empty();
    if has("kube-apiserver-arg", "service-cluster-ip-range")
        || has("kube-controller-manager-arg", "cluster-cidr")
    {
        return;
    }
    if let Some(services) = &services {
        too_large(services, version, found);
        too_small(services, keys, found);
    }
    if let Some(pods) = &pods {
        node_masks(pods, config, found);
    }
    for (networks, whose) in [(&pods, "pods"), (&services, "Services")] {
        let networks = networks.iter().flat_map(|networks| &networks.all);
        let networks: Vec<&Network> = networks.map(|(network, _)| network).collect();
        let addresses = keys.get("node-ip").map_or(&[][..], |key| &key.values);
        for (word, at) in words(addresses) {
            let address = word.trim().parse::<IpAddr>().ok();
            if address.is_some_and(|address| networks.iter().any(|one| one.contains(address))) {
                let why = format!("`node-ip` is in the network of {whose}");
                found.push(unintended(&why, at));
            }
        }
    }
    too_many_pods(keys, pods.as_ref(), config, found);
    if let Some(finding) = other_families(keys, pods.as_ref(), services.as_ref()) {
        found.push(finding);
        return;
    }
    let (Some(pods), Some(services)) = (pods, services) else {
        return;
    };
    for (service, at) in &services.all {
        if pods.all.iter().any(|(pod, _)| pod.overlaps(service)) {
            let why = "`service-cidr` and `cluster-cidr` overlap: a pod and a Service can get the same address";
            found.push(unintended(why, at));
        }
    }
}

/// More pods than a node has addresses for, with a CNI that takes them from the node's share (Canal, Flannel; Cilium as RKE2 installs it).
fn too_many_pods(
    keys: &BTreeMap<String, WrittenKey>,
    pods: Option<&Networks>,
    config: &MergedConfig,
    found: &mut Vec<Finding>,
) {
    // The network, its broadcast address, and that of the bridge.
    const TAKEN: u32 = 3;
    let cni = keys.get("cni").map_or(&[][..], |key| &key.values);
    // The network of the cluster is in the configuration of another server.
    if keys.contains_key("server") {
        return;
    }
    let has_other = words(cni).any(|(word, _)| ["calico", "none"].contains(&word.trim()));
    let has_ipv4 = pods.is_none_or(|pods| pods.has(false));
    let Some(item) = config.flag("kubelet-arg", "max-pods").pop() else {
        return;
    };
    let list = "kube-controller-manager-arg";
    let flags = ["node-cidr-mask-size", "node-cidr-mask-size-ipv4"];
    let mask = flags.iter().find_map(|flag| config.flag(list, flag).pop());
    let mask = match &mask {
        Some(mask) => mask.text.parse().ok(),
        None => Some(NODE_MASKS.0),
    };
    let room = mask
        .and_then(|mask: u8| 32_u32.checked_sub(mask.into()))
        .and_then(|bits| 1_u32.checked_shl(bits))
        .map(|all| all.saturating_sub(TAKEN));
    let wanted = item.text.parse::<u32>().ok();
    if let (Some(room), Some(wanted)) = (room, wanted)
        && !has_other
        && has_ipv4
        && wanted > room
    {
        let why = format!(
            "`max-pods` is {wanted}, and each node has {room} addresses for pods: write a smaller `node-cidr-mask-size` or fewer pods"
        );
        found.push(unintended(&why, &item.at));
    }
}

/// The IP versions of a list of networks or addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Families {
    is_first_ipv6: bool,
    is_dual: bool,
}

impl Families {
    fn of(versions: impl IntoIterator<Item = bool>) -> Option<Self> {
        let mut versions = versions.into_iter();
        let is_first_ipv6 = versions.next()?;
        let is_dual = versions.any(|is_ipv6| is_ipv6 != is_first_ipv6);
        Some(Self {
            is_first_ipv6,
            is_dual,
        })
    }
}

/// Networks and addresses of different IP versions, at which RKE2's agent ends (k3s `pkg/agent/run.go`) and kube-apiserver
/// (`validatePublicIPServiceClusterIPRangeIPFamilies`). Without keys, both networks have the version of the node's first address.
fn other_families(
    keys: &BTreeMap<String, WrittenKey>,
    pods: Option<&Networks>,
    services: Option<&Networks>,
) -> Option<Finding> {
    let of = |networks: Option<&Networks>| {
        networks
            .and_then(|networks| Families::of(networks.all.iter().map(|(one, _)| one.is_ipv6())))
    };
    let addresses = |key: &str| -> Option<(Families, Location)> {
        let key = keys.get(key)?;
        let parsed: Option<Vec<IpAddr>> = words(&key.values)
            .map(|(word, _)| word.trim().parse().ok())
            .collect();
        let families = Families::of(parsed?.iter().map(IpAddr::is_ipv6))?;
        Some((families, key.at.clone()?))
    };
    let node = addresses("node-ip");
    let of_node = |node: &(Families, Location)| Families {
        is_dual: false,
        ..node.0
    };
    let (of_pods, of_services) = (of(pods), of(services));
    let default = node.as_ref().map(of_node).or_else(|| {
        // Without an address, a network of one version says what the other one is.
        let written = of_pods.or(of_services)?;
        Some(Families {
            is_dual: false,
            ..written
        })
    })?;
    let (of_pods, of_services) = (of_pods.unwrap_or(default), of_services.unwrap_or(default));
    if of_pods != of_services {
        let networks = services.or(pods)?;
        let at = networks.all.first().map(|(_, at)| at)?;
        let why = "RKE2 ends: `cluster-cidr` and `service-cidr` must have the same IP versions, in the same order. Write both keys with IPv4, IPv6, or both";
        return Some(stops(why, at));
    }
    let (of_node, at) = node?;
    let has_all =
        of_node.is_dual || (!of_pods.is_dual && of_node.is_first_ipv6 == of_pods.is_first_ipv6);
    if !has_all {
        let why = "RKE2 ends: `node-ip` must have each IP version of `cluster-cidr`";
        return Some(stops(why, &at));
    }
    let is_told = keys.contains_key("advertise-address") || keys.contains_key("node-external-ip");
    if !is_told && of_node.is_first_ipv6 != of_services.is_first_ipv6 {
        let why = "kube-apiserver does not start: the first address of `node-ip` and the first network of `service-cidr` must have the same IP version";
        return Some(stops(why, &at));
    }
    None
}

fn too_large(services: &Networks, version: Option<Version>, found: &mut Vec<Finding>) {
    if version.is_none_or(|version| version.minor >= Minor::v1(34)) {
        return;
    }
    for (network, at) in &services.all {
        if network.host_bits() > SERVICE_BITS {
            let least = network.bits() + network.host_bits() - SERVICE_BITS;
            let why = format!(
                "kube-apiserver before 1.34 does not start with a `service-cidr` this large: its mask has to be at least /{least}"
            );
            found.push(stops(&why, at));
        }
    }
}

/// Services that have no room (`pkg/controlplane/apiserver/apis.go`, `ServiceIPRange`), or none for the tenth address, which RKE2 gives to
/// its DNS (k3s `pkg/cli/server/server.go`).
fn too_small(services: &Networks, keys: &BTreeMap<String, WrittenKey>, found: &mut Vec<Finding>) {
    for (network, at) in &services.all {
        let why = match network.host_bits() {
            0..=2 => "kube-apiserver does not start: `service-cidr` has fewer than 8 addresses",
            3 if !keys.contains_key("cluster-dns") => {
                "RKE2 does not start: `service-cidr` has no tenth address for `cluster-dns`"
            }
            _ => continue,
        };
        found.push(stops(why, at));
    }
}

/// What each node gets of the network.
fn node_masks(pods: &Networks, config: &MergedConfig, found: &mut Vec<Finding>) {
    let list = "kube-controller-manager-arg";
    // Without its controller nothing divides the network.
    let is_off = |flag: &str, words: &[&str]| {
        let items = config.flag(list, flag);
        let mut texts = items.iter().flat_map(|item| item.text.split(','));
        texts.any(|text| words.contains(&text.trim()))
    };
    if is_off("allocate-node-cidrs", &["false"])
        || is_off("controllers", &["-nodeipam", "-node-ipam-controller"])
    {
        return;
    }
    let mask = |flag: &str| {
        let item = config.flag(list, flag).pop()?;
        let mask: u8 = item.text.parse().ok().filter(|mask| *mask > 0)?;
        Some((mask, item.at))
    };
    let both = mask("node-cidr-mask-size");
    let (ipv4, ipv6) = (
        mask("node-cidr-mask-size-ipv4"),
        mask("node-cidr-mask-size-ipv6"),
    );
    if let Some((_, at)) = both.as_ref().filter(|_| pods.all.len() == 2) {
        let why = "kube-controller-manager does not start with `node-cidr-mask-size` and two networks in `cluster-cidr`: use `node-cidr-mask-size-ipv4` and `node-cidr-mask-size-ipv6`";
        found.push(stops(why, at));
        return;
    }
    for (flag, set, is_ipv6) in [("ipv4", &ipv4, false), ("ipv6", &ipv6, true)] {
        if let Some((_, at)) = set.as_ref().filter(|_| !pods.has(is_ipv6)) {
            let why = format!(
                "kube-controller-manager does not start with `node-cidr-mask-size-{flag}`: `cluster-cidr` has no such network"
            );
            found.push(stops(&why, at));
        }
    }
    for (network, at) in &pods.all {
        let (own, default) = match network.is_ipv6() {
            false => (&ipv4, NODE_MASKS.0),
            true => (&ipv6, NODE_MASKS.1),
        };
        let set = both.as_ref().or(own.as_ref()).map(|(mask, _)| *mask);
        let mask = set.unwrap_or(default);
        let of = match set {
            Some(_) => "",
            None => ", the default",
        };
        let bits = network.bits();
        if bits > mask {
            let why = format!(
                "kube-controller-manager does not start: each node gets a /{mask}{of}, and `cluster-cidr` is only a /{bits}"
            );
            found.push(stops(&why, at));
        } else if network.is_ipv6() && mask - bits > IPV6_BITS {
            let why = format!(
                "kube-controller-manager does not start: each node gets a /{mask}{of}, at most {IPV6_BITS} bits more than `cluster-cidr`, which is a /{bits}"
            );
            found.push(stops(&why, at));
        }
    }
}
