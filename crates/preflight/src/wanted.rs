//! The node that a machine is to become, from the command line and a Harvester configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_harvester::HarvesterVersion;
use windrow_harvester::network::MacAddress;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::file_kind::field;
use windrow_model::manifest::{Node, NodeValue};
use windrow_plan::rules::Platform;

/// Role of a planned node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlannedRole {
    /// The node runs the control plane, or may be promoted to it.
    Server,
    /// The node never runs the control plane.
    Worker,
    /// The node only keeps etcd's quorum.
    Witness,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredValue {
    pub text: String,
    pub at: Location,
}

/// A link of the management network, by its name, its hardware address, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedLink {
    pub name: Option<String>,
    pub mac: Option<Result<MacAddress, String>>,
    pub at: Location,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManagementLinks {
    pub links: Vec<WantedLink>,
    /// In bytes.
    pub mtu: Option<ConfiguredValue>,
    /// The static address of the node; `None` with DHCP.
    pub address: Option<ConfiguredValue>,
    pub dhcp: bool,
    /// The VLAN of the network; `None` if it is untagged.
    pub vlan: Option<u16>,
}

/// The VLANs for which the installer creates a link (`getManagementInterfaceName` in harvester-installer's
/// `pkg/console/network.go`). All others mean untagged.
const TAGGED: std::ops::RangeInclusive<u16> = 2..=4094;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskChoice {
    /// The disk of the system.
    pub device: Option<ConfiguredValue>,
    /// The disk of the data, if it is another one.
    pub data: Option<ConfiguredValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedNode {
    pub platform: Platform,
    /// `None` if unknown.
    pub harvester: Option<HarvesterVersion>,
    pub role: PlannedRole,
    pub production: bool,
    pub automatic: bool,
    pub skip_checks: bool,
    /// `None` if the node keeps the current host name.
    pub hostname: Option<ConfiguredValue>,
    pub disks: DiskChoice,
    pub management: ManagementLinks,
    /// The address of the cluster, if it is static and this node creates the cluster.
    pub vip: Option<ConfiguredValue>,
    pub name_servers: Vec<ConfiguredValue>,
    pub time_servers: Vec<ConfiguredValue>,
    /// The cluster to join.
    pub join: Option<ConfiguredValue>,
    /// The findings of Harvester's installer about the configuration; `None` without a configuration.
    pub configuration: Option<Vec<Finding>>,
}

impl WantedNode {
    pub fn bare(platform: Platform, role: PlannedRole) -> Self {
        Self {
            platform,
            harvester: None,
            role,
            production: false,
            automatic: false,
            skip_checks: false,
            hostname: None,
            disks: DiskChoice::default(),
            management: ManagementLinks::default(),
            vip: None,
            name_servers: Vec::new(),
            time_servers: Vec::new(),
            join: None,
            configuration: None,
        }
    }

    /// The release whose facts count: the newest known one if none is given.
    pub fn release(&self) -> HarvesterVersion {
        self.harvester.unwrap_or(HarvesterVersion::LATEST)
    }

    /// The addresses that must be free.
    pub fn addresses(&self) -> impl Iterator<Item = &ConfiguredValue> {
        self.vip.iter().chain(&self.management.address)
    }

    /// The names that the name servers must know.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let times = self.time_servers.iter();
        let join = self.join.iter().filter_map(|one| host_of(&one.text));
        let names = times.map(|one| one.text.as_str()).chain(join);
        names.filter(|name| name.parse::<std::net::IpAddr>().is_err())
    }
}

pub fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Reads a Harvester configuration in the same way as its installer.
pub fn harvester_node(file: &str, root: &Node) -> WantedNode {
    let reader = ConfigurationReader { file };
    let (os, install) = (field(root, "os"), field(root, "install"));
    let of = |section: Option<&Node>, key: &str| reader.text(section?, key);
    let role = of(install, "role");
    let role = match role.as_ref().map(|role| role.text.as_str()) {
        Some("worker") => PlannedRole::Worker,
        Some("witness") => PlannedRole::Witness,
        // All other roles can be promoted.
        _ => PlannedRole::Server,
    };
    let management = install.and_then(|install| field(install, "managementInterface"));
    let is_static = |value: Option<ConfiguredValue>| {
        value.is_some_and(|value| value.text.eq_ignore_ascii_case("static"))
    };
    let creates = of(install, "mode").is_none_or(|mode| mode.text == "create");
    let dhcp = !is_static(of(management, "method"));
    let device = of(install, "device");
    let is_same = |data: &ConfiguredValue| device.as_ref().is_some_and(|it| it.text == data.text);
    let data = of(install, "dataDisk").filter(|data| !data.text.is_empty() && !is_same(data));
    let fixed_vip = creates && is_static(of(install, "vipMode"));
    let mtu = of(management, "mtu").filter(|mtu| mtu.text != "0");
    let address = of(management, "ip");
    let vlan = of(management, "vlanId").and_then(|vlan| vlan.text.parse().ok());
    WantedNode {
        automatic: reader.is_true(install, "automatic"),
        skip_checks: reader.is_true(install, "skipchecks"),
        hostname: of(os, "hostname").filter(|name| !name.text.is_empty()),
        disks: DiskChoice { device, data },
        management: ManagementLinks {
            links: management.map_or_else(Vec::new, |node| reader.links(node)),
            mtu,
            address: address.filter(|_| !dhcp),
            dhcp,
            vlan: vlan.filter(|vlan| TAGGED.contains(vlan)),
        },
        vip: of(install, "vip").filter(|_| fixed_vip),
        name_servers: reader.texts(os, "dnsNameservers"),
        time_servers: reader.texts(os, "ntpServers"),
        join: reader.text(root, "serverUrl").filter(|_| !creates),
        ..WantedNode::bare(Platform::Harvester, role)
    }
}

/// Reads the host name and the time servers from cloud-init's user-data, for a node of plain RKE2.
pub fn cloud_init_node(file: &str, root: &Node) -> WantedNode {
    let reader = ConfigurationReader { file };
    let text = |key: &str| reader.value(root.get(key)?);
    let times = |key: &str| {
        let list = root.at(&["ntp", key]).map_or(&[][..], Node::items);
        list.iter().filter_map(|item| reader.value(item))
    };
    WantedNode {
        hostname: text("hostname").or_else(|| text("fqdn")),
        time_servers: times("servers").chain(times("pools")).collect(),
        ..WantedNode::bare(Platform::Rke2, PlannedRole::Server)
    }
}

struct ConfigurationReader<'f> {
    file: &'f str,
}

impl ConfigurationReader<'_> {
    fn at(&self, node: &Node) -> Location {
        Location::line(self.file, node.line)
    }

    fn value(&self, node: &Node) -> Option<ConfiguredValue> {
        let text = match &node.value {
            NodeValue::String(text) => text.clone(),
            NodeValue::Number(number) => number.to_string(),
            _ => return None,
        };
        Some(ConfiguredValue {
            text,
            at: self.at(node),
        })
    }

    fn text(&self, section: &Node, key: &str) -> Option<ConfiguredValue> {
        self.value(field(section, key)?)
    }

    fn texts(&self, section: Option<&Node>, key: &str) -> Vec<ConfiguredValue> {
        let list = section.and_then(|section| field(section, key));
        let items = list.map_or(&[][..], Node::items).iter();
        items.filter_map(|item| self.value(item)).collect()
    }

    fn is_true(&self, section: Option<&Node>, key: &str) -> bool {
        let value = section.and_then(|section| field(section, key));
        value.is_some_and(|value| matches!(value.value, NodeValue::Bool(true)))
    }

    fn links(&self, management: &Node) -> Vec<WantedLink> {
        let list = field(management, "interfaces");
        let links = list.map_or(&[][..], Node::items).iter();
        let link = |node: &Node| {
            let name = self.text(node, "name").map(|name| name.text);
            let mac = self.text(node, "hwAddr").map(|mac| mac.text);
            let name = name.filter(|name| !name.is_empty());
            let mac = mac.filter(|mac| !mac.is_empty()).map(|mac| mac.parse());
            (name.is_some() || mac.is_some()).then(|| WantedLink {
                name,
                mac,
                at: self.at(node),
            })
        };
        links.filter_map(link).collect()
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::yaml;

    use super::*;

    fn read(text: &str) -> WantedNode {
        harvester_node(
            "node.yaml",
            &yaml::parse_configuration(text).unwrap().unwrap(),
        )
    }

    #[test]
    fn a_configuration_says_what_a_machine_is_to_become_and_where() {
        let node = read(
            "\
schemeversion: 1
os:
  hostname: node1
  dnsNameservers: [10.0.0.2]
  ntp_servers: [time.example, 10.0.0.3]
install:
  mode: create
  automatic: true
  device: /dev/sda
  data_disk: /dev/sdb
  vip: 10.0.0.10
  vip_mode: static
  management_interface:
    method: static
    ip: 10.0.0.11
    mtu: 9000
    vlan_id: 100
    interfaces:
    - name: ens3
    - hwAddr: 52:54:00:00:00:01
",
        );
        let text = |value: &Option<ConfiguredValue>| {
            let value = value.as_ref().unwrap();
            format!("{} {}", value.text, value.at)
        };
        assert_eq!(text(&node.hostname), "node1 node.yaml:3");
        assert_eq!(text(&node.disks.device), "/dev/sda node.yaml:9");
        assert_eq!(text(&node.disks.data), "/dev/sdb node.yaml:10");
        assert_eq!(text(&node.vip), "10.0.0.10 node.yaml:11");
        assert_eq!(text(&node.management.mtu), "9000 node.yaml:16");
        assert_eq!(text(&node.management.address), "10.0.0.11 node.yaml:15");
        assert_eq!(node.management.links.len(), 2);
        assert_eq!(node.management.vlan, Some(100));
        assert_eq!(node.names().collect::<Vec<_>>(), ["time.example"]);
        assert_eq!(node.role, PlannedRole::Server);
        assert!(node.automatic && !node.skip_checks && !node.management.dhcp);
    }

    #[test]
    fn user_data_names_the_node_and_its_time_servers() {
        let text =
            "#cloud-config\nhostname: n1\nntp:\n  servers: [10.0.0.3]\n  pools: [pool.example]\n";
        let root = yaml::parse_configuration(text).unwrap().unwrap();
        let node = cloud_init_node("user-data", &root);
        assert_eq!(node.platform, Platform::Rke2);
        assert_eq!(
            node.hostname.as_ref().unwrap().at.to_string(),
            "user-data:2"
        );
        let times = node.time_servers.iter();
        let times: Vec<&str> = times.map(|one| one.text.as_str()).collect();
        assert_eq!(times, ["10.0.0.3", "pool.example"]);
    }

    #[test]
    fn a_node_that_joins_has_no_vip_of_its_own_and_a_disk_named_twice_is_one() {
        let node = read(
            "\
serverurl: https://[fd00::10]:443
install:
  mode: join
  role: witness
  device: /dev/sda
  dataDisk: /dev/sda
  vip: 10.0.0.10
  vipMode: static
",
        );
        assert_eq!((node.vip, node.disks.data), (None, None));
        assert_eq!(node.role, PlannedRole::Witness);
        let join = node.join.unwrap();
        assert_eq!(host_of(&join.text), Some("fd00::10"));
        assert_eq!(
            host_of("https://u:p@vip.example:443/x"),
            Some("vip.example")
        );
        assert!(node.management.dhcp);
    }
}
