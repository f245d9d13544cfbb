//! Checks whether several nodes fit into one cluster of plain RKE2: every server has the critical values of the first one, and
//! every node has a token that it accepts.

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_plan::rke2::{Rke2Role, SharedValues};

/// A node with the values of its configuration.
pub struct Rke2Node<'n> {
    pub name: &'n str,
    pub role: Rke2Role,
    /// Whether the configuration shows it.
    pub is_role_known: bool,
    pub values: &'n SharedValues,
}

/// The differences for which a node does not join the cluster.
pub fn rke2_conflicts(nodes: &[Rke2Node<'_>]) -> Vec<Finding> {
    let servers = || nodes.iter().filter(|node| node.role == Rke2Role::Server);
    let first = servers()
        .find(|node| !node.values.joins)
        .or_else(|| servers().next());
    let Some(first) = first else {
        return Vec::new();
    };
    let mut found = identities(nodes);
    for node in nodes.iter().filter(|node| node.name != first.name) {
        let is_agent = node.role == Rke2Role::Agent
            || (!node.is_role_known && first.values.is_agent_by_token(node.values));
        let names = format!("{} and {}", first.name, node.name);
        if let Some((own, theirs)) = first.values.refuses(node.values, is_agent) {
            let why =
                "their `token` differs, and a node joins only with the token of the first server";
            found.push(disagree(&names, why, own, theirs));
        }
        if let Some((own, theirs)) = first.values.addresses_lack(node.values) {
            let why = "`node-ip` of the second does not have each IP version of `cluster-cidr` of the first, and RKE2 ends there";
            found.push(disagree(&names, why, own, theirs));
        }
        if is_agent {
            continue;
        }
        let share_data = first.values.has_datastore && node.values.has_datastore;
        if !node.values.joins && !share_data {
            let why = "both have no `server`, and each begins a cluster of its own. Write the address of the first server into the others";
            found.push(disagree(
                &names,
                why,
                first.values.place(),
                node.values.place(),
            ));
            continue;
        }
        let differing = first.values.differing(node.values);
        // Without a key of servers, nothing shows whether it runs rke2-server or rke2-agent.
        if !node.is_role_known && !node.values.is_of_a_server {
            found.extend(if_a_server(&names, &differing));
            continue;
        }
        for (key, own, theirs) in differing {
            let why = format!(
                "their `{key}` differs, and RKE2 ends on a joining server with another value. Write the same on all servers"
            );
            found.push(disagree(&names, &why, own, theirs));
        }
        for (key, own, theirs) in first.values.other_charts(node.values) {
            let code = Code::Rke2ValueUnintended;
            let why = format!(
                "`{key}` of {names} differs, and each server installs RKE2's charts by its own. Write the same on all servers"
            );
            found.push(Finding {
                code,
                severity: code.severity(),
                message: code.say(&[("why", &why)]),
                ..disagree(&names, &why, own, theirs)
            });
        }
    }
    found
}

/// Nodes with the name or address of another one, and nodes that join themselves.
fn identities(nodes: &[Rke2Node<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        for other in &nodes[index + 1..] {
            if let Some((key, own, theirs)) = node.values.same_identity(other.values) {
                let names = format!("{} and {}", node.name, other.name);
                let why = format!("their `{key}` is the same, and each node needs its own");
                found.push(disagree(&names, &why, own, theirs));
            }
        }
        if let Some(at) = node.values.joins_itself() {
            let why = "its `server` is this node itself, so it never joins. Write the address of another server";
            let names = format!("{} and the cluster", node.name);
            found.push(disagree(&names, why, at, at));
        }
    }
    found
}

/// What keeps a node from joining if it is a server.
fn if_a_server(names: &str, differing: &[(&str, &Location, &Location)]) -> Option<Finding> {
    let (_, own, theirs) = differing.first()?;
    let keys: Vec<String> = differing
        .iter()
        .map(|(key, ..)| format!("`{key}`"))
        .collect();
    let keys = keys.join(" and ");
    let why = format!(
        "{names}: if it is a server, it has other values of {keys} than the first one, and RKE2 ends there. Write the same on all servers"
    );
    let code = Code::BootUnknown;
    Some(Finding {
        code,
        severity: code.severity(),
        message: code.say(&[("how", &why)]),
        ..disagree(names, &why, own, theirs)
    })
}

fn disagree(names: &str, why: &str, own: &Location, theirs: &Location) -> Finding {
    let code = Code::NodesDisagree;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[("nodes", names), ("why", why)]),
        at: vec![own.clone(), theirs.clone()],
    }
}

#[cfg(test)]
mod tests {
    use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};

    use super::*;

    fn conflicts(nodes: &[(&str, Rke2Role, &str)]) -> Vec<(Code, Vec<String>)> {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(name, role, text)| {
                let file = Rke2ConfigFile::new(ConfigLayer::Main, *name, *text);
                (*name, *role, SharedValues::read(&[file], None).unwrap())
            })
            .collect();
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(name, role, values)| Rke2Node {
                name,
                role: *role,
                is_role_known: true,
                values,
            })
            .collect();
        let found = rke2_conflicts(&nodes).into_iter();
        found
            .map(|finding| {
                (
                    finding.code,
                    finding.at.iter().map(ToString::to_string).collect(),
                )
            })
            .collect()
    }

    #[test]
    fn each_node_needs_its_own_name_and_address_and_another_server() {
        let server = |text: &'static str| ("b", Rke2Role::Server, text);
        let first = (
            "a",
            Rke2Role::Server,
            "token: t\nnode-name: a\nnode-ip: 10.0.0.1\n",
        );
        for (text, places) in [
            (
                "server: https://10.0.0.1:9345\ntoken: t\nnode-name: a\n",
                ["a:2", "b:3"],
            ),
            (
                "server: https://vip.lab:9345\ntoken: t\nnode-ip: 10.0.0.1\n",
                ["a:3", "b:3"],
            ),
            (
                "server: https://10.0.0.2:9345\ntoken: t\nnode-ip: 10.0.0.2\n",
                ["b:1", "b:1"],
            ),
            ("token: t\nnode-ip: 10.0.0.2\n", ["a", "b"]),
        ] {
            let found = conflicts(&[first, server(text)]);
            assert_eq!(
                found,
                [(Code::NodesDisagree, places.map(str::to_owned).to_vec())],
                "{text}"
            );
        }
        let fits = "server: https://10.0.0.1:9345\ntoken: t\nnode-name: b\nnode-ip: 10.0.0.2\n";
        assert_eq!(conflicts(&[first, server(fits)]), []);
        let ids = "server: https://10.0.0.1:9345\ntoken: t\nnode-name: a\nwith-node-id: true\n";
        assert_eq!(conflicts(&[first, server(ids)]), []);
    }

    #[test]
    fn an_agent_has_an_address_of_each_ip_version_of_the_cluster() {
        let first = (
            "a",
            Rke2Role::Server,
            "token: t\ncluster-cidr: '10.42.0.0/16,fd00:42::/56'\n",
        );
        let agent = |address: &'static str| ("b", Rke2Role::Agent, address);
        let lacks = agent("server: https://a:9345\ntoken: t\nnode-ip: 10.0.0.5\n");
        let expected = ["a:2", "b:3"].map(str::to_owned).to_vec();
        assert_eq!(
            conflicts(&[first, lacks]),
            [(Code::NodesDisagree, expected)]
        );
        let has = agent("server: https://a:9345\ntoken: t\nnode-ip: '10.0.0.5,fd00::5'\n");
        assert_eq!(conflicts(&[first, has]), []);
        assert_eq!(
            conflicts(&[first, agent("server: https://a:9345\ntoken: t\n")]),
            []
        );
    }

    #[test]
    fn servers_that_install_other_charts_are_warned_of() {
        let other = "server: https://a:9345\ntoken: t\ncluster-cidr: 10.60.0.0/16\ncni: cilium\n";
        let found = conflicts(&[FIRST, ("b", Rke2Role::Server, other)]);
        assert_eq!(found.len(), 1, "{found:?}");
        let same = "server: https://a:9345\ntoken: t\ncluster-cidr: 10.60.0.0/16\ncni: [canal]\n";
        assert_eq!(conflicts(&[FIRST, ("b", Rke2Role::Server, same)]), []);
    }

    const FIRST: (&str, Rke2Role, &str) = (
        "a",
        Rke2Role::Server,
        "token: t\ncluster-cidr: 10.60.0.0/16\n",
    );

    #[test]
    fn a_server_with_other_critical_values_or_another_token_does_not_join() {
        let other = "server: https://a:9345\ntoken: u\n";
        let found = conflicts(&[("b", Rke2Role::Server, other), FIRST]);
        let expected = [["a:1", "b:2"], ["a:2", "b"]];
        let places: Vec<_> = found.iter().map(|(_, places)| places.clone()).collect();
        assert_eq!(
            places,
            expected.map(|pair| pair.map(str::to_owned).to_vec())
        );
        assert!(found.iter().all(|(code, _)| *code == Code::NodesDisagree));
    }

    #[test]
    fn a_node_that_may_be_an_agent_is_unknown_and_no_error() {
        let read = |name: &str, text: &str| {
            let file = Rke2ConfigFile::new(ConfigLayer::Main, name, text);
            SharedValues::read(&[file], None).unwrap()
        };
        let (first, second) = (
            read("a", FIRST.2),
            read("b", "server: https://a:9345\ntoken: t\n"),
        );
        let node = |name, values, is_role_known| Rke2Node {
            name,
            role: Rke2Role::Server,
            is_role_known,
            values,
        };
        let found = rke2_conflicts(&[node("a", &first, true), node("b", &second, false)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, Code::BootUnknown);
        let found = rke2_conflicts(&[node("a", &first, true), node("b", &second, true)]);
        assert_eq!(found[0].code, Code::NodesDisagree);
    }

    #[test]
    fn servers_with_equal_values_and_agents_with_a_token_fit() {
        let whole = "server: https://a:9345\ntoken: t\ncluster-cidr: 10.60.0.0/16\n";
        let agent = "server: https://a:9345\ntoken: t\n";
        let nodes = [
            FIRST,
            ("b", Rke2Role::Server, whole),
            ("c", Rke2Role::Agent, agent),
        ];
        assert_eq!(conflicts(&nodes), []);
        let other = ("d", Rke2Role::Agent, "server: https://a:9345\ntoken: u\n");
        assert_eq!(conflicts(&[FIRST, other]).len(), 1);
        assert_eq!(conflicts(&[other]), []);
    }
}
