//! The values that all servers of a cluster must have alike, and the tokens with which a node joins.
//!
//! A joining server compares its own critical values with those of the cluster, and ends if one differs (k3s-io/k3s
//! `pkg/daemons/config/types.go`, `CriticalControlArgs`, and `pkg/cluster/bootstrap.go`, `compareConfig`; 1.30 to 1.36).
//! Those of K3s that RKE2 drops (`flannel-*`, `disable-network-policy`, `disable-helm-controller`) are the same everywhere.

use std::collections::BTreeMap;
use std::fmt;

use windrow_model::findings::Location;

use super::config::Rke2ConfigFile;
use super::keys::{is_true, words};
use super::known_keys::is_of_servers;
use super::service_ranges::Network;
use super::value_form::host_and_port;
use super::written_keys::{WrittenKey, written};
use crate::version::Version;

/// Critical keys, each with RKE2's default.
const CRITICAL: [(&str, &str); 9] = [
    ("cluster-cidr", ""),
    ("cluster-dns", ""),
    ("cluster-domain", "cluster.local"),
    ("disable-cloud-controller", "false"),
    ("egress-selector-mode", "agent"),
    ("embedded-registry", "false"),
    ("enable-servicelb", "false"),
    ("service-cidr", ""),
    ("supervisor-metrics", "false"),
];
/// Keys by which each server installs RKE2's charts: with other values on another server, the charts change with the server that writes
/// them last (rke2 `pkg/bootstrap/bootstrap.go`, `Stage`).
const OF_CHARTS: [(&str, &str); 3] = [
    ("cni", "canal"),
    ("disable", ""),
    ("disable-kube-proxy", "false"),
];
/// The networks of pods and of Services without a key: they follow the family of the node's first address (k3s `pkg/util/net.go`,
/// `GetDefaultAddresses`).
const DEFAULT_NETWORKS: [(&str, &str, &str); 2] = [
    ("cluster-cidr", "10.42.0.0/16", "fd00:42::/56"),
    ("service-cidr", "10.43.0.0/16", "fd00:43::/112"),
];
/// The last minor in which every cloud provider replaces RKE2's own cloud controller (rke2 `pkg/rke2/rke2_linux.go`,
/// `initExecutor`, up to v1.35.7; gone in v1.36.0).
const EVERY_PROVIDER_UNTIL: u16 = 35;
/// Bundled cloud providers that replace RKE2's own cloud controller (rke2 `pkg/cli/cmds/root.go`, `cloudProviders`).
const WITH_CONTROLLER: [&str; 2] = ["harvester", "rancher-vsphere"];

/// RKE2's configuration of one node, as far as the other nodes of its cluster depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedValues {
    critical: BTreeMap<&'static str, (String, Location)>,
    /// Whether it names a server to join.
    pub joins: bool,
    /// Whether it has a key that only `rke2 server` reads.
    pub is_of_a_server: bool,
    token: Option<(JoinToken, Location)>,
    agent_token: Option<JoinToken>,
    place: Location,
    /// Whether the cluster keeps its data outside of the nodes.
    pub has_datastore: bool,
    charts: BTreeMap<&'static str, (String, Location)>,
    /// Its own name and addresses, as far as they are written.
    name: Option<(String, Location)>,
    addresses: Vec<(String, Location)>,
    /// The host of the server that it joins.
    server: Option<(String, Location)>,
    /// Whether a file has a token, so that the nodes cannot be compared.
    has_token_file: bool,
}

/// The secret part of a token. Never shown.
#[derive(Clone, PartialEq, Eq)]
struct JoinToken(String);

impl fmt::Debug for JoinToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JoinToken")
    }
}

impl JoinToken {
    /// `K10HASH::USER:PASSWORD` or the password (k3s `pkg/clientaccess/token.go`); `None` for a bootstrap token, `ID.SECRET`,
    /// which only the cluster knows.
    fn read(text: &str) -> Option<Self> {
        let secret = match text
            .strip_prefix("K10")
            .and_then(|rest| rest.split_once("::"))
        {
            Some((_, user)) => user.split_once(':').map_or(user, |(_, password)| password),
            None => text,
        };
        let parts = secret
            .split_once('.')
            .map(|(id, secret)| (id.len(), secret.len()));
        (!secret.is_empty() && parts != Some((6, 16))).then(|| Self(secret.to_owned()))
    }
}

impl SharedValues {
    /// The values of these files, for a version if it is known; `None` without files.
    pub fn read(files: &[Rke2ConfigFile], version: Option<Version>) -> Option<Self> {
        let whole = Location::file(files.first()?.shown.clone());
        let keys = written(files);
        let text = |name: &str| {
            let value = keys.get(name)?.values.last()?;
            (!value.item.text.is_empty()).then(|| (value.item.text.clone(), value.item.at.clone()))
        };
        let first_address = list(keys.get("node-ip"), "");
        let is_ipv6 = first_address
            .split(',')
            .next()
            .is_some_and(|ip| ip.contains(':'));
        let network = |name: &str| {
            let row = DEFAULT_NETWORKS.iter().find(|row| row.0 == name);
            let default = row.map_or("", |row| if is_ipv6 { row.2 } else { row.1 });
            networks(&list(keys.get(name), default))
        };
        let critical = CRITICAL.into_iter().filter_map(|(name, default)| {
            let at = || {
                keys.get(name)
                    .and_then(|key| key.at.clone())
                    .unwrap_or(whole.clone())
            };
            let value = match name {
                "cluster-cidr" | "service-cidr" => network(name)?,
                "cluster-dns" => match list(keys.get(name), "") {
                    none if none.is_empty() => dns_addresses(&network("service-cidr")?)?,
                    addresses => addresses,
                },
                "disable-cloud-controller" => {
                    let minor = version.map(|version| version.minor.minor);
                    let has_any = ["cloud-provider-name", "cloud-provider-config"]
                        .iter()
                        .any(|name| text(name).is_some());
                    let named = text("cloud-provider-name");
                    let bundled = named.is_some_and(|(name, _)| WITH_CONTROLLER.contains(&&*name));
                    let replaced = match minor {
                        _ if bundled || !has_any => bundled,
                        Some(minor) => minor <= EVERY_PROVIDER_UNTIL,
                        // The version decides, so the nodes cannot be compared.
                        None => return None,
                    };
                    (replaced || is_true(keys.get(name))).to_string()
                }
                _ if default == "false" => is_true(keys.get(name)).to_string(),
                _ => text(name).map_or(default.to_owned(), |(text, _)| text),
            };
            Some((name, (value, at())))
        });
        let token =
            |name: &str| text(name).and_then(|(text, at)| Some((JoinToken::read(&text)?, at)));
        let charts = OF_CHARTS.into_iter().map(|(name, default)| {
            let key = keys.get(name);
            let written = list(key, default);
            let mut items: Vec<&str> = written.split(',').collect();
            items.sort_unstable();
            let value = match default {
                "false" => is_true(key).to_string(),
                _ => items.join(","),
            };
            let at = key.and_then(|key| key.at.clone());
            (name, (value, at.unwrap_or(whole.clone())))
        });
        let addresses = keys.get("node-ip").map_or(&[][..], |key| &key.values);
        let addresses = words(addresses).map(|(word, at)| (word.trim().to_owned(), at.clone()));
        let server = text("server").map(|(text, at)| {
            let rest = text.split_once("://").map_or(&*text, |(_, rest)| rest);
            let authority = rest.split('/').next().unwrap_or_default();
            let host = host_and_port(authority).0.trim_matches(['[', ']']);
            (host.to_owned(), at)
        });
        let charts = charts.collect();
        Some(Self {
            place: whole.clone(),
            has_datastore: text("datastore-endpoint").is_some(),
            charts,
            name: text("node-name").filter(|_| !is_true(keys.get("with-node-id"))),
            addresses: addresses.collect(),
            server,
            critical: critical.collect(),
            joins: text("server").is_some(),
            is_of_a_server: keys.keys().any(|name| is_of_servers(name)),
            token: token("token"),
            agent_token: token("agent-token").map(|(token, _)| token),
            has_token_file: text("token-file").or(text("agent-token-file")).is_some(),
        })
    }

    /// The critical keys in which two servers differ, with both places.
    pub fn differing<'s>(
        &'s self,
        other: &'s Self,
    ) -> Vec<(&'static str, &'s Location, &'s Location)> {
        let own = self.critical.iter();
        let pairs = own.filter_map(|(name, own)| Some((*name, own, other.critical.get(name)?)));
        let differing = pairs.filter(|(_, own, other)| own.0 != other.0);
        differing
            .map(|(name, own, other)| (name, &own.1, &other.1))
            .collect()
    }

    /// The keys of charts in which two servers differ, with both places.
    pub fn other_charts<'s>(
        &'s self,
        other: &'s Self,
    ) -> Vec<(&'static str, &'s Location, &'s Location)> {
        let own = self.charts.iter();
        let pairs = own.filter_map(|(name, own)| Some((*name, own, other.charts.get(name)?)));
        let differing = pairs.filter(|(_, own, other)| own.0 != other.0);
        differing
            .map(|(name, own, other)| (name, &own.1, &other.1))
            .collect()
    }

    /// The key of which two nodes have the same value although each needs its own, with both places.
    pub fn same_identity<'s>(
        &'s self,
        other: &'s Self,
    ) -> Option<(&'static str, &'s Location, &'s Location)> {
        if let (Some((own, at)), Some((theirs, their_at))) = (&self.name, &other.name)
            && own == theirs
        {
            return Some(("node-name", at, their_at));
        }
        self.addresses.iter().find_map(|(own, at)| {
            let mut theirs = other.addresses.iter();
            let (_, their_at) = theirs.find(|(address, _)| address == own)?;
            Some(("node-ip", at, their_at))
        })
    }

    /// The place of `server`, if it names this node itself.
    pub fn joins_itself(&self) -> Option<&Location> {
        let (host, at) = self.server.as_ref()?;
        let is_own = self.addresses.iter().any(|(address, _)| address == host)
            || self.name.as_ref().is_some_and(|(name, _)| name == host);
        is_own.then_some(at)
    }

    /// The places of this server's networks and of the other node's addresses, if the addresses do not have each IP version of the
    /// networks: the node ends (k3s `pkg/agent/run.go`).
    pub fn addresses_lack<'s>(&'s self, other: &'s Self) -> Option<(&'s Location, &'s Location)> {
        let (networks, at) = self.critical.get("cluster-cidr")?;
        let (_, their_at) = other.addresses.first()?;
        let has = |is_ipv6: bool| {
            let mut addresses = other.addresses.iter();
            addresses.any(|(address, _)| address.contains(':') == is_ipv6)
        };
        let lacks = networks
            .split(',')
            .any(|network| !has(network.contains(':')));
        lacks.then_some((at, their_at))
    }

    /// Whether it joins with the token that this server has for agents.
    pub fn is_agent_by_token(&self, other: &Self) -> bool {
        let theirs = other.token.as_ref().map(|(token, _)| token);
        let own = self.token.as_ref().map(|(token, _)| token);
        theirs.is_some() && theirs == self.agent_token.as_ref() && theirs != own
    }

    /// Where the first file begins.
    pub fn place(&self) -> &Location {
        &self.place
    }

    /// The place of both tokens, if this server does not accept that of the other node.
    pub fn refuses<'s>(
        &'s self,
        other: &'s Self,
        is_agent: bool,
    ) -> Option<(&'s Location, &'s Location)> {
        let ((own, at), (theirs, their_at)) = (self.token.as_ref()?, other.token.as_ref()?);
        let is_accepted = own == theirs || (is_agent && self.agent_token.as_ref() == Some(theirs));
        let is_unknown = self.has_token_file || other.has_token_file;
        (!is_accepted && !is_unknown).then_some((at, their_at))
    }
}

fn list(key: Option<&WrittenKey>, default: &str) -> String {
    let items = key.map_or(&[][..], |key| &key.values).iter();
    let items: Vec<&str> = items
        .flat_map(|value| value.item.text.split(','))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    if items.is_empty() {
        default.to_owned()
    } else {
        items.join(",")
    }
}

/// Networks without the bits of a host, because k3s compares only these; `None` if one is not a network.
fn networks(text: &str) -> Option<String> {
    let all: Option<Vec<String>> = text
        .split(',')
        .map(|network| Some(Network::parse(network)?.first()))
        .collect();
    Some(all?.join(","))
}

/// `cluster-dns` without a key: the tenth address of each network of Services (k3s `pkg/cli/server/server.go`).
fn dns_addresses(networks: &str) -> Option<String> {
    let all: Option<Vec<String>> = networks
        .split(',')
        .map(|network| Some(Network::parse(network)?.address_at(10)?.to_string()))
        .collect();
    Some(all?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rke2::config::ConfigLayer;

    fn read(text: &str) -> SharedValues {
        read_for(text, "v1.36.1")
    }

    fn read_for(text: &str, version: &str) -> SharedValues {
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
        SharedValues::read(&[file], Some(version.parse().unwrap())).unwrap()
    }

    #[test]
    fn a_cloud_provider_replaces_rke2s_controller_up_to_1_35() {
        let (named, off) = (
            "cloud-provider-name: external\n",
            "disable-cloud-controller: true\n",
        );
        let differs = |first: &str, second: &str, version: &str| {
            let (first, second) = (read_for(first, version), read_for(second, version));
            !first.differing(&second).is_empty()
        };
        for (version, follows) in [("v1.33.5", true), ("v1.35.7", true), ("v1.36.0", false)] {
            assert_eq!(differs(named, off, version), !follows, "{version}");
            assert_eq!(differs(named, "", version), follows, "{version}");
        }
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", named);
        let unknown = SharedValues::read(&[file], None).unwrap();
        assert_eq!(unknown.differing(&read(off)), []);
    }

    #[test]
    fn the_defaults_of_networks_follow_the_first_address() {
        let written = "node-ip: fd00::1\ncluster-cidr: 'fd00:42::/56'\nservice-cidr: 'fd00:43::/112'\n\
                       cluster-dns: 'fd00:43::a'\n";
        assert_eq!(differing("node-ip: fd00::1\n", written), [""; 0]);
        assert_eq!(differing("", "cluster-dns: 10.43.0.10\n"), [""; 0]);
        assert_eq!(
            differing(
                "service-cidr: 10.96.0.0/16\n",
                "service-cidr: 10.96.0.0/16\ncluster-dns: 10.96.0.10\n"
            ),
            [""; 0]
        );
    }

    fn differing(first: &str, second: &str) -> Vec<&'static str> {
        let (first, second) = (read(first), read(second));
        let found = first.differing(&second);
        found.into_iter().map(|(name, _, _)| name).collect()
    }

    #[test]
    fn critical_values_of_servers_are_compared_with_their_defaults() {
        for (first, second) in [
            (
                "",
                "cluster-cidr: 10.42.0.0/16\nservice-cidr: 10.43.7.1/16\n",
            ),
            (
                "cluster-cidr: [10.1.0.0/16, 'fd00::/56']\n",
                "cluster-cidr: 10.1.0.0/16,fd00::/56\n",
            ),
            (
                "cluster-domain: cluster.local\nembedded-registry: no\n",
                "egress-selector-mode: agent\n",
            ),
            (
                "cloud-provider-name: harvester\n",
                "disable-cloud-controller: true\n",
            ),
            ("tls-san: [a]\nnode-label: [a=b]\n", "cni: cilium\n"),
            ("cluster-cidr: unreadable\n", "cluster-cidr: 10.1.0.0/16\n"),
        ] {
            assert_eq!(
                differing(first, second),
                Vec::<&str>::new(),
                "{first} {second}"
            );
        }
        for (second, expected) in [
            ("cluster-cidr: 10.60.0.0/16\n", "cluster-cidr"),
            ("service-cidr: 10.43.0.0/17\n", "service-cidr"),
            ("cluster-dns: 10.43.0.11\n", "cluster-dns"),
            ("cluster-domain: site.example\n", "cluster-domain"),
            (
                "disable-cloud-controller: true\n",
                "disable-cloud-controller",
            ),
            ("embedded-registry: true\n", "embedded-registry"),
            ("egress-selector-mode: disabled\n", "egress-selector-mode"),
        ] {
            assert_eq!(differing("token: a\n", second), [expected], "{second}");
        }
        assert_eq!(SharedValues::read(&[], None), None);
    }

    #[test]
    fn a_node_joins_only_with_a_token_of_the_server() {
        let refuses = |server: &str, node: &str, is_agent: bool| {
            read(server).refuses(&read(node), is_agent).is_some()
        };
        let server = "token: secret-1\nagent-token: secret-2\n";
        assert!(refuses(server, "token: other\n", true));
        assert!(refuses(server, "token: secret-2\n", false));
        for (node, is_agent) in [
            ("token: secret-1\n", false),
            ("token: secret-2\n", true),
            ("token: K10abc::server:secret-1\n", false),
            ("token: abcdef.0123456789abcdef\n", true),
            ("token: other\ntoken-file: /run/token\n", false),
            ("server: https://a:9345\n", false),
        ] {
            assert!(!refuses(server, node, is_agent), "{node}");
        }
        assert!(!format!("{:?}", read(server)).contains("secret-"));
    }
}
