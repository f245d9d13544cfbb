//! What the webhook of Harvester's network-controller refuses of ClusterNetworks, VlanConfigs and networks of VMs.
//!
//! Source: harvester/network-controller-harvester v0.5.6 (Harvester v1.4) to v1.8.2: `pkg/webhook/{nad,vlanconfig,clusternetwork}`,
//! `pkg/utils/{nad,bridge,mtu}.go`. Until the webhook runs, kube-apiserver accepts them, and they never work.

use std::net::IpAddr;

use serde_json::Value;
use windrow_model::manifest::Object;

use crate::path::Path;
use crate::problem::{Problem, Reason};
use crate::release::MinorRelease;

const SUFFIX: &str = "-br";
/// `MaxDeviceNameLen`, the longest name of a Linux interface.
const LONGEST_BRIDGE: usize = 15;
const LONGEST_NETWORK: usize = LONGEST_BRIDGE - SUFFIX.len();
const ROUTE: &str = "network.harvesterhci.io/route";
const CLUSTER_NETWORK: &str = "network.harvesterhci.io/clusternetwork";

pub(crate) fn judge(object: &Object, release: Option<MinorRelease>) -> Vec<Problem> {
    let id = &object.id;
    let mut problems = match (id.group.as_str(), id.kind.as_str()) {
        ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => attachment(object, release),
        ("network.harvesterhci.io", "VlanConfig") => Vec::from_iter(vlan_config(object, release)),
        ("network.harvesterhci.io", "ClusterNetwork") => {
            let line = object
                .node
                .at(&["metadata", "name"])
                .map_or(object.line, |node| node.line);
            let is_long = id.name.as_str().len() > LONGEST_NETWORK;
            let why = "at most 12 characters, because its bridge is named after it";
            let path = Path::ROOT.field("metadata");
            let problem = || Problem::invalid(line, &path.field("name"), Reason::TooLong, why);
            Vec::from_iter(is_long.then(problem))
        }
        _ => Vec::new(),
    };
    // It is another program that refuses them.
    for problem in &mut problems {
        problem.refusal = None;
    }
    problems
}

/// From v1.6 on, the label and the MTU are compared.
fn has_later_rules(release: Option<MinorRelease>) -> bool {
    release.is_none_or(|release| release >= (1, 6))
}

fn vlan_config(object: &Object, release: Option<MinorRelease>) -> Option<Problem> {
    let spec = object.node.get("spec")?;
    let path = Path::ROOT.field("spec");
    if let Some(network) = spec.get("clusterNetwork")
        && let Some(name) = network.as_str()
    {
        let path = path.field("clusterNetwork");
        if name == "mgmt" {
            let why = "Harvester manages the uplink of mgmt itself; name another cluster network";
            return Some(Problem::invalid(network.line, &path, Reason::Invalid, why));
        }
        if name.len() > LONGEST_NETWORK {
            let why = "at most 12 characters";
            return Some(Problem::invalid(network.line, &path, Reason::TooLong, why));
        }
    }
    let miimon = spec.at(&["uplink", "bondOptions", "miimon"]);
    if let Some(node) = miimon
        && node
            .to_json()
            .as_f64()
            .is_some_and(|number| number > f64::from(i32::MAX))
    {
        let path = path.field("uplink");
        let path = path.field("bondOptions");
        let why = "a number of milliseconds up to 2147483647";
        return Some(Problem::invalid(
            node.line,
            &path.field("miimon"),
            Reason::Invalid,
            why,
        ));
    }
    let mtu = spec.at(&["uplink", "linkAttributes", "mtu"])?;
    let number = mtu.to_json().as_i64()?;
    let fits = number == 0 || (576..=9000).contains(&number);
    let path = path.field("uplink");
    let path = path.field("linkAttributes");
    (has_later_rules(release) && !fits).then(|| {
        let why = "write 0 or a number from 576 to 9000";
        Problem::invalid(mtu.line, &path.field("mtu"), Reason::Invalid, why)
    })
}

fn attachment(object: &Object, release: Option<MinorRelease>) -> Vec<Problem> {
    let spec = Path::ROOT.field("spec");
    let config = object.node.at(&["spec", "config"]);
    let line = config.map_or(object.line, |node| node.line);
    let text = config.and_then(|node| node.as_str()).unwrap_or_default();
    let label = object.node.at(&["metadata", "labels"]);
    let label = label.and_then(|labels| labels.get(CLUSTER_NETWORK)?.as_str());
    let label = label.filter(|_| has_later_rules(release));
    let own = (object.id.namespace_or_default(), object.id.name.as_str());
    let mut problems = Vec::new();
    if let Err(why) = network_config(text, own, label) {
        let path = spec.field("config");
        problems.push(Problem::invalid(line, &path, Reason::Invalid, &why));
    }
    let metadata = Path::ROOT.field("metadata");
    let annotations = metadata.field("annotations");
    if let Some((route, line)) = object.annotation(ROUTE)
        && let Err(why) = layer_3(route)
    {
        let path = annotations.key(ROUTE);
        problems.push(Problem::invalid(line, &path, Reason::Invalid, why));
    }
    problems
}

/// Its own namespace and name, and the cluster network of its label.
fn network_config(text: &str, own: (&str, &str), label: Option<&str>) -> Result<(), String> {
    let config = match text {
        "" => Value::Object(serde_json::Map::new()),
        text => serde_json::from_str(text).map_err(|_| "it is not JSON".to_owned())?,
    };
    if !config.is_object() {
        return Err("it is not an object of JSON".to_owned());
    }
    let field = |name: &str| config.get(name).filter(|value| !value.is_null());
    let text_of = |name: &str| match field(name) {
        None => Ok(""),
        Some(value) => value
            .as_str()
            .ok_or_else(|| format!("`{name}` is not a string")),
    };
    if text_of("type")? == "kube-ovn" {
        let provider = text_of("provider")?;
        let expected = format!("{}.{}.ovn", own.1, own.0);
        return match provider == expected {
            true => Ok(()),
            false => Err(format!("`provider` has to be {expected}")),
        };
    }
    let whole = |value: &Value, name: &str, from: i64| match value.as_i64() {
        Some(number) if (from..=4094).contains(&number) => Ok(number),
        _ => Err(format!(
            "`{name}` is not a whole number from {from} to 4094"
        )),
    };
    if field("mtu").is_some_and(|mtu| mtu.as_i64().is_none()) {
        return Err("`mtu` is not a whole number".to_owned());
    }
    for name in [
        "forceAddress",
        "hairpinMode",
        "ipMasq",
        "isDefaultGateway",
        "isGateway",
        "promiscMode",
    ] {
        if field(name).is_some_and(|value| !value.is_boolean()) {
            return Err(format!("`{name}` is neither true nor false"));
        }
    }
    let vlan = field("vlan").map_or(Ok(0), |value| whole(value, "vlan", 0))?;
    if let Some(trunk) = field("vlanTrunk") {
        let ranges = trunk
            .as_array()
            .ok_or_else(|| "`vlanTrunk` is not a list".to_owned())?;
        if vlan != 0 && !ranges.is_empty() {
            return Err("`vlan` and `vlanTrunk` exclude each other".to_owned());
        }
        for range in ranges {
            let id = |name: &str| {
                let value = range.get(name).filter(|value| !value.is_null());
                value.map(|value| whole(value, name, 1)).transpose()
            };
            match (id("minID")?, id("maxID")?, id("id")?) {
                (None, None, None) => {
                    return Err(
                        "an entry of `vlanTrunk` has neither `id` nor `minID` and `maxID`"
                            .to_owned(),
                    );
                }
                (Some(_), None, _) | (None, Some(_), _) => {
                    return Err("`minID` and `maxID` of `vlanTrunk` belong together".to_owned());
                }
                (Some(from), Some(to), _) if to < from => {
                    return Err("`minID` of `vlanTrunk` is greater than `maxID`".to_owned());
                }
                _ => {}
            }
        }
    }
    let bridge = text_of("bridge")?;
    let network = bridge.strip_suffix(SUFFIX).unwrap_or_default();
    if network.is_empty() || bridge.len() > LONGEST_BRIDGE {
        return Err(format!(
            "`bridge` has to be the name of a cluster network and `{SUFFIX}`, for example mgmt{SUFFIX}"
        ));
    }
    match label {
        Some(label) if !label.is_empty() && label != network => Err(format!(
            "`bridge` is of the cluster network {network}, and the label {CLUSTER_NETWORK} names {label}"
        )),
        _ => Ok(()),
    }
}

/// `NewLayer3NetworkConf`.
fn layer_3(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Ok(());
    }
    let config: Value = serde_json::from_str(text).map_err(|_| "it is not JSON")?;
    let field = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_network = |text: &str| {
        let parts = text.split_once('/');
        parts.is_some_and(|(address, bits)| {
            let most = match address.parse::<IpAddr>() {
                Ok(IpAddr::V4(_)) => 32,
                Ok(IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            bits.parse::<u8>()
                .is_ok_and(|bits| (1..=most).contains(&bits))
        })
    };
    match field("mode") {
        "" | "auto" => Ok(()),
        "manual" if !is_network(field("cidr")) => Err("`cidr` is not a network"),
        "manual" if field("gateway").parse::<IpAddr>().is_err() => {
            Err("`gateway` is not an address")
        }
        "manual" => Ok(()),
        _ => Err("`mode` is neither auto nor manual"),
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::{self, FileContent, ReadLimits};

    use super::*;
    use crate::release::minor;

    fn problems(text: &str, release: Option<&str>) -> Vec<String> {
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        let objects: Vec<&Object> = file.objects().collect();
        let [object] = objects[..] else {
            panic!("{text}");
        };
        let found = judge(object, release.and_then(minor)).into_iter();
        found
            .map(|one| format!("{} {}", one.field, one.message))
            .collect()
    }

    fn attached(config: &str, metadata: &str) -> String {
        format!(
            "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n\
             metadata: {{name: vlan10, namespace: lab{metadata}}}\nspec: {{config: '{config}'}}\n"
        )
    }

    #[test]
    fn a_network_is_judged_as_the_webhook_judges_its_json() {
        for good in [
            r#"{"type":"bridge","bridge":"mgmt-br","vlan":10,"ipam":{}}"#,
            r#"{"bridge":"data-br"}"#,
            r#"{"type":"bridge","bridge":"data-br","vlanTrunk":[{"id":5},{"minID":10,"maxID":20}]}"#,
            r#"{"type":"kube-ovn","provider":"vlan10.lab.ovn"}"#,
        ] {
            assert_eq!(problems(&attached(good, ""), None), [""; 0], "{good}");
        }
        for bad in [
            "",
            "[]",
            r#"{"type":"bridge","bridge":"mgmt-b"#,
            r#"{"type":"bridge","bridge":"mgmt"}"#,
            r#"{"type":"bridge","bridge":"-br"}"#,
            r#"{"type":"bridge","bridge":"a-long-network-br"}"#,
            r#"{"type":"bridge","bridge":7}"#,
            r#"{"type":"macvlan","master":"eth0"}"#,
            r#"{"bridge":"mgmt-br","mtu":"9000"}"#,
            r#"{"bridge":"mgmt-br","promiscMode":"yes"}"#,
            r#"{"bridge":"mgmt-br","vlan":4095}"#,
            r#"{"bridge":"mgmt-br","vlan":"10"}"#,
            r#"{"bridge":"mgmt-br","vlan":-1}"#,
            r#"{"bridge":"mgmt-br","vlan":1,"vlanTrunk":[{"id":5}]}"#,
            r#"{"bridge":"mgmt-br","vlanTrunk":[{}]}"#,
            r#"{"bridge":"mgmt-br","vlanTrunk":[{"minID":5}]}"#,
            r#"{"bridge":"mgmt-br","vlanTrunk":[{"minID":5,"maxID":4}]}"#,
            r#"{"bridge":"mgmt-br","vlanTrunk":[{"id":0}]}"#,
            r#"{"type":"kube-ovn","provider":"vlan10.default.ovn"}"#,
        ] {
            let found = problems(&attached(bad, ""), None);
            assert!(
                matches!(&found[..], [one] if one.starts_with("spec.config ")),
                "{bad}: {found:?}"
            );
        }
    }

    #[test]
    fn the_label_is_compared_with_the_bridge_from_v1_6_on() {
        let labels = ", labels: {network.harvesterhci.io/clusternetwork: data}";
        let text = attached(r#"{"bridge":"mgmt-br"}"#, labels);
        assert_eq!(problems(&text, Some("v1.5.2")), [""; 0]);
        assert_eq!(problems(&text, Some("v1.6.0")).len(), 1);
        assert_eq!(problems(&text, None).len(), 1);
        let fits = attached(r#"{"bridge":"data-br"}"#, labels);
        assert_eq!(problems(&fits, None), [""; 0]);
    }

    #[test]
    fn a_route_has_a_mode_and_by_hand_a_network_and_a_gateway() {
        let route = |json: &str| {
            let metadata = format!(", annotations: {{network.harvesterhci.io/route: {json:?}}}");
            problems(&attached(r#"{"bridge":"mgmt-br"}"#, &metadata), None)
        };
        for good in [
            "",
            r#"{"mode":"auto"}"#,
            r#"{"mode":"manual","cidr":"10.1.0.0/24","gateway":"10.1.0.1"}"#,
        ] {
            assert_eq!(route(good), [""; 0], "{good}");
        }
        for bad in [
            "{",
            r#"{"mode":"static"}"#,
            r#"{"mode":"manual","cidr":"10.1.0.0","gateway":"10.1.0.1"}"#,
            r#"{"mode":"manual","cidr":"10.1.0.0/0","gateway":"10.1.0.1"}"#,
            r#"{"mode":"manual","cidr":"10.1.0.0/24","gateway":"10.1.0"}"#,
        ] {
            assert_eq!(route(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn an_uplink_has_a_network_of_its_own_and_an_mtu_in_range() {
        let uplink = |network: &str, mtu: &str, release| {
            let text = format!(
                "apiVersion: network.harvesterhci.io/v1beta1\nkind: VlanConfig\nmetadata: {{name: a}}\n\
                 spec: {{clusterNetwork: {network}, uplink: {{nics: [eth1], linkAttributes: {{mtu: {mtu}}}}}}}\n"
            );
            problems(&text, release)
        };
        assert_eq!(uplink("data", "9000", None), [""; 0]);
        assert_eq!(uplink("data", "0", None), [""; 0]);
        for (network, mtu) in [
            ("mgmt", "1500"),
            ("a-long-network", "1500"),
            ("data", "9001"),
            ("data", "100"),
        ] {
            assert_eq!(uplink(network, mtu, None).len(), 1, "{network} {mtu}");
        }
        assert_eq!(uplink("data", "9001", Some("v1.5.0")), [""; 0]);
        let long = "apiVersion: network.harvesterhci.io/v1beta1\nkind: ClusterNetwork\nmetadata: {name: a-long-network}\n";
        assert_eq!(problems(long, None).len(), 1);
    }
}
